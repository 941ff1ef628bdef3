/* optimizers.c: steps of PyTorch's optimisers over all of their parameters at once.
 *
 * Called by src/dynoc/_optimizers.py, which reads groups and state, with lists of tensors that it keeps alive. Here tensors are
 * looked at first, all of them: whatever can't be done where they are (codegen/run/descent.c, codegen/cuda/descent.c) leaves
 * everything as it was, and the step is PyTorch's own. What is changed gets the versions that PyTorch's operators give it. */
#include "evalframe/optimizers.h"
#include "base/cuda.h"
#include "base/torch.h"
#include "codegen/machine.h"
#include "codegen/run/descent.h"
#include "codegen/target.h"
#include <float.h>
#include <math.h>

/* What a group says, in the order in which Python gives it. */
typedef struct Group {
    int rule, form, versions[1 + DYN_STEP_STATES];
    int together; /* PyTorch would make the steps of all tensors together (foreach), or is free to */
    double sign, rate, decay, momentum, dampening, first, second, eps, rate_decay;
    double step, numbers[DYN_STEP_NUMBERS]; /* of the last row: mostly the next one's too */
} Group;

/* A row of a group's tensors: the parameter, its gradient, the count of steps, and state. */
enum { PARAMETER, GRADIENT, COUNT, STATES, ROW = STATES + DYN_STEP_STATES };

typedef struct Range {
    const char *from, *to;
    bool written;
} Range;

typedef struct Plan {
    uint8_t device; /* where all tensors are, but for counts */
    DYN_VEC(DynDescent) steps;
    DYN_VEC(Range) ranges;
    DYN_VEC(PyObject *) changed;  /* Borrowed. Each tensor as many times as it gets versions. */
    DYN_VEC(DynArrayView) counts; /* the counts of steps */
} Plan;

static void plan_free(Plan *p) {
    dyn_vec_free(&p->steps);
    dyn_vec_free(&p->ranges);
    dyn_vec_free(&p->changed);
    dyn_vec_free(&p->counts);
}

/* Do the elements lie without gaps, each in a place of its own, in whatever order of axes? */
static bool is_packed(const DynArrayView *v) {
    int64_t step = dyn_dtypes[v->dtype].size;
    unsigned done = 0;
    for (int found = 0; found < v->ndim; found++) {
        int axis = -1;
        for (int i = 0; i < v->ndim && axis < 0; i++) {
            axis = !(done >> i & 1) && (v->dims[i] == 1 || v->strides[i] == step) ? i : -1;
        }
        if (axis < 0) {
            return dyn_view_empty(v);
        }
        done |= 1u << axis;
        step *= v->dims[axis];
    }
    return true;
}

static bool lie_alike(const DynArrayView *a, const DynArrayView *b) {
    bool same = a->dtype == b->dtype && a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++) {
        same = a->dims[i] == b->dims[i] && (a->dims[i] == 1 || a->strides[i] == b->strides[i]);
    }
    return same;
}

static int64_t elements_of(const DynArrayView *v) {
    int64_t n = 1;
    for (int i = 0; i < v->ndim; i++) {
        n *= v->dims[i];
    }
    return n;
}

static bool add_range(Plan *p, const DynArrayView *v, int64_t n, bool written) {
    Range r = {.from = v->data, .to = v->data + n * dyn_dtypes[v->dtype].size, .written = written};
    return n == 0 || dyn_vec_push(&p->ranges, r) == 0;
}

static bool add_changed(Plan *p, PyObject *tensor, int versions) {
    bool added = true;
    for (int i = 0; added && i < versions; i++) {
        added = dyn_vec_push(&p->changed, tensor) == 0;
    }
    return added;
}

/* The count of steps, with this one: a tensor of one float, in this machine's memory. Whether it has the negative bit isn't
 * asked, which takes longer than all else of it: of a count that lies there as a negative number the step is PyTorch's. */
static bool read_count(Plan *p, PyObject *tensor, double *step) {
    DynArrayView v;
    bool seen = dyn_torch_is(tensor) && dyn_torch_place(tensor, &v) && (v.device == 0 || dyn_cuda_stands_in);
    if (!seen || v.ndim != 0 || !v.aligned) {
        return false;
    }
    if (v.dtype == DYN_F32) {
        *step = *(float *)v.data + 1.0f;
    } else if (v.dtype == DYN_F64) {
        *step = *(double *)v.data + 1;
    } else {
        return false;
    }
    return *step >= 1 && add_range(p, &v, 1, true) && add_changed(p, tensor, 1) && dyn_vec_push(&p->counts, v) == 0;
}

static void find_numbers(const Group *g, double step, double *out) {
    out[DYN_STEP_SIGN] = g->sign;
    out[DYN_STEP_RATE] = -g->rate;
    out[DYN_STEP_DECAY] = g->form & DYN_DECOUPLED ? 1 - g->rate * g->decay : g->decay;
    out[DYN_STEP_MOMENTUM] = g->momentum;
    out[DYN_STEP_FRESH] = 1 - (g->rule == DYN_SGD ? g->dampening : g->first);
    out[DYN_STEP_KEEP] = g->second;
    out[DYN_STEP_SQUARES] = 1 - g->second;
    out[DYN_STEP_EPS] = g->eps;
    out[DYN_STEP_SCALE] = 1;
    if (g->rule == DYN_ADAM) {
        out[DYN_STEP_RATE] = -(g->rate / (1 - pow(g->first, step)));
        out[DYN_STEP_SCALE] = pow(1 - pow(g->second, step), 0.5); /* as Python's ** computes it */
    } else if (g->rule == DYN_ADAGRAD) {
        out[DYN_STEP_RATE] = -(g->rate / (1 + (step - 1) * g->rate_decay));
    }
}

/* PyTorch refuses numbers that the type of the elements can't hold. */
static bool can_hold(uint8_t dtype, const double *numbers) {
    double most = dtype == DYN_F64 ? DBL_MAX : FLT_MAX;
    bool fine = true;
    for (int i = 0; i < DYN_STEP_NUMBERS; i++) {
        fine = fine && fabs(numbers[i]) <= most;
    }
    return fine;
}

static bool take_tensor(Plan *p, PyObject *tensor, const DynArrayView *parameter, int64_t n, int versions, char **data) {
    DynArrayView v;
    bool fits = dyn_torch_is(tensor) && dyn_torch_look(tensor, &v) && v.device == parameter->device && v.aligned;
    if (!fits || !lie_alike(parameter, &v) || !add_range(p, &v, n, versions > 0)) {
        return false;
    }
    *data = v.data;
    return add_changed(p, tensor, versions);
}

/* A parameter: of floats without gaps, where the others are. On a device the step is one that PyTorch makes for all tensors
 * together, whose operators round otherwise than those for one. */
static bool look_at_parameter(Plan *p, const Group *g, PyObject *tensor, DynArrayView *v) {
    bool usable = dyn_torch_is(tensor) && dyn_torch_look(tensor, v) && is_packed(v) && dyn_dtypes[v->dtype].kind == 'f';
    if (usable && p->steps.n == 0) {
        p->device = v->device;
    }
    return usable && v->device == p->device && (v->device == 0 || g->together);
}

static bool plan_row(Plan *p, Group *g, PyObject *const *row) {
    DynArrayView v;
    DynDescent d = {.rule = (DynDescentRule)g->rule, .form = (uint8_t)g->form};
    bool usable = look_at_parameter(p, g, row[PARAMETER], &v);
    if (!usable) {
        return false;
    }
    char *gradient = NULL;
    double step = 0;
    d.dtype = v.dtype;
    d.device = v.device;
    d.n = elements_of(&v);
    usable = take_tensor(p, row[PARAMETER], &v, d.n, g->versions[0], &d.parameter);
    usable = usable && take_tensor(p, row[GRADIENT], &v, d.n, 0, &gradient) && !dyn_torch_requires_grad(row[GRADIENT]);
    usable = usable && (d.rule == DYN_SGD || read_count(p, row[COUNT], &step));
    for (int i = 0; usable && i < DYN_STEP_STATES; i++) {
        bool has = dyn_descent_has_state(d.rule, d.form, i);
        usable = !has || take_tensor(p, row[STATES + i], &v, d.n, g->versions[1 + i], &d.states[i]);
    }
    d.gradient = gradient;
    if (g->step != step) {
        g->step = step;
        find_numbers(g, step, g->numbers);
    }
    memcpy(d.numbers, g->numbers, sizeof(d.numbers));
    return usable && can_hold(d.dtype, d.numbers) && (d.n == 0 || dyn_vec_push(&p->steps, d) == 0);
}

static int compare_ranges(const void *a, const void *b) {
    const Range *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Does anything that is written overlap anything else? */
static bool has_overlap(Plan *p) {
    const char *end = NULL, *written_end = NULL;
    bool found = false;
    if (p->ranges.n > 0) {
        qsort(p->ranges.at, p->ranges.n, sizeof(Range), compare_ranges);
    }
    for (uint32_t i = 0; i < p->ranges.n && !found; i++) {
        const Range *r = &p->ranges.at[i];
        found = r->from < written_end || (r->written && r->from < end);
        end = r->to > end ? r->to : end;
        written_end = r->written && r->to > written_end ? r->to : written_end;
    }
    return found;
}

/* A group as Python gives it: (rule, form, together, versions, numbers, tensors). -1: an exception; 0: it is not for us. */
static int plan_group(Plan *p, PyObject *group) {
    Group g = {.step = -1};
    PyObject *tensors;
    int *versions = g.versions;
    bool read = PyArg_ParseTuple(group, "iip(iiii)(ddddddddd)O!", &g.rule, &g.form, &g.together, versions, versions + 1,
                                 versions + 2, versions + 3, &g.sign, &g.rate, &g.decay, &g.momentum, &g.dampening, &g.first,
                                 &g.second, &g.eps, &g.rate_decay, &PyList_Type, &tensors);
    if (!read) {
        return -1;
    }
    Py_ssize_t n = PyList_GET_SIZE(tensors);
    bool known = g.rule >= 0 && g.rule < DYN_DESCENT_RULES && g.form >= 0 && g.form < DYN_ALL_FORMS && n % ROW == 0;
    if (!known || !dyn_descent_has_form((DynDescentRule)g.rule, (uint8_t)g.form)) {
        PyErr_SetString(PyExc_ValueError, "there is no such step");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i += ROW) {
        if (!plan_row(p, &g, ((PyListObject *)tensors)->ob_item + i)) {
            return 0;
        }
    }
    return 1;
}

static void count_up(const Plan *p) {
    for (uint32_t i = 0; i < p->counts.n; i++) {
        const DynArrayView *v = &p->counts.at[i];
        if (v->dtype == DYN_F32) {
            *(float *)v->data += 1;
        } else {
            *(double *)v->data += 1;
        }
    }
}

/* -1 with an exception. What a device does it does behind this: other threads needn't run meanwhile. */
static int make_all(const Plan *p, bool fused) {
    PyThreadState *saved = NULL;
    if (p->device == 0 && dyn_descent_elements(p->steps.at, p->steps.n) >= DYN_RELEASE_ELEMENTS) {
        saved = PyEval_SaveThread();
    }
    count_up(p);
    int made = p->steps.n == 0 ? 0 : dyn_target_at(p->device)->descend(p->steps.at, p->steps.n, fused);
    if (saved != NULL) {
        PyEval_RestoreThread(saved);
    }
    return made;
}

/* A gradient that is to be multiplied; its dtype is that of the others. */
static bool plan_gradient(Plan *p, PyObject *tensor) {
    DynArrayView v;
    DynDescent d = {.rule = DYN_SHRINK};
    bool usable = dyn_torch_is(tensor) && dyn_torch_view(tensor, &v) && is_packed(&v) && !dyn_torch_requires_grad(tensor);
    if (!usable || (v.dtype != DYN_F32 && v.dtype != DYN_F64) || (p->steps.n > 0 && p->steps.at[0].dtype != v.dtype)) {
        return false;
    }
    d.dtype = v.dtype;
    d.n = elements_of(&v);
    d.gradient = v.data;
    return take_tensor(p, tensor, &v, d.n, 1, &d.parameter) && dyn_vec_push(&p->steps, d) == 0;
}

/* What gradients are multiplied by whose norm is `total`, computed in their type as PyTorch's operators do: 1 at most. */
static double shrinks_by(uint8_t dtype, double total, double most) {
    if (dtype == DYN_F32) {
        float factor = 1 / ((float)total + (float)1e-6) * (float)most;
        return factor > 1 ? 1 : factor;
    }
    double factor = 1 / (total + 1e-6) * most;
    return factor > 1 ? 1 : factor;
}

/* _shrink(gradients, total, most): multiply gradients in place so that their norm, which is `total`, is `most` at most; without
 * `total`: could it be done? False: nothing was done. */
static PyObject *shrink(PyObject *module, PyObject *args) {
    PyObject *tensors;
    double total = -1, most = 0;
    if (!PyArg_ParseTuple(args, "O!|dd", &PyList_Type, &tensors, &total, &most)) {
        return NULL;
    }
    if (!dyn_torch_find() || dyn_torch_state() < 0 || dyn_torch_profiling()) {
        Py_RETURN_FALSE;
    }
    Plan plan = {0};
    bool possible = PyList_GET_SIZE(tensors) > 0;
    for (Py_ssize_t i = 0; possible && i < PyList_GET_SIZE(tensors); i++) {
        possible = plan_gradient(&plan, PyList_GET_ITEM(tensors, i));
    }
    possible = possible && !has_overlap(&plan) && fabs(most) <= (plan.steps.at[0].dtype == DYN_F32 ? FLT_MAX : DBL_MAX);
    if (possible && PyTuple_GET_SIZE(args) > 1) {
        double factor = shrinks_by(plan.steps.at[0].dtype, total, most);
        possible = dyn_torch_bump(plan.changed.at, plan.changed.n) == 0;
        for (uint32_t i = 0; i < plan.steps.n; i++) {
            plan.steps.at[i].numbers[DYN_STEP_DECAY] = factor;
        }
        if (possible && factor != 1) {
            (void)make_all(&plan, false); /* which can't fail in this machine's memory */
        }
        PyErr_Clear(); /* Tensors of inference mode have no versions: PyTorch's function says so. */
    }
    plan_free(&plan);
    return PyBool_FromLong(possible);
}

/* _descend(groups, fused): make the steps of all groups, or return False, with nothing changed. */
static PyObject *descend(PyObject *module, PyObject *args) {
    PyObject *groups;
    int fused, fits = 1;
    if (!PyArg_ParseTuple(args, "O!p", &PyList_Type, &groups, &fused)) {
        return NULL;
    }
    if (!dyn_torch_find() || dyn_torch_state() < 0 || dyn_torch_profiling()) {
        Py_RETURN_FALSE;
    }
    Plan plan = {0};
    int made = 0;
    for (Py_ssize_t i = 0; fits > 0 && i < PyList_GET_SIZE(groups); i++) {
        fits = plan_group(&plan, PyList_GET_ITEM(groups, i));
    }
    bool possible = fits > 0 && !has_overlap(&plan);
    possible = possible && (plan.steps.n == 0 || dyn_target_at(plan.device)->can_descend(plan.steps.at, plan.steps.n, fused));
    if (possible && dyn_torch_bump(plan.changed.at, plan.changed.n) < 0) {
        PyErr_Clear(); /* Tensors of inference mode have no versions: PyTorch's step says so. */
        possible = false;
    }
    if (possible) {
        made = make_all(&plan, fused);
    }
    plan_free(&plan);
    return fits < 0 || made < 0 ? NULL : PyBool_FromLong(possible);
}

static PyMethodDef functions[] = {{"_descend", descend, METH_VARARGS, "Make steps of optimisers, if their tensors fit."},
                                  {"_shrink", shrink, METH_VARARGS, "Limit the norm of gradients, if they fit."},
                                  {NULL, NULL, 0, NULL}};

int dyn_optimizers_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
