/* door.h: what the files of this room share: options, caches, argument binding, hits, the door itself.
 *
 * Everything here is used with the GIL. A cache belongs to one code object: that of an optimised function, of one of its resume
 * functions, or of a function met under enable(). */
#ifndef DYN_DOOR_H
#define DYN_DOOR_H
#include "base/log.h"
#include "evalframe/entry.h"
#include "evalframe/profit.h"
#include "tracer/bytecode/asm.h"

/* ---- options.c: what optimize() and enable() were asked for. Immutable. */
typedef struct DynFollow DynFollow; /* follow.h */
typedef struct DynOptions {
    Py_ssize_t refs;
    PyObject *dict; /* as the Python face gave it: for pickles */
    bool eager, fullgraph, dynamic, exact;
    bool hands_on;    /* the back end is one that gets the graph: a callable, or a name that the Python face knows */
    bool tune;        /* mode="max-autotune" */
    bool replay;      /* mode="reduce-overhead" */
    int wait;         /* -1: as dyn_config says */
    DynConfig config; /* values of the settings that hold for this function alone … */
    uint64_t given;   /* … one bit for each that was given, in the order of settings.def */
} DynOptions;
DYN_HIDDEN DynOptions *dyn_options_new(PyObject *dict); /* NULL with an exception */
DYN_HIDDEN void dyn_options_incref(DynOptions *o);
DYN_HIDDEN void dyn_options_decref(DynOptions *o);
DYN_HIDDEN DynConfig dyn_options_config(const DynOptions *o); /* dyn_config with the function's own settings */
DYN_HIDDEN bool dyn_options_wait(const DynOptions *o);

/* ---- bind.c: CPython's argument binding. */
typedef struct DynSignature {
    uint32_t npos, nposonly, nkwonly; /* npos: with the positional-only ones */
    uint32_t nargs;                   /* parameters in all: the first slots */
    uint32_t nslots;                  /* co_nlocals */
    bool varargs, varkw;
    bool simple; /* positional parameters only */
} DynSignature;
#define DYN_SMALL_SLOTS 32
typedef struct DynBound {
    PyObject *const *slots; /* nslots entries, NULL where unbound */
    PyObject **own;         /* slots with references to drop, or NULL: borrowed from the caller */
    uint32_t n;
    PyObject *small[DYN_SMALL_SLOTS];
} DynBound;
DYN_HIDDEN void dyn_bind_signature(PyCodeObject *code, DynSignature *out);
/* 0, or -1 without an exception: the arguments don't fit (or memory is out): calling the function itself says why. */
DYN_HIDDEN int dyn_bind(const DynSignature *s, PyObject *func, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                        DynBound *b);
DYN_HIDDEN void dyn_bind_free(DynBound *b);
/* Call something with the function's signature with bound slots; others: with what lies in its **keywords, too. */
DYN_HIDDEN PyObject *dyn_bind_call(const DynSignature *s, PyCodeObject *code, PyObject *callable, PyObject *const *slots,
                                   bool others);

/* A refusal that is kept to be told. */
typedef struct DynTold {
    DynReason why;
    DynPlace place; /* its code is borrowed, and may have died; NULL: it is of no place */
    PyObject *code; /* a weak reference to that */
} DynTold;

/* ---- cache.c */
typedef struct DynCache DynCache;
typedef struct DynLoops DynLoops;   /* loops.c */
typedef struct DynAnchor DynAnchor; /* hold.c */
typedef struct DynResume {          /* a resume function of a family, by what it resumes */
    PyObject *of;                   /* code object that was broken; strong; NULL: it is dead */
    uint32_t at, nslots, nstack;
    bool *shape;                /* nslots: bound; then nstack: NULL */
    PyObject *code;             /* strong */
    PyObject *door;             /* strong */
    int32_t shift;              /* units by which positions of `of` are moved in code */
    PyObject *globals, *keeper; /* of a loose family (hold.c), borrowed: the function's globals, and what they are the globals of,
                                 * NULL: of the function that is called */
} DynResume;
struct DynCache {
    Py_ssize_t refs;
    DynCache *previous, *next; /* all caches, for reset() */
    DynCache *root;    /* the optimised function's cache when this is a resume function's; borrowed; NULL: none (any more) */
    PyObject *code;    /* strong */
    bool known;        /* a root of known.c's: it may become loose (hold.c), */
    bool loose;        /* and is: it is tightened before it is used */
    PyObject *globals; /* … of the functions that it serves; borrowed */
    DYN_VEC(DynAnchor *)
    anchors; /* … of what it refers to */
    DynSignature sig;
    DynOptions *options;
    DYN_VEC(DynEntry *)
    entries; /* the one that was hit last is first */
    DYN_VEC(DynResume)
    resumes;                 /* of a root */
    uint32_t nsrc, nsym;     /* the largest env of the entries */
    uint32_t refusals;       /* recordings of which nothing was kept */
    uint32_t without_arrays; /* … because there was no array work */
    uint32_t exceptions;     /* … because the call raised */
    DynReason for_nothing;   /* not OK: why nothing was kept of the last one, which was long and saw no array work; … */
    uint64_t kinds;          /* … and the kinds of what the call was given (dyn_loops_kinds) */
    DYN_VEC(DynTold)
    told;           /* of a root that somebody asked for: what those refusals were, each once */
    DynReason dead; /* not OK: why nothing will be recorded any more */
    bool recording; /* a thread is at it */
    bool idle;      /* no entries and dead: calls go straight through */
    bool need_arrays;
    bool loud;          /* of a root: blocks of np.errstate are entered for real */
    bool raises;        /* of a root: exceptions are raised for real */
    bool sure;          /* of a root: an entry guessed, and was wrong (DynRecording.sure) */
    bool works;         /* a recording saw array work in it, whatever became of that: its calls are counted */
    bool stands_in;     /* of a root: one of its segments ends in front of a call that is made in another way (DynCapture) */
    bool names_vary;    /* an entry was missed by the keys of a dict or by a string (DynRecording.names_vary) */
    bool quiet;         /* nobody asked for this function: no warnings */
    uint32_t return_at; /* a RETURN_VALUE of the code, DYN_NONE: none; looked up by the hook when it needs it first */
    bool return_known;
    uint32_t replaced;  /* entries that went because no call found them, when there were as many as there may be */
    uint32_t useless;   /* calls in a row for which there was no entry, and nothing to record */
    DynProfit profit;   /* of a root */
    DynWatched watched; /* what its calls took while somebody watched */
    DynLoopProfit loop; /* of a resume function's cache, where a loop comes round to it */
    DynLoops *loops;    /* of a root: the function's loops as native regions (loops.h), or NULL … */
    bool loops_known;   /* … and it was asked whether it has any */
    bool loops_on;      /* calls run in loop code */
    bool calls_known;   /* it was asked whether it calls doors by name, for which there is loop code in any case */
};
DYN_HIDDEN DynCache *dyn_cache_new(PyObject *code, DynOptions *options); /* NULL with MemoryError */
DYN_HIDDEN void dyn_cache_incref(DynCache *c);
DYN_HIDDEN void dyn_cache_decref(DynCache *c);
DYN_HIDDEN void dyn_cache_clear(DynCache *c); /* forgets entries, resume functions and refusals */
DYN_HIDDEN void dyn_cache_reset_all(void);
/* What users call the function of a cache, or of the cache that it resumes, and where it stands: of a module's calls that is the
 * module's class. Borrowed. */
typedef struct DynTitle {
    PyObject *name, *file;
    int line;
} DynTitle;
DYN_HIDDEN DynTitle dyn_cache_title(const DynCache *c);
DYN_HIDDEN DynCache *dyn_cache_first(void);                 /* of all, by `next` */
DYN_HIDDEN void dyn_cache_sweep_resumes(DynCache *root);    /* resume functions of dead code that nobody goes on in */
DYN_HIDDEN bool dyn_cache_remove(DynCache *c, DynEntry *e); /* false: it isn't there any more */
/* May it have one more entry? If it has as many as it may, one that no call ever found goes; but only so many in all. */
DYN_HIDDEN bool dyn_cache_make_room(DynCache *c, int64_t limit);
DYN_HIDDEN int dyn_cache_add(DynCache *c, DynEntry *e); /* takes e over; -1: memory, e is dropped */
/* May a call with these slots be recorded? Counts and logs a limit that is reached. */
DYN_HIDDEN bool dyn_cache_may_record(DynCache *c, PyObject *const *slots);
/* Is it known without binding these arguments that there is no entry for them, nor will be? Calls without arrays gave nothing. */
DYN_HIDDEN bool dyn_cache_passes(const DynCache *c, PyObject *const *args, size_t n);
#define DYN_CACHE_TRIES 3 /* recordings that give nothing: there are no more */
/* … without looking at arguments */
static inline bool dyn_cache_wants_arrays(const DynCache *c) { return c->without_arrays >= DYN_CACHE_TRIES; }
DYN_HIDDEN void dyn_cache_refused(DynCache *c, DynReason why);
/* A long recording came to nothing: if there was no array work, no other call without arrays is recorded. */
DYN_HIDDEN void dyn_cache_try_no_more(DynCache *c);
DYN_HIDDEN void dyn_cache_want_arrays(
    DynCache *c);                                  /* calls without arrays gain nothing by recording, as is seen without trying */
DYN_HIDDEN void dyn_cache_begin_anew(DynCache *c); /* nothing is known of calls without arrays any more */
/* Calls go straight through where nothing will be recorded. Where that is because of gradients, it ends when they are off. */
static inline bool dyn_cache_may_wake(const DynCache *c) { return c->dead == DYN_R_REQUIRES_GRAD; }
DYN_HIDDEN bool dyn_cache_wakes(DynCache *c);
static inline bool dyn_cache_idles(DynCache *c) { return c->idle && !dyn_cache_wakes(c); }
/* Keeps why something of a root's function wasn't captured, and where, for dyn_cache_refusals: a list of str, or NULL. */
DYN_HIDDEN void dyn_cache_tell(DynCache *root, DynReason why, const DynPlace *place);
DYN_HIDDEN PyObject *dyn_cache_refusals(const DynCache *root);
DYN_HIDDEN int dyn_cache_traverse(DynCache *c, visitproc visit, void *arg);
/* The resume function for a break of `code`: borrowed row, made when it isn't there; NULL without an exception. func: the
 * function that is recorded. */
DYN_HIDDEN DynResume *dyn_cache_resume(DynCache *root, const DynCode *code, const DynFrameShape *shape, PyObject *func);
DYN_HIDDEN DynCache *dyn_cache_of_code(DynCache *root, PyObject *code, DynResume **row); /* root's or a resume function's; NULL */
DYN_HIDDEN DynEntry *dyn_entry_new(DynCapture *capture); /* takes capture over, on failure too (NULL) */
static inline void dyn_entry_incref(DynEntry *e) { e->refs++; }
DYN_HIDDEN void dyn_entry_decref(DynEntry *e);
/* As dyn_capture_slots: places of references to what isn't dynoc's own. */
DYN_HIDDEN int dyn_entry_slots(DynEntry *e, DynVisitSlot *visit, void *arg);

/* ---- memory.c: what entries hold, counted for config.memory_limit. */
extern DYN_HIDDEN uint32_t dyn_memory_now;                /* moves on with each entry that is made */
DYN_HIDDEN void dyn_memory_entered(DynEntry *e);          /* it is in a cache now; others may go, and run destructors */
DYN_HIDDEN void dyn_memory_left(const DynEntry *e);       /* it is being freed */
DYN_HIDDEN PyObject *dyn_memory_parts(const DynEntry *e); /* dict of bytes */
DYN_HIDDEN PyObject *dyn_memory_report(void);             /* dict: entries, entry_bytes, objects, object_bytes, limit */

/* ---- hit.c: a call that an entry serves. */
typedef enum DynHitKind {
    DYN_HIT_MISS,   /* no entry fits */
    DYN_HIT_PLAIN,  /* an entry fits, and the function is to be run as plain Python */
    DYN_HIT_WAIT,   /* … until there is native code: go on with dyn_hit_break. entry */
    DYN_HIT_ASIDE,  /* … up to the end of the loop: as WAIT */
    DYN_HIT_AROUND, /* … up to the instruction that the entry ends in front of: as WAIT */
    DYN_HIT_RETURN, /* result: new reference, or NULL with an exception */
    DYN_HIT_BREAK,  /* entry, state: go on with dyn_hit_break */
    DYN_HIT_LEAVE   /* leave: go on with dyn_leave_call or dyn_leave_fill */
} DynHitKind;
static inline bool dyn_hit_serves(DynHitKind kind) {
    return kind == DYN_HIT_RETURN || kind == DYN_HIT_BREAK || kind == DYN_HIT_LEAVE;
}
static inline bool dyn_hit_goes_on(DynHitKind kind) { /* with dyn_hit_break */
    return kind == DYN_HIT_BREAK || kind == DYN_HIT_WAIT || kind == DYN_HIT_ASIDE || kind == DYN_HIT_AROUND;
}
typedef struct DynLeave DynLeave;
typedef struct DynHit {
    DynHitKind kind;
    PyObject *result;
    DynEntry *entry; /* strong */
    PyObject *state; /* tuple, strong */
    DynLeave *leave;
} DynHit;
DYN_HIDDEN void dyn_hit_find(DynCache *c, PyObject *func, PyObject *const *slots, DynHit *out);
DYN_HIDDEN bool dyn_hit_fits(DynCache *c, PyObject *func, PyObject *const *slots); /* an entry's guards hold; nothing is run */
/* References of a caller that is gone in plain Python: dropped as soon as the frame that goes on has its own, so that `del` there
 * is the end of an object. */
typedef struct DynSpent {
    PyObject **at; /* entries may be NULL */
    size_t n;
} DynSpent;
static inline void dyn_spend(DynSpent s) {
    for (size_t i = 0; i < s.n; i++) {
        Py_CLEAR(s.at[i]);
    }
}
/* What rewritten code left to do when its frame is gone: a resume function and its arguments. */
typedef struct DynNext {
    PyObject *door; /* strong; NULL: nothing */
    PyObject *args; /* strong: tuple */
} DynNext;
/* Consumes entry and state. Where `next` is set, what is returned is to be dropped, and dyn_door_resume gives the result. */
DYN_HIDDEN PyObject *dyn_hit_break(DynHit *hit, PyObject *func, PyObject *const *slots, DynSpent spent, DynNext *next);
DYN_HIDDEN bool dyn_hit_is_starting(PyObject *func); /* the frame of a rewritten function that dyn_hit_break calls right now */
/* What rewritten code calls: first the runner, at its end the continuation, which drops `ndrop` arguments from `drop` on. */
DYN_HIDDEN PyObject *dyn_hit_runner_new(DynEntry *e);
DYN_HIDDEN void dyn_hit_runner_detach(PyObject *runner);
DYN_HIDDEN PyObject *dyn_hit_continuation_new(PyObject *door, uint32_t drop, uint32_t ndrop); /* door: borrowed, until: */
DYN_HIDDEN void dyn_hit_continuation_detach(PyObject *continuation);
DYN_HIDDEN PyObject *dyn_hit_function(PyObject *code, PyObject *func); /* of rewritten code, to run in func's place */
DYN_HIDDEN int dyn_hit_init(void);

/* ---- inner.c: what an outer frame calls, or operates on, where an inlined call is to go on in a resume function: whatever it is
 * given, the door is called with `args` (a tuple, taken over). more: what the instruction needs besides; may be NULL. */
DYN_HIDDEN PyObject *dyn_inner_new(PyObject *door, PyObject *args, PyObject *more);
DYN_HIDDEN int dyn_inner_init(void);

/* ---- rewrite.c: what is left of an entry's stretch in Python. func: a function whose code the cache is for. */
DYN_HIDDEN int dyn_rewrite_break(DynCache *cache, DynEntry *e, PyObject *func); /* -1 with an exception */
DYN_HIDDEN int dyn_rewrite_pass(DynCache *cache, DynEntry *e, PyObject *func);  /* -1, perhaps with an exception */
/* The plain code is there, or was made; false: there can be none. */
DYN_HIDDEN bool dyn_rewrite_waiting(DynEntry *e);
DYN_HIDDEN bool dyn_rewrite_aside(DynEntry *e);
DYN_HIDDEN bool dyn_rewrite_around(DynEntry *e);
DYN_HIDDEN void dyn_plain_free(DynPlain *p);

/* ---- way_out.c: what waiting code asks at its trap: go on in the resume functions of `e`, because there is native code by now?
 * before: the frame's state there; copied. code: the waiting code, which will hold the object; borrowed. */
DYN_HIDDEN PyObject *dyn_way_out_new(DynEntry *e, uint32_t nslots, const DynFrameShape *before);
DYN_HIDDEN void dyn_way_out_at_once(PyObject *way_out); /* whether or not there is native code */
DYN_HIDDEN void dyn_way_out_belongs_to(PyObject *way_out, PyObject *code);
DYN_HIDDEN void dyn_way_out_detach(PyObject *way_out); /* the entry is gone: no */
DYN_HIDDEN int dyn_way_out_init(void);

/* ---- hit_eager.c: back end "eager": every node in program order, by NumPy. writes: into an array that came in. */
DYN_HIDDEN DynRunStatus dyn_hit_eager(const DynGraph *g, DynRun *run, bool writes);
DYN_HIDDEN int dyn_hit_evaluate(DynRecording *r, const DynGraph *g, const bool *needed, PyObject **values); /* record.h */
/* The extern call `at` didn't end well: the graph is left in front of it, if whoever goes on there can make it again, or raise
 * its exception. */
DYN_HIDDEN DynRunStatus dyn_hit_leave(const DynGraph *g, DynRun *run, PyObject **values, DynExternStatus status, uint32_t at);

/* ---- hit_handed.c: a back end that gets the graph. Hand it on, with the arrays of the call that was recorded; failure: the
 * entry runs as plain Python, and -1 with an exception where failures are not suppressed. */
DYN_HIDDEN int dyn_hand_on(DynEntry *e, const DynOptions *o);
DYN_HIDDEN DynRunStatus dyn_hit_handed(const DynEntry *e, DynRun *run);

/* ---- door.c */
extern DYN_HIDDEN PyTypeObject DynDoor_Type;
DYN_HIDDEN PyObject *dyn_door_new(PyObject *func, DynCache *cache,
                                  bool frozen);         /* NULL with an exception; takes no references over */
DYN_HIDDEN PyObject *dyn_door_function(PyObject *door); /* borrowed */
DYN_HIDDEN PyObject **dyn_door_function_at(PyObject *door);
DYN_HIDDEN DynCache *dyn_door_cache(PyObject *door); /* borrowed */
/* A call of func, whose code the cache is for: served by an entry, recorded, or made as plain Python. */
DYN_HIDDEN PyObject *dyn_door_call(DynCache *c, PyObject *func, bool frozen, PyObject *const *args, size_t nargsf,
                                   PyObject *kwnames);
/* A tool traces the thread: it sees plain Python. That is counted, told of the cache unless it is NULL, and said once in a
 * process. */
DYN_HIDDEN void dyn_door_step_aside(PyThreadState *ts, DynCache *c);
/* Go on in a resume function, and in the one that this leaves to do, to the end of the function. Takes both references over; the
 * items of the tuple are dropped on the way. */
DYN_HIDDEN PyObject *dyn_door_resume(DynNext next);
/* The result of dyn_hit_break, or of what it left to do. */
static inline PyObject *dyn_door_finish(PyObject *result, DynNext next) {
    if (next.door == NULL) {
        return result;
    }
    Py_DECREF(result);
    return dyn_door_resume(next);
}
DYN_HIDDEN int dyn_door_init(PyObject *module);

/* ---- pyentry.c */
DYN_HIDDEN PyObject *dyn_pyentry_list(DynCache *c); /* list of Entry: the cache's, then its resume functions' */
DYN_HIDDEN PyObject *dyn_pyentry_new(DynEntry *e);  /* takes its own reference */
DYN_HIDDEN int dyn_pyentry_init(PyObject *module);

/* ---- compile.c: the pipeline. Takes the capture over. No exception is left. *made: a new reference to the entry, or NULL. */
DYN_HIDDEN bool dyn_compile_is_inexact(const DynGraph *g); /* is there a node whose bits may differ from eager's? */
DYN_HIDDEN void dyn_compile(DynCache *root, DynCapture *capture, PyObject *func, DynEntry **made);

/* ---- debug.c: what the pipeline made, in logs and in the debug folder. No exception is left. */
typedef struct DynDump {
    const DynEntry *entry;
    const DynConfig *config;
    DynStr graph, python, loops[3], guards, bytecode, source; /* loops: after lower, fuse, schedule and plan */
    DynStr story;                                             /* what was fused, what wasn't, and why */
    DynStr program;                                           /* kernels.c: the source, and what times it */
    DynStr calls;                                             /* of other functions: calls.txt */
} DynDump;
DYN_HIDDEN bool dyn_debug_wanted(const DynConfig *config, DynLog log);
DYN_HIDDEN void dyn_debug_entry(DynDump *d);
DYN_HIDDEN void dyn_debug_free(DynDump *d);
DYN_HIDDEN void dyn_debug_program(const DynCapture *c, DynStr *out); /* the graph as a Python program */
DYN_HIDDEN void dyn_debug_calls(const DynCapture *c, DynStr *out);   /* its calls of other functions, to be made again */
DYN_HIDDEN void dyn_debug_disassemble(PyObject *code, DynStr *out);
/* The text as a str, and one more str of a list (which is dropped, with an exception, where memory is out); both take it over. */
DYN_HIDDEN PyObject *dyn_debug_text(DynStr *s);
DYN_HIDDEN void dyn_debug_add_text(PyObject **list, DynStr *s);
DYN_HIDDEN void dyn_debug_end(const DynCapture *c); /* the break at which it ends */
DYN_HIDDEN void dyn_debug_break(DynReason why, const DynPlace *place, const char *what);

/* ---- region_door.c */
DYN_HIDDEN int dyn_region_door_init(PyObject *module); /* functions by which tests reach regions */
#endif
