/* loops_names.c: loops of a module's code, whose variables are items of a dict. Planner and regions know slots alone, so the
 * variables that a loop comes to are read into slots where its header is arrived at, and what it stored is put back when its
 * region is left. In between no other code runs: regions of such loops call nothing beside which it might
 * (tracer/region/foreign.c), and what functions that are followed into read of the module's globals is what the slots have then
 * (tracer/region/names.c).
 *
 * The dict holds a reference, too, so a value that isn't a number or text waits outside of it while a region runs that may store
 * its variable: whether something dies when a variable gets another value is asked by counts of references.
 *
 * Called by loops_over.c and loops_arrive.c, with the GIL. A DynLoopNames belongs to its DynLoops. */
#include "evalframe/loops.h"

enum { USED = 1, STORED = 2 };
struct DynLoopNames {
    uint32_t first, n; /* the slots */
    uint8_t *in_loop;  /* for each loop, of each of them: what the loop does with it */
};

/* ---- what loops come to */

static bool is_branch_or_target(const DynInstr *in) { return dyn_has_target(in) || (in->flags & DYN_IF_TARGET) != 0; }

static void note_uses(const DynLoopNames *names, const DynCode *c, uint32_t header, uint8_t *uses) {
    bool *members = dyn_loop_members(c, header);
    for (uint32_t i = 0; members != NULL && i < c->v.n; i++) {
        const DynInstr *in = &c->v.at[i];
        bool named = (in->op == DYN_I_LOAD_FAST || in->op == DYN_I_STORE_FAST) && in->arg >= names->first;
        if (named && members[i]) {
            uses[in->arg - names->first] |= in->op == DYN_I_STORE_FAST ? USED | STORED : USED;
        }
    }
    PyMem_RawFree(members);
}

void dyn_loop_names_free(DynLoopNames *names) { PyMem_RawFree(names); }

static DynLoopNames *new_names(const DynLoops *l) {
    uint32_t n = l->decoded->nnamed;
    DynLoopNames *names = PyMem_RawCalloc(1, sizeof *names + (size_t)n * l->nloops);
    if (names != NULL) {
        names->n = n;
        names->first = (uint32_t)dyn_code_nlocalsplus(l->decoded->code) - n;
        names->in_loop = (uint8_t *)(names + 1);
        for (uint32_t i = 0; i < l->nloops; i++) {
            uint8_t *uses = names->in_loop + (size_t)i * n;
            note_uses(names, l->decoded, l->headers[i], uses);
            memset(uses + n - l->decoded->nshared, USED | STORED, l->decoded->nshared);
        }
    }
    return names;
}

bool dyn_loops_begin_names(DynCache *c, PyObject *namespace) {
    DynCode *decoded = c->loops_known ? NULL : dyn_decode_names((PyCodeObject *)c->code, namespace);
    DynLoops *l = decoded == NULL ? NULL : dyn_loops_of(c, decoded, NULL);
    if (l == NULL) {
        c->loops_known = true;
        if (decoded != NULL) {
            dyn_decode_free(decoded);
        }
        return false;
    }
    l->decoded = decoded;
    l->names = new_names(l);
    for (uint32_t i = 0; l->names != NULL && i < l->nloops; i++) {
        if (dyn_loops_may_put_off(l)) {
            dyn_loops_put_off(l, i, dyn_loops_worth(decoded, l->headers[i]));
        }
    }
    c->loops_on = l->names != NULL && dyn_loops_complete(l) == 0;
    return c->loops_on;
}

/* ---- slots */

static uint8_t uses_of(const DynLoops *l, uint32_t i, uint32_t k) { return l->names->in_loop[(size_t)i * l->names->n + k]; }

static PyObject *name_of(const DynLoops *l, uint32_t k) {
    return dyn_code_local_name(l->decoded->code, (int)(l->names->first + k));
}

static PyObject *get(const DynLoops *l, uint32_t k, PyObject *namespace) {
    PyObject *o = PyDict_GetItemWithError(namespace, name_of(l, k));
    PyErr_Clear();
    return o;
}

void dyn_loop_names_read(const DynLoops *l, uint32_t i, PyObject *namespace, PyObject **slots) {
    for (uint32_t k = 0; k < l->names->n; k++) {
        Py_XSETREF(slots[l->names->first + k], uses_of(l, i, k) != 0 ? Py_XNewRef(get(l, k, namespace)) : NULL);
    }
}

void dyn_loop_names_drop(const DynLoops *l, PyObject **slots) {
    for (uint32_t k = 0; k < l->names->n; k++) {
        Py_CLEAR(slots[l->names->first + k]);
    }
}

/* New items of a dict have an order: that of the stores is known of one alone, or of those that are stored one behind the other,
 * with no way in between. */
static bool is_order_known(const DynLoops *l, uint32_t i, PyObject *const *slots) {
    const DynCode *c = l->decoded;
    uint32_t last = DYN_NONE, between = 0;
    bool known = true;
    bool *members = dyn_loop_members(c, l->headers[i]);
    for (uint32_t at = 0; members != NULL && at < c->v.n && known; at++) {
        const DynInstr *in = &c->v.at[at];
        bool stores = members[at] && in->op == DYN_I_STORE_FAST && in->arg >= l->names->first && slots[in->arg] == NULL;
        between += is_branch_or_target(in);
        known = !stores || last == DYN_NONE || (in->arg > last ? between == 0 : in->arg == last && between == 0);
        last = stores ? in->arg : last;
        between = stores ? 0 : between;
    }
    PyMem_RawFree(members);
    return members != NULL && known;
}

bool dyn_loop_names_may_run(const DynLoops *l, uint32_t i, PyObject *const *slots) {
    uint32_t unbound = 0, nshared = 0;
    for (uint32_t k = 0; k < l->names->n; k++) {
        bool is = (uses_of(l, i, k) & STORED) != 0 && slots[l->names->first + k] == NULL;
        unbound += is;
        nshared += is && k >= l->names->n - l->decoded->nshared;
    }
    return unbound < 2 || (nshared == 0 && is_order_known(l, i, slots));
}

static bool waits_outside(PyObject *o) {
    bool number = PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o) || PyBool_Check(o);
    return !number && o != Py_None && !PyUnicode_CheckExact(o) && !PyBytes_CheckExact(o);
}

bool dyn_loop_names_take(const DynLoops *l, uint32_t i, PyObject *namespace, PyObject **slots) {
    dyn_loop_names_read(l, i, namespace, slots);
    bool may = dyn_loop_names_may_run(l, i, slots);
    for (uint32_t k = 0; k < l->names->n && may; k++) {
        PyObject *o = slots[l->names->first + k];
        bool waits = o != NULL && (uses_of(l, i, k) & STORED) != 0 && waits_outside(o);
        if (waits && PyDict_SetItem(namespace, name_of(l, k), Py_None) < 0) {
            PyErr_Clear(); /* it stays, and counts twice */
        }
    }
    return may;
}

void dyn_loop_names_put(const DynLoops *l, PyObject *namespace, PyObject *const *slots) {
    for (uint32_t k = 0; k < l->names->n; k++) {
        PyObject *o = slots[l->names->first + k];
        if (o != NULL && get(l, k, namespace) != o && PyDict_SetItem(namespace, name_of(l, k), o) < 0) {
            PyErr_Clear();
        }
    }
}
