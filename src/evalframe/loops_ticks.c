/* loops_ticks.c: how long loop code runs, and cold loops in it whose trips nobody can count beforehand. Asking at each arrival
 * would take as long as the trip does, so after a few arrivals such a loop rests: its way is closed, and a call every few
 * milliseconds (ticks.c) looks whose loop code is on the main thread's stack. A loop that has been met for so long that planning
 * it is worth while has its way opened again, and its next arrival plans it. Called by loops.c and loops_arrive.c, with the GIL;
 * owns nothing. */
#include "evalframe/loops.h"
#include "evalframe/ticks.h"

#define DEPTH 8           /* functions on the stack that are looked at */
#define FIRST_PLAN_NS 2e7 /* The first planning in a process takes .8 ms more than others: its loop has to run for longer. */
#define MOST_COLD_NS 1e7  /* So long a loop runs before its region, which is planned, is built: a compiler beside it slows it. */
#define USELESS 32        /* calls in a row that met no loop that rests: then there are no more, until another one rests */

static unsigned useless;

static void open_what_is_hot(DynLoops *l) {
    for (uint32_t i = 0; i < l->nloops; i++) {
        DynLoop *loop = &l->loops[i];
        if (loop->rests && (loop->state != DYN_LOOP_COLD || loop->ran_ns >= dyn_loops_enough(loop))) {
            dyn_loops_rouse(l, i);
        }
    }
}

/* Its loops that rest have run for so much longer: are there any? */
static bool met(DynLoops *l, unsigned ms) {
    bool any = false;
    for (uint32_t i = 0; i < l->nloops; i++) {
        DynLoop *loop = &l->loops[i];
        any |= loop->rests;
        loop->ran_ns += loop->rests ? ms * 1e6 : 0;
    }
    open_what_is_hot(l);
    return any;
}

static DynTick on_tick(unsigned ms) {
    DynFrame *f = dyn_frame_complete(dyn_frame_current(PyThreadState_Get()));
    bool any = false;
    for (int depth = 0; f != NULL && depth < DEPTH; depth++, f = dyn_frame_caller(f)) {
        DynLoops *l = dyn_loops_with_code((PyObject *)dyn_frame_code(f));
        any |= l != NULL && met(l, ms);
    }
    useless = any ? 0 : useless + 1;
    return any ? DYN_TICK_USEFUL : useless < USELESS ? DYN_TICK_USELESS : DYN_TICK_LAST;
}

bool dyn_loops_rest(DynLoops *l, uint32_t i) {
    if (!dyn_cpy_is_main_thread()) {
        return false;
    }
    useless = 0;
    dyn_ticks_start(on_tick);
    l->loops[i].rests = dyn_ticks_come(on_tick);
    dyn_loops_open(l, i, !l->loops[i].rests);
    return l->loops[i].rests;
}

void dyn_loops_rouse_forgotten(DynLoops *l) {
    bool come = dyn_ticks_come(on_tick);
    for (uint32_t i = 0; i < l->nloops && !come; i++) {
        if (l->loops[i].rests) {
            dyn_loops_rouse(l, i);
        }
    }
}

/* ---- what a cold loop has run */

double dyn_loops_enough(const DynLoop *loop) {
    return loop->nregions > 0 ? MOST_COLD_NS : loop->worth_ns + (dyn_loops_any_planned() ? 0 : FIRST_PLAN_NS);
}

void dyn_loops_count_anew(DynLoops *l, uint32_t i) {
    DynLoop *loop = &l->loops[i];
    loop->arrived = 0;
    loop->ran_ns = 0;
    loop->since = dyn_loops_ran(l);
}

void dyn_loops_begin_inner(DynLoops *l, uint32_t i) {
    for (uint32_t k = 0; k < l->nloops; k++) {
        if (l->loops[k].state == DYN_LOOP_COLD && (l->made->ways[i].inner >> k & 1) != 0) {
            dyn_loops_count_anew(l, k);
        }
    }
}

/* ---- how long calls take in loop code */

uint64_t dyn_loops_ran(const DynLoops *l) { return l->ran + (l->began != 0 ? dyn_cycles() - l->began : 0); }

/* A call that was handed over ran at least until the last of its loops was met. */
void dyn_loops_begin_call(DynLoops *l) {
    for (uint32_t i = 0; i < l->nloops && l->calls == 0 && l->began != 0; i++) {
        l->ran = l->loops[i].since > l->ran ? l->loops[i].since : l->ran;
    }
    l->ncalls++;
    if (l->calls++ == 0) {
        l->began = dyn_cycles();
    }
}

void dyn_loops_end_call(DynLoops *l) {
    if (--l->calls == 0) {
        l->ran += dyn_cycles() - l->began;
        l->began = 0;
    }
}

/* A frame goes over to loop code, and nobody says when it ends. */
void dyn_loops_begin_frame(DynLoops *l) { l->began = l->began != 0 ? l->began : dyn_cycles(); }
