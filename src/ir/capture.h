/* capture.h: what one recording hands to the pipeline: a graph, guards, and recipes for the Python values around it.
 *
 * Made by the recorder (record.c), read by evalframe/compile.c, freed by it. Everything is in one arena but the Python
 * references, which dyn_capture_free drops. */
#ifndef DYN_CAPTURE_H
#define DYN_CAPTURE_H
#include "ir/frame.h"
#include "ir/graph.h"

/* Guards as data: guards.def has a row for each kind. All are evaluated without running Python code. */
#define DYN_GF_DICT_ANSWERS 1u /* of a key of a dict: misses can come from a change of the dict alone */
#define DYN_GF_SAYS_VALUE 2u   /* says which value something has */
/* Of an ARRAY guard: it is written, so it is writeable, and writing it doesn't warn; it is asked for its flags, which doesn't. */
#define DYN_ARRAY_WRITTEN (1 << 16)
#define DYN_ARRAY_ASKED (1 << 17)
#define DYN_TENSOR_GRAD (1 << 16) /* of a TENSOR guard: it requires gradients */
#define DYN_TENSOR_DEVICE 24      /* … and from this bit on where it lies, as DynArrayView says it */

typedef enum DynGuardKind {
#define GUARD(kind, subject, object, text, was, is, cost, memo, step, flags, group) DYN_GUARD_##kind,
#include "ir/guards.def"
#undef GUARD
} DynGuardKind;
enum { /* no kind of guard, so that switches over kinds are complete without it */
       DYN_GUARD_COUNT = 0
#define GUARD(kind, subject, object, text, was, is, cost, memo, step, flags, group) +1
#include "ir/guards.def"
#undef GUARD
};
/* Columns of guards.def, explained there. */
#define DYN_GUARD_SUBJECTS(SUBJECT) \
    SUBJECT(OBJECT)                 \
    SUBJECT(PAIR)                   \
    SUBJECT(ARRAY)                  \
    SUBJECT(TENSOR)                 \
    SUBJECT(ABSENCE)                \
    SUBJECT(SYMBOL)                 \
    SUBJECT(STATE)
#define DYN_GUARD_OBJECTS(OBJECT) \
    OBJECT(NONE)                  \
    OBJECT(ANY)                   \
    OBJECT(TYPE)                  \
    OBJECT(TUPLE)                 \
    OBJECT(DICT)                  \
    OBJECT(CODE)                  \
    OBJECT(FACTS)
/* GROUP(name, heading, cure): what a program can do whose calls differ in such a guard. */
#define DYN_GUARD_GROUPS(GROUP)                                                                                            \
    GROUP(ARRAYS, "arrays and tensors",                                                                                    \
          "call it with arrays of one dtype, rank and memory order, or give each kind of call a function of its own")      \
    GROUP(NUMBERS, "sizes and numbers", "a number that picks an axis, a length or a branch has an entry for each outcome") \
    GROUP(VALUES, "types and values",                                                                                      \
          "pass values of one type; one that picks an axis, a dtype or a branch has an entry for each value")              \
    GROUP(CONTAINERS, "what containers hold", "pass containers of one length with the same keys, or an array")             \
    GROUP(OBJECTS, "which object something is", "make the object once, outside of what is called again and again")         \
    GROUP(NAMES, "names that are there, or not", "define attributes and globals before the first call")                    \
    GROUP(CODE, "functions and classes", "define functions and classes once, and leave them as they are")                  \
    GROUP(MODES, "modes of PyTorch", "call it under the same modes: torch.no_grad, inference_mode, the default dtype")
typedef enum DynGuardSubject {
#define SUBJECT(k) DYN_ABOUT_##k,
    DYN_GUARD_SUBJECTS(SUBJECT)
#undef SUBJECT
} DynGuardSubject;
typedef enum DynGuardObject {
#define OBJECT(k) DYN_WANTS_##k,
    DYN_GUARD_OBJECTS(OBJECT)
#undef OBJECT
} DynGuardObject;
typedef enum DynGuardGroup {
#define GROUP(k, heading, cure) DYN_GROUP_##k,
    DYN_GUARD_GROUPS(GROUP)
#undef GROUP
} DynGuardGroup;
typedef struct DynGuardRow {
    const char *name; /* The kind's name. */
    uint8_t subject;  /* What the guard looks at, a DynGuardSubject. */
    uint8_t object;   /* What `obj` has to be, a DynGuardObject. */
    uint8_t cost;     /* Checking takes at least as long as reaching a source of this cost. */
    uint8_t flags;    /* Any of DYN_GF_…. */
    uint8_t group;    /* Under which heading an explanation lists it, a DynGuardGroup. */
    const char *text; /* The guard as a Python expression with {parts}. */
    const char *was;  /* The old value in the explanation of a miss. */
    const char *is;   /* The new value there. */
} DynGuardRow;
DYN_HIDDEN extern const DynGuardRow dyn_guard_rows[DYN_GUARD_COUNT];
typedef struct DynGuard {
    uint8_t kind;     /* The row of guards.def, a DynGuardKind. */
    uint32_t source;  /* The source that is looked at; of a SYM guard the symbol's id. */
    uint32_t source2; /* The second source of a PAIR, else DYN_NONE. */
    int64_t number;   /* What it means is said above the kind's row. */
    PyObject *obj;    /* A strong reference or NULL; what it means is said above the kind's row. */
    bool lasting;     /* Of a SYM guard: shadows rest on it for good, and not only what was recorded since. */
    DynLayout layout; /* How an ARRAY or TENSOR lies in memory. */
    uint32_t place;   /* The source line that made the guard needed, a row of DynGraph.places. */
} DynGuard;
static inline DynGuardSubject dyn_guard_subject(const DynGuard *g) { return (DynGuardSubject)dyn_guard_rows[g->kind].subject; }
static inline bool dyn_guard_has_layout(const DynGuard *g) {
    return dyn_guard_subject(g) == DYN_ABOUT_ARRAY || dyn_guard_subject(g) == DYN_ABOUT_TENSOR;
}
/* `source` is a source, and not a symbol or nothing. */
static inline bool dyn_guard_has_source(const DynGuard *g) {
    return dyn_guard_subject(g) != DYN_ABOUT_SYMBOL && dyn_guard_subject(g) != DYN_ABOUT_STATE;
}

/* Recipes: how to make a Python value after the graph ran. Items are indices of earlier recipes. One recipe makes one object in
 * one rebuild, so that identity and aliasing hold. */
#define DYN_RECIPE_KINDS(RECIPE)                                                                                           \
    RECIPE(SOURCE)     /* id: source */                                                                                    \
    RECIPE(CONST)      /* obj */                                                                                           \
    RECIPE(OUTPUT)     /* id: position in graph.outputs */                                                                 \
    RECIPE(SYM)        /* id: symbol: a Python int, float or bool */                                                       \
    RECIPE(TUPLE)      /* items */                                                                                         \
    RECIPE(LIST)       /* items */                                                                                         \
    RECIPE(DICT)       /* items: key, value, key, value… */                                                              \
    RECIPE(SET)        /* items */                                                                                         \
    RECIPE(SLICE)      /* 3 items */                                                                                       \
    RECIPE(METHOD)     /* items: function, self */                                                                         \
    RECIPE(ITER)       /* items: the container (tuple, list); id: how many were taken. obj: reversed; id: its position */  \
    RECIPE(RANGE)      /* 3 items */                                                                                       \
    RECIPE(RANGE_ITER) /* 3 items: start of what is left, stop, step */                                                    \
    RECIPE(NAMED)      /* items: a tuple; obj: the tuple subclass to make of it by its _make */                            \
    RECIPE(MAPPING)    /* items: a defaultdict's factory or NULL, a dict with the content; obj: the dict subclass */       \
    RECIPE(COMPLEX)    /* items: the parts, as floats */                                                                   \
    RECIPE(ATTR)       /* items: an object; obj: the name of its attribute */                                              \
    RECIPE(CALL)       /* items: arguments; obj: what to call: zip, enumerate …; id: how many items of it were taken */  \
    RECIPE(FUNCTION)   /* items: globals, closure, defaults, keyword defaults, annotations (NULL: none); obj: its code */  \
    RECIPE(GENERATOR)  /* items: function, slots, stack; id: the code unit where it goes on; or DYN_NONE: at its end */    \
    RECIPE(CELL)       /* items: content, or none: a new cell */                                                           \
    RECIPE(OBJECT)     /* items: name, value, name, value… (str); obj: the class, made by object.__new__ */              \
    RECIPE(INSTANCE)   /* items: a dict, name, value, name … (str); obj: a subclass of dict or OrderedDict, filled so */ \
    RECIPE(RESULT)     /* what a CALL gives that is performed along with it: id: its row */                                \
    RECIPE(FROZENSET)  /* items */                                                                                         \
    RECIPE(INNER)      /* what an outer frame calls at its instruction: goes on in an inlined function. obj: the resume    \
                          code, in an entry its door; items: slots and stack; id: 1: and what inner.c calls `more` */      \
    RECIPE(NULL)       /* an empty slot (unbound local, NULL on the stack) */
typedef enum DynRecipeKind {
#define RECIPE(k) DYN_RC_##k,
    DYN_RECIPE_KINDS(RECIPE)
#undef RECIPE
} DynRecipeKind;
typedef struct DynRecipe {
    uint8_t kind;
    uint32_t id;
    PyObject *obj; /* strong */
    uint32_t n;
    uint32_t *items;
} DynRecipe;

/* What a segment did to objects that outlive the call. Performed again, in this order, when the graph ran and the values were
 * rebuilt: nobody can look in between. Items are recipes. */
#define DYN_EFFECT_KINDS(EFFECT)                                                      \
    EFFECT(SETATTR) /* items: object, value; obj: name */                             \
    EFFECT(DELATTR) /* items: object; obj: name */                                    \
    EFFECT(SETITEM) /* items: container, key, value */                                \
    EFFECT(DELITEM) /* items: container, key */                                       \
    EFFECT(SETCELL) /* items: cell, value or none */                                  \
    EFFECT(HANDLED) /* items: the exception that is handled from there on, or None */ \
    EFFECT(CALL)    /* items: arguments of obj, a builtin's method: self.append … */
typedef enum DynEffectKind {
#define EFFECT(k) DYN_FX_##k,
    DYN_EFFECT_KINDS(EFFECT)
#undef EFFECT
} DynEffectKind;
typedef struct DynEffect {
    uint8_t kind;
    PyObject *obj; /* strong */
    uint32_t n;
    uint32_t *items;
    uint32_t row; /* CALL: RESULT recipes that have this id are what it gives */
} DynEffect;
typedef struct DynEffects { /* rows of DynCapture.effects */
    uint32_t first, n;
} DynEffects;

/* A frame as it has to be rebuilt: slots (locals, cells, free variables) then stack, each a recipe. */
typedef struct DynFrameState {
    PyObject *code; /* strong */
    uint32_t func;  /* recipe of the function object; DYN_NONE for the outermost: the called function */
    uint32_t at;    /* code unit of the instruction to run next (its start, with prefixes) */
    uint32_t nslots, nstack;
    uint32_t *recipes; /* nslots + nstack */
} DynFrameState;
typedef struct DynSnapshot {
    uint32_t nframes; /* outermost first; an outer frame stands at its CALL with callable and arguments on its stack */
    DynFrameState *frames;
    uint32_t nrecipes;  /* recipes that there were before its own */
    DynEffects effects; /* what was done before it */
    uint32_t
        nnodes; /* nodes of the graph that were recorded before it; recipes of OUTPUT kind use node ids here, not positions */
} DynSnapshot;

typedef enum DynEnd {
    DYN_END_RETURN, /* the whole rest of the function: `result` */
    DYN_END_BREAK,  /* `before` at the breaking instruction; then `resume` carries on */
    DYN_END_LEAVE,  /* `before`: the frame is rebuilt there and CPython goes on to the end */
    DYN_END_PASS    /* CPython runs it all, and behind it `resume` carries on; of `before` there are code and nslots alone */
} DynEnd;
typedef struct DynCapture {
    DynArena arena;
    PyObject *code; /* strong: the code object the entry belongs to (a function's own, or a resume code) */
    PyObject *func; /* strong or NULL: the function that was recorded */
    DynSources sources;
    DynSyms syms;
    DynGraph graph;
    DYN_VEC(DynGuard)
    guards;
    DynIndex guard_index; /* of no slots: nobody has looked for one since some were taken back */
    DYN_VEC(DynRecipe)
    recipes;
    DYN_VEC(DynSnapshot)
    snapshots;
    DYN_VEC(DynEffect)
    effects;
    bool guesses;         /* the truth of data that sizes alone decide is checked in the graph, not guarded */
    bool quiet;           /* a part of the graph stood in np.errstate(…="ignore"): no array that came in may be written */
    bool writes;          /* the graph writes into an array that came in */
    uint8_t end;          /* DynEnd */
    DynEffects done;      /* what was done up to the end, whichever it is */
    uint32_t result;      /* RETURN: recipe */
    DynFrameState before; /* BREAK, LEAVE */
    bool ways[DYN_WAYS];  /* BREAK: the ways on that there are, in the coordinates of before.code: */
    DynFrameShape after[DYN_WAYS];
    bool stands_in;   /* BREAK: the call that it ends in front of is made in a way that takes less time */
    DynReason reason; /* why it ended at a BREAK or LEAVE */
    DynPlace end_place;
    DynReason cause;    /* … what was behind it: in a call that didn't come to its end, the reason there */
    const char *detail; /* … and what exactly, in the arena; NULL: nothing more is known */
    DYN_VEC(DynPlace)
    inner;                /* … and where, innermost first, up to the call at end_place; empty: at end_place itself */
    uint32_t ninstrs;     /* instructions recorded; while it is: that were recorded before */
    int64_t record_began; /* dyn_now_ns */
    int64_t record_ns;    /* from then to the segment's end, the program's own work in it included */
    PyObject *examples;   /* strong or NULL: a tuple of the arrays that came in, where a back end is to see them; cleared by it */
} DynCapture;
DYN_HIDDEN DynCapture *dyn_capture_new(PyObject *code, const char *name);
DYN_HIDDEN void dyn_capture_free(DynCapture *c);
DYN_HIDDEN void dyn_capture_trim(DynCapture *c);          /* nothing more is added: room that it doesn't need is given back */
DYN_HIDDEN size_t dyn_capture_bytes(const DynCapture *c); /* that it holds, without what others hold too */
/* Calls `visit` with each place of a reference that the capture counts (or its graph, or its sources), but those that are NULL;
 * ends with what that returns, if it isn't 0. */
typedef int DynVisitSlot(PyObject **slot, void *arg);
DYN_HIDDEN int dyn_capture_slots(DynCapture *c, DynVisitSlot *visit, void *arg);
DYN_HIDDEN uint32_t dyn_capture_recipe(DynCapture *c, DynRecipeKind kind, uint32_t id, PyObject *obj, uint32_t n,
                                       const uint32_t *items);
static inline uint32_t dyn_capture_constant(DynCapture *c, PyObject *obj) {
    return dyn_capture_recipe(c, DYN_RC_CONST, 0, obj, 0, NULL);
}
DYN_HIDDEN int dyn_capture_effect(DynCapture *c, DynEffectKind kind, PyObject *obj, uint32_t n, const uint32_t *items);
/* Duplicates are dropped; takes its own reference. -1: no memory, or too many: each is looked at by each call. */
#define DYN_MAX_GUARDS 10000
DYN_HIDDEN int dyn_capture_guard(DynCapture *c, const DynGuard *g);
/* A part of a recording is taken back: recipes, or snapshots and their recipes, or the SYM guards that don't last, from n on. */
DYN_HIDDEN void dyn_capture_forget_recipes(DynCapture *c, uint32_t n);
DYN_HIDDEN void dyn_capture_forget_snapshots(DynCapture *c, uint32_t n);
DYN_HIDDEN void dyn_capture_forget_guards(DynCapture *c, uint32_t n);
/* … or the EQ and ID guards: what comes before a break doesn't rest on which values the breaking instruction looked at. */
DYN_HIDDEN void dyn_capture_forget_values(DynCapture *c, uint32_t n);
/* graph_data.c: graph, symbols, calls and what is returned as plain Python data: new reference, NULL with an exception. */
DYN_HIDDEN PyObject *dyn_capture_data(const DynCapture *c);
DYN_HIDDEN int dyn_capture_verify(const DynCapture *c, DynStr *error);
DYN_HIDDEN void dyn_capture_print(const DynCapture *c, DynStr *out);
DYN_HIDDEN void dyn_guard_print(const DynCapture *c, const DynGuard *g,
                                DynStr *out); /* as a Python expression: x.dtype == float64 and x.ndim == 2 */
/* `text` with its parts {…} filled in; `other` prints those that aren't parts of any guard's text (NULL: there are none). */
typedef void (*DynGuardPart)(const char *part, size_t n, void *arg);
DYN_HIDDEN void dyn_guard_print_text(const DynCapture *c, const DynGuard *g, const char *text, DynGuardPart other, void *arg,
                                     DynStr *out);
#endif
