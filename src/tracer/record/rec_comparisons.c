/* rec_comparisons.c: handlers for comparisons, `is` and `in`. Each runs the real operation and gives the truth's shadow.
 *
 * Called from record.c's table, and by whoever compares two values on the way (rec_sort.c, rec_match.c …). Owns nothing. */
#include "base/torch.h"
#include "tracer/record/rec_state.h"

/* ---- comparisons */

/* Two containers of plain values. */
static DynVal *compare_burnt(DynRec *r, DynOperand a, DynOperand b, PyObject *result) {
    bool plain = PyBool_Check(result) && rec_burn_both(r, a, b);
    return plain ? dyn_rec_const(r, result) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "comparison of containers");
}

/* Members of enums are compared by identity, or as the ints that they are. */
static bool plain_comparison(PyObject *o) {
    richcmpfunc compare = Py_TYPE(o)->tp_richcompare;
    bool identity = compare == PyBaseObject_Type.tp_richcompare;
    bool value = compare == PyLong_Type.tp_richcompare || compare == PyUnicode_Type.tp_richcompare;
    return (identity || value) && rec_is_enum_member(o);
}

static bool foldable_number(DynRec *r, DynOperand o) {
    return rec_is_const_npscalar(o.v, o.real) || (o.v->kind == DV_SYM && dyn_sym_is_const(&r->cap->syms, rec_sym_of(o.v)));
}

/* Constants of which comparing one with any other runs no code of the user's. */
static bool is_compared_plainly(PyObject *o) { return PyArray_DescrCheck(o) || PyType_Check(o) || dyn_torch_is_constant(o); }

static bool compares_constants(DynOperand a, DynOperand b) {
    if (!rec_both_are(a, b, DV_CONST)) {
        return false;
    }
    return (rec_is_basic(a.real) && rec_is_basic(b.real)) || is_compared_plainly(a.real) || PyArray_DescrCheck(b.real);
}

/* o is a member of an enum that compares plainly with the other, and its class stays so. */
static bool compares_members(DynRec *r, PyObject *o, PyObject *other, bool member_too) {
    bool plain = plain_comparison(o) && (rec_is_basic(other) || (member_too && plain_comparison(other)));
    return plain && rec_guard_whole_class(r, Py_TYPE(o)) == 0;
}

static bool is_listed_set(const DynVal *v) { return v->kind == DV_VIEW || v->kind == DV_SET; }

/* Two containers whose comparison looks at all that is in them: sets, ranges, dicts and their views. */
static bool are_compared_whole(DynOperand a, DynOperand b) {
    bool sets = PyAnySet_CheckExact(a.real) && PyAnySet_CheckExact(b.real);
    bool ranges = PyRange_Check(a.real) && PyRange_Check(b.real);
    bool dicts = PyDict_CheckExact(a.real) && PyDict_CheckExact(b.real);
    bool listed = is_listed_set(a.v) && is_listed_set(b.v);
    return sets || ranges || dicts || listed;
}

/* A NumPy scalar and a number, both constants. */
static bool is_folded_comparison(DynRec *r, DynOperand scalar, DynOperand other) {
    return rec_is_const_npscalar(scalar.v, scalar.real) && foldable_number(r, other);
}

static bool is_number_and_constant(DynOperand number, DynOperand constant) {
    return number.v->kind == DV_SYM && constant.v->kind == DV_CONST && rec_is_basic(constant.real);
}

static bool are_compared_by_items(DynOperand a, DynOperand b) {
    bool lists = PyList_CheckExact(a.real) && PyList_CheckExact(b.real);
    return lists || (rec_compares_as_tuple(a) && rec_compares_as_tuple(b));
}

DynVal *rec_compare_values(DynRec *r, int cmp, DynOperand a, DynOperand b, PyObject *result) {
    static const DynSymOp ops[] = {DYN_S_LT, DYN_S_LE, DYN_S_EQ, DYN_S_NE, DYN_S_GT, DYN_S_GE};
    if (rec_is_array(a.v) || rec_is_array(b.v)) {
        return dyn_np_compare(r, cmp, a, b, result);
    }
    if (rec_both_are(a, b, DV_SYM)) {
        uint32_t s = dyn_sym_op(&r->cap->syms, ops[cmp], rec_sym_of(a.v), rec_sym_of(b.v), DYN_NONE);
        return rec_sym_agrees(r, s, result) ? dyn_rec_sym(r, s) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "comparison");
    }
    if (PyBool_Check(result) && compares_constants(a, b)) {
        return dyn_rec_const(r, result);
    }
    if (compares_members(r, a.real, b.real, true) || compares_members(r, b.real, a.real, false) || are_compared_whole(a, b)) {
        return compare_burnt(r, a, b, result);
    }
    if (is_folded_comparison(r, a, b) || is_folded_comparison(r, b, a)) {
        return dyn_rec_const(r, result); /* a comparison gives no warning */
    }
    if (rec_is_const_npscalar(a.v, a.real) || rec_is_const_npscalar(b.v, b.real)) {
        return dyn_np_compare(r, cmp, a, b, result);
    }
    bool mixed = is_number_and_constant(a, b) || is_number_and_constant(b, a), equality = cmp == Py_EQ || cmp == Py_NE;
    if (mixed && equality && PyBool_Check(result)) {
        return rec_burn_both(r, a, b) ? dyn_rec_const(r, result) : NULL;
    }
    if (are_compared_by_items(a, b)) {
        return rec_compare_sequences(r, cmp, a, b, result);
    }
    return rec_no_operator(r);
}

DynVal *rec_compare(DynRec *r, int cmp, DynOperand a, DynOperand b, PyObject **result) {
    bool known = rec_resolve_both(r, a, b);
    DynVal *v = NULL;
    if (!known || !rec_comparison(r, cmp, a, b, result, &v)) {
        *result = PyObject_RichCompare(a.real, b.real, cmp);
        v = *result && known ? rec_compare_values(r, cmp, a, b, *result) : NULL;
    }
    return v;
}

Step rec_COMPARE_OP(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *result = NULL;
    const DynCapture *segment = r->cap;
    DynVal *v = rec_compare(r, in->sub, operand(f, 2), operand(f, 1), &result);
    if (result == NULL) {
        return STEP_ERROR;
    }
    if (in->arg) { /* a branch follows, which wants a bool */
        bool array = v != NULL && (rec_is_array(v) || rec_is_const_npscalar(v, result));
        int known_truth = array ? rec_truth(r, v, result) : 0;
        PyErr_Clear();
        v = v != NULL && !array && !PyBool_Check(result) ? NULL : v;
        int truth = PyObject_IsTrue(result);
        Py_SETREF(result, truth < 0 ? NULL : PyBool_FromLong(truth));
        if (array && result != NULL) {
            v = known_truth < 0 ? NULL : dyn_rec_const(r, result);
        }
        if (array && v == NULL && r->cap == segment) { /* CPython compares anew, so the graph doesn't */
            rec_rollback(r, &f->instr);
        }
    }
    return rec_commit(r, f, 2, result, v);
}

static bool same_wherever_met(PyObject *o) {
    return o == Py_None || PyBool_Check(o) || rec_is_fixed(o); /* Ellipsis and NotImplemented are fixed, too */
}

/* Of objects that came in, or that the entry owns. */
static int guard_sources(DynRec *r, bool same, uint32_t a, uint32_t b) {
    DynGuardKind kind = same ? DYN_GUARD_SAME : DYN_GUARD_DIFFERENT;
    return rec_guard(r, kind, a, b, 0, NULL) < 0 ? -1 : same;
}

static int guarded_identity(DynRec *r, DynOperand a, DynOperand b) {
    DynSources *t = &dyn_rec_capture(r)->sources;
    DynOperand both[2] = {a, b};
    uint32_t sources[2];
    bool same = a.real == b.real;
    for (int i = 0; i < 2; i++) {
        sources[i] = both[i].v->source != DYN_NONE ? both[i].v->source
                                                   : dyn_source_intern(t, DYN_SRC_CONST, DYN_NONE, 0, both[i].real, NULL);
        if (sources[i] == DYN_NONE) {
            return -1;
        }
    }
    return guard_sources(r, same, sources[0], sources[1]);
}

/* Constants that came in are guarded by what they are equal to: which objects they are takes a guard of its own. */
static int constants_are(DynRec *r, DynOperand a, DynOperand b) {
    bool owned = a.v->source == DYN_NONE && b.v->source == DYN_NONE;
    bool known = owned || same_wherever_met(a.real) || same_wherever_met(b.real);
    return known ? a.real == b.real : guarded_identity(r, a, b);
}

static bool is_callable_made(const DynVal *v) { return v->kind == DV_FUNC || v->kind == DV_PARTIAL; }

/* Found at a source, and not made here. */
static bool is_found(const DynVal *v) { return v->source != DYN_NONE && !v->fresh; }

/* Two arrays of which the first is the recording's own. */
static bool are_other_arrays(const DynVal *a, const DynVal *b) {
    bool own = a->fresh || a->source == DYN_NONE;
    return own && rec_is_array((DynVal *)a) && rec_is_array((DynVal *)b) && rec_node_of(a) != rec_node_of(b);
}

/* Every instruction that makes one of these makes another object. */
static bool is_made_anew(const DynVal *v) {
    bool container = v->kind == DV_LIST || v->kind == DV_DICT || v->kind == DV_SET;
    return container || v->kind == DV_DEQUE || v->kind == DV_OBJECT || is_callable_made(v);
}

/* Whether two shadows are of one object. 1, 0: known under guards; -1 not. */
int rec_identity(DynRec *r, DynOperand a, DynOperand b) {
    if (!rec_resolve_both(r, a, b) || rec_one_is(a, b, DV_OPAQUE)) {
        return -1;
    }
    bool same = a.real == b.real;
    if (a.v == b.v) {
        return 1;
    }
    if (Py_TYPE(a.real) != Py_TYPE(b.real)) {
        return 0; /* both types are guarded or made here */
    }
    if (rec_both_are(a, b, DV_SYM) && PyBool_Check(a.real)) {
        return rec_burn_both(r, a, b) ? same : -1;
    }
    if (rec_both_are(a, b, DV_CONST)) {
        return constants_are(r, a, b);
    }
    if (rec_one_is(a, b, DV_PYFUNC) && rec_one_is(a, b, DV_CONST)) {
        return guarded_identity(r, a, b);
    }
    if (is_found(a.v) && is_found(b.v)) {
        return guard_sources(r, same, a.v->source, b.v->source);
    }
    bool both_fresh = a.v->fresh && b.v->fresh;
    if (are_other_arrays(a.v, b.v) || (both_fresh && !same && is_made_anew(a.v))) {
        return 0;
    }
    return a.v->fresh != b.v->fresh ? 0 : -1;
}

Step rec_IS_OP(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand a = operand(f, 2), b = operand(f, 1);
    int same = rec_identity(r, a, b);
    PyObject *result = PyBool_FromLong((a.real == b.real) != (in->arg != 0));
    return rec_commit(r, f, 2, result, same == (a.real == b.real) ? dyn_rec_const(r, result) : NULL);
}

/* ---- the column `contains`: will guards say whether a is in b, before that is asked. Both are resolved. */

static bool contains_unknown(DynRec *r, DynOperand b, DynOperand a) {
    (void)r, (void)b, (void)a;
    return false;
}

/* Looking for it in a container runs no code of the user's, if the container's items are like it. */
static bool is_plain_item(DynOperand a) {
    bool value = a.v->kind == DV_SYM || a.v->kind == DV_CONST;
    return value && (rec_is_basic(a.real) || rec_is_fixed(a.real));
}

static bool set_contains(DynRec *r, DynOperand b, DynOperand a) {
    return rec_has_member(r, a, b) >= 0 || (is_plain_item(a) && dyn_rec_burn(r, a.v, a.real) == 0);
}

static bool members_contain(DynRec *r, DynOperand b, DynOperand a) { return rec_has_member(r, a, b) >= 0; }

static bool sequence_contains(DynRec *r, DynOperand b, DynOperand a) { return is_plain_item(a) && rec_burn_both(r, b, a); }

static bool constant_contains(DynRec *r, DynOperand b, DynOperand a) {
    bool listed = PyTuple_CheckExact(b.real) || PyAnySet_CheckExact(b.real) || PyList_CheckExact(b.real);
    return (listed || rec_is_text(b.real)) && sequence_contains(r, b, a);
}

/* Of a dict, or of a view of its keys. */
static bool keys_contain(DynRec *r, DynOperand b, DynOperand a) {
    (void)b;
    return rec_burn_key(r, a);
}

static bool view_contains(DynRec *r, DynOperand b, DynOperand a) {
    return b.v->view.shows == DYN_VIEW_KEYS && keys_contain(r, b, a);
}

static bool range_contains(DynRec *r, DynOperand b, DynOperand a) { return PyLong_CheckExact(a.real) && rec_burn_both(r, a, b); }

/* An instance that is a dict and came in. */
static bool object_contains(DynRec *r, DynOperand b, DynOperand a) {
    bool missing = false;
    return rec_is_held(b) && (rec_held_key(r, b, a, &missing) != NULL || missing);
}

static bool (*const contains_as[DV_COUNT])(DynRec *r, DynOperand b, DynOperand a) = {
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) \
    [DV_##kind] = contains,
#include "tracer/record/shadow.def"
#undef SHADOW
};

/* Whether a user's function, or a set that came in and wasn't looked at, says that a is in b. */
static bool contains_by_others(DynRec *r, bool negate, DynOperand a, DynOperand b, bool known, PyObject **out, DynVal **v) {
    if (!known || !rec_membership(r, a, b, out, v)) {
        return false;
    }
    if (*out != NULL && negate) {
        Py_SETREF(*out, Py_NewRef(*out == Py_True ? Py_False : Py_True));
        *v = *v != NULL ? dyn_rec_const(r, *out) : NULL;
    }
    return true;
}

/* A member of an enum, and the class of one. */
static bool is_member_of_class(DynOperand a, DynOperand b) {
    return rec_is_enum_class(b) && a.v->kind == DV_CONST && rec_is_enum_member(a.real);
}

/* a in b, or a not in b. */
DynVal *rec_contains(DynRec *r, bool negate, DynOperand a, DynOperand b, PyObject **out) {
    int has = rec_member_of_set(r, a, b);
    if (has >= 0) {
        *out = PyBool_FromLong(has != negate);
        return dyn_rec_const(r, *out);
    }
    bool resolved = rec_resolve_both(r, a, b);
    DynVal *v = NULL;
    if (contains_by_others(r, negate, a, b, resolved, out, &v)) {
        return v;
    }
    b = rec_contents(b);
    bool known = resolved && contains_as[b.v->kind](r, b, a);
    int found = PySequence_Contains(b.real, a.real);
    if (found < 0) {
        return NULL;
    }
    PyObject *result = *out = PyBool_FromLong(found != negate);
    if (b.v->kind == DV_ARRAY) {
        v = dyn_np_contains(r, b, a, found ? Py_True : Py_False);
        bool negated = v != NULL && negate;
        return negated ? dyn_rec_sym(r, dyn_sym_op(&r->cap->syms, DYN_S_NOT, rec_sym_of(v), DYN_NONE, DYN_NONE)) : v;
    }
    if (known) {
        v = dyn_rec_const(r, result);
    } else if (resolved && is_member_of_class(a, b)) {
        v = rec_guard_whole_class(r, (PyTypeObject *)b.real) < 0 ? NULL : dyn_rec_const(r, result);
    } else if (resolved) {
        v = rec_enum_operator(r, "contains", a, b, result);
    }
    return v ? v : rec_no_operator(r);
}

Step rec_CONTAINS_OP(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *result = NULL;
    DynVal *v = rec_contains(r, in->arg != 0, operand(f, 2), operand(f, 1), &result);
    return rec_commit(r, f, 2, result, v);
}
