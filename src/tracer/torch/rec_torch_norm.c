/* rec_torch_norm.c: softmax and the normalisations as the reductions and elementwise operators that they are made of. Called
 * through the binding table. The formulas are those of torch.nn's documentation; halves go by float and are rounded once. */
#include "tracer/torch/rec_torch.h"

/* A tensor of floats; halves as float. *dtype: its own. */
static uint32_t operand(DynRec *r, const NpCall *c, DynDtype *dtype) {
    uint32_t a = dyn_tt_tensor(r, c, "input");
    if (a == DYN_NONE) {
        return a;
    }
    *dtype = (DynDtype)dyn_np_node_at(r, a)->dtype;
    return dyn_dtypes[*dtype].kind != 'f' ? dyn_np_no_node(r) : dyn_tt_cast(r, a, dyn_tt_wide(*dtype));
}

/* What a half of that dtype would have kept of it. */
static uint32_t rounded(DynRec *r, uint32_t a, DynDtype dt) {
    DynDtype wide = a == DYN_NONE ? DYN_NO_DTYPE : (DynDtype)dyn_np_node_at(r, a)->dtype;
    return dyn_dtype_is_half(dt) ? dyn_tt_cast(r, dyn_tt_cast(r, a, dt), wide) : a;
}

/* Layers that normalise: on devices gradients go through PyTorch's kernels, which keep what those need. Where there are none the
 * formula is fused with what stands around it, and its launch takes the host a third of the call. */
static bool stays_call(DynRec *r, const NpCall *c) { return dyn_tt_has_own_kernel(r) && rec_torch_follows(c->result); }

static DynVal *call_like_input(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor(r, c, "input");
    const DynNode *x = a == DYN_NONE ? NULL : dyn_np_node_at(r, a);
    return x == NULL ? dyn_np_unsupported(r) : dyn_np_sized_call(r, c, x->ndim, x->shape);
}

/* ---- softmax */

/* PyTorch's own kernels for rows of so many elements have a row in a warp's registers, and are faster than ours by themselves. */
#define SHORT_ROW 1024

bool dyn_tt_rows_pay(DynRec *r, uint32_t a, int axis) {
    const DynNode *n = dyn_np_node_at(r, a);
    DynOpKind kind = (DynOpKind)dyn_ops[n->op].kind;
    bool made = kind == DYN_K_ELEMENTWISE || kind == DYN_K_GATHER;
    return made || axis != n->ndim - 1 || dyn_sym_at(dyn_rec_syms(r), n->shape[axis])->hint.i > SHORT_ROW;
}

/* On a device: is PyTorch's call the faster one? Gradients go through it, too. */
static bool softmax_stays_call(DynRec *r, const NpCall *c, uint32_t a) {
    DynOperand dim = dyn_np_slot(c, "dim");
    int axis, ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    if (!dyn_tt_has_own_kernel(r) || rec_torch_follows(c->result) || ndim == 0 || dim.v == NULL) {
        return dyn_tt_has_own_kernel(r);
    }
    return dyn_tt_axis(r, dim, ndim, &axis) < 0 || !dyn_tt_rows_pay(r, a, axis);
}

/* Operator 0: exp(x - max) / sum of it; 1: its logarithm, x - max - log(sum), which along the last axis is kept in the dtype (as
 * the sum is): aten/src/ATen/native/cpu/SoftMaxKernel.cpp. 2: softmin. */
DynVal *tt_rule_softmax(DynRec *r, NpCall *c) {
    DynDtype dt = DYN_NO_DTYPE;
    uint32_t a = dyn_tt_tensor(r, c, "input");
    int axis, naxes;
    if (softmax_stays_call(r, c, a)) {
        return call_like_input(r, c);
    }
    if (a == DYN_NONE || dyn_tt_axis(r, dyn_np_slot(c, "dim"), dyn_np_node_at(r, a)->ndim, &axis) < 0 ||
        dyn_tt_dtype(r, c, &dt) < 0) {
        return NULL;
    }
    dt = dt == DYN_NO_DTYPE ? (DynDtype)dyn_np_node_at(r, a)->dtype : dt;
    if (dyn_dtypes[dt].kind != 'f') {
        return dyn_np_unsupported(r);
    }
    int ndim = dyn_np_node_at(r, a)->ndim;
    naxes = ndim > 0;
    a = dyn_tt_cast(r, dyn_tt_cast(r, a, dt), dyn_tt_wide(dt));
    a = c->b->op == 2 ? dyn_tt_unary(r, DYN_OP_NEGATIVE, a) : a;
    a = dyn_tt_nodes(r, DYN_OP_SUBTRACT, a, dyn_tt_reduce(r, DYN_OP_MAX, a, naxes, &axis, true));
    uint32_t e = dyn_tt_unary(r, DYN_OP_EXP, a), sum = dyn_tt_reduce(r, DYN_OP_SUM, e, naxes, &axis, true);
    DynDtype kept = naxes > 0 && axis == ndim - 1 && !dyn_tt_has_own_kernel(r) ? dt : DYN_NO_DTYPE;
    uint32_t node =
        c->b->op == 1 ? dyn_tt_nodes(r, DYN_OP_SUBTRACT, a, rounded(r, dyn_tt_unary(r, DYN_OP_LOG, rounded(r, sum, kept)), kept))
                      : dyn_tt_nodes(r, DYN_OP_DIVIDE, e, sum);
    return dyn_tt_finish(r, c, dyn_tt_cast(r, node, dt));
}

/* log(sum(exp(x))) = m + log(sum(exp(x - m))): m is the greatest, or 0 where that is infinite. */
DynVal *tt_rule_logsumexp(DynRec *r, NpCall *c) {
    DynDtype dt;
    uint32_t a = operand(r, c, &dt);
    bool keepdim = false;
    int axes[DYN_MAX_NDIM];
    if (a == DYN_NONE || dyn_np_slot(c, "dim").v == NULL || dyn_np_node_at(r, a)->ndim == 0) {
        return dyn_np_unsupported(r);
    }
    int naxes = dyn_np_axes(r, dyn_np_slot(c, "dim"), dyn_np_node_at(r, a)->ndim, axes);
    if (naxes <= 0 || dyn_np_flag(r, dyn_np_slot(c, "keepdim"), &keepdim) < 0) {
        return dyn_np_unsupported(r);
    }
    uint32_t most[2] = {DYN_NONE, DYN_NONE};
    for (int i = keepdim; i < 2; i++) { /* to subtract, and to add to the result */
        uint32_t m = dyn_tt_reduce(r, DYN_OP_MAX, a, naxes, axes, i);
        NpArg arg = m == DYN_NONE ? (NpArg){0} : dyn_np_node_arg(r, m);
        uint32_t fine = m == DYN_NONE ? m : dyn_tt_elementwise(r, DYN_OP_ISINF, (DynDtype)arg.code, DYN_BOOL, &arg, 1);
        most[i] = fine == DYN_NONE ? fine : dyn_tt_choose(r, dyn_tt_unary(r, DYN_OP_LOGICAL_NOT, fine), m, dyn_tt_number(r, 0));
    }
    uint32_t t = dyn_tt_unary(r, DYN_OP_EXP, dyn_tt_nodes(r, DYN_OP_SUBTRACT, a, most[1]));
    t = dyn_tt_unary(r, DYN_OP_LOG, dyn_tt_reduce(r, DYN_OP_SUM, t, naxes, axes, keepdim));
    return dyn_tt_finish(r, c, dyn_tt_cast(r, dyn_tt_nodes(r, DYN_OP_ADD, t, most[keepdim]), dt));
}

/* ---- normalisation */

typedef struct Affine { /* what comes behind: times weight plus bias, each a tensor or DYN_NONE */
    uint32_t weight, bias;
} Affine;

/* Both of dtype dt, or of halves both of float32. */
static int affine_of(DynRec *r, const NpCall *c, DynDtype dt, Affine *out) {
    const char *const names[] = {"weight", "bias"};
    uint32_t *to[] = {&out->weight, &out->bias};
    DynOperand first = dyn_np_slot(c, "weight");
    if (dyn_dtype_is_half(dt) && first.v != NULL && dyn_np_dtype_of(first.real) == DYN_F32) {
        dt = DYN_F32;
    }
    for (int i = 0; i < 2; i++) {
        *to[i] = DYN_NONE;
        if (dyn_np_slot(c, names[i]).v == NULL) {
            continue;
        }
        if ((*to[i] = dyn_tt_tensor(r, c, names[i])) == DYN_NONE || dyn_np_node_at(r, *to[i])->dtype != dt) {
            return dyn_np_unsupported(r), -1;
        }
    }
    return 0;
}

static uint32_t scaled(DynRec *r, uint32_t node, const Affine *x) {
    node = x->weight == DYN_NONE ? node : dyn_tt_nodes(r, DYN_OP_MULTIPLY, node, x->weight);
    return x->bias == DYN_NONE ? node : dyn_tt_nodes(r, DYN_OP_ADD, node, x->bias);
}

/* A tensor of one axis as long as the operand's axis 1, in line with that axis. */
static int along_channels(DynRec *r, uint32_t a, uint32_t *w) {
    int ndim = dyn_np_node_at(r, a)->ndim;
    if (*w == DYN_NONE) {
        return 0;
    }
    if (ndim < 2 || dyn_np_node_at(r, *w)->ndim != 1 ||
        dyn_np_agree(r, dyn_np_node_at(r, *w)->shape[0], dyn_np_node_at(r, a)->shape[1]) < 0) {
        return dyn_np_unsupported(r), -1;
    }
    *w = ndim == 2 ? *w : dyn_np_newaxis(r, *w, ((1u << (ndim - 2)) - 1) << 1, ndim - 1);
    return *w == DYN_NONE ? -1 : 0;
}

/* 1 / sqrt(x + eps) */
static uint32_t inverse_root(DynRec *r, uint32_t a, double eps) {
    return dyn_tt_unary(r, DYN_OP_RECIPROCAL, dyn_tt_unary(r, DYN_OP_SQRT, dyn_tt_by(r, DYN_OP_ADD, a, eps)));
}

/* (x - mean) / sqrt(variance + eps) over axes. */
static uint32_t normalised(DynRec *r, uint32_t a, int naxes, const int *axes, double eps) {
    uint32_t centred = dyn_tt_nodes(r, DYN_OP_SUBTRACT, a, dyn_tt_mean(r, a, naxes, axes, true));
    uint32_t variance = dyn_tt_mean(r, dyn_tt_unary(r, DYN_OP_SQUARE, centred), naxes, axes, true);
    return dyn_tt_nodes(r, DYN_OP_MULTIPLY, centred, inverse_root(r, variance, eps));
}

/* The axes of normalized_shape: the last ones; weight and bias, where there are, are of that shape. */
static int last_axes(DynRec *r, const NpCall *c, uint32_t a, const Affine *x, int *axes) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = dyn_np_node_at(r, a)->ndim, n = dyn_np_shape_arg(r, dyn_np_slot(c, "normalized_shape"), false, shape);
    const uint32_t affine[2] = {x->weight, x->bias};
    if (n < 1 || n > ndim) {
        return dyn_np_unsupported(r), -1;
    }
    for (int i = 0; i < n; i++) {
        axes[i] = ndim - n + i;
        if (dyn_np_agree(r, shape[i], dyn_np_node_at(r, a)->shape[axes[i]]) < 0) {
            return -1;
        }
    }
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < n && affine[k] != DYN_NONE; i++) {
            if (dyn_np_node_at(r, affine[k])->ndim != n ||
                dyn_np_agree(r, dyn_np_node_at(r, affine[k])->shape[i], shape[i]) < 0) {
                return dyn_np_unsupported(r), -1;
            }
        }
    }
    return n;
}

/* The distance from 1 to the next number of that dtype. */
static double epsilon_of(DynDtype dt) {
    switch (dt) {
    case DYN_F64: return 0x1p-52;
    case DYN_F32: return 0x1p-23;
    case DYN_BF16: return 0x1p-7;
    default: return 0x1p-10;
    }
}

/* Operator 1: rms_norm, x / sqrt(mean of the squares + eps), whose eps is that of the dtype where none is given. */
DynVal *tt_rule_layer_norm(DynRec *r, NpCall *c) {
    DynDtype dt;
    Affine x;
    int axes[DYN_MAX_NDIM];
    bool rms = c->b->op == 1;
    if (stays_call(r, c)) {
        return call_like_input(r, c);
    }
    uint32_t a = operand(r, c, &dt);
    if (a == DYN_NONE || affine_of(r, c, dt, &x) < 0) {
        return NULL;
    }
    if (rms && x.weight != DYN_NONE && dyn_np_node_at(r, x.weight)->dtype != dt) { /* torch warns */
        return dyn_np_unsupported(r);
    }
    double eps = rms ? epsilon_of(dt) : 1e-5;
    int n = last_axes(r, c, a, &x, axes);
    if (n < 0 || dyn_tt_burnt_float(r, dyn_np_slot(c, "eps"), &eps) < 0) {
        return NULL;
    }
    if (!rms) {
        return dyn_tt_finish(r, c, dyn_tt_cast(r, scaled(r, normalised(r, a, n, axes, eps), &x), dt));
    }
    uint32_t root = inverse_root(r, dyn_tt_mean(r, dyn_tt_unary(r, DYN_OP_SQUARE, a), n, axes, true), eps);
    return dyn_tt_finish(r, c, scaled(r, dyn_tt_cast(r, dyn_tt_nodes(r, DYN_OP_MULTIPLY, a, root), dt), &x));
}

/* Both factors, which go by the channels, along axis 1 of a. */
static int affine_along_channels(DynRec *r, uint32_t a, Affine *x) {
    return along_channels(r, a, &x->weight) < 0 ? -1 : along_channels(r, a, &x->bias);
}

/* Groups of the axis 1, with all axes behind it, are normalised; weight and bias go by that axis. */
DynVal *tt_rule_group_norm(DynRec *r, NpCall *c) {
    DynDtype dt;
    Affine x;
    int axes[DYN_MAX_NDIM];
    uint32_t a = operand(r, c, &dt), whole[DYN_MAX_NDIM], shape[DYN_MAX_NDIM];
    if (stays_call(r, c)) {
        return call_like_input(r, c);
    }
    DynOperand groups = dyn_np_slot(c, "num_groups");
    double eps = 1e-5;
    int ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    if (ndim < 2 || ndim == DYN_MAX_NDIM || groups.v == NULL) {
        return dyn_np_unsupported(r);
    }
    if (affine_of(r, c, dt, &x) < 0 || dyn_tt_burnt_float(r, dyn_np_slot(c, "eps"), &eps) < 0 ||
        affine_along_channels(r, a, &x) < 0) {
        return dyn_np_unsupported(r);
    }
    uint32_t g = dyn_np_int_sym(r, groups);
    memcpy(whole, dyn_np_node_at(r, a)->shape, sizeof(*whole) * (size_t)ndim);
    if (g == DYN_NONE || dyn_np_assume_op(r, DYN_S_GT, g, 0) < 0) {
        return dyn_np_unsupported(r);
    }
    shape[0] = whole[0];
    shape[1] = g;
    shape[2] = dyn_np_op(r, DYN_S_FLOORDIV, whole[1], g);
    memcpy(shape + 3, whole + 2, sizeof(*whole) * (size_t)(ndim - 2));
    if (dyn_np_agree(r, dyn_np_op(r, DYN_S_MUL, shape[2], g), whole[1]) < 0) {
        return NULL;
    }
    for (int i = 2; i <= ndim; i++) {
        axes[i - 2] = i;
    }
    uint32_t n = dyn_np_product(r, ndim - 1, shape + 2); /* one value for each group is refused by torch */
    if (n == DYN_NONE || dyn_np_assume_op(r, DYN_S_GT, n, 1) < 0) {
        return dyn_np_unsupported(r);
    }
    uint32_t parts = dyn_np_reshape(r, a, ndim + 1, shape, false);
    parts = parts == DYN_NONE ? parts : normalised(r, parts, ndim - 1, axes, eps);
    parts = parts == DYN_NONE ? parts : dyn_np_reshape(r, parts, ndim, whole, false);
    bool plain = x.weight == DYN_NONE && x.bias == DYN_NONE;
    if (parts != DYN_NONE && plain && !dyn_dtype_is_half(dt)) {
        parts = dyn_np_copy(r, parts, dt); /* a tensor of its own */
    }
    return dyn_tt_finish(r, c, dyn_tt_cast(r, scaled(r, parts, &x), dt));
}

/* ---- batch_norm */

/* running = (1 - momentum) * running + momentum * value, rounded once */
static int keep_running(DynRec *r, DynOperand to, uint32_t value, double momentum) {
    uint32_t running = to.v->kind != DV_ARRAY ? dyn_np_no_node(r) : dyn_np_node(r, to);
    DynDtype wide = running == DYN_NONE ? DYN_NO_DTYPE : dyn_tt_wide((DynDtype)dyn_np_node_at(r, running)->dtype);
    uint32_t t = running == DYN_NONE ? running : dyn_tt_by(r, DYN_OP_MULTIPLY, dyn_tt_cast(r, running, wide), 1 - momentum);
    t = dyn_tt_nodes(r, DYN_OP_ADD, t, dyn_tt_by(r, DYN_OP_MULTIPLY, dyn_tt_cast(r, value, wide), momentum));
    return t == DYN_NONE || dyn_np_store_into(r, to, dyn_np_node_arg(r, t)) == NULL ? -1 : 0;
}

/* With the statistics of this batch, which go into the running ones: those of the variance over n - 1. `each`: each instance has
 * its own, of which the running ones get the mean. */
static uint32_t of_this_batch(DynRec *r, const NpCall *c, uint32_t a, bool each, double momentum, double eps) {
    int axes[DYN_MAX_NDIM] = {0}, batch = 0, naxes = 0;
    DynOperand running[2] = {dyn_np_slot(c, "running_mean"), dyn_np_slot(c, "running_var")};
    for (int i = 0; i < dyn_np_node_at(r, a)->ndim; i++) {
        if (i > 1 || (i == 0 && !each)) {
            axes[naxes++] = i;
        }
    }
    uint32_t n = dyn_tt_count(r, a, naxes, axes);
    if (n == DYN_NONE || dyn_np_assume_op(r, DYN_S_GT, n, 1) < 0) {
        return dyn_np_no_node(r);
    }
    uint32_t mean = dyn_tt_mean(r, a, naxes, axes, true), centred = dyn_tt_nodes(r, DYN_OP_SUBTRACT, a, mean);
    uint32_t squares = dyn_tt_unary(r, DYN_OP_SQUARE, centred), variance = dyn_tt_mean(r, squares, naxes, axes, true);
    uint32_t node = dyn_tt_nodes(r, DYN_OP_MULTIPLY, centred, inverse_root(r, variance, eps));
    NpArg freedom = {{DYN_ARG_SYM, dyn_np_op(r, DYN_S_SUB, n, dyn_np_int(r, 1))}, NP_WEAK_INT};
    for (int i = 0; i < 2 && node != DYN_NONE; i++) {
        if (running[i].v == NULL) {
            continue;
        }
        uint32_t value =
            i == 0 ? dyn_tt_mean(r, a, naxes, axes, false)
                   : dyn_tt_binary(r, DYN_OP_DIVIDE, dyn_tt_reduce(r, DYN_OP_SUM, squares, naxes, axes, false), freedom);
        value = each && value != DYN_NONE ? dyn_tt_mean(r, value, 1, &batch, false) : value;
        if (value == DYN_NONE || keep_running(r, running[i], value, momentum) < 0) {
            return DYN_NONE;
        }
    }
    return node;
}

/* While gradients are recorded it is PyTorch's call, which changes the running statistics. */
static DynVal *called_for_this_batch(DynRec *r, NpCall *c, uint32_t a, const Affine *running) {
    const uint32_t changed[2] = {running->weight, running->bias};
    for (int i = 0; i < 2; i++) {
        if (changed[i] != DYN_NONE && dyn_rec_will_write(r, changed[i]) < 0) {
            return dyn_np_unsupported(r);
        }
    }
    return dyn_np_sized_once(r, c, dyn_np_node_at(r, a)->ndim, dyn_np_node_at(r, a)->shape);
}

/* batch_norm; instance_norm (operator 1). Where PyTorch keeps the statistics of a batch as halves the call stays its own, since
 * how it rounds them shows. */
DynVal *tt_rule_batch_norm(DynRec *r, NpCall *c) {
    DynDtype dt = DYN_NO_DTYPE;
    Affine x, running = {dyn_tt_tensor(r, c, "running_mean"), dyn_tt_tensor(r, c, "running_var")};
    bool training = false;
    double momentum = 0.1, eps = 1e-5;
    uint32_t a = operand(r, c, &dt), node;
    DynDtype kept = running.weight == DYN_NONE ? dt : (DynDtype)dyn_np_node_at(r, running.weight)->dtype;
    const TtFloat floats[] = {{"momentum", &momentum}, {"eps", &eps}};
    if (a == DYN_NONE || dyn_np_node_at(r, a)->ndim < 2) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_flag(r, dyn_np_slot(c, c->b->op == 1 ? "use_input_stats" : "training"), &training) < 0 ||
        dyn_tt_burnt_floats(r, c, floats, 2) < 0) {
        return dyn_np_unsupported(r);
    }
    if (training && rec_torch_follows(c->result)) {
        return called_for_this_batch(r, c, a, &running);
    }
    bool half_statistics = training && dyn_dtype_is_half(kept);
    if (half_statistics || affine_of(r, c, kept, &x) < 0 || affine_along_channels(r, a, &x) < 0) {
        return dyn_np_unsupported(r);
    }
    if (training) {
        node = of_this_batch(r, c, a, c->b->op == 1, momentum, eps);
    } else {
        if (running.weight == DYN_NONE || running.bias == DYN_NONE || affine_along_channels(r, a, &running) < 0) {
            return dyn_np_unsupported(r);
        }
        node = dyn_tt_nodes(r, DYN_OP_MULTIPLY, dyn_tt_nodes(r, DYN_OP_SUBTRACT, a, running.weight),
                            inverse_root(r, dyn_tt_cast(r, running.bias, (DynDtype)dyn_np_node_at(r, a)->dtype), eps));
    }
    return dyn_tt_finish(r, c, dyn_tt_cast(r, scaled(r, node, &x), dt));
}

/* ---- F.normalize */

/* x / max(norm of x along dim, eps) */
DynVal *tt_rule_normalize(DynRec *r, NpCall *c) {
    DynOperand dim = dyn_np_slot(c, "dim");
    DynDtype dt;
    double p = 2, eps = 1e-12;
    int axes[DYN_MAX_NDIM] = {1}, naxes = 1;
    uint32_t a = dyn_tt_tensor(r, c, "input");
    const TtFloat floats[] = {{"p", &p}, {"eps", &eps}};
    if (a == DYN_NONE || dyn_tt_burnt_floats(r, c, floats, 2) < 0) {
        return NULL;
    }
    dt = (DynDtype)dyn_np_node_at(r, a)->dtype;
    if (dim.v != NULL) {
        naxes = dyn_np_axes(r, dim, dyn_np_node_at(r, a)->ndim, axes);
    }
    bool single_or_double = dyn_dtypes[dt].kind == 'f' && !dyn_dtype_is_half(dt);
    if (naxes <= 0 || dyn_np_node_at(r, a)->ndim < (dim.v == NULL ? 2 : 1) || !single_or_double) {
        return dyn_np_unsupported(r);
    }
    uint32_t norm = dyn_tt_by(r, DYN_OP_MAXIMUM, dyn_tt_norm(r, a, p, naxes, axes, true), eps);
    return dyn_tt_finish(r, c, dyn_tt_nodes(r, DYN_OP_DIVIDE, a, norm));
}
