/* decode_names.c: code whose variables are items of a dict, as that of modules and scripts. What its loops load and store by name
 * becomes slots, behind those that it has, so that whoever knows loops of functions knows these. Called by
 * evalframe/loops_names.c and, for the names alone, by looks.c; owns nothing. */
#include "base/cpy.h"
#include "tracer/bytecode/decode.h"
#include <opcode.h>

/* ---- without decoding */

/* Runs through the code's units, of which caches read 0: each instruction with its argument. */
typedef struct Units {
    PyObject *bytes; /* strong; NULL: no memory */
    uint32_t n, next;
    uint8_t op;
    uint32_t arg, at;
} Units;

static Units begin_units(PyCodeObject *code) {
    Units u = {.bytes = dyn_cpy_code_bytes(code)};
    u.n = u.bytes == NULL ? 0 : (uint32_t)(PyBytes_GET_SIZE(u.bytes) / 2);
    PyErr_Clear();
    return u;
}

static bool next_unit(Units *u) {
    uint32_t prefix = 0;
    bool more = false;
    for (more = u->next < u->n; u->next < u->n;) {
        const uint8_t *unit = (const uint8_t *)PyBytes_AS_STRING(u->bytes) + 2 * (size_t)u->next;
        u->at = u->next++;
        u->op = unit[0];
        u->arg = prefix << 8 | unit[1];
        if (u->op != EXTENDED_ARG) {
            break;
        }
        prefix = u->arg;
    }
    if (!more) {
        Py_CLEAR(u->bytes);
    }
    return more;
}

uint32_t dyn_code_loop_names(PyCodeObject *code, uint32_t at, PyObject **names, uint32_t room) {
    uint32_t from = at + 1, to = at, n = 0;
    for (Units u = begin_units(code); next_unit(&u);) {
        bool around = dyn_jump_way(u.op) < 0 && u.at >= at && u.arg <= u.at + 1 && u.at + 1 - u.arg <= at;
        from = around && u.at + 1 - u.arg < from ? u.at + 1 - u.arg : from;
        to = around ? u.at : to;
    }
    for (Units u = begin_units(code); next_unit(&u);) {
        bool loads = u.at >= from && u.at <= to && u.op == LOAD_NAME;
        PyObject *name = loads ? PyTuple_GET_ITEM(code->co_names, u.arg) : NULL;
        for (uint32_t i = 0; i < n && i < room && name != NULL; i++) {
            name = names[i] == name ? NULL : name;
        }
        if (name != NULL && n < room) {
            names[n] = name;
        }
        n += name != NULL;
    }
    return from > at ? DYN_NONE : n;
}

/* ---- decoded */

enum { LOADED = 1, STORED = 2, IN_LOOP = 4, NEVER = 8, MADE = 16, SHARED = 32 }; /* what is done with a name */

/* CPython gives a module other instructions for names that a function, or the module itself, declares global. */
static bool loads(const DynInstr *in) { return in->op == DYN_I_LOAD_NAME || (in->op == DYN_I_LOAD_GLOBAL && in->sub == 0); }
static bool stores(const DynInstr *in) { return in->op == DYN_I_STORE_NAME || in->op == DYN_I_STORE_GLOBAL; }

static void note(const DynCode *c, uint32_t i, bool in_loop, uint8_t *uses) {
    const DynInstr *in = &c->v.at[i];
    uint8_t before = i > 0 ? c->v.at[i - 1].op : (uint8_t)DYN_I_NOP, use = 0;
    bool made = before == DYN_I_MAKE_FUNCTION || before == DYN_I_SET_FUNCTION_ATTRIBUTE || before == DYN_I_IMPORT_NAME ||
                before == DYN_I_IMPORT_FROM;
    switch (in->op) {
    case DYN_I_LOAD_GLOBAL:
    case DYN_I_LOAD_NAME: use = loads(in) ? LOADED : NEVER; break;
    case DYN_I_STORE_GLOBAL:
    case DYN_I_STORE_NAME: use = made ? MADE : STORED; break;
    case DYN_I_DELETE_NAME:
    case DYN_I_DELETE_GLOBAL: use = NEVER; break;
    default: return;
    }
    use |=
        in->op == DYN_I_LOAD_GLOBAL || in->op == DYN_I_STORE_GLOBAL ? SHARED | IN_LOOP : 0; /* what a loop calls may store it */
    uses[in->arg] |= in_loop ? use | IN_LOOP | ((use & MADE) != 0 ? NEVER : 0) : use;
}

/* For each name what is done with it; NULL: memory is out. */
static uint8_t *find_uses(const DynCode *c) {
    uint8_t *uses = PyMem_RawCalloc((size_t)PyTuple_GET_SIZE(c->code->co_names) + c->v.n + 1, 1);
    uint8_t *in_loop = uses == NULL ? NULL : uses + PyTuple_GET_SIZE(c->code->co_names);
    for (uint32_t i = 0; in_loop != NULL && i < c->v.n; i++) {
        bool back = dyn_has_target(&c->v.at[i]) && c->v.at[i].target <= i;
        for (uint32_t k = back ? c->v.at[i].target : i + 1; k <= i; k++) {
            in_loop[k] = 1;
        }
    }
    for (uint32_t i = 0; in_loop != NULL && i < c->v.n; i++) {
        note(c, i, in_loop[i] != 0, uses);
    }
    return uses;
}

/* What a module makes once and calls is better taken for granted than looked at. */
static bool is_fixed(PyObject *o) { return PyCallable_Check(o) || PyModule_Check(o); }

static bool is_variable(uint8_t use, PyObject *name, PyObject *dict) {
    if ((use & IN_LOOP) == 0 || (use & NEVER) != 0) {
        return false;
    }
    PyObject *now = PyDict_GetItemWithError(dict, name);
    PyErr_Clear();
    bool stored = (use & STORED) != 0;
    return now != NULL ? !is_fixed(now) : stored && (use & MADE) == 0;
}

/* The code with the variables as its last locals. */
static PyCodeObject *with_locals(PyCodeObject *code, PyObject *names) {
    PyObject *own = PyObject_GetAttrString((PyObject *)code, "co_varnames");
    PyObject *all = own == NULL ? NULL : PySequence_Concat(own, names);
    PyObject *replace = all == NULL ? NULL : PyObject_GetAttrString((PyObject *)code, "replace");
    PyObject *none = replace == NULL ? NULL : PyTuple_New(0);
    PyObject *how = none == NULL ? NULL : Py_BuildValue("{s:O,s:n}", "co_varnames", all, "co_nlocals", PyTuple_GET_SIZE(all));
    PyObject *made = how == NULL ? NULL : PyObject_Call(replace, none, how);
    Py_XDECREF(how);
    Py_XDECREF(none);
    Py_XDECREF(replace);
    Py_XDECREF(all);
    Py_XDECREF(own);
    return (PyCodeObject *)made;
}

static void put_slots(DynCode *c, const uint32_t *slots) {
    for (uint32_t i = 0; i < c->v.n; i++) {
        DynInstr *in = &c->v.at[i];
        if ((loads(in) || stores(in)) && slots[in->arg] != DYN_NONE) {
            in->op = loads(in) ? DYN_I_LOAD_FAST : DYN_I_STORE_FAST;
            in->arg = slots[in->arg];
        }
    }
}

/* The variables that are shared, or that aren't, become slots: their names go to the list, and for each name its slot. */
static int choose(const DynCode *c, PyObject *dict, const uint8_t *uses, bool shared, PyObject *list, uint32_t *slots) {
    PyObject *names = c->code->co_names;
    int done = 0;
    for (Py_ssize_t i = 0; done == 0 && i < PyTuple_GET_SIZE(names); i++) {
        bool chosen = ((uses[i] & SHARED) != 0) == shared && is_variable(uses[i], PyTuple_GET_ITEM(names, i), dict);
        if (chosen) {
            slots[i] = (uint32_t)(dyn_code_nlocalsplus(c->code) + PyList_GET_SIZE(list));
            done = PyList_Append(list, PyTuple_GET_ITEM(names, i));
        }
    }
    return done;
}

/* slots: of each name; room for them. */
static DynCode *decode_with(const DynCode *own, PyObject *dict, const uint8_t *uses, uint32_t *slots) {
    PyObject *list = PyList_New(0), *names = NULL;
    Py_ssize_t nshared = 0;
    memset(slots, 0xff, (size_t)PyTuple_GET_SIZE(own->code->co_names) * sizeof *slots); /* DYN_NONE */
    if (list != NULL && choose(own, dict, uses, false, list, slots) == 0) {
        nshared = -PyList_GET_SIZE(list);
        names = choose(own, dict, uses, true, list, slots) == 0 ? PyList_AsTuple(list) : NULL;
        nshared += PyList_GET_SIZE(list);
    }
    PyCodeObject *code = names == NULL || PyTuple_GET_SIZE(names) == 0 ? NULL : with_locals(own->code, names);
    DynCode *c = code == NULL ? NULL : dyn_decode(code);
    if (c != NULL) {
        c->nnamed = (uint32_t)PyTuple_GET_SIZE(names);
        c->nshared = (uint32_t)nshared;
        put_slots(c, slots);
    }
    Py_XDECREF(code);
    Py_XDECREF(names);
    Py_XDECREF(list);
    return c;
}

DynCode *dyn_decode_names(PyCodeObject *code, PyObject *dict) {
    bool may = (code->co_flags & CO_OPTIMIZED) == 0 && dyn_code_ncells(code) == 0 && dyn_code_nfree(code) == 0;
    DynCode *own = may ? dyn_decode(code) : NULL, *c = NULL;
    uint8_t *uses = own == NULL || own->generator ? NULL : find_uses(own);
    uint32_t *slots = uses == NULL ? NULL : PyMem_RawMalloc(((size_t)PyTuple_GET_SIZE(code->co_names) + 1) * sizeof *slots);
    if (slots != NULL) {
        c = decode_with(own, dict, uses, slots);
    }
    PyMem_RawFree(slots);
    PyMem_RawFree(uses);
    if (own != NULL) {
        dyn_decode_free(own);
    }
    PyErr_Clear();
    return c;
}
