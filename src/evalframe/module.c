/* module.c: the extension module dynoc._dynoc: starts every room and gives the Python face its functions.
 *
 * Loaded once in a process, never unloaded; state is static. Importing it starts settings, logs and counters. NumPy's import
 * takes longer than many a program, so what works on arrays starts when the program has imported it, or when the first of the
 * rooms' names is asked for (get_late); those that loops need may have started before that, for loops without arrays. */
#include "base/pool.h"
#include "ir/derive.h"
#include "evalframe/finder.h"
#include "evalframe/follow.h"
#include "evalframe/optimizers.h"
#include "evalframe/sites.h"
#include "evalframe/ticks.h"
#include "evalframe/guards/guards.h"
#include "evalframe/hold.h"
#include "evalframe/hook.h"
#include "evalframe/known.h"
#include "evalframe/loop_watch.h"
#include "evalframe/loops.h"
#include "tracer/record/rec.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif

/* ---- optimize and enable */

static int start_once(PyObject *module, bool arrays);

static PyObject *optimize(PyObject *module, PyObject *args) {
    PyObject *fn, *dict, *door = NULL;
    if (start_once(module, true) < 0 || !PyArg_ParseTuple(args, "OO!:optimize", &fn, &PyDict_Type, &dict)) {
        return NULL;
    }
    if (!PyFunction_Check(fn)) {
        PyErr_Format(PyExc_TypeError, "a Python function is wanted, not %.100s", Py_TYPE(fn)->tp_name);
        return NULL;
    }
    if (!dyn_cpy_known()) {
        dyn_warn_once(DYN_R_UNKNOWN_PYTHON, "%s", Py_GetVersion());
    }
    DynOptions *o = dyn_options_new(dict);
    DynCache *c = o == NULL ? NULL : dyn_cache_new(PyFunction_GET_CODE(fn), o);
    if (c != NULL) {
        c->need_arrays = true;
        door = dyn_door_new(fn, c, false);
        dyn_cache_decref(c);
    }
    if (o != NULL) {
        dyn_options_decref(o);
    }
    return door;
}

static PyObject *enable(PyObject *module, PyObject *dict) {
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "enable takes a dict of settings");
        return NULL;
    }
    if (!dyn_cpy_known()) {
        dyn_warn_once(DYN_R_UNKNOWN_PYTHON, "%s", Py_GetVersion());
        Py_RETURN_NONE;
    }
    DynOptions *o = dyn_options_new(dict);
    if (o == NULL) {
        return NULL;
    }
    if (dyn_cpy_is_traced(PyThreadState_Get())) {
        dyn_door_step_aside(PyThreadState_Get(), NULL);
    }
    dyn_hook_enable(o);
    dyn_options_decref(o);
    Py_RETURN_NONE;
}

static PyObject *disable(PyObject *module, PyObject *none) {
    dyn_hook_disable();
    Py_RETURN_NONE;
}

/* ---- control */

static PyObject *skip(PyObject *module, PyObject *fn) {
    PyObject *f = fn;
    if (PyMethod_Check(f)) {
        f = PyMethod_GET_FUNCTION(f);
    }
    if (Py_IS_TYPE(f, &DynDoor_Type)) {
        dyn_cache_clear(dyn_door_cache(f));
        f = dyn_door_function(f);
    }
    if (PyFunction_Check(f) && dyn_known_skip(PyFunction_GET_CODE(f)) < 0) {
        return NULL;
    }
    return Py_NewRef(fn);
}

/* Of what optimize() gave, and of the function itself. */
static PyObject *mark(PyObject *fn, DynMark how) {
    bool door = Py_IS_TYPE(fn, &DynDoor_Type);
    return dyn_record_mark(fn, how) < 0 || (door && dyn_record_mark(dyn_door_function(fn), how) < 0) ? NULL : Py_NewRef(fn);
}

static PyObject *allow_in_graph(PyObject *module, PyObject *fn) { return mark(fn, DYN_MARK_ALLOW); }

static PyObject *disallow_in_graph(PyObject *module, PyObject *fn) { return mark(fn, DYN_MARK_DISALLOW); }

static PyObject *run(PyObject *module, PyObject *fn) {
    if (!Py_IS_TYPE(fn, &DynDoor_Type)) {
        return Py_NewRef(fn);
    }
    return dyn_door_new(dyn_door_function(fn), dyn_door_cache(fn), true);
}

static PyObject *graph_break(PyObject *module, PyObject *none) { Py_RETURN_NONE; }

static PyObject *is_tracing(PyObject *module, PyObject *none) { return PyBool_FromLong(dyn_record_active()); }

/* What the recorder knows gradients by (rec_gradient.c); this is what they do in CPython. */
static PyObject *begin_gradient(PyObject *module, PyObject *none) { Py_RETURN_NONE; }

static PyObject *in_gradient(PyObject *module, PyObject *none) { Py_RETURN_FALSE; }

static PyObject *gradients(PyObject *module, PyObject *args) {
    PyErr_SetString(
        dyn_unsupported_error != NULL ? dyn_unsupported_error : PyExc_RuntimeError,
        "no gradient is known: the function ran in CPython, as under a debugger, or where its graph could not be kept");
    return NULL;
}

static PyObject *reset(PyObject *module, PyObject *none) {
    dyn_build_reap();
    dyn_cache_reset_all();
    dyn_known_forget_all();
    dyn_pool_release();
    dyn_load_trim();
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    Py_RETURN_NONE;
}

static PyObject *memory(PyObject *module, PyObject *none) { return dyn_memory_report(); }

static PyObject *kept_memory(PyObject *module, PyObject *none) { return PyLong_FromSize_t(dyn_pool_kept()); }

static PyObject *wait_all(PyObject *module, PyObject *none) {
    dyn_build_wait_all();
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *set_errors(PyObject *module, PyObject *dict) {
    PyObject *unsupported = PyDict_Check(dict) ? PyDict_GetItemString(dict, "Unsupported") : NULL;
    if (unsupported == NULL) {
        PyErr_SetString(PyExc_TypeError, "a dict of exception types is wanted");
        return NULL;
    }
    Py_XSETREF(dyn_unsupported_error, Py_NewRef(unsupported));
    Py_RETURN_NONE;
}

/* A program that is run by Python code of ours has as many calls before the limit of recursion as CPython's own start gives it.
 */
static PyObject *forgive_calls(PyObject *module, PyObject *n) {
    int calls = (int)PyLong_AsLong(n);
    if (calls == -1 && PyErr_Occurred()) {
        return NULL;
    }
    dyn_recursion_forgive(PyThreadState_Get(), calls);
    Py_RETURN_NONE;
}

/* As `python` compiles the file that it runs. The function compile() first makes the types of all nodes of syntax trees, which
 * takes a millisecond. */
static PyObject *compile_program(PyObject *module, PyObject *args) {
    const char *source;
    PyObject *name;
    if (!PyArg_ParseTuple(args, "yU:compile_program", &source, &name)) {
        return NULL;
    }
    return Py_CompileStringObject(source, name, Py_file_input, NULL, -1);
}

/* Call each of a tuple of callables with the argument, without a Python frame around them that a traceback would show. */
static PyObject *call_in_turn(PyObject *module, PyObject *args) {
    PyObject *callables, *argument;
    if (!PyArg_ParseTuple(args, "O!O:call_in_turn", &PyTuple_Type, &callables, &argument)) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(callables); i++) {
        PyObject *result = PyObject_CallOneArg(PyTuple_GET_ITEM(callables, i), argument);
        if (result == NULL) {
            return NULL;
        }
        Py_DECREF(result);
    }
    Py_RETURN_NONE;
}

static PyObject *is_started(PyObject *module, PyObject *none);
static PyObject *has_arrays(PyObject *module, PyObject *none);
static PyObject *start_for(PyObject *module, PyObject *arrays);
static PyObject *hold_start(PyObject *module, PyObject *none);
static PyObject *let_start(PyObject *module, PyObject *none);
static PyObject *get_late(PyObject *module, PyObject *name);

static PyMethodDef functions[] = {
    {"__getattr__", get_late, METH_O, "Starts the rooms that need NumPy, which have the other names."},
    {"is_started", is_started, METH_NOARGS, "Are the rooms started?"},
    {"has_arrays", has_arrays, METH_NOARGS, "Are they, with arrays?"},
    {"start", start_for, METH_O, "Start the rooms. True: with arrays, for which NumPy is imported."},
    {"_hold_start", hold_start, METH_NOARGS, "In front of a fork: no other thread starts them, and no loop is waited for."},
    {"_let_start", let_start, METH_NOARGS, "Behind a fork, in both processes."},
    {"set_errors", set_errors, METH_O, "Exception types by name."},
    {"graph_break", graph_break, METH_NOARGS, "Break the graph here. Does nothing else."},
    {"is_tracing", is_tracing, METH_NOARGS, "Is this call being recorded?"},
    {"watch_loops", dyn_loop_watch, METH_O, "Call this, once, when a loop has run for long; None: never."},
    {"forgive_calls", forgive_calls, METH_O, "So many of the calls that run don't count against the limit of recursion."},
    {"compile_program", compile_program, METH_VARARGS,
     "The code of a program from its source, in bytes without NUL, and its file."},
    {"call_in_turn", call_in_turn, METH_VARARGS, "Call each of a tuple with the argument."},
    {0}};

static PyMethodDef late_functions[] = {
    {"optimize", optimize, METH_VARARGS, "optimize(function, settings): an OptimizedFunction."},
    {"enable", enable, METH_O, "enable(settings): every Python function from now on."},
    {"disable", disable, METH_NOARGS, "Undo enable."},
    {"skip", skip, METH_O, "Never trace this function."},
    {"allow_in_graph", allow_in_graph, METH_O, "Calls of it are one node."},
    {"disallow_in_graph", disallow_in_graph, METH_O, "Calls of it break the graph."},
    {"run", run, METH_O, "Use what is compiled, compile nothing new."},
    {"_begin_gradient", begin_gradient, METH_NOARGS, "A gradient of what follows will be asked for."},
    {"_in_gradient", in_gradient, METH_NOARGS, "Is this call recorded for a gradient?"},
    {"_go_over", dyn_finder_go_over, METH_NOARGS,
     "The function that calls this goes over to loop code where it jumps back next. Is it asked to?"},
    {"_gradients", gradients, METH_VARARGS, "_gradients(value, wanted): a tuple of gradients, while recording."},
    {"reset", reset, METH_NOARGS, "Forget every entry."},
    {"kept_memory", kept_memory, METH_NOARGS, "Bytes of dead arrays that are kept."},
    {"memory", memory, METH_NOARGS, "Bytes and numbers of entries and compiled objects."},
    {"wait", wait_all, METH_NOARGS, "Return when nothing is being compiled."},
    {0}};

/* ---- start */

static int find_specials(PyObject *module) {
    static const char *const names[DYN_SPECIAL_COUNT] = {
        [DYN_SPECIAL_GRAPH_BREAK] = "graph_break", [DYN_SPECIAL_IS_TRACING] = "is_tracing"};
    for (int i = 0; i < DYN_SPECIAL_COUNT; i++) {
        Py_XSETREF(dyn_special[i], PyObject_GetAttrString(module, names[i]));
        if (dyn_special[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

static int start_rooms(PyObject *module) {
    if (PyModule_AddFunctions(module, late_functions) < 0 || find_specials(module) < 0) {
        return -1;
    }
    if (dyn_arrays_init() < 0 || dyn_cpy_init() < 0) {
        return -1;
    }
    if (dyn_codegen_init(module) < 0 || rec_triton_init(module) < 0) {
        return -1;
    }
    if (dyn_hit_init() < 0 || dyn_hold_init() < 0 || dyn_follow_init(module) < 0 || dyn_optimizers_init(module) < 0) {
        return -1;
    }
    if (dyn_loops_init(module) < 0 || dyn_door_init(module) < 0 || dyn_pyentry_init(module) < 0 || dyn_watched_init(module) < 0) {
        return -1;
    }
    if (dyn_decode_init(module) < 0 || dyn_asm_init(module) < 0 || dyn_region_door_init(module) < 0 ||
        dyn_sites_init(module) < 0) {
        return -1;
    }
    if (dyn_sym_init_module(module) < 0 || dyn_graph_init_module(module) < 0) {
        return -1;
    }
    return dyn_part_init_module(module) < 0 || dyn_guards_init_module(module) < 0 ? -1 : 0;
}

/* The recorder, too: without arrays there is nothing to record. */
static int start_arrays(void) {
    if (dyn_arrays_load() < 0) {
        return -1;
    }
    if (dyn_np_init() < 0 || dyn_record_init() < 0) {
        dyn_arrays_leave();
        return -1;
    }
    dyn_finder_meet_arrays();
    return 0;
}

static struct {
    bool rooms, arrays;      /* are started */
    bool forks;              /* The lock is held for a fork. */
    unsigned long by;        /* the thread that starts the rooms now; 0: none */
    PyThread_type_lock lock; /* held by that thread */
} start;

static void lock_start(void) {
    Py_BEGIN_ALLOW_THREADS;
    PyThread_acquire_lock(start.lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS;
}

static int import_numpy(void) {
    dyn_cpy_hold_signals();
    PyObject *numpy = PyImport_ImportModule("numpy");
    dyn_cpy_release_signals();
    Py_XDECREF(numpy);
    return numpy == NULL ? -1 : 0;
}

/* Started by the first thread that comes; others wait for it. Code that NumPy's import or a room's start runs finds what there
 * is by then. */
static int start_once(PyObject *module, bool arrays) {
    unsigned long me = PyThread_get_thread_ident();
    if (start.arrays || start.by == me || (start.rooms && !arrays)) {
        return 0;
    }
    if (arrays && import_numpy() < 0) {
        return -1;
    }
    lock_start();
    start.by = me;
    start.rooms = start.rooms || start_rooms(module) == 0;
    start.arrays = start.arrays || (start.rooms && arrays && start_arrays() == 0);
    start.by = 0;
    PyThread_release_lock(start.lock);
    return start.arrays || (start.rooms && !arrays) ? 0 : -1;
}

static PyObject *is_started(PyObject *module, PyObject *none) { return PyBool_FromLong(start.rooms); }

static PyObject *has_arrays(PyObject *module, PyObject *none) { return PyBool_FromLong(start.arrays); }

static PyObject *start_for(PyObject *module, PyObject *arrays) {
    return start_once(module, arrays == Py_True) < 0 ? NULL : Py_NewRef(Py_None);
}

/* A thread that is in the midst of it doesn't exist in the child, which would wait for it for ever. And what waits for a loop to
 * go over is called off: the child has no use for the parent's loops. */
static PyObject *hold_start(PyObject *module, PyObject *none) {
    dyn_loops_stay();
    dyn_ticks_fork_begins();
    if (!start.arrays && start.by != PyThread_get_thread_ident()) {
        lock_start();
        start.forks = true;
    }
    Py_RETURN_NONE;
}

static PyObject *let_start(PyObject *module, PyObject *none) {
    if (start.forks) {
        start.forks = false;
        PyThread_release_lock(start.lock);
    }
    dyn_ticks_go_on();
    Py_RETURN_NONE;
}

static PyObject *get_late(PyObject *module, PyObject *name) {
    bool special = PyUnicode_GetLength(name) > 1 && PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_READ_CHAR(name, 1) == '_';
    if (!special && start_once(module, true) < 0) { /* the import system asks for __path__ and the like */
        return NULL;
    }
    PyObject *found = PyDict_GetItemWithError(PyModule_GetDict(module), name);
    if (found == NULL && !PyErr_Occurred()) {
        PyErr_Format(PyExc_AttributeError, "module 'dynoc._dynoc' has no attribute %R", name);
    }
    return Py_XNewRef(found);
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dynoc._dynoc", .m_doc = "The machinery of dynoc. Use the package dynoc.",
    .m_size = -1,          .m_methods = functions,
};

PyMODINIT_FUNC PyInit__dynoc(void) {
    PyObject *module = PyModule_Create(&definition);
    dyn_cycles_start();
    start.lock = PyThread_allocate_lock();
    if (start.lock == NULL) {
        PyErr_NoMemory();
    }
    if (module != NULL && (start.lock == NULL || dyn_log_init(module) < 0 || dyn_watch_init(module) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
