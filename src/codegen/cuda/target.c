/* target.c: CUDA devices as a target: what run.c and compile.c call for graphs whose tensors lie there.
 *
 * Memory is the framework's: arrays and temporaries are its tensors, whose allocator works in the order of its stream, so that
 * what is given back while the device still uses it goes to no one on another stream. Calls that aren't kernels are the
 * framework's own. There are no floating-point flags: PyTorch gives no warnings. */
#include "base/tensors.h"
#include "codegen/cuda/replay.h"

/* What is allocated while a call is recorded is in a pool of the graph's own, which stays: the stand-in of tests has none. */
static PyObject *keep(const DynCall *c, PyObject *tensor) {
    if (dyn_cuda_stands_in && c->recording != NULL && tensor != NULL && dyn_recording_keep(c->recording, tensor) < 0) {
        Py_CLEAR(tensor);
    }
    return tensor;
}

static PyObject *array_of(const DynCall *c, DynDtype dtype, int ndim, const int64_t *dims, const DynLayout *layout) {
    const DynGraph *g = c->p->graph;
    return g->cupy ? dyn_cupy_new(dtype, ndim, dims, layout) : dyn_torch_new(dtype, ndim, dims, layout, g->device);
}

static PyObject *allocate(const DynCall *c, uint32_t place, uint8_t dtype, int ndim, const int64_t *dims,
                          const DynLayout *layout) {
    (void)place;
    return keep(c, array_of(c, (DynDtype)dtype, ndim, dims, layout));
}

char *dyn_cuda_memory(const DynCall *c, int64_t bytes, PyObject **holder) {
    DynArrayView v;
    *holder = keep(c, array_of(c, DYN_U8, 1, &bytes, NULL));
    return *holder != NULL && dyn_tensor_place(*holder, &v) ? v.data : NULL;
}

static char *reserve(DynCall *c, size_t bytes) { return dyn_cuda_memory(c, bytes > 0 ? (int64_t)bytes : 1, &c->held); }

static void release(DynCall *c) { Py_CLEAR(c->held); }

static int synchronise(const DynCall *c) {
    (void)c;
    return 0;
}

static void put_program(const DynLoops *p, const DynConfig *config, const char *source, DynStr *out) {
    (void)p, (void)config;
    dyn_str_puts(out, source);
}

/* What the processor could make itself is a call. */
static const DynTaskKind *const tasks[DYN_TASK_COUNT] = {
    [DYN_TASK_VIEW] = &dyn_task_view,
    [DYN_TASK_KERNEL] = &dyn_cuda_task_kernel,
    [DYN_TASK_PRODUCT] = &dyn_cuda_task_product,
    [DYN_TASK_GROUP] = &dyn_cuda_task_group,
    [DYN_TASK_OWN] = &dyn_task_call,
    [DYN_TASK_CALL] = &dyn_task_call,
};

const DynTarget dyn_target_cuda = {
    .name = "cuda",
    .toolchain = &dyn_toolchain_cuda,
    .emit = dyn_cuda_emit,
    .part = dyn_cuda_emit_part,
    .program = put_program,
    .build = dyn_build_submit,
    .tasks = tasks,
    .allocate = allocate,
    .takes = dyn_cuda_takes,
    .reserve = reserve,
    .release = release,
    .can_descend = dyn_cuda_can_descend,
    .descend = dyn_cuda_descend,
    .replay = dyn_cuda_replay,
    .forget = dyn_cuda_forget,
    .synchronise = synchronise,
};
