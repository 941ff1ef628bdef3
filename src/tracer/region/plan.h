/* plan.h: what the files of this folder share: the planner, which follows canonical bytecode with types in place of objects and
 * writes region IR down. plan.c drives it; flow.c knows a function's loops; values.c makes values and instructions; the others
 * have the instructions of bytecode by family. Nobody else includes it. With the GIL; Python code never runs here. */
#ifndef DYN_PLAN_H
#define DYN_PLAN_H
#include "ir/region_ir.h"
#include "tracer/region/region.h"

#define PLAN_VALUES 192u                         /* The most values of all frames together. */
#define PLAN_FRAMES 8u                           /* The deepest inlined call. */
#define PLAN_VERSIONS 48u                        /* The most combinations of types that one place is compiled for. */
#define PLAN_BLOCKS 3000u                        /* The most blocks of a region. */
#define PLAN_INSTRS 40000u                       /* The most instructions. */
#define PLAN_SAMPLE 64u                          /* Items of a list whose kinds are looked at. */
#define PLAN_SHAPES 2000u                        /* The most shapes. */
#define PLAN_PARTS 8u                            /* The most items of a tuple that are told apart. */
#define PLAN_CLASSES 24u                         /* The most classes whose instances are looked into, */
#define PLAN_ATTRIBUTES 24u                      /* the most attributes of each, */
#define PLAN_SAMPLES 8u                          /* and the instances of each that are looked at. */
#define PLAN_LISTS 256u                          /* The lists that are told apart. */
#define PLAN_SITES 40u                           /* Places at which the loop makes lists. */
#define PLAN_INNER (PLAN_LISTS - PLAN_SITES - 1) /* In place of the number of a slot: it isn't in one. */
#define PLAN_ROUTINES 8u                         /* The most routines. */
#define PLAN_LITERAL 64u                         /* The most items of a list that np.array takes. */
#define PLAN_ITEMS 8u                            /* The most items of a tuple that is no object. */
#define PLAN_KEY_PART 5000u                      /* The parts of an instruction that are keys; those of a display begin at: */
#define PLAN_DISPLAY_PART 100u

/* A value on the way: what it is and in which registers. */
typedef struct PlanValue {
    DynRegionValue v;
    bool known;                    /* BOOL, INT and FLOAT: `number` is it, and there may be no register yet. */
    DynScalar number;              /* The number that is known. */
    const struct PlanValue *items; /* TUPLE: v.n of them, in the arena. */
    const int64_t *sizes;          /* Of an array: of each axis, as it was when the loop was planned, or more; -1: not known. */
    DynDtype of;                   /* EXPR: of its operands. */
} PlanValue;

/* What the values of a place in objects may be: the items of a list, the values of a dict, an attribute. Found by looking at what
 * is there when the loop is planned; what the loop stores there itself is added, and the loop planned anew. Shapes are numbered
 * from 1; 0 stands for one that isn't known. */
typedef struct PlanShape {
    uint16_t bits;  /* DYN_RL_* */
    uint8_t which;  /* The number of the slot (1 …) or place whose object has these contents; 0: it is within one. */
    uint8_t nparts; /* Contents of tuples that all have so many items: */
    uint16_t parts[PLAN_PARTS];   /* the shape of each. */
    uint16_t list, tuple, dict;   /* Of the contents of lists, tuples, and dicts and sets among the values. */
    uint16_t keys;                /* These are the contents of a dict or set: of its keys. */
    uint8_t classes[3], nclasses; /* Of the instances among the values. */
} PlanShape;

/* A class of instances. */
typedef struct PlanClass {
    PyTypeObject *type;               /* Borrowed: of its samples, or the plan's slots. */
    PyObject *samples[PLAN_SAMPLES];  /* Borrowed: reached from slots, and nothing runs meanwhile. */
    PyObject *names[PLAN_ATTRIBUTES]; /* Borrowed of code objects. */
    uint16_t shapes[PLAN_ATTRIBUTES];
    bool stored[PLAN_ATTRIBUTES]; /* The loop stores it. */
    uint32_t nsamples, nnames;
} PlanClass;

/* An instance in parts that has become an object, in a block. */
typedef struct PlanWhole {
    PlanValue made;
    uint32_t block, number;
} PlanWhole;

#define PLAN_LOOPS 12u /* The loops of a function that are told apart, and how deep in them a place is. */

/* A function's loops and what is alive where: found once for each code. */
typedef struct PlanLoops {
    const DynCode *c;
    uint32_t n, nslots;
    uint32_t heads[PLAN_LOOPS];
    uint8_t *in[PLAN_LOOPS]; /* For each instruction: it is part of the loop. */
    uint8_t *live;           /* For each instruction and slot: what it holds may be read. NULL: it isn't known. */
    bool reached[PLAN_LOOPS], closed[PLAN_LOOPS]; /* Of each loop: a way leads to its head; one leads back to it. */
} PlanLoops;

/* A slot that is empty, or something else, when its loop is reached first, and holds a value that isn't read when it is reached
 * again: both are told apart by a register, not by versions. */
typedef struct PlanHint {
    uint32_t at, slot;
    DynRegionValue value;
    char types[DYN_REGION_REGS + 1];
} PlanHint;

/* What a frame's code is followed for: a call, or a generator's items. */
typedef enum PlanDriver { PLAN_CALL, PLAN_SUM, PLAN_ANY, PLAN_ALL, PLAN_MIN, PLAN_MAX, PLAN_LIST, PLAN_FOR } PlanDriver;

/* What a call gives: what its function returns; of an __init__ the instance, which lies below its slots; that as a length; of a
 * __setitem__ nothing. */
typedef enum PlanReturns { PLAN_RESULT, PLAN_INSTANCE, PLAN_LENGTH, PLAN_NOTHING } PlanReturns;

/* A frame of the function, or of one that is inlined. */
typedef struct PlanFrame {
    const DynCode *c;
    PyObject *globals, *builtins; /* Borrowed of the function, which the region holds. */
    PyObject *closure;            /* Of an inlined function: its cells, or NULL. */
    uint32_t made;                /* Of one that was made for this call: 1 + its row of the plan's functions; else 0. */
    const PlanValue *cells;       /* Of a generator expression: its cells. */
    PyObject *function;           /* Borrowed: of one that goes through a generator (pauses.c), that one's; else NULL. */
    PlanDriver driver;
    uint32_t base;          /* Where its slots begin among the values; its stack lies behind them. */
    uint32_t at;            /* The canonical instruction that it is at: of a caller, its call. */
    uint8_t returns;        /* PlanReturns: what the call gives. */
    uint32_t below;         /* So many values below its slots are the call's: they are dropped when it returns. */
    const PlanLoops *loops; /* Of c. */
    /* The loops that it is in, from the outermost, and the block of each one's head that led here: trips of other types have
     * blocks of their own up to the next head, so that every loop is entered at its head alone. */
    uint32_t depth, heads[PLAN_LOOPS], blocks[PLAN_LOOPS];
} PlanFrame;

typedef struct PlanState {
    uint32_t nframes;
    uint32_t n;       /* How many values there are. */
    uint32_t routine; /* 1 + the number of the routine whose body this is in; its frame is the second. 0: of the region itself */
    bool logged;      /* An inlined call has stored something that is undone where the region is left before it ends. */
    PlanFrame frames[PLAN_FRAMES];
    PlanValue values[PLAN_VALUES];
} PlanState;

/* A place in bytecode with types: one block. */
typedef struct PlanVersion {
    PlanState *state; /* Its values lie in the registers that belong to their places. */
    uint32_t block;
    uint64_t hash;
    char *key;
    uint32_t nkey;
    uint32_t resume_at, resume_n; /* Within an inlined call: where CPython would go on. DYN_NONE: nowhere. */
    const uint8_t *from;          /* Which of the values is each of that place's, or PLAN_CONSTANT; NULL: the first are. */
    const uint32_t *constants;    /* What those are. */
} PlanVersion;

/* A result of NumPy's arithmetic and its operands. What isn't finite stays so in sums, products and dividends, so of a chain of
 * them only the last is looked at, and all of them where it isn't finite. */
typedef struct PlanDoubt {
    DynRegionOp op; /* DWARN or SWARN */
    uint32_t result, a, b;
    bool passed_on; /* A later one isn't finite where this isn't. */
} PlanDoubt;
#define PLAN_DOUBTS 32u

/* A function that was made for this call: borrowed of the frame, or of a cell; `of` as of facts. */
typedef struct PlanMade {
    PyObject *function;
    uint32_t of;
} PlanMade;

/* A function that is called natively, for arguments of these kinds: routines.c. What it gives is known when a way through it has
 * been followed to its end; until then nothing is planned behind its calls, and then all of it anew. */
typedef struct PlanRoutine {
    PyCodeObject *code; /* Borrowed of the function. */
    char *key;          /* The function, and the arguments' kinds. Attempts hand it on. */
    uint32_t nkey;
    bool gives, wanted;                /* It is known what: */
    uint8_t nitems;                    /* So many values in a tuple, or DYN_RK_COUNT … */
    DynRegionValue result[PLAN_PARTS]; /* … the first of these. Of their registers the types count, one after the other: */
    char types[DYN_ROUTINE_VALUES + 1];
    bool none[PLAN_PARTS]; /* It is None. */
    bool stores,
        unlogged;    /* It may have an effect, which is undone where it gives up; something was planned as if it had none. */
    uint32_t number; /* 1 + its number in the region; 0: this attempt hasn't come to it. */
} PlanRoutine;

typedef struct PlanSite {
    const PyCodeObject *code;
    uint32_t at, part; /* part: of tuples in a tuple, which */
} PlanSite;

typedef struct Plan {
    DynRegion *r;
    DynArena arena;
    const DynCode *c;
    PyObject *const *slots;     /* Of the frame, borrowed. */
    uint32_t header;            /* Canonical instruction. */
    uint8_t *in_loop;           /* For each canonical instruction: it is part of the loop. */
    DYN_VEC(PlanLoops *) loops; /* In the arena. */
    DYN_VEC(PlanHint) hints;
    DYN_VEC(PlanShape) shapes;  /* That of number 0 is nobody's. */
    uint16_t roots[PLAN_LISTS]; /* The shape of the contents of each list. */
    PlanClass classes[PLAN_CLASSES];
    uint32_t nclasses;
    DYN_VEC(PlanMade) made;
    DYN_VEC(PyObject *) known;      /* Borrowed: objects that come in in iterators and constants, … */
    DYN_VEC(uint32_t) known_shapes; /* … and the shapes of what is in them. */
    PlanSite sites[PLAN_SITES];     /* Where lists are made. */
    DYN_VEC(PlanSite) makers;       /* Instructions that make objects: sweeps.c. */
    uint32_t unswept;               /* Bit k: loop k of the frame itself has a jump back by now. */
    uint32_t nsites, part;
    bool stored_cells[PLAN_VALUES]; /* The loop stores to the cell in this slot. */
    bool ends[PLAN_LISTS];          /* Its variable gets another value. */
    unsigned unless;                /* DYN_UNLESS_*: what the loop is not to do. */
    bool last;                      /* No other attempt follows. */
    bool no_literals; /* A list that one instruction alone sees would have to be shown: lists are made as objects. */
    bool more_hints;  /* Some were found: planning it all anew makes less of it. */
    DYN_VEC(PlanVersion) versions;
    uint32_t next;             /* The first version whose block isn't written. */
    DYN_VEC(uint32_t) places;  /* Registers of places: see values.c. */
    DYN_VEC(uint16_t) ordered; /* Numbers of instances in parts, in the order in which a key comes to them. */
    DYN_VEC(PlanWhole) wholes;
    uint16_t nparts;                /* The next one's number. */
    DYN_VEC(DynCode *) codes;       /* Of inlined functions. */
    DYN_VEC(PyCodeObject *) opaque; /* Functions that can't be inlined. */
    DYN_VEC(PyCodeObject *) called; /* Functions that call themselves: routines. */
    DYN_VEC(PlanRoutine) routines;
    uint32_t gives_up;              /* The exit of routines, or DYN_NONE. */
    bool whole;                     /* It isn't a loop that is planned, but all of a function. */
    DYN_VEC(DynRegionValue) extras; /* Of objects that don't come in slots: their registers are assigned at entries alone. */
    PlanState s;                    /* The state at the instruction that is being followed. */
    uint32_t block;                 /* Where its instructions go. */
    PlanState resume;               /* The state of the frame itself at the last place from which nothing has had an effect. */
    uint32_t resume_at;             /* That place; DYN_NONE: within an inlined call something had one. */
    uint32_t resume_exit;           /* The exit there, when there is one. */
    bool resume_due; /* The next instruction that CPython can go on at is that place: an effect came in the middle of one. */
    PlanDoubt doubts[PLAN_DOUBTS]; /* Results since p->resume that NumPy may have to report on, and that weren't looked at. */
    uint32_t ndoubts;
    enum { PLAN_NOT_ASKED, PLAN_REPORTED, PLAN_IGNORED } overflow; /* What np.errstate says of it. */
    uint32_t ninstrs;
    bool again;             /* A function was found that can't be inlined: all is planned anew. */
    DynReason stop;         /* Planning came to nothing. */
    DynReason why;          /* The instruction that is being followed isn't in the language: why. */
    const char *what;       /* In words. */
    DynRegionRefusal first; /* The first instruction that wasn't. */
} Plan;

/* What following an instruction came to. */
typedef enum Went {
    WENT_ON,     /* The next one follows. */
    WENT_AWAY,   /* The block has ended. */
    WENT_NOWHERE /* It isn't in the language: CPython has to execute it. p->why says why. */
} Went;

/* ---- flow.c */
DYN_HIDDEN bool plan_loop(const DynCode *c, uint32_t header, uint8_t *in_loop); /* false: no natural loop begins there */
/* in_loop NULL: all of the function. NULL: memory is out, and planning stopped. */
DYN_HIDDEN const PlanLoops *plan_loops_of(Plan *p, const DynCode *c, const uint8_t *in_loop);
static inline bool plan_is_live(const PlanLoops *l, uint32_t at, uint32_t slot) {
    return l->live == NULL || l->live[(size_t)at * l->nslots + slot] != 0;
}

/* ---- sweeps.c */
DYN_HIDDEN void plan_makes(Plan *p);                /* the instruction that is followed makes objects */
DYN_HIDDEN void plan_sweep(Plan *p, uint32_t head); /* at a jump back there: those that are nobody's any more go */

/* ---- unread.c: forgets what slots hold that isn't read at the place */
DYN_HIDDEN void plan_forget_unread(Plan *p);
DYN_HIDDEN void plan_complete_entries(Plan *p); /* when all of the region is known */

/* ---- resumes.c */
#define PLAN_CONSTANT 255u /* in place of a value's number; more than PLAN_VALUES */
DYN_HIDDEN uint32_t plan_carried(const Plan *p, uint8_t from[PLAN_VALUES]); /* how many values; DYN_NONE: not all are there */
DYN_HIDDEN void plan_key_carried(Plan *p, DynStr *key, const uint8_t *from, uint32_t n);
DYN_HIDDEN bool plan_keep_carried(Plan *p, PlanVersion *v, const uint8_t *from);
DYN_HIDDEN void plan_resume_carried(Plan *p, const PlanVersion *v); /* at the beginning of its block */

/* ---- plan.c */
DYN_HIDDEN bool plan_is_head(const PlanLoops *l, uint32_t at); /* a loop begins there */
DYN_HIDDEN Went plan_unknown(Plan *p, DynReason why, const char *what);
/* A way to `at` in the innermost frame with the state as it is: moves into p->block, and the block to jump to. */
DYN_HIDDEN uint32_t plan_edge(Plan *p, uint32_t at);
DYN_HIDDEN Went plan_go(Plan *p, uint32_t at); /* Ends the block by a jump there. */
DYN_HIDDEN void plan_leave(Plan *p);           /* Ends the block: CPython has to execute the instruction, as p->why says. */
/* Two ways by a register, written one after the other: begin, write the first, plan_other_way, write the second. What has an
 * effect in the first hasn't had it in the second, so where CPython would go on is part of what is kept. */
typedef struct PlanWays {
    PlanState *state, *resume;
    uint32_t other, resume_at, resume_exit;
    bool resume_due;
} PlanWays;
DYN_HIDDEN bool plan_is_same(const PlanValue *a, const PlanValue *b); /* nothing has been stored between */
DYN_HIDDEN uint32_t plan_new_block(Plan *p, uint32_t at);
DYN_HIDDEN bool plan_two_ways(Plan *p, uint32_t reg, PlanWays *ways);
DYN_HIDDEN void plan_other_way(Plan *p, PlanWays *ways);
/* An effect: what was before can't be done again. The frame can be left at `at` from here on. */
DYN_HIDDEN void plan_effect(Plan *p, uint32_t at);
DYN_HIDDEN void plan_list(Plan *p, DynRegionValues *to, const PlanValue *v); /* as an exit lists it */
DYN_HIDDEN uint32_t plan_exit(Plan *p, DynReason why);                       /* at p->resume */
DYN_HIDDEN uint32_t plan_exit_at(Plan *p, const PlanState *s, uint32_t at,
                                 DynReason why); /* of the frame itself, exactly there */
static inline PlanFrame *plan_frame(Plan *p) { return &p->s.frames[p->s.nframes - 1]; }
static inline const DynInstr *plan_instr(Plan *p) { return &plan_frame(p)->c->v.at[plan_frame(p)->at]; }

/* ---- step.c: follows one instruction of the innermost frame. */
DYN_HIDDEN Went plan_step(Plan *p, const DynInstr *in);
DYN_HIDDEN void plan_poll(Plan *p); /* leaves where the eval breaker wants something; at the jump that is being followed */

/* ---- routines.c: functions that call themselves, called natively */
DYN_HIDDEN bool plan_is_routine(Plan *p, const PyFunctionObject *f); /* false: planning begins anew if that is only seen now */
DYN_HIDDEN Went plan_call_routine(Plan *p, PyFunctionObject *f, uint32_t made, const PlanValue *passed, uint32_t slots);
DYN_HIDDEN Went plan_leave_function(Plan *p); /* it returns what is on the stack, or a constant */
DYN_HIDDEN Went plan_routine_returns(Plan *p, PlanValue v);
DYN_HIDDEN uint32_t plan_give_up(Plan *p); /* the exit there */
DYN_HIDDEN void plan_log(Plan *p);         /* what is followed stores something, which the log has */
/* Within an inlined call: what is noted is undone where the region is left before that call has ended. */
static inline bool plan_undoes(const Plan *p) { return p->s.nframes > 1 && p->resume_at != DYN_NONE; }
DYN_HIDDEN void plan_refuse_routine(Plan *p);    /* what is followed can't be undone */
DYN_HIDDEN void plan_renew_routines(Plan *p);    /* an attempt begins */
DYN_HIDDEN void plan_complete_routines(Plan *p); /* all has been followed: was something missing? */
DYN_HIDDEN void plan_free_routines(Plan *p);
DYN_HIDDEN void plan_key_value(Plan *p, DynStr *key, const PlanValue *v);
DYN_HIDDEN PlanFrame plan_frame_of(Plan *p, const DynCode *c, PyFunctionObject *f, uint32_t made, uint32_t below);
/* The version that begins with the state as it is; NULL: planning has stopped, or there are too many. */
DYN_HIDDEN const PlanVersion *plan_begin_routine(Plan *p);

/* ---- calls.c: an inlined call has ended. */
DYN_HIDDEN void plan_ended(Plan *p);

/* ---- values.c */
DYN_HIDDEN void plan_stop(Plan *p, DynReason why);
DYN_HIDDEN PlanValue *plan_top(Plan *p, uint32_t below); /* of the stack: 0 is the top */
DYN_HIDDEN bool plan_takes_array(Plan *p);               /* the instruction that is followed has one among its operands */
DYN_HIDDEN PlanValue plan_pop(Plan *p);
DYN_HIDDEN void plan_push(Plan *p, PlanValue v);
DYN_HIDDEN PlanValue plan_value(DynRegionKind kind, uint32_t reg); /* reg DYN_NONE: none */
/* A tuple of n values, which are the caller's to set; NULL: memory, and the plan knows. */
DYN_HIDDEN PlanValue *plan_new_tuple(Plan *p, uint32_t n, PlanValue *out);
DYN_HIDDEN PlanValue plan_np(DynDtype dt, uint32_t reg);
DYN_HIDDEN PlanValue plan_int(int64_t number); /* known */
DYN_HIDDEN PlanValue plan_float(double number);
DYN_HIDDEN PlanValue plan_bool(bool number);
DYN_HIDDEN PlanValue plan_const(Plan *p, PyObject *o);         /* a number, most of them known; anything else CONST */
DYN_HIDDEN PyObject *plan_object(Plan *p, const PlanValue *v); /* Of a CONST, borrowed; else NULL. */
DYN_HIDDEN uint32_t plan_emit(Plan *p, DynRegionOp op, uint32_t a, uint32_t b, uint32_t c); /* the register of its result */
DYN_HIDDEN uint32_t plan_emit_or(Plan *p, DynRegionOp op, uint32_t a, uint32_t b, uint32_t c, DynReason why);
DYN_HIDDEN DynRegionInstr *plan_last(Plan *p); /* the instruction that was written last */
DYN_HIDDEN void plan_end(Plan *p, DynRegionOp op, uint32_t a, uint32_t to, uint32_t other, uint32_t exit);
DYN_HIDDEN uint32_t plan_iconst(Plan *p, int64_t number);
DYN_HIDDEN uint32_t plan_dconst(Plan *p, double number);
DYN_HIDDEN uint32_t plan_reg(Plan *p, PlanValue *v); /* of a number: its register, made where it is only known */
DYN_HIDDEN uint32_t plan_place(Plan *p, uint32_t place, uint32_t part, char type); /* the register that belongs there */
DYN_HIDDEN uint32_t plan_part_count(const PlanValue *v);
/* What an object is, with new registers for what it holds; `live`: it may be looked at. */
DYN_HIDDEN PlanValue plan_of_object(Plan *p, PyObject *o, uint32_t slot, bool live, bool stack);
DYN_HIDDEN char plan_np_type(DynDtype dt);    /* of a register; 0: its scalars aren't in the language, or take two */
DYN_HIDDEN bool plan_is_element(DynDtype dt); /* arrays of them are in the language */
static inline bool plan_is_python_number(const PlanValue *v) {
    return v->v.kind == DYN_RK_BOOL || v->v.kind == DYN_RK_INT || v->v.kind == DYN_RK_FLOAT;
}
/* A np.uint64, whose register holds its bits. Most of what is known of numbers isn't known of it. */
static inline bool plan_is_word(const PlanValue *v) { return v->v.kind == DYN_RK_NP && v->v.dtype == DYN_U64; }
static inline bool plan_is_number(const PlanValue *v) {
    return plan_is_python_number(v) || (v->v.kind == DYN_RK_NP && v->v.dtype != DYN_U64);
}
/* An int, of Python or NumPy, whose register is its number. */
static inline bool plan_is_integer(const PlanValue *v) {
    return v->v.kind == DYN_RK_INT || (plan_is_number(v) && v->v.kind == DYN_RK_NP && dyn_dtype_is_integer((DynDtype)v->v.dtype));
}
/* An instance that is no object yet: parts.c. */
static inline bool plan_is_parts(const PlanValue *v) { return v->v.kind == DYN_RK_PARTS; }
static inline bool plan_is_instance(const PlanValue *v) { return v->v.kind == DYN_RK_INST || plan_is_parts(v); }
static inline bool plan_iterates(const PlanValue *v) { return dyn_region_iterates(v->v.kind); }
static inline bool plan_is_array(const PlanValue *v) { return v->v.kind == DYN_RK_ARRAY || v->v.kind == DYN_RK_VIEW; }

/* ---- numbers.c */
DYN_HIDDEN bool plan_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out); /* false: plan_unknown was told why */
DYN_HIDDEN bool plan_compare(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out);
DYN_HIDDEN bool plan_unary(Plan *p, int op, PlanValue a, PlanValue *out); /* op: a DynOpcode */
/* The truth of a value: *known 0 or 1, or -1 and a register. */
DYN_HIDDEN bool plan_truth(Plan *p, PlanValue *v, int *known, uint32_t *reg);
DYN_HIDDEN bool plan_double(Plan *p, PlanValue v, uint32_t *reg); /* as float() makes it of a number */
DYN_HIDDEN uint32_t plan_single(Plan *p, PlanValue v);
DYN_HIDDEN DynDtype plan_promote(const PlanValue *a, const PlanValue *b); /* one of them is NumPy's */
DYN_HIDDEN bool plan_is_float(const PlanValue *v);                        /* Python's, or NumPy's of any size */
/* An instruction, with an exit where it may fail. */
DYN_HIDDEN uint32_t plan_emit_op(Plan *p, DynRegionOp op, uint32_t a, uint32_t b, DynReason why);

/* Looks at all results that are in doubt: before anything has an effect, or another block begins. */
DYN_HIDDEN void plan_settle_doubts(Plan *p);

/* ---- named.c: named tuples */
DYN_HIDDEN bool plan_named_field(const PyTypeObject *t, PyObject *name, int64_t *index);
DYN_HIDDEN uint32_t plan_named_place(Plan *p, const PlanValue *o, int64_t index); /* where the field lies */
DYN_HIDDEN bool plan_is_named(PyTypeObject *t);                                   /* its instances can be made */
DYN_HIDDEN Went plan_construct_named(Plan *p, PyTypeObject *t, const PlanValue *args, uint32_t n, uint32_t slots);
DYN_HIDDEN bool plan_is_tuple_new(PyObject *o);
DYN_HIDDEN Went plan_new_named(Plan *p, const PlanValue *args, uint32_t n, uint32_t slots); /* tuple.__new__ */

/* ---- words.c: np.uint64, and what makes a number a NumPy integer */
DYN_HIDDEN bool plan_can_be_word(Plan *p, const PlanValue *v); /* beside a np.uint64 it is one too */
DYN_HIDDEN bool plan_word(Plan *p, PlanValue v, uint32_t *reg);
DYN_HIDDEN PlanValue plan_word_as_int(Plan *p, PlanValue v); /* of a np.uint64 below 2**63; others as they are */
DYN_HIDDEN bool plan_word_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out);
DYN_HIDDEN bool plan_word_compare(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out);
DYN_HIDDEN bool plan_call_scalar(Plan *p, int dtype, PlanValue *args, uint32_t n, PlanValue *out); /* np.int64(x) and its like */
/* Does np.errstate ignore that NumPy's integers overflow? The region takes that for granted then. */
DYN_HIDDEN bool plan_wraps(Plan *p);
/* The number as an integer of that dtype, of which it may have other bits. */
DYN_HIDDEN uint32_t plan_wrapped(Plan *p, uint32_t reg, DynDtype dt);

/* ---- items.c */
DYN_HIDDEN bool plan_item(Plan *p, PlanValue a, PlanValue index, PlanValue *out);
DYN_HIDDEN bool plan_store_item(Plan *p, PlanValue a, PlanValue index, PlanValue v);
DYN_HIDDEN bool plan_row(Plan *p, const PlanValue *a, uint32_t index, PlanValue *out); /* a[index], where that can't be wrong */
DYN_HIDDEN bool plan_iter(Plan *p, PlanValue v, PlanValue *out);
DYN_HIDDEN Went plan_next(Plan *p, const DynInstr *in);
DYN_HIDDEN void plan_leave_at_end(Plan *p, uint32_t at, const PlanValue *iterator); /* the end of one that isn't ours */

DYN_HIDDEN uint32_t plan_stride(Plan *p, const PlanValue *a, uint32_t axis);
/* An index as a list of ints: how many, or 0. What the first n of them are away from the data; and what lies there. */
DYN_HIDDEN uint32_t plan_indices(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue *out);
DYN_HIDDEN uint32_t plan_offset_of(Plan *p, const PlanValue *a, PlanValue *index, uint32_t n);
DYN_HIDDEN PlanValue plan_element(Plan *p, const PlanValue *a, uint32_t offset);
DYN_HIDDEN void plan_put_operand(Plan *p, const PlanValue *a, uint32_t axis);      /* for what is called next: vectors.c */
DYN_HIDDEN bool plan_as_element(Plan *p, PlanValue v, DynDtype dt, uint32_t *reg); /* a number, as it is stored */
DYN_HIDDEN DynRegionOp plan_load_op(DynDtype dt);
DYN_HIDDEN DynRegionOp plan_store_op(DynDtype dt);

/* ---- expressions.c: arithmetic of whole arrays */
enum { PLAN_SQUARE = DYN_RO_COUNT + 1, PLAN_SELECT }; /* beside instructions: of an element */
static inline bool plan_is_expression(const PlanValue *v) { return v->v.kind == DYN_RK_EXPR; }
DYN_HIDDEN bool plan_is_whole(const PlanValue *v);                      /* an array, or an expression of some */
DYN_HIDDEN uint32_t plan_rank(const PlanValue *v);                      /* of those; 0 of others */
DYN_HIDDEN uint32_t plan_size(const PlanValue *v, uint32_t axis);       /* a register */
DYN_HIDDEN int64_t plan_sample(const PlanValue *v, uint32_t from_last); /* elements along an axis when the loop was planned */
/* The same; -1: that isn't known, or it has no such axis. */
DYN_HIDDEN int64_t plan_sampled(const PlanValue *v, uint32_t from_last);
DYN_HIDDEN bool plan_has_expression(const PlanValue *v);
DYN_HIDDEN bool plan_reports(const PlanValue *v);
DYN_HIDDEN void plan_leave_unless(Plan *p, uint32_t reg, DynReason why); /* reg: 0 or 1 */
DYN_HIDDEN void plan_same_size(Plan *p, uint32_t a, uint32_t b);         /* leaves where they differ */
/* The axis fits one of `size` elements, or is of one that is repeated; `sample`: as many as it was when the loop was planned. */
DYN_HIDDEN bool plan_fit(Plan *p, PlanValue *v, uint32_t from_last, uint32_t size, int64_t sample);
/* code: DynRegionOp of operands of dtype `of`, or PLAN_SELECT of a bool and two of those. */
DYN_HIDDEN bool plan_expression(Plan *p, int code, DynDtype dt, DynDtype of, const PlanValue *operands, uint32_t n,
                                PlanValue *out);
DYN_HIDDEN bool plan_joined(Plan *p, PlanValue *items, uint32_t n, PlanValue *out); /* what has the axes of all of them */
DYN_HIDDEN bool plan_array_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out);
DYN_HIDDEN bool plan_array_unary(Plan *p, int code, PlanValue a, PlanValue *out); /* code: what it is of np.float64 */
DYN_HIDDEN bool plan_array_compare(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out);
DYN_HIDDEN bool plan_array_select(Plan *p, const PlanValue *args, PlanValue *out); /* np.where */

/* ---- fills.c: loops over elements of whole arrays */
/* A loop of region IR that counts. */
typedef struct PlanCount {
    uint32_t counter, head, behind;
} PlanCount;
DYN_HIDDEN PlanCount plan_count(Plan *p, uint32_t size); /* begins it: what follows is written into its body */
DYN_HIDDEN void plan_count_end(Plan *p, const PlanCount *c);
DYN_HIDDEN uint32_t plan_variable(Plan *p, uint32_t from); /* a register that is assigned again */
typedef enum PlanFoldKind {
    PLAN_FOLD_SUM,
    PLAN_FOLD_MEAN,
    PLAN_FOLD_MAX,
    PLAN_FOLD_MIN,
    PLAN_FOLD_ANY,
    PLAN_FOLD_ALL,
    PLAN_FOLD_COUNT,
    PLAN_FOLD_ARGMAX,
    PLAN_FOLD_ARGMIN,
    PLAN_FOLD_PROD
} PlanFoldKind;
/* What elements are added up to, one after the other. */
typedef struct PlanFold {
    PlanFoldKind kind;
    DynDtype of;                                                  /* of elements */
    DynRegionOp op;                                               /* that adds one */
    uint32_t reg;                                                 /* the result, so far */
    uint32_t place, best;                                         /* ARGMAX, ARGMIN: of the next element; the best so far */
    void (*add)(Plan *p, const struct PlanFold *f, uint32_t reg); /* an element */
} PlanFold;
DYN_HIDDEN bool plan_fold_elements(Plan *p, const PlanFold *fold, const PlanValue *v); /* in rows */
DYN_HIDDEN bool plan_fill(Plan *p, const PlanValue *v, const PlanValue *to, bool keeps);
DYN_HIDDEN const int64_t *plan_samples(Plan *p, const PlanValue *v); /* of its axes */
/* Complex numbers in memory: pairs of doubles, which are a last axis; false: there are too many. Or one part of each. */
DYN_HIDDEN bool plan_pairs(Plan *p, const PlanValue *v, PlanValue *out);
DYN_HIDDEN PlanValue plan_part(Plan *p, const PlanValue *v, uint32_t which);
DYN_HIDDEN bool plan_is_large(const PlanValue *v);                      /* it is better left to a graph */
DYN_HIDDEN bool plan_keep(Plan *p, const PlanValue *v, PlanValue *out); /* computed, for what follows at once */
DYN_HIDDEN void plan_lay(Plan *p, PlanValue *v, uint32_t data, const uint32_t *sizes, uint32_t rank); /* registers: in rows */
DYN_HIDDEN void plan_leave_unless_dense(Plan *p, const PlanValue *a);                                 /* in one piece, in rows */
DYN_HIDDEN void plan_lay_in_rows(Plan *p, const PlanValue *v); /* leaves where NumPy's result would lie otherwise */
DYN_HIDDEN bool plan_make_array(Plan *p, const PlanValue *v, PlanValue *out); /* a new array of what it is */
/* The same while the n of `reads` are still to be read. */
DYN_HIDDEN bool plan_make_beside(Plan *p, const PlanValue *v, const PlanValue *reads, uint32_t nreads, PlanValue *out);
DYN_HIDDEN bool plan_make_arrays(Plan *p, PlanValue *v, uint32_t n); /* of the expressions among them */
/* An array that is still to be written, while the n of `reads` are still to be read. */
DYN_HIDDEN PlanValue plan_new_array(Plan *p, DynDtype dt, const uint32_t *sizes, uint32_t rank, const PlanValue *reads,
                                    uint32_t nreads);
DYN_HIDDEN Went plan_array_in_place(Plan *p, int op);                        /* of the two on the stack */
DYN_HIDDEN bool plan_store_whole(Plan *p, const PlanValue *to, PlanValue v); /* to[...] = v */
DYN_HIDDEN bool plan_take_masked(Plan *p, const PlanValue *a, const PlanValue *mask, PlanValue *out);
DYN_HIDDEN bool plan_take_rows(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue *out); /* rows.c */
DYN_HIDDEN bool plan_take_masked_rows(Plan *p, const PlanValue *a, const PlanValue *mask, PlanValue *out);
/* A number of a vector of ints, as an index into so many; with `checks` the loop is left where it is none, without, it is one. */
DYN_HIDDEN uint32_t plan_index_at(Plan *p, const PlanValue *index, uint32_t counter, uint32_t size, bool checks);
DYN_HIDDEN bool plan_places(Plan *p, const PlanValue *mask, PlanValue *out); /* of a vector: where it is true */
DYN_HIDDEN bool plan_store_masked(Plan *p, const PlanValue *to, const PlanValue *mask, PlanValue v);
DYN_HIDDEN bool plan_take_at(Plan *p, const PlanValue *a, PlanValue index, PlanValue *out);
DYN_HIDDEN bool plan_store_at(Plan *p, const PlanValue *to, PlanValue index, PlanValue v);

/* ---- folds.c: args: array, axis, dtype, out, keepdims */
DYN_HIDDEN bool plan_fold(Plan *p, PlanFoldKind kind, const PlanValue *args, uint32_t n, PlanValue *out);

/* ---- array_calls.c: NumPy's functions of arrays, and arrays' methods */
typedef bool PlanHandler(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out);
DYN_HIDDEN bool plan_dtype_of(Plan *p, const PlanValue *arg, DynDtype otherwise, DynDtype *dt); /* as an argument names it */
DYN_HIDDEN PlanValue plan_stretch(Plan *p, const PlanValue *v, uint32_t from, uint32_t n);      /* n elements of a vector */
DYN_HIDDEN PlanHandler plan_call_copy;
/* ---- array_functions.c */
DYN_HIDDEN PlanHandler plan_call_astype, plan_call_part, plan_call_angle, plan_call_conjugate, plan_call_linspace, plan_call_diff,
    plan_call_running, plan_call_variance, plan_call_sort, plan_call_argsort, plan_call_searchsorted, plan_call_flatnonzero,
    plan_call_nonzero, plan_call_roll, plan_call_stack;
typedef enum PlanKnown { PLAN_CALLED, PLAN_REFUSED, PLAN_NOT_KNOWN } PlanKnown;
DYN_HIDDEN PlanKnown plan_call_array(Plan *p, PyObject *o, const PlanValue *args, uint32_t n, PyObject *names, PlanValue *out);
DYN_HIDDEN PyObject *plan_array_method(const char *name); /* borrowed; NULL: it isn't in the language */
/* self: the array, behind which n arguments lie. */
DYN_HIDDEN Went plan_call_array_method(Plan *p, PyObject *method, const PlanValue *self, uint32_t n, PyObject *names,
                                       uint32_t slots);
/* ---- boxed.c: functions of C for objects, called with numbers. result: 'D', 'I', 'N' of np.int64 */
DYN_HIDDEN PlanKnown plan_call_boxed(Plan *p, PyObject *o, const PlanValue *args, uint32_t n, PlanValue *out);
DYN_HIDDEN bool plan_call_boxed_method(Plan *p, PyObject *method, PlanValue self, const PlanValue *args, uint32_t n, char result,
                                       PlanValue *out);
static inline bool plan_is_literal(const PlanValue *v) { return v->v.kind == DYN_RK_LITERAL; }
DYN_HIDDEN bool plan_is_literal_next(Plan *p, uint32_t n); /* a list of the n topmost values is one */
DYN_HIDDEN Went plan_literal(Plan *p, const PlanValue *values, uint32_t n);

/* ---- vectors.c: what NumPy's own loops compute of vectors and matrices of doubles */
DYN_HIDDEN bool plan_dot(Plan *p, PlanValue a, PlanValue b, bool operator, PlanValue * out); /* a @ b, or np.dot */
DYN_HIDDEN bool plan_norm(Plan *p, PlanValue a, PlanValue *out);
DYN_HIDDEN bool plan_cross(Plan *p, PlanValue *both, PlanValue *out);

/* ---- ufuncs.c: ufuncs of arrays and numbers of any dtype, by NumPy's own loops */
DYN_HIDDEN bool plan_ufunc_call(Plan *p, PyObject *o, const PlanValue *args, uint32_t n, PlanValue *out);
DYN_HIDDEN PyObject *plan_numpys(const char *name); /* what NumPy has under the name: new reference; NULL without an exception */
DYN_HIDDEN bool plan_ufunc_named(Plan *p, const char *name, const PlanValue *args, uint32_t n, PlanValue *out);
/* Calls the loop of ufunc f for the operands that were told; left where it has something to report. */
DYN_HIDDEN void plan_call_loop(Plan *p, const PlanValue *f);
DYN_HIDDEN bool plan_ufunc_of_operator(Plan *p, int op, const PlanValue *both, PlanValue *out); /* NB_* */
DYN_HIDDEN bool plan_ufunc_of_code(Plan *p, int code, PlanValue a, PlanValue *out); /* code: what it is of np.float64 */
/* An array as one of another dtype, while the n of `reads` are still to be read. */
DYN_HIDDEN bool plan_converted(Plan *p, PlanValue a, DynDtype dt, const PlanValue *reads, uint32_t n, PlanValue *out);
DYN_HIDDEN PlanValue plan_memory(Plan *p, DynDtype dt);                /* for one element, until the next call */
DYN_HIDDEN void plan_tell(Plan *p, const PlanValue *v, uint32_t rank); /* an array as an operand with so many axes */

/* ---- shapes.c */
DYN_HIDDEN uint32_t plan_root(Plan *p, uint32_t which); /* the shape of this number's contents */
DYN_HIDDEN uint32_t plan_root_of(Plan *p, PyObject *o); /* of what is in an object that isn't in a slot itself */
DYN_HIDDEN uint32_t plan_new_shape(Plan *p);
DYN_HIDDEN void plan_look_into(Plan *p, uint32_t shape, PyObject *o, int depth); /* a list, tuple, dict, set or deque */
DYN_HIDDEN bool plan_join(Plan *p, uint32_t shape, const PlanShape *more);       /* true: that is new */
DYN_HIDDEN void plan_add_to(Plan *p, PlanShape *all, const PlanShape *more);     /* to a shape that isn't the plan's yet */
DYN_HIDDEN uint32_t plan_bits(Plan *p, uint32_t shape);                          /* DYN_RL_* as an entry looks at them */
DYN_HIDDEN PlanShape *plan_shape(Plan *p, uint32_t shape);
DYN_HIDDEN bool plan_shape_of(Plan *p, const PlanValue *v, PlanShape *out); /* of a place that holds v alone; false: none does */
DYN_HIDDEN uint32_t plan_keys(Plan *p, uint32_t shape); /* of the keys of the dict or set with these contents */
/* Of a container's value. */
static inline uint32_t plan_contents(const PlanValue *v) { return v->v.shape; }
DYN_HIDDEN uint32_t plan_class_of(Plan *p, PyObject *o); /* of an instance that can be looked into; DYN_NONE: it can't */
DYN_HIDDEN uint32_t plan_class_number(Plan *p, const PlanValue *v);
DYN_HIDDEN uint32_t plan_attribute_shape(Plan *p, uint32_t class, PyObject *name, bool stored); /* 0: there are too many */

/* ---- randoms.c: generators of random numbers */
DYN_HIDDEN bool plan_is_rng(PyObject *o);
DYN_HIDDEN bool plan_of_rng(Plan *p, PyObject *o, PlanValue *v);
DYN_HIDDEN PyObject *plan_rng_method(const PlanValue *self, const char *name); /* borrowed */
/* A method that is bound to one: its function, and what it is bound to. */
DYN_HIDDEN bool plan_bound_rng(Plan *p, PyObject *method, PyObject **function, PlanValue *self);
DYN_HIDDEN Went plan_call_rng(Plan *p, PyObject *method, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots);

/* ---- records.c: arrays with fields, and those that aren't aligned */
static inline bool plan_has_records(const PlanValue *v) {
    return v->v.kind == DYN_RK_RECORDS || v->v.kind == DYN_RK_RECORD || v->v.kind == DYN_RK_COLUMN;
}
/* It has axes, and registers as an array has. */
static inline bool plan_is_column(const PlanValue *v) { return v->v.kind == DYN_RK_RECORDS || v->v.kind == DYN_RK_COLUMN; }
/* Nobody makes an object of it for CPython to go on with. */
static inline bool plan_is_no_value(const PlanValue *v) {
    return v->v.kind == DYN_RK_FUNC || v->v.kind == DYN_RK_GEN || v->v.kind == DYN_RK_DICTVIEW || v->v.kind == DYN_RK_SLICE ||
           v->v.kind == DYN_RK_EXPR || v->v.kind == DYN_RK_ADDRESS;
}
/* A value that CPython has no object for before an exit makes one. */
static inline bool plan_is_no_object(const DynRegionValue *v) {
    bool part = v->kind == DYN_RK_RECORD || (v->kind == DYN_RK_COLUMN && v->flags & DYN_RF_FRESH);
    return part || v->kind == DYN_RK_TUPLE || v->kind == DYN_RK_VIEW || v->kind == DYN_RK_RANGE || v->kind == DYN_RK_PARTS;
}
DYN_HIDDEN void plan_list_column(DynRegionValue *out); /* as an exit lists it: a column that is none yet is a view */
DYN_HIDDEN bool plan_of_records(Plan *p, PyObject *o, PlanValue *v);
DYN_HIDDEN bool plan_record_item(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue *out);
DYN_HIDDEN bool plan_store_record_item(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue v);
DYN_HIDDEN bool plan_is_record_field(Plan *p, const PlanValue *a, PyObject *name); /* it is an attribute, too */

/* ---- linalg.c: for the table of array_calls.c */
DYN_HIDDEN PlanHandler plan_call_solve, plan_call_of_matrix, plan_call_trace;

/* ---- operators.c: for calls.def */
DYN_HIDDEN PlanHandler plan_call_operator, plan_call_comparison, plan_call_unary, plan_call_getitem, plan_call_divmod;
DYN_HIDDEN PlanHandler plan_call_frexp, plan_call_modf, plan_call_polar;

/* ---- foreign.c: functions reached through ctypes */
DYN_HIDDEN bool plan_ctypes(Plan *p, const PlanValue *array, PlanValue *out);                         /* x.ctypes */
DYN_HIDDEN bool plan_ctypes_attribute(Plan *p, const PlanValue *o, const char *name, PlanValue *out); /* x.ctypes.name */
DYN_HIDDEN PyObject *plan_ctypes_method(PyObject *name); /* Borrowed; NULL: not one that is known. */
DYN_HIDDEN Went plan_call_pointer(Plan *p, const PlanValue *o, const PlanValue *args, uint32_t n, uint32_t slots); /* data_as */
DYN_HIDDEN Went plan_call_foreign(Plan *p, PyObject *o, const PlanValue *args, uint32_t n, uint32_t slots);

/* ---- slices.c */
DYN_HIDDEN Went plan_build_slice(Plan *p, uint32_t n);
/* Where a slice of something of this length begins and how many there are, both in one register (SLICEAT, SLICEN), and its step.
 */
DYN_HIDDEN bool plan_slice_of(Plan *p, uint32_t length, const PlanValue *slice, uint32_t *where, uint32_t *by);
DYN_HIDDEN bool plan_slice_item(Plan *p, PlanValue list, PlanValue slice, PlanValue *out);
DYN_HIDDEN bool plan_store_slice(Plan *p, PlanValue list, PlanValue slice, PlanValue v);
/* The slice of the list that the instruction makes of so many operands is only stored in a slice, or asked for its length. */
DYN_HIDDEN bool plan_is_moved_next(Plan *p, const PlanValue *list, uint32_t operands);
DYN_HIDDEN bool plan_moved(Plan *p, PlanValue list, PlanValue slice, PlanValue *out);
DYN_HIDDEN bool plan_moved_length(Plan *p, const PlanValue *v, PlanValue *out);
/* A slice that is an object (of numbers it is a constant from CPython 3.14 on) as one that was built here; others as they are. */
DYN_HIDDEN PlanValue plan_const_slice(Plan *p, PlanValue v);
DYN_HIDDEN PlanValue plan_slice(Plan *p, PlanValue start, PlanValue stop, PlanValue step);

/* ---- lists.c */
/* An item: the object, and where it is taken out of when it is known what it is. */
typedef struct PlanItem {
    uint32_t reg, shape;
    uint32_t list, index; /* DYN_NONE: it stays there. Of a dict the key, */
    DynRegionOp remove;   /* and what removes it; of a list 0. */
    bool last;            /* It is a list's last one. */
    bool notes;           /* What removes it notes that itself, where `imm` is 1. */
    uint32_t given;       /* 1 + the register of the object that is put in when it is taken out of a heap; 0: none is. */
} PlanItem;
DYN_HIDDEN bool plan_of_list(Plan *p, PyObject *o, uint32_t which, PlanValue *v);
DYN_HIDDEN bool plan_of_list_iterator(Plan *p, PyObject *o, uint32_t which, PlanValue *v);
DYN_HIDDEN bool plan_may_end(Plan *p, const PlanValue *v);
DYN_HIDDEN uint32_t plan_which(Plan *p, const PlanValue *v);
DYN_HIDDEN Went plan_list_extend(Plan *p, uint32_t below);
DYN_HIDDEN uint32_t plan_list_size(Plan *p, const PlanValue *v);
/* An item in two steps: the object, and then, maybe on several ways, what it is. */
DYN_HIDDEN bool plan_ask_list(Plan *p, int64_t what, PlanValue list, PlanValue value, uint32_t *reg); /* DYN_LIST_* */
DYN_HIDDEN bool plan_compare_lists(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out);
DYN_HIDDEN PlanHandler plan_call_sorted;
DYN_HIDDEN bool plan_in_list(Plan *p, PlanValue item, PlanValue all, bool negated, PlanValue *out);
DYN_HIDDEN bool plan_list_item(Plan *p, PlanValue list, PlanValue index, PlanItem *item);
DYN_HIDDEN Went plan_push_item(Plan *p, const PlanItem *item, uint32_t drop);
DYN_HIDDEN bool plan_single_item(Plan *p, const PlanItem *item, PlanValue *out); /* where there is one kind */
DYN_HIDDEN bool plan_holds(Plan *p, uint32_t shape, const PlanValue *v);         /* it is stored there; false: nothing to store */
/* The instruction that stores v in an object; false: that isn't in the language. */
typedef enum PlanStoring {
    PLAN_SET,
    PLAN_APPEND,
    PLAN_PUT,
    PLAN_DICT_INT,
    PLAN_DICT_OBJECT,
    PLAN_NAME,
    PLAN_BOX,
    PLAN_KEY
} PlanStoring;
DYN_HIDDEN bool plan_storing(Plan *p, PlanValue *v, PlanStoring how, DynRegionOp *op, uint32_t *reg);
DYN_HIDDEN bool plan_boxed(Plan *p, PlanValue *v, uint32_t *reg); /* as an object */
DYN_HIDDEN bool plan_list_index(Plan *p, const PlanValue *list, PlanValue *index, uint32_t *reg);
DYN_HIDDEN bool plan_delete_item(Plan *p, PlanValue list, PlanValue index);
DYN_HIDDEN PlanValue plan_made(Plan *p, DynRegionKind kind, uint32_t reg);
DYN_HIDDEN bool plan_store_in_list(Plan *p, PlanValue list, PlanValue index, PlanValue v);
DYN_HIDDEN bool plan_append(Plan *p, PlanValue list, PlanValue v);
DYN_HIDDEN Went plan_build_list(Plan *p, uint32_t n);
DYN_HIDDEN bool plan_list_of(Plan *p, const PlanValue *from, PlanValue *out);                /* list(from); NULL: list() */
DYN_HIDDEN bool plan_list_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out); /* one of them is a list */
DYN_HIDDEN PlanHandler plan_call_of_items;                                                   /* sum, max and min of a list */
DYN_HIDDEN Went plan_list_append(Plan *p, uint32_t below);
DYN_HIDDEN bool plan_unpack_list(Plan *p, PlanValue list, uint32_t n);
DYN_HIDDEN bool plan_list_iterator(Plan *p, PlanValue list, PlanValue *out);
DYN_HIDDEN uint32_t plan_list_more(Plan *p, const PlanValue *it); /* a register: there is another item */
DYN_HIDDEN PlanItem plan_list_next(Plan *p, PlanValue *it);       /* the next item */

/* ---- tuples.c */
DYN_HIDDEN PlanValue plan_tuple_object(Plan *p, const PlanValue *v); /* of a CONST that is a tuple; else the value itself */
DYN_HIDDEN void plan_tell_tuples(Plan *p); /* The region learns what is in tuples that it takes for granted. */
/* A tuple that was none becomes an object; is_key: the one that is only looked up. */
DYN_HIDDEN bool plan_make_tuple(Plan *p, PlanValue *v, bool is_key);
/* A tuple as an object that is looked up, until the next one is: *v is that. */
DYN_HIDDEN bool plan_key_tuple(Plan *p, PlanValue *v, uint32_t *reg);
DYN_HIDDEN bool plan_store_part(Plan *p, PlanValue item, uint32_t tuple, uint32_t k, bool is_key, PlanShape *of);
DYN_HIDDEN bool plan_is_tuple(Plan *p, const PlanValue *v); /* an object or not */
DYN_HIDDEN bool plan_compare_tuples(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out);

/* ---- texts.c */
DYN_HIDDEN PlanValue plan_text_of(uint32_t object, uint32_t data, uint32_t size, uint32_t which);
DYN_HIDDEN PlanValue plan_text_at(Plan *p, uint32_t object, uint32_t data); /* a str, and where its bytes lie */
DYN_HIDDEN PlanValue plan_made_text(Plan *p, uint32_t object);              /* one that the loop has made */
DYN_HIDDEN bool plan_text_object(Plan *p, PlanValue v,
                                 uint32_t *reg); /* a character has one of CPython's; false: it is no string */
DYN_HIDDEN bool plan_is_question(PyObject *method);
DYN_HIDDEN bool plan_text_slice(Plan *p, PlanValue text, PlanValue slice, PlanValue *out);
DYN_HIDDEN bool plan_is_str(Plan *p, const PlanValue *v); /* a character too */
DYN_HIDDEN bool plan_text_join(Plan *p, PlanValue a, PlanValue b, PlanValue *out);
DYN_HIDDEN bool plan_of_text(Plan *p, PyObject *o, PlanValue *v);
DYN_HIDDEN PlanValue plan_text(Plan *p, const PlanValue *v); /* of a CONST that is a text; else the value itself */
DYN_HIDDEN bool plan_as_char(const Plan *p, const PlanValue *v, PlanValue *out);     /* false: it isn't one character */
DYN_HIDDEN PlanValue plan_text_byte(Plan *p, const PlanValue *text, uint32_t index); /* where that can't be wrong */
DYN_HIDDEN bool plan_text_item(Plan *p, PlanValue text, PlanValue index, PlanValue *out);
DYN_HIDDEN bool plan_store_in_text(Plan *p, PlanValue text, PlanValue index, PlanValue v);
DYN_HIDDEN bool plan_in_text(Plan *p, PlanValue item, PlanValue text, bool negated, PlanValue *out);
DYN_HIDDEN PyObject *plan_char_method(const char *name); /* borrowed: what a character can be asked; NULL */
DYN_HIDDEN Went plan_ask_char(Plan *p, PyObject *method, PlanValue self, uint32_t n, uint32_t slots);
DYN_HIDDEN bool plan_compare_texts(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out);

/* ---- strings.c */
DYN_HIDDEN PlanHandler plan_call_text, plan_call_format;
DYN_HIDDEN PyObject *plan_string_method(const char *name); /* borrowed; NULL: it isn't known */
DYN_HIDDEN Went plan_call_string(Plan *p, PyObject *method, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots);
DYN_HIDDEN Went plan_format_value(Plan *p, uint32_t conversion, bool has_spec);
DYN_HIDDEN Went plan_convert_value(Plan *p, uint32_t conversion);
DYN_HIDDEN Went plan_build_string(Plan *p, uint32_t n);
DYN_HIDDEN bool plan_text_to_int(Plan *p, const PlanValue *args, uint32_t n, PlanValue *out);
DYN_HIDDEN bool plan_text_to_float(Plan *p, PlanValue text, PlanValue *out);
DYN_HIDDEN bool plan_letters(Plan *p, PlanValue text, PlanValue *out); /* a list of its characters */
DYN_HIDDEN bool plan_text_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out);
DYN_HIDDEN bool plan_text_contains(Plan *p, PlanValue item, PlanValue text, PlanValue *out);
DYN_HIDDEN bool plan_order_texts(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out);
DYN_HIDDEN PlanValue plan_text_steps(Plan *p, uint32_t text, uint32_t where, uint32_t by);

/* ---- complexes.c */
DYN_HIDDEN PlanValue plan_complex(uint32_t real, uint32_t imag);
DYN_HIDDEN PlanValue plan_np_complex(uint32_t real, uint32_t imag);
static inline bool plan_is_complex(const PlanValue *v) { return v->v.kind == DYN_RK_COMPLEX; }
static inline bool plan_is_complex_array(const PlanValue *v) { return plan_is_array(v) && v->v.dtype == DYN_C128; }
static inline bool plan_is_np_complex(const PlanValue *v) { return plan_is_complex(v) && v->v.dtype == DYN_C128; }
DYN_HIDDEN bool plan_complex_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out); /* one of them is complex */
DYN_HIDDEN bool plan_complex_compare(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out);
DYN_HIDDEN bool plan_complex_unary(Plan *p, int op, PlanValue a, PlanValue *out);
DYN_HIDDEN uint32_t plan_complex_truth(Plan *p, const PlanValue *v);
DYN_HIDDEN bool plan_complex_parts(Plan *p, PlanValue v, uint32_t parts[2]); /* of any number: false if it is none */
DYN_HIDDEN void plan_store_parts(Plan *p, const PlanValue *a, uint32_t offset, const uint32_t parts[2]); /* of an element */
DYN_HIDDEN PlanValue plan_complex_abs(Plan *p, const PlanValue *a);
DYN_HIDDEN bool plan_call_complex(Plan *p, const PlanValue *args, uint32_t n, PlanValue *out);

/* ---- generators.c */
DYN_HIDDEN PlanValue plan_of_cell(Plan *p, PyObject *cell, uint32_t slot);
DYN_HIDDEN bool plan_is_own_cell(Plan *p, uint32_t slot); /* of an inlined function, which shares it with inner ones */
DYN_HIDDEN PlanValue plan_own_cell(Plan *p, uint32_t slot);
DYN_HIDDEN Went plan_load_cell(Plan *p, const DynInstr *in);
DYN_HIDDEN Went plan_store_cell(Plan *p, const DynInstr *in);
DYN_HIDDEN Went plan_make_function(Plan *p, uint32_t flags);
DYN_HIDDEN Went plan_give_closure(Plan *p, PlanValue function);
DYN_HIDDEN Went plan_call_made(Plan *p, PlanValue function, PlanValue iterator, uint32_t slots);
DYN_HIDDEN Went plan_call_lambda(Plan *p, PlanValue function, const PlanValue *passed, uint32_t n, uint32_t slots);
DYN_HIDDEN Went plan_drive(Plan *p, PlanDriver driver, PlanValue generator, uint32_t slots);
DYN_HIDDEN Went plan_yield(Plan *p);
DYN_HIDDEN Went plan_end_generator(Plan *p);

/* ---- pauses.c: generators of Python functions, in for loops and for what goes through all of them */
/* The generator that a call gives; passed: its arguments; made: as of frames. */
DYN_HIDDEN Went plan_new_generator(Plan *p, PyFunctionObject *f, uint32_t made, const PlanValue *passed, uint32_t slots);
DYN_HIDDEN bool plan_any_paused(Plan *p, const PlanValue *v, uint32_t n); /* true: plan_unknown was told why */
DYN_HIDDEN bool plan_of_generator(Plan *p, PyObject *o, PlanValue *v);    /* one that comes in */
DYN_HIDDEN bool plan_generator_can_come_in(const PlanValue *v);
static inline bool plan_generates(const PlanValue *v) { return v->v.kind == DYN_RK_GEN || v->v.kind == DYN_RK_PAUSED; }
DYN_HIDDEN bool plan_is_paused(const PlanValue *v);                           /* a generator, or an enumerate object of one */
DYN_HIDDEN bool plan_has_paused(const PlanValue *v);                          /* or anything else that has one in it */
DYN_HIDDEN Went plan_resume(Plan *p, PlanDriver driver, PlanValue generator); /* its frame is followed now */
DYN_HIDDEN Went plan_pause(Plan *p);                                          /* it yields what is on its stack to its for loop */
DYN_HIDDEN Went plan_end_paused(Plan *p);                                     /* it returns, and the for loop ends */

/* ---- names.c, calls.c */
DYN_HIDDEN bool plan_transposed(Plan *p, const PlanValue *a, PlanValue *out); /* of at most two axes */
DYN_HIDDEN uint32_t plan_object_reg(Plan *p, PyObject *o); /* a register with an object that is taken for granted */
DYN_HIDDEN Went plan_call_function(Plan *p, PyFunctionObject *f, const PlanValue *args, uint32_t n, uint32_t slots);
DYN_HIDDEN const DynCode *plan_decoded(Plan *p, PyCodeObject *code); /* the plan's; NULL: it stops */
DYN_HIDDEN PyObject *plan_inside(PyObject *o);                       /* a function that was optimised; borrowed, or NULL */
DYN_HIDDEN Went plan_global(Plan *p, const DynInstr *in);
DYN_HIDDEN Went plan_store_global(Plan *p);
DYN_HIDDEN void plan_describe(Plan *p, PyObject *globals, uint32_t nstack); /* what the region is of */
/* With registers for its loop: 1 + the number of that, or 0: of doubles. false: there are too many. */
DYN_HIDDEN bool plan_ufunc(Plan *p, PyObject *o, uint32_t n, uint32_t loop, PlanValue *out);
/* A fact that the region takes for granted, like one that it has, or new (f.extra is set here); NULL: planning has stopped. */
DYN_HIDDEN DynRegionFact *plan_fact(Plan *p, DynRegionFact f);
DYN_HIDDEN uint32_t plan_extra(Plan *p, const PlanValue *v); /* an object that comes in beside the slots; the number of it */
/* The fact about a variable of the enclosing function, in a frame of one that was made for this call. */
DYN_HIDDEN DynRegionFact plan_fact_of_made(Plan *p, uint32_t variable);
DYN_HIDDEN Went plan_deref(Plan *p, const DynInstr *in, uint32_t slot); /* slot: of the loop's function, or DYN_NONE */
DYN_HIDDEN bool plan_method(Plan *p, const PlanValue *o, PyObject *name,
                            PlanValue *function); /* a Python function of its class */
DYN_HIDDEN bool plan_attribute(Plan *p, PlanValue o, PyObject *name, PlanValue *out);
DYN_HIDDEN Went plan_call(Plan *p, const DynInstr *in);
DYN_HIDDEN bool plan_is_len(PyObject *o); /* the builtin function; NULL isn't */
DYN_HIDDEN Went plan_return(Plan *p, PlanValue v);

#include "tracer/region/plan_objects.h"
#endif
