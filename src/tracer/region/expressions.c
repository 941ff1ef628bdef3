/* expressions.c: arithmetic of whole arrays in loops. Called by step.c, items.c, numbers.c and calls.c.
 *
 * An expression is no object: it is kept as a tree (DYN_RK_EXPR) of its operands, arrays as they lie and numbers in registers,
 * and computed where it is stored or added up, element by element in one loop. It is computed into memory of its own, the
 * processor's flags are read, and then it is stored: so arrays that overlap are as NumPy has them, and where NumPy warns nothing
 * has happened yet. What is stored while an expression waits could change its operands: then the loop isn't planned
 * (plan_effect).
 *
 * Which dtype two operands give is what numbers.c says of NumPy's scalars. Sizes of axes have to be equal; axes that an operand
 * lacks it is repeated along. */
#include "tracer/region/plan.h"
#include "base/cpy.h"
#include <opcode.h>

enum {
    MOST_LEAVES = 12,
    SQUARE = DYN_RO_COUNT + 1,
    LARGE = 1 << 16,       /* Bytes from which on a result is better left to a graph, which has several threads, */
    LARGE_VECTOR = 1 << 18 /* and of one axis. */
};

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

static bool is_expression(const PlanValue *v) { return v->v.kind == DYN_RK_EXPR; }
bool plan_is_whole(const PlanValue *v) { return plan_is_array(v) || is_expression(v); }
static uint32_t rank_of(const PlanValue *v) { return plan_is_array(v) ? v->v.n : is_expression(v) ? v->v.shape : 0; }
static uint32_t size_of(const PlanValue *v, uint32_t axis) { return v->v.regs[plan_is_array(v) ? 2 + axis : axis]; }

/* Leaves where the two differ. */
void plan_same_size(Plan *p, uint32_t a, uint32_t b) {
    if (a != b) {
        uint32_t same = plan_emit(p, DYN_RO_IEQ, a, b, DYN_NONE);
        plan_emit_or(p, DYN_RO_IDX, plan_iconst(p, 0), same, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    }
}

bool plan_has_expression(const PlanValue *v) {
    bool has = is_expression(v);
    for (uint32_t i = 0; !has && dyn_region_has_items(v->v.kind) && i < v->v.n; i++) {
        has = plan_has_expression(&v->items[i]);
    }
    return has;
}

/* ---- building the tree */

/* Elements of this dtype are computed here. */
static bool is_computed(DynDtype dt) { return dt == DYN_F64 || dt == DYN_F32 || dt == DYN_I64; }

/* A number as an operand, or an array whose elements are converted when they are read. */
static bool as_operand(Plan *p, PlanValue v, DynDtype dt, PlanValue *out) {
    uint32_t reg;
    *out = v;
    if (plan_is_whole(&v)) {
        bool widens = dt == DYN_F64 || (dt == DYN_I64 && !dyn_dtype_is_inexact((DynDtype)v.v.dtype));
        return v.v.dtype == dt || (widens && plan_np_type((DynDtype)v.v.dtype) != 0) || no(p, "arrays of these dtypes");
    }
    if (dt == DYN_F64) {
        plan_double(p, v, &reg);
    } else if (dt == DYN_F32) {
        reg = plan_single(p, v);
    } else {
        reg = plan_reg(p, &v);
    }
    *out = plan_np(dt, reg);
    return true;
}

static bool expression(Plan *p, int code, DynDtype dt, const PlanValue *operands, uint32_t n, PlanValue *out) {
    PlanValue v = plan_value(DYN_RK_EXPR, DYN_NONE), *items = DYN_NEW_N(&p->arena, PlanValue, n);
    uint32_t rank = 0;
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return no(p, "memory");
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!as_operand(p, operands[i], dt, &items[i])) {
            return false;
        }
        rank = rank_of(&items[i]) > rank ? rank_of(&items[i]) : rank;
    }
    for (uint32_t k = 0; k < rank; k++) {
        uint32_t size = DYN_NONE;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t own = rank_of(&items[i]), missing = rank - own;
            if (k < missing) {
                continue;
            }
            if (size == DYN_NONE) {
                size = size_of(&items[i], k - missing);
            } else {
                plan_same_size(p, size, size_of(&items[i], k - missing));
            }
        }
        v.v.regs[v.v.nregs++] = size;
    }
    v.v.dtype = (uint8_t)dt;
    v.v.n = (uint8_t)n;
    v.v.shape = (uint16_t)rank;
    v.v.ref = (uint32_t)code;
    v.items = items;
    p->r->warns = p->r->warns || dyn_dtype_is_inexact(dt);
    *out = v;
    return true;
}

static const struct Operator {
    int op;
    DynRegionOp of_doubles, of_singles, of_ints; /* COUNT: there is none */
} operators[] = {{NB_ADD, DYN_RO_DADD, DYN_RO_SADD, DYN_RO_IADDW},
                 {NB_SUBTRACT, DYN_RO_DSUB, DYN_RO_SSUB, DYN_RO_ISUBW},
                 {NB_MULTIPLY, DYN_RO_DMUL, DYN_RO_SMUL, DYN_RO_IMULW},
                 {NB_TRUE_DIVIDE, DYN_RO_CDIV, DYN_RO_SCDIV, DYN_RO_COUNT}};

static DynRegionOp code_of(int op, DynDtype dt) {
    for (size_t i = 0; i < DYN_COUNTOF(operators); i++) {
        if (operators[i].op == op) {
            return dt == DYN_F64 ? operators[i].of_doubles : dt == DYN_F32 ? operators[i].of_singles : operators[i].of_ints;
        }
    }
    return DYN_RO_COUNT;
}

/* What stands for its elements. */
static PlanValue element_of(const PlanValue *v) { return plan_is_whole(v) ? plan_np((DynDtype)v->v.dtype, DYN_NONE) : *v; }

bool plan_array_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    bool operands = (plan_is_whole(&a) || plan_is_number(&a)) && (plan_is_whole(&b) || plan_is_number(&b));
    if (!operands) {
        return no(p, "an array beside something else than arrays and numbers");
    }
    PlanValue x = element_of(&a), y = element_of(&b), both[2] = {a, b};
    DynDtype dt = plan_promote(&x, &y);
    bool two = b.known && (b.v.kind == DYN_RK_FLOAT ? b.number.f == 2.0 : b.v.kind == DYN_RK_INT && b.number.i == 2);
    if (op == NB_POWER && two && (a.v.dtype == DYN_F64 || a.v.dtype == DYN_F32)) {
        return expression(p, SQUARE, (DynDtype)a.v.dtype, both, 1, out);
    }
    if (op == NB_TRUE_DIVIDE && dt != DYN_F32 && dt != DYN_NO_DTYPE) {
        dt = DYN_F64;
    }
    if (dt == DYN_NO_DTYPE || !is_computed(dt) || code_of(op, dt) == DYN_RO_COUNT) {
        return no(p, "an operator of arrays that loops in native code don't have");
    }
    return expression(p, (int)code_of(op, dt), dt, both, 2, out);
}

bool plan_array_unary(Plan *p, int code, PlanValue a, PlanValue *out) {
    bool single = a.v.dtype == DYN_F32;
    DynDtype dt = (DynDtype)a.v.dtype;
    if (dt != DYN_F64 && dt != DYN_F32) {
        return no(p, "a function of an array that has no floats");
    }
    switch (code) {
    case DYN_RO_DNEG: return expression(p, single ? DYN_RO_SNEG : DYN_RO_DNEG, dt, &a, 1, out);
    case DYN_RO_DABS: return expression(p, single ? DYN_RO_SABS : DYN_RO_DABS, dt, &a, 1, out);
    case DYN_RO_SQRT: return expression(p, single ? DYN_RO_SROOT : DYN_RO_ROOT, dt, &a, 1, out);
    default: return no(p, "a function of arrays that loops in native code don't have");
    }
}

/* ---- loops over its elements */

/* Where its elements lie: of an array among the operands, or what is written. */
typedef struct Leaf {
    const PlanValue *v;
    uint32_t at; /* A register: of the axes that are fixed so far. */
} Leaf;

typedef struct Fill {
    uint32_t rank, n;
    Leaf leaves[MOST_LEAVES]; /* The first is written. */
    uint32_t next;            /* The leaf that is read next. */
    uint32_t counter;         /* Of the innermost axis. */
    bool keeps;               /* It is written into memory of its own. */
} Fill;

static bool find_leaves(Plan *p, Fill *f, const PlanValue *v) {
    if (plan_is_array(v)) {
        if (f->n == MOST_LEAVES) {
            return no(p, "an expression of many arrays");
        }
        f->leaves[f->n++] = (Leaf){v, v->v.regs[1]};
    }
    for (uint32_t i = 0; is_expression(v) && i < v->v.n; i++) {
        if (!find_leaves(p, f, &v->items[i])) {
            return false;
        }
    }
    return true;
}

/* What is kept until it is stored is written as another type than elements are read, so that compilers know it to lie apart. */
static const struct Access {
    DynDtype dt;
    DynRegionOp read, keep;
} accesses[] = {
    {DYN_F64, DYN_RO_RDF64, DYN_RO_KEEPF64}, {DYN_F32, DYN_RO_RDF32, DYN_RO_KEEPF32}, {DYN_I64, DYN_RO_RDI64, DYN_RO_KEEPI64}};

static DynRegionOp access_of(const Fill *f, DynDtype dt, bool store) {
    for (size_t i = 0; f->keeps && i < DYN_COUNTOF(accesses); i++) {
        if (accesses[i].dt == dt) {
            return store ? accesses[i].keep : accesses[i].read;
        }
    }
    return store ? plan_store_op(dt) : plan_load_op(dt);
}

static uint32_t converted(Plan *p, uint32_t reg, DynDtype from, DynDtype to) {
    if (to == DYN_F64 && from == DYN_F32) {
        return plan_emit(p, DYN_RO_S2D, reg, DYN_NONE, DYN_NONE);
    }
    return to == DYN_F64 && from != DYN_F64 ? plan_emit(p, DYN_RO_I2D, reg, DYN_NONE, DYN_NONE) : reg;
}

/* One element, in a register of type `to`. */
static uint32_t compute(Plan *p, Fill *f, const PlanValue *v, DynDtype to) {
    DynDtype dt = (DynDtype)v->v.dtype;
    if (plan_is_array(v)) {
        const Leaf *leaf = &f->leaves[f->next++];
        uint32_t offset = plan_emit(p, DYN_RO_IMULW, f->counter, plan_stride(p, v, v->v.n - 1u), DYN_NONE);
        return converted(p, plan_emit(p, access_of(f, dt, false), leaf->at, offset, DYN_NONE), dt, to);
    }
    if (!is_expression(v)) {
        return converted(p, v->v.regs[0], dt, to);
    }
    uint32_t a = compute(p, f, &v->items[0], dt);
    if (v->v.ref == SQUARE) {
        return converted(p, plan_emit(p, dt == DYN_F64 ? DYN_RO_DMUL : DYN_RO_SMUL, a, a, DYN_NONE), dt, to);
    }
    uint32_t b = v->v.n > 1 ? compute(p, f, &v->items[1], dt) : DYN_NONE;
    return converted(p, plan_emit(p, (DynRegionOp)v->v.ref, a, b, DYN_NONE), dt, to);
}

/* Each leaf that has the axis one place further along it. */
static void fix_axis(Plan *p, Fill *f, uint32_t axis, uint32_t counter) {
    for (uint32_t i = 0; i < f->n; i++) {
        Leaf *leaf = &f->leaves[i];
        uint32_t missing = f->rank - leaf->v->v.n;
        if (axis >= missing) {
            uint32_t offset = plan_emit(p, DYN_RO_IMULW, counter, plan_stride(p, leaf->v, axis - missing), DYN_NONE);
            leaf->at = plan_emit(p, DYN_RO_PADD, leaf->at, offset, DYN_NONE);
        }
    }
}

static void fill_axis(Plan *p, Fill *f, const PlanValue *v, uint32_t axis) {
    const PlanValue *to = f->leaves[0].v;
    uint32_t at = plan_frame(p)->at, size = size_of(to, axis), one = plan_iconst(p, 1);
    uint32_t counter = plan_emit(p, DYN_RO_IMOV, plan_iconst(p, 0), DYN_NONE, DYN_NONE);
    uint32_t head = plan_new_block(p, at), body = plan_new_block(p, at), behind = plan_new_block(p, at);
    plan_end(p, DYN_RO_JMP, DYN_NONE, head, DYN_NONE, DYN_NONE);
    p->block = head;
    plan_end(p, DYN_RO_BR, plan_emit(p, DYN_RO_ILT, counter, size, DYN_NONE), body, behind, DYN_NONE);
    p->block = body;
    if (axis + 1 < f->rank) {
        Fill inner = *f;
        fix_axis(p, &inner, axis, counter);
        fill_axis(p, &inner, v, axis + 1);
    } else {
        f->counter = counter;
        f->next = 1;
        uint32_t reg = compute(p, f, v, (DynDtype)to->v.dtype);
        uint32_t offset = plan_emit(p, DYN_RO_IMULW, counter, plan_stride(p, to, axis), DYN_NONE);
        plan_emit(p, access_of(f, (DynDtype)to->v.dtype, true), f->leaves[0].at, offset, reg);
    }
    plan_emit(p, DYN_RO_IMOV, plan_emit(p, DYN_RO_IADDW, counter, one, DYN_NONE), DYN_NONE, DYN_NONE);
    plan_last(p)->dst = counter;
    plan_end(p, DYN_RO_JMP, DYN_NONE, head, DYN_NONE, DYN_NONE);
    p->block = behind;
}

/* Computes v, an expression, array or number, for each element of the array `to`, whose sizes are v's. */
static bool fill(Plan *p, const PlanValue *v, const PlanValue *to, bool keeps) {
    Fill f = {.rank = to->v.n, .n = 1, .keeps = keeps, .leaves = {{to, to->v.regs[1]}}};
    if (!find_leaves(p, &f, v)) {
        return false;
    }
    fill_axis(p, &f, v, 0);
    return true;
}

/* How large the axis was when the loop was planned, counted from the last; 1: that isn't known. */
int64_t plan_sample(const PlanValue *v, uint32_t from_last) {
    int64_t most = 1;
    if (plan_is_array(v) && v->sizes != NULL && from_last < v->v.n) {
        most = v->sizes[v->v.n - 1 - from_last];
    }
    for (uint32_t i = 0; is_expression(v) && i < v->v.n; i++) {
        int64_t own = plan_sample(&v->items[i], from_last);
        most = own > most ? own : most;
    }
    return most;
}

bool plan_is_large(const PlanValue *v) {
    double bytes = dyn_dtypes[v->v.dtype].size;
    for (uint32_t k = 0; k < rank_of(v); k++) {
        bytes *= (double)plan_sample(v, k);
    }
    return bytes > (rank_of(v) == 1 ? LARGE_VECTOR : LARGE);
}

/* Computes v where `to` lies, whose sizes are v's. keeps: as `fill` has it. */
static bool compute_into(Plan *p, const PlanValue *v, const PlanValue *to, bool keeps) {
    p->r->whole_arrays = true;
    bool reports = is_expression(v) && dyn_dtype_is_inexact((DynDtype)v->v.dtype);
    if (reports) {
        plan_emit(p, DYN_RO_UNFLAG, DYN_NONE, DYN_NONE, DYN_NONE);
    }
    if (!fill(p, v, to, keeps)) {
        return false;
    }
    if (reports) {
        plan_emit_or(p, DYN_RO_FLAGS, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_FLAGS);
    }
    return true;
}

static PlanValue dense_array(DynRegionKind kind, DynDtype dt, uint32_t object, uint32_t data) {
    PlanValue v = plan_value(kind, object);
    v.v.dtype = (uint8_t)dt;
    v.v.flags = DYN_RF_CONTIGUOUS | DYN_RF_WRITEABLE;
    v.v.regs[v.v.nregs++] = data;
    return v;
}

/* Computes v into memory of its own, for what follows at once: a view that nobody is shown. */
static bool keep(Plan *p, const PlanValue *v, PlanValue *out) {
    if (plan_is_large(v)) {
        return no(p, "a large array is computed");
    }
    uint32_t rank = rank_of(v), strides[DYN_REGION_RANK], bytes = plan_iconst(p, dyn_dtypes[v->v.dtype].size);
    for (uint32_t k = rank; k-- > 0;) {
        strides[k] = bytes;
        bytes = plan_emit_or(p, DYN_RO_IMUL, bytes, size_of(v, k), DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    }
    uint32_t data = plan_emit_or(p, DYN_RO_SCRATCH, bytes, plan_iconst(p, 0), DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    PlanValue to = dense_array(DYN_RK_VIEW, (DynDtype)v->v.dtype, data, data);
    to.v.n = (uint8_t)rank;
    for (uint32_t k = 0; k < 2 * rank; k++) {
        to.v.regs[to.v.nregs++] = k < rank ? size_of(v, k) : strides[k - rank];
    }
    bool done = compute_into(p, v, &to, true);
    *out = to;
    return done;
}

/* ---- vectors that the loop makes */

static void hold(Plan *p, const PlanValue *v) {
    if (plan_is_array(v) || v->v.kind == DYN_RK_SEQ) {
        plan_emit(p, DYN_RO_HOLDARRAY, v->v.regs[0], DYN_NONE, DYN_NONE);
    }
    for (uint32_t i = 0; dyn_region_has_items(v->v.kind) && i < v->v.n; i++) {
        hold(p, &v->items[i]);
    }
}

/* A slot that the loop's function doesn't assign in the loop has what it came with. */
static bool is_assigned(const Plan *p, uint32_t slot) {
    for (uint32_t i = 0; i < p->c->v.n; i++) {
        const DynInstr *in = &p->c->v.at[i];
        if (p->in_loop[i] && in->op == DYN_I_STORE_FAST && in->arg == slot) {
            return true;
        }
    }
    return false;
}

/* Every value that may be one that the loop has made, now or where CPython would go on. */
static void hold_all(Plan *p, const PlanState *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        bool came_in = i < p->r->nslots && !is_assigned(p, i);
        bool again = s != &p->s && i < p->s.n && s->values[i].v.regs[0] == p->s.values[i].v.regs[0];
        if (!came_in && !again) {
            hold(p, &s->values[i]);
        }
    }
}

PlanValue plan_new_vector(Plan *p, DynDtype dt, uint32_t n, const PlanValue *reads, uint32_t nreads) {
    p->r->whole_arrays = true;
    hold_all(p, &p->s);
    hold_all(p, &p->resume);
    for (uint32_t i = 0; i < nreads; i++) {
        hold(p, &reads[i]);
    }
    uint32_t object = plan_emit_or(p, DYN_RO_NEWARRAY, n, plan_iconst(p, dt), DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    PlanValue v = dense_array(DYN_RK_ARRAY, dt, object, plan_emit(p, DYN_RO_ADATA, object, DYN_NONE, DYN_NONE));
    v.v.n = 1;
    v.v.flags |= DYN_RF_DROPPABLE;
    v.v.regs[v.v.nregs++] = n;
    v.v.regs[v.v.nregs++] = plan_iconst(p, dyn_dtypes[dt].size);
    return v;
}

static bool make_vector(Plan *p, const PlanValue *v, const PlanValue *reads, uint32_t nreads, PlanValue *out) {
    if (rank_of(v) != 1) {
        return no(p, "an array of several axes that the loop makes");
    }
    if (plan_is_large(v)) {
        return no(p, "a large array is computed");
    }
    int64_t *sizes = DYN_NEW_N(&p->arena, int64_t, 1);
    PlanValue to = plan_new_vector(p, (DynDtype)v->v.dtype, size_of(v, 0), reads, nreads);
    if (sizes != NULL) {
        *sizes = plan_sample(v, 0);
        to.sizes = sizes;
    }
    bool done = compute_into(p, v, &to, false);
    *out = to;
    return done;
}

bool plan_make_vector(Plan *p, const PlanValue *v, PlanValue *out) { return make_vector(p, v, v, 1, out); }

bool plan_make_vectors(Plan *p, PlanValue *v, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (is_expression(&v[i]) && !make_vector(p, &v[i], v, n, &v[i])) {
            return false;
        }
    }
    return true;
}

bool plan_fill_vector(Plan *p, PlanValue n, int number, PlanValue *out) {
    if (n.v.kind != DYN_RK_INT) {
        return no(p, "a new array of another shape than one axis");
    }
    *out = plan_new_vector(p, DYN_F64, plan_reg(p, &n), NULL, 0);
    PlanValue all = plan_np(DYN_F64, plan_dconst(p, number));
    return fill(p, &all, out, false);
}

/* ---- stores */

/* One line of elements goes into another one that may be of the same memory and lie in other steps: NumPy stores each before it
 * reads the next, so the loop is left where they overlap. */
static void leave_in_numpys_order(Plan *p, const PlanValue *from, const PlanValue *to) {
    plan_put_operand(p, from, 0);
    plan_put_operand(p, to, 0);
    plan_emit_or(p, DYN_RO_LINES, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_ALIASING);
}

bool plan_store_whole(Plan *p, const PlanValue *to, PlanValue v) {
    PlanValue made;
    uint32_t reg, rank = rank_of(&v);
    DynDtype dt = (DynDtype)to->v.dtype;
    if (!plan_is_whole(&v)) {
        if (!plan_as_element(p, v, dt, &reg)) {
            return false;
        }
        v = plan_np(dt, reg);
        plan_settle_doubts(p);
        return fill(p, &v, to, false);
    }
    bool casts = v.v.dtype == to->v.dtype || (dt == DYN_F64 && plan_np_type((DynDtype)v.v.dtype) != 0);
    if (!casts || rank > to->v.n) {
        return no(p, "an array of another dtype, or of more axes, is stored");
    }
    for (uint32_t k = 0; k < rank; k++) {
        plan_same_size(p, size_of(&v, k), size_of(to, to->v.n - rank + k));
    }
    if (plan_is_array(&v) && rank == 1 && to->v.n == 1) {
        leave_in_numpys_order(p, &v, to);
    }
    if (!keep(p, &v, &made)) {
        return false;
    }
    plan_settle_doubts(p);
    return fill(p, &made, to, false);
}

/* Is the result of the operator stored where its left side was read, by the next instructions? So is `a[i] += x` compiled. */
static bool is_stored_next(Plan *p) {
    const DynInstr *in = plan_instr(p) + 1;
    while (in->op == DYN_I_SWAP) {
        in++;
    }
    return in->op == DYN_I_STORE_SUBSCR || in->op == DYN_I_STORE_SLICE;
}

Went plan_array_in_place(Plan *p, int op) {
    PlanValue a = *plan_top(p, 1), e;
    if (!plan_array_binary(p, op, a, *plan_top(p, 0), &e)) {
        return WENT_NOWHERE;
    }
    if (e.v.dtype != a.v.dtype || rank_of(&e) != rank_of(&a)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "an array is changed by one of another dtype, or of more axes");
    }
    p->s.n -= 2;
    if (is_stored_next(p)) {
        plan_push(p, e);
        return WENT_ON;
    }
    if (!(a.v.flags & DYN_RF_WRITEABLE)) {
        p->s.n += 2;
        return plan_unknown(p, DYN_R_EXCEPTION, "the array can't be written");
    }
    if (!plan_store_whole(p, &a, e)) {
        p->s.n += 2;
        return WENT_NOWHERE;
    }
    plan_push(p, a);
    plan_effect(p, plan_frame(p)->at + 1);
    return WENT_ON;
}

/* ---- reductions of one axis, by NumPy's own loop */

bool plan_array_reduce(Plan *p, int code, PlanValue a, PlanValue *out) {
    if (!plan_is_whole(&a) || rank_of(&a) != 1 || a.v.dtype != DYN_F64) {
        return no(p, "a reduction of something else than a vector of doubles");
    }
    bool mean = code == PLAN_MEAN;
    if (is_expression(&a) && !keep(p, &a, &a)) {
        return false;
    }
    p->r->warns = true;
    uint32_t stride = plan_stride(p, &a, 0), n = size_of(&a, 0);
    p->r->whole_arrays = true;
    uint32_t reg = plan_emit_or(p, mean ? DYN_RO_ASUM : (DynRegionOp)code, a.v.regs[1], stride, n, DYN_R_FLAGS);
    if (mean) {
        reg = plan_emit_or(p, DYN_RO_DDIV, reg, plan_emit(p, DYN_RO_I2D, n, DYN_NONE, DYN_NONE), DYN_NONE, DYN_R_FLAGS);
    }
    *out = plan_np(DYN_F64, reg);
    return true;
}

static const struct Method {
    const char *name;
    int code;
} methods[] = {{"sum", DYN_RO_ASUM}, {"mean", PLAN_MEAN}, {"max", DYN_RO_AMAX},
               {"min", DYN_RO_AMIN}, {"dot", PLAN_DOT},   {"copy", PLAN_COPY}};

/* A copy of a matrix is laid out as it is, or not: CPython makes it. */
static bool call_method(Plan *p, int code, PlanValue self, const PlanValue *args, uint32_t n, PlanValue *out) {
    if (code == PLAN_DOT && n == 1) {
        return plan_dot(p, self, args[0], false, out);
    }
    if (n != 0) {
        return no(p, "a method of an array with arguments");
    }
    return code == PLAN_COPY ? plan_make_vector(p, &self, out) : plan_array_reduce(p, code, self, out);
}

PyObject *plan_array_method(const char *name) {
    for (size_t i = 0; name != NULL && i < DYN_COUNTOF(methods); i++) {
        if (strcmp(methods[i].name, name) == 0) {
            return dyn_cpy_lookup_named(&PyArray_Type, name);
        }
    }
    return NULL;
}

Went plan_call_array_method(Plan *p, PyObject *method, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    PlanValue out;
    for (size_t i = 0; i < DYN_COUNTOF(methods); i++) {
        if (dyn_cpy_lookup_named(&PyArray_Type, methods[i].name) == method) {
            if (!call_method(p, methods[i].code, self, args, n, &out)) {
                return WENT_NOWHERE;
            }
            p->s.n -= slots;
            plan_push(p, out);
            return WENT_ON;
        }
    }
    return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a method of an array that loops in native code don't have");
}
