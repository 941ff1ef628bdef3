/* region_verify.c: holds region IR to its rules. Called for each region in debug builds, and by tests. Owns a table of bits while
 * it runs.
 *
 * A block ends with the one instruction in it that jumps or leaves. Operands and results have the types of region_ops.def. What
 * may leave has an exit, or a block where it goes on. Wherever a register is read, in an instruction or at an exit, every way
 * from an entry has assigned it. An entry has a value for each slot, stack value and extra object, an exit for each slot and each
 * of its stack values. */
#define _GNU_SOURCE 1
#include "ir/region_foreign.h"
#include "ir/region_ir.h"

typedef struct Check {
    const DynRegion *r;
    DynStr *error;
    uint64_t *in, *now; /* A bit for each register: assigned at the head of each block; here. */
    uint8_t *seen;      /* For each block: bits have come to it. */
    uint32_t words;
    uint32_t block;
    bool changed; /* By the block that was checked last: what is assigned at the head of another one. */
    bool failed;
} Check;

static void fail(Check *c, const char *what, uint32_t which) {
    if (!c->failed) {
        dyn_str_printf(c->error, "b%u: %s %u", c->block, what, which);
    }
    c->failed = true;
}

static bool has(const Check *c, uint32_t reg) { return (c->now[reg / 64] >> (reg % 64) & 1) != 0; }
static void give(Check *c, uint32_t reg) { c->now[reg / 64] |= UINT64_C(1) << (reg % 64); }

static const char *types_of(const DynRegionValue *v, char *types) {
    uint32_t n = 0;
    switch ((DynRegionKind)v->kind) {
    case DYN_RK_NULL:
    case DYN_RK_ENTRY:
    case DYN_RK_CONST:
    case DYN_RK_TUPLE:
    case DYN_RK_ENUM:
    case DYN_RK_ZIP:
    case DYN_RK_CELL:
    case DYN_RK_FUNC:
    case DYN_RK_GEN:
    case DYN_RK_PAUSED:
    case DYN_RK_SLICE:
    case DYN_RK_SLICED:
    case DYN_RK_LITERAL:
    case DYN_RK_EXPR:
    case DYN_RK_DICTVIEW:
    case DYN_RK_ADDRESS:
    case DYN_RK_PARTS:
    case DYN_RK_COUNT: break;
    case DYN_RK_BOOL:
    case DYN_RK_INT: types[n++] = 'I'; break;
    case DYN_RK_FLOAT: types[n++] = 'D'; break;
    case DYN_RK_NP:
        types[n++] = v->dtype == DYN_F64 ? 'D' : 'I';
        types[n - 1] = v->dtype == DYN_F32 ? 'S' : types[n - 1];
        break;
    case DYN_RK_TEXT: n = (uint32_t)(stpcpy(types, "PPI") - types); break;
    case DYN_RK_COMPLEX: n = (uint32_t)(stpcpy(types, "DD") - types); break;
    case DYN_RK_CHAR: types[n++] = 'I'; break;
    case DYN_RK_INST:
    case DYN_RK_CLASS:
    case DYN_RK_FOREIGN:
    case DYN_RK_DICT:
    case DYN_RK_SET:
    case DYN_RK_DEQUE:
    case DYN_RK_MADE:
    case DYN_RK_LIST: types[n++] = 'P'; break;
    case DYN_RK_LISTITER: types[n++] = 'I'; break;
    case DYN_RK_METHOD:
    case DYN_RK_UFUNC: n = (uint32_t)(stpcpy(types, "PP") - types); break;
    case DYN_RK_RNG: n = (uint32_t)(stpcpy(types, "PPP") - types); break;
    case DYN_RK_RANGE: n = (uint32_t)(stpcpy(types, "IIII") - types); break;
    case DYN_RK_KEYITER:
    case DYN_RK_VALUEITER:
    case DYN_RK_ITEMITER:
    case DYN_RK_SETITER:
    case DYN_RK_ITER: n = (uint32_t)(stpcpy(types, "III") - types); break;
    case DYN_RK_RECORD: n = (uint32_t)(stpcpy(types, "PP") - types); break;
    case DYN_RK_ARRAY:
    case DYN_RK_VIEW:
    case DYN_RK_RECORDS:
    case DYN_RK_COLUMN:
    case DYN_RK_SEQ:
        n = (uint32_t)(stpcpy(types, "PP") - types);
        for (int k = 0; k < 2 * v->n; k++) {
            types[n++] = 'I';
        }
        if (v->kind == DYN_RK_SEQ) {
            types[n++] = 'I';
        }
        break;
    }
    if (v->flags & DYN_RF_MAYBE) {
        types[n++] = 'I';
    }
    types[n] = 0;
    return types;
}

/* `read`: its registers are read; else they are assigned. */
static void check_value(Check *c, const DynRegionValue *v, bool read) {
    char types[DYN_REGION_REGS + 3];
    bool is_array = v->kind == DYN_RK_ARRAY || v->kind == DYN_RK_VIEW || v->kind == DYN_RK_SEQ || v->kind == DYN_RK_RECORDS ||
                    v->kind == DYN_RK_COLUMN;
    if (is_array && (v->n > DYN_REGION_RANK || v->dtype >= DYN_DTYPE_COUNT)) {
        fail(c, "an array of rank", v->n);
        return;
    }
    types_of(v, types);
    if (strlen(types) != v->nregs) {
        fail(c, "a value with another number of registers than", (uint32_t)strlen(types));
        return;
    }
    for (uint32_t i = 0; i < v->nregs; i++) {
        if (v->regs[i] >= c->r->regs.n || c->r->regs.at[v->regs[i]] != types[i]) {
            fail(c, "a value in a register of another type, r", v->regs[i]);
        } else if (read && !has(c, v->regs[i])) {
            fail(c, "an exit reads what isn't assigned, r", v->regs[i]);
        } else if (!read) {
            give(c, v->regs[i]);
        }
    }
}

/* How many values the list has, a tuple with its items counting as one. */
static uint32_t count_values(const DynRegionValues *values) {
    uint32_t n = 0, inner = 0;
    for (uint32_t i = 0; i < values->n; i++) {
        n += inner == 0;
        inner = (inner > 0 ? inner - 1 : 0) + (dyn_region_has_items(values->at[i].kind) ? values->at[i].n : 0);
    }
    return n;
}

static void check_exit(Check *c, uint32_t exit) {
    if (exit >= c->r->exits.n) {
        fail(c, "no exit", exit);
        return;
    }
    const DynRegionOut *x = &c->r->exits.at[exit];
    if (x->gives_up) {
        return;
    }
    if (count_values(&x->values) != c->r->nslots + x->nstack + x->nmore) {
        fail(c, "an exit with another number of values, x", exit);
    }
    for (uint32_t i = 0; i < x->values.n && !c->failed; i++) {
        check_value(c, &x->values.at[i], true);
    }
}

/* What is assigned here is assigned at the head of `to` as far as it is on all other ways. Has that changed? */
static bool flow(Check *c, uint32_t to) {
    if (to >= c->r->blocks.n) {
        fail(c, "no block", to);
        return false;
    }
    bool changed = !c->seen[to];
    uint64_t *in = c->in + (size_t)to * c->words;
    for (uint32_t w = 0; w < c->words; w++) {
        uint64_t both = c->seen[to] ? in[w] & c->now[w] : c->now[w];
        changed = changed || both != in[w];
        in[w] = both;
    }
    c->seen[to] = 1;
    return changed;
}

static void check_instr(Check *c, const DynRegionInstr *in, bool last) {
    const DynRegionOpInfo *op = &dyn_region_ops[in->op];
    if (op->flow != last) {
        fail(c, "a block that doesn't end with its jump", c->block);
    }
    for (int k = 0; k < 3 && op->args[k] != 'N' && !c->failed; k++) {
        if (in->arg[k] >= c->r->regs.n || c->r->regs.at[in->arg[k]] != op->args[k]) {
            fail(c, "an operand of another type, r", in->arg[k]);
        } else if (!has(c, in->arg[k])) {
            fail(c, "an operand that isn't assigned, r", in->arg[k]);
        }
    }
    bool typed = in->imm.i > 0 && in->imm.i < DYN_NONE && dyn_foreign_types[in->imm.i & 15].by == op->result;
    if (dyn_region_is_foreign_call(in->op) && !typed) {
        fail(c, "a call whose signature gives something else, b", c->block);
    }
    if (in->op == DYN_RO_ROUTINE && (in->imm.i < 0 || in->imm.i >= c->r->routines.n)) {
        fail(c, "no routine", (uint32_t)in->imm.i);
    }
    if (op->fails && !c->failed && in->exit == DYN_NONE) {
        c->changed = flow(c, in->to[0]) || c->changed;
    } else if (op->fails && !c->failed) {
        check_exit(c, in->exit);
    }
    if (op->result != 'N' && !c->failed) {
        if (in->dst >= c->r->regs.n || c->r->regs.at[in->dst] != op->result) {
            fail(c, "a result of another type, r", in->dst);
        } else {
            give(c, in->dst);
        }
    }
}

static bool check_block(Check *c, uint32_t block) {
    const DynRegionBlock *b = &c->r->blocks.at[block];
    c->changed = false;
    c->block = block;
    memcpy(c->now, c->in + (size_t)block * c->words, c->words * sizeof(uint64_t));
    if (b->v.n == 0) {
        fail(c, "an empty block", block);
    }
    for (uint32_t i = 0; i < b->v.n && !c->failed; i++) {
        check_instr(c, &b->v.at[i], i == b->v.n - 1);
    }
    const DynRegionInstr *end = c->failed ? NULL : &b->v.at[b->v.n - 1];
    for (int k = 0; end != NULL && k < 2; k++) {
        if (end->op == DYN_RO_BR || (end->op == DYN_RO_JMP && k == 0)) {
            c->changed = flow(c, end->to[k]) || c->changed;
        }
    }
    return c->changed;
}

static void check_entry(Check *c, const DynRegionEntry *e) {
    memset(c->now, 0, c->words * sizeof(uint64_t));
    c->block = e->block;
    if (count_values(&e->values) != c->r->nslots + c->r->nstack + c->r->nextra) {
        fail(c, "an entry with another number of values than", c->r->nslots + c->r->nstack + c->r->nextra);
    }
    for (uint32_t i = 0; i < e->values.n && !c->failed; i++) {
        check_value(c, &e->values.at[i], false);
    }
    if (!c->failed) {
        flow(c, e->block);
    }
}

/* It begins with its parameters, and what comes in beside the slots of the region. */
static void check_routine(Check *c, const DynRegionRoutine *f) {
    const DynRegionValues *values = c->r->entries.n > 0 ? &c->r->entries.at[0].values : NULL;
    memset(c->now, 0, c->words * sizeof(uint64_t));
    c->block = f->block;
    for (uint32_t i = 0; values != NULL && i < c->r->nextra && i < values->n && !c->failed; i++) {
        check_value(c, &values->at[values->n - 1 - i], false);
    }
    for (uint32_t i = 0; i < f->nparams && !c->failed; i++) {
        if (f->params[i] >= c->r->regs.n || c->r->regs.at[f->params[i]] == 'S') {
            fail(c, "a parameter of a routine, r", f->params[i]);
        } else {
            give(c, f->params[i]);
        }
    }
    if (!c->failed) {
        flow(c, f->block);
    }
}

int dyn_region_verify(const DynRegion *r, DynStr *error) {
    Check c = {.r = r, .error = error, .words = (r->regs.n + 63) / 64 + 1};
    c.in = PyMem_RawCalloc((size_t)(r->blocks.n + 1) * c.words, sizeof(uint64_t));
    c.now = PyMem_RawCalloc(c.words, sizeof(uint64_t));
    c.seen = PyMem_RawCalloc(r->blocks.n + 1, 1);
    c.failed = c.in == NULL || c.now == NULL || c.seen == NULL;
    for (uint32_t i = 0; i < r->entries.n && !c.failed; i++) {
        check_entry(&c, &r->entries.at[i]);
    }
    for (uint32_t i = 0; i < r->routines.n && !c.failed; i++) {
        check_routine(&c, &r->routines.at[i]);
    }
    for (bool again = !c.failed; again && !c.failed;) {
        again = false;
        for (uint32_t i = 0; i < r->blocks.n && !c.failed; i++) {
            again = (c.seen[i] && check_block(&c, i)) || again;
        }
    }
    PyMem_RawFree(c.in);
    PyMem_RawFree(c.now);
    PyMem_RawFree(c.seen);
    return c.failed ? -1 : 0;
}
