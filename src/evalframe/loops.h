/* loops.h: loops that run as native regions: the loop code of a function, the ways in at its headers, and what became of each
 * loop.
 *
 * loops.c keeps what is known of a function's loops and opens and closes ways; loops_calls.c makes calls in loop code;
 * loops_arrive.c is what a way-in block asks; loops_null.c is a region for tests, which needs no compiler. A DynLoops belongs to
 * a cache (cache.c), and while a call of its function runs natively to that call too. With the GIL. */
#ifndef DYN_LOOPS_H
#define DYN_LOOPS_H
#include "evalframe/door.h"
#include "tracer/bytecode/asm_loops.h"
#include "tracer/region/region.h"

/* What makes regions and runs them: the compiler, or for tests the null region. Loops that are made use dyn_loop_engine from then
 * on. The functions are those of ir/region.h and tracer/region/region.h. */
typedef struct DynLoopEngine {
    uint32_t (*headers)(const DynCode *c, uint32_t *at, uint32_t room);
    DynRegion *(*plan)(const DynCode *c, uint32_t header, PyObject *const *slots, uint32_t nstack, PyObject *globals,
                       PyObject *builtins, unsigned unless, DynRegionRefusal *why);
    int (*build)(DynRegion *r, bool wait);
    DynRegionState (*state)(DynRegion *r);
    DynReason (*failure)(DynRegion *r, const char **detail);
    DynRegionEnd (*run)(DynRegion *r, PyObject **slots, uint32_t nstack, DynRegionExit *exit);
    bool (*exit)(const DynRegion *r, uint32_t i, uint32_t *at, uint32_t *nstack);
    void (*source)(const DynRegion *r, DynStr *out);
    int (*traverse)(const DynRegion *r, visitproc visit, void *arg);
    void (*free)(DynRegion *r);
} DynLoopEngine;
extern DYN_HIDDEN const DynLoopEngine *dyn_loop_engine;
extern DYN_HIDDEN const DynLoopEngine dyn_loop_null;
DYN_HIDDEN void dyn_loop_null_leave(int64_t after); /* test: after so many instructions; -1: at the header */

/* A list with a dict for each of its loops that ran natively while somebody watched; NULL with an exception. */
DYN_HIDDEN PyObject *dyn_loops_times(const DynCache *c);
#define DYN_MOST_LOOPS 64   /* of a function; one that has more has none that are native */
#define DYN_LOOP_VERSIONS 4 /* regions of one loop, for different types */

typedef enum DynLoopState {
    DYN_LOOP_NEW,     /* It was not arrived at. */
    DYN_LOOP_COLD,    /* It is short, or nobody asked for the function: it is planned or built when it has run for a while. */
    DYN_LOOP_WAITING, /* The compiler works on it: its way is closed. */
    DYN_LOOP_NATIVE,  /* Its way is open. */
    DYN_LOOP_REFUSED, /* There is no region for it: closed for good. */
    DYN_LOOP_RETIRED  /* It doesn't pay: closed until it is tried again. */
} DynLoopState;

/* One loop of a function. */
#define DYN_MOST_TRIED 8    /* calls of a function that calls itself, before it isn't planned for other values */
#define DYN_MOST_REFUSALS 4 /* of a loop, before it isn't planned again */
typedef struct DynLoop {
    DynLoopState state;
    DynRegion *regions[DYN_LOOP_VERSIONS]; /* the one that was entered last is first */
    uint32_t nregions;
    PyObject *way_in; /* strong */
    bool open;
    bool function;           /* It isn't a loop, but all of a function that calls itself. */
    uint32_t tried;          /* … so often it couldn't be planned with the values of a call */
    uint32_t gave_up;        /* … of the `entered` arrivals so many were left because a call in it gave up */
    bool left_to_graph;      /* It could have a region, but a recording has it as a graph. */
    DynWatched watched;      /* what it took natively while somebody watched */
    uint32_t arrived;        /* while it is cold, … */
    uint64_t counted, since; /* … from this time on, in cycles, and from when it was put off, as dyn_loops_ran counts, … */
    bool rests;              /* its way is closed, and ticks count how long it runs */
    double ran_ns, worth_ns; /* … beside the time that it took before, and that it has to take to be worth planning */
    double ran_before;       /* … and what that was when the call began; */
    uint64_t first;          /* when it was first arrived at in this call, or 0; */
    double share;            /* of a call's time, in the last one that ran in loop code, */
    bool nested;             /* and whether it is in another loop */
    bool has_run;            /* It has run natively, … */
    bool looked_at;          /* … and trips of CPython's were compared with what that took, once, … */
    bool compared;           /* … and for good. */
    uint32_t entered;        /* arrivals that ran a region … */
    uint64_t inside;         /* … and cycles that regions ran in them */
    Py_ssize_t trips;        /* … and the trips of a for loop in them */
    uint64_t least_trip;     /* … of which the fastest run's took so many cycles */
    uint32_t sampling;       /* arrivals whose trips are CPython's, of `sampled`, to be compared with … */
    uint32_t sampled;
    uint64_t native_trip;                   /* … the cycles of a trip natively */
    uint32_t weighing;                      /* arrivals for which it is still weighed: in turns native and CPython's */
    uint32_t cold;                          /* … once so many are CPython's that don't count */
    uint32_t nweighed, trials;              /* how often it was, and the trials since */
    bool clearly, surely;                   /* … which said that CPython takes much longer, not for the first time */
    bool weighed, was_native;               /* … it was; at the last arrival, at the time `last`, it ran natively */
    PyObject *over;                         /* borrowed, and only compared: the iterator that was on the stack then, … */
    Py_ssize_t left;                        /* … and the trips that it had left */
    const DynFrame *frame;                  /* … compared too: whose it was, … */
    uint64_t call;                          /* … and in which call (ncalls), … */
    uint64_t stored, around;                /* … and what lay in slots that it doesn't store: a bit for each that it does */
    uint64_t trip_took, run_took;           /* cycles of CPython's last trip, and of the last native run */
    uint32_t again;                         /* arrivals that were no new beginning */
    uint64_t last, taken[2];                /* cycles from arrivals to the next in all, CPython's and native … */
    uint32_t narrived[2];                   /* … of so many; */
    uint32_t asked;                         /* arrivals in CPython's, each of which was asked about */
    DynRegionRefusal why;                   /* REFUSED: the reason */
    uint64_t refused_as[DYN_MOST_REFUSALS]; /* the kinds of values with which it was (dyn_loops_kinds) */
    uint64_t next, patience; /* when a retired or refused one is tried again, and the time behind that; in cycles */
    uint32_t refusals;       /* so often it was refused: what it came with may have been unusual */
} DynLoop;

/* What became of a loop while it was recorded. Saying it runs Python code (linecache, logging), which might change what the
 * recording has seen, so it is said when the recording is over. */
typedef struct DynLoopNews {
    const char *what;         /* a static text; NULL: it was refused */
    DynRegionRefusal refusal; /* .at: the place, of either */
} DynLoopNews;
#define DYN_MOST_NEWS 4 /* a function's recording comes to few loops that are new */

/* The sizes of a call's arguments, as far as its work may depend on them. */
#define DYN_CALL_SIZES 8
typedef struct DynCallSizes {
    uint32_t n; /* more than DYN_CALL_SIZES: there are too many */
    double at[DYN_CALL_SIZES];
} DynCallSizes;

/* Calls of a function that calls itself, which is native as a whole, beside CPython's (loops_turns.c). */
#define DYN_MOST_TURNS 16 /* of both sides together */
typedef enum DynTurnOf { DYN_TURN_OF_NONE, DYN_TURN_OF_CPYTHON, DYN_TURN_OF_NATIVE } DynTurnOf;
typedef struct DynCallSide {
    uint64_t at[DYN_MOST_TURNS]; /* cycles, of the n that count */
    uint32_t n, met;
} DynCallSide;
typedef struct DynCallTurns {
    DynCallSide sides[2];  /* CPython's, native */
    uint32_t turn;         /* of this trial */
    uint32_t trials, rest; /* those before, and the calls until the next one */
    uint32_t planned;      /* regions and refusals of all loops when the call began */
    bool sure;             /* there is none any more */
} DynCallTurns;

typedef struct DynLoopNames DynLoopNames;
struct DynLoops {
    Py_ssize_t refs;
    DynCache *cache; /* borrowed; NULL: it is gone, and nothing is native any more */
    const DynLoopEngine *engine;
    PyObject *code;                   /* strong: the function's */
    DynCode *decoded;                 /* of it (or dyn_decode_names), and … */
    DynLoopNames *names;              /* Of a module's code: its variables. NULL: they are slots. */
    DynLoopCode *made;                /* … its loop code: NULL before the first region is planned */
    PyObject *function;               /* strong: the function that runs loop code, for the one whose closure it has; or NULL */
    DynCalledNames called;            /* names, of which calls are aimed (loops_aim.c); and for each of them … */
    PyObject *doors[DYN_MOST_CALLED]; /* … the door that it stands for, borrowed, or NULL: calls of it are … */
    PyObject *functions[DYN_MOST_CALLED]; /* … of this function, borrowed */
    PyObject *method; /* borrowed: a door, in whose place sites of loop code call `function` as a method; or NULL */
    DynLoop *loops;
    uint32_t nloops;
    uint32_t headers[DYN_MOST_LOOPS]; /* of each of them, the code unit where it starts */
    uint32_t nwaiting;                /* loops that the compiler works on */
    uint64_t ncalls;                  /* that began in loop code so far */
    uint32_t calls;                   /* that run in loop code, … */
    uint64_t began, ran;              /* … since when, and how long all those before took, in cycles: dyn_loops_ran */
    uint64_t longest;                 /* … and the longest one that was seen to its end; 0: none was. */
    DynCallSizes sizes;               /* of the arguments of those, the largest */
    DynCallTurns turns;               /* of its native calls and CPython's */
    uint32_t brief;                   /* so many in a row were CPython's own and over at once, … */
    uint32_t uncounted;               /* … since when so many began */
    bool recording;                   /* a recording asks: what is to be said waits */
    bool short_loop;                  /* … and CPython is through with the loop before a compiler would be */
    bool unrolled;                    /* … and a graph would have its trips one behind the other */
    bool few_trips;                   /* it could have all of the loop's trips in its graph */
    DynLoopNews news[DYN_MOST_NEWS];  /* what waits to be said */
    uint32_t nnews;
    DynLoops *aimed;                /* the next one of those that have a door */
    DynLoops *previous, *following; /* all of them, for the poll */
};

/* ---- loops.c */
/* Those of a cache's function, made when it was not asked yet; NULL: it has no loops that could be native, or is not to have. */
DYN_HIDDEN DynLoops *dyn_loops_of(DynCache *c, const DynCode *decoded, PyObject *func);
/* The same, also of a function that has no loops, but calls by name that may be aimed. */
DYN_HIDDEN DynLoops *dyn_loops_of_calls(DynCache *c, const DynCode *decoded, PyObject *func);
DYN_HIDDEN void dyn_loops_decref(DynLoops *l);
DYN_HIDDEN void dyn_loops_drop(DynCache *c); /* the cache's are given up */
/* Regions hold what they were planned with: all of them go, and are planned again when their loops are arrived at. Not while one
 * of them runs (l->refs is 1 then). */
DYN_HIDDEN void dyn_loops_forget_regions(DynLoops *l);
static inline bool dyn_loops_have_regions(const DynLoops *l) {
    bool have = false;
    for (uint32_t i = 0; i < l->nloops; i++) {
        have |= l->loops[i].nregions > 0;
    }
    return have;
}
/* Is there a loop of the cache's function that there is no region for? */
static inline bool dyn_loops_any_refused(const DynCache *c) {
    bool any = false;
    for (uint32_t i = 0; c->loops != NULL && i < c->loops->nloops; i++) {
        any |= c->loops->loops[i].state == DYN_LOOP_REFUSED;
    }
    return any;
}
DYN_HIDDEN int dyn_loops_traverse(const DynCache *c, visitproc visit, void *arg);
DYN_HIDDEN int dyn_loops_complete(DynLoops *l); /* makes loop code. -1 without an exception: there can be none */
/* Do calls of the cache's function run in loop code? */
static inline bool dyn_loops_serve(const DynCache *c) { return DYN_UNLIKELY(c->loops_on); }
/* loops_calls.c: the call in loop code, or CPython's own where it is short; and what a fresh frame comes to. */
DYN_HIDDEN PyObject *dyn_loops_call(DynCache *c, PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames);
DYN_HIDDEN PyObject *dyn_loops_frame(DynCache *c, PyThreadState *ts, DynFrame *f);
/* The function that runs the cache's loop code for `func`: a new reference, held by its loops, too, unless the cache is one of
 * known.c's. NULL without an exception: memory is out. */
DYN_HIDDEN PyObject *dyn_loops_function(DynCache *c, PyObject *func);
/* CPython's call of a function that has a door. One that calls doors by their names runs in loop code, its ways closed: there it
 * needn't pass them each time. */
DYN_HIDDEN PyObject *dyn_loops_call_plain(DynCache *c, PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames);
/* loops_aim.c: does the function name doors? */
DYN_HIDDEN bool dyn_loops_name_doors(PyObject *func);
DYN_HIDDEN void dyn_loops_find_called(DynLoops *l, const DynCode *decoded, PyObject *func); /* names that may be aimed */
/* Where the function's own name stands for a door of `func`, like which `function` was made, calls of it are of `function`. */
DYN_HIDDEN void dyn_loops_aim_at_itself(DynLoops *l, PyObject *func);
/* The door is called out of this code: if that is loop code, and the door's function left to CPython, such calls don't pass the
 * door any more. For how many names that now holds. */
DYN_HIDDEN uint32_t dyn_loops_aim_at(PyObject *code, PyObject *door);
DYN_HIDDEN void dyn_loops_aim_at_nothing(DynLoops *l); /* Calls pass whatever their names stand for. */
/* … all those of the cache's function: its door dies, its code or defaults change, its loops go, or there is something to gain.
 */
DYN_HIDDEN void dyn_loops_forget_door(DynCache *c);
/* A call of the cache's function by its door, as a method, comes from its own loop code: calls from there are of `function`,
 * until dyn_loops_aim_at_nothing. How many sites of the code that now holds for. */
DYN_HIDDEN uint32_t dyn_loops_aim_methods(DynCache *c, PyObject *door, PyObject *code);
/* Are all loops CPython's for now? Then the call is as well. What is native as a whole isn't from its middle on. */
DYN_HIDDEN bool dyn_loops_all_rest(const DynLoops *l);
/* … and were they refused or retired, so that none is about to be native? */
DYN_HIDDEN bool dyn_loops_all_given_up(const DynLoops *l);
/* Do calls of the cache's function run as CPython's own, unless one is handed an array? Nothing is to be measured, either. */
static inline bool dyn_loops_are_left(const DynCache *c) {
    bool left = DYN_UNLIKELY(c->loops_on) ? c->loops != NULL && dyn_loops_all_given_up(c->loops)
                                          : dyn_cache_wants_arrays(c) || (c->idle && !dyn_cache_may_wake(c));
    return left && c->entries.n == 0 && c->root == NULL;
}
/* … such a call, where the function calls doors by their names: in loop code, its ways closed. */
static inline bool dyn_loops_call_doors(const DynCache *c) {
    return c->loops != NULL && c->loops->made != NULL && c->loops->made->calls && !c->known;
}
DYN_HIDDEN PyObject *dyn_loops_call_left(DynCache *c, PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames);
/* A global is about to get another value; key NULL: all of them are. */
DYN_HIDDEN void dyn_loops_global_changes(PyObject *globals, PyObject *key);
/* Are its calls so short that none repays passing a door? They are counted anew then. */
DYN_HIDDEN bool dyn_loops_calls_are_brief(DynCache *c);
/* Nothing is known of the cache's function, and a call of it with these slots looks as if it worked on no arrays (looks.c): then
 * there is nothing to record, and it runs in loop code, its loops cold. false: it is to be recorded. */
DYN_HIDDEN bool dyn_loops_begin(DynCache *c, PyObject *func, PyObject *const *slots);
DYN_HIDDEN bool dyn_loops_begin_running(DynCache *c, DynFrame *f); /* The same, by the loop in which a call is. */
/* The recorder stands at a header of the cache's function, in frame f with these slots and stack values, and has recorded so
 * many array operations before it: plans the loop's region. true: calls run in loop code from now on, and the frame is to go on
 * at unit *at of code (borrowed). */
DYN_HIDDEN bool dyn_loops_take(DynCache *c, const DynCode *decoded, DynFrame *f, uint32_t header, PyObject *const *slots,
                               uint32_t nstack, uint32_t nnodes, PyObject **code, uint32_t *at);
/* Does a frame run in loop code that nobody counts as a call? */
static inline bool dyn_loops_run_frame(const DynLoops *l) {
    return l->made != NULL && l->calls == 0 && Py_REFCNT(l->made->code) > 1 + (l->function != NULL);
}
/* loops_over.c: may this call of the cache's function, which runs in the function's own code, go on in loop code? Then it can be
 * asked to do so when it comes to a header; one call at a time, until `stay`. */
DYN_HIDDEN bool dyn_loops_may_go_over(DynCache *c, DynFrame *f);
DYN_HIDDEN bool dyn_loops_go_over(DynFrame *f);
DYN_HIDDEN void dyn_loops_stay(void);
/* Opens ways of what has been built. */
DYN_HIDDEN void dyn_loops_poll(void);
DYN_HIDDEN void dyn_loops_refresh(DynLoops *l); /* a call begins: ways that were closed for a time are opened */
DYN_HIDDEN bool dyn_loops_open(DynLoops *l, uint32_t i, bool open);
DYN_HIDDEN DynLoopState dyn_loops_plan(DynLoops *l, uint32_t i, const DynCode *decoded, PyObject *const *slots, uint32_t nstack,
                                       PyObject *globals, PyObject *builtins);
DYN_HIDDEN bool dyn_loops_any_planned(void); /* in this process: the first time takes much longer than the next ones */
DYN_HIDDEN bool dyn_loops_may_put_off(const DynLoops *l); /* nobody waits, and a compiler makes its regions */
/* The loop is planned when it has run for a while: what runs shorter than planning takes is left alone. */
DYN_HIDDEN DynLoopState dyn_loops_put_off(DynLoops *l, uint32_t i, double worth_ns);
DYN_HIDDEN DynLoopState dyn_loops_build(DynLoops *l, uint32_t i); /* a cold loop's region */
DYN_HIDDEN void dyn_loops_retire(DynLoops *l, uint32_t i);
/* What became of the loops that were arrived at: a list of str, or NULL; and the C of those that are native. */
DYN_HIDDEN void dyn_loops_say_news(void); /* a recording is over: what became of loops in it is logged and told */
DYN_HIDDEN PyObject *dyn_loops_list(const DynCache *c);
DYN_HIDDEN void dyn_loops_add_refusals(const DynCache *c, PyObject **list); /* why loops have no region; NULL: memory is out */
DYN_HIDDEN void dyn_loops_source(const DynCache *c, DynStr *out);
DYN_HIDDEN int dyn_loops_init(PyObject *module); /* adds functions for tests */

/* ---- loops_turns.c: whose turn is the call that is to begin? Of a function that isn't compared it is nobody's. */
DYN_HIDDEN DynTurnOf dyn_loops_turn(DynLoops *l);
DYN_HIDDEN void dyn_loops_turn_ends(DynLoops *l, DynTurnOf turn, uint64_t took);

/* ---- loops_guess.c */
typedef struct DynLoopGuess {
    bool unrolled;   /* a recording goes through all of its trips, and through those of loops in it */
    bool few_trips;  /* it runs so seldom that a graph could have all of its trips */
    bool short_loop; /* so shortly that no compiler need hurry */
    double worth_ns; /* planning it, and writing C, is worth while when it has run for so long */
} DynLoopGuess;
/* Is there more to gain in the loop than in the array operations that were recorded before it? Either way is what it will be at
 * later calls: the function's graphs, or its loops. behind_ns: dyn_loops_behind. */
DYN_HIDDEN bool dyn_loops_outweigh(const DynCode *c, uint32_t header, PyObject *const *slots, uint32_t nstack, uint32_t nnodes,
                                   double behind_ns, DynLoopGuess *guess);
/* What CPython takes for the function's loops behind this one, as far as those go over elements of arrays that are there already:
 * no graph has them, and a function whose first loop is left to one has no native loops. */
DYN_HIDDEN double dyn_loops_behind(const DynLoops *l, const DynCode *c, uint32_t header, PyObject *const *slots,
                                   PyObject *globals);
/* A number for the kinds of these values: types, and of containers whether they are empty and what is first in them. */
DYN_HIDDEN uint64_t dyn_loops_kinds(PyObject *const *slots, uint32_t n);
DYN_HIDDEN bool dyn_loops_was_refused_as(const DynLoop *loop, uint64_t kinds);
/* Trips that a for loop over this iterator has left, as far as it tells without running anything; -1: it doesn't. The other
 * guesses then. */
DYN_HIDDEN Py_ssize_t dyn_loops_trips_left(PyObject *it);
DYN_HIDDEN Py_ssize_t dyn_loops_trips(PyObject *it);
/* May it be planned when it has run for a while? Not where a graph might have its trips one behind the other, or array operations
 * that are better as graphs: but if it comes to numbers, texts, lists of them and elements of arrays alone. */
DYN_HIDDEN double dyn_loops_worth(const DynCode *c, uint32_t header); /* worth_ns */
DYN_HIDDEN bool dyn_loops_may_come_later(DynFrame *f, const DynCode *c, uint32_t header, PyObject *const *slots, uint32_t nstack,
                                         const DynLoopGuess *guess);

/* ---- loops_elements.c: nothing but single elements of the arrays in these slots and globals? How many of them its code names.
 */
DYN_HIDDEN bool dyn_loops_take_elements(const DynCode *c, const bool *members, PyObject *const *slots, PyObject *globals,
                                        uint32_t *elements);

/* ---- loops_ticks.c: a cold loop whose trips can't be counted is asked no more until it has run for long. false: it goes on. */
DYN_HIDDEN bool dyn_loops_rest(DynLoops *l, uint32_t i);
DYN_HIDDEN void dyn_loops_count_anew(DynLoops *l, uint32_t i); /* What a cold loop has run is counted from here on. */
/* … of those in loop i, which is native from now on: it is likely to be arrived at before one of them has run for long. */
DYN_HIDDEN void dyn_loops_begin_inner(DynLoops *l, uint32_t i);
DYN_HIDDEN void dyn_loops_rouse_forgotten(DynLoops *l);   /* those that rest, where ticks have ended */
DYN_HIDDEN void dyn_loops_rouse(DynLoops *l, uint32_t i); /* loops.c: its way is as its state says again */
DYN_HIDDEN DynLoops *dyn_loops_with_code(PyObject *code); /* … those whose loop code it is, or NULL */
DYN_HIDDEN double dyn_loops_enough(const DynLoop *loop);  /* … so long a cold loop runs before it is worth the next step */

/* How long the loop has run. One in another loop may have run any number of times while its way was closed: of that one all the
 * time counts since it is known. */
DYN_HIDDEN double dyn_loops_ran_ns(const DynLoops *l, uint32_t i, uint64_t ran);

/* Cycles that the function's calls took in loop code; what began in a frame that was handed over counts until the next call. */
DYN_HIDDEN uint64_t dyn_loops_ran(const DynLoops *l);
DYN_HIDDEN void dyn_loops_begin_call(DynLoops *l);
DYN_HIDDEN void dyn_loops_end_call(DynLoops *l);
DYN_HIDDEN void dyn_loops_begin_frame(DynLoops *l); /* it goes over to loop code, and nobody says when it ends */

/* ---- loops_names.c */
/* The cache's code is a module's, whose variables lie in `namespace`: it gets loops. */
DYN_HIDDEN bool dyn_loops_begin_names(DynCache *c, PyObject *namespace);
DYN_HIDDEN void dyn_loop_names_free(DynLoopNames *names);
/* The variables that loop i comes to are read into their slots, which own them; others are NULL. */
DYN_HIDDEN void dyn_loop_names_read(const DynLoops *l, uint32_t i, PyObject *namespace, PyObject **slots);
DYN_HIDDEN void dyn_loop_names_drop(const DynLoops *l, PyObject **slots);
/* Not where the loop stores variables that there aren't yet, in an order that isn't known. */
DYN_HIDDEN bool dyn_loop_names_may_run(const DynLoops *l, uint32_t i, PyObject *const *slots);
/* They are read anew, and are the region's until they are put back. false: it may not run. */
DYN_HIDDEN bool dyn_loop_names_take(const DynLoops *l, uint32_t i, PyObject *namespace, PyObject **slots);
DYN_HIDDEN void dyn_loop_names_put(const DynLoops *l, PyObject *namespace, PyObject *const *slots);

/* ---- loops_arrive.c */
DYN_HIDDEN uint64_t dyn_loops_native_cycles(void); /* that all regions ran so far */
/* Test: calls that are compared take so many ns (0: what they take). How many were CPython's since it was asked last. */
DYN_HIDDEN uint32_t dyn_loops_tell_turns(double native, double plain);
/* Test: by(native, trips) says how many ns a trip of CPython's takes, or a native run of so many. NULL: the clock does again. */
DYN_HIDDEN void dyn_loops_tell_time(PyObject *by);
DYN_HIDDEN PyObject *dyn_way_in_new(DynLoops *l, uint32_t index);
DYN_HIDDEN void dyn_way_in_belongs_to(PyObject *way_in, const DynLoopCode *made);
DYN_HIDDEN void dyn_way_in_detach(PyObject *way_in);
DYN_HIDDEN int dyn_way_in_init(void);
#endif
