/* sites.c: methods with a door that call themselves, or each other, through `self`. Where such functions are left to CPython,
 * each of these calls would pass the door in vain, which takes longer than many a call. So the call's site is made to call the
 * function itself, as long as the class has the door by that name (base/cpy_methods.c). Calls from anywhere else pass the door as
 * ever.
 *
 * Called by door.c, with the GIL. Owns nothing: a door, which the class holds, holds its function. */
#include "evalframe/sites.h"
#include "evalframe/loops.h"

#define DEPTH 24      /* calls on the stack that are looked at */
#define MANY_BRIEF 64 /* calls in a row that are over at once (loops_calls.c) */

static unsigned long replaced; /* sites, in all: for tests */

/* Do calls of the cache's function run as CPython's own, or may they as well, as each of them is over so soon that it doesn't
 * repay being asked about its loops? */
static bool is_left(const DynCache *c) {
    const DynLoops *l = c->loops_on && c->entries.n == 0 && c->root == NULL ? c->loops : NULL;
    return l != NULL ? dyn_loops_all_rest(l) || l->brief >= MANY_BRIEF : dyn_loops_are_left(c);
}

/* … or is it still to be seen whether its loops pay, or does it have native ones? */
static bool has_loops(const DynCache *c) { return c->loops_on && c->loops != NULL && c->root == NULL && c->entries.n == 0; }

/* Nothing of the function is native: where its own code runs, it runs to its end. */
static bool runs_plain(const DynCache *c) { return is_left(c) || (has_loops(c) && !dyn_loops_have_regions(c->loops)); }

static bool holds_code(PyObject *code, PyObject *inner) {
    PyObject *consts = ((PyCodeObject *)code)->co_consts;
    bool holds = code == inner;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(consts) && !holds; i++) {
        holds = PyTuple_GET_ITEM(consts, i) == inner;
    }
    return holds;
}

/* Is the code that of a function of which nothing is native, or of a generator expression or a lambda in one? */
static bool is_of_plain(PyObject *code) {
    bool is = false;
    for (const DynCache *c = dyn_cache_first(); c != NULL && !is; c = c->next) {
        is = runs_plain(c) && holds_code(c->code, code);
    }
    return is;
}

static bool is_under_way(const DynCache *c, DynFrame *f) {
    const PyObject *made = c->loops != NULL && c->loops->made != NULL ? c->loops->made->code : NULL;
    for (int depth = 0; f != NULL && depth < DEPTH; depth++, f = dyn_frame_caller(f)) {
        const PyObject *code = (PyObject *)dyn_frame_code(f);
        if (code == c->code || code == made) {
            return true;
        }
    }
    return false;
}

/* A call that the code of the cache's function makes of itself: what runs as CPython's own, or in loop code, goes on so. */
static uint32_t pass_by_itself(DynCache *c, PyObject *door, PyCodeObject *code) {
    bool plain = (PyObject *)code == c->code && !dyn_loops_have_regions(c->loops);
    return plain ? dyn_code_replace_method(code, door, dyn_door_function(door))
                 : dyn_loops_aim_methods(c, door, (PyObject *)code);
}

static uint32_t pass_by(const DynCache *c, PyObject *door, DynFrame *f, bool settled) {
    PyCodeObject *code = dyn_frame_code(f);
    bool may = settled || is_under_way(c, f);
    uint32_t n = may && is_of_plain((PyObject *)code) ? dyn_code_replace_method(code, door, dyn_door_function(door)) : 0;
    return may ? n + dyn_loops_aim_at((PyObject *)code, door) : 0;
}

DynLooked dyn_sites_look(PyThreadState *ts, PyObject *door, bool settled) {
    DynCache *c = dyn_door_cache(door);
    bool left = is_left(c);
    if (!dyn_cpy_known() || !(left || has_loops(c))) {
        return DYN_LOOKED_TOO_EARLY;
    }
    DynFrame *f = dyn_frame_complete(dyn_frame_current(ts));
    uint32_t n = f == NULL ? 0 : left ? pass_by(c, door, f, settled) : pass_by_itself(c, door, dyn_frame_code(f));
    replaced += n;
    return n > 0 ? DYN_LOOKED_AND_REPLACED : DYN_LOOKED_IN_VAIN;
}

static PyObject *count_replaced(PyObject *module, PyObject *none) { return PyLong_FromUnsignedLong(replaced); }

static PyMethodDef methods[] = {{"_sites_replaced", count_replaced, METH_NOARGS, "Call sites that were made to pass doors by."},
                                {0}};

int dyn_sites_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }
