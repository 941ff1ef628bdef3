/* base.h: what every room may use: Python and C headers, the arena, vectors, string buffers, error returns.
 *
 * Errors are an int return (0 = fine, < 0 = failed) with a DynReason when the failure is dynoc's own; a Python exception
 * is set only where the function's comment says so. No longjmp. */
#ifndef DYN_BASE_H
#define DYN_BASE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DYN_HIDDEN __attribute__((visibility("hidden")))
#define DYN_LIKELY(x) __builtin_expect(!!(x), 1)
#define DYN_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define DYN_COUNTOF(a) (sizeof(a) / sizeof((a)[0]))
#define DYN_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define DYN_NONE UINT32_MAX /* "no node", "no symbol", "no source" */

/* The number between low and high that is nearest to x. */
static inline int64_t dyn_clamp(int64_t x, int64_t low, int64_t high) {
    if (x < low) {
        return low;
    }
    return x > high ? high : x;
}

/* Why something was refused: rows of reasons.def. 0 is "no reason". */
typedef enum DynReason {
    DYN_R_OK = 0,
#define REASON(code, where, message, hint) DYN_R_##code,
#include "base/reasons.def"
#undef REASON
    DYN_R_COUNT
} DynReason;
DYN_HIDDEN const char *dyn_reason_code(DynReason r);    /* "OPAQUE_CALL" */
DYN_HIDDEN bool dyn_reason_is_of_array(DynReason r);    /* an operand is an array or tensor that isn't captured */
DYN_HIDDEN const char *dyn_reason_message(DynReason r); /* one sentence: what happened */
DYN_HIDDEN const char *dyn_reason_hint(DynReason r);    /* one sentence: what to do */
/* … about a call of what is called so (hints.def); NULL: nothing is known of it. */
DYN_HIDDEN const char *dyn_reason_hint_for(DynReason r, const char *called);

/* Arena: bump allocation, freed at once. Memory is zeroed. Returns NULL when memory is out (or when a test makes the
 * N-th allocation fail, dyn_arena_fail_after). */
typedef struct DynArenaChunk DynArenaChunk;
typedef struct DynArena {
    DynArenaChunk *head;
    size_t used;
} DynArena;
DYN_HIDDEN void dyn_arena_init(DynArena *a);
DYN_HIDDEN void dyn_arena_free(DynArena *a);
DYN_HIDDEN void *dyn_arena_alloc(DynArena *a, size_t size);
DYN_HIDDEN char *dyn_arena_strdup(DynArena *a, const char *s);
DYN_HIDDEN size_t dyn_arena_bytes(const DynArena *a); /* that it holds, used or not */
extern DYN_HIDDEN long dyn_arena_fail_after;          /* < 0: never; counts down at each allocation */
/* Words with a blank between them, as the parameters of a function are listed in tables: how many, and which one is `name` (-1:
 * none). */
DYN_HIDDEN int dyn_words_count(const char *words);
DYN_HIDDEN int dyn_words_find(const char *words, const char *name);
/* Are `n` pointers all there? DYN_ALLOCATED(a, b, c): memory was out for none of them. */
static inline bool dyn_all_there(const void *const *at, size_t n) {
    bool all = true;
    for (size_t i = 0; i < n; i++) {
        all = all && at[i] != NULL;
    }
    return all;
}
#define DYN_ALLOCATED(...) \
    dyn_all_there((const void *const[]){__VA_ARGS__}, sizeof((const void *const[]){__VA_ARGS__}) / sizeof(const void *))
#define DYN_NEW(arena, T) ((T *)dyn_arena_alloc((arena), sizeof(T)))
#define DYN_NEW_N(arena, T, n) ((T *)dyn_arena_alloc((arena), sizeof(T) * (size_t)(n)))

/* Vec: a growing array in malloc memory: DYN_VEC(uint32_t) v = {0}; dyn_vec_push(&v, x) is 0 or -1; dyn_vec_free(&v). */
#define DYN_VEC(T)       \
    struct {             \
        T *at;           \
        uint32_t n, cap; \
    }
DYN_HIDDEN int dyn_vec_grow(void **at, uint32_t *cap, uint32_t need, size_t item);
#define dyn_vec_reserve(v, need) \
    ((uint32_t)(need) <= (v)->cap ? 0 : dyn_vec_grow((void **)&(v)->at, &(v)->cap, (uint32_t)(need), sizeof(*(v)->at)))
#define dyn_vec_push(v, x) (dyn_vec_reserve((v), (v)->n + 1) < 0 ? -1 : ((v)->at[(v)->n++] = (x), 0))
DYN_HIDDEN void dyn_vec_shrink(void **at, uint32_t *cap, uint32_t n, size_t item);
/* Gives back what it has room for and doesn't hold; its items may move. */
#define dyn_vec_trim(v) dyn_vec_shrink((void **)&(v)->at, &(v)->cap, (v)->n, sizeof(*(v)->at))
#define dyn_vec_bytes(v) ((size_t)(v)->cap * sizeof(*(v)->at))
/* Rows by their hash: a power of two of slots, at least half of them free. Each has the number of a row, or DYN_NONE. */
typedef DYN_VEC(uint32_t) DynIndex;
DYN_HIDDEN int dyn_index_empty(DynIndex *x,
                               uint32_t size); /* so many slots, all of them free; -1: no memory, and it is as before */
/* The slot of the row that is `what`, or where it would be. */
static inline uint32_t *dyn_index_slot(const DynIndex *x, uint32_t hash,
                                       bool (*is)(const void *rows, uint32_t id, const void *what), const void *rows,
                                       const void *what) {
    uint32_t mask = x->n - 1, at = hash & mask;
    while (x->at[at] != DYN_NONE && !is(rows, x->at[at], what)) {
        at = (at + 1) & mask;
    }
    return &x->at[at];
}
#define dyn_vec_free(v) (PyMem_RawFree((v)->at), (v)->at = NULL, (v)->n = (v)->cap = 0)

/* Str: a growing, always NUL-terminated string; a failed allocation sets `failed` and later appends do nothing. */
typedef struct DynStr {
    char *at;
    uint32_t n, cap;
    bool failed;
    bool fixed; /* `at` belongs to somebody else, and there is no more room than `cap`. */
} DynStr;
DYN_HIDDEN void dyn_str_putc(DynStr *s, char c);
DYN_HIDDEN void dyn_str_puts(DynStr *s, const char *text);
DYN_HIDDEN void dyn_str_put(DynStr *s, const void *bytes, size_t n);
DYN_HIDDEN void dyn_str_printf(DynStr *s, const char *format, ...) DYN_PRINTF(2, 3);
DYN_HIDDEN void dyn_str_vprintf(DynStr *s, const char *format, va_list args) DYN_PRINTF(2, 0);
/* Into so many bytes, cut off behind the last conversion that fits. Faster than snprintf in a process with NumPy: base.c. */
DYN_HIDDEN void dyn_format(char *to, size_t room, const char *format, ...) DYN_PRINTF(3, 4);
/* C literals that read back to the same bits, also of inf and nan: in decimal, with the GIL; in hexadecimal, in any thread. */
DYN_HIDDEN void dyn_str_putd(DynStr *s, double value);
DYN_HIDDEN void dyn_str_puthex(DynStr *s, double value);
DYN_HIDDEN void dyn_str_free(DynStr *s);
DYN_HIDDEN const char *dyn_str_at(const DynStr *s); /* never NULL */

/* FNV-1a style 64-bit and SHA-256 hashes (disk cache). */
DYN_HIDDEN uint64_t dyn_hash64(const void *data, size_t n, uint64_t seed);
DYN_HIDDEN void dyn_sha256_hex(const void *data, size_t n, char out[65]);
#endif
