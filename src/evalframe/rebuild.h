/* rebuild.h: recipes (ir/capture.h) turned into Python objects, after a hit ran its artifact or when a snapshot is left.
 *
 * Called by the runner on a hit and by the code that leaves a graph in the middle; rebuild.c owns nothing between calls. */
#ifndef DYN_REBUILD_H
#define DYN_REBUILD_H
#include "evalframe/entry.h"

extern DYN_HIDDEN const DynEffects dyn_no_effects;

/* The values of `n` recipes, with one memo for all of them: a recipe that is met twice is one object, lists and dicts are new
 * ones at every call. out: n slots, each a new reference, or NULL where the recipe is of kind NULL (unbound local, NULL on the
 * stack). outputs: what OUTPUT recipes take from, borrowed: DynRun.outputs, or for a snapshot the values by node id. 0, or -1
 * with a Python exception set (memory; an output that isn't there) and every slot of out NULL. When all values are there, the
 * effects are performed: what they put into other objects is of the same memo. */
DYN_HIDDEN int dyn_rebuild(const DynCapture *c, const DynEnv *env, PyObject *const *outputs, DynEffects fx,
                           const uint32_t *recipes, uint32_t n, PyObject **out);
/* One recipe: new reference or NULL with an exception set (a recipe of kind NULL is an error here). */
DYN_HIDDEN PyObject *dyn_rebuild_one(const DynCapture *c, const DynEnv *env, PyObject *const *outputs, DynEffects fx,
                                     uint32_t recipe);
/* Which outputs (node ids in a snapshot) the recipes and effects need: need[id] = true for each; `count` slots, cleared first. 0,
 * or -1 with MemoryError set. */
DYN_HIDDEN int dyn_rebuild_needs(const DynCapture *c, DynEffects fx, const uint32_t *recipes, uint32_t n, bool *need,
                                 uint32_t count);
#endif
