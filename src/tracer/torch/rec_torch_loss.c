/* rec_torch_loss.c: losses as the elementwise operators and the reduction that they are made of, and calls of PyTorch's own where
 * they look at what is in their operands (probabilities; classes that aren't rows' of a matrix). Halves are rounded behind each
 * step, as PyTorch does. Called through the binding table. Operands of other sizes than one another, about which torch warns, and
 * weights are PyTorch's own affair. */
#include "tracer/torch/rec_torch.h"

enum { NONE, MEAN, SUM, BATCHMEAN };

/* reduction=, a str; the older size_average= and reduce= are refused. -1: failed. */
static int reduction_of(DynRec *r, const NpCall *c) {
    static const char *const names[] = {[NONE] = "none", [MEAN] = "mean", [SUM] = "sum", [BATCHMEAN] = "batchmean"};
    DynOperand o = dyn_np_slot(c, "reduction");
    if (dyn_np_slot(c, "size_average").v != NULL || dyn_np_slot(c, "reduce").v != NULL) {
        return dyn_np_unsupported(r), -1;
    }
    for (int i = 0; i < (int)DYN_COUNTOF(names) && o.v != NULL; i++) {
        if (dyn_tt_is_str(r, o, names[i])) {
            return i;
        }
    }
    return o.v == NULL ? MEAN : (dyn_np_unsupported(r), -1);
}

typedef struct Loss {
    uint32_t x, t; /* input and target */
    DynDtype dtype;
    int reduction;
} Loss;

/* Two tensors of floats of one dtype and one shape. */
static int operands(DynRec *r, const NpCall *c, Loss *l) {
    *l = (Loss){.x = dyn_tt_tensor(r, c, "input"), .t = dyn_tt_tensor(r, c, "target"), .reduction = reduction_of(r, c)};
    if (l->x == DYN_NONE || l->t == DYN_NONE || l->reduction < 0) {
        return -1;
    }
    const DynNode *x = dyn_np_node_at(r, l->x), *t = dyn_np_node_at(r, l->t);
    l->dtype = (DynDtype)x->dtype;
    if (dyn_dtypes[l->dtype].kind != 'f' || t->dtype != x->dtype || t->ndim != x->ndim) {
        return dyn_np_unsupported(r), -1;
    }
    for (int i = 0; i < x->ndim; i++) {
        if (dyn_np_hint(r, x->shape[i]) != dyn_np_hint(r, t->shape[i]) || dyn_rec_assume_equal(r, x->shape[i], t->shape[i]) < 0) {
            return dyn_np_unsupported(r), -1;
        }
    }
    return 0;
}

/* The losses of the elements, which are of the dtype, are added up in float. */
static DynVal *reduced(DynRec *r, NpCall *c, const Loss *l, uint32_t node) {
    int axes[DYN_MAX_NDIM];
    if (node == DYN_NONE) {
        return NULL;
    }
    node = dyn_tt_cast(r, dyn_tt_cast(r, node, l->dtype), dyn_tt_wide(l->dtype));
    int ndim = dyn_np_node_at(r, node)->ndim;
    for (int i = 0; i < ndim; i++) {
        axes[i] = i;
    }
    uint32_t first = ndim > 0 ? dyn_np_node_at(r, node)->shape[0] : DYN_NONE;
    if (l->reduction == MEAN) {
        node = dyn_tt_mean(r, node, ndim, axes, false);
    } else if (l->reduction != NONE) {
        node = dyn_tt_reduce(r, DYN_OP_SUM, node, ndim, axes, false);
    }
    if (l->reduction == BATCHMEAN && first != DYN_NONE) {
        node = dyn_tt_binary(r, DYN_OP_DIVIDE, node, (NpArg){{DYN_ARG_SYM, first}, NP_WEAK_INT});
    }
    return dyn_tt_finish(r, c, dyn_tt_cast(r, node, l->dtype));
}

/* |x - t|, for l1; its square. */
static uint32_t distance(DynRec *r, const Loss *l) {
    return dyn_tt_unary(r, DYN_OP_ABSOLUTE, dyn_tt_nodes(r, DYN_OP_SUBTRACT, l->x, l->t));
}

/* Operator 0: the square of the difference; 1: its absolute value. */
DynVal *tt_rule_difference_loss(DynRec *r, NpCall *c) {
    Loss l;
    if (operands(r, c, &l) < 0 || l.reduction == BATCHMEAN || dyn_np_slot(c, "weight").v != NULL) {
        return dyn_np_unsupported(r);
    }
    return reduced(r, c, &l,
                   c->b->op == 1 ? distance(r, &l) : dyn_tt_unary(r, DYN_OP_SQUARE, dyn_tt_nodes(r, DYN_OP_SUBTRACT, l.x, l.t)));
}

/* d, the distance, below a limit: d^2 / 2 (operator 0, smooth_l1: over beta), above it a line. Operator 1: huber. */
DynVal *tt_rule_smooth_loss(DynRec *r, NpCall *c) {
    Loss l;
    bool huber = c->b->op == 1;
    double limit = 1;
    if (operands(r, c, &l) < 0 || l.reduction == BATCHMEAN || dyn_np_slot(c, "weight").v != NULL) {
        return dyn_np_unsupported(r);
    }
    if (dyn_tt_burnt_float(r, dyn_np_slot(c, huber ? "delta" : "beta"), &limit) < 0) {
        return dyn_np_unsupported(r);
    }
    if (dyn_dtype_is_half(l.dtype) && (l.dtype == DYN_BF16) != huber) { /* these are rounded once */
        l.x = dyn_tt_cast(r, l.x, DYN_F32);
        l.t = dyn_tt_cast(r, l.t, DYN_F32);
    } else if (dyn_dtype_is_half(l.dtype)) {
        limit = dyn_tt_as_half(limit, l.dtype);
    }
    uint32_t d = distance(r, &l);
    if (!huber && limit == 0) {
        return reduced(r, c, &l, d);
    }
    if (d == DYN_NONE || limit <= 0) {
        return dyn_np_unsupported(r);
    }
    uint32_t near = dyn_tt_nodes(r, DYN_OP_MULTIPLY, dyn_tt_by(r, DYN_OP_MULTIPLY, d, 0.5), d);
    near = huber ? near : dyn_tt_by(r, DYN_OP_DIVIDE, near, limit);
    uint32_t far = dyn_tt_by(r, DYN_OP_SUBTRACT, d, 0.5 * limit);
    far = huber ? dyn_tt_by(r, DYN_OP_MULTIPLY, far, limit) : far;
    uint32_t is_near = dyn_tt_compare(r, huber ? DYN_OP_LESS_EQUAL : DYN_OP_LESS, d, dyn_tt_number(r, limit));
    return far == DYN_NONE ? NULL : reduced(r, c, &l, dyn_tt_choose(r, is_near, near, dyn_np_node_arg(r, far)));
}

/* (1 - t) * x - w * log(sigmoid(x)), where w is 1, or (pos_weight - 1) * t + 1. */
DynVal *tt_rule_logits_loss(DynRec *r, NpCall *c) {
    Loss l;
    uint32_t positive = DYN_NONE;
    if (operands(r, c, &l) < 0 || l.reduction == BATCHMEAN || dyn_np_slot(c, "weight").v != NULL) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_slot(c, "pos_weight").v != NULL) {
        positive = dyn_tt_tensor(r, c, "pos_weight");
        if (positive == DYN_NONE || dyn_np_node_at(r, positive)->dtype != l.dtype) {
            return dyn_np_unsupported(r);
        }
    }
    uint32_t x = dyn_tt_cast(r, l.x, dyn_tt_wide(l.dtype));
    uint32_t t = dyn_tt_unary(r, DYN_OP_EXP, dyn_tt_unary(r, DYN_OP_NEGATIVE, dyn_tt_unary(r, DYN_OP_ABSOLUTE, x)));
    t = dyn_tt_nodes(r, DYN_OP_SUBTRACT, dyn_tt_by(r, DYN_OP_MINIMUM, x, 0), dyn_tt_unary(r, DYN_OP_LOG1P, t));
    t = dyn_tt_cast(r, t, l.dtype);
    if (positive != DYN_NONE) {
        uint32_t w = dyn_tt_nodes(r, DYN_OP_MULTIPLY, dyn_tt_by(r, DYN_OP_SUBTRACT, positive, 1), l.t);
        t = dyn_tt_nodes(r, DYN_OP_MULTIPLY, dyn_tt_by(r, DYN_OP_ADD, w, 1), t);
    }
    uint32_t rest = dyn_tt_by(r, DYN_OP_ADD, dyn_tt_unary(r, DYN_OP_NEGATIVE, l.t), 1);
    return reduced(r, c, &l, dyn_tt_nodes(r, DYN_OP_SUBTRACT, dyn_tt_nodes(r, DYN_OP_MULTIPLY, rest, l.x), t));
}

/* t * (log(t) - x), 0 where t is; with log_target exp(t) * (t - x). Of reduction="mean" torch warns. */
DynVal *tt_rule_kl_div(DynRec *r, NpCall *c) {
    Loss l;
    bool log_target = false;
    if (operands(r, c, &l) < 0 || l.reduction == MEAN || dyn_np_flag(r, dyn_np_slot(c, "log_target"), &log_target) < 0) {
        return dyn_np_unsupported(r);
    }
    if (log_target) {
        return reduced(
            r, c, &l,
            dyn_tt_nodes(r, DYN_OP_MULTIPLY, dyn_tt_unary(r, DYN_OP_EXP, l.t), dyn_tt_nodes(r, DYN_OP_SUBTRACT, l.t, l.x)));
    }
    uint32_t t = dyn_tt_nodes(r, DYN_OP_MULTIPLY, l.t, dyn_tt_unary(r, DYN_OP_LOG, l.t));
    t = dyn_tt_choose(r, dyn_tt_compare(r, DYN_OP_NOT_EQUAL, l.t, dyn_tt_number(r, 0)), t, dyn_tt_number(r, 0));
    return reduced(r, c, &l, dyn_tt_nodes(r, DYN_OP_SUBTRACT, t, dyn_tt_nodes(r, DYN_OP_MULTIPLY, l.t, l.x)));
}

/* A number for each row of x (C-contiguous): that of its class, which is looked up in all rows as one; of a row whose class is
 * `ignored` any. A class that there isn't is nowhere: eager is to say so. */
static uint32_t of_class(DynRec *r, uint32_t x, uint32_t classes, uint32_t counts) {
    uint32_t rows = dyn_np_node_at(r, x)->shape[0], width = dyn_np_node_at(r, x)->shape[1],
             all = dyn_np_product(r, 2, dyn_np_node_at(r, x)->shape);
    NpArg size = {{DYN_ARG_SYM, width}, NP_WEAK_INT};
    uint32_t zero = dyn_tt_choose(r, counts, classes, dyn_tt_int(r, 0));
    uint32_t low = zero == DYN_NONE ? zero : dyn_tt_compare(r, DYN_OP_GREATER_EQUAL, zero, dyn_tt_int(r, 0));
    uint32_t high = low == DYN_NONE ? low : dyn_tt_compare(r, DYN_OP_LESS, zero, size);
    uint32_t there = high == DYN_NONE ? high : dyn_tt_nodes(r, DYN_OP_LOGICAL_AND, low, high);
    uint32_t first = there == DYN_NONE ? there : dyn_tt_binary(r, DYN_OP_MULTIPLY, dyn_np_iota(r, rows), size);
    uint32_t at = dyn_tt_nodes(r, DYN_OP_ADD, first, zero);
    at = at == DYN_NONE ? at : dyn_tt_choose(r, there, at, dyn_tt_int(r, INT64_MIN));
    uint32_t table = at == DYN_NONE || all == DYN_NONE ? DYN_NONE : dyn_np_reshape_view(r, x, 1, &all, DYN_NODE_VIEW);
    return table == DYN_NONE ? table : dyn_np_gather(r, table, at, 0, &rows, 1);
}

/* Is x a matrix of single or double precision in C order, and t a class for each of its rows, at every call? */
static bool are_rows_and_classes(DynRec *r, uint32_t x, uint32_t t) {
    const DynNode *n = dyn_np_node_at(r, x), *k = dyn_np_node_at(r, t);
    bool matrix = n->ndim == 2 && (n->dtype == DYN_F32 || n->dtype == DYN_F64);
    bool classes = k->ndim == 1 && k->dtype == DYN_I64;
    if (!matrix || !classes || !dyn_np_always_c(r, x)) {
        return false;
    }
    return dyn_np_agree(r, n->shape[0], k->shape[0]) == 0;
}

/* nll_loss (operator 1), -x[class], and cross_entropy, log(sum(exp(x - m))) - (x[class] - m) with m the greatest of the row: of
 * the rows of a matrix. 0 where the class is the one to ignore, and the mean is that of the others. DYN_NONE: it stays a call. */
static uint32_t class_loss(DynRec *r, const NpCall *c, int reduction) {
    uint32_t x = dyn_tt_tensor(r, c, "input"), t = dyn_tt_tensor(r, c, "target");
    DynOperand ignored = dyn_np_slot(c, "ignore_index");
    double smoothing = 0;
    int last = 1, rows = 0, overflow = 0;
    bool entropy = c->b->op == 2;
    if (x == DYN_NONE || t == DYN_NONE || dyn_np_slot(c, "weight").v != NULL) {
        return DYN_NONE;
    }
    if (entropy && dyn_tt_burnt_float(r, dyn_np_slot(c, "label_smoothing"), &smoothing) < 0) {
        return DYN_NONE;
    }
    if (smoothing != 0 || !are_rows_and_classes(r, x, t)) {
        return DYN_NONE;
    }
    if (ignored.v != NULL && (!PyLong_CheckExact(ignored.real) || dyn_rec_burn(r, ignored.v, ignored.real) < 0)) {
        return DYN_NONE;
    }
    int64_t skip = ignored.v == NULL ? -100 : PyLong_AsLongLongAndOverflow(ignored.real, &overflow);
    uint32_t counts = overflow ? DYN_NONE : dyn_tt_compare(r, DYN_OP_NOT_EQUAL, t, dyn_tt_int(r, skip));
    uint32_t loss = counts == DYN_NONE ? counts : of_class(r, x, t, counts);
    if (entropy) {
        uint32_t most = loss == DYN_NONE ? loss : dyn_tt_reduce(r, DYN_OP_MAX, x, 1, &last, false);
        uint32_t e = most == DYN_NONE ? most : dyn_tt_nodes(r, DYN_OP_SUBTRACT, x, dyn_np_newaxis(r, most, 2, 2));
        e = dyn_tt_unary(r, DYN_OP_LOG, dyn_tt_reduce(r, DYN_OP_SUM, dyn_tt_unary(r, DYN_OP_EXP, e), 1, &last, false));
        loss = dyn_tt_nodes(r, DYN_OP_SUBTRACT, e, dyn_tt_nodes(r, DYN_OP_SUBTRACT, loss, most));
    } else {
        loss = dyn_tt_unary(r, DYN_OP_NEGATIVE, loss);
    }
    loss = loss == DYN_NONE ? loss : dyn_tt_choose(r, counts, loss, dyn_tt_number(r, 0));
    if (reduction == NONE || loss == DYN_NONE) {
        return loss;
    }
    uint32_t sum = dyn_tt_reduce(r, DYN_OP_SUM, loss, 1, &rows, false);
    if (reduction == SUM || sum == DYN_NONE) {
        return sum;
    }
    uint32_t number = dyn_tt_cast(r, counts, (DynDtype)dyn_np_node_at(r, x)->dtype);
    return dyn_tt_nodes(r, DYN_OP_DIVIDE, sum, dyn_tt_reduce(r, DYN_OP_SUM, number, 1, &rows, false));
}

/* Of a device's tensors: gradients go through PyTorch's kernels, which keep what those need. */
static bool stays_call(DynRec *r, const NpCall *c) {
    uint32_t x = dyn_tt_tensor(r, c, "input");
    bool rows = c->b->op == 2 && x != DYN_NONE && dyn_np_node_at(r, x)->ndim == 2;
    return dyn_tt_has_own_kernel(r) && !(rows && !rec_torch_follows(c->result) && dyn_tt_rows_pay(r, x, 1));
}

/* What is no class_loss, and binary_cross_entropy (operator 0): calls. Reduced they give one number, else what is as large as the
 * target, unless that holds probabilities of classes. */
DynVal *tt_rule_class_loss(DynRec *r, NpCall *c) {
    int reduction = reduction_of(r, c);
    uint32_t t = dyn_tt_tensor(r, c, "target"), shape[DYN_MAX_NDIM];
    if (reduction < 0 || reduction == BATCHMEAN || t == DYN_NONE) {
        return dyn_np_unsupported(r);
    }
    bool called = c->b->op == 0 || stays_call(r, c);
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n, node = called ? DYN_NONE : class_loss(r, c, reduction);
    DynVal *v = node == DYN_NONE ? NULL : dyn_tt_finish(r, c, node);
    if (v != NULL) {
        return v;
    }
    dyn_rec_truncate(r, nnodes);
    *dyn_rec_why(r) = DYN_R_OK;
    if (reduction != NONE) {
        return dyn_np_sized_call(r, c, 0, shape);
    }
    const DynNode *n = dyn_np_node_at(r, t);
    if (c->b->op != 0 && n->dtype != DYN_I64) {
        return dyn_np_unsupported(r);
    }
    memcpy(shape, n->shape, sizeof(*shape) * n->ndim);
    return dyn_np_sized_call(r, c, n->ndim, shape);
}
