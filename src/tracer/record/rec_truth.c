/* rec_truth.c: the truth of a value where Python asks for it: known under guards, checked in the graph, or not to be had. How is
 * a column of shadow.def.
 *
 * Called by branches (rec_flow.c) and by rules that ask for a truth themselves (bool, all, any, not …). */
#include "tracer/record/rec_segment.h"

/* The truth of a value that the graph computes: a call of bool(), and the check that it says the same at every call. Where it
 * doesn't, the graph is left there, and CPython goes the other way. */
static int late_truth(DynRec *r, DynVal *v, PyObject *real) {
    PyObject *truth = PyObject_IsTrue(real) ? Py_True : Py_False;
    DynOperand o = {v, real};
    DynVal *s = dyn_np_extern(r, (PyObject *)&PyBool_Type, "bool", &o, 1, NULL, truth);
    return s == NULL || dyn_rec_expect(r, rec_sym_of(s)) < 0 ? -1 : truth == Py_True;
}

/* Does straight code from there on end in an exception. */
static bool raises(const DynCode *c, uint32_t pc) {
    for (uint32_t i = pc; i < c->v.n && i < pc + 60; i++) {
        const DynInstr *in = &c->v.at[i];
        if (in->op == DYN_I_RAISE_VARARGS) {
            return true;
        }
        if (dyn_is_conditional(in) || dyn_flow(in) == DYN_FLOW_JUMP || dyn_flow(in) == DYN_FLOW_RETURN) {
            return false;
        }
    }
    return false;
}

/* Is the truth of data, which the running instruction asks for, better checked in the graph than a graph break: where nobody goes
 * the other way but to raise, and where there can be no break. */
static bool is_check(DynRec *r, bool truth) {
    RecFrame *f = r->top;
    const DynInstr *in = &f->code->v.at[f->pc];
    uint32_t pc = dyn_is_branch(in) ? f->pc : f->pc + 1; /* 3.13 has an instruction of its own for the truth */
    if (pc >= f->code->v.n || !dyn_is_branch(in = &f->code->v.at[pc]) || (!rec_may_break(r, f) && !r->derives)) {
        return !r->derives;
    }
    bool taken = (in->op == DYN_I_POP_JUMP_IF_TRUE || in->op == DYN_I_JUMP_IF_TRUE_OR_POP) == truth;
    return raises(f->code, taken ? pc + 1 : in->target);
}

/* ---- the column `truth`: 1 or 0: known under guards; -1: not, and why is set */

static int truth_unknown(DynRec *r, DynVal *v, PyObject *real) {
    (void)v, (void)real;
    r->why = DYN_R_UNSUPPORTED_VALUE;
    return -1;
}

static int truth_always(DynRec *r, DynVal *v, PyObject *real) {
    (void)r, (void)v, (void)real;
    return 1;
}

static int truth_of_number(DynRec *r, DynVal *v, PyObject *real) {
    return dyn_rec_expect(r, rec_sym_of(v)) < 0 ? -1 : PyObject_IsTrue(real);
}

static int truth_of_container(DynRec *r, DynVal *v, PyObject *real) {
    (void)r, (void)real;
    return v->n > 0;
}

static int truth_of_view(DynRec *r, DynVal *v, PyObject *real) {
    (void)r, (void)real;
    return v->view.dict->n > 0;
}

static int truth_of_range(DynRec *r, DynVal *v, PyObject *real) {
    Py_ssize_t n = PyObject_Size(real);
    return dyn_rec_burn(r, v, real) < 0 ? -1 : n > 0;
}

static int truth_of_constant(DynRec *r, DynVal *v, PyObject *real) {
    bool number = rec_is_exact_number(real) || PyArray_CheckScalar(real);
    bool value = number || rec_is_text(real) || real == Py_None;
    return value || PyTuple_CheckExact(real) || rec_is_fixed(real) ? PyObject_IsTrue(real) : truth_unknown(r, v, real);
}

/* Neither __bool__ nor __len__: instances are true. */
static bool has_no_truth(const PyTypeObject *type) {
    bool truth = type->tp_as_number != NULL && type->tp_as_number->nb_bool != NULL;
    bool length = type->tp_as_sequence != NULL && type->tp_as_sequence->sq_length != NULL;
    bool size = type->tp_as_mapping != NULL && type->tp_as_mapping->mp_length != NULL;
    return !truth && !length && !size;
}

static int truth_of_object(DynRec *r, DynVal *v, PyObject *real) {
    if (v->contents != NULL) { /* a dict, whose class says nothing else */
        return v->contents->n > 0;
    }
    if (!has_no_truth(Py_TYPE(real))) {
        return truth_unknown(r, v, real);
    }
    return rec_guard_class(r, Py_TYPE(real), NULL) < 0 ? -1 : 1;
}

static int truth_of_array(DynRec *r, DynVal *v, PyObject *real) {
    bool several = PyArray_Check(real) && PyArray_NDIM((PyArrayObject *)real) > 0; /* more than one element: CPython raises */
    if (!several && rec_may_guess(r, rec_node_of(v)) && late_truth(r, v, real) >= 0) {
        r->cap->guesses = true;
        return PyObject_IsTrue(real);
    }
    if (!several && rec_burn_node(r, rec_node_of(v)) == 0) {
        return PyObject_IsTrue(real);
    }
    if (!several && is_check(r, PyObject_IsTrue(real))) {
        return late_truth(r, v, real);
    }
    r->why = DYN_R_DATA_DEPENDENT;
    return -1;
}

static int (*const truth_as[DV_COUNT])(DynRec *r, DynVal *v, PyObject *real) = {
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) \
    [DV_##kind] = truth,
#include "tracer/record/shadow.def"
#undef SHADOW
};

int rec_truth(DynRec *r, DynVal *v, PyObject *real) {
    return dyn_rec_resolve(r, v, real) < 0 ? -1 : truth_as[v->kind](r, v, real);
}
