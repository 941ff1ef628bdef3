/* loops_null.c: the null region: a loop that runs by CPython's own operations, instruction by instruction, and is left wherever a
 * test wants it. With it the way in and out is tested at every place, without a compiler and without a language of regions.
 *
 * loops.c takes it in place of the compiler's regions where a test asks for it (_dynoc._loops_null). An instruction that it
 * doesn't know, or that would raise, is left to CPython, as a region does. */
#include "evalframe/loops.h"

typedef struct NullRegion {
    DynCode *code; /* own; of a module borrowed of its loops, who own this */
    PyObject *globals, *builtins;
    uint32_t header; /* canonical */
    bool *members;   /* canonical instructions of the loop */
    PyObject **stack;
} NullRegion;

static int64_t leave_after = -1; /* instructions */

void dyn_loop_null_leave(int64_t after) { leave_after = after; }

static NullRegion *own(DynRegion *r) { return (NullRegion *)(void *)r; }

/* ---- one instruction */

typedef struct State {
    const NullRegion *r;
    PyObject **slots, **stack; /* owned, both */
    uint32_t sp, pc;
} State;

static void push(State *s, PyObject *o) { s->stack[s->sp++] = o; }

static PyObject *top(const State *s, uint32_t n) { return s->stack[s->sp - n]; }

static void drop(State *s, uint32_t n) {
    while (n-- > 0) {
        Py_XDECREF(s->stack[--s->sp]);
    }
}

/* The operands are replaced by the result; NULL: nothing happens. */
static bool give(State *s, uint32_t n, PyObject *result) {
    if (result == NULL) {
        PyErr_Clear();
        return false;
    }
    drop(s, n);
    push(s, result);
    return true;
}

static bool is_number(const PyObject *o) { return PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o); }

static bool do_binary(State *s, const DynInstr *in) {
    static PyObject *(*const operators[])(PyObject *, PyObject *) = {PyNumber_Add,
                                                                     PyNumber_And,
                                                                     PyNumber_FloorDivide,
                                                                     PyNumber_Lshift,
                                                                     PyNumber_MatrixMultiply,
                                                                     PyNumber_Multiply,
                                                                     PyNumber_Remainder,
                                                                     PyNumber_Or,
                                                                     NULL,
                                                                     PyNumber_Rshift,
                                                                     PyNumber_Subtract,
                                                                     PyNumber_TrueDivide,
                                                                     PyNumber_Xor};
    bool known = is_number(top(s, 1)) && is_number(top(s, 2)) && operators[in->sub] != NULL;
    return known && give(s, 2, operators[in->sub](top(s, 2), top(s, 1)));
}

static bool do_subscript(State *s, const DynInstr *in) {
    bool sequence = PyList_CheckExact(top(s, 2)) || PyTuple_CheckExact(top(s, 2));
    return sequence && PyLong_CheckExact(top(s, 1)) && give(s, 2, PyObject_GetItem(top(s, 2), top(s, 1)));
}

static bool do_store_subscript(State *s, const DynInstr *in) {
    if (!PyList_CheckExact(top(s, 2)) || !PyLong_CheckExact(top(s, 1)) || PyObject_SetItem(top(s, 2), top(s, 1), top(s, 3)) < 0) {
        PyErr_Clear();
        return false;
    }
    drop(s, 3);
    return true;
}

static bool is_safe_iterator(const PyObject *it) {
    return it != NULL &&
           (Py_IS_TYPE(it, &PyRangeIter_Type) || Py_IS_TYPE(it, &PyListIter_Type) || Py_IS_TYPE(it, &PyTupleIter_Type));
}

static bool do_for(State *s, const DynInstr *in) {
    uint32_t n = dyn_iterator_slots();
    PyObject *it = top(s, n), *item = is_safe_iterator(it) ? Py_TYPE(it)->tp_iternext(it) : NULL;
    if (!is_safe_iterator(it) || PyErr_Occurred()) {
        PyErr_Clear();
        return false;
    }
    if (item != NULL) {
        push(s, item);
    } else {
        drop(s, n);
        s->pc = in->target;
    }
    return true;
}

static bool do_iter(State *s) {
    PyObject *o = top(s, 1);
    bool safe = PyRange_Check(o) || PyList_CheckExact(o) || PyTuple_CheckExact(o);
    if (!safe || !give(s, 1, PyObject_GetIter(o))) {
        return false;
    }
    for (uint32_t i = 1; i < dyn_iterator_slots(); i++) {
        push(s, NULL);
    }
    return true;
}

static bool do_global(State *s, const DynInstr *in) {
    PyObject *name = PyTuple_GET_ITEM(s->r->code->code->co_names, in->arg);
    PyObject *value = PyDict_GetItemWithError(s->r->globals, name);
    value = value == NULL && !PyErr_Occurred() ? PyDict_GetItemWithError(s->r->builtins, name) : value;
    PyErr_Clear();
    if (value == NULL) {
        return false;
    }
    if (in->sub == 1 && dyn_call_null_first()) {
        push(s, NULL);
    }
    push(s, Py_NewRef(value));
    if (in->sub == 1 && !dyn_call_null_first()) {
        push(s, NULL);
    }
    return true;
}

static bool do_method(State *s, const DynInstr *in) {
    int unbound = 0;
    PyObject *o = top(s, 1), *name = PyTuple_GET_ITEM(s->r->code->code->co_names, in->arg);
    PyObject *method = PyList_CheckExact(o) ? dyn_cpy_get_method(o, name, &unbound) : NULL;
    if (method == NULL) {
        PyErr_Clear();
        return false;
    }
    if (unbound) {
        s->stack[s->sp - 1] = method;
        push(s, o);
        return true;
    }
    Py_DECREF(method);
    return false;
}

/* Calls of C functions, with or without self, on whichever side of it the NULL is. */
static bool do_call(State *s, const DynInstr *in) {
    uint32_t n = in->arg;
    PyObject *low = top(s, n + 2), *high = top(s, n + 1);
    bool plain = low == NULL || high == NULL;
    PyObject *callable = low == NULL ? high : low;
    bool known = callable != NULL && in->target == DYN_NONE &&
                 (PyCFunction_CheckExact(callable) || Py_IS_TYPE(callable, &PyMethodDescr_Type));
    for (uint32_t i = 1; i <= n && known; i++) {
        known = is_number(top(s, i));
    }
    if (!known) {
        return false;
    }
    PyObject **args = s->stack + s->sp - n - !plain;
    return give(s, n + 2, PyObject_Vectorcall(callable, args, n + !plain, NULL));
}

static bool do_branch(State *s, const DynInstr *in, bool wanted) {
    if (!is_number(top(s, 1))) {
        return false;
    }
    if ((PyObject_IsTrue(top(s, 1)) == 1) == wanted) {
        s->pc = in->target;
    }
    drop(s, 1);
    return true;
}

static bool do_branch_or_pop(State *s, const DynInstr *in, bool wanted) {
    if (!is_number(top(s, 1))) {
        return false;
    }
    if ((PyObject_IsTrue(top(s, 1)) == 1) == wanted) {
        s->pc = in->target;
    } else {
        drop(s, 1);
    }
    return true;
}

static bool do_local(State *s, const DynInstr *in) {
    PyObject **slot = &s->slots[in->arg];
    if (in->op == DYN_I_STORE_FAST) {
        Py_XSETREF(*slot, s->stack[--s->sp]);
        return true;
    }
    if (*slot == NULL) {
        return false;
    }
    if (in->op == DYN_I_DELETE_FAST) {
        Py_CLEAR(*slot);
    } else {
        push(s, Py_NewRef(*slot));
    }
    return true;
}

static bool do_cell(State *s, const DynInstr *in) {
    PyObject *cell = s->slots[in->arg], *value = cell == NULL ? NULL : PyCell_GET(cell);
    if (in->op == DYN_I_STORE_DEREF) {
        PyCell_SET(cell, s->stack[--s->sp]);
        Py_XDECREF(value);
        return true;
    }
    if (value != NULL) {
        push(s, Py_NewRef(value));
    }
    return value != NULL;
}

static bool do_swap(State *s, uint32_t n) {
    PyObject *upper = top(s, 1);
    s->stack[s->sp - 1] = top(s, n);
    s->stack[s->sp - n] = upper;
    return true;
}

/* The steps that move values. */
static bool do_move(State *s, const DynInstr *in) {
    switch (in->op) {
    case DYN_I_NOP: return true;
    case DYN_I_LOAD_CONST: push(s, Py_NewRef(PyTuple_GET_ITEM(s->r->code->code->co_consts, in->arg))); return true;
    case DYN_I_LOAD_SMALL_INT: push(s, PyLong_FromLong((long)in->arg)); return true;
    case DYN_I_PUSH_NULL: push(s, NULL); return true;
    case DYN_I_POP_TOP: drop(s, 1); return true;
    case DYN_I_COPY: push(s, Py_XNewRef(top(s, in->arg))); return true;
    case DYN_I_SWAP: return do_swap(s, in->arg);
    case DYN_I_JUMP: s->pc = in->target; return true;
    case DYN_I_LOAD_FAST:
    case DYN_I_STORE_FAST:
    case DYN_I_DELETE_FAST: return do_local(s, in);
    case DYN_I_LOAD_DEREF:
    case DYN_I_STORE_DEREF: return do_cell(s, in);
    case DYN_I_LOAD_GLOBAL: return do_global(s, in);
    default: return false;
    }
}

/* false: it was left undone. */
static bool do_instr(State *s, const DynInstr *in) {
    switch (in->op) {
    case DYN_I_BINARY_OP: return do_binary(s, in);
    case DYN_I_COMPARE_OP:
        return is_number(top(s, 1)) && is_number(top(s, 2)) && give(s, 2, PyObject_RichCompare(top(s, 2), top(s, 1), in->sub));
    case DYN_I_BINARY_SUBSCR: return do_subscript(s, in);
    case DYN_I_STORE_SUBSCR: return do_store_subscript(s, in);
    case DYN_I_TO_BOOL: return is_number(top(s, 1)) && give(s, 1, PyBool_FromLong(PyObject_IsTrue(top(s, 1))));
    case DYN_I_UNARY_NEGATIVE: return is_number(top(s, 1)) && give(s, 1, PyNumber_Negative(top(s, 1)));
    case DYN_I_UNARY_NOT: return is_number(top(s, 1)) && give(s, 1, PyBool_FromLong(PyObject_Not(top(s, 1))));
    case DYN_I_FOR_ITER: return do_for(s, in);
    case DYN_I_GET_ITER: return do_iter(s);
    case DYN_I_LOAD_METHOD: return do_method(s, in);
    case DYN_I_CALL: return do_call(s, in);
    case DYN_I_POP_JUMP_IF_TRUE: return do_branch(s, in, true);
    case DYN_I_POP_JUMP_IF_FALSE: return do_branch(s, in, false);
    case DYN_I_JUMP_IF_TRUE_OR_POP: return do_branch_or_pop(s, in, true);
    case DYN_I_JUMP_IF_FALSE_OR_POP: return do_branch_or_pop(s, in, false);
    default: return do_move(s, in);
    }
}

/* ---- the region */

static DynRegionEnd null_run(DynRegion *region, PyObject **slots, uint32_t nstack, DynRegionExit *exit) {
    NullRegion *r = own(region);
    State s = {r, slots, r->stack, 0, r->header};
    uint32_t nslots = (uint32_t)dyn_code_nlocalsplus(r->code->code);
    for (uint32_t i = 0; i < nstack; i++) {
        push(&s, Py_XNewRef(slots[nslots + i]));
    }
    for (int64_t left = leave_after; r->members[s.pc];) {
        const DynInstr *in = &r->code->v.at[s.pc];
        bool first = (in->flags & DYN_IF_FIRST) != 0;
        if (first && left-- <= 0) {
            break;
        }
        s.pc++;
        if (!do_instr(&s, in)) {
            s.pc--;
            break;
        }
    }
    *exit = (DynRegionExit){.at = r->code->v.at[s.pc].start, .nstack = s.sp, .stack = r->stack};
    return DYN_REGION_LEFT;
}

static void null_free(DynRegion *region) {
    NullRegion *r = own(region);
    Py_DECREF(r->globals);
    Py_DECREF(r->builtins);
    if (r->code != NULL && r->code->nnamed == 0) {
        dyn_decode_free(r->code);
    }
    PyMem_RawFree(r->members);
    PyMem_RawFree(r->stack);
    PyMem_RawFree(r);
}

static DynRegion *null_plan(const DynCode *c, uint32_t header, PyObject *const *slots, uint32_t nstack, PyObject *globals,
                            PyObject *builtins, unsigned unless, DynRegionRefusal *why) {
    NullRegion *r = PyMem_RawCalloc(1, sizeof *r);
    *why = (DynRegionRefusal){.reason = DYN_R_NO_MEMORY, .at = header};
    if (r == NULL) {
        return NULL;
    }
    r->code = c->nnamed > 0 ? (DynCode *)c : dyn_decode(c->code);
    r->globals = Py_NewRef(globals);
    r->builtins = Py_NewRef(builtins);
    r->header = c->at_unit[header];
    r->members = dyn_loop_members(c, header);
    r->stack = PyMem_RawCalloc((size_t)c->code->co_stacksize + 1, sizeof *r->stack);
    if (r->code == NULL || r->members == NULL || r->stack == NULL) {
        PyErr_Clear();
        null_free((DynRegion *)(void *)r);
        return NULL;
    }
    return (DynRegion *)(void *)r;
}

static int null_build(DynRegion *r, bool wait) { return 0; }

static DynRegionState null_state(DynRegion *r) { return DYN_REGION_READY; }

static DynReason null_failure(DynRegion *r, const char **detail) { return DYN_R_OK; }

static bool null_exit(const DynRegion *r, uint32_t i, uint32_t *at, uint32_t *nstack) { return false; }

static void null_source(const DynRegion *r, DynStr *out) {}

static int null_traverse(const DynRegion *region, visitproc visit, void *arg) {
    const NullRegion *r = (const NullRegion *)(const void *)region;
    Py_VISIT(r->globals);
    Py_VISIT(r->builtins);
    return 0;
}

const DynLoopEngine dyn_loop_null = {dyn_loop_headers, null_plan, null_build,  null_state,    null_failure,
                                     null_run,         null_exit, null_source, null_traverse, null_free};
