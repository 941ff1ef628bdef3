/* looks.c: is a function whose loop takes long one that works on numbers? Asked by loop_watch.c and finder.c in the midst of its
 * loop, and by loops.c of a call that is to begin, before anything is started or recorded for it, so it has to cost next to
 * nothing: a few values of each variable, list and attribute are looked at, by their types. With the GIL; no Python code runs,
 * nothing is owned. NumPy need not be there. */
#include "evalframe/looks.h"
#include "base/cpy_region.h"
#include "ir/region_strings.h"
#include "tracer/bytecode/asm_loops.h"
#include "tracer/bytecode/decode.h"
#include <opcode.h>

#define DEPTH 5 /* so deep in lists, tuples and functions is looked, */
#define ITEMS 4 /* at so many items of each */
#define NAMES 32
#define COMPILE_NS 40000000    /* that a compiler takes for any loop, … */
#define INSTRUCTION_NS 1000000 /* … for each of its instructions, … */
#define COSTLY_NS 7000000      /* … and for some: for the loops of docs/lab/loops.md it took .03 to .25 s */
#define LITTLE 5 /* It takes so many times as long to win that back where texts are made that CPython makes as fast. */
#define MOST 400 /* objects that are looked at in all: a function that comes to more isn't one of numbers */

typedef struct Look {
    int depth, *left;   /* how many more may be looked at */
    bool in_instance;   /* it is an attribute's value, or part of it */
    PyCodeObject *code; /* whose names are those of attributes that are looked at */
} Look;

static DynLooks look_at(PyObject *o, Look how);

static DynLooks worse(DynLooks a, DynLooks b) { return a > b ? a : b; }

static DynLooks look_at_items(PyObject *const *at, Py_ssize_t n, Look how) {
    DynLooks looks = DYN_LOOKS_LIKE_NUMBERS;
    for (Py_ssize_t i = 0; i < n && i < ITEMS && looks < DYN_LOOKS_LIKE_NOTHING; i++) {
        looks = worse(looks, look_at(at[i], how));
    }
    return looks;
}

static PyObject *global_of(PyObject *globals, PyObject *name) {
    PyObject *o = PyDict_CheckExact(globals) ? PyDict_GetItemWithError(globals, name) : NULL;
    PyErr_Clear();
    return o;
}

static bool is_in(const char *name, size_t n) {
    static const char *const modules[] = {"numpy", "torch", "cupy", "scipy"};
    bool is = false;
    for (size_t i = 0; i < DYN_COUNTOF(modules) && !is; i++) {
        is = strlen(modules[i]) == n && strncmp(modules[i], name, n) == 0;
    }
    return is;
}

/* A module that a function imports itself, so that no global stands for it. */
static bool is_of_arrays(PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    PyErr_Clear();
    return text != NULL && is_in(text, strlen(text));
}

static DynLooks look_at_globals(PyCodeObject *code, PyObject *globals, Look how) {
    DynLooks looks = DYN_LOOKS_LIKE_NUMBERS;
    Py_ssize_t n = PyTuple_GET_SIZE(code->co_names);
    for (Py_ssize_t i = 0; i < n && i < NAMES && looks < DYN_LOOKS_LIKE_NOTHING; i++) {
        PyObject *name = PyTuple_GET_ITEM(code->co_names, i), *value = global_of(globals, name);
        looks = worse(looks, value == NULL && is_of_arrays(name) ? DYN_LOOKS_LIKE_NOTHING : look_at(value, how));
    }
    return looks;
}

static DynLooks look_at_function(PyObject *function, Look how) {
    PyObject *closure = PyFunction_GET_CLOSURE(function);
    how.code = (PyCodeObject *)PyFunction_GET_CODE(function);
    DynLooks looks = look_at_globals(how.code, PyFunction_GET_GLOBALS(function), how);
    for (Py_ssize_t i = 0; closure != NULL && i < PyTuple_GET_SIZE(closure); i++) {
        looks = worse(looks, look_at(PyCell_GET(PyTuple_GET_ITEM(closure, i)), how));
    }
    return looks;
}

/* The attributes and methods that the code has names for; and for each method those that it has names for. */
static DynLooks look_at_instance(PyObject *o, Look how) {
    DynLooks looks = how.in_instance ? DYN_LOOKS_LIKE_OBJECTS : DYN_LOOKS_LIKE_NUMBERS;
    PyObject *names = how.code->co_names;
    how.in_instance = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names) && i < NAMES && looks < DYN_LOOKS_LIKE_NOTHING; i++) {
        PyObject *value = dyn_cpy_own_attribute(o, PyTuple_GET_ITEM(names, i));
        PyObject *method = value == NULL ? dyn_cpy_method_of(o, PyTuple_GET_ITEM(names, i)) : NULL;
        if (method != NULL && PyFunction_GET_CODE(method) != (PyObject *)how.code) {
            Look within = {how.depth, how.left, false, (PyCodeObject *)PyFunction_GET_CODE(method)};
            looks = worse(looks, look_at(o, within));
        } else {
            looks = worse(looks, look_at(value, how));
        }
    }
    return looks;
}

/* Modules that native loops know functions and classes of, and that have nothing to do with arrays. */
static const char *const known_modules[] = {"math", "cmath", "random", "operator", "collections", "heapq"};

bool dyn_looks_at_known_module(PyObject *o) {
    const char *name = PyModule_CheckExact(o) ? PyModule_GetName(o) : NULL;
    bool known = false;
    PyErr_Clear();
    for (size_t i = 0; name != NULL && i < DYN_COUNTOF(known_modules) && !known; i++) {
        known = strcmp(name, known_modules[i]) == 0;
    }
    return known;
}

static bool is_number_or_text(PyObject *o) {
    return o == Py_None || PyLong_CheckExact(o) || PyBool_Check(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o) ||
           PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) || PyByteArray_CheckExact(o) || Py_IS_TYPE(o, &PyRange_Type);
}

static DynLooks look_at_container(PyObject *o, Look how) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    DynLooks looks = DYN_LOOKS_LIKE_OBJECTS;
    if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) {
        return look_at_items(PySequence_Fast_ITEMS(o), PySequence_Fast_GET_SIZE(o), how);
    }
    for (int i = 0; PyDict_CheckExact(o) && i < ITEMS && PyDict_Next(o, &at, &key, &value); i++) {
        looks = worse(looks, worse(look_at(key, how), look_at(value, how)));
    }
    return looks;
}

static DynLooks look_at(PyObject *o, Look how) {
    if (o == NULL || is_number_or_text(o) || PyType_Check(o) || PyCFunction_CheckExact(o)) {
        return DYN_LOOKS_LIKE_NUMBERS;
    }
    if (how.depth-- == 0 || --*how.left < 0) {
        return DYN_LOOKS_LIKE_OBJECTS;
    }
    if (PyList_CheckExact(o) || PyTuple_CheckExact(o) || PyDict_CheckExact(o) || PyAnySet_CheckExact(o)) {
        return look_at_container(o, how);
    }
    if (PyCell_Check(o)) {
        return look_at(PyCell_GET(o), how);
    }
    if (PyFunction_Check(o) && PyFunction_GET_CODE(o) == (PyObject *)how.code) { /* it calls itself */
        return DYN_LOOKS_LIKE_NUMBERS;
    }
    if (PyFunction_Check(o)) {
        return look_at_function(o, how);
    }
    uint32_t nkeys;
    bool instance = Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE && dyn_cpy_class_version(Py_TYPE(o), &nkeys) != 0;
    if (instance) {
        return look_at_instance(o, how);
    }
    return dyn_looks_at_known_module(o) ? DYN_LOOKS_LIKE_NUMBERS : DYN_LOOKS_LIKE_NOTHING;
}

/* What the names in the loop stand for in which a module's frame is. */
static DynLooks look_at_module(DynFrame *f, PyObject *namespace, Look how) {
    PyObject *names[NAMES];
    uint32_t n = dyn_code_loop_names(how.code, dyn_frame_position(f), names, NAMES);
    DynLooks looks = n == DYN_NONE ? DYN_LOOKS_LIKE_NOTHING : DYN_LOOKS_LIKE_NUMBERS;
    for (uint32_t i = 0; i < n && i < NAMES && looks < DYN_LOOKS_LIKE_NOTHING; i++) {
        looks = worse(looks, look_at(global_of(namespace, names[i]), how));
    }
    return looks;
}

/* ---- what each trip does */

/* The innermost loop around the place where the frame is: from its header to where it jumps back. */
static bool find_loop(const DynCode *c, uint32_t at, uint32_t *from, uint32_t *to) {
    bool found = false;
    for (uint32_t i = 0; i < c->v.n && !found; i++) {
        const DynInstr *in = &c->v.at[i];
        found = dyn_has_target(in) && in->target <= i && c->v.at[in->target].start <= at && at <= in->next;
        *from = in->target;
        *to = i;
    }
    return found;
}

static PyObject *global_or_builtin(DynFrame *f, PyObject *name) {
    PyObject *o = global_of(dyn_frame_globals(f), name);
    return o != NULL ? o : global_of(dyn_frame_builtins(f), name);
}

/* What the instruction loads, as far as that is known now. */
static PyObject *loaded_by(DynFrame *f, const DynInstr *in) {
    PyCodeObject *code = dyn_frame_code(f);
    switch (in->op) {
    case DYN_I_LOAD_CONST: return PyTuple_GET_ITEM(code->co_consts, in->arg);
    case DYN_I_LOAD_DEREF:
    case DYN_I_LOAD_FAST: return dyn_frame_has_number(f, in->arg) ? NULL : dyn_frame_get(f, in->arg);
    case DYN_I_LOAD_NAME:
    case DYN_I_LOAD_GLOBAL: return global_or_builtin(f, PyTuple_GET_ITEM(code->co_names, in->arg));
    default: return NULL;
    }
}

/* join() takes as long natively as in CPython, and what makes its list longer. */
static bool gains_as_method_of_str(PyObject *name) {
    bool known = false, joins = PyUnicode_CompareWithASCIIString(name, "join") == 0;
    for (int i = 0; i < DYN_STRING_COUNT && !known; i++) {
        const char *row = dyn_region_strings[i].name;
        known = row != NULL && PyUnicode_CompareWithASCIIString(name, row) == 0;
    }
    return known && !joins;
}

/* A builtin that does something outside of the loop. */
static bool goes_outside(PyObject *o) {
    static const char *const names[] = {"print", "input", "open", "exec", "eval", "compile", "__import__"};
    bool goes = false;
    for (size_t i = 0; i < DYN_COUNTOF(names) && PyCFunction_CheckExact(o) && !goes; i++) {
        goes = strcmp(((PyCFunctionObject *)o)->m_ml->ml_name, names[i]) == 0;
    }
    return goes;
}

bool dyn_looks_refused(DynFrame *f) {
    DynCode *c = dyn_decode(dyn_frame_code(f));
    uint32_t from = 0, to = 0;
    bool refused = false, straight = c != NULL && find_loop(c, dyn_frame_position(f), &from, &to);
    for (uint32_t i = from; straight && i <= to && !refused; i++) {
        const DynInstr *in = &c->v.at[i];
        PyObject *o = loaded_by(f, in), *self = i > from && in->op == DYN_I_LOAD_METHOD ? loaded_by(f, in - 1) : NULL;
        bool of_text = self != NULL && PyUnicode_CheckExact(self);
        refused =
            (o != NULL && goes_outside(o)) || (of_text && !gains_as_method_of_str(PyTuple_GET_ITEM(c->code->co_names, in->arg)));
        straight = i == from || !dyn_has_target(in) || in->target > to;
    }
    if (c != NULL) {
        dyn_decode_free(c);
    }
    PyErr_Clear();
    return refused;
}

/* A call stands at its instruction, or behind it, as versions have it. */
static bool stands_in(const DynCode *c, const bool *members, uint32_t at) {
    bool stands = false;
    for (uint32_t i = 0; i < c->v.n && !stands; i++) {
        stands = members[i] && c->v.at[i].start <= at && at <= c->v.at[i].next;
    }
    return stands;
}

/* The outermost loop around that place: its header, and which instructions are in it, a new array; NULL: there is none. Code of
 * one loop may lie between that of another. */
static bool *outermost_loop(const DynCode *c, uint32_t at, uint32_t *header) {
    bool *found = NULL;
    for (uint32_t i = 0; i < c->v.n; i++) {
        const DynInstr *in = &c->v.at[i];
        bool candidate = dyn_has_target(in) && in->target <= i && (found == NULL || in->target < *header);
        bool *members = candidate ? dyn_loop_members(c, c->v.at[in->target].start) : NULL;
        bool around = members != NULL && stands_in(c, members, at);
        PyMem_RawFree(around ? found : members);
        found = around ? members : found;
        *header = around ? in->target : *header;
    }
    return found;
}

/* What lies on the stack of a frame that runs, where its loop has its iterator. */
static PyObject *iterator_in(DynFrame *f, const DynCode *c, uint32_t loop) {
    int32_t *depths = dyn_decode_depths(c), iterator = (int32_t)dyn_iterator_slots();
    uint32_t slot = (uint32_t)dyn_code_nlocalsplus(c->code);
    bool there = depths != NULL && depths[loop] >= iterator;
    slot += there ? (uint32_t)(depths[loop] - iterator) : 0;
    PyMem_RawFree(depths);
    return there && !dyn_frame_has_number(f, slot) ? dyn_frame_get(f, slot) : NULL;
}

/* Only iterators whose ends run no code: a frame may be about to drop its own. */
static Py_ssize_t trips_left(PyObject *it) {
    bool tells = it != NULL &&
                 (Py_IS_TYPE(it, &PyRangeIter_Type) || Py_IS_TYPE(it, &PyListIter_Type) || Py_IS_TYPE(it, &PyTupleIter_Type));
    Py_ssize_t left = tells ? PyObject_LengthHint(it, -1) : -1;
    PyErr_Clear();
    return left;
}

/* Items of containers, attributes and calls become much code. */
static bool is_costly(DynOpcode op) {
    return op == DYN_I_BINARY_SUBSCR || op == DYN_I_STORE_SUBSCR || op == DYN_I_LOAD_ATTR || op == DYN_I_STORE_ATTR ||
           op == DYN_I_CALL;
}

/* Is the value at this height of the stack, in front of instruction i, a text that the code has as a constant? */
static bool is_const_text(const DynCode *c, const int32_t *depths, uint32_t i, int32_t height) {
    while (i > 0 && depths[i - 1] > height) {
        i--;
    }
    const DynInstr *made = i > 0 ? &c->v.at[i - 1] : NULL;
    return made != NULL && made->op == DYN_I_LOAD_CONST && PyUnicode_CheckExact(PyTuple_GET_ITEM(c->code->co_consts, made->arg));
}

/* By `%`: natively a fifth faster. (By f-strings it is half as fast again.) */
static bool makes_texts(const DynCode *c, const bool *members) {
    int32_t *depths = dyn_decode_depths(c);
    bool makes = false;
    for (uint32_t i = 0; depths != NULL && i < c->v.n && !makes; i++) {
        const DynInstr *in = &c->v.at[i];
        bool percent = in->op == DYN_I_BINARY_OP && in->sub == NB_REMAINDER;
        makes = members[i] && percent && is_const_text(c, depths, i, depths[i] - 2);
    }
    PyMem_RawFree(depths);
    return makes;
}

DynLoopAhead dyn_looks_ahead(DynFrame *f) {
    DynCode *c = dyn_decode(dyn_frame_code(f));
    uint32_t header;
    bool *members = c == NULL ? NULL : outermost_loop(c, dyn_frame_position(f), &header);
    DynLoopAhead ahead = {.left = -1, .cost_ns = COMPILE_NS};
    for (uint32_t i = 0; members != NULL && i < c->v.n; i++) {
        int64_t cost_ns = is_costly(c->v.at[i].op) ? COSTLY_NS : INSTRUCTION_NS;
        ahead.cost_ns += members[i] ? cost_ns : 0;
    }
    if (members != NULL && c->v.at[header].op == DYN_I_FOR_ITER) {
        ahead.over = iterator_in(f, c, header);
        ahead.left = trips_left(ahead.over);
        ahead.cost_ns *= makes_texts(c, members) ? LITTLE : 1;
    }
    PyMem_RawFree(members);
    if (c != NULL) {
        dyn_decode_free(c);
    }
    PyErr_Clear();
    return ahead;
}

/* What the outermost loop comes to in which the frame is. */
static DynLooks look_at_loop(DynFrame *f, Look how) {
    DynCode *c = dyn_decode(how.code);
    uint32_t header;
    bool *members = c == NULL ? NULL : outermost_loop(c, dyn_frame_position(f), &header);
    DynLooks looks = members != NULL ? DYN_LOOKS_LIKE_NUMBERS : DYN_LOOKS_LIKE_NOTHING;
    for (uint32_t i = 0; members != NULL && i < c->v.n && looks < DYN_LOOKS_LIKE_NOTHING; i++) {
        bool loads = members[i] && c->v.at[i].op != DYN_I_LOAD_CONST;
        looks = loads ? worse(looks, look_at(loaded_by(f, &c->v.at[i]), how)) : looks;
    }
    PyMem_RawFree(members);
    if (c != NULL) {
        dyn_decode_free(c);
    }
    PyErr_Clear();
    return looks;
}

/* A module of arrays, or something of a type that is out of one. */
static bool is_for_arrays(PyObject *o) {
    const char *module = o != NULL && PyModule_Check(o) ? PyModule_GetName(o) : NULL;
    bool is = module != NULL && is_in(module, strcspn(module, "."));
    for (const PyTypeObject *t = o == NULL ? NULL : Py_TYPE(o); t != NULL && !is; t = t->tp_base) {
        is = is_in(t->tp_name, strcspn(t->tp_name, "."));
    }
    PyErr_Clear();
    return is;
}

/* Does the function name or hold such a thing, in its loop or beside it? */
static bool has_arrays(DynFrame *f, PyCodeObject *code) {
    bool has = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names) && !has; i++) {
        PyObject *name = PyTuple_GET_ITEM(code->co_names, i), *value = global_of(dyn_frame_globals(f), name);
        has = value == NULL ? is_of_arrays(name) : is_for_arrays(value);
    }
    for (uint32_t i = 0; i < (uint32_t)dyn_code_nlocalsplus(code) && !has; i++) {
        PyObject *o = dyn_frame_has_number(f, i) ? NULL : dyn_frame_get(f, i);
        has = is_for_arrays(o != NULL && PyCell_Check(o) ? PyCell_GET(o) : o);
    }
    return has;
}

/* What a function has beside the loop that it is in matters where it is of arrays alone: graphs may be better for them. A program
 * takes its arguments, and the time, in the same function. */
DynLooks dyn_looks_of_frame(DynFrame *f) {
    int left = MOST;
    Look how = {DEPTH, &left, false, dyn_frame_code(f)};
    PyObject *namespace = dyn_frame_namespace(f);
    if (namespace != NULL) {
        return look_at_module(f, namespace, how);
    }
    DynLooks looks = look_at_globals(how.code, dyn_frame_globals(f), how);
    uint32_t n = (uint32_t)dyn_code_nlocalsplus(how.code);
    for (uint32_t i = 0; i < n && looks < DYN_LOOKS_LIKE_NOTHING; i++) {
        looks = worse(looks, dyn_frame_has_number(f, i) ? DYN_LOOKS_LIKE_NUMBERS : look_at(dyn_frame_get(f, i), how));
    }
    left = MOST;
    return looks < DYN_LOOKS_LIKE_NOTHING || has_arrays(f, how.code) ? looks : look_at_loop(f, how);
}

DynLooks dyn_looks_of_call(PyObject *function, PyObject *const *slots, size_t n) {
    int left = MOST;
    Look how = {DEPTH, &left, false, (PyCodeObject *)PyFunction_GET_CODE(function)};
    DynLooks looks = look_at_function(function, how);
    for (size_t i = 0; i < n && looks < DYN_LOOKS_LIKE_NOTHING; i++) {
        looks = worse(looks, look_at(slots[i], how));
    }
    return looks;
}
