/* quotients.c: in the rows of a group, quotients by what stands in the row, whose reciprocal is computed once.
 *
 * Called by emit_cuda.c, which writes the loop over a row. A group's quotients are computed together in front of its other
 * instructions (dyn_quotients in prologue.def says why they are right): first what they divide, which the compiler finds again
 * behind it. Owns nothing. */
#include "codegen/cuda/cuda.h"

static const DynInsn *at(const DynKernel *k, uint32_t i) { return &k->insns.at[i]; }

/* The operand that a quotient divides by as it was loaded, or DYN_NONE. Differences are divided as anywhere: they have no zeros
 * to speak of, and the registers that it takes are worth more to a layer norm. */
static uint32_t loaded_divisor(const DynKernel *k, const DynInsn *insn) {
    if (insn->kind != DYN_L_OP || insn->op != DYN_OP_DIVIDE) {
        return DYN_NONE;
    }
    const DynInsn *divided = at(k, insn->a[0]), *by = at(k, insn->a[1]);
    DynDtype dt = dyn_emit_compute(insn);
    bool is_difference = divided->kind == DYN_L_OP && divided->op == DYN_OP_SUBTRACT;
    bool is_float = dyn_dtypes[dt].kind == 'f' && !dyn_dtype_is_half(dt);
    bool loaded = by->kind == DYN_L_LOAD && (DynDtype)by->dtype == dt;
    return is_float && loaded && !is_difference ? by->a[0] : DYN_NONE;
}

/* The operand that instruction i divides by and that stands in the row, or DYN_NONE. */
static uint32_t row_divisor(const DynLoops *p, const DynKernel *k, uint32_t i) {
    uint32_t operand = loaded_divisor(k, at(k, i));
    return operand != DYN_NONE && dyn_cuda_stands_in_row(p, k, operand) ? operand : DYN_NONE;
}

bool dyn_cuda_divides_by_row(const DynLoops *p, const DynKernel *k, uint32_t i) { return row_divisor(p, k, i) != DYN_NONE; }

void dyn_cuda_put_divisor(DynStr *out, const DynLoops *p, const DynKernel *k, uint32_t operand) {
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (row_divisor(p, k, i) == operand) {
            dyn_str_printf(out, "    const Divisor<%s> q%u(c%u[0]);\n", dyn_cuda_type((DynDtype)k->operands.at[operand].dtype),
                           operand, operand);
            return;
        }
    }
}

/* All that comes before what is divided is written: the compiler leaves out what nobody uses. */
static int put_quotient(DynStr *out, const DynLoops *p, const DynKernel *k, uint32_t i) {
    const char *type = dyn_cuda_type(dyn_emit_compute(at(k, i)));
    uint32_t divided = at(k, i)->a[0];
    int failed = 0;
    dyn_str_printf(out,
                   "        Lanes<V, %s> d%u; if (BY_ROW) { Lanes<V, %s> n;\n"
                   "        _Pragma(\"unroll\") for (int j = 0; j < V; j++) {\n",
                   type, i, type);
    for (uint32_t n = 0; n <= divided; n++) {
        if (at(k, n)->kind != DYN_L_STORE && at(k, n)->kind != DYN_L_REDUCE) {
            failed |= dyn_cuda_put_insn(out, p, k, n, NULL);
        }
    }
    dyn_str_printf(out, "            n.at[j] = v%u;\n        }\n        dyn_quotients<V>(d%u, n, q%u); }\n", divided, i,
                   row_divisor(p, k, i));
    return failed;
}

int dyn_cuda_put_quotients(DynStr *out, const DynLoops *p, const DynKernel *k) {
    int failed = 0, n = 0;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (dyn_cuda_divides_by_row(p, k, i)) {
            dyn_str_puts(out, n++ == 0 ? "        const bool BY_ROW = FAST && (!HELD || HELD * V >= 16);\n" : "");
            failed |= put_quotient(out, p, k, i);
        }
    }
    return failed;
}
