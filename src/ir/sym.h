/* sym.h: Python numbers that are run-time values: sizes, Python int, float and bool arguments and what is computed from
 * them in Python (n // 2, math.sqrt(dt), x.shape[0] - 1).
 *
 * A symbol is a row in a table: an operator of sym.def over earlier rows, so the rows in order are an evaluation order. Rows are
 * hash-consed. Each row has a hint, the value seen while recording. Evaluation is exact Python arithmetic or it fails
 * (int64 overflow, division by zero, math domain): a failure at call time is a guard miss, never a wrong value. */
#ifndef DYN_SYM_H
#define DYN_SYM_H
#include "base/base.h"
#include "base/scalar.h"
#include "ir/source.h"

typedef enum DynSymType { DYN_T_INT, DYN_T_FLOAT, DYN_T_BOOL } DynSymType;
typedef enum DynSymOp {
#define SYM(name, arity, result, text) DYN_S_##name,
#include "ir/sym.def"
#undef SYM
    DYN_S_COUNT
} DynSymOp;
typedef struct DynSym {
    uint8_t op;       /* DynSymOp */
    uint8_t type;     /* DynSymType of the value */
    uint16_t index;   /* DIM, STRIDE: the axis. VAR: 0 a Python number, else 1 + DynDtype of a NumPy scalar */
    uint32_t a, b, c; /* operands: symbols; VAR, DIM, …: a is a source id; LATE: see dyn_sym_late */
    uint32_t after;   /* 0: known when the graph begins; else 1 + the EXTERN node behind which it is known */
    DynScalar value;  /* CONST: the value */
    DynScalar hint;
} DynSym;
typedef struct DynSyms {
    DYN_VEC(DynSym)
    v;
    DynIndex index; /* private */
    DYN_VEC(uint32_t)
    same; /* symbols that guards make equal: each names an equal one, itself at last; private */
    DYN_VEC(uint32_t)
    late; /* symbols that become known behind an EXTERN node, in the order of these nodes and then of rows */
} DynSyms;

DYN_HIDDEN void dyn_syms_free(DynSyms *t);
/* Constants fold; algebra keeps exact Python meaning (x + 0 is x for int, not for float). All return the row's id or DYN_NONE
 * (memory, or the operation fails on the hints, as in 1 // 0). */
DYN_HIDDEN uint32_t dyn_sym_constant(DynSyms *t, DynSymType type, DynScalar value); /* of whichever type */
DYN_HIDDEN uint32_t dyn_sym_int(DynSyms *t, int64_t value);
DYN_HIDDEN uint32_t dyn_sym_float(DynSyms *t, double value);
DYN_HIDDEN uint32_t dyn_sym_bool(DynSyms *t, bool value);
DYN_HIDDEN uint32_t dyn_sym_var(DynSyms *t, DynSymType type, uint32_t source, DynScalar hint);
DYN_HIDDEN uint32_t dyn_sym_dim(DynSyms *t, uint32_t source, int axis, int64_t hint);    /* size of an input array's axis */
DYN_HIDDEN uint32_t dyn_sym_stride(DynSyms *t, uint32_t source, int axis, int64_t hint); /* bytes between its elements */
/* The size of axis `axis` of an array that an extern call gives (a node), or, with DYN_LATE_NUMBER, a Python number that it
 * gives (axis: how many it gives before that one). Never the same as another row. */
#define DYN_LATE_SIZE 0u
#define DYN_LATE_NUMBER 1u
DYN_HIDDEN uint32_t dyn_sym_late(DynSyms *t, DynSymType type, uint32_t call, uint32_t what, uint32_t node, int axis,
                                 DynScalar hint);
/* The first of `late` that becomes known behind the node, or behind a later one: its position there. */
DYN_HIDDEN uint32_t dyn_syms_first_late(const DynSyms *t, uint32_t node);
static inline bool dyn_sym_is_late(const DynSyms *t, uint32_t id) { return t->v.at[id].after != 0; }
DYN_HIDDEN void dyn_syms_forget(DynSyms *t, uint32_t nnodes); /* nodes from nnodes on are gone, and what they give */
DYN_HIDDEN uint32_t dyn_sym_op(DynSyms *t, DynSymOp op, uint32_t a, uint32_t b, uint32_t c);
/* Two int symbols are equal at every call (a guard says so). root: one and the same symbol for all that are equal, a constant if
 * there is one among them. join: 0 or -1 (memory). */
DYN_HIDDEN int dyn_sym_join(DynSyms *t, uint32_t a, uint32_t b);
DYN_HIDDEN uint32_t dyn_sym_root(const DynSyms *t, uint32_t id);
/* The Python int, float or bool that a symbol's value is: new reference, NULL with MemoryError. */
DYN_HIDDEN PyObject *dyn_sym_object(const DynSyms *t, uint32_t id, DynScalar value);
/* Operand 0, 1 or 2 of a row. */
static inline uint32_t dyn_sym_operand(const DynSym *s, int which) {
    const uint32_t operands[3] = {s->a, s->b, s->c};
    return operands[which];
}
DYN_HIDDEN bool dyn_sym_is_const(const DynSyms *t, uint32_t id);
DYN_HIDDEN bool dyn_sym_is_one(const DynSyms *t, uint32_t id); /* a size that is always 1 */
static inline bool dyn_sym_of_axis(DynSymOp op) { return op == DYN_S_DIM || op == DYN_S_STRIDE; }
static inline bool dyn_sym_is_read(DynSymOp op) { return op == DYN_S_VAR || dyn_sym_of_axis(op); } /* from a source */
static inline const DynSym *dyn_sym_at(const DynSyms *t, uint32_t id) { return &t->v.at[id]; }
DYN_HIDDEN void dyn_sym_print(const DynSyms *t, const DynSources *s, uint32_t id, DynStr *out); /* Python expression */
DYN_HIDDEN void dyn_sym_print_value(DynSymType type, DynScalar value, DynStr *out); /* as a Python literal; needs the GIL */
/* One operator on values: 0, or -1 (*out is then undefined) when Python would raise or int64 overflows. The only place that knows
 * the arithmetic: folding, guard evaluation and the reference interpreter call it. */
DYN_HIDDEN int dyn_sym_eval(DynSymOp op, DynSymType ta, DynSymType tb, DynScalar a, DynScalar b, DynScalar c, DynScalar *out);
/* The type of what dyn_sym_eval gives; -1 when the operator doesn't take these types. b: the second operand's value (2 ** -1 is a
 * float). */
DYN_HIDDEN int dyn_sym_result(DynSymOp op, DynSymType ta, DynSymType tb, DynScalar b);
/* Row `id` (an operator or a constant) from its operands' values: as dyn_sym_eval, and -1 when the type isn't the row's. */
DYN_HIDDEN int dyn_sym_eval_row(const DynSyms *t, uint32_t id, const DynScalar *values, DynScalar *out);
typedef struct DynSymInfo {
    const char *name; /* "FLOORDIV" */
    uint8_t arity;
    char result; /* sym.def's column */
    const char *text;
} DynSymInfo;
extern DYN_HIDDEN const DynSymInfo dyn_sym_info[DYN_S_COUNT];
DYN_HIDDEN int dyn_sym_init_module(
    PyObject *module); /* adds _sym_eval and _sym_ops for tests; looks up math.hypot. -1 with an exception set */
#endif
