/* rec_numpy_layout.c: how elements lie in memory, as far as the recorder has to know it: strides as symbols, contiguity, and what
 * depends on them: reshape, ravel, flatten, order=. Called by the other NumPy rules.
 *
 * Whether a reshape is a view or a copy is decided as NumPy does, from strides and sizes; what the decision rests on becomes
 * guards, so that it holds at every call. Strides of inputs that are not C-contiguous are read from the array (STRIDE symbols).
 */
#include "tracer/numpy/rec_np.h"

static bool is_int(DynRec *r, uint32_t sym, int64_t value) {
    return dyn_sym_is_const(dyn_rec_syms(r), sym) && dyn_np_hint(r, sym) == value;
}

static int refuse(DynRec *r) {
    dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    return -1;
}

/* ---- C order at every call, without a guard */

static bool full_axis(DynRec *r, const DynNode *n, const DynNode *base, int arg, int axis) {
    return is_int(r, n->args[arg].id, 0) && n->args[arg + 1].id == base->shape[axis] && is_int(r, n->args[arg + 2].id, 1);
}

/* Leading axes picked at one place, then one range of step 1, then whole axes: the elements of a slice lie next to each other. */
static bool slice_is_c(DynRec *r, const DynNode *n, const DynNode *base) {
    bool ranged = false;
    for (int i = 0, axis = 0, arg = 1; i < n->naux; i++) {
        if (n->aux[i] == 2) {
            continue;
        }
        if (n->aux[i] == 1) {
            if (ranged) {
                return false;
            }
            arg += 1;
        } else {
            if (ranged && !full_axis(r, n, base, arg, axis)) {
                return false;
            }
            if (!is_int(r, n->args[arg + 2].id, 1)) {
                return false;
            }
            ranged = true;
            arg += 3;
        }
        axis++;
    }
    return true;
}

bool dyn_np_always_c(DynRec *r, uint32_t node) {
    const DynNode *n = dyn_np_node_at(r, node),
                  *base = n->nargs > 0 && n->args[0].kind == DYN_ARG_NODE ? dyn_np_node_at(r, n->args[0].id) : NULL;
    if (n->layout.kind != DYN_LAYOUT_C) {
        return false;
    }
    if ((n->flags & DYN_NODE_VIEW) == 0) {
        return true; /* inputs: by their guard; the others: by how NumPy allocates for operands of guarded layouts */
    }
    if (!dyn_np_always_c(r, n->args[0].id)) {
        return false;
    }
    if (n->op == DYN_OP_PERMUTE) {
        for (int i = 0; i < n->naux; i++) {
            if (n->aux[i] != i) {
                return false;
            }
        }
        return true;
    }
    return n->op == DYN_OP_RESHAPE || (n->op == DYN_OP_SLICE && slice_is_c(r, n, base));
}

/* ---- strides */

static int64_t total_hint(DynRec *r, int n, const uint32_t *shape) {
    int64_t total = 1;
    for (int i = 0; i < n; i++) {
        total *= dyn_np_hint(r, shape[i]);
    }
    return total;
}

static void dense_strides(DynRec *r, const DynNode *n, uint32_t *out) {
    uint32_t step = dyn_np_int(r, dyn_dtypes[n->dtype].size);
    for (int i = n->ndim; i-- > 0;) {
        int axis = n->layout.kind == DYN_LAYOUT_C ? i : n->layout.perm[i];
        out[axis] = step;
        step = dyn_np_op(r, DYN_S_MUL, step, n->shape[axis]);
    }
}

/* Those of an input: by its sizes where it is C-contiguous; axes of size 1 and arrays without elements may have any. */
static void input_strides(DynRec *r, uint32_t node, uint32_t *out) {
    const DynNode *n = dyn_np_node_at(r, node);
    DynArrayView view = {.ndim = 0};
    dyn_array_look(dyn_rec_array(r, node, NULL)->real, &view);
    bool dense = n->layout.kind == DYN_LAYOUT_C && total_hint(r, n->ndim, n->shape) > 0;
    if (dense) {
        dense_strides(r, n, out);
    }
    for (int i = 0; i < n->ndim; i++) {
        if (!dense || is_int(r, n->shape[i], 1)) {
            out[i] = dyn_sym_stride(dyn_rec_syms(r), n->source, i, view.strides[i]);
        }
    }
}

static void slice_strides(DynRec *r, const DynNode *n, const uint32_t *base, uint32_t *out) {
    for (int i = 0, axis = 0, arg = 1, to = 0; i < n->naux; i++) {
        if (n->aux[i] == 2) {
            out[to++] = dyn_np_int(r, 0);
            continue;
        }
        if (n->aux[i] == 0) {
            out[to++] = dyn_np_op(r, DYN_S_MUL, base[axis], n->args[arg + 2].id);
        }
        arg += n->aux[i] == 0 ? 3 : 1;
        axis++;
    }
}

static int reshaped_strides(DynRec *r, const DynNode *from, const uint32_t *base, const DynNode *n, uint32_t *out);

static int view_strides(DynRec *r, const DynNode *n, const uint32_t *base, uint32_t *out) {
    const DynNode *from = dyn_np_node_at(r, n->args[0].id);
    int extra = n->ndim - from->ndim;
    switch (n->op) {
    case DYN_OP_SLICE: slice_strides(r, n, base, out); return 0;
    case DYN_OP_PERMUTE:
        for (int i = 0; i < n->ndim; i++) {
            out[i] = base[n->aux[i]];
        }
        return 0;
    case DYN_OP_BROADCAST:
        for (int i = 0; i < n->ndim; i++) {
            bool same = i >= extra && dyn_np_hint(r, from->shape[i - extra]) == dyn_np_hint(r, n->shape[i]);
            out[i] = same ? base[i - extra] : dyn_np_int(r, 0);
        }
        return 0;
    case DYN_OP_AFFINE:
        for (int i = 0; i < n->ndim; i++) {
            out[i] = dyn_np_int(r, 0);
            for (int k = 0; k < from->ndim; k++) {
                out[i] =
                    dyn_np_op(r, DYN_S_ADD, out[i], dyn_np_op(r, DYN_S_MUL, base[k], dyn_np_int(r, n->aux[k * n->ndim + i])));
            }
        }
        return 0;
    case DYN_OP_REAL:
    case DYN_OP_IMAG:
    case DYN_OP_AS_DTYPE:
        memcpy(out, base, sizeof(*out) * (size_t)n->ndim);
        if (n->op == DYN_OP_AS_DTYPE && dyn_dtypes[n->dtype].size != dyn_dtypes[from->dtype].size) {
            out[n->ndim - 1] = dyn_np_int(r, dyn_dtypes[n->dtype].size);
        }
        return 0;
    default: return reshaped_strides(r, from, base, n, out);
    }
}

int dyn_np_strides(DynRec *r, uint32_t node, uint32_t *out) {
    uint32_t base[DYN_MAX_NDIM];
    const DynNode *n = dyn_np_node_at(r, node);
    if ((dyn_node_calls(n) || n->op == DYN_OP_RESULT) && !(n->flags & DYN_NODE_DENSE)) { /* as its function likes */
        return refuse(r);
    }
    if (n->op == DYN_OP_INPUT) {
        input_strides(r, node, out);
    } else if ((n->flags & DYN_NODE_VIEW) == 0) {
        dense_strides(r, n, out);
    } else if (dyn_np_strides(r, n->args[0].id, base) < 0 || view_strides(r, n, base, out) < 0) {
        return -1;
    }
    for (int i = 0; i < n->ndim; i++) {
        if (out[i] == DYN_NONE) {
            return refuse(r);
        }
    }
    return 0;
}

/* Is the size 1 (or how its hint stands to it) at every call? */
static int hold_one(DynRec *r, uint32_t size) {
    return dyn_np_assume_op(r, dyn_np_hint(r, size) == 1 ? DYN_S_EQ : DYN_S_GT, size, 1);
}

int dyn_np_hold_sizes(DynRec *r, uint32_t node) {
    for (int i = 0; i < dyn_np_node_at(r, node)->ndim; i++) {
        uint32_t size = dyn_np_node_at(r, node)->shape[i];
        if (dyn_np_hint(r, size) == 0 ? dyn_np_assume_op(r, DYN_S_EQ, size, 0) < 0 : hold_one(r, size) < 0) {
            return -1;
        }
    }
    return 0;
}

/* No elements now means none at any call, and some means some. 1: none. */
static int hold_emptiness(DynRec *r, int n, const uint32_t *shape) {
    bool none = total_hint(r, n, shape) == 0;
    for (int i = 0; i < n; i++) {
        bool zero = dyn_np_hint(r, shape[i]) == 0;
        if (zero == none && dyn_np_assume_op(r, none ? DYN_S_EQ : DYN_S_GT, shape[i], 0) < 0) {
            return -1;
        }
    }
    return none;
}

int dyn_np_contiguous(DynRec *r, uint32_t a, bool fortran) {
    int ndim = dyn_np_node_at(r, a)->ndim;
    uint32_t strides[DYN_MAX_NDIM], step = dyn_np_int(r, dyn_dtypes[dyn_np_node_at(r, a)->dtype].size);
    if (dyn_np_always_c(r, a) && (!fortran || ndim <= 1)) {
        return 1;
    }
    int none = hold_emptiness(r, ndim, dyn_np_node_at(r, a)->shape);
    if (none != 0) {
        return none;
    }
    if (dyn_np_strides(r, a, strides) < 0) {
        return -1;
    }
    for (int i = 0; i < ndim; i++) {
        int axis = fortran ? i : ndim - 1 - i;
        uint32_t size = dyn_np_node_at(r, a)->shape[axis];
        if (hold_one(r, size) < 0 || step == DYN_NONE) {
            return -1;
        }
        if (dyn_np_hint(r, size) == 1) {
            continue;
        }
        bool fits = dyn_np_hint(r, strides[axis]) == dyn_np_hint(r, step);
        if (dyn_np_assume(r, dyn_np_op(r, fits ? DYN_S_EQ : DYN_S_NE, strides[axis], step)) < 0) {
            return -1;
        }
        if (!fits) {
            return 0;
        }
        step = dyn_np_op(r, DYN_S_MUL, step, size);
    }
    return 1;
}

/* ---- does a reshape copy? */

typedef struct Axes {
    int n;
    uint32_t size[DYN_MAX_NDIM], stride[DYN_MAX_NDIM];
} Axes;

static int assume_same(DynRec *r, uint32_t a, uint32_t b) { return a == b ? 0 : dyn_np_assume(r, dyn_np_op(r, DYN_S_EQ, a, b)); }

/* The old axes first … last are walked by the new ones from `begin` to `end`: 1 where they lie in one piece. Where they don't, no
 * new axis may end between the two old ones that are apart. */
static int in_one_piece(DynRec *r, const Axes *old, int first, int last, const uint32_t *shape, int begin, int end) {
    uint32_t before = dyn_np_int(r, 1);
    for (int k = first; k < last; k++) {
        before = dyn_np_op(r, DYN_S_MUL, before, old->size[k]);
        uint32_t joined = dyn_np_op(r, DYN_S_MUL, old->size[k + 1], old->stride[k + 1]), part = dyn_np_int(r, 1);
        if (before == DYN_NONE || joined == DYN_NONE) {
            return refuse(r);
        }
        if (dyn_np_hint(r, joined) == dyn_np_hint(r, old->stride[k])) {
            if (assume_same(r, joined, old->stride[k]) < 0) {
                return -1;
            }
            continue;
        }
        for (int i = begin; i < end - 1; i++) {
            part = dyn_np_op(r, DYN_S_MUL, part, shape[i]);
            if (dyn_np_assume(r, dyn_np_op(r, DYN_S_NE, part, before)) < 0) {
                return -1;
            }
        }
        return dyn_np_assume(r, dyn_np_op(r, DYN_S_NE, joined, old->stride[k])) < 0 ? -1 : 0;
    }
    return 1;
}

/* NumPy's _attempt_nocopy_reshape: groups of axes with equal products. 1: a view with these strides; 0: a copy. */
static int without_copy(DynRec *r, const Axes *old, int ndim, const uint32_t *shape, uint32_t *strides) {
    int i = 0, k = 0;
    while (i < old->n && k < ndim) {
        uint32_t left = old->size[i], right = shape[k];
        int last = i, end = k + 1;
        while (left != DYN_NONE && right != DYN_NONE && dyn_np_hint(r, left) != dyn_np_hint(r, right)) {
            if (dyn_np_hint(r, right) < dyn_np_hint(r, left) ? end >= ndim : last + 1 >= old->n) {
                return refuse(r);
            }
            if (dyn_np_hint(r, right) < dyn_np_hint(r, left)) {
                right = dyn_np_op(r, DYN_S_MUL, right, shape[end++]);
            } else {
                left = dyn_np_op(r, DYN_S_MUL, left, old->size[++last]);
            }
        }
        if (left == DYN_NONE || right == DYN_NONE || assume_same(r, left, right) < 0) {
            return refuse(r);
        }
        int whole = in_one_piece(r, old, i, last, shape, k, end);
        if (whole != 1) {
            return whole;
        }
        uint32_t step = old->stride[last];
        for (int to = end; to-- > k;) {
            strides[to] = step;
            step = dyn_np_op(r, DYN_S_MUL, step, shape[to]);
        }
        i = last + 1;
        k = end;
    }
    for (; k < ndim; k++) {
        strides[k] = k > 0 ? strides[k - 1] : dyn_np_int(r, 1);
    }
    return 1;
}

/* The axes that count: those of size 1 don't. */
static int axes_of(DynRec *r, const DynNode *n, const uint32_t *strides, Axes *out) {
    out->n = 0;
    for (int i = 0; i < n->ndim; i++) {
        if (hold_one(r, n->shape[i]) < 0) {
            return -1;
        }
        if (dyn_np_hint(r, n->shape[i]) == 1) {
            continue;
        }
        out->size[out->n] = n->shape[i];
        out->stride[out->n++] = strides[i];
    }
    return 0;
}

static int reshaped_strides(DynRec *r, const DynNode *from, const uint32_t *base, const DynNode *n, uint32_t *out) {
    Axes old;
    if (dyn_np_always_c(r, n->args[0].id) || total_hint(r, n->ndim, n->shape) == 0) {
        dense_strides(r, n, out);
        return 0;
    }
    return axes_of(r, from, base, &old) < 0 || without_copy(r, &old, n->ndim, n->shape, out) != 1 ? refuse(r) : 0;
}

/* 1: reshaping in C order gives a view at every call, 0: a copy. */
static int reshapes_in_place(DynRec *r, uint32_t a, int ndim, const uint32_t *shape) {
    uint32_t strides[DYN_MAX_NDIM], ignored[DYN_MAX_NDIM];
    Axes old;
    if (dyn_np_always_c(r, a)) {
        return 1;
    }
    const DynNode *n = dyn_np_node_at(r, a);
    bool same = n->ndim == ndim;
    for (int i = 0; i < ndim && same; i++) {
        same = dyn_np_hint(r, n->shape[i]) == dyn_np_hint(r, shape[i]);
    }
    for (int i = 0; i < ndim && same; i++) {
        if (assume_same(r, n->shape[i], shape[i]) < 0) {
            return -1;
        }
    }
    int none = same ? 1 : hold_emptiness(r, n->ndim, n->shape);
    if (none != 0) {
        return none;
    }
    if (dyn_np_strides(r, a, strides) < 0 || axes_of(r, dyn_np_node_at(r, a), strides, &old) < 0) {
        return -1;
    }
    return without_copy(r, &old, ndim, shape, ignored);
}

/* ---- reshape */

static uint32_t turned_round(DynRec *r, uint32_t a) {
    int perm[DYN_MAX_NDIM], ndim = dyn_np_node_at(r, a)->ndim;
    for (int i = 0; i < ndim; i++) {
        perm[i] = ndim - 1 - i;
    }
    return ndim < 2 ? a : dyn_np_permute(r, a, perm);
}

uint32_t dyn_np_copy_in_order(DynRec *r, uint32_t a, DynDtype dt, bool fortran) {
    uint32_t id = dyn_np_copy(r, a, dt);
    int ndim = id == DYN_NONE ? 0 : dyn_np_node_at(r, id)->ndim;
    DynLayout *layout = &dyn_np_node_at(r, id == DYN_NONE ? a : id)->layout;
    for (int i = 0; i < ndim && fortran && ndim > 1; i++) {
        layout->kind = DYN_LAYOUT_STRIDED;
        layout->perm[i] = (uint8_t)(ndim - 1 - i);
    }
    return id;
}

/* Which size stands for -1: what is left of `total`. */
static int fill_in(DynRec *r, uint32_t total, int ndim, uint32_t *shape) {
    uint32_t rest = dyn_np_int(r, 1);
    int unknown = -1;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == DYN_NONE && unknown >= 0) {
            return refuse(r);
        }
        if (shape[i] == DYN_NONE) {
            unknown = i;
        } else {
            rest = dyn_np_op(r, DYN_S_MUL, rest, shape[i]);
        }
    }
    if (total == DYN_NONE || rest == DYN_NONE) {
        return refuse(r);
    }
    if (unknown >= 0 && is_int(r, rest, 1)) {
        shape[unknown] = total;
    } else if (unknown >= 0) {
        if (dyn_np_assume_op(r, DYN_S_NE, rest, 0) < 0) {
            return -1;
        }
        shape[unknown] = dyn_np_op(r, DYN_S_FLOORDIV, total, rest);
        return dyn_np_assume_op(r, DYN_S_EQ, dyn_np_op(r, DYN_S_MOD, total, rest), 0);
    } else if (dyn_np_hint(r, total) != dyn_np_hint(r, rest) || dyn_rec_assume_equal(r, total, rest) < 0) {
        return refuse(r);
    }
    return 0;
}

/* In Fortran's order a reshape is C's of the axes turned round. A copy is made of the whole array, and the result is a view of
 * it. */
uint32_t dyn_np_reshape(DynRec *r, uint32_t a, int ndim, uint32_t *shape, bool fortran) {
    uint32_t total = dyn_np_product(r, dyn_np_node_at(r, a)->ndim, dyn_np_node_at(r, a)->shape), turned[DYN_MAX_NDIM];
    if (fill_in(r, total, ndim, shape) < 0) {
        return DYN_NONE;
    }
    for (int i = 0; i < ndim; i++) {
        turned[i] = shape[fortran ? ndim - 1 - i : i];
    }
    uint32_t from = fortran ? turned_round(r, a) : a;
    int in_place = from == DYN_NONE ? -1 : reshapes_in_place(r, from, ndim, turned);
    if (in_place == 0) {
        from = dyn_np_copy_in_order(r, a, (DynDtype)dyn_np_node_at(r, a)->dtype, fortran);
        from = from == DYN_NONE || !fortran ? from : turned_round(r, from);
    }
    if (in_place < 0 || from == DYN_NONE) {
        return DYN_NONE;
    }
    uint32_t id = dyn_np_reshape_view(r, from, ndim, turned, DYN_NODE_VIEW);
    return id == DYN_NONE || !fortran ? id : turned_round(r, id);
}

/* order= as a letter. A is F where the array is Fortran-contiguous and not C-contiguous, else C. 0: refused. */
static char order_of(DynRec *r, DynOperand order, uint32_t a) {
    const char *text = "C";
    if (order.v != NULL) {
        text = PyUnicode_Check(order.real) ? PyUnicode_AsUTF8(order.real) : NULL;
    }
    if (text == NULL || (order.v != NULL && dyn_rec_burn(r, order.v, order.real) < 0)) {
        PyErr_Clear();
        return 0;
    }
    char letter = (char)(text[0] & ~0x20); /* NumPy takes small letters too */
    if (letter != 'A') {
        return strchr("CFK", letter) != NULL ? letter : 0;
    }
    int c = dyn_np_contiguous(r, a, false), f = c == 0 ? dyn_np_contiguous(r, a, true) : 0;
    if (c < 0 || f < 0) {
        return 0;
    }
    return f ? 'F' : 'C';
}

static DynVal *reshape_rule(DynRec *r, uint32_t a, int ndim, uint32_t *shape, DynOperand order, PyObject *result) {
    char letter = order_of(r, order, a);
    if (letter == 0 || letter == 'K') {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    return dyn_np_result(r, dyn_np_reshape(r, a, ndim, shape, letter == 'F'), result);
}

DynVal *np_rule_reshape(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]), shape[DYN_MAX_NDIM];
    int ndim = a == DYN_NONE ? -1 : dyn_np_shape_arg(r, c->slot[1], true, shape);
    return ndim < 0 ? NULL : reshape_rule(r, a, ndim, shape, c->slot[2], c->result);
}

/* x.reshape(2, 3) or x.reshape((2, 3)). */
DynVal *np_rule_reshape_method(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->args[0]), shape[DYN_MAX_NDIM];
    DynOperand order = {NULL, NULL};
    int ndim = c->npos - 1;
    if (a == DYN_NONE) {
        return NULL;
    }
    if (c->nkw > 1 || ndim < 1 || ndim > DYN_MAX_NDIM) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (c->nkw == 1) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, 0), "order") != 0) {
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
        }
        order = c->args[c->npos];
    }
    if (ndim == 1) {
        ndim = dyn_np_shape_arg(r, c->args[1], true, shape);
    } else {
        for (int i = 0; i < ndim; i++) {
            if (dyn_np_shape_arg(r, c->args[1 + i], true, &shape[i]) != 1) {
                return NULL;
            }
        }
    }
    return ndim < 0 ? NULL : reshape_rule(r, a, ndim, shape, order, c->result);
}

/* ---- ravel and flatten */

/* The axes as they lie, largest steps first (order K). */
static uint32_t as_it_lies(DynRec *r, uint32_t a) {
    const DynNode *n = dyn_np_node_at(r, a);
    int perm[DYN_MAX_NDIM];
    bool changes = false;
    if (n->layout.kind == DYN_LAYOUT_C) {
        return a;
    }
    for (int i = 0; i < n->ndim; i++) {
        perm[i] = n->layout.perm[i];
        changes = changes || perm[i] != i;
        if (dyn_np_hint(r, n->shape[i]) <= 1 && dyn_np_hold_sizes(r, a) < 0) {
            return DYN_NONE;
        }
    }
    bool called = dyn_node_calls(n) || n->op == DYN_OP_RESULT;
    if (n->layout.still || (called && n->ndim > 1)) { /* such axes are sorted otherwise here */
        return refuse(r), DYN_NONE;
    }
    return changes ? dyn_np_permute(r, a, perm) : a;
}

uint32_t dyn_np_flat_copy(DynRec *r, uint32_t a) {
    uint32_t total = dyn_np_product(r, dyn_np_node_at(r, a)->ndim, dyn_np_node_at(r, a)->shape);
    return total == DYN_NONE ? (refuse(r), DYN_NONE) : dyn_np_reshape_view(r, a, 1, &total, DYN_NODE_CONTIG_COPY);
}

/* All elements in C order: a view where that is possible without looking at strides, else a copy, as ravel() gives them. */
uint32_t dyn_np_ravel(DynRec *r, uint32_t a) {
    int contiguous = dyn_np_contiguous(r, a, false);
    uint32_t total = dyn_np_product(r, dyn_np_node_at(r, a)->ndim, dyn_np_node_at(r, a)->shape);
    if (contiguous < 0 || total == DYN_NONE) {
        return refuse(r), DYN_NONE;
    }
    return contiguous ? dyn_np_reshape_view(r, a, 1, &total, DYN_NODE_VIEW) : dyn_np_flat_copy(r, a);
}

/* ravel, and flatten (operator 1), which always copies. */
DynVal *np_rule_flatten(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    char letter = (char)(a == DYN_NONE ? 0 : order_of(r, c->slot[1], a));
    if (letter == 0) {
        return a == DYN_NONE ? NULL : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (letter == 'K') {
        a = as_it_lies(r, a);
    } else if (letter == 'F') {
        a = turned_round(r, a);
    }
    if (a == DYN_NONE) {
        return NULL;
    }
    return dyn_np_result(r, c->b->op == 1 ? dyn_np_flat_copy(r, a) : dyn_np_ravel(r, a), c->result);
}

/* ---- the layout of what an operator makes */

/* How far apart elements along an axis of the result are in an operand, as a rank: 0 where it stands still. */
static int step_rank(DynRec *r, uint32_t id, int axis, int ndim) {
    const DynNode *n = dyn_np_node_at(r, id);
    int at = axis - (ndim - n->ndim), rank = 0;
    if (at < 0 || dyn_np_hint(r, n->shape[at]) == 1) {
        return 0;
    }
    if (n->layout.kind != DYN_LAYOUT_C && n->layout.still >> at & 1u) {
        return 0;
    }
    for (int i = 0; i < n->ndim; i++) {
        int d = n->layout.kind == DYN_LAYOUT_C ? i : n->layout.perm[i];
        rank = d == at ? n->ndim - i : rank;
    }
    return rank;
}

/* Does axis `d` belong inside of axis `inner`? 1: yes, 0: no, -1: no operand walks both. Where operands disagree, C order wins.
 */
static int goes_inside(DynRec *r, const uint32_t *nodes, int n, int ndim, int d, int inner) {
    int inside = -1;
    for (int i = 0; i < n; i++) {
        int step = step_rank(r, nodes[i], d, ndim), other = step_rank(r, nodes[i], inner, ndim);
        bool walked = step != 0 && other != 0;
        if (walked && other <= step) {
            inside = 0;
        } else if (walked && inside < 0) {
            inside = 1;
        }
    }
    return inside;
}

DynLayout dyn_np_layout_for(DynRec *r, const uint32_t *nodes, int n, int ndim, const uint32_t *shape) {
    DynLayout l = {.kind = DYN_LAYOUT_C};
    int axes[DYN_MAX_NDIM], count = 0, last = -1; /* the innermost first */
    for (int d = ndim; d-- > 0;) {
        int place = count;
        for (int i = count; i-- > 0;) {
            int inside = goes_inside(r, nodes, n, ndim, d, axes[i]);
            if (inside == 0) {
                break;
            }
            place = inside > 0 ? i : place;
        }
        memmove(&axes[place + 1], &axes[place], sizeof(*axes) * (size_t)(count - place));
        axes[place] = d;
        count++;
    }
    for (int i = 0; i < ndim; i++) {
        l.perm[i] = (uint8_t)axes[ndim - 1 - i];
        if (dyn_np_hint(r, shape[l.perm[i]]) == 1) {
            continue;
        }
        l.kind = l.perm[i] < last ? DYN_LAYOUT_STRIDED : l.kind;
        last = l.perm[i];
    }
    for (int i = 0; i < ndim && l.kind == DYN_LAYOUT_C; i++) {
        l.perm[i] = (uint8_t)i;
    }
    return l;
}
