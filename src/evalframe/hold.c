/* hold.c: families of functions that nobody asked for don't keep alive what the program drops.
 *
 * A family (a function's cache and those of its resume functions) counts references to functions, classes, modules, code and
 * instances that its entries guard or use, and to globals. Through globals nearly all of a module is reached, the function
 * itself among it, and what hangs on a code object is hidden from the collector: so no module would ever die. Therefore, when a
 * full collection begins, families that are not in use become *loose*: their references are given up, and each place keeps the
 * bare address with its lowest bit set. The collector sees the program as it is without dynoc. An *anchor*, a weak reference with
 * a callback, tells of each object that dies: the entries that refer to it go. When a loose family is used again it takes its
 * references back (dyn_hold_tighten).
 *
 * What has no weak references stays counted, but for globals, which live at least as long as what they are the globals of: the
 * function that is called, a module or function to which the same entry refers, or else a function that is found in them.
 *
 * Families of functions that were handed to optimize() hang on objects that the collector sees (cache.c: dyn_cache_traverse), and
 * are never loose. GIL throughout. */
#include "evalframe/hold.h"
#include "base/cpy.h"
#include "evalframe/known.h"
#include "evalframe/loops.h"

typedef struct DynAnchor {
    PyWeakReference ref;
    DynAnchor *next;   /* in the same bucket */
    PyObject *object;  /* borrowed; its address, when it is dead */
    PyObject *globals; /* of the object: dicts that are taken to be alive because it is; borrowed; NULL: none */
    bool watched;      /* a code object that known.c knows */
    DYN_VEC(DynCache *)
    families; /* that refer to it, or once did: roots, borrowed */
} Anchor;

static Anchor **buckets;
static uint32_t nbuckets, nanchors;
static PyObject *on_death, *on_collection;
static PyObject *blank; /* in place of a resume function that isn't made: somebody may find its door by gc.get_objects() */

/* ---- anchors */

static Anchor **bucket_of(const PyObject *o) {
    return &buckets[((uint64_t)(uintptr_t)o * 0x9E3779B97F4A7C15u >> 32) & (nbuckets - 1)];
}

static Anchor *find_anchor(const PyObject *o) {
    Anchor *a = nbuckets == 0 ? NULL : *bucket_of(o);
    while (a != NULL && a->object != o) {
        a = a->next;
    }
    return a;
}

static int grow(void) {
    uint32_t old_n = nbuckets;
    Anchor **old = buckets, **fresh = PyMem_RawCalloc(old_n == 0 ? 64 : 2 * old_n, sizeof *fresh);
    if (fresh == NULL) {
        return -1;
    }
    buckets = fresh;
    nbuckets = old_n == 0 ? 64 : 2 * old_n;
    for (uint32_t i = 0; i < old_n; i++) {
        for (Anchor *a = old[i], *next; a != NULL; a = next) {
            next = a->next;
            a->next = *bucket_of(a->object);
            *bucket_of(a->object) = a;
        }
    }
    PyMem_RawFree(old);
    return 0;
}

static void unlink_anchor(Anchor *a) {
    Anchor **at = bucket_of(a->object);
    while (*at != a) {
        at = &(*at)->next;
    }
    *at = a->next;
    nanchors--;
}

/* The object's anchor, old or new; NULL: memory. */
static Anchor *anchor_of(PyObject *o);

static void drop_if_unused(Anchor *a) {
    if (a->families.n == 0 && !a->watched) {
        unlink_anchor(a);
        dyn_vec_free(&a->families);
        Py_DECREF(a);
    }
}

static bool is_dead(const Anchor *a) { return a->ref.wr_object == Py_None || Py_REFCNT(a->ref.wr_object) <= 0; }

/* The family will be told when the object dies. NULL: memory. */
static Anchor *attach(DynCache *root, PyObject *o) {
    Anchor *a = anchor_of(o);
    for (uint32_t i = root->anchors.n; a != NULL && i-- > 0;) {
        if (root->anchors.at[i] == a) {
            return a;
        }
    }
    if (a == NULL) {
        return NULL;
    }
    if (dyn_vec_reserve(&root->anchors, root->anchors.n + 1) < 0 || dyn_vec_push(&a->families, root) < 0) {
        drop_if_unused(a);
        return NULL;
    }
    root->anchors.at[root->anchors.n++] = a;
    return a;
}

static void forget_family(Anchor *a, const DynCache *root) {
    for (uint32_t i = a->families.n; i-- > 0;) {
        if (a->families.at[i] == root) {
            a->families.at[i] = a->families.at[--a->families.n];
            return;
        }
    }
}

void dyn_hold_forget(DynCache *c) {
    while (c->anchors.n > 0) {
        Anchor *a = c->anchors.at[--c->anchors.n];
        forget_family(a, c);
        drop_if_unused(a);
    }
    dyn_vec_free(&c->anchors);
}

int dyn_hold_watch(PyObject *code) {
    Anchor *a = anchor_of(code);
    if (a == NULL) {
        return -1;
    }
    a->watched = true;
    return 0;
}

void dyn_hold_unwatch(PyObject *code) {
    Anchor *a = find_anchor(code);
    if (a != NULL) {
        a->watched = false;
        drop_if_unused(a);
    }
}

/* ---- becoming loose */

typedef DYN_VEC(PyObject *) Objects;
typedef struct Loosening { /* of an entry */
    DynCache *root;
    PyObject *globals; /* of the function that is called */
    Objects own;       /* of what has weak references, what it refers to */
    Objects *dropped;  /* references that are given up */
} Loosening;

/* Is it the program's, and does it have weak references? */
static bool has_anchor(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (PyCode_Check(o)) {
        return dyn_code_word((PyCodeObject *)o) != DYN_CODE_OWN;
    }
    if (PyType_Check(o)) {
        return (((PyTypeObject *)o)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
    }
    if (PyFunction_Check(o) || PyModule_Check(o) || PyMethod_Check(o)) {
        return true;
    }
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && PyType_SUPPORTS_WEAKREFS(type);
}

static bool has_globals(PyObject *o, const PyObject *dict) {
    return PyModule_Check(o) ? PyModule_GetDict(o) == dict : PyFunction_Check(o) && PyFunction_GET_GLOBALS(o) == dict;
}

/* A function or module that keeps these globals alive, and of whose death the family will be told; NULL: none was found. */
static PyObject *keeper_of(const Loosening *l, PyObject *dict) {
    PyObject *name, *value;
    Py_ssize_t position = 0;
    for (uint32_t i = 0; i < l->own.n; i++) {
        if (has_globals(l->own.at[i], dict) && attach(l->root, l->own.at[i]) != NULL) {
            return l->own.at[i];
        }
    }
    while (PyDict_Next(dict, &position, &name, &value)) {
        Anchor *a = PyFunction_Check(value) && has_globals(value, dict) ? attach(l->root, value) : NULL;
        if (a != NULL) {
            a->globals = dict;
            return value;
        }
    }
    return NULL;
}

/* Does the family learn of the end of an object that it doesn't count? */
static bool is_told_of(const Loosening *l, PyObject *o) {
    return PyDict_CheckExact(o) ? o == l->globals || keeper_of(l, o) != NULL : has_anchor(o) && attach(l->root, o) != NULL;
}

static int collect(PyObject **slot, void *arg) {
    Loosening *l = arg;
    if ((PyFunction_Check(*slot) || PyModule_Check(*slot)) && dyn_vec_push(&l->own, *slot) < 0) {
        return 0; /* globals that it implies stay counted */
    }
    return 0;
}

static int loosen_slot(PyObject **slot, void *arg) {
    Loosening *l = arg;
    PyObject *o = *slot;
    if (!dyn_hold_is_loose(o) && is_told_of(l, o) && dyn_vec_push(l->dropped, o) == 0) {
        *slot = (PyObject *)((uintptr_t)o | 1);
    }
    return 0;
}

static void give_up(PyObject **at, Objects *dropped) {
    if (*at != NULL && dyn_vec_push(dropped, *at) == 0) {
        *at = NULL;
    }
}

static void loosen_entries(DynCache *c, Loosening *l) {
    for (uint32_t i = 0; i < c->entries.n; i++) {
        DynEntry *e = c->entries.at[i];
        if (e->refs > 1) { /* somebody may look at it */
            continue;
        }
        l->own.n = 0;
        dyn_entry_slots(e, collect, l);
        dyn_entry_slots(e, loosen_slot, l);
        give_up(&e->function, l->dropped);
        give_up(&e->waiting.function, l->dropped);
        give_up(&e->aside.function, l->dropped);
        give_up(&e->around.function, l->dropped);
    }
}

/* The resume function of a row is made again when it is needed, if its globals are sure to be there then. */
static void loosen_row(DynResume *row, Loosening *l) {
    PyObject **func = dyn_door_function_at(row->door), *globals = PyFunction_GET_GLOBALS(*func);
    l->own.n = 0;
    PyObject *keeper = globals == l->globals ? NULL : keeper_of(l, globals);
    bool there = globals == l->globals || keeper != NULL;
    if (there && *func != blank && dyn_vec_push(l->dropped, *func) == 0) {
        *func = Py_NewRef(blank);
        row->globals = globals;
        row->keeper = keeper;
    }
    if (row->of != NULL) {
        loosen_slot(&row->of, l);
    }
}

static void loosen(DynCache *root, Objects *dropped) {
    Loosening l = {.root = root, .globals = root->globals, .dropped = dropped};
    root->loose = true;
    loosen_entries(root, &l);
    for (uint32_t i = 0; i < root->resumes.n; i++) {
        loosen_entries(dyn_door_cache(root->resumes.at[i].door), &l);
    }
    for (uint32_t i = 0; i < root->resumes.n; i++) {
        loosen_row(&root->resumes.at[i], &l);
    }
    loosen_slot(&root->code, &l);
    dyn_vec_free(&l.own);
}

/* No call of the family's function goes on. */
static bool is_idle(const DynCache *c) { return c->refs == 1 && (c->loops == NULL || !dyn_loops_run_frame(c->loops)); }

/* Loops' regions can't be loose: they go, and are planned again when their functions are called; their code is on disk. Of a call
 * that goes on its loop code stays, and its loops are planned again when they are arrived at. What dies runs code, by which
 * families come and go. */
static void drop_loops(void) {
    for (DynCache *c = dyn_cache_first(); c != NULL;) {
        bool drops = c->known && c->loops != NULL && is_idle(c);
        bool forgets = c->known && c->loops != NULL && !drops && c->loops->refs == 1 && dyn_loops_have_regions(c->loops);
        if (drops || forgets) {
            dyn_cache_incref(c);
            if (drops) {
                dyn_loops_drop(c);
            } else {
                dyn_loops_forget_regions(c->loops);
            }
            dyn_cache_decref(c);
        }
        c = drops || forgets ? dyn_cache_first() : c->next;
    }
}

/* Nothing is dropped before all are loose: what dies may run code that uses the families. */
static void loosen_all(void) {
    Objects dropped = {0};
    drop_loops();
    for (DynCache *c = dyn_cache_first(); c != NULL; c = c->next) {
        if (c->known && !c->loose && is_idle(c)) {
            loosen(c, &dropped);
        }
    }
    for (uint32_t i = 0; i < dropped.n; i++) {
        Py_DECREF(dropped.at[i]);
    }
    dyn_vec_free(&dropped);
}

/* ---- what dies */

static int is_lost(PyObject **slot, void *anchor) {
    const Anchor *a = anchor;
    const PyObject *o = (PyObject *)((uintptr_t)*slot & ~(uintptr_t)1);
    bool anchors = o == a->object || o == a->globals;
    return anchors && o != NULL && dyn_hold_is_loose(*slot);
}

/* Entries that refer to the object of an anchor (NULL: all of them) leave the cache, for the list that `gone` begins. */
static void take_entries(DynCache *c, Anchor *a, DynEntry **gone) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->entries.n; i++) {
        DynEntry *e = c->entries.at[i];
        if (a == NULL || dyn_entry_slots(e, is_lost, a) != 0) {
            e->next = *gone;
            *gone = e;
        } else {
            c->entries.at[kept++] = e;
        }
    }
    c->entries.n = kept;
}

/* A family that is loose loses the object of an anchor. */
static void lose(DynCache *root, Anchor *a) {
    DynEntry *gone = NULL;
    take_entries(root, a, &gone);
    for (uint32_t i = 0; i < root->resumes.n; i++) {
        DynResume *row = &root->resumes.at[i];
        bool ends = is_lost(&row->of, a) || row->keeper == a->object;
        row->of = ends ? NULL : row->of;
        take_entries(dyn_door_cache(row->door), ends ? NULL : a, &gone);
    }
    while (gone != NULL) {
        DynEntry *e = gone;
        gone = e->next;
        dyn_count("cache", "invalidated");
        dyn_entry_decref(e);
    }
    dyn_cache_sweep_resumes(root);
}

/* The object of the anchor is dead. */
static PyObject *died(PyObject *self, PyObject *ref) {
    Anchor *a = (Anchor *)ref;
    DynRaised before = dyn_callback_begin();
    unlink_anchor(a);
    if (a->watched) {
        dyn_known_died(a->object);
    }
    a->watched = true; /* so that it stays to the end of this */
    while (a->families.n > 0) {
        DynCache *root = a->families.at[--a->families.n];
        for (uint32_t i = 0; i < root->anchors.n; i++) {
            if (root->anchors.at[i] == a) {
                root->anchors.at[i] = root->anchors.at[--root->anchors.n];
            }
        }
        if (root->loose) { /* else it has forgotten the object already */
            dyn_cache_incref(root);
            lose(root, a);
            dyn_cache_decref(root);
        }
    }
    dyn_vec_free(&a->families);
    Py_DECREF(a);
    dyn_callback_end(before);
    Py_RETURN_NONE;
}

/* ---- taking references back */

static int tighten_slot(PyObject **slot, void *arg) {
    if (dyn_hold_is_loose(*slot)) {
        *slot = Py_NewRef((PyObject *)((uintptr_t)*slot & ~(uintptr_t)1));
    }
    return 0;
}

static void tighten_entries(DynCache *c) {
    for (uint32_t i = 0; i < c->entries.n; i++) {
        dyn_entry_slots(c->entries.at[i], tighten_slot, NULL);
        dyn_guards_forget(c->entries.at[i]->guards);
    }
}

static int tighten_row(DynResume *row) {
    PyObject **func = dyn_door_function_at(row->door);
    if (row->of == NULL) { /* nobody goes there any more */
        return 0;
    }
    tighten_slot(&row->of, NULL);
    PyObject *made = *func == blank ? PyFunction_New(row->code, row->globals) : Py_NewRef(*func);
    if (made != NULL) {
        Py_SETREF(*func, made);
    }
    return made == NULL ? -1 : 0;
}

void dyn_hold_tighten(DynCache *root) {
    int failed = 0;
    DynRaised before = dyn_callback_begin();
    /* Objects may be dead of which the callback hasn't come yet. */
    for (uint32_t i = 0; i < root->anchors.n; i++) {
        if (is_dead(root->anchors.at[i])) {
            lose(root, root->anchors.at[i]);
        }
    }
    if (root->loose) {
        root->loose = false;
        tighten_slot(&root->code, NULL);
        tighten_entries(root);
        for (uint32_t i = 0; i < root->resumes.n; i++) {
            tighten_entries(dyn_door_cache(root->resumes.at[i].door));
            failed |= tighten_row(&root->resumes.at[i]);
        }
        if (failed < 0) { /* there is no memory for a function */
            PyErr_Clear();
            dyn_cache_clear(root);
        }
    }
    dyn_callback_end(before);
}

/* ---- the collector */

static PyObject *collects(PyObject *self, PyObject *args) {
    const char *phase;
    PyObject *info, *generation;
    if (PyArg_ParseTuple(args, "sO!", &phase, &PyDict_Type, &info) && strcmp(phase, "start") == 0) {
        generation = PyDict_GetItemString(info, "generation");
        if (generation != NULL && PyLong_Check(generation) && PyLong_AsLong(generation) == 2) {
            loosen_all();
        }
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* gc.callbacks, and what is done with it. No exception is left. */
static void with_callbacks(const char *method) {
    PyObject *gc = dyn_import("gc"), *list = gc == NULL ? NULL : PyObject_GetAttrString(gc, "callbacks");
    PyObject *result = list == NULL ? NULL : PyObject_CallMethod(list, method, "O", on_collection);
    Py_XDECREF(result);
    Py_XDECREF(list);
    Py_XDECREF(gc);
    PyErr_Clear(); /* the program has taken it out */
}

void dyn_hold_start(void) { with_callbacks("append"); }
void dyn_hold_stop(void) { with_callbacks("remove"); }

/* ---- */

static PyTypeObject Anchor_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.Anchor",
    .tp_doc = "A weak reference to something that cache entries refer to.",
    .tp_basicsize = sizeof(Anchor),
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

static Anchor *anchor_of(PyObject *o) {
    Anchor *a = find_anchor(o);
    if (a != NULL) {
        return a;
    }
    a = nanchors >= nbuckets && grow() < 0 ? NULL
                                           : (Anchor *)PyObject_CallFunctionObjArgs((PyObject *)&Anchor_Type, o, on_death, NULL);
    if (a == NULL) {
        PyErr_Clear();
        return NULL;
    }
    a->object = o;
    a->next = *bucket_of(o);
    *bucket_of(o) = a;
    nanchors++;
    return a;
}

int dyn_hold_init(void) {
    static PyMethodDef methods[] = {{"died", died, METH_O, "An object that entries refer to is dead."},
                                    {"collects", collects, METH_VARARGS, "The collector begins or has ended."}};
    Anchor_Type.tp_base = &_PyWeakref_RefType;
    if (PyType_Ready(&Anchor_Type) < 0) {
        return -1;
    }
    PyObject *globals = PyDict_New(), *code = (PyObject *)PyCode_NewEmpty("dynoc", "blank", 1);
    blank = globals == NULL || code == NULL ? NULL : PyFunction_New(code, globals);
    Py_XDECREF(globals);
    Py_XDECREF(code);
    on_death = PyCFunction_New(&methods[0], NULL);
    on_collection = PyCFunction_New(&methods[1], NULL);
    return blank == NULL || on_death == NULL || on_collection == NULL ? -1 : 0;
}
