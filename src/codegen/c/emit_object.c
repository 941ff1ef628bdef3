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

typedef enum Part { WHOLE, FIRST, REST } Part;

static int64_t size_seen(const DynLoops *p, const DynKernel *k, int d) { return dyn_sym_at(p->graph->syms, k->shape[d])->hint.i; }

uint8_t dyn_emit_first(const DynLoops *p, const DynKernel *k) {
    int last = k->ndim - 1;
    bool has_short_axis = dyn_emit_has_form(p, k, DYN_FORM_SHORT_AXIS), has_block = dyn_emit_has_form(p, k, DYN_FORM_BLOCK);
    double n = 1; /* elements of a result */
    for (int d = 0; d <= last; d++) {
        n *= k->reduced >> d & 1 ? (double)size_seen(p, k, d) : 1;
    }
    if (k->reduced >> last & 1) {
        return n < DYN_ROWS_FROM && has_short_axis ? DYN_FORM_SHORT_AXIS : DYN_FORM_ROWS;
    }
    if (size_seen(p, k, last) >= DYN_REDUCE_LANES) {
        return has_block ? DYN_FORM_BLOCK : DYN_FORM_COLUMNS;
    }
    return n <= DYN_SHORT_AXIS_MOST && has_short_axis ? DYN_FORM_SHORT_AXIS : DYN_FORM_COLUMNS;
}

static bool is_first(const DynKernel *k, DynNativeForm form) {
    return k->reduced ? form == k->first : form != DYN_FORM_ROW_CONSTANT; /* without it, elements are copied to lanes */
}

/* A kernel's functions, and its row of the table. */
static int put_kernel(DynStr *functions, DynStr *entries, const DynLoops *p, const DynKernel *k, Part part) {
    int failed = 0;
    dyn_str_puts(entries, "{");
    for (DynNativeForm form = 0; form < DYN_FORM_COUNT; form++) {
        if (dyn_emit_has_form(p, k, form) && (part == WHOLE || is_first(k, form) == (part == FIRST))) {
            failed |= dyn_emit_form(functions, k, form, 0);
            dyn_str_printf(entries, ".%s = ", form_names[form]);
            dyn_kernel_symbol(k, form_names[form], entries);
            dyn_str_puts(entries, ", ");
        }
    }
    dyn_str_puts(entries, "}, ");
    return failed;
}

static int put_part(const DynLoops *p, Part part, DynStr *source) {
    DynStr functions = {0}, entries = {0};
    int failed = 0;
    for (uint32_t s = 0; s < p->steps.n; s++) {
        if (p->steps.at[s].kind == DYN_STEP_KERNEL) {
            failed |= put_kernel(&functions, &entries, p, &p->kernels.at[p->steps.at[s].id], part);
        }
    }
    put_object(source, dyn_str_at(&functions), p->nnative, dyn_str_at(&entries));
    failed |= source->failed || functions.failed || entries.failed;
    dyn_str_free(&functions);
    dyn_str_free(&entries);
    return failed ? -1 : 0;
}

static int64_t above = DYN_PARTS_ABOVE;

int64_t dyn_parts_above(int64_t text) {
    int64_t before = above;
    above = text;
    return before;
}

int dyn_emit_c_part(const DynLoops *p, bool first, int64_t whole, DynStr *source) {
    if (whole <= above || !p->builtin || !dyn_builtin_ready() || put_part(p, first ? FIRST : REST, source) < 0) {
        return -1;
    }
    return first && whole - (int64_t)source->n < DYN_PARTS_LEAST ? -1 : 0;
}

int dyn_emit_c(const DynLoops *p, DynStr *source, DynReason *why, DynStr *error) {
    *why = DYN_R_OK;
    if (p->nnative == 0) {
        dyn_str_puts(source, "");
        return 0;
    }
    if (put_part(p, WHOLE, source) < 0) {
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
