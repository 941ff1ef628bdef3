/* asm_loops_aim.c: what calls by a name are in loop code (asm_loops.h): of a function, by a constant, or of whatever the
 * name stands for.
 *
 * Called by evalframe/loops_aim.c, while the code may be running. Owns nothing. */
#include "base/cpy_internal.h"
#include "tracer/bytecode/asm_loops.h"

/* The name's units lead to the constant, or past it. false: one doesn't, which a tool for instructions has taken over. */
static bool lead(DynLoopCode *l, uint32_t name, bool to_constant) {
    const uint8_t *from = to_constant ? l->past[name] : l->into[name], *to = to_constant ? l->into[name] : l->past[name];
    bool all = true;
    for (uint32_t i = 0; i < l->nsites; i++) {
        bool leads = l->sites[i].name == name && l->sites[i].unit != DYN_NONE;
        all &= !leads || dyn_code_swap_unit((PyCodeObject *)l->code, l->sites[i].unit, from, to);
    }
    return all;
}

/* It is None, which the constants hold, or something that they borrow. */
static void set_const(PyObject *consts, Py_ssize_t i, PyObject *now) {
    PyObject *before = PyTuple_GET_ITEM(consts, i);
    if (now == Py_None && before != Py_None) {
        Py_INCREF(Py_None);
    } else if (now != Py_None && before == Py_None) {
        Py_DECREF(Py_None);
    }
    PyTuple_SET_ITEM(consts, i, now);
}

static void aim(DynLoopCode *l, uint32_t name, PyObject *door, PyObject *function) {
    PyObject *consts = ((PyCodeObject *)l->code)->co_consts, *const to[DYN_CALL_CONSTS] = {door, function};
    const Py_ssize_t first = PyTuple_GET_SIZE(consts) - (Py_ssize_t)(l->ncalled - name) * DYN_CALL_CONSTS;
    bool aims = door != NULL && function != NULL, aimed = PyTuple_GET_ITEM(consts, first) != Py_None;
    if (l->nsites == 0 || (l->stuck >> name & 1) != 0 || aims == aimed) {
        return;
    }
    bool stuck = !aims && !lead(l, name, false);
    for (uint32_t i = 0; i < DYN_CALL_CONSTS && !stuck; i++) {
        set_const(consts, first + i, aims ? to[i] : Py_None);
    }
    if (stuck) { /* the constants stay what they are, and hold that */
        Py_INCREF(PyTuple_GET_ITEM(consts, first + 1));
        PyTuple_SET_ITEM(consts, first, Py_NewRef(Py_None));
        l->stuck |= 1u << name;
    } else if (aims) {
        (void)lead(l, name, true);
    }
}

void dyn_asm_loops_aim(DynLoopCode *l, uint32_t name, PyObject *door, PyObject *function) {
    aim(l, name, door, function);
    for (uint32_t i = 0; i < l->ninner; i++) {
        dyn_asm_loops_aim(l->inner[i].made, name, door, function);
    }
}
