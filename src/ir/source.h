/* source.h: where a Python object that a graph depends on is found when the function is called again.
 *
 * A source is a path from what the caller hands in (the bound locals of the function, the function object) or from a constant
 * object through items, attributes and cells. Sources are interned: the same path has the same id. Ids of bases are lower
 * than ids of what is reached through them. */
#ifndef DYN_SOURCE_H
#define DYN_SOURCE_H
#include "base/base.h"

/* The kinds of sources, which sources.def explains. */
typedef enum DynSourceKind {
#define SOURCE(kind, base, key, cost, absence) DYN_SRC_##kind,
#include "ir/sources.def"
#undef SOURCE
} DynSourceKind;
enum { /* no kind of source, so that switches over kinds are complete without it */
       DYN_SRC_COUNT = 0
#define SOURCE(kind, base, key, cost, absence) +1
#include "ir/sources.def"
#undef SOURCE
};

/* How a log says that something is there: "x is bound", "'x' is defined", "hasattr(x, 'y')", "'y' in x". */
typedef enum DynAbsence { DYN_ABSENCE_BOUND, DYN_ABSENCE_DEFINED, DYN_ABSENCE_ATTRIBUTE, DYN_ABSENCE_MEMBER } DynAbsence;

/* A row of sources.def. */
typedef struct DynSourceRow {
    const char *name; /* The kind. */
    bool based;       /* It is reached through another source. */
    bool keyed;       /* Its key is set. */
    uint8_t cost;     /* Of reading it when its base is there. */
    uint8_t absence;  /* DynAbsence. */
} DynSourceRow;
extern DYN_HIDDEN const DynSourceRow dyn_source_rows[DYN_SRC_COUNT];

typedef struct DynSource {
    uint8_t kind;
    uint32_t base; /* source id or DYN_NONE */
    uint32_t index;
    PyObject *obj;  /* strong while in a DynSources; see above */
    PyObject *key;  /* strong; str for DICT, ATTR, FKWDEFAULT; any hashable constant for KEY */
    Py_hash_t hash; /* of key: guards don't ask for it, which may run Python code (members of enums) */
} DynSource;
extern DYN_HIDDEN PyTypeObject *dyn_deque_type;  /* collections.deque, */
extern DYN_HIDDEN PyTypeObject *dyn_cached_type; /* … and of what functools.lru_cache makes: set when the extension starts */
typedef struct DynSources {
    DYN_VEC(DynSource)
    v;
    DynIndex index; /* finds rows for those who add some, where there are many */
} DynSources;
/* The id of the source with these operands, new or old; DYN_NONE when memory is out. Takes its own references. */
DYN_HIDDEN uint32_t dyn_source_intern(DynSources *t, DynSourceKind kind, uint32_t base, uint32_t index, PyObject *obj,
                                      PyObject *key);
DYN_HIDDEN void dyn_sources_free(DynSources *t);
/* A hash of rows that are compared by a few words, a word at a time: lists have a source and guards for each item. */
DYN_HIDDEN uint64_t dyn_words_hash(const uint64_t *words, size_t n);
/* As a Python expression: x, self.w, args[0], np.sin, f.__closure__[0].cell_contents … */
DYN_HIDDEN void dyn_source_print(const DynSources *t, uint32_t id, DynStr *out);
/* An object for people: repr for numbers, strings, types, functions, ufuncs and tuples of these, <Name object> for what could run
 * Python code or be long. Needs the GIL; leaves no exception. */
DYN_HIDDEN void dyn_object_print(PyObject *o, DynStr *out);

/* Reading what a source names, as guards do, without running Python code: the recorder may ask whether a path can be read before
 * it makes a source of it. */
typedef enum DynRead {
    DYN_READ_FOUND,
    DYN_READ_MISSING, /* nothing is there: no such key, attribute, item; an empty cell, an unbound local */
    DYN_READ_FAILED   /* the base is of another kind, or reading it would run Python code */
} DynRead;
/* getattr(base, key) where that is a plain look-up: modules, instances with the standard tp_getattro, classes with the standard
 * metaclass; functions and C methods in a class become bound methods. *out: new reference. Leaves no exception. */
DYN_HIDDEN DynRead dyn_source_attr(PyObject *base, PyObject *key, PyObject **out);
DYN_HIDDEN bool dyn_source_is_field(PyObject *descriptor);   /* reading it gives what the object holds, and runs no code */
DYN_HIDDEN bool dyn_source_adds_getattr(PyTypeObject *type); /* a class with a __getattr__, and no __getattribute__ of its own */
/* One step of a path. base: what the source's base gave (unused for LOCAL, CLOSURE, FUNCTION, CONST, DICT); name: what source
 * index gave (NAMED alone). *out: new reference. */
DYN_HIDDEN DynRead dyn_source_read(const DynSource *s, PyObject *base, PyObject *name, PyObject *func, PyObject *const *locals,
                                   PyObject **out);
/* What a NAMED, NTH_KEY, NTH_VALUE or FROM_END source gives: borrowed, or NULL. Leaves no exception. */
DYN_HIDDEN PyObject *dyn_source_named(PyObject *dict, PyObject *name);
DYN_HIDDEN PyObject *dyn_source_nth(PyObject *dict, uint32_t index, bool of_value);
DYN_HIDDEN PyObject *dyn_source_from_end(PyObject *list, uint32_t index);
#endif
