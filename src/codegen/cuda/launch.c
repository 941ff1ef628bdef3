/* launch.c: kernels on a CUDA device: a kernel of the loop IR, bound to memory, becomes a launch on the framework's stream.
 *
 * Called by run.c through the target's tasks, with the GIL, which a launch doesn't give up: it takes microseconds, and the device
 * works on behind it. Here axes are put in order and joined, the form is chosen, and the struct of cuda.h is filled. Memory for
 * the parts of a reduction that blocks share is a tensor of the call's, which the framework's allocator takes back in the
 * stream's order. */
#include "base/torch.h"
#include "codegen/cuda/target.h"
#include "codegen/run/call.h"

#define MOST_GRID ((int64_t)0x7fffffff) /* blocks along x */
#define MOST_SPLITS 1024
#define BUSY 8           /* blocks for each processor, from which on a reduction needn't be split */
#define EACH_LANE 8      /* groups that a lane has to do at the least before a result is split further */
#define LONG_DIVISION ((int64_t)1 << 31)

/* A kernel on its way to the device. */
typedef struct Launch {
    const DynCall *c;
    DynBound b;                      /* Its axes in the order in which they are walked: kept ones, then reduced ones. */
    int kept, reduced;               /* How many are walked; axes of one element are gone. */
    int lanes;                       /* V of the form. */
    int64_t count, groups, splits;   /* As cuda.h has them. */
    char *parts;
    const DynCudaInfo *info;
    void *stream;
} Launch;

/* ---- axes */

static int64_t distance(int64_t step) { return step < 0 ? -step : step; }

/* The operand by which axes are ordered: the first that is written, in a reduction the first that is read. */
static int leading(const DynBound *b) {
    for (int i = 0; i < b->nops; i++) {
        const DynOperand *o = &b->k->operands.at[i];
        if (b->k->reduced ? !o->out : o->out) {
            return i;
        }
    }
    return 0;
}

/* Axes from `from` to `to`: the furthest steps first. */
static void sort_axes(DynBound *b, int by, int from, int to) {
    for (int i = from + 1; i < to; i++) {
        for (int j = i; j > from && distance(b->strides[by][j - 1]) < distance(b->strides[by][j]); j--) {
            dyn_bound_swap(b, j - 1, j);
        }
    }
}

static void drop_axis(DynBound *b, int axis) {
    for (int d = axis; d + 1 < b->ndim; d++) {
        dyn_bound_swap(b, d, d + 1);
    }
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

/* Kept axes in front of reduced ones, without those of one element. */
static void arrange(Launch *l) {
    DynBound *b = &l->b;
    uint32_t reduced = b->k->reduced;
    int kept = 0, all = 0;
    bool is_reduced[DYN_MAX_NDIM];
    for (int d = 0; d < b->ndim; d++) {
        is_reduced[d] = reduced >> d & 1;
    }
    for (int d = 0; d < b->ndim; d++) { /* stable: kept ones move forward */
        if (b->dims[d] == 1) {
            continue;
        }
        int to = is_reduced[d] ? all : kept;
        for (int j = d; j > to; j--) {
            dyn_bound_swap(b, j - 1, j);
            bool other = is_reduced[j - 1];
            is_reduced[j - 1] = is_reduced[j];
            is_reduced[j] = other;
        }
        kept += !is_reduced[to];
        all++;
    }
    b->ndim = all;
    int by = leading(b);
    sort_axes(b, by, 0, kept);
    sort_axes(b, by, kept, all);
    l->kept = join_axes(b, 0, kept);
    l->reduced = join_axes(b, l->kept, all - kept);
}

static int64_t product(const DynBound *b, int from, int n) {
    int64_t all = 1;
    for (int d = from; d < from + n; d++) {
        all *= b->dims[d];
    }
    return all;
}

/* Which operands have V elements side by side along the last axis, wherever a group begins, at addresses aligned for them? */
static uint32_t aligned_of(const Launch *l) {
    const DynBound *b = &l->b;
    int last = b->ndim - 1;
    uint32_t all = 0;
    for (int i = 0; i < b->nops && last >= 0; i++) {
        int64_t whole = (int64_t)b->size[i] * l->lanes;
        bool aligned = b->strides[i][last] == b->size[i] && (uintptr_t)b->base[i] % (uintptr_t)whole == 0;
        for (int d = 0; d < last; d++) {
            aligned = aligned && b->strides[i][d] % whole == 0;
        }
        all |= (uint32_t)aligned << i;
    }
    return all;
}

/* ---- the struct */

/* What divides by d: q = (high(x * m) + x) >> s for x below 2^31 (Granlund and Montgomery, "Division by invariant integers using
 * multiplication", 1994). */
static int64_t magic_of(int64_t d) {
    int s = 0;
    if (d <= 0 || d >= LONG_DIVISION) {
        return 0;
    }
    while (((int64_t)1 << s) < d) {
        s++;
    }
    uint64_t m = (((uint64_t)1 << 32) * (((uint64_t)1 << s) - (uint64_t)d)) / (uint64_t)d + 1;
    return (int64_t)(m & 0xffffffffu) | (int64_t)s << 32;
}

static void fill(const Launch *l, int64_t *w) {
    const DynBound *b = &l->b;
    int rank = dyn_cuda_rank(b->k), nops = b->nops, first = rank - b->ndim, last = b->ndim - 1;
    bool wide = l->count >= LONG_DIVISION || l->groups >= LONG_DIVISION;
    uint32_t axes = (uint32_t)l->kept | (uint32_t)l->reduced << 8 | (wide ? DYN_CUDA_WIDE : 0);
    int64_t *size = w + DYN_CUDA_HEAD, *magic = size + rank, *base = magic + rank, *step = base + nops;
    w[0] = l->count;
    w[1] = l->groups;
    w[2] = last < 0 ? 1 : b->dims[last];
    w[3] = (int64_t)(axes | (uint64_t)aligned_of(l) << 32);
    w[4] = l->splits;
    memcpy(&w[5], &l->parts, sizeof(l->parts));
    for (int d = 0; d < rank; d++) {
        bool grouped = d == rank - 1 && last >= 0;
        int64_t dim = d < first ? 1 : b->dims[d - first];
        size[d] = grouped ? (dim + l->lanes - 1) / l->lanes : dim;
        magic[d] = magic_of(size[d]);
    }
    for (int i = 0; i < nops; i++) {
        memcpy(&base[i], &b->base[i], sizeof(b->base[i]));
        for (int d = 0; d < rank; d++) {
            int64_t of = d < first ? 0 : b->strides[i][d - first];
            step[i * rank + d] = d == rank - 1 ? of * l->lanes : of;
        }
    }
    memcpy(step + nops * rank, b->params, sizeof(*b->params) * b->k->params.n);
}

/* ---- launching */

/* As the framework reports it: an exception with the kernel's name and the line that it comes from. */
static int failed(const Launch *l, DynCudaError error) {
    DynStr text = {0};
    const DynGraph *g = l->c->p->graph;
    dyn_cuda_say(error, &text);
    PyErr_Format(PyExc_RuntimeError, "CUDA error: %s (dynoc: launching kernel %d of %s, line %d)", dyn_str_at(&text), l->b.k->number,
                 g->name, dyn_graph_node(g, l->b.k->at)->line);
    dyn_str_free(&text);
    return -1;
}

static int launch(const Launch *l, DynCudaForm form, int64_t grid_x, int64_t grid_y, int block_x, int block_y) {
    int64_t words[DYN_CUDA_MOST_WORDS];
    void *parameters[1] = {words};
    DynCudaContext *current = NULL;
    DynCudaKernel *kernel = dyn_cuda_kernel(l->c->a->loaded, l->b.k->number, form);
    if (kernel == NULL || grid_x > MOST_GRID) {
        return -1;
    }
    fill(l, words);
    DynCudaError error = dyn_cuda.CtxGetCurrent(&current);
    bool other = error == 0 && current != l->info->context;
    error = other ? dyn_cuda.CtxSetCurrent(l->info->context) : error;
    if (error == 0) {
        error = dyn_cuda.LaunchKernel(kernel, (unsigned)grid_x, (unsigned)grid_y, 1, (unsigned)block_x, (unsigned)block_y, 1, 0, l->stream,
                                      parameters, NULL);
    }
    if (other && current != NULL) {
        dyn_cuda.CtxSetCurrent(current);
    }
    return error == 0 ? 0 : failed(l, error);
}

static int64_t blocks_of(int64_t n, int64_t each) { return (n + each - 1) / each; }

/* Groups of V elements along the last of n axes from `from` on. */
static int64_t groups_of(const Launch *l, int from, int n) {
    return n == 0 ? 1 : blocks_of(l->b.dims[from + n - 1], l->lanes) * product(&l->b, from, n - 1);
}

static int launch_elementwise(Launch *l) {
    l->lanes = dyn_cuda_lanes(l->b.k);
    l->count = groups_of(l, 0, l->kept);
    int64_t grid = blocks_of(l->count, DYN_CUDA_THREADS);
    return launch(l, DYN_CUDA_MAP, grid < MOST_GRID ? grid : MOST_GRID, 1, DYN_CUDA_THREADS, 1);
}

/* Do neighbouring results lie closer together than what one result is made of? */
static bool goes_by_columns(const Launch *l) {
    int by = leading(&l->b);
    if (l->kept == 0 || l->reduced == 0) {
        return l->reduced == 0;
    }
    return distance(l->b.strides[by][l->kept - 1]) < distance(l->b.strides[by][l->b.ndim - 1]) && l->b.dims[l->kept - 1] > 4;
}

static int power_of_2_above(int64_t n, int most) {
    int p = 1;
    while (p < most && p < n) {
        p *= 2;
    }
    return p;
}

/* Memory for what the splits leave; 0, or -1 with an exception. It goes back at once: work behind this launch on the same stream
 * gets it no earlier. */
static int take_parts(Launch *l, PyObject **memory) {
    const DynInsn *results[DYN_MAX_RESULTS];
    int64_t bytes = 8 * dyn_cuda_results(l->b.k, results) * l->count * l->splits;
    DynArrayView v;
    *memory = dyn_torch_new(DYN_U8, 1, &bytes, NULL, l->c->p->graph->device);
    if (*memory == NULL || !dyn_torch_place(*memory, &v)) {
        return -1;
    }
    l->parts = v.data;
    return 0;
}

static int launch_reduction(Launch *l) {
    bool columns = goes_by_columns(l);
    l->lanes = columns ? 1 : dyn_cuda_lanes(l->b.k);
    l->count = product(&l->b, 0, l->kept);
    l->groups = groups_of(l, l->kept, l->reduced);
    int threads = columns ? DYN_CUDA_THREADS / power_of_2_above(l->count, 32) : power_of_2_above(l->groups, DYN_CUDA_THREADS);
    int results = DYN_CUDA_THREADS / threads;
    int64_t grid = blocks_of(l->count, results), wanted = blocks_of((int64_t)BUSY * l->info->processors, grid);
    int64_t most = l->groups / ((int64_t)threads * EACH_LANE);
    l->splits = wanted < most ? wanted : most;
    l->splits = l->splits < 1 ? 1 : l->splits > MOST_SPLITS ? MOST_SPLITS : l->splits;
    PyObject *memory = NULL;
    int done = l->splits > 1 ? take_parts(l, &memory) : 0;
    if (done == 0) {
        done = launch(l, columns ? DYN_CUDA_COLUMNS : DYN_CUDA_ROWS, grid, l->splits, columns ? results : threads, columns ? threads : results);
    }
    if (done == 0 && l->splits > 1) {
        done = launch(l, DYN_CUDA_FINISH, blocks_of(l->count, 8), 1, 32, 8);
    }
    Py_XDECREF(memory);
    return done;
}

static DynTaskEnd bind_kernel(DynCall *c, DynTask *t) {
    const DynKernel *k = &c->p->kernels.at[c->p->steps.at[t->first].id];
    Launch l = {.c = c, .splits = 1, .info = dyn_cuda_info(c->p->graph->device - 1)};
    if (l.info == NULL || !dyn_torch_stream(c->p->graph->device, &l.stream)) {
        return DYN_TASK_REFUSED;
    }
    if (dyn_exec_bind(k, NULL, c->geoms, c->run->sym, &l.b) < 0) {
        return DYN_TASK_REFUSED;
    }
    bool none = false; /* nothing to compute; a reduction of nothing gives what it begins with */
    for (int d = 0; d < l.b.ndim; d++) {
        none = none || (l.b.dims[d] == 0 && !(k->reduced >> d & 1));
    }
    arrange(&l);
    if (!none && (k->reduced ? launch_reduction(&l) : launch_elementwise(&l)) < 0) {
        return DYN_TASK_REFUSED;
    }
    dyn_call_note_written(c, k);
    return DYN_TASK_DONE;
}

const DynTaskKind dyn_cuda_task_kernel = {.bind = bind_kernel};
