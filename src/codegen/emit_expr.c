/* emit_expr.c: C text of single instructions, and of the functions that they call.
 *
 * Called by emit_c.c. Expressions come from ops.def, helper functions from ops_c.def; mathematics is declared here without a
 * header (headers cost more to compile than the kernels). A function of the C library is declared under a name of our own with
 * its real one as assembler name: the compiler then knows nothing of it but that vector versions exist, and can neither fold it
 * nor merge sin and cos of one argument into a call that has no vector version. */
#include "codegen/loops.h"
#include <ctype.h>

#define PROLOGUE                                                                                      \
    "#define DYN_INF __builtin_inf()\n"                                                               \
    "#ifdef __FMA__\n#define DYN_FMA(a, b, c, f) __builtin_fma##f(a, b, c)\n"                         \
    "#else\n#define DYN_FMA(a, b, c, f) ((a) * (b) + (c))\n#endif\n"                                  \
    "#define DYN_FN static inline __attribute__((always_inline))\n"                                   \
    "#define DYN_DIVBYZERO() ((void)({ volatile double dyn_z = 0; dyn_z = 1 / dyn_z; }))\n"           \
    "#define DYN_OVERFLOW() ((void)({ volatile double dyn_h = 0x1p1023; dyn_h = dyn_h * dyn_h; }))\n" \
    "#define DYN_INVALID() ((void)({ volatile double dyn_i = DYN_INF; dyn_i = dyn_i - dyn_i; }))\n"   \
    "#define DYN_VEC(T, name, args) T dyn_##name args __asm__(#name) __attribute__((const, nothrow, simd(\"notinbranch\")))\n"

/* Name, number of arguments. */
static const struct Function {
    const char *name;
    int nargs;
    enum { BUILTIN, VECTOR, SCALAR_CALL, COMPLEX_CALL, MAGNITUDE } kind;
} functions[] = {
    {"sqrt", 1, BUILTIN},        {"fabs", 1, BUILTIN},        {"floor", 1, BUILTIN},         {"ceil", 1, BUILTIN},
    {"trunc", 1, BUILTIN},       {"rint", 1, BUILTIN},        {"signbit", 1, BUILTIN},       {"copysign", 2, BUILTIN},
    {"exp", 1, VECTOR},          {"exp2", 1, VECTOR},         {"expm1", 1, VECTOR},          {"log", 1, VECTOR},
    {"log2", 1, VECTOR},         {"log10", 1, VECTOR},        {"log1p", 1, VECTOR},          {"sin", 1, VECTOR},
    {"cos", 1, VECTOR},          {"tan", 1, VECTOR},          {"asin", 1, VECTOR},           {"acos", 1, VECTOR},
    {"atan", 1, VECTOR},         {"sinh", 1, VECTOR},         {"cosh", 1, VECTOR},           {"tanh", 1, VECTOR},
    {"asinh", 1, VECTOR},        {"acosh", 1, VECTOR},        {"atanh", 1, VECTOR},          {"cbrt", 1, VECTOR},
    {"erf", 1, VECTOR},          {"erfc", 1, VECTOR},         {"atan2", 2, VECTOR},          {"hypot", 2, VECTOR},
    {"pow", 2, VECTOR},          {"fmod", 2, SCALAR_CALL},    {"nextafter", 2, SCALAR_CALL}, {"csqrt", 1, COMPLEX_CALL},
    {"cexp", 1, COMPLEX_CALL},   {"clog", 1, COMPLEX_CALL},   {"csin", 1, COMPLEX_CALL},     {"ccos", 1, COMPLEX_CALL},
    {"ctan", 1, COMPLEX_CALL},   {"casin", 1, COMPLEX_CALL},  {"cacos", 1, COMPLEX_CALL},    {"catan", 1, COMPLEX_CALL},
    {"csinh", 1, COMPLEX_CALL},  {"ccosh", 1, COMPLEX_CALL},  {"ctanh", 1, COMPLEX_CALL},    {"casinh", 1, COMPLEX_CALL},
    {"cacosh", 1, COMPLEX_CALL}, {"catanh", 1, COMPLEX_CALL}, {"cpow", 2, COMPLEX_CALL},     {"cabs", 1, MAGNITUDE},
};

const char *dyn_emit_memory_type(DynDtype dt) { return dyn_dtypes[dt].ctype; }
const char *dyn_emit_type(DynDtype dt) { return dt == DYN_BOOL ? "_Bool" : dt == DYN_F16 ? "float" : dyn_dtypes[dt].ctype; }

static const char *wrapping_type(DynDtype dt) {
    if (dyn_dtypes[dt].kind == 'f' || dyn_dtypes[dt].kind == 'c') {
        return dyn_emit_type(dt);
    }
    return dyn_dtypes[dt].size == 8 ? "unsigned long" : "unsigned int";
}

/* Out of range, conversion to a narrow integer goes by a wide one, as the processor's scalar instruction does. */
static void put_cast(DynStr *out, DynDtype to, DynDtype from, const char *value) {
    if (to == DYN_BOOL) {
        dyn_str_printf(out, "%s != 0", value);
    } else if (to == DYN_F16) { /* integers go by float, as NumPy's */
        dyn_str_printf(out, from == DYN_F64 ? "dyn_half_d(%s)" : "dyn_half((float)%s)", value);
    } else if (dyn_dtypes[from].kind == 'f' && dyn_dtypes[to].kind != 'f' && dyn_dtypes[to].size < 8) {
        bool wide = dyn_dtypes[to].size == 4 && dyn_dtypes[to].kind == 'u';
        dyn_str_printf(out, "(%s)(%s)%s", dyn_emit_type(to), wide ? "long" : "int", value);
    } else {
        dyn_str_printf(out, "(%s)%s", dyn_emit_type(to), value);
    }
}

static bool rounds(const DynInsn *insn) {
    const DynOpInfo *op = &dyn_ops[insn->op];
    return insn->dtype == DYN_F16 && (*op->fpe || (op->flags & DYN_OPF_VECTOR_CALL));
}

static int put_op(DynStr *out, const DynInsn *insn, const char *const *args);

int dyn_emit_expr(DynStr *out, const DynInsn *insn, DynDtype from, const char *const *args) {
    if (insn->kind == DYN_L_CAST) {
        put_cast(out, (DynDtype)insn->dtype, from, args[0]);
        return 0;
    }
    dyn_str_puts(out, rounds(insn) ? "dyn_half(" : "");
    int failed = put_op(out, insn, args);
    dyn_str_puts(out, rounds(insn) ? ")" : "");
    return failed;
}

static int put_op(DynStr *out, const DynInsn *insn, const char *const *args) {
    DynDtype t = insn->compute == DYN_F16 ? DYN_F32 : (DynDtype)insn->compute;
    const char *c = dyn_dtypes[t].kind == 'c' ? dyn_complex_ops[insn->op].c : dyn_ops[insn->op].c;
    if (!c) {
        return -1;
    }
    for (; *c; c++) {
        if (c[0] != '{' || !c[1] || c[2] != '}') {
            dyn_str_putc(out, *c);
            continue;
        }
        switch (c[1]) {
        case 'T': dyn_str_puts(out, dyn_emit_type(t)); break;
        case 'U': dyn_str_puts(out, wrapping_type(t)); break;
        case 's': dyn_str_puts(out, dyn_dtypes[t].name); break;
        case 'f': dyn_str_puts(out, dyn_dtype_real(t) == DYN_F32 ? "f" : ""); break;
        default:
            if (c[1] < '0' || c[1] > '2' || !args[c[1] - '0']) {
                return -1;
            }
            dyn_str_puts(out, args[c[1] - '0']);
        }
        c += 2;
    }
    return 0;
}

/* ---- functions that a text calls */

typedef struct Names { /* what has been written already */
    const char *at[256];
    size_t length[256];
    int n;
} Names;

static bool is_new(Names *names, const char *name, size_t length) {
    for (int i = 0; i < names->n; i++) {
        if (names->length[i] == length && !memcmp(names->at[i], name, length)) {
            return false;
        }
    }
    if (names->n == 256) {
        return false;
    }
    names->at[names->n] = name;
    names->length[names->n++] = length;
    return true;
}

static void put_function(DynStr *out, const char *name, size_t length) {
    bool single = name[length - 1] == 'f' && !(length == 3 && !memcmp(name, "erf", 3));
    for (size_t i = 0; i < DYN_COUNTOF(functions); i++) {
        const struct Function *f = &functions[i];
        size_t base = length - single;
        if (strlen(f->name) != base || memcmp(f->name, name, base)) {
            continue;
        }
        const char *t = single ? "float" : "double", *s = single ? "f" : "";
        if (f->kind == BUILTIN) {
            dyn_str_printf(out, "#define %s%s __builtin_%s%s\n", f->name, s, f->name, s);
            return;
        }
        if (f->kind == VECTOR) {
            dyn_str_printf(out, "DYN_VEC(%s, %s%s, (%s%s));\n", t, f->name, s, t,
                           f->nargs == 2 ? single ? ", float" : ", double" : "");
        } else if (f->kind == COMPLEX_CALL || f->kind == MAGNITUDE) {
            dyn_str_printf(out, "%s%s dyn_%s%s(%s _Complex%s%s) __asm__(\"%s%s\") __attribute__((const, nothrow));\n", t,
                           f->kind == MAGNITUDE ? "" : " _Complex", f->name, s, t, f->nargs == 2 ? ", " : "",
                           f->nargs == 1 ? ""
                           : single      ? "float _Complex"
                                         : "double _Complex",
                           f->name, s);
        } else {
            dyn_str_printf(out, "%s dyn_%s%s(%s, %s) __asm__(\"%s%s\") __attribute__((const, nothrow));\n", t, f->name, s, t, t,
                           f->name, s);
        }
        dyn_str_printf(out, "#define %s%s dyn_%s%s\n", f->name, s, f->name, s);
        return;
    }
}

static void put_called(DynStr *out, Names *names, const char *text) {
    for (const char *c = text; *c;) {
        if (!isalpha((unsigned char)*c) && *c != '_') {
            c++;
            continue;
        }
        const char *end = c;
        while (isalnum((unsigned char)*end) || *end == '_') {
            end++;
        }
        size_t length = (size_t)(end - c);
        if (*end == '(' && is_new(names, c, length)) {
            const DynOpHelper *h = dyn_op_helper(c, length);
            if (h) {
                put_called(out, names, h->text);
                dyn_str_puts(out, h->text);
            } else {
                put_function(out, c, length);
            }
        }
        c = end;
    }
}

void dyn_emit_helpers(DynStr *out, const char *body) {
    Names names = {.n = 0};
    dyn_str_puts(out, PROLOGUE);
    put_called(out, &names, body);
}
