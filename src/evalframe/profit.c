/* profit.c: a function whose calls cost more served than CPython takes for them is retired.
 *
 * A trial times some calls as they are served and as many as CPython makes them, in turn. What it says holds for a while; then
 * there is another, as sizes and types may have changed, or native code may be ready; the time between two doubles. Eager calls
 * are a small part of the time that the trial's calls take, so that what gains loses little by being tried. Long calls are
 * compared by the time in which their thread had a processor: on a busy machine it is chance which of them wait for one, and for
 * how long. Called by whoever makes the calls: door.c, finder.c, hook.c. GIL throughout. */
#include "evalframe/door.h"
#include <math.h>
#include <time.h>

#define SAMPLES 12 /* of each kind: a trial */
#define ENOUGH 5   /* … where the difference is clear */
#define FEW 2      /* … where a call takes LONG_NS, and served FAR times that: each one more would be felt */
#define LONG_NS 1e6
#define FAR 1.3
#define FIRST_CALLS 2
#define CALLS 64 /* between two looks at the clock */
#define MOST_DECLINED 65536
#define PAUSE 32 /* calls */
#define FIRST_PATIENCE_NS 2.5e8
#define MOST_PATIENCE_NS 6.4e10
#define FREE_NS 1e6   /* trying CPython may lose so much in any case, and else … */
#define SHARE 10      /* … one part of so many of what the calls took, … */
#define FIRST_SHARE 4 /* … but for the first one more, as nothing is known yet; and it is made at once … */
#define MOST_FIRST 2  /* … where recording took no more than that many times what a served call takes */
#define SHORT_NS 2e4  /* a call that is not much longer than it takes to warm up caches and predictors: several in a row */
#define ROW 8
#define ENOUGH_TIMES 3 /* an eager call that takes so many times a served one's time goes on with what can be served */
#define COLD 3         /* … of which the first count for nothing */
#define CLEARLY 3      /* times what a difference of means may be off by: it is one */
#define MOST_LOST 64
#define DOOR_NS 100 /* that an eager call takes longer because the function has a door: not so when it is retired */

typedef struct Side {
    uint64_t at[SAMPLES]; /* cycles of a call, of a long one those of its thread alone; the oldest go */
    uint32_t n;           /* all that count */
    uint32_t calls;       /* all there were */
    uint64_t all;
} Side;
struct DynTrial {
    Side served, eager;
    Side served_steps, eager_steps; /* of a function whose results require gradients: from one call to the next */
    uint64_t began;                 /* the last call that counts; 0: none */
    bool was_eagers;                /* … was made so */
    bool has_gradients;
    uint64_t recorded; /* DynProfit's */
    uint32_t turns;    /* that were taken */
    uint32_t
        lost; /* calls that were not made as their turn says: no entry fitted, a warning was due, or something was recorded */
    int64_t ran_ns;    /* that this call's thread had had a processor for when it began; -1: nobody asked */
    uint64_t began_at; /* when this call began */
    uint64_t miss;     /* cycles until it was known of this call that CPython makes it; 0: not so */
    uint64_t missing;  /* cycles until that was known, of all such calls */
    uint32_t left;     /* calls of this one */
    uint32_t cold;     /* … that don't count */
    bool is_eagers;
};

/* ---- cycles */

static struct {
    uint64_t cycles;
    int64_t ns;
    uint64_t until; /* cycles since then for which `ratio` holds */
    double ratio;
} zero;

void dyn_cycles_start(void) {
    zero.ns = dyn_now_ns();
    zero.cycles = dyn_cycles();
    zero.until = 0;
}

/* Longer than LEAST_NS from the zero the ratio is right to some thousandths. Who asks sooner waits: that is a program whose first
 * call comes so soon behind the import of the extension, which NumPy's import is part of. What was found holds until the time
 * since the zero is AGAIN times as long, as reading the clock takes longer than what is asked about sometimes does. */
static double ns_per_cycle(void) {
    enum { LEAST_NS = 200000, AGAIN = 2 };
    uint64_t cycles = dyn_cycles() - zero.cycles;
    if (DYN_LIKELY(cycles < zero.until)) {
        return zero.ratio;
    }
    int64_t ns = dyn_now_ns();
    while (ns - zero.ns < LEAST_NS) {
        ns = dyn_now_ns();
    }
    cycles = dyn_cycles() - zero.cycles;
    zero.ratio = (double)(ns - zero.ns) / (double)cycles;
    zero.until = AGAIN * cycles;
    return zero.ratio;
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

/* Where none counts all that there were do. */
static double usual_of(const Side *s) { return kept(s) > 0 ? mean(s) : (double)s->all / s->calls; }

static double median(const Side *s) {
    uint64_t sorted[SAMPLES];
    uint32_t n = kept(s);
    memcpy(sorted, s->at, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, dyn_cycles_compare);
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

static bool is_within(double ratio, double limit) { return ratio > 0 && ratio < limit; }

/* By how many times what it may be off by is the one longer than the other? Negative: shorter. */
static double clearly_longer(const Side *a, const Side *b) {
    double off = sqrt(doubt(a) + doubt(b));
    return isfinite(off) && off > 0 ? (mean(a) - mean(b)) / off : 0;
}

/* What backward costs shows from one call to the next, with all that the program does there. Where that is clear it decides. */
static Verdict judge_steps(const DynTrial *t, Verdict by_calls) {
    double longer = clearly_longer(&t->served_steps, &t->eager_steps);
    if (longer > CLEARLY) {
        return LOSES;
    }
    return longer < -CLEARLY ? PAYS : by_calls;
}

static double least(const Side *s) {
    uint64_t at = UINT64_MAX;
    for (uint32_t i = 0; i < kept(s); i++) {
        at = s->at[i] < at ? s->at[i] : at;
    }
    return (double)at;
}

/* What else the machine does makes calls longer, never shorter, so of few the shortest say most. */
static bool is_far_behind(const DynTrial *t) {
    double served = least(&t->served), eager = least(&t->eager);
    return dyn_cycles_ns(eager) > LONG_NS && served > FAR * eager && median(&t->served) > FAR * median(&t->eager);
}

/* Calls differ in what they do, so both their sum and the usual one have to say the same before the trial is over early. What is
 * no clear gain is CPython's, which is never wrong. */
static Verdict judge_calls(const DynTrial *t) {
    uint32_t n = t->served.n < t->eager.n ? t->served.n : t->eager.n;
    if (n < ENOUGH) {
        return n >= FEW && is_far_behind(t) ? LOSES : OPEN;
    }
    double door = (double)dyn_cycles_of_ns(DOOR_NS);
    double sum = mean(&t->served) / (mean(&t->eager) - door), usual = median(&t->served) / (median(&t->eager) - door);
    if (sum < 0 || (sum > 1.25 && usual > 1.1)) {
        return LOSES;
    }
    if (is_within(sum, 0.7) && is_within(usual, 0.9)) {
        return PAYS;
    }
    if (n < SAMPLES) {
        return OPEN;
    }
    return sum < 0.95 && usual < 1 ? PAYS : LOSES;
}

/* Do calls that CPython makes after all lose more by having been looked at, or run, than the others gain? */
static bool is_lost_by_misses(const DynTrial *t) {
    bool known = t->missing > 0 && t->served.calls > 0 && t->eager.calls > 0;
    return known && (double)t->missing > (usual_of(&t->eager) - usual_of(&t->served)) * t->served.calls;
}

static Verdict judge(const DynTrial *t) {
    Verdict by_calls = judge_calls(t);
    if (by_calls == PAYS && is_lost_by_misses(t)) {
        return LOSES;
    }
    if (by_calls == OPEN || !t->has_gradients) {
        return by_calls;
    }
    bool enough = kept(&t->served_steps) >= ENOUGH && kept(&t->eager_steps) >= ENOUGH;
    bool waits = !enough && t->eager.n < 2 * SAMPLES;
    return enough ? judge_steps(t, by_calls) : waits ? OPEN : by_calls;
}

void dyn_profit_say(const DynCache *c, const char *what, double served, double eager, bool retired) {
    PyCodeObject *code = (PyCodeObject *)c->code;
    const char *name = PyUnicode_AsUTF8(code->co_qualname), *file = PyUnicode_AsUTF8(code->co_filename);
    PyErr_Clear();
    name = name == NULL ? "function" : name;
    file = file == NULL ? "?" : file;
    if (retired) {
        dyn_count_reason("retired", DYN_R_NO_PROFIT);
    }
    const char *verdict = retired ? "is CPython's again" : "stays served";
    dyn_log(DYN_LOG_perf, "%s (%s:%d): %s %s: it takes %.3f us served and %.3f us in CPython", name, file, code->co_firstlineno,
            what, verdict, dyn_cycles_ns(served) * 1e-3, dyn_cycles_ns(eager) * 1e-3);
}

void dyn_profit_postpone(uint64_t *next, uint64_t *patience) {
    double wait = *patience == 0 ? FIRST_PATIENCE_NS : dyn_cycles_ns((double)*patience);
    *next = dyn_cycles() + dyn_cycles_of_ns(wait);
    *patience = dyn_cycles_of_ns(wait * 2 < MOST_PATIENCE_NS ? wait * 2 : MOST_PATIENCE_NS);
}

static void conclude(DynCache *c, Verdict v) {
    DynProfit *p = &c->profit;
    const char *what = "a call";
    double served = usual_of(&p->trial->served), eager = usual_of(&p->trial->eager);
    if (v == LOSES && is_lost_by_misses(p->trial)) {
        what = "a call, with those that CPython makes after all,";
        served += (double)p->trial->missing / p->trial->served.calls;
    } else if (v != judge_calls(p->trial)) { /* as steps, which take backward in, say */
        served = mean(&p->trial->served_steps);
        eager = mean(&p->trial->eager_steps);
        what = "a call with what follows it";
    }
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
    dyn_profit_say(c, what, served, eager, p->retired);
    if (!p->retired) {
        dyn_count("profit", "kept");
    }
}

void dyn_profit_decline(DynCache *c) {
    DynProfit *p = &c->profit;
    PyMem_RawFree(p->trial);
    p->trial = NULL;
    p->retired = true;
    p->calls = 1;
    if (dyn_profit_is_measured(c)) {
        dyn_profit_postpone(&p->next, &p->patience);
        return;
    }
    if (p->declined == 0) {
        p->declined = CALLS;
    } else {
        p->declined = p->declined < MOST_DECLINED ? p->declined * 2 : MOST_DECLINED;
    }
    p->calls = p->declined;
}

void dyn_profit_pause(DynCache *c) {
    c->profit.retired = c->profit.pauses = true;
    c->profit.calls = PAUSE;
}

void dyn_profit_clear(DynProfit *p) {
    PyMem_RawFree(p->trial);
    *p = (DynProfit){.calls = FIRST_CALLS, .timing = p->timing};
}

/* ---- calls */

uint64_t dyn_profit_eager_until;

uint64_t dyn_profit_eager_begin(const DynCache *c) {
    const Side *s = &c->profit.trial->served;
    uint64_t before = dyn_profit_eager_until;
    dyn_profit_eager_until = dyn_cycles() + ENOUGH_TIMES * s->all / s->calls + dyn_cycles_of_ns(SHORT_NS);
    return before;
}

bool dyn_profit_is_judged(const DynCache *c) {
    const DynOptions *o = c->options;
    return !o->eager && !o->hands_on && dyn_options_config(o).retire;
}

bool dyn_profit_is_measured(const DynCache *c) { return dyn_profit_is_judged(c) && !dyn_options_wait(c->options); }

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
    bool possible = c->entries.n > 0 && !c->recording;
    bool due = possible && dyn_cycles() >= p->next && dyn_profit_is_measured(c);
    if (due && (p->trial = PyMem_RawCalloc(1, sizeof *p->trial)) != NULL) {
        dyn_count("profit", "trials");
        p->trial->recorded = p->recorded;
        for (uint32_t i = 0; i < c->entries.n; i++) {
            p->trial->has_gradients = p->trial->has_gradients || c->entries.at[i]->follow != NULL;
        }
        return true;
    }
    p->calls = c->entries.n > 0 ? CALLS : FIRST_CALLS;
    return false;
}

/* Cycles that CPython's calls took beyond what serving them would have; with some more. Before the first nothing is known. */
static double loss_by_trying(const DynTrial *t, double more) {
    double served = (double)t->served.all / t->served.calls, calls = t->eager.calls;
    double eager = calls == 0 ? 2 * served : (double)t->eager.all / calls;
    return (eager - served) * (calls + more);
}

/* A call that was recorded took CPython's time and more. So the first that CPython makes takes no longer, even if served ones
 * look as if it couldn't be afforded. */
static bool is_known_to_be_short(const DynTrial *t) {
    double served = (double)t->served.all / t->served.calls;
    return t->eager.calls == 0 && t->recorded > 0 && (double)t->recorded < MOST_FIRST * served;
}

/* May CPython make calls, as far as that is known to be no great loss? */
static bool is_affordable(const DynTrial *t, double calls) {
    if (is_known_to_be_short(t)) {
        return true;
    }
    double loss = loss_by_trying(t, calls);
    double share = t->eager.calls == 0 ? FIRST_SHARE : SHARE;
    return loss < (double)(t->served.all + t->eager.all) / share || dyn_cycles_ns(loss) < FREE_NS;
}

/* Whose turn is it? As often the one's as the other's, and in no rhythm that calls of the program could have too (every second
 * does the work, the others find it done): the Thue-Morse sequence. */
static void begin_turn(DynTrial *t) {
    double usual = t->served.calls > 0 ? dyn_cycles_ns((double)t->served.all / t->served.calls) : -1;
    bool is_short = usual >= 0 && usual<SHORT_NS, is_long = usual> LONG_NS;
    uint32_t row = is_short ? ROW : 1;
    bool wanted = __builtin_parity(t->turns) || t->served.n > t->eager.n + 2 * row;
    bool even = t->served.calls > 0 && t->eager.n <= t->served.n + row;
    t->is_eagers = wanted && even && is_affordable(t, row);
    const Side *s = t->is_eagers ? &t->eager : &t->served;
    t->turns++;
    t->left = row;
    t->cold = is_short ? COLD : s->calls < (is_long ? 1 : 2);
}

static int64_t thread_ns(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* So that asking takes a hundredth of the call at most. */
static bool is_no_short_call(const Side *s) { return s->calls == 0 || dyn_cycles_ns((double)s->all / s->calls) > SHORT_NS; }

/* A device works while the thread waits for it: such calls take what the clock says. */
static bool waits_for_device(const DynCache *c) {
    bool waits = false;
    for (uint32_t i = 0; i < c->entries.n; i++) {
        waits = waits || c->entries.at[i]->capture->graph.device != 0;
    }
    return waits;
}

/* Cycles since the trial's call began, which are so many by the clock. */
static uint64_t without_waits(const DynTrial *t, uint64_t took) {
    if (t->ran_ns < 0 || dyn_cycles_ns((double)took) < LONG_NS) {
        return took;
    }
    uint64_t ran = dyn_cycles_of_ns((double)(thread_ns() - t->ran_ns));
    return ran < took ? ran : took;
}

DynTurn dyn_profit_look(DynCache *c) {
    DynProfit *p = &c->profit;
    if (p->gain > 0 && c->quiet && p->trial == NULL) {
        dyn_budget_gain(dyn_cycles_ns((double)p->gain * CALLS));
    }
    if (p->retired && c->entries.n == 0) { /* declined: it is to be recorded again some time */
        (void)dyn_profit_rests(c);
    }
    if (p->pauses) {
        p->retired = p->pauses = false;
    }
    if (p->timing || (p->trial == NULL && !begin_trial(c))) {
        p->calls += p->calls == 0;
        return p->retired ? DYN_TURN_EAGER : DYN_TURN_SERVE;
    }
    p->timing = true;
    if (p->trial->left == 0) {
        begin_turn(p->trial);
    }
    p->trial->left--;
    p->trial->miss = 0;
    bool is_asked = is_no_short_call(&p->trial->served) && is_no_short_call(&p->trial->eager) && !waits_for_device(c);
    p->trial->began_at = dyn_cycles();
    p->trial->ran_ns = is_asked ? thread_ns() : -1;
    return p->trial->is_eagers ? DYN_TURN_EAGER_TIMED : DYN_TURN_SERVE_TIMED;
}

/* A trial that doesn't get on ends without a verdict, unless what it loses is known to be more than it gains: while it lasts much
 * is done as CPython does it. */
static void lose_call(DynCache *c) {
    DynProfit *p = &c->profit;
    if (++p->trial->lost < MOST_LOST) {
        return;
    }
    if (is_lost_by_misses(p->trial)) {
        conclude(c, LOSES);
    } else {
        PyMem_RawFree(p->trial);
        p->trial = NULL;
        p->calls = CALLS;
        dyn_profit_postpone(&p->next, &p->patience);
    }
}

/* A call begins: so long after the last one did, which was made as that says. */
static void count_step(DynTrial *t, uint64_t began) {
    Side *s = t->was_eagers ? &t->eager_steps : &t->served_steps;
    if (t->began != 0) {
        s->at[s->n++ % SAMPLES] = began - t->began;
    }
}

void dyn_profit_missed(DynCache *c) {
    DynProfit *p = &c->profit;
    if (DYN_UNLIKELY(p->timing && p->trial != NULL && p->trial->miss == 0)) {
        uint64_t took = without_waits(p->trial, dyn_cycles() - p->trial->began_at);
        p->trial->miss = took == 0 ? 1 : took;
    }
}

void dyn_profit_tell(DynCache *c, DynTurn turn, uint64_t began, bool recorded, bool as_told) {
    DynProfit *p = &c->profit;
    uint64_t took = dyn_cycles() - began;
    p->timing = false;
    if (p->trial == NULL) { /* reset() was called meanwhile */
        return;
    }
    count_step(p->trial, began);
    p->trial->began = 0;
    if (recorded || !as_told) {
        p->trial->missing += recorded ? 0 : p->trial->miss;
        DynRaised before = dyn_callback_begin(); /* the call may have raised */
        lose_call(c);
        dyn_callback_end(before);
        return;
    }
    DynTrial *t = p->trial;
    Side *s = turn == DYN_TURN_SERVE_TIMED ? &t->served : &t->eager;
    s->all += took;
    s->calls++;
    if (t->cold > 0) {
        t->cold--;
        return;
    }
    t->began = began;
    t->was_eagers = turn != DYN_TURN_SERVE_TIMED;
    s->at[s->n++ % SAMPLES] = without_waits(t, took);
    Verdict v = judge(t);
    if (v != OPEN) {
        DynRaised before = dyn_callback_begin(); /* the call may have raised */
        conclude(c, v);
        dyn_callback_end(before);
    }
}
