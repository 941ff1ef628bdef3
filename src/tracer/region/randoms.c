/* randoms.c: random numbers, drawn from generators that the loop has in variables, or that a module's functions are bound to.
 * Called by the other files of this folder. A draw is an effect. */
#include "base/cpy_region.h"
#include "tracer/region/plan.h"
#include <opcode.h>

bool plan_is_rng(PyObject *o) {
    uint8_t which;
    void *function, *state;
    return dyn_region_rng(o, &which, &function, &state);
}

bool plan_of_rng(Plan *p, PyObject *o, PlanValue *v) {
    uint8_t which;
    void *function, *state;
    if (!dyn_region_rng(o, &which, &function, &state)) {
        return false;
    }
    *v = plan_value(DYN_RK_RNG, DYN_NONE);
    v->v.n = which;
    v->v.nregs = 3;
    for (int k = 0; k < 3; k++) {
        v->v.regs[k] = dyn_region_reg(p->r, 'P');
        if (v->v.regs[k] == DYN_NONE) {
            plan_stop(p, DYN_R_NO_MEMORY);
            return false;
        }
    }
    return true;
}

/* A double from 0 on, below 1. */
static uint32_t drawn_reg(Plan *p, PlanValue self) {
    plan_settle_doubts(p);
    return plan_emit_or(p, DYN_RO_DRAW, self.v.regs[1], self.v.regs[2], DYN_NONE, DYN_R_NO_MEMORY);
}

static Went drawn(Plan *p, PlanValue out, uint32_t slots) {
    p->s.n -= slots;
    plan_push(p, out);
    plan_effect(p, plan_frame(p)->at + 1);
    return WENT_ON;
}

static Went draw(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    (void)args;
    (void)n;
    return drawn(p, plan_value(DYN_RK_FLOAT, drawn_reg(p, self)), slots);
}

/* An int from `first` on, below first + width. */
static Went draw_int(Plan *p, PlanValue self, PlanValue first, PlanValue width, uint32_t slots) {
    plan_settle_doubts(p);
    uint32_t from = plan_reg(p, &first), n = plan_reg(p, &width);
    plan_emit_or(p, DYN_RO_IADD, from, n, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    uint32_t reg = plan_emit_or(p, DYN_RO_BELOW, self.v.regs[0], n, DYN_NONE, DYN_R_EXCEPTION);
    return drawn(p, plan_value(DYN_RK_INT, plan_emit(p, DYN_RO_IADDW, from, reg, DYN_NONE)), slots);
}

static bool are_ints(Plan *p, const PlanValue *args, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (args[i].v.kind != DYN_RK_INT) {
            plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a bound of a random number that is no int");
            return false;
        }
    }
    return true;
}

static Went randbelow(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    return are_ints(p, args, n) ? draw_int(p, self, plan_int(0), args[0], slots) : WENT_NOWHERE;
}

static Went randrange(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    PlanValue width;
    if (!are_ints(p, args, n)) {
        return WENT_NOWHERE;
    }
    if (n == 1) {
        return draw_int(p, self, plan_int(0), args[0], slots);
    }
    return plan_binary(p, NB_SUBTRACT, args[1], args[0], &width) ? draw_int(p, self, args[0], width, slots) : WENT_NOWHERE;
}

static Went randint(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    PlanValue bounds[2] = {args[0], args[1]};
    bool ints = are_ints(p, args, n) && plan_binary(p, NB_ADD, args[1], plan_int(1), &bounds[1]);
    return ints ? randrange(p, self, bounds, 2, slots) : WENT_NOWHERE;
}

/* As random.py has it: a + (b - a) * random(). */
static Went uniform(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    PlanValue span;
    (void)n;
    if (!plan_is_python_number(&args[0]) || !plan_is_python_number(&args[1])) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a bound of a random number that is no number of Python's");
    }
    if (!plan_binary(p, NB_SUBTRACT, args[1], args[0], &span)) {
        return WENT_NOWHERE;
    }
    uint32_t low, width;
    plan_double(p, args[0], &low);
    plan_double(p, span, &width);
    uint32_t u = plan_emit(p, DYN_RO_DMUL, width, drawn_reg(p, self), DYN_NONE);
    return drawn(p, plan_value(DYN_RK_FLOAT, plan_emit(p, DYN_RO_DADD, low, u, DYN_NONE)), slots);
}

/* Numbers of Python's as doubles, and those that are the default of the others. */
static bool doubles(Plan *p, const PlanValue *args, uint32_t n, uint32_t *reg, const double *otherwise, uint32_t most) {
    for (uint32_t i = 0; i < most; i++) {
        PlanValue v = i < n ? args[i] : plan_float(otherwise[i]);
        if (!plan_is_python_number(&v)) {
            plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a parameter of random numbers that is no number of Python's");
            return false;
        }
        plan_double(p, v, &reg[i]);
    }
    plan_settle_doubts(p);
    return true;
}

static Went gauss(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    const double otherwise[] = {0.0, 1.0};
    uint32_t reg[2];
    if (!doubles(p, args, n, reg, otherwise, 2)) {
        return WENT_NOWHERE;
    }
    uint32_t drawn_one = plan_emit_or(p, DYN_RO_GAUSS, self.v.regs[0], reg[0], reg[1], DYN_R_UNSUPPORTED_VALUE);
    return drawn(p, plan_value(DYN_RK_FLOAT, drawn_one), slots);
}

static Went normalvariate(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    const double otherwise[] = {0.0, 1.0};
    uint32_t reg[2];
    if (!doubles(p, args, n, reg, otherwise, 2)) {
        return WENT_NOWHERE;
    }
    return drawn(p, plan_value(DYN_RK_FLOAT, plan_emit(p, DYN_RO_NORMAL, self.v.regs[0], reg[0], reg[1])), slots);
}

static Went expovariate(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    uint32_t reg;
    if (!doubles(p, args, n, &reg, NULL, 1)) {
        return WENT_NOWHERE;
    }
    plan_leave_unless(p, plan_emit(p, DYN_RO_DNE, reg, plan_dconst(p, 0.0), DYN_NONE), DYN_R_EXCEPTION);
    return drawn(p, plan_value(DYN_RK_FLOAT, plan_emit(p, DYN_RO_EXPO, self.v.regs[0], reg, DYN_NONE)), slots);
}

static Went shuffle(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    (void)n;
    if (args[0].v.kind != DYN_RK_LIST || args[0].v.flags & DYN_RF_TUPLE) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "something else than a list is shuffled");
    }
    plan_settle_doubts(p);
    plan_emit_or(p, DYN_RO_SHUFFLE, self.v.regs[0], args[0].v.regs[0], DYN_NONE, DYN_R_NO_MEMORY);
    return drawn(p, plan_const(p, Py_None), slots);
}

#define OF(which) (1u << DYN_RNG_##which)
static const struct Method {
    const char *name;
    Went (*handler)(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots);
    uint32_t least, most, of;
    char result; /* of one without a handler: called as it is */
} methods[] = {{"random", draw, 0, 0, OF(PYTHON) | OF(STATE) | OF(GENERATOR)},
               {"random_sample", draw, 0, 0, OF(STATE)},
               {"rand", draw, 0, 0, OF(STATE)},
               {"_randbelow", randbelow, 1, 1, OF(PYTHON)},
               {"randrange", randrange, 1, 2, OF(PYTHON)},
               {"randint", randint, 2, 2, OF(PYTHON)},
               {"uniform", uniform, 2, 2, OF(PYTHON)},
               {"gauss", gauss, 0, 2, OF(PYTHON)},
               {"normalvariate", normalvariate, 0, 2, OF(PYTHON)},
               {"expovariate", expovariate, 1, 1, OF(PYTHON)},
               {"shuffle", shuffle, 1, 1, OF(PYTHON)},
               {"uniform", NULL, 0, 2, OF(STATE) | OF(GENERATOR), 'D'},
               {"normal", NULL, 0, 2, OF(STATE) | OF(GENERATOR), 'D'},
               {"standard_normal", NULL, 0, 0, OF(STATE) | OF(GENERATOR), 'D'},
               {"randn", NULL, 0, 0, OF(STATE), 'D'},
               {"exponential", NULL, 0, 1, OF(STATE) | OF(GENERATOR), 'D'},
               {"standard_exponential", NULL, 0, 0, OF(STATE) | OF(GENERATOR), 'D'},
               {"poisson", NULL, 0, 1, OF(STATE) | OF(GENERATOR), 'I'},
               {"binomial", NULL, 2, 2, OF(STATE) | OF(GENERATOR), 'I'},
               {"randint", NULL, 1, 2, OF(STATE), 'I'},
               {"integers", NULL, 1, 2, OF(GENERATOR), 'N'}};

/* One that NumPy computes: it checks its arguments before it draws. */
static Went draw_as_it_is(Plan *p, PyObject *method, char result, PlanValue self, const PlanValue *args, uint32_t n,
                          uint32_t slots) {
    PlanValue out;
    plan_settle_doubts(p);
    return plan_call_boxed_method(p, method, self, args, n, result, &out) ? drawn(p, out, slots) : WENT_NOWHERE;
}

static const struct Method *method_named(uint8_t which, const char *name) {
    for (size_t i = 0; i < DYN_COUNTOF(methods); i++) {
        if (strcmp(methods[i].name, name) == 0 && methods[i].of >> which & 1) {
            return &methods[i];
        }
    }
    return NULL;
}

PyObject *plan_rng_method(const PlanValue *self, const char *name) {
    PyTypeObject *t = method_named(self->v.n, name) == NULL ? NULL : dyn_region_rng_type(self->v.n);
    return t == NULL ? NULL : dyn_cpy_lookup_named(t, name);
}

bool plan_bound_rng(Plan *p, PyObject *method, PyObject **function, PlanValue *self) {
    bool c_code = PyCFunction_CheckExact(method);
    PyObject *o = PyMethod_Check(method) ? PyMethod_GET_SELF(method) : c_code ? PyCFunction_GET_SELF(method) : NULL;
    if (o == NULL || PyModule_Check(o) || !plan_is_rng(o)) {
        return false;
    }
    DynRegionFact *f = plan_fact(p, (DynRegionFact){.value = o, .object = true});
    if (f != NULL && f->extra == DYN_NONE) {
        PlanValue v;
        if (!plan_of_rng(p, o, &v)) {
            return false;
        }
        f->extra = plan_extra(p, &v);
    }
    *function =
        c_code ? dyn_cpy_lookup_named(Py_TYPE(o), ((PyCFunctionObject *)method)->m_ml->ml_name) : PyMethod_GET_FUNCTION(method);
    *self = f == NULL ? plan_value(DYN_RK_NULL, DYN_NONE) : (PlanValue){.v = p->extras.at[f->extra]};
    return f != NULL && *function != NULL;
}

Went plan_call_rng(Plan *p, PyObject *method, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    PyTypeObject *t = dyn_region_rng_type(self.v.n);
    for (size_t i = 0; i < DYN_COUNTOF(methods) && t != NULL; i++) {
        const struct Method *m = &methods[i];
        if (m->of >> self.v.n & 1 && dyn_cpy_lookup_named(t, m->name) == method && n >= m->least && n <= m->most) {
            return m->handler != NULL ? m->handler(p, self, args, n, slots)
                                      : draw_as_it_is(p, method, m->result, self, args, n, slots);
        }
    }
    return plan_unknown(p, DYN_R_OPAQUE_CALL, "a method of a generator of random numbers that loops in native code don't know");
}
