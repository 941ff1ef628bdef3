/* region_queues.c: heaps and deques in native loops: what generated code calls for heapq's functions and for the methods of
 * deques. Called through region_world.def, with the GIL. A heap is changed step by step as heapq does it, so its list is the same
 * afterwards. Items are compared that are numbers, strings, or tuples of them, which runs no code; where another one is met
 * nothing has been changed yet, and CPython does it. */
#include "base/cpy_region.h"
#include "ir/region_ir.h"

/* ---- the order of items */

enum { DEEPEST = 4 /* of tuples in tuples */ };

typedef struct Order {
    bool less, same;
} Order;

typedef struct Number {
    bool integer;
    double d;
    int64_t i;
} Number;

static bool number_of(PyObject *o, Number *n) {
    int overflow = 0;
    DynScalar value;
    if (PyTuple_CheckExact(o)) {
        return false;
    }
    *n = (Number){.integer = PyLong_CheckExact(o)};
    if (n->integer) {
        n->i = PyLong_AsLongLongAndOverflow(o, &overflow);
        return overflow == 0;
    }
    if (PyFloat_CheckExact(o) || dyn_npscalar_is(o, DYN_F64)) {
        n->d = PyFloat_AS_DOUBLE(o);
        return true;
    }
    n->integer = true;
    if (PyBool_Check(o)) {
        n->i = PyLong_AsLongLongAndOverflow(o, &overflow);
        return overflow == 0;
    }
    if (dyn_npscalar_is(o, DYN_I64)) {
        dyn_npscalar_value(o, DYN_I64, &value);
        n->i = value.i;
        return true;
    }
    return false;
}

/* An int beside a float: Python compares them exactly, and so does this where the int is a double. */
static bool as_double(Number *n) {
    const int64_t most = INT64_C(1) << 53;
    if (!n->integer) {
        return true;
    }
    n->d = (double)n->i;
    return n->i >= -most && n->i <= most;
}

static bool order_numbers(Number a, Number b, Order *out) {
    if (a.integer && b.integer) {
        *out = (Order){a.i < b.i, a.i == b.i};
        return true;
    }
    *out = (Order){false, false};
    if (!as_double(&a) || !as_double(&b)) {
        return false;
    }
    *out = (Order){a.d < b.d, a.d == b.d};
    return true;
}

/* false: comparing them might run code, or is an error. */
static bool order(PyObject *a, PyObject *b, int depth, Order *out) {
    Number x, y;
    if (PyFloat_CheckExact(a) && PyFloat_CheckExact(b)) {
        const double c = PyFloat_AS_DOUBLE(a), d = PyFloat_AS_DOUBLE(b);
        *out = (Order){c < d, c == d};
        return true;
    }
    if (number_of(a, &x) && number_of(b, &y)) {
        return order_numbers(x, y, out);
    }
    if (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b)) {
        int sign = PyUnicode_Compare(a, b);
        *out = (Order){sign < 0, sign == 0};
        return true;
    }
    if (!PyTuple_CheckExact(a) || !PyTuple_CheckExact(b) || depth == 0) {
        return false;
    }
    Py_ssize_t na = PyTuple_GET_SIZE(a), nb = PyTuple_GET_SIZE(b);
    for (Py_ssize_t i = 0; i < na && i < nb; i++) {
        PyObject *item = PyTuple_GET_ITEM(a, i), *other = PyTuple_GET_ITEM(b, i);
        if (item == other) { /* the same object is equal, a nan too */
            continue;
        }
        if (!order(item, other, depth - 1, out)) {
            return false;
        }
        if (!out->same) {
            return true;
        }
    }
    *out = (Order){na < nb, na == nb};
    return true;
}

/* ---- heaps: the ways of heapq's _siftup and _siftdown, found first and gone then */

enum { LONGEST = 64 /* a way from the root to a leaf */ };

/* How far the item rises from place `from` on; -1: that can't be said. */
static Py_ssize_t place_above(PyObject **items, PyObject *item, Py_ssize_t from) {
    while (from > 0) {
        Order o;
        Py_ssize_t parent = (from - 1) >> 1;
        if (!order(item, items[parent], DEEPEST, &o)) {
            return -1;
        }
        if (!o.less) {
            break;
        }
        from = parent;
    }
    return from;
}

/* logs, of these: it may have to be undone (region_log.c). */
int dyn_region_heap_push(PyObject *list, PyObject *o, int64_t logs) {
    const Py_ssize_t last = PyList_GET_SIZE(list), to = place_above(((PyListObject *)list)->ob_item, o, last);
    if (to < 0 || (logs && !dyn_region_can_log_heap(list, DYN_HEAP_PUSHED)) || PyList_Append(list, o) < 0) {
        PyErr_Clear();
        return 1;
    }
    PyObject **items = ((PyListObject *)list)->ob_item;
    for (Py_ssize_t at = last; at > to; at = (at - 1) >> 1) {
        items[at] = items[(at - 1) >> 1];
    }
    items[to] = o;
    dyn_region_note_stored(o);
    if (logs) {
        dyn_region_log_heap(list, DYN_HEAP_PUSHED, to, NULL);
    }
    return 0;
}

/* The way of smaller children from a place to a leaf, of the first n items, and how far an item goes down on it. */
typedef struct Way {
    Py_ssize_t at[LONGEST];
    int steps;
} Way;

/* The way of an item that takes that place; false: that can't be said. */
static bool find_way(PyObject **items, Py_ssize_t n, Py_ssize_t from, PyObject *item, Way *way) {
    int steps = 0;
    way->at[0] = from;
    while (way->at[steps] < n >> 1) {
        Order o = {true, false};
        Py_ssize_t child = 2 * way->at[steps] + 1;
        if (child + 1 < n && !order(items[child], items[child + 1], DEEPEST, &o)) {
            return false;
        }
        way->at[++steps] = child + (child + 1 < n && !o.less);
    }
    for (; steps > 0; steps--) {
        Order o;
        if (!order(item, items[way->at[steps]], DEEPEST, &o)) {
            return false;
        }
        if (!o.less) {
            break;
        }
    }
    way->steps = steps;
    return true;
}

static void go_way(PyObject **items, const Way *way, PyObject *item) {
    for (int k = 0; k < way->steps; k++) {
        items[way->at[k]] = items[way->at[k + 1]];
    }
    items[way->at[way->steps]] = item;
}

/* Takes the last item off, whose reference is the caller's then. */
static PyObject *take_last(PyObject *list) {
    const Py_ssize_t last = PyList_GET_SIZE(list) - 1;
    PyObject *item = PyList_GET_ITEM(list, last);
    if (dyn_cpy_list_shorten(list, last)) {
        return item;
    }
    Py_INCREF(item);
    if (PyList_SetSlice(list, last, last + 1, NULL) < 0) {
        PyErr_Clear();
        Py_CLEAR(item);
    }
    return item;
}

/* The root, which has been read, is taken out. */
int dyn_region_heap_pop(PyObject *list, int64_t root, int64_t logs) {
    PyObject **items = ((PyListObject *)list)->ob_item;
    const Py_ssize_t n = PyList_GET_SIZE(list) - 1;
    Way way;
    PyObject *top = items[root], *last = items[n];
    if (!find_way(items, n, 0, last, &way) || !dyn_region_can_keep(top) ||
        (logs && !dyn_region_can_log_heap(list, DYN_HEAP_POPPED)) || take_last(list) == NULL) {
        return 1;
    }
    if (n > 0) {
        go_way(((PyListObject *)list)->ob_item, &way, last);
    }
    if (logs) {
        dyn_region_log_heap(list, DYN_HEAP_POPPED, way.at[way.steps], top);
    }
    dyn_region_keep_object(top);
    return 0;
}

/* The root, which has been read, is taken out, and `o` is put in. */
int dyn_region_heap_replace(PyObject *list, int64_t root, PyObject *o, int64_t logs) {
    PyObject **items = ((PyListObject *)list)->ob_item, *top = items[root];
    Way way;
    if (!find_way(items, PyList_GET_SIZE(list), 0, o, &way) || !dyn_region_can_keep(top) ||
        (logs && !dyn_region_can_log_heap(list, DYN_HEAP_REPLACED))) {
        return 1;
    }
    go_way(items, &way, Py_NewRef(o));
    if (logs) {
        dyn_region_log_heap(list, DYN_HEAP_REPLACED, way.at[way.steps], top);
    }
    dyn_region_note_stored(o);
    dyn_region_keep_object(top);
    return 0;
}

/* What heappushpop gives, borrowed: `o` itself where the heap is empty, or its root isn't less. NULL: that can't be said. */
PyObject *dyn_region_heap_least(PyObject *list, PyObject *o) {
    Order root = {false, false};
    PyObject *top = PyList_GET_SIZE(list) == 0 ? o : PyList_GET_ITEM(list, 0);
    if (PyList_GET_SIZE(list) > 0 && !order(top, o, DEEPEST, &root)) {
        return NULL;
    }
    return root.less ? top : o;
}

/* And what it does then. */
int dyn_region_heap_pushpop(PyObject *list, int64_t root, PyObject *o, int64_t logs) {
    return dyn_region_heap_least(list, o) == o ? 0 : dyn_region_heap_replace(list, root, o, logs);
}

/* The item at a place of the heap is put back to its end: those that rose go down again, and `top` is the root. */
static void undo_rise(PyObject **items, Py_ssize_t at, PyObject *top) {
    for (; at > 0; at = (at - 1) >> 1) {
        items[at] = items[(at - 1) >> 1];
    }
    items[0] = top;
}

static void undo_pop(PyObject *list, Py_ssize_t at, PyObject *top) {
    const bool empty = PyList_GET_SIZE(list) == 0;
    PyObject *last = empty ? top : PyList_GET_ITEM(list, at);
    if (PyList_Append(list, last) < 0) {
        PyErr_Clear();
        Py_DECREF(top);
        return;
    }
    if (!empty) {
        undo_rise(((PyListObject *)list)->ob_item, at, top);
    }
    Py_DECREF(last); /* the list has it once more than it should */
}

static void undo_push(PyObject *list, Py_ssize_t to) {
    PyObject **items = ((PyListObject *)list)->ob_item, *o = items[to];
    const Py_ssize_t last = PyList_GET_SIZE(list) - 1;
    Py_ssize_t way[LONGEST];
    int steps = 0;
    for (Py_ssize_t at = last; at > to; at = (at - 1) >> 1) {
        way[steps++] = at;
    }
    for (Py_ssize_t at = to; steps > 0; at = way[steps]) {
        items[at] = items[way[--steps]];
    }
    items[last] = o;
    (void)PyList_SetSlice(list, last, last + 1, NULL);
    PyErr_Clear();
}

/* What was done last to the heap, with the place that the item which was put in has come to; takes `top` over. */
void dyn_region_heap_undo(PyObject *list, DynHeapChange change, Py_ssize_t at, PyObject *top) {
    PyObject *item = PyList_GET_SIZE(list) == 0 ? NULL : PyList_GET_ITEM(list, at);
    switch (change) {
    case DYN_HEAP_PUSHED: undo_push(list, at); break;
    case DYN_HEAP_POPPED: undo_pop(list, at, top); break;
    case DYN_HEAP_REPLACED:
        undo_rise(((PyListObject *)list)->ob_item, at, top);
        Py_DECREF(item);
        break;
    case DYN_HEAP_CHANGES: break;
    }
}

/* The items are moved in a copy: a comparison that can't be made leaves the list as it is. */
int dyn_region_heapify(PyObject *list) {
    const Py_ssize_t n = PyList_GET_SIZE(list);
    PyObject **items = PyMem_RawMalloc((size_t)n * sizeof *items + 1);
    bool fits = items != NULL;
    Way way;
    if (fits && n > 0) {
        memcpy(items, ((PyListObject *)list)->ob_item, (size_t)n * sizeof *items);
    }
    for (Py_ssize_t i = n >> 1; fits && i-- > 0;) {
        PyObject *item = items[i];
        fits = find_way(items, n, i, item, &way);
        if (fits) {
            go_way(items, &way, item);
        }
    }
    if (fits && n > 0) {
        memcpy(((PyListObject *)list)->ob_item, items, (size_t)n * sizeof *items);
    }
    PyMem_RawFree(items);
    return !fits;
}

/* ---- deques */

/* Of a bounded one an item at the other end goes, whose end nobody may see. */
static int deque_add(PyObject *deque, PyObject *o, bool left) {
    const Py_ssize_t n = Py_SIZE(deque), most = dyn_cpy_deque_bound(deque);
    PyObject *gone = most >= 0 && n == most && n > 0 ? dyn_cpy_deque_item(deque, left ? n - 1 : 0) : NULL;
    if (most == 0 || (gone != NULL && !dyn_region_can_keep(gone))) {
        return 1;
    }
    Py_XINCREF(gone);
    bool failed = !dyn_cpy_deque_add(deque, o, left);
    PyErr_Clear();
    dyn_region_note_stored(o);
    if (gone != NULL) {
        dyn_region_keep_object(gone);
    }
    return failed;
}

int dyn_region_deque_append(PyObject *deque, PyObject *o) { return deque_add(deque, o, false); }
int dyn_region_deque_appendleft(PyObject *deque, PyObject *o) { return deque_add(deque, o, true); }

/* The item at place i, which is the first or the last and has been read, is taken out. */
int dyn_region_deque_take(PyObject *deque, int64_t i) {
    if (!dyn_region_can_keep(dyn_cpy_deque_item(deque, (Py_ssize_t)i))) {
        return 1;
    }
    dyn_region_keep_object(dyn_cpy_deque_take(deque, i == 0));
    return 0;
}
