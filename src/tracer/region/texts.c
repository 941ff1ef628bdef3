/* texts.c: strings of which each character has a code below 256, bytes and bytearrays: their items, one character, and what is
 * asked of them. Called by the other files of this folder.
 *
 * A text's registers are the object, its first byte, and its length: nothing in a region changes it but for stores to bytearrays.
 * A character is its code; CPython has an object for each of them, so that one is made without memory. */
#include "tracer/region/plan.h"

static bool no(Plan *p, DynReason why, const char *what) {
    plan_unknown(p, why, what);
    return false;
}

bool plan_of_text(Plan *p, PyObject *o, PlanValue *v) {
    const char *data;
    int64_t n;
    uint8_t which;
    if (!dyn_region_text_of(o, &which, &data, &n)) {
        return false;
    }
    *v = plan_value(DYN_RK_TEXT, DYN_NONE);
    v->v.n = which;
    v->v.nregs = 3;
    for (int k = 0; k < 3; k++) {
        v->v.regs[k] = dyn_region_reg(p->r, k < 2 ? 'P' : 'I');
        if (v->v.regs[k] == DYN_NONE) {
            plan_stop(p, DYN_R_NO_MEMORY);
            return false;
        }
    }
    return true;
}

PlanValue plan_text(Plan *p, const PlanValue *v) {
    PyObject *o = plan_object(p, v);
    PlanValue out;
    const char *data;
    int64_t n;
    uint8_t which;
    if (o == NULL || !dyn_region_text_of(o, &which, &data, &n)) {
        return *v;
    }
    DynRegionFact *f = plan_fact(p, (DynRegionFact){.value = o, .object = true});
    if (f != NULL && f->extra == DYN_NONE && plan_of_text(p, o, &out)) {
        f->extra = plan_extra(p, &out);
    }
    return f == NULL || f->extra == DYN_NONE ? *v : (PlanValue){.v = p->extras.at[f->extra]};
}

/* A constant of one character is its code. */
bool plan_as_char(const Plan *p, const PlanValue *v, PlanValue *out) {
    PyObject *o = v->v.kind == DYN_RK_CONST ? p->r->objects.at[v->v.ref] : NULL;
    bool one = o != NULL && PyUnicode_CheckExact(o) && PyUnicode_GET_LENGTH(o) == 1 && PyUnicode_READ_CHAR(o, 0) < 256;
    *out = *v;
    if (one) {
        *out = plan_int(PyUnicode_READ_CHAR(o, 0));
    }
    return one || v->v.kind == DYN_RK_CHAR;
}

PlanValue plan_text_byte(Plan *p, const PlanValue *text, uint32_t index) {
    uint32_t code = plan_emit(p, DYN_RO_LDU8, text->v.regs[1], index, DYN_NONE);
    return plan_value(text->v.n == DYN_TEXT_STR ? DYN_RK_CHAR : DYN_RK_INT, code);
}

static bool index_of(Plan *p, const PlanValue *text, PlanValue *index, uint32_t *reg) {
    bool integer = index->v.kind == DYN_RK_INT || index->v.kind == DYN_RK_BOOL ||
                   (index->v.kind == DYN_RK_NP && dyn_dtype_is_integer((DynDtype)index->v.dtype));
    if (!integer) {
        return no(p, DYN_R_UNSUPPORTED_OP, "an index of a text that is no int");
    }
    *reg = plan_emit_or(p, DYN_RO_IDX, plan_reg(p, index), text->v.regs[2], DYN_NONE, DYN_R_EXCEPTION);
    return true;
}

bool plan_text_item(Plan *p, PlanValue text, PlanValue index, PlanValue *out) {
    uint32_t at;
    if (!index_of(p, &text, &index, &at)) {
        return false;
    }
    *out = plan_text_byte(p, &text, at);
    return true;
}

bool plan_store_in_text(Plan *p, PlanValue text, PlanValue index, PlanValue v) {
    uint32_t at;
    if (text.v.n != DYN_TEXT_BYTEARRAY || v.v.kind != DYN_RK_INT) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a store in a text");
    }
    uint32_t reg = plan_reg(p, &v);
    plan_emit_or(p, DYN_RO_IFITS, reg, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
    plan_last(p)->imm.i = -8;
    if (!index_of(p, &text, &index, &at)) {
        return false;
    }
    plan_settle_doubts(p);
    plan_emit(p, DYN_RO_STU8, text.v.regs[1], at, reg);
    return true;
}

/* `in` and `not in`: a character in a string, a number in bytes. */
bool plan_in_text(Plan *p, PlanValue item, PlanValue text, bool negated, PlanValue *out) {
    PlanValue code;
    bool is_str = text.v.n == DYN_TEXT_STR;
    if (is_str ? !plan_as_char(p, &item, &code) : item.v.kind != DYN_RK_INT) {
        return no(p, DYN_R_UNSUPPORTED_OP, "whether something is in a text");
    }
    code = is_str ? code : item;
    uint32_t reg = plan_reg(p, &code);
    if (!is_str) {
        plan_emit_or(p, DYN_RO_IFITS, reg, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
        plan_last(p)->imm.i = -8;
    }
    reg = plan_emit(p, DYN_RO_HASBYTE, text.v.regs[1], text.v.regs[2], reg);
    reg = negated ? plan_emit(p, DYN_RO_NOT, reg, DYN_NONE, DYN_NONE) : reg;
    *out = plan_value(DYN_RK_BOOL, reg);
    return true;
}

/* Two characters, by their codes. */
bool plan_compare_chars(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    PlanValue x, y;
    if (!plan_as_char(p, &a, &x) || !plan_as_char(p, &b, &y)) {
        return no(p, DYN_R_UNSUPPORTED_OP, "an operand that is no number");
    }
    x = plan_value(DYN_RK_INT, plan_reg(p, &x));
    y = plan_value(DYN_RK_INT, plan_reg(p, &y));
    return plan_compare(p, op, x, y, out);
}
