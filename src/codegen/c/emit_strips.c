/* emit_strips.c: which instructions a function of strips does better than a loop of which gcc makes vectors: products and shifts
 * of bytes, for which it goes by wider integers and back (a dozen instructions, by hand half of them), and comparisons of floats
 * that become bytes of truth. The functions are rows of ops_c.def, and give the bits of the expressions in ops.def.
 *
 * Called by emit_c.c, which has the loops between them; lanes of a strip are arrays there. Owns nothing. */
#include "codegen/loops/loops.h"

#define STRIP_LANES 64 /* kernels of so many lanes have bytes in memory */

static bool is_value(const DynInsn *insn) { return insn->kind == DYN_L_OP || insn->kind == DYN_L_CAST; }

static bool is_byte(uint8_t dtype) { return dtype == DYN_I8 || dtype == DYN_U8; }

/* Truth that only bytes are made of, or that goes to memory. Of what chooses among wider elements a mask is better. */
static bool stays_bytes(const DynKernel *k, uint32_t value) {
    bool bytes = true;
    for (uint32_t i = value + 1; i < k->insns.n && bytes; i++) {
        const DynInsn *insn = &k->insns.at[i];
        for (int a = 0; is_value(insn) && a < insn->nargs; a++) {
            uint8_t dtype = insn->kind == DYN_L_CAST ? insn->dtype : insn->compute;
            bytes = bytes && (insn->a[a] != value || dyn_dtypes[dtype].size == 1);
        }
    }
    return bytes;
}

static const char *comparison(uint16_t op) {
    switch (op) {
    case DYN_OP_GREATER: return "gt";
    case DYN_OP_GREATER_EQUAL: return "ge";
    case DYN_OP_LESS: return "lt";
    case DYN_OP_LESS_EQUAL: return "le";
    case DYN_OP_EQUAL: return "eq";
    case DYN_OP_NOT_EQUAL: return "ne";
    default: return NULL;
    }
}

static bool is_number(const DynKernel *k, const DynInsn *insn) {
    return insn->kind == DYN_L_SCALAR || (insn->kind == DYN_L_LOAD && k->operands.at[insn->a[0]].scalar);
}

bool dyn_emit_strip(const DynKernel *k, uint32_t i, DynStrip *strip) {
    const DynInsn *insn = &k->insns.at[i];
    *strip = (DynStrip){.nargs = 2};
    if (k->lanes != STRIP_LANES || k->reduced || insn->kind != DYN_L_OP) {
        return false;
    }
    const char *name = dyn_dtypes[insn->compute].name, *test = comparison(insn->op);
    bool floats = insn->compute == DYN_F32 || insn->compute == DYN_F64;
    if (test != NULL && floats && stays_bytes(k, i)) {
        dyn_format(strip->name, sizeof(strip->name), "dyn_%s_%ss", test, name);
        return true;
    }
    if (!is_byte(insn->compute) || insn->dtype != insn->compute) {
        return false;
    }
    switch (insn->op) {
    case DYN_OP_SQUARE: strip->nargs = 1; /* fall through */
    case DYN_OP_MULTIPLY: dyn_format(strip->name, sizeof(strip->name), "dyn_mul_bytes"); return true;
    case DYN_OP_LEFT_SHIFT:
    case DYN_OP_RIGHT_SHIFT:
        strip->by_number = true;
        dyn_format(strip->name, sizeof(strip->name), "dyn_%cshift_%ss", insn->op == DYN_OP_LEFT_SHIFT ? 'l' : 'r', name);
        return is_number(k, &k->insns.at[insn->a[1]]);
    default: return false;
    }
}

/* Lanes that one operand has: memory as it lies, where the kernel doesn't write it; the values' array; or a number in
 * each of them, in w<value>_<operand>. */
static void put_lanes_of(DynStr *out, const DynKernel *k, uint32_t i, int arg, const char *from) {
    const DynInsn *insn = &k->insns.at[i], *value = &k->insns.at[insn->a[arg]];
    if (is_number(k, value)) {
        dyn_str_printf(out, "w%u_%d", i, arg);
    } else if (value->dtype == insn->compute && dyn_emit_can_reread(k, value)) {
        dyn_str_printf(out, "a%u + %s", value->a[0], from);
    } else {
        dyn_str_printf(out, "v%u", insn->a[arg]);
    }
}

void dyn_emit_strip_call(DynStr *out, const DynKernel *k, uint32_t i, const DynStrip *strip, const char *indent,
                         const char *from) {
    const DynInsn *insn = &k->insns.at[i];
    for (int a = 0; a < strip->nargs; a++) {
        if (is_number(k, &k->insns.at[insn->a[a]]) && !(strip->by_number && a == 1)) {
            dyn_str_printf(out, "%s%s w%u_%d[%d];\n#pragma omp simd\n%sfor (int j = 0; j < %d; j++) w%u_%d[j] = v%u;\n", indent,
                           dyn_emit_type((DynDtype)insn->compute), i, a, STRIP_LANES, indent, STRIP_LANES, i, a, insn->a[a]);
        }
    }
    dyn_str_printf(out, "%s%s(v%u, ", indent, strip->name, i);
    put_lanes_of(out, k, i, 0, from);
    dyn_str_puts(out, ", ");
    if (strip->by_number) {
        dyn_str_printf(out, "v%u", insn->a[1]);
    } else {
        put_lanes_of(out, k, i, strip->nargs - 1, from);
    }
    dyn_str_printf(out, ", %d);\n", STRIP_LANES);
}

/* Is it read as it stands, from memory that the kernel doesn't write? */
bool dyn_emit_can_reread(const DynKernel *k, const DynInsn *insn) {
    if (insn->kind != DYN_L_LOAD || k->in_place || k->operands.at[insn->a[0]].indirect) {
        return false;
    }
    return insn->dtype != DYN_BOOL && !dyn_dtype_is_half((DynDtype)insn->dtype);
}

/* ---- halves */

/* Does a function of strips round it? (bfloat16 needs none: compilers make vectors of its rounding.) */
bool dyn_emit_strip_rounds(const DynKernel *k, const DynInsn *insn) {
    uint8_t from = insn->kind == DYN_L_CAST ? k->insns.at[insn->a[0]].dtype : DYN_NO_DTYPE;
    bool casts = insn->kind == DYN_L_CAST && from != DYN_F64 && from != DYN_BOOL; /* doubles are rounded by a way of their own */
    return insn->dtype == DYN_F16 && (casts || dyn_emit_rounds(insn));
}

int dyn_emit_unrounded(DynStr *out, const DynInsn *insn, const char *const *args) {
    if (insn->kind == DYN_L_CAST) {
        dyn_str_printf(out, "(float)%s", args[0]);
        return 0;
    }
    return dyn_emit_op(out, insn, args);
}
