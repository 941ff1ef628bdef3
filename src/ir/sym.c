/* sym.c: the table of symbols: hash-consed rows, constant folding, the algebra that keeps exact Python meaning, and printing.
 *
 * Called by the recorder (which owns the table through its capture), the graph parser and whoever prints guards. The arithmetic
 * itself is sym_eval.c's.
 *
 * A rule of the algebra may only give a row that has the same value and the same type as the operator whenever all operands have
 * values. It needn't keep failures: the operands' rows stay in the table and are evaluated, so what could overflow there still
 * does. */
#include "ir/sym.h"

enum { MAX_PRINT_DEPTH = 40, MAX_PRINT_LENGTH = 2000, MAX_BOUND_DEPTH = 8 };

PyObject *dyn_sym_object(const DynSyms *t, uint32_t id, DynScalar value) {
    switch (dyn_sym_at(t, id)->type) {
    case DYN_T_FLOAT: return PyFloat_FromDouble(value.f);
    case DYN_T_BOOL: return PyBool_FromLong(value.i != 0);
    default: return PyLong_FromLongLong(value.i);
    }
}

uint32_t dyn_sym_root(const DynSyms *t, uint32_t id) {
    while (id < t->same.n && t->same.at[id] != id) {
        id = t->same.at[id];
    }
    return id;
}

int dyn_sym_join(DynSyms *t, uint32_t a, uint32_t b) {
    a = dyn_sym_root(t, a);
    b = dyn_sym_root(t, b);
    for (uint32_t id = t->same.n; id <= (a > b ? a : b); id++) {
        if (dyn_vec_push(&t->same, id) < 0) {
            return -1;
        }
    }
    const DynSym *x = dyn_sym_at(t, a), *y = dyn_sym_at(t, b);
    bool sooner = x->after != y->after ? x->after < y->after : a < b; /* whoever uses the one has to find it known */
    bool first = dyn_sym_is_const(t, a) || (!dyn_sym_is_const(t, b) && sooner);
    if (first) {
        t->same.at[b] = a;
    } else {
        t->same.at[a] = b;
    }
    return 0;
}

void dyn_syms_free(DynSyms *t) {
    dyn_vec_free(&t->v);
    dyn_vec_free(&t->index);
    dyn_vec_free(&t->same);
    dyn_vec_free(&t->late);
}

/* ---- rows */

static uint32_t hash_row(const DynSym *s) {
    uint64_t words[4] = {(uint64_t)s->op | (uint64_t)s->type << 8 | (uint64_t)s->index << 16,
                         (uint64_t)s->a | (uint64_t)s->b << 32, s->c, (uint64_t)s->value.i};
    uint64_t h = 0;
    for (size_t i = 0; i < DYN_COUNTOF(words); i++) {
        h = (h ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15), h ^= h >> 29;
    }
    return (uint32_t)(h ^ h >> 32);
}

static bool same_row(const DynSym *x, const DynSym *y) {
    bool same_operands = x->a == y->a && x->b == y->b && x->c == y->c;
    bool same_operator = x->op == y->op && x->type == y->type && x->index == y->index;
    return same_operands && same_operator && x->value.i == y->value.i;
}

static bool is_row(const void *t, uint32_t id, const void *s) { return same_row(&((const DynSyms *)t)->v.at[id], s); }

static uint32_t *find_slot(const DynSyms *t, const DynSym *s) { return dyn_index_slot(&t->index, hash_row(s), is_row, t, s); }

static int grow_index(DynSyms *t) {
    if (dyn_index_empty(&t->index, t->index.n == 0 ? 64 : t->index.n * 2) < 0) {
        return -1;
    }
    for (uint32_t id = 0; id < t->v.n; id++) {
        *find_slot(t, &t->v.at[id]) = id;
    }
    return 0;
}

uint32_t dyn_syms_first_late(const DynSyms *t, uint32_t node) {
    uint32_t low = 0, high = t->late.n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->v.at[t->late.at[middle]].after <= node) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The next row is put into `late` behind those that are known with it or before it: mostly at the end. */
static int list_late(DynSyms *t, const DynSym *s) {
    if (dyn_vec_reserve(&t->late, t->late.n + 1) < 0) {
        return -1;
    }
    uint32_t at = t->late.n++;
    for (; at > 0 && t->v.at[t->late.at[at - 1]].after > s->after; at--) {
        t->late.at[at] = t->late.at[at - 1];
    }
    t->late.at[at] = t->v.n;
    return 0;
}

/* The row with these fields (the hint is not one of them), new or old. */
static uint32_t intern(DynSyms *t, const DynSym *s) {
    if ((t->v.n + 1) * 2 > t->index.n && grow_index(t) < 0) {
        return DYN_NONE;
    }
    uint32_t *slot = find_slot(t, s);
    if (*slot != DYN_NONE) {
        return *slot;
    }
    if (dyn_vec_reserve(&t->v, t->v.n + 1) < 0 || (s->after != 0 && list_late(t, s) < 0)) {
        return DYN_NONE;
    }
    t->v.at[t->v.n++] = *s;
    return *slot = t->v.n - 1;
}

uint32_t dyn_sym_constant(DynSyms *t, DynSymType type, DynScalar value) {
    if (type == DYN_T_BOOL) {
        value.i = value.i != 0;
    }
    DynSym s = {.op = DYN_S_CONST, .type = type, .a = DYN_NONE, .b = DYN_NONE, .c = DYN_NONE, .value = value, .hint = value};
    return intern(t, &s);
}

uint32_t dyn_sym_int(DynSyms *t, int64_t value) { return dyn_sym_constant(t, DYN_T_INT, (DynScalar){.i = value}); }
uint32_t dyn_sym_float(DynSyms *t, double value) { return dyn_sym_constant(t, DYN_T_FLOAT, (DynScalar){.f = value}); }
uint32_t dyn_sym_bool(DynSyms *t, bool value) { return dyn_sym_constant(t, DYN_T_BOOL, (DynScalar){.i = value}); }

uint32_t dyn_sym_var(DynSyms *t, DynSymType type, uint32_t source, DynScalar hint) {
    DynSym s = {.op = DYN_S_VAR, .type = type, .a = source, .b = DYN_NONE, .c = DYN_NONE, .hint = hint};
    return intern(t, &s);
}

static uint32_t of_axis(DynSyms *t, DynSymOp op, uint32_t source, int axis, int64_t hint) {
    DynSym s = {.op = (uint8_t)op,
                .type = DYN_T_INT,
                .index = (uint16_t)axis,
                .a = source,
                .b = DYN_NONE,
                .c = DYN_NONE,
                .hint = {.i = hint}};
    return intern(t, &s);
}

uint32_t dyn_sym_dim(DynSyms *t, uint32_t source, int axis, int64_t hint) { return of_axis(t, DYN_S_DIM, source, axis, hint); }
uint32_t dyn_sym_stride(DynSyms *t, uint32_t source, int axis, int64_t hint) {
    return of_axis(t, DYN_S_STRIDE, source, axis, hint);
}

uint32_t dyn_sym_late(DynSyms *t, DynSymType type, uint32_t call, uint32_t what, uint32_t node, int axis, DynScalar hint) {
    DynSym s = {.op = DYN_S_LATE,
                .type = (uint8_t)type,
                .index = (uint16_t)axis,
                .a = node,
                .b = what,
                .c = t->v.n, /* no other row has it */
                .after = call + 1,
                .hint = hint};
    return intern(t, &s);
}

void dyn_syms_forget(DynSyms *t, uint32_t nnodes) {
    for (uint32_t i = 0; i < t->v.n; i++) {
        if (t->v.at[i].after > nnodes) {
            t->v.at[i].after = DYN_NONE;
        }
    }
}

bool dyn_sym_is_const(const DynSyms *t, uint32_t id) { return id != DYN_NONE && t->v.at[id].op == DYN_S_CONST; }
bool dyn_sym_is_one(const DynSyms *t, uint32_t id) { return dyn_sym_is_const(t, id) && t->v.at[id].value.i == 1; }

/* ---- looking at rows */

static bool is_int_const(const DynSyms *t, uint32_t id, int64_t *value) {
    const DynSym *s = dyn_sym_at(t, id);
    *value = s->value.i;
    return s->op == DYN_S_CONST && s->type != DYN_T_FLOAT;
}

static bool is_const_of(const DynSyms *t, uint32_t id, int64_t value) {
    int64_t v;
    return is_int_const(t, id, &v) && v == value;
}

static bool is_int(const DynSyms *t, uint32_t id) { return dyn_sym_at(t, id)->type == DYN_T_INT; }
static bool is_float(const DynSyms *t, uint32_t id) { return dyn_sym_at(t, id)->type == DYN_T_FLOAT; }

/* A value that an int or bool row is never below. */
static int64_t lower_bound(const DynSyms *t, uint32_t id, int depth) {
    const DynSym *s = dyn_sym_at(t, id);
    int64_t x, y;
    if (s->type == DYN_T_BOOL) {
        return s->op == DYN_S_CONST ? s->value.i : 0;
    }
    if (s->type == DYN_T_FLOAT || depth > MAX_BOUND_DEPTH) {
        return INT64_MIN;
    }
    switch (s->op) {
    case DYN_S_CONST: return s->value.i;
    case DYN_S_LATE: return s->b == DYN_LATE_SIZE ? 0 : INT64_MIN;
    case DYN_S_DIM:
    case DYN_S_SLICE_LEN: return 0;
    case DYN_S_ABS: return 0;
    case DYN_S_SLICE_START:
    case DYN_S_SLICE_STOP: return is_int_const(t, s->c, &x) && x > 0 ? 0 : -1;
    case DYN_S_ADD:
        x = lower_bound(t, s->a, depth + 1), y = lower_bound(t, s->b, depth + 1);
        return x == INT64_MIN || y == INT64_MIN || __builtin_add_overflow(x, y, &x) ? INT64_MIN : x;
    case DYN_S_SUB:
        x = lower_bound(t, s->a, depth + 1);
        return x == INT64_MIN || !is_int_const(t, s->b, &y) || __builtin_sub_overflow(x, y, &x) ? INT64_MIN : x;
    case DYN_S_MUL:
        x = lower_bound(t, s->a, depth + 1), y = lower_bound(t, s->b, depth + 1);
        return x < 0 || y < 0 || __builtin_mul_overflow(x, y, &x) ? INT64_MIN : x;
    case DYN_S_FLOORDIV:
        x = lower_bound(t, s->a, depth + 1);
        return x >= 0 && is_int_const(t, s->b, &y) && y > 0 ? x / y : INT64_MIN;
    case DYN_S_MOD: return lower_bound(t, s->b, depth + 1) >= 0 ? 0 : INT64_MIN;
    case DYN_S_MAX: x = lower_bound(t, s->a, depth + 1), y = lower_bound(t, s->b, depth + 1); return x > y ? x : y;
    case DYN_S_MIN: x = lower_bound(t, s->a, depth + 1), y = lower_bound(t, s->b, depth + 1); return x < y ? x : y;
    default: return INT64_MIN;
    }
}

/* An int row as base + offset. */
static uint32_t split(const DynSyms *t, uint32_t id, int64_t *offset) {
    const DynSym *s = dyn_sym_at(t, id);
    *offset = 0;
    bool sum = s->type == DYN_T_INT && (s->op == DYN_S_ADD || s->op == DYN_S_SUB);
    if (sum && is_int(t, s->a) && is_int_const(t, s->b, offset)) {
        if (s->op == DYN_S_ADD) {
            return s->a;
        }
        if (*offset != INT64_MIN) {
            *offset = -*offset;
            return s->a;
        }
    }
    *offset = 0;
    return id;
}

static uint32_t row(DynSyms *t, DynSymOp op, uint32_t a, uint32_t b, uint32_t c);

static uint32_t base_plus(DynSyms *t, uint32_t base, int64_t offset) {
    if (offset == 0) {
        return base;
    }
    if (offset > 0 || offset == INT64_MIN) {
        return row(t, DYN_S_ADD, base, dyn_sym_int(t, offset), DYN_NONE);
    }
    return row(t, DYN_S_SUB, base, dyn_sym_int(t, -offset), DYN_NONE);
}

/* ---- the rules. Each returns true when it has an answer in *out (DYN_NONE there: memory is out). */

static bool rule_add(DynSyms *t, DynSymOp op, uint32_t a, uint32_t b, uint32_t *out) {
    int64_t k, offset;
    if (op == DYN_S_ADD && is_int_const(t, a, &k)) {
        uint32_t swap = a;
        a = b, b = swap;
    }
    bool by_constant = is_int_const(t, b, &k) && is_int(t, a);
    if (by_constant && (op == DYN_S_ADD || k != INT64_MIN)) {
        uint32_t base = split(t, a, &offset);
        if (__builtin_add_overflow(offset, op == DYN_S_ADD ? k : -k, &offset)) {
            return false;
        }
        return *out = base_plus(t, base, offset), true;
    }
    const DynSym *sa = dyn_sym_at(t, a), *sb = dyn_sym_at(t, b);
    if (op == DYN_S_SUB) {
        uint32_t rest = sa->b == b ? sa->a : sa->b;
        bool has_b = sa->op == DYN_S_ADD && (sa->b == b || sa->a == b);
        if (has_b && is_int(t, rest)) {
            return *out = rest, true;
        }
        int64_t other;
        if (split(t, a, &offset) == split(t, b, &other) && !__builtin_sub_overflow(offset, other, &offset)) {
            return *out = dyn_sym_int(t, offset), true;
        }
        return false;
    }
    if (sa->op == DYN_S_SUB && sa->b == b && is_int(t, sa->a)) {
        return *out = sa->a, true;
    }
    if (sb->op == DYN_S_SUB && sb->b == a && is_int(t, sb->a)) {
        return *out = sb->a, true;
    }
    return false;
}

static bool rule_mul(DynSyms *t, uint32_t a, uint32_t b, uint32_t *out) {
    int64_t k, inner;
    if (is_int_const(t, a, &k)) {
        uint32_t swap = a;
        a = b, b = swap;
    }
    if (!is_int_const(t, b, &k)) {
        return false;
    }
    if (k == 0) {
        return *out = dyn_sym_int(t, 0), true;
    }
    if (k == 1 && is_int(t, a)) {
        return *out = a, true;
    }
    const DynSym *s = dyn_sym_at(t, a);
    bool product = s->op == DYN_S_MUL && is_int(t, a) && is_int_const(t, s->b, &inner);
    if (product && !__builtin_mul_overflow(inner, k, &k)) {
        a = s->a;
        return *out = row(t, DYN_S_MUL, a, dyn_sym_int(t, k), DYN_NONE), true;
    }
    return false;
}

static bool rule_divide(DynSyms *t, DynSymOp op, uint32_t a, uint32_t b, uint32_t *out) {
    int64_t k;
    if (!is_int_const(t, b, &k) || k == 0) {
        return false;
    }
    const DynSym *s = dyn_sym_at(t, a);
    bool multiple = s->op == DYN_S_MUL && s->type == DYN_T_INT && s->b == b;
    if (op == DYN_S_FLOORDIV && k == 1 && is_int(t, a)) {
        return *out = a, true;
    }
    if (op == DYN_S_FLOORDIV && multiple && is_int(t, s->a)) {
        return *out = s->a, true;
    }
    multiple = multiple || k == 1 || k == -1;
    if (op == DYN_S_MOD && multiple) {
        return *out = dyn_sym_int(t, 0), true;
    }
    return false;
}

static bool rule_min_max(DynSyms *t, DynSymOp op, uint32_t a, uint32_t b, uint32_t *out) {
    int64_t k;
    if (a == b) {
        return *out = a, true;
    }
    bool left = is_int_const(t, a, &k);
    bool whole = is_int(t, a) && is_int(t, b);
    if (!whole || (!left && !is_int_const(t, b, &k))) {
        return false;
    }
    uint32_t fixed = a, other = b;
    if (!left) {
        fixed = b;
        other = a;
    }
    if (lower_bound(t, other, 0) < k) {
        return false;
    }
    return *out = op == DYN_S_MAX ? other : fixed, true;
}

static bool rule_compare(DynSyms *t, DynSymOp op, uint32_t a, uint32_t b, uint32_t *out) {
    int64_t x, y, k;
    DynScalar verdict = {.i = 0};
    uint32_t base_a = split(t, a, &x), base_b = split(t, b, &y);
    if (base_a == base_b) { /* the offsets decide */
        if (dyn_sym_eval(op, DYN_T_INT, DYN_T_INT, (DynScalar){.i = x}, (DynScalar){.i = y}, verdict, &verdict) < 0) {
            return false;
        }
        return *out = dyn_sym_bool(t, verdict.i != 0), true;
    }
    if (x != 0 && x == y) {
        return *out = dyn_sym_op(t, op, base_a, base_b, DYN_NONE), true;
    }
    if (!is_int_const(t, b, &k)) {
        return false;
    }
    if (x != 0 && !__builtin_sub_overflow(k, x, &y)) { /* n - 1 >= 0 is n >= 1 */
        return *out = dyn_sym_op(t, op, base_a, dyn_sym_int(t, y), DYN_NONE), true;
    }
    int64_t low = lower_bound(t, a, 0);
    if (low > k) {
        return *out = dyn_sym_bool(t, op == DYN_S_NE || op == DYN_S_GT || op == DYN_S_GE), true;
    }
    if (low == k && (op == DYN_S_GE || op == DYN_S_LT)) {
        return *out = dyn_sym_bool(t, op == DYN_S_GE), true;
    }
    return false;
}

static bool rule_not(DynSyms *t, uint32_t a, uint32_t *out) {
    static const uint8_t opposite[DYN_S_COUNT] = {[DYN_S_EQ] = DYN_S_NE, [DYN_S_NE] = DYN_S_EQ, [DYN_S_LT] = DYN_S_GE,
                                                  [DYN_S_GE] = DYN_S_LT, [DYN_S_GT] = DYN_S_LE, [DYN_S_LE] = DYN_S_GT};
    const DynSym *s = dyn_sym_at(t, a);
    if (s->op == DYN_S_NOT) {
        return *out = row(t, DYN_S_BOOL, s->a, DYN_NONE, DYN_NONE), true;
    }
    if (s->op == DYN_S_BOOL) {
        return *out = row(t, DYN_S_NOT, s->a, DYN_NONE, DYN_NONE), true;
    }
    if (opposite[s->op] == 0) {
        return false;
    }
    /* with a nan neither a < b nor a >= b */
    bool may_be_nan = is_float(t, s->a) || is_float(t, s->b);
    if (may_be_nan && s->op != DYN_S_EQ && s->op != DYN_S_NE) {
        return false;
    }
    return *out = row(t, (DynSymOp)opposite[s->op], s->a, s->b, DYN_NONE), true;
}

static bool rule_unary(DynSyms *t, DynSymOp op, uint32_t a, uint32_t *out) {
    const DynSym *s = dyn_sym_at(t, a);
    switch (op) {
    case DYN_S_NEG:
    case DYN_S_INVERT:
        if (s->op != op || s->type != DYN_T_INT || !is_int(t, s->a)) {
            return false;
        }
        return *out = s->a, true;
    case DYN_S_NOT: return rule_not(t, a, out);
    case DYN_S_BOOL: return *out = a, s->type == DYN_T_BOOL;
    case DYN_S_TO_FLOAT: return *out = a, s->type == DYN_T_FLOAT;
    case DYN_S_ABS: return *out = a, s->type == DYN_T_INT && lower_bound(t, a, 0) >= 0;
    case DYN_S_TO_INT:
    case DYN_S_FLOOR:
    case DYN_S_CEIL:
    case DYN_S_ROUND: return *out = a, s->type == DYN_T_INT;
    default: return false;
    }
}

/* A bound of a slice with a positive step over a length that is never negative. */
static bool rule_slice_bound(DynSyms *t, uint32_t a, uint32_t length, uint32_t step, uint32_t *out) {
    int64_t k, offset;
    if (!is_int_const(t, step, &k) || k <= 0 || lower_bound(t, length, 0) < 0) {
        return false;
    }
    if (is_const_of(t, a, 0)) {
        return *out = dyn_sym_int(t, 0), true;
    }
    uint32_t base = split(t, a, &offset);
    if (base == length && offset >= 0) {
        return *out = length, true;
    }
    /* n - 1 and n - 2 as bounds are what -1 and -2 are, even where they wrap around */
    if (base == length && offset >= -2) {
        return *out = row(t, DYN_S_SLICE_STOP, dyn_sym_int(t, offset), length, step), true;
    }
    return false;
}

/* Is it the bound that a constant, *k, is in slices with step 1 of some length, which is not negative? */
static bool is_constant_bound(const DynSyms *t, const DynSym *s, int64_t *k) {
    bool bound = s->op == DYN_S_SLICE_STOP || s->op == DYN_S_SLICE_START;
    return bound && is_const_of(t, s->c, 1) && lower_bound(t, s->b, 0) >= 0 && is_int_const(t, s->a, k);
}

/* Is `id` the bound max(length - k, 0) of some length: a stop of -k? */
static bool is_end_minus(const DynSyms *t, uint32_t id, uint32_t *length, int64_t *k) {
    const DynSym *s = dyn_sym_at(t, id);
    if (!is_constant_bound(t, s, k) || *k >= 0 || *k == INT64_MIN) {
        return false;
    }
    *k = -*k;
    *length = s->b;
    return true;
}

/* Is `id` min(c, length) with a constant c that is not negative? */
static bool is_start_at(const DynSyms *t, uint32_t id, uint32_t *length, int64_t *c) {
    const DynSym *s = dyn_sym_at(t, id);
    *length = DYN_NONE; /* 0 is min(0, any length) */
    if (is_int_const(t, id, c)) {
        return *c == 0;
    }
    *length = s->b;
    return is_constant_bound(t, s, c) && *c >= 0;
}

/* Lengths with step 1. x[2:], x[:-2] and x[1:-1] have one length, max(n - 2, 0), and so one row: SLICE_LEN(2, n, 1). */
static bool rule_slice_len(DynSyms *t, uint32_t start, uint32_t stop, uint32_t step, uint32_t *out) {
    int64_t c, k = 0, inner;
    uint32_t from, length = stop;
    if (!is_const_of(t, step, 1)) {
        return false;
    }
    if (is_int_const(t, start, &c) && c >= 0) {
        if (c == 0 && lower_bound(t, stop, 0) >= 0 && !is_end_minus(t, stop, &length, &k)) {
            return *out = stop, true;
        }
        const DynSym *s = dyn_sym_at(t, stop);
        bool part = s->op == DYN_S_SLICE_LEN && is_const_of(t, s->c, 1) && is_int_const(t, s->a, &inner);
        if (part && inner >= 0 && !__builtin_add_overflow(c, inner, &c)) {
            length = s->b;
            return *out = row(t, DYN_S_SLICE_LEN, dyn_sym_int(t, c), length, step), true;
        }
    }
    bool before_end = is_end_minus(t, stop, &length, &k);
    if (!before_end) {
        length = stop, k = 0;
    }
    if (!is_start_at(t, start, &from, &c)) {
        return false;
    }
    bool of_one_length = from == DYN_NONE ? before_end : from == length;
    if (!of_one_length || __builtin_add_overflow(c, k, &c)) {
        return false;
    }
    /* with no start and no end offset the rule above has answered */
    return *out = dyn_sym_op(t, DYN_S_SLICE_LEN, dyn_sym_int(t, c), length, step), true;
}

static bool simplify(DynSyms *t, DynSymOp op, uint32_t a, uint32_t b, uint32_t c, uint32_t *out) {
    if (dyn_sym_info[op].arity == 1) {
        return rule_unary(t, op, a, out);
    }
    if (op == DYN_S_MIN || op == DYN_S_MAX) {
        return rule_min_max(t, op, a, b, out);
    }
    if (op == DYN_S_SAME_BITS) {
        return a == b && (*out = dyn_sym_bool(t, true), true);
    }
    if (is_float(t, a) || is_float(t, b)) {
        return false; /* (x + 0.0 is not x for -0.0, and so on) */
    }
    switch (op) {
    case DYN_S_ADD:
    case DYN_S_SUB: return rule_add(t, op, a, b, out);
    case DYN_S_MUL: return rule_mul(t, a, b, out);
    case DYN_S_FLOORDIV:
    case DYN_S_MOD: return rule_divide(t, op, a, b, out);
    case DYN_S_POW: return *out = a, is_const_of(t, b, 1) && is_int(t, a);
    case DYN_S_LSHIFT:
    case DYN_S_RSHIFT: return *out = a, is_const_of(t, b, 0) && is_int(t, a);
    case DYN_S_AND:
    case DYN_S_OR: return *out = a, a == b;
    case DYN_S_EQ:
    case DYN_S_NE:
    case DYN_S_LT:
    case DYN_S_LE:
    case DYN_S_GT:
    case DYN_S_GE: return rule_compare(t, op, a, b, out);
    case DYN_S_SLICE_START:
    case DYN_S_SLICE_STOP: return is_int(t, a) && is_int(t, b) && rule_slice_bound(t, a, b, c, out);
    case DYN_S_SLICE_LEN: return is_int(t, a) && is_int(t, b) && rule_slice_len(t, a, b, c, out);
    default: return false;
    }
}

/* ---- operators */

/* Operators whose operands may change places without a change of the result's bits: a constant goes to the right, else by id. */
static bool commutes(const DynSyms *t, DynSymOp op, uint32_t a, uint32_t b) {
    switch (op) {
    case DYN_S_ADD:
    case DYN_S_MUL: return !is_float(t, a) && !is_float(t, b); /* of two nans the first one's bits are kept */
    case DYN_S_AND:
    case DYN_S_OR:
    case DYN_S_XOR:
    case DYN_S_EQ:
    case DYN_S_NE:
    case DYN_S_SAME_BITS: return true;
    default: return false;
    }
}

/* The rows of an operator's operands; those that it doesn't have are its first. */
typedef struct Operands {
    const DynSym *a;
    const DynSym *b;
    const DynSym *c;
} Operands;

/* Has the operator all its operands? Memory was out where one is missing. */
static bool has_operands(int arity, uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t operands[3] = {a, b, c};
    bool all = true;
    for (int i = 0; i < arity; i++) {
        all = all && operands[i] != DYN_NONE;
    }
    return all;
}

static Operands operands_at(const DynSyms *t, int arity, uint32_t a, uint32_t b, uint32_t c) {
    Operands o = {dyn_sym_at(t, a), dyn_sym_at(t, a), dyn_sym_at(t, a)};
    if (arity > 1) {
        o.b = dyn_sym_at(t, b);
    }
    if (arity > 2) {
        o.c = dyn_sym_at(t, c);
    }
    return o;
}

/* The operator as a row (constants folded), without the rules. */
static uint32_t row(DynSyms *t, DynSymOp op, uint32_t a, uint32_t b, uint32_t c) {
    int arity = dyn_sym_info[op].arity;
    if (a == DYN_NONE || !has_operands(arity, a, b, c)) {
        return DYN_NONE;
    }
    if (arity > 1 && commutes(t, op, a, b)) {
        bool ca = dyn_sym_is_const(t, a), cb = dyn_sym_is_const(t, b);
        if (ca != cb ? ca : a > b) {
            uint32_t swap = a;
            a = b, b = swap;
        }
    }
    Operands o = operands_at(t, arity, a, b, c);
    const DynSym *sa = o.a, *sb = o.b, *sc = o.c;
    DynSym s = {.op = op, .a = a, .b = DYN_NONE, .c = DYN_NONE};
    if (arity > 1) {
        s.b = b;
    }
    if (arity > 2) {
        s.c = c;
    }
    int type = dyn_sym_result(op, sa->type, sb->type, sb->hint);
    if (type < 0 || dyn_sym_eval(op, sa->type, sb->type, sa->hint, sb->hint, sc->hint, &s.hint) < 0) {
        return DYN_NONE;
    }
    if (sa->op == DYN_S_CONST && sb->op == DYN_S_CONST && sc->op == DYN_S_CONST) {
        return dyn_sym_constant(t, (DynSymType)type, s.hint);
    }
    s.type = (uint8_t)type;
    s.after = sa->after > sb->after ? sa->after : sb->after;
    s.after = s.after > sc->after ? s.after : sc->after;
    return intern(t, &s);
}

uint32_t dyn_sym_op(DynSyms *t, DynSymOp op, uint32_t a, uint32_t b, uint32_t c) {
    int arity = dyn_sym_info[op].arity;
    uint32_t out = DYN_NONE;
    static const uint8_t mirror[DYN_S_COUNT] = {[DYN_S_EQ] = DYN_S_EQ, [DYN_S_NE] = DYN_S_NE, [DYN_S_LT] = DYN_S_GT,
                                                [DYN_S_LE] = DYN_S_GE, [DYN_S_GT] = DYN_S_LT, [DYN_S_GE] = DYN_S_LE};
    if (arity == 0 || !has_operands(arity, a, b, c)) {
        return DYN_NONE;
    }
    if (mirror[op] != 0 && dyn_sym_is_const(t, a)) { /* a constant stands on the right */
        uint32_t swap = a;
        a = b, b = swap, op = (DynSymOp)mirror[op];
    }
    Operands o = operands_at(t, arity, a, b, c);
    const DynSym *sa = o.a, *sb = o.b, *sc = o.c;
    DynScalar hint;
    if (dyn_sym_eval(op, sa->type, sb->type, sa->hint, sb->hint, sc->hint, &hint) < 0) {
        return DYN_NONE;
    }
    bool fixed = sa->op == DYN_S_CONST && sb->op == DYN_S_CONST && sc->op == DYN_S_CONST;
    if (!fixed && simplify(t, op, a, b, c, &out)) {
        return out;
    }
    return row(t, op, a, b, c);
}

/* ---- printing */

void dyn_sym_print_value(DynSymType type, DynScalar value, DynStr *out) {
    if (type == DYN_T_BOOL) {
        dyn_str_puts(out, value.i ? "True" : "False");
    } else if (type == DYN_T_INT) {
        dyn_str_printf(out, "%lld", (long long)value.i);
    } else {
        char *text = PyOS_double_to_string(value.f, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
        const char *number = text == NULL ? "?" : text;
        bool named = strchr(number, 'n') != NULL; /* inf, -inf, nan */
        dyn_str_printf(out, named ? "float('%s')" : "%s", number);
        PyMem_Free(text);
    }
}

static void print(const DynSyms *t, const DynSources *sources, uint32_t id, int depth, DynStr *out) {
    const DynSym *s = dyn_sym_at(t, id);
    if (depth > MAX_PRINT_DEPTH || out->n > MAX_PRINT_LENGTH) {
        dyn_str_puts(out, "...");
    } else if (s->op == DYN_S_CONST) {
        dyn_sym_print_value((DynSymType)s->type, s->value, out);
    } else if (s->op == DYN_S_LATE) {
        dyn_str_printf(out, s->b == DYN_LATE_SIZE ? "size(%%%u, %u)" : "number(%%%u)", s->a, (unsigned)s->index);
    } else if (dyn_sym_is_read((DynSymOp)s->op)) {
        if (sources == NULL) {
            dyn_str_printf(out, "s%u", (unsigned)id);
        } else {
            dyn_source_print(sources, s->a, out);
        }
        if (dyn_sym_of_axis((DynSymOp)s->op) && sources != NULL) {
            dyn_str_printf(out, s->op == DYN_S_DIM ? ".shape[%d]" : ".strides[%d]", (int)s->index);
        }
    } else {
        for (const char *p = dyn_sym_info[s->op].text; *p != '\0'; p++) {
            if (*p == '{') {
                print(t, sources, dyn_sym_operand(s, p[1] - 'a'), depth + 1, out);
                p += 2;
            } else {
                dyn_str_putc(out, *p);
            }
        }
    }
}

void dyn_sym_print(const DynSyms *t, const DynSources *s, uint32_t id, DynStr *out) {
    DynStr text = {0};
    print(t, s, id, 0, &text);
    const DynSym *top = dyn_sym_at(t, id);
    bool wrapped = dyn_sym_info[top->op].text[0] == '(' && !text.failed && text.n > 2;
    if (wrapped) {
        text.at[text.n - 1] = '\0';
    }
    dyn_str_puts(out, dyn_str_at(&text) + (wrapped ? 1 : 0));
    dyn_str_free(&text);
}
