/* cpy_dict.c: has a dict changed since the last look? 3.11 stamps each dict with a version; from 3.12 a watcher tells of
 * each change.
 *
 * Called by the guard evaluator. A watched dict has a cell with the number of its last event; numbers are never given twice, so
 * the cell of a dict that is gone serves another one, and old tokens for it never fit again. Cells are never given back. */
#include "base/cpy_internal.h"

PyObject *dyn_cpy_dict_item(PyObject *dict, PyObject *key, Py_hash_t hash) {
    PyObject *o = _PyDict_GetItem_KnownHash(dict, key, hash);
    if (o == NULL) {
        PyErr_Clear();
    }
    return o;
}

#if DYN_PY == 311

static uint64_t version_of(PyObject *dict) { return ((PyDictObject *)dict)->ma_version_tag; }

void dyn_dict_token_get(PyObject *dict, DynDictToken *out) {
    out->cell = NULL;
    out->value = PyDict_Check(dict) ? version_of(dict) : 0;
}

bool dyn_dict_token_same(PyObject *dict, const DynDictToken *token) {
    return token->value && PyDict_Check(dict) && version_of(dict) == token->value;
}

int dyn_cpy_dict_init(void) { return 0; }

bool dyn_dict_tells(void) { return false; }

bool dyn_dict_listen(PyObject *dict) { return false; }

void dyn_dict_tell(void (*hears)(PyObject *, PyObject *)) {}

#else

typedef struct Cell Cell;
struct Cell {
    uint64_t event; /* number of the last event */
    PyObject *dict; /* borrowed; NULL in a free cell */
    Cell *next;     /* same bucket, or free list */
    bool heard;     /* `hears` is told of each change */
};
static void (*hears)(PyObject *dict, PyObject *key);
static Cell **buckets;
static uint32_t nbuckets, ncells;
static Cell *free_cells;
static uint64_t last_event;
static int watcher = -1;

static Cell **bucket_of(PyObject *dict) {
    uint64_t h = (uint64_t)(uintptr_t)dict * 0x9E3779B97F4A7C15u;
    return &buckets[(h >> 32) & (nbuckets - 1)];
}

static Cell *find(PyObject *dict) {
    Cell *c = nbuckets ? *bucket_of(dict) : NULL;
    while (c && c->dict != dict) {
        c = c->next;
    }
    return c;
}

static int grow(void) {
    uint32_t n = nbuckets ? 2 * nbuckets : 64, old_n = nbuckets;
    Cell **old = buckets, **fresh = PyMem_RawCalloc(n, sizeof(Cell *));
    if (!fresh) {
        return -1;
    }
    buckets = fresh;
    nbuckets = n;
    for (uint32_t i = 0; i < old_n; i++) {
        for (Cell *c = old[i], *next; c; c = next) {
            next = c->next;
            Cell **b = bucket_of(c->dict);
            c->next = *b;
            *b = c;
        }
    }
    PyMem_RawFree(old);
    return 0;
}

static Cell *add(PyObject *dict) {
    if (ncells >= nbuckets && grow() < 0) {
        return NULL;
    }
    Cell *c = free_cells;
    if (c) {
        free_cells = c->next;
    } else if (!(c = PyMem_RawMalloc(sizeof(Cell)))) {
        return NULL;
    }
    Cell **b = bucket_of(dict);
    *c = (Cell){.event = ++last_event, .dict = dict, .next = *b};
    *b = c;
    ncells++;
    return c;
}

static void drop(Cell *c) {
    Cell **at = bucket_of(c->dict);
    while (*at != c) {
        at = &(*at)->next;
    }
    *at = c->next;
    c->dict = NULL;
    c->next = free_cells;
    free_cells = c;
    ncells--;
}

/* CPython calls this before each change. */
static int on_event(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value) {
    Cell *c = find(dict);
    if (c) {
        c->event = ++last_event;
        if (c->heard) {
            bool one = event == PyDict_EVENT_ADDED || event == PyDict_EVENT_MODIFIED || event == PyDict_EVENT_DELETED;
            hears(dict, one ? key : NULL);
        }
        if (event == PyDict_EVENT_DEALLOCATED) {
            drop(c);
        }
    }
    return 0;
}

/* The cell of a dict that is watched from now on, or NULL. Values that live in an object's own memory (split tables) change
 * without an event on some versions. */
static Cell *watch(PyObject *dict) {
    if (watcher < 0 || !PyDict_Check(dict) || ((PyDictObject *)dict)->ma_values) {
        return NULL;
    }
    Cell *c = find(dict);
    if (c) {
        return c;
    }
    if (PyDict_Watch(watcher, dict) < 0) {
        PyErr_Clear();
        return NULL;
    }
    return add(dict);
}

bool dyn_dict_tells(void) { return watcher >= 0; }

bool dyn_dict_listen(PyObject *dict) {
    Cell *c = hears != NULL ? watch(dict) : NULL;
    if (c != NULL) {
        c->heard = true;
    }
    return c != NULL;
}

void dyn_dict_tell(void (*to)(PyObject *, PyObject *)) { hears = to; }

void dyn_dict_token_get(PyObject *dict, DynDictToken *out) {
    Cell *c = watch(dict);
    out->cell = c;
    out->value = c ? c->event : 0;
}

bool dyn_dict_token_same(PyObject *dict, const DynDictToken *token) {
    const Cell *c = token->cell;
    return c && c->event == token->value && c->dict == dict;
}

/* 1: each kind of change is noticed; 0: not; -1: exception. */
static int selftest(void) {
    static const char *const changes[] = {"insert", "change", "delete", "again", "clear"};
    PyObject *dict = PyDict_New();
    int ok = dict ? 1 : -1;
    for (size_t i = 0; ok > 0 && i < DYN_COUNTOF(changes); i++) {
        DynDictToken t;
        dyn_dict_token_get(dict, &t);
        ok = dyn_dict_token_same(dict, &t);
        int status = i == 2   ? PyDict_DelItemString(dict, "k")
                     : i == 4 ? (PyDict_Clear(dict), 0)
                              : PyDict_SetItemString(dict, "k", i ? Py_None : Py_True);
        if (status < 0) {
            ok = -1;
        } else if (dyn_dict_token_same(dict, &t)) {
            ok = 0;
        }
    }
    Py_XDECREF(dict);
    return ok;
}

int dyn_cpy_dict_init(void) {
    if (watcher >= 0) {
        return 0;
    }
    watcher = PyDict_AddWatcher(on_event);
    if (watcher < 0) { /* all watcher ids are taken: dicts are then compared, not watched */
        PyErr_Clear();
        return 0;
    }
    int ok = selftest();
    if (ok == 1) {
        return 0;
    }
    PyDict_ClearWatcher(watcher);
    watcher = -1;
    return ok < 0 ? -1 : 0;
}

#endif
