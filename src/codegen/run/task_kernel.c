/* task_kernel.c: the tasks that run kernels: KERNEL, GROUP, PAIR, and MADE for the second kernel of a pair.
 *
 * Called by run.c through tasks.def. A task binds kernels to the memory of the call, and owns no more than the bindings of a
 * group. */
#include "codegen/run/call.h"

static const DynKernel *kernel_at(const DynCall *c, uint32_t step) { return &c->p->kernels.at[c->p->steps.at[step].id]; }

int dyn_call_bind(DynCall *c, const DynKernel *k, DynBound *b) {
    if (dyn_exec_bind(k, c->table, c->geoms, c->run->sym, b) < 0 || dyn_order_find(c->p, c->geoms, c->run->sym, b) < 0) {
        return -1;
    }
    b->missed = &c->missed;
    if (b->native->rows != NULL) {
        dyn_sizes_bind(c->a, b);
    }
    return 0;
}

static DynTaskEnd bind_kernel(DynCall *c, DynTask *t) {
    if (dyn_call_bind(c, kernel_at(c, t->first), &t->bound) < 0) {
        return DYN_TASK_REFUSED;
    }
    t->cost = (double)dyn_exec_cost(&t->bound);
    return DYN_TASK_DONE;
}

static int work_kernel(DynCall *c, DynTask *t) {
    const DynKernel *k = t->bound.k;
    if (k->margin) {
        return dyn_exec_margin(&t->bound, c->run->sym);
    }
    return k->reduced ? dyn_exec_reduce(&t->bound) : dyn_exec_elementwise(&t->bound);
}

static bool writes_input(const DynLoops *p, const DynKernel *k) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (k->operands.at[i].out && p->places[dyn_loops_storage(p, k->operands.at[i].place)].kind == DYN_P_INPUT) {
            return true;
        }
    }
    return false;
}

void dyn_call_note_written(DynCall *c, const DynKernel *k) {
    c->wrote = c->wrote || (c->p->writes_inputs && writes_input(c->p, k));
}

static void note_written(DynCall *c, const DynTask *t) {
    for (uint32_t s = t->first; !c->wrote && s <= t->last; s++) {
        dyn_call_note_written(c, kernel_at(c, s));
    }
}

/* What kernels leave behind: an index that named a place that isn't there, or inputs that are written now. */
static DynTaskEnd finish_kernel(DynCall *c, DynTask *t, int failed) {
    if (failed || atomic_load_explicit(&c->missed, memory_order_relaxed)) {
        return DYN_TASK_REFUSED;
    }
    if (DYN_UNLIKELY(c->p->writes_inputs)) {
        note_written(c, t);
    }
    return DYN_TASK_DONE;
}

const DynTaskKind dyn_task_kernel = {.bind = bind_kernel, .work = work_kernel, .finish = finish_kernel};

/* ---- GROUP: kernels whose rows are made together, one row of all of them after the other */

static DynTaskEnd finish_group(DynCall *c, DynTask *t, int failed) {
    PyMem_Free(t->group.bounds);
    return finish_kernel(c, t, failed);
}

static DynTaskEnd bind_group(DynCall *c, DynTask *t) {
    uint32_t n = dyn_loops_group_end(c->p, t->first) - t->first;
    t->last = t->first + n - 1;
    t->group.n = (int)n;
    t->group.bounds = PyMem_Malloc(sizeof(*t->group.bounds) * n);
    int failed = t->group.bounds == NULL ? -1 : 0;
    for (uint32_t i = 0; i < n && !failed; i++) {
        failed = dyn_call_bind(c, kernel_at(c, t->first + i), &t->group.bounds[i]);
        t->cost += failed ? 0 : (double)dyn_exec_cost(&t->group.bounds[i]);
    }
    return failed ? finish_group(c, t, failed) : DYN_TASK_DONE;
}

static int work_group(DynCall *c, DynTask *t) {
    DynBound *b = t->group.bounds;
    return dyn_exec_group(b, t->group.n, b->k->outer, c->temps, c->row_size);
}

const DynTaskKind dyn_task_group = {.bind = bind_group, .work = work_group, .finish = finish_group};

/* ---- PAIR: two reductions over one memory, walked once. The second step of the pair is MADE by then. */

static DynTaskEnd bind_pair(DynCall *c, DynTask *t) {
    const DynLoops *p = c->p;
    uint32_t first = t->first, second = first + 1;
    while (second < p->steps.n && p->steps.at[second].pair != p->steps.at[first].pair) {
        second++;
    }
    if (second == p->steps.n || !dyn_pair_find(p, first, second, &t->pair.pair)) {
        return DYN_TASK_OTHERWISE;
    }
    if (dyn_call_bind(c, kernel_at(c, first), &t->pair.a) < 0 || dyn_call_bind(c, kernel_at(c, second), &t->pair.b) < 0) {
        return DYN_TASK_OTHERWISE;
    }
    uint32_t by = t->pair.pair.divisor;
    DynScalar count = by == DYN_NONE ? (DynScalar){.i = 0} : c->run->sym[by];
    bool is_float = by != DYN_NONE && dyn_sym_at(p->graph->syms, by)->type == DYN_T_FLOAT;
    t->pair.divisor = is_float ? (int64_t)count.f : count.i;
    t->cost = (double)dyn_exec_cost(&t->pair.a);
    return DYN_TASK_DONE;
}

static int work_pair(DynCall *c, DynTask *t) { return dyn_exec_pair(&t->pair.a, &t->pair.b, &t->pair.pair, t->pair.divisor); }

/* done: as dyn_exec_pair says it: 1 both are made, 0 it isn't worth it, -1 memory. */
static DynTaskEnd finish_pair(DynCall *c, DynTask *t, int done) {
    if (done == 0) {
        return DYN_TASK_OTHERWISE;
    }
    c->paired = c->p->steps.at[t->first].pair;
    return finish_kernel(c, t, done < 0 ? done : 0);
}

const DynTaskKind dyn_task_pair = {.bind = bind_pair, .work = work_pair, .finish = finish_pair};

static DynTaskEnd bind_made(DynCall *c, DynTask *t) { return finish_kernel(c, t, 0); }

const DynTaskKind dyn_task_made = {.bind = bind_made};
