/* emit_c.c: loop IR → C. One function a kernel, over blocks of lanes; no headers.
 *
 * Called by evalframe/compile.c through dyn_emit_c; the text goes to build.c. Trip counts are multiples of what a vector holds, so that no
 * scalar remainder loop exists: the same instructions handle every element, and equal inputs give equal bits (exec.c pads). Reductions
 * keep DYN_REDUCE_LANES accumulators, whatever the instruction set. */
#include "codegen/loops.h"

typedef struct Emit {
    const DynLoops *p;
    DynStr *out;
} Emit;

static const DynInsn *at(const DynKernel *k, uint32_t i) { return &k->insns.at[i]; }

static void put_params(DynStr *out, const DynKernel *k) {
    for (uint32_t i = 0; i < k->params.n; i++) {
        DynDtype dt = (DynDtype)k->params.at[i].dtype;
        dyn_str_printf(out, "    const %s s%u = (%s)s[%u].%c;\n", dyn_emit_type(dt), i, dyn_emit_type(dt), i,
                       dyn_dtypes[dt].kind == 'f' ? 'f' : 'i');
    }
}

static void put_pointers(DynStr *out, const DynKernel *k, const char *from, const char *indent) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        const char *type = dyn_emit_memory_type((DynDtype)o->dtype), *c = o->out ? "" : "const ";
        dyn_str_printf(out, "%s%s%s *a%u = (%s%s *)%s[%u];\n", indent, c, type, i, c, type, from, i);
    }
}

/* One value: "const double v3 = …;" */
static int put_value(DynStr *out, const DynKernel *k, uint32_t i, const char *index) {
    const DynInsn *insn = at(k, i);
    char names[3][16];
    const char *args[3] = {NULL, NULL, NULL};
    dyn_str_printf(out, "const %s v%u = ", dyn_emit_type((DynDtype)insn->dtype), i);
    switch (insn->kind) {
    case DYN_L_LOAD:
        dyn_str_printf(out, "a%u[%s]%s;\n", insn->a[0], index, insn->dtype == DYN_BOOL ? " != 0" : "");
        return 0;
    case DYN_L_SCALAR:
        dyn_str_printf(out, "s%u;\n", insn->a[0]);
        return 0;
    default:
        break;
    }
    for (int a = 0; a < insn->nargs; a++) {
        snprintf(names[a], sizeof(names[a]), "v%u", insn->a[a]);
        args[a] = names[a];
    }
    DynDtype from = (DynDtype)at(k, insn->a[0])->dtype;
    int failed = dyn_emit_expr(out, insn, from, args);
    dyn_str_puts(out, ";\n");
    return failed;
}

static int put_combine(DynStr *out, const DynInsn *insn, const char *x, const char *y) {
    const char *args[3] = {x, y, NULL};
    return dyn_emit_expr(out, insn, (DynDtype)insn->dtype, args);
}

/* The body for one lane; reductions combine into x<n>[j]. */
static int put_body(DynStr *out, const DynKernel *k, const char *indent, const char *index) {
    char acc[32], value[16];
    int failed = 0, nreduce = 0;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const DynInsn *insn = at(k, i);
        dyn_str_puts(out, indent);
        if (insn->kind == DYN_L_STORE) {
            dyn_str_printf(out, "a%u[%s] = v%u;\n", insn->a[0], index, insn->a[1]);
        } else if (insn->kind == DYN_L_REDUCE) {
            snprintf(acc, sizeof(acc), "x%d[j]", nreduce++);
            snprintf(value, sizeof(value), "v%u", insn->a[1]);
            dyn_str_printf(out, "%s = ", acc);
            failed |= put_combine(out, insn, acc, value);
            dyn_str_puts(out, ";\n");
        } else {
            failed |= put_value(out, k, i, index);
        }
    }
    return failed;
}

static int put_elementwise(DynStr *out, const DynKernel *k) {
    dyn_str_printf(out, "static void k%d(char *const *p, long n, const union dyn_scalar *s) {\n", k->number);
    put_params(out, k);
    put_pointers(out, k, "p", "    ");
    dyn_str_printf(out, "    n &= -%dL;\n#pragma omp simd\n    for (long i = 0; i < n; i++) {\n", k->lanes);
    int failed = put_body(out, k, "        ", "i");
    dyn_str_puts(out, "    }\n}\n");
    return failed;
}

/* ---- reductions */

static void put_identity(DynStr *out, const DynInsn *insn) {
    DynDtype t = (DynDtype)insn->compute;
    const DynDtypeInfo *d = &dyn_dtypes[t];
    bool high = insn->op == DYN_OP_MIN;
    if (insn->op == DYN_OP_SUM) {
        dyn_str_puts(out, d->kind == 'f' ? "-0.0" : "0"); /* -0.0 + x is x for every x */
    } else if (insn->op == DYN_OP_PROD || insn->op == DYN_OP_ALL) {
        dyn_str_puts(out, "1");
    } else if (insn->op == DYN_OP_ANY || t == DYN_BOOL) {
        dyn_str_puts(out, high ? "1" : "0");
    } else if (d->kind == 'f') {
        dyn_str_puts(out, high ? "__builtin_inf()" : "-__builtin_inf()");
    } else if (d->kind == 'u') {
        dyn_str_printf(out, high ? "(%s)-1" : "(%s)0", d->ctype);
    } else {
        int bits = d->size * 8 - 1;
        dyn_str_printf(out, high ? "(%s)((1ul << %d) - 1)" : "(%s)(-1l << %d)", d->ctype, bits);
    }
}

typedef struct Reduces {
    const DynInsn *insn[DYN_MAX_OPERANDS];
    int n;
} Reduces;

static void put_accumulators(DynStr *out, const Reduces *r, char name, const char *indent) {
    for (int i = 0; i < r->n; i++) {
        dyn_str_printf(out, "%s%s %c%d[%d];\n%sfor (int j = 0; j < %d; j++) %c%d[j] = ", indent,
                       dyn_emit_type((DynDtype)r->insn[i]->compute), name, i, DYN_REDUCE_LANES, indent, DYN_REDUCE_LANES, name, i);
        put_identity(out, r->insn[i]);
        dyn_str_puts(out, ";\n");
    }
}

/* The lanes are combined in a fixed tree. */
static int put_tree(DynStr *out, const Reduces *r) {
    char x[32], y[48];
    int failed = 0;
    for (int i = 0; i < r->n; i++) {
        for (int w = DYN_REDUCE_LANES / 2; w; w /= 2) {
            snprintf(x, sizeof(x), "c%d[j]", i);
            snprintf(y, sizeof(y), "c%d[j + %d]", i, w);
            dyn_str_printf(out, "    for (int j = 0; j < %d; j++) %s = ", w, x);
            failed |= put_combine(out, r->insn[i], x, y);
            dyn_str_puts(out, ";\n");
        }
        dyn_str_printf(out, "    *(%s *)p[%u] = c%d[0];\n", dyn_emit_memory_type((DynDtype)r->insn[i]->dtype), r->insn[i]->a[0], i);
    }
    return failed;
}

static int put_reduction(DynStr *out, const DynKernel *k) {
    Reduces r = {.n = 0};
    char x[32], y[32];
    int failed = 0;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (at(k, i)->kind == DYN_L_REDUCE) {
            r.insn[r.n++] = at(k, i);
        }
    }
    dyn_str_printf(out, "static void k%d(char *const *p, long n, const union dyn_scalar *s) {\n", k->number);
    put_params(out, k);
    dyn_str_printf(out, "    const long g = n & -%dL;\n", DYN_REDUCE_LANES);
    put_accumulators(out, &r, 'c', "    ");
    dyn_str_printf(out, "    for (int t = g == 0; t < (n == g ? 1 : 2); t++) { /* whole groups of lanes, then the padded rest */\n"
                        "        char *const *q = t ? p + %u : p;\n"
                        "        const long e = t ? %d : g;\n"
                        "        const int w = t ? (int)(n - g) : %d;\n",
                   k->operands.n, DYN_REDUCE_LANES, DYN_REDUCE_LANES);
    put_pointers(out, k, "q", "        ");
    put_accumulators(out, &r, 'x', "        ");
    dyn_str_printf(out, "        for (long i = 0; i < e; i += %d) {\n#pragma omp simd\n            for (int j = 0; j < %d; j++) {\n",
                   DYN_REDUCE_LANES, DYN_REDUCE_LANES);
    failed |= put_body(out, k, "                ", "i + j");
    dyn_str_puts(out, "            }\n        }\n");
    for (int i = 0; i < r.n; i++) {
        snprintf(x, sizeof(x), "c%d[j]", i);
        snprintf(y, sizeof(y), "x%d[j]", i);
        dyn_str_printf(out, "        for (int j = 0; j < w; j++) %s = ", x);
        failed |= put_combine(out, r.insn[i], x, y);
        dyn_str_puts(out, ";\n");
    }
    dyn_str_puts(out, "    }\n");
    failed |= put_tree(out, &r);
    dyn_str_puts(out, "}\n");
    return failed;
}

int dyn_emit_c(const DynLoops *p, DynStr *source, DynReason *why, DynStr *error) {
    DynStr body = {0};
    *why = DYN_R_OK;
    if (p->nnative == 0) {
        dyn_str_puts(source, "");
        return 0;
    }
    int failed = 0;
    for (uint32_t s = 0; s < p->steps.n; s++) {
        if (p->steps.at[s].kind == DYN_STEP_KERNEL) {
            const DynKernel *k = &p->kernels.at[p->steps.at[s].id];
            failed |= k->reduced ? put_reduction(&body, k) : put_elementwise(&body, k);
        }
    }
    dyn_str_puts(source, "union dyn_scalar { long i; double f; };\n");
    dyn_emit_helpers(source, dyn_str_at(&body));
    dyn_str_puts(source, dyn_str_at(&body));
    dyn_str_printf(source, "__attribute__((visibility(\"default\"))) const struct {\n    long abi, count;\n"
                           "    void (*kernels[%u])(char *const *, long, const union dyn_scalar *);\n} %s = {%d, %u, {",
                   p->nnative, DYN_NATIVE_SYMBOL, DYN_NATIVE_ABI, p->nnative);
    for (uint32_t i = 0; i < p->nnative; i++) {
        dyn_str_printf(source, "%sk%u", i ? ", " : "", i);
    }
    dyn_str_puts(source, "}};\n");
    failed |= source->failed || body.failed;
    dyn_str_free(&body);
    if (failed) {
        *why = source->failed ? DYN_R_NO_MEMORY : DYN_R_LOWERING;
        dyn_str_puts(error, "an expression of the operator table could not be written");
        return -1;
    }
    return 0;
}
