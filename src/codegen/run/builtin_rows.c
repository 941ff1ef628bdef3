/* builtin_rows.c: what the built-in tier has: every operator, cast and reduction of the operator table as a kernel of its own.
 *
 * The package is built in two steps: setup.py has the extension write one C text of all rows (dyn_builtin_source, by way of
 * selftest.c), compiles it for each instruction set with the flags of native code, and puts the objects beside the extension;
 * builtin.c loads the one for this processor. A row has the text that emit_c.c gives its instruction in any kernel, so both tiers
 * give the same bits. Numbers of rows follow from the operator table alone; an object with another number of rows is refused. */
#include "codegen/run/builtin.h"
#include <pthread.h>

/* An operator's expression, and what of it says for which types there is one. */
typedef struct Text {
    const char *c;
    const char *called; /* the first helper that it names; NULL: none */
    bool is_inexact;    /* it calls a function of the C library */
} Text;

static Text text_of(const char *c) { return c == NULL ? (Text){0} : (Text){c, strstr(c, "dyn_"), strstr(c, "{f}") != NULL}; }

/* Are all helpers of an expression there for this type, and the C library's functions? */
static bool has_functions(const Text *text, DynDtype t) {
    const char *s = dyn_dtypes[t].name;
    char kind = dyn_dtypes[t].kind;
    if (text->is_inexact && kind != 'f' && kind != 'c') {
        return false;
    }
    for (const char *at = text->called; at != NULL; at = strstr(at + 1, "dyn_")) {
        const char *end = strstr(at, "{s}");
        char name[64];
        size_t n = end == NULL ? 0 : (size_t)(end - at), more = strlen(s);
        if (n == 0 || n + more > sizeof name) {
            return false;
        }
        memcpy(name, at, n);
        memcpy(name + n, s, more);
        if (dyn_op_helper(name, n + more) == NULL) {
            return false;
        }
    }
    return true;
}

static bool takes(DynOp op, DynDtype t) {
    char kind = dyn_dtypes[t].kind;
    switch (op) {
    case DYN_OP_BITWISE_AND:
    case DYN_OP_BITWISE_OR:
    case DYN_OP_BITWISE_XOR:
    case DYN_OP_INVERT: return kind == 'i' || kind == 'u';
    case DYN_OP_COMPLEX: return t == DYN_F64;
    default: break;
    }
    switch (dyn_ops[op].dtype) {
    case DYN_DT_FLOAT: return kind == 'f' || kind == 'c';
    case DYN_DT_LOGICAL: return t == DYN_BOOL;
    default: return true;
    }
}

/* texts: of the operator's numbers, and of complex ones. */
static bool exists(DynOp op, DynDtype t, const Text texts[2]) {
    bool part = op == DYN_OP_REAL || op == DYN_OP_IMAG;
    uint8_t kind = dyn_ops[op].kind;
    if (kind == DYN_K_REDUCE && dyn_dtype_is_half(t)) { /* lowering reduces halves in float */
        return false;
    }
    bool has_kernel = kind == DYN_K_ELEMENTWISE || kind == DYN_K_REDUCE;
    if (!has_kernel && !part && op != DYN_OP_COMPLEX) {
        return false;
    }
    bool has_parts = dyn_dtypes[t].kind == 'c';
    const Text *text = &texts[has_parts];
    if (text->c == NULL || *text->c == 0 || has_parts < part) {
        return false;
    }
    return takes(op, t) && has_functions(text, dyn_dtype_is_half(t) ? DYN_F32 : t);
}

static DynDtype result_dtype(DynOp op, DynDtype t) {
    uint8_t rule = dyn_ops[op].dtype;
    if (rule == DYN_DT_COMPARE || rule == DYN_DT_BOOL || rule == DYN_DT_LOGICAL) {
        return DYN_BOOL;
    }
    bool real = dyn_ops[op].flags & DYN_OPF_REAL || op == DYN_OP_REAL || op == DYN_OP_IMAG;
    if (op == DYN_OP_COMPLEX) {
        return DYN_C128;
    }
    return real ? dyn_dtype_real(t) : t;
}

DynDtype dyn_builtin_operand(const DynBuiltinRow *row, int operand) {
    bool mask = row->kind == DYN_L_OP && dyn_ops[row->op].dtype == DYN_DT_WHERE && operand == 0;
    return mask ? DYN_BOOL : (DynDtype)row->compute;
}

/* ---- the table: made once, in the order of the operator table */

static DynBuiltinRow rows[DYN_OP_COUNT * DYN_DTYPE_COUNT + DYN_DTYPE_COUNT * DYN_DTYPE_COUNT];
static int16_t row_of_op[DYN_OP_COUNT][DYN_DTYPE_COUNT], row_of_cast[DYN_DTYPE_COUNT][DYN_DTYPE_COUNT];
static int nrows;

static int16_t add_row(uint8_t kind, uint16_t op, uint8_t compute, uint8_t dtype) {
    rows[nrows] = (DynBuiltinRow){kind, compute, dtype, op};
    return (int16_t)nrows++;
}

static void make_rows(void) {
    for (int from = 0; from < DYN_DTYPE_COUNT; from++) {
        for (int to = 0; to < DYN_DTYPE_COUNT; to++) {
            row_of_cast[from][to] = from == to ? -1 : add_row(DYN_L_CAST, 0, (uint8_t)from, (uint8_t)to);
        }
    }
    for (int op = 0; op < DYN_OP_COUNT; op++) {
        uint8_t kind = dyn_ops[op].kind == DYN_K_REDUCE ? DYN_L_REDUCE : DYN_L_OP;
        const Text texts[2] = {text_of(dyn_ops[op].c), text_of(dyn_complex_ops[op].c)};
        for (int t = 0; t < DYN_DTYPE_COUNT; t++) {
            DynDtype result = kind == DYN_L_REDUCE ? (DynDtype)t : result_dtype((DynOp)op, (DynDtype)t);
            row_of_op[op][t] = exists((DynOp)op, (DynDtype)t, texts) ? add_row(kind, (uint16_t)op, (uint8_t)t, result) : -1;
        }
    }
}

static void make_rows_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_rows);
}

int dyn_builtin_count(void) {
    make_rows_once();
    return nrows;
}

const DynBuiltinRow *dyn_builtin_at(int row) { return &rows[row]; }

int dyn_builtin_row(DynOp op, uint8_t compute) {
    make_rows_once();
    return row_of_op[op][compute];
}

int dyn_builtin_find(const DynKernel *k, const DynInsn *insn) {
    make_rows_once();
    uint8_t from = k->insns.at[insn->a[insn->kind == DYN_L_REDUCE]].dtype;
    int row = insn->kind == DYN_L_CAST ? row_of_cast[from][insn->dtype] : row_of_op[insn->op][insn->compute];
    bool fits = row >= 0 && rows[row].kind == insn->kind && rows[row].dtype == insn->dtype;
    for (int a = 0; fits && insn->kind == DYN_L_OP && a < insn->nargs; a++) {
        fits = k->insns.at[insn->a[a]].dtype == dyn_builtin_operand(&rows[row], a);
    }
    return fits ? row : -1;
}

/* ---- their text */

#define ROW_LANES 16 /* every kernel takes lanes in multiples of it */

static int put_operand(DynLoops *p, DynKernel *k, DynDtype dtype, bool out, bool result) {
    DynOperand o = {.dtype = (uint8_t)dtype, .out = out, .result = result};
    return dyn_list_push(p->arena, &k->operands, o);
}

static int put_insn(DynLoops *p, DynKernel *k, DynInsn insn) { return dyn_list_push(p->arena, &k->insns, insn); }

static int put_row(DynLoops *p, const DynBuiltinRow *row) {
    DynKernel k = {.lanes = ROW_LANES, .number = (int16_t)p->kernels.n, .group = DYN_NONE};
    DynInsn insn = {.kind = row->kind, .op = row->op, .compute = row->compute, .dtype = row->dtype};
    int failed = 0;
    insn.nargs = row->kind == DYN_L_OP ? (uint8_t)dyn_ops[row->op].arity : 1;
    k.reduced = row->kind == DYN_L_REDUCE;
    for (uint8_t a = 0; a < insn.nargs; a++) {
        DynDtype dtype = dyn_builtin_operand(row, a);
        failed |= put_operand(p, &k, dtype, false, false);
        failed |= put_insn(p, &k, (DynInsn){.kind = DYN_L_LOAD, .dtype = (uint8_t)dtype, .a = {a}});
        insn.a[a] = a;
    }
    uint32_t n = insn.nargs;
    failed |= put_operand(p, &k, (DynDtype)row->dtype, true, k.reduced);
    if (k.reduced) {
        insn.a[0] = n;
        insn.a[1] = 0;
    }
    failed |= put_insn(p, &k, insn);
    if (!k.reduced) {
        failed |= put_insn(p, &k, (DynInsn){.kind = DYN_L_STORE, .dtype = row->dtype, .nargs = 1, .a = {n, n}});
    }
    DynStep step = {.kind = DYN_STEP_KERNEL, .id = p->kernels.n};
    return failed || dyn_list_push(p->arena, &p->kernels, k) < 0 || dyn_list_push(p->arena, &p->steps, step) < 0 ? -1 : 0;
}

int dyn_builtin_source(DynStr *out) {
    DynArena arena = {0};
    DynLoops p = {.arena = &arena, .nnative = (uint32_t)dyn_builtin_count(), .lanes_only = true};
    DynReason why;
    DynStr error = {0};
    int failed = 0;
    for (int row = 0; row < nrows; row++) {
        failed |= put_row(&p, &rows[row]);
    }
    failed = failed || dyn_emit_c(&p, out, &why, &error) < 0 ? -1 : 0;
    dyn_str_free(&error);
    dyn_arena_free(&arena);
    return failed;
}
