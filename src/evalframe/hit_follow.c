/* hit_follow.c: a hit of an entry whose graph autograd follows: its steps one after the other, with gradients recorded.
 *
 * Called by hit.c. Where a call raises, or gives something else than it did when it was recorded, CPython makes the whole call
 * again, if nothing was done that can't be done again; else the graph is left there, and what the frames need is made as a part.
 */
#include "base/torch.h"
#include "evalframe/follow.h"

static PyObject *number(const DynRun *run, uint32_t sym) { return PyLong_FromLongLong(run->sym[sym].i); }

static PyObject *numbers(const DynRun *run, const uint32_t *syms, int n) {
    PyObject *t = PyTuple_New(n);
    for (int i = 0; t != NULL && i < n; i++) {
        PyObject *o = number(run, syms[i]);
        if (o == NULL) {
            Py_CLEAR(t);
        } else {
            PyTuple_SET_ITEM(t, i, o);
        }
    }
    return t;
}

/* ---- views, by PyTorch */

static PyObject *slice_item(const DynRun *run, const DynNode *n, uint32_t arg, int axis) {
    int64_t start = run->sym[n->args[arg].id].i, step = run->sym[n->args[arg + 2].id].i;
    int64_t stop = start + run->sym[n->shape[axis]].i * step;
    PyObject *a = PyLong_FromLongLong(start), *b = PyLong_FromLongLong(stop), *c = PyLong_FromLongLong(step);
    PyObject *item = a != NULL && b != NULL && c != NULL ? PySlice_New(a, b, c) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(c);
    return item;
}

static PyObject *sliced(const DynRun *run, const DynNode *n, PyObject *base) {
    PyObject *index = PyTuple_New(n->naux);
    uint32_t arg = 1;
    int axis = 0;
    for (uint32_t i = 0; index != NULL && i < n->naux; i++) {
        PyObject *item;
        if (n->aux[i] == 1) {
            item = number(run, n->args[arg++].id);
        } else if (n->aux[i] == 2) {
            item = Py_NewRef(Py_None);
            axis++;
        } else {
            item = slice_item(run, n, arg, axis++);
            arg += 3;
        }
        if (item == NULL) {
            Py_CLEAR(index);
        } else {
            PyTuple_SET_ITEM(index, i, item);
        }
    }
    PyObject *r = index == NULL ? NULL : PyObject_GetItem(base, index);
    Py_XDECREF(index);
    return r;
}

/* By strides: elements that lie where the node says. */
static PyObject *window(const DynGraph *g, const DynRun *run, const DynNode *n, PyObject *base) {
    DynArrayView of, v = {.ndim = n->ndim, .dtype = n->dtype};
    if (!dyn_torch_place(base, &of)) {
        PyErr_SetString(PyExc_SystemError, "dynoc: a view of a tensor that can't be looked at");
        return NULL;
    }
    v.data = of.data;
    for (int i = 0; i < n->ndim; i++) {
        v.dims[i] = run->sym[n->shape[i]].i;
    }
    for (int k = 0; k < of.ndim; k++) {
        v.data += run->sym[n->args[1 + k].id].i * of.strides[k];
        for (int i = 0; i < n->ndim; i++) {
            v.strides[i] += n->aux[k * n->ndim + i] * of.strides[k];
        }
    }
    return dyn_torch_window(base, &v, DYN_LOOK_VIEW);
}

static PyObject *permuted(const DynNode *n, PyObject *base) {
    PyObject *axes = PyTuple_New(n->naux);
    for (uint32_t i = 0; axes != NULL && i < n->naux; i++) {
        PyTuple_SET_ITEM(axes, i, PyLong_FromLongLong(n->aux[i]));
    }
    PyObject *r = axes == NULL ? NULL : PyObject_CallMethod(base, "permute", "(O)", axes);
    Py_XDECREF(axes);
    return r;
}

/* Pairs as complex numbers, or these as pairs: autograd follows torch's own functions for that, which have no axis of 1. */
static PyObject *pairs(const DynGraph *g, const DynNode *n, PyObject *base) {
    DynDtype from = (DynDtype)dyn_graph_node(g, n->args[0].id)->dtype;
    bool joins = dyn_dtype_real((DynDtype)n->dtype) == from;
    const char *first = joins ? NULL : "squeeze", *last = joins ? "unsqueeze" : NULL;
    PyObject *of = first != NULL ? PyObject_CallMethod(base, first, "i", -1) : Py_NewRef(base);
    PyObject *made =
        of == NULL ? NULL : PyObject_CallMethod(dyn_torch_module, joins ? "view_as_complex" : "view_as_real", "O", of);
    PyObject *r = made == NULL || last == NULL ? made : PyObject_CallMethod(made, last, "i", -1);
    Py_XDECREF(of);
    if (r != made) {
        Py_XDECREF(made);
    }
    return r;
}

static PyObject *view_of(const DynGraph *g, const DynRun *run, const DynNode *n, PyObject *base) {
    PyObject *sizes, *r;
    switch (n->op) {
    case DYN_OP_SLICE: return sliced(run, n, base);
    case DYN_OP_PERMUTE: return permuted(n, base);
    case DYN_OP_AFFINE: return window(g, run, n, base);
    case DYN_OP_AS_DTYPE:
        if (dyn_graph_pairs(g, n)) {
            return pairs(g, n, base);
        }
        if (dyn_graph_is_data(n)) {
            return PyObject_GetAttrString(base, "data");
        }
        return dyn_graph_detaches(g, n) ? PyObject_CallMethod(base, "detach", NULL)
                                        : PyObject_CallMethod(base, "view", "O", dyn_torch_dtype_object((DynDtype)n->dtype));
    case DYN_OP_REAL:
    case DYN_OP_IMAG: return PyObject_GetAttrString(base, dyn_ops[n->op].text);
    default:
        sizes = numbers(run, n->shape, n->ndim);
        r = sizes == NULL ? NULL : PyObject_CallMethod(base, n->op == DYN_OP_BROADCAST ? "expand" : "view", "(O)", sizes);
        Py_XDECREF(sizes);
        return r;
    }
}

/* ---- steps */

static int run_view(const DynGraph *g, DynRun *run, PyObject **values, uint32_t id) {
    const DynNode *n = dyn_graph_node(g, id);
    bool off = (n->flags & DYN_NODE_UNFOLLOWED) != 0 && dyn_torch_grad_off();
    values[id] = view_of(g, run, n, values[n->args[0].id]);
    dyn_torch_grad_back(off);
    return values[id] == NULL ? -1 : 0;
}

/* The length of each part, or of all but the last. */
static PyObject *lengths_of(const DynGraph *g, const DynRun *run, const DynSplit *by) {
    PyObject *lengths = by->kind == DYN_SPLIT_BY_SIZES ? PyTuple_New(by->n) : NULL;
    for (uint32_t i = 0; lengths != NULL && i < by->n; i++) {
        PyObject *length = number(run, dyn_graph_node(g, by->first + i)->shape[by->axis]);
        if (length == NULL) {
            Py_CLEAR(lengths);
        } else {
            PyTuple_SET_ITEM(lengths, i, length);
        }
    }
    return by->kind == DYN_SPLIT_BY_SIZES ? lengths : number(run, dyn_graph_node(g, by->first)->shape[by->axis]);
}

/* torch.split(base, length, axis), torch.split_with_sizes(base, lengths, axis), torch.unbind(base, axis). */
static PyObject *call_split(const DynGraph *g, const DynRun *run, const DynSplit *by, PyObject *base) {
    static PyObject *functions[DYN_SPLIT_UNBIND + 1];
    static const char *const paths[] = {NULL, "_VF.split", "_VF.split_with_sizes", "_VF.unbind"};
    PyObject **function = &functions[by->kind];
    if (*function == NULL && (*function = dyn_torch_lookup(dyn_torch_module, paths[by->kind])) == NULL) {
        PyErr_Format(PyExc_SystemError, "dynoc: torch.%s isn't there", paths[by->kind]);
        return NULL;
    }
    if (by->kind == DYN_SPLIT_UNBIND) {
        return PyObject_CallFunction(*function, "Oi", base, by->axis);
    }
    PyObject *lengths = lengths_of(g, run, by);
    PyObject *made = lengths == NULL ? NULL : PyObject_CallFunction(*function, "OOi", base, lengths, by->axis);
    Py_XDECREF(lengths);
    return made;
}

/* All views that a split gives. What nobody needs of them goes at once. */
static int run_split(const DynGraph *g, DynRun *run, PyObject **values, const DynFollowStep *s) {
    const DynNode *first = dyn_graph_node(g, s->split->first);
    bool off = (first->flags & DYN_NODE_UNFOLLOWED) != 0 && dyn_torch_grad_off();
    PyObject *made = call_split(g, run, s->split, values[first->args[0].id]);
    dyn_torch_grad_back(off);
    bool fits = made != NULL && PyTuple_CheckExact(made) && PyTuple_GET_SIZE(made) == (Py_ssize_t)s->split->n;
    for (uint32_t i = 0; i < s->outputs.n && fits; i++) {
        values[s->outputs.at[i]] = Py_NewRef(PyTuple_GET_ITEM(made, s->outputs.at[i] - s->split->first));
    }
    if (made != NULL && !fits) {
        PyErr_SetString(PyExc_SystemError, "dynoc: a split gave another number of views than when it was recorded");
    }
    Py_XDECREF(made);
    return fits ? 0 : -1;
}

static int run_view_step(const DynGraph *g, DynRun *run, PyObject **values, const DynFollowStep *s) {
    return s->split != NULL ? run_split(g, run, values, s) : run_view(g, run, values, s->node);
}

static int run_whole(const DynWhole *w, PyObject **values) {
    PyObject *args[DYN_MOST_WHOLE_ARGS + 1], *list = w->nlist > 0 ? PyList_New(w->nlist) : NULL;
    int n = w->nlist > 0, nkw = w->kwnames == NULL ? 0 : (int)PyTuple_GET_SIZE(w->kwnames);
    if (w->nlist > 0 && list == NULL) {
        return -1;
    }
    args[0] = list;
    for (int i = 0; i < w->n; i++) {
        PyObject *o = w->args[i] != NULL ? w->args[i] : values[w->operands[i]];
        if (i < w->nlist) {
            PyList_SET_ITEM(list, i, Py_NewRef(o));
        } else {
            args[n++] = o;
        }
    }
    dyn_extern_calling = w->callable; /* nobody is to serve its frame, if it is a Python function */
    values[w->node] = PyObject_Vectorcall(w->callable, args, (size_t)(n - nkw), w->kwnames);
    dyn_extern_calling = NULL;
    Py_XDECREF(list);
    return values[w->node] == NULL ? -1 : 0;
}

/* What is between the calls goes as soon as the last is made, as it does in eager. */
static int run_as_calls(const DynGraph *g, DynRun *run, const DynFollowStep *s, PyObject **values) {
    int done = 0;
    for (uint32_t i = 0; i < s->ncalls && done == 0; i++) {
        const DynFollowCall *c = &s->calls[i];
        done = c->whole == NULL ? run_view(g, run, values, c->node) : run_whole(c->whole, values);
    }
    for (uint32_t i = 0; i < s->ncalls; i++) {
        if (s->calls[i].passes) {
            Py_CLEAR(values[s->calls[i].node]);
        }
    }
    return done;
}

static int run_part(const DynEntry *e, const DynFollowStep *s, DynRun *run, PyObject **values) {
    if (dyn_follow_is_calls(&e->capture->graph, e->follow, s, run->sym)) {
        return run_as_calls(&e->capture->graph, run, s, values);
    }
    PyObject **inputs = PyMem_Malloc(sizeof(*inputs) * (s->inputs.n + 1)), *made;
    if (inputs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < s->inputs.n; i++) {
        inputs[i] = values[s->inputs.at[i]];
    }
    made = dyn_follow_part_call(s->part, run->sym, inputs);
    for (uint32_t i = 0; made != NULL && i < s->renewed.n; i++) {
        if (dyn_torch_bump(&values[s->renewed.at[i]], 1) < 0) {
            Py_CLEAR(made);
        }
    }
    for (uint32_t i = 0; made != NULL && i < s->outputs.n; i++) {
        values[s->outputs.at[i]] = Py_NewRef(PyTuple_GET_ITEM(made, i));
    }
    PyMem_Free(inputs);
    Py_XDECREF(made);
    return made == NULL ? -1 : 0;
}

static DynExternStatus run_call(const DynGraph *g, DynRun *run, PyObject **values, uint32_t id) {
    const DynNode *n = dyn_graph_node(g, id);
    bool off = (n->flags & DYN_NODE_UNFOLLOWED) != 0 && dyn_torch_grad_off();
    PyObject *given = NULL;
    DynExternStatus status = dyn_interp_extern(g, run, values, id, &given);
    dyn_torch_grad_back(off);
    return dyn_run_opened(run, status, given);
}

/* Has a call an effect, so that it can't be made again? */
static bool acts(const DynGraph *g, uint32_t call) {
    const DynExtern *x = &g->externs.at[dyn_graph_node(g, call)->extern_index];
    return x->once || x->writes >= 0;
}

static DynRunStatus run_steps(const DynEntry *e, DynRun *run, PyObject **values) {
    const DynGraph *g = &e->capture->graph;
    const DynFollow *f = e->follow;
    bool acted = false;
    for (uint32_t i = 0; i < f->steps.n; i++) {
        const DynFollowStep *s = &f->steps.at[i];
        if (s->kind == DYN_FOLLOW_CALL) {
            int64_t began = dyn_watch_now();
            DynExternStatus status = run_call(g, run, values, s->node);
            if (DYN_UNLIKELY(began != 0)) {
                dyn_watched_extern(&f->steps.at[i].watched, g, s->node, began);
            }
            acted = acted || acts(g, s->node);
            if (status != DYN_EXTERN_OK) {
                return acted ? dyn_hit_leave(g, run, values, status, s->node) : (PyErr_Clear(), DYN_RUN_AGAIN);
            }
        } else if ((s->kind == DYN_FOLLOW_VIEW ? run_view_step(g, run, values, s) : run_part(e, s, run, values)) < 0) {
            return DYN_RUN_ERROR;
        }
        acted = acted || s->kind == DYN_FOLLOW_CHANGES;
        for (uint32_t k = 0; k < s->drops.n; k++) {
            Py_CLEAR(values[s->drops.at[k]]);
        }
    }
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        run->outputs[i] = Py_NewRef(values[g->outputs.at[i]]);
    }
    return DYN_RUN_OK;
}

DynRunStatus dyn_hit_followed(const DynEntry *e, DynRun *run) {
    const DynGraph *g = &e->capture->graph;
    PyObject **values = PyMem_Calloc(g->nodes.n + 1, sizeof(*values));
    if (values == NULL) {
        PyErr_NoMemory();
        return DYN_RUN_ERROR;
    }
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        values[g->inputs.at[i]] = Py_NewRef(run->inputs[i]);
    }
    bool off = dyn_torch_grad_on(); /* it begins within torch.no_grad, which is left in it */
    DynRunStatus status = run_steps(e, run, values);
    dyn_torch_grad_off_again(off);
    if (status == DYN_RUN_LEFT) { /* who goes on there has them */
        return status;
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Py_XDECREF(values[i]);
    }
    PyMem_Free(values);
    return status;
}
