/* region_foreign.c: what objects of ctypes say of the functions that they stand for, and what native loops do around calls of
 * such functions. Called by tracer/region when a loop is planned, by codegen/region at each entry, and by generated code. With
 * the GIL, but between `release` and `hold`. ctypes is never imported here: who has no function of it needs none.
 *
 * What a function object says is read through the accessors of ctypes' own class, which run no Python code; subclasses that
 * replace how it is called aren't known. Between `release` and `hold` anything may run, so the region has its objects for itself
 * (keep), and asks behind the call whether what it takes for granted still holds (region_ir.h, DynRegionMade). */
#define _GNU_SOURCE 1
#include "ir/region_foreign.h"
#include "base/cpy_region.h"
#include "ir/region_ir.h"
#include <dlfcn.h>
#include <errno.h>

const DynForeignTypeInfo dyn_foreign_types[DYN_FT_COUNT] = {
#define FOREIGN(NAME, text, c_type, by) [DYN_FT_##NAME] = {text, #c_type, #by[0]},
#include "ir/region_foreign.def"
};
enum { UNDECLARED = 15 }; /* in place of the first argument's type: there are no argtypes */

/* ---- ctypes */

static const struct {
    const char *name;
    DynForeignType type;
} names[] = {{"c_bool", DYN_FT_BOOL}, {"c_byte", DYN_FT_I8},    {"c_ubyte", DYN_FT_U8},
             {"c_short", DYN_FT_I16}, {"c_ushort", DYN_FT_U16}, {"c_int", DYN_FT_I32},
             {"c_uint", DYN_FT_U32},  {"c_long", DYN_FT_I64},   {"c_ulong", DYN_FT_U64},
             {"c_float", DYN_FT_F32}, {"c_double", DYN_FT_F64}, {"c_void_p", DYN_FT_PTR}}; /* others are names of these */

static struct {
    PyTypeObject *function, *library; /* CFuncPtr, CDLL; strong, as all of these. NULL: ctypes isn't imported. */
    PyObject *argtypes, *restype, *errcheck, *flags;
    PyMethodDef *from_param;         /* what converts an argument for any of the types, */
    PyMethodDef *pointer_from_param; /* but for c_void_p */
    PyMethodDef *typed_from_param;   /* … for types of pointers */
    PyTypeObject *pointer;           /* what all of those derive from */
    PyObject *types[DYN_COUNTOF(names)];
} ctypes;

static PyObject *of_module(const char *module, const char *name) {
    PyObject *found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
    PyObject *dict = found != NULL && PyModule_Check(found) ? PyModule_GetDict(found) : NULL;
    return dict == NULL ? NULL : PyDict_GetItemString(dict, name);
}

static PyMethodDef *method_from_param(PyObject *type) {
    PyObject *converter = PyObject_GetAttrString(type, "from_param");
    PyMethodDef *method = converter != NULL && PyCFunction_Check(converter) ? ((PyCFunctionObject *)converter)->m_ml : NULL;
    Py_XDECREF(converter);
    return method;
}

static bool find_ctypes(void) {
    if (ctypes.function != NULL) {
        return true;
    }
    PyObject *function = of_module("_ctypes", "CFuncPtr"), *library = of_module("ctypes", "CDLL");
    bool all = function != NULL && PyType_Check(function) && library != NULL && PyType_Check(library);
    for (size_t i = 0; all && i < DYN_COUNTOF(names); i++) {
        ctypes.types[i] = of_module("ctypes", names[i].name);
        all = ctypes.types[i] != NULL;
    }
    if (!all) {
        return false;
    }
    PyTypeObject *t = (PyTypeObject *)function;
    ctypes.argtypes = dyn_cpy_lookup_named(t, "argtypes");
    ctypes.restype = dyn_cpy_lookup_named(t, "restype");
    ctypes.errcheck = dyn_cpy_lookup_named(t, "errcheck");
    ctypes.flags = PyUnicode_InternFromString("_flags_");
    ctypes.from_param = method_from_param(ctypes.types[0]);
    ctypes.pointer_from_param = method_from_param(ctypes.types[DYN_COUNTOF(names) - 1]);
    PyObject *pointer = of_module("_ctypes", "_Pointer");
    ctypes.typed_from_param = pointer != NULL ? method_from_param(pointer) : NULL;
    ctypes.pointer = pointer != NULL && PyType_Check(pointer) ? (PyTypeObject *)pointer : NULL;
    bool known = ctypes.argtypes != NULL && ctypes.restype != NULL && ctypes.errcheck != NULL && ctypes.flags != NULL;
    known = known && ctypes.from_param != NULL && ctypes.pointer_from_param != NULL;
    if (!known || ctypes.typed_from_param == NULL || ctypes.pointer == NULL) {
        PyErr_Clear();
        return false;
    }
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        Py_INCREF(ctypes.types[i]);
    }
    Py_INCREF(ctypes.pointer);
    Py_INCREF(ctypes.argtypes);
    Py_INCREF(ctypes.restype);
    Py_INCREF(ctypes.errcheck);
    ctypes.library = (PyTypeObject *)Py_NewRef(library);
    ctypes.function = (PyTypeObject *)Py_NewRef(function);
    return true;
}

static bool is_of_ctypes(PyObject *o) { return find_ctypes() && PyObject_TypeCheck(o, ctypes.function) != 0; }
bool dyn_foreign_is(PyObject *o) { return is_of_ctypes(o) || dyn_foreign_is_special(o) || dyn_foreign_is_cffi(o); }

bool dyn_foreign_is_library(PyObject *o) {
    return (find_ctypes() && PyObject_TypeCheck(o, ctypes.library) != 0) || dyn_foreign_is_cffi_library(o);
}

static DynForeignType type_of(PyObject *type) {
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        if (ctypes.types[i] == type) {
            return names[i].type;
        }
    }
    return type == Py_None ? DYN_FT_VOID : DYN_FT_END;
}

bool dyn_foreign_is_number_type(PyObject *o) { return find_ctypes() && type_of(o) > DYN_FT_VOID; }

/* New reference, or NULL without an exception. */
static PyObject *get(PyObject *accessor, PyObject *o) {
    PyObject *found = Py_TYPE(accessor)->tp_descr_get(accessor, o, (PyObject *)Py_TYPE(o));
    PyErr_Clear();
    return found;
}

bool dyn_foreign_gives_new(PyObject *function, PyObject *result) {
    if (!is_of_ctypes(function) || !PyObject_TypeCheck(result, ctypes.function->tp_base)) {
        return false;
    }
    PyObject *errcheck = get(ctypes.errcheck, function), *type = get(ctypes.restype, function);
    bool made = errcheck == Py_None && type == (PyObject *)Py_TYPE(result); /* py_object gives any object */
    Py_XDECREF(errcheck);
    Py_XDECREF(type);
    return made;
}

/* What a function object refers to: a thunk is Python code that C calls; a tuple of tuples says which arguments are for results,
 * or have defaults; a tuple of methods converts the arguments. That was made of argtypes, which may be a list that has changed
 * since. */
typedef struct Look {
    const char *why;
    PyObject *argtypes, *converters; /* Borrowed. */
    bool own;                        /* argtypes are the object's own, not its class's. */
} Look;

static int look_at(PyObject *o, void *at) {
    Look *look = at;
    PyObject *first = PyTuple_CheckExact(o) && PyTuple_GET_SIZE(o) > 0 ? PyTuple_GET_ITEM(o, 0) : NULL;
    if (strstr(Py_TYPE(o)->tp_name, "CThunkObject") != NULL) {
        look->why = "a function of ctypes that is Python code";
    } else if (first != NULL && PyTuple_Check(first)) {
        look->why = "a function of ctypes whose parameters have flags";
    } else if (first != NULL && !PyType_Check(first)) {
        look->converters = o;
    }
    look->own = look->own || o == look->argtypes;
    return 0;
}

/* CDLL and its like alone: others hold the GIL. */
static bool is_plain(PyObject *o, DynForeign *f) {
    enum { CDECL = 1, USES_ERRNO = 8 };
    PyTypeObject *t = Py_TYPE(o);
    PyObject *flags = _PyType_Lookup(t, ctypes.flags), *errcheck = get(ctypes.errcheck, o);
    bool own = t->tp_call == ctypes.function->tp_call && t->tp_as_buffer != NULL &&
               t->tp_as_buffer->bf_getbuffer == ctypes.function->tp_as_buffer->bf_getbuffer;
    if (!own) {
        f->why = "a function of ctypes whose class calls it in a way of its own";
    } else if (flags == NULL || !PyLong_CheckExact(flags) || (PyLong_AsLong(flags) | USES_ERRNO) != (CDECL | USES_ERRNO)) {
        f->why = "a function of ctypes that keeps the GIL, or Windows' errors";
    } else if (errcheck != Py_None) {
        f->why = "a function of ctypes with errcheck";
    }
    f->swaps = f->why == NULL && PyLong_AsLong(flags) & USES_ERRNO;
    PyErr_Clear();
    Py_XDECREF(errcheck);
    return f->why == NULL;
}

/* In the object itself: those that are part of other objects of ctypes have it there. */
static bool read_address(PyObject *o, DynForeign *f) {
    Py_buffer view;
    if (PyObject_GetBuffer(o, &view, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        return false;
    }
    ptrdiff_t at = (char *)view.buf - (char *)o;
    bool within = at > 0 && at < ctypes.function->tp_basicsize && at % (ptrdiff_t)sizeof(void *) == 0;
    if (within && view.len == (Py_ssize_t)sizeof(void *)) {
        f->place = (uint32_t)((size_t)at / sizeof(void *));
        f->address = dyn_foreign_address(o, f->place);
    }
    PyBuffer_Release(&view);
    return f->address != NULL;
}

/* ---- what the object said when a loop was planned */

static char *memory_of(PyObject *o, size_t *n) {
    *n = (size_t)ctypes.function->tp_basicsize - offsetof(PyObject, ob_type);
    return (char *)o + offsetof(PyObject, ob_type);
}

static int collect(PyObject *o, void *list) { return PyList_Append(list, o); }

PyObject *dyn_foreign_snapshot(PyObject *o, PyObject **refers_to) {
    size_t n;
    char *at = memory_of(o, &n);
    PyObject *list = PyList_New(0), *bytes = PyBytes_FromStringAndSize(at, (Py_ssize_t)n);
    bool failed = list == NULL || bytes == NULL || ctypes.function->tp_traverse(o, collect, list) != 0;
    *refers_to = failed ? NULL : PyList_AsTuple(list);
    Py_XDECREF(list);
    if (*refers_to == NULL) {
        PyErr_Clear();
        Py_CLEAR(bytes);
    }
    return bytes;
}

bool dyn_foreign_is_as(PyObject *o, PyObject *snapshot) {
    size_t n;
    char *at = memory_of(o, &n);
    return memcmp(at, PyBytes_AS_STRING(snapshot), n) == 0;
}

/* The type of which this is what converts an argument. */
static PyObject *converts_for(PyObject *converter) {
    PyObject *type = PyCFunction_Check(converter) ? PyCFunction_GET_SELF(converter) : NULL;
    PyMethodDef *method = type == NULL ? NULL : ((PyCFunctionObject *)converter)->m_ml;
    bool pointer = type != NULL && type_of(type) == DYN_FT_PTR;
    return method != NULL && method == (pointer ? ctypes.pointer_from_param : ctypes.from_param) ? type : NULL;
}

/* ---- NumPy's part: x.ctypes, and classes of ndpointer's */

/* A class of NumPy's that the program can have met; borrowed. */
static PyObject *class_of_numpy(const char *const *modules, size_t n, const char *name) {
    PyObject *found = NULL;
    for (size_t i = 0; i < n && found == NULL; i++) {
        found = of_module(modules[i], name);
    }
    return found != NULL && PyType_Check(found) ? found : NULL;
}

static PyObject *ndpointer_class(void) {
    static const char *const modules[] = {"numpy.ctypeslib._ctypeslib", "numpy.ctypeslib"};
    return class_of_numpy(modules, DYN_COUNTOF(modules), "_ndptr");
}

PyObject *dyn_foreign_pointer_class(void) {
    static const char *const modules[] = {"numpy._core._internal"};
    return class_of_numpy(modules, DYN_COUNTOF(modules), "_ctypes");
}

PyObject *dyn_foreign_pointer_method(void) {
    PyObject *class = dyn_foreign_pointer_class();
    return class == NULL ? NULL : dyn_cpy_lookup_named((PyTypeObject *)class, "data_as");
}

bool dyn_foreign_is_pointer_type(PyObject *o) {
    return find_ctypes() && PyType_Check(o) && PyType_IsSubtype((PyTypeObject *)o, ctypes.pointer);
}

bool dyn_foreign_ndpointer(PyObject *class, PyObject **dtype, long *ndim, long *flags) {
    PyTypeObject *t = (PyTypeObject *)class;
    PyObject *shape = dyn_cpy_lookup_named(t, "_shape_"), *rank = dyn_cpy_lookup_named(t, "_ndim_"),
             *mask = dyn_cpy_lookup_named(t, "_flags_");
    *dtype = dyn_cpy_lookup_named(t, "_dtype_");
    bool known = *dtype != NULL && shape == Py_None && rank != NULL && mask != NULL;
    *ndim = known && rank != Py_None ? PyLong_AsLong(rank) : -1;
    *flags = known && mask != Py_None ? PyLong_AsLong(mask) : 0;
    bool failed = PyErr_Occurred() != NULL;
    PyErr_Clear();
    return known && !failed;
}

/* The type of pointers, or class of ndpointer's, of which this is what converts an argument; borrowed, or NULL. */
static PyObject *accepted_by(PyObject *converter) {
    if (PyCFunction_Check(converter) && ((PyCFunctionObject *)converter)->m_ml == ctypes.typed_from_param) {
        PyObject *type = PyCFunction_GET_SELF(converter);
        return type != NULL && dyn_foreign_is_pointer_type(type) ? type : NULL;
    }
    PyObject *base = PyMethod_Check(converter) ? ndpointer_class() : NULL;
    PyObject *from = base == NULL ? NULL : dyn_cpy_lookup_named((PyTypeObject *)base, "from_param");
    bool is = from != NULL && Py_IS_TYPE(from, &PyClassMethod_Type) && PyType_Check(PyMethod_GET_SELF(converter)) &&
              PyType_IsSubtype((PyTypeObject *)PyMethod_GET_SELF(converter), (PyTypeObject *)base);
    PyObject *function = is ? PyObject_GetAttrString(base, "from_param") : NULL;
    is = function != NULL && PyMethod_Check(function) && PyMethod_GET_FUNCTION(function) == PyMethod_GET_FUNCTION(converter);
    PyErr_Clear();
    Py_XDECREF(function);
    return is ? PyMethod_GET_SELF(converter) : NULL;
}

static bool read_parameters(PyObject *args, const Look *look, DynForeign *f) {
    PyObject *from = look->own ? look->converters : args;
    Py_ssize_t n = from != NULL && PyTuple_CheckExact(from) ? PyTuple_GET_SIZE(from) : 0;
    if (args == Py_None) {
        f->signature |= UNDECLARED << 4;
        return true;
    }
    if (n > (Py_ssize_t)DYN_FOREIGN_ARGS) {
        f->why = "a function of ctypes with so many parameters";
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GET_ITEM(from, i);
        DynForeignType type = type_of(look->own ? converts_for(item) : item);
        f->accepts[i] = look->own ? accepted_by(item) : NULL;
        type = f->accepts[i] != NULL ? DYN_FT_PTR : type;
        if (type <= DYN_FT_VOID) {
            f->why = "a function of ctypes whose argtypes aren't known";
            return false;
        }
        f->signature |= (uint32_t)type << (4 * i + 4);
    }
    return true;
}

static bool read_signature(PyObject *o, DynForeign *f) {
    PyObject *args = get(ctypes.argtypes, o), *result = get(ctypes.restype, o);
    Look look = {.argtypes = args};
    ctypes.function->tp_traverse(o, look_at, &look);
    f->signature = result == NULL ? DYN_FT_END : type_of(result);
    f->why = look.why;
    if (f->why == NULL && (f->signature == DYN_FT_END || f->signature == DYN_FT_PTR || args == NULL)) {
        f->why = "a function of ctypes whose restype isn't known";
    }
    if (f->why == NULL) {
        read_parameters(args, &look, f);
    }
    Py_XDECREF(args);
    Py_XDECREF(result);
    return f->why == NULL;
}

/* The C library's mathematics, but what sets modes of the processor, which takes and gives no floating-point number, and what
 * stores results where it is told. */
static bool is_mathematics(const DynForeign *f) {
    Dl_info in;
    bool computes = dyn_foreign_types[dyn_foreign_result(f->signature)].by == 'D', stores = false;
    for (uint32_t i = 0; i < DYN_FOREIGN_ARGS && (f->signature >> 4 & 15) != UNDECLARED; i++) {
        computes = computes || dyn_foreign_types[dyn_foreign_arg(f->signature, i)].by == 'D';
        stores = stores || dyn_foreign_arg(f->signature, i) == DYN_FT_PTR;
    }
    if (!computes || stores || dladdr(f->address, &in) == 0 || in.dli_fname == NULL) {
        return false;
    }
    const char *slash = strrchr(in.dli_fname, '/'), *file = slash == NULL ? in.dli_fname : slash + 1;
    return strncmp(file, "libm.so", 7) == 0 || strncmp(file, "libm-", 5) == 0;
}

bool dyn_foreign_of(PyObject *o, DynForeign *f) {
    *f = (DynForeign){0};
    if (dyn_foreign_is_special(o)) {
        return dyn_foreign_of_special(o, f);
    }
    if (dyn_foreign_is_cffi(o)) {
        f->pure = dyn_foreign_of_cffi(o, f) && is_mathematics(f);
    } else if (!is_of_ctypes(o)) {
        f->why = "a function that loops in native code don't know";
    } else if (is_plain(o, f) && read_signature(o, f)) {
        f->why = read_address(o, f) ? NULL : "a function of ctypes whose address lies elsewhere";
        f->pure = f->why == NULL && !f->swaps && is_mathematics(f);
    }
    return f->why == NULL;
}

uint32_t dyn_foreign_with(uint32_t signature, uint32_t n) {
    if ((signature >> 4 & 15) != UNDECLARED) {
        return dyn_foreign_nargs(signature) == n ? signature : 0;
    }
    signature &= 15;
    for (uint32_t i = 0; i < n; i++) {
        signature |= (uint32_t)DYN_FT_I32 << (4 * i + 4);
    }
    return n <= DYN_FOREIGN_ARGS ? signature : 0;
}

/* ---- signatures as text */

void dyn_foreign_print(uint32_t signature, DynStr *out) {
    dyn_str_printf(out, "%s(", dyn_foreign_types[dyn_foreign_result(signature)].text);
    for (uint32_t i = 0; i < dyn_foreign_nargs(signature); i++) {
        dyn_str_printf(out, "%s%s", i > 0 ? "," : "", dyn_foreign_types[dyn_foreign_arg(signature, i)].text);
    }
    dyn_str_putc(out, ')');
}

static DynForeignType parse_type(const char *at, char **end) {
    for (int k = 1; k < DYN_FT_COUNT; k++) {
        size_t n = strlen(dyn_foreign_types[k].text);
        if (strncmp(at, dyn_foreign_types[k].text, n) == 0 && at[n] != 0 && strchr(",()", at[n]) != NULL) {
            *end = (char *)(intptr_t)at + n;
            return (DynForeignType)k;
        }
    }
    return DYN_FT_END;
}

uint32_t dyn_foreign_parse(const char *text, char **end) {
    uint32_t signature = parse_type(text, end);
    if (signature == DYN_FT_END || **end != '(') {
        return 0;
    }
    for (uint32_t i = 0; **end != ')'; i++) {
        DynForeignType type = parse_type(*end + 1, end);
        if (type <= DYN_FT_VOID || i == DYN_FOREIGN_ARGS || strchr(",)", **end) == NULL) {
            if (i == 0 && (*end)[1] == ')') { /* no arguments */
                ++*end;
                break;
            }
            return 0;
        }
        signature |= (uint32_t)type << (4 * i + 4);
    }
    ++*end;
    return signature;
}

void dyn_foreign_declare(uint32_t signature, DynStr *out) {
    uint32_t n = dyn_foreign_nargs(signature);
    dyn_str_printf(out, "%s (*)(", dyn_foreign_types[dyn_foreign_result(signature)].c_type);
    for (uint32_t i = 0; i < n; i++) {
        dyn_str_printf(out, "%s%s", i > 0 ? ", " : "", dyn_foreign_types[dyn_foreign_arg(signature, i)].c_type);
    }
    dyn_str_puts(out, n == 0 ? "void)" : ")");
}

/* ---- the interpreter's calls: ints and floating-point numbers come in registers of two kinds, and the seventh int in memory, so
 * one type of function fits every signature of few arguments (System V's and Arm's conventions of 64 bits alike) */

typedef struct Passed {
    int64_t i[DYN_FOREIGN_ARGS];
    double f[DYN_FOREIGN_ARGS];
} Passed;
#define CALL(type, function, p)                                                                                             \
    ((type(*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, double, double, double, double, double, double, double, \
              double, int64_t))(intptr_t)(function))((p).i[0], (p).i[1], (p).i[2], (p).i[3], (p).i[4], (p).i[5], (p).f[0],  \
                                                     (p).f[1], (p).f[2], (p).f[3], (p).f[4], (p).f[5], (p).f[6], 0.0, (p).i[6])

/* A number of so many bits as C has it in a register. */
static int64_t narrow(DynForeignType type, int64_t i) {
    switch (type) {
    case DYN_FT_BOOL: return (i & 255) != 0;
    case DYN_FT_I8: return (signed char)i;
    case DYN_FT_U8: return (unsigned char)i;
    case DYN_FT_I16: return (short)i;
    case DYN_FT_U16: return (unsigned short)i;
    case DYN_FT_I32: return (int)i;
    case DYN_FT_U32: return (unsigned int)i;
    case DYN_FT_I64:
    case DYN_FT_U64:
    case DYN_FT_PTR:
    case DYN_FT_F32:
    case DYN_FT_F64:
    case DYN_FT_VOID:
    case DYN_FT_END:
    case DYN_FT_COUNT: break;
    }
    return i;
}

static Passed pass(const DynScalar *args, uint32_t signature) {
    Passed p = {0};
    uint32_t ints = 0, floats = 0;
    for (uint32_t k = 0; k < dyn_foreign_nargs(signature); k++) {
        DynForeignType type = dyn_foreign_arg(signature, k);
        if (type == DYN_FT_F32) {
            float single = (float)args[k].f;
            memcpy(&p.f[floats++], &single, sizeof single);
        } else if (type == DYN_FT_F64) {
            p.f[floats++] = args[k].f;
        } else {
            p.i[ints++] = narrow(type, type == DYN_FT_BOOL ? args[k].i != 0 : args[k].i);
        }
    }
    return p;
}

int64_t dyn_foreign_call_int(const void *function, const DynScalar *args, uint32_t signature) {
    Passed p = pass(args, signature);
    return narrow(dyn_foreign_result(signature), CALL(int64_t, function, p));
}

double dyn_foreign_call_float(const void *function, const DynScalar *args, uint32_t signature) {
    Passed p = pass(args, signature);
    bool single = dyn_foreign_result(signature) == DYN_FT_F32;
    return single ? (double)CALL(float, function, p) : CALL(double, function, p);
}

/* ---- around a call */

void *dyn_foreign_release(void) {
    DynRegionMade *made = dyn_region_made;
    made->thread = PyEval_SaveThread();
    return made;
}

int dyn_foreign_hold(void *released) {
    DynRegionMade *made = released;
    PyEval_RestoreThread(made->thread);
    dyn_region_made = made; /* other threads had regions of theirs */
    dyn_cpy_forget_quiet();
    return 0;
}

/* ctypes' errno of the running thread, which it has in a capsule. */
static _Thread_local int *errno_of_ctypes;

static PyObject *function_of_ctypes(const char *name) {
    PyObject *function = of_module("_ctypes", name);
    return function != NULL && PyCFunction_Check(function) ? function : NULL;
}

/* Is that what get_errno() reads? Asked once, as it is an agreement within ctypes. */
static bool is_read_by_ctypes(int *at) {
    static int answer = -1;
    PyObject *get_errno = answer < 0 ? function_of_ctypes("get_errno") : NULL;
    int before = *at;
    if (get_errno != NULL) {
        *at = before ^ 0x5a5a;
        PyObject *said = PyObject_CallNoArgs(get_errno);
        answer = said != NULL && PyLong_AsLong(said) == *at;
        PyErr_Clear();
        Py_XDECREF(said);
        *at = before;
    }
    return answer > 0;
}

int dyn_foreign_errno_find(void) {
    static PyObject *key;
    if (key == NULL && (key = PyUnicode_InternFromString("ctypes.error_object")) == NULL) {
        PyErr_Clear();
        return 1;
    }
    PyObject *dict = PyThreadState_GetDict(), *capsule = dict == NULL ? NULL : PyDict_GetItemWithError(dict, key);
    PyObject *get_errno = capsule == NULL ? function_of_ctypes("get_errno") : NULL;
    if (get_errno != NULL && dict != NULL) { /* which makes the thread's, that has none yet */
        Py_XDECREF(PyObject_CallNoArgs(get_errno));
        PyErr_Clear();
        capsule = PyDict_GetItemWithError(dict, key);
    }
    bool known = capsule != NULL && PyCapsule_CheckExact(capsule);
    errno_of_ctypes = known ? PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)) : NULL;
    PyErr_Clear();
    return errno_of_ctypes == NULL || !is_read_by_ctypes(errno_of_ctypes);
}

int dyn_foreign_errno_swap(void) {
    int now = errno;
    errno = *errno_of_ctypes;
    *errno_of_ctypes = now;
    return 0;
}

static bool is_among(PyObject *o, PyObject *const *all, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (all[i] == o) {
            return true;
        }
    }
    return false;
}

int dyn_foreign_keep(PyObject *o) {
    enum { RECENT = 8 };
    DynRegionMade *made = dyn_region_made;
    uint32_t recent = made->n < RECENT ? made->n : RECENT;
    bool has = is_among(o, made->held[0], made->nheld[0]) || is_among(o, made->held[1], made->nheld[1]) ||
               is_among(o, made->at + made->n - recent, recent);
    if (!has && made->n == DYN_REGION_MADE) {
        return 1;
    }
    if (!has) {
        made->at[made->n++] = Py_NewRef(o);
    }
    return 0;
}

int dyn_foreign_is_changed(void) { return dyn_region_made->is_changed(dyn_region_made->run); }
