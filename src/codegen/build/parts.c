/* parts.c: what a call like the one that was recorded needs of an artifact is compiled first, the rest behind it.
 *
 * A compiler takes 15 to 40 ms for each function of a reduction, and a kernel has up to five, of which a call needs one or two:
 * which, the target says. Who writes the text asks for it (artifact.c, draft.c). The rest is an artifact that nobody else runs,
 * and comes when nobody waits for anything else; until then the built-in tier does what it would, with the same bits, or on a
 * device eager. run.c puts both tables together when the rest is there; a device's functions are looked up in one, then in the
 * other. All with the GIL, but for dyn_parts_write. */
#include "codegen/build/build.h"
#include "codegen/run/run.h"
#include "codegen/target.h"

bool dyn_parts_write(const DynTarget *target, const DynLoops *p, int64_t whole, DynStr *first, DynStr *rest) {
    bool split = target->part(p, true, whole, first) == 0 && target->part(p, false, whole, rest) == 0;
    if (!split) {
        dyn_str_free(first);
        dyn_str_free(rest);
    }
    return split;
}

void dyn_parts_add_rest(DynArtifact *a, DynStr *rest) {
    if (a->rest == NULL && (a->rest = dyn_artifact_new(a->target, a->loops, rest, a->graph, &a->config)) != NULL) {
        a->rest->later = true;
    }
}

void dyn_parts_split(DynArtifact *a) {
    DynStr first = {0}, rest = {0};
    if (dyn_parts_write(a->target, a->loops, (int64_t)a->source.n, &first, &rest)) {
        dyn_parts_add_rest(a, &rest);
    }
    if (a->rest != NULL) {
        a->first = first;
        first = (DynStr){0};
    }
    dyn_str_free(&first);
    dyn_str_free(&rest);
}

void dyn_artifact_rest_submit(DynArtifact *a) {
    if (a->rest != NULL) {
        dyn_build_submit(a->rest, false);
    }
}

void dyn_parts_join(DynArtifact *a) {
    const DynNativeTable *first = atomic_load_explicit(&a->table, memory_order_acquire);
    const DynNativeTable *rest = atomic_load_explicit(&a->rest->table, memory_order_acquire);
    size_t bytes = sizeof(*rest) + sizeof(rest->kernels[0]) * (size_t)(a->nnative - 1);
    bool are_tables = first != NULL && rest != NULL && first->count != DYN_COUNT_UNKNOWN;
    if (!are_tables || (a->joined = PyMem_RawMalloc(bytes)) == NULL) {
        return;
    }
    memcpy(a->joined, first, bytes);
    for (long i = 0; i < a->nnative; i++) {
        DynNativeKernel *to = &a->joined->kernels[i];
#define FORM(NAME, name, Args) to->name = to->name != NULL ? to->name : rest->kernels[i].name;
#include "codegen/native.def"
    }
    atomic_store_explicit(&a->table, a->joined, memory_order_release);
}
