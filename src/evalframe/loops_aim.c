/* loops_aim.c: calls of functions that have a door, by a name or as a method, which needn't pass it. Where such a function
 * is left to CPython, passing its door takes longer than many a call. So in loop code, which a function that names doors gets for
 * this alone if it has no loops, such a call is of the function itself: of the code's own in any case, as that runs in the same
 * loop code; of another one, once that is left to CPython too, and for as long as it is and the name stands for its door.
 *
 * Called by loops.c, loops_calls.c, sites.c and a watcher of dicts, with the GIL. Owns nothing: the code's constants borrow doors
 * and functions, so whoever lets one of these go says so before. */
#include "evalframe/loops.h"

static DynLoops *all_aimed;

/* ---- names */

static bool is_door(PyObject *o) { return o != NULL && Py_IS_TYPE(o, &DynDoor_Type); }

static PyObject *global_door(PyObject *func, PyObject *name) {
    PyObject *globals = PyFunction_GET_GLOBALS(func);
    PyObject *named = PyDict_CheckExact(globals) ? PyDict_GetItemWithError(globals, name) : NULL;
    PyErr_Clear();
    return is_door(named) ? named : NULL;
}

/* By a variable of a function around it. */
static PyObject *free_door(PyObject *func, PyObject *name) {
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(func);
    PyObject *closure = PyFunction_GET_CLOSURE(func), *named = NULL;
    Py_ssize_t n = closure != NULL ? PyTuple_GET_SIZE(closure) : 0;
    for (Py_ssize_t i = 0; i < n && named == NULL; i++) { /* free variables are the last ones */
        int at = dyn_code_nlocalsplus(code) - (int)(n - i);
        named = dyn_code_local_name(code, at) == name ? PyCell_GET(PyTuple_GET_ITEM(closure, i)) : NULL;
    }
    return is_door(named) ? named : NULL;
}

static PyObject *door_by_name(PyObject *func, const DynCalledNames *names, uint32_t k) {
    return (names->free[k] ? free_door : global_door)(func, names->at[k]);
}

static void add_name(DynCalledNames *names, PyObject *name, bool free) {
    bool is_new = names->n < DYN_MOST_CALLED;
    for (uint32_t k = 0; k < names->n; k++) {
        is_new &= names->at[k] != name || names->free[k] != free;
    }
    if (is_new) {
        names->at[names->n] = name;
        names->free[names->n++] = free;
    }
}

/* … by which the code, or code in it, loads doors. */
static void add_globals(DynCalledNames *names, PyCodeObject *code, PyObject *func) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); i++) {
        PyObject *name = PyTuple_GET_ITEM(code->co_names, i);
        if (global_door(func, name) != NULL && dyn_code_calls_global(code, name)) {
            add_name(names, name, false);
        }
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); i++) {
        PyObject *inner = PyTuple_GET_ITEM(code->co_consts, i);
        if (PyCode_Check(inner)) {
            add_globals(names, (PyCodeObject *)inner, func);
        }
    }
}

static void add_all(DynCalledNames *names, PyObject *func) {
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(func);
    for (int i = 0; i < dyn_code_nlocalsplus(code); i++) {
        PyObject *name = dyn_code_local_name(code, i);
        if (free_door(func, name) != NULL) {
            add_name(names, name, true);
        }
    }
    add_globals(names, code, func);
}

bool dyn_loops_name_doors(PyObject *func) {
    DynCalledNames names = {0};
    add_all(&names, func);
    return names.n > 0;
}

void dyn_loops_find_called(DynLoops *l, const DynCode *decoded, PyObject *func) {
    if (decoded->head != DYN_NONE) {
        add_name(&l->called, decoded->code->co_name, false);
    }
    if (!l->cache->known) { /* a family of known.c's keeps nothing alive */
        add_all(&l->called, func);
    }
}

/* ---- by name */

static bool is_aimed(const DynLoops *l) {
    bool is = false;
    for (uint32_t k = 0; k < l->called.n; k++) {
        is |= l->doors[k] != NULL;
    }
    return is;
}

static void aim_at_nothing(DynLoops *l, uint32_t k) {
    if (l->doors[k] == NULL) {
        return;
    }
    l->doors[k] = l->functions[k] = NULL;
    dyn_asm_loops_aim(l->made, k, NULL, NULL);
    DynLoops **at = &all_aimed;
    while (*at != l) {
        at = &(*at)->aimed;
    }
    *at = is_aimed(l) ? l : l->aimed;
}

static void aim(DynLoops *l, uint32_t k, PyObject *door, PyObject *function) {
    bool told = l->called.free[k] || !dyn_dict_tells() || dyn_dict_listen(PyFunction_GET_GLOBALS(l->function));
    if (!told || l->doors[k] != NULL) {
        return;
    }
    if (!is_aimed(l)) {
        l->aimed = all_aimed;
        all_aimed = l;
    }
    l->doors[k] = door;
    l->functions[k] = function;
    dyn_asm_loops_aim(l->made, k, door, function);
}

void dyn_loops_aim_at_itself(DynLoops *l, PyObject *func) {
    bool may = l->made->calls && l->cache != NULL && !l->cache->known;
    for (uint32_t k = 0; k < l->called.n && may; k++) {
        bool own = l->doors[k] == NULL && l->called.at[k] == ((PyCodeObject *)l->code)->co_name;
        PyObject *door = own ? door_by_name(func, &l->called, k) : NULL;
        if (door != NULL && dyn_door_function(door) == func) {
            aim(l, k, door, l->function);
        }
    }
}

/* Those whose loop code, or code in that, it is. */
static DynLoops *loops_of_code(PyObject *code) {
    DynLoops *found = NULL;
    for (const DynCache *c = dyn_cache_first(); c != NULL && found == NULL; c = c->next) {
        DynLoops *l = c->loops != NULL && c->loops->made != NULL && c->loops->function != NULL ? c->loops : NULL;
        bool here = l != NULL && l->made->code == code;
        for (uint32_t i = 0; l != NULL && i < l->made->ninner; i++) {
            here |= l->made->inner[i].made->code == code;
        }
        found = here ? l : NULL;
    }
    return found;
}

/* The function that runs a call of the door's, which is left to CPython; borrowed. NULL: that isn't known yet. */
static PyObject *function_behind(PyObject *door) {
    DynCache *c = dyn_door_cache(door);
    PyObject *func = dyn_door_function(door), *function = func;
    if (!dyn_loops_are_left(c) || c->known || !(c->calls_known || c->loops_on)) {
        return NULL;
    }
    if (dyn_loops_call_doors(c)) {
        function = dyn_loops_function(c, func); /* its loops hold it */
        Py_XDECREF(function);
    }
    return function;
}

uint32_t dyn_loops_aim_at(PyObject *code, PyObject *door) {
    DynLoops *l = loops_of_code(code);
    PyObject *function = l != NULL ? function_behind(door) : NULL;
    uint32_t n = 0;
    for (uint32_t k = 0; function != NULL && k < l->called.n; k++) {
        bool here = l->doors[k] == NULL && door_by_name(l->function, &l->called, k) == door;
        if (here) {
            aim(l, k, door, function);
            n += l->doors[k] != NULL;
        }
    }
    return n;
}

/* ---- as methods */

uint32_t dyn_loops_aim_methods(DynCache *c, PyObject *door, PyObject *code) {
    DynLoops *l = c->known ? NULL : c->loops;
    bool ours = l != NULL && l->made != NULL && l->made->code == code && (l->method == NULL || l->method == door);
    uint32_t n = ours && l->function != NULL ? dyn_code_replace_method((PyCodeObject *)code, door, l->function) : 0;
    l->method = n > 0 ? door : l->method;
    return n;
}

static void aim_methods_at_nothing(DynLoops *l) {
    if (l->method != NULL) {
        dyn_code_replace_method((PyCodeObject *)l->made->code, l->function, l->method);
        l->method = NULL;
    }
}

/* ---- no more */

void dyn_loops_aim_at_nothing(DynLoops *l) {
    for (uint32_t k = 0; k < l->called.n; k++) {
        aim_at_nothing(l, k);
    }
    aim_methods_at_nothing(l);
}

static bool is_same_name(PyObject *a, PyObject *b) { return a == b || (PyUnicode_CheckExact(a) && dyn_cpy_is_same_text(a, b)); }

void dyn_loops_global_changes(PyObject *globals, PyObject *key) {
    for (DynLoops *l = all_aimed, *next; l != NULL; l = next) {
        bool here = PyFunction_GET_GLOBALS(l->function) == globals;
        next = l->aimed;
        for (uint32_t k = 0; k < l->called.n && here; k++) {
            if (!l->called.free[k] && (key == NULL || is_same_name(key, l->called.at[k]))) {
                aim_at_nothing(l, k);
            }
        }
    }
}

void dyn_loops_forget_door(DynCache *c) {
    const PyObject *function = c->loops != NULL ? c->loops->function : NULL;
    for (DynLoops *l = all_aimed, *next; l != NULL; l = next) {
        next = l->aimed;
        for (uint32_t k = 0; k < l->called.n; k++) {
            bool here = l->doors[k] != NULL && (dyn_door_cache(l->doors[k]) == c || l->functions[k] == function);
            if (here) {
                aim_at_nothing(l, k);
            }
        }
    }
    if (c->loops != NULL) {
        aim_methods_at_nothing(c->loops);
    }
}
