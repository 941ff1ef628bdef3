/* region_random.c: generators of random numbers as native loops draw from them: random.Random by its own C methods, NumPy's
 * RandomState and Generator by the function that their bit generator gives to C code. Called by the planner, at entries
 * (codegen/region/run.c), and by generated code, with the GIL. Holds references to the classes and methods for good. */
#include "base/cpy_region.h"
#include "ir/region_ir.h"
#include <math.h>
#include <numpy/random/bitgen.h>

static const char *const names[] = {"random",  "getrandbits", "_randbelow",    "randrange",   "randint",
                                    "uniform", "gauss",       "normalvariate", "expovariate", "shuffle"};
enum { RANDOM, GETRANDBITS, NAMES = DYN_COUNTOF(names) };
static PyObject *originals[NAMES];                       /* Of random.Random. */
static PyTypeObject *python_type, *state_type, *np_type; /* NULL: its module isn't there, or it isn't what it was. */
static bool looked_for_python, looked_for_numpy;

static PyObject *of_loaded_module(const char *module, const char *name) {
    PyObject *named = PyUnicode_FromString(module), *m = named == NULL ? NULL : PyImport_GetModule(named);
    PyObject *o = m == NULL ? NULL : PyObject_GetAttrString(m, name);
    PyErr_Clear();
    Py_XDECREF(named);
    Py_XDECREF(m);
    return o;
}

/* Is it the function that the random module defines, or a method of C code? */
static bool is_original(PyObject *method, PyObject *file) {
    if (Py_IS_TYPE(method, &PyMethodDescr_Type)) {
        return true;
    }
    PyCodeObject *code = PyFunction_Check(method) ? (PyCodeObject *)PyFunction_GET_CODE(method) : NULL;
    return code != NULL && file != NULL && PyUnicode_Compare(code->co_filename, file) == 0;
}

static void look_for_python(void) {
    PyObject *type = of_loaded_module("random", "Random"), *randrange = NULL;
    bool all = type != NULL && PyType_Check(type);
    if (type == NULL) {
        return;
    }
    looked_for_python = true;
    randrange = PyObject_GetAttrString(type, "randrange");
    PyObject *file =
        randrange != NULL && PyFunction_Check(randrange) ? ((PyCodeObject *)PyFunction_GET_CODE(randrange))->co_filename : NULL;
    for (int i = 0; i < NAMES && all; i++) {
        originals[i] = Py_XNewRef(dyn_cpy_lookup_named((PyTypeObject *)type, names[i]));
        all =
            originals[i] != NULL && is_original(originals[i], file) && (i > GETRANDBITS) == (PyFunction_Check(originals[i]) != 0);
    }
    PyErr_Clear();
    Py_XDECREF(randrange);
    python_type = all ? (PyTypeObject *)Py_NewRef(type) : NULL;
    Py_DECREF(type);
}

static PyTypeObject *numpy_type(const char *module, const char *name) {
    PyObject *o = of_loaded_module(module, name);
    bool is = o != NULL && PyType_Check(o) && !(((PyTypeObject *)o)->tp_flags & Py_TPFLAGS_HEAPTYPE);
    if (!is) {
        Py_XDECREF(o);
    }
    return is ? (PyTypeObject *)o : NULL;
}

static void look_for_numpy(void) {
    state_type = numpy_type("numpy.random.mtrand", "RandomState");
    np_type = numpy_type("numpy.random._generator", "Generator");
    looked_for_numpy = state_type != NULL && np_type != NULL;
}

/* Is it what the attribute of this class is, bound to the object? */
static bool is_bound(PyObject *bound, PyObject *method, PyObject *o) {
    if (PyMethod_Check(bound)) {
        return PyMethod_GET_FUNCTION(bound) == method && PyMethod_GET_SELF(bound) == o;
    }
    return PyCFunction_CheckExact(bound) && PyCFunction_GET_SELF(bound) == o && Py_IS_TYPE(method, &PyMethodDescr_Type) &&
           ((PyCFunctionObject *)bound)->m_ml == ((PyMethodDescrObject *)method)->d_method;
}

/* Neither the instance nor, by now, its class has methods of its own. */
static bool has_originals(PyObject *o) {
    bool all = true;
    for (int i = 0; i < NAMES && all; i++) {
        PyObject *name = PyUnicode_InternFromString(names[i]), *bound = name == NULL ? NULL : PyObject_GenericGetAttr(o, name);
        all = bound != NULL && dyn_cpy_lookup_named(python_type, names[i]) == originals[i] && is_bound(bound, originals[i], o);
        PyErr_Clear();
        Py_XDECREF(bound);
        Py_XDECREF(name);
    }
    return all;
}

/* nan: there was no memory for the number, which is lost, as it is in CPython. */
static double draw_python(void *o) {
    PyObject *number = PyObject_CallOneArg(originals[RANDOM], o);
    double d = number == NULL ? Py_NAN : PyFloat_AsDouble(number);
    PyErr_Clear();
    Py_XDECREF(number);
    return d;
}

/* random.Random's own way to an int below n: bits, until they are below it. Where there is no memory for bits they are lost, as
 * they are in CPython. */
int dyn_region_randbelow(PyObject *o, int64_t n, int64_t *d) {
    PyObject *bits =
        n <= 0 ? NULL : PyLong_FromLong(64 - __builtin_clzll((unsigned long long)n)); /* a small one: CPython has it */
    if (bits == NULL) {
        PyErr_Clear();
        return 1;
    }
    bool lost;
    do {
        PyObject *args[] = {o, bits}, *number = PyObject_Vectorcall(originals[GETRANDBITS], args, 2, NULL);
        *d = number == NULL ? -1 : PyLong_AsLongLong(number);
        lost = number == NULL;
        PyErr_Clear();
        Py_XDECREF(number);
    } while (*d >= n);
    Py_DECREF(bits);
    return lost;
}

/* ---- distributions, as Lib/random.py has them, in the same order of operations. A draw that there is no memory for is nan. */

/* Two roundings, whatever instructions the machine has. */
static double spread(double mu, double sigma, double z) {
    volatile double product = z * sigma;
    return mu + product;
}

/* random.Random.gauss makes two numbers at a time, and keeps the second as an attribute. */
int dyn_region_gauss(PyObject *o, double mu, double sigma, double *d) {
    static PyObject *name;
    name = name != NULL ? name : PyUnicode_InternFromString("gauss_next");
    PyObject *kept = name == NULL ? NULL : PyObject_GenericGetAttr(o, name), *next = Py_NewRef(Py_None);
    double z = kept != NULL && PyFloat_CheckExact(kept) ? PyFloat_AS_DOUBLE(kept) : Py_NAN;
    bool fails = kept == NULL || (kept != Py_None && !PyFloat_CheckExact(kept));
    if (kept == Py_None) {
        double turn = draw_python(o) * (2.0 * Py_MATH_PI), radius = sqrt(-2.0 * log(1.0 - draw_python(o)));
        z = cos(turn) * radius;
        Py_SETREF(next, PyFloat_FromDouble(sin(turn) * radius));
    }
    fails = fails || next == NULL || PyObject_GenericSetAttr(o, name, next) < 0;
    PyErr_Clear();
    Py_XDECREF(kept);
    Py_XDECREF(next);
    *d = spread(mu, sigma, z);
    return fails;
}

double dyn_region_normalvariate(PyObject *o, double mu, double sigma) {
    const double magic = 4.0 * exp(-0.5) / sqrt(2.0);
    for (;;) {
        double u = draw_python(o), v = 1.0 - draw_python(o), z = magic * (u - 0.5) / v, square = z * z / 4.0;
        if (!(square > -log(v))) {
            return spread(mu, sigma, z);
        }
    }
}

double dyn_region_expovariate(PyObject *o, double rate) { return -log(1.0 - draw_python(o)) / rate; }

/* From the last item on each is exchanged with one in front of it, or itself. */
int dyn_region_shuffle(PyObject *o, PyObject *list) {
    for (int64_t i = PyList_GET_SIZE(list) - 1, k = 0; i > 0; i--) {
        if (dyn_region_randbelow(o, i + 1, &k) != 0) {
            return 1;
        }
        PyObject *item = PyList_GET_ITEM(list, i);
        PyList_SET_ITEM(list, i, PyList_GET_ITEM(list, k));
        PyList_SET_ITEM(list, k, item);
    }
    return 0;
}

/* Nobody is in the middle of drawing from it, without the GIL. */
static bool is_free(PyObject *lock) {
    PyObject *got = lock == NULL ? NULL : PyObject_CallMethod(lock, "acquire", "O", Py_False);
    bool is = got == Py_True;
    PyObject *done = is ? PyObject_CallMethod(lock, "release", NULL) : NULL;
    is = is && done != NULL;
    PyErr_Clear();
    Py_XDECREF(got);
    Py_XDECREF(done);
    return is;
}

static bool of_numpy(PyObject *o, void **function, void **state) {
    PyObject *bits = PyObject_GetAttrString(o, "_bit_generator");
    bool own = bits != NULL && !(Py_TYPE(bits)->tp_flags & Py_TPFLAGS_HEAPTYPE); /* not one of the program's */
    PyObject *capsule = own ? PyObject_GetAttrString(bits, "capsule") : NULL,
             *lock = own ? PyObject_GetAttrString(bits, "lock") : NULL;
    bitgen_t *of = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, "BitGenerator");
    bool is = of != NULL && is_free(lock);
    PyErr_Clear();
    if (is) {
        *function = (void *)of->next_double;
        *state = of->state;
    }
    Py_XDECREF(capsule);
    Py_XDECREF(lock);
    Py_XDECREF(bits); /* the generator has it, and nothing runs that could give it another one */
    return is;
}

PyTypeObject *dyn_region_rng_type(uint8_t which) {
    return which == DYN_RNG_PYTHON ? python_type : which == DYN_RNG_STATE ? state_type : np_type;
}

bool dyn_region_rng(PyObject *o, uint8_t *which, void **function, void **state) {
    if (!looked_for_python) {
        look_for_python();
    }
    if (!looked_for_numpy) {
        look_for_numpy();
    }
    if (python_type != NULL && Py_IS_TYPE(o, python_type)) {
        *which = DYN_RNG_PYTHON;
        *function = (void *)draw_python;
        *state = o;
        return has_originals(o);
    }
    bool is_state = state_type != NULL && Py_IS_TYPE(o, state_type), is_np = np_type != NULL && Py_IS_TYPE(o, np_type);
    *which = is_np ? DYN_RNG_GENERATOR : DYN_RNG_STATE;
    return (is_state || is_np) && of_numpy(o, function, state);
}
