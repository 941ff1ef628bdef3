/* target.h: CUDA as a target (codegen/target.h), its tasks and its loaded kernels. Read by this room alone. */
#ifndef DYN_CUDA_TARGET_H
#define DYN_CUDA_TARGET_H
#include "codegen/build/build.h"
#include "codegen/cuda/cuda.h"
#include "codegen/run/call.h"
#include "codegen/target.h"

/* A loaded object: freed as one piece. */
typedef struct DynCudaModule {
    DynCudaLibrary *library;
    DynNativeTable *table;   /* As many kernels as it has, without functions. */
    DynCudaKernel **kernels; /* By number and form; NULL: it hasn't that form. */
} DynCudaModule;
DYN_HIDDEN DynCudaKernel *dyn_cuda_kernel(const DynLoaded *l, int number, DynCudaForm form); /* nvrtc.c */
DYN_HIDDEN extern const DynToolchain dyn_toolchain_cuda;                                     /* nvrtc.c */
DYN_HIDDEN extern const DynTaskKind dyn_cuda_task_kernel;                                    /* launch.c */
#endif
