/* memory.c: how much the entries of the process hold, and what goes when that is too much.
 *
 * cache.c tells of each entry that comes and goes. An entry counts what belongs to it alone: capture and arena, guards, loop IR,
 * code objects; compiled objects, which graphs share, are counted by load.c. Over config.memory_limit the coldest entries
 * go, those that were found the longest time ago, until an eighth of it is free, and with them compiled objects that nobody uses.
 * Time is counted in entries made, so that a hit costs one store. GIL throughout. */
#include "evalframe/follow.h"
#include "evalframe/door.h"
#include <stdlib.h>
#include <unistd.h>

uint32_t dyn_memory_now = 1;
static size_t held, entries;

/* ---- counting */

static size_t code_bytes(const PyObject *code) { return code == NULL ? 0 : dyn_code_bytes((const PyCodeObject *)code); }

static size_t all_code_bytes(const DynEntry *e) {
    return code_bytes(e->code) + code_bytes(e->waiting.code) + code_bytes(e->aside.code) + code_bytes(e->around.code);
}

static size_t bytes_of(const DynEntry *e) {
    size_t bytes = sizeof *e + dyn_capture_bytes(e->capture) + all_code_bytes(e);
    bytes += e->guards == NULL ? 0 : dyn_guards_bytes(e->guards);
    bytes += e->follow == NULL ? 0 : dyn_follow_bytes(e->follow);
    return bytes + (e->artifact == NULL ? 0 : dyn_artifact_bytes(e->artifact));
}

/* What it holds now: the generated text goes when it is built, memos of guards come. */
static void count_again(DynEntry *e) {
    held -= e->bytes;
    e->bytes = bytes_of(e);
    held += e->bytes;
}

void dyn_memory_left(const DynEntry *e) {
    held -= e->bytes;
    entries -= e->bytes > 0;
}

PyObject *dyn_memory_parts(const DynEntry *e) {
    const DynCapture *c = e->capture;
    size_t guards = e->guards == NULL ? 0 : dyn_guards_bytes(e->guards);
    size_t artifact = e->artifact == NULL ? 0 : dyn_artifact_bytes(e->artifact);
    artifact += e->follow == NULL ? 0 : dyn_follow_bytes(e->follow);
    return Py_BuildValue("{sn sn sn sn sn sn}", "entry", (Py_ssize_t)sizeof *e, "capture",
                         (Py_ssize_t)(dyn_capture_bytes(c) - dyn_arena_bytes(&c->arena)), "arena",
                         (Py_ssize_t)dyn_arena_bytes(&c->arena), "guards", (Py_ssize_t)guards, "code",
                         (Py_ssize_t)all_code_bytes(e), "artifact", (Py_ssize_t)artifact);
}

/* ---- the limit */

static size_t limit(void) {
    if (dyn_config.memory_limit > 0) {
        return (size_t)dyn_config.memory_limit;
    }
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages / 10 * (size_t)size : SIZE_MAX;
}

static size_t in_all(void) { return held + dyn_load_bytes(NULL); }

typedef struct Cold { /* an entry that may go */
    DynCache *cache;
    DynEntry *entry;
} Cold;

static int by_use(const void *a, const void *b) {
    uint32_t x = ((const Cold *)a)->entry->used, y = ((const Cold *)b)->entry->used;
    return x < y ? -1 : x > y;
}

/* All entries but the newest that no call runs and nobody looks at, the coldest first; each with a reference of its own and one
 * to its cache. */
static Cold *list_cold(const DynEntry *newest, size_t *n) {
    size_t room = 0;
    for (const DynCache *c = dyn_cache_first(); c != NULL; c = c->next) {
        room += c->entries.n;
    }
    Cold *list = PyMem_RawMalloc((room + 1) * sizeof *list);
    *n = 0;
    for (DynCache *c = dyn_cache_first(); c != NULL && list != NULL; c = c->next) {
        for (uint32_t i = 0; i < c->entries.n; i++) {
            DynEntry *e = c->entries.at[i];
            count_again(e);
            if (e->refs == 1 && e != newest) {
                dyn_cache_incref(c);
                dyn_entry_incref(e);
                list[(*n)++] = (Cold){c, e};
            }
        }
    }
    if (list != NULL) {
        qsort(list, *n, sizeof *list, by_use);
    }
    return list;
}

static void evict(const Cold *cold) {
    const DynEntry *e = cold->entry;
    if (dyn_cache_remove(cold->cache, cold->entry)) {
        dyn_count("cache", "evicted");
        dyn_log(DYN_LOG_cache, "over the memory limit: entry %u of %s goes, which held %zu bytes and was hit %lld times",
                e->number, e->capture->graph.name, e->bytes, (long long)e->hits);
    }
}

void dyn_memory_entered(DynEntry *e) {
    size_t n, most = limit();
    e->used = dyn_memory_now++;
    count_again(e);
    entries++;
    if (in_all() <= most) {
        return;
    }
    dyn_load_trim();
    Cold *list = list_cold(e, &n);
    for (size_t i = 0; list != NULL && i < n; i++) {
        if (in_all() > most - most / 8) {
            evict(&list[i]);
        }
        dyn_entry_decref(list[i].entry);
        dyn_cache_decref(list[i].cache);
        if (in_all() > most - most / 8) {
            dyn_load_trim();
        }
    }
    PyMem_RawFree(list);
}

PyObject *dyn_memory_report(void) {
    int n;
    for (DynCache *c = dyn_cache_first(); c != NULL; c = c->next) {
        for (uint32_t i = 0; i < c->entries.n; i++) {
            count_again(c->entries.at[i]);
        }
    }
    size_t loaded = dyn_load_bytes(&n);
    return Py_BuildValue("{sn sn sn sn sn}", "entries", (Py_ssize_t)entries, "entry_bytes", (Py_ssize_t)held, "objects",
                         (Py_ssize_t)n, "object_bytes", (Py_ssize_t)loaded, "limit", (Py_ssize_t)limit());
}
