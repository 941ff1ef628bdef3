/* known.c: what is known of code objects: a table by identity.
 *
 * The hook adds functions met under enable(), the finder those it found, skip() the ones it marks. A row holds its cache, and
 * goes when its code object dies; when the table has grown, rows of which no call was served since it last did are dropped, so a
 * program that makes functions without end doesn't keep them. GIL throughout. */
#include "evalframe/known.h"
#include "evalframe/finder.h"
#include "evalframe/hold.h"

#define LEAST_LIMIT 1000

static struct {
    DynKnown *at;
    uint32_t n, cap; /* cap is 0 or a power of two */
    uint32_t limit;  /* rows before the next sweep */
} known = {.limit = LEAST_LIMIT};

static DynKnown *find_row(DynKnown *rows, uint32_t cap, PyObject *code) {
    uint32_t i = (uint32_t)((uintptr_t)code >> 4) * 2654435761u & (cap - 1);
    while (rows[i].code != NULL && rows[i].code != code) {
        i = (i + 1) & (cap - 1);
    }
    return &rows[i];
}

DynKnown *dyn_known_find(PyObject *code) {
    DynKnown *row = known.cap == 0 ? NULL : find_row(known.at, known.cap, code);
    return row == NULL || row->code == NULL ? NULL : row;
}

static int grow(void) {
    uint32_t cap = known.cap == 0 ? 64 : known.cap * 2;
    DynKnown *rows = PyMem_RawCalloc(cap, sizeof *rows);
    if (rows == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < known.cap; i++) {
        if (known.at[i].code != NULL) {
            *find_row(rows, cap, known.at[i].code) = known.at[i];
        }
    }
    PyMem_RawFree(known.at);
    known.at = rows;
    known.cap = cap;
    return 0;
}

/* The row of a code object, new or old; NULL: memory. */
static DynKnown *add(PyObject *code) {
    DynKnown *row = dyn_known_find(code);
    if (row != NULL) {
        return row;
    }
    if (dyn_hold_watch(code) < 0) { /* first: it may run the collector, and rows go */
        return NULL;
    }
    if (known.n * 2 >= known.cap && grow() < 0) {
        dyn_hold_unwatch(code);
        return NULL;
    }
    row = find_row(known.at, known.cap, code);
    row->code = code;
    known.n++;
    return row;
}

/* What a row says of a function is of no use any more. */
static void put_back(const DynKnown *row) {
    if (row->remade) {
        dyn_code_swap_version((PyCodeObject *)row->code, row->version);
    }
}

void dyn_known_died(PyObject *code) {
    DynKnown *row = dyn_known_find(code);
    if (row == NULL) {
        return;
    }
    DynCache *cache = row->cache;
    *row = (DynKnown){0};
    known.n--;
    for (DynKnown *at = row;;) { /* those behind it may have been on their way past its place */
        at = at + 1 == known.at + known.cap ? known.at : at + 1;
        if (at->code == NULL) {
            break;
        }
        DynKnown moved = *at;
        *at = (DynKnown){0};
        *find_row(known.at, known.cap, moved.code) = moved;
    }
    if (cache != NULL) {
        dyn_cache_decref(cache);
    }
}

int dyn_known_skip(PyObject *code) {
    DynKnown *row = add(code);
    if (row == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    DynKnown old = *row;
    *row = (DynKnown){.code = code, .skipped = true};
    put_back(&old);
    if (old.cache != NULL) {
        dyn_cache_decref(old.cache);
    }
    return 0;
}

bool dyn_known_is_skipped(PyObject *code) {
    DynKnown *row = dyn_known_find(code);
    return row != NULL && row->skipped;
}

/* Rows that are not worth keeping go, rows of skip() stay. What dies may run code that comes back here: the table is whole by
 * then. */
static void sweep(bool keep_used) {
    DynKnown *rows = known.at;
    uint32_t cap = known.cap;
    known.at = NULL;
    known.n = known.cap = 0;
    for (uint32_t i = 0; i < cap; i++) {
        bool wanted = rows[i].skipped || (keep_used && rows[i].used);
        if (wanted && rows[i].code != NULL) {
            DynKnown *kept = add(rows[i].code);
            if (kept != NULL) {
                *kept = rows[i];
                kept->used = false;
                rows[i] = (DynKnown){0};
            }
        }
    }
    for (uint32_t i = 0; i < cap; i++) { /* all of them before the first cache goes, and code with it */
        if (rows[i].code != NULL) {
            put_back(&rows[i]);
            dyn_hold_unwatch(rows[i].code);
        }
    }
    known.limit = known.n * 2 > LEAST_LIMIT ? known.n * 2 : LEAST_LIMIT;
    DynRaised before = dyn_callback_begin();
    for (uint32_t i = 0; i < cap; i++) {
        if (rows[i].cache != NULL) {
            rows[i].cache->dead = DYN_R_DISABLED; /* calls that are under way record nothing new behind their breaks */
            dyn_cache_decref(rows[i].cache);
        }
    }
    dyn_callback_end(before);
    PyMem_RawFree(rows);
}

void dyn_known_forget_all(void) {
    dyn_finder_forget();
    sweep(false);
}

/* Not CPython's own start-up code, or dynoc's. Who asks knows that it is a function's, or a module's with a loop. */
static bool worth_looking(PyCodeObject *code) {
    static const char *const ours[] = {"<frozen ", "/dynoc/_"};
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    if (file == NULL) {
        PyErr_Clear();
        return false;
    }
    if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) {
        return false;
    }
    return strncmp(file, ours[0], strlen(ours[0])) != 0 && strstr(file, ours[1]) == NULL;
}

DynKnown *dyn_known_meet(PyCodeObject *code, PyObject *globals, DynOptions *options) {
    if (known.n >= known.limit) {
        sweep(true);
    }
    DynCache *cache = worth_looking(code) ? dyn_cache_new((PyObject *)code, options) : NULL;
    if (cache != NULL) {
        cache->known = cache->quiet = true;
        cache->globals = globals;
        cache->need_arrays = !dyn_options_config(options).record_all;
    }
    PyErr_Clear();
    DynKnown *row = add((PyObject *)code);
    if (row == NULL && cache != NULL) {
        dyn_cache_decref(cache);
    } else if (row != NULL) {
        row->cache = cache;
        row->globals = globals;
        row->used = cache != NULL;
    }
    return row;
}
