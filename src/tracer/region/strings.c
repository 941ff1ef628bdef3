/* strings.c: what CPython's own functions make of strings: methods of str, str() and its like, formats, and operators. Called by
 * calls.c, step.c, numbers.c and texts.c. The functions are rows of ir/region_strings.def, and are called with objects.
 *
 * A string is made in each trip as CPython makes it, so a call gains nothing by itself; what gains is all that is around it. */
#include "ir/region_strings.h"
#include "tracer/region/plan.h"
#include <opcode.h>

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

/* ---- calls */

/* The objects are what the next call gets. */
static int64_t stage(Plan *p, int64_t which, const uint32_t *regs, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        plan_emit(p, p->r->regs.at[regs[i]] == 'I' ? DYN_RO_ARGI : DYN_RO_ARGP, regs[i], DYN_NONE, DYN_NONE);
        plan_last(p)->imm.i = i;
    }
    return which | (int64_t)n << DYN_STRING_BITS;
}

static uint32_t call_for_object(Plan *p, int64_t which, const uint32_t *regs, uint32_t n) {
    int64_t what = stage(p, which, regs, n);
    uint32_t reg = plan_emit_or(p, DYN_RO_STRING, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
    plan_last(p)->imm.i = what;
    return reg;
}

static uint32_t call_for_int(Plan *p, int64_t which, const uint32_t *regs, uint32_t n) {
    int64_t what = stage(p, which, regs, n);
    uint32_t reg = plan_emit_or(p, DYN_RO_STRINGI, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
    plan_last(p)->imm.i = what;
    return reg;
}

static PlanValue list_of_strings(Plan *p, uint32_t reg, bool tuple) {
    PlanValue out = plan_made(p, DYN_RK_LIST, reg);
    const PlanShape strings = {.bits = DYN_RL_STR};
    plan_join(p, plan_contents(&out), &strings);
    out.v.flags = tuple ? DYN_RF_TUPLE : 0;
    out.v.ref = plan_bits(p, plan_contents(&out));
    return out;
}

static PlanValue call(Plan *p, int64_t which, const uint32_t *regs, uint32_t n, char gives) {
    switch (gives) {
    case 'i': return plan_value(DYN_RK_INT, call_for_int(p, which, regs, n));
    case 'b': return plan_value(DYN_RK_BOOL, call_for_int(p, which, regs, n));
    case 's': return plan_made_text(p, call_for_object(p, which, regs, n));
    default: return list_of_strings(p, call_for_object(p, which, regs, n), gives == 't');
    }
}

/* ---- arguments */

/* A value of which formatting makes a string without running code. */
static bool is_plain(Plan *p, const PlanValue *v) {
    bool plain = plan_is_python_number(v) || plan_is_str(p, v) || plan_object(p, v) == Py_None;
    for (uint32_t i = 0; v->v.kind == DYN_RK_TUPLE && v->v.n > 0 && i < v->v.n; i++) {
        plain = (i == 0 || plain) && v->items[i].v.kind != DYN_RK_TUPLE && is_plain(p, &v->items[i]);
    }
    return plain;
}

/* Its object, or of a string that is one character CPython's. */
static bool plain_object(Plan *p, PlanValue v, uint32_t *reg) {
    if (!is_plain(p, &v)) {
        return no(p, "a string that is made of something else than numbers and strings");
    }
    return plan_is_str(p, &v) ? plan_text_object(p, v, reg) : plan_boxed(p, &v, reg);
}

/* An argument for a letter of region_strings.def. Ints become objects when all others are, as there is one at a time. */
static bool argument(Plan *p, char letter, PlanValue v, uint32_t *reg) {
    PyObject *o = plan_object(p, &v);
    switch (letter) {
    case 'L':
        v = plan_tuple_object(p, &v);
        *reg = v.v.regs[0];
        return v.v.kind == DYN_RK_LIST || (plan_is_str(p, &v) && plan_text_object(p, v, reg));
    case 'I':
    case 'i': return v.v.kind == DYN_RK_INT && plan_boxed(p, &v, reg);
    case 'P':
        if (o != NULL && PyTuple_CheckExact(o)) {
            *reg = plan_object_reg(p, o);
            return true;
        }
        return plan_is_str(p, &v) && plan_text_object(p, v, reg);
    case 's':
        if (o == Py_None) {
            *reg = plan_object_reg(p, o);
            return true;
        }
        return plan_is_str(p, &v) && plan_text_object(p, v, reg);
    default: return plan_is_str(p, &v) && plan_text_object(p, v, reg);
    }
}

/* ---- methods */

PyObject *plan_string_method(const char *name) {
    for (int64_t i = 0; i < DYN_STRING_COUNT && dyn_region_strings[i].name != NULL; i++) {
        if (strcmp(dyn_region_strings[i].name, name) == 0) {
            return dyn_region_string_method(i);
        }
    }
    return NULL;
}

Went plan_call_string(Plan *p, PyObject *method, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    int64_t which = 0;
    while (dyn_region_strings[which].name != NULL && dyn_region_string_method(which) != method) {
        which++;
    }
    const char *takes = dyn_region_strings[which].takes;
    uint32_t regs[4];
    if (takes == NULL || n > strlen(takes) || (n < strlen(takes) && takes[n] >= 'A' && takes[n] <= 'Z')) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a method of a string that loops in native code don't know");
    }
    bool fit = plan_text_object(p, self, &regs[0]);
    for (int ints = 0; ints < 2; ints++) {
        for (uint32_t i = 0; i < n && fit; i++) {
            bool is_int = takes[i] == 'I' || takes[i] == 'i';
            fit = is_int != ints || argument(p, takes[i], args[i], &regs[i + 1]);
        }
    }
    if (!fit) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "an argument of a method of a string that loops in native code don't know");
    }
    PlanValue out = call(p, which, regs, n + 1, dyn_region_strings[which].gives);
    p->s.n -= slots;
    plan_push(p, out);
    return WENT_ON;
}

/* ---- functions */

/* What str() makes of a plain value. */
static bool as_string(Plan *p, PlanValue v, PlanValue *out) {
    uint32_t reg;
    *out = v;
    if (plan_is_str(p, &v)) {
        return true;
    }
    if (v.v.kind == DYN_RK_INT) {
        reg = plan_reg(p, &v);
        *out = plan_made_text(p, plan_emit_or(p, DYN_RO_TOFINT, reg, DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE));
        return true;
    }
    if (!plain_object(p, v, &reg)) {
        return false;
    }
    *out = call(p, DYN_STRING_STR, &reg, 1, 's');
    return true;
}

bool plan_call_text(Plan *p, int which, PlanValue *args, uint32_t n, PlanValue *out) {
    uint32_t reg;
    bool of_int = which == DYN_STRING_HEX || which == DYN_STRING_OCT || which == DYN_STRING_BIN;
    if (n != 1 || (of_int && args[0].v.kind != DYN_RK_INT && args[0].v.kind != DYN_RK_BOOL)) {
        return no(p, "other arguments of a function that makes a string");
    }
    if (which == DYN_STRING_STR || (args[0].v.kind == DYN_RK_INT && !of_int)) {
        return as_string(p, args[0], out);
    }
    if (!plain_object(p, args[0], &reg)) {
        return false;
    }
    *out = call(p, which, &reg, 1, 's');
    return true;
}

/* format(value), format(value, spec) */
bool plan_call_format(Plan *p, int which, PlanValue *args, uint32_t n, PlanValue *out) {
    uint32_t regs[2];
    if (n < 1 || n > 2 || (n == 2 && (!plan_is_str(p, &args[1]) || !plan_text_object(p, args[1], &regs[1])))) {
        return no(p, "other arguments of format");
    }
    if (n == 1 && (plan_is_str(p, &args[0]) || args[0].v.kind == DYN_RK_INT)) {
        return as_string(p, args[0], out);
    }
    if (!plain_object(p, args[0], &regs[0])) {
        return false;
    }
    *out = call(p, which, regs, n, 's');
    return true;
}

static bool convert(Plan *p, uint32_t how, PlanValue v, PlanValue *out) {
    static const int64_t functions[] = {DYN_STRING_STR, DYN_STRING_STR, DYN_STRING_REPR, DYN_STRING_ASCII};
    *out = v;
    return how == 0 || plan_call_text(p, (int)functions[how & 3], &v, 1, out);
}

/* f"{value!r:spec}": the value, and the spec where there is one, become a string. */
Went plan_format_value(Plan *p, uint32_t conversion, bool has_spec) {
    PlanValue args[2], out;
    args[0] = *plan_top(p, has_spec);
    args[1] = *plan_top(p, 0);
    if (!convert(p, conversion, args[0], &args[0]) || !plan_call_format(p, DYN_STRING_FORMAT, args, 1 + has_spec, &out)) {
        return WENT_NOWHERE;
    }
    p->s.n -= 1 + has_spec;
    plan_push(p, out);
    return WENT_ON;
}

Went plan_convert_value(Plan *p, uint32_t conversion) {
    PlanValue out;
    if (!convert(p, conversion, *plan_top(p, 0), &out)) {
        return WENT_NOWHERE;
    }
    p->s.n--;
    plan_push(p, out);
    return WENT_ON;
}

Went plan_build_string(Plan *p, uint32_t n) {
    uint32_t regs[DYN_ROUTINE_VALUES];
    bool fit = n > 0 && n <= DYN_ROUTINE_VALUES;
    for (uint32_t i = 0; i < n && fit; i++) {
        fit = plan_is_str(p, plan_top(p, n - 1 - i)) && plan_text_object(p, *plan_top(p, n - 1 - i), &regs[i]);
    }
    if (!fit) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a string of many parts, or of characters with codes above 255");
    }
    PlanValue out = call(p, DYN_STRING_BUILD, regs, n, 's');
    p->s.n -= n;
    plan_push(p, out);
    return WENT_ON;
}

/* int(text), int(text, base) */
bool plan_text_to_int(Plan *p, const PlanValue *args, uint32_t n, PlanValue *out) {
    uint32_t regs[2];
    if (n > 2 || !plan_text_object(p, args[0], &regs[0]) || (n == 2 && !argument(p, 'I', args[1], &regs[1]))) {
        return no(p, "other arguments of int");
    }
    *out = call(p, DYN_STRING_TO_INT, regs, n, 'i');
    return true;
}

bool plan_text_to_float(Plan *p, PlanValue text, PlanValue *out) {
    uint32_t reg;
    if (!plan_text_object(p, text, &reg)) {
        return no(p, "a string of characters with codes above 255");
    }
    *out = plan_value(DYN_RK_FLOAT, plan_emit_or(p, DYN_RO_TFLOAT, reg, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION));
    return true;
}

bool plan_letters(Plan *p, PlanValue text, PlanValue *out) {
    uint32_t reg;
    if (!plan_text_object(p, text, &reg)) {
        return no(p, "a string of characters with codes above 255");
    }
    *out = call(p, DYN_STRING_LETTERS, &reg, 1, 'l');
    return true;
}

/* ---- operators */

/* text * n, text % values */
bool plan_text_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    uint32_t regs[2];
    if (op == NB_MULTIPLY && !plan_is_str(p, &a)) {
        return plan_text_binary(p, op, b, a, out);
    }
    bool times = op == NB_MULTIPLY && b.v.kind == DYN_RK_INT, percent = op == NB_REMAINDER && is_plain(p, &b);
    if (!plan_is_str(p, &a) || (!times && !percent) || !plan_text_object(p, a, &regs[0])) {
        return no(p, "an operator of strings that loops in native code don't know");
    }
    bool fit = times || !plan_is_str(p, &b) ? plan_boxed(p, &b, &regs[1]) : plan_text_object(p, b, &regs[1]);
    if (!fit) {
        return false;
    }
    *out = call(p, times ? DYN_STRING_REPEAT : DYN_STRING_PERCENT, regs, 2, 's');
    return true;
}

/* Is a string in another one? */
bool plan_text_contains(Plan *p, PlanValue item, PlanValue text, PlanValue *out) {
    uint32_t regs[2];
    if (!plan_is_str(p, &item) || !plan_text_object(p, text, &regs[0]) || !plan_text_object(p, item, &regs[1])) {
        return no(p, "whether something is in a text");
    }
    *out = call(p, DYN_STRING_CONTAINS, regs, 2, 'b');
    return true;
}

/* The order of two strings, as their comparison with 0 would be. */
bool plan_order_texts(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    uint32_t regs[2];
    bool strings = plan_is_str(p, &a) && plan_is_str(p, &b);
    if (!strings || !plan_text_object(p, a, &regs[0]) || !plan_text_object(p, b, &regs[1])) {
        return no(p, "an operand that is no number");
    }
    return plan_compare(p, op, call(p, DYN_STRING_COMPARE, regs, 2, 'i'), plan_int(0), out);
}

/* The characters of a slice with a step. where: as SLICE has it. */
PlanValue plan_text_steps(Plan *p, uint32_t text, uint32_t where, uint32_t by) {
    const uint32_t regs[3] = {text, where, by};
    return call(p, DYN_STRING_STEPS, regs, 3, 's');
}
