/* texts.c: strings of which each character has a code below 256, bytes and bytearrays: their items, one character, and what is
 * asked of them. Called by the other files of this folder.
 *
 * A text's registers are the object, its first byte, and its length: nothing in a region changes it but for stores to bytearrays.
 * A character is its code; CPython has an object for each of them, so that one is made without memory. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"

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

PlanValue plan_text_at(Plan *p, uint32_t object, uint32_t data) {
    PlanValue v = plan_value(DYN_RK_TEXT, object);
    v.v.n = DYN_TEXT_STR;
    v.v.nregs = 3;
    v.v.regs[1] = data;
    v.v.regs[2] = plan_emit(p, DYN_RO_OSIZE, object, DYN_NONE, DYN_NONE);
    return v;
}

/* One that the loop has made. */
PlanValue plan_made_text(Plan *p, uint32_t object) {
    plan_makes(p);
    return plan_text_at(p, object, plan_emit_or(p, DYN_RO_ASSTR, object, DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE));
}

bool plan_text_slice(Plan *p, PlanValue text, PlanValue slice, PlanValue *out) {
    uint32_t where, by;
    PlanValue step = slice.items[2];
    bool plain = plan_object(p, &step) == Py_None || (step.known && step.v.kind == DYN_RK_INT && step.number.i == 1);
    if (text.v.n != DYN_TEXT_STR) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a slice of bytes");
    }
    if (!plan_slice_of(p, text.v.regs[2], &slice, &where, &by)) {
        return false;
    }
    if (!plain) {
        *out = plan_text_steps(p, text.v.regs[0], where, by);
        return true;
    }
    *out = plan_made_text(p, plan_emit_or(p, DYN_RO_TSLICE, text.v.regs[0], where, DYN_NONE, DYN_R_UNSUPPORTED_VALUE));
    return true;
}

/* Its object; a character has one of CPython's. false: it is no string. */
bool plan_text_object(Plan *p, PlanValue v, uint32_t *reg) {
    if (v.v.kind == DYN_RK_CHAR) {
        *reg = plan_emit(p, DYN_RO_CHAROBJECT, plan_reg(p, &v), DYN_NONE, DYN_NONE);
        return true;
    }
    v = plan_text(p, &v);
    *reg = v.v.regs[0];
    return v.v.kind == DYN_RK_TEXT && v.v.n == DYN_TEXT_STR;
}

bool plan_is_str(Plan *p, const PlanValue *v) {
    PyObject *o = plan_object(p, v);
    return v->v.kind == DYN_RK_CHAR || (v->v.kind == DYN_RK_TEXT && v->v.n == DYN_TEXT_STR) ||
           (o != NULL && PyUnicode_CheckExact(o));
}

bool plan_text_join(Plan *p, PlanValue a, PlanValue b, PlanValue *out) {
    uint32_t x, y;
    if (!plan_text_object(p, a, &x) || !plan_text_object(p, b, &y)) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a sum of something else than strings whose characters' codes are below 256");
    }
    *out = plan_made_text(p, plan_emit_or(p, DYN_RO_TJOIN, x, y, DYN_NONE, DYN_R_UNSUPPORTED_VALUE));
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
    *index = plan_word_as_int(p, *index);
    if (!plan_is_integer(index) && index->v.kind != DYN_RK_BOOL) {
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
    if (is_str && !plan_as_char(p, &item, &code)) {
        bool done = plan_text_contains(p, item, text, out);
        *out = done && negated ? plan_value(DYN_RK_BOOL, plan_emit(p, DYN_RO_NOT, out->v.regs[0], DYN_NONE, DYN_NONE)) : *out;
        return done;
    }
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

/* A character as a text of that length has it: its code, whatever it is of. */
static uint32_t is_this_char(Plan *p, const PlanValue *text, uint32_t code) {
    uint32_t one = plan_emit(p, DYN_RO_IEQ, text->v.regs[2], plan_iconst(p, 1), DYN_NONE);
    uint32_t first = plan_emit(p, DYN_RO_LDU8, text->v.regs[1], plan_iconst(p, 0), DYN_NONE); /* a NUL where it is empty */
    return plan_emit(p, DYN_RO_IAND, one, plan_emit(p, DYN_RO_IEQ, first, code, DYN_NONE), DYN_NONE);
}

static uint32_t is_this_text(Plan *p, const PlanValue *a, const PlanValue *b) {
    uint32_t as_long = plan_emit(p, DYN_RO_IEQ, a->v.regs[2], b->v.regs[2], DYN_NONE);
    uint32_t n = plan_emit(p, DYN_RO_IMULW, as_long, a->v.regs[2], DYN_NONE);
    return plan_emit(p, DYN_RO_IAND, as_long, plan_emit(p, DYN_RO_SAMETEXT, a->v.regs[1], b->v.regs[1], n), DYN_NONE);
}

/* Is one of them equal to the other? Of a text and a number it never is. */
static bool compare_texts(Plan *p, bool negated, PlanValue a, PlanValue b, PlanValue *out) {
    PlanValue x, y;
    bool char_a = plan_as_char(p, &a, &x), char_b = plan_as_char(p, &b, &y);
    PlanValue text = char_a ? plan_text(p, &b) : plan_text(p, &a), other = plan_text(p, &b);
    bool number = plan_is_python_number(&a) || plan_is_python_number(&b);
    bool str = char_a || char_b || (text.v.kind == DYN_RK_TEXT && text.v.n == DYN_TEXT_STR) ||
               (other.v.kind == DYN_RK_TEXT && other.v.n == DYN_TEXT_STR);
    if (number && str) {
        *out = plan_bool(negated);
        return true;
    }
    uint32_t reg;
    if (char_a || char_b) {
        if (text.v.kind != DYN_RK_TEXT || text.v.n != DYN_TEXT_STR) {
            return no(p, DYN_R_UNSUPPORTED_OP, "an operand that is no number");
        }
        reg = is_this_char(p, &text, plan_reg(p, char_a ? &x : &y));
    } else if (text.v.kind == DYN_RK_TEXT && other.v.kind == DYN_RK_TEXT && text.v.n == other.v.n) {
        reg = is_this_text(p, &text, &other);
    } else {
        return no(p, DYN_R_UNSUPPORTED_OP, "an operand that is no number");
    }
    *out = plan_value(DYN_RK_BOOL, negated ? plan_emit(p, DYN_RO_NOT, reg, DYN_NONE, DYN_NONE) : reg);
    return true;
}

/* Two characters by their codes, or texts. */
bool plan_compare_texts(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    PlanValue x, y;
    if (!plan_as_char(p, &a, &x) || !plan_as_char(p, &b, &y)) {
        return op == Py_EQ || op == Py_NE ? compare_texts(p, op == Py_NE, a, b, out) : plan_order_texts(p, op, a, b, out);
    }
    x = plan_value(DYN_RK_INT, plan_reg(p, &x));
    y = plan_value(DYN_RK_INT, plan_reg(p, &y));
    return plan_compare(p, op, x, y, out);
}

PyObject *plan_char_method(const char *name) {
    for (int i = 0; i < DYN_REGION_QUESTIONS; i++) {
        if (strcmp(dyn_region_questions[i], name) == 0) {
            return dyn_cpy_lookup_named(&PyUnicode_Type, name);
        }
    }
    return NULL;
}

bool plan_is_question(PyObject *method) {
    bool is = false;
    for (int i = 0; i < DYN_REGION_QUESTIONS; i++) {
        is = is || dyn_cpy_lookup_named(&PyUnicode_Type, dyn_region_questions[i]) == method;
    }
    return is;
}

Went plan_ask_char(Plan *p, PyObject *method, PlanValue self, uint32_t n, uint32_t slots) {
    for (int i = 0; i < DYN_REGION_QUESTIONS && n == 0; i++) {
        if (dyn_cpy_lookup_named(&PyUnicode_Type, dyn_region_questions[i]) == method) {
            uint32_t is = plan_emit(p, DYN_RO_CHARIS, plan_reg(p, &self), plan_iconst(p, i), DYN_NONE);
            p->s.n -= slots;
            plan_push(p, plan_value(DYN_RK_BOOL, is));
            return WENT_ON;
        }
    }
    return plan_unknown(p, DYN_R_OPAQUE_CALL, "a method of a character that loops in native code don't know");
}
