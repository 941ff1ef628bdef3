/* profit.h: does serving pay? What serving a function's calls, or a loop's trips, costs is measured beside what CPython takes for
 * the same; what doesn't pay is given up: retired. Included by door.h; the functions are in profit.c, estimate.c,
 * profit_loop.c, rent.c and budget.c.
 *
 * Nothing is measured where results must not depend on time: under wait=True, with a back end of the user's, and with
 * config.retire off. All of it is used with the GIL. */
#ifndef DYN_PROFIT_H
#define DYN_PROFIT_H
#include "base/log.h"
#include "ir/capture.h"

/* A counter that goes up by an equal amount in equal times, as cheap to read as the machine has one; and its unit. */
static inline uint64_t dyn_cycles(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#else
    return (uint64_t)dyn_now_ns();
#endif
}
/* For qsort. */
static inline int dyn_cycles_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}
struct DynCache;
DYN_HIDDEN void dyn_cycles_start(void);         /* once, at the import: what cycles are in time is measured from then on */
DYN_HIDDEN double dyn_cycles_ns(double cycles); /* as nanoseconds */
DYN_HIDDEN uint64_t dyn_cycles_of_ns(double ns);
DYN_HIDDEN bool dyn_profit_is_judged(const struct DynCache *c);   /* may what doesn't pay be given up? */
DYN_HIDDEN bool dyn_profit_is_measured(const struct DynCache *c); /* … and may what is done depend on time? */
/* The time of the next trial, and of the one behind it. */
DYN_HIDDEN void dyn_profit_postpone(uint64_t *next, uint64_t *patience);
/* What was found out; in cycles. */
DYN_HIDDEN void dyn_profit_say(const struct DynCache *c, const char *what, double served, double eager, bool retired);

/* ---- profit.c: calls of a function */
typedef struct DynTrial DynTrial;
typedef struct DynProfit {
    DynTrial *trial;   /* calls are being timed; NULL: they aren't */
    uint64_t next;     /* no trial before; in cycles */
    uint64_t patience; /* from the next decision to the trial behind it; in cycles */
    uint64_t gain;     /* cycles that a served call saves; 0 where nothing is known */
    uint64_t recorded; /* … that a call took in which everything was computed as in CPython, and recorded; 0: there was none */
    uint32_t calls;    /* that are made before the clock is looked at */
    uint32_t declined; /* calls that are made before what was declined is recorded again, where the clock doesn't count */
    bool retired;      /* calls are CPython's … */
    bool pauses;       /* … so many, and then one is served */
    bool timing;       /* a call is being timed: those inside it aren't */
} DynProfit;
typedef enum DynTurn { /* how a call is to be made */
                       DYN_TURN_SERVE,
                       DYN_TURN_EAGER,
                       DYN_TURN_SERVE_TIMED,
                       DYN_TURN_EAGER_TIMED
} DynTurn;
DYN_HIDDEN DynTurn dyn_profit_look(struct DynCache *c);
/* An eager call is being timed: what it calls is CPython's too, but for doors that the program asked for; until that time, for a
 * call that takes far longer than served has shown enough. 0: none. begin gives what the time was before, which is end's. */
extern DYN_HIDDEN uint64_t dyn_profit_eager_until;
DYN_HIDDEN uint64_t dyn_profit_eager_begin(const struct DynCache *c);
static inline void dyn_profit_eager_end(uint64_t before) { dyn_profit_eager_until = before; }
static inline bool dyn_profit_is_eager_below(void) {
    return DYN_UNLIKELY(dyn_profit_eager_until != 0) && dyn_cycles() < dyn_profit_eager_until;
}
/* CPython makes a call, which may be one that is timed: no entry fits and none is made, or an entry ran for nothing, as a warning
 * may be due. */
DYN_HIDDEN void dyn_profit_missed(struct DynCache *c);
/* What a timed call took. recorded: something was, meanwhile; as_told: it was made as its turn says, and to its end. */
DYN_HIDDEN void dyn_profit_tell(struct DynCache *c, DynTurn turn, uint64_t began, bool recorded, bool as_told);
/* Is the function to be left alone? Not when it is time to try it again: then its next call begins a trial. */
DYN_HIDDEN bool dyn_profit_rests(struct DynCache *c);
DYN_HIDDEN void dyn_profit_clear(DynProfit *p);         /* forgets what was measured */
DYN_HIDDEN void dyn_profit_decline(struct DynCache *c); /* what was recorded isn't worth entries: the function is retired */
/* Its calls look as if they didn't pay: the next ones are CPython's, where the clock doesn't count. */
DYN_HIDDEN void dyn_profit_pause(struct DynCache *c);
/* How is this call of the function to be made? */
static inline DynTurn dyn_profit_turn(DynProfit *p, struct DynCache *c) {
    if (DYN_LIKELY(p->trial == NULL && --p->calls != 0)) {
        return p->retired ? DYN_TURN_EAGER : DYN_TURN_SERVE;
    }
    return dyn_profit_look(c);
}

/* ---- estimate.c: what a captured segment would save in a call that an entry of it serves; in ns */
DYN_HIDDEN double dyn_estimate_gain(const DynCapture *c);

/* ---- profit_loop.c: trips of a loop, by the cache of the resume function that they come round to */
struct DynEntry;
typedef struct DynLoopTrial DynLoopTrial;
typedef struct DynLoopProfit {
    DynLoopTrial *trial;    /* trips are being timed; NULL: they aren't */
    struct DynEntry *aside; /* retired: an entry of the cache whose plain code runs the loop to its end; NULL: … the function */
    uint64_t run;           /* in which trips were counted last: one is one stay in dyn_door_resume */
    uint64_t next, patience; /* as DynProfit's */
    uint32_t trips;          /* in that run */
    bool counts;             /* the next trips are CPython's, one by one, and are timed */
    bool retired;            /* trips are CPython's */
} DynLoopProfit;
typedef enum DynLoopTurn {
    DYN_LOOP_SERVE,
    DYN_LOOP_ASIDE, /* CPython's to the end of the loop, by `aside` */
    DYN_LOOP_EAGER  /* CPython's to the end of the function */
} DynLoopTurn;
#define DYN_LOOP_TRIPS 64 /* in a row, before it is asked whether they pay */
DYN_HIDDEN DynLoopTurn dyn_loop_look(struct DynCache *c, uint64_t run);
static inline DynLoopTurn dyn_loop_turn(DynLoopProfit *l, struct DynCache *c, uint64_t run) {
    if (DYN_LIKELY(l->run == run && l->trial == NULL && !l->retired && l->trips < DYN_LOOP_TRIPS)) {
        l->trips++;
        return DYN_LOOP_SERVE;
    }
    return dyn_loop_look(c, run);
}
/* Trips of the loop are timed in the plain code of this entry of c. */
DYN_HIDDEN bool dyn_loop_counts_in(struct DynCache *c, struct DynEntry *e);
/* A trap in plain code of the entry was reached. Is it being counted, and has it been often enough? */
typedef enum DynLoopTick { DYN_TICK_NOT, DYN_TICK_ON, DYN_TICK_OUT } DynLoopTick;
DYN_HIDDEN DynLoopTick dyn_loop_tick(const struct DynEntry *e);
DYN_HIDDEN void dyn_loop_clear(struct DynCache *c);

/* ---- rent.c: native code for functions that nobody asked for is compiled when enough time was spent without it */
DYN_HIDDEN void dyn_rent_buy(struct DynEntry *e);                  /* now */
DYN_HIDDEN bool dyn_rent_try_to_buy(struct DynEntry *e);           /* now, if that can be afforded */
DYN_HIDDEN void dyn_rent_pay(struct DynEntry *e, uint64_t cycles); /* a run without it took so long */

/* ---- budget.c: what dynoc may spend in a program that didn't ask for it (enable()): a share of the process's time so far, and
 * what was gained */
DYN_HIDDEN void dyn_budget_spend(double ns);
DYN_HIDDEN void dyn_budget_gain(double ns);
DYN_HIDDEN bool dyn_budget_affords(double ns);
#endif
