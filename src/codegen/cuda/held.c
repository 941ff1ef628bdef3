/* held.c: which rows of a group its threads hold in registers, and how many elements of each.
 *
 * Called by emit_cuda.c, which writes what is read and stored there, and by forms.c, which chooses a launch's function. What one
 * kernel of a group stores for another is read by the thread that wrote it where all walk over the row in the same way. Owns
 * nothing. */
#include "codegen/cuda/cuda.h"

/* Each thread reads what it wrote itself where all kernels of the group that touch the row walk over the whole of it in groups of
 * as many lanes: so many; else 0. */
static int held_lanes(const DynLoops *p, uint32_t first, uint32_t end, uint32_t place) {
    int lanes = 0;
    bool held = p->places[place].kind == DYN_P_ROW;
    for (uint32_t s = first; s < end && held; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        for (uint32_t i = 0; i < k->operands.n && held; i++) {
            const DynOperand *o = &k->operands.at[i];
            if (dyn_loops_storage(p, o->place) != place) {
                continue;
            }
            int own = dyn_cuda_lanes(p, k);
            bool whole = o->place == place && !o->result && !o->indirect && !o->window;
            held = whole && dyn_cuda_walks(p, k, i, dyn_cuda_inner(k)) && (lanes == 0 || lanes == own);
            lanes = own;
        }
    }
    return held ? lanes : 0;
}

/* Groups of V elements of the longest row, by the sizes seen first. */
static int64_t longest_row(const DynLoops *p, uint32_t first, uint32_t end) {
    int64_t longest = 0;
    for (uint32_t s = first; s < end; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        int64_t n = 1;
        for (int d = k->outer; d < k->ndim; d++) {
            n *= dyn_sym_at(p->graph->syms, k->shape[d])->hint.i;
        }
        n /= dyn_cuda_lanes(p, k);
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* A warp is to have a whole row of n, where each thread then has at most so many: all of what it holds is computed for each row.
 */
static int each_of(int64_t n, int most) {
    int each = 2;
    while (each < most && (int64_t)each * 32 < n) {
        each *= 2;
    }
    return each < most ? each : most;
}

/* Of so many numbers of a group in all rows, groups that fit into registers for so many. */
static int most_held(int numbers, int room) {
    int most = DYN_CUDA_MOST_HELD;
    while (most > 0 && most * numbers > room) {
        most /= 2;
    }
    return most;
}

/* Does each row that isn't held have one element, and has every row a number? */
static bool rest_is_small(const DynLoops *p, uint32_t first, uint32_t end, uint64_t held) {
    uint32_t group = dyn_loops_kernel_at(p, first)->group;
    for (uint32_t s = first; s < end; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        for (uint32_t i = 0; i < k->operands.n; i++) {
            const DynOperand *o = &k->operands.at[i];
            uint32_t place = dyn_loops_storage(p, o->place);
            if (!o->out || !dyn_cuda_is_row(p, group, place)) {
                continue;
            }
            int row = dyn_cuda_row_number(p, group, place);
            bool is_held = row >= 0 && (held >> row & 1), one = o->result || dyn_kernel_is_one(p, k, k->outer);
            if (row < 0 || !(is_held || one)) {
                return false;
            }
        }
    }
    return true;
}

DynCudaHeld dyn_cuda_held(const DynLoops *p, uint32_t first) {
    uint32_t end = dyn_loops_group_end(p, first), group = dyn_loops_kernel_at(p, first)->group;
    DynCudaHeld h = {.rows = 0};
    int numbers = 0, widest = 1, row = 0;
    for (uint32_t i = 0; i < p->nplaces && row < DYN_CUDA_MOST_ROWS; i++) {
        if (!dyn_cuda_is_row(p, group, i)) {
            continue;
        }
        int lanes = held_lanes(p, first, end, i);
        h.rows |= (uint64_t)(lanes > 0) << row++;
        widest = lanes > widest ? lanes : widest;
        numbers += lanes;
    }
    int most = most_held(numbers, DYN_CUDA_HELD_NUMBERS), more = most_held(numbers, 2 * DYN_CUDA_HELD_NUMBERS);
    int64_t longest = longest_row(p, first, end);
    most = longest > (int64_t)most * DYN_CUDA_HELD_THREADS ? more : most;
    if (numbers == 0 || longest > (int64_t)most * DYN_CUDA_HELD_THREADS) {
        return (DynCudaHeld){0};
    }
    h.small = rest_is_small(p, first, end, h.rows);
    h.groups = each_of(longest, most);
    h.singles = each_of(longest * widest, most * widest);
    return h;
}

bool dyn_cuda_is_row(const DynLoops *p, uint32_t group, uint32_t place) {
    return p->places[place].kind == DYN_P_ROW && p->places[place].group == group;
}

int dyn_cuda_row_number(const DynLoops *p, uint32_t group, uint32_t place) {
    int row = 0;
    for (uint32_t i = 0; i < place; i++) {
        row += dyn_cuda_is_row(p, group, i);
    }
    return dyn_cuda_is_row(p, group, place) && row < DYN_CUDA_MOST_ROWS ? row : -1;
}

/* … of a kernel's group. */
static DynCudaHeld held_of(const DynLoops *p, const DynKernel *k) {
    uint32_t first = 0;
    while (dyn_loops_kernel_at(p, first) == NULL || dyn_loops_kernel_at(p, first)->group != k->group) {
        first++;
    }
    return dyn_cuda_held(p, first);
}

bool dyn_cuda_holds(const DynLoops *p, const DynKernel *k, uint32_t operand) {
    int row = k->group == DYN_NONE ? -1 : dyn_cuda_row_number(p, k->group, k->operands.at[operand].place);
    return row >= 0 && (held_of(p, k).rows >> row & 1);
}
