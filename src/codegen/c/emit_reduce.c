/* emit_reduce.c: loop IR → C: the functions of reductions whose lanes are results.
 *
 * Called by emit_c.c. The order of each is that of whoever calls the function: exec_columns.c, exec_few.c. */
#include "codegen/c/emit.h"

int dyn_emit_accumulators(const DynKernel *k, Accumulator *acc) {
    int n = 0;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (at(k, i)->kind == DYN_L_REDUCE) {
            DynDtype dt = (DynDtype)at(k, i)->compute;
            acc[n].insn = at(k, i);
            acc[n].type =
                dt == DYN_BOOL ? dyn_emit_memory_type(dt) : dyn_emit_type(dt); /* of _Bool in memory gcc makes no vectors */
            acc[n].held = dyn_emit_is_ranked(at(k, i)) ? dyn_emit_type(dyn_emit_rank_dtype(at(k, i))) : acc[n].type;
            n++;
        }
    }
    return n;
}

/* Pointers that don't move before the loop over groups, the others to where the group stands. */
static void put_group_pointers(DynStr *out, const DynKernel *k, bool scalars) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        if (o->scalar == scalars) {
            dyn_str_puts(out, scalars ? "" : "    ");
            dyn_emit_pointer(out, k, i, false);
            if (!scalars) {
                dyn_str_puts(out, o->result ? " + lane" : " + at");
            }
            dyn_str_puts(out, ";\n");
        }
    }
}

/* Accumulators as the caller has them, or from other lanes. */
static void put_start(DynStr *out, const Accumulator *acc, int n) {
    for (int i = 0; i < n; i++) {
        uint32_t op = acc[i].insn->a[0];
        const char *t = acc[i].type;
        char y[24];
        dyn_format(y, sizeof(y), "y%d[j]", i);
        dyn_str_printf(out,
                       "        const %s *y%d = start[%u] ? (const %s *)start[%u] + (start_by_lane ? lane : 0) : a%u;\n"
                       "        %s x%d[%d];\n" SIMD "        for (int j = 0; j < %d; j++) x%d[j] = ",
                       t, i, op, t, op, op, acc[i].held, i, DYN_REDUCE_LANES, DYN_REDUCE_LANES, i);
        dyn_emit_rank(out, acc[i].insn, false, y);
        dyn_str_puts(out, ";\n");
    }
}

/* Lanes of memory with the accumulator: "x0[j] = a1[j] op x0[j]". */
static int put_join(DynStr *out, const char *indent, const Accumulator *acc, int i) {
    DynStr a = {0};
    char x[24], memory[24];
    dyn_format(x, sizeof(x), "x%d[j]", i);
    dyn_format(memory, sizeof(memory), "a%u[j]", acc->insn->a[0]);
    dyn_emit_rank(&a, acc->insn, false, memory);
    dyn_str_printf(out, SIMD "%sfor (int j = 0; j < %d; j++) %s = ", indent, DYN_REDUCE_LANES, x);
    int failed = dyn_emit_combine(out, acc->insn, dyn_str_at(&a), x) | a.failed;
    dyn_str_puts(out, ";\n");
    dyn_str_free(&a);
    return failed;
}

static void put_lanes(DynStr *out, const char *indent, const Accumulator *acc, int i) {
    char x[24];
    dyn_format(x, sizeof(x), "x%d[j]", i);
    dyn_str_printf(out, SIMD "%sfor (int j = 0; j < %d; j++) a%u[j] = ", indent, DYN_REDUCE_LANES, acc->insn->a[0]);
    dyn_emit_rank(out, acc->insn, true, x);
    dyn_str_puts(out, ";\n");
}

void dyn_emit_result(DynStr *out, const char *indent, const Accumulator *acc, const char *x) {
    dyn_str_printf(out, "%s*a%u = ", indent, acc->insn->a[0]);
    dyn_emit_rank(out, acc->insn, true, x);
    dyn_str_puts(out, ";\n");
}

static int put_end(DynStr *out, const Accumulator *acc, int n) {
    int failed = 0;
    dyn_str_puts(out, "        if (combine) {\n");
    for (int i = 0; i < n; i++) {
        failed |= put_join(out, "            ", &acc[i], i);
    }
    dyn_str_puts(out, "        }\n");
    for (int i = 0; i < n; i++) {
        put_lanes(out, "        ", &acc[i], i);
    }
    return failed;
}

/* What an accumulator holds before anything was added, e0. */
void dyn_emit_empty(DynStr *out, const Accumulator *acc, int n) {
    for (int i = 0; i < n; i++) {
        char from[48];
        dyn_format(from, sizeof(from), "*(const %s *)start[%u]", acc[i].type, acc[i].insn->a[0]);
        dyn_str_printf(out, "    const %s e%d = ", acc[i].held, i);
        dyn_emit_rank(out, acc[i].insn, false, from);
        dyn_str_puts(out, ";\n");
    }
}

void dyn_emit_identity(DynStr *out, const char *indent, const Accumulator *acc, int n) {
    for (int i = 0; i < n; i++) {
        dyn_str_printf(out, SIMD "%sfor (int j = 0; j < %d; j++) x%d[j] = e%d;\n", indent, DYN_REDUCE_LANES, i, i);
    }
}

/* A group of lanes at a time, down all its rows: accumulators stay in registers. */
int dyn_emit_columns(DynStr *out, const DynKernel *k) {
    Accumulator acc[DYN_MAX_RESULTS];
    const int lanes = DYN_REDUCE_LANES, n = dyn_emit_accumulators(k, acc);
    dyn_emit_head(out, k, DYN_FORM_COLUMNS);
    dyn_emit_steps(out, k, "row_step");
    put_group_pointers(out, k, true);
    int failed = dyn_emit_invariants(out, k, "    ");
    dyn_str_puts(out, "    for (long g = 0; g < groups; g++) {\n");
    dyn_str_printf(out, "        const long lane = g * %d, at = g + 1 < groups ? lane : lane - back;\n", lanes);
    put_group_pointers(out, k, false);
    put_start(out, acc, n);
    dyn_str_printf(out, "        for (long i = 0; i < n; i += %d) {\n", lanes);
    failed |= dyn_emit_group(out, k, "            ", DYN_GROUP_COMBINES);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        if (dyn_kernel_walks(k, i)) {
            dyn_str_printf(out, "            a%u = (%s%s *)((char *)a%u + row_step%u);\n", i, o->out ? "" : "const ",
                           dyn_emit_memory_type((DynDtype)o->dtype), i, i);
        }
    }
    dyn_str_puts(out, "        }\n");
    failed |= put_end(out, acc, n);
    dyn_str_puts(out, "    }\n}\n");
    return failed;
}

/* ---- a few elements of each result, which is a lane: exec_few.c says in which order */

/* It reads elements and keeps nothing of them, and there are results to go side by side. */
bool dyn_kernel_has_short_axis(const DynKernel *k) {
    bool can = k->reduced != 0 && k->reduced != (1u << k->ndim) - 1 && k->group == DYN_NONE;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        can = can && (!k->operands.at[i].out || k->operands.at[i].result);
    }
    return can;
}

/* Pointers to one element of each lane: element `at`, group g. */
static void put_element_pointers(DynStr *out, const DynKernel *k) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (dyn_kernel_walks(k, i)) {
            const char *type = dyn_emit_memory_type((DynDtype)k->operands.at[i].dtype);
            dyn_str_printf(out,
                           "            const %s *a%u = (const %s *)(operands[%u] + at * element_step%u + g * group_step%u);\n",
                           type, i, type, i, i, i);
        }
    }
}

/* Element after element goes on a stack of accumulators, and then as many of those as the order says become one. */
int dyn_emit_short_axis(DynStr *out, const DynKernel *k) {
    Accumulator acc[DYN_MAX_RESULTS];
    const int lanes = DYN_REDUCE_LANES, n = dyn_emit_accumulators(k, acc);
    dyn_emit_head(out, k, DYN_FORM_SHORT_AXIS);
    dyn_emit_steps(out, k, "element_step");
    dyn_emit_steps(out, k, "group_step");
    put_group_pointers(out, k, true);
    int failed = dyn_emit_invariants(out, k, "    ");
    dyn_emit_empty(out, acc, n);
    for (int i = 0; i < n; i++) {
        dyn_str_printf(out, "    %s part%d[%d][%d];\n", acc[i].held, i, DYN_SHORT_AXIS_PARTS, lanes);
    }
    dyn_str_puts(out, "    for (long g = 0; g < groups; g++) {\n        long top = 0;\n"
                      "        for (long i = 0; i < n; i++, top++) {\n            const long at = order[i].element;\n");
    put_element_pointers(out, k);
    for (int i = 0; i < n; i++) {
        dyn_str_printf(out, "            %s *x%d = part%d[top];\n", acc[i].held, i, i);
    }
    dyn_emit_identity(out, "            ", acc, n);
    failed |= dyn_emit_group(out, k, "            ", DYN_GROUP_COMBINES);
    dyn_str_puts(out, "            for (long c = order[i].joins; c > 0; c--, top--) {\n");
    for (int i = 0; i < n; i++) {
        char x[32], y[32];
        dyn_format(x, sizeof(x), "part%d[top - 1][j]", i);
        dyn_format(y, sizeof(y), "part%d[top][j]", i);
        dyn_str_printf(out, SIMD "                for (int j = 0; j < %d; j++) %s = ", lanes, x);
        failed |= dyn_emit_combine(out, acc[i].insn, x, y);
        dyn_str_puts(out, ";\n");
    }
    dyn_str_puts(out, "            }\n        }\n");
    for (int i = 0; i < n; i++) {
        char x[24];
        dyn_format(x, sizeof(x), "part%d[0][j]", i);
        dyn_str_printf(out, SIMD "        for (int j = 0; j < %d; j++) ((%s *)operands[%u])[g * %d + j] = ", lanes, acc[i].type,
                       acc[i].insn->a[0], lanes);
        dyn_emit_rank(out, acc[i].insn, true, x);
        dyn_str_puts(out, ";\n");
    }
    dyn_str_puts(out, "    }\n}\n");
    return failed;
}

/* An accumulator is combined with as many of those before it as the tree wants now, and kept. */
static int put_joins(DynStr *out, const DynKernel *k, const Accumulator *acc, int n) {
    int failed = 0;
    dyn_str_puts(out, "            for (int m = o->joins; m > 0; m--) {\n");
    for (int i = 0; i < n; i++) {
        uint32_t op = acc[i].insn->a[0];
        dyn_str_printf(out, "                a%u = (%s *)((char *)a%u - pitch);\n", op,
                       dyn_emit_memory_type((DynDtype)k->operands.at[op].dtype), op);
        failed |= put_join(out, "                ", &acc[i], i);
    }
    dyn_str_puts(out, "            }\n");
    for (int i = 0; i < n; i++) {
        put_lanes(out, "            ", &acc[i], i);
    }
    return failed;
}

/* A block of rows by lanes that are results: accumulators one after the other, each used up as soon as the tree allows. */
int dyn_emit_block(DynStr *out, const DynKernel *k) {
    Accumulator acc[DYN_MAX_RESULTS];
    const int lanes = DYN_REDUCE_LANES, n = dyn_emit_accumulators(k, acc);
    dyn_emit_head(out, k, DYN_FORM_BLOCK);
    dyn_emit_steps(out, k, "row_step");
    put_group_pointers(out, k, true);
    int failed = dyn_emit_invariants(out, k, "    ");
    dyn_emit_empty(out, acc, n);
    dyn_str_printf(out,
                   "    long held = 0;\n"
                   "    for (const DynOrderStep *o = order; o < order + steps; o++) {\n"
                   "        for (long g = 0; g < groups; g++) {\n"
                   "            const long lane = g * %d, at = g + 1 < groups ? lane : lane - back;\n",
                   lanes);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (!k->operands.at[i].scalar) {
            dyn_str_puts(out, "        ");
            dyn_emit_pointer(out, k, i, true);
            dyn_str_printf(out, k->operands.at[i].result ? " + held * pitch) + lane;\n" : " + o->element * row_step%u) + at;\n",
                           i);
        }
    }
    for (int i = 0; i < n; i++) {
        dyn_str_printf(out, "            %s x%d[%d];\n", acc[i].held, i, lanes);
    }
    dyn_emit_identity(out, "            ", acc, n);
    dyn_str_puts(out, "            long i = o->element;\n            do {\n");
    failed |= dyn_emit_group(out, k, "                ", DYN_GROUP_COMBINES);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (dyn_kernel_walks(k, i)) {
            dyn_str_printf(out, "                a%u = (%s%s *)((char *)a%u + %d * row_step%u);\n", i,
                           k->operands.at[i].out ? "" : "const ", dyn_emit_memory_type((DynDtype)k->operands.at[i].dtype), i,
                           lanes, i);
        }
    }
    dyn_str_printf(out, "                i += %d;\n            } while (i < n);\n", lanes);
    failed |= put_joins(out, k, acc, n);
    dyn_str_puts(out, "        }\n        held += 1 - o->joins;\n    }\n}\n");
    return failed;
}
