/* graph_text.c: the text form of graphs, printed for logs and debug folders and read back by tests/ir.
 *
 *     graph step                 (behind the name "on cuda:0", where its arrays lie on a device)
 *     s0: int = dim(x, 0) hint 1000
 *     s1: float = var(dt) hint 0.25
 *     s2: int = sub(s0, 2) hint 998
 *     %0: f64[s0] C = input(x)
 *     %1: f64[s2] C = slice(%0, 1, s3, 1) {0} view  # heat.py:12
 *     %2: f64[s2] C = multiply(%1, s1)
 *     %3: bool[s2] C = greater(%2, 0.5) compute f64
 *     outputs %2, %3
 *
 * Only symbols that the nodes need are printed, constants where they are used; symbols are numbered in order. After the colon:
 * dtype, sizes, layout (C, or the axes by decreasing stride: <1 0>), the operator and its operands (_ is an absent one), {aux},
 * compute where it isn't the dtype, flags. Sources come back as locals with the printed text as their name; extern rows and
 * places do not come back. */
#include "ir/graph.h"
#include "base/cuda.h"
#include <stdlib.h>

/* ---- printing */

typedef struct Names { /* number of each symbol that is printed, DYN_NONE for the others */
    uint32_t *at;
    uint32_t n;
} Names;

/* Rows come after their operands: one sweep from the end marks everything that is needed. */
static int name_symbols(const DynGraph *g, Names *names) {
    uint32_t n = g->syms->v.n;
    names->at = PyMem_RawCalloc(n + 1, sizeof(*names->at));
    if (names->at == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *node = &g->nodes.at[i];
        for (int k = 0; k < node->ndim; k++) {
            if (node->shape[k] < n) {
                names->at[node->shape[k]] = 1;
            }
        }
        for (int k = 0; k < node->nargs; k++) {
            if (node->args[k].kind == DYN_ARG_SYM && node->args[k].id < n) {
                names->at[node->args[k].id] = 1;
            }
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        const DynSym *s = dyn_sym_at(g->syms, i);
        uint32_t operands[3] = {s->a, s->b, s->c};
        for (int k = 0; names->at[i] && k < dyn_sym_info[s->op].arity; k++) {
            names->at[operands[k]] = 1;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        names->at[i] = names->at[i] && dyn_sym_at(g->syms, i)->op != DYN_S_CONST ? names->n++ : DYN_NONE;
    }
    return 0;
}

static void print_number(DynStr *out, uint8_t type, DynScalar v) {
    if (type == DYN_T_BOOL) {
        dyn_str_puts(out, v.i ? "True" : "False");
    } else if (type == DYN_T_INT) {
        dyn_str_printf(out, "%lld", (long long)v.i);
    } else if (v.f - v.f == 0) {
        dyn_str_putd(out, v.f);
    } else {
        dyn_str_puts(out, v.f < 0 ? "-" : "");
        dyn_str_puts(out, v.f != v.f ? "nan" : "inf");
    }
}

static void print_sym(const DynGraph *g, const Names *names, uint32_t id, DynStr *out) {
    if (id >= g->syms->v.n) {
        dyn_str_puts(out, "s?");
    } else if (names->at[id] != DYN_NONE) {
        dyn_str_printf(out, "s%u", names->at[id]);
    } else {
        print_number(out, dyn_sym_at(g->syms, id)->type, dyn_sym_at(g->syms, id)->value);
    }
}

static void print_symbols(const DynGraph *g, const Names *names, DynStr *out) {
    static const char *const types[] = {[DYN_T_INT] = "int", [DYN_T_FLOAT] = "float", [DYN_T_BOOL] = "bool"};
    for (uint32_t i = 0; i < g->syms->v.n; i++) {
        const DynSym *s = dyn_sym_at(g->syms, i);
        uint32_t operands[3] = {s->a, s->b, s->c};
        if (names->at[i] == DYN_NONE) {
            continue;
        }
        dyn_str_printf(out, "s%u: %s = ", names->at[i], types[s->type]);
        for (const char *c = dyn_sym_info[s->op].name; *c != 0; c++) {
            dyn_str_putc(out, (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c));
        }
        dyn_str_putc(out, '(');
        if (dyn_sym_is_read((DynSymOp)s->op)) {
            dyn_source_print(g->sources, s->a, out);
        }
        if (dyn_sym_of_axis((DynSymOp)s->op)) {
            dyn_str_printf(out, ", %u", s->index);
        }
        if (s->op == DYN_S_LATE) {
            dyn_str_printf(out, "%u, %u, %u, %u", s->after - 1, s->b, s->a, s->index);
        }
        for (int k = 0; k < dyn_sym_info[s->op].arity; k++) {
            dyn_str_puts(out, k > 0 ? ", " : "");
            print_sym(g, names, operands[k], out);
        }
        dyn_str_puts(out, ") hint ");
        print_number(out, s->type, s->hint);
        dyn_str_putc(out, '\n');
    }
}

static void print_place(const DynGraph *g, const DynNode *n, DynStr *out) {
    const char *file = dyn_graph_file_of(g, n);
    if (file != NULL) {
        dyn_str_printf(out, "  # %s:%d", file, (int)n->line);
    }
}

/* What an extern call gets besides its operands; a comment, since it does not come back. */
static void print_constants(const DynGraph *g, const DynNode *n, DynStr *out) {
    const DynExtern *x = dyn_graph_extern(g, n);
    for (uint32_t i = 0; x != NULL && i <= x->nargs; i++) {
        PyObject *o = i < x->nargs ? x->args[i].obj : x->kwnames, *text = o == NULL ? NULL : PyObject_Repr(o);
        const char *c = text == NULL ? NULL : PyUnicode_AsUTF8(text);
        if (c != NULL && strchr(c, '\n') == NULL) {
            dyn_str_printf(out, "  # %s", c);
        }
        Py_XDECREF(text);
        PyErr_Clear();
    }
}

static void print_node(const DynGraph *g, const Names *names, uint32_t id, DynStr *out) {
    const DynNode *n = dyn_graph_node(g, id);
    dyn_str_printf(out, "%%%u: %s[", id, n->dtype < DYN_DTYPE_COUNT ? dyn_dtypes[n->dtype].name : "?");
    for (int i = 0; i < n->ndim; i++) {
        dyn_str_puts(out, i > 0 ? ", " : "");
        print_sym(g, names, n->shape[i], out);
    }
    dyn_str_puts(out, "] ");
    dyn_str_putc(out, n->layout.kind == DYN_LAYOUT_C ? 'C' : '<');
    for (int i = 0; n->layout.kind != DYN_LAYOUT_C && i < n->ndim; i++) {
        dyn_str_printf(out, "%s%d", i > 0 ? " " : "", n->layout.perm[i]);
    }
    dyn_str_puts(out, n->layout.kind == DYN_LAYOUT_C ? "" : ">");
    dyn_str_printf(out, " = %s", n->op < DYN_OP_COUNT ? dyn_ops[n->op].text : "?");
    if (dyn_graph_extern(g, n) != NULL) {
        dyn_str_printf(out, " %s", dyn_graph_extern(g, n)->name);
    }
    dyn_str_putc(out, '(');
    if (n->op == DYN_OP_INPUT && n->source != DYN_NONE) {
        dyn_source_print(g->sources, n->source, out);
    }
    for (int i = 0; i < n->nargs; i++) {
        dyn_str_puts(out, i > 0 ? ", " : "");
        if (n->args[i].kind == DYN_ARG_NODE) {
            dyn_str_printf(out, "%%%u", n->args[i].id);
        } else if (n->args[i].kind == DYN_ARG_SYM) {
            print_sym(g, names, n->args[i].id, out);
        } else if (n->args[i].kind == DYN_ARG_SOURCE) {
            dyn_source_print(g->sources, n->args[i].id, out);
        } else {
            dyn_str_putc(out, '_');
        }
    }
    dyn_str_putc(out, ')');
    for (int i = 0; i < n->naux; i++) {
        dyn_str_printf(out, "%s%lld", i > 0 ? ", " : " {", (long long)n->aux[i]);
    }
    dyn_str_puts(out, n->naux > 0 ? "}" : "");
    if (n->compute != n->dtype && n->compute < DYN_DTYPE_COUNT) {
        dyn_str_printf(out, " compute %s", dyn_dtypes[n->compute].name);
    }
    dyn_str_puts(out, n->flags & DYN_NODE_VIEW ? " view" : "");
    dyn_str_puts(out, n->flags & DYN_NODE_CONTIG_COPY ? " copy" : "");
    dyn_str_puts(out, n->flags & DYN_NODE_NPSCALAR ? " npscalar" : "");
    dyn_str_puts(out, n->flags & DYN_NODE_WARNS ? " warns" : "");
    dyn_str_puts(out, n->flags & DYN_NODE_READONLY ? " readonly" : "");
    dyn_str_puts(out, n->flags & DYN_NODE_WRITE_WARNS ? " writewarns" : "");
    dyn_str_puts(out, n->flags & DYN_NODE_OBJECT ? " object" : "");
    dyn_str_puts(out, n->flags & DYN_NODE_TENSOR ? " tensor" : "");
    dyn_str_puts(out, n->flags & DYN_NODE_DENSE ? " dense" : "");
    dyn_str_puts(out, n->flags & DYN_NODE_TURNED ? " turned" : "");
    dyn_str_puts(out, n->flags & DYN_NODE_OR_NOTHING ? " ornothing" : "");
    dyn_str_puts(out, n->flags & DYN_NODE_GRAD ? " grad" : "");
    dyn_str_puts(out, n->flags & DYN_NODE_UNFOLLOWED ? " unfollowed" : "");
    print_constants(g, n, out);
    print_place(g, n, out);
    dyn_str_putc(out, '\n');
}

void dyn_graph_print(const DynGraph *g, DynStr *out) {
    Names names = {0};
    if (name_symbols(g, &names) < 0) {
        out->failed = true;
        return;
    }
    dyn_str_printf(out, "graph %s", g->name);
    if (g->device != 0) {
        dyn_str_printf(out, " on cuda:%d%s", g->device - 1, g->cupy ? " of cupy" : "");
    }
    dyn_str_putc(out, '\n');
    print_symbols(g, &names, out);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        print_node(g, &names, i, out);
    }
    dyn_str_puts(out, "outputs");
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        dyn_str_printf(out, "%s%%%u", i > 0 ? ", " : " ", g->outputs.at[i]);
    }
    dyn_str_putc(out, '\n');
    PyMem_RawFree(names.at);
}

/* ---- parsing */

typedef struct Parser {
    DynGraph *g;
    const char *at;
    int line;
    DynStr *error;
    DYN_VEC(uint32_t)
    syms; /* s0, s1, … */
} Parser;

static int wrong(Parser *p, const char *what) {
    dyn_str_printf(p->error, "line %d: %s, at \"%.20s\"", p->line, what, p->at);
    return -1;
}

static void blanks(Parser *p) {
    while (*p->at == ' ') {
        p->at++;
    }
}

/* Is `text` next? Then step over it. */
static bool take(Parser *p, const char *text) {
    blanks(p);
    size_t n = strlen(text);
    if (strncmp(p->at, text, n) != 0) {
        return false;
    }
    p->at += n;
    return true;
}

static int expect(Parser *p, const char *text) {
    if (take(p, text)) {
        return 0;
    }
    char what[40];
    snprintf(what, sizeof what, "expected %s", text);
    return wrong(p, what);
}

static int word(Parser *p, char *out, size_t size) {
    blanks(p);
    size_t n = strspn(p->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    if (n == 0 || n >= size) {
        return wrong(p, "expected a name");
    }
    memcpy(out, p->at, n);
    out[n] = 0;
    p->at += n;
    return 0;
}

static int integer(Parser *p, long long *out) {
    char *end;
    blanks(p);
    *out = strtoll(p->at, &end, 10);
    if (end == p->at) {
        return wrong(p, "expected an integer");
    }
    p->at = end;
    return 0;
}

static int number(Parser *p, uint8_t *type, DynScalar *out) {
    char *end;
    blanks(p);
    if (take(p, "True") || take(p, "False")) {
        *type = DYN_T_BOOL;
        out->i = p->at[-2] == 'u';
        return 0;
    }
    size_t n = strspn(p->at, "-0123456789");
    bool named = strncmp(p->at, "-inf", 4) == 0 || strncmp(p->at, "-nan", 4) == 0;
    bool fraction = p->at[n] == '.' || p->at[n] == 'e';
    if (n > 0 && !named && !fraction) {
        long long i;
        *type = DYN_T_INT;
        if (integer(p, &i) < 0) {
            return -1;
        }
        out->i = i;
        return 0;
    }
    *type = DYN_T_FLOAT;
    out->f = strtod(p->at, &end);
    if (end == p->at) {
        return wrong(p, "expected a number");
    }
    p->at = end;
    return 0;
}

static int symbol(Parser *p, uint32_t *out) {
    uint8_t type;
    DynScalar v;
    blanks(p);
    if (p->at[0] == 's') {
        long long i;
        p->at++;
        if (integer(p, &i) < 0) {
            return -1;
        }
        if (i < 0 || i >= p->syms.n) {
            return wrong(p, "no such symbol");
        }
        *out = p->syms.at[i];
        return 0;
    }
    if (number(p, &type, &v) < 0) {
        return -1;
    }
    *out = dyn_sym_constant(p->g->syms, type, v);
    return *out == DYN_NONE ? wrong(p, "memory is out") : 0;
}

/* A source: text up to `end` (a comma or a parenthesis), but not inside brackets or quotes. The same text is the same local. */
static int source(Parser *p, char end, uint32_t *out) {
    blanks(p);
    const char *start = p->at;
    int depth = 0;
    while (*p->at != 0 && *p->at != '\n') {
        if (depth == 0 && *p->at == end) {
            break;
        }
        depth += *p->at == '[' || *p->at == '(';
        depth -= *p->at == ']' || *p->at == ')';
        p->at++;
    }
    PyObject *name = PyUnicode_FromStringAndSize(start, p->at - start);
    *out = DYN_NONE;
    for (uint32_t i = 0; name != NULL && i < p->g->sources->v.n && *out == DYN_NONE; i++) {
        const DynSource *s = &p->g->sources->v.at[i];
        if (s->kind == DYN_SRC_LOCAL && PyUnicode_Compare(s->obj, name) == 0) {
            *out = i;
        }
    }
    if (name != NULL && *out == DYN_NONE) {
        *out = dyn_source_intern(p->g->sources, DYN_SRC_LOCAL, DYN_NONE, p->g->sources->v.n, name, NULL);
    }
    Py_XDECREF(name);
    PyErr_Clear();
    return *out == DYN_NONE ? wrong(p, "memory is out") : 0;
}

static DynSymType type_named(const char *name) {
    if (strcmp(name, "int") == 0) {
        return DYN_T_INT;
    }
    return strcmp(name, "float") == 0 ? DYN_T_FLOAT : DYN_T_BOOL;
}

/* Operators that take symbols; -1 with an error. */
static int sym_operator(Parser *p, const char *name) {
    for (int i = 0; i < DYN_S_COUNT; i++) {
        const char *a = dyn_sym_info[i].name, *b = name;
        while (*a != 0 && (*a == *b || *a + 32 == *b)) {
            a++, b++;
        }
        if (*a == 0 && *b == 0) {
            return i;
        }
    }
    return wrong(p, "no such operator on numbers");
}

/* s2: int = sub(s0, 2) hint 998 */
static int parse_symbol(Parser *p) {
    char type_name[16], op_name[24];
    long long i, axis = 0;
    uint32_t src = DYN_NONE, operands[3] = {DYN_NONE, DYN_NONE, DYN_NONE}, id;
    uint8_t type;
    DynScalar hint;
    const char *body;
    if (integer(p, &i) < 0 || expect(p, ":") < 0 || word(p, type_name, sizeof type_name) < 0) {
        return -1;
    }
    if (expect(p, "=") < 0 || word(p, op_name, sizeof op_name) < 0 || expect(p, "(") < 0) {
        return -1;
    }
    int op = sym_operator(p, op_name);
    body = p->at;
    if (op < 0 || i != p->syms.n) {
        return op < 0 ? -1 : wrong(p, "symbols are not in order");
    }
    long long late[4] = {0};
    for (int k = 0; op == DYN_S_LATE && k < 4; k++) {
        if ((k > 0 && expect(p, ",") < 0) || integer(p, &late[k]) < 0) {
            return -1;
        }
    }
    if (dyn_sym_is_read((DynSymOp)op)) {
        if (source(p, op == DYN_S_VAR ? ')' : ',', &src) < 0) {
            return -1;
        }
        if (dyn_sym_of_axis((DynSymOp)op) && (expect(p, ",") < 0 || integer(p, &axis) < 0)) {
            return -1;
        }
    }
    for (int k = 0; k < dyn_sym_info[op].arity; k++) {
        if ((k > 0 && expect(p, ",") < 0) || symbol(p, &operands[k]) < 0) {
            return -1;
        }
    }
    if (expect(p, ")") < 0 || expect(p, "hint") < 0 || number(p, &type, &hint) < 0) {
        return -1;
    }
    DynSymType named = type_named(type_name);
    if (type != named) {
        return wrong(p, "the hint has another type");
    }
    DynSyms *syms = p->g->syms;
    switch (op) {
    case DYN_S_VAR: id = dyn_sym_var(syms, named, src, hint); break;
    case DYN_S_DIM: id = dyn_sym_dim(syms, src, (int)axis, hint.i); break;
    case DYN_S_STRIDE: id = dyn_sym_stride(syms, src, (int)axis, hint.i); break;
    case DYN_S_LATE:
        id = dyn_sym_late(syms, named, (uint32_t)late[0], (uint32_t)late[1], (uint32_t)late[2], (int)late[3], hint);
        break;
    default: id = dyn_sym_op(syms, (DynSymOp)op, operands[0], operands[1], operands[2]);
    }
    p->at = id == DYN_NONE ? body : p->at;
    return id == DYN_NONE ? wrong(p, "the operation fails on the hints") : dyn_vec_push(&p->syms, id);
}

static int parse_layout(Parser *p, int ndim, DynLayout *out) {
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < DYN_MAX_NDIM; i++) {
        out->perm[i] = (uint8_t)i;
    }
    if (take(p, "C")) {
        return 0;
    }
    if (expect(p, "<") < 0) {
        return -1;
    }
    out->kind = DYN_LAYOUT_STRIDED;
    for (int i = 0; i < ndim; i++) {
        long long axis;
        if (integer(p, &axis) < 0) {
            return -1;
        }
        out->perm[i] = (uint8_t)axis;
    }
    return expect(p, ">");
}

static int parse_operand(Parser *p, DynArg *out) {
    if (take(p, "_")) {
        *out = (DynArg){DYN_ARG_NONE, DYN_NONE};
        return 0;
    }
    if (take(p, "%")) {
        long long i;
        if (integer(p, &i) < 0) {
            return -1;
        }
        *out = (DynArg){DYN_ARG_NODE, (uint32_t)i};
        return 0;
    }
    out->kind = DYN_ARG_SYM;
    return symbol(p, &out->id);
}

typedef struct Line { /* a node being read */
    int ndim, nargs, naux;
    uint32_t shape[DYN_MAX_NDIM];
    DynArg args[64];
    int64_t aux[32];
    DynLayout layout;
    DynDtype dtype, compute;
    uint32_t source;
    uint16_t flags;
} Line;

static int parse_dtype(Parser *p, DynDtype *out) {
    char name[16];
    if (word(p, name, sizeof name) < 0) {
        return -1;
    }
    *out = dyn_dtype_parse(name);
    return *out == DYN_NO_DTYPE ? wrong(p, "no such dtype") : 0;
}

/* dtype[sizes] layout = */
static int parse_type(Parser *p, Line *n) {
    if (parse_dtype(p, &n->dtype) < 0 || expect(p, "[") < 0) {
        return -1;
    }
    n->compute = n->dtype;
    while (!take(p, "]")) {
        if (n->ndim >= DYN_MAX_NDIM) {
            return wrong(p, "too many sizes");
        }
        if ((n->ndim > 0 && expect(p, ",") < 0) || symbol(p, &n->shape[n->ndim++]) < 0) {
            return -1;
        }
    }
    return parse_layout(p, n->ndim, &n->layout) < 0 ? -1 : expect(p, "=");
}

static int parse_operands(Parser *p, DynOp op, Line *n) {
    if (expect(p, "(") < 0) {
        return -1;
    }
    if (op == DYN_OP_INPUT) {
        return source(p, ')', &n->source) < 0 ? -1 : expect(p, ")");
    }
    while (!take(p, ")")) {
        if (n->nargs >= (int)DYN_COUNTOF(n->args)) {
            return wrong(p, "too many operands");
        }
        if ((n->nargs > 0 && expect(p, ",") < 0) || parse_operand(p, &n->args[n->nargs++]) < 0) {
            return -1;
        }
    }
    return 0;
}

static int parse_tail(Parser *p, Line *n) {
    if (take(p, "{")) {
        while (!take(p, "}")) {
            long long v;
            if (n->naux >= (int)DYN_COUNTOF(n->aux)) {
                return wrong(p, "too many numbers");
            }
            if ((n->naux > 0 && expect(p, ",") < 0) || integer(p, &v) < 0) {
                return -1;
            }
            n->aux[n->naux++] = v;
        }
    }
    if (take(p, "compute") && parse_dtype(p, &n->compute) < 0) {
        return -1;
    }
    n->flags |= take(p, "view") ? DYN_NODE_VIEW : 0;
    n->flags |= take(p, "copy") ? DYN_NODE_CONTIG_COPY : 0;
    n->flags |= take(p, "npscalar") ? DYN_NODE_NPSCALAR : 0;
    n->flags |= take(p, "warns") ? DYN_NODE_WARNS : 0;
    n->flags |= take(p, "readonly") ? DYN_NODE_READONLY : 0;
    n->flags |= take(p, "writewarns") ? DYN_NODE_WRITE_WARNS : 0;
    n->flags |= take(p, "object") ? DYN_NODE_OBJECT : 0;
    n->flags |= take(p, "tensor") ? DYN_NODE_TENSOR : 0;
    n->flags |= take(p, "dense") ? DYN_NODE_DENSE : 0;
    n->flags |= take(p, "turned") ? DYN_NODE_TURNED : 0;
    n->flags |= take(p, "ornothing") ? DYN_NODE_OR_NOTHING : 0;
    n->flags |= take(p, "grad") ? DYN_NODE_GRAD : 0;
    n->flags |= take(p, "unfollowed") ? DYN_NODE_UNFOLLOWED : 0;
    return 0;
}

/* %3: f64[s0, 5] C = add(%1, s4) */
static int parse_node(Parser *p) {
    Line l = {.source = DYN_NONE};
    char op_name[24], extern_name[64];
    long long id;
    if (integer(p, &id) < 0 || expect(p, ":") < 0) {
        return -1;
    }
    if (id != p->g->nodes.n) {
        return wrong(p, "nodes are not in order");
    }
    if (parse_type(p, &l) < 0 || word(p, op_name, sizeof op_name) < 0) {
        return -1;
    }
    int op = dyn_op_parse(op_name);
    if (op < 0) {
        return wrong(p, "no such operator");
    }
    blanks(p);
    if (dyn_ops[op].kind == DYN_K_EXTERN && *p->at != '(' && word(p, extern_name, sizeof extern_name) < 0) {
        return -1;
    }
    if (parse_operands(p, (DynOp)op, &l) < 0 || parse_tail(p, &l) < 0) {
        return -1;
    }
    uint32_t node = dyn_graph_add(p->g, (DynOp)op, l.dtype, l.ndim, l.nargs, l.naux);
    if (node == DYN_NONE) {
        return wrong(p, "memory is out");
    }
    DynNode *n = dyn_graph_node(p->g, node);
    memcpy(n->shape, l.shape, sizeof(*l.shape) * (size_t)l.ndim);
    memcpy(n->args, l.args, sizeof(*l.args) * (size_t)l.nargs);
    memcpy(n->aux, l.aux, sizeof(*l.aux) * (size_t)l.naux);
    n->layout = l.layout;
    n->compute = (uint8_t)l.compute;
    n->flags = l.flags;
    n->source = l.source;
    bool shares = (l.flags & DYN_NODE_VIEW) || dyn_ops[op].kind == DYN_K_STORE;
    bool of_node = l.nargs > 0 && l.args[0].kind == DYN_ARG_NODE;
    if (shares && of_node && l.args[0].id < node) {
        n->storage = dyn_graph_node(p->g, l.args[0].id)->storage;
    }
    return op == DYN_OP_INPUT ? dyn_vec_push(&p->g->inputs, node) : 0;
}

static int parse_outputs(Parser *p) {
    for (bool first = true;; first = false) {
        long long i;
        blanks(p);
        if (*p->at == '\n' || *p->at == '#' || *p->at == 0) {
            return 0;
        }
        if (!first && expect(p, ",") < 0) {
            return -1;
        }
        if (expect(p, "%") < 0 || integer(p, &i) < 0 || dyn_vec_push(&p->g->outputs, (uint32_t)i) < 0) {
            return -1;
        }
    }
}

/* "graph step on cuda:0": its name, and where its arrays lie if that isn't this machine's memory. */
static int parse_graph(Parser *p) {
    char name[64];
    long long device = 0;
    if (word(p, name, sizeof name) < 0) {
        return -1;
    }
    p->g->name = dyn_arena_strdup(p->g->arena, name);
    if (take(p, "on cuda:")) {
        if (integer(p, &device) < 0 || device < 0 || device >= DYN_MOST_DEVICES) {
            return wrong(p, "expected the number of a device");
        }
        p->g->device = (uint8_t)(1 + device);
        p->g->cupy = take(p, "of cupy");
    }
    p->g->placed = true;
    return p->g->name == NULL ? wrong(p, "memory is out") : 0;
}

static int parse_line(Parser *p) {
    if (take(p, "graph")) {
        return parse_graph(p);
    }
    if (take(p, "outputs")) {
        return parse_outputs(p);
    }
    if (take(p, "%")) {
        return parse_node(p);
    }
    return take(p, "s") ? parse_symbol(p) : wrong(p, "expected a symbol or a node");
}

/* Is nothing left of the line but a comment? */
static bool is_at_end_of_line(const Parser *p) { return *p->at == '\n' || *p->at == '#' || *p->at == 0; }

int dyn_graph_parse(DynGraph *g, const char *text, DynStr *error) {
    Parser p = {.g = g, .at = text, .error = error};
    int ok = 0;
    while (ok == 0 && *p.at != 0) {
        p.line++;
        blanks(&p);
        if (!is_at_end_of_line(&p)) {
            ok = parse_line(&p);
        }
        blanks(&p);
        if (ok == 0 && !is_at_end_of_line(&p)) {
            ok = wrong(&p, "expected the end of the line");
        }
        p.at += strcspn(p.at, "\n");
        p.at += *p.at == '\n';
    }
    dyn_vec_free(&p.syms);
    return ok;
}

/* ---- for tests */

/* _graph_roundtrip(text) -> text: parsed, verified, printed. ValueError with what is wrong. */
static PyObject *graph_roundtrip(PyObject *module, PyObject *arg) {
    DynArena arena;
    DynSources sources = {0};
    DynSyms syms = {0};
    DynGraph g;
    DynStr out = {0}, error = {0};
    PyObject *result = NULL;
    const char *text = PyUnicode_AsUTF8(arg);
    if (text == NULL) {
        return NULL;
    }
    dyn_arena_init(&arena);
    if (dyn_graph_init(&g, &arena, "", &sources, &syms) < 0) {
        dyn_arena_free(&arena);
        return PyErr_NoMemory();
    }
    if (dyn_graph_parse(&g, text, &error) < 0 || dyn_graph_verify(&g, &error) < 0) {
        PyErr_SetString(PyExc_ValueError, dyn_str_at(&error));
    } else {
        dyn_graph_print(&g, &out);
        result = out.failed ? PyErr_NoMemory() : PyUnicode_FromString(dyn_str_at(&out));
    }
    dyn_str_free(&out);
    dyn_str_free(&error);
    dyn_graph_free(&g);
    dyn_syms_free(&syms);
    dyn_sources_free(&sources);
    dyn_arena_free(&arena);
    return result;
}

/* _op_table() -> [(name, text, arity, kind, dtype, shape, guard, c, deriv, fpe, flags)]: the operator table as tests read
 * it. */
static PyObject *op_table(PyObject *module, PyObject *unused) {
    PyObject *list = PyList_New(DYN_OP_COUNT);
    for (int i = 0; i < DYN_OP_COUNT && list != NULL; i++) {
        const DynOpInfo *o = &dyn_ops[i];
        PyObject *row = Py_BuildValue("(ssiiiiiszsI)", o->name, o->text, (int)o->arity, (int)o->kind, (int)o->dtype,
                                      (int)o->shape, (int)o->guard, o->c, o->deriv, o->fpe, (unsigned)o->flags);
        if (row == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, i, row);
        }
    }
    return list;
}

/* _op_helpers() -> {name: (needs, text)}: the functions that C expressions call. */
static PyObject *op_helpers(PyObject *module, PyObject *unused) {
    PyObject *d = PyDict_New();
    for (const DynOpHelper *h = dyn_op_helpers; h->name != NULL && d != NULL; h++) {
        PyObject *row = Py_BuildValue("(ss)", h->needs, h->text);
        if (row == NULL || PyDict_SetItemString(d, h->name, row) < 0) {
            Py_CLEAR(d);
        }
        Py_XDECREF(row);
    }
    return d;
}

static PyMethodDef functions[] = {{"_graph_roundtrip", graph_roundtrip, METH_O, "Parse, verify and print a graph (tests)."},
                                  {"_op_table", op_table, METH_NOARGS, "The operator table (tests)."},
                                  {"_op_helpers", op_helpers, METH_NOARGS, "C functions of the operator table (tests)."},
                                  {NULL, NULL, 0, NULL}};

int dyn_graph_init_module(PyObject *module) { return PyModule_AddFunctions(module, functions); }
