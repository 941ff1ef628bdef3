/* rec_compare.c: tuples and lists compared item by item, as CPython does: the place where they differ decides, and guards say
 * that it stays there. Called by the comparison handler, after the comparison ran. */
#include "tracer/record/rec_state.h"

/* A plain tuple, or a named one. */
bool rec_compares_as_tuple(DynOperand o) { return PyTuple_CheckExact(o.real) || o.v->kind == DV_TUPLE; }

/* Do two items compare equal: 1, 0: known under guards; -1: not. */
static int items_equal(DynRec *r, DynOperand p, DynOperand q, int depth);

/* The first place where two sequences differ, or where the shorter ends. -1: not known. */
static int64_t first_difference(DynRec *r, DynOperand a, DynOperand b, DynOperand *p, DynOperand *q, int depth) {
    DynVal **x, **y;
    uint32_t nx, ny, i = 0;
    if (depth > 8 || rec_items(r, a.v, a.real, &x, &nx) < 0 || rec_items(r, b.v, b.real, &y, &ny) < 0) {
        return -1;
    }
    if (nx != PySequence_Fast_GET_SIZE(a.real) || ny != PySequence_Fast_GET_SIZE(b.real)) {
        return -1; /* the comparison itself has changed one of the lists */
    }
    for (; i < nx && i < ny; i++) {
        *p = (DynOperand){x[i], PySequence_Fast_GET_ITEM(a.real, i)};
        *q = (DynOperand){y[i], PySequence_Fast_GET_ITEM(b.real, i)};
        int equal = items_equal(r, *p, *q, depth + 1);
        if (equal <= 0) {
            return equal < 0 ? -1 : (int64_t)i;
        }
    }
    return i;
}

static int items_equal(DynRec *r, DynOperand p, DynOperand q, int depth) {
    if (p.v == q.v) {
        return 1; /* one object */
    }
    if (dyn_rec_resolve(r, p.v, p.real) < 0 || dyn_rec_resolve(r, q.v, q.real) < 0) {
        return -1;
    }
    if (p.v->kind == DV_SYM && q.v->kind == DV_SYM) {
        uint32_t eq = dyn_sym_op(&r->cap->syms, DYN_S_EQ, rec_sym_of(p.v), rec_sym_of(q.v), DYN_NONE);
        bool nan = p.real == q.real && PyFloat_CheckExact(p.real) && PyFloat_AS_DOUBLE(p.real) != PyFloat_AS_DOUBLE(p.real);
        return nan || eq == DYN_NONE || dyn_rec_assume(r, eq) < 0 ? -1 : dyn_sym_at(&r->cap->syms, eq)->hint.i != 0;
    }
    bool lists = PyList_CheckExact(p.real) && PyList_CheckExact(q.real),
         tuples = rec_compares_as_tuple(p) && rec_compares_as_tuple(q);
    bool listed = lists && p.v->kind == DV_LIST && q.v->kind == DV_LIST;
    bool made_tuples = tuples && (p.v->kind == DV_TUPLE || q.v->kind == DV_TUPLE);
    if (listed || made_tuples) {
        DynOperand x, y;
        Py_ssize_t n = PySequence_Fast_GET_SIZE(p.real), other = PySequence_Fast_GET_SIZE(q.real);
        int64_t at = lists && n != other ? 0 : first_difference(r, p, q, &x, &y, depth);
        return at < 0 ? -1 : n == other && at == n;
    }
    if (!rec_foldable(r, p) || !rec_foldable(r, q)) {
        return -1;
    }
    int equal = PyObject_RichCompareBool(p.real, q.real, Py_EQ);
    PyErr_Clear();
    return equal;
}

int rec_items_equal(DynRec *r, DynOperand a, DynOperand b) { return items_equal(r, a, b, 0); }

/* Two tuples or lists, item by item up to the first that differs: what decided is guarded, so the result is a constant. */
DynVal *rec_compare_sequences(DynRec *r, int cmp, DynOperand a, DynOperand b, PyObject *result) {
    DynOperand p, q;
    bool equality = cmp == Py_EQ || cmp == Py_NE;
    if (equality) {
        return items_equal(r, a, b, 0) < 0 ? rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "comparison of sequences")
                                           : dyn_rec_const(r, result);
    }
    int64_t at = first_difference(r, a, b, &p, &q, 0);
    if (at < 0) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "comparison of sequences");
    }
    if (at < PySequence_Fast_GET_SIZE(a.real) && at < PySequence_Fast_GET_SIZE(b.real)) { /* these two decide */
        PyObject *decided = PyObject_RichCompare(p.real, q.real, cmp);
        DynVal *v = decided ? rec_compare_values(r, cmp, p, q, decided) : NULL;
        bool known = v != NULL && rec_truth(r, v, decided) >= 0;
        PyErr_Clear();
        Py_XDECREF(decided);
        return known ? dyn_rec_const(r, result) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "comparison of sequences");
    }
    return dyn_rec_const(r, result);
}
