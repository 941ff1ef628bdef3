/* rec_protocol.c: what operators and builtins ask of instances of user's classes: __add__ and its like, comparisons, __len__,
 * __bool__, __contains__, __setitem__, __enter__. The functions are looked up as CPython does and recorded into.
 *
 * Called by the handlers before they run an operation for real. An operation that may take several calls is sealed: an array
 * operation in it that leaves the graph leaves it before the whole of it. */
#include "tracer/record/rec_segment.h"
#include "tracer/numpy/rec_types.h"

/* The Python function that the type of an instance has for a special method, guarded. v NULL: none. */
DynOperand rec_special(DynRec *r, DynOperand o, const char *name) {
    DynOperand none = {0};
    if (!rec_is_instance(o)) {
        return none;
    }
    PyObject *f = dyn_cpy_lookup_named(Py_TYPE(o.real), name);
    return f == NULL || !PyFunction_Check(f) || rec_guard_class(r, Py_TYPE(o.real), NULL) < 0
               ? none
               : (DynOperand){dyn_rec_const(r, f), f};
}

/* The instance's class has something else than a Python function for it: None, a builtin's method, an object that is called. */
static bool has_other(DynOperand o, const char *name) {
    PyObject *f = rec_is_instance(o) ? dyn_cpy_lookup_named(Py_TYPE(o.real), name) : NULL;
    return f != NULL && !PyFunction_Check(f);
}

/* Is the running instruction there for this very operation: not a builtin's, or an iterator's. */
static bool is_own_operation(const DynRec *r, DynOperand a, DynOperand b) {
    const RecFrame *f = r->top;
    uint32_t n = b.v == NULL ? 1 : 2;
    if (r->taking != NULL || rec_is_call(&f->code->v.at[f->pc]) || f->sp < f->nslots + n) {
        return false;
    }
    return f->real[f->sp - n] == a.real && (n == 1 || f->real[f->sp - 1] == b.real);
}

static DynVal *call_special(DynRec *r, DynOperand f, DynOperand a, DynOperand b, PyObject **result) {
    DynOperand args[2] = {a, b};
    RecCall c = {.callable = f, .args = DYN_NEW_N(&r->arena, DynOperand, 2), .npos = b.v == NULL ? 1 : 2};
    if (c.args == NULL) {
        PyErr_NoMemory();
        *result = NULL;
        return NULL;
    }
    memcpy(c.args, args, sizeof args);
    return rec_call_function(r, &c, result);
}

/* ---- operators of two operands */

typedef struct Try { /* one method that is asked, until one doesn't give NotImplemented */
    DynOperand f, a, b;
} Try;

static bool first_of(DynRec *r, const Try *tries, int n, PyObject **result, DynVal **v) {
    bool known = true;
    for (int i = 0; i < n; i++) {
        if (known) {
            *v = call_special(r, tries[i].f, tries[i].a, tries[i].b, result);
        } else { /* shadows don't show what the one before did */
            *result = PyObject_CallFunctionObjArgs(tries[i].f.real, tries[i].a.real, tries[i].b.real, NULL);
        }
        known = known && *v != NULL;
        if (*result == NULL || *result != Py_NotImplemented) {
            *v = known ? *v : NULL;
            return true;
        }
        Py_CLEAR(*result);
    }
    *v = NULL;
    return false;
}

static const char *const operator_names[13] = {"add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
                                               "or",  "pow", "rshift",   "sub",    "truediv", "xor"};

static const char *const operator_signs[13] = {"+", "&", "//", "<<", "@", "*", "%", "|", "** or pow()", ">>", "-", "/", "^"};

/* Every method that there is gave NotImplemented. They are not asked again: the exception is made here. */
static PyObject *unsupported(int nb, bool inplace, DynOperand a, DynOperand b) {
    const char *sign = operator_signs[nb];
    char in[8];
    snprintf(in, sizeof in, "%.*s=", (int)strcspn(sign, " "), sign);
    sign = inplace ? in : sign;
    PyErr_Format(PyExc_TypeError, "unsupported operand type(s) for %s: '%.100s' and '%.100s'", sign, Py_TYPE(a.real)->tp_name,
                 Py_TYPE(b.real)->tp_name);
    return NULL;
}

/* The same of a comparison: what object says. */
static PyObject *compared_by_object(int cmp, DynOperand a, DynOperand b) {
    static const char *const signs[6] = {"<", "<=", "==", "!=", ">", ">="};
    if (cmp == Py_EQ || cmp == Py_NE) {
        return PyBool_FromLong((a.real == b.real) == (cmp == Py_EQ));
    }
    PyErr_Format(PyExc_TypeError, "'%s' not supported between instances of '%.100s' and '%.100s'", signs[cmp],
                 Py_TYPE(a.real)->tp_name, Py_TYPE(b.real)->tp_name);
    return NULL;
}

const char *rec_operator_name(int nb) { return operator_names[nb]; }

static bool strict_subclass(DynOperand sub, DynOperand base) {
    return Py_TYPE(sub.real) != Py_TYPE(base.real) && PyType_IsSubtype(Py_TYPE(sub.real), Py_TYPE(base.real));
}

/* An operand whose own operators answer NotImplemented to an instance of a Python class that has no builtin base. */
static bool gives_way(DynOperand o, DynOperand instance) {
    PyTypeObject *const types[] = {Py_TYPE(Py_None), &PyLong_Type, &PyFloat_Type, &PyBool_Type,
                                   &PyTuple_Type,    &PyList_Type, &PyDict_Type,  &PyUnicode_Type};
    return rec_has_type_of(o.real, types, DYN_COUNTOF(types)) && rec_plain_layout(Py_TYPE(instance.real));
}

/* The special method of an object, as an attribute of it. New reference; NULL without an exception: it has none. */
static PyObject *bound_special(PyObject *o, const char *name) {
    PyObject *found = dyn_cpy_lookup_named(Py_TYPE(o), name);
    descrgetfunc get = found == NULL ? NULL : Py_TYPE(found)->tp_descr_get;
    return get == NULL ? Py_XNewRef(found) : get(found, o, (PyObject *)Py_TYPE(o));
}

/* A sequence's own + and *, which are tried when the methods gave NotImplemented. */
static bool joins(int nb, DynOperand o) {
    const PySequenceMethods *s = Py_TYPE(o.real)->tp_as_sequence;
    bool sequence = PyList_Check(o.real) || PyTuple_Check(o.real) || PyUnicode_Check(o.real);
    if ((nb == 0 || nb == 5) && sequence) {
        return true;
    }
    return nb == 5 && s != NULL && s->sq_repeat != NULL;
}

/* Nothing of the instance a took the operation: the right operand, an array or a number of another kind, is asked for real. NULL
 * without an exception: nor did it. */
static PyObject *ask_other(const char *reflected, DynOperand a, DynOperand b) {
    PyObject *f = bound_special(b.real, reflected), *result = f == NULL ? NULL : PyObject_CallOneArg(f, a.real);
    Py_XDECREF(f);
    if (result == Py_NotImplemented) {
        Py_CLEAR(result);
    }
    return result;
}

bool rec_operator(DynRec *r, int nb, bool inplace, DynOperand a, DynOperand b, PyObject **result, DynVal **v) {
    bool ia = rec_is_instance(a), ib = rec_is_instance(b);
    if (!ia && !ib) {
        return false;
    }
    bool formats = nb == 6 && PyUnicode_CheckExact(a.real);
    if (!ia && (!gives_way(a, b) || formats)) {
        return false;
    }
    char plain[24], reflected[24], in[24];
    snprintf(plain, sizeof plain, "__%s__", operator_names[nb]);
    snprintf(reflected, sizeof reflected, "__r%s__", operator_names[nb]);
    snprintf(in, sizeof in, "__i%s__", operator_names[nb]);
    if ((inplace && has_other(a, in)) || has_other(a, plain) || has_other(b, reflected)) {
        return false;
    }
    if (inplace && !ia && dyn_cpy_lookup_named(Py_TYPE(a.real), in) != NULL) { /* a dict's |= takes any mapping */
        return false;
    }
    if (joins(nb, a) || (nb == 5 && joins(nb, b))) { /* what is added to is asked alone */
        return false;
    }
    Try tries[3];
    int n = 0;
    DynOperand i = inplace ? rec_special(r, a, in) : (DynOperand){0}, p = rec_special(r, a, plain);
    DynOperand q = Py_TYPE(a.real) == Py_TYPE(b.real) ? (DynOperand){0} : rec_special(r, b, reflected);
    if (i.v == NULL && p.v == NULL && q.v == NULL) {
        return false;
    }
    if (i.v != NULL) {
        tries[n++] = (Try){i, a, b};
    }
    bool below = q.v != NULL && ia && strict_subclass(b, a);
    bool first = below && q.real != rec_special(r, a, reflected).real;
    if (first) {
        tries[n++] = (Try){q, b, a};
    }
    if (p.v != NULL) {
        tries[n++] = (Try){p, a, b};
    }
    if (q.v != NULL && !first) {
        tries[n++] = (Try){q, b, a};
    }
    RecSeal seal = rec_seal(r);
    if (n == 1 && is_own_operation(r, a, b)) {
        rec_asks(r->top, tries[0].f.real, a.v);
    }
    bool done = first_of(r, tries, n, result, v);
    rec_unseal(r, seal);
    if (!done && ia && !ib && !gives_way(b, a)) {
        *result = ask_other(reflected, a, b);
        done = *result != NULL || PyErr_Occurred() != NULL;
    }
    if (!done) {
        *result = unsupported(nb, inplace, a, b);
    }
    return true;
}

static const char *const compare_names[6] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
static const int swapped[6] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};

/* Does the instance's class leave this comparison to object: identity, or not comparable? */
static bool by_object(DynRec *r, DynOperand o, int cmp) {
    PyObject *f = dyn_cpy_lookup_named(Py_TYPE(o.real), compare_names[cmp]);
    return f == dyn_cpy_lookup_named(&PyBaseObject_Type, compare_names[cmp]) && rec_guard_class(r, Py_TYPE(o.real), NULL) == 0;
}

/* Is the comparison of an instance neither a function that can be called nor object's own? */
static bool compares_otherwise(DynRec *r, bool instance, DynOperand function, DynOperand o, int cmp) {
    return instance && function.v == NULL && !by_object(r, o, cmp);
}

bool rec_comparison(DynRec *r, int cmp, DynOperand a, DynOperand b, PyObject **result, DynVal **v) {
    bool ia = rec_is_instance(a), ib = rec_is_instance(b), invert = false;
    if (!ia && (!ib || !gives_way(a, b))) {
        return false;
    }
    if (!ib && !gives_way(b, a)) {
        return false;
    }
    bool object_differs = cmp == Py_NE && (!ia || by_object(r, a, Py_NE));
    if (object_differs && (!ib || by_object(r, b, Py_NE))) { /* not (a == b) */
        invert = true;
        cmp = Py_EQ;
    }
    DynOperand f = rec_special(r, a, compare_names[cmp]), g = rec_special(r, b, compare_names[swapped[cmp]]);
    if (compares_otherwise(r, ia, f, a, cmp) || compares_otherwise(r, ib, g, b, swapped[cmp])) {
        return false;
    }
    bool asks = compares_otherwise(r, ia, f, a, Py_EQ) || compares_otherwise(r, ib, g, b, Py_EQ);
    if (cmp == Py_NE && asks) { /* object's != asks the class's == */
        return false;
    }
    Try tries[2];
    int n = 0;
    bool reverse_first = g.v != NULL && ia && strict_subclass(b, a);
    if (reverse_first) {
        tries[n++] = (Try){g, b, a};
    }
    if (f.v != NULL) {
        tries[n++] = (Try){f, a, b};
    }
    if (g.v != NULL && !reverse_first) {
        tries[n++] = (Try){g, b, a};
    }
    RecSeal seal = rec_seal(r);
    if (n == 1 && !invert && is_own_operation(r, a, b)) {
        rec_asks(r->top, tries[0].f.real, a.v);
    }
    bool done = n > 0 && first_of(r, tries, n, result, v);
    rec_unseal(r, seal);
    if (!done) {
        *result = compared_by_object(invert ? Py_NE : cmp, a, b);
        int same = *result != NULL && n == 0 && cmp == Py_EQ ? rec_identity(r, a, b) : -1;
        *v = same >= 0 ? dyn_rec_const(r, *result) : NULL;
        return true;
    }
    if (invert && *result != NULL) {
        int truth = *v != NULL ? rec_truth(r, *v, *result) : -1, real = PyObject_IsTrue(*result);
        Py_SETREF(*result, real < 0 ? NULL : PyBool_FromLong(!real));
        *v = truth >= 0 && *result != NULL ? dyn_rec_const(r, *result) : NULL;
    }
    return true;
}

bool rec_unary_operator(DynRec *r, const char *name, DynOperand a, PyObject **result, DynVal **v) {
    DynOperand f = rec_special(r, a, name);
    if (f.v == NULL) {
        return false;
    }
    if (is_own_operation(r, a, (DynOperand){0})) {
        rec_asks(r->top, f.real, NULL);
    }
    *v = call_special(r, f, a, (DynOperand){0}, result);
    return true;
}

/* ---- len, bool, in */

/* What len() makes of it: a new reference, or NULL with CPython's exception. Takes the answer. */
static PyObject *length_of(PyObject *answer) {
    PyObject *index = answer == NULL ? NULL : PyNumber_Index(answer);
    Py_XDECREF(answer);
    if (index == NULL) {
        return NULL;
    }
    bool negative = PyObject_RichCompareBool(index, Py_False, Py_LT) == 1;
    if (negative) {
        PyErr_SetString(PyExc_ValueError, "__len__() should return >= 0");
    }
    Py_ssize_t n = negative ? -1 : PyNumber_AsSsize_t(index, PyExc_OverflowError);
    Py_DECREF(index);
    return n == -1 && PyErr_Occurred() ? NULL : PyLong_FromSsize_t(n);
}

/* … at every call. */
static bool is_positive(DynRec *r, DynVal *v) {
    DynSyms *t = &r->cap->syms;
    uint32_t zero = dyn_sym_int(t, 0);
    return zero != DYN_NONE && dyn_rec_assume(r, dyn_sym_op(t, DYN_S_GE, rec_sym_of(v), zero, DYN_NONE)) == 0;
}

bool rec_length(DynRec *r, DynOperand o, PyObject **result, DynVal **v) {
    if (!rec_unary_operator(r, "__len__", o, result, v)) {
        return false;
    }
    bool number = *v != NULL && *result != NULL && PyLong_CheckExact(*result);
    bool plain = number && dyn_rec_resolve(r, *v, *result) == 0 && (*v)->kind == DV_SYM;
    *result = length_of(*result);
    *v = plain && *result != NULL && is_positive(r, *v) ? *v : NULL;
    return true;
}

/* The truth of an instance whose class says something of it: 1 or 0 with *known, -1 with an exception, -2: nothing ran. */
int rec_instance_truth(DynRec *r, DynOperand o, bool *known) {
    PyObject *result = NULL;
    DynVal *v = NULL;
    *known = false;
    bool asked = rec_unary_operator(r, "__bool__", o, &result, &v);
    if (!asked && (has_other(o, "__bool__") || !rec_length(r, o, &result, &v))) {
        return -2;
    }
    if (result == NULL) {
        return -1;
    }
    if (asked && !PyBool_Check(result)) {
        PyErr_Format(PyExc_TypeError, "__bool__ should return bool, returned %s", Py_TYPE(result)->tp_name);
        Py_DECREF(result);
        return -1;
    }
    *known = v != NULL && rec_truth(r, v, result) >= 0;
    int truth = PyObject_IsTrue(result);
    Py_DECREF(result);
    return truth;
}

bool rec_membership(DynRec *r, DynOperand item, DynOperand in, PyObject **result, DynVal **v) {
    DynOperand f = rec_special(r, in, "__contains__");
    if (f.v == NULL) {
        return false;
    }
    PyObject *answer = NULL;
    if (is_own_operation(r, item, in)) {
        rec_asks(r->top, f.real, NULL);
    }
    DynVal *shadow = call_special(r, f, in, item, &answer);
    int known = answer != NULL && shadow != NULL ? rec_truth(r, shadow, answer) : -1;
    int truth = answer == NULL ? -1 : rec_real_truth(known, answer);
    Py_XDECREF(answer);
    *result = truth < 0 ? NULL : PyBool_FromLong(truth);
    *v = known >= 0 && *result != NULL ? dyn_rec_const(r, *result) : NULL;
    return true;
}

/* ---- with */

static bool has_special(PyObject *o, const char *name) { return dyn_cpy_lookup_named(Py_TYPE(o), name) != NULL; }

/* A manager of which nothing is known is entered for real: a graph break, and another one at its end. */
static Step enter_opaque(DynRec *r, RecFrame *f, PyObject *manager) {
    if (!rec_may_break(r, f) || !has_special(manager, "__enter__") || !has_special(manager, "__exit__")) {
        return step_bail(r, DYN_R_UNSUPPORTED_OPCODE, "with statement"); /* CPython says what is wrong with it */
    }
    PyObject *enter = bound_special(manager, "__enter__"), *leave = enter ? bound_special(manager, "__exit__") : NULL, *entered;
    if (leave == NULL) {
        Py_XDECREF(enter);
        return STEP_ERROR;
    }
    r->why = DYN_R_OPAQUE_CALL;
    r->detail = "__enter__";
    put_exit(f, leave);
    Py_DECREF(manager);
    entered = PyObject_CallNoArgs(enter);
    Py_DECREF(enter);
    if (entered == NULL) {
        return STEP_ERROR;
    }
    push_real(f, entered);
    return STEP_BREAK;
}

/* The manager's __exit__, bound, and what __enter__ gave take its place. */
Step rec_enter(DynRec *r, RecFrame *f) {
    DynOperand o = operand(f, 1), enter, leave;
    PyObject *entered = NULL, *exit;
    bool known = dyn_rec_resolve(r, o.v, o.real) == 0;
    enter = known ? rec_special(r, o, "__enter__") : (DynOperand){0};
    leave = known ? rec_special(r, o, "__exit__") : (DynOperand){0};
    if (enter.v == NULL || leave.v == NULL) {
        return enter_opaque(r, f, o.real);
    }
    DynVal *bound = rec_new_method(r, leave.v, o.v), *null = rec_new(r, DV_NULL), *v;
    exit = bound == NULL || null == NULL ? NULL : PyMethod_New(leave.real, o.real);
    if (exit == NULL) {
        PyErr_Clear();
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    rec_asks(f, enter.real, bound);
    v = call_special(r, enter, o, (DynOperand){0}, &entered);
    if (entered == NULL) {
        Py_DECREF(exit);
        return STEP_ERROR;
    }
    if (v != NULL && rec_snapshot_new_nodes(r) < 0) {
        v = NULL;
    }
    put_exit(f, exit);
    push_real(f, entered);
    Py_DECREF(o.real);
    if (v == NULL) {
        return STEP_BREAK;
    }
    f->shadow[f->ssp - 1] = bound;
    if (dyn_with_keeps_two()) {
        push_shadow(f, null);
    }
    push_shadow(f, v);
    return STEP_NEXT;
}

/* ---- membership */

int rec_member_of_set(DynRec *r, DynOperand key, DynOperand set) {
    bool object = set.v->kind == DV_SOURCE || set.v->kind == DV_OBJECT;
    bool unchanged = object && set.v->source != DYN_NONE && !set.v->touched;
    bool came_in = unchanged && PyAnySet_CheckExact(set.real);
    int has = came_in && rec_plain_key(key.real) ? PySet_Contains(set.real, key.real) : -1;
    bool burnt = has >= 0 && dyn_rec_resolve(r, key.v, key.real) == 0 && dyn_rec_burn(r, key.v, key.real) == 0;
    bool known =
        burnt && rec_saw(r, set.real, set.v) == 0 && rec_guard(r, DYN_GUARD_MEMBER, set.v->source, DYN_NONE, has, key.real) == 0;
    PyErr_Clear();
    return known ? has : -1;
}
