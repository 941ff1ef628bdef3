/* selftest.c: what tests/ir and tests/fuzz call: stages of this room on graphs given as text.
 *
 * - _lower_text(graph): loop IR after lower, fuse, schedule and plan
 * - _loops_roundtrip(graph, loops): loop IR printed after it was parsed
 * - _emit_text(graph): C
 * - _graph_compile(graph[, calls]): a capsule, with native code
 * - _graph_run(capsule, arrays, numbers): status and outputs
 * - _graph_interp(capsule, arrays, numbers): outputs, by NumPy
 * - _run_graph_text(graph, arrays, numbers): outputs
 * - _panel_order(rows, terms, columns, a by columns, b by columns): see dyn_panel_order
 *
 * Symbols come from the arrays' sizes and from `numbers` in order of the graph's VAR symbols. dyn_codegen_init registers them. */
#include "base/log.h"
#include "base/cuda.h"
#include "base/torch.h"
#include "codegen/build/build.h"
#include "codegen/run/builtin.h"
#include "codegen/run/exec.h"
#include "codegen/run/panel.h"
#include "codegen/target.h"

typedef struct Unit {
    DynArena arena;
    DynSources sources;
    DynSyms syms;
    DynGraph graph;
    DynStr source;
    DynLoops *loops;
    DynArtifact *artifact;
} Unit;

static void unit_free(Unit *u) {
    if (u->artifact) {
        dyn_artifact_decref(u->artifact);
    }
    dyn_str_free(&u->source);
    dyn_graph_free(&u->graph);
    dyn_syms_free(&u->syms);
    dyn_sources_free(&u->sources);
    dyn_arena_free(&u->arena);
    PyMem_RawFree(u);
}

static int run_stages(Unit *u, DynReason *why, DynStr *error) {
    *why = DYN_R_NO_MEMORY;
    u->loops = dyn_common(&u->graph, &u->arena) < 0 ? NULL : dyn_lower(&u->graph, &dyn_config, &u->arena, why, error);
    if (!u->loops || dyn_loops_verify(u->loops, error) < 0 || dyn_recompute(u->loops, why, error) < 0 ||
        dyn_fuse(u->loops, why, error) < 0 || dyn_loops_verify(u->loops, error) < 0 || dyn_schedule(u->loops, why, error) < 0 ||
        dyn_plan(u->loops, why, error) < 0 || dyn_loops_verify(u->loops, error) < 0 ||
        dyn_target_of(&u->graph)->emit(u->loops, &u->source, why, error) < 0) {
        return -1;
    }
    return 0;
}

/* Verifies the graph that was read, and runs the stages over it. calls: what makes its calls, or NULL. */
static int make_of(Unit *u, PyObject *calls, bool stages, DynStr *error) {
    DynReason why;
    bool taken = calls == NULL || dyn_graph_take_calls(&u->graph, calls) == 0;
    return taken && dyn_graph_verify(&u->graph, error) == 0 && (!stages || run_stages(u, &why, error) == 0) ? 0 : -1;
}

static Unit *unit_new(const char *text, PyObject *calls, bool stages) {
    DynStr error = {0};
    Unit *u = PyMem_RawCalloc(1, sizeof(*u));
    if (!u) {
        PyErr_NoMemory();
        return NULL;
    }
    dyn_arena_init(&u->arena);
    if (dyn_graph_init(&u->graph, &u->arena, "test", &u->sources, &u->syms) < 0 || dyn_graph_parse(&u->graph, text, &error) < 0 ||
        make_of(u, calls, stages, &error) < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, dyn_str_at(&error));
        }
        unit_free(u);
        u = NULL;
    }
    dyn_str_free(&error);
    return u;
}

static PyObject *printed(PyObject *text, void (*print)(const DynLoops *, DynStr *)) {
    const char *s = PyUnicode_AsUTF8(text);
    Unit *u = s ? unit_new(s, NULL, true) : NULL;
    DynStr out = {0};
    if (!u) {
        return NULL;
    }
    print(u->loops, &out);
    PyObject *r = PyUnicode_FromString(dyn_str_at(&out));
    dyn_str_free(&out);
    unit_free(u);
    return r;
}

/* _arena_fail_after(n): the n-th allocation of an arena fails from now on, and all behind it; -1: none does. What was left. */
static PyObject *arena_fail_after(PyObject *module, PyObject *n) {
    long before = dyn_arena_fail_after, after = PyLong_AsLong(n);
    if (after == -1 && PyErr_Occurred()) {
        return NULL;
    }
    dyn_arena_fail_after = after;
    return PyLong_FromLong(before);
}

/* _lower_failing(text, n) -> (reason, sentence, how many allocations were left): the stages, where n allocations of the arena
 * are made and those behind them fail. */
static PyObject *lower_failing(PyObject *module, PyObject *args) {
    const char *text;
    long n;
    DynReason why;
    DynStr error = {0};
    if (!PyArg_ParseTuple(args, "sl", &text, &n)) {
        return NULL;
    }
    Unit *u = unit_new(text, NULL, false);
    if (!u) {
        return NULL;
    }
    dyn_arena_fail_after = n;
    int failed = run_stages(u, &why, &error);
    long left = dyn_arena_fail_after;
    dyn_arena_fail_after = -1;
    PyObject *r = Py_BuildValue("ssl", failed ? dyn_reason_code(why) : "OK", dyn_str_at(&error), left);
    dyn_str_free(&error);
    unit_free(u);
    return r;
}

static PyObject *lower_text(PyObject *module, PyObject *text) { return printed(text, dyn_loops_print); }
static PyObject *builtin_text(PyObject *module, PyObject *text) { return printed(text, dyn_builtin_print); }

static PyObject *emit_text(PyObject *module, PyObject *text) {
    const char *s = PyUnicode_AsUTF8(text);
    Unit *u = s ? unit_new(s, NULL, true) : NULL;
    PyObject *r = u ? PyUnicode_FromString(dyn_str_at(&u->source)) : NULL;
    if (u) {
        unit_free(u);
    }
    return r;
}

static PyObject *loops_roundtrip(PyObject *module, PyObject *args) {
    const char *graph, *loops;
    DynStr out = {0}, error = {0};
    PyObject *r = NULL;
    if (!PyArg_ParseTuple(args, "ss", &graph, &loops)) {
        return NULL;
    }
    Unit *u = unit_new(graph, NULL, false);
    if (!u) {
        return NULL;
    }
    DynLoops *p = dyn_loops_parse(&u->graph, &u->arena, loops, &error);
    if (!p || dyn_loops_verify(p, &error) < 0) {
        PyErr_SetString(PyExc_ValueError, dyn_str_at(&error));
    } else {
        dyn_loops_print(p, &out);
        r = PyUnicode_FromString(dyn_str_at(&out));
    }
    dyn_str_free(&out);
    dyn_str_free(&error);
    unit_free(u);
    return r;
}

static void capsule_free(PyObject *capsule) { unit_free(PyCapsule_GetPointer(capsule, "dynoc.unit")); }

static PyObject *graph_of_tier(const char *text, PyObject *calls, DynTier tier) {
    const char *detail = NULL;
    (void)dyn_torch_find(); /* there may be tensors among what comes in */
    Unit *u = text ? unit_new(text, calls, true) : NULL;
    if (!u) {
        return NULL;
    }
    u->artifact = dyn_artifact_new(&dyn_target_c, u->loops, &u->source, &u->graph, &dyn_config);
    if (!u->artifact) {
        unit_free(u);
        return PyErr_NoMemory();
    }
    if (tier == DYN_TIER_NATIVE) {
        dyn_build_submit(u->artifact, true);
    }
    if (dyn_artifact_tier(u->artifact) != tier) {
        DynReason why = dyn_artifact_failure(u->artifact, &detail);
        PyErr_Format(PyExc_RuntimeError, "%s: %s", dyn_reason_code(why), detail ? detail : "");
        unit_free(u);
        return NULL;
    }
    return PyCapsule_New(u, "dynoc.unit", capsule_free);
}

static PyObject *graph_compile(PyObject *module, PyObject *args) {
    const char *text;
    PyObject *calls = NULL;
    return PyArg_ParseTuple(args, "s|O!", &text, &PyDict_Type, &calls) ? graph_of_tier(text, calls, DYN_TIER_NATIVE) : NULL;
}
static PyObject *graph_builtin(PyObject *module, PyObject *text) {
    return graph_of_tier(PyUnicode_AsUTF8(text), NULL, DYN_TIER_BUILTIN);
}

/* ---- running */

typedef struct Arguments {
    Unit *u;
    PyObject *arrays, *numbers; /* fast sequences, owned */
    DynScalar *sym;
} Arguments;

static PyObject *array_at(const Arguments *a, uint32_t source) {
    const DynGraph *g = &a->u->graph;
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        if (dyn_graph_node(g, g->inputs.at[i])->source == source) {
            return PySequence_Fast_GET_ITEM(a->arrays, i);
        }
    }
    PyErr_SetString(PyExc_ValueError, "a size of something that is no input");
    return NULL;
}

static int eval_sym(Arguments *a, uint32_t id, Py_ssize_t *next) {
    const DynSym *s = dyn_sym_at(&a->u->syms, id);
    DynScalar *out = &a->sym[id];
    DynArrayView view;
    PyObject *v;
    switch (s->op) {
    case DYN_S_CONST: *out = s->value; return 0;
    case DYN_S_DIM:
    case DYN_S_STRIDE:
        v = array_at(a, s->a);
        if (!v || !dyn_array_view(v, &view) || s->index >= view.ndim) {
            out->i = 0;
            return -1;
        }
        out->i = s->op == DYN_S_DIM ? view.dims[s->index] : view.strides[s->index];
        return 0;
    case DYN_S_VAR:
        if (*next >= PySequence_Fast_GET_SIZE(a->numbers)) {
            PyErr_SetString(PyExc_ValueError, "too few numbers");
            return -1;
        }
        v = PySequence_Fast_GET_ITEM(a->numbers, (*next)++);
        if (s->type == DYN_T_FLOAT) {
            out->f = PyFloat_AsDouble(v);
        } else {
            out->i = PyLong_AsLongLong(v);
        }
        return PyErr_Occurred() ? -1 : 0;
    default: break;
    }
    uint32_t n = a->u->syms.v.n;
    DynScalar zero = {.i = 0};
    DynScalar x = s->a < n ? a->sym[s->a] : zero;
    DynScalar y = s->b < n ? a->sym[s->b] : zero;
    DynSymType tx = s->a < n ? (DynSymType)dyn_sym_at(&a->u->syms, s->a)->type : DYN_T_INT;
    DynSymType ty = s->b < n ? (DynSymType)dyn_sym_at(&a->u->syms, s->b)->type : DYN_T_INT;
    if (dyn_sym_eval((DynSymOp)s->op, tx, ty, x, y, s->c < n ? a->sym[s->c] : zero, out) < 0) {
        PyErr_SetString(PyExc_ValueError, "a symbol can't be evaluated");
        return -1;
    }
    return 0;
}

static void arguments_free(Arguments *a) {
    Py_XDECREF(a->arrays);
    Py_XDECREF(a->numbers);
    PyMem_Free(a->sym);
}

static int arguments_new(PyObject *args, Arguments *a) {
    PyObject *capsule, *arrays, *numbers;
    Py_ssize_t next = 0;
    *a = (Arguments){.u = NULL};
    if (!PyArg_ParseTuple(args, "OOO", &capsule, &arrays, &numbers)) {
        return -1;
    }
    a->u = PyCapsule_GetPointer(capsule, "dynoc.unit");
    a->arrays = PySequence_Fast(arrays, "arrays");
    a->numbers = PySequence_Fast(numbers, "numbers");
    if (!a->u || !a->arrays || !a->numbers) {
        arguments_free(a);
        return -1;
    }
    a->sym = PyMem_Calloc(a->u->syms.v.n + 1, sizeof(*a->sym));
    bool enough = PySequence_Fast_GET_SIZE(a->arrays) == a->u->graph.inputs.n;
    for (uint32_t i = 0; enough && i < a->u->graph.inputs.n; i++) {
        enough = dyn_array_is(PySequence_Fast_GET_ITEM(a->arrays, i));
    }
    int failed = enough && a->sym ? 0 : -1;
    if (failed) {
        PyErr_SetString(PyExc_ValueError, "wrong number of arrays");
    }
    for (uint32_t i = 0; !failed && i < a->u->syms.v.n; i++) {
        failed = dyn_sym_is_late(&a->u->syms, i) ? 0 : eval_sym(a, i, &next);
    }
    if (failed) {
        arguments_free(a);
    }
    return failed;
}

static PyObject *graph_run(PyObject *module, PyObject *args) {
    Arguments a;
    if (arguments_new(args, &a) < 0) {
        return NULL;
    }
    const DynGraph *g = &a.u->graph;
    PyObject *outputs = PyList_New(g->outputs.n), *r = NULL;
    DynRun run = {.inputs = PySequence_Fast_ITEMS(a.arrays), .sym = a.sym, .config = &dyn_config};
    run.outputs = PyMem_Calloc(g->outputs.n + 1, sizeof(PyObject *));
    if (outputs && run.outputs) {
        DynRunStatus status = dyn_artifact_run(a.u->artifact, &run);
        for (uint32_t i = 0; i < g->outputs.n; i++) {
            PyList_SET_ITEM(outputs, i, status == DYN_RUN_OK ? run.outputs[i] : Py_NewRef(Py_None));
        }
        r = status == DYN_RUN_ERROR ? NULL : Py_BuildValue("(iO)", (int)status, outputs);
    }
    Py_XDECREF(outputs);
    PyMem_Free(run.outputs);
    arguments_free(&a);
    return r;
}

static PyObject *graph_interp(PyObject *module, PyObject *args) {
    Arguments a;
    if (arguments_new(args, &a) < 0) {
        return NULL;
    }
    const DynGraph *g = &a.u->graph;
    PyObject **values = PyMem_Calloc(g->nodes.n + 1, sizeof(PyObject *)), *outputs = PyList_New(g->outputs.n);
    bool fine = values && outputs;
    DynRun run = {.inputs = PySequence_Fast_ITEMS(a.arrays), .sym = a.sym, .config = &dyn_config};
    for (uint32_t i = 0; fine && i < g->nodes.n; i++) {
        values[i] = dyn_interp_node(g, &run, values, i);
        fine = values[i] != NULL;
    }
    for (uint32_t i = 0; fine && i < g->outputs.n; i++) {
        PyList_SET_ITEM(outputs, i, Py_NewRef(values[g->outputs.at[i]]));
    }
    for (uint32_t i = 0; values && i < g->nodes.n; i++) {
        Py_XDECREF(values[i]);
    }
    PyMem_Free(values);
    arguments_free(&a);
    if (!fine) {
        Py_CLEAR(outputs);
    }
    return outputs;
}

static PyObject *run_graph_text(PyObject *module, PyObject *args) {
    const char *text;
    PyObject *arrays, *numbers;
    if (!PyArg_ParseTuple(args, "sOO", &text, &arrays, &numbers)) {
        return NULL;
    }
    PyObject *capsule = graph_of_tier(text, NULL, DYN_TIER_NATIVE);
    PyObject *three = capsule ? PyTuple_Pack(3, capsule, arrays, numbers) : NULL;
    PyObject *r = three ? graph_run(module, three) : NULL;
    PyObject *outputs = r ? Py_NewRef(PyTuple_GET_ITEM(r, 1)) : NULL;
    Py_XDECREF(r);
    Py_XDECREF(three);
    Py_XDECREF(capsule);
    return outputs;
}

/* For setup.py: the text of the built-in tier, and (name, compiler flags) of each instruction set that it is built for. */
static PyObject *builtin_source(PyObject *module, PyObject *none) {
    DynStr text = {0};
    PyObject *levels = PyList_New(0), *r = NULL;
    bool failed = levels == NULL || dyn_builtin_source(&text) < 0;
    for (size_t i = 0; !failed && dyn_isa_level(i) != NULL; i++) {
        DynStr flags = {0};
        dyn_compiler_isa_flags(dyn_isa_level(i), &flags);
        PyObject *level = Py_BuildValue("(ss)", dyn_isa_level(i)->name, dyn_str_at(&flags));
        failed = level == NULL || PyList_Append(levels, level) < 0;
        Py_XDECREF(level);
        dyn_str_free(&flags);
    }
    if (!failed) {
        r = Py_BuildValue("(sO)", dyn_str_at(&text), levels);
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    Py_XDECREF(levels);
    dyn_str_free(&text);
    return r;
}

static PyObject *builtin_switch(PyObject *module, PyObject *on) {
    dyn_builtin_off = on != Py_True;
    Py_RETURN_NONE;
}

static PyObject *cuda_stand_in(PyObject *module, PyObject *path) {
    const char *name = path == Py_None ? NULL : PyUnicode_AsUTF8(path);
    if (name == NULL && path != Py_None) {
        return NULL;
    }
    if (dyn_cuda_stand_in(name) < 0) {
        PyErr_SetString(PyExc_OSError, "the library can't be opened, or a function is missing");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *replays_always(PyObject *module, PyObject *always) {
    int is = PyObject_IsTrue(always);
    return is < 0 ? NULL : PyBool_FromLong(dyn_replays_always(is));
}

static PyObject *moves_switch(PyObject *module, PyObject *level) {
    size_t i = PyLong_AsSize_t(level);
    return i == (size_t)-1 && PyErr_Occurred() ? NULL : PyBool_FromLong(dyn_lanes_level(i));
}

static PyObject *rows_often(PyObject *module, PyObject *rows) {
    long long n = PyLong_AsLongLong(rows);
    return n == -1 && PyErr_Occurred() ? NULL : PyLong_FromLongLong(dyn_sizes_often(n));
}

static PyObject *parts_above(PyObject *module, PyObject *text) {
    long long n = PyLong_AsLongLong(text);
    return n == -1 && PyErr_Occurred() ? NULL : PyLong_FromLongLong(dyn_parts_above(n));
}

static PyObject *panel_order(PyObject *module, PyObject *args) {
    DynBlas p = {.routine = DYN_BLAS_GEMM, .single = true, .size = sizeof(float), .stacks = 1};
    long long rows, terms, columns;
    int a_turned, b_turned;
    bool faster;
    if (!PyArg_ParseTuple(args, "LLLpp", &rows, &terms, &columns, &a_turned, &b_turned)) {
        return NULL;
    }
    p.rows = rows;
    p.terms = terms;
    p.columns = columns;
    p.trans_a = a_turned ? DYN_BLAS_TRANS : DYN_BLAS_NO_TRANS;
    p.trans_b = b_turned ? DYN_BLAS_TRANS : DYN_BLAS_NO_TRANS;
    return PyLong_FromLongLong(dyn_torch_find() && dyn_blas_torch(&p) ? dyn_panel_order(&p, &faster) : -1);
}

static PyMethodDef methods[] = {
    {"_panel_order", panel_order, METH_VARARGS, "Test: after how many terms PyTorch's library begins a new sum."},
    {"_builtin_source", builtin_source, METH_NOARGS, "C of the built-in tier, and its levels."},
    {"_builtin_switch", builtin_switch, METH_O, "Test: the built-in tier serves, or doesn't."},
    {"_cuda_stand_in", cuda_stand_in, METH_O, "Test: a library that stands in for driver and NVRTC; None: none does."},
    {"_replays_always", replays_always, METH_O, "Test: CUDA graphs are replayed even where that doesn't pay; what held before."},
    {"_moves_switch", moves_switch, METH_O, "Test: moves by the instruction set of that number."},
    {"_rows_often", rows_often, METH_O, "Test: a length comes often after so many rows."},
    {"_parts_above", parts_above, METH_O, "Test: more text than this is compiled in two parts."},
    {"_builtin_text", builtin_text, METH_O, "Steps of the built-in tier for a graph given as text."},
    {"_arena_fail_after", arena_fail_after, METH_O, "Test: allocations of arenas fail after so many."},
    {"_lower_failing", lower_failing, METH_VARARGS, "The stages, where allocations fail."},
    {"_lower_text", lower_text, METH_O, "Loop IR of a graph given as text."},
    {"_emit_text", emit_text, METH_O, "C of a graph given as text."},
    {"_loops_roundtrip", loops_roundtrip, METH_VARARGS, "Loop IR parsed and printed again."},
    {"_graph_compile", graph_compile, METH_VARARGS, "A graph with native code."},
    {"_graph_builtin", graph_builtin, METH_O, "A graph for the built-in tier."},
    {"_graph_run", graph_run, METH_VARARGS, "Run native code."},
    {"_graph_interp", graph_interp, METH_VARARGS, "Run by NumPy."},
    {"_run_graph_text", run_graph_text, METH_VARARGS, "Compile and run."},
    {NULL, NULL, 0, NULL}};

int dyn_codegen_init(PyObject *module) { return PyModule_AddFunctions(module, methods) < 0 ? -1 : dyn_build_init_module(module); }
