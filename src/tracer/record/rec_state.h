/* rec_state.h: the recorder's state, shared by record.c and the rec_*.c handler files, and by nobody else. */
#ifndef DYN_REC_STATE_H
#define DYN_REC_STATE_H
#include "base/arrays.h"
#include "base/log.h"
#include "ir/place.h"
#include "tracer/record/rec.h"
#include "tracer/record/record.h"

/* What a handler says about the instruction it was given. Real stack and shadow stack move separately: a handler that ran the
 * operation for real but has no shadow for what came out returns BREAK and leaves the shadow stack as it was before. */
typedef enum Step {
    STEP_NEXT,   /* It ran, and RecFrame.next is where to go on. */
    STEP_BREAK,  /* It ran for real, and shadows still show the state before it: a graph break, with the reason in DynRec.why. */
    STEP_BAIL,   /* It didn't run and nothing changed: CPython goes on in front of it. The reason is in DynRec.why. */
    STEP_CUT,    /* It didn't run: a graph break in front of it, and it is the next segment's first. */
    STEP_RETURN, /* It didn't run: the frame is handed back at this RETURN_*, and the result's shadow is on the shadow stack. */
    STEP_ERROR   /* It ran and raised: the exception is set. */
} Step;

typedef struct RecFrame RecFrame;

/* How far the recording is at some time: what was recorded since is undone by rec_rollback. */
typedef struct RecMark {
    uint32_t nodes;     /* Nodes of the graph. */
    uint32_t guards;    /* Guards of the capture. */
    uint32_t effects;   /* Effects of the segment. */
    uint32_t born;      /* Shadows: older ones were born before the mark. */
    uint64_t mutations; /* Changes of shadows of containers. */
    DynVal *handled;    /* The exception that was handled. */
} RecMark;

/* An instruction that makes calls which are recorded as a part of it: a graph that is left in them is left in front of it. */
typedef struct RecSeal {
    RecFrame *frame; /* The frame whose running instruction it is, or NULL: there is none. */
    RecMark mark;    /* The recording in front of the calls. */
} RecSeal;

/* The shadow of a container, number `born`, was changed; no older one has been since. */
typedef struct RecChange {
    uint64_t at;   /* DynRec.mutations, this change included. */
    uint32_t born; /* The shadow's number. */
} RecChange;

typedef struct RecCall RecCall;
typedef struct RecGenerator RecGenerator;
typedef struct RecGave { /* what a call's node gave */
    uint32_t node;
    PyObject *value; /* A copy, as it may be written later; the recording keeps it. */
} RecGave;
struct RecFrame {
    DynFrame *f;             /* CPython's frame. */
    DynCode *code;           /* Its decoded code, owned by the recording. */
    PyObject **real;         /* The stack, from `nslots` on, while the frame is run here; locals stay in the frame. */
    DynVal **shadow;         /* The shadows of the locals, then of the stack. */
    uint32_t nslots;         /* Slots, closure cells included. */
    uint32_t nall;           /* Slots and the deepest stack. */
    uint32_t sp;             /* The first free index of `real`. */
    uint32_t ssp;            /* The first free index of `shadow`. */
    uint32_t pc;             /* The running canonical instruction. */
    uint32_t next;           /* The canonical instruction that follows it. */
    uint32_t func_source;    /* The function object's source; DYN_NONE: made while recording. */
    RecFrame *outer;         /* The frame that called, or NULL. */
    RecGenerator *generator; /* The generator whose frame it is, or NULL. */
    uint32_t *trips;     /* By instruction: how often this backward jump was taken since its loop began; behind them: in all. */
    uint32_t trip_nodes; /* Nodes at the last backward jump. */
    RecMark began;       /* The recording when an inlined frame began. */
    DynCode *told;  /* The code that a resume code resumes: states of the frame are described as states of that. Else `code`. */
    uint32_t moved; /* Code units by which the instructions of `told` are moved in `code`. */
    uint32_t ntold; /* Slots of `told`. */
    PyObject *loop_code; /* Strong: the frame goes on in it, at `loop_at`; or NULL. */
    uint32_t loop_at;
    bool library;         /* It is the standard library's, called without arrays: a break in it is its caller's. */
    bool whole;           /* It is recorded to its end or not at all: a function of NumPy's, which can be a node. */
    uint32_t most_trips;  /* More than REC_MAX_TRIPS of one of its loops are recorded one behind the other; 0: of none. */
    bool forgives;        /* Its running instruction goes on where what it asks for raises AttributeError. */
    bool cut;             /* There is to be a graph break in front of the next instruction. */
    uint32_t place_pc;    /* The instruction that `place` is of. */
    uint32_t place;       /* Its row among the places of capture place_of. */
    DynCapture *place_of; /* The capture that has the row, or NULL. */
    DynVal **saved;       /* The shadow before the running instruction, where that may have to be a break after all. */
    RecMark instr;        /* The recording before its running instruction. */
    uint32_t instr_ssp;   /* ssp before its running instruction. */
    PyObject *asks;       /* The Python function that the running instruction asks, and whose answer is its result; or NULL. */
    DynVal *more;         /* What inner.c needs besides, or NULL. */
};

/* An inlined call on its way through the hook: the frame that it leads to is recorded. */
typedef struct RecPending {
    PyObject *func;       /* The Python function; borrowed. NULL: there is no such call. */
    DynVal *func_val;     /* Its shadow. */
    uint32_t func_source; /* Where it is found; DYN_NONE: it was made while recording. */
    DynVal **slots;       /* The shadows of the callee's slots. */
    uint32_t nslots;      /* How many slots there are. */
    bool whole;           /* See RecFrame. */
    DynVal *iterator;     /* Of a generator expression that asks an __iter__ in Python: what that gave. Else NULL. */
} RecPending;

/* Where a generator stands between two steps. */
typedef struct RecGeneratorState {
    bool started;    /* Its first step was made. */
    bool finished;   /* It returned or raised. */
    uint32_t at;     /* The code unit that runs next. */
    uint32_t ssp;    /* The first free index of `shadow`. */
    DynVal **shadow; /* The shadows of its slots and stack. */
} RecGeneratorState;

/* A generator made while recording. Its frame is recorded at each step that a handler asks for (which reads what it gave then),
 * and lost when it takes a step that nobody asked for. */
struct RecGenerator {
    DynRec *rec;              /* The recording that made it. */
    PyObject *weak;           /* A weak reference, owned: the generator dies when it would without dynoc. */
    DynFrame *f;              /* Its frame. */
    PyObject *globals;        /* Of its function; the segment that made it keeps them. */
    DynVal *v;                /* Its shadow. */
    DynVal *func_val;         /* The shadow of its function. */
    RecFrame frame;           /* Its frame, as the recorder runs it. */
    bool old;                 /* It was made in an earlier segment: it is lost, but still watched. */
    bool asked;               /* A handler asks for the step that it makes. */
    bool lost;                /* It took a step that nobody asked for, or one that couldn't be recorded. */
    bool dead;                /* The object is gone. */
    bool taken;               /* The running instruction made a step of it. */
    bool returned;            /* Its last step was its last. */
    DynVal *handled;          /* The exception that its frame handles, or NULL. */
    RecGeneratorState now;    /* Where it stands. */
    RecGeneratorState before; /* Where it stood in front of the running instruction, if that took a step. */
    DynOperand sent;          /* What the step that is asked for gives to the frame. */
    DynVal *gave;             /* The shadow of what it yielded or returned, or NULL. */
};

/* Makes the next step of an iterator: a new reference in *item, NULL at its end or with an exception. Gives the item's shadow;
 * NULL: unknown. */
typedef DynVal *(*RecLazyStep)(DynRec *r, DynVal *v, PyObject **item);

/* An iterator in C whose steps are made here one by one: what it takes from others, and which functions it calls. */
typedef struct RecLazy {
    PyObject *type;                  /* Its type, borrowed for ever. */
    RecLazyStep step;                /* Makes its next step. */
    DynOperand func;                 /* The function that it calls, or the generator of its polyfill; v NULL: none. */
    uint32_t n;                      /* How many iterators it takes from. */
    DynOperand *from;                /* The iterators; the recording keeps them. */
    int64_t start;                   /* The first number of enumerate, count and islice; of product: how many pools there are. */
    int64_t stop;                    /* Where islice ends (-1: nowhere), how often repeat gives; of product: how many times. */
    int64_t stride;                  /* The step of islice and count. */
    bool ended;                      /* islice: it is at its end. */
    bool strict;                     /* zip: with strict=True. */
    uint32_t at;                     /* chain: the iterator that it takes from. */
    DynVal **listed;                 /* product and its kind: all that it gives. */
    uint32_t nlisted;                /* How many that are. */
    DynOperand *pools;               /* product and its kind: what it is made of; a polyfill's arguments. */
    PyObject *object;                /* The real iterator; the recording keeps it. */
    PyObject *feeder;                /* What the real one takes from, where that isn't `from` itself; the recording keeps it. */
    const struct Polyfill *polyfill; /* The polyfill that does the same, or NULL. */
    uint32_t nargs;                  /* A polyfill's arguments, those by name last. */
    PyObject *kwnames;               /* The names of those; the recording keeps them. NULL: there are none. */
    struct RecShared *shared;        /* What rec_shared.c knows of it, or NULL. */
} RecLazy;

/* A real object met through a source, and its shadow. */
typedef struct RecSeen {
    PyObject *real; /* The object; the shadow's source keeps it. */
    DynVal *v;      /* Its shadow. */
} RecSeen;

/* As DynEffect, in shadows. */
typedef struct RecEffect {
    uint8_t kind;   /* DynEffectKind. */
    PyObject *obj;  /* By kind; the recording keeps it. */
    uint32_t n;     /* How many operands it has. */
    DynVal **items; /* Its operands. */
    DynVal *gives;  /* CALL: the shadow of what it gives, or NULL: nobody wants that. */
} RecEffect;

/* One recording. What is said to be a segment's is emptied when the next one begins. */
struct DynRec {
    /* The call that is recorded. */
    PyThreadState *ts;       /* The thread. */
    DynRecording *req;       /* What the hook asked for, and its answers. */
    struct DynRec *previous; /* An outer recording of this thread, which an opaque call led out of. */
    uint64_t serial;         /* Which recording of the process it is, from 1. */
    DynArena arena;          /* Shadows, and what handlers make. */

    /* Segments. */
    DynCapture *cap; /* The segment that is recorded; NULL: recording is over, and frames only wind down. */
    DYN_VEC(DynCapture *)
    done;             /* Finished segments, which are handed over at the end. */
    RecFrame *base;   /* Where this segment began: frames above it are inlined calls. */
    bool between;     /* cap is NULL because the segment ended with an inlined call, whose caller's next is about to begin. */
    bool over;        /* Nothing more is recorded. */
    bool closed;      /* Because a segment of this recording already begins at this place. */
    bool served;      /* Because an entry already begins at this place. */
    bool delivered;   /* A segment with array work was handed over. */
    PyObject *resume; /* The resume code that does the rest of the frame's call; strong. NULL: CPython does. */
    uint32_t forced;  /* ninstrs where a segment began last: a test does not cut again there. */

    /* Frames and inlined calls. */
    RecFrame *top;             /* The running frame. */
    RecPending pending;        /* The inlined call that is on its way. */
    DynVal *result;            /* The shadow of what the last inlined callee returned. */
    PyObject *stand_in;        /* What the running call instruction is made with if it breaks; borrowed; NULL: what it has. */
    bool callee_bailed;        /* The last inlined callee wasn't recorded to its end. */
    DynReason callee_cause;    /* Why the innermost callee bailed out, */
    const char *callee_detail; /* what exactly (as `detail`), */
    DYN_VEC(DynPlace)
    callee_way;     /* and where, innermost first, with the calls in callees that lead there; strong. */
    uint32_t depth; /* How many inlined frames there are. */
    DYN_VEC(DynCode *)
    codes; /* The decoded code of this recording. */
    DYN_VEC(PyCodeObject *)
    lost;         /* Of functions that were too long: calls of them are opaque from then on. `codes` has them. */
    RecSeal seal; /* The instruction that makes sealed calls. */

    /* Why an instruction isn't recorded. */
    DynReason why;      /* The reason. */
    const char *detail; /* What exactly: static text, or a name in the arena; NULL: nothing more is known. */

    /* What shadows stand for. */
    DYN_VEC(PyObject *)
    keep; /* Strong references that shadows point to. */
    DYN_VEC(RecSeen)
    seen; /* The segment's arrays and containers that came in. */
    DYN_VEC(DynVal *)
    by_source; /* The segment's shadow for each source, NULL where there is none yet. */
    DYN_VEC(DynVal *)
    by_node; /* The segment's shadow for each node's array. */
    DYN_VEC(RecGave)
    gave;         /* Where the segment derives: what calls gave. */
    bool derives; /* A gradient of what the segment records will be asked for (rec_gradient.c). */
    DYN_VEC(uint32_t)
    written; /* The segment's inputs that were written into. */
    DYN_VEC(RecChange)
    changes;            /* Of shadows that a break finds as they are; each is older than those behind it. */
    uint64_t mutations; /* How many changes of shadows of containers there were. */
    uint32_t nvals;     /* How many shadows were made. */
    uint32_t nesting;   /* How deep in containers the walk over a value is. */
    bool behind;        /* Shadows of objects that outlive the call no longer say what the effects make of them. */
    bool spoiled;       /* Shadows of containers no longer say what they held before the running instruction. */

    /* Effects and recipes. */
    DYN_VEC(RecEffect)
    effects; /* The segment's. */
    DYN_VEC(RecSeen)
    touched;          /* The segment's objects that outlive the call and were changed. */
    uint32_t stamp;   /* Of the rebuild that recipes are being made for. */
    bool lasting;     /* Guards that are made now stay when the callee that made them bails out. */
    bool on_stack;    /* The recipe that is being made is of a stack value: no name is bound to it. */
    bool stamp_nodes; /* OUTPUT recipes name nodes (snapshots), not positions in graph.outputs. */

    /* Generators and iterators. */
    DYN_VEC(RecGenerator *)
    generators;          /* The segment's, in the arena. */
    bool generator_died; /* The running instruction ended one that ran code then. */
    RecFrame *taking;    /* The frame whose running instruction takes items from iterators, or NULL. */
    bool take_lost;      /* It took one that isn't known. */
    RecMark take;        /* The recording before it took the first. */
    uint32_t ntaken;     /* How many items it took so far. */
    RecSeal take_seal;   /* What was sealed before. */
    DYN_VEC(DynVal *)
    taken; /* The iterators that it took from, or that it ended. */

    /* Exceptions. */
    DynVal *error;        /* The exception that is raised and follows from guards, or NULL. */
    PyObject *error_real; /* The exception itself; the recording keeps it. */
    bool error_again;     /* It was raised before, and has its traceback. */
    DynVal *handled;      /* The exception that is handled; NULL: the one when the segment began. */

    /* Limits. */
    uint32_t ninstrs;      /* Instructions that were recorded. */
    uint32_t ninstrs_node; /* ninstrs at the last new node. */
    uint32_t foreign;      /* While a function of C is called, more than 0, … */
    uint32_t nstrangers;   /* … and the program's functions that CPython called in such: what is known may be so no more. */
    uint32_t ninstrs_lost; /* Of them those in inlined calls that came to nothing, which no limit counts. */
    uint32_t nnodes_seen;  /* Nodes of the segment, when an instruction last began. */
    uint32_t nnodes;       /* Nodes of all segments, then. */

    int torch;               /* PyTorch's state when the segment began; -1: there is none, or nothing of it may be captured. */
    int torch_casts;         /* Of that state what autocast is now, behind the calls that were recorded. */
    int64_t torch_autocasts; /* dyn_torch_autocasts() when the segment began. */
};

/* ---- rec_values.c */
DYN_HIDDEN DynVal *rec_new(DynRec *r, DynValKind kind);
DYN_HIDDEN DynVal *rec_new_slice(DynRec *r, DynValKind kind, DynVal *start, DynVal *stop, DynVal *step); /* or a range */
DYN_HIDDEN DynVal *rec_new_cell(DynRec *r, DynVal *content);
DYN_HIDDEN void rec_changed(DynRec *r, const DynVal *v);   /* the shadow of a container or iterator was changed */
DYN_HIDDEN DynVal *rec_source(DynRec *r, uint32_t source); /* the shadow for a source, new or old */
DYN_HIDDEN DynVal *rec_source_dict(DynRec *r, PyObject *dict, PyObject *key);
DYN_HIDDEN int rec_keep(DynRec *r, PyObject *o);                           /* new strong reference until the recording ends */
DYN_HIDDEN DynVal *rec_object(DynRec *r, PyObject *obj);                   /* DV_CONST whatever it is: keys of dicts */
DYN_HIDDEN DynVal *rec_fail(DynRec *r, DynReason why, const char *detail); /* NULL */
/* v, the shadow of what a real call gave. Where that is unknown, and the call didn't raise (result NULL), the reason is set. */
DYN_HIDDEN DynVal *rec_known_or(DynRec *r, DynVal *v, const PyObject *result, DynReason why, const char *detail);
DYN_HIDDEN int rec_guard(DynRec *r, DynGuardKind kind, uint32_t source, uint32_t source2, int64_t number, PyObject *obj);
DYN_HIDDEN int rec_guard_id(DynRec *r, DynVal *v, PyObject *real); /* v is this very object at every call; v becomes DV_CONST */
DYN_HIDDEN void rec_become_const(DynVal *v, PyObject *real);       /* it is kept alive already */
DYN_HIDDEN void rec_become_opaque(DynVal *v);                      /* nothing is known of it any more */
DYN_HIDDEN uint32_t rec_constant_sym(DynRec *r, PyObject *o);      /* of a number; DYN_NONE: it is none, or beyond 64 bits */
DYN_HIDDEN int rec_guard_key_class(DynRec *r, PyObject *key);      /* how members of enums are hashed, their class says */
DYN_HIDDEN bool rec_is_array(DynVal *v);
DYN_HIDDEN int rec_push_item(DynRec *r, DynVal *seq, DynVal *item);
DYN_HIDDEN DynVal *rec_dict_find(DynVal *dict, PyObject *key, uint32_t *position);
DYN_HIDDEN void rec_dict_drop(DynVal *dict, uint32_t at);                           /* the pair at a position */
DYN_HIDDEN int rec_dict_set(DynRec *r, DynVal *dict, PyObject *key, DynVal *value); /* a plain key that is burnt in */
DYN_HIDDEN bool rec_plain_key(PyObject *o);
DYN_HIDDEN bool rec_is_parameter(PyObject *o);           /* of torch.nn's very type */
DYN_HIDDEN bool rec_burn_key(DynRec *r, DynOperand key); /* is it a plain key or a parameter, the same at every call now? */
DYN_HIDDEN int rec_dict_put(DynRec *r, DynVal *dict, DynOperand key, DynVal *value); /* of such a key, as what lists show it */
DYN_HIDDEN DynVal *rec_wrap_fresh(DynRec *r, PyObject *o); /* as rec_wrap_result, new containers of such values too */
DYN_HIDDEN DynVal *rec_wrap_result(DynRec *r,
                                   PyObject *real); /* constant numbers, str, None … as shadow; NULL for anything else */

/* ---- questions that many handlers ask */
/* An int, float or bool, of no class that derives from these. */
static inline bool rec_is_exact_number(PyObject *o) { return PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o); }
static inline bool rec_both_are(DynOperand a, DynOperand b, DynValKind kind) { return a.v->kind == kind && b.v->kind == kind; }
static inline bool rec_one_is(DynOperand a, DynOperand b, DynValKind kind) { return a.v->kind == kind || b.v->kind == kind; }
static inline bool rec_is_text(PyObject *o) { return PyUnicode_CheckExact(o) || PyBytes_CheckExact(o); }
static inline bool rec_is_basic(PyObject *o) {
    return o == Py_None || o == Py_Ellipsis || rec_is_text(o) || rec_is_exact_number(o);
}
/* A tuple of any class, or a list: PySequence_Fast_GET_ITEM reads it. */
static inline bool rec_is_sequence(PyObject *o) { return PyTuple_Check(o) || PyList_CheckExact(o); }
static inline bool rec_is_array_or_flat(const DynVal *v) { return v->kind == DV_ARRAY || v->kind == DV_ATTR; }
static inline bool rec_resolve_both(DynRec *r, DynOperand a, DynOperand b) {
    return dyn_rec_resolve(r, a.v, a.real) == 0 && dyn_rec_resolve(r, b.v, b.real) == 0;
}
static inline bool rec_burn_both(DynRec *r, DynOperand a, DynOperand b) {
    return dyn_rec_burn(r, a.v, a.real) == 0 && dyn_rec_burn(r, b.v, b.real) == 0;
}

/* ---- rec_resolve.c */
DYN_HIDDEN bool rec_is_fixed(PyObject *o); /* functions, types, modules, dtypes …: one stands for itself, guarded by identity */
DYN_HIDDEN int rec_resolve_npscalar(DynRec *r, DynVal *v,
                                    PyObject *o); /* a NumPy scalar at a source; -1: not of a captured type */
/* Do input `node`, which is written, and input `other` lie apart? -1: no, and why is set. */
DYN_HIDDEN int rec_lie_apart(DynRec *r, uint32_t node, uint32_t other);
/* … and guards that input `node` lies apart from whatever other inputs there will be, as long as there is one. */
DYN_HIDDEN int rec_guard_apart(DynRec *r, uint32_t node);
/* The running instruction is a break, for it isn't supported: r->why becomes what is the matter with one of its `n` operands,
 * where that is an array or tensor that isn't captured. */
DYN_HIDDEN void rec_blame_operands(DynRec *r, RecFrame *f, uint32_t n);

/* ---- columns of shadow.def: rec_burn.c, rec_truth.c, rec_items.c, rec_recipe.c, rec_check.c */
DYN_HIDDEN bool rec_is_constant(DynVal *v);                     /* DV_CONST, constant symbols, tuples of these */
DYN_HIDDEN int rec_truth(DynRec *r, DynVal *v, PyObject *real); /* 1, 0: known under guards; -1: not (why is set) */
/* The real truth, where rec_truth has said `known`: asking again could warn again, as of NotImplemented. -1 with an exception. */
static inline int rec_real_truth(int known, PyObject *real) { return known >= 0 ? known : PyObject_IsTrue(real); }
DYN_HIDDEN DynVal *rec_iterate(DynRec *r, DynVal *v, PyObject *real); /* what an iterator is made over, or NULL */
DYN_HIDDEN int rec_items(DynRec *r, DynVal *v, PyObject *real, DynVal ***items, uint32_t *n); /* items of an iterable; -1 */
/* Of a dict, a view of one, a set or a deque: how many items an iteration gives, and item number i (NULL: no memory), without a
 * list of all of them, which each step of a loop would make anew. */
DYN_HIDDEN uint32_t rec_live_count(DynVal *v);
DYN_HIDDEN DynVal *rec_live_item(DynRec *r, DynVal *v, uint32_t i);
DYN_HIDDEN uint32_t rec_recipe(DynRec *r, DynVal *v);                  /* DYN_NONE: can't be rebuilt */
DYN_HIDDEN void rec_check_shadows(const DynRec *r, const RecFrame *f); /* behind an instruction; nothing in release builds */

/* ---- rec_walk.c: dicts of names that vary */
DYN_HIDDEN int rec_resolve_walked(DynRec *r, DynVal *v, PyObject *real); /* dyn_rec_resolve for who needs no key of a dict */
DYN_HIDDEN int rec_resolve_for_attribute(DynRec *r, DynOperand o, PyObject *name);
DYN_HIDDEN int rec_pin_keys(DynRec *r, DynVal *v);                        /* keys of a dict, or of a view's, become constants */
DYN_HIDDEN DynVal *rec_key_of(DynRec *r, const DynVal *dict, uint32_t i); /* key number i */
DYN_HIDDEN DynVal *rec_item_by_name(DynRec *r, DynOperand o, DynOperand key);    /* o[key] for any key; NULL: another rule's */
DYN_HIDDEN DynVal *rec_item_from_end(DynRec *r, DynOperand o, DynOperand index); /* … of a list of any length */

/* ---- rec_except.c */
DYN_HIDDEN void rec_known_error(DynRec *r, DynVal *v); /* what was just raised follows from guards; v: its shadow or NULL */
DYN_HIDDEN bool rec_catch(DynRec *r, RecFrame *f, const DynInstr *in); /* a known error has a handler: f->pc stands at it */
/* The real frame is unwound to the handler: what is set lies on its stack. It has to have one, and its shadows are not touched.
 */
DYN_HIDDEN void rec_unwind(DynRec *r, RecFrame *f, const DynInstr *in, const DynHandler *h);
DYN_HIDDEN bool rec_is_handled(const DynRec *r,
                               const RecFrame *f);      /* by the frame, or one of the segment's that it was called from */
DYN_HIDDEN DynVal *rec_handled(DynRec *r, RecFrame *f); /* the exception that the frame handles now */

/* ---- rec_torch_module.c, rec_torch_state.c */
/* The __iter__ of a ModuleList, Sequential …, which lists its modules and does nothing else; v NULL: it is none. */
DYN_HIDDEN DynOperand rec_torch_container_iter(DynRec *r, DynOperand o);
DYN_HIDDEN bool rec_torch_is_module(PyObject *o); /* an instance of torch.nn.Module */
/* What torch.nn.Module.__getattr__ (`getattr`; else NULL) gives of a module that came in: a parameter, buffer or module of it. */
DYN_HIDDEN DynVal *rec_torch_module_attr(DynRec *r, PyObject *getattr, DynOperand module, PyObject *name);
DYN_HIDDEN void rec_torch_checkpoint(DynRec *r, RecCall *c); /* the function in place of torch.utils.checkpoint, if it may be */
/* Does reading that attribute raise, now and under the guards, as none of the module's dicts has the name? */
DYN_HIDDEN bool rec_torch_module_lacks(DynRec *r, PyObject *getattr, DynOperand module, PyObject *name);
/* Neither the class nor the tensor itself has an attribute of this name, now and at every call. */
DYN_HIDDEN bool rec_tensor_lacks(DynRec *r, DynOperand tensor, PyObject *name);
DYN_HIDDEN void rec_torch_segment(DynRec *r); /* a segment begins */
/* Does the call ask whether something overrides torch's functions, where only the mode does that says where tensors are made? It
 * is answered no: with yes PyTorch's functions in Python hand themselves to that mode, which calls them once more. */
DYN_HIDDEN bool rec_torch_asks_by_mode(DynRec *r, const RecCall *c, const DynBinding *b);

/* ---- rec_effects.c */
/* An object was changed: a fresh one's shadow says so; of one that outlives the call the change is an effect, to be made again at
 * later calls. v's shadow shows the state after it already. 0, or -1: it can't be (why is set): the instruction is a break. */
DYN_HIDDEN int rec_effect(DynRec *r, DynOperand target, DynEffectKind kind, PyObject *obj, uint32_t n, DynVal *const *items);
/* A class's attribute was stored. What a segment stored in the class (name NULL: under any name) last; NULL: nothing. */
DYN_HIDDEN int rec_class_effect(DynRec *r, PyTypeObject *type, PyObject *name, DynVal *value);
DYN_HIDDEN DynVal *rec_stored_in_class(const DynRec *r, PyTypeObject *type, PyObject *name);
DYN_HIDDEN int rec_saw(DynRec *r, PyObject *real, DynVal *v); /* an object that came in: no other that was changed is it */
DYN_HIDDEN int rec_saw_part(DynRec *r, DynOperand o, PyTypeObject *type); /* … a container of which one item is asked for */
DYN_HIDDEN int rec_same_object(DynRec *r, DynVal *v, DynVal *other);      /* two shadows of one object */
DYN_HIDDEN int rec_effects_done(DynRec *r, DynEffects *out); /* recipes of all effects so far, in the rebuild under way */
DYN_HIDDEN void rec_forget_effects(DynRec *r, uint32_t n);   /* from n on */
DYN_HIDDEN uint32_t rec_found_at(const DynVal *v);           /* the source of the object itself, or DYN_NONE */

DYN_HIDDEN bool rec_has_recipe(DynRec *r, DynVal *v); /* as things are now */

/* ---- rec_foreign.c */
DYN_HIDDEN bool rec_is_foreign(const DynExtern *x); /* Is it the call of a function of C, or what makes an argument for one? */

/* ---- rec_marked.c */
DYN_HIDDEN bool rec_is_marked(PyObject *callable);  /* is it not to be looked into? */
DYN_HIDDEN bool rec_is_autograd_class(PyObject *o); /* a class of torch.autograd.Function's */

/* ---- rec_context.c */
DYN_HIDDEN int rec_context_init(void);
/* The effect `at` of this segment, and another that stands behind it, take each other back: neither is made at later calls. */
DYN_HIDDEN bool rec_effect_is_undone(const DynRec *r, uint32_t at);

/* ---- rec_stack.c */
DYN_HIDDEN bool rec_error_has_one_text(DynRec *r, DynOperand o); /* … of an exception */
DYN_HIDDEN bool rec_has_one_text(DynRec *r, DynOperand o);       /* str(o) is the same at every call: ints are burnt in */
DYN_HIDDEN int rec_store_global(DynRec *r, PyObject *dict, PyObject *name, DynVal *value); /* after it ran */

#define REC_MAX_DEPTH 100 /* of containers in containers */
#define REC_MAX_TRIPS DYN_UNROLLED_TRIPS
#define REC_MAX_MODULES 1000 /* … that runs over the layers of a network */
/* Is it the first of two that are one for CPython (STORE_FAST_STORE_FAST)? No frame can stand between them. */
DYN_HIDDEN bool rec_is_first_half(const RecFrame *f, const DynInstr *in);
/* A break in this frame can be resumed: it is not inlined, or all that called it stand at calls that can be made again. */
DYN_HIDDEN bool rec_may_break(DynRec *r, const RecFrame *f);
/* f's running instruction is about to call func, a special method of its operands: a break in there can be resumed, if the
 * instruction is of a kind that gives what func gives. A call of a class asks __init__, and gives `more`. */
DYN_HIDDEN bool rec_is_library_call(const RecFrame *f); /* of a frame that has just begun */
DYN_HIDDEN int rec_break_init(void);
DYN_HIDDEN void rec_asks(RecFrame *f, PyObject *func, DynVal *more);
DYN_HIDDEN bool rec_is_call(const DynInstr *in);

/* ---- record.c */
DYN_HIDDEN DynCode *rec_code(DynRec *r, PyCodeObject *code);

/* ---- rec_mark.c */
DYN_HIDDEN RecMark rec_mark(const DynRec *r);
/* Undoes what was recorded since the mark: nodes (but what came in stays), guards that aren't lasting, effects, and the exception
 * that is handled. Shadows of containers can't be undone: rec_changed_since tells whether they would have to be. */
DYN_HIDDEN void rec_rollback(DynRec *r, const RecMark *m);
/* A call came to nothing since the mark, and its nodes stay for the instruction to undo: the flags say what shadows lost. */
DYN_HIDDEN void rec_spoil(DynRec *r, const RecMark *m);
/* The shadow of a container that is older than the mark, and that a break finds as it is, was changed since. */
DYN_HIDDEN bool rec_changed_since(const DynRec *r, const RecMark *m);
DYN_HIDDEN void rec_note_change(DynRec *r, const DynVal *v);

DYN_HIDDEN int rec_frame_open(DynRec *r, RecFrame *fr, DynFrame *f);
DYN_HIDDEN PyObject *rec_run_frame(DynRec *r, RecFrame *f); /* to its end, or to where it has to be handed back */

/* ---- rec_generator.c */
DYN_HIDDEN DynOperand rec_iter_method(DynRec *r, DynOperand o); /* Its __iter__, where that is written in Python. */
DYN_HIDDEN DynVal *rec_plain_iterator(DynRec *r, DynOperand o); /* of an object without such an __iter__; NULL: unknown */
DYN_HIDDEN DynVal *rec_new_generator(DynRec *r, PyObject *object, const RecPending *call);
DYN_HIDDEN bool rec_may_make_generator(DynRec *r, DynVal *func, uint32_t source);
/* One step of it: next(), or what .send(value) does. As rec_take; at its end with the exception that it ends with. */
DYN_HIDDEN PyObject *rec_generator_take(DynRec *r, DynOperand o, DynOperand sent, DynVal **v);
DYN_HIDDEN bool rec_generator_close(DynRec *r, DynOperand o); /* before o.close(): it will run no code; it is finished then */
DYN_HIDDEN void rec_generators_settle(DynRec *r, bool known); /* the steps that the instruction made are made, or taken back */
/* Generators that somebody will have to finish are in what the rebuild under way makes. */
DYN_HIDDEN int rec_generators_told(DynRec *r);
/* There is one that will run code when it dies. */
DYN_HIDDEN bool rec_generators_guarded(const DynRec *r);
DYN_HIDDEN bool rec_generator_may_guard(DynRec *r, DynVal *v); /* It runs code where it dies at one of its yields. */
DYN_HIDDEN uint32_t rec_generator_recipe(DynRec *r, DynVal *v);
DYN_HIDDEN bool rec_generator_finished(DynRec *r, DynVal *v);                 /* as recipes tell it */
DYN_HIDDEN DynVal *rec_generator_local(DynRec *r, DynVal *v, PyObject *name); /* NULL: unbound, or none of that name */
DYN_HIDDEN RecGenerator *rec_generator_of(DynRec *r, DynFrame *f);            /* whose steps are asked for, or NULL */
DYN_HIDDEN PyObject *rec_generator_step(DynRec *r, RecGenerator *g);
DYN_HIDDEN DynVal *rec_closure_cell(DynRec *r, RecFrame *f, uint32_t i, PyObject *cell);
DYN_HIDDEN void rec_yielded(DynRec *r, RecFrame *f, const DynInstr *in); /* the generator's frame is at a yield or its return */
DYN_HIDDEN void rec_forget_generators(DynRec *r, bool all);              /* a segment ends; all: the recording does */

/* ---- rec_flow.c */
/* Shadow of the next item of a DV_ITER, or of the end (item NULL): what has to hold for it is guarded. -1: unknown. */
DYN_HIDDEN int rec_next_item(DynRec *r, DynVal *it, PyObject *item, DynVal **out);

/* ---- rec_take.c: items are taken from iterators of every kind */
/* The next item of an iterator, made for real; a new reference. NULL: it is at its end, or raised (PyErr_Occurred). *v: its
 * shadow; NULL: unknown, at the end too (take_lost). The first one begins a taking, which ends with the instruction: what was
 * taken is taken back where that is a break. */
DYN_HIDDEN PyObject *rec_take(DynRec *r, DynOperand it, DynVal **v);
/* The same by .send(value), of a generator; an end that has a value leaves StopIteration set. */
DYN_HIDDEN PyObject *rec_take_sent(DynRec *r, DynOperand it, DynOperand sent, DynVal **v);
DYN_HIDDEN void rec_taken_so_far(DynRec *r); /* nodes that the instruction made itself, before others are made in frames */
DYN_HIDDEN void rec_begin_taking(DynRec *r);
DYN_HIDDEN void rec_end_taking(DynRec *r, RecFrame *f, Step s);                   /* after each instruction that took something */
DYN_HIDDEN void rec_advance(DynRec *r, DynVal *it);                               /* an item was taken */
DYN_HIDDEN void rec_ended(DynRec *r, DynVal *it);                                 /* it has no more */
DYN_HIDDEN DynVal *rec_take_failed(DynRec *r, DynReason why, const char *detail); /* NULL */
/* iter(o): v NULL when nothing is known, and nothing was done. */
DYN_HIDDEN DynOperand rec_get_iter(DynRec *r, DynOperand o);
/* For an iterator in C that takes of it. v NULL too: it is a generator that runs code when it dies. The recording, which keeps
 * what such an iterator takes of, would have it die late. */
DYN_HIDDEN DynOperand rec_get_iter_to_hold(DynRec *r, DynOperand o);
DYN_HIDDEN bool rec_is_iterator(const DynVal *v);
/* All items of an iterator, as a list: new reference (NULL: raised) and its shadow (NULL: unknown). */
DYN_HIDDEN PyObject *rec_take_all(DynRec *r, DynOperand it, DynVal **v);
/* The same up to the first item that isn't known, or that `stops` (NULL: none) says true of: the taking has failed then. It is
 * given the first of all items (NULL: this is it) and the one that was taken. */
typedef bool (*RecStops)(PyObject *first, DynOperand item);
DYN_HIDDEN PyObject *rec_take_until(DynRec *r, DynOperand it, DynVal **v, RecStops stops);

/* ---- rec_lazy.c, rec_tap.c */
DYN_HIDDEN DynVal *rec_behind_tap(DynRec *r, DynVal *v); /* what it is a tap of; v itself where it is none */
DYN_HIDDEN uint32_t rec_lazy_recipe(DynRec *r, DynVal *v);
DYN_HIDDEN int rec_lazy_init(void);

/* ---- for handlers */
typedef Step (*RecHandler)(DynRec *r, RecFrame *f, const DynInstr *in);
static inline PyObject *rec_local(const RecFrame *f, uint32_t slot) { return dyn_frame_get(f->f, slot); }
/* Name number i of the frame's code, as attributes and globals have it; borrowed. */
static inline PyObject *rec_name(const RecFrame *f, uint32_t i) { return PyTuple_GET_ITEM(f->code->code->co_names, i); }
static inline PyObject **real_top(RecFrame *f, uint32_t k) { return &f->real[f->sp - k]; }
static inline DynVal **shadow_top(RecFrame *f, uint32_t k) { return &f->shadow[f->ssp - k]; }
static inline DynOperand operand(RecFrame *f, uint32_t k) { return (DynOperand){*shadow_top(f, k), *real_top(f, k)}; }
static inline void push_real(RecFrame *f, PyObject *o) { f->real[f->sp++] = o; }
/* A with statement's __exit__, bound, takes the place of the manager, whose count is the caller's from now on. */
static inline void put_exit(RecFrame *f, PyObject *leave) {
    f->real[f->sp - 1] = leave;
    if (dyn_with_keeps_two()) {
        push_real(f, NULL);
    }
}
static inline void push_shadow(RecFrame *f, DynVal *v) { f->shadow[f->ssp++] = v; }
static inline Step step_bail(DynRec *r, DynReason why, const char *detail) {
    r->why = why;
    r->detail = detail;
    return STEP_BAIL;
}
/* Take npop values off the real stack (oldest reference dropped last). */
DYN_HIDDEN void rec_drop(RecFrame *f, uint32_t npop);
/* The usual end of a handler: npop operands give `result` (owned; NULL: the exception is set) with shadow v (NULL: a break). */
DYN_HIDDEN Step rec_commit(DynRec *r, RecFrame *f, uint32_t npop, PyObject *result, DynVal *v);
/* tuple(t), t * 1 and s.copy() give their operand itself, as the guards say of what v shows: its shadow then, else v. */
DYN_HIDDEN DynVal *rec_itself(DynVal *v, PyObject *result, PyObject *real, DynVal *operand);
/* The same for handlers that leave nothing on the stack: ok: 0 ran, shadow known; 1 ran, break; -1 raised. */
DYN_HIDDEN Step rec_commit_none(DynRec *r, RecFrame *f, uint32_t npop, int status);
extern DYN_HIDDEN const RecHandler rec_handlers[DYN_I_COUNT];

/* ---- handlers: rec_<name> for each row of opcodes.def that says RECORDED, in the file of its family */
#define DYN_HANDLER_RECORDED(name) DYN_HIDDEN Step rec_##name(DynRec *r, RecFrame *f, const DynInstr *in);
#define DYN_HANDLER_LEFT(name)
#define OPCODE(name, stack, flow, breaks, effects, handler, what) DYN_HANDLER_##handler(name)
#include "tracer/bytecode/opcodes.def"
#undef OPCODE
#undef DYN_HANDLER_RECORDED
#undef DYN_HANDLER_LEFT

/* ---- rec_call.c, rec_builtins.c, rec_methods.c */
/* Where a Python function is found, its code guarded to be what it is. DYN_NONE: made inside, or it can't be told. */
DYN_HIDDEN uint32_t rec_function_source(DynRec *r, DynVal *v, PyObject *func);
struct RecCall { /* a call with its operands laid out: self first when there is one */
    DynOperand callable;
    DynOperand *args; /* npos positional, then the keyword values */
    uint32_t npos, nkw;
    PyObject *kwnames;            /* tuple or NULL */
    PyObject *packed, *packed_kw; /* f(*packed, **packed_kw): the callable may get the very tuple; NULL: not so called */
    bool direct;                  /* it is what the running instruction is there for */
    const RecCall *leads_to;      /* what it comes to, and is then stored as an attribute (rec_dispatch.c); or NULL */
    PyObject *of, *name;          /* it computes this attribute of an object that has a __getattr__, too; borrowed; or NULL */
};
/* ---- rec_bind.c */
/* The shadows of func's slots for the call c; slots is empty before. fv: func's shadow, func_source: where it is found. 0, or -1:
 * the call doesn't fit the signature (CPython will raise), or a default isn't known. */
DYN_HIDDEN int rec_bind_slots(DynRec *r, PyObject *func, DynVal *fv, uint32_t func_source, const RecCall *c, DynVal **slots);
DYN_HIDDEN int rec_call_init(void);
/* ---- rec_object.c */
typedef enum RecAttr {
    REC_ATTR_VALUE,   /* its shadow is *v; reading it for real runs no Python code */
    REC_ATTR_CALL,    /* what the call *c gives */
    REC_ATTR_SOURCE,  /* an object that came in: the attribute has a source of its own */
    REC_ATTR_MISSING, /* there is none, and reading it for real says so */
    REC_ATTR_UNKNOWN
} RecAttr;
DYN_HIDDEN int rec_object_init(void);
/* The class has the bases that it has now, and what it has now under special names, and (or NULL) under `name`. */
DYN_HIDDEN int rec_guard_class(DynRec *r, PyTypeObject *type, PyObject *name);
DYN_HIDDEN int rec_guard_whole_class(DynRec *r, PyTypeObject *type); /* the class and its bases are as they are now */
DYN_HIDDEN bool rec_is_instance(DynOperand o);                       /* of a Python class, fresh or found at a source */
DYN_HIDDEN bool rec_plain_layout(PyTypeObject *type);
DYN_HIDDEN bool rec_is_enum_member(PyObject *o);
DYN_HIDDEN RecAttr rec_find_attr(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v);
/* How an attribute of something that was looked at is stored; value.real NULL: deleted. */
DYN_HIDDEN RecAttr rec_way_to_store(DynRec *r, DynOperand o, PyObject *name, DynOperand value, RecCall *c);
DYN_HIDDEN int rec_stored_attr(DynRec *r, DynOperand o, PyObject *name, DynVal *value); /* after it ran; NULL: deleted */
DYN_HIDDEN int rec_set_cause(DynRec *r, DynVal *error, DynVal *cause);                  /* raise … from …, after it ran */
DYN_HIDDEN int rec_set_args(DynRec *r, DynVal *v, const DynOperand *args, uint32_t n); /* the arguments that an exception keeps */
DYN_HIDDEN DynVal *rec_wrap_attr(DynRec *r, PyTypeObject *type, PyObject *value);
/* What the segment stored under the name in the class where `type` finds it, guarded. NULL: nothing, or (-1 in *status) it can't
 * be guarded. */
DYN_HIDDEN DynVal *rec_stored_class_attr(DynRec *r, PyTypeObject *type, PyObject *name, int *status);
/* May a class's attribute be stored behind the graph? Asked before it is stored. */
DYN_HIDDEN bool rec_stores_in_class(DynRec *r, DynOperand o, PyObject *name, PyObject *value);
DYN_HIDDEN DynVal *rec_class_attr(DynRec *r, DynOperand o, PyObject *name, PyObject *result);
DYN_HIDDEN void rec_attribute_raised(PyObject *o, PyObject *name);
/* The call raised AttributeError: what the object's __getattr__ gives. NULL: that raised. */
DYN_HIDDEN PyObject *rec_ask_again(const RecCall *c);
DYN_HIDDEN DynVal *rec_new_super(DynRec *r, PyObject *real, DynOperand self);
DYN_HIDDEN RecAttr rec_super_attr(DynRec *r, PyTypeObject *type, DynOperand self, PyObject *name, RecCall *c, DynVal **v);

/* What the object's own dict has for a name: VALUE, MISSING or UNKNOWN. */
DYN_HIDDEN RecAttr rec_own_attr(DynRec *r, DynOperand o, PyObject *name, DynVal **v);

/* ---- rec_vars.c */
DYN_HIDDEN DynVal *rec_vars(DynRec *r, DynOperand o); /* o.__dict__ */
DYN_HIDDEN DynVal *rec_var_item(DynRec *r, DynOperand vars, DynOperand name);
DYN_HIDDEN bool rec_has_var(DynRec *r, DynOperand vars, DynOperand name); /* is it known whether it does */
DYN_HIDDEN PyTypeObject *rec_dict_base(PyTypeObject *type); /* dict or OrderedDict, which a Python class derives from; NULL */
DYN_HIDDEN int rec_dict_made(DynRec *r, DynVal *v, PyTypeObject *base); /* v: a new instance of such a class, which is empty */
DYN_HIDDEN DynOperand rec_contents(DynOperand o);                       /* the dict that o is; or o itself */
DYN_HIDDEN bool rec_is_held(DynOperand o);                              /* an instance of such a class that came in */
/* … a key of it: its value, or *missing. NULL and not missing: it can't be told. */
DYN_HIDDEN DynVal *rec_held_key(DynRec *r, DynOperand o, DynOperand key, bool *missing);

/* What a class's attribute `descr` gives an object, when reading it is a value or a call of a Python function. */
DYN_HIDDEN RecAttr rec_bound_attr(DynRec *r, PyObject *descr, DynOperand o, RecCall *c, DynVal **v);

/* ---- rec_collections.c */
DYN_HIDDEN int rec_collections_init(void);
DYN_HIDDEN PyObject *rec_part(PyObject *o, PyObject *name); /* of a property and the like, borrowed: it lives in it; no error */
DYN_HIDDEN bool rec_is_collection(PyObject *o);             /* one that can come in: an OrderedDict, a defaultdict, a deque */
DYN_HIDDEN int rec_resolve_collection(DynRec *r, DynVal *v, PyObject *o);
DYN_HIDDEN int rec_burn_listed(DynRec *r, DynVal *v, PyObject *real); /* a deque, a view of a dict */
DYN_HIDDEN DynVal *rec_new_view(DynRec *r, DynVal *dict, DynView shows);
DYN_HIDDEN DynVal *rec_view_item(DynRec *r, DynVal *view, uint32_t i); /* item number i; NULL: no memory */
/* What an iterator, or a view, shows as it is now: a dict, set or deque; NULL: something else. */
DYN_HIDDEN DynVal *rec_live_container(DynVal *v);
DYN_HIDDEN uint32_t rec_live_state(DynVal *v); /* That container's, or the sum of those of all that an iterator was made of. */
/* A call with the list of what its first argument, a deque, a view or a tuple of another class, has now: *list is a new
 * reference. */
DYN_HIDDEN bool rec_listed_call(DynRec *r, const RecCall *c, RecCall *out, PyObject **list);
DYN_HIDDEN DynVal *rec_collection_attr(DynVal *v, PyObject *name); /* default_factory, maxlen; NULL: something else */
DYN_HIDDEN DynVal *rec_counter_method(DynRec *r, DynOperand o, PyObject *name); /* bound to a Counter; NULL: something else */
DYN_HIDDEN DynVal *rec_wrap_set(DynRec *r, PyObject *o);
/* In which order items have to be added to a new set for it to list them so: a tuple, or NULL. Leaves no exception. */
DYN_HIDDEN PyObject *rec_set_order(PyObject *listed);
/* A key that a dict of these makes when it is asked for: true: done, with *result (NULL: raised) and its shadow. */
DYN_HIDDEN bool rec_missing_item(DynRec *r, DynOperand o, DynOperand index, PyObject **result, DynVal **v);

/* ---- rec_enum.c */
DYN_HIDDEN int rec_enum_init(void);
DYN_HIDDEN bool rec_is_enum_class(DynOperand o);
DYN_HIDDEN bool rec_is_enum_key(PyObject *o); /* a member that is hashed and compared as members are: by no code of the user's */
DYN_HIDDEN bool rec_shows_as_enum(PyObject *o); /* a member whose str() and repr() are the enum module's */
DYN_HIDDEN DynVal *rec_enum_item(DynRec *r, DynOperand o, DynOperand index, PyObject *result);
DYN_HIDDEN int rec_enum_members(DynRec *r, DynOperand o, DynVal ***items, uint32_t *n);
/* After an operator ("or", "contains"; b.v NULL: "invert") of members ran. NULL: it isn't one, or not known. */
DYN_HIDDEN DynVal *rec_enum_operator(DynRec *r, const char *name, DynOperand a, DynOperand b, PyObject *result);
DYN_HIDDEN RecAttr rec_enum_attr(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v);

/* ---- rec_compare.c */
DYN_HIDDEN bool rec_compares_as_tuple(DynOperand o);
/* As containers compare items, one object is equal to itself: 1, 0: known under guards, and no Python code ran; -1: not. */
DYN_HIDDEN int rec_items_equal(DynRec *r, DynOperand a, DynOperand b);
DYN_HIDDEN DynVal *rec_compare_sequences(DynRec *r, int cmp, DynOperand a, DynOperand b, PyObject *result);

/* ---- rec_sort.c */
DYN_HIDDEN int rec_list_reordered(DynRec *r, DynOperand list, DynVal **items); /* as many, after it ran */
DYN_HIDDEN DynVal **rec_permuted(DynRec *r, DynVal *const *items, PyObject *const *before, uint32_t n, PyObject *list);

/* ---- rec_named.c */
DYN_HIDDEN int rec_named_init(void);
DYN_HIDDEN bool rec_is_named_type(PyTypeObject *type); /* a tuple with fields and methods, whose operators are tuple's */
DYN_HIDDEN RecAttr rec_named_attr(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v);

/* ---- rec_protocol.c: true or STEP: done, with *result (NULL: raised) and its shadow (NULL: unknown); false: nothing ran */
DYN_HIDDEN DynOperand rec_special(DynRec *r, DynOperand o, const char *name);
DYN_HIDDEN const char *rec_operator_name(int nb);
DYN_HIDDEN bool rec_operator(DynRec *r, int nb, bool inplace, DynOperand a, DynOperand b, PyObject **result, DynVal **v);
DYN_HIDDEN bool rec_comparison(DynRec *r, int cmp, DynOperand a, DynOperand b, PyObject **result, DynVal **v);
DYN_HIDDEN bool rec_unary_operator(DynRec *r, const char *name, DynOperand a, PyObject **result, DynVal **v);
/* Is a key in a set that came in and was not looked at otherwise: 1 or 0, which is guarded; -1: it can't be told so. */
DYN_HIDDEN int rec_member_of_set(DynRec *r, DynOperand key, DynOperand set);
DYN_HIDDEN bool rec_length(DynRec *r, DynOperand o, PyObject **result, DynVal **v);
DYN_HIDDEN int rec_instance_truth(DynRec *r, DynOperand o, bool *known);
DYN_HIDDEN bool rec_membership(DynRec *r, DynOperand item, DynOperand in, PyObject **result, DynVal **v);
DYN_HIDDEN Step rec_enter(DynRec *r, RecFrame *f);

/* ---- rec_ops.c: operators, made for real: a new reference in *result (NULL: raised) and its shadow (NULL: a break) */
DYN_HIDDEN DynVal *rec_binary(DynRec *r, int nb, bool inplace, DynOperand a, DynOperand b, PyObject **result);
DYN_HIDDEN DynVal *rec_unary(DynRec *r, int opcode, DynOperand a, PyObject **result);
DYN_HIDDEN DynVal *rec_truth_value(DynRec *r, bool negate, DynOperand a, PyObject **result);
DYN_HIDDEN DynVal *rec_compare(DynRec *r, int cmp, DynOperand a, DynOperand b, PyObject **result);
DYN_HIDDEN DynVal *rec_contains(DynRec *r, bool negate, DynOperand a, DynOperand b, PyObject **result);
DYN_HIDDEN DynVal *rec_subscript(DynRec *r, DynOperand o, DynOperand index, DynOperand *method, PyObject **result);
DYN_HIDDEN int rec_item_stored(DynRec *r, DynOperand o, DynOperand index, DynOperand value); /* after it ran: 0, or 1: a break */
DYN_HIDDEN RecAttr rec_attr_of(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v);
/* The object's attributes are those of its builtin type alone, which nobody can change. */
DYN_HIDDEN bool rec_has_fixed_attributes(DynOperand o);
DYN_HIDDEN bool rec_attr_is_missing(DynRec *r, DynOperand o, PyObject *name);
/* Does the symbol's hint equal what the real operation gave, bit for bit: else dynoc's arithmetic differs from Python's. */
DYN_HIDDEN bool rec_sym_agrees(DynRec *r, uint32_t sym, PyObject *o);
DYN_HIDDEN DynVal *rec_no_operator(DynRec *r);         /* NULL: operators on objects of this kind aren't known */
DYN_HIDDEN bool rec_foldable(DynRec *r, DynOperand o); /* the same at every call, and of a type without user code */
DYN_HIDDEN PyObject *rec_binary_real(int nb, bool inplace, PyObject *a, PyObject *b);
DYN_HIDDEN int rec_identity(DynRec *r, DynOperand a, DynOperand b); /* are they one object: 1, 0, or -1: not known */

/* ---- rec_operator.c */
DYN_HIDDEN DynVal *rec_item_of(DynRec *r, DynOperand o, DynOperand index, PyObject **result); /* o[index] */

/* ---- rec_partial.c */
DYN_HIDDEN int rec_partial_init(void);
DYN_HIDDEN bool rec_is_partial(PyObject *o); /* or a getter: of one of the types of which shadows are DV_PARTIAL */
DYN_HIDDEN int rec_resolve_partial(DynRec *r, DynVal *v, PyObject *o);
DYN_HIDDEN int rec_unwrap_partial(DynRec *r, RecCall *c);
DYN_HIDDEN uint32_t rec_partial_recipe(DynRec *r, DynVal *v);

/* ---- rec_function.c */
DYN_HIDDEN int rec_function_init(void);
DYN_HIDDEN DynVal *rec_function_attr(DynRec *r, DynOperand o, PyObject *name, PyObject *result);
DYN_HIDDEN uint32_t rec_wrapper_recipe(DynRec *r, uint32_t function, DynVal *wrapped); /* made to look like that one */

/* ---- rec_members.c */
DYN_HIDDEN int rec_has_member(DynRec *r, DynOperand o, DynOperand set); /* 1, 0: known under guards; -1: not */
DYN_HIDDEN int rec_add_member(DynRec *r, DynOperand set, DynOperand o); /* before it is made: 0, or -1: it isn't known */
DYN_HIDDEN uint32_t rec_members_recipe(DynRec *r, DynVal *v);

/* ---- rec_cached.c */
DYN_HIDDEN int rec_cached_init(void);

/* ---- rec_dispatch.c */
DYN_HIDDEN int rec_dispatch_init(void);
DYN_HIDDEN bool rec_is_cached_property(PyObject *descr);
DYN_HIDDEN int rec_cached_attr(DynRec *r, PyObject *descr, DynOperand o, PyObject *name, RecCall *c); /* -1: not known */

/* ---- rec_polyfill.c */
/* What dynoc.polyfills.<module> calls name: borrowed for ever; NULL: there is none. Leaves no exception. */
DYN_HIDDEN PyObject *rec_polyfill(const char *module, const char *name);

/* ---- sealed calls */
DYN_HIDDEN RecSeal rec_seal(DynRec *r);
DYN_HIDDEN void rec_unseal(DynRec *r, RecSeal outer);
DYN_HIDDEN DynVal *rec_call_function(DynRec *r, const RecCall *c, PyObject **result); /* a Python function, recorded into */

/* ---- rec_methods.c: changes of lists and dicts by operators, after they ran: 0 or NULL as rec_effect */
DYN_HIDDEN int rec_store_item(DynRec *r, DynOperand o, DynOperand index, DynOperand value);
DYN_HIDDEN int rec_delete_item(DynRec *r, DynOperand o, DynOperand index);
DYN_HIDDEN DynVal *rec_list_extended(DynRec *r, DynOperand list, DynOperand more);
DYN_HIDDEN DynVal *rec_set_changed(DynRec *r, int nb, DynOperand set, DynOperand other); /* by an in-place operator */
DYN_HIDDEN DynVal *rec_dict_union(DynRec *r, DynOperand a, DynOperand b, bool inplace);
DYN_HIDDEN int rec_dict_fill(DynRec *r, DynVal *into, const RecCall *c, uint32_t first); /* the arguments of dict() */
/* The shadow of a list or deque: an item put in as list.insert does it, and all items the other way round. */
DYN_HIDDEN int rec_insert_item(DynRec *r, DynVal *list, Py_ssize_t at, DynVal *v);
DYN_HIDDEN void rec_reverse_items(DynVal *v);
DYN_HIDDEN PyObject *rec_method_descriptor(PyObject *o); /* of a builtin type's bound method; borrowed, or NULL */
DYN_HIDDEN int rec_resolve_builtin_method(DynRec *r, DynVal *v, PyObject *o, PyObject *descr);

/* ---- rec_facts.c */
DYN_HIDDEN bool rec_is_fact(PyObject *o);                 /* a dtype, finfo …: its attributes never change */
DYN_HIDDEN DynVal *rec_wrap_fact(DynRec *r, PyObject *o); /* as rec_wrap_result, facts and what they have too */
DYN_HIDDEN bool rec_is_const_npscalar(DynVal *v, PyObject *o);
DYN_HIDDEN bool rec_is_quiet_npscalar(PyObject *o); /* a NumPy scalar that no floating-point warning can have come with */
/* The values of a node follow from Python numbers: those are burnt in. -1: there is array data in it. */
DYN_HIDDEN int rec_burn_node(DynRec *r, uint32_t node);
/* Its truth is better checked in the graph than guarded: sizes that change decide it, or no break is allowed. */
DYN_HIDDEN bool rec_may_guess(DynRec *r, uint32_t node);

/* ---- rec_complex.c: operands are complex numbers, or of a binary operator one of them a Python number. NULL: unknown. */
DYN_HIDDEN DynVal *rec_complex_binary(DynRec *r, int nb, DynOperand a, DynOperand b, PyObject *result);
DYN_HIDDEN DynVal *rec_complex_unary(DynRec *r, bool negative, DynOperand a, PyObject *result);
DYN_HIDDEN DynVal *rec_complex_attr(DynRec *r, DynOperand o, PyObject *name, PyObject *result);
DYN_HIDDEN DynVal *rec_complex_conjugate(DynRec *r, DynOperand o, PyObject *result);
DYN_HIDDEN DynVal *rec_complex_abs(DynRec *r, DynOperand o, PyObject *result);
DYN_HIDDEN DynVal *rec_complex_new(DynRec *r, const RecCall *c, PyObject *result);

/* ---- rec_references.c */
DYN_HIDDEN bool rec_sees_references(const DynRec *r, PyObject *callable); /* calling it: it may not be made while recording */
DYN_HIDDEN void rec_leave_outermost(DynRec *r);                           /* an inlined frame bails out before such a call */
DYN_HIDDEN void rec_let_go(DynRec *r); /* recording is over: drops what was kept; keeps the current exception */

/* ---- rec_errstate.c */
DYN_HIDDEN int rec_errstate_init(void);
DYN_HIDDEN bool rec_is_errstate_variable(const PyObject *var); /* the context variable behind np.errstate */
DYN_HIDDEN bool rec_is_open_list(DynRec *r, DynOperand o);
DYN_HIDDEN PyObject *rec_call_real(const RecCall *c);
DYN_HIDDEN const char *rec_callable_name(DynRec *r, PyObject *f); /* its own, or its type's; in the arena */
DYN_HIDDEN int rec_resolve_args(DynRec *r, const RecCall *c);     /* look at each before the call runs, which may change it */
/* The call c runs code that isn't recorded and that makes the call `inner` of a Python function, which is, and gives its result.
 */
DYN_HIDDEN DynVal *rec_call_behind(DynRec *r, const RecCall *c, const RecCall *inner, DynOperand func, PyObject **result);
/* A call that the running instruction makes on its way: as rec_finish_call, without a place on the stack. */
DYN_HIDDEN DynVal *rec_call_within(DynRec *r, DynOperand f, DynOperand *args, uint32_t npos, PyObject **result);
DYN_HIDDEN Step rec_finish_call(DynRec *r, RecFrame *f, RecCall *c,
                                uint32_t npop); /* make the call, and the result takes npop values' place */
/* The Python function that an instance's type has for a special method; v is NULL where it has none. */
DYN_HIDDEN DynOperand rec_type_method(DynRec *r, DynOperand o, const char *name);
DYN_HIDDEN DynVal *rec_attr(DynRec *r, DynOperand o, PyObject *name, PyObject *result);
DYN_HIDDEN DynVal *rec_subscr(DynRec *r, DynOperand o, DynOperand index, PyObject *result);
DYN_HIDDEN DynVal *rec_number_binary(DynRec *r, int nb, DynOperand a, DynOperand b, PyObject *result);
DYN_HIDDEN DynVal *rec_compare_values(DynRec *r, int cmp, DynOperand a, DynOperand b, PyObject *result);
DYN_HIDDEN DynVal *rec_new_iter(DynRec *r, DynVal *container); /* of what rec_iterate gave */
/* The first n rows of an array: shadows (NULL where unknown) and new references, each made by the subscript rule. -1: raised. */
DYN_HIDDEN Py_ssize_t rec_count_rows(PyObject *array); /* its length; -1: it has none */
DYN_HIDDEN int rec_array_rows(DynRec *r, DynOperand a, uint32_t n, DynVal **items, PyObject **real);
#endif
