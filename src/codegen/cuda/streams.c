/* streams.c: memory that belongs to a stream of the framework's: launches in one stream follow each other, so that it serves them
 * all, in turn, and nothing is allocated for each.
 *
 * Called by launch.c and cublas.c, with the GIL. Owns the memory, which stays, as streams do. A launch that is captured may run
 * beside others of its stream: the memory that it uses is its own. */
#include "codegen/cuda/target.h"

#define MOST_STREAMS 32 /* that have memory; launches in those beyond have their own */

static DynCudaStream streams[MOST_STREAMS];
static int nstreams;

DynCudaStream *dyn_cuda_stream(const DynCudaInfo *info, void *stream) {
    int captures = 0;
    bool of_threads = stream == (void *)2; /* CU_STREAM_PER_THREAD is one name for many */
    if (of_threads || dyn_cuda.StreamIsCapturing(stream, &captures) != 0 || captures) {
        return NULL;
    }
    for (int i = 0; i < nstreams; i++) {
        if (streams[i].stream == stream && streams[i].info == info) {
            return &streams[i];
        }
    }
    if (nstreams == MOST_STREAMS) {
        return NULL;
    }
    streams[nstreams] = (DynCudaStream){.info = info, .stream = stream};
    return &streams[nstreams++];
}

char *dyn_cuda_workspace(const DynCall *c, void *stream, int64_t bytes, PyObject **holder) {
    DynCudaStream *own = dyn_cuda_stream(dyn_cuda_info(c->p->graph->device - 1), stream);
    *holder = NULL;
    if (own == NULL) {
        return dyn_cuda_memory(c, bytes, holder);
    }
    if (own->work_bytes < bytes) {
        Py_CLEAR(own->work_holder); /* the allocator takes it back in the stream's order */
        own->work = dyn_cuda_memory(c, bytes, &own->work_holder);
        own->work_bytes = own->work == NULL ? 0 : bytes;
    }
    return own->work;
}
