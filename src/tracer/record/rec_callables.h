/* rec_callables.h: the callables that are known by their address (callables.def), as the recorder asks for them, and the
 * functions that handle calls of them. rec_call.c asks; the handlers stand in the files of tracer/python and tracer/numpy, and
 * include this for their prototypes and arguments. */
#ifndef DYN_REC_CALLABLES_H
#define DYN_REC_CALLABLES_H
#include "tracer/record/rec_state.h"

/* What a handler or a rule gives where the call is none of its own: nothing ran. */
extern DYN_HIDDEN DynVal rec_declined;
#define REC_DECLINED (&rec_declined)

/* Makes the call c for real: a new reference in *result (NULL: it raised), and gives its shadow (NULL: unknown; why is set).
 * REC_DECLINED: nothing ran. `arg` is the row's. */
typedef DynVal *(*RecCallHandler)(DynRec *r, const RecCall *c, PyObject **result, int arg);

#define CALLABLE(module, path, handler, arg, flags) \
    DYN_HIDDEN DynVal *rec_on_##handler(DynRec *r, const RecCall *c, PyObject **result, int arg_);
#define MEMBERS CALLABLE
#define INSTANCES CALLABLE
#include "tracer/record/callables.def"
#undef CALLABLE
#undef MEMBERS
#undef INSTANCES

typedef enum RecCallableFlag {
    REC_EARLY = 1,
    REC_ANY_SELF = 2,
    REC_TAKES_ALL = 4,
    REC_LISTS = 8,
    REC_OF_ARRAY = 16,
    REC_PURE = 32,
    REC_WALKS = 64,
    REC_LEAVES = 128,
    REC_SEES_REFERENCES = 256,
    REC_NEVER_CHANGE = 512,
    REC_FIXED = 1024,
    REC_ALONE = 2048,
    REC_EACH = 4096
} RecCallableFlag;

/* ---- arguments of rows: each for the handlers that are named beside it */

enum { REC_BY_VALUES, REC_BY_TYPES, REC_BY_CODE };                                                /* fact */
enum { REC_DIVMOD, REC_POW };                                                                     /* arithmetic */
enum { REC_MIN, REC_MAX, REC_SORTED, REC_SORT };                                                  /* keyed */
enum { REC_ANY, REC_ALL };                                                                        /* truths */
enum { REC_OF_VALUE, REC_OF_TEXT };                                                               /* of_constants */
enum { REC_MAP, REC_FILTER, REC_ZIP, REC_ENUMERATE, REC_REVERSED, REC_STARMAP, REC_FILTERFALSE }; /* lazy, listed_iterator */
enum { REC_SLOT_INIT, REC_SLOT_SET, REC_SLOT_DELETE, REC_SLOT_ERROR };                            /* slot */
enum { REC_SET_ADD, REC_SET_OTHER };                                                              /* set_change */
enum { REC_ITEM_SET, REC_ITEM_DELETE };                                                           /* change_item */
enum { REC_PARTIAL, REC_ITEMGETTER, REC_ATTRGETTER, REC_METHODCALLER };                           /* new_partial */
enum { /* binary, inplace, sum: as BINARY_OP */
       REC_NB_ADD,
       REC_NB_AND,
       REC_NB_FLOOR_DIVIDE,
       REC_NB_LSHIFT,
       REC_NB_MATRIX_MULTIPLY,
       REC_NB_MULTIPLY,
       REC_NB_REMAINDER,
       REC_NB_OR,
       REC_NB_POWER,
       REC_NB_RSHIFT,
       REC_NB_SUBTRACT,
       REC_NB_TRUE_DIVIDE,
       REC_NB_XOR
};
typedef enum RecListMethod { /* list_method */
                             REC_LIST_APPEND,
                             REC_LIST_EXTEND,
                             REC_LIST_INSERT,
                             REC_LIST_POP,
                             REC_LIST_REMOVE,
                             REC_LIST_CLEAR,
                             REC_LIST_COPY,
                             REC_LIST_REVERSE,
                             REC_LIST_SORT,
                             REC_LIST_INDEX,
                             REC_LIST_COUNT
} RecListMethod;
typedef enum RecDequeMethod { /* deque_method */
                              REC_DEQUE_APPEND,
                              REC_DEQUE_APPEND_LEFT,
                              REC_DEQUE_EXTEND,
                              REC_DEQUE_EXTEND_LEFT,
                              REC_DEQUE_POP,
                              REC_DEQUE_POP_LEFT,
                              REC_DEQUE_INSERT,
                              REC_DEQUE_ROTATE,
                              REC_DEQUE_REVERSE,
                              REC_DEQUE_CLEAR,
                              REC_DEQUE_COPY,
                              REC_DEQUE_INDEX,
                              REC_DEQUE_COUNT
} RecDequeMethod;
typedef enum RecDictMethod { /* dict_method */
                             REC_DICT_GET,
                             REC_DICT_KEYS,
                             REC_DICT_VALUES,
                             REC_DICT_ITEMS,
                             REC_DICT_POP,
                             REC_DICT_POPITEM,
                             REC_DICT_SETDEFAULT,
                             REC_DICT_UPDATE,
                             REC_DICT_CLEAR,
                             REC_DICT_COPY,
                             REC_DICT_MOVE_TO_END,
                             REC_DICT_INIT,
                             REC_DICT_LEN,
                             REC_DICT_CONTAINS,
                             REC_DICT_GETITEM,
                             REC_DICT_SETITEM,
                             REC_DICT_DELITEM
} RecDictMethod;
enum { /* itertool */
       REC_CHAIN,
       REC_ISLICE,
       REC_COUNT,
       REC_REPEAT,
       REC_PRODUCT,
       REC_PERMUTATIONS,
       REC_COMBINATIONS,
       REC_COMBINATIONS_AGAIN
};
enum { /* polyfilled */
       REC_ACCUMULATE,
       REC_BATCHED,
       REC_COMPRESS,
       REC_CYCLE,
       REC_DROPWHILE,
       REC_FROM_ITERABLE,
       REC_PAIRWISE,
       REC_TAKEWHILE,
       REC_ZIP_LONGEST
};

/* ---- methods of dicts: rec_methods.c, rec_vars.c (of instances that are dicts), rec_collections.c */
DYN_HIDDEN DynVal *rec_dict_method(DynRec *r, const RecCall *c, PyObject **result, RecDictMethod which);
DYN_HIDDEN DynVal *rec_held_method(DynRec *r, const RecCall *c, PyObject **result, RecDictMethod which); /* or REC_DECLINED */
DYN_HIDDEN DynVal *rec_collection_dict_method(DynRec *r, const RecCall *c, PyObject **result,
                                              RecDictMethod which); /* or REC_DECLINED */

/* ---- rules: calls that an address doesn't decide; REC_DECLINED where the call isn't theirs */
DYN_HIDDEN DynVal *rec_unknown_call(DynRec *r, const RecCall *c); /* NULL: a break, by data where an argument is an array */
DYN_HIDDEN DynVal *rec_call_marked(DynRec *r, const RecCall *c, PyObject **result);          /* rec_marked.c */
DYN_HIDDEN DynVal *rec_call_triton(DynRec *r, const RecCall *c, PyObject **result);          /* rec_triton.c */
DYN_HIDDEN DynVal *rec_call_foreign(DynRec *r, const RecCall *c, PyObject **result);         /* rec_foreign.c */
DYN_HIDDEN DynVal *rec_call_quiet_exit(DynRec *r, const RecCall *c, PyObject **result);      /* rec_errstate.c */
DYN_HIDDEN DynVal *rec_call_getter(DynRec *r, const RecCall *c, PyObject **result);          /* rec_partial.c */
DYN_HIDDEN DynVal *rec_call_tapped(DynRec *r, const RecCall *c, PyObject **result);          /* rec_tap.c */
DYN_HIDDEN DynVal *rec_call_dispatched(DynRec *r, const RecCall *c, PyObject **result);      /* rec_dispatch.c */
DYN_HIDDEN DynVal *rec_call_enum(DynRec *r, const RecCall *c, PyObject **result);            /* rec_enum.c */
DYN_HIDDEN DynVal *rec_call_class(DynRec *r, const RecCall *c, PyObject **result);           /* rec_object.c */
DYN_HIDDEN DynVal *rec_call_exception_init(DynRec *r, const RecCall *c, PyObject **result);  /* rec_object.c */
DYN_HIDDEN DynVal *rec_call_replace(DynRec *r, const RecCall *c, PyObject **result);         /* rec_named.c */
DYN_HIDDEN DynVal *rec_call_iterator_method(DynRec *r, const RecCall *c, PyObject **result); /* rec_methods.c */

/* ---- rec_callables.c */
/* An iterator over `items` and then over `rest`: new reference. */
DYN_HIDDEN PyObject *rec_chained(PyObject *items, PyObject *rest);
/* Asks the handlers of f's rows in order: those that look at the arguments themselves (early), or the others, whose arguments
 * were looked at. REC_DECLINED: f isn't in the table, or no handler takes the call. */
DYN_HIDDEN DynVal *rec_call_known(DynRec *r, const RecCall *c, PyObject **result, bool early);
/* The same for the rows of f's type, which look at f itself. */
DYN_HIDDEN DynVal *rec_call_instance(DynRec *r, const RecCall *c, PyObject **result);
DYN_HIDDEN bool rec_has_flag(PyObject *f, RecCallableFlag flag);          /* a callable; a method bound to an object too */
DYN_HIDDEN bool rec_instance_has_flag(PyObject *o, RecCallableFlag flag); /* an instance, by its type */
DYN_HIDDEN bool rec_is_known_instance(PyObject *o);                       /* its type has a row with a handler */
/* The argument of the row by which f is handled so; -1: there is none. */
DYN_HIDDEN int rec_callable_argument(PyObject *f, RecCallHandler handler);
/* The table's own reference to what f is: class methods are another object each time that they are asked for. Borrowed for ever;
 * f itself where it is in no row. */
DYN_HIDDEN PyObject *rec_known_object(PyObject *f);
DYN_HIDDEN int rec_callables_init(void);

/* rec_tap.c */
/* What feeders, that were fed nothing yet, stand for in an enumerate or zip object is put in their place, and back again.
 * `feeders`: what was there, of `most` at most; owned. Returns how many. */
DYN_HIDDEN uint32_t rec_unfeed(PyObject *it, PyObject **feeders, uint32_t most);
DYN_HIDDEN void rec_feed_again(PyObject *it, PyObject **feeders, uint32_t n);
#endif
