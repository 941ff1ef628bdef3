/* arrange.c: axes of a kernel that is bound to memory, in the order in which a device's threads walk them.
 *
 * Called by launch.c, before a kernel's struct is filled. Axes of one element go, neighbours that are one line for all operands
 * become one axis, and what lies closest together comes last, as neighbouring threads then touch neighbouring memory. */
#include "codegen/cuda/target.h"

#define PATCH 32                   /* elements along each side of a patch */
#define MOST_SPREAD 5              /* 32 threads are a warp */
#define WORTH_STRIPS (1ll << 20)   /* elements, from which on patches are worth launches for what is beside them, … */
#define MOST_IN_PIECES (1ll << 32) /* … and from which on the whole may be refused: then no strip has been written before */

static int64_t distance(int64_t step) { return step < 0 ? -step : step; }

static bool walks_some(const DynBound *b, int operand, int from, int to) {
    bool walks = false;
    for (int d = from; d < to; d++) {
        walks = walks || b->strides[operand][d] != 0;
    }
    return walks;
}

/* The operand by which axes are ordered: the first that is written, in a reduction, whose first `kept` axes are kept, the first
 * that is read, of those rather that have elements along axes of either kind. */
static int leading(const DynBound *b, int kept) {
    int found = -1;
    for (int i = 0; i < b->nops; i++) {
        const DynOperand *o = &b->k->operands.at[i];
        if (b->k->reduced ? o->out : !o->out) {
            continue;
        }
        if (!b->k->reduced || (walks_some(b, i, 0, kept) && walks_some(b, i, kept, b->ndim))) {
            return i;
        }
        found = found < 0 ? i : found;
    }
    return found < 0 ? 0 : found;
}

/* Axes from `from` to `to`: the furthest steps first. */
static void sort_axes(DynBound *b, int by, int from, int to) {
    for (int i = from + 1; i < to; i++) {
        for (int j = i; j > from && distance(b->strides[by][j - 1]) < distance(b->strides[by][j]); j--) {
            dyn_bound_swap(b, j - 1, j);
        }
    }
}

static void move_axis(DynBound *b, int from, int to) {
    for (; from > to; from--) {
        dyn_bound_swap(b, from - 1, from);
    }
    for (; from < to; from++) {
        dyn_bound_swap(b, from, from + 1);
    }
}

static void drop_axis(DynBound *b, int axis) {
    move_axis(b, axis, b->ndim - 1);
    b->ndim--;
}

/* Neighbours that are one line for all operands become one axis; how many are left of the `n` from `from` on. */
static int join_axes(DynBound *b, int from, int n) {
    for (int d = from; d + 1 < from + n;) {
        if (!dyn_bound_joins(b, d, d + 1, b->dims[d + 1])) {
            d++;
            continue;
        }
        b->dims[d + 1] *= b->dims[d];
        drop_axis(b, d);
        n--;
    }
    return n;
}

/* Axes of one element go; those of `reduced` come behind the others, both in their order. How many others there are. */
static int part_axes(DynBound *b, uint32_t reduced) {
    int kept = 0, all = 0, n = b->ndim;
    for (int d = 0; d < n; d++, reduced >>= 1) {
        if (b->dims[all] == 1) {
            drop_axis(b, all);
        } else if (reduced & 1) {
            all++;
        } else {
            move_axis(b, all, kept++);
            all++;
        }
    }
    return kept;
}

/* Of one element, behind the others: functions that go along what is reduced find something to go along. */
static void add_axis(DynBound *b) {
    int d = b->ndim++;
    b->dims[d] = 1;
    for (int i = 0; i < b->nops; i++) {
        b->strides[i][d] = 0;
    }
}

/* Of an operand that lies side by side along the last axis: are groups aligned wherever a line begins, or a looked up row? */
static bool is_grouped(const DynBound *b, int i, int lanes) {
    int64_t whole = (int64_t)b->size[i] * lanes;
    bool grouped = (uintptr_t)b->base[i] % (uintptr_t)whole == 0 && b->step[i] % whole == 0;
    for (int d = 0; d < b->ndim - 1; d++) {
        grouped = grouped && b->strides[i][d] % whole == 0;
    }
    return grouped;
}

/* Of the axes with elements, the last is walked in groups of V: does each operand stand still along it, or lie in aligned groups
 * wherever a line of it begins? */
static bool is_packed(const DynBound *b, int lanes, bool uneven) {
    int last = b->ndim - 1;
    bool packed = last >= 0 && (uneven || b->dims[last] % lanes == 0);
    for (int i = 0; i < b->nops && packed; i++) {
        int64_t step = b->strides[i][last];
        packed = step == 0 || (step == b->size[i] && is_grouped(b, i, lanes));
    }
    return packed;
}

/* Can functions for one axis of either kind take it? There is one along those n axes that `among` has bits of, and operands stand
 * still along the last, or have an element behind the other, as the function's text has it. */
static bool is_single(const DynCudaLine *l, int n, uint32_t among) {
    const DynBound *b = &l->b;
    int last = b->ndim - 1;
    bool single = n == 1 && l->kept <= 1 && l->reduced <= 1;
    for (int i = 0; i < b->nops && single; i++) {
        bool walks = dyn_cuda_walks(l->p, b->k, (uint32_t)i, among);
        single = b->strides[i][last] == (walks ? b->size[i] : 0);
    }
    return single;
}

static void find_speed(DynCudaLine *l, int n, uint32_t among) {
    const DynBound *b = &l->b;
    int lanes = dyn_cuda_lanes(l->p, b->k);
    bool map = !b->k->reduced && b->k->group == DYN_NONE, single = is_single(l, n, among);
    bool packed = is_packed(b, lanes, map && single); /* of a line of its own the last group may have fewer */
    l->speed = (single ? DYN_CUDA_SINGLE : 0) | (packed ? DYN_CUDA_PACKED : 0);
    l->lanes = packed ? lanes : 1;
    l->spread = 0;
    l->each = 1;
}

/* ---- elementwise kernels */

/* The axis along which an operand lies side by side that isn't the last one; -1: there is none, or the kernel has no patches. */
static int turned_axis(const DynBound *b) {
    int last = b->ndim - 1;
    bool patches = b->ndim + 2 <= dyn_cuda_rank(b->k);
    for (int i = 0; i < b->nops && patches; i++) {
        for (int d = 0; d < last; d++) {
            if (distance(b->strides[i][d]) == b->size[i] && distance(b->strides[i][last]) > b->size[i]) {
                return d;
            }
        }
    }
    return -1;
}

/* An axis becomes two: whole pieces of n, and what is in one of them, behind it. */
static void split_axis(DynBound *b, int axis, int64_t n) {
    int d = b->ndim++;
    b->dims[d] = n;
    b->dims[axis] /= n;
    for (int i = 0; i < b->nops; i++) {
        b->strides[i][d] = b->strides[i][axis];
        b->strides[i][axis] *= n;
    }
    move_axis(b, d, axis + 1);
}

/* Where operands lie across each other, a warp covers a part of a patch, so that what it fetches for one operand or the other is
 * used up: … outer, last, within outer, within last. */
static bool make_patches(DynCudaLine *l) {
    DynBound *b = &l->b;
    int axis = turned_axis(b), last = b->ndim - 1;
    if (axis < 0 || b->dims[axis] % PATCH != 0 || b->dims[last] % PATCH != 0) {
        return false;
    }
    move_axis(b, axis, last - 1);
    split_axis(b, last, PATCH);
    split_axis(b, last - 1, PATCH); /* outer, within outer, last, within last */
    dyn_bound_swap(b, last, last + 1);
    return true;
}

static void order_map(DynBound *b) {
    part_axes(b, 0);
    sort_axes(b, leading(b, 0), 0, b->ndim);
    join_axes(b, 0, b->ndim);
}

/* What whole patches along an axis leave goes to the strip. False: they leave nothing. */
static bool cut(DynBound *b, int axis, DynBound *strip) {
    int64_t rest = b->dims[axis] % PATCH, whole = b->dims[axis] - rest;
    if (rest == 0) {
        return false;
    }
    *strip = *b;
    strip->dims[axis] = rest;
    b->dims[axis] = whole;
    for (int i = 0; i < b->nops; i++) {
        strip->base[i] += b->strides[i][axis] * whole;
    }
    return true;
}

bool dyn_cuda_cut_strip(DynCudaLine *l, DynCudaLine *strip) {
    DynBound *b = &l->b;
    int64_t all = 1;
    for (int d = 0; d < b->ndim; d++) {
        all *= b->dims[d];
    }
    bool worth = all >= WORTH_STRIPS && all < MOST_IN_PIECES; /* of most launches axes are put in order once */
    if (!worth) {
        return false;
    }
    order_map(b);
    int axis = turned_axis(b), last = b->ndim - 1;
    bool patches = axis >= 0 && b->dims[axis] >= PATCH && b->dims[last] >= PATCH;
    *strip = *l;
    return patches && (cut(b, last, &strip->b) || cut(b, axis, &strip->b));
}

/* A warp's threads are to touch neighbours along n elements, where that leaves at most an eighth of its lanes without any. */
static int spread_of(int64_t n) {
    for (int spread = MOST_SPREAD; spread > 0; spread--) {
        int64_t piece = (int64_t)DYN_CUDA_ANY_LANES << spread, lanes = (n + piece - 1) / piece * piece;
        if (lanes - n <= n / 8) {
            return spread;
        }
    }
    return 0;
}

void dyn_cuda_arrange_map(DynCudaLine *l) {
    DynBound *b = &l->b;
    order_map(b);
    bool patches = make_patches(l);
    l->kept = b->ndim;
    l->reduced = 0;
    find_speed(l, l->kept, dyn_cuda_inner(b->k));
    l->groups = b->ndim > 0 ? b->dims[b->ndim - 1] : 1;
    if (l->speed == DYN_CUDA_ANY) {
        l->lanes = DYN_CUDA_ANY_LANES;
        l->spread = patches ? 0 : spread_of(l->groups);
    }
}

/* ---- reductions */

/* Kept and reduced axes, parted already, become as few as they can be; there is one reduced one at the least. */
static void join_both(DynCudaLine *l, int kept) {
    DynBound *b = &l->b;
    int all = b->ndim;
    l->kept = join_axes(b, 0, kept);
    l->reduced = join_axes(b, l->kept, all - kept);
    if (l->reduced == 0) {
        add_axis(b);
        l->reduced = 1;
    }
}

/* Do neighbouring results lie closer together than what one result is made of? */
static bool goes_by_columns(const DynBound *b, int kept) {
    int by = leading(b, kept);
    if (kept == 0 || b->strides[by][kept - 1] == 0) {
        return false;
    }
    return distance(b->strides[by][kept - 1]) < distance(b->strides[by][b->ndim - 1]) && b->dims[kept - 1] > 4;
}

bool dyn_cuda_arrange_reduction(DynCudaLine *l) {
    DynBound *b = &l->b;
    int kept = part_axes(b, b->k->reduced), by = leading(b, kept);
    sort_axes(b, by, 0, kept);
    sort_axes(b, by, kept, b->ndim);
    join_both(l, kept);
    bool columns = goes_by_columns(b, l->kept);
    for (int d = 0; columns && d < l->reduced; d++) { /* kept ones come last */
        move_axis(b, b->ndim - 1, 0);
    }
    find_speed(l, columns ? l->kept : l->reduced, columns ? ~b->k->reduced : b->k->reduced);
    return columns;
}

/* ---- kernels of a group: rows in their own order, which is that of the group's other kernels */

void dyn_cuda_arrange_row(DynCudaLine *l) {
    DynBound *b = &l->b;
    int kept = part_axes(b, dyn_cuda_inner(b->k));
    sort_axes(b, leading(b, kept), kept, b->ndim);
    join_both(l, kept);
    find_speed(l, l->reduced, dyn_cuda_inner(b->k));
}
