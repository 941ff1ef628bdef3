/* minirec.c: a recorder that records nothing, to try base/cpy and tracer/decode alone: it takes over the frames of chosen code
 * objects, runs the commonest canonical instructions itself and hands the frame back at the n-th, or where it knows no further.
 *
 * Built and called by tests/c/test_cpy.py. Locals live in the real frame all the time; the stack is put into it when it is handed
 * back. */
#include "tracer/bytecode/asm.h"

static PyObject *targets; /* set of code objects */
static long hand_back_at = -1;
static long taken, thrown, handed;
static long
    capturing; /* at this many instructions from the n-th on, the state is appended to `captured`; then `stop_error` is raised */
static PyObject *captured, *stop_error;

enum { MOST = 256 }; /* values on the stack of a frame that is taken over */

typedef struct Run {
    PyThreadState *ts;
    DynFrame *f;
    DynCode *c;
    int depth;
    uint32_t pc;
    PyObject *stack[MOST];
} Run;

static PyObject *pop(Run *r) {
    PyObject *o = r->stack[--r->depth];
    r->stack[r->depth] = NULL;
    return o;
}

static int push(Run *r, PyObject *o) {
    if (!o)
        return -1;
    r->stack[r->depth++] = o;
    return 0;
}

static void set_slot(Run *r, uint32_t slot, PyObject *o) {
    PyObject *old = dyn_frame_take(r->f, slot);
    dyn_frame_put(r->f, slot, o);
    Py_XDECREF(old);
}

typedef PyObject *(*Binary)(PyObject *, PyObject *);
static PyObject *power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }
static const Binary binary_ops[13] = {
    PyNumber_Add,      PyNumber_And,        PyNumber_FloorDivide, PyNumber_Lshift, PyNumber_MatrixMultiply,
    PyNumber_Multiply, PyNumber_Remainder,  PyNumber_Or,          power,           PyNumber_Rshift,
    PyNumber_Subtract, PyNumber_TrueDivide, PyNumber_Xor};

/* n operands from the top become one result; they stay on the stack while the operation runs. */
static int finish(Run *r, int n, PyObject *result) {
    while (n--)
        Py_XDECREF(pop(r));
    return push(r, result);
}

static int load_global(Run *r, const DynInstr *in) {
    PyObject *name = PyTuple_GET_ITEM(r->c->code->co_names, in->arg);
    PyObject *v = PyDict_GetItemWithError(dyn_frame_globals(r->f), name);
    if (!v && !PyErr_Occurred())
        v = PyDict_GetItemWithError(dyn_frame_builtins(r->f), name);
    if (!v) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
        return -1;
    }
    if (in->sub && dyn_call_null_first())
        r->stack[r->depth++] = NULL;
    r->stack[r->depth++] = Py_NewRef(v);
    if (in->sub && !dyn_call_null_first())
        r->stack[r->depth++] = NULL;
    return 0;
}

/* The plain attribute, as rewritten code has it. */
static int load_method(Run *r, const DynInstr *in) {
    PyObject *o = r->stack[r->depth - 1];
    PyObject *m = PyObject_GetAttr(o, PyTuple_GET_ITEM(r->c->code->co_names, in->arg));
    if (!m)
        return -1;
    Py_DECREF(pop(r));
    r->stack[r->depth++] = dyn_call_null_first() ? NULL : m;
    r->stack[r->depth++] = dyn_call_null_first() ? m : NULL;
    return 0;
}

static int call(Run *r, const DynInstr *in) {
    int n = (int)in->arg;
    PyObject **slots = &r->stack[r->depth - n - 2], *kwnames = NULL, *callable;
    if (in->target != DYN_NONE)
        kwnames = PyTuple_GET_ITEM(r->c->code->co_consts, in->target);
    bool null_first = dyn_call_null_first();
    bool method = null_first ? slots[0] != NULL : slots[1] != NULL;
    callable = method || !null_first ? slots[0] : slots[1];
    PyObject *result = PyObject_Vectorcall(callable, slots + 2 - method,
                                           (size_t)(n + method - (kwnames ? PyTuple_GET_SIZE(kwnames) : 0)), kwnames);
    return finish(r, n + 2, result);
}

static int build(Run *r, const DynInstr *in) {
    int n = (int)in->arg;
    PyObject **v = &r->stack[r->depth - n], *o;
    if (in->op == DYN_I_BUILD_SET) {
        o = PySet_New(NULL);
        for (int i = 0; o && i < n; i++)
            if (PySet_Add(o, v[i]) < 0)
                Py_CLEAR(o);
        return finish(r, n, o);
    }
    o = in->op == DYN_I_BUILD_TUPLE ? PyTuple_New(n) : PyList_New(n);
    for (int i = 0; o && i < n; i++)
        if (in->op == DYN_I_BUILD_TUPLE)
            PyTuple_SET_ITEM(o, i, Py_NewRef(v[i]));
        else
            PyList_SET_ITEM(o, i, Py_NewRef(v[i]));
    return finish(r, n, o);
}

static PyObject *slice_of(PyObject *a, PyObject *start, PyObject *stop) {
    PyObject *s = PySlice_New(start, stop, NULL), *v = s ? PyObject_GetItem(a, s) : NULL;
    Py_XDECREF(s);
    return v;
}

static PyObject *unbound_local(Run *r, uint32_t slot) {
    PyErr_Format(PyExc_UnboundLocalError, "cannot access local variable '%U' where it is not associated with a value",
                 dyn_code_local_name(r->c->code, (int)slot));
    return NULL;
}

/* 1: went on; 0: not known here; -1: exception. Moves pc only for jumps taken. */
static int jump(Run *r, const DynInstr *in) {
    bool take = true;
    switch (in->op) {
    case DYN_I_JUMP: break;
    case DYN_I_POP_JUMP_IF_TRUE:
    case DYN_I_POP_JUMP_IF_FALSE: {
        int truth = PyObject_IsTrue(r->stack[r->depth - 1]);
        if (truth < 0)
            return -1;
        Py_DECREF(pop(r));
        take = truth == (in->op == DYN_I_POP_JUMP_IF_TRUE);
        break;
    }
    case DYN_I_POP_JUMP_IF_NONE:
    case DYN_I_POP_JUMP_IF_NOT_NONE:
        take = (r->stack[r->depth - 1] == Py_None) == (in->op == DYN_I_POP_JUMP_IF_NONE);
        Py_DECREF(pop(r));
        break;
    case DYN_I_FOR_ITER: {
        PyObject *it = r->stack[r->depth - (int)dyn_iterator_slots()], *v = Py_TYPE(it)->tp_iternext(it);
        if (v)
            return push(r, v), 1;
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_StopIteration))
            return -1;
        PyErr_Clear();
        for (uint32_t i = 0; i < dyn_iterator_slots(); i++) {
            Py_XDECREF(pop(r));
        }
        break;
    }
    default: return 0;
    }
    if (take && (in->flags & DYN_IF_BACKWARD) && dyn_cpy_serve(r->ts) < 0)
        return -1;
    if (take)
        r->pc = in->target;
    return 1;
}

#define DONE(expression) return (expression) < 0 ? -1 : 1
static int slots(Run *r, const DynInstr *in) {
    PyObject *o;
    switch (in->op) {
    case DYN_I_LOAD_FAST: o = dyn_frame_get(r->f, in->arg); DONE(push(r, o ? Py_NewRef(o) : unbound_local(r, in->arg)));
    case DYN_I_LOAD_FAST_AND_CLEAR: r->stack[r->depth++] = dyn_frame_take(r->f, in->arg); return 1;
    case DYN_I_STORE_FAST: set_slot(r, in->arg, pop(r)); return 1;
    case DYN_I_DELETE_FAST:
        if (!dyn_frame_get(r->f, in->arg))
            return 0;
        set_slot(r, in->arg, NULL);
        return 1;
    case DYN_I_MAKE_CELL:
        o = PyCell_New(dyn_frame_get(r->f, in->arg));
        if (!o)
            return -1;
        set_slot(r, in->arg, o);
        return 1;
    case DYN_I_LOAD_DEREF:
        o = PyCell_Get(dyn_frame_get(r->f, in->arg));
        if (!o)
            return 0;
        DONE(push(r, o));
    case DYN_I_STORE_DEREF:
        o = pop(r);
        PyCell_Set(dyn_frame_get(r->f, in->arg), o);
        Py_DECREF(o);
        return 1;
    case DYN_I_COPY_FREE_VARS: {
        PyObject *closure = PyFunction_GET_CLOSURE(dyn_frame_func(r->f));
        int first = dyn_code_nlocalsplus(r->c->code) - (int)in->arg;
        for (int i = 0; i < (int)in->arg; i++)
            dyn_frame_put(r->f, (uint32_t)(first + i), Py_NewRef(PyTuple_GET_ITEM(closure, i)));
        return 1;
    }
    default: return 0;
    }
}

static int stack_op(Run *r, const DynInstr *in) {
    PyObject **top = &r->stack[r->depth - 1], *o;
    switch (in->op) {
    case DYN_I_NOP: return 1;
    case DYN_I_LOAD_CONST: DONE(push(r, Py_NewRef(PyTuple_GET_ITEM(r->c->code->co_consts, in->arg))));
    case DYN_I_LOAD_SMALL_INT: DONE(push(r, PyLong_FromUnsignedLong(in->arg)));
    case DYN_I_LOAD_COMMON_CONSTANT: DONE(push(r, Py_NewRef(dyn_cpy_common_constant(in->arg))));
    case DYN_I_PUSH_NULL: r->stack[r->depth++] = NULL; return 1;
    case DYN_I_POP_TOP: Py_XDECREF(pop(r)); return 1;
    case DYN_I_COPY:
        r->stack[r->depth] = Py_XNewRef(r->stack[r->depth - (int)in->arg]);
        r->depth++;
        return 1;
    case DYN_I_SWAP:
        o = *top;
        *top = r->stack[r->depth - (int)in->arg];
        r->stack[r->depth - (int)in->arg] = o;
        return 1;
    case DYN_I_LIST_APPEND:
        o = pop(r);
        if (PyList_Append(r->stack[r->depth - (int)in->arg], o) < 0)
            return Py_DECREF(o), -1;
        Py_DECREF(o);
        return 1;
    default: return 0;
    }
}

static int operation(Run *r, const DynInstr *in) {
    PyObject **top = &r->stack[r->depth - 1];
    switch (in->op) {
    case DYN_I_LOAD_GLOBAL: DONE(load_global(r, in));
    case DYN_I_LOAD_METHOD: DONE(load_method(r, in));
    case DYN_I_LOAD_ATTR: DONE(finish(r, 1, PyObject_GetAttr(*top, PyTuple_GET_ITEM(r->c->code->co_names, in->arg))));
    case DYN_I_BINARY_OP:
        if (in->arg)
            return 0;
        DONE(finish(r, 2, binary_ops[in->sub](top[-1], top[0])));
    case DYN_I_UNARY_NEGATIVE: DONE(finish(r, 1, PyNumber_Negative(*top)));
    case DYN_I_TO_BOOL: {
        int truth = PyObject_IsTrue(*top);
        DONE(finish(r, 1, truth < 0 ? NULL : PyBool_FromLong(truth)));
    }
    case DYN_I_COMPARE_OP: {
        PyObject *v = PyObject_RichCompare(top[-1], top[0], in->sub);
        if (v && in->arg) {
            int truth = PyObject_IsTrue(v);
            Py_SETREF(v, truth < 0 ? NULL : PyBool_FromLong(truth));
        }
        DONE(finish(r, 2, v));
    }
    case DYN_I_BINARY_SUBSCR: DONE(finish(r, 2, PyObject_GetItem(top[-1], top[0])));
    case DYN_I_BINARY_SLICE: DONE(finish(r, 3, slice_of(top[-2], top[-1], top[0])));
    case DYN_I_BUILD_SLICE:
        DONE(finish(r, (int)in->arg, PySlice_New(top[1 - (int)in->arg], top[2 - (int)in->arg], in->arg == 3 ? top[0] : NULL)));
    case DYN_I_BUILD_TUPLE:
    case DYN_I_BUILD_LIST:
    case DYN_I_BUILD_SET: DONE(build(r, in));
    case DYN_I_CALL: DONE(call(r, in));
    case DYN_I_GET_ITER: {
        int status = finish(r, 1, PyObject_GetIter(*top));
        if (status >= 0 && dyn_iterator_slots() == 2)
            r->stack[r->depth++] = NULL;
        DONE(status);
    }
    default: return jump(r, in);
    }
}

/* (code, unit, bound slots, NULLs on the stack, values of the slots, values of the stack) */
static int capture(Run *r, const DynInstr *in) {
    int n = dyn_code_nlocalsplus(r->c->code);
    PyObject *parts[4] = {PyList_New(0), PyList_New(0), PyList_New(0), PyList_New(0)};
    for (int i = 0; i < n + r->depth; i++) {
        PyObject *o = i < n ? dyn_frame_get(r->f, (uint32_t)i) : r->stack[i - n];
        PyList_Append(parts[i >= n], (o != NULL) == (i < n) ? Py_True : Py_False);
        PyList_Append(parts[2 + (i >= n)], o ? o : Py_None);
    }
    PyObject *state = Py_BuildValue("OINNNN", r->c->code, in->start, parts[0], parts[1], parts[2], parts[3]);
    int status = state ? PyList_Append(captured, state) : -1;
    Py_XDECREF(state);
    return status;
}

static PyObject *run_frame(PyThreadState *ts, DynFrame *f, DynCode *c) {
    DynFrameLink link;
    Run r = {ts, f, c, 0, c->at_unit[dyn_frame_position(f)], {NULL}};
    if (dyn_recursion_near_limit(ts) || c->code->co_stacksize >= MOST)
        return dyn_frame_default_eval(ts, f, 0);
    if (dyn_frame_enter(ts, f, &link) < 0) {
        PyErr_Clear();
        return dyn_frame_default_eval(ts, f, 0);
    }
    taken++;
    for (long n = 0;;) {
        const DynInstr *in = &c->v.at[r.pc];
        bool stop = (in->flags & DYN_IF_FIRST) && n++ == hand_back_at;
        int status = 0;
        if (capturing && (in->flags & DYN_IF_FIRST) && n > hand_back_at) {
            status = capture(&r, in);
            stop = false;
            if (n >= hand_back_at + capturing) {
                PyErr_SetNone(stop_error);
                status = -1;
            }
        }
        if (!stop && status == 0) {
            dyn_frame_running(f, in->at, 0);
            r.pc++;
            status = stack_op(&r, in);
            if (status == 0)
                status = slots(&r, in);
            if (status == 0)
                status = operation(&r, in);
        }
        if (status > 0)
            continue;
        for (int i = 0; i < r.depth; i++)
            dyn_frame_put(f, (uint32_t)(dyn_code_nlocalsplus(c->code) + i), r.stack[i]);
        dyn_frame_leave(ts, f, &link);
        thrown += status < 0;
        handed += status == 0;
        return status < 0 ? dyn_frame_throw(ts, f, in->at, r.depth) : dyn_frame_go_on(ts, f, in->start, r.depth);
    }
}

static PyObject *hook(PyThreadState *ts, DynFrame *f, int throwflag) {
    PyCodeObject *code = dyn_frame_code(f);
    if (throwflag || dyn_frame_is_generator(f) || dyn_cpy_is_traced(ts) || !PySet_Contains(targets, (PyObject *)code))
        return dyn_frame_default_eval(ts, f, throwflag);
    DynCode *c = dyn_decode(code);
    if (!c) {
        PyErr_Clear();
        return dyn_frame_default_eval(ts, f, throwflag);
    }
    PyObject *result = run_frame(ts, f, c);
    dyn_decode_free(c);
    return result;
}

static PyObject *py_hook(PyObject *self, PyObject *on) {
    dyn_hook_set(PyObject_IsTrue(on) ? hook : NULL);
    Py_RETURN_NONE;
}

static PyObject *py_hand_back(PyObject *self, PyObject *n) {
    hand_back_at = PyLong_AsLong(n);
    PyObject *counts = Py_BuildValue("lll", taken, thrown, handed);
    taken = thrown = handed = 0;
    return counts;
}

static PyObject *py_capture(PyObject *self, PyObject *args) {
    capturing = 0;
    hand_back_at = -1;
    if (!PyArg_ParseTuple(args, "|ll", &hand_back_at, &capturing))
        return NULL;
    PyObject *old = captured;
    captured = PyList_New(0);
    return old;
}

static PyObject *py_function(PyObject *self, PyObject *args) {
    PyObject *code, *globals;
    return PyArg_ParseTuple(args, "OO", &code, &globals) ? PyFunction_New(code, globals) : NULL;
}

static PyObject *py_traced(PyObject *self, PyObject *unused) { return PyBool_FromLong(dyn_cpy_is_traced(PyThreadState_Get())); }

static void free_token(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, NULL)); }

static PyObject *py_token(PyObject *self, PyObject *dict) {
    DynDictToken *t = PyMem_Malloc(sizeof(*t));
    dyn_dict_token_get(dict, t);
    return PyCapsule_New(t, NULL, free_token);
}

static PyObject *py_same(PyObject *self, PyObject *args) {
    PyObject *dict, *token;
    if (!PyArg_ParseTuple(args, "OO", &dict, &token))
        return NULL;
    return PyBool_FromLong(dyn_dict_token_same(dict, PyCapsule_GetPointer(token, NULL)));
}

static PyMethodDef methods[] = {{"hook", py_hook, METH_O, NULL},
                                {"hand_back", py_hand_back, METH_O, NULL},
                                {"token", py_token, METH_O, NULL},
                                {"same", py_same, METH_VARARGS, NULL},
                                {"traced", py_traced, METH_NOARGS, NULL},
                                {"capture", py_capture, METH_VARARGS, NULL},
                                {"function", py_function, METH_VARARGS, NULL},
                                {0}};
static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "minirec", NULL, -1, methods};

PyMODINIT_FUNC PyInit_minirec(void) {
    PyObject *m = PyModule_Create(&module_def);
    targets = PySet_New(NULL);
    captured = PyList_New(0);
    stop_error = PyErr_NewException("minirec.Stop", PyExc_BaseException, NULL);
    if (!m || !targets || PyModule_AddObjectRef(m, "targets", targets) < 0 || PyModule_AddObjectRef(m, "Stop", stop_error) < 0 ||
        dyn_cpy_init() < 0 || dyn_decode_init(m) < 0 || dyn_asm_init(m) < 0)
        return NULL;
    return m;
}
