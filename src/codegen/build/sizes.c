/* sizes.c: rows of a length that comes very often get a function of their own, in which that length is a constant.
 *
 * run.c asks when it binds a kernel that reduces; the length is compared there and nowhere else, so guards know nothing of it.
 * Rows are counted. When there were enough of one length, the next call puts an object with that one function into the queue; it
 * is taken as soon as it is loaded. Until then, and for any other length, the general function serves, with the same bits. A
 * version is an artifact that nobody else runs, so queue, cache and loading are those of any text; the artifact that it is for
 * owns it for as long as it lives, as a thread may be in its code. All with the GIL. */
#include "base/log.h"
#include "codegen/build/build.h"
#include "codegen/run/run.h"

#define VERSIONS 3                   /* of a kernel */
#define SHORTEST (DYN_ROWS_FROM - 1) /* rows of fewer lanes are laid out side by side */
#define LONGEST DYN_BLOCK            /* of one block; half of this gains a tenth, this next to nothing */

typedef struct Version {
    const DynKernel *k;
    int64_t n, rows;   /* their length, and how many there were: less those of other lengths, until it is asked for */
    DynArtifact *made; /* NULL: not asked for, or it can't be made */
    bool asked;
} Version;
struct DynSizes {
    bool due; /* a version is to be asked for */
    Version at[];
};

static int64_t often = DYN_LENGTH_OFTEN;

int64_t dyn_sizes_often(int64_t rows) {
    int64_t before = often;
    often = rows;
    return before;
}

/* ---- counting */

/* The length of a kernel's rows, if they may be such as are taken where they lie; 0: they aren't. */
static int64_t length_of(const DynBound *b, int64_t *rows) {
    int64_t n = 1, all = 1;
    int last = b->ndim - 1;
    if (!(b->k->reduced >> last & 1)) {
        return 0;
    }
    for (int d = 0; d <= last; d++) {
        n *= b->k->reduced >> d & 1 ? b->dims[d] : 1;
        all *= b->dims[d];
    }
    if (n < SHORTEST + (b->native->short_axis != NULL) || n > LONGEST) {
        return 0;
    }
    for (int i = 0; i < b->nops; i++) {
        const DynOperand *o = &b->k->operands.at[i];
        if (!o->scalar && !o->result && b->strides[i][last] != b->size[i]) {
            return 0;
        }
    }
    *rows = all / n;
    return n;
}

/* The version for a length, or the place where it is counted from now on; NULL: the others come more often. */
static Version *find(Version *of, const DynKernel *k, int64_t n, int64_t rows) {
    Version *least = NULL;
    for (int i = 0; i < VERSIONS; i++) {
        if (of[i].n == n) {
            return &of[i];
        }
        least = !of[i].asked && (least == NULL || of[i].rows < least->rows) ? &of[i] : least;
    }
    if (least == NULL || (least->rows -= rows) > 0) {
        return NULL;
    }
    *least = (Version){.k = k, .n = n};
    return least;
}

void dyn_sizes_bind(DynArtifact *a, DynBound *b) {
    int64_t rows, n = length_of(b, &rows);
    if (n == 0) {
        return;
    }
    if (a->sizes == NULL) {
        a->sizes = PyMem_RawCalloc(1, sizeof(*a->sizes) + sizeof(Version) * VERSIONS * (size_t)a->nnative);
    }
    Version *v = a->sizes == NULL ? NULL : find(&a->sizes->at[VERSIONS * b->k->number], b->k, n, rows);
    if (v == NULL) {
        return;
    }
    const DynNativeTable *table = v->made == NULL ? NULL : atomic_load_explicit(&v->made->table, memory_order_acquire);
    if (table != NULL) {
        b->rows_of_length = table->kernels[0].rows;
        b->length = n;
    } else if (!v->asked) {
        v->rows += rows;
        a->sizes->due |= v->rows >= often;
    }
}

/* ---- versions */

static DynArtifact *make(const DynArtifact *a, const Version *v) {
    DynStr text = {0};
    DynArtifact *made =
        dyn_emit_rows(v->k, v->n, &text) < 0 ? NULL : dyn_artifact_new(a->target, a->loops, &text, a->graph, &a->config);
    dyn_str_free(&text);
    if (made != NULL) {
        made->nnative = 1;
        made->later = true;
    }
    return made;
}

void dyn_sizes_submit(DynArtifact *a) {
    if (!a->sizes->due) {
        return;
    }
    a->sizes->due = false;
    for (long i = 0; i < VERSIONS * a->nnative; i++) {
        Version *v = &a->sizes->at[i];
        if (v->asked || v->rows < often) {
            continue;
        }
        v->asked = true;
        v->made = make(a, v);
        if (v->made == NULL) {
            continue;
        }
        dyn_count("sizes", "built");
        dyn_log(DYN_LOG_perf, "sizes: %s, kernel %d: rows of %lld get a function of their own", a->graph->name, v->k->number,
                (long long)v->n);
        dyn_build_submit(v->made, false);
    }
}

bool dyn_artifact_length(const DynArtifact *a, long i, int *kernel, int64_t *n) {
    for (long at = 0; a->sizes != NULL && at < VERSIONS * a->nnative; at++) {
        const Version *v = &a->sizes->at[at];
        if (v->made != NULL && atomic_load_explicit(&v->made->table, memory_order_acquire) != NULL && i-- == 0) {
            *kernel = v->k->number;
            *n = v->n;
            return true;
        }
    }
    return false;
}

void dyn_sizes_free(DynSizes *s, long nkernels) {
    for (long i = 0; i < VERSIONS * nkernels; i++) {
        if (s->at[i].made != NULL) {
            dyn_artifact_decref(s->at[i].made);
        }
    }
    PyMem_RawFree(s);
}
