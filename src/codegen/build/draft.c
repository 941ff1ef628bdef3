/* draft.c: an artifact's text is written by the build thread, from a copy of the loop IR.
 *
 * Writing C takes as long as all stages before it together, and the call that is being recorded would wait for it. build.c asks
 * for a draft where it is to build an artifact without text; the target says that its text needs nothing but loop IR. What the
 * graph's entry owns may go at any time, so the copy is the draft's own. Where the text is split (parts.c), its rest becomes an
 * artifact when the job has ended: the thread makes none. */
#include "codegen/build/build.h"
#include "codegen/run/run.h"
#include "codegen/target.h"

typedef struct Draft {
    DynArtifact *artifact; /* a reference; for who has the GIL alone */
    const DynTarget *target;
    DynArena arena;
    const DynLoops *loops;
    DynStr rest; /* the second part of the text, where there are two */
} Draft;

static void free_draft(Draft *d) {
    dyn_artifact_decref(d->artifact);
    dyn_str_free(&d->rest);
    dyn_arena_free(&d->arena);
    PyMem_RawFree(d);
}

static DynReason write_draft(void *what, DynStr *out) {
    Draft *d = what;
    DynStr first = {0}, error = {0};
    DynReason why = DYN_R_NO_MEMORY;
    bool written = d->target->emit(d->loops, out, &why, &error) == 0 && !out->failed;
    dyn_str_free(&error);
    if (written && dyn_parts_write(d->target, d->loops, (int64_t)out->n, &first, &d->rest)) {
        dyn_str_free(out);
        *out = first;
    }
    return written || why != DYN_R_OK ? why : DYN_R_NO_MEMORY;
}

static void draft_is_written(void *what, bool torn) {
    Draft *d = what;
    if (torn) { /* a fork: its text is a thread's that isn't here */
        return;
    }
    if (d->rest.n > 0 && dyn_artifact_has_owner(d->artifact, 1)) {
        dyn_parts_add_rest(d->artifact, &d->rest);
        dyn_artifact_rest_submit(d->artifact);
    }
    free_draft(d);
}

bool dyn_draft_is_due(const DynArtifact *a) {
    bool wanted = a->target->written_apart && a->nnative > 0 && a->tune == NULL;
    return wanted && a->source.n == 0 && dyn_artifact_state(a) == 0;
}

/* Whether there will be two parts is asked of the built-in tier, which is loaded with the GIL. */
void *dyn_draft_new(DynArtifact *a, const DynBuildWriter **writer) {
    static const DynBuildWriter written = {write_draft, draft_is_written, &dyn_toolchain_c};
    Draft *d = PyMem_RawCalloc(1, sizeof(*d));
    if (d == NULL) {
        return NULL;
    }
    dyn_arena_init(&d->arena);
    d->artifact = a;
    dyn_artifact_incref(a);
    d->target = a->target;
    DynLoops *loops = dyn_loops_keep(a->loops, &d->arena);
    (void)dyn_builtin_ready(); /* loads it */
    *writer = &written;
    if (loops == NULL) {
        free_draft(d);
        return NULL;
    }
    loops->graph = NULL; /* its owner may be gone when the text is written */
    d->loops = loops;
    return d;
}
