/* flags.c: what np.errstate says of floating-point flags, and the warnings that dynoc gives itself.
 *
 * Called by run.c with the GIL. NumPy keeps the state in a context variable; what follows from its value is remembered here, with
 * references, until another value is met. */
#include "base/cpy.h"
#include "codegen/run/flags.h"
#include "ir/extern.h"

static const struct Flag {
    int bit;
    int npy;          /* as NumPy's NPY_FPE_* */
    char letter;      /* in ops.def's column */
    const char *name; /* in np.geterr() */
} flag_table[] = {{FE_DIVBYZERO, 1, 'd', "divide"},
                  {FE_OVERFLOW, 2, 'o', "over"},
                  {FE_UNDERFLOW, 4, 'u', "under"},
                  {FE_INVALID, 8, 'i', "invalid"}};

/* Is it arithmetic of NumPy's scalars, whose warnings say so? Functions that take a scalar are ufuncs like any other. */
static bool is_of_scalars(const DynNode *n) {
    switch ((int)n->op) {
    case DYN_OP_ADD:
    case DYN_OP_SUBTRACT:
    case DYN_OP_MULTIPLY:
    case DYN_OP_DIVIDE:
    case DYN_OP_FLOOR_DIVIDE:
    case DYN_OP_REMAINDER:
    case DYN_OP_POWER:
    case DYN_OP_SCALAR_POWER: return n->flags & DYN_NODE_NPSCALAR;
    default: return dyn_ops[n->op].flags & DYN_OPF_SCALAR;
    }
}

/* As NumPy's warnings call an operator. */
static void operator_name(const DynNode *n, char *name, size_t size) {
    const DynOpInfo *op = &dyn_ops[n->op];
    int which;
    bool at = n->op == DYN_OP_SCATTER; /* ufunc.at has loops of its own over one axis */
    DynOp of = at ? (DynOp)n->aux[0] : (DynOp)n->op;
    const char *function;
    if (op->kind == DYN_K_REDUCE) {
        function = "reduce";
    } else if (op->kind == DYN_K_SCAN) {
        function = "accumulate";
    } else if (at && n->ndim > 1) {
        function = "at";
    } else if (op->kind == DYN_K_COPY || (op->kind == DYN_K_STORE && !at)) {
        function = "cast";
    } else {
        function = dyn_op_function(of, &which);
    }
    snprintf(name, size, "%s%s", is_of_scalars(n) ? "scalar " : "", function);
}

/* A copy into elements of the same type converts nothing, and of integers into longer floats raises nothing: flags that are up
 * come from another operator, which doesn't tell them (the C library's vector functions leave some behind that NumPy's don't). */
static bool only_moves(const DynGraph *g, const DynNode *n) {
    bool moves = dyn_ops[n->op].kind == DYN_K_COPY || (dyn_ops[n->op].kind == DYN_K_STORE && n->op != DYN_OP_SCATTER);
    int value = dyn_node_stores(n);
    bool known = moves && value < n->nargs && n->args[value].kind == DYN_ARG_NODE;
    if (!known) {
        return false;
    }
    DynDtype from = dyn_graph_node(g, n->args[value].id)->dtype;
    return from == n->dtype || (strchr("bui", dyn_dtypes[from].kind) != NULL && n->dtype != DYN_F16);
}

static PyObject *give(PyObject *self, PyObject *args) {
    const char *name;
    int flag;
    if (!PyArg_ParseTuple(args, "si", &name, &flag) || PyUFunc_GiveFloatingpointErrors(name, flag) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef give_method = {"give", give, METH_VARARGS, NULL};

/* NumPy says that the node raised the flag, from the node's line. */
static int give_from(const DynGraph *g, const DynNode *n, int flag) {
    static PyObject *giver;
    char name[64];
    operator_name(n, name, sizeof(name));
    if (giver == NULL && (giver = PyCFunction_New(&give_method, NULL)) == NULL) {
        return -1;
    }
    PyObject *args = Py_BuildValue("(si)", name, flag), *result = NULL;
    if (args != NULL) {
        result = dyn_extern_call_from(dyn_graph_place_at(g, n->where), giver, args);
        Py_DECREF(args);
    }
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static bool can_raise(const DynGraph *g, const DynNode *n, char letter) {
    const DynComplexOp *z = dyn_dtypes[n->compute].kind == 'c' ? &dyn_complex_ops[n->op] : NULL;
    const char *can = z && z->fpe ? z->fpe : dyn_ops[n->op].fpe;
    bool replaces = (n->op == DYN_OP_SCATTER && n->aux[0] < 0) || only_moves(g, n);
    return strchr(can, letter) && *can && !replaces;
}

/* A sum, a difference or a product of finite numbers is never nan. */
static bool needs_infinities(const DynNode *n, char letter) {
    return letter == 'i' && (n->op == DYN_OP_ADD || n->op == DYN_OP_SUBTRACT || n->op == DYN_OP_MULTIPLY || n->op == DYN_OP_SUM);
}

/* How likely it is that the node has raised the flag, which it can: what ran first comes before what ran later. */
static uint64_t likelihood(const DynNode *n, uint32_t id, char letter, const DynFlagsRan *ran) {
    uint64_t order = ran->order[n->op], here = ran->from < id && id < ran->to;
    uint64_t early = order == 0 ? 0 : UINT32_MAX - order;
    return (uint64_t)(order > 0 && !needs_infinities(n, letter)) << 40 | early << 1 | here;
}

int dyn_flags_warn(const DynGraph *g, int flags, const DynFlagsRan *ran) {
    for (size_t f = 0; f < DYN_COUNTOF(flag_table); f++) {
        const DynNode *found = NULL;
        uint64_t best = 0;
        for (uint32_t i = 0; (flags & flag_table[f].bit) && i < g->nodes.n; i++) {
            const DynNode *n = dyn_graph_node(g, i);
            uint64_t how = likelihood(n, i, flag_table[f].letter, ran);
            if ((found == NULL || how > best) && can_raise(g, n, flag_table[f].letter)) {
                found = n;
                best = how;
            }
        }
        if (found != NULL && give_from(g, found, flag_table[f].npy) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- extern calls: an error in place of a warning
 *
 * NumPy's own function is called in the middle of a graph. Were it to warn, and CPython had to make the call again later on, the
 * warning would come twice. So it raises; the graph is left there, nothing lost, and CPython makes the call. */

static PyObject *variable, *make; /* NumPy's context variable, and what makes its values */
static PyObject *met, *strict;    /* a value, and the one that raises instead; NULL: it asks for no warning. Both strong */
static int heeded;                /* the flags that `met` doesn't ignore */

static int find_numpy(void) {
    if (variable == NULL) {
        PyObject *umath = dyn_import("numpy._core.umath");
        make = umath == NULL ? NULL : PyObject_GetAttrString(umath, "_make_extobj");
        variable = make == NULL ? NULL : PyObject_GetAttrString(umath, "_extobj_contextvar");
        Py_XDECREF(umath);
    }
    return variable == NULL ? -1 : 0;
}

/* The arguments of _make_extobj that ask for errors where `state` asks for warnings of any kind; empty: nowhere. seen: the flags
 * that it doesn't ignore. */
static PyObject *stricter(PyObject *state, int *seen) {
    PyObject *how = PyDict_New(), *raise = PyUnicode_InternFromString("raise");
    *seen = 0;
    for (size_t i = 0; how != NULL && raise != NULL && i < DYN_COUNTOF(flag_table); i++) {
        PyObject *mode = PyDict_GetItemString(state, flag_table[i].name);
        bool ignores = mode != NULL && PyUnicode_Check(mode) && PyUnicode_CompareWithASCIIString(mode, "ignore") == 0;
        bool raises = mode != NULL && PyUnicode_Check(mode) && PyUnicode_CompareWithASCIIString(mode, "raise") == 0;
        *seen |= ignores ? 0 : flag_table[i].bit;
        if (!ignores && !raises && PyDict_SetItemString(how, flag_table[i].name, raise) < 0) {
            Py_CLEAR(how);
        }
    }
    Py_XDECREF(raise);
    return how;
}

/* The current value of the variable is looked at: met, strict and heeded are about it. -1 with an exception. */
static int look(void) {
    PyObject *now = NULL;
    if (find_numpy() < 0 || PyContextVar_Get(variable, NULL, &now) < 0) {
        return -1;
    }
    if (now == met || (now == strict && strict != NULL)) { /* what holds of met holds of its strict twin */
        Py_XDECREF(now);
        return 0;
    }
    dyn_cpy_hold_signals();
    PyObject *numpy = dyn_import("numpy"), *none = PyTuple_New(0);
    PyObject *state = numpy == NULL ? NULL : PyObject_CallMethod(numpy, "geterr", NULL);
    dyn_cpy_release_signals();
    int seen = 0;
    PyObject *how = state == NULL ? NULL : stricter(state, &seen), *value = NULL;
    int failed = how == NULL || none == NULL;
    if (!failed && PyDict_GET_SIZE(how) > 0) {
        value = PyObject_Call(make, none, how);
        failed = value == NULL;
    }
    Py_XDECREF(numpy);
    Py_XDECREF(none);
    Py_XDECREF(state);
    Py_XDECREF(how);
    if (failed) {
        Py_XDECREF(now);
        return -1;
    }
    Py_XSETREF(met, now);
    Py_XSETREF(strict, value);
    heeded = seen;
    return 0;
}

int dyn_flags_wanted(int flags) {
    if (!dyn_arrays_loaded()) {
        return 0;
    }
    return look() < 0 ? -1 : flags & heeded;
}

bool dyn_flags_ignored(void) {
    if (look() < 0) {
        PyErr_Clear();
        return false;
    }
    return heeded == 0;
}

PyObject *dyn_flags_strict(void) {
    PyObject *token = look() < 0 || strict == NULL ? NULL : PyContextVar_Set(variable, strict);
    PyErr_Clear();
    return token;
}

PyObject *dyn_flags_silent(void) {
    PyObject *none = PyTuple_New(0), *how = Py_BuildValue("{ss}", "all", "ignore");
    PyObject *value = find_numpy() < 0 || none == NULL || how == NULL ? NULL : PyObject_Call(make, none, how);
    PyObject *token = value == NULL ? NULL : PyContextVar_Set(variable, value);
    Py_XDECREF(none);
    Py_XDECREF(how);
    Py_XDECREF(value);
    PyErr_Clear();
    return token;
}

void dyn_flags_lenient(PyObject *token) {
    PyObject *type, *value, *tb;
    if (token != NULL) {
        PyErr_Fetch(&type, &value, &tb);
        if (PyContextVar_Reset(variable, token) < 0) {
            PyErr_Clear();
        }
        Py_DECREF(token);
        PyErr_Restore(type, value, tb);
    }
}
