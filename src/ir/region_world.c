/* region_world.c: the functions that native loops call for lists of numbers, and the table of what they need of the world.
 * Called by generated code and by the interpreter of region IR, with the GIL. They run no Python code, and leave no exception:
 * where one fails nothing has happened, and CPython does it instead. */
#include "base/cpy_region.h"
#include "ir/region_foreign.h"
#include "ir/region_ir.h"
#include "ir/region_strings.h"

enum {
#define WORLD(NAME, address) DYN_WORLD_##NAME,
#include "ir/region_world.def"
    DYN_WORLD_COUNT
};

static int as_int(PyObject *o, int64_t *d) {
    int overflow = 0;
    *d = PyLong_AsLongLongAndOverflow(o, &overflow);
    return overflow != 0;
}

bool dyn_region_is_np_number(PyObject *o) {
    bool made_by_python = (Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
    return !made_by_python && (dyn_npscalar_is(o, DYN_F64) || dyn_npscalar_is(o, DYN_I64));
}

/* Dropping it runs no code: what lists of numbers hold. */
bool dyn_region_is_plain(PyObject *o) {
    return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || o == Py_None || PyComplex_CheckExact(o) ||
           dyn_region_is_np_number(o);
}

/* Takes the reference over. */
static int set(PyObject *list, int64_t i, PyObject *o) {
    PyObject *old = PyList_GET_ITEM(list, i);
    if (o == NULL || !dyn_region_is_plain(old)) {
        PyErr_Clear();
        Py_XDECREF(o);
        return 1;
    }
    PyList_SET_ITEM(list, i, o);
    Py_DECREF(old);
    return 0;
}

static int set_float(PyObject *list, int64_t i, double x) { return set(list, i, PyFloat_FromDouble(x)); }
static int set_bool(PyObject *list, int64_t i, int64_t x) { return set(list, i, PyBool_FromLong(x != 0)); }

/* An int that nobody else has gets another number, where that has a place in it. */
static bool set_own_int(PyObject *old, int64_t x) {
    bool small = x >= -5 && x <= 256, own = PyLong_CheckExact(old) && Py_REFCNT(old) == 1;
    if (!own || small || x >= INT64_C(1) << 30 || x <= -(INT64_C(1) << 30) || !dyn_cpy_int_has_digits(old)) {
        return false;
    }
    dyn_cpy_int_set(old, x);
    return true;
}

static int set_int(PyObject *list, int64_t i, int64_t x) {
    return set_own_int(PyList_GET_ITEM(list, i), x) ? 0 : set(list, i, PyLong_FromLongLong(x));
}

static int append(PyObject *list, PyObject *o) {
    if (o == NULL || PyList_Append(list, o) < 0) {
        PyErr_Clear();
        Py_XDECREF(o);
        return 1;
    }
    Py_DECREF(o);
    return 0;
}

static int append_float(PyObject *list, double x) { return append(list, PyFloat_FromDouble(x)); }
static int append_int(PyObject *list, int64_t x) { return append(list, PyLong_FromLongLong(x)); }
static int append_bool(PyObject *list, int64_t x) { return append(list, PyBool_FromLong(x != 0)); }

bool dyn_region_is_shared_iterator(PyObject *o) {
    int64_t index, state[3];
    int which;
    bool over_items = dyn_cpy_list_iterator(o, &index) != NULL || dyn_cpy_dict_iterator(o, &which, state) != NULL;
    return over_items && Py_REFCNT(o) > 1;
}

PyObject *dyn_region_bound_to(PyObject *o, PyObject *method) {
    PyObject *self = PyCFunction_CheckExact(o) ? PyCFunction_GET_SELF(o) : NULL;
    bool same = self != NULL && Py_IS_TYPE(method, &PyMethodDescr_Type) && Py_IS_TYPE(self, PyDescr_TYPE(method)) &&
                ((PyCFunctionObject *)o)->m_ml == ((PyMethodDescrObject *)method)->d_method;
    return same ? self : NULL;
}

bool dyn_region_text_of(PyObject *o, uint8_t *which, const char **data, int64_t *n) {
    if (PyUnicode_CheckExact(o)) {
        *which = DYN_TEXT_STR;
        *data = PyUnicode_DATA(o);
        *n = PyUnicode_GET_LENGTH(o);
        return PyUnicode_IS_READY(o) && PyUnicode_KIND(o) == PyUnicode_1BYTE_KIND;
    }
    if (PyBytes_CheckExact(o)) {
        *which = DYN_TEXT_BYTES;
        *data = PyBytes_AS_STRING(o);
        *n = PyBytes_GET_SIZE(o);
        return true;
    }
    if (PyByteArray_CheckExact(o)) {
        *which = DYN_TEXT_BYTEARRAY;
        *data = PyByteArray_AS_STRING(o);
        *n = PyByteArray_GET_SIZE(o);
        return true;
    }
    return false;
}

static uint32_t kind_of(PyObject *o) {
    if (PyBool_Check(o)) {
        return DYN_RL_BOOL;
    }
    return PyFloat_CheckExact(o)   ? DYN_RL_FLOAT
           : PyLong_CheckExact(o)  ? DYN_RL_INT
           : PyList_CheckExact(o)  ? DYN_RL_LIST
           : PyTuple_CheckExact(o) ? DYN_RL_TUPLE
                                   : DYN_RL_OTHER;
}

uint32_t dyn_region_shape(PyObject *list, uint32_t most, int depth) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(list), step = n > (Py_ssize_t)most ? n / most : 1;
    uint32_t shape = 0;
    for (Py_ssize_t i = 0, seen = 0; i < n && seen < (Py_ssize_t)most; i += step, seen++) {
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        uint32_t kind = kind_of(o);
        shape |= kind;
        if ((kind & (DYN_RL_LIST | DYN_RL_TUPLE)) != 0 && depth > 1) {
            shape |= dyn_region_shape(o, most < 8 ? most : 8, depth - 1) << 8;
        }
    }
    return shape;
}

static const struct {
    PyTypeObject *type;
    uint32_t bit;
} kinds[] = {
    {&PyUnicode_Type, DYN_RL_STR}, {&PyDict_Type, DYN_RL_DICT}, {&PySet_Type, DYN_RL_SET}, {&PyComplex_Type, DYN_RL_COMPLEX}};

uint32_t dyn_region_bits(PyObject *o) {
    uint32_t bits = kind_of(o);
    if (o == Py_None) {
        return DYN_RL_NONE;
    }
    for (size_t i = 0; bits == DYN_RL_OTHER && i < DYN_COUNTOF(kinds); i++) {
        bits = Py_IS_TYPE(o, kinds[i].type) ? kinds[i].bit : bits;
    }
    if (bits == DYN_RL_OTHER) {
        bits = dyn_npscalar_is(o, DYN_F64) ? DYN_RL_NP_F64 : dyn_npscalar_is(o, DYN_I64) ? DYN_RL_NP_I64 : bits;
    }
    return bits;
}

static int append_object(PyObject *list, PyObject *o) {
    bool failed = PyList_Append(list, o) < 0;
    if (failed) {
        PyErr_Clear();
    }
    dyn_region_note_stored(o);
    return failed;
}

/* ---- lists that a loop makes: they live until it is left, and there may be so many of them, and items in them */

enum { MOST_ITEMS = 1 << 20 };
DynRegionMade *dyn_region_made;

PyObject *dyn_region_keep_list(PyObject *list) {
    DynRegionMade *made = dyn_region_made;
    if (list == NULL) {
        PyErr_Clear();
    } else {
        made->at[made->n++] = list;
        made->nitems += PyList_GET_SIZE(list);
    }
    return list;
}

PyObject *dyn_region_keep_made(PyObject *o) {
    if (o == NULL) {
        PyErr_Clear();
    } else {
        dyn_region_made->at[dyn_region_made->n++] = o;
    }
    return o;
}

/* What is in other objects by now lives on there. */
static void forget_held(DynRegionMade *made) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < made->n; i++) {
        if (Py_REFCNT(made->at[i]) > 1) {
            Py_DECREF(made->at[i]);
        } else {
            made->at[left++] = made->at[i];
        }
    }
    made->n = left;
}

/* ---- what a loop has made, and no value is any more */

enum { MANY = DYN_REGION_MADE / 4, HELD = 512 };
struct DynRegionCrowd dyn_region_crowd;
static struct {
    PyObject *at[HELD]; /* Owned. */
    uint32_t n;
} held;

static void expect_crowd(const DynRegionMade *made, uint32_t many) {
    dyn_region_crowd.n = &made->n;
    dyn_region_crowd.many = many < DYN_REGION_MADE ? many : DYN_REGION_MADE;
}

void dyn_region_enter_made(DynRegionMade *made) {
    dyn_region_made = made;
    dyn_cpy_forget_quiet();
    if (made != NULL) {
        expect_crowd(made, made->n + MANY);
    }
}

/* A value that is alive; NULL: it is none. */
static int hold_made(PyObject *o) {
    if (o != NULL && held.n < HELD) {
        held.at[held.n] = Py_NewRef(o);
    }
    held.n += o != NULL;
    return 0;
}

/* A value may be this object, so it isn't freed: where memory is out it is lost. */
static void keep_more(DynRegionMade *made, PyObject *o) {
    PyObject **more = PyMem_RawRealloc(made->more, (made->nmore + 1) * sizeof *more);
    if (more != NULL) {
        made->more = more;
        more[made->nmore++] = o;
    }
}

/* What a value is the run keeps; what is in other objects lives on there, and what would run code stays until the run ends. */
static int sweep(void) {
    DynRegionMade *made = dyn_region_made;
    bool all = held.n <= HELD, frees = false;
    uint32_t left = 0;
    for (uint32_t i = 0; i < made->n; i++) {
        PyObject *o = made->at[i];
        bool quiet = all && (Py_REFCNT(o) > 1 || dyn_cpy_drops_quietly(o, dyn_region_is_np_number));
        if (quiet) {
            frees |= Py_REFCNT(o) == 1;
            Py_DECREF(o);
        } else {
            made->at[left++] = o;
        }
    }
    made->n = left;
    for (uint32_t i = 0; i < held.n && i < HELD; i++) {
        PyObject *o = held.at[i];
        if (Py_REFCNT(o) == 1 && made->n < DYN_REGION_MADE) { /* it was the run's alone */
            made->at[made->n++] = o;
        } else if (Py_REFCNT(o) == 1) {
            keep_more(made, o);
        } else {
            Py_DECREF(o);
        }
    }
    held.n = 0;
    if (frees) {
        dyn_cpy_forget_quiet();
    }
    expect_crowd(made, 2 * made->n > MANY ? 2 * made->n : MANY);
    return 0;
}

/* Where most of what was made is nobody else's, looking for room again and again would take longer than leaving the loop once,
 * which gives it all back. */
#define CROWDED (DYN_REGION_MADE / 4 * 3)

bool dyn_region_has_room(int64_t items) {
    DynRegionMade *made = dyn_region_made;
    if (made != NULL && made->n == DYN_REGION_MADE) {
        forget_held(made);
        if (made->n > CROWDED) {
            return false;
        }
    }
    return made != NULL && made->n < DYN_REGION_MADE && items >= 0 && made->nitems + items < MOST_ITEMS;
}

static PyObject *new_list(void) { return dyn_region_has_room(0) ? dyn_region_keep_list(PyList_New(0)) : NULL; }

static PyObject *list_range(int64_t start, int64_t n, int64_t step) {
    PyObject *list = n < 0 || !dyn_region_has_room(n) ? NULL : PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; list != NULL && i < n; i++) {
        PyObject *number = PyLong_FromLongLong(start + i * step);
        if (number == NULL) {
            Py_CLEAR(list);
            PyErr_Clear();
        } else {
            PyList_SET_ITEM(list, i, number);
        }
    }
    return list == NULL ? NULL : dyn_region_keep_list(list);
}

static PyObject *repeat(PyObject *list, int64_t n) {
    int64_t items;
    bool fits = !__builtin_mul_overflow((int64_t)PyList_GET_SIZE(list), n < 0 ? 0 : n, &items) && dyn_region_has_room(items);
    return fits ? dyn_region_keep_list(PySequence_Repeat(list, (Py_ssize_t)n)) : NULL;
}

static PyObject *concat(PyObject *a, PyObject *b) {
    return dyn_region_has_room((int64_t)PyList_GET_SIZE(a) + PyList_GET_SIZE(b)) ? dyn_region_keep_list(PySequence_Concat(a, b))
                                                                                 : NULL;
}

/* An object that was taken out of another one lives on. There may be no place for all that a call has taken out. */
void dyn_region_keep_object(PyObject *o) {
    DynRegionMade *made = dyn_region_made;
    if (Py_REFCNT(o) > 1 || dyn_region_is_plain(o)) {
        Py_DECREF(o);
    } else if (made->n == DYN_REGION_MADE) {
        keep_more(made, o);
    } else {
        made->at[made->n++] = o;
    }
}

/* Dropping the last reference to it runs no code. */
bool dyn_region_is_quiet(PyObject *o) {
    return dyn_cpy_is_known_quiet(o) || dyn_region_is_plain(o) || dyn_cpy_drops_quietly(o, dyn_region_is_np_number) ||
           dyn_cpy_is_quiet_graph(o, dyn_region_is_np_number);
}

void dyn_region_note_stored(PyObject *o) { dyn_cpy_note_stored(o, dyn_region_is_np_number); }

/* Otherwise a destructor would run later than it should, and CPython has to take it out. */
bool dyn_region_can_keep(PyObject *o) {
    bool room = Py_REFCNT(o) > 1 || dyn_region_made->n < DYN_REGION_MADE;
    return dyn_region_is_plain(o) || (room && dyn_region_is_quiet(o));
}

static PyObject *new_tuple(int64_t n) { return dyn_region_has_room(1) ? dyn_region_keep_made(dyn_region_blank_tuple(n)) : NULL; }

static PyObject *new_dict(void) { return dyn_region_has_room(1) ? dyn_region_keep_made(PyDict_New()) : NULL; }
static PyObject *new_set(void) { return dyn_region_has_room(1) ? dyn_region_keep_made(PySet_New(NULL)) : NULL; }

/* Of the items of an exact list or tuple, in their order. */
static PyObject *new_deque(PyObject *items) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    PyTypeObject *type = dyn_cpy_deque_type();
    return type != NULL && dyn_region_has_room(n + 1) ? dyn_region_keep_made(PyObject_CallOneArg((PyObject *)type, items)) : NULL;
}

/* Numbers that are objects in lists: the run has them until others do. */
static PyObject *box_f64(double x) {
    return dyn_region_has_room(1) ? dyn_region_keep_made(dyn_npscalar_new(DYN_F64, (DynScalar){.f = x})) : NULL;
}
static PyObject *box_i64(int64_t x) {
    return dyn_region_has_room(1) ? dyn_region_keep_made(dyn_npscalar_new(DYN_I64, (DynScalar){.i = x})) : NULL;
}
static PyObject *box_complex(double re, double im) {
    return dyn_region_has_room(1) ? dyn_region_keep_made(PyComplex_FromDoubles(re, im)) : NULL;
}

/* A number that the next instruction puts into an object. Takes the reference over. */
static PyObject *box(PyObject *o) {
    static PyObject *last;
    PyErr_Clear();
    Py_XSETREF(last, o);
    return o;
}

static PyObject *box_float(double x) { return box(PyFloat_FromDouble(x)); }
static PyObject *box_int(int64_t x) { return box(PyLong_FromLongLong(x)); }

/* Of a class whose instances are made so (plan_construct): its __init__ runs natively. */
static PyObject *new_instance(PyTypeObject *t) {
    return dyn_region_has_room(1) ? dyn_region_keep_made(dyn_cpy_new_instance(t)) : NULL;
}

/* Of a class of tuples: n times None, which are replaced before anybody sees it. */
static PyObject *new_named(PyTypeObject *t, int64_t n) {
    PyObject *o = dyn_region_has_room(1) ? t->tp_alloc(t, n) : NULL;
    for (int64_t i = 0; o != NULL && i < n; i++) {
        PyTuple_SET_ITEM(o, i, Py_NewRef(Py_None));
    }
    if (o != NULL) {
        dyn_cpy_tuple_changed(o);
    }
    return o == NULL ? NULL : dyn_region_keep_made(o);
}

/* An attribute of an instance that nobody else has seen yet; at: as dyn_cpy_place_of_name has it. Takes the reference over. */
static int set_name(PyObject *o, PyObject *name, PyObject *value, int64_t at) {
    if (value != NULL && at != 0 && dyn_cpy_fill(o, at, value)) {
        return 0;
    }
    bool failed = value == NULL || PyObject_GenericSetAttr(o, name, value) < 0;
    PyErr_Clear();
    Py_XDECREF(value);
    return failed;
}

static int name_float(PyObject *o, PyObject *name, double x, int64_t at) { return set_name(o, name, PyFloat_FromDouble(x), at); }
static int name_int(PyObject *o, PyObject *name, int64_t x, int64_t at) { return set_name(o, name, PyLong_FromLongLong(x), at); }
static int name_bool(PyObject *o, PyObject *name, int64_t x, int64_t at) {
    return set_name(o, name, PyBool_FromLong(x != 0), at);
}
static int name_object(PyObject *o, PyObject *name, PyObject *value, int64_t at) {
    int failed = set_name(o, name, Py_NewRef(value), at);
    dyn_region_note_stored(value);
    return failed;
}

/* ---- places within objects */

/* Takes the reference over. */
static int put(PyObject **place, PyObject *o) {
    PyObject *old = *place;
    if (o == NULL || old == NULL || !dyn_region_can_keep(old)) {
        PyErr_Clear();
        Py_XDECREF(o);
        return 1;
    }
    *place = o;
    dyn_region_keep_object(old);
    return 0;
}

static int put_float(PyObject **place, double x) { return put(place, PyFloat_FromDouble(x)); }
static int put_int(PyObject **place, int64_t x) {
    return *place != NULL && set_own_int(*place, x) ? 0 : put(place, PyLong_FromLongLong(x));
}
static int put_bool(PyObject **place, int64_t x) { return put(place, PyBool_FromLong(x != 0)); }
static int put_object(PyObject **place, PyObject *o) {
    int failed = put(place, Py_NewRef(o));
    dyn_region_note_stored(o);
    return failed;
}

static char *text_data(PyObject *o) {
    const char *data;
    int64_t n;
    uint8_t which;
    return dyn_region_text_of(o, &which, &data, &n) ? (char *)(intptr_t)data : NULL;
}

static PyObject *characters[256]; /* Of each code; CPython has them for good. */

const char *const dyn_region_questions[DYN_REGION_QUESTIONS] = {"isspace",   "isalpha",   "isdigit", "isalnum",
                                                                "isdecimal", "isnumeric", "isupper", "islower"};

int64_t dyn_region_char_is(int64_t code, int64_t question) {
    const Py_UCS4 c = (Py_UCS4)code;
    switch (question) {
    case 0: return Py_UNICODE_ISSPACE(c) != 0;
    case 1: return Py_UNICODE_ISALPHA(c) != 0;
    case 2: return Py_UNICODE_ISDIGIT(c) != 0;
    case 3: return Py_UNICODE_ISALNUM(c) != 0;
    case 4: return Py_UNICODE_ISDECIMAL(c) != 0;
    case 5: return Py_UNICODE_ISNUMERIC(c) != 0;
    case 6: return Py_UNICODE_ISUPPER(c) != 0;
    default: return Py_UNICODE_ISLOWER(c) != 0;
    }
}

/* 1: there was no memory for the number, which is lost, as it is in CPython. */
static int next_random(PyObject *method, double *d) {
    PyObject *o = PyCFunction_GET_FUNCTION(method)(PyCFunction_GET_SELF(method), NULL);
    bool lost = o == NULL || !PyFloat_CheckExact(o);
    *d = lost ? 0 : PyFloat_AS_DOUBLE(o);
    PyErr_Clear();
    Py_XDECREF(o);
    return lost;
}

/* ---- products of vectors: by NumPy's own function, as eager has them */

static struct {
    char *data;
    int64_t stride, n;
} dotted;

static int64_t dot_with(char *data, int64_t stride, int64_t n) {
    dotted.data = data;
    dotted.stride = stride;
    return dotted.n = n;
}

/* What isn't finite may be NumPy's to report, and vectors of two lengths are. */
static int dot(char *data, int64_t stride, int64_t n, double *d) {
    static PyArray_DotFunc *function;
    if (function == NULL) {
        PyArray_Descr *descr = PyArray_DescrFromType(NPY_DOUBLE);
        function = PyDataType_GetArrFuncs(descr)->dotfunc;
        Py_DECREF(descr);
    }
    if (n != dotted.n) {
        return 1;
    }
    function(dotted.data, (npy_intp)dotted.stride, data, (npy_intp)stride, d, (npy_intp)n, NULL);
    return !isfinite(*d);
}

/* Numbers side by side, the last first, four at a time. */
static void lay_backwards(char *to, const char *from, int64_t n) {
    typedef double Pair __attribute__((vector_size(16)));
    for (int64_t i = 0; i < n; i += 4) {
        Pair pairs[2];
        memcpy(pairs, from - (i + 3) * (int64_t)sizeof(double), sizeof(pairs));
        Pair turned[2] = {{pairs[1][1], pairs[1][0]}, {pairs[0][1], pairs[0][0]}};
        memcpy(to + i * (int64_t)sizeof(double), turned, sizeof(turned));
    }
}

/* np.dot, where `@` takes vectors as they lie, makes dense copies of those that BLAS doesn't take, and adds in another order. */
static bool lay_for_blas(char **data, int64_t *stride, int64_t n, int64_t which) {
    const int64_t size = sizeof(double);
    if (*stride > 0 && *stride % size == 0) {
        return true;
    }
    char *made = n > INT64_MAX / size ? NULL : dyn_region_scratch(n * size, which);
    if (made != NULL) {
        bool back = *stride == -size;
        int64_t whole = back ? n & -4 : 0;
        lay_backwards(made, *data, whole);
        for (int64_t i = whole; i < n; i++) {
            memcpy(made + i * size, *data + i * *stride, sizeof(double));
        }
    }
    *data = made;
    *stride = size;
    return made != NULL;
}

static int np_dot(char *data, int64_t stride, int64_t n, double *d) {
    bool fits = n == dotted.n && lay_for_blas(&data, &stride, n, 1) && lay_for_blas(&dotted.data, &dotted.stride, n, 2);
    return fits ? dot(data, stride, n, d) : 1;
}

/* ---- lists as wholes */

static int remove_item(PyObject *list, int64_t i) {
    PyObject *o = PyList_GET_ITEM(list, i);
    if (!dyn_region_can_keep(o)) {
        return 1;
    }
    PyObject **items = ((PyListObject *)list)->ob_item;
    if (dyn_cpy_list_shorten(list,
                             PyList_GET_SIZE(list) - 1)) { /* so it has one place less, and the item's reference is ours now */
        memmove(items + i, items + i + 1, (size_t)(PyList_GET_SIZE(list) - i) * sizeof *items);
        dyn_region_keep_object(o);
        return 0;
    }
    Py_INCREF(o);
    bool failed = PyList_SetSlice(list, (Py_ssize_t)i, (Py_ssize_t)i + 1, NULL) < 0;
    PyErr_Clear();
    dyn_region_keep_object(o);
    return failed;
}

/* The last item comes to place i. */
static int rotate(PyObject *list, int64_t i) {
    int64_t n = PyList_GET_SIZE(list);
    PyObject **items = ((PyListObject *)list)->ob_item, *last = items[n - 1];
    memmove(items + i + 1, items + i, (size_t)(n - 1 - i) * sizeof *items);
    items[i] = last;
    return 0;
}

static int reverse(PyObject *list) { return PyList_Reverse(list); }

static int has_int(PyObject *list, int64_t x, int64_t *d) {
    *d = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list) && *d == 0; i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        int overflow = 0;
        if (!PyLong_CheckExact(o)) {
            return 1;
        }
        *d = PyLong_AsLongLongAndOverflow(o, &overflow) == x && overflow == 0;
    }
    return 0;
}

/* ---- dicts and sets */

static int64_t dict_size(PyObject *o) { return PyDict_Check(o) ? PyDict_GET_SIZE(o) : PySet_GET_SIZE(o); }

/* Where the value of a key lies, of a dict that nobody watches. false: that can't be said. */
static bool place_of_int(PyObject *dict, int64_t key, PyObject ***place) {
    return dyn_cpy_dict_place_int(dict, key, place) == 0 && !dyn_cpy_dict_is_watched(dict);
}
static bool place_of_key(PyObject *dict, PyObject *key, PyObject ***place) {
    return dyn_cpy_dict_place_key(dict, key, place) == 0 && !dyn_cpy_dict_is_watched(dict);
}

/* A value in its place gets another one. */
static int replace(PyObject *dict, PyObject **place, PyObject *o) {
    dyn_cpy_dict_changed(dict);
    return put(place, o);
}

/* A new key, whose place was looked for. Takes both references over. */
static int dict_add(PyObject *dict, PyObject *key, PyObject *o) {
    bool failed = key == NULL || o == NULL || PyDict_SetItem(dict, key, o) < 0;
    PyErr_Clear();
    Py_XDECREF(key);
    Py_XDECREF(o);
    return failed;
}

/* Of what may hold objects CPython has to know. Takes the reference to the key over. */
static int dict_set(PyObject *dict, PyObject *key, PyObject *old, PyObject *o) {
    if (!dyn_region_can_keep(old)) {
        Py_XDECREF(key);
        return 1;
    }
    Py_INCREF(old);
    int failed = dict_add(dict, key, Py_NewRef(o));
    dyn_region_keep_object(old);
    return failed;
}

/* A key that lies there goes, and CPython has to know of a value that may hold objects. Takes the reference to the key over. The
 * loop may have the key's object yet. */
static int dict_remove(PyObject *dict, PyObject *key, PyObject **at) {
    PyObject *stored = at == NULL ? NULL : dyn_cpy_dict_key_of(dict, at);
    bool can = stored != NULL && key != NULL && dyn_region_can_keep(*at) && dyn_region_can_keep(stored) && dyn_region_has_room(2);
    PyObject *old = can ? Py_NewRef(*at) : NULL;
    stored = can ? Py_NewRef(stored) : NULL;
    bool failed = old == NULL || PyDict_DelItem(dict, key) < 0;
    PyErr_Clear();
    Py_XDECREF(key);
    if (old != NULL) {
        dyn_region_keep_object(old);
        dyn_region_keep_object(stored);
    }
    return failed;
}

static bool set_own_float(PyObject *old, double x) {
    bool own = PyFloat_CheckExact(old) && Py_REFCNT(old) == 1;
    if (own) {
        ((PyFloatObject *)old)->ob_fval = x;
    }
    return own;
}

#define DICT_STORES(by, key_type, place_by, key_object)                                                    \
    static int dict_##by##_float(PyObject *d, key_type k, double x) {                                      \
        PyObject **at;                                                                                     \
        if (!place_by(d, k, &at)) {                                                                        \
            return 1;                                                                                      \
        }                                                                                                  \
        return at == NULL              ? dict_add(d, key_object, PyFloat_FromDouble(x))                    \
               : set_own_float(*at, x) ? (dyn_cpy_dict_changed(d), 0)                                      \
                                       : replace(d, at, PyFloat_FromDouble(x));                            \
    }                                                                                                      \
    static int dict_##by##_int(PyObject *d, key_type k, int64_t x) {                                       \
        PyObject **at;                                                                                     \
        if (!place_by(d, k, &at)) {                                                                        \
            return 1;                                                                                      \
        }                                                                                                  \
        return at == NULL            ? dict_add(d, key_object, PyLong_FromLongLong(x))                     \
               : set_own_int(*at, x) ? (dyn_cpy_dict_changed(d), 0)                                        \
                                     : replace(d, at, PyLong_FromLongLong(x));                             \
    }                                                                                                      \
    static int dict_##by##_object(PyObject *d, key_type k, PyObject *o) {                                  \
        PyObject **at;                                                                                     \
        if (!place_by(d, k, &at)) {                                                                        \
            return 1;                                                                                      \
        }                                                                                                  \
        int failed = at == NULL ? dict_add(d, key_object, Py_NewRef(o)) : dict_set(d, key_object, *at, o); \
        dyn_region_note_stored(o);                                                                         \
        return failed;                                                                                     \
    }                                                                                                      \
    static int dict_##by##_remove(PyObject *d, key_type k) {                                               \
        PyObject **at;                                                                                     \
        return !place_by(d, k, &at) || dict_remove(d, key_object, at);                                     \
    }                                                                                                      \
    static int dict_##by##_bool(PyObject *d, key_type k, int64_t x) { return dict_##by##_object(d, k, x ? Py_True : Py_False); }
DICT_STORES(int, int64_t, place_of_int, PyLong_FromLongLong(k))
DICT_STORES(key, PyObject *, place_of_key, Py_NewRef(k))

static int log_int_key(PyObject *dict, int64_t key) {
    PyObject **at;
    return !place_of_int(dict, key, &at) || dyn_region_log_key(dict, PyLong_FromLongLong(key), at == NULL ? NULL : *at);
}
static int log_key(PyObject *dict, PyObject *key) {
    PyObject **at;
    return !place_of_key(dict, key, &at) || dyn_region_log_key(dict, Py_NewRef(key), at == NULL ? NULL : *at);
}

/* Takes the reference over. */
static int set_put(PyObject *set, PyObject *key, bool found, int64_t has) {
    bool done = found && key != NULL && (has != 0 || PySet_Add(set, key) == 0);
    PyErr_Clear();
    Py_XDECREF(key);
    return !done;
}

static int set_add_int(PyObject *set, int64_t key) {
    int64_t has = 0;
    bool found = dyn_cpy_set_has_int(set, key, &has) == 0;
    return set_put(set, PyLong_FromLongLong(key), found, has);
}

static int set_add_key(PyObject *set, PyObject *key) {
    int64_t has = 0;
    bool found = dyn_cpy_set_has_key(set, key, &has) == 0;
    return set_put(set, Py_NewRef(key), found, has);
}

/* Dropping a key that was found runs no code: it is a plain value. */
static int set_discard_int(PyObject *set, int64_t x) {
    int64_t has = 0;
    bool found = dyn_cpy_set_has_int(set, x, &has) == 0;
    PyObject *key = found && has != 0 ? PyLong_FromLongLong(x) : NULL;
    bool done = found && (has == 0 || (key != NULL && PySet_Discard(set, key) == 1));
    PyErr_Clear();
    Py_XDECREF(key);
    return !done;
}

/* The loop may have the object yet that lies there. */
static int set_discard_key(PyObject *set, PyObject *key) {
    int64_t has = 0;
    PyObject *stored;
    bool found = dyn_cpy_set_find_key(set, key, &has, &stored) == 0;
    if (!found || has == 0) {
        return !found;
    }
    if (!dyn_region_has_room(1) || !dyn_region_can_keep(stored)) {
        return 1;
    }
    Py_INCREF(stored);
    bool failed = PySet_Discard(set, key) != 1;
    PyErr_Clear();
    dyn_region_keep_object(stored);
    return failed;
}

static PyObject *found[2]; /* the key and the value of the last step of an iterator, borrowed */

void dyn_region_drop_made(DynRegionMade *made) {
    while (made->n > 0) {
        Py_DECREF(made->at[--made->n]);
    }
    while (made->nmore > 0) {
        Py_DECREF(made->more[--made->nmore]);
    }
    PyMem_RawFree(made->more);
    made->more = NULL;
    while (made->narrays > 0) {
        Py_DECREF(made->arrays[--made->narrays]);
    }
}

const void *const *dyn_region_world(void) {
    static const void *world[DYN_WORLD_COUNT];
    if (world[0] == NULL) {
        for (int code = 0; code < 256; code++) {
            characters[code] = PyUnicode_FromOrdinal(code);
        }
    }
    if (world[DYN_WORLD_NP_F64] != &PyDoubleArrType_Type) { /* NumPy's types are known when it runs, and others when it comes */
        const void *const rows[DYN_WORLD_COUNT] = {
#define WORLD(NAME, address) (const void *)(address),
#include "ir/region_world.def"
        };
        memcpy(world, rows, sizeof world);
    }
    return world;
}
