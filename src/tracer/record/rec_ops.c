/* rec_ops.c: handlers for operators and subscripts. Each runs the real operation and gives the result's
 * shadow: arrays by the NumPy rules (rec_numpy*.c), Python numbers as symbols, containers by their items, constants folded.
 *
 * Called from record.c's table. Operands are looked at (resolved) before the operation runs, since it may change them. */
#include "base/torch.h"
#include "tracer/record/rec_state.h"

typedef PyObject *(*BinaryFn)(PyObject *, PyObject *);
static PyObject *power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }
static PyObject *power_inplace(PyObject *a, PyObject *b) { return PyNumber_InPlacePower(a, b, Py_None); }

/* By BINARY_OP sub: plain and in-place function, symbol operator. */
static const struct {
    BinaryFn plain, inplace;
    int sym;
} binary_ops[13] = {
    {PyNumber_Add, PyNumber_InPlaceAdd, DYN_S_ADD},
    {PyNumber_And, PyNumber_InPlaceAnd, DYN_S_AND},
    {PyNumber_FloorDivide, PyNumber_InPlaceFloorDivide, DYN_S_FLOORDIV},
    {PyNumber_Lshift, PyNumber_InPlaceLshift, DYN_S_LSHIFT},
    {PyNumber_MatrixMultiply, PyNumber_InPlaceMatrixMultiply, -1},
    {PyNumber_Multiply, PyNumber_InPlaceMultiply, DYN_S_MUL},
    {PyNumber_Remainder, PyNumber_InPlaceRemainder, DYN_S_MOD},
    {PyNumber_Or, PyNumber_InPlaceOr, DYN_S_OR},
    {power, power_inplace, DYN_S_POW},
    {PyNumber_Rshift, PyNumber_InPlaceRshift, DYN_S_RSHIFT},
    {PyNumber_Subtract, PyNumber_InPlaceSubtract, DYN_S_SUB},
    {PyNumber_TrueDivide, PyNumber_InPlaceTrueDivide, DYN_S_TRUEDIV},
    {PyNumber_Xor, PyNumber_InPlaceXor, DYN_S_XOR},
};
enum { NB_ADD = 0, NB_MULTIPLY = 5, NB_REMAINDER = 6, NB_OR = 7 };

PyObject *rec_binary_real(int nb, bool inplace, PyObject *a, PyObject *b) {
    return (inplace ? binary_ops[nb].inplace : binary_ops[nb].plain)(a, b);
}

bool rec_sym_agrees(DynRec *r, uint32_t sym, PyObject *o) {
    if (sym == DYN_NONE) {
        return false;
    }
    const DynSym *s = dyn_sym_at(&r->cap->syms, sym);
    if (s->type == DYN_T_FLOAT) {
        double d = PyFloat_CheckExact(o) ? PyFloat_AS_DOUBLE(o) : 0;
        bool nan = d != d && s->hint.f != s->hint.f, same = nan || memcmp(&d, &s->hint.f, sizeof d) == 0;
        return same && PyFloat_CheckExact(o);
    }
    if (s->type == DYN_T_BOOL) {
        return PyBool_Check(o) && (o == Py_True) == (s->hint.i != 0);
    }
    int overflow = 0;
    return PyLong_CheckExact(o) && PyLong_AsLongLongAndOverflow(o, &overflow) == s->hint.i && !overflow;
}

DynVal *rec_number_binary(DynRec *r, int nb, DynOperand a, DynOperand b, PyObject *result) {
    uint32_t s = binary_ops[nb].sym < 0
                     ? DYN_NONE
                     : dyn_sym_op(&r->cap->syms, (DynSymOp)binary_ops[nb].sym, rec_sym_of(a.v), rec_sym_of(b.v), DYN_NONE);
    return rec_sym_agrees(r, s, result) ? dyn_rec_sym(r, s)
                                        : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "arithmetic on Python numbers");
}

static DynValKind kind_of_sequence(PyObject *o) { return dyn_is_tuple(o) ? DV_TUPLE : DV_LIST; }

static DynVal *repeat(DynRec *r, DynOperand seq, DynOperand times, PyObject *result) {
    DynVal **from;
    uint32_t nfrom;
    if (rec_items(r, seq.v, seq.real, &from, &nfrom) < 0 || dyn_rec_burn(r, times.v, times.real) < 0 ||
        PySequence_Fast_GET_SIZE(result) > 4096) {
        return NULL;
    }
    uint32_t n = (uint32_t)PySequence_Fast_GET_SIZE(result);
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, n + 1);
    for (uint32_t i = 0; items != NULL && i < n; i++) {
        items[i] = from[i % nfrom];
    }
    return items == NULL ? NULL : dyn_rec_seq(r, kind_of_sequence(result), n, items, result);
}

/* tuple + tuple, list + list, seq * int; items of constant tuples too. */
static DynVal *sequence_binary(DynRec *r, int nb, DynOperand a, DynOperand b, PyObject *result) {
    DynVal **x, **y;
    uint32_t nx, ny;
    bool times_a = a.v->kind == DV_SYM, times_b = b.v->kind == DV_SYM;
    if (nb == NB_MULTIPLY && (times_a || times_b)) {
        return times_b ? repeat(r, a, b, result) : repeat(r, b, a, result);
    }
    if (nb != NB_ADD || rec_items(r, a.v, a.real, &x, &nx) < 0 || rec_items(r, b.v, b.real, &y, &ny) < 0) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "operator on objects of this kind");
    }
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, nx + ny + 1);
    if (items == NULL) {
        return NULL;
    }
    memcpy(items, x, nx * sizeof *x);
    memcpy(items + nx, y, ny * sizeof *y);
    return dyn_rec_seq(r, kind_of_sequence(result), nx + ny, items, result);
}

/* str % constants, str + str …: both operands the same at every call and of a type without user code. */
bool rec_foldable(DynRec *r, DynOperand o) {
    if (o.v->kind == DV_SYM) {
        return dyn_sym_is_const(&r->cap->syms, rec_sym_of(o.v));
    }
    if (o.v->kind == DV_CONST) {
        return rec_is_basic(o.real) || PyComplex_CheckExact(o.real) || PyTuple_CheckExact(o.real);
    }
    if (o.v->kind == DV_TUPLE && PyTuple_CheckExact(o.real)) {
        for (uint32_t i = 0; i < o.v->n; i++) {
            if (!rec_foldable(r, (DynOperand){o.v->items[i], PyTuple_GET_ITEM(o.real, i)})) {
                return false;
            }
        }
        return true;
    }
    return false;
}

DynVal *rec_no_operator(DynRec *r) { return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "operator on objects of this kind"); }

/* An operator of two Python numbers raised: 1 / 0. It does so at every call if both are the same. */
static void raised_by_numbers(DynRec *r, DynOperand a, DynOperand b) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    bool sure = rec_both_are(a, b, DV_SYM) && rec_burn_both(r, a, b);
    PyErr_Restore(type, value, tb);
    if (sure) {
        rec_known_error(r, NULL);
    }
}

/* The result of an operator whose first operand is a set. */
static DynVal *set_binary(DynRec *r, int nb, DynOperand a, DynOperand b, PyObject *result) {
    bool known = dyn_rec_burn(r, b.v, b.real) == 0 && (a.v->kind == DV_SET || a.v->kind == DV_CONST);
    if (!known) {
        return rec_fail(r, DYN_R_SIDE_EFFECT, "a set is changed");
    }
    return result != a.real ? rec_wrap_fresh(r, result) : rec_set_changed(r, nb, a, b);
}

static bool are_plain_dicts(DynOperand a, DynOperand b) {
    return rec_both_are(a, b, DV_DICT) && a.v->type == NULL && PyDict_CheckExact(b.real);
}

/* text % values, all of which have one text at every call. */
static bool formats_text(DynRec *r, int nb, DynOperand a, DynOperand b) {
    bool text = nb == NB_REMAINDER && PyUnicode_CheckExact(a.real);
    return text && rec_has_one_text(r, a) && rec_has_one_text(r, b);
}

DynVal *rec_binary(DynRec *r, int nb, bool inplace, DynOperand a, DynOperand b, PyObject **out) {
    bool known = rec_resolve_both(r, a, b);
    DynVal *v = NULL;
    if (known && rec_operator(r, nb, inplace, a, b, out, &v)) {
        return v;
    }
    uint64_t mutations = r->mutations;
    PyObject *result = *out = rec_binary_real(nb, inplace, a.real, b.real);
    if (result == NULL) {
        if (known) {
            raised_by_numbers(r, a, b);
        }
        return NULL;
    }
    if (!known || mutations != r->mutations) {
        v = NULL;
    } else if (rec_is_array(a.v) || rec_is_array(b.v)) {
        v = dyn_np_binary(r, nb, inplace, a, b, result);
    } else if (rec_both_are(a, b, DV_SYM)) {
        v = rec_number_binary(r, nb, a, b, result);
    } else if (inplace && a.v->kind == DV_LIST) {
        v = nb == NB_ADD ? rec_list_extended(r, a, b) : rec_fail(r, DYN_R_SIDE_EFFECT, "a list is changed");
    } else if (nb == NB_OR && are_plain_dicts(a, b)) {
        v = rec_dict_union(r, a, b, inplace);
    } else if (PyAnySet_CheckExact(a.real) && PyAnySet_CheckExact(result)) {
        v = set_binary(r, nb, a, b, result);
    } else if (rec_one_is(a, b, DV_VIEW) && PyAnySet_CheckExact(result)) {
        v = rec_burn_both(r, a, b) ? rec_wrap_fresh(r, result) : NULL;
    } else if ((rec_foldable(r, a) && rec_foldable(r, b)) || formats_text(r, nb, a, b)) {
        v = rec_wrap_result(r, result);
    } else if (PyComplex_CheckExact(result) && (PyComplex_CheckExact(a.real) || PyComplex_CheckExact(b.real))) {
        v = rec_complex_binary(r, nb, a, b, result);
    } else if (rec_is_const_npscalar(a.v, a.real) || rec_is_const_npscalar(b.v, b.real)) {
        v = dyn_np_binary(r, nb, false, a, b, result);
    } else if (dyn_is_tuple(result) || PyList_CheckExact(result)) {
        v = sequence_binary(r, nb, a, b, result);
    } else if ((v = rec_enum_operator(r, rec_operator_name(nb), a, b, result)) == NULL) {
        v = rec_no_operator(r);
    }
    return v;
}

Step rec_BINARY_OP(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *result = NULL;
    DynVal *v = rec_binary(r, in->sub, in->arg != 0, operand(f, 2), operand(f, 1), &result);
    return rec_commit(r, f, 2, result, v);
}

/* ---- unary */

typedef struct Unary {
    const char *method;               /* The special method of a class. */
    PyObject *(*compute)(PyObject *); /* The operator, made for real. */
    int sym;                          /* Of symbols: DynSymOp, or -1: it gives its operand. */
} Unary;
static const Unary negation = {"__neg__", PyNumber_Negative, DYN_S_NEG},
                   inversion = {"__invert__", PyNumber_Invert, DYN_S_INVERT}, positive = {"__pos__", PyNumber_Positive, -1};

/* Of a Python number. -True is an int; ~True warns since 3.12, at every call. */
static DynVal *number_unary(DynRec *r, const Unary *u, DynOperand a, PyObject *result) {
    uint32_t s = rec_sym_of(a.v);
    if (dyn_sym_at(&r->cap->syms, s)->type == DYN_T_BOOL) {
        bool quiet = u != &inversion && dyn_rec_burn(r, a.v, a.real) == 0;
        return quiet ? dyn_rec_const(r, result) : NULL;
    }
    s = u->sym >= 0 ? dyn_sym_op(&r->cap->syms, (DynSymOp)u->sym, s, DYN_NONE, DYN_NONE) : s;
    return rec_sym_agrees(r, s, result) ? dyn_rec_sym(r, s) : NULL;
}

DynVal *rec_unary(DynRec *r, int op, DynOperand a, PyObject **out) {
    bool negative = op == DYN_I_UNARY_NEGATIVE, invert = op == DYN_I_UNARY_INVERT;
    bool known = dyn_rec_resolve(r, a.v, a.real) == 0;
    const Unary *u = invert ? &inversion : &positive;
    u = negative ? &negation : u;
    DynVal *v = NULL;
    if (known && rec_unary_operator(r, u->method, a, out, &v)) {
        return v;
    }
    PyObject *result = *out = u->compute(a.real);
    if (result == NULL) {
        return NULL;
    }
    if (known && rec_is_array(a.v)) {
        v = dyn_np_unary(r, op, a, result);
    } else if (known && a.v->kind == DV_SYM) {
        v = number_unary(r, u, a, result);
    } else if (known && PyComplex_CheckExact(a.real)) {
        v = a.v->kind == DV_CONST ? dyn_rec_const(r, result) : rec_complex_unary(r, negative, a, result);
    } else if (!known || (v = rec_enum_operator(r, invert ? "invert" : "neg", a, (DynOperand){0}, result)) == NULL) {
        v = rec_no_operator(r);
    }
    return v;
}

static Step unary(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *result = NULL;
    DynVal *v = rec_unary(r, in->op, operand(f, 1), &result);
    return rec_commit(r, f, 1, result, v);
}
Step rec_UNARY_NEGATIVE(DynRec *r, RecFrame *f, const DynInstr *in) { return unary(r, f, in); }
Step rec_UNARY_POSITIVE(DynRec *r, RecFrame *f, const DynInstr *in) { return unary(r, f, in); }
Step rec_UNARY_INVERT(DynRec *r, RecFrame *f, const DynInstr *in) { return unary(r, f, in); }

DynVal *rec_truth_value(DynRec *r, bool negate, DynOperand a, PyObject **out) {
    bool known = false;
    int real = dyn_rec_resolve(r, a.v, a.real) == 0 ? rec_instance_truth(r, a, &known) : -2;
    int truth = known ? real : -1;
    DynReason why = r->why;
    if (real == -2) { /* it is no such instance */
        truth = rec_truth(r, a.v, a.real);
        why = r->why;
        PyErr_Clear();
        real = PyObject_IsTrue(a.real);
    }
    if (real < 0) {
        return NULL;
    }
    PyObject *result = *out = PyBool_FromLong(negate ? !real : real);
    DynVal *v = truth == real ? dyn_rec_const(r, result) : NULL;
    r->why = v ? r->why : why;
    return v;
}

static Step truth_value(DynRec *r, RecFrame *f, bool negate) {
    PyObject *result = NULL;
    DynVal *v = rec_truth_value(r, negate, operand(f, 1), &result);
    return rec_commit(r, f, 1, result, v);
}
Step rec_UNARY_NOT(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    return truth_value(r, f, true);
}
Step rec_TO_BOOL(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    return truth_value(r, f, false);
}

/* ---- subscripts */

static DynVal *slice_sequence(DynRec *r, DynOperand o, DynOperand index, PyObject *result) {
    Py_ssize_t start, stop, step;
    DynVal **items;
    uint32_t n;
    if (dyn_rec_burn(r, index.v, index.real) < 0 || rec_items(r, o.v, o.real, &items, &n) < 0 ||
        PySlice_Unpack(index.real, &start, &stop, &step) < 0) {
        PyErr_Clear();
        return NULL;
    }
    Py_ssize_t len = PySlice_AdjustIndices(n, &start, &stop, step);
    DynVal **part = DYN_NEW_N(&r->arena, DynVal *, len + 1);
    for (Py_ssize_t i = 0; part != NULL && i < len; i++) {
        part[i] = items[start + i * step];
    }
    return part == NULL ? NULL : dyn_rec_seq(r, kind_of_sequence(result), (uint32_t)len, part, result);
}

/* ---- the column `item`: the shadow of `result`, which o[index] gave; NULL: unknown, and why is set. Both are resolved. */

static DynVal *no_item(DynRec *r, DynOperand o, DynOperand index, PyObject *result) {
    (void)o, (void)index, (void)result;
    return rec_no_operator(r);
}

/* Of a tuple, a list or a deque. */
static DynVal *item_of_sequence(DynRec *r, DynOperand o, DynOperand index, PyObject *result) {
    DynVal **items;
    uint32_t n;
    if (index.v->kind == DV_SLICE) {
        return slice_sequence(r, o, index, result);
    }
    if (index.v->kind != DV_SYM || !PyLong_CheckExact(index.real)) {
        return no_item(r, o, index, result);
    }
    Py_ssize_t i = PyLong_AsSsize_t(index.real);
    if (dyn_rec_burn(r, index.v, index.real) < 0 || rec_items(r, o.v, o.real, &items, &n) < 0) {
        return NULL;
    }
    i += i < 0 ? (Py_ssize_t)n : 0;
    return i >= 0 && i < (Py_ssize_t)n ? items[i] : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, NULL);
}

/* An item of a constant at a constant index that is itself one. */
static bool is_folded(DynRec *r, DynOperand o, DynOperand index, PyObject *result) {
    return rec_foldable(r, o) && rec_foldable(r, index) && rec_is_basic(result);
}

static DynVal *item_of_tuple(DynRec *r, DynOperand o, DynOperand index, PyObject *result) {
    return is_folded(r, o, index, result) ? dyn_rec_const(r, result) : item_of_sequence(r, o, index, result);
}

/* Of a range, a string or bytes: what stands there follows from both values. */
static DynVal *item_of_fixed(DynRec *r, DynOperand o, DynOperand index, PyObject *result) {
    return rec_burn_both(r, o, index) ? rec_wrap_fresh(r, result) : no_item(r, o, index, result);
}

static DynVal *item_of_constant(DynRec *r, DynOperand o, DynOperand index, PyObject *result) {
    if (is_folded(r, o, index, result)) {
        return dyn_rec_const(r, result);
    }
    if (rec_is_text(o.real)) {
        return item_of_fixed(r, o, index, result);
    }
    if (rec_is_enum_class(o)) {
        return rec_enum_item(r, o, index, result);
    }
    if (Py_IS_TYPE(result, &Py_GenericAliasType) && dyn_rec_burn(r, index.v, index.real) == 0) {
        return dyn_rec_const(r, result); /* list[int] */
    }
    const DynBinding *grid = dyn_np_find(o.real); /* np.mgrid[…] */
    if (grid != NULL) {
        return dyn_np_call(r, grid, &index, 1, NULL, result);
    }
    return PyTuple_CheckExact(o.real) ? item_of_sequence(r, o, index, result) : no_item(r, o, index, result);
}

/* An instance that is a dict and came in; one that was made here has been replaced by its contents. */
static DynVal *item_of_object(DynRec *r, DynOperand o, DynOperand index, PyObject *result) {
    bool missing;
    return rec_is_held(o) ? rec_held_key(r, o, index, &missing) : no_item(r, o, index, result);
}

static DynVal *item_of_dict(DynRec *r, DynOperand o, DynOperand index, PyObject *result) {
    if (!rec_burn_key(r, index)) {
        return no_item(r, o, index, result);
    }
    DynVal *v = rec_dict_find(o.v, index.real, NULL);
    return v ? v : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "dict key");
}

static DynVal *item_of_vars(DynRec *r, DynOperand o, DynOperand index, PyObject *result) {
    (void)result;
    return rec_var_item(r, o, index);
}

static DynVal *(*const item_as[DV_COUNT])(DynRec *r, DynOperand o, DynOperand index, PyObject *result) = {
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) \
    [DV_##kind] = item,
#include "tracer/record/shadow.def"
#undef SHADOW
};

DynVal *rec_subscr(DynRec *r, DynOperand o, DynOperand index, PyObject *result) {
    return rec_resolve_both(r, o, index) ? item_as[o.v->kind](r, o, index, result) : NULL;
}

/* A key that a known dict doesn't have, an index beyond a known sequence. */
static bool is_missing_item(DynRec *r, DynOperand o, DynOperand index) {
    if (o.v->kind == DV_DICT) {
        return PyDict_CheckExact(o.real) && rec_burn_key(r, index);
    }
    bool listed = o.v->kind == DV_TUPLE || o.v->kind == DV_LIST || o.v->kind == DV_CONST;
    bool plain = PyTuple_CheckExact(o.real) || PyList_CheckExact(o.real);
    return listed && plain && PyLong_CheckExact(index.real) && dyn_rec_burn(r, index.v, index.real) == 0;
}

/* The guards say that it fails again. */
static bool fails_for_sure(DynRec *r, DynOperand o, DynOperand index) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    bool sure = is_missing_item(r, o, index);
    PyErr_Restore(type, value, tb);
    return sure;
}

/* o[index], where no Python function has to be called for it: else *method is that. */
DynVal *rec_subscript(DynRec *r, DynOperand o, DynOperand index, DynOperand *method, PyObject **result) {
    DynVal *alone = rec_item_by_name(r, o, index);
    alone = alone != NULL ? alone : rec_item_from_end(r, o, index);
    if (alone != NULL) {
        *method = (DynOperand){0};
        *result = PyObject_GetItem(o.real, index.real);
        return *result != NULL ? alone : NULL;
    }
    bool known = rec_resolve_both(r, o, index);
    DynVal *v = NULL;
    *method = known ? rec_type_method(r, o, "__getitem__") : (DynOperand){0};
    o = rec_contents(o);
    if (method->v != NULL || (known && rec_missing_item(r, o, index, result, &v))) {
        return v;
    }
    *result = PyObject_GetItem(o.real, index.real);
    if (*result == NULL && known && fails_for_sure(r, o, index)) {
        rec_known_error(r, NULL);
        return NULL;
    }
    v = *result && known ? rec_subscr(r, o, index, *result) : NULL;
    if (*result != NULL && PyErr_Occurred()) { /* a rule failed inside: the operation itself was fine */
        PyErr_Clear();
    }
    return v;
}

Step rec_BINARY_SUBSCR(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand args[2] = {operand(f, 2), operand(f, 1)}, method;
    PyObject *result = NULL;
    DynVal *v = rec_subscript(r, args[0], args[1], &method, &result);
    if (method.v != NULL) {
        RecCall c = {.callable = method, .args = args, .npos = 2};
        return rec_finish_call(r, f, &c, 2);
    }
    return rec_commit(r, f, 2, result, v);
}

/* A special method that gives nothing. */
static Step call_and_drop(DynRec *r, RecFrame *f, DynOperand method, DynOperand *args, uint32_t n, uint32_t npop) {
    RecCall c = {.callable = method, .args = args, .npos = n};
    Step s = rec_finish_call(r, f, &c, npop);
    if (s == STEP_NEXT || s == STEP_BREAK) {
        f->ssp -= s == STEP_NEXT;
        rec_drop(f, 1);
    }
    return s;
}

/* After o[index] = value ran: 0 known, 1 a break. */
int rec_item_stored(DynRec *r, DynOperand o, DynOperand index, DynOperand value) {
    if (o.v->kind == DV_ARRAY) {
        int status = dyn_np_store_subscr(r, o, index, value) < 0;
        PyErr_Clear();
        return status;
    }
    if (o.v->kind == DV_ATTR) {
        return dyn_np_flat_store(r, o, index, value) < 0;
    }
    return rec_store_item(r, o, index, value) < 0;
}

/* The container, and what is stored where that becomes part of the graph, are looked at. */
static bool resolve_stored(DynRec *r, DynOperand o, DynOperand value) {
    return dyn_rec_resolve(r, o.v, o.real) == 0 && (!rec_is_array_or_flat(o.v) || dyn_rec_resolve(r, value.v, value.real) == 0);
}

Step rec_STORE_SUBSCR(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand value = operand(f, 3), o = operand(f, 2), index = operand(f, 1);
    bool known = rec_resolve_both(r, o, index) && resolve_stored(r, o, value);
    DynOperand method = known ? rec_special(r, o, "__setitem__") : (DynOperand){0};
    if (method.v != NULL) {
        DynOperand args[3] = {o, index, value};
        return call_and_drop(r, f, method, args, 3, 3);
    }
    o = rec_contents(o);
    int status = PyObject_SetItem(o.real, index.real, value.real);
    if (status == 0) {
        status = known ? rec_item_stored(r, o, index, value) : 1;
    }
    return rec_commit_none(r, f, 3, status);
}

Step rec_DELETE_SUBSCR(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand o = operand(f, 2), index = operand(f, 1);
    bool known = rec_resolve_both(r, o, index);
    DynOperand method = known ? rec_special(r, o, "__delitem__") : (DynOperand){0};
    if (method.v != NULL) {
        DynOperand args[2] = {o, index};
        return call_and_drop(r, f, method, args, 2, 2);
    }
    o = rec_contents(o);
    int status = PyObject_DelItem(o.real, index.real);
    r->why = DYN_R_SIDE_EFFECT;
    if (status == 0) {
        status = known && rec_delete_item(r, o, index) == 0 ? 0 : 1;
    }
    return rec_commit_none(r, f, 2, status);
}

/* A slice operand made of the two values on top of the stack: for the instructions that never build the slice object. */
static PyObject *top_slice(DynRec *r, RecFrame *f, DynVal **v) {
    PyObject *s = PySlice_New(*real_top(f, 2), *real_top(f, 1), NULL);
    *v = rec_new_slice(r, DV_SLICE, *shadow_top(f, 2), *shadow_top(f, 1), dyn_rec_const(r, Py_None));
    return s;
}

Step rec_BINARY_SLICE(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynVal *index;
    DynOperand o = operand(f, 3);
    PyObject *slice = top_slice(r, f, &index);
    bool known = index != NULL && dyn_rec_resolve(r, o.v, o.real) == 0;
    DynOperand method = known && slice != NULL ? rec_type_method(r, o, "__getitem__") : (DynOperand){0};
    if (method.v != NULL) {
        DynOperand args[2] = {o, {index, slice}};
        RecCall c = {.callable = method, .args = args, .npos = 2};
        Step s = rec_finish_call(r, f, &c, 3);
        Py_DECREF(slice);
        return s;
    }
    PyObject *result = slice ? PyObject_GetItem(o.real, slice) : NULL;
    DynVal *v = result && known ? rec_subscr(r, o, (DynOperand){index, slice}, result) : NULL;
    if (result != NULL && PyErr_Occurred()) {
        PyErr_Clear();
    }
    Py_XDECREF(slice);
    return rec_commit(r, f, 3, result, v);
}

Step rec_STORE_SLICE(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynVal *index;
    DynOperand value = operand(f, 4), o = operand(f, 3);
    PyObject *slice = top_slice(r, f, &index);
    bool known = index != NULL && resolve_stored(r, o, value);
    int status = slice ? PyObject_SetItem(o.real, slice, value.real) : -1;
    if (status == 0) {
        status = known ? rec_item_stored(r, o, (DynOperand){index, slice}, value) : 1;
    }
    Py_XDECREF(slice);
    return rec_commit_none(r, f, 4, status);
}
