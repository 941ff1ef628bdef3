/* base.c: the arena, vectors, string buffers and hashes of base.h.
 *
 * Called by every room. An arena belongs to whoever initialised it; vectors and strings belong to whoever holds the struct.
 * Nothing here sets a Python exception: failure is NULL, -1 or DynStr.failed. Only dyn_str_putd needs the GIL; the rest works
 * in any thread, since all memory is PyMem_Raw*. */
#include "base/base.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>

#define FIRST_CHUNK ((size_t)512) /* many arenas live long and hold little; each chunk is twice as large as the one before, */
#define MOST_CHUNK ((size_t)16 * 1024) /* up to this */
#define ALIGNMENT ((size_t)16)

struct DynArenaChunk {
    DynArenaChunk *next;
    size_t size, used; /* of the bytes behind this header */
    size_t padding;    /* keeps the bytes aligned to 16 */
};
_Static_assert(sizeof(struct DynArenaChunk) % 16 == 0, "memory behind the header has to be aligned");

long dyn_arena_fail_after = -1;

void dyn_arena_init(DynArena *a) {
    a->head = NULL;
    a->used = 0;
}

void dyn_arena_free(DynArena *a) {
    DynArenaChunk *chunk = a->head;
    while (chunk != NULL) {
        DynArenaChunk *next = chunk->next;
        PyMem_RawFree(chunk);
        chunk = next;
    }
    dyn_arena_init(a);
}

size_t dyn_arena_bytes(const DynArena *a) {
    size_t bytes = 0;
    for (const DynArenaChunk *chunk = a->head; chunk != NULL; chunk = chunk->next) {
        bytes += sizeof(*chunk) + chunk->size;
    }
    return bytes;
}

/* A new chunk with room for `size` bytes. A large one goes behind the head, so that the head's free room stays in use. */
static DynArenaChunk *add_chunk(DynArena *a, size_t size) {
    size_t next = a->head == NULL ? FIRST_CHUNK : 2 * a->head->size;
    if (next < FIRST_CHUNK) {
        next = FIRST_CHUNK;
    } else if (next > MOST_CHUNK) {
        next = MOST_CHUNK;
    }
    size_t room = size > next / 4 ? size : next;
    DynArenaChunk *chunk = PyMem_RawCalloc(1, sizeof(*chunk) + room);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->size = room;
    if (a->head != NULL && room == size) {
        chunk->next = a->head->next;
        a->head->next = chunk;
    } else {
        chunk->next = a->head;
        a->head = chunk;
    }
    return chunk;
}

void *dyn_arena_alloc(DynArena *a, size_t size) {
    if (dyn_arena_fail_after >= 0 && dyn_arena_fail_after-- == 0) {
        dyn_arena_fail_after = 0; /* memory that ran out stays out until the test says otherwise */
        return NULL;
    }
    if (size > PTRDIFF_MAX / 2) {
        return NULL;
    }
    size = size == 0 ? ALIGNMENT : (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    DynArenaChunk *chunk = a->head;
    if (chunk == NULL || chunk->size - chunk->used < size) {
        chunk = add_chunk(a, size);
    }
    if (chunk == NULL) {
        return NULL;
    }
    void *at = (char *)(chunk + 1) + chunk->used;
    chunk->used += size;
    a->used += size;
    return at;
}

char *dyn_arena_strdup(DynArena *a, const char *s) {
    size_t n = strlen(s) + 1;
    char *copy = dyn_arena_alloc(a, n);
    if (copy != NULL) {
        memcpy(copy, s, n);
    }
    return copy;
}

int dyn_vec_grow(void **at, uint32_t *cap, uint32_t need, size_t item) {
    uint64_t room = *cap < 8 ? 8 : (uint64_t)*cap + *cap / 2;
    if (room < need) {
        room = need;
    }
    if (room > UINT32_MAX - 1 || room > PTRDIFF_MAX / item || need == 0) { /* need == 0: n + 1 wrapped around */
        return -1;
    }
    void *grown = PyMem_RawRealloc(*at, (size_t)room * item);
    if (grown == NULL) {
        return -1;
    }
    *at = grown;
    *cap = (uint32_t)room;
    return 0;
}

void dyn_vec_shrink(void **at, uint32_t *cap, uint32_t n, size_t item) {
    if (n == *cap) {
        return;
    }
    void *less = n == 0 ? NULL : PyMem_RawRealloc(*at, (size_t)n * item);
    if (n == 0) {
        PyMem_RawFree(*at);
    } else if (less == NULL) { /* it stays as it is */
        return;
    }
    *at = less;
    *cap = n;
}

int dyn_index_empty(DynIndex *x, uint32_t size) {
    if (dyn_vec_reserve(x, size) < 0) {
        return -1;
    }
    x->n = size;
    memset(x->at, 0xFF, size * sizeof(*x->at)); /* DYN_NONE */
    return 0;
}

/* Room for `more` characters and the NUL. */
static bool str_reserve(DynStr *s, size_t more) {
    if (s->failed) {
        return false;
    }
    uint64_t need = (uint64_t)s->n + more + 1;
    if (need <= s->cap) {
        return true;
    }
    if (s->fixed || more > UINT32_MAX / 2 || need > UINT32_MAX / 2 ||
        dyn_vec_grow((void **)&s->at, &s->cap, need < 64 ? 64 : (uint32_t)need, 1) < 0) {
        s->failed = true;
        return false;
    }
    return true;
}

void dyn_str_putc(DynStr *s, char c) {
    if (!str_reserve(s, 1)) {
        return;
    }
    s->at[s->n++] = c;
    s->at[s->n] = 0;
}

void dyn_str_puts(DynStr *s, const char *text) {
    size_t n = strlen(text);
    if (!str_reserve(s, n)) {
        return;
    }
    memcpy(s->at + s->n, text, n + 1);
    s->n += (uint32_t)n;
}

void dyn_str_put(DynStr *s, const void *bytes, size_t n) {
    if (str_reserve(s, n)) {
        memcpy(s->at + s->n, bytes, n);
        s->n += (uint32_t)n;
        s->at[s->n] = 0;
    }
}

static void put_integer(DynStr *s, uint64_t magnitude, bool negative) {
    char digits[24], *at = digits + sizeof digits;
    do {
        *--at = (char)('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude > 0);
    if (negative) {
        *--at = '-';
    }
    dyn_str_put(s, at, (size_t)(digits + sizeof digits - at));
}

static void put_signed(DynStr *s, int64_t i) { put_integer(s, i < 0 ? 0 - (uint64_t)i : (uint64_t)i, i < 0); }

static void put_text(DynStr *s, const char *text) { dyn_str_puts(s, text == NULL ? "(null)" : text); }

/* Writes the argument for the conversion that `format` begins with, behind its percent sign, and returns the conversion's length;
 * 0: it isn't one of the plain ones. */
static size_t put_conversion(DynStr *s, const char *format, va_list *args) {
    switch (format[0]) {
    case '%': dyn_str_putc(s, '%'); return 1;
    case 'c': dyn_str_putc(s, (char)va_arg(*args, int)); return 1;
    case 's': put_text(s, va_arg(*args, const char *)); return 1;
    case 'd': put_signed(s, va_arg(*args, int)); return 1;
    case 'u': put_integer(s, va_arg(*args, unsigned), false); return 1;
    default: break;
    }
    if (strncmp(format, "lld", 3) == 0) {
        put_signed(s, va_arg(*args, long long));
        return 3;
    }
    return 0;
}

/* Formats in which there are plain conversions alone, which is most of generated text: libraries that come with NumPy register
 * conversions of their own, and glibc's printf takes ten times as long in such a process. false: nothing was written. */
static bool put_plainly(DynStr *s, const char *format, va_list args) {
    uint32_t before = s->n;
    va_list own;
    bool plain = true;
    va_copy(own, args);
    while (plain) {
        size_t n = strcspn(format, "%");
        dyn_str_put(s, format, n);
        format += n;
        if (*format == 0) {
            break;
        }
        n = put_conversion(s, format + 1, &own);
        format += n + 1;
        plain = n > 0;
    }
    va_end(own);
    if (!plain && !s->failed) {
        s->n = before;
        s->at[before] = 0;
    }
    return plain;
}

/* Mostly there is room for it already; where there isn't it is formatted again. */
void dyn_str_vprintf(DynStr *s, const char *format, va_list args) {
    if (put_plainly(s, format, args)) {
        return;
    }
    va_list again;
    va_copy(again, args);
    size_t room = s->failed ? 0 : s->cap - s->n;
    int n = vsnprintf(room > 0 ? s->at + s->n : NULL, room, format, args);
    if (n < 0) {
        s->failed = true;
    } else if ((size_t)n < room) {
        s->n += (uint32_t)n;
    } else if (str_reserve(s, (size_t)n)) {
        vsnprintf(s->at + s->n, (size_t)n + 1, format, again);
        s->n += (uint32_t)n;
    }
    va_end(again);
}

void dyn_str_printf(DynStr *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    dyn_str_vprintf(s, format, args);
    va_end(args);
}

void dyn_format(char *to, size_t room, const char *format, ...) {
    DynStr s = {.at = to, .cap = (uint32_t)room, .fixed = true};
    va_list args;
    *to = 0;
    va_start(args, format);
    if (!put_plainly(&s, format, args)) {
        vsnprintf(to, room, format, args);
    }
    va_end(args);
}

static void put_not_finite(DynStr *s, double value, uint64_t bits) {
    const char *sign = bits >> 63 ? "-" : "";
    uint64_t payload = bits & 0x7ffffffffffffull; /* without the quiet bit */
    if (isinf(value)) {
        dyn_str_printf(s, "%s__builtin_inf()", sign);
    } else if (payload == 0) {
        dyn_str_printf(s, "%s__builtin_nan(\"\")", sign);
    } else {
        dyn_str_printf(s, "%s__builtin_nan(\"0x%llx\")", sign, (unsigned long long)payload);
    }
}

/* CPython keeps the memory of its conversion with the thread's interpreter: without the GIL there is none, and it would crash. */
void dyn_str_putd(DynStr *s, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    assert(PyGILState_Check());
    if (!isfinite(value)) {
        put_not_finite(s, value, bits);
        return;
    }
    char *text = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL); /* in no locale, unlike printf */
    if (text == NULL) {
        PyErr_Clear();
        s->failed = true;
        return;
    }
    dyn_str_puts(s, text);
    PyMem_Free(text);
}

/* From the bits: printf's %a writes the point of the program's locale. */
void dyn_str_puthex(DynStr *s, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    int exponent = (int)(bits >> 52 & 0x7ff);
    unsigned long long fraction = bits & 0xfffffffffffffull;
    if (!isfinite(value)) {
        put_not_finite(s, value, bits);
        return;
    }
    dyn_str_printf(s, "%s0x%d.%013llxp%d", bits >> 63 ? "-" : "", exponent > 0, fraction, exponent > 0 ? exponent - 1023 : -1022);
}

void dyn_str_free(DynStr *s) {
    PyMem_RawFree(s->at);
    *s = (DynStr){0};
}

const char *dyn_str_at(const DynStr *s) { return s->at == NULL ? "" : s->at; }

uint64_t dyn_hash64(const void *data, size_t n, uint64_t seed) {
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325ull ^ seed, word;
    for (; n >= sizeof word; n -= sizeof word, p += sizeof word) {
        memcpy(&word, p, sizeof word);
        h = (h ^ word) * 0x9e3779b97f4a7c15ull;
        h ^= h >> 32; /* or else high bits of a word would never reach low ones of the hash */
    }
    for (size_t i = 0; i < n; i++) {
        h = (h ^ p[i]) * 0x100000001b3ull;
    }
    h ^= h >> 32; /* FNV leaves the low bits weak, and tables index by them */
    h *= 0x9e3779b97f4a7c15ull;
    return h ^ (h >> 29);
}

/* SHA-256 (FIPS 180-4). The constants are the first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void sha_block(uint32_t h[8], const unsigned char *p) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, h, sizeof(v));
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choose + sha_k[i] + w[i];
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; i++) {
        h[i] += v[i];
    }
}

void dyn_sha256_hex(const void *data, size_t n, char out[65]) {
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const unsigned char *p = data;
    size_t whole = n / 64 * 64, rest = n - whole;
    for (size_t i = 0; i < whole; i += 64) {
        sha_block(h, p + i);
    }
    unsigned char tail[128] = {0}; /* what is left, a 1 bit, zeros, the length in bits */
    if (rest > 0) {
        memcpy(tail, p + whole, rest);
    }
    tail[rest] = 0x80;
    size_t padded = rest + 9 <= 64 ? 64 : 128;
    uint64_t bits = (uint64_t)n * 8;
    for (int i = 0; i < 8; i++) {
        tail[padded - 1 - (size_t)i] = (unsigned char)(bits >> (8 * i));
    }
    for (size_t i = 0; i < padded; i += 64) {
        sha_block(h, tail + i);
    }
    for (int i = 0; i < 8; i++) {
        snprintf(out + 8 * i, 9, "%08x", h[i]);
    }
}

/* ---- words */

int dyn_words_count(const char *words) {
    int n = *words != 0;
    for (; *words != 0; words++) {
        n += *words == ' ';
    }
    return n;
}

int dyn_words_find(const char *words, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; *words != 0; i++) {
        size_t word = strcspn(words, " ");
        if (word == n && memcmp(words, name, n) == 0) {
            return i;
        }
        words += word + (words[word] == ' ');
    }
    return -1;
}
