/* emit.c: region IR → C. One function: registers are its locals, blocks its labels, and each exit a label behind them that writes
 * what the exit shows into args->values and returns the exit's number. Instructions are the text of region_ops.def. Called by
 * run.c, mostly in the build thread: the GIL isn't held, and nothing of CPython's is called.
 */
#include "codegen/region/region_code.h"
#include "ir/region_foreign.h"

static const char *c_type(char type) {
    switch (type) {
    case 'I': return "I";
    case 'D': return "D";
    case 'S': return "S";
    default: return "P";
    }
}

static void emit_integer(int64_t i, DynStr *out) {
    if (i == INT64_MIN) {
        dyn_str_puts(out, "(-9223372036854775807L - 1)");
    } else {
        dyn_str_printf(out, "%lldL", (long long)i);
    }
}

/* One instruction of region_ops.def, its operands under the names that the table gives them. */
static void emit_step(const DynRegion *r, const DynRegionInstr *in, DynStr *out) {
    const DynRegionOpInfo *op = &dyn_region_ops[in->op];
    dyn_str_puts(out, "  { ");
    for (int k = 0; k < 3 && op->args[k] != 'N'; k++) {
        dyn_str_printf(out, "const %s %c = r%u; ", c_type(op->args[k]), 'a' + k, in->arg[k]);
    }
    if (dyn_region_has_imm(in->op)) {
        dyn_str_printf(out, "const I imm = %lld; ", (long long)in->imm.i);
    }
    if (op->result != 'N') {
        dyn_str_printf(out, "%s d; ", c_type(op->result));
    }
    if (op->fails) {
        dyn_str_printf(out, "if (__builtin_expect((%s) != 0, 0)) goto x%u; ", op->c_fails, in->exit);
    }
    if (op->result != 'N') {
        dyn_str_printf(out, "r%u = %s; ", in->dst, op->c_value);
    } else if (strcmp(op->c_value, "0") != 0) {
        dyn_str_printf(out, "(void)%s; ", op->c_value);
    }
    dyn_str_puts(out, "}\n");
    (void)r;
}

/* A call by the function's address, with its own type; the arguments lie in F. */
static void emit_call(const DynRegionInstr *in, DynStr *out) {
    uint32_t signature = (uint32_t)in->imm.i;
    char result = dyn_region_ops[in->op].result;
    dyn_str_puts(out, "  ");
    if (result != 'N') {
        dyn_str_printf(out, "r%u = (%s)", in->dst, c_type(result));
    }
    dyn_str_puts(out, "((");
    dyn_foreign_declare(signature, out);
    dyn_str_printf(out, ")r%u)(", in->arg[0]);
    for (uint32_t i = 0; i < dyn_foreign_nargs(signature); i++) {
        const DynForeignTypeInfo *type = &dyn_foreign_types[dyn_foreign_arg(signature, i)];
        dyn_str_printf(out, "%s(%s)F[%u].%c", i > 0 ? ", " : "", type->c_type, i, type->by == 'D' ? 'f' : 'i');
    }
    dyn_str_puts(out, ");\n");
}

static void emit_instr(const DynRegion *r, const DynRegionInstr *in, DynStr *out) {
    if (r->forced && dyn_region_ops[in->op].fails && in->op != DYN_RO_LEAVE) {
        dyn_str_printf(out, "  if (A->force == %u && (*A->after)-- == 0) goto x%u;\n", in->exit, in->exit);
    }
    switch (in->op) {
    case DYN_RO_ICONST:
        dyn_str_printf(out, "  r%u = ", in->dst);
        emit_integer(in->imm.i, out);
        dyn_str_puts(out, ";\n");
        break;
    case DYN_RO_DCONST:
        dyn_str_printf(out, "  r%u = ", in->dst);
        dyn_str_puthex(out, in->imm.f);
        dyn_str_puts(out, ";\n");
        break;
    case DYN_RO_IMOV:
    case DYN_RO_DMOV:
    case DYN_RO_SMOV:
    case DYN_RO_PMOV: dyn_str_printf(out, "  r%u = r%u;\n", in->dst, in->arg[0]); break;
    case DYN_RO_JMP: dyn_str_printf(out, "  goto b%u;\n", in->to[0]); break;
    case DYN_RO_BR: dyn_str_printf(out, "  if (r%u) goto b%u; else goto b%u;\n", in->arg[0], in->to[0], in->to[1]); break;
    case DYN_RO_LEAVE: dyn_str_printf(out, "  goto x%u;\n", in->exit); break;
    case DYN_RO_CALLI:
    case DYN_RO_CALLD:
    case DYN_RO_CALLN: emit_call(in, out); break;
    default: emit_step(r, in, out);
    }
}

/* Between args->values and a register. */
static void emit_pass(const DynRegion *r, const DynRegionValue *v, bool in, DynStr *out) {
    for (uint32_t i = 0; i < v->nregs; i++) {
        uint32_t reg = v->regs[i];
        char type = r->regs.at[reg], member = type == 'D' || type == 'S' ? 'f' : 'i';
        if (in) {
            dyn_str_printf(out, " r%u = (%s)V[%u].%c;", reg, c_type(type), reg, member);
        } else {
            dyn_str_printf(out, " V[%u].%c = (%s)r%u;", reg, member, member == 'f' ? "D" : "I", reg);
        }
    }
}

static void emit_registers(const DynRegion *r, DynStr *out) {
    for (uint32_t i = 0; i < r->regs.n; i++) {
        dyn_str_printf(out, "%s%s r%u;%s", i % 8 == 0 ? "  " : " ", c_type(r->regs.at[i]), i, i % 8 == 7 ? "\n" : "");
    }
    dyn_str_putc(out, '\n');
}

void dyn_region_source(const DynRegion *r, DynStr *out) {
    uint32_t n = 0;
    bool arrays = false;
    for (uint32_t i = 0; i < r->blocks.n; i++) {
        n += r->blocks.at[i].v.n;
        for (uint32_t k = 0; k < r->blocks.at[i].v.n; k++) {
            arrays = arrays || r->blocks.at[i].v.at[k].op == DYN_RO_SCRATCH;
        }
    }
    if (n > DYN_REGION_LONG) { /* what takes long to compile is compiled with less effort, but loops over elements as ever */
        dyn_str_printf(out, "#pragma GCC optimize (\"O%d\"%s)\n", n > DYN_REGION_VERY_LONG ? 1 : 2,
                       arrays ? ", \"tree-vectorize\", \"vect-cost-model=dynamic\"" : "");
    }
    dyn_str_puts(out, dyn_region_math);
    dyn_str_printf(
        out,
        "typedef union { I i; D f; } V_;\n"
        "typedef struct { V_ *values; const volatile unsigned char *breaker; const P *world; I block; I force; I *after; } A_;\n"
        "#define BREAKER (*A->breaker != 0)\n"
        "#define W (A->world)\n"
        "__attribute__((visibility(\"default\"))) const struct { I abi, count; } %s = {%d, 0};\n"
        "__attribute__((visibility(\"default\"))) I %s(const A_ *A) {\n  V_ *V = A->values, F[%u];\n",
        DYN_NATIVE_SYMBOL, DYN_NATIVE_ABI, DYN_REGION_SYMBOL, DYN_FOREIGN_ARGS);
    emit_registers(r, out);
    dyn_str_puts(out, "  switch (A->block) {\n");
    for (uint32_t i = 0; i < r->entries.n; i++) {
        const DynRegionEntry *e = &r->entries.at[i];
        dyn_str_printf(out, "  case %u:", e->block);
        for (uint32_t k = 0; k < e->values.n; k++) {
            emit_pass(r, &e->values.at[k], true, out);
        }
        dyn_str_printf(out, " goto b%u;\n", e->block);
    }
    dyn_str_puts(out, "  default: __builtin_unreachable();\n  }\n");
    for (uint32_t i = 0; i < r->blocks.n; i++) {
        dyn_str_printf(out, "b%u:;\n", i);
        for (uint32_t k = 0; k < r->blocks.at[i].v.n; k++) {
            emit_instr(r, &r->blocks.at[i].v.at[k], out);
        }
    }
    for (uint32_t i = 0; i < r->exits.n; i++) {
        dyn_str_printf(out, "x%u:", i);
        for (uint32_t k = 0; k < r->exits.at[i].values.n; k++) {
            emit_pass(r, &r->exits.at[i].values.at[k], false, out);
        }
        dyn_str_printf(out, " return %u;\n", i);
    }
    dyn_str_puts(out, "}\n");
}
