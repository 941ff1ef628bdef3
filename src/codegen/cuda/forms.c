/* forms.c: which of a kernel's functions (cuda.h) a call launches, by where its operands lie; and which of them a call like the
 * recorded one needs.
 *
 * Called by launch.c for each launch, and by build/parts.c, which has what is needed compiled first. That goes by the sizes that
 * were seen, as if all arrays lay in the order that the plan has for them: where one doesn't, the call asks for a function that
 * comes with the rest, and eager makes it until then. */
#include "codegen/cuda/target.h"

#define MOST_SPLITS 1024
#define WARP 32
#define MOST_EACH 4            /* groups of a visit */
#define WORTH_VISITS (1 << 18) /* so many threads a device has */
#define MANY_ROWS 16 /* for each processor, from which on a lane has several groups of a row: there are threads enough */

int64_t dyn_cuda_between(int64_t low, int64_t n, int64_t high) {
    if (n < low) {
        return low;
    }
    return n > high ? high : n;
}

int dyn_cuda_power_of_2(int64_t n, int most) {
    int p = 1;
    while (p < most && p < n) {
        p *= 2;
    }
    return p;
}

int64_t dyn_cuda_blocks(int64_t n, int64_t each) { return (n + each - 1) / each; }

int64_t dyn_cuda_along(const DynCudaLine *l) {
    int64_t piece = (int64_t)l->lanes << l->spread, n = l->b.ndim > 0 ? l->b.dims[l->b.ndim - 1] : 1;
    return (n + piece - 1) / piece << l->spread;
}

int64_t dyn_cuda_product(const DynCudaLine *l, int from, int n) {
    int64_t all = 1;
    for (int d = from; d < from + n; d++) {
        all *= d == l->b.ndim - 1 ? dyn_cuda_blocks(dyn_cuda_along(l), l->each) : l->b.dims[d];
    }
    return all;
}

/* Where there are several axes, a place on them is found once for several groups, if there are threads enough and groups. */
static void find_each(DynCudaLine *l, int axes, int64_t groups) {
    int64_t along = dyn_cuda_along(l);
    while (axes > 1 && l->each < MOST_EACH && along >= (int64_t)l->each * 2 * WARP &&
           groups >= (int64_t)l->each * 2 * WORTH_VISITS) {
        l->each *= 2;
    }
}

static DynCudaForm form_of(DynCudaForm form, DynCudaSpeed speed) { return (DynCudaForm)(form + (DYN_CUDA_GROUPED - speed)); }

DynCudaForm dyn_cuda_form_of_map(DynCudaLine *l) {
    dyn_cuda_arrange_map(l);
    find_each(l, l->kept, dyn_cuda_product(l, 0, l->kept));
    l->count = dyn_cuda_product(l, 0, l->kept);
    return form_of(DYN_CUDA_MAP, l->speed);
}

DynCudaForm dyn_cuda_form_of_reduction(const DynCudaInfo *info, DynCudaLine *l, int *threads) {
    bool columns = dyn_cuda_arrange_reduction(l);
    int kept_at = columns ? l->reduced : 0, reduced_at = columns ? 0 : l->kept;
    l->count = dyn_cuda_product(l, kept_at, l->kept);
    l->groups = dyn_cuda_product(l, reduced_at, l->reduced);
    if (!columns) {
        find_each(l, l->reduced, l->count * l->groups);
        l->groups = dyn_cuda_product(l, reduced_at, l->reduced);
    }
    bool many = l->count >= (int64_t)info->processors * MANY_ROWS;
    *threads = columns ? DYN_CUDA_THREADS / dyn_cuda_power_of_2(l->count, 32)
                       : dyn_cuda_power_of_2(many ? dyn_cuda_blocks(l->groups, DYN_CUDA_EACH_LANE) : l->groups, DYN_CUDA_THREADS);
    int64_t results = DYN_CUDA_THREADS / *threads, blocks = (l->count + results - 1) / results;
    int64_t wanted = blocks == 0 ? 1 : ((int64_t)DYN_CUDA_BUSY * info->processors + blocks - 1) / blocks;
    int64_t most = l->groups / ((int64_t)*threads * DYN_CUDA_EACH_LANE);
    l->splits = (uint32_t)dyn_cuda_between(1, wanted < most ? wanted : most, MOST_SPLITS);
    return form_of(columns ? DYN_CUDA_COLUMNS : DYN_CUDA_ROWS, l->speed);
}

static void measure(DynCudaRows *r, DynCudaLine *lines, int n, DynCudaSpeed speed) {
    r->longest = 0;
    for (int i = 0; i < n; i++) {
        DynCudaLine *l = &lines[i];
        l->speed = speed;
        l->lanes = speed & DYN_CUDA_PACKED ? l->lanes : 1;
        l->count = dyn_cuda_product(l, 0, l->kept);
        l->groups = dyn_cuda_product(l, l->kept, l->reduced);
        find_each(l, l->reduced, l->count * l->groups);
        l->groups = dyn_cuda_product(l, l->kept, l->reduced);
        r->rows = l->count;
        r->longest = l->groups > r->longest ? l->groups : r->longest;
    }
}

/* Has each row one axis at the most? */
static bool are_straight(const DynCudaLine *lines, int n) {
    bool straight = true;
    for (int i = 0; i < n; i++) {
        straight = straight && lines[i].reduced <= 1;
    }
    return straight;
}

void dyn_cuda_form_of_group(uint32_t step, DynCudaLine *lines, int n, DynCudaRows *r) {
    DynCudaHeld held = dyn_cuda_held(lines->p, step);
    DynCudaSpeed speed = DYN_CUDA_GROUPED;
    for (int i = 0; i < n; i++) {
        dyn_cuda_arrange_row(&lines[i]);
        speed &= lines[i].speed;
    }
    measure(r, lines, n, speed);
    r->each = speed & DYN_CUDA_PACKED ? held.groups : held.singles;
    bool fits = r->longest <= (int64_t)r->each * DYN_CUDA_HELD_THREADS;
    if (held.groups > 0 && speed != DYN_CUDA_ANY && fits && are_straight(lines, n)) {
        r->held = held.rows;
        r->form = form_of(DYN_CUDA_HELD_GROUP, speed);
        return;
    }
    if (held.groups > 0 && speed == DYN_CUDA_GROUPED) { /* there is no function GROUP where rows are held */
        speed = DYN_CUDA_SINGLE;
        measure(r, lines, n, speed);
    }
    r->each = DYN_CUDA_EACH_LANE * (speed == DYN_CUDA_SINGLE ? 4 : 1);
    r->held = 0;
    r->form = form_of(DYN_CUDA_GROUP, speed);
}

/* ---- what is compiled first */

/* Where places would lie, from nothing on. -1: the sizes that were seen don't say. */
static int lay_out(const DynLoops *p, const DynScalar *seen, DynGeom *geoms) {
    for (uint32_t i = 0; i < p->nplaces; i++) {
        const DynMem *m = &p->places[i];
        geoms[i] = (DynGeom){0};
        if (m->kind == DYN_P_NONE) {
            continue;
        }
        if (m->kind == DYN_P_VIEW) {
            uint32_t of = dyn_graph_node(p->graph, i)->args[0].id;
            if (dyn_geom_view(p->graph, i, seen, &geoms[of], &geoms[i]) < 0) {
                return -1;
            }
        } else if (dyn_geom_dense(m, seen, &geoms[i]) < 0) {
            return -1;
        }
        geoms[i].data = NULL;
    }
    return 0;
}

static int bind(const DynLoops *p, uint32_t step, const DynScalar *seen, const DynGeom *geoms, DynCudaLine *l) {
    *l = (DynCudaLine){.p = p, .splits = 1};
    return dyn_exec_bind(dyn_loops_kernel_at(p, step), NULL, geoms, seen, &l->b);
}

/* Adds the bit of the function that a launch needs: several may share their functions. */
static int group_needs(const DynLoops *p, uint32_t step, const DynScalar *seen, const DynGeom *geoms, uint32_t *forms) {
    int n = (int)(dyn_loops_group_end(p, step) - step), done = 0;
    DynCudaLine *lines = PyMem_Malloc(sizeof(*lines) * (size_t)n);
    DynCudaRows r;
    done = lines == NULL ? -1 : 0;
    for (int i = 0; i < n && done == 0; i++) {
        done = bind(p, step + (uint32_t)i, seen, geoms, &lines[i]);
    }
    if (done == 0) {
        dyn_cuda_form_of_group(step, lines, n, &r);
        *forms |= 1u << r.form;
    }
    PyMem_Free(lines);
    return done;
}

static int kernel_needs(const DynLoops *p, uint32_t step, const DynCudaInfo *info, const DynScalar *seen, const DynGeom *geoms,
                        uint32_t *forms) {
    DynCudaLine l;
    int threads;
    if (bind(p, step, seen, geoms, &l) < 0) {
        return -1;
    }
    if (!l.b.k->reduced) {
        *forms |= 1u << dyn_cuda_form_of_map(&l);
        return 0;
    }
    *forms |= 1u << dyn_cuda_form_of_reduction(info, &l, &threads);
    return 0;
}

/* Bits of the functions that a call like the recorded one needs, by the kernel's number (of a group, its first). */
static int find_needed(const DynLoops *p, const DynCudaInfo *info, uint32_t *forms) {
    const DynSyms *syms = p->graph->syms;
    DynScalar *seen = PyMem_Malloc(sizeof(*seen) * (syms->v.n + 1));
    DynGeom *geoms = PyMem_Malloc(sizeof(*geoms) * (p->nplaces + 1));
    int done = seen == NULL || geoms == NULL ? -1 : 0;
    for (uint32_t i = 0; i < syms->v.n && done == 0; i++) {
        seen[i] = syms->v.at[i].hint;
    }
    done = done == 0 ? lay_out(p, seen, geoms) : done;
    for (uint32_t s = 0; s < p->steps.n && done == 0; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        if (k != NULL) {
            uint32_t *needed = &forms[k->number];
            done = k->group != DYN_NONE ? group_needs(p, s, seen, geoms, needed) : kernel_needs(p, s, info, seen, geoms, needed);
            s = dyn_cuda_step_end(p, s) - 1;
        }
    }
    PyMem_Free(seen);
    PyMem_Free(geoms);
    return done;
}

int dyn_cuda_emit_part(const DynLoops *p, bool first, int64_t whole, DynStr *source) {
    (void)whole; /* one function less is always worth it */
    const DynCudaInfo *info = dyn_cuda_info(p->graph->device - 1);
    bool parted = info != NULL && p->nnative > 0 && !p->writes_inputs; /* eager can take a call whose function isn't there yet */
    uint32_t *forms = parted ? PyMem_Calloc((size_t)p->nnative, sizeof(*forms)) : NULL;
    int done = forms == NULL ? -1 : find_needed(p, info, forms);
    for (uint32_t i = 0; done == 0 && !first && i < p->nnative; i++) {
        forms[i] = ~forms[i];
    }
    done = done == 0 ? dyn_cuda_emit_forms(p, info, forms, source) : done;
    PyMem_Free(forms);
    return done;
}
