/* region_strings.c: functions of strings that native loops call as CPython calls them, by their rows in region_strings.def.
 * Called by generated code and by the interpreter of region IR, with the GIL.
 *
 * They are called for objects of exact types, so they run no Python code, and they change nothing: where one raises, the loop is
 * left, and CPython calls it once more. The methods are held for good. */
#include "base/cpy_region.h"
#include "ir/region_ir.h"
#include "ir/region_strings.h"

typedef PyObject *Function(PyObject *const *args, uint32_t n);

static PyObject *to_str(PyObject *const *args, uint32_t n) { return n == 1 ? PyObject_Str(args[0]) : NULL; }
static PyObject *to_repr(PyObject *const *args, uint32_t n) { return n == 1 ? PyObject_Repr(args[0]) : NULL; }
static PyObject *to_ascii(PyObject *const *args, uint32_t n) { return n == 1 ? PyObject_ASCII(args[0]) : NULL; }
static PyObject *to_hex(PyObject *const *args, uint32_t n) { return n == 1 ? PyNumber_ToBase(args[0], 16) : NULL; }
static PyObject *to_oct(PyObject *const *args, uint32_t n) { return n == 1 ? PyNumber_ToBase(args[0], 8) : NULL; }
static PyObject *to_bin(PyObject *const *args, uint32_t n) { return n == 1 ? PyNumber_ToBase(args[0], 2) : NULL; }
static PyObject *format(PyObject *const *args, uint32_t n) { return PyObject_Format(args[0], n > 1 ? args[1] : NULL); }
static PyObject *percent(PyObject *const *args, uint32_t n) { return n == 2 ? PyUnicode_Format(args[0], args[1]) : NULL; }
static PyObject *letters(PyObject *const *args, uint32_t n) { return n == 1 ? PySequence_List(args[0]) : NULL; }
static PyObject *to_int(PyObject *const *args, uint32_t n) {
    return PyLong_FromUnicodeObject(args[0], n > 1 ? (int)PyLong_AsLong(args[1]) : 10);
}

static PyObject *contains(PyObject *const *args, uint32_t n) {
    int has = n == 2 ? PyUnicode_Contains(args[0], args[1]) : -1;
    return has < 0 ? NULL : PyBool_FromLong(has);
}

static PyObject *compare(PyObject *const *args, uint32_t n) {
    return n == 2 ? PyLong_FromLong(PyUnicode_Compare(args[0], args[1])) : NULL;
}

/* A string again and again; what would be very long CPython makes. */
static PyObject *times(PyObject *const *args, uint32_t n) {
    Py_ssize_t many = n == 2 ? PyLong_AsSsize_t(args[1]) : -1, length = PyUnicode_GET_LENGTH(args[0]), all = 0;
    bool fits = !PyErr_Occurred() && !__builtin_mul_overflow(many < 0 ? 0 : many, length, &all) && dyn_region_has_room(all);
    return fits ? PySequence_Repeat(args[0], many) : NULL;
}

/* The run has it, and with it what is in it. */
static PyObject *keep_text(PyObject *o) {
    if (o != NULL && !PyTuple_CheckExact(o)) {
        dyn_region_made->nitems += PyUnicode_CheckExact(o) ? PyUnicode_GET_LENGTH(o) : PyList_GET_SIZE(o);
    }
    return dyn_region_keep_made(o);
}

/* Of one character CPython has one object. */
static PyObject *blank(int64_t n, Py_UCS4 most, Py_UCS4 first) {
    return n == 1 ? PyUnicode_FromOrdinal((int)first) : PyUnicode_New((Py_ssize_t)n, most);
}

static unsigned char *bytes_of(PyObject *text) { return (unsigned char *)PyUnicode_DATA(text); }

/* The characters from where a slice begins, a step apart. What SLICE has told, and the step, come in place of objects. */
static PyObject *steps(PyObject *const *args, uint32_t n) {
    const int64_t where = n == 3 ? (int64_t)(intptr_t)args[1] : 0, step = n == 3 ? (int64_t)(intptr_t)args[2] : 1;
    const int64_t count = where & 0x7fffffff;
    const unsigned char *from = bytes_of(args[0]) + (count == 0 ? 0 : (where >> 32) - 1);
    unsigned all = 0;
    for (int64_t i = 0; i < count; i++) {
        all |= from[i * step];
    }
    PyObject *made = dyn_region_has_room(count) ? blank(count, all < 128 ? 127 : 255, from[0]) : NULL;
    for (int64_t i = 0; i < count && count > 1 && made != NULL; i++) {
        bytes_of(made)[i] = from[i * step];
    }
    return made;
}

/* Strings of codes below 256, one behind the other. */
static PyObject *build(PyObject *const *args, uint32_t n) {
    int64_t length = 0, at = 0;
    Py_UCS4 most = 127, first = 0;
    for (uint32_t i = 0; i < n; i++) {
        first = length == 0 ? bytes_of(args[i])[0] : first; /* a NUL where it is empty */
        length += PyUnicode_GET_LENGTH(args[i]);
        most = PyUnicode_IS_ASCII(args[i]) ? most : 255;
    }
    PyObject *made = dyn_region_has_room(length) ? blank(length, most, first) : NULL;
    for (uint32_t i = 0; i < n && made != NULL && length > 1; i++) {
        memcpy(bytes_of(made) + at, bytes_of(args[i]), (size_t)PyUnicode_GET_LENGTH(args[i]));
        at += PyUnicode_GET_LENGTH(args[i]);
    }
    return made;
}

/* str(x) */
PyObject *dyn_region_text_of_int(int64_t x) {
    char digits[24], *at = digits + sizeof digits;
    uint64_t rest = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    *(at - 1) = '-';
    at -= x < 0;
    int64_t n = digits + sizeof digits - at;
    PyObject *made = dyn_region_has_room(n) ? blank(n, 127, (Py_UCS4)*at) : NULL;
    if (made != NULL && n > 1) {
        memcpy(bytes_of(made), at, (size_t)n);
    }
    return keep_text(made);
}

const DynRegionString dyn_region_strings[DYN_STRING_COUNT] = {
#define STRING_METHOD(name, takes, gives) {#name, takes, gives},
#define STRING_FUNCTION(NAME, function) {NULL, NULL, 0},
#include "ir/region_strings.def"
};
static Function *const functions[DYN_STRING_COUNT] = {
#define STRING_METHOD(name, takes, gives) NULL,
#define STRING_FUNCTION(NAME, function) function,
#include "ir/region_strings.def"
};

PyObject *dyn_region_string_method(int64_t which) {
    static PyObject *methods[DYN_STRING_COUNT]; /* Strong. */
    if (methods[which] == NULL) {
        methods[which] = Py_XNewRef(dyn_cpy_lookup_named(&PyUnicode_Type, dyn_region_strings[which].name));
    }
    return methods[which];
}

/* `what`: the row, and above DYN_STRING_BITS how many arguments there are. */
static PyObject *call(const DynScalar *given, int64_t what) {
    const int64_t which = what & ((1 << DYN_STRING_BITS) - 1), n = what >> DYN_STRING_BITS;
    PyObject *args[DYN_ROUTINE_VALUES];
    for (int64_t i = 0; i < n; i++) {
        args[i] = (PyObject *)(intptr_t)given[i].i;
    }
    if (functions[which] != NULL) {
        return functions[which](args, (uint32_t)n);
    }
    PyObject *method = dyn_region_string_method(which);
    return method == NULL ? NULL : PyObject_Vectorcall(method, args, (size_t)n, NULL);
}

PyObject *dyn_region_string(const DynScalar *given, int64_t what) {
    return keep_text(dyn_region_has_room(1) ? call(given, what) : NULL);
}

int dyn_region_string_int(const DynScalar *given, int64_t what, int64_t *d) {
    PyObject *o = call(given, what);
    int overflow = o == NULL;
    *d = o == NULL ? 0 : PyLong_AsLongLongAndOverflow(o, &overflow);
    PyErr_Clear();
    Py_XDECREF(o);
    return overflow != 0;
}

int dyn_region_string_float(PyObject *text, double *d) {
    PyObject *o = PyFloat_FromString(text);
    *d = o == NULL ? 0 : PyFloat_AS_DOUBLE(o);
    PyErr_Clear();
    bool raised = o == NULL;
    Py_XDECREF(o);
    return raised;
}
