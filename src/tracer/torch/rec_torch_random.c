/* rec_torch_random.c: random numbers. PyTorch's calls are made in their places, so the stream is eager's; with
 * config.fallback_random off a call draws one seed from that stream, and the numbers are made of it and of each element's place,
 * by kernels that are fused with what uses them (Philox). The call that is recorded has eager's numbers either way. Called
 * through the binding table. */
#include "tracer/torch/rec_torch.h"

typedef struct Draw { /* a call whose numbers kernels make */
    DynDtype dtype;   /* float32 or float64 */
    int ndim;
    const uint32_t *shape;
    uint8_t device; /* As DynArrayView has it. */
} Draw;

/* ---- numbers from a seed */

/* One number for the whole call, from PyTorch's generator: the one of the device on which the numbers are to be. */
static uint32_t seed(DynRec *r, const Draw *d) {
    static PyObject *randint; /* of a module that stays */
    randint = randint == NULL ? PyObject_GetAttrString(dyn_torch_module, "randint") : randint;
    bool elsewhere = d->device != 0;
    PyObject *device = elsewhere ? dyn_torch_device_object(d->device) : NULL;
    PyObject *args = Py_BuildValue("(LL())", (long long)INT64_MIN, (long long)INT64_MAX);
    PyObject *kw = device == NULL ? PyDict_New() : Py_BuildValue("{sO}", "device", device);
    PyObject *names = device == NULL ? NULL : Py_BuildValue("(s)", "device");
    bool ready = DYN_ALLOCATED(randint, args, kw) && elsewhere == (names != NULL);
    PyObject *real = ready ? PyObject_Call(randint, args, kw) : NULL;
    DynOperand o[4];
    bool made = real != NULL;
    for (int i = 0; i < 3 + elsewhere && made; i++) {
        PyObject *arg = i == 3 ? device : PyTuple_GET_ITEM(args, i);
        o[i] = (DynOperand){dyn_rec_const(r, arg), arg};
        made = o[i].v != NULL;
    }
    DynVal *v = made ? dyn_np_extern_once(r, randint, "randint", o, 3, names, real) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(kw);
    Py_XDECREF(names);
    Py_XDECREF(real);
    Py_XDECREF(device);
    PyErr_Clear();
    return v == NULL ? DYN_NONE : rec_node_of(v);
}

static uint8_t device_of(PyObject *result) {
    DynArrayView view;
    return dyn_torch_look(result, &view) ? view.device : 0;
}

/* 63 random bits for each element. other: a second number for each. */
static uint32_t bits(DynRec *r, const Draw *d, uint32_t seed, bool other) {
    uint32_t shape[DYN_MAX_NDIM], n = dyn_np_product(r, d->ndim, d->shape), at = seed == DYN_NONE ? seed : dyn_np_iota(r, n);
    memcpy(shape, d->shape, sizeof(*shape) * d->ndim);
    at = at == DYN_NONE ? at : dyn_np_reshape(r, at, d->ndim, shape, false);
    at = other ? dyn_tt_unary(r, DYN_OP_INVERT, at) : at;
    if (at == DYN_NONE) {
        return at;
    }
    NpArg args[2] = {dyn_np_node_arg(r, seed), dyn_np_node_arg(r, at)};
    return dyn_np_elementwise_as(r, DYN_OP_PHILOX, DYN_I64, DYN_I64, args, 2);
}

static uint32_t by_int(DynRec *r, DynOp op, uint32_t a, int64_t b) {
    return a == DYN_NONE ? a : dyn_tt_binary(r, op, a, dyn_tt_int(r, b));
}

/* As many bits as the dtype holds, as a number from 0 to below 1; more: above 0, to 1. */
static uint32_t unit(DynRec *r, const Draw *d, uint32_t whole, bool more) {
    whole = more ? by_int(r, DYN_OP_ADD, whole, 1) : whole;
    whole = d->dtype == DYN_F32 ? dyn_tt_cast(r, whole, DYN_I32) : whole; /* which compilers have vectors for */
    return dyn_tt_by(r, DYN_OP_MULTIPLY, dyn_tt_cast(r, whole, d->dtype), d->dtype == DYN_F32 ? 0x1p-24 : 0x1p-53);
}

static uint32_t uniform(DynRec *r, const Draw *d) {
    return unit(r, d, by_int(r, DYN_OP_RIGHT_SHIFT, bits(r, d, seed(r, d), false), d->dtype == DYN_F32 ? 39 : 10), false);
}

/* Box and Muller's, "A note on the generation of random normal deviates" (1958): sqrt(-2 log u) cos(2 pi v). */
static uint32_t normal(DynRec *r, const Draw *d) {
    bool single = d->dtype == DYN_F32; /* both numbers from one draw */
    uint32_t s = seed(r, d), first = bits(r, d, s, false), second = first == DYN_NONE || single ? first : bits(r, d, s, true);
    uint32_t u = unit(r, d, by_int(r, DYN_OP_RIGHT_SHIFT, first, single ? 39 : 10), true);
    uint32_t v = unit(r, d, by_int(r, DYN_OP_BITWISE_AND, second, single ? (1 << 24) - 1 : ((int64_t)1 << 53) - 1), false);
    uint32_t angle = dyn_tt_by(r, DYN_OP_MULTIPLY, v, 0x1.921fb54442d18p+2);
    uint32_t radius = dyn_tt_by(r, DYN_OP_MULTIPLY, dyn_tt_unary(r, DYN_OP_LOG, u), -2);
    return dyn_tt_nodes(r, DYN_OP_MULTIPLY, dyn_tt_unary(r, DYN_OP_SQRT, radius), dyn_tt_unary(r, DYN_OP_COS, angle));
}

/* Whole numbers from `low` to below `high`, which are not further apart than 31 bits. */
static uint32_t whole(DynRec *r, const Draw *d, uint32_t low, uint32_t range) {
    uint32_t n = by_int(r, DYN_OP_RIGHT_SHIFT, bits(r, d, seed(r, d), false), 31);
    n = n == DYN_NONE ? n : dyn_tt_binary(r, DYN_OP_MULTIPLY, n, (NpArg){{DYN_ARG_SYM, range}, NP_WEAK_INT});
    n = by_int(r, DYN_OP_RIGHT_SHIFT, n, 32);
    return n == DYN_NONE ? n : dyn_tt_binary(r, DYN_OP_ADD, n, (NpArg){{DYN_ARG_SYM, low}, NP_WEAK_INT});
}

/* ---- calls */

/* Are numbers of this call made by kernels? Not those of a generator that is handed in. */
static bool is_ours(const DynRec *r, const NpCall *c) {
    for (int i = 0; i < c->nkw; i++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, i), "generator") == 0 &&
            c->args[c->npos + i].real != Py_None) {
            return false;
        }
    }
    return dyn_rec_own_random(r) && dyn_torch_is(c->result);
}

static bool lies_in_c_order(PyObject *tensor) { /* what is like a transposed one doesn't */
    DynArrayView view;
    DynLayout layout;
    if (!dyn_torch_look(tensor, &view)) {
        return false;
    }
    dyn_layout_of(&view, &layout);
    return layout.kind == DYN_LAYOUT_C;
}

static bool is_float(DynDtype dt) { return dt == DYN_F32 || dt == DYN_F64; }

static bool begins(const NpCall *c, const char *word) { return strncmp(c->b->path, word, strlen(word)) == 0; }

/* rand and randn of sizes, or like a tensor. NULL: the call it is. */
static DynVal *made(DynRec *r, NpCall *c, int ndim, const uint32_t *shape) {
    Draw d = {dyn_np_dtype_of(c->result), ndim, shape, device_of(c->result)};
    bool normally = begins(c, "randn");
    bool uniformly = begins(c, "rand_like") || strcmp(c->b->path, "rand") == 0;
    if (!is_ours(r, c) || !is_float(d.dtype) || !lies_in_c_order(c->result)) {
        return NULL;
    }
    if (!normally && !uniformly) {
        return NULL;
    }
    return dyn_np_result(r, normally ? normal(r, &d) : uniform(r, &d), c->result);
}

/* randint(high, size) and randint(low, high, size). */
static DynVal *made_whole(DynRec *r, NpCall *c, int ndim, const uint32_t *shape) {
    Draw d = {DYN_I64, ndim, shape, device_of(c->result)};
    if (!is_ours(r, c) || dyn_np_dtype_of(c->result) != DYN_I64) {
        return NULL;
    }
    uint32_t low = c->npos == 2 ? dyn_np_int(r, 0) : dyn_np_int_sym(r, c->args[0]);
    uint32_t range = dyn_np_op(r, DYN_S_SUB, dyn_np_int_sym(r, c->args[c->npos - 2]), low);
    if (range == DYN_NONE || dyn_np_hint(r, range) > INT32_MAX) {
        return NULL;
    }
    if (dyn_np_assume_op(r, DYN_S_GT, range, 0) < 0 || dyn_np_assume_op(r, DYN_S_LE, range, INT32_MAX) < 0) {
        return NULL;
    }
    return dyn_np_result(r, whole(r, &d, low, range), c->result);
}

/* rand_like, bernoulli and the like: the first operand's sizes. */
DynVal *tt_rule_draw_like(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = c->npos == 0 ? -1 : dyn_tt_sizes_of(r, c->args[0], shape);
    if (ndim < 0) {
        return dyn_np_unsupported(r);
    }
    DynVal *v = made(r, c, ndim, shape);
    return v != NULL ? v : dyn_np_sized_once(r, c, ndim, shape);
}

static bool is_given_by_place(const char *name) {
    return strcmp(name, "size") == 0 || strcmp(name, "out") == 0 || strcmp(name, "n") == 0;
}

/* rand and randn (operator 0): sizes as arguments, or as one tuple. randint (1): behind one bound or two. randperm (2): one. */
DynVal *tt_rule_draw(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM];
    NpCall positional = *c;
    positional.nkw = 0;
    int ndim = -1;
    for (int i = 0; i < c->nkw; i++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(c->kwnames, i));
        if (name == NULL || is_given_by_place(name)) {
            return PyErr_Clear(), dyn_np_unsupported(r);
        }
    }
    if (c->b->op == 1 && c->npos >= 2 && c->npos <= 3) {
        ndim = dyn_np_shape_arg(r, c->args[c->npos - 1], false, shape);
    } else if (c->b->op != 1) {
        ndim = dyn_tt_sizes(r, &positional, 0, false, shape);
    }
    dyn_tt_default(r);
    if (ndim < 0 || (c->b->op == 2 && ndim != 1)) {
        return dyn_np_unsupported(r);
    }
    DynVal *v = NULL;
    if (c->b->op == 0) {
        v = made(r, c, ndim, shape);
    } else if (c->b->op == 1) {
        v = made_whole(r, c, ndim, shape);
    }
    return v != NULL ? v : dyn_np_sized_once(r, c, ndim, shape);
}

/* What is kept is divided by its share, all else becomes 0: of elements, or (channels: the rank that a batch has) of channels. */
static DynVal *dropped(DynRec *r, NpCall *c, double share, int channels) {
    uint32_t shape[DYN_MAX_NDIM], x = dyn_tt_tensor_of(r, c->args[0]);
    int ndim = dyn_tt_sizes_of(r, c->args[0], shape);
    DynDtype dt = dyn_np_dtype_of(c->result);
    if (ndim < 0 || share >= 1 || !is_ours(r, c)) {
        return NULL;
    }
    if (dyn_dtypes[dt].kind != 'f' || (channels > 0 && ndim != channels)) {
        return NULL;
    }
    for (int i = 2; channels > 0 && i < ndim; i++) {
        shape[i] = dyn_np_int(r, 1);
    }
    Draw d = {dyn_tt_wide(dt), ndim, shape, device_of(c->result)};
    uint32_t kept = dyn_tt_compare(r, DYN_OP_GREATER_EQUAL, uniform(r, &d), dyn_tt_number(r, share));
    uint32_t noise = dyn_tt_by(r, DYN_OP_DIVIDE, dyn_tt_cast(r, kept, dt), 1 - share);
    return dyn_np_result(r, dyn_tt_nodes(r, DYN_OP_MULTIPLY, x, noise), c->result);
}

/* Dropout is nothing where the model is evaluated, and draws where it is trained (operator 1: not unless said). Above 2: of
 * channels, and the rank. */
DynVal *tt_rule_dropout(DynRec *r, NpCall *c) {
    DynOperand p = dyn_np_slot(c, "p");
    bool training = c->b->op != 1, inplace = false;
    double share = 0.5;
    if (dyn_np_flag(r, dyn_np_slot(c, "training"), &training) < 0 || dyn_np_flag(r, dyn_np_slot(c, "inplace"), &inplace) < 0 ||
        dyn_tt_burnt_float(r, p, &share) < 0) {
        return NULL;
    }
    if (!training || share == 0) {
        return c->args[0].real == c->result ? c->args[0].v : dyn_np_unsupported(r);
    }
    if (inplace) {
        return dyn_np_unsupported(r);
    }
    int channels = c->b->op > 2 ? c->b->op : 0;
    DynVal *v = c->b->op == 1 ? NULL : dropped(r, c, share, channels);
    return v != NULL ? v : tt_rule_draw_like(r, c);
}
