/* loops_over.c: a call that began in its function's own code goes over to loop code in the midst of a loop. A program that has
 * all its work in one call would gain nothing otherwise: its function is found while the loop runs.
 *
 * A tick that finds a function with a loop on the stack asks for that; cpy_over.h tells when its frame comes to a header next.
 * What is asked for is called off by the next tick. Called by finder.c, with the GIL; owns nothing. */
#include "base/cpy_over.h"
#include "evalframe/hold.h"
#include "evalframe/hook.h"
#include "evalframe/known.h"
#include "evalframe/loops.h"

/* The loops of the frame's function, if the frame may run in their code. A full collection may have made the cache loose since it
 * was asked to. */
static DynLoops *loops_of(DynFrame *f) {
    PyObject *code = (PyObject *)dyn_frame_code(f);
    const DynKnown *row = dyn_known_find(code);
    bool tight = row != NULL && row->cache != NULL && !row->cache->loose;
    bool ours = tight && row->globals == dyn_frame_globals(f) && dyn_loops_serve(row->cache);
    DynLoops *l = ours ? row->cache->loops : NULL;
    return l != NULL && l->made != NULL && l->code == code && !dyn_loops_all_rest(l) ? l : NULL;
}

static int let_hook_in(void *unused) {
    dyn_hook_step_in();
    return 0;
}

/* Where the frame goes over by a call, CPython has to make it itself: the hook is out until then. */
static bool may_call(void) {
    bool may = !dyn_cpy_over_by_call() || (dyn_hook_step_out() && dyn_cpy_call_soon(let_hook_in) == 0);
    if (!may) {
        dyn_hook_step_in();
    }
    return may;
}

static DynOver on_jump(DynFrame *f, uint32_t at, uint32_t depth) {
    DynLoops *l = loops_of(f);
    for (uint32_t i = 0; l != NULL && i < l->nloops; i++) {
        const DynLoopWay *way = &l->made->ways[i];
        if (way->header == at && way->depth == depth && !l->loops[i].function && may_call()) {
            dyn_loops_begin_frame(l);
            dyn_count("loops", "gone over");
            return (DynOver){(PyCodeObject *)l->made->code, way->over};
        }
    }
    return (DynOver){NULL, 0};
}

/* A loop that was met often enough to be found has run for long: it is planned at its next arrival. Loops in it are planned with
 * it, or when they have run for as long as others. */
static void count_as_run(DynLoops *l, DynFrame *f) {
    uint32_t at = dyn_frame_position(f);
    for (uint32_t i = 0; i < l->nloops; i++) {
        DynLoop *loop = &l->loops[i];
        bool *members = loop->nested || loop->state != DYN_LOOP_COLD ? NULL : dyn_loop_members(l->decoded, l->headers[i]);
        for (uint32_t k = 0; members != NULL && k < l->decoded->v.n; k++) {
            const DynInstr *in = &l->decoded->v.at[k];
            if (members[k] && in->start <= at && at <= in->next) {
                loop->ran_ns = dyn_loops_enough(loop);
            }
        }
        PyMem_RawFree(members);
    }
}

/* Loop code is made here, and not where the frame jumps, which is between two instructions. */
bool dyn_loops_may_go_over(DynCache *c, DynFrame *f) {
    if (!dyn_frame_may_go_over(f)) {
        return false;
    }
    dyn_cache_incref(c);
    if (c->loose) {
        dyn_hold_tighten(c);
    }
    PyObject *namespace = dyn_frame_namespace(f);
    bool served = dyn_loops_serve(c);
    bool begins = !served && (namespace != NULL ? dyn_loops_begin_names(c, namespace) : dyn_loops_begin_running(c, f));
    bool may = (served || begins) && loops_of(f) != NULL;
    if (begins && may) {
        count_as_run(c->loops, f);
    }
    dyn_cache_decref(c);
    return may;
}

bool dyn_loops_go_over(DynFrame *f) { return dyn_cpy_watch_jumps(f, on_jump); }

void dyn_loops_stay(void) { dyn_cpy_watch_no_jumps(); }
