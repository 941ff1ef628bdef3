/* emit_ordered.c: loop IR → C: the function of a reduction for rows of lanes that each belong to one result, in NumPy's order.
 *
 * Called by emit_c.c. A row is split in halves as order.c says, until two blocks at most are left. What is only read is added
 * where it lies, by a function of ops_c.def; values that cost little are added as they are made. Others are kept in a buffer,
 * whole groups of lanes at a time, so that mathematical functions get as many lanes as everywhere, and what a group has beyond
 * the blocks is there for the next; then they are added, or multiplied in turn. Reductions that have no order go on in
 * accumulators beside them, as emit_rows.c has them. */
#include "codegen/c/emit.h"

#define BUFFER 320 /* numbers of two blocks, of a group that begins before their end, and of what it leaves */

static bool is_complex(const DynKernel *k) {
    bool pairs = false;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        pairs = pairs || (dyn_insn_is_inexact(at(k, i)) && dyn_dtypes[at(k, i)->compute].kind == 'c');
    }
    return pairs;
}

/* Does it add values that cost little, and have the same bits by whatever vectors they are made? Then they are made where they
 * are added. */
static bool is_light(const DynKernel *k) {
    bool light = !k->in_place && !dyn_emit_has_strips(k);
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const DynInsn *insn = at(k, i);
        bool calls = insn->kind == DYN_L_OP && dyn_ops[insn->op].flags & DYN_OPF_VECTOR_CALL;
        bool floats = dyn_dtypes[insn->dtype].kind == 'f' || dyn_dtypes[insn->dtype].kind == 'c';
        bool sums = dyn_insn_is_inexact(insn) && insn->op == DYN_OP_SUM;
        light = light && !calls && floats && insn->kind != DYN_L_STORE && (insn->kind != DYN_L_REDUCE || sums);
    }
    return light;
}

typedef enum Way {
    TAKEN, /* numbers are added as they lie in memory */
    LIGHT, /* values, as they are made */
    KEPT   /* values, from a buffer */
} Way;

typedef struct Ordered {
    const DynKernel *k;
    Accumulator acc[DYN_MAX_RESULTS];
    int n, lanes;
    Way way;
} Ordered;

static bool is_ordered(const Ordered *r, int i) { return dyn_insn_is_inexact(r->acc[i].insn); }
static bool has_buffer(const Ordered *r, int i) {
    return r->way == KEPT && is_ordered(r, i) && !dyn_insn_is_taken(r->k, r->acc[i].insn);
}
static bool is_product(const Ordered *r, int i) { return r->acc[i].insn->op == DYN_OP_PROD; }

/* What a row begins with. */
static void put_begin(DynStr *out, const Ordered *r) {
    for (int i = 0; i < r->n; i++) {
        const char *type = r->acc[i].held;
        if (!is_ordered(r, i)) {
            dyn_str_printf(out, "        %s x%d[%d];\n", type, i, DYN_REDUCE_LANES);
            dyn_str_printf(out, SIMD "        for (int j = 0; j < %d; j++) x%d[j] = e%d;\n", DYN_REDUCE_LANES, i, i);
            continue;
        }
        if (has_buffer(r, i)) {
            dyn_str_printf(out, "        %s b%d[%d];\n", type, i, BUFFER);
        } else if (r->way != LIGHT) {
            dyn_str_printf(out, "        const %s *b%d = a%u;\n", type, i, at(r->k, r->acc[i].insn->a[1])->a[0]);
        }
        dyn_str_printf(out, is_product(r, i) ? "        %s r%d = e%d;\n" : "        %s part%d[64];\n", type, i, i);
    }
    dyn_str_printf(out, "        long left[64], pos = 0, %sstop;\n        int join[64], pending = 0, joins = 0, top = 0;\n",
                   r->way == KEPT ? "have = 0, " : "");
}

/* Where a group's values go. */
static void put_places(DynStr *out, const Ordered *r) {
    for (int i = 0; i < r->n; i++) {
        if (has_buffer(r, i)) {
            dyn_str_printf(out, "                %s *x%d = b%d + (have - pos);\n", r->acc[i].held, i, i);
        }
    }
}

/* Values up to `stop`; those behind it that are there already come first. */
static int put_values(DynStr *out, const Ordered *r) {
    const DynKernel *k = r->k;
    dyn_str_printf(out, "            for (; have < stop && have + %d <= n; have += %d) {\n", DYN_REDUCE_LANES, DYN_REDUCE_LANES);
    put_places(out, r);
    int failed = dyn_emit_group(out, k, "                ", DYN_GROUP_VALUES);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (dyn_kernel_walks(k, i)) {
            dyn_str_printf(out, "                a%u += %d;\n", i, DYN_REDUCE_LANES);
        }
    }
    dyn_str_puts(out, "            }\n            if (have < stop) {\n                const int rest = (int)(n - have);\n");
    put_places(out, r);
    failed |= dyn_emit_rest(out, k, r->acc, r->n);
    dyn_str_puts(out, "                have = n;\n            }\n");
    return failed;
}

/* Elements pos to stop of each result. */
static void put_sums(DynStr *out, const Ordered *r) {
    for (int i = 0; i < r->n; i++) {
        char from[24];
        if (!is_ordered(r, i)) {
            continue;
        }
        dyn_format(from, sizeof(from), has_buffer(r, i) ? "b%d" : "(b%d + pos)", i);
        const char *t = dyn_dtypes[r->acc[i].insn->compute].name;
        if (!is_product(r, i)) {
            dyn_str_printf(out, "            part%d[top] = dyn_sum_%s(%s, m);\n", i, t, from);
            continue;
        }
        dyn_str_printf(out, "            for (long j = 0; j < m; j++) r%d = ", i);
        if (is_complex(r->k)) { /* not fused, as lanes of products are */
            dyn_str_printf(out, "dyn_cmul_%s(r%d, %s[j]);\n", t, i, from);
        } else {
            dyn_str_printf(out, "r%d * %s[j];\n", i, from);
        }
    }
}

/* Sums side by side to one. */
static void put_tree(DynStr *out, const Ordered *r, char name, int i) {
    for (int j = 0; j < r->lanes; j += 4) {
        dyn_str_printf(out, "%s((%c%d[%d] + %c%d[%d])", j ? " + " : "", name, i, j, name, i, j + 1);
        dyn_str_printf(out, " + (%c%d[%d] + %c%d[%d]))", name, i, j + 2, name, i, j + 3);
    }
}

/* Lanes of values, added to the sums of that name. */
static int put_added(DynStr *out, const Ordered *r, const char *name, const char *index) {
    const DynKept kept = {.name = name, .at = "[j]", .how = "+=", .all = true};
    dyn_str_printf(out, SIMD "                for (int j = 0; j < %d; j++) {\n", r->lanes);
    int failed = dyn_emit_lane(out, r->k, "                    ", index, &kept);
    dyn_str_puts(out, "                }\n");
    return failed;
}

/* Elements pos to stop: both halves at one time, the second of which is no shorter; what has no full group is added one by one.
 */
static int put_light(DynStr *out, const Ordered *r) {
    const DynKept one = {.name = "t", .at = "", .how = "+=", .all = true};
    const int lanes = r->lanes;
    dyn_str_printf(out, "            const long half = m > %d ? m / 2 & -%dL : 0, whole = m - half & -%dL;\n", 16 * lanes, lanes,
                   lanes);
    for (int i = 0; i < r->n; i++) {
        dyn_str_printf(out, "            %s x%d[%d], y%d[%d];\n" SIMD, r->acc[i].held, i, lanes, i, lanes);
        dyn_str_printf(out, "            for (int j = 0; j < %d; j++) x%d[j] = y%d[j] = 0;\n", lanes, i, i);
    }
    dyn_str_printf(out, "            for (long i = pos; i < pos + half; i += %d) {\n", lanes);
    int failed = put_added(out, r, "x", "i + j");
    failed |= put_added(out, r, "y", "i + half + j");
    dyn_str_puts(out, "            }\n");
    dyn_str_printf(out, "            for (long i = pos + 2 * half; i < pos + half + whole; i += %d) {\n", lanes);
    failed |= put_added(out, r, "y", "i + j");
    dyn_str_puts(out, "            }\n");
    for (int i = 0; i < r->n; i++) {
        dyn_str_printf(out, "            %s t%d = ", r->acc[i].held, i);
        put_tree(out, r, 'y', i);
        dyn_str_puts(out, ";\n");
    }
    dyn_str_puts(out, "            for (long i = pos + half + whole; i < stop; i++) {\n");
    failed |= dyn_emit_lane(out, r->k, "                ", "i", &one);
    dyn_str_puts(out, "            }\n");
    for (int i = 0; i < r->n; i++) {
        dyn_str_printf(out, "            part%d[top] = half ? (", i);
        put_tree(out, r, 'x', i);
        dyn_str_printf(out, ") + t%d : t%d;\n", i, i);
    }
    return failed;
}

/* As many of the last partial sums become one as the order says. */
static void put_joins(DynStr *out, const Ordered *r) {
    dyn_str_puts(out, "            for (top++; joins > 0; joins--) {\n                top--;\n");
    for (int i = 0; i < r->n; i++) {
        if (is_ordered(r, i) && !is_product(r, i)) {
            dyn_str_printf(out, "                part%d[top - 1] = part%d[top - 1] + part%d[top];\n", i, i, i);
        }
    }
    dyn_str_puts(out, "            }\n");
}

static void put_next(DynStr *out, const Ordered *r) {
    dyn_str_puts(out, "            if (pending == 0) break;\n");
    for (int i = 0; i < r->n; i++) {
        if (has_buffer(r, i)) {
            dyn_str_printf(out, SIMD "            for (int j = 0; j < %d; j++) b%d[j] = b%d[stop - pos + j];\n", DYN_REDUCE_LANES,
                           i, i);
        }
    }
    dyn_str_puts(out, "            pos = stop;\n            m = left[--pending];\n            joins = join[pending];\n");
}

static int put_ends(DynStr *out, const Ordered *r) {
    int failed = 0;
    for (int i = 0; i < r->n; i++) {
        char x[32];
        if (!is_ordered(r, i)) {
            failed |= dyn_emit_tree(out, &r->acc[i], i);
            dyn_format(x, sizeof(x), "x%d[0]", i);
        } else {
            dyn_format(x, sizeof(x), is_product(r, i) ? "r%d" : "e%d + part%d[0]", i, i);
        }
        dyn_emit_result(out, "        ", &r->acc[i], x);
    }
    return failed;
}

int dyn_emit_ordered_rows(DynStr *out, const DynKernel *k, int64_t length) {
    Ordered r = {.k = k, .lanes = is_complex(k) ? 4 : 8, .way = dyn_kernel_only_takes(k) ? TAKEN : is_light(k) ? LIGHT : KEPT};
    r.n = dyn_emit_accumulators(k, r.acc);
    dyn_emit_head(out, k, DYN_FORM_ROWS);
    if (length > 0) {
        dyn_str_printf(out, "    n = %lld;\n", (long long)length);
    }
    dyn_emit_empty(out, r.acc, r.n);
    dyn_str_puts(out, "    for (long row = 0; row < rows; row++) {\n");
    for (uint32_t i = 0; i < k->operands.n; i++) {
        dyn_str_puts(out, "    ");
        dyn_emit_pointer(out, k, i, true);
        dyn_str_printf(out, " + row * row_step[%u]);\n", i);
    }
    int failed = dyn_emit_invariants(out, k, "        ");
    put_begin(out, &r);
    dyn_str_printf(out,
                   "        for (long m = n;;) {\n            for (long half; half = m / 2 & -%dL, m - half > %d; m = half) {\n"
                   "                left[pending] = m - half;\n                join[pending++] = joins + 1;\n"
                   "                joins = 0;\n            }\n            stop = pos + m;\n",
                   r.lanes, 16 * r.lanes);
    failed |= r.way == KEPT ? put_values(out, &r) : r.way == LIGHT ? put_light(out, &r) : 0;
    if (r.way != LIGHT) {
        put_sums(out, &r);
    }
    put_joins(out, &r);
    put_next(out, &r);
    dyn_str_puts(out, "        }\n");
    failed |= put_ends(out, &r);
    dyn_str_puts(out, "    }\n}\n");
    return failed;
}
