/* emit_object.c: the text of an object: kernels' functions, and the table that it exports (native.h); no headers.
 *
 * Called by evalframe/compile.c through dyn_emit_c for a graph's kernels, by parts.c for some of their functions, and by sizes.c
 * for one kernel's rows of one length; the text goes to build.c. */
#include "codegen/loops/loops.h"

/* The types of native.h as text: the argument structs, and the functions of one kernel. */
static const char types[] = "typedef union DynScalar { long i; double f; } DynScalar;\n"
#define FIELD(type, name) #type " " #name "; "
#define DATA(Type, fields) "typedef struct " #Type " { " fields "} " #Type ";\n"
#define ARGS(Type, fields) DATA(Type, fields)
#include "codegen/native.def"
                            "typedef struct DynNativeKernel { "
#define FORM(NAME, name, Args) "void (*" #name ")(const " #Args " *); "
#include "codegen/native.def"
                            "} DynNativeKernel;\n";

static const char *const form_names[] = {
#define FORM(NAME, name, Args) [DYN_FORM_##NAME] = #name,
#include "codegen/native.def"
};

/* Text around the functions: the types, the helpers that they call, and a table of n kernels, whose rows are `entries`. */
static void put_object(DynStr *source, const char *functions, long n, const char *entries) {
    dyn_str_puts(source, types);
    dyn_emit_helpers(source, functions);
    dyn_str_puts(source, functions);
    dyn_str_printf(source,
                   "__attribute__((visibility(\"default\"))) const struct {\n"
                   "    long abi, count;\n    DynNativeKernel kernels[%ld];\n} %s = {%d, %ld, {",
                   n, DYN_NATIVE_SYMBOL, DYN_NATIVE_ABI, n);
    dyn_str_puts(source, entries);
    dyn_str_puts(source, "}};\n");
}

/* A kernel's functions, and its row of the table. */
static int put_kernel(DynStr *functions, DynStr *entries, const DynLoops *p, const DynKernel *k, DynPick *pick, bool first) {
    int failed = 0;
    dyn_str_puts(entries, "{");
    for (DynNativeForm form = 0; form < DYN_FORM_COUNT; form++) {
        if (dyn_emit_has_form(p, k, form) && (pick == NULL || pick(p, k, form) == first)) {
            failed |= dyn_emit_form(functions, k, form, 0);
            dyn_str_printf(entries, ".%s = ", form_names[form]);
            dyn_kernel_symbol(k, form_names[form], entries);
            dyn_str_puts(entries, ", ");
        }
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
    DynStr functions = {0}, entries = {0};
    DynKernel alone = *k;
    alone.number = 0; /* whatever its place in a graph: equal kernels share the object */
    int failed = dyn_emit_form(&functions, &alone, DYN_FORM_ROWS, n) | functions.failed;
    dyn_str_puts(&entries, "{.rows = ");
    dyn_kernel_symbol(&alone, form_names[DYN_FORM_ROWS], &entries);
    dyn_str_puts(&entries, "}");
    put_object(source, dyn_str_at(&functions), 1, dyn_str_at(&entries));
    failed |= entries.failed;
    dyn_str_free(&functions);
    dyn_str_free(&entries);
    return failed || source->failed ? -1 : 0;
}
