/* times.c: what each step of an artifact takes, while somebody watches (base/watch.h).
 *
 * Called by run.c around a task, with the GIL. An artifact owns its times; they are made at the first call that is watched. Bytes
 * are those that a step has to read and write at least: each memory once, as far as the step reaches into it. */
#include "codegen/run/times.h"
#include "base/torch.h"
#include "base/watch.h"
#include "ir/place.h"

typedef struct Step {
    DynTimes times;
    uint32_t last; /* it ran together with the steps up to this one */
    uint8_t task;  /* DynTaskId */
} Step;
struct DynStepTimes {
    uint32_t round; /* dyn_watch_round of what was added up */
    Step at[];      /* by its first step */
};

static DynStepTimes *times_of(DynArtifact *a) {
    uint32_t n = a->loops->steps.n;
    if (a->times == NULL) {
        a->times = PyMem_RawCalloc(1, sizeof(*a->times) + n * sizeof(Step));
    }
    if (a->times != NULL && a->times->round != dyn_watch_round) {
        memset(a->times->at, 0, n * sizeof(Step));
        a->times->round = dyn_watch_round;
    }
    return a->times;
}

/* ---- bytes */

static int64_t bytes_of(const DynCall *c, uint32_t place) {
    const DynMem *m = &c->p->places[place];
    int64_t bytes = dyn_dtypes[m->dtype].size;
    for (int i = 0; i < m->ndim; i++) {
        bytes *= c->geoms[place].strides[i] == 0 ? 1 : c->geoms[place].dims[i];
    }
    return bytes;
}

/* What step `s` moves through an operand, where no earlier operand of these steps has the same memory for the same use; a row of
 * a group stays in the cache. */
static int64_t operand_bytes(const DynCall *c, uint32_t first, uint32_t s, uint32_t at) {
    const DynLoops *p = c->p;
    const DynOperand *o = &p->kernels.at[p->steps.at[s].id].operands.at[at];
    uint32_t storage = dyn_loops_storage(p, o->place);
    if (p->places[storage].kind == DYN_P_ROW || p->places[storage].kind == DYN_P_NONE) {
        return 0;
    }
    for (uint32_t t = first; t <= s; t++) {
        if (p->steps.at[t].kind != DYN_STEP_KERNEL) {
            continue;
        }
        const DynKernel *k = &p->kernels.at[p->steps.at[t].id];
        for (uint32_t i = 0; i < (t == s ? at : k->operands.n); i++) {
            if (k->operands.at[i].out == o->out && dyn_loops_storage(p, k->operands.at[i].place) == storage) {
                return 0;
            }
        }
    }
    return bytes_of(c, o->place);
}

static int64_t moved(const DynCall *c, uint32_t first, uint32_t last) {
    int64_t bytes = 0;
    for (uint32_t s = first; s <= last; s++) {
        bool kernel = c->p->steps.at[s].kind == DYN_STEP_KERNEL;
        for (uint32_t i = 0; kernel && i < c->p->kernels.at[c->p->steps.at[s].id].operands.n; i++) {
            bytes += operand_bytes(c, first, s, i);
        }
    }
    return bytes;
}

/* ---- names */

static void name_steps(const DynLoops *p, uint32_t first, uint32_t last, DynStr *out) {
    for (uint32_t s = first; s <= last; s++) {
        const DynStep *step = &p->steps.at[s];
        DynStr one = {0};
        if (step->kind == DYN_STEP_KERNEL) {
            dyn_kernel_name(&p->kernels.at[step->id], ", ", &one);
        } else {
            const DynNode *n = dyn_graph_node(p->graph, step->id);
            bool called = n->op == DYN_OP_EXTERN && n->extern_index < p->graph->externs.n;
            dyn_str_puts(&one, called ? p->graph->externs.at[n->extern_index].name : dyn_ops[n->op].text);
        }
        dyn_str_printf(out, "%s%s", s > first ? "; " : "", dyn_str_at(&one));
        dyn_str_free(&one);
    }
}

/* The node that a step belongs to. */
static const DynNode *node_of(const DynLoops *p, uint32_t s) {
    const DynStep *step = &p->steps.at[s];
    return dyn_graph_node(p->graph, step->kind == DYN_STEP_KERNEL ? p->kernels.at[step->id].at : step->id);
}

/* ---- */

static const char *kind_of(DynTaskId id) {
    switch (id) {
    case DYN_TASK_PRODUCT:
    case DYN_TASK_OWN:
    case DYN_TASK_CHAIN: return "product";
    case DYN_TASK_CALL: return "extern";
    default: return "kernel";
    }
}

/* Views are numbers alone, and checks a comparison. */
static bool is_shown(DynTaskId id) { return id != DYN_TASK_VIEW && id != DYN_TASK_CHECK && id != DYN_TASK_MADE; }

void dyn_times_step(DynCall *c, DynTaskId id, uint32_t first, uint32_t last, int64_t began) {
    int64_t ns = dyn_now_ns() - began, bytes = is_shown(id) ? moved(c, first, last) : 0;
    DynStepTimes *t = is_shown(id) ? times_of(c->a) : NULL;
    if (t == NULL) {
        return;
    }
    t->at[first].last = last;
    t->at[first].task = (uint8_t)id;
    dyn_times_add(&t->at[first].times, ns, bytes);
    if (dyn_watching & DYN_WATCH_TRACE) {
        DynStr name = {0};
        name_steps(c->p, first, last, &name);
        dyn_watch_event(kind_of(id), dyn_str_at(&name), began, ns, bytes);
        dyn_str_free(&name);
    }
}

PyObject *dyn_times_range(const DynCall *c, uint32_t s) {
    DynStr name = {0};
    if (c->p->steps.at[s].kind != DYN_STEP_KERNEL) {
        return NULL;
    }
    dyn_str_puts(&name, "dynoc kernel: ");
    name_steps(c->p, s, s, &name);
    PyObject *range = dyn_torch_range(dyn_str_at(&name));
    dyn_str_free(&name);
    return range;
}

void dyn_times_free(DynStepTimes *t) { PyMem_RawFree(t); }

/* ---- telling */

/* The nodes whose values step `s` makes. */
static PyObject *outputs_of(const DynLoops *p, uint32_t first, uint32_t last) {
    PyObject *list = PyList_New(0);
    for (uint32_t s = first; list != NULL && s <= last; s++) {
        const DynStep *step = &p->steps.at[s];
        const DynKernel *k = step->kind == DYN_STEP_KERNEL ? &p->kernels.at[step->id] : NULL;
        for (uint32_t i = 0; list != NULL && i < (k == NULL ? 1 : k->operands.n); i++) {
            uint32_t node = k == NULL ? step->id : k->operands.at[i].place;
            bool made = k == NULL || (k->operands.at[i].out && node < p->graph->nodes.n);
            PyObject *number = made ? PyLong_FromUnsignedLong(node) : NULL;
            if (made && (number == NULL || PyList_Append(list, number) < 0)) {
                Py_CLEAR(list);
            }
            Py_XDECREF(number);
        }
    }
    return list;
}

static const char *kind_of_step(const DynLoops *p, uint32_t s) {
    static const char *const kinds[] = {[DYN_STEP_VIEW] = "view",
                                        [DYN_STEP_KERNEL] = "kernel",
                                        [DYN_STEP_EXTERN] = "extern",
                                        [DYN_STEP_SCAN] = "kernel",
                                        [DYN_STEP_CHECK] = "check"};
    return kinds[p->steps.at[s].kind];
}

static PyObject *row(const DynArtifact *a, uint32_t first, uint32_t last, const Step *s) {
    const DynLoops *p = a->loops;
    const DynNode *n = node_of(p, first);
    const DynPlace *place = dyn_graph_place_at(p->graph, n->where);
    DynTimes times = s == NULL ? (DynTimes){0} : s->times;
    DynStr name = {0};
    name_steps(p, first, last, &name);
    PyObject *outputs = outputs_of(p, first, last), *file = place == NULL ? NULL : ((PyCodeObject *)place->code)->co_filename;
    const char *kind = s == NULL ? kind_of_step(p, first) : kind_of((DynTaskId)s->task);
    PyObject *made =
        outputs == NULL ? NULL : dyn_watch_row(kind, dyn_str_at(&name), file, place == NULL ? 0 : (int)place->line, &times);
    if (made != NULL && PyDict_SetItemString(made, "outputs", outputs) < 0) {
        Py_CLEAR(made);
    }
    Py_XDECREF(outputs);
    dyn_str_free(&name);
    return made;
}

static int add(PyObject *list, PyObject *one) { /* takes one */
    int done = one == NULL ? -1 : PyList_Append(list, one);
    Py_XDECREF(one);
    return done;
}

int dyn_artifact_times(const DynArtifact *a, PyObject *list) {
    uint32_t n = a->times == NULL || a->times->round != dyn_watch_round ? 0 : a->loops->steps.n;
    int done = 0;
    for (uint32_t i = 0; i < n && done == 0; i++) {
        const Step *s = &a->times->at[i];
        done = s->times.calls == 0 ? 0 : add(list, row(a, i, s->last, s));
    }
    return done;
}

int dyn_artifact_steps(const DynArtifact *a, PyObject *list) {
    int done = 0;
    for (uint32_t i = 0; i < a->loops->steps.n && done == 0; i++) {
        done = add(list, row(a, i, i, NULL));
    }
    return done;
}
