/* emit_rows.c: loop IR → C: the functions of reductions whose lanes all belong to one result.
 *
 * Called by emit_c.c. The order is exec_reduce.c's; emit_ordered.c has the functions for NumPy's. */
#include "codegen/c/emit.h"

/* ---- reductions of lanes that all belong to one result: the same order as exec_reduce.c's */

/* Is it kept, to be added in NumPy's order? */
static bool is_value(const DynKernel *k, const Accumulator *acc) { return k->ordered && dyn_insn_is_inexact(acc->insn); }

/* "to = to op with;" */
static int put_combined(DynStr *out, const char *indent, const Accumulator *acc, const char *to, const char *with) {
    dyn_str_printf(out, "%s%s = ", indent, to);
    int failed = dyn_emit_combine(out, acc->insn, to, with);
    dyn_str_puts(out, ";\n");
    return failed;
}

/* The lanes behind the last full group: on copies padded with a valid element; accumulators beyond them hold the identity
 * meanwhile, so that no flag is raised for nothing. Values are only kept. */
int dyn_emit_rest(DynStr *out, const DynKernel *k, const Accumulator *acc, int n) {
    const int lanes = DYN_REDUCE_LANES;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const char *type = dyn_emit_memory_type((DynDtype)k->operands.at[i].dtype);
        if (dyn_kernel_walks(k, i) && !k->operands.at[i].out) {
            dyn_str_printf(
                out,
                "                %s t%u[%d], f%u = *a%u;\n" SIMD
                "                for (int j = 0; j < %d; j++) t%u[j] = j < rest ? a%u[j] : f%u;\n                a%u = t%u;\n",
                type, i, lanes, i, i, lanes, i, i, i, i, i);
        } else if (dyn_kernel_walks(k, i)) {
            dyn_str_printf(out, "                %s t%u[%d], *o%u = a%u;\n                a%u = t%u;\n", type, i, lanes, i, i, i,
                           i);
        }
    }
    for (int i = 0; i < n; i++) {
        if (is_value(k, &acc[i])) {
            continue;
        }
        dyn_str_printf(out,
                       "                %s w%d[%d];\n" SIMD "                for (int j = 0; j < %d; j++) w%d[j] = x%d[j];\n" SIMD
                       "                for (int j = 0; j < %d; j++) x%d[j] = j < rest ? x%d[j] : e%d;\n",
                       acc[i].held, i, lanes, lanes, i, i, lanes, i, i, i);
    }
    int failed = dyn_emit_group(out, k, "                ", k->ordered ? DYN_GROUP_VALUES : DYN_GROUP_COMBINES);
    for (int i = 0; i < n; i++) {
        if (!is_value(k, &acc[i])) {
            dyn_str_printf(out, SIMD "                for (int j = 0; j < %d; j++) x%d[j] = j < rest ? x%d[j] : w%d[j];\n", lanes,
                           i, i, i);
        }
    }
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (dyn_kernel_walks(k, i) && k->operands.at[i].out) {
            dyn_str_printf(out, "                for (int j = 0; j < rest; j++) o%u[j] = t%u[j];\n", i, i);
        }
    }
    return failed;
}

/* Accumulators to one. Fewer numbers than the smallest vector holds are none: what else is in it would raise flags. */
int dyn_emit_tree(DynStr *out, const Accumulator *acc, int i) {
    int failed = 0;
    char x[24], y[40];
    dyn_format(x, sizeof(x), "x%d[j]", i);
    for (int w = DYN_REDUCE_LANES / 2; w > 0; w /= 2) {
        dyn_format(y, sizeof(y), "x%d[%d + j]", i, w);
        const DynDtypeInfo *t = &dyn_dtypes[acc->insn->compute];
        bool whole_numbers = t->kind != 'f' || dyn_emit_is_ranked(acc->insn);
        bool vectors = t->kind != 'c' && (whole_numbers || w * t->size >= 16);
        dyn_str_printf(out, "%s            for (int j = 0; j < %d; j++) {\n", vectors ? SIMD : "", w);
        failed |= put_combined(out, "                ", acc, x, y);
        dyn_str_puts(out, "            }\n");
    }
    return failed;
}

/* What is made of a block: the result, if there are no others, or one more partial result for those of the blocks before, like a
 * binary counter counts. */
static int put_block_end(DynStr *out, const Accumulator *acc, int n) {
    int failed = 0;
    dyn_str_puts(out, "            if (m == n) {\n");
    for (int i = 0; i < n; i++) {
        char x[24];
        dyn_format(x, sizeof(x), "x%d[0]", i);
        dyn_emit_result(out, "                ", &acc[i], x);
    }
    dyn_str_puts(out, "                goto next;\n            }\n");
    for (int i = 0; i < n; i++) {
        char v[24], level[32];
        dyn_format(v, sizeof(v), "v%d", i);
        dyn_format(level, sizeof(level), "part%d[level]", i);
        dyn_str_printf(out, "            %s %s = x%d[0];\n            level = 0;\n", acc[i].held, v, i);
        dyn_str_puts(out, "            for (unsigned long c = count; c & 1; c >>= 1, level++) {\n");
        failed |= put_combined(out, "                ", &acc[i], level, v);
        dyn_str_printf(out, "                %s = %s;\n            }\n            %s = %s;\n", v, level, level, v);
    }
    return failed;
}

static int put_results(DynStr *out, const Accumulator *acc, int n) {
    int failed = 0;
    for (int i = 0; i < n; i++) {
        char r[24], level[32];
        dyn_format(r, sizeof(r), "r%d", i);
        dyn_format(level, sizeof(level), "part%d[level]", i);
        dyn_str_printf(out, "        level = __builtin_ctzl(count);\n        %s %s = %s;\n", acc[i].held, r, level);
        dyn_str_puts(out, "        for (unsigned long c = count >> (level + 1); c; c >>= 1) {\n            level++;\n            "
                          "if (c & 1) {\n");
        failed |= put_combined(out, "                ", &acc[i], level, r);
        dyn_str_printf(out, "                %s = %s;\n            }\n        }\n", r, level);
        dyn_emit_result(out, "        ", &acc[i], r);
    }
    return failed;
}

/* Truth about wide elements would be packed first, which takes longer than to add it as it is. */
static bool has_counts(const DynKernel *k) {
    bool counts = false, wide = false;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        counts = counts || dyn_emit_is_added_up(k, i);
    }
    for (uint32_t i = 0; i < k->operands.n; i++) {
        wide = wide || (dyn_kernel_walks(k, i) && dyn_dtypes[k->operands.at[i].dtype].size >= DYN_COUNT_WIDE);
    }
    return counts && !wide && !dyn_emit_has_strips(k);
}

/* Whole groups of lanes, from lane i to lane m of a block. */
static int put_groups(DynStr *out, const DynKernel *k, const Accumulator *acc, int n) {
    const int lanes = DYN_REDUCE_LANES;
    bool counts = has_counts(k);
    if (counts) {
        dyn_str_printf(out,
                       "            while (i + %d <= m) {\n            const long stop = m - i < %d ? m : i + %d;\n"
                       "            unsigned char c[%d][%d] = {0};\n",
                       lanes, COUNTED * lanes, COUNTED * lanes, n, lanes);
        for (int i = 0; i < n; i++) {
            dyn_str_printf(out, "            unsigned char *c%d = c[%d];\n", i, i);
        }
    }
    dyn_str_printf(out, "            for (; i + %d <= %s; i += %d) {\n", lanes, counts ? "stop" : "m", lanes);
    int failed = dyn_emit_group(out, k, "                ", counts ? DYN_GROUP_COUNTS : DYN_GROUP_COMBINES);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (dyn_kernel_walks(k, i)) {
            dyn_str_printf(out, "                a%u += %d;\n", i, lanes);
        }
    }
    dyn_str_puts(out, "            }\n");
    for (int i = 0; i < n && counts; i++) {
        if (dyn_emit_is_added_up(k, acc[i].insn->a[1])) {
            dyn_str_printf(out, SIMD "            for (int j = 0; j < %d; j++) x%d[j] += c%d[j];\n", lanes, i, i);
        }
    }
    dyn_str_puts(out, counts ? "            }\n" : "");
    return failed;
}

/* length: of the rows, 0: any. Of a known one all that depends on it is worked out by the compiler, and the padded copies of the
 * last lanes are vectors in registers. */
/* The letter of a comparison with 0 that says that a truth will stay what it is, whatever follows, and no warning may be due for
 * that: '!' (=) or '='. 0: there is none. */
static char last_word(const DynKernel *k, const Accumulator *acc, int n) {
    bool may = n == 1 && acc->insn->compute == DYN_BOOL;
    for (uint32_t i = 0; i < k->insns.n && may; i++) {
        const DynInsn *insn = at(k, i);
        bool number = insn->kind == DYN_L_CAST && dyn_dtypes[at(k, insn->a[0])->dtype].kind == 'f' && insn->dtype != DYN_BOOL;
        may = !number && !dyn_emit_raises(insn) && insn->kind != DYN_L_STORE;
    }
    for (uint32_t i = 0; i < k->operands.n && may; i++) {
        may = !k->operands.at[i].indirect;
    }
    uint16_t op = may ? acc->insn->op : DYN_OP_SUM;
    switch (op) {
    case DYN_OP_ANY:
    case DYN_OP_MAX: return '!';
    case DYN_OP_ALL:
    case DYN_OP_MIN: return '=';
    default: return 0;
    }
}

int dyn_emit_row_function(DynStr *out, const DynKernel *k, int64_t length) {
    Accumulator acc[DYN_MAX_RESULTS];
    const int lanes = DYN_REDUCE_LANES, n = dyn_emit_accumulators(k, acc);
    dyn_emit_head(out, k, DYN_FORM_ROWS);
    if (length > 0) {
        dyn_str_printf(out, "    n = %lld;\n", (long long)length);
    }
    dyn_emit_empty(out, acc, n);
    dyn_str_puts(out, "    for (long row = 0; row < rows; row++) {\n");
    for (uint32_t i = 0; i < k->operands.n; i++) {
        dyn_str_puts(out, "    ");
        dyn_emit_pointer(out, k, i, true);
        dyn_str_printf(out, " + row * row_step[%u]);\n", i);
    }
    int failed = dyn_emit_invariants(out, k, "        ");
    for (int i = 0; i < n; i++) {
        dyn_str_printf(out, "        %s x%d[%d], part%d[56];\n", acc[i].held, i, lanes, i);
    }
    dyn_str_puts(out,
                 "        unsigned long count = 0;\n        int level;\n        for (long left = n, m; left > 0; left -= m) {\n");
    char last = last_word(k, acc, n);
    if (last != 0) {
        dyn_str_printf(out, "            m = left < %d ? left : %d;\n", DYN_TRUTH_LOOKED_AT, DYN_TRUTH_LOOKED_AT);
    } else if (dyn_kernel_any_order(k)) {
        dyn_str_puts(out, "            m = left;\n");
    } else {
        dyn_str_printf(out, "            m = left < %d ? left : %d;\n", DYN_BLOCK, DYN_BLOCK);
    }
    dyn_str_puts(out, "            long i = 0;\n");
    dyn_emit_identity(out, "            ", acc, n);
    failed |= put_groups(out, k, acc, n);
    dyn_str_puts(out, "            if (i < m) {\n                const int rest = (int)(m - i);\n");
    failed |= dyn_emit_rest(out, k, acc, n);
    dyn_str_puts(out, "            }\n");
    for (int i = 0; i < n; i++) {
        failed |= dyn_emit_tree(out, &acc[i], i);
    }
    failed |= put_block_end(out, acc, n);
    dyn_str_puts(out, "            count++;\n");
    if (last != 0) {
        dyn_str_printf(out, "            if (x0[0] %c= 0) break;\n", last);
    }
    dyn_str_puts(out, "        }\n");
    failed |= put_results(out, acc, n);
    dyn_str_puts(out, "    next:;\n    }\n}\n");
    return failed;
}
