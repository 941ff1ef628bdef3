/* emit_c.c: loop IR → C: the functions of a kernel (native.def), over blocks of lanes.
 *
 * Called by emit_object.c, which makes a text of them. Trip counts are multiples of what a vector holds,
 * so that no scalar remainder loop exists: the same instructions handle every element, and equal inputs give equal bits (exec.c
 * pads). Reductions keep DYN_REDUCE_LANES accumulators, whatever the instruction set. */
#include "codegen/c/emit.h"

/* For each form, its name, the name of its argument struct, and the lines that load the arguments into locals. */
#define FIELD(type, name) "    " #type " " #name " = args->" #name ";\n"
#define ARGS(Type, fields) static const char locals_of_##Type[] = fields;
#include "codegen/native.def"
static const struct {
    const char *name;
    const char *args;
    const char *locals;
} forms[] = {
#define FORM(NAME, name, Args) [DYN_FORM_##NAME] = {#name, #Args, locals_of_##Args},
#include "codegen/native.def"
};

void dyn_emit_head(DynStr *out, const DynKernel *k, DynNativeForm form) {
    dyn_str_puts(out, "static void ");
    dyn_kernel_symbol(k, forms[form].name, out);
    dyn_str_printf(out, "(const %s *args) {\n", forms[form].args);
    dyn_str_puts(out, forms[form].locals);
    for (uint32_t i = 0; i < k->params.n; i++) {
        DynDtype dt = (DynDtype)k->params.at[i].dtype;
        dyn_str_printf(out, "    const %s s%u = (%s)scalars[%u].%c;\n", dyn_emit_type(dt), i, dyn_emit_type(dt), i,
                       dyn_dtypes[dt].kind == 'f' ? 'f' : 'i');
    }
}

void dyn_emit_steps(DynStr *out, const DynKernel *k, const char *array) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (dyn_kernel_walks(k, i)) {
            dyn_str_printf(out, "    const long %s%u = %s[%u];\n", array, i, array, i);
        }
    }
}

/* rows: what follows is added in bytes. */
void dyn_emit_pointer(DynStr *out, const DynKernel *k, uint32_t i, bool rows) {
    const DynOperand *o = &k->operands.at[i];
    const char *type = dyn_emit_memory_type((DynDtype)o->dtype), *c = o->out ? "" : "const ";
    dyn_str_printf(out, "    %s%s *a%u = (%s%s *)%soperands[%u]", c, type, i, c, type, rows ? "(" : "", i);
}

static void put_pointers(DynStr *out, const DynKernel *k) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        dyn_emit_pointer(out, k, i, false);
        dyn_str_puts(out, ";\n");
    }
}

/* Values that are the same for all lanes, however they are made. */
static void find_invariants(const DynKernel *k, bool *same) {
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const DynInsn *insn = at(k, i);
        same[i] = insn->kind == DYN_L_SCALAR || (insn->kind == DYN_L_LOAD && k->operands.at[insn->a[0]].scalar);
        if (insn->kind == DYN_L_CAST || insn->kind == DYN_L_OP) {
            same[i] = insn->kind == DYN_L_CAST || !(dyn_ops[insn->op].flags & DYN_OPF_VECTOR_CALL);
            for (int a = 0; a < insn->nargs; a++) {
                same[i] = same[i] && same[insn->a[a]];
            }
        }
    }
}

/* Is this a mathematical function of values that are the same for all lanes? The compiler would take the call out of the loop,
 * and make it the scalar function, whose bits differ from the vector function's: its operand has to look as if it changed. */
static bool would_be_hoisted(const DynKernel *k, const DynInsn *insn) {
    bool same[DYN_MAX_INSNS], all = true;
    if (insn->kind != DYN_L_OP || !(dyn_ops[insn->op].flags & DYN_OPF_VECTOR_CALL)) {
        return false;
    }
    find_invariants(k, same);
    for (int a = 0; a < insn->nargs; a++) {
        all = all && same[insn->a[a]];
    }
    return all;
}

/* What gcc makes no vectors of by itself is done by functions of strips of lanes (of halves: they are converted and rounded).
 * They stand between loops over a strip's lanes; values that one loop leaves to another are arrays, which compilers keep in
 * registers where both are vectors. */
typedef struct Body {
    const DynKernel *k;
    const char *indent, *from;                         /* from: of the strip's first lane */
    int lanes;                                         /* of a strip. 0: there are none, and loops are the caller's */
    bool spread[DYN_MAX_INSNS], reread[DYN_MAX_INSNS]; /* reread: it would be, but memory has it still */
    bool open;                                         /* a loop over a strip's lanes */
    bool looks_up;                                     /* lanes of indirect operands aren't side by side yet */
    bool found;                                        /* they are, in f<operand>[j] */
    bool counts;                                       /* what is only added up goes to lanes of bytes, c<n>[j] */
    const DynKept *kept;                               /* what becomes of values that are added in NumPy's order */
} Body;

static const char *value_name(const Body *b, uint32_t i, char *name, size_t size) {
    if (b->lanes && b->reread[i]) {
        dyn_format(name, size, "a%u[%s + j]", at(b->k, i)->a[0], b->from);
        return name;
    }
    dyn_format(name, size, b->lanes && b->spread[i] ? "v%u[j]" : "v%u", i);
    return name;
}

static int nvalues(const DynInsn *insn) { return insn->kind == DYN_L_OP || insn->kind == DYN_L_CAST ? insn->nargs : 0; }

/* What a value is used for. */
enum { COMPUTED = 1, STORED = 2, REDUCED = 4 };
static int uses_of(const DynKernel *k, uint32_t value) {
    int uses = 0;
    for (uint32_t i = value + 1; i < k->insns.n; i++) {
        const DynInsn *insn = at(k, i);
        for (int a = 0; a < nvalues(insn); a++) {
            uses |= insn->a[a] == value ? COMPUTED : 0;
        }
        uses |= insn->kind == DYN_L_STORE && insn->a[1] == value ? STORED : 0;
        uses |= insn->kind == DYN_L_REDUCE && insn->a[1] == value ? REDUCED : 0;
    }
    return uses;
}

/* Is this truth as a number that is reduced, and nothing else? Then it can be a choice of 1 and 0, which is a mask, not two
 * conversions. */
static bool is_counted(const DynKernel *k, uint32_t i) {
    return at(k, i)->kind == DYN_L_CAST && at(k, at(k, i)->a[0])->dtype == DYN_BOOL && uses_of(k, i) == REDUCED;
}

/* ... but for doubles, where the truth is read from memory: of a mask of bytes gcc makes none of eight at a time. */
static bool is_chosen(const DynKernel *k, uint32_t i) {
    bool bytes = false;
    for (uint32_t op = 0; op < k->operands.n; op++) {
        const DynOperand *o = &k->operands.at[op];
        bool by_lane = !o->out && !o->scalar;
        bytes = bytes || (by_lane && o->dtype == DYN_BOOL);
    }
    return is_counted(k, i) && !(bytes && at(k, i)->dtype == DYN_F64);
}

/* Is it only added up, as an integer? Then lanes of bytes can hold the sums of COUNTED groups. */
bool dyn_emit_is_added_up(const DynKernel *k, uint32_t i) {
    bool added = is_counted(k, i);
    for (uint32_t r = i + 1; r < k->insns.n && added; r++) {
        const DynInsn *insn = at(k, r);
        bool reduces = insn->kind == DYN_L_REDUCE && insn->a[1] == i;
        added = !reduces || (insn->op == DYN_OP_SUM && dyn_dtype_is_integer((DynDtype)insn->compute));
    }
    return added;
}

/* Element `index` of an array in memory, as the value that a kernel computes with. */
static void put_load(DynStr *out, DynDtype dtype, char array, uint32_t number, const char *index) {
    char element[64];
    dyn_format(element, sizeof(element), "%c%u[%s]", array, number, index);
    if (dyn_dtype_is_half(dtype)) {
        dyn_str_printf(out, "%s(%s);\n", dtype == DYN_F16 ? "dyn_half_load" : "dyn_bf16_load", element);
    } else {
        dyn_str_printf(out, dtype == DYN_BOOL ? "%s != 0;\n" : "%s;\n", element);
    }
}

/* The element type of an array of lanes; truths are as wide as the lanes' numbers, so that loops over both are vectors. */
static const char *type_of_spread(DynDtype dtype, int lanes) {
    if (dtype != DYN_BOOL) {
        return dyn_emit_type(dtype);
    }
    return lanes == 64 ? "unsigned char" : "int";
}

/* Does choice `insn` choose, as operand `a`, what an operator gave that can raise floating-point flags? Of ?: compilers make an
 * operation for the chosen elements alone, where the processor has one, and the flags of the others are lost. So the result takes
 * all bits of that operand that are in `none`. */
static bool is_needed(const DynKernel *k, const DynInsn *insn, int a) {
    char kind = dyn_dtypes[insn->compute].kind;
    bool floats = insn->kind == DYN_L_OP && insn->op == DYN_OP_WHERE && (kind == 'f' || kind == 'c');
    return floats && !k->silent && dyn_emit_raises(at(k, insn->a[a]));
}

static bool needs_any(const DynKernel *k, const DynInsn *insn) { return is_needed(k, insn, 1) || is_needed(k, insn, 2); }

static void put_choice(DynStr *out, const DynKernel *k, const DynInsn *insn, const char *const *args) {
    const char *type = dyn_dtypes[dyn_emit_compute(insn)].name;
    for (int a = 1; a < 3; a++) {
        if (is_needed(k, insn, a)) {
            dyn_str_printf(out, "dyn_need_%s(", type);
        }
    }
    dyn_str_printf(out, "%s ? %s : %s", args[0], args[1], args[2]);
    for (int a = 1; a < 3; a++) {
        if (is_needed(k, insn, a)) {
            dyn_str_printf(out, ", %s, none)", args[a]);
        }
    }
    dyn_str_puts(out, ";\n");
}

/* One value: "const double v3 = …;" */
static int put_value(DynStr *out, const Body *b, uint32_t i, const char *index) {
    const DynKernel *k = b->k;
    const DynInsn *insn = at(k, i);
    char names[3][96], name[48];
    const char *args[3] = {NULL, NULL, NULL};
    bool hoisted = would_be_hoisted(k, insn);
    if (!b->lanes || !b->spread[i]) {
        dyn_str_printf(out, "const %s ", dyn_emit_type((DynDtype)insn->dtype));
    }
    dyn_str_printf(out, "%s = ", value_name(b, i, name, sizeof(name)));
    switch (insn->kind) {
    case DYN_L_LOAD: {
        bool found = b->found && k->operands.at[insn->a[0]].indirect;
        put_load(out, (DynDtype)insn->dtype, found ? 'f' : 'a', insn->a[0], found ? "j" : index);
        return 0;
    }
    case DYN_L_SCALAR: dyn_str_printf(out, "s%u;\n", insn->a[0]); return 0;
    default: break;
    }
    for (int a = 0; a < insn->nargs; a++) {
        value_name(b, insn->a[a], name, sizeof(name));
        if (hoisted) {
            dyn_format(names[a], sizeof(names[a]), "((int)(%s) != never ? %s : 0)", index, name);
        } else {
            dyn_format(names[a], sizeof(names[a]), "%s", name);
        }
        args[a] = names[a];
    }
    if (is_chosen(k, i)) {
        const char *type = dyn_emit_type((DynDtype)insn->dtype);
        dyn_str_printf(out, "%s ? (%s)1 : (%s)0;\n", args[0], type, type);
        return 0;
    }
    if (needs_any(k, insn)) {
        put_choice(out, k, insn, args);
        return 0;
    }
    DynDtype from = (DynDtype)at(k, insn->a[0])->dtype;
    int failed =
        b->lanes && dyn_emit_strip_rounds(k, insn) ? dyn_emit_unrounded(out, insn, args) : dyn_emit_expr(out, insn, from, args);
    dyn_str_puts(out, ";\n");
    return failed;
}

/* Numbers that the compiler can't know: no index is `never`, and `none` has no bits. */
static void put_opaque(DynStr *out, const DynKernel *k) {
    bool never = false, none = false;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        never = never || would_be_hoisted(k, at(k, i));
        none = none || needs_any(k, at(k, i));
    }
    if (never) {
        dyn_str_puts(out,
                     "    int never = -1;\n    __asm__(\"\" : \"+r\"(never)); /* no index is, but the compiler can't know */\n");
    }
    if (none) {
        dyn_str_puts(out, "    long none = 0;\n    __asm__(\"\" : \"+r\"(none)); /* the compiler can't know that either */\n");
    }
}

static bool is_invariant(const DynKernel *k, const DynInsn *insn) {
    return insn->kind == DYN_L_SCALAR || (insn->kind == DYN_L_LOAD && k->operands.at[insn->a[0]].scalar);
}

/* Before the loop: numbers and single elements. */
int dyn_emit_invariants(DynStr *out, const DynKernel *k, const char *indent) {
    const Body before = {.k = k};
    int failed = 0;
    put_opaque(out, k);
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (is_invariant(k, at(k, i))) {
            dyn_str_puts(out, indent);
            failed |= put_value(out, &before, i, "0");
        }
    }
    return failed;
}

/* ---- the body of a loop over lanes */

static bool is_half_load(const DynKernel *k, const DynInsn *insn) {
    return insn->kind == DYN_L_LOAD && insn->dtype == DYN_F16 && !is_invariant(k, insn);
}

bool dyn_emit_has_strips(const DynKernel *k) {
    DynStrip strip;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (is_half_load(k, at(k, i)) || dyn_emit_strip_rounds(k, at(k, i)) || dyn_emit_strip(k, i, &strip)) {
            return true;
        }
    }
    return false;
}

/* The function of strips that stores it, NULL: a loop does. */
static const char *strip_store(const DynKernel *k, const DynInsn *insn) {
    bool half = insn->kind == DYN_L_STORE && insn->dtype == DYN_F16 && !is_invariant(k, at(k, insn->a[1]));
    if (!half) {
        return NULL;
    }
    return dyn_emit_strip_rounds(k, at(k, insn->a[1])) ? "dyn_half_stores" : "dyn_half_puts";
}

/* Which values are arrays: a function of strips makes or takes them, or they are used behind another loop than their own. */
static void find_spread(Body *b) {
    const DynKernel *k = b->k;
    uint32_t loop[DYN_MAX_INSNS], loops = 0;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const DynInsn *insn = at(k, i);
        bool writes = insn->kind == DYN_L_STORE || insn->kind == DYN_L_REDUCE;
        loop[i] = loops;
        DynStrip strip;
        bool called = dyn_emit_strip(k, i, &strip), ends = called || is_half_load(k, insn) || dyn_emit_strip_rounds(k, insn);
        b->spread[i] = ends && insn->kind != DYN_L_REDUCE;
        bool put = strip_store(k, insn) != NULL;
        loops += ends || put;
        for (int a = writes; a < (writes ? 2 : nvalues(insn)); a++) {
            bool elsewhere = called || put || loop[insn->a[a]] != loop[i];
            b->spread[insn->a[a]] |= elsewhere && !is_invariant(k, at(k, insn->a[a]));
        }
    }
    for (uint32_t i = 0; i < k->insns.n; i++) {
        b->reread[i] = b->spread[i] && dyn_emit_can_reread(k, at(k, i));
        b->spread[i] &= !b->reread[i];
    }
}

static void open_loop(DynStr *out, Body *b) {
    if (b->lanes && !b->open) {
        dyn_str_printf(out, SIMD "%sfor (int j = 0; j < %d; j++) {\n", b->indent, b->lanes);
    }
    b->open = true;
    dyn_str_printf(out, b->lanes ? "%s    " : "%s", b->indent);
}

static void close_loop(DynStr *out, Body *b) {
    if (b->lanes && b->open) {
        dyn_str_printf(out, "%s}\n", b->indent);
    }
    b->open = false;
}

/* x and y are accumulators. */
int dyn_emit_combine(DynStr *out, const DynInsn *insn, const char *x, const char *y) {
    const char *args[3] = {x, y, NULL};
    DynInsn ranks = *insn;
    if (dyn_emit_is_ranked(insn)) {
        ranks.dtype = ranks.compute = (uint8_t)dyn_emit_rank_dtype(insn);
    }
    return dyn_emit_expr(out, &ranks, (DynDtype)ranks.dtype, args);
}

/* Where lane i of an indirect operand stands, at<n>: what isn't there is the last (gather_loops.h has the same), and is told. */
static void put_place(DynStr *out, const char *indent, uint32_t n, uint32_t op, uint32_t by, const char *lane) {
    dyn_str_printf(out,
                   "const long d%u = (long)a%u[%s], u%u = (long)((unsigned long)d%u + e%u);\n"
                   "%swrong |= u%u | (long)(2 * e%u - 1 - (unsigned long)u%u);\n"
                   "%sconst unsigned long q%u = (unsigned long)(d%u < 0 ? u%u : d%u), at%u = q%u < e%u ? q%u : e%u - 1;\n%s",
                   n, by, lane, n, n, op, indent, n, op, n, indent, n, n, n, n, n, n, op, n, op, indent);
}

/* Accumulator n with the value that it combines. */
static int put_accumulate(DynStr *out, Body *b, const DynInsn *insn, int n) {
    char acc[32], value[48];
    const char *args[3] = {acc, value, NULL};
    bool rounds = b->lanes && dyn_emit_strip_rounds(b->k, insn);
    if (b->counts && dyn_emit_is_added_up(b->k, insn->a[1])) {
        dyn_str_printf(out, "%sc%d[j] = (unsigned char)(c%d[j] + v%u);\n", b->indent, n, n, at(b->k, insn->a[1])->a[0]);
        return 0;
    }
    dyn_format(acc, sizeof(acc), "x%d[j]", n);
    value_name(b, insn->a[1], value, sizeof(value));
    if (b->kept != NULL && dyn_insn_is_inexact(insn)) {
        if (b->kept->all || !dyn_insn_is_taken(b->k, insn)) {
            open_loop(out, b);
            dyn_str_printf(out, "%s%d%s %s %s;\n", b->kept->name, n, b->kept->at, b->kept->how, value);
        }
        return 0;
    }
    open_loop(out, b);
    if (dyn_emit_is_ranked(insn)) {
        dyn_str_printf(out, "const %s w%d = ", dyn_emit_type(dyn_emit_rank_dtype(insn)), n);
        dyn_emit_rank(out, insn, false, value);
        dyn_str_printf(out, ";\n%s%s", b->indent, b->lanes ? "    " : "");
        dyn_format(value, sizeof(value), "w%d", n);
    }
    dyn_str_printf(out, "%s = ", acc);
    int failed = rounds ? dyn_emit_op(out, insn, args) : dyn_emit_combine(out, insn, acc, value);
    dyn_str_puts(out, ";\n");
    if (rounds) {
        close_loop(out, b);
        dyn_str_printf(out, "%sdyn_half_rounds(x%d, x%d, %d);\n", b->indent, n, n, b->lanes);
    }
    return failed;
}

static int put_insn(DynStr *out, Body *b, uint32_t i, const char *index) {
    const DynInsn *insn = at(b->k, i);
    char value[48];
    int failed = 0;
    DynStrip strip;
    if (b->lanes && dyn_emit_strip(b->k, i, &strip)) {
        close_loop(out, b);
        dyn_emit_strip_call(out, b->k, i, &strip, b->indent, b->from);
    } else if (b->lanes && is_half_load(b->k, insn)) {
        close_loop(out, b);
        dyn_str_printf(out, "%sdyn_half_loads(v%u, a%u + %s, %d);\n", b->indent, i, insn->a[0], b->from, b->lanes);
    } else if (b->lanes && strip_store(b->k, insn) != NULL) {
        close_loop(out, b);
        dyn_str_printf(out, "%s%s(a%u + %s, v%u, %d);\n", b->indent, strip_store(b->k, insn), insn->a[0], b->from, insn->a[1],
                       b->lanes);
    } else if (insn->kind == DYN_L_STORE) {
        open_loop(out, b);
        value_name(b, insn->a[1], value, sizeof(value));
        dyn_str_printf(out, "a%u[%s] = ", insn->a[0], index);
        if (dyn_dtype_is_half((DynDtype)insn->dtype)) {
            dyn_str_printf(out, "%s(%s);\n", insn->dtype == DYN_F16 ? "dyn_half_store" : "dyn_bf16_store", value);
        } else {
            dyn_str_printf(out, "%s;\n", value);
        }
    } else if (b->looks_up && insn->kind == DYN_L_LOAD && b->k->operands.at[insn->a[0]].indirect) {
        open_loop(out, b);
        dyn_format(value, sizeof(value), "at%u", i);
        put_place(out, b->indent, i, insn->a[0], b->k->operands.at[insn->a[0]].by, "i");
        failed = put_value(out, b, i, value);
    } else {
        open_loop(out, b);
        failed = put_value(out, b, i, index);
        if (b->lanes && dyn_emit_strip_rounds(b->k, insn)) {
            close_loop(out, b);
            if (uses_of(b->k, i) != STORED) { /* stores of strips round */
                dyn_str_printf(out, "%sdyn_half_rounds(v%u, v%u, %d);\n", b->indent, i, i, b->lanes);
            }
        }
    }
    return failed;
}

/* All instructions for a lane, or for a strip from lane `from` on; reductions combine into x<n>[j]. */
static int put_body(DynStr *out, Body *b, const char *index) {
    const DynKernel *k = b->k;
    int failed = 0, nreduce = 0;
    if (b->lanes) {
        find_spread(b);
    }
    for (uint32_t i = 0; b->lanes && i < k->insns.n; i++) {
        if (b->spread[i]) {
            const char *type = type_of_spread((DynDtype)at(k, i)->dtype, b->lanes);
            dyn_str_printf(out, "%s%s v%u[%d];\n", b->indent, type, i, b->lanes);
        }
    }
    for (uint32_t i = 0; i < k->insns.n; i++) {
        bool counted = b->counts && dyn_emit_is_added_up(k, i);
        if (!counted && !b->reread[i] && !is_invariant(k, at(k, i))) {
            failed |= at(k, i)->kind == DYN_L_REDUCE ? put_accumulate(out, b, at(k, i), nreduce++) : put_insn(out, b, i, index);
        }
    }
    close_loop(out, b);
    return failed;
}

int dyn_emit_group(DynStr *out, const DynKernel *k, const char *indent, DynGroupKind kind) {
    Body b = {.k = k, .indent = indent, .from = "0", .lanes = dyn_emit_has_strips(k) ? DYN_REDUCE_LANES : 0};
    static const DynKept kept = {.name = "x", .at = "[j]", .how = "="};
    b.counts = kind == DYN_GROUP_COUNTS;
    b.kept = kind == DYN_GROUP_VALUES ? &kept : NULL;
    if (b.lanes) {
        return put_body(out, &b, "j");
    }
    char inner[32];
    dyn_format(inner, sizeof(inner), "%s    ", indent);
    b.indent = inner;
    dyn_str_printf(out, SIMD "%sfor (int j = 0; j < %d; j++) {\n", indent, DYN_REDUCE_LANES);
    int failed = put_body(out, &b, "j");
    dyn_str_printf(out, "%s}\n", indent);
    return failed;
}

int dyn_emit_lane(DynStr *out, const DynKernel *k, const char *indent, const char *index, const DynKept *kept) {
    Body b = {.k = k, .indent = indent, .kept = kept};
    return put_body(out, &b, index);
}

static int put_elementwise(DynStr *out, const DynKernel *k, DynNativeForm form) {
    Body b = {.k = k, .indent = "        ", .from = "i", .lanes = dyn_emit_has_strips(k) ? k->lanes : 0};
    dyn_emit_head(out, k, form);
    put_pointers(out, k);
    int failed = dyn_emit_invariants(out, k, "    ");
    dyn_str_printf(out, "    n &= -%dL;\n", k->lanes);
    dyn_str_printf(out, b.lanes ? "    for (long i = 0; i < n; i += %d) {\n" : SIMD "    for (long i = 0; i < n; i++) {\n",
                   b.lanes);
    failed |= put_body(out, &b, b.lanes ? "i + j" : "i");
    dyn_str_puts(out, "    }\n}\n");
    return failed;
}

/* Operands that are constant along the rows are one element. */
static int put_row_constant(DynStr *out, const DynKernel *k) {
    DynOperand operands[DYN_MAX_OPERANDS];
    DynKernel constant = *k;
    constant.operands.at = operands;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        operands[i] = k->operands.at[i];
        operands[i].scalar |= operands[i].still;
    }
    return put_elementwise(out, &constant, DYN_FORM_ROW_CONSTANT);
}

/* Is there a function that looks indirect operands up itself? Not where a loop that the compiler makes no vectors of would be
 * slow. */
static bool has_lookup(const DynKernel *k) {
    bool indirect = false, calls = false;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        indirect = indirect || k->operands.at[i].indirect;
    }
    for (uint32_t i = 0; i < k->insns.n; i++) {
        calls = calls || (at(k, i)->kind == DYN_L_OP && dyn_ops[at(k, i)->op].flags & DYN_OPF_VECTOR_CALL);
    }
    bool by_element = !k->reduced && !k->in_place;
    return by_element && indirect && !calls;
}

/* Are there tables of so small elements that no instruction looks up several? A loop of vectors would be put together piece by
 * piece, which takes twice as long as one that looks up one after the other. */
static bool looks_up_small(const DynKernel *k) {
    bool small = false;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        small = small || (k->operands.at[i].indirect && dyn_dtypes[k->operands.at[i].dtype].size < 4);
    }
    return small;
}

/* Lanes i to i + lanes of indirect operand `op`: where they stand, by vectors, and then what stands there. */
static void put_found(DynStr *out, const DynKernel *k, uint32_t op) {
    const DynOperand *o = &k->operands.at[op];
    const char *type = dyn_emit_memory_type((DynDtype)o->dtype);
    dyn_str_printf(out,
                   "        unsigned long place%u[%d];\n        %s f%u[%d];\n#pragma omp simd reduction(|:wrong)\n"
                   "        for (int j = 0; j < %d; j++) {\n            ",
                   op, k->lanes, type, op, k->lanes, k->lanes);
    put_place(out, "            ", op, op, o->by, "i + j");
    dyn_str_printf(out,
                   "place%u[j] = at%u;\n        }\n        for (int j = 0; j < %d; j++) {\n"
                   "            f%u[j] = a%u[place%u[j]];\n            __asm__ volatile(\"\"); /* one by one */\n        }\n",
                   op, op, k->lanes, op, op, op);
}

/* One loop, so that reading the index, the other operands and the table overlap; or strips, where that is faster. */
static int put_lookup(DynStr *out, const DynKernel *k) {
    Body b = {.k = k, .indent = "        ", .looks_up = true};
    bool small = looks_up_small(k);
    dyn_emit_head(out, k, DYN_FORM_LOOKUP);
    dyn_str_puts(out, "    long wrong = 0;\n");
    put_pointers(out, k);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (k->operands.at[i].indirect) {
            dyn_str_printf(out, "    const unsigned long e%u = (unsigned long)extent[%u];\n", i, i);
        }
    }
    int failed = dyn_emit_invariants(out, k, "    ");
    dyn_str_printf(out, "    n &= -%dL;\n", k->lanes);
    if (small) {
        b = (Body){.k = k, .indent = "            ", .found = true};
        dyn_str_printf(out, "    for (long i = 0; i < n; i += %d) {\n", k->lanes);
        for (uint32_t i = 0; i < k->operands.n; i++) {
            if (k->operands.at[i].indirect) {
                put_found(out, k, i);
            }
        }
        dyn_str_printf(out, SIMD "        for (int j = 0; j < %d; j++) {\n", k->lanes);
        failed |= put_body(out, &b, "i + j");
        dyn_str_puts(out, "        }\n");
    } else {
        dyn_str_puts(out, "#pragma omp simd reduction(|:wrong)\n    for (long i = 0; i < n; i++) {\n");
        failed |= put_body(out, &b, "i");
    }
    dyn_str_puts(out, "    }\n    *missed |= wrong;\n}\n");
    return failed;
}

/* Neighbouring results are rarely neighbours in memory where the last axis is reduced. */
static bool has_block(const DynLoops *p, const DynKernel *k) {
    if (!k->reduced || p->lanes_only || k->ordered) {
        return false;
    }
    bool last_is_kept = !(k->reduced >> (k->ndim - 1) & 1);
    return last_is_kept && !dyn_kernel_any_order(k);
}

bool dyn_emit_has_form(const DynLoops *p, const DynKernel *k, DynNativeForm form) {
    switch (form) {
    case DYN_FORM_LANES: return !k->reduced;
    case DYN_FORM_ROW_CONSTANT: return k->has_still && !k->reduced && !has_lookup(k) && !p->lanes_only;
    case DYN_FORM_LOOKUP: return has_lookup(k);
    case DYN_FORM_COLUMNS: return k->reduced != 0;
    case DYN_FORM_BLOCK: return has_block(p, k);
    case DYN_FORM_ROWS: return k->reduced && !p->lanes_only;
    case DYN_FORM_SHORT_AXIS: return dyn_kernel_has_short_axis(k) && !p->lanes_only;
    case DYN_FORM_COUNT: break;
    }
    return false;
}

int dyn_emit_form(DynStr *out, const DynKernel *k, DynNativeForm form, int64_t length) {
    switch (form) {
    case DYN_FORM_LANES: return put_elementwise(out, k, form);
    case DYN_FORM_ROW_CONSTANT: return put_row_constant(out, k);
    case DYN_FORM_LOOKUP: return put_lookup(out, k);
    case DYN_FORM_COLUMNS: return dyn_emit_columns(out, k);
    case DYN_FORM_BLOCK: return dyn_emit_block(out, k);
    case DYN_FORM_ROWS: return k->ordered ? dyn_emit_ordered_rows(out, k, length) : dyn_emit_row_function(out, k, length);
    case DYN_FORM_SHORT_AXIS: return dyn_emit_short_axis(out, k);
    case DYN_FORM_COUNT: break;
    }
    return -1;
}
