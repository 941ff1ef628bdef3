/* loops_turns.c: does a native function that calls itself pay? Its arrivals aren't trips, and where it gives up, or is native for
 * some of its arguments only, CPython comes to it many times in one call. So whole calls are compared: of the first ones, the
 * outermost of each recursion, some are CPython's, with the way closed.
 *
 * Called by loops_calls.c, with the GIL. Owns nothing. */
#include "evalframe/loops.h"

#define WARM 3       /* native calls that come first */
#define FEW 3        /* calls of either side, where the difference is clear … */
#define CLEAR 1.5    /* … as the one takes so many times as long */
#define FAR 4.       /* … or one of CPython's, though it was the first */
#define GAIN .97     /* What native calls take at most of CPython's time, not to be CPython's again. */
#define AGAIN 64u    /* calls until they are compared again; four times as many each time … */
#define MOST_AGAIN 8 /* … but for so many times, … */
#define SURELY 2.    /* … unless CPython took so many times as long, the second time or later */

static bool is_compared(const DynLoops *l, const DynLoop *loop) {
    return loop->state == DYN_LOOP_NATIVE && l->calls == 0 && l->cache != NULL && dyn_profit_is_judged(l->cache);
}

/* The function as a whole; NULL: it doesn't call itself. */
static DynLoop *whole_of(DynLoops *l, uint32_t *i) {
    for (*i = 0; *i < l->nloops; (*i)++) {
        if (l->loops[*i].function) {
            return &l->loops[*i];
        }
    }
    return NULL;
}

static uint32_t planned_of(const DynLoops *l) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->nloops; i++) {
        n += l->loops[i].nregions + l->loops[i].tried + l->loops[i].refusals;
    }
    return n;
}

DynTurnOf dyn_loops_turn(DynLoops *l) {
    DynCallTurns *t = &l->turns;
    uint32_t i;
    const DynLoop *loop = whole_of(l, &i);
    if (loop == NULL || !is_compared(l, loop) || t->sure) {
        return DYN_TURN_OF_NONE;
    }
    if (t->rest > 0) {
        t->rest--;
        return DYN_TURN_OF_NONE;
    }
    bool plain = t->turn >= WARM && __builtin_parity(t->turn); /* in no rhythm that calls of the program could have, too */
    t->turn++;
    t->planned = planned_of(l);
    if (plain) {
        dyn_loops_open(l, i, false);
    }
    return plain ? DYN_TURN_OF_CPYTHON : DYN_TURN_OF_NATIVE;
}

/* The machine makes calls longer, never shorter, so the median. */
static double usual(const DynCallSide *s) {
    uint64_t sorted[DYN_MOST_TURNS];
    memcpy(sorted, s->at, s->n * sizeof *sorted);
    qsort(sorted, s->n, sizeof *sorted, dyn_cycles_compare);
    return ((double)sorted[(s->n - 1) / 2] + (double)sorted[s->n / 2]) / 2;
}

static void conclude(DynLoops *l, uint32_t i, double times) {
    DynCallTurns *t = &l->turns;
    uint32_t trials = t->trials + 1;
    bool sure = trials > 1 && times > SURELY;
    *t = (DynCallTurns){.trials = trials, .sure = sure, .rest = AGAIN << 2 * (trials < MOST_AGAIN ? trials - 1 : MOST_AGAIN)};
    if (times * GAIN < 1) {
        *t = (DynCallTurns){0};
        dyn_loops_retire(l, i);
    }
}

void dyn_loops_turn_ends(DynLoops *l, DynTurnOf turn, uint64_t took) {
    DynCallTurns *t = &l->turns;
    uint32_t i;
    const DynLoop *loop = whole_of(l, &i);
    if (turn == DYN_TURN_OF_CPYTHON) {
        dyn_loops_rouse(l, i);
    }
    if (!is_compared(l, loop) || t->planned != planned_of(l)) { /* planning counts for neither */
        return;
    }
    DynCallSide *plain = &t->sides[0], *native = &t->sides[1], *s = turn == DYN_TURN_OF_NATIVE ? native : plain;
    if (s->met++ == 0) { /* the first takes longer */
        if (s == plain && native->n > 0 && (double)took > FAR * usual(native)) {
            conclude(l, i, FAR);
        }
        return;
    }
    s->at[s->n++] = took;
    if (plain->n < FEW || native->n < FEW) {
        return;
    }
    double times = usual(plain) / usual(native);
    bool clear = times > CLEAR || times * CLEAR < 1, all = plain->n + native->n >= DYN_MOST_TURNS;
    if (clear || all) {
        conclude(l, i, times);
    }
}
