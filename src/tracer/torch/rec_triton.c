/* rec_triton.c: kernels that the program wrote in Triton: a launch is one node, made by Triton's own launcher.
 *
 * kernel[grid](...) is a call of the kernel's method `run`, which rec_call.c asks this file about before it looks into it. Which
 * tensors a launch writes is read off the kernel's intermediate text (TTIR), which the compiled kernel that `run` gives has: a
 * pointer that a store or an atomic operation may get is one of a parameter's, and that parameter is written. Launches that write
 * several are rec_numpy_launch.c's. */
#include "base/torch.h"
#include "tracer/numpy/rec_np.h"
#include "tracer/record/rec_callables.h"
#include "tracer/record/rec_segment.h"

#define MOST_PARAMETERS 64
typedef uint64_t Mask; /* a bit for each parameter of the text */

/* ---- the text */

#define MOST_BLOCKS 64
#define MOST_READINGS 100

typedef struct Text {
    PyObject *masks;                /* dict: name → the parameters in whose memory it may be a pointer, where the reading is */
    PyObject *carried;              /* dict: a line that opens a block → what its block gives back to it */
    const char *heads[MOST_BLOCKS]; /* of each block that is open: the line that opened it */
    Mask written;
    int depth, nparameters; /* nparameters < 0: no function was seen yet */
    bool changed, unknown;  /* changed: a block gives more back than was known */
} Text;

static bool in_name(char c) { return Py_ISALNUM(c) || c == '_' || c == '$' || c == '.' || c == '-'; }

/* The next name (%x) from *at to the end of the line; *at is then behind it. NULL: the line has no more. */
static const char *next_name(const char **at) {
    const char *name = strpbrk(*at, "%\n");
    if (name == NULL || *name == '\n') {
        return NULL;
    }
    *at = name + 1;
    while (in_name(**at)) {
        ++*at;
    }
    return name;
}

static Mask look_up(Text *t, PyObject *dict, PyObject *key) {
    PyObject *mask = key == NULL ? NULL : PyDict_GetItemWithError(dict, key);
    Mask found = mask == NULL ? 0 : PyLong_AsUnsignedLongLong(mask);
    t->unknown |= key == NULL || PyErr_Occurred() != NULL;
    return found;
}

static void put(Text *t, PyObject *dict, PyObject *key, Mask mask) {
    PyObject *value = PyLong_FromUnsignedLongLong(mask);
    t->unknown |= key == NULL || value == NULL || PyDict_SetItem(dict, key, value) < 0;
    Py_XDECREF(value);
}

static Mask mask_of(Text *t, const char *name, const char *end) {
    PyObject *key = PyUnicode_FromStringAndSize(name, end - name);
    Mask mask = look_up(t, t->masks, key);
    Py_XDECREF(key);
    return mask;
}

/* A name means something else in another block. */
static void define(Text *t, const char *name, const char *end, Mask mask) {
    PyObject *key = PyUnicode_FromStringAndSize(name, end - name);
    put(t, t->masks, key, mask);
    Py_XDECREF(key);
}

static Mask carried_by(Text *t, const char *head) {
    PyObject *key = PyLong_FromVoidPtr((void *)head);
    Mask mask = look_up(t, t->carried, key);
    Py_XDECREF(key);
    return mask;
}

/* "  tt.func public @add(%x_ptr: !tt.ptr<f32> …, %n: i32 …)": the parameters, in order. */
static void read_parameters(Text *t, const char *line) {
    const char *at = strchr(line, '(');
    t->nparameters = 0;
    for (const char *name; at != NULL && (name = next_name(&at)) != NULL; t->nparameters++) {
        bool pointer = strncmp(at, ": !tt.ptr<", 10) == 0, other = !pointer && strncmp(at, ": !tt", 5) == 0;
        t->unknown |= other || t->nparameters == MOST_PARAMETERS; /* the descriptor of a tensor, as the host made it */
        if (t->unknown) {
            return;
        }
        define(t, name, at, pointer ? (Mask)1 << t->nparameters : 0);
    }
}

static bool is_defined_here(const char *behind) { return strncmp(behind, " = ", 3) == 0; }

/* Of the names that a line takes, from `at` on; iter_args(%p = %q) takes %q. */
static Mask operands(Text *t, const char *at) {
    Mask all = 0;
    for (const char *name; (name = next_name(&at)) != NULL;) {
        all |= is_defined_here(at) ? 0 : mask_of(t, name, at);
    }
    return all;
}

static bool begins(const char *at, const char *word) { return strncmp(at, word, strlen(word)) == 0; }

static bool has(const char *at, const char *end, const char *word) {
    const char *found = strstr(at, word);
    return found != NULL && found < end;
}

static bool opens_block(const char *line, const char *end) {
    while (end > line && Py_ISSPACE(end[-1])) {
        end--;
    }
    return end > line && end[-1] == '{';
}

static void open_block(Text *t, const char *head) {
    t->unknown |= t->depth + 1 >= MOST_BLOCKS;
    t->depth += t->unknown ? 0 : 1;
    t->heads[t->depth] = head;
}

/* The pointer of an operation that takes something else besides. */
static Mask first_operand(Text *t, const char *at) {
    const char *name = next_name(&at);
    return name == NULL ? 0 : mask_of(t, name, at);
}

/* The operation's name: behind " = " where it has results. */
static const char *operation_of(const char *line, const char *end) {
    const char *equals = *line == '%' ? strstr(line, " = ") : NULL;
    return equals != NULL && equals < end ? equals + 3 : line;
}

/* What goes round a loop, or comes out of a branch, may be whatever the operation takes and its blocks give back. */
static Mask mask_of_block(Text *t, const char *head) {
    const char *op = head == NULL ? NULL : operation_of(head, head + strcspn(head, "\n"));
    return op == NULL ? 0 : operands(t, op) | carried_by(t, head);
}

static void give_back(Text *t, Mask mask) {
    const char *head = t->heads[t->depth];
    Mask old = head == NULL ? mask : carried_by(t, head);
    if ((old | mask) != old) {
        PyObject *key = PyLong_FromVoidPtr((void *)head);
        put(t, t->carried, key, old | mask);
        Py_XDECREF(key);
        t->changed = true;
    }
}

/* Results, and what a loop calls that which goes round. */
static void define_all(Text *t, const char *line, const char *op, Mask mask) {
    for (const char *at = line, *name; (name = next_name(&at)) != NULL;) {
        if (name < op || is_defined_here(at)) {
            define(t, name, at, mask);
        }
    }
}

/* What the line does with pointers. */
static void read_operation(Text *t, const char *line, const char *end) {
    const char *op = operation_of(line, end), *rest = op + strcspn(op, " \n(");
    bool loads = begins(op, "tt.load"); /* what is loaded is no pointer */
    Mask mask = operands(t, rest);
    if (has(op, rest, "store") || has(op, rest, "atomic") || has(op, rest, "scatter")) {
        t->written |= first_operand(t, rest);
        loads = true;
    } else if (begins(op, "scf.yield") || begins(op, "scf.condition")) {
        give_back(t, mask);
    } else if (begins(op, "tt.call") || begins(op, "cf.") || has(op, rest, "descriptor") || has(op, rest, "asm")) {
        t->unknown |= mask != 0;
    }
    mask = begins(op, "tt.addptr") ? first_operand(t, rest) : mask; /* the other one says how far */
    mask |= begins(op, "scf.") ? carried_by(t, line) : 0;
    define_all(t, line, op, loads ? 0 : mask);
    if (opens_block(line, end)) {
        open_block(t, line);
    }
}

static void read_line(Text *t, const char *line, const char *end) {
    line += strspn(line, " \t");
    const char *head = t->heads[t->depth];
    if (begins(line, "tt.func")) {
        t->unknown |= !begins(line, "tt.func public"); /* one that isn't inlined */
        read_parameters(t, line);
        open_block(t, NULL);
    } else if (*line == '}') {
        t->depth -= t->depth > 0;
        if (opens_block(line, end)) { /* the other branch */
            open_block(t, head);
        }
    } else if (*line == '^') { /* parameters of a block */
        define_all(t, line, end, mask_of_block(t, head));
    } else if (*line != '#') {
        read_operation(t, line, end);
    }
}

static void read_once(Text *t, const char *text) {
    t->changed = false;
    t->depth = 0;
    t->heads[0] = NULL;
    while (*text != 0 && !t->unknown) {
        const char *end = text + strcspn(text, "\n");
        if (strstr(text, "module {") != text) {
            read_line(t, text, end);
        }
        text = end + (*end == '\n');
    }
}

/* Which parameters of the text are written; -1: that isn't known. */
static int read_text(const char *text, Mask *written, int *nparameters) {
    Text t = {.masks = PyDict_New(), .carried = PyDict_New(), .nparameters = -1, .changed = true};
    bool room = t.masks != NULL && t.carried != NULL;
    for (int i = 0; room && t.changed && !t.unknown; i++) {
        read_once(&t, text);
        t.unknown |= i == MOST_READINGS;
    }
    bool known = room && !t.unknown && t.nparameters >= 0;
    Py_XDECREF(t.masks);
    Py_XDECREF(t.carried);
    PyErr_Clear();
    *written = t.written;
    *nparameters = t.nparameters;
    return known ? 0 : -1;
}

static PyObject *parameters_written(PyObject *module, PyObject *text) {
    Mask written;
    int n;
    (void)module;
    const char *utf8 = PyUnicode_AsUTF8(text);
    if (utf8 == NULL) {
        return NULL;
    }
    return read_text(utf8, &written, &n) < 0 ? Py_NewRef(Py_None) : Py_BuildValue("(Ki)", written, n);
}

static PyMethodDef methods[] = {
    {"_triton_written", parameters_written, METH_O,
     "Which parameters TTIR's function writes, as bits, and how many it has; None: that isn't known (tests)."},
    {NULL, NULL, 0, NULL}};

int rec_triton_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }

/* ---- the kernel */

static bool is_kernel(PyObject *o) {
    static PyObject *interface; /* triton.runtime.jit.KernelInterface */
    if (interface == NULL) {
        PyObject *modules = PyImport_GetModuleDict(), *jit = PyDict_GetItemString(modules, "triton.runtime.jit");
        interface = jit == NULL ? NULL : PyObject_GetAttrString(jit, "KernelInterface");
        PyErr_Clear();
    }
    return interface != NULL && PyType_Check(interface) && PyType_IsSubtype(Py_TYPE(o), (PyTypeObject *)interface);
}

/* An attribute, new; NULL without an exception: it has none. */
static PyObject *part(PyObject *o, const char *name) {
    PyObject *value = o == NULL ? NULL : PyObject_GetAttrString(o, name);
    PyErr_Clear();
    return value;
}

static bool is_empty(PyObject *o, const char *name) {
    PyObject *list = part(o, name);
    bool empty = list == NULL || list == Py_None || PyObject_Size(list) == 0;
    PyErr_Clear();
    Py_XDECREF(list);
    return empty;
}

static bool has_config_hook(PyObject *kernel) {
    PyObject *configs = part(kernel, "configs");
    bool has = false;
    for (Py_ssize_t i = 0; configs != NULL && PyList_Check(configs) && i < PyList_GET_SIZE(configs); i++) {
        PyObject *hook = part(PyList_GET_ITEM(configs, i), "pre_hook");
        has |= hook != NULL && hook != Py_None;
        Py_XDECREF(hook);
    }
    Py_XDECREF(configs);
    return has;
}

/* Functions of the program's that run in front of a launch may do anything. An autotuner and what chooses its numbers by
 * heuristics have the kernel inside. */
static bool has_hooks(PyObject *kernel) {
    PyObject *k = Py_NewRef(kernel);
    bool has = false;
    for (int i = 0; i < 8 && k != NULL && is_kernel(k); i++) {
        has |=
            !is_empty(k, "pre_run_hooks") || !is_empty(k, "reset_to_zero") || !is_empty(k, "restore_value") || has_config_hook(k);
        Py_SETREF(k, part(k, "fn"));
    }
    Py_XDECREF(k);
    return has;
}

/* The arguments that the launch has written, by their numbers in the call. -1: that isn't known. */
static int arguments_written(PyObject *compiled, const RecCall *c, int *written) {
    PyObject *texts = part(compiled, "asm"), *source = part(compiled, "src"), *signature = part(source, "signature");
    PyObject *text = texts == NULL ? NULL : PyMapping_GetItemString(texts, "ttir");
    PyObject *name, *type;
    Py_ssize_t at = 0;
    Mask mask = 0;
    int n = 0, nparameters = 0, i = 0, argument = 1;
    PyErr_Clear();
    bool known = text != NULL && PyUnicode_Check(text) && signature != NULL && PyDict_Check(signature) &&
                 read_text(PyUnicode_AsUTF8(text), &mask, &nparameters) == 0;
    while (known && PyDict_Next(signature, &at, &name, &type)) {
        bool constant = PyUnicode_Check(type) && PyUnicode_CompareWithASCIIString(type, "constexpr") == 0;
        bool writes = !constant && i < nparameters && mask >> i & 1;
        known = !writes || argument < (int)c->npos;
        if (writes && known) {
            written[n++] = argument;
        }
        i += !constant;
        argument++;
    }
    known = known && i == nparameters;
    Py_XDECREF(texts);
    Py_XDECREF(source);
    Py_XDECREF(signature);
    Py_XDECREF(text);
    return known ? n : -1;
}

/* ---- the call */

static DynVal *launch_node(DynRec *r, const RecCall *c, const char *name, const int *written, int n, PyObject *result) {
    DynOperand others[MOST_PARAMETERS];
    for (int i = 1; i < n; i++) {
        others[i - 1] = c->args[written[i]];
    }
    PyObject *run = PyMethod_New(c->callable.real, c->args[0].real);
    NpLaunch launch = {.callable = run,
                       .name = name,
                       .args = c->args + 1,
                       .npos = (int)c->npos - 1,
                       .kwnames = c->nkw ? c->kwnames : NULL,
                       .result = result,
                       .writes = n > 0 ? written[0] - 1 : -1,
                       .others = others,
                       .nothers = n > 1 ? n - 1 : 0};
    DynVal *v = run == NULL ? NULL : dyn_np_launch(r, &launch);
    Py_XDECREF(run);
    return v;
}

/* The kernel is this one at every call; it goes on being an object, as the program may subscript it again. */
static bool is_same(DynRec *r, DynVal *v, PyObject *kernel) {
    bool object = v->kind == DV_OBJECT && v->source != DYN_NONE;
    return v->kind == DV_CONST ||
           (object && rec_guard(r, DYN_GUARD_ID, v->source, DYN_NONE, 0, kernel) == 0 && rec_keep(r, kernel) == 0);
}

static bool is_launch(const RecCall *c) {
    bool may = PyFunction_Check(c->callable.real) && c->npos > 0 && dyn_torch_tensor != NULL && is_kernel(c->args[0].real);
    return may && dyn_cpy_lookup_named(Py_TYPE(c->args[0].real), "run") == c->callable.real;
}

DynVal *rec_call_triton(DynRec *r, const RecCall *c, PyObject **result) {
    if (!is_launch(c) || has_hooks(c->args[0].real)) {
        return REC_DECLINED;
    }
    int written[MOST_PARAMETERS];
    PyObject *kernel = c->args[0].real;
    bool known = r->effects.n == 0 && r->torch >= 0 && rec_torch_guard(r) == 0 && is_same(r, c->args[0].v, kernel) &&
                 rec_guard_id(r, c->callable.v, c->callable.real) == 0 && rec_resolve_args(r, c) == 0;
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    PyObject *named = part(kernel, "__name__");
    const char *utf8 = named != NULL && PyUnicode_Check(named) ? PyUnicode_AsUTF8(named) : NULL;
    const char *name = dyn_arena_strdup(&r->arena, utf8 == NULL ? "kernel" : utf8);
    int n = known && name != NULL ? arguments_written(*result, c, written) : -1;
    DynVal *v = n < 0 ? NULL : launch_node(r, c, name, written, n, *result);
    Py_XDECREF(named);
    PyErr_Clear();
    return v != NULL ? v : rec_fail(r, n < 0 ? DYN_R_OPAQUE_CALL : r->why, "a Triton kernel whose effects aren't known");
}
