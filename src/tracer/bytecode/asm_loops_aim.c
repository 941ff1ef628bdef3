/* asm_loops_aim.c: what calls of itself are in loop code (asm_loops.h): of the function, by a constant, or of whatever its name
 * stands for.
 *
 * Called by evalframe/loops_calls.c, while the code may be running. Owns nothing. */
#include "base/cpy_internal.h"
#include "tracer/bytecode/asm_loops.h"

/* The units lead to the constant, or past it. false: one doesn't, which a tool for instructions has taken over. */
static bool lead(DynLoopCode *l, bool to_constant) {
    const uint8_t *from = to_constant ? l->past : l->into, *to = to_constant ? l->into : l->past;
    bool all = true;
    for (uint32_t i = 0; i < l->nselves; i++) {
        all &= dyn_code_swap_unit((PyCodeObject *)l->code, l->selves[i], from, to);
    }
    return all;
}

/* It is `way`, which the constants hold, or something that they borrow. */
static void set_const(PyObject *consts, Py_ssize_t i, PyObject *way, PyObject *now) {
    PyObject *before = PyTuple_GET_ITEM(consts, i);
    if (now == way && before != way) {
        Py_INCREF(way);
    } else if (now != way && before == way) {
        Py_DECREF(way);
    }
    PyTuple_SET_ITEM(consts, i, now);
}

static void aim(DynLoopCode *l, PyObject *way, PyObject *door, PyObject *function) {
    PyObject *consts = ((PyCodeObject *)l->code)->co_consts, *const to[DYN_SELF_CONSTS] = {door, function};
    const Py_ssize_t first = PyTuple_GET_SIZE(consts) - DYN_SELF_CONSTS;
    bool aims = door != NULL && function != NULL, aimed = l->nselves > 0 && PyTuple_GET_ITEM(consts, first) != way;
    if (l->nselves == 0 || aims == aimed) {
        return;
    }
    bool stuck = l->selves != NULL && !aims && !lead(l, false);
    for (uint32_t i = 0; i < DYN_SELF_CONSTS && !stuck; i++) {
        set_const(consts, first + i, way, aims ? to[i] : way);
    }
    if (stuck) { /* the constants stay what they are, and hold that */
        Py_INCREF(PyTuple_GET_ITEM(consts, first + 1));
        PyTuple_SET_ITEM(consts, first, Py_NewRef(way));
        l->nselves = 0;
    } else if (l->selves != NULL && aims) {
        (void)lead(l, true);
    }
}

static void aim_all(DynLoopCode *l, PyObject *way, PyObject *door, PyObject *function) {
    aim(l, way, door, function);
    l->calls_itself = l->nselves > 0;
    for (uint32_t i = 0; i < l->ninner; i++) {
        aim_all(l->inner[i].made, way, door, function);
        l->calls_itself |= l->inner[i].made->calls_itself;
    }
}

void dyn_asm_loops_aim(DynLoopCode *l, PyObject *door, PyObject *function) {
    PyObject *consts = ((PyCodeObject *)l->code)->co_consts;
    aim_all(l, PyTuple_GET_ITEM(consts, PyTuple_GET_SIZE(consts) - DYN_SELF_CONSTS - 1), door, function);
}
