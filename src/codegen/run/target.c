/* target.c: the targets (codegen/target.h), and which one runs a graph. Called by evalframe/compile.c, once for each capture.
 *
 * C with OpenMP is the one for this machine's memory: its text is C (codegen/c), built by a compiler in a thread of its own
 * (codegen/build), and its tasks are the files task_*.c, which run what they launch before they return. CUDA's is made in
 * codegen/cuda. */
#include "base/pool.h"
#include "base/torch.h"
#include "codegen/run/call.h"
#include "codegen/run/descent.h"
#include "codegen/run/flags.h"
#include "codegen/target.h"

static const DynTaskKind *const tasks[DYN_TASK_COUNT] = {
#define TASK(name, kind) [DYN_TASK_##name] = &dyn_task_##kind,
#include "codegen/run/tasks.def"
#undef TASK
};

/* Is the array of a place made by PyTorch? What nobody sees is had faster from NumPy. */
static bool is_tensor(const DynCall *c, uint32_t place) {
    return place < c->p->nnodes && c->p->handed[place] && dyn_graph_node(c->p->graph, place)->flags & DYN_NODE_TENSOR;
}

static PyObject *allocate(const DynCall *c, uint32_t place, uint8_t dtype, int ndim, const int64_t *dims,
                          const DynLayout *layout) {
    return is_tensor(c, place) ? dyn_torch_new((DynDtype)dtype, ndim, dims, layout, 0)
                               : dyn_array_new((DynDtype)dtype, ndim, dims, layout);
}

static char *reserve(DynCall *c, size_t bytes) {
    (void)c;
    return dyn_pool_take(bytes);
}

static void release(DynCall *c) { dyn_pool_give(c->temps); }

static int synchronise(const DynCall *c) {
    (void)c;
    return dyn_flags_get();
}

const DynTarget dyn_target_c = {
    .name = "c",
    .toolchain = &dyn_toolchain_c,
    .emit = dyn_emit_c,
    .written_apart = true,
    .part = dyn_emit_c_part,
    .program = dyn_emit_program,
    .build = dyn_build_submit,
    .tasks = tasks,
    .allocate = allocate,
    .reserve = reserve,
    .release = release,
    .can_descend = dyn_can_descend,
    .descend = dyn_descend,
    .synchronise = synchronise,
};

const DynTarget *dyn_target_at(uint8_t device) { return device == 0 ? &dyn_target_c : &dyn_target_cuda; }
const DynTarget *dyn_target_of(const DynGraph *g) { return dyn_target_at(g->device); }
