/* parts.c: what a call like the one that was recorded needs of an artifact is compiled first, the rest behind it.
 *
 * A compiler takes 15 to 40 ms for each function of a reduction, and a kernel has up to four, of which a call needs one: which,
 * says where its axes lie, and how many elements they had. artifact.c asks for it when the text is written. The rest is
 * an artifact that nobody else runs, and comes when nobody waits for anything else; until then the built-in tier does what it
 * would, with the same bits. run.c puts both tables together when the rest is there. All with the GIL. */
#include "codegen/build/build.h"
#include "codegen/run/run.h"

static int64_t above = DYN_PARTS_ABOVE;

int64_t dyn_parts_above(int64_t text) {
    int64_t before = above;
    above = text;
    return before;
}

static int64_t size_seen(const DynLoops *p, const DynKernel *k, int d) { return dyn_sym_at(p->graph->syms, k->shape[d])->hint.i; }

/* Which form of a reduction does a call need whose operands lie in C order? */
static DynNativeForm needed(const DynLoops *p, const DynKernel *k) {
    int last = k->ndim - 1;
    bool has_short_axis = dyn_emit_has_form(p, k, DYN_FORM_SHORT_AXIS), has_block = dyn_emit_has_form(p, k, DYN_FORM_BLOCK);
    double n = 1; /* elements of a result */
    for (int d = 0; d <= last; d++) {
        n *= k->reduced >> d & 1 ? (double)size_seen(p, k, d) : 1;
    }
    if (k->reduced >> last & 1) {
        return n < DYN_ROWS_FROM && has_short_axis ? DYN_FORM_SHORT_AXIS : DYN_FORM_ROWS;
    }
    if (size_seen(p, k, last) >= DYN_REDUCE_LANES) {
        return has_block ? DYN_FORM_BLOCK : DYN_FORM_COLUMNS;
    }
    return n <= DYN_SHORT_AXIS_MOST && has_short_axis ? DYN_FORM_SHORT_AXIS : DYN_FORM_COLUMNS;
}

static bool is_first(const DynLoops *p, const DynKernel *k, DynNativeForm form) {
    return k->reduced ? form == needed(p, k) : form != DYN_FORM_ROW_CONSTANT; /* without it, elements are copied to lanes */
}

void dyn_parts_split(DynArtifact *a) {
    DynStr first = {0}, rest = {0};
    if (a->source.n <= above || !a->loops->builtin || !dyn_builtin_ready()) {
        return;
    }
    if (dyn_emit_part(a->loops, is_first, true, &first) == 0 && dyn_emit_part(a->loops, is_first, false, &rest) == 0 &&
        a->source.n - first.n >= DYN_PARTS_LEAST) {
        a->rest = dyn_artifact_new(a->target, a->loops, &rest, a->graph, &a->config);
    }
    if (a->rest != NULL) {
        a->rest->later = true;
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
    if (first == NULL || rest == NULL || (a->joined = PyMem_RawMalloc(bytes)) == NULL) {
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
