/* emit_c.c: loop IR → C: the functions of a kernel (native.h), over blocks of lanes.
 *
 * Called by emit_object.c, which makes a text of them. Trip counts are multiples of what a vector holds,
 * so that no scalar remainder loop exists: the same instructions handle every element, and equal inputs give equal bits (exec.c
 * pads). Reductions keep DYN_REDUCE_LANES accumulators, whatever the instruction set. */
#include "codegen/loops/loops.h"

/* Loops of a known count are unrolled before vectors are made, and choices become branches that nobody foresees, unless they are
 * asked to be vectors. */
#define SIMD "#pragma omp simd\n"

static const DynInsn *at(const DynKernel *k, uint32_t i) { return &k->insns.at[i]; }

static void put_params(DynStr *out, const DynKernel *k) {
    for (uint32_t i = 0; i < k->params.n; i++) {
        DynDtype dt = (DynDtype)k->params.at[i].dtype;
        dyn_str_printf(out, "    const %s s%u = (%s)s[%u].%c;\n", dyn_emit_type(dt), i, dyn_emit_type(dt), i,
                       dyn_dtypes[dt].kind == 'f' ? 'f' : 'i');
    }
}

/* rows: what follows is added in bytes. */
static void put_pointer(DynStr *out, const DynKernel *k, uint32_t i, bool rows) {
    const DynOperand *o = &k->operands.at[i];
    const char *type = dyn_emit_memory_type((DynDtype)o->dtype), *c = o->out ? "" : "const ";
    dyn_str_printf(out, "    %s%s *a%u = (%s%s *)%sp[%u]", c, type, i, c, type, rows ? "(" : "", i);
}

static void put_pointers(DynStr *out, const DynKernel *k) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        put_pointer(out, k, i, false);
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
} Body;

static const char *value_name(const Body *b, uint32_t i, char *name, size_t size) {
    if (b->lanes && b->reread[i]) {
        snprintf(name, size, "a%u[%s + j]", at(b->k, i)->a[0], b->from);
        return name;
    }
    snprintf(name, size, b->lanes && b->spread[i] ? "v%u[j]" : "v%u", i);
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
        bytes = bytes || (k->operands.at[op].dtype == DYN_BOOL && !k->operands.at[op].out && !k->operands.at[op].scalar);
    }
    return is_counted(k, i) && !(bytes && at(k, i)->dtype == DYN_F64);
}

/* Is it only added up, as an integer? Then lanes of bytes can hold the sums of COUNTED groups. */
#define COUNTED 255
static bool is_added_up(const DynKernel *k, uint32_t i) {
    bool added = is_counted(k, i);
    for (uint32_t r = i + 1; r < k->insns.n && added; r++) {
        const DynInsn *insn = at(k, r);
        bool reduces = insn->kind == DYN_L_REDUCE && insn->a[1] == i;
        added = !reduces || (insn->op == DYN_OP_SUM && strchr("iu", dyn_dtypes[insn->compute].kind) != NULL);
    }
    return added;
}

/* One value: "const double v3 = …;" */
static int put_value(DynStr *out, const Body *b, uint32_t i, const char *index) {
    const DynKernel *k = b->k;
    const DynInsn *insn = at(k, i);
    char names[3][64], name[48];
    const char *args[3] = {NULL, NULL, NULL};
    bool hoisted = would_be_hoisted(k, insn);
    if (!b->lanes || !b->spread[i]) {
        dyn_str_printf(out, "const %s ", dyn_emit_type((DynDtype)insn->dtype));
    }
    dyn_str_printf(out, "%s = ", value_name(b, i, name, sizeof(name)));
    switch (insn->kind) {
    case DYN_L_LOAD: {
        bool found = b->found && k->operands.at[insn->a[0]].indirect;
        dyn_str_printf(out,
                       insn->dtype == DYN_F16    ? "dyn_half_load(%c%u[%s]);\n"
                       : insn->dtype == DYN_BF16 ? "dyn_bf16_load(%c%u[%s]);\n"
                       : insn->dtype == DYN_BOOL ? "%c%u[%s] != 0;\n"
                                                 : "%c%u[%s];\n",
                       found ? 'f' : 'a', insn->a[0], found ? "j" : index);
        return 0;
    }
    case DYN_L_SCALAR: dyn_str_printf(out, "s%u;\n", insn->a[0]); return 0;
    default: break;
    }
    for (int a = 0; a < insn->nargs; a++) {
        value_name(b, insn->a[a], name, sizeof(name));
        snprintf(names[a], sizeof(names[a]), hoisted ? "((int)(%s) != never ? %s : 0)" : "%s%s", hoisted ? index : "", name);
        args[a] = names[a];
    }
    if (is_chosen(k, i)) {
        const char *type = dyn_emit_type((DynDtype)insn->dtype);
        dyn_str_printf(out, "%s ? (%s)1 : (%s)0;\n", args[0], type, type);
        return 0;
    }
    DynDtype from = (DynDtype)at(k, insn->a[0])->dtype;
    int failed =
        b->lanes && dyn_emit_strip_rounds(k, insn) ? dyn_emit_unrounded(out, insn, args) : dyn_emit_expr(out, insn, from, args);
    dyn_str_puts(out, ";\n");
    return failed;
}

static void put_never(DynStr *out, const DynKernel *k) {
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (would_be_hoisted(k, at(k, i))) {
            dyn_str_puts(
                out, "    int never = -1;\n    __asm__(\"\" : \"+r\"(never)); /* no index is, but the compiler can't know */\n");
            return;
        }
    }
}

static bool is_invariant(const DynKernel *k, const DynInsn *insn) {
    return insn->kind == DYN_L_SCALAR || (insn->kind == DYN_L_LOAD && k->operands.at[insn->a[0]].scalar);
}

/* Before the loop: numbers and single elements. */
static int put_invariants(DynStr *out, const DynKernel *k, const char *indent) {
    const Body before = {.k = k};
    int failed = 0;
    put_never(out, k);
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

static bool has_strips(const DynKernel *k) {
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
    return !half ? NULL : dyn_emit_strip_rounds(k, at(k, insn->a[1])) ? "dyn_half_stores" : "dyn_half_puts";
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
            b->spread[insn->a[a]] |= (called || put || loop[insn->a[a]] != loop[i]) && !is_invariant(k, at(k, insn->a[a]));
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
static int put_combine(DynStr *out, const DynInsn *insn, const char *x, const char *y) {
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
    if (b->counts && is_added_up(b->k, insn->a[1])) {
        dyn_str_printf(out, "%sc%d[j] = (unsigned char)(c%d[j] + v%u);\n", b->indent, n, n, at(b->k, insn->a[1])->a[0]);
        return 0;
    }
    snprintf(acc, sizeof(acc), "x%d[j]", n);
    value_name(b, insn->a[1], value, sizeof(value));
    open_loop(out, b);
    if (dyn_emit_is_ranked(insn)) {
        dyn_str_printf(out, "const %s w%d = ", dyn_emit_type(dyn_emit_rank_dtype(insn)), n);
        dyn_emit_rank(out, insn, false, value);
        dyn_str_printf(out, ";\n%s%s", b->indent, b->lanes ? "    " : "");
        snprintf(value, sizeof(value), "w%d", n);
    }
    dyn_str_printf(out, "%s = ", acc);
    int failed = rounds ? dyn_emit_op(out, insn, args) : put_combine(out, insn, acc, value);
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
        dyn_str_printf(out,
                       insn->dtype == DYN_F16    ? "a%u[%s] = dyn_half_store(%s);\n"
                       : insn->dtype == DYN_BF16 ? "a%u[%s] = dyn_bf16_store(%s);\n"
                                                 : "a%u[%s] = %s;\n",
                       insn->a[0], index, value);
    } else if (b->looks_up && insn->kind == DYN_L_LOAD && b->k->operands.at[insn->a[0]].indirect) {
        open_loop(out, b);
        snprintf(value, sizeof(value), "at%u", i);
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
            DynDtype dt = (DynDtype)at(k, i)->dtype;
            dyn_str_printf(out, "%s%s v%u[%d];\n", b->indent,
                           dt != DYN_BOOL   ? dyn_emit_type(dt)
                           : b->lanes == 64 ? "unsigned char"
                                            : "int",
                           i, b->lanes);
        }
    }
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (!is_invariant(k, at(k, i)) && !b->reread[i] && !(b->counts && is_added_up(k, i))) {
            failed |= at(k, i)->kind == DYN_L_REDUCE ? put_accumulate(out, b, at(k, i), nreduce++) : put_insn(out, b, i, index);
        }
    }
    close_loop(out, b);
    return failed;
}

/* The lanes of a group of a reduction. */
static int put_group(DynStr *out, const DynKernel *k, const char *indent, bool counts) {
    Body b = {.k = k, .indent = indent, .from = "0", .lanes = has_strips(k) ? DYN_REDUCE_LANES : 0, .counts = counts};
    if (b.lanes) {
        return put_body(out, &b, "j");
    }
    char inner[32];
    snprintf(inner, sizeof(inner), "%s    ", indent);
    b.indent = inner;
    dyn_str_printf(out, SIMD "%sfor (int j = 0; j < %d; j++) {\n", indent, DYN_REDUCE_LANES);
    int failed = put_body(out, &b, "j");
    dyn_str_printf(out, "%s}\n", indent);
    return failed;
}

static int put_elementwise(DynStr *out, const DynKernel *k, char name) {
    Body b = {.k = k, .indent = "        ", .from = "i", .lanes = has_strips(k) ? k->lanes : 0};
    dyn_str_printf(out, "static void %c%d(char *const *p, long n, const union dyn_scalar *s) {\n", name, k->number);
    put_params(out, k);
    put_pointers(out, k);
    int failed = put_invariants(out, k, "    ");
    dyn_str_printf(out, "    n &= -%dL;\n", k->lanes);
    dyn_str_printf(out, b.lanes ? "    for (long i = 0; i < n; i += %d) {\n" : SIMD "    for (long i = 0; i < n; i++) {\n",
                   b.lanes);
    failed |= put_body(out, &b, b.lanes ? "i + j" : "i");
    dyn_str_puts(out, "    }\n}\n");
    return failed;
}

/* The function whose operands that stand still are one element. */
static int put_still(DynStr *out, const DynKernel *k) {
    DynOperand operands[DYN_MAX_OPERANDS];
    DynKernel still = *k;
    still.operands.at = operands;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        operands[i] = k->operands.at[i];
        operands[i].scalar |= operands[i].still;
    }
    return put_elementwise(out, &still, 't');
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
    return indirect && !calls && !k->reduced && !k->in_place;
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
    dyn_str_printf(out, "static void g%d(char *const *p, long n, const union dyn_scalar *s) {\n    long wrong = 0;\n", k->number);
    put_params(out, k);
    put_pointers(out, k);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (k->operands.at[i].indirect) {
            dyn_str_printf(out, "    const unsigned long e%u = (unsigned long)p[%u];\n", i, k->operands.n + i);
        }
    }
    int failed = put_invariants(out, k, "    ");
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
    dyn_str_printf(out, "    }\n    *(long *)p[%u] |= wrong;\n}\n", 2 * k->operands.n);
    return failed;
}

typedef struct Accumulator {
    const DynInsn *insn;
    const char *type, *held; /* in memory, and here: a rank */
} Accumulator;

static int find_accumulators(const DynKernel *k, Accumulator *acc) {
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

static bool is_walked(const DynKernel *k, uint32_t operand) {
    return !k->operands.at[operand].result && !k->operands.at[operand].scalar;
}

/* Pointers that don't move before the loop over groups, the others to where the group stands. */
static void put_group_pointers(DynStr *out, const DynKernel *k, bool scalars) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        if (o->scalar == scalars) {
            dyn_str_puts(out, scalars ? "" : "    ");
            put_pointer(out, k, i, false);
            dyn_str_puts(out, scalars ? ";\n" : o->result ? " + lane;\n" : " + at;\n");
        }
    }
}

/* Accumulators as the caller has them, or from other lanes. */
static void put_start(DynStr *out, const DynKernel *k, const Accumulator *acc, int n) {
    for (int i = 0; i < n; i++) {
        uint32_t op = acc[i].insn->a[0];
        const char *t = acc[i].type;
        char y[24];
        snprintf(y, sizeof(y), "y%d[j]", i);
        dyn_str_printf(out,
                       "        const %s *y%d = p[%u] ? (const %s *)p[%u] + (how & %d ? lane : 0) : a%u;\n"
                       "        %s x%d[%d];\n" SIMD "        for (int j = 0; j < %d; j++) x%d[j] = ",
                       t, i, k->operands.n + op, t, k->operands.n + op, DYN_START_WALKS, op, acc[i].held, i, DYN_REDUCE_LANES,
                       DYN_REDUCE_LANES, i);
        dyn_emit_rank(out, acc[i].insn, false, y);
        dyn_str_puts(out, ";\n");
    }
}

/* Lanes of memory with the accumulator: "x0[j] = a1[j] op x0[j]". */
static int put_join(DynStr *out, const char *indent, const Accumulator *acc, int i) {
    DynStr a = {0};
    char x[24], memory[24];
    snprintf(x, sizeof(x), "x%d[j]", i);
    snprintf(memory, sizeof(memory), "a%u[j]", acc->insn->a[0]);
    dyn_emit_rank(&a, acc->insn, false, memory);
    dyn_str_printf(out, SIMD "%sfor (int j = 0; j < %d; j++) %s = ", indent, DYN_REDUCE_LANES, x);
    int failed = put_combine(out, acc->insn, dyn_str_at(&a), x) | a.failed;
    dyn_str_puts(out, ";\n");
    dyn_str_free(&a);
    return failed;
}

static void put_lanes(DynStr *out, const char *indent, const Accumulator *acc, int i) {
    char x[24];
    snprintf(x, sizeof(x), "x%d[j]", i);
    dyn_str_printf(out, SIMD "%sfor (int j = 0; j < %d; j++) a%u[j] = ", indent, DYN_REDUCE_LANES, acc->insn->a[0]);
    dyn_emit_rank(out, acc->insn, true, x);
    dyn_str_puts(out, ";\n");
}

static void put_result(DynStr *out, const char *indent, const Accumulator *acc, const char *x) {
    dyn_str_printf(out, "%s*a%u = ", indent, acc->insn->a[0]);
    dyn_emit_rank(out, acc->insn, true, x);
    dyn_str_puts(out, ";\n");
}

static int put_end(DynStr *out, const Accumulator *acc, int n) {
    int failed = 0;
    dyn_str_printf(out, "        if (how & %d) {\n", DYN_COMBINE);
    for (int i = 0; i < n; i++) {
        failed |= put_join(out, "            ", &acc[i], i);
    }
    dyn_str_puts(out, "        }\n");
    for (int i = 0; i < n; i++) {
        put_lanes(out, "        ", &acc[i], i);
    }
    return failed;
}

/* What an accumulator holds before anything was added, e0: behind the operands. */
static void put_empty(DynStr *out, const DynKernel *k, const Accumulator *acc, int n) {
    for (int i = 0; i < n; i++) {
        char from[48];
        snprintf(from, sizeof(from), "*(const %s *)p[%u]", acc[i].type, k->operands.n + acc[i].insn->a[0]);
        dyn_str_printf(out, "    const %s e%d = ", acc[i].held, i);
        dyn_emit_rank(out, acc[i].insn, false, from);
        dyn_str_puts(out, ";\n");
    }
}

static void put_identity(DynStr *out, const char *indent, const Accumulator *acc, int n) {
    for (int i = 0; i < n; i++) {
        dyn_str_printf(out, SIMD "%sfor (int j = 0; j < %d; j++) x%d[j] = e%d;\n", indent, DYN_REDUCE_LANES, i, i);
    }
}

/* A group of lanes at a time, down all its rows: accumulators stay in registers. */
static int put_reduction(DynStr *out, const DynKernel *k) {
    Accumulator acc[DYN_MAX_RESULTS];
    const int lanes = DYN_REDUCE_LANES, n = find_accumulators(k, acc);
    const uint32_t tail = 2 * k->operands.n;
    dyn_str_printf(out, "static void k%d(char *const *p, long n, const union dyn_scalar *s) {\n", k->number);
    put_params(out, k);
    put_group_pointers(out, k, true);
    int failed = put_invariants(out, k, "    ");
    dyn_str_printf(out, "    const long groups = (long)p[%u], how = (long)p[%u], back = (long)p[%u];\n", tail, tail + 1,
                   tail + 2);
    dyn_str_puts(out, "    for (long g = 0; g < groups; g++) {\n");
    dyn_str_printf(out, "        const long lane = g * %d, at = g + 1 < groups ? lane : lane - back;\n", lanes);
    put_group_pointers(out, k, false);
    put_start(out, k, acc, n);
    dyn_str_printf(out, "        for (long i = 0; i < n; i += %d) {\n", lanes);
    failed |= put_group(out, k, "            ", false);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        if (is_walked(k, i)) {
            dyn_str_printf(out, "            a%u = (%s%s *)((char *)a%u + (long)p[%u]);\n", i, o->out ? "" : "const ",
                           dyn_emit_memory_type((DynDtype)o->dtype), i, k->operands.n + i);
        }
    }
    dyn_str_puts(out, "        }\n");
    failed |= put_end(out, acc, n);
    dyn_str_puts(out, "    }\n}\n");
    return failed;
}

/* ---- a few elements of each result, which is a lane: exec_few.c says in which order */

/* It reads elements and keeps nothing of them, and there are results to go side by side. */
bool dyn_kernel_has_few(const DynKernel *k) {
    bool few = k->reduced != 0 && k->reduced != (1u << k->ndim) - 1 && k->group == DYN_NONE;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        few = few && (!k->operands.at[i].out || k->operands.at[i].result);
    }
    return few;
}

/* Pointers to one element of each lane: element `at`, group g. */
static void put_few_pointers(DynStr *out, const DynKernel *k) {
    const uint32_t n = k->operands.n;
    for (uint32_t i = 0; i < n; i++) {
        if (is_walked(k, i)) {
            const char *type = dyn_emit_memory_type((DynDtype)k->operands.at[i].dtype);
            dyn_str_printf(out, "            const %s *a%u = (const %s *)(p[%u] + at * (long)p[%u] + g * (long)p[%u]);\n", type,
                           i, type, i, n + i, 2 * n + i);
        }
    }
}

/* Element after element goes on a stack of accumulators, and then as many of those as the order says become one. */
static int put_few(DynStr *out, const DynKernel *k) {
    Accumulator acc[DYN_MAX_RESULTS];
    const int lanes = DYN_REDUCE_LANES, n = find_accumulators(k, acc);
    const uint32_t nops = k->operands.n;
    dyn_str_printf(out, "static void f%d(char *const *p, long n, const union dyn_scalar *s) {\n", k->number);
    put_params(out, k);
    put_group_pointers(out, k, true);
    int failed = put_invariants(out, k, "    ");
    dyn_str_printf(out, "    const long groups = (long)p[%u];\n    const unsigned char *order = (const unsigned char *)p[%u];\n",
                   3 * nops, 3 * nops + 1);
    put_empty(out, k, acc, n);
    for (int i = 0; i < n; i++) {
        dyn_str_printf(out, "    %s part%d[%d][%d];\n", acc[i].held, i, DYN_FEW_PARTS, lanes);
    }
    dyn_str_puts(out, "    for (long g = 0; g < groups; g++) {\n        long top = 0;\n"
                      "        for (long i = 0; i < n; i++, top++) {\n            const long at = order[2 * i];\n");
    put_few_pointers(out, k);
    for (int i = 0; i < n; i++) {
        dyn_str_printf(out, "            %s *x%d = part%d[top];\n", acc[i].held, i, i);
    }
    put_identity(out, "            ", acc, n);
    failed |= put_group(out, k, "            ", false);
    dyn_str_puts(out, "            for (long c = order[2 * i + 1]; c > 0; c--, top--) {\n");
    for (int i = 0; i < n; i++) {
        char x[32], y[32];
        snprintf(x, sizeof(x), "part%d[top - 1][j]", i);
        snprintf(y, sizeof(y), "part%d[top][j]", i);
        dyn_str_printf(out, SIMD "                for (int j = 0; j < %d; j++) %s = ", lanes, x);
        failed |= put_combine(out, acc[i].insn, x, y);
        dyn_str_puts(out, ";\n");
    }
    dyn_str_puts(out, "            }\n        }\n");
    for (int i = 0; i < n; i++) {
        char x[24];
        snprintf(x, sizeof(x), "part%d[0][j]", i);
        dyn_str_printf(out, SIMD "        for (int j = 0; j < %d; j++) ((%s *)p[%u])[g * %d + j] = ", lanes, acc[i].type,
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
    dyn_str_puts(out, "            for (int m = o[1]; m > 0; m--) {\n");
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
static int put_block(DynStr *out, const DynKernel *k) {
    Accumulator acc[DYN_MAX_RESULTS];
    const int lanes = DYN_REDUCE_LANES, n = find_accumulators(k, acc);
    const uint32_t tail = 2 * k->operands.n;
    dyn_str_printf(out, "static void b%d(char *const *p, long n, const union dyn_scalar *s) {\n", k->number);
    put_params(out, k);
    put_group_pointers(out, k, true);
    int failed = put_invariants(out, k, "    ");
    put_empty(out, k, acc, n);
    dyn_str_printf(out,
                   "    const long groups = (long)p[%u], back = (long)p[%u], pitch = (long)p[%u];\n    long held = 0;\n"
                   "    for (const signed char *o = (const signed char *)p[%u]; *o >= 0; o += 2) {\n"
                   "        for (long g = 0; g < groups; g++) {\n"
                   "            const long lane = g * %d, at = g + 1 < groups ? lane : lane - back;\n",
                   tail, tail + 2, tail + 3, tail + 1, lanes);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (!k->operands.at[i].scalar) {
            dyn_str_puts(out, "        ");
            put_pointer(out, k, i, true);
            dyn_str_printf(out, k->operands.at[i].result ? " + held * pitch) + lane;\n" : " + *o * (long)p[%u]) + at;\n",
                           k->operands.n + i);
        }
    }
    for (int i = 0; i < n; i++) {
        dyn_str_printf(out, "            %s x%d[%d];\n", acc[i].held, i, lanes);
    }
    put_identity(out, "            ", acc, n);
    dyn_str_puts(out, "            long i = *o;\n            do {\n");
    failed |= put_group(out, k, "                ", false);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (is_walked(k, i)) {
            dyn_str_printf(out, "                a%u = (%s%s *)((char *)a%u + %d * (long)p[%u]);\n", i,
                           k->operands.at[i].out ? "" : "const ", dyn_emit_memory_type((DynDtype)k->operands.at[i].dtype), i,
                           lanes, k->operands.n + i);
        }
    }
    dyn_str_printf(out, "                i += %d;\n            } while (i < n);\n", lanes);
    failed |= put_joins(out, k, acc, n);
    dyn_str_puts(out, "        }\n        held += 1 - o[1];\n    }\n}\n");
    return failed;
}

/* ---- reductions of lanes that all belong to one result: the same order as exec_reduce.c's */

/* "to = to op with;" */
static int put_combined(DynStr *out, const char *indent, const Accumulator *acc, const char *to, const char *with) {
    dyn_str_printf(out, "%s%s = ", indent, to);
    int failed = put_combine(out, acc->insn, to, with);
    dyn_str_puts(out, ";\n");
    return failed;
}

/* The lanes behind the last full group: on copies padded with a valid element; accumulators beyond them hold the identity
 * meanwhile, so that no flag is raised for nothing. */
static int put_rest(DynStr *out, const DynKernel *k, const Accumulator *acc, int n) {
    const int lanes = DYN_REDUCE_LANES;
    int failed = 0;
    dyn_str_puts(out, "            if (i < m) {\n                const int rest = (int)(m - i);\n");
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const char *type = dyn_emit_memory_type((DynDtype)k->operands.at[i].dtype);
        if (is_walked(k, i) && !k->operands.at[i].out) {
            dyn_str_printf(
                out,
                "                %s t%u[%d], f%u = *a%u;\n" SIMD
                "                for (int j = 0; j < %d; j++) t%u[j] = j < rest ? a%u[j] : f%u;\n                a%u = t%u;\n",
                type, i, lanes, i, i, lanes, i, i, i, i, i);
        } else if (is_walked(k, i)) {
            dyn_str_printf(out, "                %s t%u[%d], *o%u = a%u;\n                a%u = t%u;\n", type, i, lanes, i, i, i,
                           i);
        }
    }
    for (int i = 0; i < n; i++) {
        dyn_str_printf(out,
                       "                %s w%d[%d];\n" SIMD "                for (int j = 0; j < %d; j++) w%d[j] = x%d[j];\n" SIMD
                       "                for (int j = 0; j < %d; j++) x%d[j] = j < rest ? x%d[j] : e%d;\n",
                       acc[i].held, i, lanes, lanes, i, i, lanes, i, i, i);
    }
    failed |= put_group(out, k, "                ", false);
    for (int i = 0; i < n; i++) {
        dyn_str_printf(out, SIMD "                for (int j = 0; j < %d; j++) x%d[j] = j < rest ? x%d[j] : w%d[j];\n", lanes, i,
                       i, i);
    }
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (is_walked(k, i) && k->operands.at[i].out) {
            dyn_str_printf(out, "                for (int j = 0; j < rest; j++) o%u[j] = t%u[j];\n", i, i);
        }
    }
    dyn_str_puts(out, "            }\n");
    return failed;
}

/* Accumulators to one. Fewer numbers than the smallest vector holds are none: what else is in it would raise flags. */
static int put_trees(DynStr *out, const Accumulator *acc, int n) {
    int failed = 0;
    for (int i = 0; i < n; i++) {
        char x[24], y[40];
        snprintf(x, sizeof(x), "x%d[j]", i);
        for (int w = DYN_REDUCE_LANES / 2; w > 0; w /= 2) {
            snprintf(y, sizeof(y), "x%d[%d + j]", i, w);
            const DynDtypeInfo *t = &dyn_dtypes[acc[i].insn->compute];
            bool vectors = t->kind != 'c' && (t->kind != 'f' || dyn_emit_is_ranked(acc[i].insn) || w * t->size >= 16);
            dyn_str_printf(out, "%s            for (int j = 0; j < %d; j++) {\n", vectors ? SIMD : "", w);
            failed |= put_combined(out, "                ", &acc[i], x, y);
            dyn_str_puts(out, "            }\n");
        }
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
        snprintf(x, sizeof(x), "x%d[0]", i);
        put_result(out, "                ", &acc[i], x);
    }
    dyn_str_puts(out, "                goto next;\n            }\n");
    for (int i = 0; i < n; i++) {
        char v[24], level[32];
        snprintf(v, sizeof(v), "v%d", i);
        snprintf(level, sizeof(level), "part%d[level]", i);
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
        snprintf(r, sizeof(r), "r%d", i);
        snprintf(level, sizeof(level), "part%d[level]", i);
        dyn_str_printf(out, "        level = __builtin_ctzl(count);\n        %s %s = %s;\n", acc[i].held, r, level);
        dyn_str_puts(out, "        for (unsigned long c = count >> (level + 1); c; c >>= 1) {\n            level++;\n            "
                          "if (c & 1) {\n");
        failed |= put_combined(out, "                ", &acc[i], level, r);
        dyn_str_printf(out, "                %s = %s;\n            }\n        }\n", r, level);
        put_result(out, "        ", &acc[i], r);
    }
    return failed;
}

/* Truth about wide elements would be packed first, which takes longer than to add it as it is. */
#define WIDE 8
static bool has_counts(const DynKernel *k) {
    bool counts = false, wide = false;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        counts = counts || is_added_up(k, i);
    }
    for (uint32_t i = 0; i < k->operands.n; i++) {
        wide = wide || (is_walked(k, i) && dyn_dtypes[k->operands.at[i].dtype].size >= WIDE);
    }
    return counts && !wide && !has_strips(k);
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
    int failed = put_group(out, k, "                ", counts);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (is_walked(k, i)) {
            dyn_str_printf(out, "                a%u += %d;\n", i, lanes);
        }
    }
    dyn_str_puts(out, "            }\n");
    for (int i = 0; i < n && counts; i++) {
        if (is_added_up(k, acc[i].insn->a[1])) {
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
#define LOOKED_AT 32768 /* elements after which to ask */
static char last_word(const DynKernel *k, const Accumulator *acc, int n) {
    bool may = n == 1 && acc->insn->compute == DYN_BOOL;
    for (uint32_t i = 0; i < k->insns.n && may; i++) {
        const DynInsn *insn = at(k, i);
        bool number = insn->kind == DYN_L_CAST && dyn_dtypes[at(k, insn->a[0])->dtype].kind == 'f' && insn->dtype != DYN_BOOL;
        bool raises = insn->kind == DYN_L_OP && (*dyn_ops[insn->op].fpe || dyn_ops[insn->op].flags & DYN_OPF_VECTOR_CALL);
        may = !number && !raises && insn->kind != DYN_L_STORE;
    }
    for (uint32_t i = 0; i < k->operands.n && may; i++) {
        may = !k->operands.at[i].indirect;
    }
    uint16_t op = may ? acc->insn->op : DYN_OP_SUM;
    return op == DYN_OP_ANY || op == DYN_OP_MAX ? '!' : op == DYN_OP_ALL || op == DYN_OP_MIN ? '=' : 0;
}

static int put_rows(DynStr *out, const DynKernel *k, int64_t length) {
    Accumulator acc[DYN_MAX_RESULTS];
    const int lanes = DYN_REDUCE_LANES, n = find_accumulators(k, acc);
    dyn_str_printf(out, "static void r%d(char *const *p, const long *step, long rows, long %s, const union dyn_scalar *s) {\n",
                   k->number, length > 0 ? "any" : "n");
    if (length > 0) {
        dyn_str_printf(out, "    const long n = %lld;\n", (long long)length);
    }
    put_params(out, k);
    put_empty(out, k, acc, n);
    dyn_str_puts(out, "    for (long row = 0; row < rows; row++) {\n");
    for (uint32_t i = 0; i < k->operands.n; i++) {
        dyn_str_puts(out, "    ");
        put_pointer(out, k, i, true);
        dyn_str_printf(out, " + row * step[%u]);\n", i);
    }
    int failed = put_invariants(out, k, "        ");
    for (int i = 0; i < n; i++) {
        dyn_str_printf(out, "        %s x%d[%d], part%d[56];\n", acc[i].held, i, lanes, i);
    }
    dyn_str_puts(out,
                 "        unsigned long count = 0;\n        int level;\n        for (long left = n, m; left > 0; left -= m) {\n");
    char last = last_word(k, acc, n);
    if (last != 0) {
        dyn_str_printf(out, "            m = left < %d ? left : %d;\n", LOOKED_AT, LOOKED_AT);
    } else if (dyn_kernel_any_order(k)) {
        dyn_str_puts(out, "            m = left;\n");
    } else {
        dyn_str_printf(out, "            m = left < %d ? left : %d;\n", DYN_BLOCK, DYN_BLOCK);
    }
    dyn_str_puts(out, "            long i = 0;\n");
    put_identity(out, "            ", acc, n);
    failed |= put_groups(out, k, acc, n);
    failed |= put_rest(out, k, acc, n);
    failed |= put_trees(out, acc, n);
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

/* Neighbouring results are rarely neighbours in memory where the last axis is reduced. */
static bool has_block(const DynLoops *p, const DynKernel *k) {
    return k->reduced && !p->lanes_only && !dyn_kernel_any_order(k) && !(k->reduced >> (k->ndim - 1) & 1);
}

static bool has_still(const DynLoops *p, const DynKernel *k) { return k->has_still && !p->lanes_only; }

char dyn_emit_letter(const DynLoops *p, const DynKernel *k, DynFunction f) {
    switch (f) {
    case DYN_FN_LANES: return 'k';
    case DYN_FN_ROWS: return k->reduced && !p->lanes_only ? 'r' : 0;
    case DYN_FN_OTHER: return has_block(p, k) ? 'b' : has_lookup(k) ? 'g' : has_still(p, k) ? 't' : 0;
    default: return dyn_kernel_has_few(k) && !p->lanes_only ? 'f' : 0;
    }
}

int dyn_emit_function(DynStr *out, const DynKernel *k, char letter, int64_t n) {
    switch (letter) {
    case 'k': return k->reduced ? put_reduction(out, k) : put_elementwise(out, k, 'k');
    case 'r': return put_rows(out, k, n);
    case 'b': return put_block(out, k);
    case 'g': return put_lookup(out, k);
    case 't': return put_still(out, k);
    default: return put_few(out, k);
    }
}
