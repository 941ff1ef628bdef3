/* profit.c: a function whose calls cost more served than CPython takes for them is retired.
 *
 * A trial times some calls as they are served and as many as CPython makes them, in turn. What it says holds for a while; then
 * there is another, as sizes and types may have changed, or native code may be ready; the time between two doubles. Eager calls
 * are a small part of the time that the trial's calls take, so that what gains loses little by being tried. Called by whoever
 * makes the calls: door.c, finder.c, hook.c. GIL throughout. */
#include "evalframe/door.h"
#include <math.h>

#define SAMPLES 12 /* of each kind: a trial */
#define ENOUGH 4   /* … where the difference is clear */
#define FIRST_CALLS 2
#define CALLS 64 /* between two looks at the clock */
#define FIRST_PATIENCE_NS 2.5e8
#define MOST_PATIENCE_NS 6.4e10
#define FREE_NS 1e6 /* eager calls of a trial may take so long in any case, and else … */
#define SHARE 10    /* … one part of so many of what the calls took */

typedef struct Side {
    uint64_t at[SAMPLES]; /* cycles of a call; the oldest go */
    uint32_t n;           /* all there were */
    uint64_t all;
} Side;
struct DynTrial {
    Side served, eager;
};

/* ---- cycles */

static struct {
    uint64_t cycles;
    int64_t ns;
} zero;

static double ns_per_cycle(void) {
    int64_t ns = dyn_now_ns();
    uint64_t cycles = dyn_cycles();
    if (zero.ns == 0 || ns - zero.ns < 1000000) { /* too short to tell */
        struct timespec pause = {.tv_nsec = 1000000};
        zero.ns = ns;
        zero.cycles = cycles;
        nanosleep(&pause, NULL);
        return ns_per_cycle();
    }
    return (double)(ns - zero.ns) / (double)(cycles - zero.cycles);
}

double dyn_cycles_ns(double cycles) { return cycles * ns_per_cycle(); }

uint64_t dyn_cycles_of_ns(double ns) { return (uint64_t)(ns / ns_per_cycle()); }

/* ---- decisions */

static uint32_t kept(const Side *s) { return s->n < SAMPLES ? s->n : SAMPLES; }

static double mean(const Side *s) {
    double sum = 0;
    for (uint32_t i = 0; i < kept(s); i++) {
        sum += (double)s->at[i];
    }
    return sum / kept(s);
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double median(const Side *s) {
    uint64_t sorted[SAMPLES];
    uint32_t n = kept(s);
    memcpy(sorted, s->at, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    return ((double)sorted[(n - 1) / 2] + (double)sorted[n / 2]) / 2;
}

/* The square of what the mean may be off by. */
static double doubt(const Side *s) {
    double sum = 0, at = mean(s);
    for (uint32_t i = 0; i < kept(s); i++) {
        sum += ((double)s->at[i] - at) * ((double)s->at[i] - at);
    }
    return kept(s) < 2 ? INFINITY : sum / ((kept(s) - 1.0) * kept(s));
}

/* Cycles that a served call saves at the least: calls differ in what they do, and chance alone must not be spent (budget.c). */
static double sure_gain(const DynTrial *t) {
    double gain = mean(&t->eager) - mean(&t->served) - 2 * sqrt(doubt(&t->served) + doubt(&t->eager));
    double usual = median(&t->eager) - median(&t->served);
    return gain < usual ? gain : usual;
}

typedef enum Verdict { OPEN, PAYS, LOSES } Verdict;

/* Calls differ in what they do, so both their sum and the usual one have to say the same before the trial is over early. */
static Verdict judge(const DynTrial *t) {
    uint32_t n = t->served.n < t->eager.n ? t->served.n : t->eager.n;
    if (n < ENOUGH) {
        return OPEN;
    }
    double sum = mean(&t->served) / mean(&t->eager), usual = median(&t->served) / median(&t->eager);
    if (sum < 0.7 && usual < 0.9) {
        return PAYS;
    }
    if (sum > 1.25 && usual > 1.1) {
        return LOSES;
    }
    return n < SAMPLES ? OPEN : sum > 1 && usual > 1 ? LOSES : PAYS;
}

void dyn_profit_tell_retired(const DynCache *c, const char *what, double served, double eager) {
    PyCodeObject *code = (PyCodeObject *)c->code;
    const char *name = PyUnicode_AsUTF8(code->co_qualname), *file = PyUnicode_AsUTF8(code->co_filename);
    PyErr_Clear();
    dyn_count_reason("retired", DYN_R_NO_PROFIT);
    dyn_log(DYN_LOG_perf, "%s (%s:%d): %s is CPython's again: it takes %.3f us served and %.3f us in CPython",
            name ? name : "function", file ? file : "?", code->co_firstlineno, what, dyn_cycles_ns(served) * 1e-3,
            dyn_cycles_ns(eager) * 1e-3);
}

void dyn_profit_postpone(uint64_t *next, uint64_t *patience) {
    double wait = *patience == 0 ? FIRST_PATIENCE_NS : dyn_cycles_ns((double)*patience);
    *next = dyn_cycles() + dyn_cycles_of_ns(wait);
    *patience = dyn_cycles_of_ns(wait * 2 < MOST_PATIENCE_NS ? wait * 2 : MOST_PATIENCE_NS);
}

static void conclude(DynCache *c, Verdict v) {
    DynProfit *p = &c->profit;
    double served = mean(&p->trial->served), eager = mean(&p->trial->eager);
    if (served > eager && c->quiet) {
        dyn_budget_spend(dyn_cycles_ns((served - eager) * p->trial->served.n));
    }
    double gain = v == PAYS ? sure_gain(p->trial) : 0;
    p->gain = gain > 0 ? (uint64_t)gain : 0;
    p->retired = v == LOSES;
    PyMem_RawFree(p->trial);
    p->trial = NULL;
    dyn_profit_postpone(&p->next, &p->patience);
    p->calls = CALLS;
    if (p->retired) {
        dyn_profit_tell_retired(c, "a call", served, eager);
    } else {
        dyn_count("profit", "kept");
    }
}

void dyn_profit_clear(DynProfit *p) {
    PyMem_RawFree(p->trial);
    *p = (DynProfit){.calls = FIRST_CALLS, .timing = p->timing};
}

/* ---- calls */

bool dyn_profit_is_measured(const DynCache *c) {
    const DynOptions *o = c->options;
    return !o->eager && !o->hands_on && dyn_options_config(o).retire && !dyn_options_wait(o);
}

bool dyn_profit_rests(DynCache *c) {
    DynProfit *p = &c->profit;
    if (p->retired && dyn_cycles() >= p->next) {
        p->retired = false;
        p->calls = 1;
    }
    return p->retired;
}

static bool begin_trial(DynCache *c) {
    DynProfit *p = &c->profit;
    bool due = c->entries.n > 0 && !c->recording && dyn_cycles() >= p->next && dyn_profit_is_measured(c);
    if (due && (p->trial = PyMem_RawCalloc(1, sizeof *p->trial)) != NULL) {
        dyn_count("profit", "trials");
        return true;
    }
    p->calls = c->entries.n > 0 ? CALLS : FIRST_CALLS;
    return false;
}

/* May CPython make a call, as far as that is known to be no great loss? */
static bool is_affordable(const DynTrial *t) {
    double expected = t->eager.n > 0 ? mean(&t->eager) : mean(&t->served), so_far = (double)t->eager.all;
    return so_far + expected < (double)(t->served.all + t->eager.all) / SHARE || dyn_cycles_ns(so_far + expected) < FREE_NS;
}

DynTurn dyn_profit_look(DynCache *c) {
    DynProfit *p = &c->profit;
    if (p->gain > 0 && c->quiet && p->trial == NULL) {
        dyn_budget_gain(dyn_cycles_ns((double)p->gain * CALLS));
    }
    if (p->timing || (p->trial == NULL && !begin_trial(c))) {
        p->calls += p->calls == 0;
        return p->retired ? DYN_TURN_EAGER : DYN_TURN_SERVE;
    }
    p->timing = true;
    const DynTrial *t = p->trial;
    return t->served.n > t->eager.n && is_affordable(t) ? DYN_TURN_EAGER_TIMED : DYN_TURN_SERVE_TIMED;
}

void dyn_profit_tell(DynCache *c, DynTurn turn, uint64_t began, bool valid) {
    DynProfit *p = &c->profit;
    uint64_t took = dyn_cycles() - began;
    p->timing = false;
    if (p->trial == NULL || !valid) { /* reset() was called meanwhile */
        return;
    }
    Side *s = turn == DYN_TURN_SERVE_TIMED ? &p->trial->served : &p->trial->eager;
    s->at[s->n++ % SAMPLES] = took;
    s->all += took;
    Verdict v = judge(p->trial);
    if (v != OPEN) {
        DynRaised before = dyn_callback_begin(); /* the call may have raised */
        conclude(c, v);
        dyn_callback_end(before);
    }
}
