/* capture_print.c: guards and captures as text, for the guards and graph logs, fast.entries and debug folders. Reads only; runs
 * repr of plain types alone (dyn_object_print). */
#include "base/tensors.h"
#include "ir/capture.h"

/* ---- guards */

static void print_dtype(DynDtype dt, DynStr *out) {
    PyArray_Descr *descr = PyArray_DescrFromType(dyn_dtypes[dt].npy);
    if (descr != NULL) {
        dyn_object_print((PyObject *)descr->typeobj, out);
    }
    Py_XDECREF((PyObject *)descr);
}

static void print_axes(const DynGuard *g, int ndim, DynStr *out) {
    if (g->layout.kind != DYN_LAYOUT_STRIDED || ndim < 2) {
        return;
    }
    dyn_str_puts(out, " and axes by stride are ");
    for (int i = 0; i < ndim; i++) {
        dyn_str_printf(out, "%s%d", i == 0 ? "(" : ", ", g->layout.perm[i]);
    }
    dyn_str_putc(out, ')');
}

static void print_array(const DynCapture *c, const DynGuard *g, DynStr *out) {
    int ndim = (int)(g->number >> 8 & 255);
    dyn_source_print(&c->sources, g->source, out);
    dyn_str_puts(out, ".dtype == ");
    print_dtype((DynDtype)(g->number & 255), out);
    dyn_str_puts(out, " and ");
    dyn_source_print(&c->sources, g->source, out);
    dyn_str_printf(out, ".ndim == %d", ndim);
    if (g->number & DYN_ARRAY_WRITTEN) {
        dyn_str_puts(out, " and ");
        dyn_source_print(&c->sources, g->source, out);
        dyn_str_puts(out, ".flags.writeable");
    }
    dyn_str_puts(out, " and ");
    if (g->layout.kind == DYN_LAYOUT_STRIDED) {
        dyn_str_puts(out, "not ");
    }
    dyn_source_print(&c->sources, g->source, out);
    dyn_str_puts(out, ".flags.c_contiguous");
    print_axes(g, ndim, out);
}

static void print_tensor(const DynCapture *c, const DynGuard *g, DynStr *out) {
    int ndim = (int)(g->number >> 8 & 255);
    dyn_str_puts(out, "type(");
    dyn_source_print(&c->sources, g->source, out);
    dyn_str_puts(out, ") is ");
    dyn_object_print(g->obj, out);
    dyn_str_puts(out, " and ");
    dyn_source_print(&c->sources, g->source, out);
    dyn_str_puts(out, ".dtype is ");
    dyn_object_print(dyn_tensor_dtype_name(g->obj, (DynDtype)(g->number & 255)), out);
    dyn_str_puts(out, " and ");
    dyn_source_print(&c->sources, g->source, out);
    dyn_str_printf(out, ".ndim == %d and ", ndim);
    int device = (int)(g->number >> DYN_TENSOR_DEVICE & 255);
    if (device != 0) {
        dyn_source_print(&c->sources, g->source, out);
        dyn_str_printf(out, ".device is cuda:%d and ", device - 1);
    }
    bool cupy = g->obj == (PyObject *)dyn_cupy_array;
    if (!cupy) {
        dyn_source_print(&c->sources, g->source, out);
        dyn_str_printf(out, ".requires_grad is %s and ", g->number & DYN_TENSOR_GRAD ? "True" : "False");
    }
    dyn_str_puts(out, g->layout.kind == DYN_LAYOUT_STRIDED ? "not " : "");
    dyn_source_print(&c->sources, g->source, out);
    dyn_str_puts(out, cupy ? ".flags.c_contiguous" : ".is_contiguous()");
    print_axes(g, ndim, out);
}

/* A global's name, the module whose global it is, and that a built-in has the name, too. */
static void print_defined(const DynSource *s, bool missing, DynStr *out) {
    PyObject *module = PyDict_GetItemString(s->obj, "__name__"), *builtins = PyEval_GetBuiltins();
    const char *name = module != NULL && PyUnicode_CheckExact(module) ? PyUnicode_AsUTF8(module) : NULL;
    dyn_object_print(s->key, out);
    dyn_str_puts(out, missing ? " is not defined" : " is defined");
    if (name != NULL) {
        dyn_str_printf(out, " in %.200s", name);
    }
    if (missing && builtins != s->obj && PyDict_Contains(builtins, s->key) == 1) {
        dyn_str_puts(out, " (the built-in is meant)");
    }
}

static void print_existence(const DynCapture *c, const DynGuard *g, bool missing, DynStr *out) {
    const DynSource *s = &c->sources.v.at[g->source];
    switch ((DynAbsence)dyn_source_rows[s->kind].absence) {
    case DYN_ABSENCE_ATTRIBUTE:
        dyn_str_puts(out, missing ? "not hasattr(" : "hasattr(");
        dyn_source_print(&c->sources, s->base, out);
        dyn_str_puts(out, ", ");
        dyn_object_print(s->key, out);
        dyn_str_putc(out, ')');
        break;
    case DYN_ABSENCE_DEFINED: print_defined(s, missing, out); break;
    case DYN_ABSENCE_MEMBER:
        dyn_object_print(s->key, out);
        dyn_str_puts(out, missing ? " not in " : " in ");
        dyn_source_print(&c->sources, s->base, out);
        dyn_str_puts(out, s->kind == DYN_SRC_OWN ? ".__dict__" : "");
        break;
    case DYN_ABSENCE_BOUND:
        dyn_source_print(&c->sources, g->source, out);
        dyn_str_puts(out, missing ? " is not bound" : " is bound");
        break;
    }
}

static void print_missing(const DynCapture *c, const DynGuard *g, DynStr *out) { print_existence(c, g, true, out); }
static void print_present(const DynCapture *c, const DynGuard *g, DynStr *out) { print_existence(c, g, false, out); }
static void print_source(const DynCapture *c, const DynGuard *g, DynStr *out) { dyn_source_print(&c->sources, g->source, out); }
static void print_source2(const DynCapture *c, const DynGuard *g, DynStr *out) { dyn_source_print(&c->sources, g->source2, out); }
static void print_symbol(const DynCapture *c, const DynGuard *g, DynStr *out) {
    dyn_sym_print(&c->syms, &c->sources, g->source, out);
}

static void print_obj(const DynCapture *c, const DynGuard *g, DynStr *out) {
    (void)c;
    dyn_object_print(g->obj, out);
}

static void print_number(const DynCapture *c, const DynGuard *g, DynStr *out) {
    (void)c;
    dyn_str_printf(out, "%lld", (long long)g->number);
}

static void print_is(const DynCapture *c, const DynGuard *g, DynStr *out) {
    (void)c;
    dyn_str_puts(out, g->obj == Py_None || PyBool_Check(g->obj) ? "is" : "==");
}

static void print_in(const DynCapture *c, const DynGuard *g, DynStr *out) {
    (void)c;
    dyn_str_puts(out, g->number ? "in" : "not in");
}

/* The module whose globals the object is. */
static void print_module(const DynCapture *c, const DynGuard *g, DynStr *out) {
    PyObject *module = PyDict_GetItemString(g->obj, "__name__");
    (void)c;
    dyn_str_puts(out, module != NULL && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : "a module");
}

static void print_torch(const DynCapture *c, const DynGuard *g, DynStr *out) {
    (void)c;
    const char *grad = g->number & DYN_TORCH_GRAD ? "True" : "False";
    const char *inference = g->number & DYN_TORCH_INFERENCE ? "True" : "False";
    dyn_str_printf(out,
                   "torch.is_grad_enabled() is %s and torch.is_inference_mode_enabled() is %s and torch.get_default_dtype() is ",
                   grad, inference);
    dyn_object_print(dyn_torch_dtype_object(DYN_TORCH_DEFAULT(g->number)), out);
    int device = DYN_TORCH_DEVICE(g->number);
    if (device != 0) {
        dyn_str_printf(out, " and the default device that was set is %s", device == 1 ? "cpu" : "cuda");
        if (device > 2) {
            dyn_str_printf(out, ":%d", device - 3);
        }
    }
    if (g->number & DYN_TORCH_AUTOCAST) {
        dyn_str_puts(out, " and torch.get_autocast_dtype('cpu'), which is on, is ");
        dyn_object_print(dyn_torch_dtype_object(g->number & DYN_TORCH_AUTOCAST_F16 ? DYN_F16 : DYN_BF16), out);
    }
    if (g->number & DYN_TORCH_AUTOCAST_CUDA) {
        dyn_str_puts(out, " and torch.get_autocast_dtype('cuda'), which is on, is ");
        dyn_object_print(dyn_torch_dtype_object(g->number & DYN_TORCH_AUTOCAST_CUDA_F16 ? DYN_F16 : DYN_BF16), out);
    }
    if (g->number & (DYN_TORCH_AUTOCAST | DYN_TORCH_AUTOCAST_CUDA) && !(g->number & DYN_TORCH_AUTOCAST_CACHE)) {
        dyn_str_puts(out, " and torch.is_autocast_cache_enabled() is False");
    }
    if (g->number >> DYN_TORCH_AUTOCASTS != 0) {
        dyn_str_puts(out, " and autocast's settings, which are changed and put back, are as they were");
    }
}

/* What a {part} of a text in guards.def stands for. */
static const struct {
    const char *part;
    void (*print)(const DynCapture *c, const DynGuard *g, DynStr *out);
} parts[] = {
    {"source", print_source},   {"source2", print_source2}, {"obj", print_obj},       {"number", print_number},
    {"is", print_is},           {"in", print_in},           {"module", print_module}, {"array", print_array},
    {"tensor", print_tensor},   {"torch", print_torch},     {"symbol", print_symbol}, {"missing", print_missing},
    {"present", print_present},
};

void dyn_guard_print_text(const DynCapture *c, const DynGuard *g, const char *text, DynGuardPart other, void *arg, DynStr *out) {
    while (*text != '\0') {
        const char *end = *text == '{' ? strchr(text, '}') : NULL;
        if (end == NULL) {
            dyn_str_putc(out, *text++);
            continue;
        }
        size_t n = (size_t)(end - text - 1), at = 0;
        while (at < DYN_COUNTOF(parts) && (strlen(parts[at].part) != n || memcmp(parts[at].part, text + 1, n) != 0)) {
            at++;
        }
        if (at < DYN_COUNTOF(parts)) {
            parts[at].print(c, g, out);
        } else if (other != NULL) {
            other(text + 1, n, arg);
        } else { /* no such part: visible in tests/trace/test_guard_kinds.py */
            dyn_str_printf(out, "{%.*s}", (int)n, text + 1);
        }
        text = end + 1;
    }
}

void dyn_guard_print(const DynCapture *c, const DynGuard *g, DynStr *out) {
    dyn_guard_print_text(c, g, dyn_guard_rows[g->kind].text, NULL, NULL, out);
}

/* ---- captures */

static const char *const recipe_names[] = {
#define RECIPE(k) #k,
    DYN_RECIPE_KINDS(RECIPE)
#undef RECIPE
};
static const char *const end_names[] = {"return", "break", "leave", "pass"};

static void print_recipe(const DynCapture *c, uint32_t i, DynStr *out) {
    const DynRecipe *r = &c->recipes.at[i];
    dyn_str_printf(out, "  r%u = %s", (unsigned)i, recipe_names[r->kind]);
    if (r->kind == DYN_RC_SOURCE) {
        dyn_str_putc(out, ' ');
        dyn_source_print(&c->sources, r->id, out);
    } else if (r->kind == DYN_RC_SYM) {
        dyn_str_putc(out, ' ');
        dyn_sym_print(&c->syms, &c->sources, r->id, out);
    } else if (r->kind == DYN_RC_OUTPUT || r->kind == DYN_RC_ITER) {
        dyn_str_printf(out, " %u", (unsigned)r->id);
    }
    if (r->obj != NULL) {
        dyn_str_putc(out, ' ');
        dyn_object_print(r->obj, out);
    }
    for (uint32_t k = 0; k < r->n; k++) {
        dyn_str_printf(out, "%sr%u", k == 0 ? " (" : ", ", (unsigned)r->items[k]);
    }
    dyn_str_puts(out, r->n > 0 ? ")\n" : "\n");
}

static void print_frame(const DynFrameState *f, DynStr *out) {
    dyn_str_puts(out, "  frame ");
    if (f->code != NULL && PyCode_Check(f->code)) {
        dyn_object_print(((PyCodeObject *)f->code)->co_name, out);
    }
    dyn_str_printf(out, " at %u:", (unsigned)f->at);
    for (uint32_t i = 0; i < f->nslots + f->nstack; i++) {
        dyn_str_printf(out, "%s r%u", i == f->nslots ? " |" : "", (unsigned)f->recipes[i]);
    }
    dyn_str_putc(out, '\n');
}

static void print_effects(const DynCapture *c, DynEffects fx, DynStr *out) {
    static const char *const names[] = {
#define EFFECT(k) #k,
        DYN_EFFECT_KINDS(EFFECT)
#undef EFFECT
    };
    for (uint32_t i = fx.first; i < fx.first + fx.n; i++) {
        const DynEffect *e = &c->effects.at[i];
        dyn_str_printf(out, "  effect %s", names[e->kind]);
        if (e->obj != NULL) {
            dyn_str_putc(out, ' ');
            dyn_object_print(e->obj, out);
        }
        for (uint32_t k = 0; k < e->n; k++) {
            dyn_str_printf(out, "%sr%u", k == 0 ? " (" : ", ", (unsigned)e->items[k]);
        }
        dyn_str_puts(out, ")\n");
    }
}

void dyn_capture_print(const DynCapture *c, DynStr *out) {
    dyn_graph_print(&c->graph, out);
    dyn_str_puts(out, "guards:\n");
    for (uint32_t i = 0; i < c->guards.n; i++) {
        dyn_str_puts(out, "  ");
        dyn_guard_print(c, &c->guards.at[i], out);
        dyn_str_putc(out, '\n');
    }
    dyn_str_puts(out, "recipes:\n");
    for (uint32_t i = 0; i < c->recipes.n; i++) {
        print_recipe(c, i, out);
    }
    for (uint32_t i = 0; i < c->snapshots.n; i++) {
        dyn_str_printf(out, "snapshot %u after %u nodes:\n", (unsigned)i, (unsigned)c->snapshots.at[i].nnodes);
        for (uint32_t f = 0; f < c->snapshots.at[i].nframes; f++) {
            print_frame(&c->snapshots.at[i].frames[f], out);
        }
        print_effects(c, c->snapshots.at[i].effects, out);
    }
    dyn_str_printf(out, "end: %s", end_names[c->end]);
    if (c->end == DYN_END_RETURN) {
        dyn_str_printf(out, " r%u\n", (unsigned)c->result);
    } else {
        dyn_str_printf(out, " (%s)\n", dyn_reason_code(c->reason));
        if (c->end != DYN_END_PASS) {
            print_frame(&c->before, out);
        }
    }
    print_effects(c, c->done, out);
}
