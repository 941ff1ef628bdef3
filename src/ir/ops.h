/* ops.h: the operator table's columns. ops.def has the rows. */
#ifndef DYN_OPS_H
#define DYN_OPS_H
#include "base/base.h"

typedef enum DynOp {
#define OP(name, text, arity, kind, dtype, shape, guard, c, deriv, fpe, flags) DYN_OP_##name,
#include "ir/ops.def"
#undef OP
    DYN_OP_COUNT
} DynOp;

/* What kind of operator, and what its operands and numbers are. */
typedef enum DynOpKind {
    DYN_K_INPUT,       /* an array that comes in; source */
    DYN_K_ELEMENTWISE, /* args broadcast together; computed in `compute`, result in `dtype` */
    DYN_K_REDUCE,      /* args[0]; aux: [keepdims, axis0, axis1, …] (axes sorted, not negative); `compute` is the accumulator */
    DYN_K_VIEW,        /* args[0] and the row's own args and aux, see each row in ops.def; shares storage */
    DYN_K_CREATE,      /* a fresh array: FULL: args[0] is the fill value (symbol) or NONE for uninitialised */
    DYN_K_COPY,        /* args[0] copied (dtype may change: astype), same shape, layout as recorded */
    DYN_K_STORE,       /* args[0] dst, args[1] value (node, or of STORE a symbol) */
    DYN_K_EXTERN,      /* args as in the DynExtern row; result a fresh array */
    DYN_K_RESULT,      /* args[0]: the EXTERN node whose call gives this array too */
    DYN_K_SCAN,        /* args[0], of dtype `compute`; aux: [axis, or -1: all elements in C order; keepdims] */
    DYN_K_GATHER       /* args[0] looked up in at places args[1], see the row */
} DynOpKind;
typedef enum DynOpDtype { /* how result dtype and compute dtype follow from the operands (with NEP 50 weak numbers) */
                          DYN_DT_NONE,    /* not computed: recorded */
                          DYN_DT_SAME,    /* result = compute = promoted operands */
                          DYN_DT_FLOAT,   /* ints go to f64 (bool and small ints as NumPy); result = compute */
                          DYN_DT_COMPARE, /* compute = promoted operands, result = BOOL */
                          DYN_DT_LOGICAL, /* operands to BOOL, result BOOL */
                          DYN_DT_WHERE,   /* args[0] to BOOL, the others promoted */
                          DYN_DT_SUM,     /* small ints to i64/u64; floats stay */
                          DYN_DT_BOOL     /* compute = operand, result BOOL (isnan) */
} DynOpDtype;
typedef enum DynOpShape { DYN_SH_NONE, DYN_SH_BROADCAST, DYN_SH_REDUCE, DYN_SH_VIEW } DynOpShape;
typedef enum DynOpGuard { DYN_G_NONE, DYN_G_WEAK_RANGE, DYN_G_POWER, DYN_G_NONEMPTY, DYN_G_SHIFT } DynOpGuard;
#define DYN_OPF_COMMUTES 1u
#define DYN_OPF_VECTOR_CALL 2u /* the C expression calls a vector math function: not bit-equal to eager */
#define DYN_OPF_MAY_LEAVE 4u
#define DYN_OPF_EXPENSIVE 8u
#define DYN_OPF_REAL 16u       /* of complex operands the result is real */
#define DYN_OPF_OURS 32u       /* NumPy has no such function: src/dynoc/_reference.py has */
#define DYN_OPF_SCALAR 64u     /* arithmetic of NumPy's integer scalars, which report overflow */
#define DYN_OPF_PRODUCT 128u   /* a call that a back end may make as a product of its own, in other last bits */
#define DYN_OPF_SAME_BITS 256u /* a call that a back end may make itself, to the same bits */

typedef struct DynOpInfo {
    const char *name; /* "ADD" */
    const char *text; /* "add": NumPy's name of the ufunc or function */
    int8_t arity;     /* operands; -1: any */
    uint8_t kind, dtype, shape, guard;
    const char *c; /* C expression over {0} {1} {2} (operands, already in `compute`), {T} the compute type, {f} a suffix: "f" for
                    * float and "" for double, {U} the type that {T} wraps in, {s} its short name: see the head of ops.def; for
                    * reductions: the combining expression of {0} and {1} */
    const char *deriv; /* derivative with respect to each operand, in operators of this table; NULL: not differentiable */
    const char *fpe;   /* which floating-point errors it can raise: "d" divide, "i" invalid, "o" overflow, "u" underflow */
    uint32_t flags;
} DynOpInfo;
extern DYN_HIDDEN const DynOpInfo dyn_ops[DYN_OP_COUNT];
/* What a row of ops.def is for complex operands: rows of ops_complex.def. c is NULL where NumPy has no such operator, on_device
 * where kernels on a device haven't it. */
typedef struct DynComplexOp {
    const char *c, *on_device, *fpe;
} DynComplexOp;
extern DYN_HIDDEN const DynComplexOp dyn_complex_ops[DYN_OP_COUNT];
DYN_HIDDEN int dyn_op_parse(const char *text); /* row by text, or -1 */
/* Can a graph have it, computing in or giving that dtype (ops.c has dtypes as bytes), whose arrays lie on a device? What can't
 * stays a call. */
DYN_HIDDEN bool dyn_op_on_device(DynOp op, uint8_t dtype);

/* The NumPy function that an elementwise row stands for, and which of its results: -1 where it gives one. */
DYN_HIDDEN const char *dyn_op_function(DynOp op, int *result);

/* Functions that C expressions call: rows of ops_c.def, ended by a row without a name. needs: names of further rows, by blanks.
 */
typedef struct DynOpHelper {
    const char *name, *needs, *text;
} DynOpHelper;
extern DYN_HIDDEN const DynOpHelper dyn_op_helpers[];
DYN_HIDDEN const DynOpHelper *dyn_op_helper(const char *name, size_t length); /* or NULL */
#endif
