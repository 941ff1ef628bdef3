/* doctor.c: what `python -m dynoc doctor` says about building and threads, and the functions by which tests drive them.
 *
 * Module functions, called from Python with the GIL: build_info, cuda_info, _build_test, _load_limit, _par_test,
 * _rest_test. Nothing else calls in here.
 */
#include "codegen/build/build.h"
#include "base/cuda.h"
#include "codegen/loops/loops.h"
#include "codegen/target.h"
#include <fenv.h>
#include <unistd.h>

/* First line of what `compiler --version` says. Asked at most once for each compiler met. */
static const char *compiler_version(const DynBuildEnv *env, const DynCompiler *c) {
    static DynStr asked, answer;
    if (asked.n > 0 && strcmp(dyn_str_at(&asked), dyn_str_at(&c->identity)) == 0) {
        return dyn_str_at(&answer);
    }
    char *argv[16] = {0};
    size_t n = 0;
    char *word = c->words.at;
    for (uint32_t i = 0; i < c->nwords && n < DYN_COUNTOF(argv) - 2; i++, word += strlen(word) + 1) {
        argv[n++] = word;
    }
    argv[n] = (char *)"--version";
    DynStr output = {0};
    PyThreadState *ts = PyEval_SaveThread();
    DynProcessEnd end = dyn_process_run(argv, env->vars, env->timeout_s < 10 ? env->timeout_s : 10, NULL, NULL, &output);
    PyEval_RestoreThread(ts);
    size_t line = strcspn(dyn_str_at(&output), "\n");
    asked.n = answer.n = 0;
    dyn_str_puts(&asked, dyn_str_at(&c->identity));
    dyn_str_printf(&answer, "%.*s", (int)line, end == DYN_PROCESS_OK ? dyn_str_at(&output) : "");
    dyn_str_free(&output);
    return dyn_str_at(&answer);
}

/* info[key] = value, which is taken over. */
static int put(PyObject *info, const char *key, PyObject *value) {
    int done = value == NULL ? -1 : PyDict_SetItemString(info, key, value);
    Py_XDECREF(value);
    return done;
}

static PyObject *text_or_none(const char *text) {
    return text == NULL || text[0] == 0 ? Py_NewRef(Py_None) : PyUnicode_DecodeFSDefault(text);
}

static int put_compiler(PyObject *info, const DynBuildEnv *env) {
    DynCompiler c;
    DynStr why = {0}, flags = {0};
    bool found = dyn_compiler_find(env, &c, &why) == 0;
    dyn_compiler_flags(env, &flags, NULL);
    int done = put(info, "compiler", text_or_none(found ? dyn_str_at(&c.words) : NULL));
    done |= put(info, "compiler_version", text_or_none(found ? compiler_version(env, &c) : NULL));
    done |= put(info, "compiler_problem", text_or_none(dyn_str_at(&why)));
    done |= put(info, "compiler_flags", text_or_none(dyn_str_at(&flags)));
    dyn_compiler_free(&c);
    dyn_str_free(&why);
    dyn_str_free(&flags);
    return done;
}

static int put_cache(PyObject *info, const DynBuildEnv *env) {
    DynStr path = {0}, why = {0};
    dyn_diskcache_path(env, &path);
    int folder = dyn_diskcache_open(env, &why);
    if (folder >= 0) {
        close(folder);
    }
    int done = put(info, "cache_dir", text_or_none(dyn_str_at(&path)));
    done |= put(info, "cache_usable", PyBool_FromLong(folder >= 0));
    done |= put(info, "cache_problem", text_or_none(dyn_str_at(&why)));
    dyn_str_free(&path);
    dyn_str_free(&why);
    return done;
}

static PyObject *build_info(PyObject *module, PyObject *none) {
    DynBuildEnv *env = dyn_compiler_env_new(&dyn_config);
    if (env == NULL) {
        return PyErr_NoMemory();
    }
    dyn_par_limit(dyn_config.threads);
    PyObject *info = PyDict_New();
    int done = info == NULL ? -1 : put_compiler(info, env) | put_cache(info, env);
    dyn_compiler_env_free(env);
    if (done == 0) {
        done = put(info, "isa", text_or_none(dyn_isa_get()->name)) | put(info, "threads", PyLong_FromLong(dyn_par_threads())) |
               put(info, "builtin", PyBool_FromLong(dyn_builtin_ready())) | put(info, "openmp", text_or_none(dyn_par_runtime())) |
               put(info, "started", PyBool_FromLong(dyn_build_is_started()));
    }
    if (done != 0) {
        Py_CLEAR(info);
    }
    return info;
}

/* CUDA's driver and compiler, each found as a launch or a build would find it. */
static PyObject *cuda_info(PyObject *module, PyObject *none) {
    DynBuildEnv *env = dyn_compiler_env_new(&dyn_config);
    if (env == NULL) {
        return PyErr_NoMemory();
    }
    DynCudaLook look = {0};
    DynCompiler nvrtc = {0};
    DynStr why = {0};
    dyn_cuda_look(&look);
    bool found = dyn_target_cuda.toolchain->find(env, &nvrtc, &why) == 0;
    PyObject *info = PyDict_New();
    int done = info == NULL ? -1 : put(info, "problem", text_or_none(dyn_str_at(&look.problem)));
    if (done == 0) {
        done = put(info, "missing", PyBool_FromLong(look.missing)) | put(info, "error", PyLong_FromLong(look.error)) |
               put(info, "version", PyLong_FromLong(look.version)) | put(info, "devices", PyLong_FromLong(look.devices)) |
               put(info, "name", text_or_none(look.name)) | put(info, "oldest", PyLong_FromLong(DYN_CUDA_OLDEST)) |
               put(info, "nvrtc", text_or_none(found ? dyn_str_at(&nvrtc.identity) : NULL)) |
               put(info, "nvrtc_problem", text_or_none(dyn_str_at(&why)));
    }
    dyn_compiler_free(&nvrtc);
    dyn_compiler_env_free(env);
    dyn_str_free(&look.problem);
    dyn_str_free(&why);
    if (done != 0) {
        Py_CLEAR(info);
    }
    return info;
}

static PyObject *build_test(PyObject *module, PyObject *source) {
    DynBuildResult r = {0};
    const char *text = PyUnicode_AsUTF8(source);
    if (text == NULL) {
        return NULL;
    }
    if (dyn_build_source(text, &r) < 0) {
        return PyErr_NoMemory();
    }
    const char *tier = "failed", *how = dyn_reason_code(r.why);
    if (r.native) {
        tier = "native";
        how = r.cached ? "disk" : "compiled";
    }
    PyObject *detail = PyUnicode_DecodeUTF8(dyn_str_at(&r.detail), r.detail.n, "replace");
    PyObject *result = detail == NULL ? NULL : Py_BuildValue("ssNd", tier, how, detail, r.seconds);
    dyn_str_free(&r.detail);
    return result;
}

/* What _par_test runs: counts each chunk, notes the rounding mode, raises an exception flag in one chunk. */
typedef struct ParTest {
    int rounding;
    int64_t raising;
    unsigned char *ran;
    atomic_long rounded_otherwise;
} ParTest;

static void par_test_chunk(void *ctx, int64_t chunk) {
    ParTest *t = ctx;
    t->ran[chunk]++;
    if (fegetround() != t->rounding) {
        atomic_fetch_add(&t->rounded_otherwise, 1);
    }
    volatile double one = 1.0, zero = 0.0, x = 0.0;
    for (int i = 0; i < 2000; i++) { /* long enough that other threads get their share */
        x = x + one;
    }
    if (chunk == t->raising) {
        x = one / zero;
    }
}

static PyObject *par_test(PyObject *module, PyObject *args) {
    Py_ssize_t n;
    int rounding = FE_TONEAREST;
    if (!PyArg_ParseTuple(args, "n|i:_par_test", &n, &rounding)) {
        return NULL;
    }
    ParTest t = {.rounding = rounding, .raising = n - 1, .ran = PyMem_RawCalloc((size_t)n + 1, 1)};
    fenv_t saved;
    if (t.ran == NULL) {
        return PyErr_NoMemory();
    }
    dyn_par_limit(dyn_config.threads);
    Py_BEGIN_ALLOW_THREADS feholdexcept(&saved);
    fesetround(rounding);
    dyn_par_for(par_test_chunk, &t, n);
    Py_END_ALLOW_THREADS int raised = fetestexcept(FE_ALL_EXCEPT);
    fesetenv(&saved);
    Py_ssize_t once = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        once += t.ran[i] == 1;
    }
    PyMem_RawFree(t.ran);
    return Py_BuildValue("niii", once, raised & FE_DIVBYZERO ? 1 : 0, (int)atomic_load(&t.rounded_otherwise), dyn_par_team(n));
}

static PyObject *rest_test(PyObject *module, PyObject *regions) {
    DynRest r = {0};
    Py_ssize_t n = PyList_Check(regions) ? PyList_GET_SIZE(regions) : 0;
    PyObject *rests = PyList_New(n);
    for (Py_ssize_t i = 0; i < n && rests != NULL; i++) {
        long long now, worked, waited;
        bool given = PyArg_ParseTuple(PyList_GET_ITEM(regions, i), "LLL", &now, &worked, &waited);
        if (given) {
            dyn_rest_learn(&r, now, worked, waited);
        }
        PyObject *until = given ? PyLong_FromLongLong(r.until_ns) : NULL;
        if (until == NULL) {
            Py_CLEAR(rests);
        } else {
            PyList_SET_ITEM(rests, i, until);
        }
    }
    return rests;
}

static PyObject *load_limit(PyObject *module, PyObject *most) {
    long n = PyLong_AsLong(most);
    return n == -1 && PyErr_Occurred() ? NULL : PyLong_FromLong(dyn_load_limit((int)n));
}

static PyMethodDef functions[] = {
    {"build_info", build_info, METH_NOARGS, "What building and threads would use: a dict."},
    {"cuda_info", cuda_info, METH_NOARGS, "What graphs on CUDA devices would use: a dict."},
    {"_build_test", build_test, METH_O, "Test: build C source: (\"native\" or \"failed\", how or reason, detail, seconds)."},
    {"_load_limit", load_limit, METH_O, "Test: how many objects may be loaded from now on; how many are."},
    {"_par_test", par_test, METH_VARARGS,
     "Test: (n, rounding mode): chunks that ran exactly once, was a worker's flag merged, chunks with another rounding, "
     "threads."},
    {"_rest_test", rest_test, METH_O, "Test: of [(now, worked, waited)] the time up to which there are no threads, after each."},
    {0}};

int dyn_build_init_module(PyObject *module) { return dyn_build_init() < 0 ? -1 : PyModule_AddFunctions(module, functions); }
