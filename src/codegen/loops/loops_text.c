/* loops_text.c: the text form of loop IR, for logs, debug folders and tests/ir, and its parser.
 *
 *     place %3 temp slot 0
 *     view %1
 *     kernel (s0, s1) reduced 2 group 0 outer 1
 *       in 0: %0 f64 [0 1]
 *       in 1: %0 f64 [0+1 1+0]                 (a window: from 1 on along axis 0)
 *       in 2: %5 f64 [- 1] along 0 by 3        (where operand 3, an array of integers, says along axis 0)
 *       out 1: %3 f64 [0 -]
 *       param 0: $5 f64
 *       v0 = load 0 : f64
 *       v1 = scalar 0 : f64
 *       v2 = multiply v0 v1 : f64
 *       reduce sum 1 v2 in f64
 *     kernel ($0 $1) reduced 0 outside 1:$2 0:$1     (runs where axis 0 is below 1, or at 1 + $2 and above)
 *     kernel ($0 $3) reduced 0 group 0 outer 1 across (one element in a row: rows are lanes)
 *     kernel ($0 $1) reduced 2 like %4         (floats are added in NumPy's order, which eager's array of node 4 gives)
 *     kernel ($0 $1) reduced 0 chain 1         (with other steps of chain 1, a block of rows at a time)
 *     extern %4 chain 1
 *     kernel ($0 $1) reduced 1 pair 1          (with the other reduction of pair 1, a piece of memory at a time)
 *     scan %5
 *     check %6                                 (are the places of gather %6 all there?)
 *
 * %n is place n (of node n, or behind the nodes a temporary), $n symbol n of the graph. A kernel's sizes are symbols too; what
 * stands behind # is for people. Parsing gives kernels and steps back over the same graph. */
#include "codegen/loops/loops.h"
#include <stdio.h>
#include <stdlib.h>

static const char *const place_kinds[] = {"none", "input", "array", "temp", "row", "extern", "view", "dense", "count"};
static const char *const step_names[] = {[DYN_STEP_VIEW] = "view",
                                         [DYN_STEP_KERNEL] = "kernel",
                                         [DYN_STEP_EXTERN] = "extern",
                                         [DYN_STEP_SCAN] = "scan",
                                         [DYN_STEP_CHECK] = "check"};

/* ---- printing */

static void print_kernel(const DynLoops *p, const DynKernel *k, const DynStep *step, DynStr *out) {
    dyn_str_puts(out, "kernel (");
    for (int d = 0; d < k->ndim; d++) {
        dyn_str_printf(out, "%s$%u", d ? " " : "", k->shape[d]);
    }
    dyn_str_printf(out, ") reduced %u", k->reduced);
    if (k->ordered) {
        dyn_str_printf(out, " like %%%u", k->like);
    }
    if (k->group != DYN_NONE) {
        dyn_str_printf(out, " group %u outer %u%s", k->group, k->outer, k->across ? " across" : "");
    }
    for (int d = 0; d < k->ndim && k->margin; d++) {
        dyn_str_printf(out, "%s %d:$%u", d ? "" : " outside", k->box_at[d], k->box_shape[d]);
    }
    if (step->chain) {
        dyn_str_printf(out, " chain %u", step->chain);
    }
    dyn_str_printf(out, step->pair ? " pair %u  #" : "  #", step->pair);
    for (int d = 0; d < k->ndim; d++) {
        dyn_str_puts(out, d ? " x " : " ");
        dyn_sym_print(p->graph->syms, p->graph->sources, k->shape[d], out);
    }
    dyn_str_puts(out, "\n");
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        dyn_str_printf(out, "  %s %u: %%%u %s [", o->out ? "out" : "in", i, o->place, dyn_dtypes[o->dtype].name);
        for (int d = 0; d < k->ndim; d++) {
            dyn_str_puts(out, d > 0 ? " " : "");
            if (o->axis[d] < 0) {
                dyn_str_putc(out, '-');
            } else {
                dyn_str_printf(out, "%d", o->axis[d]);
            }
            if (o->window) {
                dyn_str_printf(out, "+%d", o->at[d]);
            }
        }
        dyn_str_puts(out, "]");
        if (o->indirect) {
            dyn_str_printf(out, " along %u by %u", o->along, o->by);
        }
        dyn_str_puts(out, "\n");
    }
    for (uint32_t i = 0; i < k->params.n; i++) {
        dyn_str_printf(out, "  param %u: $%u %s\n", i, k->params.at[i].sym, dyn_dtypes[k->params.at[i].dtype].name);
    }
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const DynInsn *n = &k->insns.at[i];
        const char *dtype = dyn_dtypes[n->dtype].name, *compute = dyn_dtypes[n->compute].name;
        switch (n->kind) {
        case DYN_L_LOAD:
        case DYN_L_SCALAR:
            dyn_str_printf(out, "  v%u = %s %u : %s\n", i, n->kind == DYN_L_LOAD ? "load" : "scalar", n->a[0], dtype);
            break;
        case DYN_L_STORE: dyn_str_printf(out, "  store %u v%u\n", n->a[0], n->a[1]); break;
        case DYN_L_REDUCE:
            dyn_str_printf(out, "  reduce %s %u v%u in %s\n", dyn_ops[n->op].text, n->a[0], n->a[1], compute);
            break;
        default:
            dyn_str_printf(out, "  v%u = %s", i, n->kind == DYN_L_CAST ? "cast" : dyn_ops[n->op].text);
            for (int a = 0; a < n->nargs; a++) {
                dyn_str_printf(out, " v%u", n->a[a]);
            }
            dyn_str_printf(out, " : %s", dtype);
            dyn_str_printf(out, n->kind == DYN_L_OP && n->compute != n->dtype ? " in %s\n" : "\n", compute);
        }
    }
}

void dyn_loops_print(const DynLoops *p, DynStr *out) {
    for (uint32_t i = 0; i < p->nplaces; i++) {
        const DynMem *m = &p->places[i];
        if (m->kind != DYN_P_NONE && m->kind != DYN_P_INPUT && m->kind != DYN_P_VIEW) {
            dyn_str_printf(out, "place %%%u %s", i, place_kinds[m->kind]);
            dyn_str_printf(out, m->slot != DYN_NONE ? " slot %u\n" : "\n", m->slot);
        }
    }
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const DynStep *step = &p->steps.at[s];
        if (step->kind == DYN_STEP_KERNEL) {
            print_kernel(p, &p->kernels.at[step->id], step, out);
        } else {
            dyn_str_printf(out, step->chain ? "%s %%%u chain %u\n" : "%s %%%u\n", step_names[step->kind], step->id, step->chain);
        }
    }
}

/* ---- parsing */

typedef struct Parser {
    DynLoops *p;
    DynKernel *k; /* that the indented lines belong to */
    DynStr *error;
    int line;
} Parser;

static int wrong(Parser *x, const char *what) {
    dyn_str_printf(x->error, "line %d: %s", x->line, what);
    return -1;
}

static int parse_place(Parser *x, const char *text) {
    unsigned id, slot;
    char kind[16];
    int n = sscanf(text, "place %%%u %15s slot %u", &id, kind, &slot);
    if (n < 2 || id >= x->p->cap_places) {
        return wrong(x, "place %number kind");
    }
    for (size_t i = 0; i < DYN_COUNTOF(place_kinds); i++) {
        if (!strcmp(kind, place_kinds[i])) {
            x->p->nplaces = id >= x->p->nplaces ? id + 1 : x->p->nplaces;
            x->p->places[id].kind = (uint8_t)i;
            x->p->places[id].slot = n == 3 ? slot : DYN_NONE;
            return 0;
        }
    }
    return wrong(x, "no such kind of place");
}

/* The number behind a word, 0 without; `most` is the largest so far. */
static uint32_t parse_number(const char *text, const char *word, uint32_t *most) {
    const char *at = strstr(text, word);
    uint32_t n = at == NULL ? 0 : (uint32_t)strtoul(at + strlen(word), NULL, 10);
    *most = n > *most ? n : *most;
    return n;
}

static int parse_kernel(Parser *x, const char *text) {
    DynKernel k = {.group = DYN_NONE};
    unsigned sym, outer = 0;
    const char *whole = text;
    int used;
    for (text += strlen("kernel ("); *text && *text != ')'; text += used) {
        if (k.ndim == DYN_MAX_NDIM || sscanf(text, " $%u%n", &sym, &used) != 1 || sym >= x->p->graph->syms->v.n) {
            return wrong(x, "sizes are symbols: $number");
        }
        k.shape[k.ndim++] = sym;
    }
    int n = sscanf(text, ") reduced %u%n", &k.reduced, &used);
    text += n == 1 ? used : 0;
    if (n == 1 && sscanf(text, " like %%%u%n", &k.like, &used) == 1) {
        k.ordered = true;
        text += used;
    }
    n += sscanf(text, " group %u outer %u", &k.group, &outer) == 2 ? 2 : 0;
    const char *box = strstr(text, " outside");
    for (int d = 0; box != NULL && d < k.ndim; d++) {
        box += d ? 0 : strlen(" outside");
        if (sscanf(box, " %d:$%u%n", &k.box_at[d], &k.box_shape[d], &used) != 2 || k.box_shape[d] >= x->p->graph->syms->v.n) {
            return wrong(x, "outside at:$size of each axis");
        }
        k.margin = true;
        box += used;
    }
    k.group = n == 3 ? k.group : DYN_NONE;
    k.outer = (uint8_t)outer;
    k.across = n == 3 && strstr(text, " across") != NULL;
    DynStep step = {.kind = DYN_STEP_KERNEL, .id = x->p->kernels.n};
    step.chain = parse_number(whole, " chain ", &x->p->nchains);
    step.pair = parse_number(whole, " pair ", &x->p->npairs);
    if (n < 1 || dyn_list_push(x->p->arena, &x->p->kernels, k) < 0 || dyn_list_push(x->p->arena, &x->p->steps, step) < 0) {
        return wrong(x, "kernel (sizes) reduced mask");
    }
    x->k = &x->p->kernels.at[x->p->kernels.n - 1];
    return 0;
}

static int parse_operand(Parser *x, const char *text) {
    DynOperand o = {.out = text[2] == 'o'};
    char dtype[8];
    unsigned number, place;
    int used = 0;
    memset(o.axis, -1, sizeof(o.axis));
    if (sscanf(text, o.out ? "  out %u: %%%u %7s [%n" : "  in %u: %%%u %7s [%n", &number, &place, dtype, &used) != 3 || !used ||
        place >= x->p->nplaces) {
        return wrong(x, "in number: %place dtype [axes]");
    }
    o.place = place;
    o.dtype = (uint8_t)dyn_dtype_parse(dtype);
    text += used;
    for (int d = 0; d < x->k->ndim; d++) {
        char *end;
        while (*text == ' ') {
            text++;
        }
        o.axis[d] = *text == '-' ? -1 : (int8_t)strtol(text, &end, 10);
        text = *text == '-' ? text + 1 : end;
        if (*text == '+') {
            o.window = true;
            o.at[d] = (int32_t)strtol(text + 1, &end, 10);
            text = end;
        }
    }
    unsigned along, by;
    if (sscanf(text, "] along %u by %u", &along, &by) == 2) {
        o.indirect = true;
        o.along = (uint8_t)along;
        o.by = (uint16_t)by;
    }
    x->p->places[place].dtype = o.dtype;
    return dyn_list_push(x->p->arena, &x->k->operands, o);
}

static int parse_param(Parser *x, const char *text) {
    unsigned number, sym;
    char dtype[8];
    if (sscanf(text, "  param %u: $%u %7s", &number, &sym, dtype) != 3 || sym >= x->p->graph->syms->v.n) {
        return wrong(x, "param number: $symbol dtype");
    }
    return dyn_kernel_param(x->p, x->k, sym, dyn_dtype_parse(dtype)) == DYN_NONE ? wrong(x, "too many params") : 0;
}

static int parse_write(Parser *x, const char *text) {
    DynInsn n = {.kind = DYN_L_STORE, .nargs = 1};
    char op[32], compute[8] = "f64";
    if (sscanf(text, "  store %u v%u", &n.a[0], &n.a[1]) != 2) {
        if (sscanf(text, "  reduce %31s %u v%u in %7s", op, &n.a[0], &n.a[1], compute) != 4 || dyn_op_parse(op) < 0) {
            return wrong(x, "store operand value, or reduce op operand value in dtype");
        }
        n.kind = DYN_L_REDUCE;
        n.op = (uint16_t)dyn_op_parse(op);
        n.compute = (uint8_t)dyn_dtype_parse(compute);
    }
    if (n.a[0] >= x->k->operands.n) {
        return wrong(x, "no such operand");
    }
    x->k->operands.at[n.a[0]].result = n.kind == DYN_L_REDUCE;
    n.dtype = x->k->operands.at[n.a[0]].dtype;
    return dyn_list_push(x->p->arena, &x->k->insns, n);
}

static int parse_value(Parser *x, const char *text) {
    DynInsn n = {.kind = DYN_L_OP};
    unsigned number;
    char op[32], dtype[8], compute[8];
    int used = 0, more;
    if (sscanf(text, "  v%u = %31s%n", &number, op, &used) != 2 || number != x->k->insns.n) {
        return wrong(x, "vnumber = op operands : dtype, numbered in order");
    }
    text += used;
    if (!strcmp(op, "load") || !strcmp(op, "scalar")) {
        n.kind = op[0] == 'l' ? DYN_L_LOAD : DYN_L_SCALAR;
        if (sscanf(text, " %u%n", &n.a[0], &more) != 1) {
            return wrong(x, "load and scalar take a number");
        }
        text += more;
    } else if (!strcmp(op, "cast")) {
        n.kind = DYN_L_CAST;
    } else if (dyn_op_parse(op) < 0) {
        return wrong(x, "no such operator");
    } else {
        n.op = (uint16_t)dyn_op_parse(op);
    }
    while (n.nargs < 3 && sscanf(text, " v%u%n", &n.a[n.nargs], &more) == 1) {
        n.nargs++;
        text += more;
    }
    int types = sscanf(text, " : %7s in %7s", dtype, compute);
    if (types < 1) {
        return wrong(x, "a value ends with : dtype");
    }
    n.dtype = (uint8_t)dyn_dtype_parse(dtype);
    if (n.kind == DYN_L_OP) {
        n.compute = types == 2 ? (uint8_t)dyn_dtype_parse(compute) : n.dtype;
    }
    return dyn_list_push(x->p->arena, &x->k->insns, n);
}

/* A line of the kernel that has begun. */
static int parse_part(Parser *x, const char *text) {
    if (!strncmp(text, "  in ", 5) || !strncmp(text, "  out ", 6)) {
        return parse_operand(x, text);
    }
    if (!strncmp(text, "  param ", 8)) {
        return parse_param(x, text);
    }
    return !strncmp(text, "  v", 3) ? parse_value(x, text) : parse_write(x, text);
}

static int parse_line(Parser *x, const char *text) {
    unsigned id;
    if (text[0] == 0 || text[0] == '#') {
        return 0;
    }
    if (text[0] == ' ') {
        return x->k ? parse_part(x, text) : wrong(x, "no kernel has begun");
    }
    if (!strncmp(text, "place ", 6)) {
        return parse_place(x, text);
    }
    if (!strncmp(text, "kernel (", 8)) {
        return parse_kernel(x, text);
    }
    for (uint8_t kind = 0; kind < DYN_COUNTOF(step_names); kind++) {
        size_t n = strlen(step_names[kind]);
        if (kind != DYN_STEP_KERNEL && !strncmp(text, step_names[kind], n) && sscanf(text + n, " %%%u", &id) == 1) {
            uint32_t chain = parse_number(text, " chain ", &x->p->nchains);
            return dyn_list_push(x->p->arena, &x->p->steps, ((DynStep){.kind = kind, .id = id, .chain = chain}));
        }
    }
    return wrong(x, "place, kernel, view, scan, check or extern");
}

DynLoops *dyn_loops_parse(const DynGraph *g, DynArena *arena, const char *text, DynStr *error) {
    DynLoops *p = DYN_NEW(arena, DynLoops);
    Parser x = {.p = p, .error = error};
    if (!p) {
        return NULL;
    }
    *p = (DynLoops){.graph = g, .arena = arena, .nnodes = g->nodes.n, .nplaces = g->nodes.n, .cap_places = 2 * g->nodes.n + 2};
    p->places = DYN_NEW_N(arena, DynMem, p->cap_places);
    for (uint32_t i = 0; p->places && i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        bool view = n->flags & DYN_NODE_VIEW;
        p->places[i] = (DynMem){.dtype = n->dtype, .ndim = n->ndim, .shape = n->shape, .layout = &n->layout, .of = n->storage};
        p->places[i].kind = view ? DYN_P_VIEW : DYN_P_NONE;
        if (n->op == DYN_OP_INPUT) {
            p->places[i].kind = DYN_P_INPUT;
        }
        p->places[i].slot = p->places[i].group = DYN_NONE;
    }
    while (p->places && *text) {
        const char *end = strchr(text, '\n');
        size_t n = end ? (size_t)(end - text) : strlen(text);
        char line[512];
        x.line++;
        if (n >= sizeof(line)) {
            wrong(&x, "the line is too long");
            return NULL;
        }
        memcpy(line, text, n);
        line[n] = 0;
        char *comment = strstr(line, "  #");
        if (comment) {
            *comment = 0;
        }
        if (parse_line(&x, line) < 0) {
            return NULL;
        }
        text += n + (end != NULL);
    }
    return p->places ? p : NULL;
}
