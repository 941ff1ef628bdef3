/* cpy_drops.c: does dropping a reference to an object run code, if it is the last one? Called by native loops
 * (ir/region_world.c), which keep what they take out of other objects until they are left: where a destructor, or the callback of
 * a weak reference, would run by then, CPython has to do it, at its time. With the GIL. Owns nothing.
 *
 * While a loop runs references are counted that eager wouldn't have any more: of variables that got another value, of lists that
 * were made in earlier trips. So a count above one says nothing, but one above all references that could be dropped by then.
 *
 * Nodes of a graph are more objects than can be looked at each time that one of them is taken out of a list. So a graph is gone
 * through once, and known from then on, until the run ends or something else is stored in one of its objects. */
#include "base/cpy_region.h"

enum { MOST_EDGES = 64, MOST_OBJECTS = 32 };

typedef struct Look {
    bool (*is_plain)(PyObject *); /* … besides CPython's own */
    PyObject *seen[MOST_OBJECTS];
    int nseen, nedges;
    bool skipped; /* An object that others hold wasn't looked at. */
} Look;

static int look_at(PyObject *o, void *look);

/* Numbers, texts, and what else holds no other object. */
static bool is_plain(PyObject *o) {
    return o == Py_None || PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || PyUnicode_CheckExact(o) ||
           PyBytes_CheckExact(o) || PyComplex_CheckExact(o) || PyByteArray_CheckExact(o);
}

/* What instances of classes that a class statement made are freed by. */
static destructor class_dealloc(void) {
    static destructor dealloc;
    if (dealloc == NULL) {
        PyObject *class = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "Plain");
        dealloc = class == NULL ? NULL : ((PyTypeObject *)class)->tp_dealloc;
        Py_XDECREF(class);
        PyErr_Clear();
    }
    return dealloc;
}

bool dyn_cpy_has_weakrefs(PyObject *o) {
    PyObject **weak = PyType_SUPPORTS_WEAKREFS(Py_TYPE(o)) ? (PyObject **)PyObject_GET_WEAKREFS_LISTPTR(o) : NULL;
    return weak != NULL && *weak != NULL;
}

/* Freeing an instance frees what it refers to, and does nothing else. */
static bool is_freed_quietly(PyObject *o) {
    PyTypeObject *t = Py_TYPE(o), *base = t;
    while (base != NULL && base->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        base = base->tp_base;
    }
    bool container = base == &PyList_Type || base == &PyTuple_Type || base == &PyDict_Type || base == &PySet_Type;
    bool class = t != base && base == &PyBaseObject_Type && t->tp_dealloc == class_dealloc();
    if ((!class && !(container && t == base)) || t->tp_finalize != NULL || t->tp_del != NULL || t->tp_traverse == NULL) {
        return false;
    }
    return !dyn_cpy_has_weakrefs(o);
}

/* Rows of numbers are long: each is looked at by its type alone. */
static int look_into(PyObject *sequence, Look *look) {
    PyObject **items = PySequence_Fast_ITEMS(sequence);
    int may = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence) && may == 0; i++) {
        bool number = items[i] == NULL || PyFloat_CheckExact(items[i]) || PyLong_CheckExact(items[i]);
        may = number ? 0 : look_at(items[i], look);
    }
    return may;
}

/* 1: freeing what holds this object may run code. */
static int look_at(PyObject *o, void *arg) {
    Look *look = arg;
    if (is_plain(o) || look->is_plain(o) || PyType_Check(o)) {
        return 0;
    }
    if (Py_REFCNT(o) > MOST_EDGES) {
        look->skipped = true;
        return 0;
    }
    for (int i = 0; i < look->nseen; i++) {
        if (look->seen[i] == o) {
            return ++look->nedges > MOST_EDGES;
        }
    }
    if (++look->nedges > MOST_EDGES || look->nseen == MOST_OBJECTS || !is_freed_quietly(o)) {
        return 1;
    }
    look->seen[look->nseen++] = o;
    return PyList_CheckExact(o) || PyTuple_CheckExact(o) ? look_into(o, look) : Py_TYPE(o)->tp_traverse(o, look_at, look);
}

/* ---- graphs: each object that is known is freed quietly, and what it refers to is known or plain */

enum {
    MOST_KNOWN = 4096,
    PLACES = 4 * MOST_KNOWN,
    KNOWN_EDGES = 1 << 16,
    FEW_MORE = 32,   /* objects that are gone through where one from outside is stored */
    WORTH = 8,       /* objects that may be gone through for each that is asked about */
    MOST_DOUBLED = 8 /* Where that wasn't worth it, twice as many questions as before have no answer, at most so often. */
};
static struct {
    PyObject *at[MOST_KNOWN]; /* Borrowed, in the order in which they were found. */
    uint16_t place[PLACES];   /* 1 + where in `at` an object with such an address is, or in the next place; 0: nowhere. */
    uint32_t n, limit, nedges;
    uint32_t hits, spent; /* Questions that were answered since a graph was gone through last, and how many objects that were. */
    uint32_t rest, doubled;
    bool (*is_plain)(PyObject *);
} known;

static uint32_t place_of(const PyObject *o) {
    uint32_t p = (uint32_t)((uint64_t)(uintptr_t)o * UINT64_C(0x9e3779b97f4a7c15) >> 40) % PLACES;
    while (known.place[p] != 0 && known.at[known.place[p] - 1] != o) {
        p = (p + 1) % PLACES;
    }
    return p;
}

static bool is_known(const PyObject *o) { return known.n > 0 && known.place[place_of(o)] != 0; }

void dyn_cpy_forget_quiet(void) {
    if (known.n > 0) {
        memset(known.place, 0, sizeof known.place);
        known.n = known.nedges = 0;
    }
}

/* `place`: where place_of says. */
static void add_known(PyObject *o, uint32_t place) {
    known.at[known.n] = o;
    known.place[place] = (uint16_t)++known.n;
}

/* 1: it isn't freed quietly, or there is no room. */
static int know(PyObject *o, void *unused) {
    (void)unused;
    if (is_plain(o) || known.is_plain(o) || PyType_Check(o)) {
        return 0;
    }
    if (++known.nedges > KNOWN_EDGES || Py_REFCNT(o) > KNOWN_EDGES) {
        return known.nedges > KNOWN_EDGES;
    }
    uint32_t p = place_of(o);
    if (known.place[p] != 0) {
        return 0;
    }
    if (known.n == known.limit || !is_freed_quietly(o)) {
        return 1;
    }
    add_known(o, p);
    return 0;
}

/* The object with all that it refers to; false: nothing is known any more. */
static bool learn(PyObject *o, bool (*more)(PyObject *), uint32_t most) {
    uint32_t before = known.n;
    known.is_plain = more;
    known.limit = before + most < MOST_KNOWN ? before + most : MOST_KNOWN;
    bool quiet = know(o, NULL) == 0;
    for (uint32_t i = before; quiet && i < known.n; i++) {
        quiet = Py_TYPE(known.at[i])->tp_traverse(known.at[i], know, NULL) == 0;
    }
    known.spent += known.n - before;
    if (!quiet) {
        dyn_cpy_forget_quiet();
    }
    return quiet;
}

bool dyn_cpy_is_known_quiet(PyObject *o) {
    bool is = is_known(o);
    known.hits += is;
    return is;
}

bool dyn_cpy_is_quiet_graph(PyObject *o, bool (*more)(PyObject *)) {
    if (known.rest > 0) {
        known.rest--;
        return false;
    }
    bool worth = known.hits >= known.spent / WORTH;
    known.doubled = worth ? 0 : known.doubled < MOST_DOUBLED ? known.doubled + 1 : MOST_DOUBLED;
    known.rest = worth ? 0 : 1u << known.doubled;
    known.hits = known.spent = 0;
    return learn(o, more, MOST_KNOWN);
}

void dyn_cpy_note_stored(PyObject *o, bool (*more)(PyObject *)) {
    if (known.n > 0 && !is_plain(o) && !is_known(o)) {
        (void)learn(o, more, FEW_MORE);
    }
}

/* ---- single objects */

static void remember(const Look *look) {
    for (int i = 0; i < look->nseen; i++) {
        uint32_t p = place_of(look->seen[i]);
        if (known.place[p] == 0) {
            add_known(look->seen[i], p);
        }
    }
}

bool dyn_cpy_drops_quietly(PyObject *o, bool (*more)(PyObject *)) {
    Look look;
    look.is_plain = more;
    look.skipped = false;
    look.nseen = look.nedges = 0;                                  /* the rest is written before it is read */
    bool sequence = PyList_CheckExact(o) || PyTuple_CheckExact(o); /* of numbers, mostly: nobody can refer to it weakly */
    bool quiet = sequence && Py_REFCNT(o) <= MOST_EDGES ? look_into(o, &look) == 0 : look_at(o, &look) == 0;
    if (quiet && !look.skipped && known.n + MOST_OBJECTS <= MOST_KNOWN) {
        remember(&look);
    }
    return quiet;
}
