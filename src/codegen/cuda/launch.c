/* launch.c: kernels on a CUDA device: a kernel of the loop IR, bound to memory, becomes a launch on the framework's stream.
 *
 * Called by run.c through the target's tasks, with the GIL, which a launch doesn't give up: it takes microseconds, and the device
 * works on behind it. The struct of cuda.h is filled here (forms.c chooses the function, arrange.c puts axes in order). Memory
 * that a launch needs for itself is a tensor, which the framework's allocator takes back in the stream's order, so that it can be
 * given back at once. */
#include "base/tensors.h"
#include "codegen/cuda/replay.h"

#define MOST_GRID ((int64_t)0x7fffffff) /* blocks along x */
#define LONG_DIVISION ((int64_t)1 << 31)
#define MOST_FILLED 128 /* elements of a warp's groups */
#define SHARED_WITHOUT_ASKING (48 << 10)
enum { MAX_DYNAMIC_SHARED = 8 }; /* attribute of a kernel, by the driver's number */

/* Where launches go. */
typedef struct Stream {
    const DynCall *c;
    const DynCudaInfo *info;
    void *stream;
} Stream;

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

/* Is it ANY_MAP's? Its elements have places of their own, no matter which group they are in. */
static bool is_scattered(const DynCudaLine *l) { return l->speed == DYN_CUDA_ANY && l->lanes > 1; }

static void fill(const DynCudaLine *l, int64_t *w) {
    const DynBound *b = &l->b;
    int rank = dyn_cuda_rank(b->k), nops = b->nops, first = rank - b->ndim;
    bool scattered = is_scattered(l);
    int64_t *size = w + DYN_CUDA_HEAD, *magic = size + rank, *base = magic + rank, *step = base + nops;
    uint32_t axes = (uint32_t)l->kept | (uint32_t)l->reduced << 8 | (uint32_t)l->spread << DYN_CUDA_SPREAD;
    w[0] = l->count;
    w[1] = l->groups;
    w[2] = (int64_t)(axes | (uint64_t)l->splits << 32);
    memcpy(&w[3], &l->parts, sizeof(l->parts));
    memcpy(&w[4], &l->done, sizeof(l->done));
    w[5] = dyn_cuda_along(l);
    for (int d = 0; d < rank; d++) {
        size[d] = d < first ? 1 : dyn_cuda_product(l, d - first, 1);
        magic[d] = magic_of(size[d]);
    }
    for (int i = 0; i < nops; i++) {
        memcpy(&base[i], &b->base[i], sizeof(b->base[i]));
        for (int d = 0; d < rank; d++) {
            int64_t of = d < first ? 0 : b->strides[i][d - first];
            step[i * rank + d] = d == rank - 1 && !scattered ? of * l->lanes : of;
        }
    }
    memcpy(step + nops * rank, b->params, sizeof(*b->params) * b->k->params.n);
    int64_t *scalar = step + nops * rank + b->k->params.n;
    for (int i = 0; i < nops; i++) {
        if (b->k->operands.at[i].indirect) {
            *scalar++ = b->extent[i];
            *scalar++ = b->step[i];
        }
    }
}

/* ---- launching */

/* With the kernel's name and the line that it comes from. */
static int failed(const Stream *s, const DynKernel *k, DynCudaError error) {
    const DynGraph *g = s->c->p->graph;
    dyn_cuda_raise(error, "launching kernel %d of %s, line %d", k->number, g->name, dyn_graph_node(g, k->at)->line);
    return -1;
}

typedef struct Grid {
    int64_t x, y;
    int block_x, block_y;
    int64_t shared; /* bytes */
} Grid;

/* What a kernel is handed: its struct, in which the struct of line i begins with word first[i]. */
typedef struct Handed {
    int64_t *words;
    const DynCudaLine *lines;
    const int *first;
    int nwords, nlines;
} Handed;

static void note(const Stream *s, DynCudaKernel *kernel, const Grid *g, const Handed *h) {
    DynCudaNodeParams launched = {.grid_x = (unsigned)g->x,
                                  .grid_y = (unsigned)g->y,
                                  .grid_z = 1,
                                  .block_x = (unsigned)g->block_x,
                                  .block_y = (unsigned)g->block_y,
                                  .block_z = 1,
                                  .shared = (unsigned)g->shared,
                                  .kernel = kernel,
                                  .context = s->info->context};
    dyn_recording_note(s->c->recording, &launched, s->stream, h->words, h->nwords, h->lines, h->first, h->nlines);
}

static DynCudaError launch_in(const Stream *s, DynCudaKernel *kernel, const Grid *g, const Handed *h) {
    void *parameters[1] = {h->words};
    if (g->shared > SHARED_WITHOUT_ASKING) {
        DynCudaError error = dyn_cuda.KernelSetAttribute(MAX_DYNAMIC_SHARED, (int)g->shared, kernel, s->info->device);
        if (error != 0) {
            return error;
        }
    }
    DynCudaError error = dyn_cuda.LaunchKernel(kernel, (unsigned)g->x, (unsigned)g->y, 1, (unsigned)g->block_x,
                                               (unsigned)g->block_y, 1, (unsigned)g->shared, s->stream, parameters, NULL);
    if (error == 0 && DYN_UNLIKELY(s->c->recording != NULL)) {
        note(s, kernel, g, h);
    }
    return error;
}

/* What the recorded call doesn't need is in an object of its own (build/parts.c), which is waited for where the program asked for
 * that. NULL: it hasn't come yet. */
static DynCudaKernel *function_of(DynArtifact *a, const DynKernel *k, DynCudaForm form) {
    DynCudaKernel *kernel = dyn_cuda_kernel(a->loaded, k->number, form);
    if (kernel != NULL || a->rest == NULL) {
        return kernel;
    }
    if (a->config.wait) {
        dyn_build_submit(a->rest, true);
    }
    bool there = atomic_load_explicit(&a->rest->table, memory_order_acquire) != NULL;
    return there ? dyn_cuda_kernel(a->rest->loaded, k->number, form) : NULL;
}

/* Places on several axes are 32 bits, with what a last group is filled up with. Of what has more eager makes the call. */
static bool is_too_large(const DynCudaLine *l) {
    int64_t last = dyn_cuda_along(l) * (is_scattered(l) ? l->lanes : 1);
    return !(l->speed & DYN_CUDA_SINGLE) && (l->count >= LONG_DIVISION || l->groups >= LONG_DIVISION || last >= LONG_DIVISION);
}

/* Is it surely not too large, wherever its operands lie? */
static bool is_small(const DynCall *c, const DynKernel *k) {
    int64_t n = 1;
    for (int d = 0; d < k->ndim && n < LONG_DIVISION; d++) {
        bool late = dyn_sym_is_late(c->p->graph->syms, k->shape[d]);
        int64_t size = late ? 1 : c->run->sym[k->shape[d]].i;
        n = size < LONG_DIVISION ? n * size : LONG_DIVISION;
    }
    return n < LONG_DIVISION - MOST_FILLED;
}

bool dyn_cuda_takes(const DynCall *c) {
    bool takes = true, behind = false;
    for (uint32_t s = 0; s < c->p->steps.n && takes; s++) {
        DynStepKind kind = (DynStepKind)c->p->steps.at[s].kind;
        takes = kind != DYN_STEP_KERNEL || !behind || is_small(c, dyn_loops_kernel_at(c->p, s));
        behind |= kind != DYN_STEP_VIEW;
    }
    return takes;
}

static int launch(const Stream *s, const DynKernel *k, DynCudaForm form, const Grid *g, const Handed *h) {
    DynCudaContext *before;
    DynCudaKernel *kernel = function_of(s->c->a, k, form);
    bool fits = kernel != NULL && g->x <= MOST_GRID;
    for (int i = 0; i < h->nlines; i++) {
        fits = fits && !is_too_large(&h->lines[i]);
    }
    if (!fits) {
        return -1;
    }
    DynCudaError error = dyn_cuda_enter(s->info, &before);
    error = error == 0 ? launch_in(s, kernel, g, h) : error;
    dyn_cuda_leave(s->info, before);
    return error == 0 ? 0 : failed(s, k, error);
}

/* A kernel, and its tails behind it. */
static int launch_lines(const Stream *s, const DynCudaLine *lines, int n, DynCudaForm form, const Grid *g) {
    int64_t words[DYN_CUDA_MOST_WORDS];
    int first[1 + DYN_MOST_TAILS], next = 0;
    for (int i = 0; i < n; i++) {
        first[i] = next;
        fill(&lines[i], words + next);
        next += dyn_cuda_words(lines[i].b.k);
    }
    return launch(s, lines->b.k, form, g, &(Handed){words, lines, first, next, n});
}

/* ---- kernels that run alone */

static int launch_piece(const Stream *s, DynCudaLine *l) {
    DynCudaForm form = dyn_cuda_form_of_map(l);
    int64_t grid = dyn_cuda_blocks(l->count, DYN_CUDA_THREADS);
    return launch_lines(s, l, 1, form, &(Grid){grid < MOST_GRID ? grid : MOST_GRID, 1, DYN_CUDA_THREADS, 1, 0});
}

static int launch_map(const Stream *s, DynCudaLine *l) {
    DynCudaLine strip;
    int done = 0;
    while (done == 0 && dyn_cuda_cut_strip(l, &strip)) {
        done = launch_piece(s, &strip);
    }
    return done == 0 ? launch_piece(s, l) : done;
}

/* ---- counts of blocks that share a result and are done */

#define COUNTS (1 << 14) /* of a stream; a launch takes less than a thousand */

/* So many counts that are 0. */
static char *new_counts(const Stream *s, int64_t n, PyObject **holder) {
    DynCudaContext *before;
    char *at = dyn_cuda_memory(s->c, 4 * n, holder);
    DynCudaError error = at == NULL ? 1 : dyn_cuda_enter(s->info, &before);
    if (error == 0) {
        error = dyn_cuda.MemsetD32Async(at, 0, (size_t)n, s->stream);
        dyn_cuda_leave(s->info, before);
    }
    return error == 0 ? at : NULL;
}

/* n counts that are 0; NULL: there is no memory. *holder: the launch's own, or NULL. */
static char *take_counts(const Stream *s, int64_t n, PyObject **holder) {
    DynCudaStream *own = n > COUNTS ? NULL : dyn_cuda_stream(s->info, s->stream);
    if (own != NULL && own->counts == NULL) {
        own->counts = new_counts(s, COUNTS, &own->counts_holder);
    }
    if (own == NULL || own->counts == NULL) {
        return new_counts(s, n, holder);
    }
    own->next = own->next + n > COUNTS ? 0 : own->next;
    char *at = own->counts + 4 * own->next;
    own->next += n;
    return at;
}

/* The first of n lines; the others are its tails. */
static int launch_reduction(const Stream *s, DynCudaLine *l, int n) {
    int threads;
    DynCudaForm form = dyn_cuda_form_of_reduction(s->info, l, &threads);
    bool columns = form >= DYN_CUDA_COLUMNS, shared = l->splits > 1;
    int results = DYN_CUDA_THREADS / threads;
    Grid g = {dyn_cuda_blocks(l->count, results), l->splits, columns ? results : threads, columns ? threads : results, 0};
    PyObject *memory = NULL, *counted = NULL;
    const DynInsn *all[DYN_MAX_RESULTS];
    int64_t bytes =
        (int64_t)dyn_cuda_part_size(l->b.k) * dyn_cuda_results(l->b.k, all) * l->count * (columns ? l->lanes : 1) * l->splits;
    l->parts = shared ? dyn_cuda_memory(s->c, bytes, &memory) : NULL;
    l->done = shared && l->parts != NULL ? take_counts(s, g.x, &counted) : NULL;
    int done = shared && l->done == NULL ? -1 : launch_lines(s, l, n, form, &g);
    Py_XDECREF(memory);
    Py_XDECREF(counted);
    return done;
}

static int begin(DynCall *c, Stream *s) {
    *s = (Stream){.c = c, .info = dyn_cuda_info(c->p->graph->device - 1)};
    const DynGraph *g = c->p->graph;
    bool known = s->info != NULL && (g->cupy ? dyn_cupy_stream(&s->stream) : dyn_torch_stream(g->device, &s->stream));
    return known ? 0 : -1;
}

/* Does each element lie where one access reads it? Real pairs that are looked at as complex numbers may begin anywhere. */
static bool is_aligned(const DynBound *b) {
    uint64_t rest = 0;
    for (int i = 0; i < b->nops; i++) {
        uint64_t within = (uint64_t)dyn_dtypes[b->k->operands.at[i].dtype].size - 1;
        rest |= (uint64_t)(uintptr_t)b->base[i] & within;
        for (int d = 0; d < b->ndim; d++) {
            rest |= b->dims[d] > 1 ? (uint64_t)b->strides[i][d] & within : 0;
        }
    }
    return rest == 0;
}

static int bind_line(const DynCall *c, DynCudaLine *l, const DynKernel *k) {
    *l = (DynCudaLine){.p = c->p, .splits = 1};
    int done = dyn_exec_bind(k, NULL, c->geoms, c->run->sym, &l->b);
    return done == 0 && !is_aligned(&l->b) ? -1 : done;
}

/* Is there nothing to compute? A reduction of nothing gives what it begins with. */
static bool is_empty(const DynBound *b, uint32_t reduced) {
    for (int d = 0; d < b->ndim; d++) {
        if (b->dims[d] == 0 && !(reduced >> d & 1)) {
            return true;
        }
    }
    return false;
}

static DynTaskEnd bind_kernel(DynCall *c, DynTask *t) {
    const DynKernel *k = dyn_loops_kernel_at(c->p, t->first);
    DynCudaLine lines[1 + DYN_MOST_TAILS];
    int n = k->reduced ? (int)(dyn_loops_tails_end(c->p, t->first) - t->first) : 1;
    Stream s;
    int done = begin(c, &s);
    for (int i = 0; i < n && done == 0; i++) {
        done = bind_line(c, &lines[i], dyn_loops_kernel_at(c->p, t->first + (uint32_t)i));
    }
    for (int i = 1; i < n && done == 0; i++) {
        dyn_cuda_form_of_map(&lines[i]);
    }
    if (done == 0 && !is_empty(&lines->b, k->reduced)) {
        done = k->reduced ? launch_reduction(&s, lines, n) : launch_map(&s, lines);
    }
    for (int i = 0; i < n && done == 0; i++) {
        dyn_call_note_written(c, lines[i].b.k);
    }
    t->last = t->first + (uint32_t)n - 1;
    return done < 0 ? DYN_TASK_REFUSED : DYN_TASK_DONE;
}

const DynTaskKind dyn_cuda_task_kernel = {.bind = bind_kernel};

/* ---- groups */

typedef struct Group {
    Stream s;
    const DynKernel *kernel; /* the first */
    DynCudaRows r;
    int64_t bytes; /* of one row's memory */
    int64_t words[DYN_CUDA_MOST_WORDS];
    int first[DYN_CUDA_MOST_WORDS / DYN_CUDA_HEAD]; /* word of each kernel's struct */
    int nwords;
} Group;

/* Where the group's rows lie in the memory of a row: those that threads hold nowhere, the others one behind the other. */
typedef struct Laid {
    uint32_t place[DYN_CUDA_MOST_ROWS];
    int64_t at[DYN_CUDA_MOST_ROWS];
    int n; /* 0: all lie where the plan has them, as there are too many */
} Laid;

static void lay_rows(const DynCall *c, Group *g, Laid *laid) {
    const DynLoops *p = c->p;
    int64_t next = (int64_t)c->row_size, bytes[DYN_CUDA_MOST_ROWS];
    g->bytes = next;
    laid->n = 0;
    for (uint32_t i = p->nplaces; i-- > 0;) { /* the plan has them in the order of places, with those of other groups */
        if (p->places[i].kind != DYN_P_ROW) {
            continue;
        }
        int64_t begins = c->geoms[i].data - c->temps;
        if (p->places[i].group == g->kernel->group) {
            if (laid->n == DYN_CUDA_MOST_ROWS) {
                laid->n = 0;
                return;
            }
            bytes[laid->n] = next - begins;
            laid->place[laid->n++] = i;
        }
        next = begins;
    }
    g->bytes = 0;
    for (int row = 0; row < laid->n; row++) { /* the last place is the first of them */
        bool held = g->r.held >> (laid->n - 1 - row) & 1;
        laid->at[row] = g->bytes;
        g->bytes += held ? 0 : bytes[row];
    }
}

static int64_t place_in_row(const DynCall *c, const Laid *laid, uint32_t place) {
    for (int row = 0; row < laid->n; row++) {
        if (laid->place[row] == place) {
            return laid->at[row];
        }
    }
    return c->geoms[place].data - c->temps;
}

/* Operands in the memory of one row are told by how far from its beginning they are. */
static void find_rowed(const DynCall *c, const Laid *laid, DynCudaLine *l) {
    for (int i = 0; i < l->b.nops; i++) {
        uint32_t place = dyn_loops_storage(c->p, l->b.k->operands.at[i].place);
        if (c->p->places[place].kind == DYN_P_ROW) {
            int64_t from = l->b.base[i] - c->geoms[place].data;
            l->rowed |= 1u << i;
            l->b.base[i] = (char *)(intptr_t)(place_in_row(c, laid, place) + from);
        }
    }
}

static void fill_members(const DynCall *c, Group *g, DynCudaLine *lines, int n) {
    Laid laid;
    g->nwords = DYN_CUDA_GROUP_HEAD;
    lay_rows(c, g, &laid);
    for (int i = 0; i < n; i++) {
        find_rowed(c, &laid, &lines[i]);
        fill(&lines[i], g->words + g->nwords);
        g->first[i] = g->nwords;
        g->nwords += dyn_cuda_words(lines[i].b.k);
    }
}

/* As many rows to a block as its threads have work for, and its shared memory has room; where there is none even for one, the
 * rows' memory is the device's. */
static int launch_group(const DynCall *c, Group *g, const DynCudaLine *lines, int n) {
    const DynCudaRows *r = &g->r;
    int lanes = dyn_cuda_power_of_2(dyn_cuda_blocks(r->longest, r->each), DYN_CUDA_GROUP_THREADS);
    int rows = lanes < DYN_CUDA_THREADS ? DYN_CUDA_THREADS / lanes : 1;
    int64_t room = g->s.info->shared - (int64_t)sizeof(double) * DYN_CUDA_THREADS;
    while (rows > 1 && g->bytes * rows > SHARED_WITHOUT_ASKING) {
        rows /= 2;
    }
    Grid grid = {dyn_cuda_between(1, dyn_cuda_blocks(r->rows, rows), MOST_GRID), 1, lanes, rows, g->bytes * rows};
    PyObject *memory = NULL;
    char *at = NULL;
    if (g->bytes * rows > room) {
        grid.x = dyn_cuda_between(1, grid.x, (int64_t)g->s.info->processors * DYN_CUDA_BUSY);
        grid.shared = 0;
        if ((at = dyn_cuda_memory(c, g->bytes * rows * grid.x, &memory)) == NULL) {
            Py_XDECREF(memory);
            return -1;
        }
    }
    g->words[0] = r->rows;
    g->words[1] = g->bytes;
    memcpy(&g->words[2], &at, sizeof(at));
    int done = launch(&g->s, g->kernel, r->form, &grid, &(Handed){g->words, lines, g->first, g->nwords, n});
    Py_XDECREF(memory);
    return done;
}

static DynTaskEnd bind_group(DynCall *c, DynTask *t) {
    Group g;
    uint32_t n = dyn_loops_group_end(c->p, t->first) - t->first;
    DynCudaLine *lines = PyMem_Malloc(sizeof(*lines) * n);
    int done = lines == NULL ? -1 : begin(c, &g.s);
    g.kernel = dyn_loops_kernel_at(c->p, t->first);
    for (uint32_t i = 0; i < n && done == 0; i++) {
        done = bind_line(c, &lines[i], dyn_loops_kernel_at(c->p, t->first + i));
        if (done == 0) {
            dyn_call_note_written(c, lines[i].b.k);
        }
    }
    if (done == 0) {
        dyn_cuda_form_of_group(t->first, lines, (int)n, &g.r);
        fill_members(c, &g, lines, (int)n);
        done = g.r.rows > 0 ? launch_group(c, &g, lines, (int)n) : 0;
    }
    PyMem_Free(lines);
    t->last = t->first + n - 1;
    return done < 0 ? DYN_TASK_REFUSED : DYN_TASK_DONE;
}

const DynTaskKind dyn_cuda_task_group = {.bind = bind_group};
