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

bool dyn_region_calls_out(DynRegionOp op) {
    const DynRegionOpInfo *info = &dyn_region_ops[op];
    bool own = op == DYN_RO_CALLI || op == DYN_RO_CALLD || op == DYN_RO_CALLN || op == DYN_RO_ROUTINE || op == DYN_RO_UFUNC1;
    bool written = !info->flow; /* as C, in the table */
    return own || (written && (strstr(info->c_fails, "W[W_") != NULL || strstr(info->c_value, "W[W_") != NULL));
}

/* In front of a call, which may clear them: the processor's flags, where the region asks about them. */
static void emit_question(const DynRegion *r, const DynRegionInstr *in, DynStr *out) {
    if (r->asks_flags && dyn_region_calls_out((DynRegionOp)in->op)) {
        dyn_str_puts(out, "  rg_spoilt |= rg_trouble();\n");
    }
}

/* One instruction of region_ops.def, its operands under the names that the table gives them. */
static void emit_step(const DynRegion *r, const DynRegionInstr *in, DynStr *out) {
    const DynRegionOpInfo *op = &dyn_region_ops[in->op];
    emit_question(r, in, out);
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
        bool stays = in->exit == DYN_NONE;
        dyn_str_printf(out, "if (__builtin_expect((%s) != 0, 0)) goto %c%u; ", op->c_fails, stays ? 'b' : 'x',
                       stays ? in->to[0] : in->exit);
    }
    if (op->result != 'N') {
        dyn_str_printf(out, "r%u = %s; ", in->dst, op->c_value);
    } else if (strcmp(op->c_value, "0") != 0) {
        dyn_str_printf(out, "(void)%s; ", op->c_value);
    }
    dyn_str_puts(out, "}\n");
}

/* A call by the function's address, with its own type; the arguments lie in F. */
static void emit_call(const DynRegion *r, const DynRegionInstr *in, DynStr *out) {
    uint32_t signature = (uint32_t)in->imm.i;
    char result = dyn_region_ops[in->op].result;
    emit_question(r, in, out);
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

static const char *member_of(char type) { return type == 'D' ? "f" : "i"; }

/* What a routine gives directly: its first result. The others lie in A->results. */
static char returned(const DynRegionRoutine *f) { return f->nresults > 0 ? f->results[0] : 'I'; }

/* With what lies in F, and for its results there. */
static void emit_routine_call(const DynRegion *r, const DynRegionInstr *in, DynStr *out) {
    const DynRegionRoutine *f = &r->routines.at[in->imm.i];
    dyn_str_printf(out, "  F[0].%s = %sf%lld(A, left - 1", member_of(returned(f)), returned(f) == 'P' ? "(I)" : "",
                   (long long)in->imm.i);
    for (uint32_t i = 0; i < f->nparams; i++) {
        char type = r->regs.at[f->params[i]];
        dyn_str_printf(out, ", (%s)F[%u].%s", c_type(type), i, member_of(type));
    }
    dyn_str_printf(out, "); if (__builtin_expect(A->gave_up != 0, 0)) goto x%u;\n", in->exit);
    for (uint32_t i = 1; i < f->nresults; i++) {
        dyn_str_printf(out, "  F[%u] = A->results[%u];\n", i, i);
    }
}

static void emit_return(const DynRegionRoutine *f, DynStr *out) {
    for (uint32_t i = 1; i < f->nresults; i++) {
        dyn_str_printf(out, "  A->results[%u] = F[%u];\n", i, i);
    }
    dyn_str_printf(out, f->nresults > 0 ? "  return (%s)F[0].%s;\n" : "  return 0;\n", c_type(returned(f)),
                   member_of(returned(f)));
}

/* of: the routine that it is in, or NULL. */
static void emit_instr(const DynRegion *r, const DynRegionRoutine *of, const DynRegionInstr *in, DynStr *out) {
    if (r->forced && dyn_region_ops[in->op].fails && in->op != DYN_RO_LEAVE && in->exit != DYN_NONE) {
        dyn_str_printf(out, "  if (A->force == %u && (*A->after)-- == 0) goto x%u;\n", in->exit, in->exit);
    }
    switch (in->op) {
    case DYN_RO_CALM:
        emit_step(r, in, out);
        if (r->forced) {
            dyn_str_printf(out, "  r%u = r%u && A->force < 0;\n", in->dst, in->dst);
        }
        break;
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
    case DYN_RO_CALLN: emit_call(r, in, out); break;
    case DYN_RO_ROUTINE: emit_routine_call(r, in, out); break;
    case DYN_RO_RETURN: emit_return(of, out); break;
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

/* The registers that are used where `used` says so; NULL: all of them. */
static void emit_registers(const DynRegion *r, const uint8_t *used, DynStr *out) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->regs.n; i++) {
        if (used == NULL || used[i]) {
            dyn_str_printf(out, "%s%s r%u;%s", n % 8 == 0 ? "  " : " ", c_type(r->regs.at[i]), i, n % 8 == 7 ? "\n" : "");
            n++;
        }
    }
    dyn_str_putc(out, '\n');
}

void dyn_region_reach(const DynRegion *r, uint32_t block, uint8_t *seen) {
    uint32_t to[2], n;
    while (!seen[block]) {
        seen[block] = 1;
        for (uint32_t k = 0; k < r->blocks.at[block].v.n; k++) {
            uint32_t other = dyn_region_else(&r->blocks.at[block].v.at[k]);
            if (other != DYN_NONE) {
                dyn_region_reach(r, other, seen);
            }
        }
        n = dyn_region_ways(&r->blocks.at[block], to);
        if (n == 2) {
            dyn_region_reach(r, to[1], seen);
        }
        block = n > 0 ? to[0] : block;
    }
}

/* The block ends with the eval breaker's question between a comparison and its branch: an exit that shows what was found would
 * have it computed once more, as a number, in each trip. So it is asked behind the branch, where that is known. */
static bool polls_late(const DynRegionBlock *b) {
    const DynRegionInstr *end = b->v.n < 2 ? NULL : &b->v.at[b->v.n - 1];
    const DynRegionInstr *in =
        end == NULL || end->op != DYN_RO_BR || end[-1].op != DYN_RO_POLL ? NULL : dyn_region_condition(b, end->arg[0]);
    int64_t low, high;
    return in != NULL && dyn_region_bounds(in->op, &low, &high) && low == 0 && high == 1;
}

static void emit_late_poll(const DynRegion *r, const DynRegionRoutine *of, const DynRegionInstr *end, DynStr *out) {
    for (int w = 0; w < 2; w++) {
        if (w == 0) {
            dyn_str_printf(out, "  if (r%u)", end->arg[0]);
        }
        dyn_str_printf(out, "  { r%u = %d;\n", end->arg[0], w == 0);
        emit_instr(r, of, end - 1, out);
        dyn_str_printf(out, "  goto b%u; }\n", end->to[w]);
    }
}

static void emit_blocks(const DynRegion *r, const DynRegionRoutine *of, const uint8_t *seen, DynStr *out) {
    for (uint32_t i = 0; i < r->blocks.n; i++) {
        if (seen != NULL && !seen[i]) {
            continue;
        }
        const DynRegionBlock *b = &r->blocks.at[i];
        bool late = polls_late(b);
        dyn_str_printf(out, "b%u:;\n", i);
        for (uint32_t k = 0; k < b->v.n - (late ? 2 : 0); k++) {
            emit_instr(r, of, &b->v.at[k], out);
        }
        if (late) {
            emit_late_poll(r, of, &b->v.at[b->v.n - 1], out);
        }
    }
}

/* ---- routines */

static void emit_head(const DynRegion *r, uint32_t which, bool named, DynStr *out) {
    const DynRegionRoutine *f = &r->routines.at[which];
    dyn_str_printf(out, "static %s f%u(A_ *A, I left", c_type(returned(f)), which);
    for (uint32_t i = 0; i < f->nparams; i++) {
        dyn_str_printf(out, ", %s", c_type(r->regs.at[f->params[i]]));
        if (named) {
            dyn_str_printf(out, " p%u", i);
        }
    }
    dyn_str_puts(out, named ? ") {\n" : ");\n");
}

static void mark_used(const DynRegion *r, const DynRegionRoutine *f, const uint8_t *seen, uint8_t *used) {
    for (uint32_t i = 0; i < f->nparams; i++) {
        used[f->params[i]] = 1;
    }
    for (uint32_t i = 0; i < r->blocks.n; i++) {
        for (uint32_t k = 0; seen[i] && k < r->blocks.at[i].v.n; k++) {
            const DynRegionInstr *in = &r->blocks.at[i].v.at[k];
            const DynRegionOpInfo *op = &dyn_region_ops[in->op];
            for (int a = 0; a < 3 && op->args[a] != 'N'; a++) {
                used[in->arg[a]] = 1;
            }
            if (op->result != 'N') {
                used[in->dst] = 1;
            }
        }
    }
}

/* What comes in beside the slots is read where the region's entry has put it. */
static void emit_extras(const DynRegion *r, const uint8_t *used, DynStr *out) {
    const DynRegionValues *values = &r->entries.at[0].values;
    for (uint32_t i = 0; i < r->nextra; i++) {
        const DynRegionValue *v = &values->at[values->n - 1 - i];
        bool any = false;
        for (uint32_t k = 0; k < v->nregs; k++) {
            any = any || used[v->regs[k]];
        }
        if (any) {
            DynRegionValue of = *v;
            for (uint32_t k = 0; k < v->nregs; k++) {
                of.regs[0] = v->regs[k];
                of.nregs = 1;
                if (used[v->regs[k]]) {
                    emit_pass(r, &of, true, out);
                }
            }
            dyn_str_putc(out, '\n');
        }
    }
}

/* What each function has beside registers. Where the breaker is stays in one of its own: stores in arrays may be anywhere, as far
 * as a compiler can tell, so it would be read anew in each trip. */
static void emit_locals(DynStr *out) {
    dyn_str_printf(out, "  V_ *V = A->values, F[%u];\n  const volatile unsigned char *const breaker = A->breaker;\n",
                   DYN_ROUTINE_VALUES);
}

static void emit_routine(const DynRegion *r, uint32_t which, uint8_t *seen, uint8_t *used, DynStr *out) {
    const DynRegionRoutine *f = &r->routines.at[which];
    memset(seen, 0, r->blocks.n);
    memset(used, 0, r->regs.n);
    dyn_region_reach(r, f->block, seen);
    mark_used(r, f, seen, used);
    emit_head(r, which, true, out);
    emit_locals(out);
    emit_registers(r, used, out);
    dyn_str_printf(
        out,
        "  if (__builtin_expect(BREAKER, 0)) { A->gave_up = %d; return 0; }\n"
        "  if (__builtin_expect(left < 0 || (I)__builtin_frame_address(0) < A->floor, 0)) { A->gave_up = %d; return 0; }\n",
        DYN_GAVE_UP_FOR_BREAKER, DYN_GAVE_UP_FOR_DEPTH);
    emit_extras(r, used, out);
    for (uint32_t i = 0; i < f->nparams; i++) {
        dyn_str_printf(out, "  r%u = p%u;\n", f->params[i], i);
    }
    dyn_str_printf(out, "  goto b%u;\n", f->block);
    emit_blocks(r, f, seen, out);
    for (uint32_t i = 0; i < r->exits.n; i++) {
        if (r->exits.at[i].gives_up) {
            dyn_str_printf(out, "x%u: if (A->gave_up == 0) A->gave_up = %d; return 0;\n", i, DYN_GAVE_UP);
        }
    }
    dyn_str_puts(out, "  (void)V; (void)left;\n}\n");
}

/* All of them, before the region's own function; `seen` gets its blocks. */
static void emit_routines(const DynRegion *r, uint8_t *seen, DynStr *out) {
    for (uint32_t i = 0; i < r->routines.n; i++) {
        emit_head(r, i, false, out);
    }
    for (uint32_t i = 0; i < r->routines.n; i++) {
        emit_routine(r, i, seen, seen + r->blocks.n, out);
    }
    memset(seen, 0, r->blocks.n);
    for (uint32_t i = 0; i < r->entries.n; i++) {
        dyn_region_reach(r, r->entries.at[i].block, seen);
    }
}

/* ---- all of it */

static void emit_options(const DynRegion *r, DynStr *out) {
    uint32_t n = 0;
    bool arrays = false;
    for (uint32_t i = 0; i < r->blocks.n; i++) {
        n += r->blocks.at[i].v.n;
        for (uint32_t k = 0; k < r->blocks.at[i].v.n; k++) {
            arrays = arrays || r->blocks.at[i].v.at[k].op == DYN_RO_SCRATCH;
        }
    }
    n -= r->in_front;          /* those take a compiler no time */
    if (n > DYN_REGION_LONG) { /* what takes long to compile is compiled with less effort, but loops over elements as ever */
        bool vectors = arrays || n <= DYN_REGION_VERY_LONG;
        dyn_str_printf(out, "#pragma GCC optimize (\"O%d\"%s)\n", n > DYN_REGION_VERY_LONG ? 1 : 2,
                       vectors ? ", \"tree-vectorize\", \"vect-cost-model=dynamic\"" : "");
    }
}

static void emit_entries(const DynRegion *r, DynStr *out) {
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
}

static void emit_exits(const DynRegion *r, DynStr *out) {
    for (uint32_t i = 0; i < r->exits.n; i++) {
        if (!r->exits.at[i].gives_up) {
            dyn_str_printf(out, "x%u:", i);
            for (uint32_t k = 0; k < r->exits.at[i].values.n; k++) {
                emit_pass(r, &r->exits.at[i].values.at[k], false, out);
            }
            dyn_str_printf(out, " return %u;\n", i);
        }
    }
}

void dyn_region_source(const DynRegion *r, DynStr *out) {
    uint8_t *seen = r->routines.n == 0 ? NULL : PyMem_RawMalloc(r->blocks.n + r->regs.n);
    if (r->routines.n > 0 && seen == NULL) {
        out->failed = true;
        return;
    }
    emit_options(r, out);
    dyn_str_puts(out, dyn_region_math);
    dyn_str_printf(out,
                   "typedef union { I i; D f; } V_;\n"
                   "typedef struct { V_ *values; const volatile unsigned char *breaker; const P *world; I block; I force; I "
                   "*after; I left; I "
                   "floor; I gave_up; V_ *results; } A_;\n"
                   "#define BREAKER (*breaker != 0)\n"
                   "#define W (A->world)\n"
                   "__attribute__((visibility(\"default\"))) const struct { I abi, count; } %s = {%d, 0};\n",
                   DYN_NATIVE_SYMBOL, DYN_NATIVE_ABI);
    if (seen != NULL) {
        emit_routines(r, seen, out);
    }
    dyn_str_printf(out, "__attribute__((visibility(\"default\"))) I %s(A_ *A) {\n", DYN_REGION_SYMBOL);
    emit_locals(out);
    if (seen != NULL) {
        dyn_str_puts(out, "  const I left = A->left;\n");
    }
    emit_registers(r, NULL, out);
    dyn_str_puts(out, r->asks_flags ? "  rg_begin();\n" : "");
    emit_entries(r, out);
    emit_blocks(r, NULL, seen, out);
    emit_exits(r, out);
    dyn_str_puts(out, "}\n");
    PyMem_RawFree(seen);
}
