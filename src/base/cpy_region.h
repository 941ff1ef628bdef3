/* cpy_region.h: what native loops need of CPython's insides, beside cpy.h. Used by tracer/region and codegen/region. */
#ifndef DYN_CPY_REGION_H
#define DYN_CPY_REGION_H
#include "base/cpy.h"

DYN_HIDDEN bool dyn_cpy_mixes_complex(void);    /* a complex and a real number aren't two complex numbers: from CPython 3.14 on */
DYN_HIDDEN bool dyn_cpy_compensates_sums(void); /* sum() of floats adds what was rounded off: from CPython 3.12 on; … */
DYN_HIDDEN bool dyn_cpy_compensates_ints(void); /* … also where an int was added to a float: from 3.14 on */
/* An attribute that the object itself has, and no class of its; or the Python function of its class that is its method of this
 * name. Borrowed; NULL where it is neither, or where asking might run code. */
DYN_HIDDEN PyObject *dyn_cpy_own_attribute(PyObject *o, PyObject *name);
DYN_HIDDEN PyObject *dyn_cpy_method_of(PyObject *o, PyObject *name);
/* Where instances of Python classes have attributes that lie in no dict of theirs (region_objects.def reads them). */
#if PY_VERSION_HEX >= 0x030D0000
#define DYN_CPY_FIELDS 13
#elif PY_VERSION_HEX >= 0x030C0000
#define DYN_CPY_FIELDS 12
#else
#define DYN_CPY_FIELDS 11
#endif
DYN_HIDDEN uint32_t
dyn_cpy_type_version(PyTypeObject *t); /* It changes when the class or one of its bases does; 0: it has none. */
/* A class whose instances' attributes are looked up as usual: its version (0: none), and how many names they share. The version
 * changes when the class does. */
DYN_HIDDEN uint32_t dyn_cpy_class_version(PyTypeObject *t, uint32_t *nkeys);
DYN_HIDDEN bool dyn_cpy_class_is(PyTypeObject *t, uint32_t version, uint32_t nkeys);
/* Where the attribute of an instance lies: so many bytes from its beginning (direct), or the number of a field. false: neither.
 */
DYN_HIDDEN bool dyn_cpy_field(PyTypeObject *t, PyObject *name, bool *direct, int64_t *at);
/* The same as one number: more than 0 bytes, or -1 and less for field 0 and so on; 0: it isn't known. */
DYN_HIDDEN int64_t dyn_cpy_place_of_name(PyTypeObject *t, PyObject *name);
/* An instance without attributes, as object.__new__ makes it. And an attribute of one that nobody else has seen yet is stored
 * where dyn_cpy_place_of_name says: takes the reference over; false: not there. */
DYN_HIDDEN PyObject *dyn_cpy_new_instance(PyTypeObject *t);
DYN_HIDDEN bool dyn_cpy_fill(PyObject *o, int64_t at, PyObject *value);
DYN_HIDDEN bool dyn_cpy_shares_key(PyTypeObject *t, PyObject *name); /* an instance may have such an attribute of its own */
DYN_HIDDEN bool dyn_cpy_has_weakrefs(PyObject *o);
/* Dicts and sets: looks for an int, or an object that is a str or a tuple of plain values, without running code. 1: that can't be
 * said. *value: borrowed; NULL: it has none. */
DYN_HIDDEN int dyn_cpy_dict_find_int(PyObject *dict, int64_t key, PyObject **value);
DYN_HIDDEN int dyn_cpy_dict_find_key(PyObject *dict, PyObject *key, PyObject **value);
DYN_HIDDEN int dyn_cpy_dict_place_int(PyObject *dict, int64_t key, PyObject ***place); /* where the value lies, or NULL */
DYN_HIDDEN int dyn_cpy_dict_place_key(PyObject *dict, PyObject *key, PyObject ***place);
/* An int, float, bool, str or None, or a tuple of such values, and of such tuples so deep: hashing and comparing it runs no code.
 */
enum { DYN_CPY_KEY_DEPTH = 4 };
DYN_HIDDEN bool dyn_cpy_is_plain_key(PyObject *o, int depth);
DYN_HIDDEN void dyn_cpy_tuple_changed(PyObject *tuple); /* an item of a tuple that nobody else has: its hash is another one */
DYN_HIDDEN void dyn_cpy_dict_changed(PyObject *dict);   /* a value in its place got another one: its version says so */
DYN_HIDDEN PyObject *dyn_cpy_dict_key_of(PyObject *dict, PyObject **place); /* of the value that lies there; borrowed */
DYN_HIDDEN int dyn_cpy_set_find_key(PyObject *set, PyObject *key, int64_t *has, PyObject **stored); /* stored: borrowed */
DYN_HIDDEN int dyn_cpy_set_has_int(PyObject *set, int64_t key, int64_t *has);
DYN_HIDDEN int dyn_cpy_set_has_key(PyObject *set, PyObject *key, int64_t *has);
/* The class of deques whose items are found; borrowed, NULL: there is none. Of an exact one: an item, borrowed, how many it may
 * have (-1: any number), and its own methods: an item is added, or one taken out, which is the caller's. */
DYN_HIDDEN PyTypeObject *dyn_cpy_deque_type(void);
DYN_HIDDEN PyObject *dyn_cpy_deque_item(PyObject *o, Py_ssize_t i);
DYN_HIDDEN Py_ssize_t dyn_cpy_deque_bound(PyObject *o);
DYN_HIDDEN bool dyn_cpy_deque_add(PyObject *o, PyObject *item, bool left); /* false: with an exception */
DYN_HIDDEN PyObject *dyn_cpy_deque_take(PyObject *o, bool left);
DYN_HIDDEN bool dyn_cpy_dict_is_watched(PyObject *dict); /* somebody is told of what changes in it */
/* Before CPython 3.12 the collector runs within allocations, and that code: not while it is held. true: it has to be released. */
DYN_HIDDEN bool dyn_cpy_hold_collector(void);
DYN_HIDDEN void dyn_cpy_release_collector(bool held);
/* An exact iterator of a range whose numbers are C longs: the next, how many are left, the step.
 * `set`: to any state that it may come to; `fill`: a blank one, to any. `blank` is NULL with an exception where memory is out. */
DYN_HIDDEN bool dyn_cpy_range_iterator(PyObject *o, int64_t state[3]);
DYN_HIDDEN void dyn_cpy_range_iterator_set(PyObject *o, const int64_t state[3]);
DYN_HIDDEN void dyn_cpy_range_iterator_fill(PyObject *o, const int64_t state[3]);
DYN_HIDDEN PyObject *dyn_cpy_range_iterator_blank(void);
/* A new range of a new one's own: start, stop, step and length, whose references it takes over. */
DYN_HIDDEN PyObject *dyn_cpy_range_blank(void);
DYN_HIDDEN void dyn_cpy_range_set(PyObject *o, PyObject *const numbers[4]);
/* How an int says how many digits it has: by a tag, or by its size. */
#if PY_VERSION_HEX >= 0x030C0000
#define DYN_CPY_INT_IS_TAGGED 1
#else
#define DYN_CPY_INT_IS_TAGGED 0
#endif
/* Where the items of a tuple begin: behind its hash from CPython 3.14 on. */
#if PY_VERSION_HEX >= 0x030E0000
#define DYN_CPY_TUPLE_ITEMS 32
#else
#define DYN_CPY_TUPLE_ITEMS 24
#endif
_Static_assert(offsetof(PyTupleObject, ob_item) == DYN_CPY_TUPLE_ITEMS, "generated code reads the items of tuples");
/* The number of an int that nobody has seen yet, and that was made for INT64_MIN. */
DYN_HIDDEN void dyn_cpy_int_set(PyObject *o, int64_t number);
DYN_HIDDEN bool dyn_cpy_int_has_digits(PyObject *o); /* it has a place for one digit of 30 bits at least */
/* An exact iterator over a list, tuple, str, bytes or bytearray: what it goes over, borrowed, or NULL, where it has ended too.
 * `blank`: one of such things. `over` takes the reference over; NULL: it has ended. What it went over is returned. */
enum { DYN_OVER_LIST, DYN_OVER_TUPLE, DYN_OVER_STR, DYN_OVER_BYTES, DYN_OVER_BYTEARRAY, DYN_OVER_COUNT };
/* Takes the last item off as list.pop does where the list keeps its memory; its reference is the caller's. false: it doesn't, or
 * item i isn't the last. */
DYN_HIDDEN bool dyn_cpy_list_shorten(PyObject *list, Py_ssize_t i);
DYN_HIDDEN PyObject *dyn_cpy_list_iterator(PyObject *o, int64_t *index);
DYN_HIDDEN PyObject *dyn_cpy_list_iterator_blank(int over);
DYN_HIDDEN void dyn_cpy_list_iterator_set(PyObject *o, int64_t index);
DYN_HIDDEN PyObject *dyn_cpy_list_iterator_over(PyObject *o, PyObject *list);
/* An exact iterator over a dict or set: which, where it stands, how many items are left, how many there were; what it goes over,
 * borrowed, or NULL: it is none, or has ended. `set`, `blank`, `over` as those of lists. */
enum { DYN_CPY_KEYS, DYN_CPY_VALUES, DYN_CPY_ITEMS, DYN_CPY_SET, DYN_CPY_ITERATORS };
#define DYN_CPY_DICT_SIZE 16 /* Where a dict has how many items it has, */
#define DYN_CPY_SET_SIZE 24  /* and a set. */
DYN_HIDDEN PyObject *dyn_cpy_dict_iterator(PyObject *o, int *which, int64_t state[3]);
DYN_HIDDEN bool dyn_cpy_is_dict_iterator(PyObject *o); /* one that has ended too */
DYN_HIDDEN void dyn_cpy_dict_iterator_set(PyObject *o, const int64_t state[3]);
DYN_HIDDEN PyObject *dyn_cpy_dict_iterator_blank(int which);
DYN_HIDDEN PyObject *dyn_cpy_dict_iterator_over(PyObject *o, PyObject *over);
/* The next key (and value) from a place on, borrowed, and the place behind it; 0: there is none. */
DYN_HIDDEN int64_t dyn_cpy_dict_next(PyObject *o, int64_t at, PyObject *found[2]);
/* An exact iterator over a sequence by index (that of arrays is one): the sequence, borrowed, or NULL where it is none or has
 * ended. An exact enumerate object whose number is small: its iterator. An exact zip object that isn't strict: its iterators, a
 * tuple. */
DYN_HIDDEN PyObject *dyn_cpy_sequence_iterator(PyObject *o, int64_t *index);
DYN_HIDDEN void dyn_cpy_sequence_iterator_set(PyObject *o, int64_t index);
DYN_HIDDEN void dyn_cpy_sequence_iterator_over(PyObject *o, PyObject *sequence); /* takes the reference over */
DYN_HIDDEN PyObject *dyn_cpy_enumerate(PyObject *o, int64_t *index);
DYN_HIDDEN void dyn_cpy_enumerate_set(PyObject *o, int64_t index);
DYN_HIDDEN void dyn_cpy_enumerate_over(PyObject *o, PyObject *iterator); /* takes the reference over */
DYN_HIDDEN PyObject *dyn_cpy_zip(PyObject *o);
/* Freeing the object, if that was the last reference to it, runs no code: cpy_drops.c. `more`: of what isn't CPython's, does it
 * hold no other object? */
DYN_HIDDEN bool dyn_cpy_drops_quietly(PyObject *o, bool (*more)(PyObject *));
/* The same of an object in a graph of many, which is gone through, and known from then on, for one native run: who stores another
 * object in one that has been there before says so when it lies there (what it takes the place of is asked about before that, and
 * what is found then would be as it was), and who frees objects, or lets other code run, has all of it forgotten. */
DYN_HIDDEN bool dyn_cpy_is_known_quiet(PyObject *o);
DYN_HIDDEN bool dyn_cpy_is_quiet_graph(PyObject *o, bool (*more)(PyObject *));
DYN_HIDDEN void dyn_cpy_note_stored(PyObject *o, bool (*more)(PyObject *));
DYN_HIDDEN void dyn_cpy_forget_quiet(void);
/* A byte that isn't 0 while the eval breaker of the thread wants something. */
DYN_HIDDEN const volatile unsigned char *dyn_cpy_breaker(PyThreadState *ts);
/* What all functions have in common that one `def` makes: a tuple of code, globals, builtins and defaults. New reference; NULL
 * with an exception. And is the object such a function? */
DYN_HIDDEN PyObject *dyn_cpy_function_facts(PyObject *function);
DYN_HIDDEN bool dyn_cpy_function_is(PyObject *o, PyObject *facts);
#endif
