/* cuda.h: CUDA's driver, found at run time: nothing is linked, and nothing is opened before the program has a tensor on a CUDA
 * device. Who has tensors there has a driver that works, and a primary context.
 *
 * DRIVER(result, name, parameters): what is used of it, by the names of the driver's own documentation,
 * https://docs.nvidia.com/cuda/cuda-driver-api. Handles are opaque. */
#ifndef DYN_CUDA_H
#define DYN_CUDA_H
#include "base/base.h"

#define DYN_CUDA_OLDEST 12000 /* the first driver with libraries that belong to no context */
#define DYN_MOST_DEVICES 64   /* those beyond are eager's */

typedef int DynCudaDevice;
typedef struct DynCudaContext DynCudaContext; /* CUcontext */
typedef struct DynCudaLibrary DynCudaLibrary; /* CUlibrary */
typedef struct DynCudaKernel DynCudaKernel;   /* CUkernel, which is launched as a CUfunction in whatever context is current */
typedef struct DynCudaGraph DynCudaGraph;     /* CUgraph */
typedef struct DynCudaNode DynCudaNode;       /* CUgraphNode */
typedef struct DynCudaExec DynCudaExec;       /* CUgraphExec */
typedef int DynCudaError;                     /* CUresult; 0: none */

/* CUDA_KERNEL_NODE_PARAMS: what a node of a graph launches. */
typedef struct DynCudaNodeParams {
    void *function; /* NULL: `kernel` is meant, in `context` */
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
    void **parameters, **extra;
    DynCudaKernel *kernel;
    DynCudaContext *context;
} DynCudaNodeParams;

#define DYN_CUDA_DRIVER(DRIVER)                                                                                                 \
    DRIVER(Init, "cuInit", (unsigned flags))                                                                                    \
    DRIVER(DriverGetVersion, "cuDriverGetVersion", (int *version))                                                              \
    DRIVER(DeviceGet, "cuDeviceGet", (DynCudaDevice * device, int ordinal))                                                     \
    DRIVER(DeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, DynCudaDevice device))                       \
    DRIVER(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (DynCudaContext * *context, DynCudaDevice device))                     \
    DRIVER(CtxGetCurrent, "cuCtxGetCurrent", (DynCudaContext * *context))                                                       \
    DRIVER(CtxSetCurrent, "cuCtxSetCurrent", (DynCudaContext * context))                                                        \
    DRIVER(LibraryLoadData, "cuLibraryLoadData",                                                                                \
           (DynCudaLibrary * *library, const void *code, int *options, void **values, unsigned n, int *library_options,         \
            void **library_values, unsigned m))                                                                                 \
    DRIVER(LibraryUnload, "cuLibraryUnload", (DynCudaLibrary * library))                                                        \
    DRIVER(LibraryGetKernel, "cuLibraryGetKernel", (DynCudaKernel * *kernel, DynCudaLibrary * library, const char *name))       \
    DRIVER(KernelSetAttribute, "cuKernelSetAttribute", (int attribute, int value, DynCudaKernel *kernel, DynCudaDevice device)) \
    DRIVER(LaunchKernel, "cuLaunchKernel",                                                                                      \
           (DynCudaKernel * kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,      \
            unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra))                                  \
    DRIVER(MemsetD32Async, "cuMemsetD32Async", (void *at, unsigned value, size_t n, void *stream))                              \
    DRIVER(StreamIsCapturing, "cuStreamIsCapturing", (void *stream, int *status))                                               \
    DRIVER(StreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2",                                                                   \
           (void *stream, int *status, unsigned long long *id, DynCudaGraph **graph, DynCudaNode *const **last, size_t *n))     \
    DRIVER(GraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2",                                                   \
           (DynCudaExec * exec, DynCudaNode * node, const DynCudaNodeParams *params))                                           \
    DRIVER(GraphLaunch, "cuGraphLaunch", (DynCudaExec * exec, void *stream))                                                    \
    DRIVER(GetErrorName, "cuGetErrorName", (DynCudaError error, const char **name))                                             \
    DRIVER(GetErrorString, "cuGetErrorString", (DynCudaError error, const char **text))

typedef struct DynCuda {
#define DRIVER(name, symbol, parameters) DynCudaError(*name) parameters;
    DYN_CUDA_DRIVER(DRIVER)
#undef DRIVER
} DynCuda;

/* A device as launches need it: asked once. */
typedef struct DynCudaInfo {
    DynCudaDevice device;
    DynCudaContext *context; /* The primary one, which frameworks use. */
    int capability;          /* 10 * major + minor: 90 for sm_90. */
    int processors;          /* Streaming multiprocessors. */
    int shared;              /* Bytes of shared memory that a block may ask for. */
} DynCudaInfo;

DYN_HIDDEN extern DynCuda dyn_cuda; /* valid behind dyn_cuda_find */
/* Is there a driver that dynoc can use (CUDA 12 or newer)? Looked for once, with the GIL. */
DYN_HIDDEN bool dyn_cuda_find(void);
DYN_HIDDEN int dyn_cuda_version(void); /* of the driver: 13000 for 13.0; behind dyn_cuda_find */
/* Device i, counted as frameworks count it; NULL: it can't be used. Any thread. */
DYN_HIDDEN const DynCudaInfo *dyn_cuda_info(int i);
/* The device's own context, which another one may have taken the place of, until `leave`; *before: what `leave` takes. */
DYN_HIDDEN DynCudaError dyn_cuda_enter(const DynCudaInfo *info, DynCudaContext **before);
DYN_HIDDEN void dyn_cuda_leave(const DynCudaInfo *info, DynCudaContext *before);
DYN_HIDDEN void dyn_cuda_say(DynCudaError error, DynStr *out); /* "CUDA_ERROR_…: sentence" */
/* As frameworks report it: an exception that says what dynoc was doing, in PyUnicode_FromFormat's words. */
DYN_HIDDEN void dyn_cuda_raise(DynCudaError error, const char *doing, ...);

/* The driver as `python -m dynoc doctor` shows it. */
typedef struct DynCudaLook {
    DynStr problem;       /* Why it can't be used, in the linker's words or its own; empty: nothing is known against it. */
    bool missing;         /* There is none. */
    DynCudaError error;   /* Of its start. */
    int version, devices; /* 0: it didn't start. */
    char name[256];       /* Of the first device. */
} DynCudaLook;
/* Looks anew, without a context on a device. `out` is zeroed; its text is the caller's. With the GIL. */
DYN_HIDDEN void dyn_cuda_look(DynCudaLook *out);

/* Tests, where no device is: a library with the driver's and NVRTC's names that runs kernels on this machine's processor, and
 * tensors in its memory count as those of device 0. NULL ends it. -1: it can't be opened. */
DYN_HIDDEN extern bool dyn_cuda_stands_in;
DYN_HIDDEN int dyn_cuda_stand_in(const char *path);
DYN_HIDDEN void *dyn_cuda_stand_in_library(void); /* as dlopen gave it; NULL: none */
#endif
