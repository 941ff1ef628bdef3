/* emit_object.c: the text of an object: kernels' functions, and the table that it exports (native.h); no headers.
 *
 * Called by evalframe/compile.c through dyn_emit_c for a graph's kernels, by parts.c for some of their functions, and by sizes.c
 * for one kernel's rows of one length; the text goes to build.c. */
#include "codegen/loops/loops.h"

#define NFUNCTIONS (DYN_FN_FEW + 1)

/* Text around the functions: the helpers that they call, and a table of n kernels, whose rows are `entries`. */
static void put_object(DynStr *source, const char *functions, long n, const char *entries) {
    dyn_str_puts(source, "union dyn_scalar { long i; double f; };\n");
    dyn_emit_helpers(source, functions);
    dyn_str_puts(source, functions);
    dyn_str_printf(source,
                   "__attribute__((visibility(\"default\"))) const struct {\n    long abi, count;\n"
                   "    struct {\n        void (*lanes)(char *const *, long, const union dyn_scalar *);\n"
                   "        void (*rows)(char *const *, const long *, long, long, const union dyn_scalar *);\n"
                   "        void (*other)(char *const *, long, const union dyn_scalar *);\n"
                   "        void (*few)(char *const *, long, const union dyn_scalar *);\n    } kernels[%ld];\n} %s = {%d, %ld, {",
                   n, DYN_NATIVE_SYMBOL, DYN_NATIVE_ABI, n);
    dyn_str_puts(source, entries);
    dyn_str_puts(source, "}};\n");
}

/* A kernel's functions, and its row of the table. */
static int put_kernel(DynStr *functions, DynStr *entries, const DynLoops *p, const DynKernel *k, DynPick *pick, bool first) {
    int failed = 0;
    for (int f = 0; f < NFUNCTIONS; f++) {
        char letter = dyn_emit_letter(p, k, (DynFunction)f);
        letter = pick == NULL || pick(p, k, letter) == first ? letter : 0;
        failed |= letter != 0 ? dyn_emit_function(functions, k, letter, 0) : 0;
        dyn_str_printf(entries, letter != 0 ? "%s%c%d" : "%s0", f > 0 ? ", " : "{", letter, k->number);
    }
    dyn_str_puts(entries, "}, ");
    return failed;
}

int dyn_emit_part(const DynLoops *p, DynPick *pick, bool first, DynStr *source) {
    DynStr functions = {0}, entries = {0};
    int failed = 0;
    for (uint32_t s = 0; s < p->steps.n; s++) {
        if (p->steps.at[s].kind == DYN_STEP_KERNEL) {
            failed |= put_kernel(&functions, &entries, p, &p->kernels.at[p->steps.at[s].id], pick, first);
        }
    }
    put_object(source, dyn_str_at(&functions), p->nnative, dyn_str_at(&entries));
    failed |= source->failed || functions.failed || entries.failed;
    dyn_str_free(&functions);
    dyn_str_free(&entries);
    return failed ? -1 : 0;
}

int dyn_emit_c(const DynLoops *p, DynStr *source, DynReason *why, DynStr *error) {
    *why = DYN_R_OK;
    if (p->nnative == 0) {
        dyn_str_puts(source, "");
        return 0;
    }
    if (dyn_emit_part(p, NULL, true, source) < 0) {
        *why = source->failed ? DYN_R_NO_MEMORY : DYN_R_LOWERING;
        dyn_str_puts(error, "an expression of the operator table could not be written");
        return -1;
    }
    return 0;
}

int dyn_emit_rows(const DynKernel *k, int64_t n, DynStr *source) {
    DynStr functions = {0};
    DynKernel alone = *k;
    alone.number = 0; /* whatever its place in a graph: equal kernels share the object */
    int failed = dyn_emit_function(&functions, &alone, 'r', n) | functions.failed;
    put_object(source, dyn_str_at(&functions), 1, "{0, r0, 0, 0}");
    dyn_str_free(&functions);
    return failed || source->failed ? -1 : 0;
}
