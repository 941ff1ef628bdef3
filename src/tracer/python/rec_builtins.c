/* rec_builtins.c: builtins and math functions, as the recorder understands them: called for real, with a shadow for the result.
 *
 * Each function is the handler of rows of callables.def, asked by rec_callables.c with arguments that were looked at. */
#include "base/tensors.h"
#include "tracer/record/rec_callables.h"
#include "tracer/numpy/rec_types.h"

#define MOST_ROWS 16 /* of an array that zip or enumerate runs over */

static bool number(const RecCall *c, uint32_t i) { return c->args[i].v->kind == DV_SYM; }
static bool any_array(const RecCall *c) {
    for (uint32_t i = 0; i < c->npos; i++) {
        if (rec_is_array(c->args[i].v)) {
            return true;
        }
    }
    return false;
}
DynVal *rec_unknown_call(DynRec *r, const RecCall *c) {
    return rec_fail(r, any_array(c) ? DYN_R_DATA_DEPENDENT : DYN_R_OPAQUE_CALL, NULL);
}

/* Are the arguments n numbers, and nothing else? */
static bool only_numbers(const RecCall *c, uint32_t n) {
    bool only = c->nkw == 0 && c->npos == n;
    for (uint32_t i = 0; only && i < n; i++) {
        only = number(c, i);
    }
    return only;
}

/* The symbol's hint has to be the real result. */
static DynVal *checked(DynRec *r, uint32_t sym, PyObject *o) {
    if (sym == DYN_NONE || o == NULL) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "arithmetic on Python numbers");
    }
    bool same = rec_sym_agrees(r, sym, o);
    return same ? dyn_rec_sym(r, sym) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "arithmetic on Python numbers");
}

static uint32_t as_float(DynRec *r, uint32_t s) {
    return dyn_sym_at(&r->cap->syms, s)->type == DYN_T_FLOAT ? s
                                                             : dyn_sym_op(&r->cap->syms, DYN_S_TO_FLOAT, s, DYN_NONE, DYN_NONE);
}

/* math.*: arg is the symbol operator; arguments become floats first. */
DynVal *rec_on_math(DynRec *r, const RecCall *c, PyObject **result, int op) {
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    uint32_t arity = op == DYN_S_FPOW || op == DYN_S_ATAN2 || op == DYN_S_HYPOT ? 2 : 1;
    if (!only_numbers(c, arity)) {
        return rec_unknown_call(r, c);
    }
    bool keep = op == DYN_S_FLOOR || op == DYN_S_CEIL;
    uint32_t a = keep ? rec_sym_of(c->args[0].v) : as_float(r, rec_sym_of(c->args[0].v));
    uint32_t b = arity == 2 ? as_float(r, rec_sym_of(c->args[1].v)) : DYN_NONE;
    if (keep && dyn_sym_at(&r->cap->syms, a)->type != DYN_T_FLOAT) {
        return checked(r, a, *result);
    }
    if (a == DYN_NONE || (arity == 2 && b == DYN_NONE)) {
        return rec_unknown_call(r, c);
    }
    return checked(r, dyn_sym_op(&r->cap->syms, (DynSymOp)op, a, b, DYN_NONE), *result);
}

/* Is the container's length the same at every call, by what its shadow is? */
static bool has_one_length(const DynVal *v, PyObject *o) {
    static const uint8_t kinds[] = {DV_TUPLE, DV_LIST, DV_SET, DV_DEQUE, DV_VIEW, DV_MEMBERS};
    PyTypeObject *const types[] = {&PyBytes_Type,     &PyDictProxy_Type, &PySet_Type,
                                   &PyFrozenSet_Type, &PyUnicode_Type,   &PyTuple_Type};
    for (size_t i = 0; i < DYN_COUNTOF(kinds); i++) {
        if (v->kind == kinds[i]) {
            return true;
        }
    }
    if (v->kind == DV_OPAQUE) {
        return v->items != NULL;
    }
    return v->kind == DV_CONST && rec_has_type_of(o, types, DYN_COUNTOF(types));
}

DynVal *rec_on_len(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    DynVal *length;
    if (c->npos == 1 && c->nkw == 0 && rec_length(r, c->args[0], result, &length)) {
        return length;
    }
    *result = rec_call_real(c);
    if (*result == NULL || c->npos != 1) {
        return NULL;
    }
    DynVal *v = rec_contents(c->args[0]).v;
    if (v->kind == DV_ARRAY) {
        return checked(r, dyn_graph_node(&r->cap->graph, rec_node_of(v))->shape[0], *result);
    }
    if (rec_is_enum_class(c->args[0])) {
        return rec_guard_whole_class(r, (PyTypeObject *)c->args[0].real) < 0 ? NULL : dyn_rec_const(r, *result);
    }
    if (v->kind == DV_DICT) {
        return dyn_rec_const(r, *result);
    }
    if (v->kind == DV_RANGE) {
        return dyn_rec_burn(r, v, c->args[0].real) < 0 ? NULL : dyn_rec_const(r, *result);
    }
    return has_one_length(v, c->args[0].real) ? dyn_rec_const(r, *result) : rec_unknown_call(r, c);
}

DynVal *rec_on_range(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    uint32_t zero = dyn_sym_int(&r->cap->syms, 0), one = dyn_sym_int(&r->cap->syms, 1);
    for (uint32_t i = 0; i < c->npos; i++) {
        if (!number(c, i) || dyn_sym_at(&r->cap->syms, rec_sym_of(c->args[i].v))->type != DYN_T_INT) {
            return rec_unknown_call(r, c);
        }
    }
    DynVal *start = c->npos > 1 ? c->args[0].v : dyn_rec_sym(r, zero);
    DynVal *step = c->npos > 2 ? c->args[2].v : dyn_rec_sym(r, one);
    return rec_new_slice(r, DV_RANGE, start, c->args[c->npos > 1].v, step);
}

static bool is_quiet(PyObject *result) {
    return !PyArray_CheckScalar(result) || (PyArray_IsScalar(result, Floating) && rec_is_quiet_npscalar(result));
}

/* Can no warning have come with the call, so that it needn't be made again with the same values? NumPy's scalars warn; their ints
 * do where the result isn't what Python's ints give. */
static bool came_quietly(const RecCall *c, PyObject *result) {
    PyObject *ints[3] = {NULL};
    bool quiet = PyTuple_CheckExact(result) ? is_quiet(PyTuple_GET_ITEM(result, 0)) && is_quiet(PyTuple_GET_ITEM(result, 1))
                                            : is_quiet(result);
    bool few = !quiet && c->npos <= DYN_COUNTOF(ints) && c->nkw == 0;
    for (uint32_t i = 0; i < c->npos && few; i++) {
        ints[i] = PyNumber_Index(c->args[i].real);
        few = ints[i] != NULL;
    }
    PyObject *again = few ? PyObject_Vectorcall(c->callable.real, ints, c->npos, NULL) : NULL;
    quiet = quiet || (again != NULL && PyObject_RichCompareBool(again, result, Py_EQ) == 1);
    PyErr_Clear();
    Py_XDECREF(again);
    for (size_t i = 0; i < DYN_COUNTOF(ints); i++) {
        Py_XDECREF(ints[i]);
    }
    return quiet;
}

/* What a builtin asks of the object runs no code of the user's, which may answer otherwise at the next call. */
static bool runs_no_code(PyObject *o) {
    unsigned long flags = Py_TYPE(o)->tp_flags;
    bool immutable = !(flags & Py_TPFLAGS_HEAPTYPE) || (flags & Py_TPFLAGS_IMMUTABLETYPE);
    return immutable || rec_is_fact(o) || rec_shows_as_enum(o);
}

/* Functions of constants alone, without effects. */
static bool constant_args(DynRec *r, const RecCall *c) {
    for (uint32_t i = 0; i < c->npos + c->nkw; i++) {
        DynOperand o = c->args[i];
        bool constant = o.v->kind == DV_CONST && runs_no_code(o.real);
        if (!constant && !(o.v->kind == DV_SYM && dyn_sym_is_const(&r->cap->syms, rec_sym_of(o.v)))) {
            return false;
        }
    }
    return true;
}

/* The call raised, as it does at every call where what it was given is the same. */
static DynVal *failed_for(DynRec *r, bool fixed) {
    if (fixed) {
        rec_known_error(r, NULL);
    }
    return NULL;
}

/* int(), float(), bool(), abs(), round() of a number. */
DynVal *rec_on_convert(DynRec *r, const RecCall *c, PyObject **result, int op) {
    DynSyms *t = &r->cap->syms;
    DynVal *absolute;
    if (op == DYN_S_ABS && c->npos == 1 && rec_unary_operator(r, "__abs__", c->args[0], result, &absolute)) {
        return absolute;
    }
    bool of_arrays = op == DYN_S_ABS || op == DYN_S_ROUND, positional = c->nkw == 0 && c->npos > 0;
    if (of_arrays && positional && rec_is_array(c->args[0].v)) {
        const char *name = op == DYN_S_ABS ? "abs" : "round";
        *result = rec_call_real(c);
        return *result ? dyn_np_builtin(r, name, c->args, (int)c->npos, *result) : NULL;
    }
    if (c->npos == 1 && op == DYN_S_BOOL && !number(c, 0)) {
        int truth = rec_truth(r, c->args[0].v, c->args[0].real);
        PyErr_Clear();
        if (truth >= 0 || !rec_is_array(c->args[0].v)) {
            *result = rec_call_real(c);
            if (*result && truth >= 0) {
                return dyn_rec_const(r, *result);
            }
            return any_array(c) ? rec_unknown_call(r, c) : NULL;
        }
    }
    *result = rec_call_real(c);
    if (*result == NULL) {
        return failed_for(r, constant_args(r, c));
    }
    bool of_complex = c->npos == 1 && PyComplex_CheckExact(c->args[0].real) && c->args[0].v->kind != DV_CONST;
    if (op == DYN_S_ABS && of_complex) {
        return rec_complex_abs(r, c->args[0], *result);
    }
    bool one = c->npos == 1 && c->nkw == 0;
    bool both = c->npos == 2 && constant_args(r, c); /* int("10", 2), round(2.567, 1) */
    bool constant = (one && c->args[0].v->kind == DV_CONST) || both, array = one && rec_is_array(c->args[0].v);
    if (constant || (array && rec_burn_node(r, rec_node_of(c->args[0].v)) == 0)) {
        bool quiet = (op == DYN_S_ABS && PyArray_IsScalar(c->args[0].real, Floating)) || came_quietly(c, *result);
        return quiet ? rec_wrap_result(r, *result) : rec_unknown_call(r, c);
    }
    if (array && PyType_Check(c->callable.real)) {
        return dyn_np_extern(r, c->callable.real, ((PyTypeObject *)c->callable.real)->tp_name, c->args, 1, NULL, *result);
    }
    if (!only_numbers(c, 1)) {
        return rec_unknown_call(r, c);
    }
    uint32_t s = rec_sym_of(c->args[0].v);
    DynSymType type = (DynSymType)dyn_sym_at(t, s)->type;
    if ((op == DYN_S_TO_INT || op == DYN_S_ROUND) && type == DYN_T_INT) {
        return checked(r, s, *result);
    }
    if (op == DYN_S_TO_FLOAT) {
        return checked(r, as_float(r, s), *result);
    }
    if (type == DYN_T_BOOL && op != DYN_S_BOOL) {
        return dyn_rec_burn(r, c->args[0].v, c->args[0].real) < 0 ? NULL : dyn_rec_const(r, *result);
    }
    return checked(r, dyn_sym_op(t, (DynSymOp)op, s, DYN_NONE, DYN_NONE), *result);
}

static bool any_data(DynVal **items, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (items[i]->kind == DV_NPSCALAR) {
            return true;
        }
    }
    return false;
}

static PyObject *compared_item(const RecCall *c, uint32_t i) {
    return c->npos == 1 ? PySequence_Fast_GET_ITEM(c->args[0].real, i) : c->args[i].real;
}

/* Are all items numbers whose comparisons can be checks? Comparing them runs no code of the program. */
static bool all_compared(DynRec *r, const RecCall *c, DynVal **items, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (dyn_rec_resolve(r, items[i], compared_item(c, i)) < 0 ||
            (items[i]->kind != DV_NPSCALAR && items[i]->kind != DV_SYM)) {
            return false;
        }
    }
    return true;
}

/* min() or max() of items of which some are known only from the data: each comparison that the builtin makes becomes a check.
 * They are made here in the builtin's place, not behind its call, as NumPy's scalars may warn. */
static DynVal *data_extreme(DynRec *r, const RecCall *c, DynVal **items, uint32_t n, PyObject **result, int cmp) {
    DynOperand best = {items[0], compared_item(c, 0)};
    bool followed = true;
    for (uint32_t i = 1; i < n; i++) {
        DynOperand o = {items[i], compared_item(c, i)};
        PyObject *wins = PyObject_RichCompare(o.real, best.real, cmp);
        int truth = wins == NULL ? -1 : PyObject_IsTrue(wins);
        if (truth >= 0 && followed) {
            DynVal *v = rec_compare_values(r, cmp, o, best, wins);
            followed = v != NULL && rec_truth(r, v, wins) == truth;
            PyErr_Clear();
        }
        Py_XDECREF(wins);
        if (truth < 0) {
            return NULL;
        }
        best = truth ? o : best;
    }
    *result = Py_NewRef(best.real);
    return followed ? best.v : rec_unknown_call(r, c);
}

/* The items that min() or max() compares; those given one by one are put into `given`. False: they aren't known one by one. */
static bool compared_items(DynRec *r, const RecCall *c, DynVal ***items, uint32_t *n, DynVal *given[16]) {
    *n = c->npos;
    if (c->npos == 1) {
        return rec_is_tuple_or_list(c->args[0].real) && rec_items(r, c->args[0].v, c->args[0].real, items, n) == 0;
    }
    for (uint32_t i = 0; i < c->npos && c->npos <= 16; i++) {
        given[i] = c->args[i].v;
    }
    *items = given;
    return c->npos <= 16;
}

/* Of strings, tuples and the like, which are burnt in: the one that `best` is. NULL: they aren't all such. */
static DynVal *constant_extreme(DynRec *r, const RecCall *c, DynVal *const *items, uint32_t n, PyObject *best) {
    DynVal *v = NULL;
    for (uint32_t i = 0; i < n; i++) {
        PyObject *real = c->npos == 1 ? PySequence_Fast_GET_ITEM(c->args[0].real, i) : c->args[i].real;
        if (!rec_plain_key(real) || dyn_rec_burn(r, items[i], real) < 0) {
            return NULL;
        }
        v = v == NULL && real == best ? items[i] : v;
    }
    return v;
}

/* min() and max() of numbers, given one by one or in a tuple or list: op is MIN or MAX. */
DynVal *rec_on_extreme(DynRec *r, const RecCall *c, PyObject **result, int op) {
    DynVal **items, *given[16];
    uint32_t n = 0;
    bool fallback =
        c->npos == 1 && c->nkw == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, 0), "default") == 0;
    bool known = (c->nkw == 0 || fallback) && compared_items(r, c, &items, &n, given);
    if (known && n > 0 && any_data(items, n) && all_compared(r, c, items, n)) {
        return data_extreme(r, c, items, n, result, op == DYN_S_MIN ? Py_LT : Py_GT);
    }
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    if (!known || n == 0) {
        return known && fallback ? c->args[1].v : rec_unknown_call(r, c);
    }
    DynSyms *t = &r->cap->syms;
    uint32_t best = DYN_NONE;
    for (uint32_t i = 0; i < n; i++) {
        if (items[i]->kind == DV_SOURCE && c->npos == 1 &&
            dyn_rec_resolve(r, items[i], PySequence_Fast_GET_ITEM(c->args[0].real, i)) < 0) {
            return NULL;
        }
        if (items[i]->kind != DV_SYM) {
            DynVal *v = constant_extreme(r, c, items, n, *result);
            return v != NULL ? v : rec_unknown_call(r, c);
        }
        uint32_t s = rec_sym_of(items[i]);
        if (best != DYN_NONE && dyn_sym_at(t, s)->type != dyn_sym_at(t, best)->type) {
            /* the type of the result depends on which one wins: the outcome is guarded */
            uint32_t wins = dyn_sym_op(t, op == DYN_S_MIN ? DYN_S_LT : DYN_S_GT, s, best, DYN_NONE);
            if (dyn_rec_assume(r, wins) < 0) {
                return NULL;
            }
            best = dyn_sym_at(t, wins)->hint.i ? s : best;
            continue;
        }
        best = best == DYN_NONE ? s : dyn_sym_op(t, (DynSymOp)op, best, s, DYN_NONE);
        if (best == DYN_NONE) {
            return rec_unknown_call(r, c);
        }
    }
    return checked(r, best, *result);
}

DynVal *rec_on_isinstance(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    *result = rec_call_real(c);
    if (*result == NULL || c->npos != 2) {
        return NULL;
    }
    DynVal *v = c->args[0].v;
    bool heap = Py_TYPE(c->args[0].real)->tp_flags & Py_TPFLAGS_HEAPTYPE && !PyArray_CheckScalar(c->args[0].real);
    if (v->kind == DV_OPAQUE || dyn_rec_burn(r, c->args[1].v, c->args[1].real) < 0) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, NULL);
    }
    if (heap && v->kind != DV_CONST && rec_guard_class(r, Py_TYPE(c->args[0].real), NULL) < 0) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, NULL);
    }
    return dyn_rec_const(r, *result); /* the type is guarded or made here */
}

DynVal *rec_on_type(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    return c->npos == 1 && c->args[0].v->kind != DV_OPAQUE ? dyn_rec_const(r, *result) : rec_unknown_call(r, c);
}

/* tuple() and list() of something whose items are known. */
DynVal *rec_on_sequence(DynRec *r, const RecCall *c, PyObject **result, int kind) {
    DynVal **items = NULL;
    uint32_t n = 0;
    bool known = c->npos == 0 || (c->npos == 1 && rec_items(r, c->args[0].v, c->args[0].real, &items, &n) == 0);
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    if (!known || PySequence_Fast_GET_SIZE(*result) != (Py_ssize_t)n) {
        return rec_unknown_call(r, c);
    }
    return kind == DV_TUPLE && c->npos == 1 && *result == c->args[0].real ? c->args[0].v
                                                                          : dyn_rec_seq(r, (DynValKind)kind, n, items, *result);
}

/* id(parameter), which is burnt in; other objects are made anew, or move from call to call. */
DynVal *rec_on_id(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    bool known = c->npos == 1 && c->nkw == 0 && rec_is_parameter(c->args[0].real) && rec_burn_key(r, c->args[0]);
    *result = rec_call_real(c);
    return *result != NULL && known ? dyn_rec_const(r, *result) : rec_fail(r, DYN_R_OPAQUE_CALL, "id");
}

/* torch.Size(…): a tuple of ints, which takes tensors for ints, too. */
DynVal *rec_on_torch_size(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    DynVal *v = rec_on_sequence(r, c, result, DV_TUPLE);
    bool known = v != NULL && v->kind == DV_TUPLE;
    for (uint32_t i = 0; known && i < v->n; i++) {
        known = dyn_rec_resolve(r, v->items[i], PyTuple_GET_ITEM(*result, i)) == 0 && v->items[i]->kind == DV_SYM;
    }
    return *result == NULL || known ? v : rec_unknown_call(r, c);
}

DynVal *rec_on_dict(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    DynVal *v = dyn_rec_seq(r, DV_DICT, 0, NULL, NULL);
    bool known = v != NULL && rec_dict_fill(r, v, c, 0) == 0;
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    return known ? v : rec_unknown_call(r, c);
}

/* zip, enumerate, reversed: an iterator whose items are listed beforehand. It can be run through, not rebuilt. */
static DynVal *iterator_over(DynRec *r, uint32_t n, DynVal **items) {
    DynVal *list = dyn_rec_seq(r, DV_OPAQUE, n, items, NULL), *v = list ? rec_new(r, DV_ITER) : NULL;
    if (v != NULL) {
        v->iter.over = list;
    }
    return v;
}

/* The rows of an array, which are views of it. */
static int rows_now(DynRec *r, DynOperand a, uint32_t n, DynVal **items) {
    PyObject *real[MOST_ROWS] = {NULL};
    int status = rec_array_rows(r, a, n, items, real);
    PyErr_Clear();
    for (uint32_t i = 0; i < n; i++) {
        status = items[i] == NULL ? -1 : status;
        Py_XDECREF(real[i]);
    }
    return status;
}

/* What zip and enumerate take out of an argument. Numbers are read out of an array when the iterator gets there. */
static int items_or_rows(DynRec *r, DynOperand o, DynVal ***items, uint32_t *n) {
    if (rec_resolve_walked(r, o.v, o.real) < 0 || o.v->kind != DV_ARRAY) {
        return rec_items(r, o.v, o.real, items, n);
    }
    Py_ssize_t size = rec_count_rows(o.real);
    uint32_t want = size < 0 || size > MOST_ROWS ? DYN_NONE : dyn_sym_int(&r->cap->syms, size);
    if (want == DYN_NONE || dyn_rec_assume_equal(r, dyn_graph_node(&r->cap->graph, rec_node_of(o.v))->shape[0], want) < 0) {
        return -1;
    }
    if ((*items = DYN_NEW_N(&r->arena, DynVal *, size + 1)) == NULL || (o.v->real == NULL && rec_keep(r, o.real) < 0)) {
        return -1;
    }
    o.v->real = o.real;
    *n = (uint32_t)size;
    if (dyn_tensor_is(o.real) || PyArray_NDIM((PyArrayObject *)o.real) > 1) { /* rows of a tensor are tensors */
        return rows_now(r, o, *n, *items);
    }
    for (uint32_t i = 0; i < (uint32_t)size; i++) {
        DynVal *row = rec_new_fresh(r, DV_ROW);
        if (row == NULL) {
            return -1;
        }
        row->row.array = o.v;
        row->row.at = i;
        (*items)[i] = row;
    }
    return 0;
}

/* What zip, enumerate or reversed was called with, for whoever has to make it again. */
static DynVal *made_of(DynRec *r, DynVal *it, const RecCall *c, int which, int64_t start) {
    static PyTypeObject *const makers[] = {
        [REC_ZIP] = &PyZip_Type, [REC_ENUMERATE] = &PyEnum_Type, [REC_REVERSED] = &PyReversed_Type};
    bool enumerate = which == REC_ENUMERATE;
    uint32_t n = enumerate ? 2 : c->npos;
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, n + 1);
    if (items == NULL) {
        return it;
    }
    for (uint32_t i = 0; i < n; i++) {
        items[i] = enumerate && i == 1 ? dyn_rec_sym(r, dyn_sym_int(&r->cap->syms, start)) : c->args[i].v;
        if (items[i] == NULL) {
            return NULL;
        }
    }
    it->items = items;
    it->n = it->cap = n;
    it->iter.maker = (PyObject *)makers[which];
    it->state = rec_live_state(it);
    return it;
}

DynVal *rec_on_listed_iterator(DynRec *r, const RecCall *c, PyObject **result, int which) {
    DynVal **in[8], **out, *index[8];
    uint32_t n[8], least = UINT32_MAX, count = which == REC_ZIP ? c->npos : 1;
    int64_t start = 0;
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    if (c->nkw != 0 || c->npos < 1 || count > DYN_COUNTOF(in)) {
        return rec_unknown_call(r, c);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (which == REC_REVERSED ? rec_items(r, c->args[i].v, c->args[i].real, &in[i], &n[i]) < 0
                                  : items_or_rows(r, c->args[i], &in[i], &n[i]) < 0) {
            return rec_unknown_call(r, c);
        }
        least = n[i] < least ? n[i] : least;
    }
    if (which == REC_ENUMERATE && c->npos == 2) {
        if (!number(c, 1) || dyn_rec_burn(r, c->args[1].v, c->args[1].real) < 0) {
            return rec_unknown_call(r, c);
        }
        start = dyn_sym_at(&r->cap->syms, rec_sym_of(c->args[1].v))->hint.i;
    }
    if ((out = DYN_NEW_N(&r->arena, DynVal *, least + 1)) == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < least; i++) {
        if (which == REC_REVERSED) {
            out[i] = in[0][least - 1 - i];
            continue;
        }
        uint32_t width = count;
        for (uint32_t k = 0; k < count; k++) {
            index[which == REC_ENUMERATE ? k + 1 : k] = in[k][i];
        }
        if (which == REC_ENUMERATE) {
            index[0] = dyn_rec_sym(r, dyn_sym_int(&r->cap->syms, start + i));
            width = 2;
        }
        if (index[0] == NULL || (out[i] = dyn_rec_seq(r, DV_TUPLE, width, index, NULL)) == NULL) {
            return NULL;
        }
    }
    DynVal *it = iterator_over(r, least, out);
    return it == NULL ? it : made_of(r, it, c, which, start);
}

DynVal *rec_on_slice(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    *result = rec_call_real(c);
    DynVal *none = dyn_rec_const(r, Py_None);
    if (*result == NULL || none == NULL || c->npos < 1 || c->npos > 3) {
        return NULL;
    }
    DynVal *items[3] = {none, c->args[0].v, none};
    for (uint32_t i = 0; c->npos > 1 && i < c->npos; i++) {
        items[i] = c->args[i].v;
    }
    return rec_new_slice(r, DV_SLICE, items[0], items[1], items[2]);
}

/* The iterator itself, or what a new one runs over. NULL: it isn't known. */
static DynVal *iterated(DynRec *r, DynOperand o) {
    if (o.v == NULL || rec_is_iterator(o.v)) {
        return o.v;
    }
    return o.v->kind == DV_ARRAY ? NULL : rec_iterate(r, o.v, o.real);
}

DynVal *rec_on_iter(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    DynVal *v = iterated(r, c->npos == 1 ? c->args[0] : (DynOperand){0});
    *result = rec_call_real(c);
    if (*result == NULL || v == NULL) {
        return NULL;
    }
    return rec_is_iterator(v) ? v : rec_new_iter(r, v);
}

/* next(it) and next(it, default). */
DynVal *rec_on_next(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    DynVal *v;
    bool one_or_two = c->npos >= 1 && c->npos <= 2 && c->nkw == 0;
    if (!one_or_two || !rec_is_iterator(c->args[0].v)) {
        *result = rec_call_real(c);
        return *result ? rec_unknown_call(r, c) : NULL;
    }
    *result = rec_take_sent(r, c->args[0], (DynOperand){dyn_rec_const(r, Py_None), Py_None}, &v);
    if (*result != NULL) {
        return v;
    }
    if (PyErr_Occurred()) { /* with StopIteration too, where it has a value */
        bool ends = c->npos == 2 && PyErr_ExceptionMatches(PyExc_StopIteration);
        if (!ends) {
            return NULL;
        }
        PyErr_Clear();
    }
    if (c->npos == 2) {
        *result = Py_NewRef(c->args[1].real);
        return r->take_lost ? NULL : c->args[1].v;
    }
    PyErr_SetNone(PyExc_StopIteration);
    if (!r->take_lost) {
        rec_known_error(r, NULL);
    }
    return NULL;
}

/* A builtin container whose items are listed without running code. */
static bool is_builtin_container(PyObject *o) {
    PyTypeObject *const types[] = {&PyTuple_Type,   &PyList_Type,  &PySet_Type, &PyFrozenSet_Type,
                                   &PyUnicode_Type, &PyRange_Type, &PyDict_Type};
    return rec_has_type_of(o, types, DYN_COUNTOF(types));
}

/* set() and frozenset() of plain constants, burnt in. */
DynVal *rec_on_set(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    bool known = c->npos <= 1 && c->nkw == 0;
    if (known && c->npos == 1) {
        PyObject *o = c->args[0].real;
        known = is_builtin_container(o) && (c->args[0].v->kind == DV_DICT || dyn_rec_burn(r, c->args[0].v, o) == 0);
    }
    *result = rec_call_real(c);
    DynVal *v = *result && known ? rec_wrap_fresh(r, *result) : NULL;
    return v != NULL || *result == NULL ? v : rec_unknown_call(r, c);
}

/* sorted() of what is burnt in. */
DynVal *rec_on_sorted(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    DynOperand o = c->npos == 1 ? c->args[0] : (DynOperand){0};
    bool known = o.v != NULL && is_builtin_container(o.real);
    known = known && (o.v->kind == DV_DICT || dyn_rec_burn(r, o.v, o.real) == 0);
    for (uint32_t i = c->npos; known && i < c->npos + c->nkw; i++) {
        known = c->args[i].real == Py_None ||
                (c->args[i].v->kind == DV_SYM && dyn_rec_burn(r, c->args[i].v, c->args[i].real) == 0); /* reverse= */
    }
    DynVal **items = NULL, *v = NULL;
    uint32_t n = 0;
    bool listed = o.v != NULL && rec_is_tuple_or_list(o.real); /* else items are constants */
    PyObject *before = known && listed && rec_items(r, o.v, o.real, &items, &n) == 0 ? PySequence_List(o.real) : NULL;
    *result = rec_call_real(c);
    if (*result != NULL && known && !listed) {
        v = rec_wrap_fresh(r, *result);
    } else if (*result != NULL && before != NULL && PyList_GET_SIZE(before) == (Py_ssize_t)n) {
        items = rec_permuted(r, items, PySequence_Fast_ITEMS(before), n, *result);
        v = items ? dyn_rec_seq(r, DV_LIST, n, items, *result) : NULL;
    }
    Py_XDECREF(before);
    return v != NULL || *result == NULL ? v : rec_unknown_call(r, c);
}

/* all() and any() take items up to the one that decides. */
static DynVal *truths_of_iterator(DynRec *r, const RecCall *c, PyObject **result, int which) {
    PyObject *item;
    DynVal *v;
    bool known = true;
    *result = NULL;
    while (*result == NULL && (item = rec_take(r, c->args[0], &v)) != NULL) {
        known = known && v != NULL && rec_keep(r, item) == 0;
        int said = known ? rec_truth(r, v, item) : -1;
        known = said >= 0;
        PyErr_Clear();
        int truth = rec_real_truth(said, item);
        Py_DECREF(item);
        if (truth < 0) {
            return NULL;
        }
        *result = truth == (which == REC_ANY) ? PyBool_FromLong(truth) : NULL;
    }
    if (*result == NULL && !PyErr_Occurred()) {
        *result = PyBool_FromLong(which == REC_ALL);
    }
    if (*result == NULL) {
        return NULL;
    }
    return known && !r->take_lost ? dyn_rec_const(r, *result) : rec_take_failed(r, r->why, r->detail);
}

/* all() and any() of listed items whose truth is known. */
DynVal *rec_on_truths(DynRec *r, const RecCall *c, PyObject **result, int which) {
    DynVal **items;
    uint32_t n = 0;
    if (c->npos == 1 && rec_is_iterator(c->args[0].v)) {
        return truths_of_iterator(r, c, result, which);
    }
    bool listed = c->npos == 1 && rec_is_tuple_or_list(c->args[0].real);
    bool known = listed && rec_items(r, c->args[0].v, c->args[0].real, &items, &n) == 0;
    for (uint32_t i = 0; known && i < n; i++) {
        known = rec_truth(r, items[i], PySequence_Fast_GET_ITEM(c->args[0].real, i)) >= 0;
        PyErr_Clear();
    }
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    return known ? dyn_rec_const(r, *result) : rec_unknown_call(r, c);
}

DynVal *rec_on_of_constants(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    bool of_text = arg == REC_OF_TEXT && c->npos == 1 && c->nkw == 0;
    bool fixed = constant_args(r, c) || (of_text && rec_has_one_text(r, c->args[0]));
    *result = rec_call_real(c);
    if (*result == NULL) {
        return failed_for(r, fixed);
    }
    return fixed ? rec_wrap_result(r, *result) : rec_unknown_call(r, c);
}

/* divmod() and pow(): of arrays by NumPy's rules, of Python numbers by the operators that they are. */
DynVal *rec_on_arithmetic(DynRec *r, const RecCall *c, PyObject **result, int which) {
    bool fixed = constant_args(r, c), pair = c->npos == 2 && c->nkw == 0;
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    if (pair && any_array(c)) {
        return dyn_np_builtin(r, which == REC_POW ? "pow" : "divmod", c->args, 2, *result);
    }
    if (fixed) {
        return came_quietly(c, *result) ? rec_wrap_result(r, *result) : rec_unknown_call(r, c);
    }
    if (!only_numbers(c, 2)) {
        return rec_unknown_call(r, c);
    }
    if (which == REC_POW) {
        return rec_number_binary(r, REC_NB_POWER, c->args[0], c->args[1], *result);
    }
    DynVal *items[2] = {rec_number_binary(r, REC_NB_FLOOR_DIVIDE, c->args[0], c->args[1], PyTuple_GET_ITEM(*result, 0)),
                        rec_number_binary(r, REC_NB_REMAINDER, c->args[0], c->args[1], PyTuple_GET_ITEM(*result, 1))};
    return items[0] && items[1] ? dyn_rec_seq(r, DV_TUPLE, 2, items, *result) : NULL;
}

DynVal *rec_on_complex(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    bool fixed = constant_args(r, c);
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    return fixed ? rec_wrap_result(r, *result) : rec_complex_new(r, c, *result);
}
