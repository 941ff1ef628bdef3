/* cuda.h: what the files of this room share: how a kernel's functions are called, and the target.
 *
 * A kernel of the loop IR is one or more functions, `k<number>_<form>`, each of which takes one struct of 8-byte words by value:
 *
 *     count     groups of V elements along the last axis, or results of a reduction
 *     groups    of a reduction: those that one result is made of
 *     inner     elements along the last axis, of which the last group may have fewer
 *     axes      half a word: how many axes are walked for the result, and behind them how many are reduced (8 bits each); WIDE
 *     aligned   half a word: bit i says that operand i has its groups side by side, at addresses that V elements are aligned at
 *     splits    of a reduction: how many blocks share one result, which then goes to `parts`
 *     parts     memory for those: an accumulator for each split and result
 *     size[R], magic[R]   sizes of axes, outermost first, and what divides by them (DynDivide)
 *     at[N]     where each operand's first element lies
 *     step[N][R]          bytes from one position of each axis to the next
 *     scalar[P] numbers by value
 *
 * R, N and P are the kernel's own: rank (at least 1), operands and numbers. emit_cuda.c writes the functions, launch.c fills the
 * struct. */
#ifndef DYN_CODEGEN_CUDA_H
#define DYN_CODEGEN_CUDA_H
#include "base/cuda.h"
#include "codegen/loops/loops.h"

#define DYN_CUDA_THREADS 256       /* of a block of an elementwise kernel, and of a reduction */
#define DYN_CUDA_HEAD 6            /* words in front of size */
#define DYN_CUDA_MOST_WORDS 500    /* of the struct: parameters of a kernel have 4 KB */
#define DYN_CUDA_WIDE (1u << 16)   /* of `axes`: there are more than 2^31 groups, and division takes 64 bits */

/* FORM(NAME, name): the functions that a kernel may have. */
#define DYN_CUDA_FORMS(FORM)                                                                        \
    FORM(MAP, "m")     /* elementwise: V elements at a time along the last axis */                  \
    FORM(ROWS, "r")    /* reduction: a warp's lanes go along what is reduced, V elements each */    \
    FORM(COLUMNS, "c") /* reduction: a warp's lanes are results, side by side; V is 1 */            \
    FORM(FINISH, "f")  /* reduction: what the splits of each result left becomes one */
typedef enum DynCudaForm {
#define FORM(NAME, name) DYN_CUDA_##NAME,
    DYN_CUDA_FORMS(FORM)
#undef FORM
        DYN_CUDA_FORM_COUNT
} DynCudaForm;
DYN_HIDDEN extern const char *const dyn_cuda_form_names[DYN_CUDA_FORM_COUNT];

/* emit_cuda.c */
DYN_HIDDEN int dyn_cuda_emit(const DynLoops *p, DynStr *source, DynReason *why, DynStr *error);
DYN_HIDDEN int dyn_cuda_lanes(const DynKernel *k); /* V */
DYN_HIDDEN int dyn_cuda_rank(const DynKernel *k);
DYN_HIDDEN int dyn_cuda_words(const DynKernel *k); /* of the struct */
DYN_HIDDEN int dyn_cuda_results(const DynKernel *k, const DynInsn **results); /* its reductions, at most DYN_MAX_RESULTS */
DYN_HIDDEN int64_t dyn_cuda_result_size(const DynInsn *insn);                 /* bytes of an accumulator */
#endif
