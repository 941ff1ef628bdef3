/* region_sorts.c: lists that native loops sort: by numbers as they are ordered, by other keys with CPython's own sort. Called
 * through region_world.def, with the GIL. Only such keys are compared as run no code and can't fail: otherwise nothing has
 * happened yet, and CPython does it. */
#include "base/cpy_region.h"
#include "ir/region_ir.h"
#include <math.h>

enum { DEEPEST = 4 /* of tuples in tuples */ };

/* ---- ints, or floats without a nan: their order says all, and items with the same key stay as they are */

typedef struct Item {
    int64_t key;
    PyObject *o;
} Item;

/* A key that is less where the number is; false: it is another kind of number. */
static bool key_of(PyObject *o, bool ints, int64_t *key) {
    int overflow = 0;
    if (ints) {
        *key = PyLong_CheckExact(o) ? PyLong_AsLongLongAndOverflow(o, &overflow) : 0;
        return PyLong_CheckExact(o) && overflow == 0;
    }
    double x = PyFloat_CheckExact(o) ? PyFloat_AS_DOUBLE(o) + 0.0 : NAN; /* -0.0 is 0.0 */
    memcpy(key, &x, sizeof x);
    *key = *key < 0 ? *key ^ INT64_MAX : *key;
    return x == x;
}

static void insert_each(Item *items, Py_ssize_t n) {
    for (Py_ssize_t i = 1; i < n; i++) {
        const Item item = items[i];
        Py_ssize_t k = i;
        for (; k > 0 && item.key < items[k - 1].key; k--) {
            items[k] = items[k - 1];
        }
        items[k] = item;
    }
}

/* Two runs that follow each other become one, by way of `room`. Which comes next isn't branched on: nobody could foretell it. */
static void merge(Item *items, Py_ssize_t half, Py_ssize_t n, Item *room) {
    if (half >= n || items[half].key >= items[half - 1].key) {
        return;
    }
    memcpy(room, items, (size_t)half * sizeof *items);
    const Item *a = room, *end = room + half, *b = items + half, *last = items + n;
    while (a < end && b < last) {
        const bool second = b->key < a->key;
        *items++ = *(second ? b : a);
        b += second;
        a += !second;
    }
    memcpy(items, a, (size_t)(end - a) * sizeof *items);
}

static void merge_sort(Item *items, Py_ssize_t n, Item *room) {
    enum { SHORT = 8 };
    for (Py_ssize_t i = 0; i < n; i += SHORT) {
        insert_each(items + i, n - i < SHORT ? n - i : SHORT);
    }
    for (Py_ssize_t run = SHORT; run < n; run *= 2) {
        for (Py_ssize_t i = 0; i < n; i += 2 * run) {
            merge(items + i, run, n - i < 2 * run ? n - i : 2 * run, room);
        }
    }
}

/* false: they are something else, or there is no memory; nothing has happened then. */
static bool sort_numbers(PyObject *list, PyObject *keys, bool reverse) {
    const Py_ssize_t n = PyList_GET_SIZE(list);
    const bool ints = n > 0 && PyLong_CheckExact(PyList_GET_ITEM(keys, 0));
    Item *items = n == 0 ? NULL : PyMem_RawMalloc(2 * (size_t)n * sizeof *items);
    bool fits = items != NULL;
    for (Py_ssize_t i = 0; i < n && fits; i++) {
        items[i].o = PyList_GET_ITEM(list, i);
        fits = key_of(PyList_GET_ITEM(keys, i), ints, &items[i].key);
        items[i].key = reverse ? ~items[i].key : items[i].key;
    }
    if (fits) {
        merge_sort(items, n, items + n);
    }
    for (Py_ssize_t i = 0; i < n && fits; i++) {
        PyList_SET_ITEM(list, i, items[i].o);
    }
    PyMem_RawFree(items);
    return fits || n == 0;
}

/* ---- what else can be compared: CPython's own sort */

static bool is_number(PyObject *o) { return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o); }

/* Comparing them, and others that are like them, is comparing numbers with numbers and strings with strings. */
static bool are_alike(PyObject *a, PyObject *b, int depth) {
    if (is_number(a) || PyUnicode_CheckExact(a)) {
        return is_number(a) ? is_number(b) : PyUnicode_CheckExact(b);
    }
    if (a == Py_None && depth < DEEPEST) { /* in tuples: all of them are the same */
        return b == Py_None;
    }
    bool tuples = PyTuple_CheckExact(a) && PyTuple_CheckExact(b);
    if (!tuples || depth == 0 || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
        if (!are_alike(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i), depth - 1)) {
            return false;
        }
    }
    return true;
}

static bool can_sort_by(PyObject *keys) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); i++) {
        if (!are_alike(PyList_GET_ITEM(keys, 0), PyList_GET_ITEM(keys, i), DEEPEST)) {
            return false;
        }
    }
    return true;
}

static PyObject *next_key(PyObject *iterator, PyObject *item) {
    (void)item;
    return Py_TYPE(iterator)->tp_iternext(iterator);
}

static PyMethodDef next_key_def = {"next_key", next_key, METH_O, NULL};

/* list.sort asks for the key of each item in turn, from the first on. */
static PyObject *key_function(PyObject *keys) {
    PyObject *iterator = PyObject_GetIter(keys), *function = iterator == NULL ? NULL : PyCFunction_New(&next_key_def, iterator);
    Py_XDECREF(iterator);
    return function;
}

static int sort_others(PyObject *list, PyObject *keys, bool reverse) {
    PyObject *names = Py_BuildValue("(ss)", "key", "reverse"), *sort = PyUnicode_InternFromString("sort");
    PyObject *key = keys == list ? Py_NewRef(Py_None) : key_function(keys), *done = NULL;
    if (names != NULL && sort != NULL && key != NULL) {
        PyObject *args[] = {list, key, reverse ? Py_True : Py_False};
        done = PyObject_VectorcallMethod(sort, args, 1, names);
    }
    bool failed = done == NULL;
    PyErr_Clear();
    Py_XDECREF(done);
    Py_XDECREF(key);
    Py_XDECREF(sort);
    Py_XDECREF(names);
    return failed;
}

int dyn_region_sort(PyObject *list, PyObject *keys, int64_t reverse) {
    if (PyList_GET_SIZE(keys) != PyList_GET_SIZE(list)) {
        return 1;
    }
    return !sort_numbers(list, keys, reverse != 0) && (!can_sort_by(keys) || sort_others(list, keys, reverse != 0) != 0);
}
