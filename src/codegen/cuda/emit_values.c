/* emit_values.c: what a kernel computes for one element, as CUDA C++: its instructions in order, j being the lane.
 *
 * Called by emit_cuda.c, which writes what stands around them. Expressions are those of the C that codegen/c writes, from
 * ops.def; conversions and roundings are PyTorch's. */
#include "codegen/cuda/cuda.h"

static const DynInsn *at(const DynKernel *k, uint32_t i) { return &k->insns.at[i]; }

static const char *complex_type(DynDtype dt) { return dt == DYN_C64 ? "Complex<float>" : "Complex<double>"; }

const char *dyn_cuda_type(DynDtype dt) {
    return dt == DYN_BOOL ? "bool" : dyn_dtype_is_complex(dt) ? complex_type(dt) : dyn_emit_type(dt);
}

const char *dyn_cuda_memory_type(DynDtype dt) { return dyn_dtype_is_complex(dt) ? complex_type(dt) : dyn_emit_memory_type(dt); }

/* As PyTorch's kernels convert: floats to narrow integers by way of a wide one. */
static void put_cast(DynStr *out, DynDtype to, DynDtype from, const char *value) {
    if (to == DYN_BOOL) {
        dyn_str_printf(out, "%s != 0", value);
    } else if (dyn_dtype_is_complex(from) && !dyn_dtype_is_complex(to)) {
        char part[32];
        snprintf(part, sizeof(part), "%s.re", value);
        put_cast(out, to, dyn_dtype_real(from), part);
    } else if (dyn_dtype_is_half(to)) {
        dyn_str_printf(out, to == DYN_F16 ? "dyn_half((float)%s)" : "dyn_bf16((float)%s)", value);
    } else if (dyn_dtypes[from].kind == 'f' && dyn_dtype_is_integer(to) && dyn_dtypes[to].size < 4) {
        dyn_str_printf(out, "(%s)(long)%s", dyn_cuda_type(to), value);
    } else {
        dyn_str_printf(out, "(%s)%s", dyn_cuda_type(to), value);
    }
}

/* Operators that a device has functions of its own for, as templates of prologue.def. */
static const char *const of_floats[DYN_OP_COUNT] = {
    [DYN_OP_MAX] = "dyn_most_{s}({0}, {1})",
    [DYN_OP_MAXIMUM] = "dyn_most_{s}({0}, {1})",
    [DYN_OP_MIN] = "dyn_least_{s}({0}, {1})",
    [DYN_OP_MINIMUM] = "dyn_least_{s}({0}, {1})",
};

static const char *expression_of(const DynInsn *insn, DynDtype compute) {
    if (dyn_dtype_is_complex(compute) || insn->op == DYN_OP_COMPLEX) {
        return dyn_complex_ops[insn->op].on_device;
    }
    const char *own = dyn_dtypes[compute].kind == 'f' ? of_floats[insn->op] : NULL;
    return own != NULL ? own : dyn_ops[insn->op].c;
}

/* The functions of prologue.def are templates. */
static int put_operator(DynStr *out, const DynInsn *insn, const char *const *args) {
    DynDtype compute = dyn_emit_compute(insn);
    const char *type = dyn_cuda_type(compute), *c = expression_of(insn, compute);
    char template[32];
    snprintf(template, sizeof(template), "t<%s>", type);
    return dyn_emit_op_as(out, c, compute, type, template, args);
}

/* A quotient that has been computed with its row's others, or what the operator's row says. */
static int put_value(DynStr *out, const DynLoops *p, const DynKernel *k, uint32_t i, const char *const *args) {
    if (!dyn_cuda_divides_by_row(p, k, i)) {
        return put_operator(out, at(k, i), args);
    }
    dyn_str_printf(out, "BY_ROW ? d%u.at[j] : %s / %s", i, args[0], args[1]);
    return 0;
}

static int put_expression(DynStr *out, const DynLoops *p, const DynKernel *k, uint32_t i) {
    const DynInsn *insn = at(k, i);
    char names[3][24];
    const char *args[3] = {NULL, NULL, NULL};
    for (int a = 0; a < insn->nargs; a++) {
        snprintf(names[a], sizeof(names[a]), "v%u", insn->a[a]);
        args[a] = names[a];
    }
    if (insn->kind == DYN_L_CAST) {
        put_cast(out, (DynDtype)insn->dtype, (DynDtype)at(k, insn->a[0])->dtype, args[0]);
        return 0;
    }
    bool rounds = dyn_emit_rounds(insn);
    if (rounds) {
        dyn_str_puts(out, insn->dtype == DYN_F16 ? "dyn_half(" : "dyn_bf16(");
    }
    int failed = put_value(out, p, k, i, args);
    dyn_str_puts(out, rounds ? ")" : "");
    return failed;
}

/* An element in memory as the value that kernels compute with. */
static void put_loaded(DynStr *out, DynDtype dt, uint32_t operand) {
    if (dyn_dtype_is_half(dt)) {
        dyn_str_printf(out, dt == DYN_F16 ? "dyn_half_load(x%u[j])" : "dyn_bf16_load(x%u[j])", operand);
    } else {
        dyn_str_printf(out, dt == DYN_BOOL ? "x%u[j] != 0" : "x%u[j]", operand);
    }
}

static void put_stored(DynStr *out, DynDtype dt, uint32_t operand, uint32_t value) {
    const char *store = "";
    if (dyn_dtype_is_half(dt)) {
        store = dt == DYN_F16 ? "dyn_half_store" : "dyn_bf16_store";
    }
    dyn_str_printf(out, "            y%u[j] = %s(v%u);\n", operand, store, value);
}

/* Of a reduction: its values combined, "(a, b) → expression". */
int dyn_cuda_put_join(DynStr *out, const DynInsn *insn, const char *a, const char *b) {
    const char *args[3] = {a, b, NULL};
    dyn_str_printf(out, "(%s)(", dyn_cuda_type((DynDtype)insn->compute));
    int failed = put_operator(out, insn, args);
    dyn_str_puts(out, ")");
    return failed;
}

/* What a reduction begins with. */
void dyn_cuda_put_identity(DynStr *out, const DynInsn *insn) {
    DynDtype dt = (DynDtype)insn->compute;
    bool max = insn->op == DYN_OP_MAX, is_float = dyn_dtypes[dt].kind == 'f', is_signed = dyn_dtypes[dt].kind == 'i';
    const char *type = dyn_cuda_type(dt);
    int bits = dyn_dtypes[dt].size * 8 - 1;
    if (insn->op != DYN_OP_MAX && insn->op != DYN_OP_MIN) {
        dyn_str_printf(out, "(%s)%d", type, insn->op == DYN_OP_PROD || insn->op == DYN_OP_ALL);
    } else if (is_float) {
        dyn_str_printf(out, "(%s)%sDYN_INF", type, max ? "-" : "");
    } else if (is_signed) {
        dyn_str_printf(out, "(%s)%s(~0ul << %d)", type, max ? "" : "~", bits);
    } else {
        dyn_str_printf(out, "(%s)%s", type, max ? "0" : "~0ul");
    }
}

/* ---- instructions */

static bool is_sine(const DynInsn *insn) {
    bool of_angle = insn->kind == DYN_L_OP && (insn->op == DYN_OP_SIN || insn->op == DYN_OP_COS);
    return of_angle && dyn_emit_compute(insn) == (DynDtype)insn->dtype && dyn_dtypes[insn->dtype].kind == 'f';
}

/* Of a sine the cosine of the same number, or the other way round: one function gives both, for little more than one takes. k's
 * length: there is none. */
static uint32_t other_of(const DynKernel *k, uint32_t i) {
    const DynInsn *insn = at(k, i);
    uint32_t other = is_sine(insn) ? 0 : k->insns.n;
    for (; other < k->insns.n; other++) {
        const DynInsn *o = at(k, other);
        if (is_sine(o) && o->op != insn->op && o->a[0] == insn->a[0] && o->dtype == insn->dtype) {
            return other;
        }
    }
    return other;
}

static void put_both(DynStr *out, const DynInsn *insn, uint32_t i, uint32_t other) {
    bool sine = insn->op == DYN_OP_SIN;
    uint32_t s = sine ? i : other, c = sine ? other : i;
    dyn_str_printf(out, "            %s v%u, v%u; sincos%s(v%u, &v%u, &v%u);\n", dyn_cuda_type((DynDtype)insn->dtype), s, c,
                   insn->dtype == DYN_F64 ? "" : "f", insn->a[0], s, c);
}

int dyn_cuda_put_insn(DynStr *out, const DynLoops *p, const DynKernel *k, uint32_t i, int *result) {
    const DynInsn *insn = at(k, i);
    int failed = 0;
    char a[32], b[32];
    uint32_t other = other_of(k, i);
    if (other < k->insns.n) {
        if (i < other) {
            put_both(out, insn, i, other);
        }
        return 0;
    }
    switch ((DynInsnKind)insn->kind) {
    case DYN_L_STORE: put_stored(out, (DynDtype)k->operands.at[insn->a[0]].dtype, insn->a[0], insn->a[1]); return 0;
    case DYN_L_REDUCE:
        snprintf(a, sizeof(a), "r%d[j]", *result);
        snprintf(b, sizeof(b), "v%u", insn->a[1]);
        dyn_str_printf(out, "            r%d[j] = ", (*result)++);
        dyn_str_puts(out, k->group != DYN_NONE ? "!here ? " : "");
        dyn_str_puts(out, k->group != DYN_NONE ? a : "");
        dyn_str_puts(out, k->group != DYN_NONE ? " : " : "");
        failed = dyn_cuda_put_join(out, insn, a, b);
        dyn_str_puts(out, ";\n");
        return failed;
    default: break;
    }
    dyn_str_printf(out, "            const %s v%u = ", dyn_cuda_type((DynDtype)insn->dtype), i);
    if (insn->kind == DYN_L_LOAD) {
        put_loaded(out, (DynDtype)insn->dtype, insn->a[0]);
    } else if (insn->kind == DYN_L_SCALAR) {
        dyn_str_printf(out, "s%u", insn->a[0]);
    } else {
        failed = put_expression(out, p, k, i);
    }
    dyn_str_puts(out, ";\n");
    return failed;
}
