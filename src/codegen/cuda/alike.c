/* alike.c: kernels of a graph that differ in nothing but where their operands lie, as layers of a model do, are one function: it
 * is compiled and loaded once, and launched for all of them.
 *
 * Called by emit_cuda.c before it writes a graph's text. Contract: kernels are numbered one behind the other; then those whose
 * text is that of others before have the numbers of these, and a kernel's number names its function. Running it again changes
 * nothing. Owns nothing. */
#include "codegen/cuda/cuda.h"

/* What a launch runs, written down as if its first kernel was number 0. */
typedef struct Text {
    DynStr text;
    int first; /* the number that its first kernel has */
} Text;

uint32_t dyn_cuda_step_end(const DynLoops *p, uint32_t step) {
    const DynKernel *k = dyn_loops_kernel_at(p, step);
    return k->group != DYN_NONE ? dyn_loops_group_end(p, step) : dyn_loops_tails_end(p, step);
}

static void renumber(const DynLoops *p, uint32_t step, uint32_t end, int by) {
    for (uint32_t s = step; s < end; s++) {
        dyn_loops_kernel_at(p, s)->number = (int16_t)(dyn_loops_kernel_at(p, s)->number + by);
    }
}

/* Its text is kept among the n of `texts`, where it is a new one. */
static int number_step(const DynLoops *p, uint32_t step, uint32_t end, Text *texts, uint32_t *n) {
    int first = dyn_loops_kernel_at(p, step)->number;
    Text *own = &texts[*n];
    *own = (Text){.first = first};
    renumber(p, step, end, -first);
    int failed = dyn_cuda_emit_step(p, step, ~0u, &own->text);
    renumber(p, step, end, first);
    if (failed || own->text.failed) {
        dyn_str_free(&own->text);
        return -1;
    }
    for (uint32_t i = 0; i < *n; i++) {
        if (strcmp(dyn_str_at(&texts[i].text), dyn_str_at(&own->text)) == 0) {
            renumber(p, step, end, texts[i].first - first);
            dyn_str_free(&own->text);
            return 0;
        }
    }
    (*n)++;
    return 0;
}

int dyn_cuda_number_alike(const DynLoops *p) {
    Text *texts = PyMem_Malloc(sizeof(*texts) * (p->steps.n + 1));
    uint32_t n = 0;
    int done = texts == NULL ? -1 : 0;
    for (uint32_t s = 0; s < p->steps.n && done == 0; s++) {
        if (dyn_loops_kernel_at(p, s) != NULL) {
            uint32_t end = dyn_cuda_step_end(p, s);
            done = number_step(p, s, end, texts, &n);
            s = end - 1;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        dyn_str_free(&texts[i].text);
    }
    PyMem_Free(texts);
    return done;
}
