/* graph_python.c: a graph as a Python program: one line of NumPy a node, and below it what runs it on random inputs of the
 * recorded shapes. It is `graph.py` of the debug folder.
 *
 * Called by evalframe/compile.c with the GIL; nothing that runs depends on it. Owns nothing. What each operator means in NumPy's
 * words is interp.c's too. Calls that can't be written (of what is not NumPy's own, or with objects that have no text)
 * are stood for by random arrays of the recorded shape, and say so. */
#include "ir/graph_python.h"

static void put_node(const DynPythonWriter *w, DynStr *out, uint32_t id) { dyn_str_puts(out, dyn_str_at(node_name(w, id))); }

/* ---- names: those of arguments where they have one, else v3 for a node, s3 for a symbol */

static bool is_taken(const DynPythonWriter *w, const char *name) {
    static const char *const own[] = {"np", "math", "random", "cut", "slice_start", "slice_stop", "slice_len", "same_bits"};
    bool taken = strchr("vsr", name[0]) != NULL && strspn(name + 1, "0123456789") == strlen(name + 1);
    for (size_t i = 0; i < DYN_COUNTOF(own); i++) {
        taken = taken || strcmp(own[i], name) == 0;
    }
    for (uint32_t i = 0; i < w->g->nodes.n + w->g->syms->v.n; i++) {
        taken = taken || strcmp(dyn_str_at(&w->names[i]), name) == 0;
    }
    return taken;
}

static void name_it(const DynPythonWriter *w, DynStr *name, uint32_t source, char letter, uint32_t id) {
    DynStr text = {0};
    if (source != DYN_NONE) {
        dyn_source_print(w->g->sources, source, &text);
    }
    PyObject *s = PyUnicode_FromString(dyn_str_at(&text));
    if (s != NULL && PyUnicode_IsIdentifier(s) == 1 && !is_taken(w, dyn_str_at(&text))) {
        dyn_str_puts(name, dyn_str_at(&text));
    } else {
        dyn_str_printf(name, "%c%u", letter, id);
    }
    PyErr_Clear();
    Py_XDECREF(s);
    dyn_str_free(&text);
}

/* The input whose source it is, or DYN_NONE. */
static uint32_t find_input(const DynGraph *g, uint32_t source) {
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        if (g->nodes.at[g->inputs.at[i]].source == source) {
            return g->inputs.at[i];
        }
    }
    return DYN_NONE;
}

/* Is it a number that is handed in? */
static bool is_parameter(const DynGraph *g, const DynSym *s) {
    return s->op == DYN_S_VAR || (dyn_sym_of_axis((DynSymOp)s->op) && find_input(g, s->a) == DYN_NONE);
}

/* Marks what nodes need of the symbols, then what those need: rows come after their operands. */
static void name_all(const DynPythonWriter *w) {
    const DynGraph *g = w->g;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = &g->nodes.at[i];
        name_it(w, node_name(w, i), dyn_ops[n->op].kind == DYN_K_INPUT ? n->source : DYN_NONE, 'v', i);
    }
    bool *needed = PyMem_RawCalloc(g->syms->v.n + 1, sizeof(*needed));
    for (uint32_t i = 0; needed != NULL && i < g->nodes.n; i++) {
        const DynNode *n = &g->nodes.at[i];
        for (int k = 0; k < n->ndim; k++) {
            needed[n->shape[k]] = true;
        }
        for (int k = 0; k < n->nargs; k++) {
            if (n->args[k].kind == DYN_ARG_SYM) {
                needed[n->args[k].id] = true;
            }
        }
    }
    for (uint32_t i = g->syms->v.n; needed != NULL && i-- > 0;) {
        const DynSym *s = dyn_sym_at(g->syms, i);
        const uint32_t operands[3] = {s->a, s->b, s->c};
        for (int k = 0; needed[i] && k < dyn_sym_info[s->op].arity; k++) {
            needed[operands[k]] = true;
        }
    }
    for (uint32_t i = 0; needed != NULL && i < g->syms->v.n; i++) {
        const DynSym *s = dyn_sym_at(g->syms, i);
        if (needed[i] && s->op == DYN_S_CONST) {
            dyn_sym_print_value((DynSymType)s->type, s->value, sym_name(w, i));
        } else if (needed[i]) {
            name_it(w, sym_name(w, i), s->op == DYN_S_VAR ? s->a : DYN_NONE, 's', i);
        }
    }
    PyMem_RawFree(needed);
}

/* ---- pieces of expressions */

static void put_sym(const DynPythonWriter *w, DynStr *out, uint32_t id) { dyn_str_puts(out, dyn_str_at(sym_name(w, id))); }

void dyn_python_put_dtype(DynStr *out, uint8_t dtype) {
    const DynDtypeInfo *t = &dyn_dtypes[dtype];
    if (t->kind == 'b') {
        dyn_str_puts(out, "\"?\"");
    } else {
        dyn_str_printf(out, "\"%c%d\"", t->kind, t->size);
    }
}

/* What stands behind item i of a tuple of n. */
const char *dyn_python_behind_item(int i, int n) {
    if (i + 1 < n) {
        return ", ";
    }
    return n == 1 ? "," : "";
}

static void put_shape(const DynPythonWriter *w, DynStr *out, const DynNode *n) {
    dyn_str_putc(out, '(');
    for (int i = 0; i < n->ndim; i++) {
        put_sym(w, out, n->shape[i]);
        dyn_str_puts(out, dyn_python_behind_item(i, n->ndim));
    }
    dyn_str_putc(out, ')');
}

static void put_cast(DynStr *out, uint8_t dtype) {
    dyn_str_puts(out, ".astype(");
    dyn_python_put_dtype(out, dtype);
    dyn_str_putc(out, ')');
}

/* An operand in the dtype in which it is computed. weak: a Python number takes the dtype of the arrays beside it. */
static void put_operand(const DynPythonWriter *w, DynStr *out, DynArg arg, uint8_t dtype, bool weak) {
    if (arg.kind == DYN_ARG_NODE) {
        put_node(w, out, arg.id);
        if (dyn_graph_node(w->g, arg.id)->dtype != dtype) {
            put_cast(out, dtype);
        }
        return;
    }
    dyn_str_puts(out, weak ? "" : "np.asarray(");
    put_sym(w, out, arg.id);
    dyn_str_puts(out, weak ? "" : ")");
    if (!weak) {
        put_cast(out, dtype);
    }
}

static const char *order_of(const DynNode *n) {
    bool fortran = n->layout.kind != DYN_LAYOUT_C && n->ndim > 1;
    for (int i = 0; fortran && i < n->ndim; i++) {
        fortran = n->layout.perm[i] == n->ndim - 1 - i;
    }
    return fortran ? ", order=\"F\"" : "";
}

/* Where NumPy's result may have another dtype: what is computed in another one, and sums of short integers, which it widens. */
static void put_result_cast(const DynPythonWriter *w, const DynNode *n) {
    const DynDtypeInfo *t = &dyn_dtypes[n->dtype];
    bool whole = t->kind == 'i' || t->kind == 'u';
    if (whole ? t->size < 8 : n->dtype != n->compute) {
        put_cast(w->out, n->dtype);
    }
}

void dyn_python_put_comment(const DynPythonWriter *w, const DynNode *n) {
    const DynGraph *g = w->g;
    dyn_str_printf(w->out, "  # %s[", dyn_dtypes[n->dtype].name);
    for (int i = 0; i < n->ndim; i++) {
        dyn_str_puts(w->out, i ? ", " : "");
        put_sym(w, w->out, n->shape[i]);
    }
    dyn_str_putc(w->out, ']');
    const char *file = dyn_graph_file_of(g, n);
    if (file != NULL) {
        dyn_str_printf(w->out, ", %s:%d", file, (int)n->line);
    }
    dyn_str_putc(w->out, '\n');
}

/* ---- one operator each */

static void put_elementwise(const DynPythonWriter *w, const DynNode *n) {
    const DynOpInfo *op = &dyn_ops[n->op];
    int which, arrays = 0;
    dyn_str_printf(w->out, "%s.%s(", op->flags & DYN_OPF_OURS ? "_reference" : "np", dyn_op_function((DynOp)n->op, &which));
    for (int i = 0; i < n->nargs; i++) {
        arrays += n->args[i].kind == DYN_ARG_NODE && !(op->dtype == DYN_DT_WHERE && i == 0);
    }
    for (int i = 0; i < n->nargs; i++) {
        bool truth = op->dtype == DYN_DT_LOGICAL || (op->dtype == DYN_DT_WHERE && i == 0);
        bool whole = n->op == DYN_OP_LDEXP && i == 1;
        dyn_str_puts(w->out, i > 0 ? ", " : "");
        uint8_t dtype = n->compute;
        if (truth || whole) {
            dtype = truth ? DYN_BOOL : DYN_I64;
        }
        put_operand(w, w->out, n->args[i], dtype, arrays > 0 && !truth && !whole);
    }
    dyn_str_putc(w->out, ')');
    if (which >= 0) {
        dyn_str_printf(w->out, "[%d]", which);
    }
    if (n->dtype != n->compute && n->dtype != DYN_BOOL) {
        put_cast(w->out, n->dtype);
    }
}

/* What a MAX or MIN of nothing gives. */
static void put_identity(const DynPythonWriter *w, const DynNode *n) {
    char kind = dyn_dtypes[n->compute].kind;
    bool high = n->op == DYN_OP_MIN;
    const char *infinity = high ? "np.inf" : "-np.inf";
    dyn_str_puts(w->out, ", initial=");
    if (kind == 'i' || kind == 'u') {
        dyn_str_puts(w->out, "np.iinfo(");
        dyn_python_put_dtype(w->out, n->compute);
        dyn_str_puts(w->out, high ? ").max" : ").min");
    } else if (kind == 'c') {
        dyn_str_printf(w->out, "complex(%s, %s)", infinity, infinity);
    } else {
        dyn_str_puts(w->out, infinity);
    }
}

static void put_reduce(const DynPythonWriter *w, const DynNode *n) {
    dyn_str_printf(w->out, "np.%s(", dyn_ops[n->op].text);
    put_operand(w, w->out, n->args[0], n->compute, false);
    for (int i = 1; i < n->naux; i++) {
        dyn_str_printf(w->out, i > 1 ? ", %lld" : ", axis=(%lld", (long long)n->aux[i]);
    }
    if (n->naux > 1) {
        dyn_str_puts(w->out, n->naux == 2 ? ",)" : ")");
    }
    if (n->flags & DYN_NODE_OR_NOTHING) {
        put_identity(w, n);
    }
    dyn_str_puts(w->out, n->aux[0] ? ", keepdims=True)" : ")");
    put_result_cast(w, n);
}

static void put_scan(const DynPythonWriter *w, const DynNode *n) {
    static const char *const names[] = {"add", "multiply", "maximum", "minimum", "argmax", "argmin"};
    bool position = n->op == DYN_OP_ARGMAX || n->op == DYN_OP_ARGMIN, flat = n->aux[0] < 0;
    dyn_str_printf(w->out, "np.%s%s(", names[n->op - DYN_OP_CUMSUM], position ? "" : ".accumulate");
    put_operand(w, w->out, n->args[0], n->compute, false);
    if (!flat) {
        dyn_str_printf(w->out, ", axis=%lld", (long long)n->aux[0]);
    } else if (!position) {
        dyn_str_puts(w->out, ".ravel(), axis=0");
    }
    dyn_str_puts(w->out, position && n->aux[1] ? ", keepdims=True)" : ")");
    put_result_cast(w, n);
}

static void put_slice_item(const DynPythonWriter *w, const DynArg *arg) {
    const DynSym *step = dyn_sym_at(w->g->syms, arg[2].id), *start = dyn_sym_at(w->g->syms, arg[0].id);
    if (step->op == DYN_S_CONST && step->value.i > 0) {
        if (start->op != DYN_S_CONST || start->value.i != 0) {
            put_sym(w, w->out, arg[0].id);
        }
        dyn_str_putc(w->out, ':');
        put_sym(w, w->out, arg[1].id);
        if (step->value.i != 1) {
            dyn_str_putc(w->out, ':');
            put_sym(w, w->out, arg[2].id);
        }
        return;
    }
    for (int i = 0; i < 3; i++) {
        dyn_str_puts(w->out, i ? ", " : "cut(");
        put_sym(w, w->out, arg[i].id);
    }
    dyn_str_putc(w->out, ')');
}

static void put_slice(const DynPythonWriter *w, const DynNode *n) {
    uint32_t arg = 1;
    put_node(w, w->out, n->args[0].id);
    dyn_str_putc(w->out, '[');
    for (int i = 0; i < n->naux; i++) {
        dyn_str_puts(w->out, i ? ", " : "");
        if (n->aux[i] == 0) {
            put_slice_item(w, &n->args[arg]);
        } else if (n->aux[i] == 1) {
            put_sym(w, w->out, n->args[arg].id);
        } else {
            dyn_str_puts(w->out, "None");
        }
        arg += n->aux[i] == 0 ? 3 : n->aux[i] == 1;
    }
    if (n->naux == 0) {
        dyn_str_puts(w->out, "...");
    } else if (n->ndim == 0 && !(n->flags & DYN_NODE_NPSCALAR)) {
        dyn_str_puts(w->out, ", ...");
    }
    dyn_str_putc(w->out, ']');
}

/* A view by its strides, which are sums of the base's. */
static void put_affine(const DynPythonWriter *w, const DynNode *n) {
    const DynNode *base = dyn_graph_node(w->g, n->args[0].id);
    dyn_str_puts(w->out, "np.lib.stride_tricks.as_strided(");
    put_node(w, w->out, n->args[0].id);
    for (int k = 0; k < base->ndim; k++) {
        dyn_str_puts(w->out, k ? ", " : "[");
        put_sym(w, w->out, n->args[1 + k].id);
        dyn_str_putc(w->out, ':');
    }
    dyn_str_puts(w->out, base->ndim ? "], " : ", ");
    put_shape(w, w->out, n);
    dyn_str_puts(w->out, ", (");
    for (int i = 0; i < n->ndim; i++) {
        bool any = false;
        for (int k = 0; k < base->ndim; k++) {
            long long step = n->aux[k * n->ndim + i];
            if (step != 0) {
                dyn_str_printf(w->out, any ? " + %lld * " : "%lld * ", step);
                put_node(w, w->out, n->args[0].id);
                dyn_str_printf(w->out, ".strides[%d]", k);
                any = true;
            }
        }
        dyn_str_puts(w->out, any ? ", " : "0, ");
    }
    dyn_str_puts(w->out, "))");
}

/* The method that makes a view, with its parenthesis where it is called. */
static const char *method_of_view(const DynNode *n) {
    switch (n->op) {
    case DYN_OP_PERMUTE: return "transpose(";
    case DYN_OP_AS_DTYPE: return "view(";
    default: return dyn_ops[n->op].text;
    }
}

static void put_view(const DynPythonWriter *w, const DynNode *n) {
    if (n->op == DYN_OP_SLICE) {
        put_slice(w, n);
    } else if (n->op == DYN_OP_AFFINE) {
        put_affine(w, n);
    } else if (n->op == DYN_OP_BROADCAST) {
        dyn_str_puts(w->out, "np.broadcast_to(");
        put_node(w, w->out, n->args[0].id);
        dyn_str_puts(w->out, ", ");
        put_shape(w, w->out, n);
        dyn_str_putc(w->out, ')');
    } else {
        put_node(w, w->out, n->args[0].id);
        dyn_str_printf(w->out, ".%s", method_of_view(n));
        for (int i = 0; n->op == DYN_OP_PERMUTE && i < n->naux; i++) {
            dyn_str_printf(w->out, i ? ", %lld" : "%lld", (long long)n->aux[i]);
        }
        if (n->op == DYN_OP_AS_DTYPE) {
            dyn_python_put_dtype(w->out, n->dtype);
        }
        if (n->op == DYN_OP_RESHAPE) {
            dyn_str_putc(w->out, '(');
            put_shape(w, w->out, n);
        }
        dyn_str_puts(w->out, n->op == DYN_OP_REAL || n->op == DYN_OP_IMAG ? "" : ")");
        dyn_str_puts(w->out, n->op == DYN_OP_RESHAPE && !(n->flags & DYN_NODE_VIEW) ? ".copy()" : "");
    }
}

static void put_create(const DynPythonWriter *w, const DynNode *n) {
    bool filled = n->nargs > 0 && n->args[0].kind == DYN_ARG_SYM;
    if (n->op == DYN_OP_IOTA) {
        dyn_str_puts(w->out, "np.arange(");
        put_sym(w, w->out, n->shape[0]);
    } else {
        dyn_str_puts(w->out, filled ? "np.full(" : "np.empty(");
        put_shape(w, w->out, n);
    }
    for (int i = 0; filled && i < n->nargs; i++) {
        dyn_str_puts(w->out, i == 0 && n->op == DYN_OP_COMPLEX ? ", complex(" : ", ");
        put_sym(w, w->out, n->args[i].id);
    }
    dyn_str_puts(w->out, filled && n->op == DYN_OP_COMPLEX ? "), " : ", ");
    dyn_str_puts(w->out, n->op == DYN_OP_IOTA ? "dtype=" : "");
    dyn_python_put_dtype(w->out, n->dtype);
    dyn_str_printf(w->out, "%s)", n->op == DYN_OP_IOTA ? "" : order_of(n));
}

static void put_copy(const DynPythonWriter *w, const DynNode *n) {
    const DynNode *from = dyn_graph_node(w->g, n->args[0].id);
    bool same = from->ndim == n->ndim;
    for (int i = 0; same && i < n->ndim; i++) {
        same = from->shape[i] == n->shape[i];
    }
    dyn_str_puts(w->out, same ? "np.array(" : "np.array(np.broadcast_to(");
    put_node(w, w->out, n->args[0].id);
    dyn_str_puts(w->out, ", ");
    if (!same) {
        put_shape(w, w->out, n);
        dyn_str_puts(w->out, "), ");
    }
    dyn_python_put_dtype(w->out, n->dtype);
    dyn_str_printf(w->out, "%s)", order_of(n));
}

static void put_gather(const DynPythonWriter *w, const DynNode *n) {
    if (n->layout.kind != DYN_LAYOUT_C || n->flags & DYN_NODE_TURNED) { /* np.take lays it out in another way */
        put_node(w, w->out, n->args[0].id);
        dyn_str_puts(w->out, "[");
        for (int i = 0; i < n->aux[0]; i++) {
            dyn_str_puts(w->out, ":, ");
        }
        put_node(w, w->out, n->args[1].id);
        dyn_str_puts(w->out, "]");
        return;
    }
    dyn_str_puts(w->out, "np.take(");
    put_node(w, w->out, n->args[0].id);
    dyn_str_puts(w->out, ", ");
    put_node(w, w->out, n->args[1].id);
    dyn_str_printf(w->out, ", axis=%lld)", (long long)n->aux[0]);
}

static void put_histogram(const DynPythonWriter *w, const DynNode *n) {
    const char *edges = dyn_str_at(node_name(w, n->args[1].id));
    dyn_str_puts(w->out, "np.histogram(");
    put_node(w, w->out, n->args[0].id);
    dyn_str_puts(w->out, ", ");
    put_sym(w, w->out, n->shape[0]);
    dyn_str_printf(w->out, ", (%s[0], %s[-1]))[0]", edges, edges);
}

static void put_store(const DynPythonWriter *w, const DynNode *n) {
    int which;
    bool at = n->op == DYN_OP_SCATTER && n->aux[0] >= 0, places = n->op == DYN_OP_SCATTER;
    dyn_str_puts(w->out, "    ");
    if (at) {
        dyn_str_printf(w->out, "np.%s.at(", dyn_op_function((DynOp)n->aux[0], &which));
    }
    put_node(w, w->out, n->args[0].id);
    dyn_str_puts(w->out, at ? ", " : "[");
    if (places) {
        put_node(w, w->out, n->args[2].id);
    } else {
        dyn_str_puts(w->out, "...");
    }
    dyn_str_puts(w->out, at ? ", " : "] = ");
    put_operand(w, w->out, n->args[1], dyn_graph_node(w->g, n->args[0].id)->dtype, true);
    dyn_str_puts(w->out, at ? ")" : "");
}

/* ---- symbols */

static void put_formula(const DynPythonWriter *w, const DynSym *s) {
    for (const char *c = dyn_sym_info[s->op].text; *c != 0; c++) {
        if (*c == '{') {
            put_sym(w, w->out, dyn_sym_operand(s, c[1] - 'a'));
            c += 2;
        } else {
            dyn_str_putc(w->out, *c);
        }
    }
}

/* Those that are known from this point on. */
static void put_symbols(const DynPythonWriter *w, uint32_t after) {
    const DynGraph *g = w->g;
    for (uint32_t i = 0; i < g->syms->v.n; i++) {
        const DynSym *s = dyn_sym_at(g->syms, i);
        bool number = s->op == DYN_S_LATE && s->b != DYN_LATE_SIZE;
        bool computed = s->op != DYN_S_CONST && !is_parameter(g, s);
        if (!computed || sym_name(w, i)->n == 0 || s->after != after) {
            continue;
        }
        dyn_str_printf(w->out, "    %s = ", dyn_str_at(sym_name(w, i)));
        if (dyn_sym_of_axis((DynSymOp)s->op)) {
            dyn_str_printf(w->out, "%s.%s[%u]", dyn_str_at(node_name(w, find_input(g, s->a))),
                           s->op == DYN_S_DIM ? "shape" : "strides", s->index);
        } else if (number) { /* given with the arrays; what stands for them has none */
            dyn_str_printf(w->out, "locals().get(\"%s\", ", dyn_str_at(sym_name(w, i)));
        } else if (s->op == DYN_S_LATE) {
            dyn_str_printf(w->out, "np.shape(%s)[%u]", dyn_str_at(node_name(w, s->a)), s->index);
        } else {
            put_formula(w, s);
        }
        if (number) {
            dyn_sym_print_value((DynSymType)s->type, s->hint, w->out);
            dyn_str_putc(w->out, ')');
        }
        dyn_str_putc(w->out, '\n');
    }
}

/* ---- nodes, one a line */

static void put_line(const DynPythonWriter *w, uint32_t id) {
    const DynNode *n = dyn_graph_node(w->g, id);
    DynOpKind kind = (DynOpKind)dyn_ops[n->op].kind;
    if (kind == DYN_K_INPUT || kind == DYN_K_RESULT) {
        return;
    }
    if (kind == DYN_K_EXTERN) {
        dyn_python_put_extern(w, id);
        put_symbols(w, id + 1);
        return;
    }
    if (kind == DYN_K_STORE) {
        put_store(w, n);
        dyn_python_put_comment(w, n);
        return;
    }
    dyn_str_printf(w->out, "    %s = ", dyn_str_at(node_name(w, id)));
    switch (kind) {
    case DYN_K_ELEMENTWISE: put_elementwise(w, n); break;
    case DYN_K_REDUCE: put_reduce(w, n); break;
    case DYN_K_SCAN:
        if (n->op == DYN_OP_HISTOGRAM) {
            put_histogram(w, n);
        } else {
            put_scan(w, n);
        }
        break;
    case DYN_K_GATHER: put_gather(w, n); break;
    case DYN_K_VIEW: put_view(w, n); break;
    case DYN_K_CREATE: put_create(w, n); break;
    default: put_copy(w, n);
    }
    dyn_python_put_comment(w, n);
}

/* ---- the file */

static const char heading[] =
    "import math\n\nimport numpy as np\n\n\n"
    "def random(shape, dtype, *axes):\n"
    "    \"\"\"Numbers around 1, of integers and truth 0 and 1; axes: in the order of memory, if that isn't C's.\"\"\"\n"
    "    kind = np.dtype(dtype).kind\n"
    "    x = rng.random([shape[a] for a in axes or range(len(shape))]) + 0.5\n"
    "    x = np.asarray(x + 1j * x[::-1] if kind == \"c\" and x.ndim else x // 1 if kind in \"biu\" else x)\n"
    "    return x.astype(dtype).transpose(np.argsort(axes) if axes else range(len(shape)))\n";
static const struct Helper {
    const char *name, *text;
} helpers[] = {
    {"_reference.", "from dynoc import _reference\n"},
    {"cut(", "def cut(start, stop, step):\n    return slice(start, None if stop < 0 else stop, step)\n"},
    {"slice_start(", "def slice_start(start, length, step):\n    return slice(start, None, step).indices(length)[0]\n"},
    {"slice_stop(", "def slice_stop(stop, length, step):\n    return slice(None, stop, step).indices(length)[1]\n"},
    {"slice_len(", "def slice_len(start, stop, step):\n    return len(range(start, stop, step))\n"},
    {"same_bits(", "def same_bits(a, b):\n    return repr(a) == repr(b)\n"}};

/* Arrays first, then numbers with the values that they had. */
static void put_function(const DynPythonWriter *w) {
    const DynGraph *g = w->g;
    const char *comma = "";
    dyn_str_puts(w->out, "def graph(");
    for (uint32_t i = 0; i < g->inputs.n; i++, comma = ", ") {
        dyn_str_printf(w->out, "%s%s", comma, dyn_str_at(node_name(w, g->inputs.at[i])));
    }
    for (uint32_t i = 0; i < g->syms->v.n; i++) {
        const DynSym *s = dyn_sym_at(g->syms, i);
        if (sym_name(w, i)->n > 0 && s->op != DYN_S_CONST && is_parameter(g, s)) {
            dyn_str_printf(w->out, "%s%s=", comma, dyn_str_at(sym_name(w, i)));
            dyn_sym_print_value((DynSymType)s->type, s->hint, w->out);
            comma = ", ";
        }
    }
    dyn_str_puts(w->out, "):\n");
    put_symbols(w, 0);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        put_line(w, i);
    }
    dyn_str_puts(w->out, "    return [");
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        dyn_str_printf(w->out, "%s%s", i ? ", " : "", dyn_str_at(node_name(w, g->outputs.at[i])));
    }
    dyn_str_puts(w->out, "]\n");
}

static void put_main(const DynPythonWriter *w) {
    const DynGraph *g = w->g;
    dyn_str_puts(w->out, "\n\nif __name__ == \"__main__\":\n    rng = np.random.default_rng(0)\n    results = graph(\n");
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        const DynNode *n = dyn_graph_node(g, g->inputs.at[i]);
        dyn_str_puts(w->out, "        ");
        dyn_python_put_random(w, n);
        dyn_str_puts(w->out, ",  # ");
        dyn_source_print(g->sources, n->source, w->out);
        dyn_str_putc(w->out, '\n');
    }
    dyn_str_puts(w->out, "    )\n    for name, result in zip([");
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        dyn_str_printf(w->out, "%s\"%s\"", i ? ", " : "", dyn_str_at(node_name(w, g->outputs.at[i])));
    }
    dyn_str_puts(w->out, "], results, strict=True):\n        print(name, np.asarray(result).dtype, np.shape(result))\n");
}

void dyn_graph_print_python(const DynGraph *g, DynStr *out) {
    DynStr body = {0};
    uint32_t n = g->nodes.n + g->syms->v.n;
    DynPythonWriter w = {.g = g, .out = &body, .names = PyMem_RawCalloc(n + 1, sizeof(DynStr))};
    if (w.names == NULL) {
        return;
    }
    name_all(&w);
    put_function(&w);
    put_main(&w);
    dyn_str_printf(out,
                   "\"\"\"The graph of %s, a line of NumPy for each node. Run by itself it takes random inputs of the shapes "
                   "that were recorded.\"\"\"\n\n%s",
                   g->name, heading);
    for (size_t i = 0; i < DYN_COUNTOF(helpers); i++) {
        if (strstr(dyn_str_at(&body), helpers[i].name) != NULL) {
            dyn_str_printf(out, "\n\n%s", helpers[i].text);
        }
    }
    dyn_str_printf(out, "\n\n%s", dyn_str_at(&body));
    for (uint32_t i = 0; i < n; i++) {
        dyn_str_free(&w.names[i]);
    }
    PyMem_RawFree(w.names);
    dyn_str_free(&body);
}
