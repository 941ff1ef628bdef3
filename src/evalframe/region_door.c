/* region_door.c: functions by which tests plan, print, build, run and leave regions on lists of slots, without any loop code.
 * Each has a name that begins with _region. In lists of slots and stack values Ellipsis stands for an empty one. Called from
 * Python alone; a region is owned by a capsule. */
#include "evalframe/door.h"
#include "ir/region_ir.h"
#include "tracer/region/region.h"

#define CAPSULE "dynoc.region"

static void drop_region(PyObject *capsule) { dyn_region_free(PyCapsule_GetPointer(capsule, CAPSULE)); }
static DynRegion *region_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, CAPSULE); }

static PyObject *text_of(DynStr *s) {
    PyObject *text = s->failed ? PyErr_NoMemory() : PyUnicode_FromString(dyn_str_at(s));
    dyn_str_free(s);
    return text;
}

static DynCode *code_of(PyObject *function) {
    if (!PyFunction_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "a function is needed");
        return NULL;
    }
    return dyn_decode((PyCodeObject *)PyFunction_GET_CODE(function));
}

static PyObject *headers(PyObject *module, PyObject *function) {
    DynCode *c = code_of(function);
    uint32_t at[64], n;
    if (c == NULL) {
        return NULL;
    }
    n = dyn_region_headers(c, at, DYN_COUNTOF(at));
    dyn_decode_free(c);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < n && i < DYN_COUNTOF(at); i++) {
        PyObject *unit = PyLong_FromUnsignedLong(at[i]);
        if (unit == NULL || PyList_Append(list, unit) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(unit);
    }
    return list;
}

/* The objects of a list, with new references, NULL for Ellipsis. */
static PyObject **objects_of(PyObject *list, Py_ssize_t *n) {
    *n = PyList_GET_SIZE(list);
    PyObject **at = PyMem_Calloc((size_t)*n + 1, sizeof(PyObject *));
    for (Py_ssize_t i = 0; at != NULL && i < *n; i++) {
        PyObject *o = PyList_GET_ITEM(list, i);
        at[i] = o == Py_Ellipsis ? NULL : Py_NewRef(o);
    }
    return at == NULL ? (PyObject **)PyErr_NoMemory() : at;
}

static void drop_objects(PyObject **at, Py_ssize_t n) {
    for (Py_ssize_t i = 0; at != NULL && i < n; i++) {
        Py_XDECREF(at[i]);
    }
    PyMem_Free(at);
}

static PyObject *list_of(PyObject **at, Py_ssize_t n) {
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
        PyList_SET_ITEM(list, i, Py_NewRef(at[i] == NULL ? Py_Ellipsis : at[i]));
    }
    return list;
}

/* _region_plan(function, header, slots, stack): a region, or (reason, code unit, what). */
static PyObject *plan(PyObject *module, PyObject *args) {
    PyObject *function, *slots, *stack;
    unsigned int header;
    if (!PyArg_ParseTuple(args, "OIO!O!", &function, &header, &PyList_Type, &slots, &PyList_Type, &stack)) {
        return NULL;
    }
    PyObject *both = PySequence_Concat(slots, stack);
    DynCode *c = both == NULL ? NULL : code_of(function);
    Py_ssize_t n = 0;
    PyObject **at = c == NULL ? NULL : objects_of(both, &n);
    PyObject *result = NULL;
    Py_CLEAR(both);
    for (Py_ssize_t i = 0; at != NULL && i < n; i++) {
        Py_XDECREF(at[i]); /* the lists hold them, as a frame does: once */
    }
    if (at != NULL && PyList_GET_SIZE(slots) == dyn_code_nlocalsplus(c->code)) {
        DynRegionRefusal why;
        PyFunctionObject *f = (PyFunctionObject *)function;
        DynRegion *r =
            dyn_region_plan(c, header, at, (uint32_t)PyList_GET_SIZE(stack), f->func_globals, f->func_builtins, 0, &why);
        result = r != NULL ? PyCapsule_New(r, CAPSULE, drop_region)
                           : Py_BuildValue("sIs", dyn_reason_code(why.reason), why.at, why.detail);
    } else if (at != NULL) {
        PyErr_SetString(PyExc_ValueError, "one value for each slot");
    }
    PyMem_Free(at);
    dyn_decode_free(c);
    return result;
}

static PyObject *printed(PyObject *capsule, void (*print)(const DynRegion *r, DynStr *out)) {
    DynRegion *r = region_of(capsule);
    DynStr s = {0};
    if (r == NULL) {
        return NULL;
    }
    print(r, &s);
    return text_of(&s);
}

static PyObject *text(PyObject *module, PyObject *capsule) { return printed(capsule, dyn_region_text); }
static PyObject *source(PyObject *module, PyObject *capsule) { return printed(capsule, dyn_region_source); }

/* _region_parse(text): a region; ValueError says what is wrong, with the text or the region. */
static PyObject *parse(PyObject *module, PyObject *from) {
    const char *at = PyUnicode_AsUTF8(from);
    DynStr error = {0};
    DynRegion *r = at == NULL ? NULL : dyn_region_parse(at, &error);
    if (r != NULL && dyn_region_verify(r, &error) < 0) {
        dyn_region_free(r);
        r = NULL;
    }
    if (r == NULL && at != NULL) {
        PyErr_SetString(PyExc_ValueError, dyn_str_at(&error));
    }
    dyn_str_free(&error);
    return r == NULL ? NULL : PyCapsule_New(r, CAPSULE, drop_region);
}

/* _region_optimise(region): the passes over it, which are made before it is built. */
static PyObject *optimise(PyObject *module, PyObject *capsule) {
    DynRegion *r = region_of(capsule);
    if (r == NULL) {
        return NULL;
    }
    dyn_region_optimise(r);
    Py_RETURN_NONE;
}

/* _region_exits(region): (code unit, depth, reason) of each. */
static PyObject *exits(PyObject *module, PyObject *capsule) {
    DynRegion *r = region_of(capsule);
    PyObject *list = r == NULL ? NULL : PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < r->exits.n; i++) {
        const DynRegionOut *x = &r->exits.at[i];
        PyObject *row = Py_BuildValue("IIs", x->at, x->nstack, dyn_reason_code(x->why));
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

/* _region_build(region, forced): its state when the compiler is through, 1: ready, 2: failed. forced: its exits can be forced. */
static PyObject *build(PyObject *module, PyObject *args) {
    PyObject *capsule;
    int forced;
    if (!PyArg_ParseTuple(args, "Op", &capsule, &forced)) {
        return NULL;
    }
    DynRegion *r = region_of(capsule);
    if (r == NULL) {
        return NULL;
    }
    r->forced = forced;
    if (dyn_region_build(r, true) < 0) {
        return PyErr_NoMemory();
    }
    return PyErr_Occurred() ? NULL : PyLong_FromLong(dyn_region_state(r));
}

/* _region_run(region, slots, stack, interpreted, force, after): None where it isn't entered, or (slots, code unit, stack, exit,
 * why). force: the number of an exit, or -1. */
static PyObject *run(PyObject *module, PyObject *args) {
    PyObject *capsule, *slots, *stack;
    int interpreted, force;
    unsigned int after;
    if (!PyArg_ParseTuple(args, "OO!O!piI", &capsule, &PyList_Type, &slots, &PyList_Type, &stack, &interpreted, &force, &after)) {
        return NULL;
    }
    DynRegion *r = region_of(capsule);
    PyObject *both = r == NULL ? NULL : PySequence_Concat(slots, stack), *result = NULL;
    Py_ssize_t n = 0, nslots = PyList_GET_SIZE(slots);
    PyObject **at = both == NULL ? NULL : objects_of(both, &n);
    if (at != NULL && (uint32_t)nslots == r->nslots) {
        DynRegionExit x;
        r->interpreted = interpreted;
        r->force = force < 0 ? DYN_NONE : (uint32_t)force;
        r->after = after;
        if (dyn_region_run(r, at, (uint32_t)(n - nslots), &x) == DYN_REGION_LEFT) {
            PyObject *left = list_of(at, nslots), *values = list_of(x.stack, x.nstack);
            for (uint32_t i = 0; i < x.nstack; i++) {
                Py_XDECREF(x.stack[i]);
            }
            result = Py_BuildValue("NINIs", left, x.at, values, x.exit, dyn_reason_code(x.why));
        } else {
            result = Py_NewRef(Py_None);
        }
    } else if (at != NULL) {
        PyErr_SetString(PyExc_ValueError, "one value for each slot");
    }
    drop_objects(at, n);
    Py_XDECREF(both);
    return result;
}

/* ---- CPython goes on in the middle of a function */

static struct {
    PyObject *code, *slots, *stack;
    uint32_t at;
    DynEvalHook below;
} going;

static void put(DynFrame *f, uint32_t slot, PyObject *o) { dyn_frame_put(f, slot, o == Py_Ellipsis ? NULL : Py_NewRef(o)); }

static PyObject *go_on_hook(PyThreadState *ts, DynFrame *f, int throwflag) {
    if ((PyObject *)dyn_frame_code(f) != going.code) {
        return dyn_frame_default_eval(ts, f, throwflag);
    }
    dyn_hook_set(going.below);
    going.code = NULL;
    uint32_t nslots = (uint32_t)PyList_GET_SIZE(going.slots), depth = (uint32_t)PyList_GET_SIZE(going.stack);
    for (uint32_t i = 0; i < nslots; i++) {
        Py_XDECREF(dyn_frame_take(f, i));
        put(f, i, PyList_GET_ITEM(going.slots, i));
    }
    for (uint32_t i = 0; i < depth; i++) {
        put(f, nslots + i, PyList_GET_ITEM(going.stack, i));
    }
    return dyn_frame_go_on(ts, f, going.at, (int)depth);
}

/* _region_go_on(function, arguments, slots, code unit, stack): what CPython gives when it goes on there. */
static PyObject *go_on(PyObject *module, PyObject *args) {
    PyObject *function, *arguments, *slots, *stack;
    unsigned int at;
    if (!PyArg_ParseTuple(args, "O!O!O!IO!", &PyFunction_Type, &function, &PyTuple_Type, &arguments, &PyList_Type, &slots, &at,
                          &PyList_Type, &stack)) {
        return NULL;
    }
    going.code = PyFunction_GET_CODE(function);
    going.slots = slots;
    going.stack = stack;
    going.at = at;
    going.below = dyn_hook_get();
    dyn_hook_set(go_on_hook);
    PyObject *result = PyObject_Call(function, arguments, NULL);
    if (going.code != NULL) {
        dyn_hook_set(going.below);
    }
    return result;
}

/* _region_starve(n): on the way out of regions memory is out after n objects; -1: it isn't. What was left. */
static PyObject *starve(PyObject *module, PyObject *n) {
    long before = dyn_region_starve, after = PyLong_AsLong(n);
    if (after == -1 && PyErr_Occurred()) {
        return NULL;
    }
    dyn_region_starve = after;
    return PyLong_FromLong(before);
}

static PyMethodDef methods[] = {{"_region_headers", headers, METH_O, NULL},   {"_region_plan", plan, METH_VARARGS, NULL},
                                {"_region_text", text, METH_O, NULL},         {"_region_source", source, METH_O, NULL},
                                {"_region_parse", parse, METH_O, NULL},       {"_region_exits", exits, METH_O, NULL},
                                {"_region_build", build, METH_VARARGS, NULL}, {"_region_run", run, METH_VARARGS, NULL},
                                {"_region_optimise", optimise, METH_O, NULL}, {"_region_starve", starve, METH_O, NULL},
                                {"_region_go_on", go_on, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

int dyn_region_door_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }
