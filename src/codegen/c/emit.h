/* emit.h: what the files that write a kernel's functions share. Called from emit_object.c by way of loops.h; includes loops/
 * alone. */
#ifndef DYN_EMIT_H
#define DYN_EMIT_H
#include "codegen/loops/loops.h"

/* Loops of a known count are unrolled before vectors are made, and choices become branches that nobody foresees, unless they are
 * asked to be vectors. */
#define SIMD "#pragma omp simd\n"
#define COUNTED 255 /* groups whose truths lanes of bytes can count */

static inline const DynInsn *at(const DynKernel *k, uint32_t i) { return &k->insns.at[i]; }

/* What becomes of the values that a group of lanes reduces: they are combined with accumulators; but for those that are only
 * added up, which go to lanes of bytes; but for those that have NumPy's order, which are kept. */
typedef enum DynGroupKind { DYN_GROUP_COMBINES, DYN_GROUP_COUNTS, DYN_GROUP_VALUES } DynGroupKind;

/* "x0[j] = value;": a name for each reduction by its number, which lane, and how; all: what could be taken from memory too. */
typedef struct DynKept {
    const char *name, *at, *how;
    bool all;
} DynKept;

/* emit_c.c: of a function, its head with arguments and numbers in locals, the steps of operands that walk ("long row_step0 =
 * row_step[0];": stores through other pointers can't change those), a pointer (rows: what follows is added in bytes), the values
 * that are the same for all lanes, a group of lanes, one lane (of a kernel without strips), and "x op y" of accumulators. */
DYN_HIDDEN void dyn_emit_head(DynStr *out, const DynKernel *k, DynNativeForm form);
DYN_HIDDEN void dyn_emit_steps(DynStr *out, const DynKernel *k, const char *array);
DYN_HIDDEN void dyn_emit_pointer(DynStr *out, const DynKernel *k, uint32_t i, bool rows);
DYN_HIDDEN int dyn_emit_invariants(DynStr *out, const DynKernel *k, const char *indent);
DYN_HIDDEN int dyn_emit_group(DynStr *out, const DynKernel *k, const char *indent, DynGroupKind kind);
DYN_HIDDEN int dyn_emit_lane(DynStr *out, const DynKernel *k, const char *indent, const char *index, const DynKept *kept);
DYN_HIDDEN int dyn_emit_combine(DynStr *out, const DynInsn *insn, const char *x, const char *y);
DYN_HIDDEN bool dyn_emit_has_strips(const DynKernel *k);
DYN_HIDDEN bool dyn_emit_is_added_up(const DynKernel *k, uint32_t i);

typedef struct Accumulator {
    const DynInsn *insn;
    const char *type, *held; /* in memory, and here: a rank */
} Accumulator;
/* emit_reduce.c: its accumulators, how many; their types, what they hold before anything was added (e<n>), lanes of that (x<n>),
 * and a result. Then the functions of lanes that are results. */
DYN_HIDDEN int dyn_emit_accumulators(const DynKernel *k, Accumulator *acc);
DYN_HIDDEN void dyn_emit_empty(DynStr *out, const Accumulator *acc, int n);
DYN_HIDDEN void dyn_emit_identity(DynStr *out, const char *indent, const Accumulator *acc, int n);
DYN_HIDDEN void dyn_emit_result(DynStr *out, const char *indent, const Accumulator *acc, const char *x);
DYN_HIDDEN int dyn_emit_columns(DynStr *out, const DynKernel *k);
DYN_HIDDEN int dyn_emit_short_axis(DynStr *out, const DynKernel *k);
DYN_HIDDEN int dyn_emit_block(DynStr *out, const DynKernel *k);

/* emit_rows.c: lanes that belong to one result: those behind the whole groups, accumulators to one, and the function. */
DYN_HIDDEN int dyn_emit_rest(DynStr *out, const DynKernel *k, const Accumulator *acc, int n);
DYN_HIDDEN int dyn_emit_tree(DynStr *out, const Accumulator *acc, int i);
DYN_HIDDEN int dyn_emit_row_function(DynStr *out, const DynKernel *k, int64_t length);
/* emit_ordered.c: the same in NumPy's order. */
DYN_HIDDEN int dyn_emit_ordered_rows(DynStr *out, const DynKernel *k, int64_t length);
#endif
