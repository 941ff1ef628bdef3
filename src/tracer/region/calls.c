/* calls.c: calls of builtins and of the math module's functions, by identity, and of Python functions, which are followed in
 * place. Called by step.c. The table of callables is filled once, when the first loop is planned, and holds references for good.
 */
#include "ir/region_foreign.h"
#include "ir/region_strings.h"
#include "tracer/region/plan.h"
#include <opcode.h>

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

static bool all_numbers(Plan *p, const PlanValue *args, uint32_t n, uint32_t wanted) {
    for (uint32_t i = 0; i < n; i++) {
        if (!plan_is_number(&args[i])) {
            return no(p, "an argument that is no number");
        }
    }
    return n == wanted || no(p, "another number of arguments");
}

/* ---- builtins */

/* range(stop), range(start, stop), range(start, stop, step) */
static bool call_range(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (n < 1 || n > 3) {
        return no(p, "another number of arguments");
    }
    for (uint32_t i = 0; i < n; i++) {
        args[i] = plan_word_as_int(p, args[i]);
        if (!plan_is_integer(&args[i]) && args[i].v.kind != DYN_RK_BOOL) {
            return no(p, "an argument that is no int");
        }
    }
    PlanValue start = n > 1 ? args[0] : plan_int(0), stop = n > 1 ? args[1] : args[0], step = n > 2 ? args[2] : plan_int(1);
    bool by_one = step.known && step.number.i == 1;
    uint32_t from = plan_reg(p, &start), to = plan_reg(p, &stop), by = plan_reg(p, &step);
    *out = plan_value(DYN_RK_RANGE, from);
    out->v.n = by_one;
    out->v.nregs = 4;
    if (by_one) {
        uint32_t span = plan_emit_or(p, DYN_RO_ISUB, to, from, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
        out->v.regs[1] = plan_emit(p, DYN_RO_IMAX0, span, DYN_NONE, DYN_NONE);
    } else {
        out->v.regs[1] = plan_emit_or(p, DYN_RO_RANGELEN, from, to, by, DYN_R_UNSUPPORTED_VALUE);
    }
    out->v.regs[2] = by;
    out->v.regs[3] = to;
    return true;
}

static bool call_len(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (n != 1) {
        return no(p, "another number of arguments");
    }
    if (plan_is_array(&args[0]) || plan_is_column(&args[0])) {
        *out = plan_value(DYN_RK_INT, args[0].v.regs[2]);
    } else if (args[0].v.kind == DYN_RK_SLICED) {
        return plan_moved_length(p, &args[0], out);
    } else if (args[0].v.kind == DYN_RK_TUPLE) {
        *out = plan_int(args[0].v.n);
    } else if (args[0].v.kind == DYN_RK_TEXT) {
        *out = plan_value(DYN_RK_INT, args[0].v.regs[2]);
    } else if (args[0].v.kind == DYN_RK_CHAR) {
        *out = plan_int(1);
    } else if (args[0].v.kind == DYN_RK_LIST || args[0].v.kind == DYN_RK_DEQUE) {
        *out = plan_value(DYN_RK_INT, plan_list_size(p, &args[0]));
    } else if (args[0].v.kind == DYN_RK_DICT || args[0].v.kind == DYN_RK_SET) {
        *out = plan_value(DYN_RK_INT, plan_emit(p, DYN_RO_DICTLEN, args[0].v.regs[0], DYN_NONE, DYN_NONE));
    } else if (args[0].v.kind == DYN_RK_RANGE) {
        *out = plan_value(DYN_RK_INT, args[0].v.regs[1]);
    } else {
        return no(p, "the length of an object that loops in native code don't know");
    }
    return true;
}

/* enumerate(x), enumerate(x, start) */
static bool call_enumerate(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, 2);
    bool counts = n == 1 || (n == 2 && args[1].v.kind == DYN_RK_INT);
    if (!counts || items == NULL) {
        return no(p, "other arguments of enumerate");
    }
    if (!plan_iter(p, args[0], &items[1])) {
        return false;
    }
    items[0] = n == 2 ? args[1] : plan_int(0);
    items[0] = plan_value(DYN_RK_INT, plan_reg(p, &items[0]));
    *out = plan_value(DYN_RK_ENUM, DYN_NONE);
    out->v.n = 2;
    out->items = items;
    return true;
}

static bool call_zip(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, PLAN_ITEMS);
    if (n == 0 || n > PLAN_ITEMS || items == NULL) {
        return no(p, "another number of arguments");
    }
    for (uint32_t k = 0; k < n; k++) {
        if (!plan_iter(p, args[k], &items[k])) {
            return false;
        }
    }
    *out = plan_value(DYN_RK_ZIP, DYN_NONE);
    out->v.n = (uint8_t)n;
    out->items = items;
    return true;
}

static bool call_complex(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    return plan_call_complex(p, args, n, out);
}

static bool call_abs(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (n == 1 && args[0].v.kind == DYN_RK_COMPLEX) {
        *out = plan_complex_abs(p, &args[0]);
        return true;
    }
    if (n == 1 && plan_is_whole(&args[0])) {
        return plan_array_unary(p, DYN_RO_DABS, args[0], out);
    }
    if (!all_numbers(p, args, n, 1)) {
        return false;
    }
    *out = args[0];
    out->known = false;
    uint32_t reg = plan_reg(p, &args[0]);
    out->v.nregs = 1;
    if (args[0].v.kind == DYN_RK_NP && args[0].v.dtype == DYN_BOOL) {
        return no(p, "abs of np.bool_");
    }
    if (!plan_is_float(&args[0])) {
        if (args[0].v.kind == DYN_RK_NP && args[0].v.dtype != DYN_I64) {
            return no(p, "abs of a small integer");
        }
        out->v.kind = args[0].v.kind == DYN_RK_BOOL ? DYN_RK_INT : args[0].v.kind;
        out->v.regs[0] = plan_emit_or(p, DYN_RO_IABS, reg, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
    } else {
        bool single = args[0].v.kind == DYN_RK_NP && args[0].v.dtype == DYN_F32;
        out->v.regs[0] = plan_emit(p, single ? DYN_RO_SABS : DYN_RO_DABS, reg, DYN_NONE, DYN_NONE);
    }
    return true;
}

static bool call_float(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    uint32_t reg;
    PyObject *text = n == 1 ? plan_object(p, &args[0]) : NULL;
    if (text != NULL && PyUnicode_CheckExact(text)) { /* float("inf") */
        PyObject *o = PyFloat_FromString(text);
        if (o == NULL) {
            PyErr_Clear();
            return no(p, "a string that is no number");
        }
        *out = plan_float(PyFloat_AS_DOUBLE(o));
        Py_DECREF(o);
        return true;
    }
    if (n == 1 && plan_is_str(p, &args[0])) {
        return plan_text_to_float(p, args[0], out);
    }
    if ((n != 1 || !plan_is_word(&args[0])) && !all_numbers(p, args, n, 1)) {
        return false;
    }
    plan_double(p, args[0], &reg);
    *out = plan_value(DYN_RK_FLOAT, reg);
    return true;
}

/* int(x), and math.floor, ceil and trunc, and round(x): `arg` is what is done before a float is cut off. */
static bool call_int(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    uint32_t reg;
    args[0] = arg == DYN_RO_COUNT && n == 1 ? plan_word_as_int(p, args[0]) : args[0];
    if (!all_numbers(p, args, n, 1)) {
        return false;
    }
    if (plan_is_float(&args[0])) {
        plan_double(p, args[0], &reg);
        if (arg != DYN_RO_COUNT) {
            reg = plan_emit(p, (DynRegionOp)arg, reg, DYN_NONE, DYN_NONE);
        }
        reg = plan_emit_or(p, DYN_RO_D2I, reg, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
    } else if (arg != DYN_RO_COUNT && args[0].v.kind == DYN_RK_NP) {
        return no(p, "a function of a NumPy integer");
    } else {
        reg = plan_reg(p, &args[0]);
    }
    *out = args[0].known && !plan_is_float(&args[0]) ? plan_int(args[0].number.i) : plan_value(DYN_RK_INT, reg);
    return true;
}

/* The digit that a character is; of another one CPython raises, or knows what it is worth. */
static bool call_int_type(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    PlanValue code;
    bool is_char = n == 1 && plan_as_char(p, &args[0], &code);
    if (n > 0 && (!is_char || code.known) && plan_is_str(p, &args[0])) {
        return plan_text_to_int(p, args, n, out);
    }
    if (!is_char) {
        return call_int(p, arg, args, n, out);
    }
    uint32_t digit = plan_emit(p, DYN_RO_ISUBW, args[0].v.regs[0], plan_iconst(p, '0'), DYN_NONE);
    uint32_t low = plan_emit(p, DYN_RO_ILE, plan_iconst(p, 0), digit, DYN_NONE);
    uint32_t high = plan_emit(p, DYN_RO_ILE, digit, plan_iconst(p, 9), DYN_NONE);
    plan_leave_unless(p, plan_emit(p, DYN_RO_IAND, low, high, DYN_NONE), DYN_R_EXCEPTION);
    *out = plan_value(DYN_RK_INT, digit);
    return true;
}

static bool call_list(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    return n < 2 ? plan_list_of(p, n == 0 ? NULL : &args[0], out) : no(p, "another number of arguments");
}

static bool call_dict(Plan *p, int set, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)args;
    return plan_call_dict(p, set != 0, n, out);
}

static bool call_ord(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (n == 1 && args[0].v.kind == DYN_RK_TEXT && args[0].v.n == DYN_TEXT_STR) {
        const uint32_t *r = args[0].v.regs; /* object, data, length */
        plan_leave_unless(p, plan_emit(p, DYN_RO_IEQ, r[2], plan_iconst(p, 1), DYN_NONE), DYN_R_EXCEPTION);
        *out = plan_value(DYN_RK_INT, plan_emit(p, DYN_RO_LDU8, r[1], plan_iconst(p, 0), DYN_NONE));
        return true;
    }
    if (n != 1 || !plan_as_char(p, &args[0], out)) {
        return no(p, "ord of something that isn't one character");
    }
    *out = out->known ? *out : plan_value(DYN_RK_INT, args[0].v.regs[0]);
    return true;
}

/* reversed(range(…)) */
static bool call_reversed(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (n != 1 || args[0].v.kind != DYN_RK_RANGE) {
        return no(p, "reversed of something that is no range");
    }
    const uint32_t *r = args[0].v.regs; /* start, length, step, stop */
    uint32_t last = plan_emit_or(p, DYN_RO_ISUB, r[1], plan_iconst(p, 1), DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    uint32_t way = plan_emit_or(p, DYN_RO_IMUL, last, r[2], DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    uint32_t step = plan_emit_or(p, DYN_RO_ISUB, plan_iconst(p, 0), r[2], DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    *out = plan_value(DYN_RK_ITER, plan_emit_or(p, DYN_RO_IADD, r[0], way, DYN_NONE, DYN_R_UNSUPPORTED_VALUE));
    out->v.nregs = 3;
    out->v.regs[1] = r[1];
    out->v.regs[2] = step;
    return true;
}

static bool call_chr(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (n != 1 || args[0].v.kind != DYN_RK_INT) {
        return no(p, "chr of something that is no int");
    }
    uint32_t reg = plan_reg(p, &args[0]);
    plan_emit_or(p, DYN_RO_IFITS, reg, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
    plan_last(p)->imm.i = -8;
    *out = plan_value(DYN_RK_CHAR, reg);
    return true;
}

static bool call_bool(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    int known;
    uint32_t reg;
    if (n != 1) {
        return no(p, "another number of arguments");
    }
    if (!plan_truth(p, &args[0], &known, &reg)) {
        return false;
    }
    *out = known >= 0 ? plan_bool(known) : plan_value(DYN_RK_BOOL, reg);
    return true;
}

/* ---- math: `arg` is the instruction */

static bool call_math(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    const DynRegionOpInfo *op = &dyn_region_ops[arg];
    uint32_t regs[2] = {DYN_NONE, DYN_NONE};
    if (!all_numbers(p, args, n, op->args[1] == 'N' ? 1 : 2)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        plan_double(p, args[i], &regs[i]);
    }
    uint32_t reg = plan_emit_op(p, (DynRegionOp)arg, regs[0], regs[1], DYN_R_EXCEPTION);
    *out = plan_value(op->result == 'I' ? DYN_RK_BOOL : DYN_RK_FLOAT, reg);
    return true;
}

/* A ufunc of np.float64, which gives np.float64: those that are exact, so that NumPy's loop and this give the same. */
static bool call_ufunc(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    uint32_t reg;
    if (n == 1 && plan_is_whole(&args[0])) {
        return plan_array_unary(p, arg, args[0], out);
    }
    if (n == 1 && plan_is_complex(&args[0])) {
        return plan_ufunc_of_code(p, arg, args[0], out);
    }
    if (!all_numbers(p, args, n, 1)) {
        return false;
    }
    if (args[0].v.kind == DYN_RK_NP ? args[0].v.dtype != DYN_F64 && args[0].v.dtype != DYN_I64 : args[0].v.kind == DYN_RK_BOOL) {
        return no(p, "a ufunc of this NumPy scalar");
    }
    if (arg != DYN_RO_SQRT && !plan_is_float(&args[0])) {
        return no(p, "a ufunc of an int");
    }
    plan_double(p, args[0], &reg);
    reg = plan_emit_op(p, (DynRegionOp)arg, reg, DYN_NONE, DYN_R_FLAGS);
    *out = plan_np(dyn_region_ops[arg].result == 'I' ? DYN_BOOL : DYN_F64, reg);
    return true;
}

/* np.fabs: np.abs of floats, and doubles of ints. */
static bool call_fabs(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    bool floats = n == 1 && plan_is_whole(&args[0]) && (args[0].v.dtype == DYN_F64 || args[0].v.dtype == DYN_F32);
    bool number = n == 1 && plan_is_number(&args[0]);
    return floats || number ? call_ufunc(p, arg, args, n, out) : plan_ufunc_named(p, "fabs", args, n, out);
}

/* Another ufunc. Of one double NumPy's own loop is called here, as NumPy does. */
static bool call_any_ufunc(Plan *p, PyObject *o, PlanValue *args, uint32_t n, PlanValue *out) {
    void *loop, *data;
    uint32_t reg;
    bool single = args[0].v.kind == DYN_RK_NP && args[0].v.dtype != DYN_F64;
    if (n != 1 || !plan_is_float(&args[0]) || single || !dyn_region_ufunc(o, 1, &loop, &data)) {
        return plan_ufunc_call(p, o, args, n, out);
    }
    PlanValue f;
    if (!plan_ufunc(p, o, 1, 0, &f)) {
        return no(p, "too many ufuncs");
    }
    plan_double(p, args[0], &reg);
    p->r->warns = true;
    *out = plan_np(DYN_F64, plan_emit_or(p, DYN_RO_UFUNC1, f.v.regs[0], f.v.regs[1], reg, DYN_R_FLAGS));
    return true;
}

static const struct Row {
    const char *module, *name;
    PlanHandler *handler;
    int arg;
} rows[] = {
#define KNOWN(MODULE, NAME, handler, arg) {MODULE, NAME, handler, arg},
#include "tracer/region/calls.def"
#undef KNOWN
};
static PyObject *objects[DYN_COUNTOF(rows)]; /* Strong; NULL where the module has no such name. */
static PyObject *min_object, *max_object;
static const struct {
    const char *name;
    PlanDriver driver;
} drivers[] = {{"sum", PLAN_SUM}, {"any", PLAN_ANY}, {"all", PLAN_ALL},
               {"min", PLAN_MIN}, {"max", PLAN_MAX}, {"list", PLAN_LIST}};
static PyObject *driver_objects[DYN_COUNTOF(drivers)]; /* Strong. */
static bool filled[2];                                 /* with all but NumPy's, with NumPy's */

static void fill_rows(bool numpys) {
    PyObject *module = NULL;
    for (size_t i = 0; i < DYN_COUNTOF(rows); i++) {
        if ((strcmp(rows[i].module, "numpy") == 0) != numpys) {
            continue;
        }
        if (i == 0 || strcmp(rows[i].module, rows[i - 1].module) != 0) {
            Py_XSETREF(module, dyn_import(rows[i].module));
        }
        objects[i] = module == NULL ? NULL : PyObject_GetAttrString(module, rows[i].name);
        PyErr_Clear();
    }
    Py_XDECREF(module);
}

static void fill_table(void) {
    if (dyn_arrays_loaded() && !filled[1]) {
        fill_rows(true);
        filled[1] = true;
    }
    if (filled[0]) {
        return;
    }
    fill_rows(false);
    PyObject *builtins = PyEval_GetBuiltins();
    min_object = Py_XNewRef(PyDict_GetItemString(builtins, "min"));
    max_object = Py_XNewRef(PyDict_GetItemString(builtins, "max"));
    for (size_t i = 0; i < DYN_COUNTOF(drivers); i++) {
        driver_objects[i] = Py_XNewRef(PyDict_GetItemString(builtins, drivers[i].name));
    }
    filled[0] = true;
}

bool plan_is_len(PyObject *o) {
    fill_table();
    for (size_t i = 0; o != NULL && i < DYN_COUNTOF(rows); i++) {
        if (objects[i] == o) {
            return rows[i].handler == call_len;
        }
    }
    return false;
}

/* ---- min and max of numbers: the result is one of them, with its type, so the ways part. */

static Went finish(Plan *p, uint32_t slots, PlanValue v) {
    p->s.n -= slots;
    plan_push(p, v);
    return plan_go(p, plan_frame(p)->at + 1);
}

/* The best so far against args[i] and those behind it. Of one type it is chosen; of several the ways part. */
static Went extreme(Plan *p, bool largest, PlanValue best, const PlanValue *args, uint32_t i, uint32_t n, uint32_t slots) {
    PlanValue test, other = args[i < n ? i : 0];
    PlanWays ways;
    int known;
    uint32_t reg;
    if (i == n) {
        return finish(p, slots, best);
    }
    if (!plan_compare(p, largest ? Py_GT : Py_LT, other, best, &test) || !plan_truth(p, &test, &known, &reg)) {
        return WENT_NOWHERE;
    }
    if (best.v.kind == other.v.kind && best.v.dtype == other.v.dtype) {
        uint32_t a = plan_reg(p, &other), b = plan_reg(p, &best);
        char type = p->r->regs.at[a];
        DynRegionOp op = type == 'I' ? DYN_RO_ISELECT : type == 'D' ? DYN_RO_DSELECT : DYN_RO_SSELECT;
        best.known = false;
        best.v.regs[0] = plan_emit(p, op, reg, a, b);
        return extreme(p, largest, best, args, i + 1, n, slots);
    }
    if (!plan_two_ways(p, reg, &ways)) {
        return WENT_AWAY;
    }
    if (extreme(p, largest, other, args, i + 1, n, slots) == WENT_NOWHERE) {
        plan_leave(p);
    }
    plan_other_way(p, &ways);
    return extreme(p, largest, best, args, i + 1, n, slots);
}

static Went call_extreme(Plan *p, bool largest, const PlanValue *args, uint32_t n, uint32_t slots) {
    if (n < 2 || n > 4) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "as many arguments of min or max");
    }
    return extreme(p, largest, args[0], args, 1, n, slots);
}

/* ---- Python functions */

const DynCode *plan_decoded(Plan *p, PyCodeObject *code) {
    for (uint32_t i = 0; i < p->codes.n; i++) {
        if (p->codes.at[i]->code == code) {
            return p->codes.at[i];
        }
    }
    DynCode *c = dyn_decode(code);
    if (c == NULL || dyn_vec_push(&p->codes, c) < 0) {
        PyErr_Clear();
        dyn_decode_free(c);
        plan_stop(p, DYN_R_NO_MEMORY);
        return NULL;
    }
    return c;
}

static bool can_inline(Plan *p, PyFunctionObject *f, uint32_t n) {
    PyCodeObject *code = (PyCodeObject *)f->func_code;
    for (uint32_t i = 0; i < p->opaque.n; i++) {
        if (p->opaque.at[i] == code) {
            return no(p, "a function that calls itself, or writes arrays and can be left behind that");
        }
    }
    if (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_VARARGS | CO_VARKEYWORDS)) {
        return no(p, "a function of this kind");
    }
    if (code->co_kwonlyargcount > 0 || !PyDict_CheckExact(f->func_builtins)) {
        return no(p, "a function with keyword-only parameters");
    }
    Py_ssize_t defaults = f->func_defaults == NULL ? 0 : PyTuple_GET_SIZE(f->func_defaults);
    if ((Py_ssize_t)n > code->co_argcount || (Py_ssize_t)n < code->co_argcount - defaults) {
        return no(p, "a function with another number of parameters");
    }
    if ((code->co_flags & CO_GENERATOR) != 0 || plan_is_routine(p, f)) {
        return true;
    }
    if (p->again) {
        return no(p, "a function that calls itself");
    }
    if (p->s.nframes == PLAN_FRAMES || p->s.n + (uint32_t)dyn_code_nlocalsplus(code) + 16 > PLAN_VALUES) {
        return no(p, "calls that are too deep");
    }
    return true;
}

PlanFrame plan_frame_of(Plan *p, const DynCode *c, PyFunctionObject *f, uint32_t made, uint32_t below) {
    PlanFrame frame = {.c = c, .below = below, .globals = f->func_globals, .builtins = f->func_builtins, .base = p->s.n, .at = 0};
    frame.closure = f->func_closure;
    frame.made = made;
    frame.loops = plan_loops_of(p, c, NULL);
    return frame;
}

/* made: 1 + the row of the plan's functions, of one whose identity isn't taken for granted; else 0. */
static Went follow_into(Plan *p, PyFunctionObject *f, uint32_t made, const PlanValue *args, uint32_t n, uint32_t slots) {
    PyCodeObject *code = (PyCodeObject *)f->func_code;
    if (!can_inline(p, f, n)) {
        return WENT_NOWHERE;
    }
    const DynCode *c = plan_decoded(p, code);
    DynRegionFact fact = {.dict = (PyObject *)f, .name = f->func_code, .value = f->func_defaults, .function = true};
    if (c == NULL || (made == 0 && plan_fact(p, fact) == NULL)) {
        return WENT_AWAY;
    }
    PlanValue passed[16];
    if (code->co_argcount > (int)DYN_COUNTOF(passed)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "many parameters");
    }
    if (plan_any_paused(p, args, n)) {
        return WENT_NOWHERE;
    }
    for (uint32_t i = 0; i < (uint32_t)code->co_argcount; i++) {
        Py_ssize_t from_end = code->co_argcount - (Py_ssize_t)i;
        passed[i] =
            i < n ? args[i] : plan_const(p, PyTuple_GET_ITEM(f->func_defaults, PyTuple_GET_SIZE(f->func_defaults) - from_end));
        if (passed[i].known) {
            plan_reg(p, &passed[i]);
        }
    }
    bool leaves_parts = (code->co_flags & CO_GENERATOR) != 0 || plan_is_routine(p, f);
    for (uint32_t i = 0; leaves_parts && i < (uint32_t)code->co_argcount; i++) {
        if (!plan_whole(p, &passed[i])) {
            return WENT_NOWHERE;
        }
    }
    if (code->co_flags & CO_GENERATOR) {
        return plan_new_generator(p, f, made, passed, slots);
    }
    if (plan_is_routine(p, f)) {
        return plan_call_routine(p, f, made, passed, slots);
    }
    p->s.frames[p->s.nframes++] = plan_frame_of(p, c, f, made, slots);
    for (int i = 0; i < dyn_code_nlocalsplus(code); i++) {
        plan_push(p, i < code->co_argcount ? passed[i] : plan_value(DYN_RK_NULL, DYN_NONE));
    }
    return WENT_ON;
}

Went plan_call_function(Plan *p, PyFunctionObject *f, const PlanValue *args, uint32_t n, uint32_t slots) {
    return follow_into(p, f, 0, args, n, slots);
}

void plan_ended(Plan *p) {
    if (p->s.nframes == 1 && p->s.routine == 0 && p->s.logged) {
        plan_settle_doubts(p);
        plan_emit(p, DYN_RO_COMMIT, DYN_NONE, DYN_NONE, DYN_NONE);
        p->s.logged = false;
    }
}

static bool returns_once(const DynCode *c) {
    uint32_t returns = 0;
    for (uint32_t i = 0; i < c->v.n; i++) {
        returns += c->v.at[i].op == DYN_I_RETURN_VALUE || c->v.at[i].op == DYN_I_RETURN_CONST;
    }
    return returns == 1;
}

/* Behind an inlined call that has ended. Where no other way leads there, and it had no effect, the statement can still be begun
 * anew, and goes on in the block; a new block could only be left there, with what is on the stack. */
static Went go_on_behind(Plan *p, const DynCode *ended, bool logged) {
    uint32_t next = plan_frame(p)->at + 1;
    bool can = p->s.nframes > 1 || (p->resume_at != DYN_NONE && !logged && p->in_loop[next]);
    if (!can || !returns_once(ended)) {
        return plan_go(p, next);
    }
    plan_frame(p)->at = next;
    return WENT_ON;
}

Went plan_return(Plan *p, PlanValue v) {
    if (p->s.nframes == 1) {
        return plan_leave_function(p);
    }
    if (p->s.routine != 0 && p->s.nframes == 2) {
        return plan_routine_returns(p, v);
    }
    if (plan_frame(p)->driver != PLAN_CALL) {
        return plan_end_generator(p);
    }
    if (v.v.kind == DYN_RK_GEN || v.v.kind == DYN_RK_FUNC) { /* its variables may be those of this call */
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a function that returns another one, or a generator");
    }
    const PlanFrame *frame = plan_frame(p);
    const PlanReturns returns = (PlanReturns)frame->returns;
    bool usual = returns == PLAN_INSTANCE ? plan_object(p, &v) == Py_None
                 : returns == PLAN_LENGTH ? v.v.kind == DYN_RK_INT
                                          : plan_object(p, &v) != Py_NotImplemented;
    if (!usual) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a method that gives something unusual");
    }
    if (returns == PLAN_LENGTH) {
        plan_leave_unless(p, plan_emit(p, DYN_RO_ILE, plan_iconst(p, 0), plan_reg(p, &v), DYN_NONE), DYN_R_EXCEPTION);
    }
    PlanValue result = returns == PLAN_INSTANCE ? p->s.values[frame->base - 1] : v;
    const DynCode *ended = frame->c;
    bool logged = p->s.logged;
    p->s.n = frame->base - frame->below;
    p->s.nframes--;
    if (returns != PLAN_NOTHING) {
        plan_push(p, result);
    }
    plan_ended(p);
    return go_on_behind(p, ended, logged);
}

/* random.random of any generator: a method of C code that changes its state alone. */
static bool is_random(PyObject *o) {
    static PyObject *type;
    if (type == NULL) {
        type = dyn_module_attr("_random", "Random");
        PyErr_Clear();
    }
    PyObject *self = PyCFunction_CheckExact(o) ? PyCFunction_GET_SELF(o) : NULL;
    bool known = self != NULL && type != NULL && PyObject_TypeCheck(self, (PyTypeObject *)type) != 0;
    return known && strcmp(((PyCFunctionObject *)o)->m_ml->ml_name, "random") == 0;
}

/* Of an object that is known by identity. */
static Went call_known(Plan *p, PyObject *o, PlanValue *args, uint32_t n, PyObject *names, uint32_t slots) {
    PlanValue out;
    PlanKnown known = plan_call_array(p, o, args, n, names, &out);
    if (known == PLAN_NOT_KNOWN && names == NULL) {
        known = plan_call_boxed(p, o, args, n, &out);
    }
    if (known == PLAN_CALLED) {
        p->s.n -= slots;
        plan_push(p, out);
        return WENT_ON;
    }
    if (known == PLAN_NOT_KNOWN && plan_is_ordered(p, o, args, n, names)) {
        return plan_call_ordered(p, o, args, names, slots);
    }
    if (known == PLAN_REFUSED || names != NULL) {
        return known == PLAN_REFUSED ? WENT_NOWHERE : plan_unknown(p, DYN_R_UNSUPPORTED_OP, "keyword arguments");
    }
    for (size_t i = 0; i < DYN_COUNTOF(drivers) && n == 1 && plan_generates(&args[0]); i++) {
        if (driver_objects[i] == o) {
            return plan_drive(p, drivers[i].driver, args[0], slots);
        }
    }
    if ((o == min_object || o == max_object) && n != 1) {
        return call_extreme(p, o == max_object, args, n, slots);
    }
    for (size_t i = 0; i < DYN_COUNTOF(rows); i++) {
        if (objects[i] == o && rows[i].handler == call_len && n == 1 && plan_is_instance(&args[0])) {
            return plan_special(p, "__len__", args, 1, slots, PLAN_LENGTH);
        }
        if (objects[i] == o) {
            if (!rows[i].handler(p, rows[i].arg, args, n, &out)) {
                return WENT_NOWHERE;
            }
            p->s.n -= slots;
            plan_push(p, out);
            return WENT_ON;
        }
    }
    if (n == 3 && plan_is_arrange(o)) {
        return plan_call_arrange(p, args, slots);
    }
    if (plan_makes_getter(p, o, args, n, &out)) {
        p->s.n -= slots;
        plan_push(p, out);
        return WENT_ON;
    }
    if (PyType_Check(o) && (((PyTypeObject *)o)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
        return plan_construct(p, o, args, n, slots);
    }
    PyObject *function = PyFunction_Check(o) ? o : plan_inside(o);
    function = function == NULL ? plan_getter_function(o) : function;
    if (function != NULL) {
        return plan_call_function(p, (PyFunctionObject *)function, args, n, slots);
    }
    if (plan_is_tuple_new(o)) {
        return plan_new_named(p, args, n, slots);
    }
    if (plan_is_heap_function(o)) {
        return plan_call_heap(p, o, args, n, slots);
    }
    if (n == 0 && is_random(o)) {
        out = plan_value(DYN_RK_FLOAT, plan_emit_or(p, DYN_RO_RANDOM, plan_object_reg(p, o), DYN_NONE, DYN_NONE, DYN_R_OK));
        p->s.n -= slots;
        plan_push(p, out);
        plan_effect(p, plan_frame(p)->at + 1);
        return WENT_ON;
    }
    if (dyn_foreign_is(o)) {
        return plan_call_foreign(p, o, args, n, slots);
    }
    if (Py_IS_TYPE(o, &PyUFunc_Type)) {
        if (!call_any_ufunc(p, o, args, n, &out)) {
            return WENT_NOWHERE;
        }
        p->s.n -= slots;
        plan_push(p, out);
        return WENT_ON;
    }
    return plan_unknown(p, DYN_R_OPAQUE_CALL, "a function that loops in native code don't know");
}

/* The names of the arguments that have some, or NULL. */
static PyObject *keywords(Plan *p, const DynInstr *in) {
    if (in->op == DYN_I_CALL_KW) {
        PlanValue names = plan_pop(p);
        return plan_object(p, &names);
    }
    return in->target == DYN_NONE ? NULL : PyTuple_GET_ITEM(plan_frame(p)->c->code->co_consts, in->target);
}

Went plan_call(Plan *p, const DynInstr *in) {
    uint32_t n = in->arg, slots = n + 2;
    PlanValue args[16];
    PyObject *names = keywords(p, in);
    fill_table();
    if (n > DYN_COUNTOF(args)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "many arguments");
    }
    PlanValue *base = plan_top(p, slots - 1), *callee = &base[dyn_call_null_first() ? 1 : 0],
              *self = &base[dyn_call_null_first() ? 0 : 1];
    PyObject *o = plan_object(p, callee);
    if (base[0].v.kind == DYN_RK_CONST && plan_is_whole(&base[1])) {
        return plan_call_array_method(p, plan_object(p, &base[0]), &base[1], n, names, slots);
    }
    PyObject *named = names != NULL && base[0].v.kind == DYN_RK_CONST ? plan_object(p, &base[0]) : NULL;
    if (named != NULL && base[1].v.kind == DYN_RK_LIST) {
        return plan_call_method_with_names(p, named, base[1], base + 2, n, names, slots);
    }
    if (names != NULL && (self->v.kind != DYN_RK_NULL || o == NULL)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "keyword arguments");
    }
    if (base[0].v.kind == DYN_RK_FUNC && n == 0) { /* a comprehension: called with its iterator, as a method is */
        return plan_call_made(p, base[0], base[1], slots);
    }
    if (callee->v.kind == DYN_RK_FUNC && self->v.kind == DYN_RK_NULL) {
        return plan_call_lambda(p, *callee, base + 2, n, slots);
    }
    bool has_methods = plan_is_str(p, &base[1]) || base[1].v.kind == DYN_RK_LIST || base[1].v.kind == DYN_RK_DICT ||
                       base[1].v.kind == DYN_RK_SET || base[1].v.kind == DYN_RK_DEQUE;
    PyObject *method = base[0].v.kind == DYN_RK_CONST && has_methods ? plan_object(p, &base[0]) : NULL;
    PyObject *function = base[0].v.kind == DYN_RK_CONST && base[1].v.kind != DYN_RK_NULL ? plan_object(p, &base[0]) : NULL;
    if (function != NULL && base[1].v.kind == DYN_RK_RNG) {
        return plan_call_rng(p, function, base[1], base + 2, n, slots);
    }
    if (function != NULL && base[1].v.kind == DYN_RK_ADDRESS) {
        return plan_call_pointer(p, &base[1], base + 2, n, slots);
    }
    if (function != NULL && PyFunction_Check(function) &&
        n + 1 < DYN_COUNTOF(args)) { /* a method: what it is called on is first */
        memcpy(args, base + 1, (n + 1) * sizeof *args);
        return plan_call_function(p, (PyFunctionObject *)function, args, n + 1, slots);
    }
    if (method != NULL) {
        return plan_call_method(p, method, base[1], base + 2, n, slots);
    }
    if (callee->v.kind == DYN_RK_METHOD && self->v.kind == DYN_RK_NULL) {
        PlanValue list = plan_bound_to(p, callee);
        return plan_call_method(p, p->r->objects.at[callee->v.ref], list, base + 2, n, slots);
    }
    if (callee->v.kind == DYN_RK_MADE && self->v.kind == DYN_RK_NULL) {
        PyFunctionObject *made = (PyFunctionObject *)p->made.at[callee->v.shape].function;
        return follow_into(p, made, callee->v.shape + 1u, base + 2, n, slots);
    }
    if (plan_is_instance(callee) && self->v.kind == DYN_RK_NULL && names == NULL && n + 1 < DYN_COUNTOF(args)) {
        args[0] = *callee;
        memcpy(args + 1, base + 2, n * sizeof *args);
        return plan_special(p, "__call__", args, n + 1, slots, PLAN_RESULT);
    }
    if (self->v.kind != DYN_RK_NULL || o == NULL) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a callable that isn't known");
    }
    PyObject *of_rng;
    PlanValue rng;
    if (plan_bound_rng(p, o, &of_rng, &rng)) {
        return plan_call_rng(p, of_rng, rng, base + 2, n, slots);
    }
    memcpy(args, base + 2, n * sizeof *args);
    return call_known(p, o, args, n, names, slots);
}
