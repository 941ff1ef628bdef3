/* fills.c: loops over the elements of whole arrays: expressions are computed where they are stored, or into arrays that the loop
 * makes; masks say which elements are taken or stored. Called by step.c, items.c, calls.c and the other files on arrays.
 *
 * What is stored is computed into memory of its own first, the processor's flags are read, and then it is stored: so arrays that
 * overlap are as NumPy has them, and where NumPy warns nothing has happened yet. Arrays that are made lie in rows, as NumPy's do
 * where their operands do: where they don't, the loop is left. */
#include "tracer/region/plan.h"
#include "base/cpy.h"

enum {
    MOST_LEAVES = 12,
    LARGE = 1 << 16,        /* Bytes from which on a result is better left to a graph, which has several threads, */
    LARGE_VECTOR = 1 << 18, /* and of one axis. */
    VALUES = 0,             /* Memory of one's own: for values, */
    MASK = 1                /* and for what says where they go. */
};

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

/* ---- loops over elements */

/* Where its elements lie: of an array among the operands, or what is written. */
typedef struct Leaf {
    const PlanValue *v;
    uint32_t at; /* A register: of the axes that are fixed so far. */
} Leaf;

typedef struct Fill Fill;
struct Fill {
    uint32_t rank, n;
    Leaf leaves[MOST_LEAVES]; /* The first `next` are written. */
    uint32_t first, next;     /* The leaf that is read next, and first. */
    uint32_t counter;         /* Of the innermost axis. */
    bool keeps;               /* It is written into memory of its own. */
    const PlanValue *to;      /* What is written, or NULL. */
    /* What is done for each element of v; `made` and `place`: where the next that is taken goes, or comes from. */
    void (*body)(Plan *p, Fill *f, const PlanValue *v);
    const PlanValue *made;
    uint32_t place;
    const PlanFold *fold;
};

static bool find_leaves(Plan *p, Fill *f, const PlanValue *v) {
    if (plan_is_whole(v) && v->v.dtype == DYN_C128) {
        return no(p, "complex numbers one by one");
    }
    if (plan_is_array(v)) {
        if (f->n == MOST_LEAVES) {
            return no(p, "an expression of many arrays");
        }
        f->leaves[f->n++] = (Leaf){v, v->v.regs[1]};
    }
    for (uint32_t i = 0; plan_is_expression(v) && i < v->v.n; i++) {
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

/* Integers of less than 64 bits are computed in more, and what is too large for them wraps. */
static uint32_t wrapped(Plan *p, uint32_t reg, uint32_t code, DynDtype dt) {
    bool may_be = code == DYN_RO_IADDW || code == DYN_RO_ISUBW || code == DYN_RO_IMULW || code == DYN_RO_INOT;
    if (!may_be || dt == DYN_I64) {
        return reg;
    }
    int bits = 8 * dyn_dtypes[dt].size;
    reg = plan_emit(p, DYN_RO_WRAP, reg, DYN_NONE, DYN_NONE);
    plan_last(p)->imm.i = dyn_dtypes[dt].kind == 'u' ? -bits : bits;
    return reg;
}

static uint32_t compute(Plan *p, Fill *f, const PlanValue *v, DynDtype to);

static uint32_t choose(Plan *p, Fill *f, const PlanValue *v) {
    uint32_t which = compute(p, f, &v->items[0], DYN_BOOL), a = compute(p, f, &v->items[1], v->of);
    uint32_t b = compute(p, f, &v->items[2], v->of);
    DynRegionOp op = v->of == DYN_F64 ? DYN_RO_DSELECT : v->of == DYN_F32 ? DYN_RO_SSELECT : DYN_RO_ISELECT;
    return plan_emit(p, op, which, a, b);
}

/* One element, in a register of type `to`. */
static uint32_t compute(Plan *p, Fill *f, const PlanValue *v, DynDtype to) {
    DynDtype dt = (DynDtype)v->v.dtype;
    if (plan_is_array(v)) {
        const Leaf *leaf = &f->leaves[f->next++];
        uint32_t offset = plan_emit(p, DYN_RO_IMULW, f->counter, plan_stride(p, v, v->v.n - 1u), DYN_NONE);
        return converted(p, plan_emit(p, access_of(f, dt, false), leaf->at, offset, DYN_NONE), dt, to);
    }
    if (!plan_is_expression(v)) {
        return converted(p, v->v.regs[0], dt, to);
    }
    if (v->v.ref == PLAN_SELECT) {
        return converted(p, choose(p, f, v), dt, to);
    }
    uint32_t a = compute(p, f, &v->items[0], v->of);
    if (v->v.ref == PLAN_SQUARE) {
        DynRegionOp op = dt == DYN_F64 ? DYN_RO_DMUL : dt == DYN_F32 ? DYN_RO_SMUL : DYN_RO_IMULW;
        return converted(p, plan_emit(p, op, a, a, DYN_NONE), dt, to);
    }
    uint32_t b = v->v.n > 1 ? compute(p, f, &v->items[1], v->of) : DYN_NONE;
    uint32_t reg = wrapped(p, plan_emit_op(p, (DynRegionOp)v->v.ref, a, b, DYN_R_FLAGS), v->v.ref, dt);
    return converted(p, reg, dt, to);
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

static void assign(Plan *p, uint32_t to, uint32_t from) {
    char type = p->r->regs.at[from];
    plan_emit(p,
              type == 'D'   ? DYN_RO_DMOV
              : type == 'S' ? DYN_RO_SMOV
              : type == 'P' ? DYN_RO_PMOV
                            : DYN_RO_IMOV,
              from, DYN_NONE, DYN_NONE);
    plan_last(p)->dst = to;
}

static void count_up(Plan *p, uint32_t counter) {
    assign(p, counter, plan_emit(p, DYN_RO_IADDW, counter, plan_iconst(p, 1), DYN_NONE));
}

uint32_t plan_variable(Plan *p, uint32_t from) {
    char type = p->r->regs.at[from];
    return plan_emit(p,
                     type == 'D'   ? DYN_RO_DMOV
                     : type == 'S' ? DYN_RO_SMOV
                     : type == 'P' ? DYN_RO_PMOV
                                   : DYN_RO_IMOV,
                     from, DYN_NONE, DYN_NONE);
}

/* A loop that counts to `size` begins; p->block is its body. */
PlanCount plan_count(Plan *p, uint32_t size) {
    uint32_t at = plan_frame(p)->at;
    PlanCount c = {.counter = plan_variable(p, plan_iconst(p, 0))};
    uint32_t body = plan_new_block(p, at);
    c.head = plan_new_block(p, at);
    c.behind = plan_new_block(p, at);
    plan_end(p, DYN_RO_JMP, DYN_NONE, c.head, DYN_NONE, DYN_NONE);
    p->block = c.head;
    plan_end(p, DYN_RO_BR, plan_emit(p, DYN_RO_ILT, c.counter, size, DYN_NONE), body, c.behind, DYN_NONE);
    p->block = body;
    return c;
}

void plan_count_end(Plan *p, const PlanCount *c) {
    count_up(p, c->counter);
    plan_end(p, DYN_RO_JMP, DYN_NONE, c->head, DYN_NONE, DYN_NONE);
    p->block = c->behind;
}

static void fill_axis(Plan *p, Fill *f, const PlanValue *v, uint32_t axis) {
    PlanCount c = plan_count(p, plan_size(f->to != NULL ? f->to : v, axis));
    if (axis + 1 < f->rank) {
        Fill inner = *f;
        fix_axis(p, &inner, axis, c.counter);
        fill_axis(p, &inner, v, axis + 1);
    } else {
        f->counter = c.counter;
        f->next = f->first;
        f->body(p, f, v);
    }
    plan_count_end(p, &c);
}

static void store(Plan *p, Fill *f, uint32_t reg) {
    DynDtype dt = (DynDtype)f->to->v.dtype;
    uint32_t offset = plan_emit(p, DYN_RO_IMULW, f->counter, plan_stride(p, f->to, f->rank - 1), DYN_NONE);
    plan_emit(p, access_of(f, dt, true), f->leaves[0].at, offset, reg);
}

static void store_element(Plan *p, Fill *f, const PlanValue *v) { store(p, f, compute(p, f, v, (DynDtype)f->to->v.dtype)); }

/* Computes v, an expression, array or number, for each element of the array `to`, whose sizes are v's. */
bool plan_fill(Plan *p, const PlanValue *v, const PlanValue *to, bool keeps) {
    Fill f = {
        .rank = to->v.n, .n = 1, .first = 1, .keeps = keeps, .leaves = {{to, to->v.regs[1]}}, .to = to, .body = store_element};
    if (!find_leaves(p, &f, v) || to->v.dtype == DYN_C128) {
        return no(p, "complex numbers one by one");
    }
    fill_axis(p, &f, v, 0);
    return true;
}

static void fold_element(Plan *p, Fill *f, const PlanValue *v) { f->fold->add(p, f->fold, compute(p, f, v, f->fold->of)); }

bool plan_fold_elements(Plan *p, const PlanFold *fold, const PlanValue *v) {
    Fill f = {.rank = plan_rank(v), .body = fold_element, .fold = fold};
    if (!find_leaves(p, &f, v)) {
        return false;
    }
    fill_axis(p, &f, v, 0);
    return true;
}

bool plan_is_large(const PlanValue *v) {
    double bytes = dyn_dtypes[v->v.dtype].size;
    for (uint32_t k = 0; k < plan_rank(v); k++) {
        bytes *= (double)plan_sample(v, k);
    }
    return bytes > (plan_rank(v) == 1 ? LARGE_VECTOR : LARGE);
}

/* Computes v where `to` lies, whose sizes are v's. keeps: as plan_fill has it. */
static bool compute_into(Plan *p, const PlanValue *v, const PlanValue *to, bool keeps) {
    PlanValue from, into;
    if (v->v.dtype == DYN_C128) { /* a copy: expressions aren't of complex numbers */
        return plan_is_array(v) && plan_pairs(p, v, &from) && plan_pairs(p, to, &into) && compute_into(p, &from, &into, keeps);
    }
    p->r->whole_arrays = true;
    bool reports = plan_reports(v);
    if (reports) {
        plan_emit(p, DYN_RO_UNFLAG, DYN_NONE, DYN_NONE, DYN_NONE);
    }
    if (!plan_fill(p, v, to, keeps)) {
        return false;
    }
    if (reports) {
        plan_emit_or(p, DYN_RO_FLAGS, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_FLAGS);
    }
    return true;
}

/* With a last register each for its data, sizes and strides: in rows. */
void plan_lay(Plan *p, PlanValue *v, uint32_t data, const uint32_t *sizes, uint32_t rank) {
    uint32_t strides[DYN_REGION_RANK], bytes = plan_iconst(p, dyn_dtypes[v->v.dtype].size);
    v->v.flags = DYN_RF_CONTIGUOUS | DYN_RF_WRITEABLE;
    v->v.n = (uint8_t)rank;
    for (uint32_t k = rank; k-- > 0;) {
        strides[k] = bytes;
        bytes = k > 0 ? plan_emit(p, DYN_RO_IMULW, bytes, sizes[k], DYN_NONE) : bytes;
    }
    v->v.regs[v->v.nregs++] = data;
    for (uint32_t k = 0; k < 2 * rank; k++) {
        v->v.regs[v->v.nregs++] = k < rank ? sizes[k] : strides[k - rank];
    }
}

const int64_t *plan_samples(Plan *p, const PlanValue *v) {
    uint32_t rank = plan_rank(v);
    int64_t *sizes = DYN_NEW_N(&p->arena, int64_t, DYN_REGION_RANK);
    for (uint32_t k = 0; sizes != NULL && k < rank; k++) {
        sizes[k] = plan_sampled(v, rank - 1 - k);
    }
    return sizes;
}

/* Computes v into memory of its own, for what follows at once: a view that nobody is shown. */
static bool keep_at(Plan *p, const PlanValue *v, int64_t which, PlanValue *out) {
    if (plan_is_large(v)) {
        return no(p, "a large array is computed");
    }
    uint32_t rank = plan_rank(v), sizes[DYN_REGION_RANK], bytes = plan_iconst(p, dyn_dtypes[v->v.dtype].size);
    for (uint32_t k = 0; k < rank; k++) {
        sizes[k] = plan_size(v, k);
        bytes = plan_emit_or(p, DYN_RO_IMUL, bytes, sizes[k], DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    }
    uint32_t data = plan_emit_or(p, DYN_RO_SCRATCH, bytes, plan_iconst(p, which), DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    PlanValue to = plan_value(DYN_RK_VIEW, data);
    to.v.dtype = v->v.dtype;
    to.sizes = plan_samples(p, v);
    plan_lay(p, &to, data, sizes, rank);
    bool done = compute_into(p, v, &to, true);
    *out = to;
    return done;
}

bool plan_keep(Plan *p, const PlanValue *v, PlanValue *out) { return keep_at(p, v, VALUES, out); }

/* ---- arrays that the loop makes */

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

PlanValue plan_new_array(Plan *p, DynDtype dt, const uint32_t *sizes, uint32_t rank, const PlanValue *reads, uint32_t nreads) {
    p->r->whole_arrays = true;
    hold_all(p, &p->s);
    hold_all(p, &p->resume);
    for (uint32_t i = 0; i < nreads; i++) {
        hold(p, &reads[i]);
    }
    for (uint32_t k = 0; k + 1 < rank; k++) {
        plan_emit(p, DYN_RO_AXIS, sizes[k], DYN_NONE, DYN_NONE);
    }
    uint32_t object = plan_emit_or(p, DYN_RO_NEWARRAY, sizes[rank - 1], plan_iconst(p, dt), DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    PlanValue v = plan_value(DYN_RK_ARRAY, object);
    v.v.dtype = (uint8_t)dt;
    plan_lay(p, &v, plan_emit(p, DYN_RO_ADATA, object, DYN_NONE, DYN_NONE), sizes, rank);
    v.v.flags |= DYN_RF_DROPPABLE;
    return v;
}

/* What an operand says of two axes, as 0 or 1 in registers: the outer has the larger steps, or the inner. */
typedef struct Say {
    uint32_t rows, columns;
} Say;

static uint32_t combine(Plan *p, DynRegionOp op, uint32_t a, uint32_t b) { return plan_emit(p, op, a, b, DYN_NONE); }

static Say say_of_array(Plan *p, const PlanValue *v, uint32_t outer, uint32_t inner) {
    uint32_t a = v->v.n - 1 - outer, b = v->v.n - 1 - inner, one = plan_iconst(p, 1);
    uint32_t both =
        combine(p, DYN_RO_IAND, combine(p, DYN_RO_INE, plan_size(v, a), one), combine(p, DYN_RO_INE, plan_size(v, b), one));
    uint32_t rows = combine(p, DYN_RO_STEEPER, plan_stride(p, v, b), plan_stride(p, v, a));
    uint32_t columns = combine(p, DYN_RO_STEEPER, plan_stride(p, v, a), plan_stride(p, v, b));
    return (Say){combine(p, DYN_RO_IAND, rows, both), combine(p, DYN_RO_IAND, columns, both)};
}

/* Of an expression: rows win, and where nobody says anything it is taken to say nothing, which leaves the loop too often at
 * worst. */
static Say say_of(Plan *p, const PlanValue *v, uint32_t outer, uint32_t inner) {
    Say all = {DYN_NONE, DYN_NONE};
    if (plan_is_array(v) && v->v.n > outer) {
        return say_of_array(p, v, outer, inner);
    }
    for (uint32_t i = 0; plan_is_expression(v) && i < v->v.n; i++) {
        Say own = say_of(p, &v->items[i], outer, inner);
        if (own.rows != DYN_NONE) {
            all.rows = all.rows == DYN_NONE ? own.rows : combine(p, DYN_RO_IOR, all.rows, own.rows);
            all.columns = all.columns == DYN_NONE ? own.columns : combine(p, DYN_RO_IOR, all.columns, own.columns);
        }
    }
    if (all.rows != DYN_NONE) {
        all.columns = combine(p, DYN_RO_ILT, all.rows, all.columns);
    }
    return all;
}

/* NumPy lays a result out by the steps of the first operand that has a say about two axes, and in rows if any says so. Of three
 * axes what is in between isn't followed: there all have to lie in rows. */
void plan_lay_in_rows(Plan *p, const PlanValue *v) {
    uint32_t rank = plan_rank(v);
    for (uint32_t outer = 1; outer < rank; outer++) {
        for (uint32_t inner = 0; inner < outer; inner++) {
            Say say = say_of(p, v, outer, inner);
            if (say.rows != DYN_NONE) {
                plan_leave_unless(p, plan_emit(p, DYN_RO_NOT, say.columns, DYN_NONE, DYN_NONE), DYN_R_UNSUPPORTED_VALUE);
            }
        }
    }
    for (uint32_t i = 0; rank > 2 && plan_is_expression(v) && i < v->v.n; i++) {
        if (plan_is_expression(&v->items[i])) {
            plan_lay_in_rows(p, &v->items[i]);
        }
    }
}

void plan_leave_unless_dense(Plan *p, const PlanValue *a) {
    uint32_t piece = plan_iconst(p, dyn_dtypes[a->v.dtype].size);
    for (uint32_t k = a->v.n; k-- > 0;) {
        plan_same_size(p, plan_stride(p, a, k), piece);
        piece = plan_emit(p, DYN_RO_IMULW, piece, plan_size(a, k), DYN_NONE);
    }
}

bool plan_make_beside(Plan *p, const PlanValue *v, const PlanValue *reads, uint32_t nreads, PlanValue *out) {
    uint32_t rank = plan_rank(v), sizes[DYN_REGION_RANK];
    if (plan_is_large(v)) {
        return no(p, "a large array is computed");
    }
    for (uint32_t k = 0; k < rank; k++) {
        sizes[k] = plan_size(v, k);
    }
    if (plan_is_expression(v)) {
        plan_lay_in_rows(p, v);
    }
    PlanValue to = plan_new_array(p, (DynDtype)v->v.dtype, sizes, rank, reads, nreads);
    to.sizes = plan_samples(p, v);
    bool done = compute_into(p, v, &to, false);
    *out = to;
    return done;
}

bool plan_make_array(Plan *p, const PlanValue *v, PlanValue *out) { return plan_make_beside(p, v, v, 1, out); }

bool plan_make_arrays(Plan *p, PlanValue *v, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (plan_is_expression(&v[i]) && !plan_make_beside(p, &v[i], v, n, &v[i])) {
            return false;
        }
    }
    return true;
}

/* ---- stores */

/* One line of elements goes into another one that may be of the same memory and lie in other steps: NumPy stores each before it
 * reads the next, so the loop is left where they overlap. */
static void leave_in_numpys_order(Plan *p, const PlanValue *from, const PlanValue *to) {
    plan_put_operand(p, from, 0);
    plan_put_operand(p, to, 0);
    plan_emit_or(p, DYN_RO_LINES, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_ALIASING);
}

/* Integers are cut to the bits that there are, as NumPy does in an assignment. */
static bool is_cast(DynDtype from, DynDtype to) {
    bool integers = plan_np_type(from) == 'I' && plan_np_type(to) == 'I';
    return from == to || integers || (to == DYN_F64 && plan_np_type(from) != 0);
}

/* Real numbers are those parts of complex ones, whose other parts are zero. */
static bool store_complex(Plan *p, const PlanValue *to, PlanValue v) {
    PlanValue from, into, parts[2] = {plan_part(p, to, 0), plan_part(p, to, 1)};
    uint32_t number[2];
    if (plan_is_whole(&v) && v.v.dtype == DYN_C128) {
        if (plan_rank(&v) == 1 && to->v.n == 1) {
            leave_in_numpys_order(p, &v, to);
        }
        return plan_pairs(p, &v, &from) && plan_pairs(p, to, &into) && plan_store_whole(p, &into, from);
    }
    if (plan_is_whole(&v)) {
        return plan_store_whole(p, &parts[0], v) && plan_store_whole(p, &parts[1], plan_float(0.0));
    }
    if (!plan_complex_parts(p, v, number)) {
        return false;
    }
    plan_settle_doubts(p);
    from = plan_np(DYN_F64, number[0]);
    into = plan_np(DYN_F64, number[1]);
    return plan_fill(p, &from, &parts[0], false) && plan_fill(p, &into, &parts[1], false);
}

bool plan_store_whole(Plan *p, const PlanValue *to, PlanValue v) {
    PlanValue made;
    uint32_t reg, rank = plan_rank(&v);
    DynDtype dt = (DynDtype)to->v.dtype;
    if (dt == DYN_C128) {
        return store_complex(p, to, v);
    }
    if (!plan_is_whole(&v)) {
        if (!plan_as_element(p, v, dt, &reg)) {
            return false;
        }
        v = plan_np(dt, reg);
        plan_settle_doubts(p);
        return plan_fill(p, &v, to, false);
    }
    if (!is_cast((DynDtype)v.v.dtype, dt) || rank > to->v.n) {
        return no(p, "an array of another dtype, or of more axes, is stored");
    }
    for (uint32_t k = 0; k < rank; k++) {
        int64_t sample = to->sizes == NULL ? -1 : to->sizes[to->v.n - 1 - k];
        if (!plan_fit(p, &v, k, plan_size(to, to->v.n - 1 - k), sample)) {
            return false;
        }
    }
    if (plan_is_array(&v) && rank == 1 && to->v.n == 1) {
        leave_in_numpys_order(p, &v, to);
    }
    if (!plan_keep(p, &v, &made)) {
        return false;
    }
    plan_settle_doubts(p);
    return plan_fill(p, &made, to, false);
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
    if (e.v.dtype != a.v.dtype || plan_rank(&e) != plan_rank(&a)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "an array is changed by one of another dtype, or of more axes");
    }
    for (uint32_t k = 0; k < a.v.n; k++) {
        plan_same_size(p, plan_size(&a, k), plan_size(&e, k));
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

/* ---- masks */

/* Where an element is chosen it goes on, with its way out of there behind. */
typedef struct Chosen {
    uint32_t behind;
} Chosen;

static Chosen begin_chosen(Plan *p, uint32_t which) {
    uint32_t at = plan_frame(p)->at, yes = plan_new_block(p, at);
    Chosen c = {plan_new_block(p, at)};
    plan_end(p, DYN_RO_BR, which, yes, c.behind, DYN_NONE);
    p->block = yes;
    return c;
}

static void end_chosen(Plan *p, const Chosen *c) {
    plan_end(p, DYN_RO_JMP, DYN_NONE, c->behind, DYN_NONE, DYN_NONE);
    p->block = c->behind;
}

/* The next element of a vector of which f->place is the place. */
static uint32_t next_offset(Plan *p, const Fill *f) {
    return plan_emit(p, DYN_RO_IMULW, f->place, plan_stride(p, f->made, 0), DYN_NONE);
}

static void take_element(Plan *p, Fill *f, const PlanValue *v) {
    DynDtype dt = (DynDtype)f->made->v.dtype;
    Chosen c = begin_chosen(p, compute(p, f, &v->items[0], DYN_BOOL));
    uint32_t reg = compute(p, f, &v->items[1], dt);
    plan_emit(p, plan_store_op(dt), f->made->v.regs[1], next_offset(p, f), reg);
    count_up(p, f->place);
    end_chosen(p, &c);
}

static void put_element(Plan *p, Fill *f, const PlanValue *v) {
    Chosen c = begin_chosen(p, compute(p, f, &v->items[0], DYN_BOOL));
    if (f->made == NULL) {
        store(p, f, compute(p, f, &v->items[1], (DynDtype)f->to->v.dtype));
    } else {
        DynDtype dt = (DynDtype)f->made->v.dtype;
        uint32_t reg = plan_emit(p, plan_load_op(dt), f->made->v.regs[1], next_offset(p, f), DYN_NONE);
        store(p, f, converted(p, reg, dt, (DynDtype)f->to->v.dtype));
        count_up(p, f->place);
    }
    end_chosen(p, &c);
}

static void add_chosen(Plan *p, const PlanFold *fold, uint32_t reg) {
    assign(p, fold->reg, plan_emit(p, DYN_RO_IADDW, fold->reg, reg, DYN_NONE));
}

/* A mask as it is gone through: an expression is computed once. */
static bool begin_mask(Plan *p, const PlanValue *a, const PlanValue *mask, bool may_be_written, PlanValue *out, uint32_t *count) {
    if (plan_rank(mask) != plan_rank(a) || a->v.dtype == DYN_C128) {
        return no(p, "a mask of fewer axes");
    }
    for (uint32_t k = 0; k < plan_rank(a); k++) {
        plan_same_size(p, plan_size(a, k), plan_size(mask, k));
    }
    *out = *mask;
    if ((plan_is_expression(mask) || (may_be_written && a->v.dtype == DYN_BOOL)) && !keep_at(p, mask, MASK, out)) {
        return false;
    }
    PlanFold fold = {.of = DYN_BOOL, .reg = plan_variable(p, plan_iconst(p, 0)), .add = add_chosen};
    *count = fold.reg;
    return plan_fold_elements(p, &fold, out);
}

bool plan_take_masked(Plan *p, const PlanValue *a, const PlanValue *mask, PlanValue *out) {
    PlanValue both[2] = {*mask, *a}, e;
    uint32_t count;
    if (plan_rank(mask) == 1 && a->v.n > 1) {
        return plan_take_masked_rows(p, a, mask, out);
    }
    if (plan_is_large(a)) {
        return no(p, "a large array is computed");
    }
    if (!begin_mask(p, a, mask, false, &both[0], &count)) {
        return false;
    }
    PlanValue made = plan_new_array(p, (DynDtype)a->v.dtype, &count, 1, both, 2);
    if (!plan_expression(p, PLAN_SELECT, DYN_BOOL, (DynDtype)a->v.dtype, both, 2, &e)) {
        return false;
    }
    Fill f = {.rank = a->v.n, .body = take_element, .made = &made, .place = plan_variable(p, plan_iconst(p, 0))};
    if (!find_leaves(p, &f, &e)) {
        return false;
    }
    fill_axis(p, &f, &e, 0);
    *out = made;
    return true;
}

static void take_place(Plan *p, Fill *f, const PlanValue *v) {
    Chosen c = begin_chosen(p, compute(p, f, v, DYN_BOOL));
    plan_emit(p, DYN_RO_STI64, f->made->v.regs[1], next_offset(p, f), f->counter);
    count_up(p, f->place);
    end_chosen(p, &c);
}

bool plan_places(Plan *p, const PlanValue *mask, PlanValue *out) {
    PlanValue which;
    uint32_t count;
    if (plan_is_large(mask)) {
        return no(p, "a large array is gone through");
    }
    if (!begin_mask(p, mask, mask, false, &which, &count)) {
        return false;
    }
    PlanValue made = plan_new_array(p, DYN_I64, &count, 1, &which, 1);
    Fill f = {.rank = 1, .body = take_place, .made = &made, .place = plan_variable(p, plan_iconst(p, 0))};
    if (!find_leaves(p, &f, &which)) {
        return false;
    }
    fill_axis(p, &f, &which, 0);
    *out = made;
    return true;
}

bool plan_store_masked(Plan *p, const PlanValue *to, const PlanValue *mask, PlanValue v) {
    PlanValue both[2] = {*mask, v}, e, kept;
    DynDtype dt = (DynDtype)to->v.dtype;
    uint32_t count, reg;
    if (plan_is_whole(&v) && (!is_cast((DynDtype)v.v.dtype, dt) || plan_rank(&v) != 1)) {
        return no(p, "an array of another dtype, or of several axes, is stored by a mask");
    }
    if (!begin_mask(p, to, mask, true, &both[0], &count)) {
        return false;
    }
    if (plan_is_whole(&v)) {
        plan_same_size(p, plan_size(&v, 0), count);
        if (!plan_keep(p, &v, &kept)) {
            return false;
        }
        both[1] = plan_np(DYN_BOOL, plan_iconst(p, 0)); /* it is taken from `kept` */
    } else if (plan_as_element(p, v, dt, &reg)) {
        both[1] = plan_np(dt, reg);
    } else {
        return false;
    }
    plan_settle_doubts(p);
    if (!plan_expression(p, PLAN_SELECT, DYN_BOOL, (DynDtype)both[1].v.dtype, both, 2, &e)) {
        return false;
    }
    Fill f = {.rank = to->v.n, .n = 1, .first = 1, .leaves = {{to, to->v.regs[1]}}, .to = to, .body = put_element};
    f.made = plan_is_whole(&v) ? &kept : NULL;
    f.place = plan_variable(p, plan_iconst(p, 0));
    if (!find_leaves(p, &f, &e)) {
        return false;
    }
    fill_axis(p, &f, &e, 0);
    return true;
}

/* ---- lookups by arrays of ints */

uint32_t plan_index_at(Plan *p, const PlanValue *index, uint32_t counter, uint32_t size, bool checks) {
    uint32_t offset = plan_emit(p, DYN_RO_IMULW, counter, plan_stride(p, index, 0), DYN_NONE);
    uint32_t i = plan_emit(p, plan_load_op((DynDtype)index->v.dtype), index->v.regs[1], offset, DYN_NONE);
    if (checks) {
        return plan_emit_or(p, DYN_RO_IDX, i, size, DYN_NONE, DYN_R_EXCEPTION);
    }
    uint32_t from_end = plan_emit(p, DYN_RO_IADDW, i, size, DYN_NONE);
    return plan_emit(p, DYN_RO_ISELECT, plan_emit(p, DYN_RO_ILT, i, plan_iconst(p, 0), DYN_NONE), from_end, i);
}

/* By a vector of ints. */
static bool is_lookup(Plan *p, const PlanValue *a, const PlanValue *index) {
    bool ints = plan_np_type((DynDtype)index->v.dtype) == 'I' && index->v.dtype != DYN_BOOL;
    return (plan_rank(index) == 1 && ints && a->v.dtype != DYN_C128) || no(p, "an array of several axes as an index");
}

bool plan_take_at(Plan *p, const PlanValue *a, PlanValue index, PlanValue *out) {
    PlanValue both[2] = {*a, index};
    if (!is_lookup(p, a, &index) || !plan_make_arrays(p, both, 2)) {
        return false;
    }
    if (a->v.n > 1) {
        return plan_take_rows(p, a, &both[1], out);
    }
    const DynDtype dt = (DynDtype)a->v.dtype;
    uint32_t n = plan_size(&both[1], 0);
    PlanValue made = plan_new_array(p, dt, &n, 1, both, 2);
    made.sizes = both[1].sizes;
    PlanCount c = plan_count(p, n);
    uint32_t at =
        plan_emit(p, DYN_RO_IMULW, plan_index_at(p, &both[1], c.counter, plan_size(a, 0), true), plan_stride(p, a, 0), DYN_NONE);
    uint32_t reg = plan_emit(p, plan_load_op(dt), a->v.regs[1], at, DYN_NONE);
    uint32_t to = plan_emit(p, DYN_RO_IMULW, c.counter, plan_stride(p, &made, 0), DYN_NONE);
    plan_emit(p, plan_store_op(dt), made.v.regs[1], to, reg);
    plan_count_end(p, &c);
    *out = made;
    return true;
}

/* All indices are looked at before anything is stored. */
bool plan_store_at(Plan *p, const PlanValue *to, PlanValue index, PlanValue v) {
    const DynDtype dt = (DynDtype)to->v.dtype;
    uint32_t reg = DYN_NONE, size = plan_size(to, 0);
    PlanValue kept = v;
    if (to->v.n > 1) {
        return no(p, "rows are stored by an array of indices");
    }
    if (!is_lookup(p, to, &index) || !keep_at(p, &index, MASK, &index)) {
        return false;
    }
    uint32_t n = plan_size(&index, 0);
    if (plan_is_whole(&v)) {
        if (!is_cast((DynDtype)v.v.dtype, dt) || plan_rank(&v) != 1) {
            return no(p, "an array of another dtype, or of several axes, is stored by an array of indices");
        }
        plan_same_size(p, plan_size(&v, 0), n);
        if (!plan_keep(p, &v, &kept)) {
            return false;
        }
    } else if (!plan_as_element(p, v, dt, &reg)) {
        return false;
    }
    PlanCount c = plan_count(p, n);
    plan_index_at(p, &index, c.counter, size, true);
    plan_count_end(p, &c);
    plan_settle_doubts(p);
    c = plan_count(p, n);
    uint32_t at = plan_emit(p, DYN_RO_IMULW, plan_index_at(p, &index, c.counter, size, false), plan_stride(p, to, 0), DYN_NONE);
    if (plan_is_whole(&v)) {
        DynDtype from = (DynDtype)kept.v.dtype;
        uint32_t offset = plan_emit(p, DYN_RO_IMULW, c.counter, plan_stride(p, &kept, 0), DYN_NONE);
        reg = converted(p, plan_emit(p, plan_load_op(from), kept.v.regs[1], offset, DYN_NONE), from, dt);
    }
    plan_emit(p, plan_store_op(dt), to->v.regs[1], at, reg);
    plan_count_end(p, &c);
    return true;
}
