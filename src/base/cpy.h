/* cpy.h: the fence around CPython's insides. cpy*.c (with decode and asm) is the only place that includes internal headers or
 * tests PY_VERSION_HEX; everything else sees frames, hooks and versions through these functions, the same on 3.11 to 3.15.
 *
 * Positions in code are indices of code units (2 bytes) from the start of co_code. */
#ifndef DYN_CPY_H
#define DYN_CPY_H
#include "base/base.h"

typedef struct _PyInterpreterFrame DynFrame;
typedef PyObject *(*DynEvalHook)(PyThreadState *ts, DynFrame *f, int throwflag);

DYN_HIDDEN bool dyn_cpy_known(void); /* is the running interpreter the version that this was built for */

/* The hook (PEP 523). NULL stands for CPython's own. A foreign hook (PyTorch's) that was there is called by
 * dyn_frame_default_eval in place of CPython's own and put back; one that came above ours stays, and ours below it.
 * dyn_frame_go_on and _throw never call it. */
DYN_HIDDEN DynEvalHook dyn_hook_get(void);
DYN_HIDDEN DynEvalHook dyn_hook_foreign(void); /* the hook below ours, or NULL */
DYN_HIDDEN void dyn_hook_set(DynEvalHook hook);
DYN_HIDDEN PyObject *dyn_frame_default_eval(PyThreadState *ts, DynFrame *f, int throwflag); /* or the foreign hook */

/* Are these two strings of one text? Of interned ones only one object has it. */
static inline bool dyn_cpy_is_same_text(PyObject *a, PyObject *b) {
    bool interned = PyUnicode_CHECK_INTERNED(a) && PyUnicode_CHECK_INTERNED(b);
    return a == b || (!interned && PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) && PyUnicode_Compare(a, b) == 0);
}

/* Reading a frame. All borrowed. */
DYN_HIDDEN DynFrame *dyn_frame_current(PyThreadState *ts); /* in a function in C: its caller's, if that is Python */
DYN_HIDDEN PyCodeObject *dyn_frame_code(DynFrame *f);
DYN_HIDDEN PyObject *dyn_frame_func(DynFrame *f);
DYN_HIDDEN PyObject *dyn_frame_globals(DynFrame *f);
DYN_HIDDEN PyObject *dyn_frame_builtins(DynFrame *f);
/* Slots: locals, cells and free variables, then the stack. NULL stands for an empty one. A slot holds its value as CPython keeps
 * it: a pointer up to 3.13; from 3.14 a tagged one, which owns a count, or borrows it (LOAD_FAST_BORROW; immortal objects), or is
 * a small number: where an exception was raised, which is a Lasti here (dyn_lasti_new), or a place in a sequence
 * (dyn_frame_settle). `get` borrows; `put` takes the value over and forgets what was there; `take` hands over a count of the
 * caller's own and leaves the slot empty. */
DYN_HIDDEN PyObject *dyn_frame_get(DynFrame *f, uint32_t slot); /* not where a Lasti may be */
DYN_HIDDEN void dyn_frame_put(DynFrame *f, uint32_t slot, PyObject *value);
DYN_HIDDEN PyObject *dyn_frame_take(DynFrame *f, uint32_t slot);
DYN_HIDDEN bool dyn_frame_is_empty(DynFrame *f, uint32_t slot);
DYN_HIDDEN PyObject **dyn_frame_pointers(DynFrame *f);          /* the slots themselves, where they are pointers; else NULL */
DYN_HIDDEN void dyn_frame_get_all(DynFrame *f, PyObject **out); /* locals, cells and free variables, borrowed */
/* The code unit where an exception was raised, as handlers have it below the exception: a new reference, to that of unit 0 where
 * there is no memory. An exception that is set stays set. Its number, or -1 for any other object. */
DYN_HIDDEN PyObject *dyn_lasti_new(uint32_t at);
DYN_HIDDEN int64_t dyn_lasti_get(PyObject *lasti);
DYN_HIDDEN bool dyn_lasti_is_tagged(void); /* CPython itself has a tagged number on the stack in its place: from 3.14 on */
DYN_HIDDEN bool dyn_frame_has_number(DynFrame *f, uint32_t slot); /* a tagged one, which can't be handed on */
DYN_HIDDEN bool dyn_frame_is_generator(DynFrame *f);
/* An exact generator that isn't running, and waits at a plain yield or hasn't begun: in front of which unit; 0: of none yet. */
DYN_HIDDEN bool dyn_generator_is_paused(PyObject *o, uint32_t *at);
DYN_HIDDEN DynFrame *dyn_frame_of_generator(PyObject *generator);                   /* of an exact generator that is suspended */
DYN_HIDDEN void dyn_generator_suspend(PyObject *generator, uint32_t at, int depth); /* a fresh one, now filled: goes on there */
/* The dict of its locals was made: it stays with the frame, with what was put into it (up to 3.12). */
DYN_HIDDEN bool dyn_frame_has_locals(DynFrame *f);
/* Of a module's code, a script's and what exec runs: the dict in which its variables lie, where that is its globals, too. Else
 * NULL. */
DYN_HIDDEN PyObject *dyn_frame_namespace(DynFrame *f);
DYN_HIDDEN int dyn_frame_depth(DynFrame *f);          /* stack values of a suspended frame */
DYN_HIDDEN uint32_t dyn_frame_position(DynFrame *f);  /* code unit that would run next on a fresh or suspended frame */
DYN_HIDDEN int dyn_code_nlocalsplus(PyCodeObject *c); /* slots before the stack */
DYN_HIDDEN int dyn_code_ncells(PyCodeObject *c);      /* cell variables */
DYN_HIDDEN int dyn_code_nfree(PyCodeObject *c);       /* free variables: the last slots before the stack */
DYN_HIDDEN PyObject *dyn_code_local_name(PyCodeObject *c, int slot); /* borrowed str */
DYN_HIDDEN uint8_t dyn_code_local_kind(PyCodeObject *c, int slot);   /* CO_FAST_LOCAL | _CELL | _FREE bits as CPython's */

/* One row of a code object's exception table, in code units. */
typedef struct DynHandler {
    uint32_t start, end, target; /* covers start <= at < end */
    uint32_t depth;              /* stack values that stay */
    bool lasti;                  /* the failing instruction's position is pushed below the exception */
} DynHandler;
/* Walks the table: *cursor starts at 0; false at the end. */
DYN_HIDDEN bool dyn_cpy_next_handler(PyCodeObject *c, Py_ssize_t *cursor, DynHandler *out);
DYN_HIDDEN bool dyn_cpy_find_handler(PyCodeObject *c, uint32_t at, DynHandler *out);

/* Taking over a frame. enter links f in as the thread's current frame (what default evaluation does on entry) and counts the
 * recursion; leave undoes both. Between them f is what sys._getframe() shows. enter returns -1 with RecursionError set (then it
 * has undone itself: clear the error and hand the frame to default evaluation, which raises it in the right place). */
typedef struct DynFrameLink {
    void *private_[8];
} DynFrameLink;
DYN_HIDDEN int dyn_frame_enter(PyThreadState *ts, DynFrame *f, DynFrameLink *link);
DYN_HIDDEN void dyn_frame_leave(PyThreadState *ts, DynFrame *f, DynFrameLink *link);
/* What is called between them is called by the current frame's caller, for whoever looks; show takes what hide gave. */
DYN_HIDDEN DynFrame *dyn_frame_hide(PyThreadState *ts);
DYN_HIDDEN void dyn_frame_show(PyThreadState *ts, DynFrame *f);
DYN_HIDDEN bool dyn_recursion_near_limit(PyThreadState *ts); /* less than 50 Python calls left */
/* From now on so many calls that are running are taken to be none: they don't count against the limit. */
DYN_HIDDEN void dyn_recursion_forgive(PyThreadState *ts, int calls);
DYN_HIDDEN PyObject *dyn_frame_eval_alone(PyThreadState *ts, DynFrame *f); /* when no hook is installed */
DYN_HIDDEN bool dyn_cpy_short_of_stack(void); /* too short to record, or to run kernels: a thread's may be small */
DYN_HIDDEN bool dyn_cpy_deep_in_stack(void);  /* the C stack is short: with no hook Python calls need none */

/* A call from C that stands for one that CPython would make without C stack: what it counts is lent, and taken back behind it. */
DYN_HIDDEN int dyn_cpy_lend_stack(PyThreadState *ts);
/* How many Python calls in one another the recursion limit allows yet, and the address that native ones mustn't reach on the C
 * stack; 0: nobody knows how much of that is left. */
DYN_HIDDEN int64_t dyn_cpy_calls_left(long *floor);
DYN_HIDDEN void dyn_cpy_return_stack(PyThreadState *ts, int lent);

/* While instruction `at` runs: the frame says so to whoever looks (line numbers, f_lasti), and the stack holds `depth` values. */
DYN_HIDDEN void dyn_frame_running(DynFrame *f, uint32_t at, int depth);

/* Handing a frame back (after dyn_frame_leave): locals and `depth` stack values are in the frame. Each returns what default
 * evaluation returns (NULL with an exception set). The frame is consumed as CPython's protocol for hooks asks.
 *   go_on: continue at code unit `at`. Operands of a call there are borrowed from locals where CPython's would be (cpy_lend.c).
 *   return: end with this result (taken over), whatever the code is.
 *   throw: the exception that is set is raised at the instruction at code unit `at` (handlers, traceback and columns as if it had
 *          failed there). */
DYN_HIDDEN PyObject *dyn_frame_go_on(PyThreadState *ts, DynFrame *f, uint32_t at, int depth);
DYN_HIDDEN PyObject *dyn_frame_return(PyThreadState *ts, DynFrame *f, PyObject *result);
DYN_HIDDEN PyObject *dyn_frame_throw(PyThreadState *ts, DynFrame *f, uint32_t at, int depth);

/* cpy_loop.c: instructions that are changed while they may be running. One unit becomes another (opcode and argument), if it
 * reads `from`: tracers put their own there. may_patch: does CPython read instructions where they lie, each time? */
DYN_HIDDEN bool dyn_code_swap_unit(PyCodeObject *code, uint32_t at, const uint8_t from[2], const uint8_t to[2]);
DYN_HIDDEN bool dyn_cpy_may_patch(void);
/* cpy_methods.c: where sites of the code have learnt that a class has `method`, they load `by` instead, until the class changes;
 * both are borrowed. How many sites. */
DYN_HIDDEN uint32_t dyn_code_replace_method(PyCodeObject *code, PyObject *method, PyObject *by);
/* The frame goes over to another code object, with the same slots, and stands at its beginning; may it? It is handed back by
 * go_on, or when it is fresh by default evaluation. */
DYN_HIDDEN bool dyn_frame_may_change(PyThreadState *ts, DynFrame *f, PyCodeObject *code);
DYN_HIDDEN void dyn_frame_change_code(DynFrame *f, PyCodeObject *code);

/* The main thread calls it between two of its next instructions. Any thread, without the GIL; -1: there are too many already. */
DYN_HIDDEN bool dyn_cpy_is_main_thread(void); /* the calling thread is the one that serves signals and calls such as the next */
DYN_HIDDEN int dyn_cpy_call_soon(int (*call)(void *));
DYN_HIDDEN void dyn_cpy_look_again(void); /* from any thread: the main thread is to look for such calls */
/* Between the two no handler of a signal runs: what one raises is the program's, and would be lost in Python code that dynoc
 * calls for itself. What comes waits until the program goes on. They nest. */
DYN_HIDDEN void dyn_cpy_hold_signals(void);
DYN_HIDDEN void dyn_cpy_release_signals(void);
DYN_HIDDEN PyObject *dyn_import(const char *module);    /* in between */
DYN_HIDDEN void dyn_import_refuse(const char *package); /* … but for this package and its modules: ImportError; NULL: for none */

/* f, or the nearest below it on the stack that is a Python function's and has begun; who called it. NULL: none. */
DYN_HIDDEN DynFrame *dyn_frame_complete(DynFrame *f);
DYN_HIDDEN DynFrame *dyn_frame_caller(DynFrame *f);

/* Doors of functions: another vectorcall. Call sites look at it from 3.12 on. */
DYN_HIDDEN bool dyn_func_has_doors(void);
DYN_HIDDEN bool dyn_func_has_door(PyObject *func, vectorcallfunc door);
DYN_HIDDEN bool dyn_func_set_door(PyObject *func, vectorcallfunc door); /* false: it has somebody else's, or there are no doors */
/* If it is this one. `version`: as below. */
DYN_HIDDEN void dyn_func_take_door(PyObject *func, vectorcallfunc door, uint32_t version);
/* Of a new function: a dict, a tuple of names and values, or from 3.14 a function that gives them; NULL: none. */
DYN_HIDDEN void dyn_func_set_annotations(PyObject *func, PyObject *annotations);
/* Call a function past its door. */
DYN_HIDDEN PyObject *dyn_func_call(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames);
/* `made` is told of each new function (NULL: no more). false: nobody is told, on 3.11 or where CPython's watchers are all taken.
 */
DYN_HIDDEN bool dyn_func_watch(void (*made)(PyObject *func));
/* Its code's, as one has that Python code made; where the code has none, this one. */
DYN_HIDDEN void dyn_func_give_version(PyObject *func, uint32_t version);
/* Of the functions that will be made of code; 0: call sites ask each for its door. Returns what it was. */
DYN_HIDDEN uint32_t dyn_code_swap_version(PyCodeObject *code, uint32_t version);
/* A number kept on a code object, 0 at first. DYN_CODE_OWN: dynoc has made the code. */
DYN_HIDDEN uintptr_t dyn_code_word(PyCodeObject *code);
DYN_HIDDEN void dyn_code_set_word(PyCodeObject *code, uintptr_t word);
DYN_HIDDEN size_t dyn_code_bytes(const PyCodeObject *code); /* that it holds, without its constants and names */
#define DYN_CODE_OWN ((uintptr_t)1)

/* What CPython or NumPy calls on its own account (watchers, slots of types that aren't ours, finalizers, the hook) is called
 * whenever that suits them, with an exception set too. Such a callback begins with dyn_callback_begin, which puts that exception
 * aside, and ends with dyn_callback_end, which sets it again. The callback itself leaves no exception: one that is there at its
 * end aborts a debug build, and is dropped elsewhere. */
typedef struct DynRaised {
    PyObject *type, *value, *traceback;
} DynRaised;
DYN_HIDDEN DynRaised dyn_callback_begin(void);
DYN_HIDDEN void dyn_callback_end(DynRaised before);
/* Is an exception set? Whoever calls a function so (finalizers in C do) gets CPython's own call. */
DYN_HIDDEN bool dyn_cpy_is_raising(PyThreadState *ts);
DYN_HIDDEN bool dyn_cpy_is_finalizing(void); /* the interpreter shuts down: modules and their globals may be gone */

/* Is a trace function, profile function, or a monitoring tool (3.12+) that isn't dynoc's active in this thread? */
DYN_HIDDEN bool dyn_cpy_is_traced(PyThreadState *ts);
/* Serve signals, pending calls, GIL requests as the eval breaker would. -1 with an exception set. Cheap when nothing is due. */
DYN_HIDDEN int dyn_cpy_serve(PyThreadState *ts);
/* A signal that another thread took (the main thread blocks them while it starts one): before 3.13 CPython does not see it until
 * the GIL changes hands. Now it does at its next look. */
DYN_HIDDEN void dyn_cpy_notice_signals(void);

/* Calls: the two slots below the arguments. 3.11 and 3.12: (NULL, callable) or (function, self); 3.13: (callable, NULL) or
 * (function, self). push order for a plain callable. */
DYN_HIDDEN bool dyn_call_null_first(void);
DYN_HIDDEN bool dyn_send_drops_iterator(void); /* at its end: 3.11; from 3.12 END_SEND does */
/* A with statement keeps a manager's __exit__ bound, in one slot, or in two: (function, self) or (bound, NULL). From 3.14. */
DYN_HIDDEN bool dyn_with_keeps_two(void);
/* Slots that an iterator takes on the stack: 1; from 3.15 on 2: the iterator and NULL, or a sequence and, as a tagged number, a
 * place in it. What dynoc puts on a stack is always the former. */
DYN_HIDDEN uint32_t dyn_iterator_slots(void);
/* Among the `depth` stack values of a frame that CPython ran, sequences with a number become iterators and NULL. false: one can't
 * be made so, and all is as it was with that one. */
DYN_HIDDEN bool dyn_frame_settle(DynFrame *f, int depth);
/* A sequence that loops, and generators that delegate to it, walk by index: from 3.15 on. */
DYN_HIDDEN bool dyn_cpy_is_walked_by_index(PyObject *o);
/* Stands for a module, or for a name of one, that is imported when it is used: from 3.15 on. */
DYN_HIDDEN bool dyn_cpy_is_lazy_import(PyObject *o);
/* Arithmetic of a complex number and a real one leaves the real one as it is, and infinities of products and quotients are
 * recovered where both parts became NaN: from 3.14 on. */
DYN_HIDDEN bool dyn_complex_mixes(void);
/* What LOAD_COMMON_CONSTANT loads: AssertionError is 0. Borrowed. */
DYN_HIDDEN PyObject *dyn_cpy_common_constant(uint32_t number);
/* A tuple that was made here has its items: in newer CPythons the collector doesn't follow one of which it follows no item. */
DYN_HIDDEN void dyn_cpy_tuple_filled(PyObject *tuple);

/* Dict watching: tell when a dict may have changed since the last look. token_get gives a token (3.11: version tag; 3.12+: a
 * watcher is attached to the dict and the token is a counter of its events); same() is true while nothing changed. A dict that
 * cannot be watched gives tokens that are never the same. dyn_cpy_init tries each kind of change; watchers that fail are not
 * used. */
typedef struct DynDictToken {
    uint64_t value;
    void *cell;
} DynDictToken;
/* Is somebody told when dicts change? Then hears(dict, key) is called before each change of a dict that was listened to, with its
 * key, or NULL: all of it. */
DYN_HIDDEN bool dyn_dict_tells(void);
DYN_HIDDEN bool dyn_dict_listen(PyObject *dict);
DYN_HIDDEN void dyn_dict_tell(void (*hears)(PyObject *dict, PyObject *key));
DYN_HIDDEN void dyn_dict_token_get(PyObject *dict, DynDictToken *out);
DYN_HIDDEN bool dyn_dict_token_same(PyObject *dict, const DynDictToken *token);
DYN_HIDDEN PyObject *dyn_cpy_dict_item(PyObject *dict, PyObject *key, Py_hash_t hash); /* borrowed; leaves no exception */
DYN_HIDDEN int dyn_cpy_init(void); /* self-tests, watchers; -1 with an exception set */

/* Things with changing names in the C API. */
/* _PyObject_GetMethod: new reference; *unbound: o is to be passed as first argument. */
DYN_HIDDEN PyObject *dyn_cpy_get_method(PyObject *o, PyObject *name, int *unbound);
/* What an instance itself has, in a dict or in fields; nothing here makes a dict for it, as asking for one does: up to 3.12
 * CPython looks the methods of an instance with a dict up anew at each call. A value of its own is borrowed; NULL: none of that
 * name. */
DYN_HIDDEN bool dyn_cpy_has_no_dict(PyTypeObject *t); /* instances have no fields but those that the class names (`__slots__`) */
DYN_HIDDEN PyObject *dyn_cpy_own_value(PyObject *o, PyObject *name);
DYN_HIDDEN PyObject **dyn_cpy_dict_place(PyObject *o);  /* where its dict is; NULL: it has fields, or can't have a dict */
DYN_HIDDEN bool dyn_cpy_shows_its_methods(PyObject *o); /* no attribute of the instance hides one of its class */
DYN_HIDDEN PyObject *dyn_cpy_lookup_special(PyTypeObject *t, PyObject *name); /* _PyType_Lookup, borrowed or NULL, no error */
DYN_HIDDEN PyObject *dyn_cpy_lookup_named(PyTypeObject *t, const char *name); /* the same */
DYN_HIDDEN void dyn_cpy_say_no_iterator(PyObject *of,
                                        PyObject *given); /* CPython's exception where __iter__ gave something else */
/* cpy_class.c: what was read of a class. facts: a capsule with what the class has under special names now; NULL, without an
 * exception: it can't be said. note: what the first `nbases` of its bases, itself among them, have under `name` is one of them
 * from now on; false: it can't be said. stands: is the class as they say; the version tag for which it is is remembered. changed:
 * a name whose value differs, or None; NULL: it is as they say. Borrowed. */
DYN_HIDDEN bool dyn_cpy_is_special_name(PyObject *name); /* two underscores before and behind */
DYN_HIDDEN PyObject *dyn_cpy_class_facts(PyTypeObject *t);
DYN_HIDDEN bool dyn_cpy_is_class_facts(PyObject *o);
DYN_HIDDEN bool dyn_cpy_class_note(PyObject *facts, PyTypeObject *t, PyObject *name, uint32_t nbases);
#define DYN_ALL_BASES UINT32_MAX
DYN_HIDDEN bool dyn_cpy_class_stands(PyObject *facts, PyTypeObject *t);
DYN_HIDDEN PyObject *dyn_cpy_class_changed(PyObject *facts, PyTypeObject *t);
/* The traceback of the exception that is set (new reference; NULL: none); and, when the exception came out of a frame that it has
 * a row for already: that frame's new row is taken off again. Takes `before` over. */
DYN_HIDDEN PyObject *dyn_cpy_traceback(void);
DYN_HIDDEN void dyn_cpy_traceback_without_row(PyObject *before);
DYN_HIDDEN void dyn_cpy_traceback_here(PyThreadState *ts); /* the exception that is set passed here */
/* The exception that the running frame handles: `value` (owned, NULL: none) takes the place of what is returned. */
DYN_HIDDEN PyObject *dyn_cpy_swap_handled(PyThreadState *ts, PyObject *value);
DYN_HIDDEN PyObject *dyn_cpy_handled(void);               /* borrowed; None where there is none */
DYN_HIDDEN PyObject *dyn_cpy_type_dict(PyTypeObject *t);  /* new reference or NULL */
DYN_HIDDEN PyObject *dyn_cpy_code_bytes(PyCodeObject *c); /* new bytes: co_code without specialisation */
/* Parts that are unknown are -1. */
DYN_HIDDEN int dyn_cpy_code_position(PyCodeObject *c, uint32_t at, int *line, int *end_line, int *col, int *end_col);
/* The same, for who asks for one position after the other: the table is read on from where the last one was found. Starts as
 * zeros, for one code object. */
typedef struct DynPositionCursor {
    uint32_t offset, unit; /* the next entry of the table, and the code unit it begins at */
    int line;
} DynPositionCursor;
DYN_HIDDEN int dyn_cpy_position_on(PyCodeObject *c, DynPositionCursor *cursor, uint32_t at, int *line, int *end_line, int *col,
                                   int *end_col);
/* CALL_INTRINSIC_1 by number: 5 unary positive, 6 list to tuple; others SystemError. New reference. */
#endif
