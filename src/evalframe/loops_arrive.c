/* loops_arrive.c: what the way-in block of a header asks (tracer/bytecode/asm_loops.h): runs the loop natively on the running
 * frame's own slots, and says where CPython goes on.
 *
 * Called by loop code alone, through the operators of a constant. The first ~ enters; further ones answer where the loop was
 * left;
 * - puts the values on the stack that belong there. Nothing happens between them but the block's own instructions, so the answer
 * may wait in the object. An operator that isn't asked by a frame of this loop code answers that the loop goes on at its header.
 */
#include "base/cpy_region.h"
#include "evalframe/loops.h"
#include "evalframe/hook.h"
#include "evalframe/ticks.h"

#define TRIAL 64             /* arrivals, before it is asked whether they pay */
#define MOST_COLD 64         /* arrivals at a cold loop, before it is asked how long it will run … */
#define MOST_WHILE 1024      /* … where nobody knows how often it will be arrived at yet, … */
#define SHARE_WHILE 8        /* … and has run for one part of so many of what makes it worth planning, unless … */
#define MOST_ASKED 64        /* … it rests after so many */
#define CALL_NS 30.          /* a call of a function that calls itself, in CPython */
#define SMALL_NS 10e3        /* a region that runs for less is weighed: */
#define WEIGHED 64           /* for so many arrivals it is in turns native and CPython's, … */
#define COLD_TRIPS 16        /* … first CPython's for so many that don't count: what it hasn't run yet is slow; … */
#define TURN 8               /* … each for so many of them; */
#define WEIGHED_SOON 2u      /* After so many trials it is weighed again, as trips differ, … */
#define WEIGHED_AGAIN 32u    /* … or so many, where CPython took SURELY times as long, then after four times as many, … */
#define MOST_DOUBLED 4       /* Turns are twice as long each time, so often, since the first trips of a turn take longer. */
#define SURELY 2             /* It is the last time if CPython took so many times as long. */
#define FEW_COUNTED 4        /* It is over after so few of CPython's … */
#define OVER 3               /* … where they took so many times as long. */
#define MOST_AGAIN 65536     /* arrivals of a loop over a generator that doesn't begin again: each counts from there on */
#define AWAY_NS 50e3         /* what takes so long was interrupted, or is the program's, and tells nothing */
#define OUT_NS 60.           /* from where a region was left to where CPython goes on, about */
#define ASKED_NS 70.         /* what an open way costs that isn't taken, without what is done there: 40 to 100; … */
#define LEAST_SHARE .25      /* … but so much of a trip is CPython's own */
#define LEAST_INSIDE_NS 150. /* that a region has to run, on average, to pay for the way in and out */
#define ENOUGH_NS 1e6        /* a region that ran for so long in all is judged before there were TRIAL arrivals */
#define MOST_GIVEN_UP 4      /* One of so many arrivals of a function that calls itself may have been in vain. */
#define SAMPLED 128          /* of one that runs for longer than SMALL_NS so many trips are CPython's, to compare trips, … */
#define LEAST_SAMPLED 24     /* … or fewer, where they take longer natively than … */
#define EARLY_RUNS 2         /* The first time, behind so few runs, it is given up only if … */
#define EARLY 1.3            /* … CPython's trips are so many times as fast as those of the fastest run. */
#define SAMPLED_NS 500e3     /* … this in all; the first quarter isn't counted, as a loop begins with what it does once */
#define CLEAR_TRIPS 8        /* After so many trips it is clear … */
#define CLEARLY 8         /* … where CPython takes so many times as long, or a cold loop so small a part of what is enough. */
#define MOST_TRIP_NS 20e3 /* unless a trip takes so long natively that CPython's might take too long */

typedef struct WayIn {
    PyObject_HEAD DynLoops *loops;   /* borrowed; NULL: it is gone */
    PyObject *code;                  /* borrowed: loop code, which holds this */
    uint32_t index, nplaces, likely; /* of the header's way: places in all, and those that are asked for first */
    bool answers;                    /* it was left, and is being asked where: */
    uint32_t place, from, to;        /* which of the way's places, and between which the next question tells */
    PyObject **stack;                /* owned values for the stack, from slot nfirst on; room for all that there may be */
    uint32_t first, nstack;          /* how many were put in place by ~, and how many there are */
} WayIn;

/* ---- the clock */

/* Tests tell how long what lies between two arrivals takes: a trip of CPython's, or a native run of so many. */
static struct {
    PyObject *tell; /* strong; NULL: time is what it is */
    uint64_t now;
} told;

static uint64_t cycles(void) { return DYN_UNLIKELY(told.tell != NULL) ? told.now : dyn_cycles(); }

static uint64_t tell(bool native, Py_ssize_t trips) {
    PyObject *ns = PyObject_CallFunction(told.tell, "On", native ? Py_True : Py_False, trips);
    told.now += ns == NULL ? 0 : dyn_cycles_of_ns(PyFloat_AsDouble(ns));
    Py_XDECREF(ns);
    PyErr_Clear();
    return told.now;
}

void dyn_loops_tell_time(PyObject *by) { Py_XSETREF(told.tell, Py_XNewRef(by)); }

/* ---- the frame */

typedef struct Slots {
    PyObject **at;  /* locals, cells, free variables, then the stack */
    PyObject **own; /* a copy, to be put back; NULL: the frame's own memory */
    uint32_t nslots, nstack;
    uint32_t nframe;     /* so many of the slots are the frame's: the others are those of variables … */
    PyObject *namespace; /* … of a module, which lie here; NULL: there are none */
} Slots;

static bool open_slots(const DynLoops *l, uint32_t i, DynFrame *f, uint32_t nstack, Slots *s) {
    s->nframe = (uint32_t)dyn_code_nlocalsplus(dyn_frame_code(f));
    s->nslots = (uint32_t)dyn_code_nlocalsplus(l->decoded->code);
    s->nstack = nstack;
    s->own = NULL;
    s->namespace = l->names != NULL ? dyn_frame_namespace(f) : NULL;
    s->at = dyn_frame_pointers(f);
    if (s->nslots == s->nframe && s->at != NULL) {
        return true;
    }
    if (l->names != NULL && s->namespace == NULL) {
        return false;
    }
    if (!dyn_frame_settle(f, (int)nstack)) {
        return false;
    }
    for (uint32_t k = 0; k < nstack; k++) {
        if (dyn_frame_has_number(f, s->nframe + k)) {
            return false;
        }
    }
    s->at = s->own = PyMem_Calloc(s->nslots + nstack + 1, sizeof *s->own);
    for (uint32_t k = 0; s->own != NULL && k < s->nframe + nstack; k++) {
        bool local = k < s->nframe;
        s->own[local ? k : k + s->nslots - s->nframe] = local ? dyn_frame_take(f, k) : dyn_frame_get(f, k);
    }
    if (s->own != NULL && s->namespace != NULL) {
        dyn_loop_names_read(l, i, s->namespace, s->own);
    }
    return s->own != NULL;
}

static void close_slots(const DynLoops *l, DynFrame *f, Slots *s) {
    for (uint32_t i = 0; s->own != NULL && i < s->nframe; i++) {
        dyn_frame_put(f, i, s->own[i]);
    }
    if (s->namespace != NULL) {
        dyn_loop_names_drop(l, s->own);
    }
    PyMem_Free(s->own);
}

/* ---- leaving */

/* Values that are there already are replaced now; those that are too many become None, which the block drops; the rest waits. */
static void put_stack(WayIn *w, DynFrame *f, uint32_t nslots, const DynLoopWay *way, const DynRegionExit *exit) {
    PyObject *old[way->depth + 1];
    uint32_t common = exit->nstack < way->depth ? exit->nstack : way->depth;
    for (uint32_t i = 0; i < way->depth; i++) {
        old[i] = dyn_frame_take(f, nslots + i);
        dyn_frame_put(f, nslots + i, i < common ? exit->stack[i] : Py_NewRef(Py_None));
    }
    uint32_t nrest = exit->nstack - common;
    PyObject *rest[nrest + 1];
    memcpy(rest, exit->stack + common, nrest * sizeof *rest);
    for (uint32_t i = 0; i < way->depth; i++) {
        Py_XDECREF(old[i]); /* may run code, and come here again: what follows is done behind it */
    }
    memcpy(w->stack, rest, nrest * sizeof *rest);
    w->first = common;
    w->nstack = nrest;
}

static uint32_t place_of(const WayIn *w, const DynLoopWay *way, uint32_t at) {
    uint32_t from = w->likely, to = w->nplaces;
    for (uint32_t i = 0; i < from; i++) {
        if (way->places[i] == at) {
            return i;
        }
    }
    while (to - from > 1) { /* ascending */
        uint32_t middle = from + (to - from) / 2;
        if (at < way->places[middle]) {
            to = middle;
        } else {
            from = middle;
        }
    }
    return from;
}

/* The block asks: the likely places one by one, then halves of the others. */
static bool answer(WayIn *w) {
    if (w->from < w->likely) {
        bool here = w->place == w->from++;
        w->answers = !here && (w->from < w->likely || w->to - w->from > 1);
        return here;
    }
    uint32_t middle = w->from + (w->to - w->from) / 2;
    bool lower = w->place < middle;
    *(lower ? &w->to : &w->from) = middle;
    w->answers = w->to - w->from > 1;
    return lower;
}

/* ---- entering */

/* Moves the region that was entered to the front. */
static void prefer(DynLoop *loop, uint32_t k) {
    DynRegion *r = loop->regions[k];
    memmove(loop->regions + 1, loop->regions, k * sizeof(DynRegion *));
    loop->regions[0] = r;
}

static bool run_region(const DynLoops *l, DynLoop *loop, DynRegion *r, Slots *s, DynRegionExit *exit) {
    int64_t began = dyn_watch_now();
    dyn_ticks_native_begins();
    bool left = l->engine->run(r, s->at, s->nstack, exit) == DYN_REGION_LEFT;
    dyn_ticks_native_ends();
    if (DYN_UNLIKELY(began != 0) && left) {
        dyn_watched_loop(l->cache, &loop->watched, began);
    }
    return left;
}

static bool run_any(const DynLoops *l, DynLoop *loop, Slots *s, DynRegionExit *exit) {
    for (uint32_t k = 0; k < loop->nregions; k++) {
        DynRegion *r = loop->regions[k];
        if (l->engine->state(r) == DYN_REGION_READY && run_region(l, loop, r, s, exit)) {
            if (k > 0 && k < loop->nregions && loop->regions[k] == r) { /* what it calls may have changed the list */
                prefer(loop, k);
            }
            return true;
        }
    }
    return false;
}

/* true: it ran, and `exit` says where it was left. */
static bool run(const DynLoops *l, uint32_t i, Slots *s, DynRegionExit *exit) {
    if (s->namespace == NULL) {
        return run_any(l, &l->loops[i], s, exit);
    }
    bool ran = false;
    if (dyn_loop_names_take(l, i, s->namespace, s->at)) {
        ran = run_any(l, &l->loops[i], s, exit);
        dyn_loop_names_put(l, s->namespace, s->at);
    }
    return ran;
}

/* May a loop that doesn't pay be left to CPython? */
static bool is_judged(const DynLoops *l) { return l->cache != NULL && dyn_profit_is_judged(l->cache); }

/* What CPython took itself, where it was asked so often in between. A trip may be shorter than what asking usually takes. */
static double unasked_ns(double took, double asked) {
    double rest = took - ASKED_NS * asked;
    return rest > took * LEAST_SHARE ? rest : took * LEAST_SHARE;
}

/* A trip, or run, in ns; of CPython's without what asking at each of its arrivals took. */
static double usual_ns(const DynLoop *loop, bool native) {
    double all = dyn_cycles_ns((double)loop->taken[native]);
    return (native ? all : unasked_ns(all, loop->asked)) / loop->narrived[native];
}

/* Do CPython's trips take so much longer that more of them would be time lost? */
static bool is_over(const DynLoop *loop) {
    const uint32_t *n = loop->narrived;
    return n[0] >= FEW_COUNTED && n[1] >= TURN && usual_ns(loop, false) > OVER * usual_ns(loop, true);
}

/* How long a trip, or a run, takes was measured natively and in CPython: the better way stays. */
static void weigh(DynLoops *l, uint32_t i) {
    DynLoop *loop = &l->loops[i];
    double each[2];
    loop->weighed = true;
    loop->trials = 0;
    loop->nweighed++;
    for (int k = 0; k < 2; k++) {
        if (loop->narrived[k] < FEW_COUNTED) {
            return; /* too few tell something */
        }
        each[k] = usual_ns(loop, k);
    }
    if (each[1] > each[0] && is_judged(l)) {
        dyn_loops_retire(l, i);
    }
    loop->clearly = each[0] > SURELY * each[1];
    loop->surely = loop->nweighed > 1 && loop->clearly;
}

/* The generator that a for loop goes through, maybe by way of enumerate; or NULL. */
static PyObject *generator_of(PyObject *it) {
    int64_t index;
    PyObject *one = dyn_cpy_enumerate(it, &index);
    it = one != NULL ? one : it;
    return PyGen_CheckExact(it) ? it : NULL;
}

/* What lies between the last arrival and this one. */
typedef struct Since {
    Py_ssize_t trips; /* how much of what is counted */
    bool own;         /* All of that time is the loop's: it has not ended since. */
} Since;

/* Of the first 64 slots those that the loop stores. */
static uint64_t stored_in(const DynLoops *l, uint32_t i) {
    bool *members = dyn_loop_members(l->decoded, l->headers[i]);
    uint64_t stored = 0;
    for (uint32_t k = 0; members != NULL && k < l->decoded->v.n; k++) {
        const DynInstr *in = &l->decoded->v.at[k];
        bool stores = in->op == DYN_I_STORE_FAST || in->op == DYN_I_DELETE_FAST || in->op == DYN_I_LOAD_FAST_AND_CLEAR;
        stored |= members[k] && stores && in->arg < 64 ? UINT64_C(1) << in->arg : 0;
    }
    stored = members == NULL ? UINT64_MAX : stored;
    PyMem_RawFree(members);
    return stored;
}

/* Which objects lie in the others: where that has changed what is around the loop has gone on. */
static uint64_t lies_around(const DynLoop *loop, const Slots *s) {
    uint64_t objects = 0;
    for (uint32_t k = 0; k < s->nslots && k < 64; k++) {
        objects = (loop->stored >> k & 1) != 0 ? objects : objects * 31 + (uint64_t)(uintptr_t)s->at[k];
    }
    return objects;
}

/* For what is weighed: in CPython each trip arrives at the header, natively the loop does once. Trips are counted of a loop over
 * an iterator that tells how many it has left (where it was left by break: all of those). Of another one runs are: a new one
 * begins with another iterator, when what is around it has gone on, or in another call. The length of a generator nobody knows,
 * so that counts when it hasn't begun. */
static Since since_last(DynLoops *l, uint32_t i, const DynFrame *f, const Slots *s) {
    DynLoop *loop = &l->loops[i];
    uint32_t iterator = dyn_iterator_slots();
    bool over = l->decoded->v.at[l->decoded->at_unit[l->headers[i]]].op == DYN_I_FOR_ITER;
    PyObject *it = s->nstack >= iterator ? s->at[s->nslots + s->nstack - iterator] : NULL;
    PyObject *generator = over && it != NULL ? generator_of(it) : NULL;
    if (generator != NULL) {
        uint32_t at;
        bool begins = dyn_generator_is_paused(generator, &at) && at == 0;
        loop->again = begins ? 0 : loop->again + 1;
        return (Since){begins || loop->again > MOST_AGAIN, true};
    }
    Py_ssize_t left = it != NULL ? dyn_loops_trips_left(it) : -1, before = loop->left;
    bool counted = over && left >= 0;
    uint64_t around = counted ? 0 : lies_around(loop, s);
    bool same = it == loop->over && f == loop->frame && l->ncalls == loop->call &&
                (counted ? left < before : left == before && around == loop->around);
    loop->around = around;
    loop->over = it;
    loop->left = left;
    loop->frame = f;
    loop->call = l->ncalls;
    return counted ? (Since){same ? before - left : before, same} : (Since){!same, same};
}

/* How often the turns have been doubled. */
static uint32_t doubled(const DynLoop *loop) { return loop->nweighed < MOST_DOUBLED ? loop->nweighed : MOST_DOUBLED; }

static bool is_to_be_weighed(DynLoop *loop) {
    if (!loop->weighed || loop->surely || loop->nweighed == 0 || loop->weighing > 0) {
        return !loop->weighed && loop->weighing == 0;
    }
    uint32_t times = loop->nweighed < 12 ? loop->nweighed - 1 : 11;
    return ++loop->trials >= (loop->clearly ? WEIGHED_AGAIN : WEIGHED_SOON) << 2 * times;
}

/* What lies between the end of a run and the next one is the program's, and may be anything: of a native run its own time counts
 * instead; and that of CPython's last trip, which nobody saw the end of, is what the one before it took. */
static void count_since(DynLoop *loop, const Since *since, uint64_t now) {
    uint64_t took = since->own ? now - loop->last : loop->was_native ? loop->run_took : loop->trip_took;
    if (dyn_cycles_ns((double)took) >= AWAY_NS) {
        return;
    }
    if (since->own && !loop->was_native) {
        loop->trip_took = took;
    }
    loop->taken[loop->was_native] += took;
    loop->asked += !loop->was_native;
    loop->narrived[loop->was_native] += (uint32_t)since->trips;
}

/* The loop is being weighed, and it is CPython's turn. */
static bool sits_out(DynLoops *l, uint32_t i, const DynFrame *f, const Slots *s, uint64_t now) {
    DynLoop *loop = &l->loops[i];
    if (loop->weighing == 0) {
        return false;
    }
    if (loop->cold > 0) {
        loop->cold--;
        return true;
    }
    Since since = since_last(l, i, f, s);
    if (loop->last != 0) {
        count_since(loop, &since, now);
    }
    if (since.trips == 0) {
        loop->last = loop->last == 0 ? 0 : cycles();
        return !loop->was_native;
    }
    loop->weighing = is_over(loop) ? 0 : loop->weighing - 1;
    loop->was_native = (loop->weighing / (TURN << doubled(loop))) % 2 != 0;
    if (loop->weighing == 0) {
        weigh(l, i);
    }
    loop->last = cycles(); /* without what is done here */
    return !loop->was_native || loop->state != DYN_LOOP_NATIVE;
}

static void begin_to_weigh(const DynLoops *l, uint32_t i) {
    DynLoop *loop = &l->loops[i];
    loop->stored = stored_in(l, i);
    loop->nweighed = loop->weighed ? loop->nweighed : 0; /* it is tried again */
    loop->weighing = WEIGHED << doubled(loop);
    loop->cold = loop->nweighed == 0 ? COLD_TRIPS : 0;
    loop->over = NULL;
    loop->again = 0;
    loop->last = loop->trip_took = loop->run_took = 0;
    loop->asked = 0;
    memset(loop->taken, 0, sizeof loop->taken);
    memset(loop->narrived, 0, sizeof loop->narrived);
}

/* ---- long runs: the way in and out doesn't count, but a trip may be slower natively than in CPython */

/* The trips that a for loop has left; -1: it isn't one, or nobody knows. */
static Py_ssize_t trips_left(const DynLoops *l, uint32_t i, const Slots *s) {
    uint32_t iterator = dyn_iterator_slots();
    bool over = l->decoded->v.at[l->decoded->at_unit[l->headers[i]]].op == DYN_I_FOR_ITER && s->nstack >= iterator;
    PyObject *it = over ? s->at[s->nslots + s->nstack - iterator] : NULL;
    return it != NULL ? dyn_loops_trips_left(it) : -1;
}

/* The first time tells whether it is far slower, for which others needn't be waited for; the second time counts. */
static void begin_to_sample(DynLoop *loop) {
    uint64_t trip = !loop->looked_at ? loop->least_trip : loop->trips > 0 ? loop->inside / (uint64_t)loop->trips : 0;
    double each = dyn_cycles_ns((double)trip);
    loop->compared = loop->looked_at;
    loop->looked_at = true;
    if (trip > 0 && each < MOST_TRIP_NS) {
        uint32_t most = each * SAMPLED > SAMPLED_NS ? (uint32_t)(SAMPLED_NS / each) : SAMPLED;
        loop->sampled = most < LEAST_SAMPLED || !loop->compared ? LEAST_SAMPLED : most;
        loop->sampling = loop->sampled + 1; /* arrivals that so many trips lie between */
        loop->native_trip = trip;
        loop->over = NULL;
        memset(loop->taken, 0, sizeof loop->taken);
        memset(loop->narrived, 0, sizeof loop->narrived);
    }
}

/* Are the trips so far so much slower than native ones that more of them would be time lost? [1] is all, [0] those that count. */
static bool is_clear(const DynLoop *loop) {
    uint64_t trips = loop->narrived[1], times = trips >= LEAST_SAMPLED ? SURELY : CLEARLY;
    return trips >= CLEAR_TRIPS && loop->taken[1] > times * trips * loop->native_trip;
}

/* Do CPython's trips so far take less than native ones, on average? */
static bool is_slower(const DynLoop *loop) {
    uint64_t each = loop->narrived[0] > 0 ? loop->taken[0] / loop->narrived[0] : 0;
    double plain = unasked_ns(dyn_cycles_ns((double)each), 1); /* each of these trips was asked about */
    double native = dyn_cycles_ns((double)loop->native_trip) / (loop->compared ? 1 : EARLY);
    return loop->narrived[0] >= loop->sampled / 2 && native > plain;
}

/* The trips that are sampled are CPython's, and the time from each to the next is a trip's. Native trips were those of whole
 * loops, and in a triangle the first are the shortest: where CPython's look faster, it goes on until they don't any more, or to
 * the end. */
static bool samples(DynLoops *l, uint32_t i, const Slots *s, uint64_t now) {
    DynLoop *loop = &l->loops[i];
    if (loop->sampling == 0) {
        return false;
    }
    PyObject *it = s->at[s->nslots + s->nstack - dyn_iterator_slots()];
    Py_ssize_t left = trips_left(l, i, s);
    bool counts = loop->sampling <= loop->sampled - loop->sampled / 4;
    bool same = it == loop->over && left + 1 == loop->left;
    for (int k = !counts; k < 2 && same; k++) {
        loop->taken[k] += now - loop->last;
        loop->narrived[k]++;
    }
    loop->over = it;
    loop->left = left;
    if (is_clear(loop)) {
        loop->sampling = 0;
        loop->compared = true;
        return false;
    }
    if (--loop->sampling > 0) {
        loop->last = cycles();
        return true;
    }
    if (is_slower(loop) && is_judged(l)) {
        if (same && left > 0) {
            loop->sampling = 1;
            loop->last = cycles();
            return true;
        }
        dyn_loops_retire(l, i);
    }
    return loop->state != DYN_LOOP_NATIVE;
}

/* A function's arrivals aren't trips, so they aren't compared; but what it runs natively has to be worth the way in and out, and
 * come to its end. */
static void judge_function(DynLoops *l, uint32_t i, bool is_too_short) {
    DynLoop *loop = &l->loops[i];
    bool in_vain = loop->gave_up * MOST_GIVEN_UP > loop->entered;
    loop->gave_up = 0;
    if (in_vain || is_too_short) {
        dyn_loops_retire(l, i);
    }
}

static void judge(DynLoops *l, uint32_t i) {
    DynLoop *loop = &l->loops[i];
    double all = dyn_cycles_ns((double)loop->inside), inside = all / loop->entered;
    bool early = !loop->looked_at && loop->least_trip > 0 && inside >= SMALL_NS && loop->entered >= EARLY_RUNS && !loop->function;
    if (loop->entered < TRIAL && (all < ENOUGH_NS || loop->entered < TURN) && !early) {
        return;
    }
    bool is_too_short = inside < LEAST_INSIDE_NS && is_judged(l);
    if (loop->function) {
        judge_function(l, i, is_too_short);
    } else if (is_too_short) {
        dyn_loops_retire(l, i);
    } else if (inside < SMALL_NS && is_to_be_weighed(loop)) {
        begin_to_weigh(l, i);
    } else if (inside >= SMALL_NS && !loop->weighed && !loop->compared) {
        begin_to_sample(loop);
    }
    loop->entered = 0;
    loop->inside = 0;
    loop->trips = 0;
}

/* None of its regions fits what the frame has now: another one is planned, and the way closes while the compiler works. */
static bool plan_another(DynLoops *l, uint32_t i, DynFrame *f, const Slots *s) {
    const DynLoop *loop = &l->loops[i];
    DynLoopState state = loop->state;
    if (loop->function && loop->nregions > 0 && loop->tried >= DYN_MOST_TRIED) {
        return false;
    }
    if (state == DYN_LOOP_NEW || state == DYN_LOOP_NATIVE) {
        state = dyn_loops_plan(l, i, l->decoded, s->at, s->nstack, dyn_frame_globals(f), dyn_frame_builtins(f));
    }
    return state == DYN_LOOP_NATIVE;
}

/* How long a loop of so many trips is likely to run yet, from those that it made since it was counted from. */
static double rest_of(const DynLoop *loop, Py_ssize_t left, uint64_t now) {
    uint32_t trips = loop->arrived > 1 ? loop->arrived - 1 : 1;
    return dyn_cycles_ns((double)(now - loop->counted)) / trips * (double)left;
}

/* How long the loop has run, these arrivals included. */
static double ran_so_far(const DynLoops *l, uint32_t i, uint64_t now) {
    const DynLoop *loop = &l->loops[i];
    return dyn_loops_ran_ns(l, i, dyn_loops_ran(l)) + (loop->nested ? 0 : dyn_cycles_ns((double)(now - loop->counted)));
}

/* A for loop of so many trips is asked about when it has made some, or is about to end; of others (-1) nobody knows how long they
 * will run, so they have to have run for a while, or for very many trips, as each arrival takes time. */
static bool is_to_be_asked(const DynLoop *loop, Py_ssize_t left, bool for_a_while) {
    if (left >= 0) {
        return left <= 1 || loop->arrived >= MOST_COLD;
    }
    return loop->arrived >= (for_a_while ? MOST_WHILE : SHARE_WHILE * MOST_WHILE);
}

/* Is it nested in a cold loop, which goes on soon? That has run for as long, and is planned as a whole at its next arrival; if it
 * can't be, or doesn't arrive, this one's turn comes when it has run for as long once more. */
static bool leaves_it_to_outer(DynLoops *l, uint32_t i, double rest_ns) {
    DynLoop *inner = &l->loops[i];
    for (uint32_t k = 0; k < l->nloops && rest_ns < inner->worth_ns / SHARE_WHILE; k++) {
        DynLoop *outer = &l->loops[k];
        bool cold = outer->state == DYN_LOOP_COLD && outer->nregions == 0 && outer->ran_ns < dyn_loops_enough(outer);
        if (cold && (l->made->ways[k].inner >> i & 1) != 0) {
            outer->ran_ns = dyn_loops_enough(outer);
            outer->arrived = 0;
            dyn_loops_rouse(l, k);
            dyn_loops_count_anew(l, i);
            return true;
        }
    }
    return false;
}

static bool plan_now(DynLoops *l, uint32_t i, DynFrame *f, const Slots *s) {
    return dyn_loops_plan(l, i, l->decoded, s->at, s->nstack, dyn_frame_globals(f), dyn_frame_builtins(f)) == DYN_LOOP_NATIVE;
}

/* Arrivals are its calls, the first of which are counted; then it rests. */
static bool is_often_called(DynLoops *l, uint32_t i) {
    DynLoop *loop = &l->loops[i];
    double ran = loop->ran_ns + ++loop->arrived * CALL_NS;
    bool often = ran >= loop->worth_ns;
    if (!often && loop->arrived >= MOST_ASKED && dyn_loops_rest(l, i)) {
        loop->ran_ns = ran;
        loop->arrived = 0;
    }
    return often;
}

/* Has the loop run for so long, or so often, that its code is worth planning, and a compiler's time? Then that is asked. One that
 * is through before long is left alone until the next call, and its time counts. */
static bool is_hot(DynLoops *l, uint32_t i, DynFrame *f, const Slots *s) {
    DynLoop *loop = &l->loops[i];
    if (loop->function && loop->nregions == 0) {
        return is_often_called(l, i) && plan_now(l, i, f, s);
    }
    uint64_t now = cycles();
    loop->first = loop->first == 0 ? now : loop->first;
    loop->counted = loop->arrived++ == 0 ? now : loop->counted;
    double enough = dyn_loops_enough(loop), ran = ran_so_far(l, i, now);
    Py_ssize_t left = trips_left(l, i, s);
    double rest = left < 0 ? 0 : rest_of(loop, left, now);
    bool is_short = left >= 0 && loop->arrived > CLEAR_TRIPS && ran + CLEARLY * rest < enough;
    if (ran < enough && left < 0 && loop->arrived >= MOST_ASKED && dyn_loops_rest(l, i)) {
        loop->ran_ns = ran;
        loop->arrived = 0;
        return false;
    }
    if (ran < enough && !is_short && !is_to_be_asked(loop, left, ran >= enough / SHARE_WHILE)) {
        loop->counted += cycles() - now; /* what is done here isn't the loop's */
        return false;
    }
    if (ran < enough && left >= 0 && ran + rest < enough) {
        loop->ran_ns = ran + rest;
        loop->arrived = 0;
        bool comes_again = loop->nested && l->calls == 0; /* … in a frame that went over, to which there is no next call */
        if (!comes_again || !dyn_loops_rest(l, i)) {
            dyn_loops_open(l, i, false);
        }
        return false;
    }
    if (loop->nregions > 0) {
        return dyn_loops_build(l, i) == DYN_LOOP_NATIVE;
    }
    if (leaves_it_to_outer(l, i, rest)) {
        return false;
    }
    return plan_now(l, i, f, s);
}

/* Is it likely to be over before a compiler would be, and nobody waits for that? Then it is put off. */
static void put_off_if_short(DynLoops *l, uint32_t i, const Slots *s) {
    DynLoopGuess guess;
    if (l->loops[i].state != DYN_LOOP_NEW || !dyn_loops_may_put_off(l) || l->loops[i].nregions > 0) {
        return;
    }
    dyn_loops_outweigh(l->decoded, l->headers[i], s->at, s->nstack, 0, 0, &guess);
    if (guess.short_loop) {
        dyn_loops_put_off(l, i, guess.worth_ns);
    }
}

/* The trips of a for loop that a run has made, of those that it had before. */
static Py_ssize_t trips_made(Py_ssize_t before, const DynLoopWay *way, const DynRegionExit *exit) {
    uint32_t iterator = dyn_iterator_slots();
    if (before < 0) {
        return 0;
    }
    PyObject *it = exit->nstack >= way->depth && way->depth >= iterator ? exit->stack[way->depth - iterator] : NULL;
    Py_ssize_t after = it != NULL ? dyn_loops_trips_left(it) : 0; /* another object on the stack: the loop is over */
    return after >= 0 && after < before ? before - after : before;
}

static uint64_t native_cycles;

uint64_t dyn_loops_native_cycles(void) { return native_cycles; }

/* The first run takes longer than others, as its code and what it needs are met for the first time: it doesn't count. */
static void count_run(DynLoops *l, uint32_t i, uint64_t inside, Py_ssize_t trips, bool gave_up) {
    DynLoop *loop = &l->loops[i];
    native_cycles += inside;
    if (inside > dyn_cycles_of_ns(ENOUGH_NS)) {
        dyn_loops_begin_inner(l, i);
    }
    if (!loop->has_run && !loop->function) {
        loop->has_run = true;
        return;
    }
    loop->entered++;
    loop->inside += inside;
    loop->trips += trips;
    uint64_t trip = trips > 0 ? inside / (uint64_t)trips : 0;
    loop->least_trip = loop->entered == 1 || (trip > 0 && trip < loop->least_trip) ? trip : loop->least_trip;
    loop->gave_up += gave_up;
    judge(l, i);
}

/* The frame was left at exit's place: false; it stands at the header as it did: true. */
static bool enter(WayIn *w, DynLoops *l, DynFrame *f, uint64_t now) {
    const DynLoopWay *way = &l->made->ways[w->index];
    DynLoop *loop = &l->loops[w->index];
    DynRegionExit exit = {0};
    Slots s;
    if (!open_slots(l, w->index, f, way->depth, &s)) {
        return true;
    }
    if (s.namespace != NULL && !dyn_loop_names_may_run(l, w->index, s.at)) {
        close_slots(l, f, &s);
        return true;
    }
    put_off_if_short(l, w->index, &s);
    if (loop->state == DYN_LOOP_COLD && !is_hot(l, w->index, f, &s)) {
        close_slots(l, f, &s);
        return true;
    }
    if (sits_out(l, w->index, f, &s, now) || samples(l, w->index, &s, now)) {
        close_slots(l, f, &s);
        loop->last = loop->last == 0 ? 0 : cycles(); /* without what was done here; 0: nothing is counted yet */
        return true;
    }
    uint64_t began = cycles();
    Py_ssize_t before = loop->compared && told.tell == NULL ? -1 : trips_left(l, w->index, &s);
    bool ran = run(l, w->index, &s, &exit);
    if (!ran && plan_another(l, w->index, f, &s)) {
        began = cycles();
        ran = run(l, w->index, &s, &exit);
    }
    close_slots(l, f, &s);
    if (!ran) {
        return true;
    }
    Py_ssize_t trips = trips_made(before, way, &exit);
    uint64_t ended = told.tell != NULL ? tell(true, trips) : dyn_cycles();
    loop->run_took = ended - now + dyn_cycles_of_ns(OUT_NS);
    count_run(l, w->index, ended - began, trips, exit.gave_up >= DYN_GAVE_UP_FOR_DEPTH);
    put_stack(w, f, s.nframe, way, &exit);
    w->place = place_of(w, way, exit.at);
    w->from = 0;
    w->to = w->nplaces;
    return answer(w);
}

/* ---- the operators */

static PyObject *way_in_invert(PyObject *self) {
    WayIn *w = (WayIn *)self;
    DynLoops *l = w->loops;
    const uint64_t now = dyn_cycles();
    PyThreadState *ts = PyThreadState_Get();
    DynFrame *f = dyn_frame_current(ts);
    bool asked = f != NULL && (PyObject *)dyn_frame_code(f) == w->code;
    if (asked && w->answers) {
        return PyBool_FromLong(answer(w));
    }
    if (!asked || l == NULL) {
        Py_RETURN_TRUE;
    }
    if (dyn_cpy_is_traced(ts)) {
        dyn_loops_open(l, w->index, false);
        Py_RETURN_TRUE;
    }
    DynRaised before = dyn_callback_begin();
    l->refs++;
    bool stays = enter(w, l, f, told.tell != NULL ? tell(false, 1) : now);
    dyn_loops_decref(l);
    dyn_callback_end(before);
    return PyBool_FromLong(stays);
}

/* The values go where the block has put NULLs for them. */
static PyObject *way_in_negative(PyObject *self) {
    WayIn *w = (WayIn *)self;
    DynFrame *f = dyn_frame_current(PyThreadState_Get());
    if (f != NULL && (PyObject *)dyn_frame_code(f) == w->code) {
        uint32_t nslots = (uint32_t)dyn_code_nlocalsplus(dyn_frame_code(f));
        for (uint32_t i = 0; i < w->nstack; i++) {
            dyn_frame_put(f, nslots + w->first + i, w->stack[i]);
        }
        w->nstack = 0;
    }
    Py_RETURN_NONE;
}

static void way_in_dealloc(PyObject *self) {
    PyMem_Free(((WayIn *)self)->stack);
    PyObject_Free(self);
}

static PyNumberMethods way_in_number = {.nb_invert = way_in_invert, .nb_negative = way_in_negative};
static PyTypeObject WayIn_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.WayIn",
    .tp_doc = "What loop code asks at the header of a loop.",
    .tp_basicsize = sizeof(WayIn),
    .tp_dealloc = way_in_dealloc,
    .tp_as_number = &way_in_number,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

PyObject *dyn_way_in_new(DynLoops *l, uint32_t index) {
    size_t most = (size_t)l->decoded->code->co_stacksize + 1;
    PyObject **stack = PyMem_Malloc(most * sizeof *stack);
    WayIn *w = stack == NULL ? NULL : PyObject_New(WayIn, &WayIn_Type);
    if (w == NULL) {
        PyMem_Free(stack);
        return NULL;
    }
    w->loops = l;
    w->code = NULL;
    w->index = index;
    w->nplaces = w->likely = 0;
    w->answers = false;
    w->stack = stack;
    w->first = w->nstack = 0;
    return (PyObject *)w;
}

void dyn_way_in_belongs_to(PyObject *way_in, const DynLoopCode *made) {
    WayIn *w = (WayIn *)way_in;
    w->code = made->code;
    w->nplaces = made->ways[w->index].nplaces;
    w->likely = 1 + made->ways[w->index].has_end;
}

void dyn_way_in_detach(PyObject *way_in) { ((WayIn *)way_in)->loops = NULL; }

int dyn_way_in_init(void) { return PyType_Ready(&WayIn_Type); }
