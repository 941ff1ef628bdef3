/* rec_operator.c: the functions of `operator` as the operators that they are: each does what its instruction's handler does.
 *
 * Handlers of callables.def, asked by rec_callables.c with arguments that were looked at. */
#include "tracer/record/rec_callables.h"

static bool has(const RecCall *c, uint32_t n) { return c->nkw == 0 && c->npos == n; }

DynVal *rec_on_identity(DynRec *r, const RecCall *c, PyObject **result, int negate) {
    if (!has(c, 2)) {
        return REC_DECLINED;
    }
    DynOperand a = c->args[0], b = c->args[1];
    int same = rec_identity(r, a, b);
    *result = PyBool_FromLong((a.real == b.real) != negate);
    return same == (a.real == b.real) ? dyn_rec_const(r, *result) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "is");
}

DynVal *rec_item_of(DynRec *r, DynOperand o, DynOperand index, PyObject **result) {
    DynOperand method;
    DynVal *v = rec_subscript(r, o, index, &method, result);
    if (method.v == NULL) {
        return v;
    }
    DynOperand *args = DYN_NEW_N(&r->arena, DynOperand, 2);
    if (args == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    args[0] = o;
    args[1] = index;
    RecCall c = {.callable = method, .args = args, .npos = 2};
    return rec_call_function(r, &c, result);
}

/* What gives None: where the class has no Python function for it. */
DynVal *rec_on_change_item(DynRec *r, const RecCall *c, PyObject **result, int which) {
    bool store = which == REC_ITEM_SET;
    if (!has(c, store ? 3 : 2)) {
        return REC_DECLINED;
    }
    DynOperand o = c->args[0], index = c->args[1];
    DynOperand method = rec_special(r, o, store ? "__setitem__" : "__delitem__");
    if (method.v != NULL) {
        RecCall call = {.callable = method, .args = c->args, .npos = c->npos};
        DynVal *v = rec_call_function(r, &call, result);
        if (*result != NULL) {
            Py_SETREF(*result, Py_NewRef(Py_None));
        }
        return v ? dyn_rec_const(r, Py_None) : NULL;
    }
    int status = store ? PyObject_SetItem(o.real, index.real, c->args[2].real) : PyObject_DelItem(o.real, index.real);
    *result = status < 0 ? NULL : Py_NewRef(Py_None);
    r->why = DYN_R_SIDE_EFFECT;
    bool known = status == 0 && (store ? rec_item_stored(r, o, index, c->args[2]) : rec_delete_item(r, o, index)) == 0;
    return known ? dyn_rec_const(r, Py_None) : NULL;
}

DynVal *rec_on_binary(DynRec *r, const RecCall *c, PyObject **result, int nb) {
    return has(c, 2) ? rec_binary(r, nb, false, c->args[0], c->args[1], result) : REC_DECLINED;
}

DynVal *rec_on_inplace(DynRec *r, const RecCall *c, PyObject **result, int nb) {
    return has(c, 2) ? rec_binary(r, nb, true, c->args[0], c->args[1], result) : REC_DECLINED;
}

DynVal *rec_on_unary(DynRec *r, const RecCall *c, PyObject **result, int opcode) {
    return has(c, 1) ? rec_unary(r, opcode, c->args[0], result) : REC_DECLINED;
}

DynVal *rec_on_compare(DynRec *r, const RecCall *c, PyObject **result, int cmp) {
    return has(c, 2) ? rec_compare(r, cmp, c->args[0], c->args[1], result) : REC_DECLINED;
}

DynVal *rec_on_truth(DynRec *r, const RecCall *c, PyObject **result, int negate) {
    return has(c, 1) ? rec_truth_value(r, negate, c->args[0], result) : REC_DECLINED;
}

DynVal *rec_on_contains(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    return has(c, 2) ? rec_contains(r, false, c->args[1], c->args[0], result) : REC_DECLINED;
}

DynVal *rec_on_getitem(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    return has(c, 2) ? rec_item_of(r, c->args[0], c->args[1], result) : REC_DECLINED;
}
