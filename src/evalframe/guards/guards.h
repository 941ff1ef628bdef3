/* guards.h: the guard program's inside, shared by guards.c (run), guards_plan.c (compile), guards_match.c (single comparisons)
 * and guards_explain.c. Everybody else uses entry.h. */
#ifndef DYN_GUARDS_H
#define DYN_GUARDS_H
#include "base/cpy.h"
#include "base/torch.h"
#include "evalframe/entry.h"

typedef enum StepOp {
    ST_HIT,    /* all guards hold */
    ST_LOCAL,  /* source dst = locals[a] */
    ST_LOCALS, /* the b rows of `locals` from a on */
    ST_LOAD,   /* source dst, by its row of the source table; borrowed */
    ST_ATTR,   /* source dst, by its row; a new reference */
    ST_GROUP,  /* group a */
    ST_TYPE,   /* type(source a) is obj */
    ST_ID,     /* source a is obj */
    ST_ARRAY,  /* source a: descriptor obj, else dtype y; rank x; flags & number is `want` */
    ST_TENSOR, /* source a: as guard `guard` says; its view is kept for DIM_OF_TENSOR */
    ST_TORCH,  /* torch's state is number */
    ST_CHECK,  /* guard `guard` on sources a and b */
    ST_APART,  /* guard `guard`: row a of `inputs` lies apart from those behind it; x: from those that the memo doesn't settle */
    ST_ABSENT, /* source a (not loaded) is missing */
    ST_DIM,    /* symbol dst = source a's size in axis x; an ARRAY step stands before */
    ST_DIM_OF_ANY, /* the same, nothing known of the source */
    ST_DIM_OF_TENSOR,
    ST_STRIDE, /* symbol dst = bytes between elements of source a along axis x; nothing known of it */
    ST_INT,    /* symbol dst = the int at source a */
    ST_FLOAT,
    ST_BOOL,
    ST_NPSCALAR, /* symbol dst = the number in the NumPy scalar at source a, read as x says (arrays.h) */
    ST_EVAL,     /* symbol dst by its row */
    ST_ADD,      /* symbol dst = symbol a + symbol b, ints */
    ST_SUB,
    ST_MUL,
    ST_TRUE, /* symbol a is true */
    ST_EQ,   /* symbol a == symbol b, ints; symbol dst becomes True */
    ST_NE,
    ST_LT,
    ST_LE,
    ST_GT,
    ST_GE,
    ST_EQ_NUMBER, /* symbol a == number, likewise */
    ST_NE_NUMBER,
    ST_LT_NUMBER,
    ST_LE_NUMBER,
    ST_GT_NUMBER,
    ST_GE_NUMBER
} StepOp;

typedef struct Step {
    uint8_t op, x, y;
    uint32_t guard; /* on whose behalf; DYN_NONE: a symbol or source that no guard uses */
    uint32_t dst, a, b;
    int32_t want;
    int64_t number;
    PyObject *obj; /* borrowed from the capture; descriptors from NumPy's own */
} Step;

/* Sources that are keys of one dict. While the dict hasn't changed since all of them were found as wanted, they still are, and
 * what was found is alive in it: nothing is evaluated. */
typedef struct Member {
    uint32_t source;
    PyObject *key;   /* borrowed from the source */
    PyObject *value; /* borrowed from the dict: valid while the token is; NULL: not there */
    bool needed;     /* somebody reads env->src[source] */
} Member;
typedef struct Group {
    PyObject *dict; /* strong */
    uint32_t depth; /* module attributes of module attributes … come after what they are reached through */
    DynDictToken token;
    bool valid;
    DYN_VEC(Member)
    members;
    DYN_VEC(uint32_t)
    guards; /* ID, EQ, MISSING guards that the token answers */
} Group;

typedef struct Local {
    uint32_t source, slot;
} Local;
typedef DYN_VEC(Local) Locals;
typedef struct DynConstSym {
    uint32_t id;
    DynScalar value;
} DynConstSym;
typedef struct DynMemo DynMemo; /* guards_memo.c */
struct DynGuardProgram {
    const DynCapture *capture; /* the entry's, which lives longer */
    DYN_VEC(Step)
    steps;
    DYN_VEC(Step)
    rest;                                               /* what has to be run while the memo holds */
    DynMemo *memo;                                      /* NULL: not worth it */
    bool *settled_source, *settled_sym, *settled_guard; /* what the memo answers */
    bool *wanted;                                       /* sources that a hit reads */
    DYN_VEC(Group)
    groups;
    DYN_VEC(DynConstSym)
    constants;
    Locals locals; /* arguments that a hit reads and no guard asks for */
    DYN_VEC(uint32_t)
    attrs; /* sources that a check loads as new references */
    DYN_VEC(uint32_t)
    held;                /* sources that a hit takes references to */
    uint64_t checks;     /* so far */
    DynArrayView *views; /* by source: of tensors, during a check; NULL: there are none */
    uint8_t *looked;     /* by source: the kind of the guard that says how the array or tensor lies, TENSOR or ARRAY; 0: none */
    DYN_VEC(uint32_t)
    inputs;             /* sources of the graph's inputs, if it writes into some: those first … */
    uint32_t nopen;     /* … and so many of them aren't settled, or no guard says how they lie */
    uint32_t *group_of; /* by source: group or DYN_NONE */
    uint32_t *fails;    /* by guard: misses that it made */
    uint32_t hot;       /* the guard that is tried first, or DYN_NONE */
};

/* guards_plan.c: (re)makes the steps in a good order. 0 or -1 (memory; the old steps stay). */
DYN_HIDDEN int dyn_guards_plan(DynGuardProgram *p);

/* guards_apart.c. new: `looked` and `inputs`, before the memo is made; settle: `nopen`, when that has said what is settled. */
DYN_HIDDEN int dyn_apart_new(DynGuardProgram *p);
DYN_HIDDEN void dyn_apart_settle(DynGuardProgram *p);
DYN_HIDDEN uint32_t dyn_apart_row(const DynGuardProgram *p, uint32_t source); /* of `inputs` */
/* Does row `at` of `inputs` lie apart from those behind it? open: from those that the memo doesn't settle. */
DYN_HIDDEN bool dyn_apart_holds(const DynGuardProgram *p, uint32_t at, bool open, PyObject *const *src);
/* Do all inputs that the memo settles lie apart from those that are written? */
DYN_HIDDEN bool dyn_apart_settled(const DynGuardProgram *p, PyObject *const *src);

/* guards_memo.c. new: when the groups are made and nothing else; -1: memory. holds: env has the settled sources and symbols then,
 * and nothing in the others. note: behind a check without it, that succeeded. */
DYN_HIDDEN int dyn_memo_new(DynGuardProgram *p);
DYN_HIDDEN void dyn_memo_free(DynGuardProgram *p);
DYN_HIDDEN void dyn_memo_forget(DynGuardProgram *p);
DYN_HIDDEN size_t dyn_memo_bytes(const DynGuardProgram *p);
DYN_HIDDEN bool dyn_memo_holds(DynGuardProgram *p, PyObject *func, PyObject *const *locals, DynEnv *env);
DYN_HIDDEN void dyn_memo_note(DynGuardProgram *p, PyObject *const *locals, const DynEnv *env);

/* Is the tensor as the TENSOR guard says? *view: where its elements lie. */
DYN_HIDDEN bool dyn_guard_tensor(const DynGuard *g, PyObject *o, DynArrayView *view);

/* Where the elements of an array lie whose kind other guards have looked at. */
DYN_HIDDEN bool dyn_guard_place(PyObject *o, DynArrayView *view);
/* guards_match.c. Is the array as the ARRAY guard says, but for its layout? */
DYN_HIDDEN bool dyn_guard_array(const DynGuard *g, PyObject *o);
/* One guard of a kind other than SYM and MISSING on loaded sources. */
DYN_HIDDEN bool dyn_guard_holds(const DynGuard *g, PyObject *o, PyObject *o2);
/* Equal as EQ guards mean it; false for types that EQ guards don't compare. */
DYN_HIDDEN bool dyn_guard_equal(PyObject *a, PyObject *b);
/* A Python number of exactly this type that a symbol can hold. */
DYN_HIDDEN bool dyn_guard_number(PyObject *o, DynSymType type, DynScalar *out);
DYN_HIDDEN int dyn_guards_init_module(PyObject *module); /* guards_hook.c: functions for tests/trace/test_guards.py */
/* Of a source that is a key of a dict: can misses of this guard come from a change of the dict alone? */
static inline bool dyn_guard_is_fixed(const DynGuard *g) { return (dyn_guard_rows[g->kind].flags & DYN_GF_DICT_ANSWERS) != 0; }
/* Does the memo know how the array or tensor lies, and notice when it comes to lie elsewhere? */
static inline bool dyn_guard_is_placed(const DynGuardProgram *p, uint32_t source) {
    return p->settled_source[source] && p->looked[source] != 0;
}
/* Is source2 a source that the guard looks at. */
static inline bool dyn_guard_has_two(const DynGuard *g) { return dyn_guard_subject(g) == DYN_ABOUT_PAIR; }
#endif
