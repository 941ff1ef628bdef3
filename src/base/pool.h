/* pool.h: memory of large arrays, kept for the next ones when they die. */
#ifndef DYN_POOL_H
#define DYN_POOL_H
#include "base/base.h"

#define DYN_POOL_LEAST ((size_t)64 << 10) /* bytes below which malloc does as well */

/* All of these with the GIL. Blocks are aligned to a cache line. take: NULL without memory (no exception); any size. */
DYN_HIDDEN void *dyn_pool_take(size_t bytes);
DYN_HIDDEN void dyn_pool_give(void *block); /* NULL is nothing */
DYN_HIDDEN void dyn_pool_release(void);     /* what is kept goes back to the system */
DYN_HIDDEN size_t dyn_pool_room(const void *block);
DYN_HIDDEN size_t dyn_pool_kept(void); /* bytes */
#endif
