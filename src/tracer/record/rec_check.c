/* rec_check.c: the recorder against reality, in debug builds: behind each instruction the real stack is as deep as the shadows'
 * and as opcodes.def says, and what a shadow claims holds of the real object (a column of shadow.def).
 *
 * Called by record.c behind each instruction. */
#include "base/tensors.h"
#include "tracer/record/rec_segment.h"

#ifdef DYN_DEBUG
/* ---- the column `agrees`: what the shadow claims holds of the real object, which isn't NULL */

static bool agrees_with_null(const DynRec *r, const DynVal *v, PyObject *o) {
    (void)r, (void)v, (void)o;
    return false;
}

static bool agrees_with_any(const DynRec *r, const DynVal *v, PyObject *o) {
    (void)r, (void)v, (void)o;
    return true;
}

static bool agrees_with_array(const DynRec *r, const DynVal *v, PyObject *o) {
    const DynNode *n = dyn_graph_node(&r->cap->graph, rec_node_of(v));
    DynArrayView view;
    bool tensor = (n->flags & DYN_NODE_TENSOR) != 0, same = dyn_array_look(o, &view) && dyn_tensor_is(o) == tensor;
    bool ok = same && view.dtype == n->dtype && view.ndim == n->ndim;
    for (int d = 0; ok && d < n->ndim; d++) {
        ok = dyn_sym_at(&r->cap->syms, n->shape[d])->hint.i == view.dims[d];
    }
    return ok;
}

static bool agrees_with_number(const DynRec *r, const DynVal *v, PyObject *o) {
    const DynSym *s = dyn_sym_at(&r->cap->syms, rec_sym_of(v));
    if (s->type == DYN_T_FLOAT) { /* which sign a nan gets is the C compiler's choice */
        double x = PyFloat_CheckExact(o) ? PyFloat_AS_DOUBLE(o) : 0;
        return PyFloat_CheckExact(o) && (memcmp(&x, &s->hint.f, sizeof(x)) == 0 || (isnan(x) && isnan(s->hint.f)));
    }
    if (s->type == DYN_T_BOOL) {
        return o == (s->hint.i ? Py_True : Py_False);
    }
    return PyLong_CheckExact(o) && PyLong_AsLongLong(o) == s->hint.i;
}

static bool agrees_with_constant(const DynRec *r, const DynVal *v, PyObject *o) {
    (void)r;
    return rec_constant_of(v) == o ||
           (Py_TYPE(rec_constant_of(v)) == Py_TYPE(o) && PyObject_RichCompareBool(rec_constant_of(v), o, Py_EQ) != 0);
}

static bool agrees_with_tuple(const DynRec *r, const DynVal *v, PyObject *o) {
    (void)r;
    return PyTuple_Check(o) && PyTuple_GET_SIZE(o) == v->n;
}

static bool agrees_with_list(const DynRec *r, const DynVal *v, PyObject *o) {
    (void)r;
    return PyList_CheckExact(o) && PyList_GET_SIZE(o) == v->n;
}

static bool agrees_with_dict(const DynRec *r, const DynVal *v, PyObject *o) {
    (void)r;
    bool of_type = v->type == NULL || (PyObject *)Py_TYPE(o) == v->type;
    return of_type && PyDict_Check(o) && PyDict_GET_SIZE(o) * 2 == v->n;
}

static bool agrees_with_deque(const DynRec *r, const DynVal *v, PyObject *o) {
    (void)r;
    return Py_IS_TYPE(o, dyn_deque_type) && Py_SIZE(o) == v->n;
}

static const struct {
    const char *name;
    bool (*agrees)(const DynRec *r, const DynVal *v, PyObject *o);
} claims[DV_COUNT] = {
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) \
    [DV_##kind] = {#kind, agrees},
#include "tracer/record/shadow.def"
#undef SHADOW
};

void rec_wrong_kind(const DynVal *v, const char *asked) {
    DynStr s = {0};
    dyn_str_printf(&s, "shadow %u, of kind %s, is asked for its %s", v->born, claims[v->kind].name, asked);
    Py_FatalError(dyn_str_at(&s));
}

static void check_value(const DynRec *r, const RecFrame *f, uint32_t i) {
    const DynVal *v = f->shadow[i];
    PyObject *o = i < f->nslots ? rec_local(f, i) : f->real[i];
    bool ok = v != NULL && (o == NULL ? v->kind == DV_NULL : claims[v->kind].agrees(r, v, o));
    if (!ok) {
        DynStr s = {0};
        dyn_str_printf(&s, "shadow %s (number %u) of slot %u does not agree with the real object of type %s after %s in %s",
                       v ? claims[v->kind].name : "that is missing", v ? v->born : 0, i, o ? Py_TYPE(o)->tp_name : "NULL",
                       dyn_opcodes[f->code->v.at[f->pc].op].name, PyUnicode_AsUTF8(f->code->code->co_name));
        Py_FatalError(dyn_str_at(&s));
    }
}

/* The stack moved as the row of opcodes.def says, or the instruction begins anew (f(*iterator), when its items were taken). */
static void check_effect(const RecFrame *f, const DynInstr *in) {
    DynStackEffect stack = dyn_stack_effect(in);
    uint32_t below = f->instr_ssp - stack.pops;
    bool next = f->next == f->pc + 1 && f->ssp == below + stack.pushes;
    bool jumped = dyn_has_target(in) && f->next == in->target && f->ssp == below + dyn_opcodes[in->op].jumped;
    bool again = f->next == f->pc && f->ssp == f->instr_ssp;
    if (!next && !jumped && !again) {
        DynStr s = {0};
        dyn_str_printf(&s, "%s left %d values more on the stack: not as opcodes.def says", dyn_opcodes[in->op].name,
                       (int)f->ssp - (int)f->instr_ssp);
        Py_FatalError(dyn_str_at(&s));
    }
}

void rec_check_shadows(const DynRec *r, const RecFrame *f) {
    check_effect(f, &f->code->v.at[f->pc]);
    if (f->sp != f->ssp) {
        Py_FatalError("shadow stack and real stack differ in depth");
    }
    for (uint32_t i = 0; i < f->sp; i++) {
        check_value(r, f, i);
    }
}
#else
void rec_check_shadows(const DynRec *r, const RecFrame *f) { (void)r, (void)f; }
#endif
