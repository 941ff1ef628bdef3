/* target.h: CUDA as a target (codegen/target.h), its tasks and its loaded kernels. Read by this room alone. */
#ifndef DYN_CUDA_TARGET_H
#define DYN_CUDA_TARGET_H
#include "codegen/build/build.h"
#include "codegen/cuda/cuda.h"
#include "codegen/run/call.h"
#include "codegen/target.h"

/* A kernel bound to memory, as a line of threads walks it: what the struct of cuda.h is filled from. */
typedef struct DynCudaLine {
    const DynLoops *p;
    DynBound b;            /* Its axes in the order in which they are walked. */
    int kept, reduced;     /* How many there are of each. */
    DynCudaSpeed speed;    /* Of the fastest function that takes it. */
    int lanes;             /* V of the function. */
    int spread;            /* Of ANY_MAP: SPREAD, as cuda.h has it; else 0. */
    int each;              /* Groups along the last axis that a visit has. */
    int64_t count, groups; /* As cuda.h has them. */
    uint32_t splits, rowed;
    char *parts, *done; /* As cuda.h has them. */
} DynCudaLine;

/* What a group of kernels, all bound, launches. */
typedef struct DynCudaRows {
    DynCudaForm form;
    int64_t rows, longest; /* longest: groups of V that a row has at the most */
    int each;              /* groups of V of a row that a thread is to have */
    uint64_t held;         /* a bit for each of its rows, in the order of places, that threads hold in registers */
} DynCudaRows;

#define DYN_CUDA_BUSY 8      /* blocks for each processor, from which on a reduction needn't be split */
#define DYN_CUDA_EACH_LANE 4 /* groups that a lane has to do at the least before a result is split further */

/* forms.c: a line or a group that is bound is arranged and counted, and told its function. */
DYN_HIDDEN DynCudaForm dyn_cuda_form_of_map(DynCudaLine *l);
DYN_HIDDEN DynCudaForm dyn_cuda_form_of_reduction(const DynCudaInfo *info, DynCudaLine *l,
                                                  int *threads); /* … for each result, and `splits` */
/* All of the kernels go at the speed of the slowest; and where threads can hold rows that are short enough, they do. */
DYN_HIDDEN void dyn_cuda_form_of_group(uint32_t step, DynCudaLine *lines, int n, DynCudaRows *r);
DYN_HIDDEN int64_t dyn_cuda_along(const DynCudaLine *l);                    /* groups along the last axis */
DYN_HIDDEN int64_t dyn_cuda_product(const DynCudaLine *l, int from, int n); /* sizes of n axes, of the last one in visits */
DYN_HIDDEN int64_t dyn_cuda_between(int64_t low, int64_t n, int64_t high);  /* the nearest to n */
DYN_HIDDEN int64_t dyn_cuda_blocks(int64_t n, int64_t each);                /* so many have room for n */
DYN_HIDDEN int dyn_cuda_power_of_2(int64_t n, int most);                    /* the least that isn't less than n */

/* arrange.c */
DYN_HIDDEN void dyn_cuda_arrange_map(DynCudaLine *l);
/* Of an elementwise kernel whose operands lie across each other, one strip beside what whole patches cover goes to a line of its
 * own; false: there is none. */
DYN_HIDDEN bool dyn_cuda_cut_strip(DynCudaLine *l, DynCudaLine *strip);
DYN_HIDDEN bool dyn_cuda_arrange_reduction(DynCudaLine *l); /* true: by columns, kept axes last; else kept ones first */
DYN_HIDDEN void dyn_cuda_arrange_row(DynCudaLine *l);       /* of a group's kernel: rows first, in their own order */

/* target.c: so many bytes on the call's device, which the tensor *holder holds. NULL: there are none; *holder may be set. */
DYN_HIDDEN char *dyn_cuda_memory(const DynCall *c, int64_t bytes, PyObject **holder);

/* streams.c: what a stream has for its launches. */
typedef struct DynCudaStream {
    const DynCudaInfo *info;
    void *stream;
    char *counts; /* of blocks that are done, launch.c's; NULL: none yet */
    int64_t next; /* the first that no launch has had in this round */
    char *work;   /* memory to work in, for products */
    int64_t work_bytes;
    PyObject *counts_holder, *work_holder; /* owned */
} DynCudaStream;
/* NULL: launches in it have their own, as it is being captured, stands for several, or there are too many. */
DYN_HIDDEN DynCudaStream *dyn_cuda_stream(const DynCudaInfo *info, void *stream);
/* Memory to work in for one launch. NULL: there is none; *holder: a tensor that has it, or NULL. */
DYN_HIDDEN char *dyn_cuda_workspace(const DynCall *c, void *stream, int64_t bytes, PyObject **holder);

/* nvrtc.c: a kernel of a loaded object, with the GIL; NULL: it isn't in it. */
DYN_HIDDEN DynCudaKernel *dyn_cuda_kernel(const DynLoaded *l, int number, DynCudaForm form);
/* Another function of a loaded object; NULL: it isn't in it. */
DYN_HIDDEN DynCudaKernel *dyn_cuda_function(const DynLoaded *l, const char *name);
DYN_HIDDEN extern const DynToolchain dyn_toolchain_cuda;                       /* nvrtc.c */
DYN_HIDDEN bool dyn_cuda_takes(const DynCall *c);                              /* launch.c */
DYN_HIDDEN extern const DynTaskKind dyn_cuda_task_kernel, dyn_cuda_task_group; /* launch.c */
DYN_HIDDEN extern const DynTaskKind dyn_cuda_task_product;                     /* products.c */
/* descent.c, for the target: steps of one device. */
DYN_HIDDEN bool dyn_cuda_can_descend(const struct DynDescent *steps, int64_t n, bool fused);
DYN_HIDDEN int dyn_cuda_descend(const struct DynDescent *steps, int64_t n, bool fused);
#endif
