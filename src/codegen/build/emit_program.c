/* emit_program.c: kernels.c of the debug folder: the generated text as a program of its own, which times each kernel against
 * random numbers of the shapes that were recorded.
 *
 * Called by evalframe/compile.c where a debug folder is wanted; nothing that runs depends on it. The text of the kernels comes
 * unchanged from emit_c.c; here a table of their operands is put behind it, and one piece of C that reads the table. Lanes are
 * handed over as dynoc hands them over: contiguous, so what exec.c does to gather them is not in the figures. */
#include "codegen/build/build.h"
#include "codegen/loops/loops.h"

#define MOST_LANES ((int64_t)1 << 24) /* of one operand: the program is to start on any machine */

static const char heading[] = "#define _POSIX_C_SOURCE 199309L\n"
                              "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <time.h>\n\n";

static const char program[] =
    "\n/* One operand: bytes of an element; what it holds: 'f' float, 'h' half, 'c' complex, 'i' and 'u' integers, 'b' truth;\n"
    "   whether it is one element for all lanes. */\n"
    "struct operand { int size; char kind; int one; };\n"
    "struct kernel { const char *what; long lanes; int reduced, operands; const struct operand *at; const DynScalar "
    "*scalars; };\n"
    "%s\n"
    "static unsigned long state = 88172645463325252UL;\n"
    "static double number(void) { /* 0.5 to 1.5 */\n"
    "    state ^= state << 13, state ^= state >> 7, state ^= state << 17;\n"
    "    return 0.5 + (double)(state >> 11) / 9007199254740992.0;\n"
    "}\n\n"
    "static void fill(char *to, const struct operand *o, long n) {\n"
    "    int floats = o->kind == 'f' || o->kind == 'c', size = o->kind == 'c' ? o->size / 2 : o->size;\n"
    "    for (long i = 0; i < n * o->size / size; i++, to += size) {\n"
    "        double x = number();\n"
    "        float f = (float)x;\n"
    "        unsigned short half = (unsigned short)(0x3c00 + (int)(x * 300)); /* 1 and some; small as bfloat16 */\n"
    "        unsigned long whole = o->kind == 'b' ? x > 1 : (unsigned long)(x * 64);\n"
    "        const void *from = !floats ? o->kind == 'h' ? (void *)&half : (void *)&whole : size == 4 ? (void *)&f : (void "
    "*)&x;\n"
    "        memcpy(to, from, (size_t)size);\n"
    "    }\n"
    "}\n\n"
    "static double now(void) {\n"
    "    struct timespec t;\n"
    "    clock_gettime(CLOCK_MONOTONIC, &t);\n"
    "    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;\n"
    "}\n\n"
    "static void measure(long number, double seconds) {\n"
    "    const struct kernel *k = &kernels[number];\n"
    "    char *p[64];\n"
    "    const char *start[64]; /* a result goes on with what it holds */\n"
    "    const long step[64] = {0};\n"
    "    double bytes = 0, least = 1e9, stop = now() + seconds;\n"
    "    long calls = 0, full = (k->lanes + 63) / 64 * 64;\n"
    "    for (int i = 0; i < k->operands; i++) {\n"
    "        const struct operand *o = &k->at[i];\n"
    "        long n = o->one ? 1 : full;\n"
    "        if ((p[i] = aligned_alloc(64, ((size_t)(n * o->size) + 63) / 64 * 64)) == NULL) {\n"
    "            perror(\"kernels\");\n"
    "            exit(1);\n"
    "        }\n"
    "        fill(p[i], o, n);\n"
    "        start[i] = p[i];\n"
    "        bytes += o->one ? 0 : (double)k->lanes * o->size;\n"
    "    }\n"
    "    const DynRowsArgs rows = {.operands = p, .row_step = step, .start = start, .rows = 1, .n = k->lanes, .scalars = "
    "k->scalars};\n"
    "    const DynLanesArgs lanes = {.operands = p, .n = full, .scalars = k->scalars};\n"
    "    while (k->lanes > 0 && (calls < 3 || now() < stop)) {\n"
    "        double start = now();\n"
    "        if (k->reduced)\n"
    "            dyn_kernels.kernels[number].rows(&rows);\n"
    "        else\n"
    "            dyn_kernels.kernels[number].lanes(&lanes);\n"
    "        double took = now() - start;\n"
    "        least = took < least ? took : least;\n"
    "        calls++;\n"
    "    }\n"
    "    printf(\"kernel %%ld  %%s\\n    %%ld elements, %%ld calls, least %%.3f us, %%.2f GB/s\\n\", number, k->what, k->lanes, "
    "calls,\n"
    "           calls ? least * 1e6 : 0.0, calls ? bytes / least * 1e-9 : 0.0);\n"
    "    for (int i = 0; i < k->operands; i++)\n"
    "        free(p[i]);\n"
    "}\n\n"
    "int main(int argc, char **argv) {\n"
    "    double seconds = argc > 1 ? atof(argv[1]) : 0.2;\n"
    "    for (long i = 0; i < dyn_kernels.count; i++)\n"
    "        measure(i, seconds);\n"
    "    return 0;\n"
    "}\n";

/* "(1000 x 1000) reduced 1" */
static int64_t put_space(DynStr *out, const DynLoops *p, const DynKernel *k) {
    int64_t n = 1;
    dyn_str_putc(out, '(');
    for (int d = 0; d < k->ndim; d++) {
        int64_t size = dyn_sym_at(p->graph->syms, k->shape[d])->hint.i;
        dyn_str_printf(out, "%s%lld", d ? " x " : "", (long long)size);
        n = size != 0 && n > MOST_LANES / size ? MOST_LANES : n * size;
    }
    dyn_str_puts(out, k->reduced ? ") reduced" : ")");
    return n;
}

static void put_tables(DynStr *out, const DynLoops *p, const DynKernel *k) {
    dyn_str_printf(out, "static const struct operand operands_%d[] = {", k->number);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        const DynDtypeInfo *t = &dyn_dtypes[o->dtype];
        dyn_str_printf(out, "{%d, '%c', %d}, ", t->size, dyn_dtype_is_half((DynDtype)o->dtype) ? 'h' : t->kind,
                       o->scalar || o->result);
    }
    dyn_str_printf(out, "};\nstatic const DynScalar scalars_%d[] = {", k->number);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const DynParam *s = &k->params.at[i];
        DynScalar v = dyn_sym_at(p->graph->syms, s->sym)->hint;
        double number = s->is_float ? v.f : (double)v.i;
        if (dyn_dtypes[s->dtype].kind == 'f') {
            dyn_str_printf(out, number - number == 0 ? "{.f = %a}, " : "{.f = 1}, ", number);
        } else {
            dyn_str_printf(out, "{%lldLL}, ", (long long)(s->is_float ? (int64_t)(v.f != 0) : v.i));
        }
    }
    dyn_str_puts(out, "{0}};\n");
}

/* How to compile it: dynoc's own flags, but those that make a shared object. */
static void put_command(const DynConfig *config, DynStr *out) {
    DynStr flags = {0};
    DynBuildEnv *env = dyn_compiler_env_new(config);
    if (env != NULL) {
        dyn_compiler_flags(env, &flags, NULL);
        dyn_compiler_env_free(env);
    }
    dyn_str_puts(out,
                 "/* The kernels of one graph, and a program that times them against random numbers of the recorded shapes:\n"
                 " *\n *     cc");
    for (const char *c = dyn_str_at(&flags); *c;) {
        size_t n = strcspn(c, " ");
        if (strncmp(c, "-shared", n) != 0 && strncmp(c, "-nostdlib", n) != 0 && strncmp(c, "-fPIC", n) != 0) {
            dyn_str_printf(out, " %.*s", (int)n, c);
        }
        c += n + strspn(c + n, " ");
    }
    dyn_str_puts(out, " kernels.c -o kernels -lm\n *     ./kernels [seconds for each] */\n");
    dyn_str_free(&flags);
}

void dyn_emit_program(const DynLoops *p, const DynConfig *config, const char *source, DynStr *out) {
    DynStr tables = {0}, rows = {0};
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const DynKernel *k = p->steps.at[s].kind == DYN_STEP_KERNEL ? &p->kernels.at[p->steps.at[s].id] : NULL;
        if (k != NULL) {
            put_tables(&tables, p, k);
            dyn_str_puts(&rows, "    {\"");
            int64_t n = put_space(&rows, p, k);
            dyn_str_printf(&rows, "\", %lld, %d, %u, operands_%d, scalars_%d},\n", (long long)(n < MOST_LANES ? n : MOST_LANES),
                           k->reduced != 0, k->operands.n, k->number, k->number);
        }
    }
    dyn_str_printf(&tables, "static const struct kernel kernels[] = {\n%s};\n", dyn_str_at(&rows));
    put_command(config, out);
    if (p->nnative > 0) {
        dyn_str_puts(out, heading);
        dyn_str_puts(out, source);
        dyn_str_printf(out, program, dyn_str_at(&tables));
    } else {
        dyn_str_puts(out, "int main(void) { return 0; } /* the graph has no kernel */\n");
    }
    dyn_str_free(&tables);
    dyn_str_free(&rows);
}
