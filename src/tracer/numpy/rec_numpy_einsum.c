/* rec_numpy_einsum.c: np.einsum of one or two arrays as what it computes: products element by element, sums, and where one axis
 * of each is summed over, a product of matrices. Called through the binding table; every other form stays a call of NumPy's own.
 *
 * NumPy's loop orders the axes by the strides of its operands, and makes the result in that order. What is recorded makes it in C
 * order, so it is taken where eager's result is in C order and the operands are so at every call: then the order is always the
 * same. einsum adds its products to zero: it never gives -0. It looks at no floating-point flags. */
#include "ir/extern.h"
#include "tracer/numpy/rec_np.h"
#include "tracer/record/rec_state.h"

typedef struct Labels {
    int n;
    char at[DYN_MAX_NDIM + 1];
} Labels;
typedef struct Einsum {
    Labels in[2], out;
    int nin;
    uint32_t a[2];
} Einsum;

static bool has(const Labels *l, char c) { return memchr(l->at, c, (size_t)l->n) != NULL; }
static int place(const Labels *l, char c) { return (int)((const char *)memchr(l->at, c, (size_t)l->n) - l->at); }

/* Each label once, in the order of the text; false: something else is in it. */
static bool read_labels(const char **at, Labels *l) {
    for (l->n = 0; Py_ISALPHA(**at) || **at == ' '; (*at)++) {
        if (**at != ' ' && (l->n == DYN_MAX_NDIM || has(l, **at))) {
            return false;
        }
        if (**at != ' ') {
            l->at[l->n++] = **at;
        }
    }
    return true;
}

/* Without "->": the labels that are there once, in the alphabet's order. */
static void implicit_output(Einsum *e) {
    e->out.n = 0;
    for (int c = 'A'; c <= 'z'; c++) {
        bool first = has(&e->in[0], (char)c), second = e->nin > 1 && has(&e->in[1], (char)c);
        if (first != second && e->out.n < DYN_MAX_NDIM) {
            e->out.at[e->out.n++] = (char)c;
        }
    }
}

static bool read_subscripts(const char *at, Einsum *e) {
    if (!read_labels(&at, &e->in[0])) {
        return false;
    }
    if (e->nin == 2 && (*at++ != ',' || !read_labels(&at, &e->in[1]))) {
        return false;
    }
    if (*at == 0) {
        implicit_output(e);
        return true;
    }
    if (strncmp(at, "->", 2) != 0) {
        return false;
    }
    at += 2;
    if (!read_labels(&at, &e->out) || *at != 0) {
        return false;
    }
    for (int i = 0; i < e->out.n; i++) {
        if (!has(&e->in[0], e->out.at[i]) && !(e->nin == 2 && has(&e->in[1], e->out.at[i]))) {
            return false;
        }
    }
    return true;
}

/* Axes as `to` has them; those that the operand lacks are new ones. */
static uint32_t arranged(DynRec *r, const Einsum *e, int k, const Labels *to) {
    const Labels *from = &e->in[k];
    int perm[DYN_MAX_NDIM], n = 0;
    uint32_t added = 0;
    bool moved = false;
    for (int i = 0; i < to->n; i++) {
        if (has(from, to->at[i])) {
            perm[n] = place(from, to->at[i]);
            moved |= perm[n] != n;
            n++;
        } else {
            added |= 1u << i;
        }
    }
    uint32_t a = moved ? dyn_np_permute(r, e->a[k], perm) : e->a[k];
    return a == DYN_NONE || added == 0 ? a : dyn_np_newaxis(r, a, added, to->n);
}

static uint32_t multiplied(DynRec *r, const Einsum *e, const Labels *space) {
    uint32_t a = arranged(r, e, 0, space), b = e->nin == 2 && a != DYN_NONE ? arranged(r, e, 1, space) : a;
    if (b == DYN_NONE || e->nin == 1) {
        return b;
    }
    DynDtype dt = dyn_np_node_at(r, a)->dtype;
    NpArg args[2] = {dyn_np_node_arg(r, a), dyn_np_node_arg(r, b)};
    return dyn_np_elementwise_as(r, DYN_OP_MULTIPLY, dt, dt, args, 2);
}

static uint32_t plus_zero(DynRec *r, uint32_t a) {
    DynDtype dt = dyn_np_node_at(r, a)->dtype;
    if (dyn_dtypes[dt].kind != 'f') {
        return a;
    }
    NpArg args[2] = {dyn_np_node_arg(r, a), {{DYN_ARG_SYM, dyn_sym_float(dyn_rec_syms(r), 0.0)}, NP_WEAK_FLOAT}};
    return dyn_np_elementwise_as(r, DYN_OP_ADD, dt, dt, args, 2);
}

/* Products, and sums over the labels that don't come out. */
static uint32_t summed(DynRec *r, const Einsum *e) {
    Labels space = e->out;
    int axes[DYN_MAX_NDIM], n = 0;
    for (int k = 0; k < e->nin; k++) {
        for (int i = 0; i < e->in[k].n; i++) {
            if (has(&space, e->in[k].at[i])) {
                continue;
            }
            if (space.n == DYN_MAX_NDIM) {
                return dyn_np_unsupported(r), DYN_NONE;
            }
            axes[n++] = space.n;
            space.at[space.n++] = e->in[k].at[i];
        }
    }
    uint32_t a = multiplied(r, e, &space);
    if (a == DYN_NONE) {
        return a;
    }
    return n == 0 ? plus_zero(r, a) : dyn_np_reduce(r, DYN_OP_SUM, a, n, axes, false, dyn_np_node_at(r, a)->dtype);
}

/* ---- products of matrices */

static bool is_either(char c, char a, char b) { return c == a || c == b; }

/* One label that both have and that is summed over, one that the first alone has, one of the second's, which come out last; all
 * others are both's and come out. The first is the one whose own label comes out before the other's. */
static bool is_product(const Einsum *e, Labels view[2], int *first) {
    int inner = 0;
    char over = 0;
    if (e->nin != 2 || e->out.n < 2) {
        return false;
    }
    char row = e->out.at[e->out.n - 2], column = e->out.at[e->out.n - 1];
    *first = has(&e->in[0], row) ? 0 : 1;
    const Labels *x = &e->in[*first], *y = &e->in[1 - *first];
    for (int i = 0; i < x->n; i++) {
        if (!has(&e->out, x->at[i])) {
            over = x->at[i];
            inner++;
        }
    }
    bool matrices = inner == 1 && x->n == e->out.n && y->n == e->out.n;
    bool rows_left = has(x, row) && !has(x, column);
    bool columns_right = has(y, column) && !has(y, row);
    if (!matrices || !rows_left || !columns_right) {
        return false;
    }
    if (!has(y, over)) {
        return false;
    }
    view[*first] = view[1 - *first] = e->out;
    view[*first].at[e->out.n - 1] = over;
    view[1 - *first].at[e->out.n - 2] = over;
    char near_x = x->at[x->n - 1], near_y = y->at[y->n - 1]; /* a library wants elements of a matrix side by side */
    return is_either(near_x, row, over) && is_either(near_y, column, over);
}

/* A view that a call takes: its node, and NumPy's own of the array that is there now. */
static int view_of(DynRec *r, const Einsum *e, int k, const Labels *to, PyObject *real, DynOperand *out) {
    npy_intp perm[DYN_MAX_NDIM];
    PyArray_Dims dims = {perm, to->n};
    for (int i = 0; i < to->n; i++) {
        perm[i] = place(&e->in[k], to->at[i]);
    }
    uint32_t a = arranged(r, e, k, to);
    out->real = a == DYN_NONE ? NULL : PyArray_Transpose((PyArrayObject *)real, &dims);
    if (out->real == NULL || rec_keep(r, out->real) < 0) {
        PyErr_Clear();
        return -1;
    }
    out->v = dyn_np_result(r, a, out->real);
    return out->v == NULL ? -1 : 0;
}

static DynVal *product(DynRec *r, NpCall *c, const Einsum *e, const Labels *view, int first) {
    DynOperand o[2];
    uint32_t shape[DYN_MAX_NDIM];
    PyObject *call = rec_polyfill("einsum", "product");
    for (int k = 0; k < 2; k++) {
        if (view_of(r, e, k, &view[k], c->args[1 + k].real, &o[k == first ? 0 : 1]) < 0) {
            return dyn_np_unsupported(r);
        }
    }
    for (int i = 0; i < e->out.n; i++) {
        int k = has(&e->in[0], e->out.at[i]) ? 0 : 1;
        shape[i] = dyn_np_node_at(r, e->a[k])->shape[place(&e->in[k], e->out.at[i])];
    }
    DynVal *v = call == NULL ? dyn_np_unsupported(r) : dyn_np_sized_extern(r, call, "einsum.product", o, 2, c->result, shape);
    if (v != NULL && v->kind == DV_ARRAY && dyn_node_calls(dyn_np_node_at(r, rec_node_of(v)))) {
        dyn_np_node_at(r, rec_node_of(v))->op = DYN_OP_MATMUL;
    }
    return v;
}

/* ---- the call */

/* C order at every call, with sizes that keep the order of the strides. */
static int in_order(DynRec *r, uint32_t a) {
    return dyn_np_contiguous(r, a, false) == 1 && dyn_np_hold_sizes(r, a) == 0 ? 0 : -1;
}

/* Labels that both have mean one size. */
static int sizes_agree(DynRec *r, const Einsum *e) {
    for (int i = 0; e->nin == 2 && i < e->in[0].n; i++) {
        char c = e->in[0].at[i];
        uint32_t s = dyn_np_node_at(r, e->a[0])->shape[i];
        uint32_t t = has(&e->in[1], c) ? dyn_np_node_at(r, e->a[1])->shape[place(&e->in[1], c)] : s;
        if (dyn_np_hint(r, s) != dyn_np_hint(r, t) || dyn_rec_assume_equal(r, s, t) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Is what is summed over what lies closest in memory? NumPy's loop is as good where it isn't. */
static bool sums_along(const Einsum *e) {
    for (int k = 0; k < e->nin; k++) {
        for (int i = 1; i < e->in[k].n; i++) {
            if (has(&e->out, e->in[k].at[i]) && !has(&e->out, e->in[k].at[i - 1])) {
                return false;
            }
        }
    }
    return true;
}

static bool is_taken(DynDtype dt) { return dt != DYN_BOOL && dt != DYN_F16 && dyn_dtypes[dt].kind != 'c'; }

/* Is operand k an array with an axis for each label, of the first one's dtype, which this file takes? */
static bool is_taken_operand(DynRec *r, const Einsum *e, int k) {
    if (e->a[k] == DYN_NONE || e->in[k].n == 0) {
        return false;
    }
    const DynNode *n = dyn_np_node_at(r, e->a[k]);
    return n->ndim == e->in[k].n && n->dtype == dyn_np_node_at(r, e->a[0])->dtype && is_taken((DynDtype)n->dtype);
}

DynVal *np_rule_einsum(DynRec *r, NpCall *c) {
    Einsum e = {.nin = c->npos - 1};
    Labels view[2];
    int first;
    bool one_or_two = c->npos >= 2 && c->npos <= 3;
    const char *text = NULL;
    if (one_or_two && c->nkw == 0 && PyUnicode_CheckExact(c->args[0].real)) {
        text = PyUnicode_AsUTF8(c->args[0].real);
    }
    if (text == NULL || dyn_rec_burn(r, c->args[0].v, c->args[0].real) < 0 || !read_subscripts(text, &e)) {
        PyErr_Clear();
        return dyn_np_unsupported(r);
    }
    bool plain = PyArray_CheckExact(c->result) ? PyArray_IS_C_CONTIGUOUS((PyArrayObject *)c->result) : e.out.n == 0;
    for (int k = 0; k < e.nin; k++) {
        plain = plain && PyArray_CheckExact(c->args[1 + k].real) && c->args[1 + k].v->kind == DV_ARRAY;
        e.a[k] = plain ? dyn_np_node(r, c->args[1 + k]) : DYN_NONE;
        plain = plain && is_taken_operand(r, &e, k);
    }
    bool views = e.nin == 1 && e.out.n == e.in[0].n; /* eager gives a view */
    if (!plain || views || sizes_agree(r, &e) < 0) {
        return dyn_np_unsupported(r);
    }
    for (int k = 0; k < e.nin; k++) {
        if (in_order(r, e.a[k]) < 0) {
            return dyn_np_unsupported(r);
        }
    }
    bool inexact = dyn_dtypes[dyn_np_node_at(r, e.a[0])->dtype].kind == 'f';
    if (inexact && is_product(&e, view, &first)) {
        return product(r, c, &e, view, first);
    }
    uint32_t a = sums_along(&e) ? summed(r, &e) : DYN_NONE;
    return a == DYN_NONE ? NULL : dyn_np_result(r, a, c->result);
}
