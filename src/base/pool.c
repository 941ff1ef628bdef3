/* pool.c: memory of large blocks, kept when they are given back, so that the kernel need not hand out (and clear) new pages for
 * every result: those page faults cost more than most operators.
 *
 * arrays.c takes the data of new arrays here, run.c a graph's temporaries. A block is a mapping of its own, of a size class (four
 * to a power of two: what a smaller array doesn't touch of it costs no memory), behind a header of one cache line. Blocks that
 * are free hang in the list of their class, the last one given back first, and in one list by age: when more than
 * config.keep_memory is kept, the oldest go. Small blocks are malloc's. */
#define _GNU_SOURCE 1
#include "base/pool.h"
#include "base/log.h"
#include <sys/mman.h>

#define LINE ((size_t)64)
#define HUGE_PAGES ((size_t)4 << 20) /* from here on NumPy asks for huge pages too */
#define COLOURS 8                    /* arrays of one size must not all begin at the same place of a page: */
#define COLOUR_STEP ((size_t)576)    /* a store would look like a load of the next lines */
#define NCLASSES (4 * 64)

typedef struct Block Block;
typedef struct Links {
    Block *prev, *next;
} Links;
struct Block {
    size_t size;      /* of the mapping; 0: malloc's, and `start` is what malloc gave */
    char *start;      /* of the mapping */
    Links kin, age;   /* while it is free */
    size_t room;      /* bytes behind the header */
    size_t not_asked; /* fills the line */
};
_Static_assert(sizeof(Block) == LINE, "the data behind a header begins a cache line");

static Block *of_class[NCLASSES]; /* the newest of each */
static Block *newest, *oldest;
static size_t kept;
static unsigned colour;

/* Four classes to a power of two; *size becomes the class's. -1: no such size. */
static int class_of(size_t *size) {
    if (*size > SIZE_MAX / 4) {
        return -1;
    }
    int top = 63 - __builtin_clzll(*size - 1), step = top - 2;
    size_t unit = (size_t)1 << step, units = (*size + unit - 1) / unit; /* 5 to 8 */
    *size = units * unit;
    return 4 * top + (int)units - 5;
}

static Block *header(void *block) { return (Block *)((char *)block - sizeof(Block)); }

static void unlink_block(Block *b) {
    size_t size = b->size;
    Block **head = &of_class[class_of(&size)];
    *(b->kin.prev ? &b->kin.prev->kin.next : head) = b->kin.next;
    if (b->kin.next) {
        b->kin.next->kin.prev = b->kin.prev;
    }
    *(b->age.prev ? &b->age.prev->age.next : &newest) = b->age.next;
    *(b->age.next ? &b->age.next->age.prev : &oldest) = b->age.prev;
    kept -= b->size;
}

static void keep_at_most(size_t bytes) {
    while (kept > bytes) {
        Block *b = oldest;
        unlink_block(b);
        munmap(b->start, b->size);
    }
}

static void *map_block(size_t size) {
    char *start = MAP_FAILED;
    for (int turn = 0; turn < 2 && start == MAP_FAILED; turn++) {
        if (turn > 0) {
            keep_at_most(0); /* there may be room for it in place of what is kept */
        }
        start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (start == MAP_FAILED) {
        return NULL;
    }
    if (size >= HUGE_PAGES) {
        madvise(start, size, MADV_HUGEPAGE); /* a wish */
    }
    size_t ahead = COLOUR_STEP * (colour++ % COLOURS);
    Block *b = (Block *)(start + ahead);
    *b = (Block){.size = size, .start = start, .room = size - ahead - sizeof(Block)};
    return b + 1;
}

static void *small_block(size_t bytes) {
    char *start = PyMem_RawMalloc(bytes + 2 * LINE);
    if (start == NULL) {
        return NULL;
    }
    Block *b = (Block *)(((uintptr_t)start + LINE - 1) & ~(uintptr_t)(LINE - 1));
    b->size = 0;
    b->start = start;
    b->room = bytes;
    return b + 1;
}

void *dyn_pool_take(size_t bytes) {
    if (bytes < DYN_POOL_LEAST) {
        return small_block(bytes);
    }
    size_t size = bytes > SIZE_MAX / 8 ? bytes : bytes + sizeof(Block) + COLOURS * COLOUR_STEP;
    int kind = class_of(&size);
    if (kind < 0) {
        return NULL;
    }
    Block *b = of_class[kind];
    if (b == NULL) {
        return map_block(size);
    }
    unlink_block(b);
    return b + 1;
}

void dyn_pool_give(void *block) {
    if (block == NULL) {
        return;
    }
    Block *b = header(block);
    if (b->size == 0) {
        PyMem_RawFree(b->start);
        return;
    }
    size_t limit = (size_t)dyn_config.keep_memory << 20, size = b->size;
    if (size > limit) {
        munmap(b->start, b->size);
        keep_at_most(limit);
        return;
    }
    Block **head = &of_class[class_of(&size)];
    b->kin = (Links){NULL, *head};
    b->age = (Links){NULL, newest};
    *(*head ? &(*head)->kin.prev : head) = b;
    *head = b;
    *(newest ? &newest->age.prev : &oldest) = b;
    newest = b;
    kept += size;
    keep_at_most(limit);
}

void dyn_pool_release(void) { keep_at_most(0); }
size_t dyn_pool_room(const void *block) { return ((const Block *)block - 1)->room; }
size_t dyn_pool_kept(void) { return kept; }
