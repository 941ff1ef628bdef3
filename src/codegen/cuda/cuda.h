/* cuda.h: what the files of this room share: how a kernel's functions are called.
 *
 * A kernel of the loop IR is one or more functions, `k<number>_<form>`, each of which takes one struct of 8-byte words by value:
 *
 *     count       groups of V elements along the last axis; of a reduction results (in COLUMNS groups of V results)
 *     groups      of a reduction: groups of V elements that one result is made of (in COLUMNS elements)
 *                 of a map: elements along the last axis
 *     axes        half a word: how many axes are kept and how many reduced (8 bits each); SPREAD
 *     splits      half a word, of a reduction: how many blocks share one result, which then goes to `parts`
 *     parts       memory for an accumulator of each split and result (dyn_cuda_part_size)
 *     done        how many of the blocks that share results are done, for each such set of them; 0 before and behind
 *     along       groups along the last axis. Where there are several axes, a thread that has found its place has every
 *                 size-th of them, and `count` or `groups` are such visits
 *     size[R]     sizes of axes, in groups of the last one, or in visits
 *     magic[R]    what divides by them (launch.c: magic_of)
 *     at[N]       where each operand's first element lies; of one in the memory of a row how far from its beginning
 *     step[N][R]  bytes from one position of each axis to the next
 *     scalar[P]   numbers by value; behind them, of each operand that is looked up, how many elements the axis has along which
 *                 that is done, and the bytes from one to the next
 *
 * R, N and P are the kernel's own: axes (dyn_cuda_rank), operands and numbers. Axes are at the end of size: in ROWS kept ones in
 * front of reduced ones, in COLUMNS behind them. Each form is there for each speed: GROUPED for one axis of either kind, along
 * the last of which operands lie side by side in aligned groups of V elements, or stand still; PACKED for the same along the last
 * of several axes; SINGLE for one axis of either kind where groups aren't aligned or don't come out even, with a V of 1; and ANY
 * for whatever else there is, where V is 1. In ANY_MAP elements may lie anywhere: a group has V elements that lie 2^SPREAD
 * positions apart, so that neighbouring threads touch neighbours. In maps the last group may have fewer elements than V.
 * emit_cuda.c writes the functions, launch.c fills the struct.
 *
 * A reduction of everything has its tails' structs (dyn_loops_tails_end) behind its own, and the thread with the result does
 * them.
 *
 * A group of kernels that run row by row is one function, of its first kernel. Its struct is rows, bytes, memory (of one row, and
 * where that is if not in shared memory), and then each kernel's struct, in which a row is a result. Where a row is short enough
 * for its threads' registers HELD_GROUP and its slower ones have there what kernels store for others of the group; the row's
 * memory is for the rest.
 */
#ifndef DYN_CODEGEN_CUDA_H
#define DYN_CODEGEN_CUDA_H
#include "base/cuda.h"
#include "codegen/loops/loops.h"

#define DYN_CUDA_THREADS 256        /* of a block of an elementwise kernel, and of a reduction … */
#define DYN_CUDA_GROUP_THREADS 1024 /* … and of a group at the most */
#define DYN_CUDA_HELD_THREADS 512   /* of a group whose threads hold rows in registers: */
#define DYN_CUDA_MOST_HELD 8        /* so many groups of V elements of each row at the most, … */
#define DYN_CUDA_HELD_NUMBERS 32    /* … which are so many numbers, twice as many where rows are too long */
#define DYN_CUDA_MOST_ROWS 64       /* of a group that are held, or laid anew; of more, all lie where the plan has them */
#define DYN_CUDA_HEAD 6             /* words in front of size */
#define DYN_CUDA_GROUP_HEAD 3       /* words of a group in front of its kernels' */
#define DYN_CUDA_MOST_WORDS 500     /* of what a function is handed: 4 KB */
#define DYN_CUDA_ANY_LANES 4        /* V of ANY_MAP */
#define DYN_CUDA_SPREAD 16          /* from that bit on of `axes` it is SPREAD */

/* How operands lie along what a function's threads walk, as two bits: there is one axis of either kind (SINGLE), and groups are
 * aligned or stand still (PACKED). ANY: no matter how. */
typedef enum DynCudaSpeed { DYN_CUDA_ANY, DYN_CUDA_SINGLE, DYN_CUDA_PACKED, DYN_CUDA_GROUPED } DynCudaSpeed;

/* FORM(NAME, name, speed): the functions that a kernel may have: elementwise; of a reduction with a warp's lanes along what is
 * reduced, or along results, and what makes one result of what blocks have left; of a group, which its first kernel has. Of one
 * kind the slower ones stand behind the faster. */
#define DYN_CUDA_FORMS(FORM)                             \
    FORM(MAP, "map", GROUPED)                            \
    FORM(PACKED_MAP, "packed_map", PACKED)               \
    FORM(SINGLE_MAP, "single_map", SINGLE)               \
    FORM(ANY_MAP, "any_map", ANY)                        \
    FORM(ROWS, "rows", GROUPED)                          \
    FORM(PACKED_ROWS, "packed_rows", PACKED)             \
    FORM(SINGLE_ROWS, "single_rows", SINGLE)             \
    FORM(ANY_ROWS, "any_rows", ANY)                      \
    FORM(COLUMNS, "columns", GROUPED)                    \
    FORM(PACKED_COLUMNS, "packed_columns", PACKED)       \
    FORM(SINGLE_COLUMNS, "single_columns", SINGLE)       \
    FORM(ANY_COLUMNS, "any_columns", ANY)                \
    FORM(GROUP, "group", GROUPED)                        \
    FORM(PACKED_GROUP, "packed_group", PACKED)           \
    FORM(SINGLE_GROUP, "single_group", SINGLE)           \
    FORM(ANY_GROUP, "any_group", ANY)                    \
    FORM(HELD_GROUP, "held_group", GROUPED)              \
    FORM(PACKED_HELD_GROUP, "packed_held_group", PACKED) \
    FORM(SINGLE_HELD_GROUP, "single_held_group", SINGLE)
typedef enum DynCudaForm {
#define FORM(NAME, name, speed) DYN_CUDA_##NAME,
    DYN_CUDA_FORMS(FORM)
#undef FORM
        DYN_CUDA_FORM_COUNT
} DynCudaForm;
DYN_HIDDEN extern const char *const dyn_cuda_form_names[DYN_CUDA_FORM_COUNT];

/* emit_cuda.c */
DYN_HIDDEN extern const char dyn_cuda_prologue[]; /* what stands in front of every text */
DYN_HIDDEN extern const char dyn_cuda_complex[];  /* … and behind that, where there are complex numbers */
DYN_HIDDEN int dyn_cuda_emit(const DynLoops *p, DynStr *source, DynReason *why, DynStr *error);
/* Of each kernel the functions that bits of `forms` say, by its number (of a group, its first); NULL: all. */
DYN_HIDDEN int dyn_cuda_emit_forms(const DynLoops *p, const DynCudaInfo *info, const uint32_t *forms, DynStr *out);
DYN_HIDDEN int dyn_cuda_emit_step(const DynLoops *p, uint32_t step, uint32_t forms,
                                  DynStr *out); /* of the kernels that begin there */
/* alike.c: the step behind a kernel that runs alone, with its tails, or behind a group. */
DYN_HIDDEN uint32_t dyn_cuda_step_end(const DynLoops *p, uint32_t step);
/* Kernels whose text is that of others before get their numbers. 0, or -1: no memory, or an expression can't be written. */
DYN_HIDDEN int dyn_cuda_number_alike(const DynLoops *p);
/* emit_values.c: the type of a value, instruction i, for lane j of its group (`result` counts reductions), and of a reduction
 * what combines two values and what it begins with. -1: an expression can't be written. */
DYN_HIDDEN const char *dyn_cuda_type(DynDtype dt);
DYN_HIDDEN int dyn_cuda_put_insn(DynStr *out, const DynLoops *p, const DynKernel *k, uint32_t i, int *result);
DYN_HIDDEN const char *dyn_cuda_memory_type(DynDtype dt); /* as it lies in memory */
DYN_HIDDEN int dyn_cuda_put_join(DynStr *out, const DynInsn *insn, const char *a, const char *b);
DYN_HIDDEN void dyn_cuda_put_identity(DynStr *out, const DynInsn *insn);
DYN_HIDDEN int dyn_cuda_emit_part(const DynLoops *p, bool first, int64_t whole,
                                  DynStr *source);                    /* forms.c, for codegen/target.h */
DYN_HIDDEN int dyn_cuda_lanes(const DynLoops *p, const DynKernel *k); /* V */
DYN_HIDDEN uint32_t dyn_cuda_inner(const DynKernel *k);               /* the axes that groups lie along, but in COLUMNS */
/* Does an operand have an element for each position along the axes that `among` has bits of? */
DYN_HIDDEN bool dyn_cuda_walks(const DynLoops *p, const DynKernel *k, uint32_t operand, uint32_t among);
DYN_HIDDEN int dyn_cuda_rank(const DynKernel *k);  /* R: its axes, and two more for the patches of an elementwise kernel */
DYN_HIDDEN int dyn_cuda_words(const DynKernel *k); /* of the struct */
DYN_HIDDEN int dyn_cuda_results(const DynKernel *k, const DynInsn **results); /* its reductions, at most DYN_MAX_RESULTS */
DYN_HIDDEN int dyn_cuda_part_size(const DynKernel *k);                        /* bytes of each of their accumulators */
DYN_HIDDEN int dyn_cuda_group_words(const DynLoops *p, uint32_t step);        /* of its struct, which has its kernels' */
/* Is it one element for the whole of a group's row, which is read in front of the row's loop? */
DYN_HIDDEN bool dyn_cuda_stands_in_row(const DynLoops *p, const DynKernel *k, uint32_t operand);
/* quotients.c: does instruction i divide by such an element? What is computed of it, q<operand>, in front of the loop (nothing
 * where nothing is divided by it), and in the loop all such quotients, d<i>, in front of the instructions. -1: can't be written.
 */
DYN_HIDDEN bool dyn_cuda_divides_by_row(const DynLoops *p, const DynKernel *k, uint32_t i);
DYN_HIDDEN void dyn_cuda_put_divisor(DynStr *out, const DynLoops *p, const DynKernel *k, uint32_t operand);
DYN_HIDDEN int dyn_cuda_put_quotients(DynStr *out, const DynLoops *p, const DynKernel *k);
/* What a thread holds in registers of the rows of a group. */
typedef struct DynCudaHeld {
    int groups; /* of V elements of each row, by the sizes seen first; 0: none, for there are no such rows or they are too long */
    int singles;   /* … or elements, where V is 1 */
    uint64_t rows; /* a bit for each of the group's rows, in the order of places */
    bool small;    /* the others have one element each, which one thread writes: they fit into the memory of a block */
} DynCudaHeld;
/* held.c: is the place one of the group's rows? Which of them, or -1: none that may be held. Does the operand lie in one that is?
 */
DYN_HIDDEN bool dyn_cuda_is_row(const DynLoops *p, uint32_t group, uint32_t place);
DYN_HIDDEN int dyn_cuda_row_number(const DynLoops *p, uint32_t group, uint32_t place);
DYN_HIDDEN bool dyn_cuda_holds(const DynLoops *p, const DynKernel *k, uint32_t operand);
DYN_HIDDEN DynCudaHeld dyn_cuda_held(const DynLoops *p, uint32_t first); /* of the group whose first step is given */
#endif
