/* rec_stack.c: handlers that move values: locals, globals, cells, constants, and the containers that bytecode builds.
 *
 * Called from record.c's table. What would raise is left to CPython: such an instruction bails out before it runs. */
#include "base/torch.h"
#include "tracer/record/rec_segment.h"

Step rec_NOP(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)r, (void)f, (void)in;
    return STEP_NEXT;
}

static Step push_both(RecFrame *f, PyObject *real /* owned */, DynVal *v) {
    push_real(f, real);
    if (v == NULL) {
        return STEP_BREAK;
    }
    push_shadow(f, v);
    return STEP_NEXT;
}

Step rec_LOAD_FAST(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *o = rec_local(f, in->arg);
    if (o == NULL) {
        return step_bail(r, DYN_R_EXCEPTION, "unbound local variable");
    }
    return push_both(f, Py_NewRef(o), f->shadow[in->arg]);
}

Step rec_LOAD_FAST_AND_CLEAR(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynVal *null = rec_new(r, DV_NULL);
    if (null == NULL) {
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    push_real(f, dyn_frame_take(f->f, in->arg));
    push_shadow(f, f->shadow[in->arg]);
    f->shadow[in->arg] = null;
    return STEP_NEXT;
}

static void set_slot(RecFrame *f, uint32_t slot, PyObject *o, DynVal *v) {
    PyObject *old = dyn_frame_take(f->f, slot);
    dyn_frame_put(f->f, slot, o);
    f->shadow[slot] = v;
    Py_XDECREF(old);
}

Step rec_STORE_FAST(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)r;
    PyObject *o = f->real[--f->sp];
    DynVal *v = f->shadow[--f->ssp];
    set_slot(f, in->arg, o, v);
    return STEP_NEXT;
}

Step rec_DELETE_FAST(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynVal *null = rec_new(r, DV_NULL);
    if (null == NULL || rec_local(f, in->arg) == NULL) {
        return step_bail(r, DYN_R_EXCEPTION, "unbound local variable");
    }
    set_slot(f, in->arg, NULL, null);
    return STEP_NEXT;
}

Step rec_LOAD_SMALL_INT(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *o = PyLong_FromUnsignedLong(in->arg);
    DynVal *v = o == NULL ? NULL : dyn_rec_const(r, o);
    if (v == NULL) {
        Py_XDECREF(o);
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    return push_both(f, o, v);
}

static PyObject *constant(RecFrame *f, uint32_t i) { return PyTuple_GET_ITEM(f->code->code->co_consts, i); }

/* A slice of constants, which is a constant itself from 3.14 on: as BUILD_SLICE makes it. */
static DynVal *constant_slice(DynRec *r, PyObject *o) {
    PySliceObject *s = (PySliceObject *)o;
    return rec_new_slice(r, DV_SLICE, dyn_rec_const(r, s->start), dyn_rec_const(r, s->stop), dyn_rec_const(r, s->step));
}

Step rec_LOAD_CONST(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *o = constant(f, in->arg);
    DynVal *v = PySlice_Check(o) ? constant_slice(r, o) : dyn_rec_const(r, o);
    return v == NULL ? step_bail(r, DYN_R_NO_MEMORY, NULL) : push_both(f, Py_NewRef(o), v);
}

/* Globals, then builtins: exact dicts with str keys, so no Python code runs. */
static PyObject *load_global(DynRec *r, RecFrame *f, PyObject *name, DynVal **v) {
    PyObject *globals = dyn_frame_globals(f->f), *builtins = dyn_frame_builtins(f->f);
    if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) {
        return NULL;
    }
    PyObject *o = PyDict_GetItemWithError(globals, name);
    if (o != NULL) {
        *v = rec_source_dict(r, globals, name);
        return o;
    }
    if (PyErr_Occurred() || (o = PyDict_GetItemWithError(builtins, name)) == NULL) {
        PyErr_Clear();
        return NULL;
    }
    DynVal *missing = rec_source_dict(r, globals, name);
    if (missing == NULL || rec_guard(r, DYN_GUARD_MISSING, missing->source, DYN_NONE, 0, NULL) < 0) {
        return NULL;
    }
    *v = rec_source_dict(r, builtins, name);
    return o;
}

Step rec_LOAD_GLOBAL(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynVal *v = NULL, *null = rec_new(r, DV_NULL);
    PyObject *o = load_global(r, f, rec_name(f, in->arg), &v);
    if (o == NULL || v == NULL || null == NULL) {
        return step_bail(r, DYN_R_EXCEPTION, "global that isn't there");
    }
    if (dyn_cpy_is_lazy_import(o)) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "lazy import");
    }
    bool with_null = in->sub == 1, null_first = dyn_call_null_first();
    if (with_null && null_first) {
        push_real(f, NULL);
        push_shadow(f, null);
    }
    push_both(f, Py_NewRef(o), v);
    if (with_null && !null_first) {
        push_real(f, NULL);
        push_shadow(f, null);
    }
    return STEP_NEXT;
}

/* The class itself is made by an opaque call. */
Step rec_LOAD_BUILD_CLASS(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    PyObject *builtins = dyn_frame_builtins(f->f), *name = PyUnicode_InternFromString("__build_class__");
    bool exact = PyDict_CheckExact(builtins) && name != NULL;
    PyObject *o = exact ? PyDict_GetItemWithError(builtins, name) : NULL;
    DynVal *v = o == NULL ? NULL : rec_source_dict(r, builtins, name);
    Py_XDECREF(name);
    PyErr_Clear();
    return v == NULL ? step_bail(r, DYN_R_UNSUPPORTED_OPCODE, "class statement") : push_both(f, Py_NewRef(o), v);
}

/* The dict itself as an object that was looked at: what came in may be it. */
int rec_store_global(DynRec *r, PyObject *dict, PyObject *name, DynVal *value) {
    uint32_t own = dyn_source_intern(&r->cap->sources, DYN_SRC_CONST, DYN_NONE, 0, dict, NULL);
    uint32_t s = own == DYN_NONE ? own : dyn_source_intern(&r->cap->sources, DYN_SRC_DICT, DYN_NONE, 0, dict, name);
    DynVal *d = s == DYN_NONE || rec_source(r, s) == NULL ? NULL : rec_source(r, own);
    if (d == NULL) {
        r->why = DYN_R_NO_MEMORY;
        return -1;
    }
    d->kind = d->kind == DV_SOURCE ? DV_OPAQUE : d->kind; /* its items are not looked at */
    DynVal *items[3] = {d, rec_object(r, name), value};
    if (d->kind != DV_OPAQUE || items[1] == NULL || rec_effect(r, (DynOperand){d, dict}, DYN_FX_SETITEM, NULL, 3, items) < 0) {
        return -1;
    }
    r->by_source.at[s] = value;
    return 0;
}

Step rec_STORE_GLOBAL(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *globals = dyn_frame_globals(f->f), *name = rec_name(f, in->arg);
    bool exact = PyDict_CheckExact(globals);
    int status = PyObject_SetItem(globals, name, *real_top(f, 1));
    r->why = DYN_R_SIDE_EFFECT;
    if (status == 0) {
        status = exact && rec_store_global(r, globals, name, *shadow_top(f, 1)) == 0 ? 0 : 1;
    }
    return rec_commit_none(r, f, 1, status);
}

/* ---- cells */

Step rec_MAKE_CELL(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *old = rec_local(f, in->arg), *cell = PyCell_New(old);
    DynVal *v = rec_new_cell(r, old ? f->shadow[in->arg] : NULL);
    if (cell == NULL || v == NULL) {
        PyErr_Clear();
        Py_XDECREF(cell);
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    v->fresh = true;
    set_slot(f, in->arg, cell, v);
    return STEP_NEXT;
}

/* A cell that came in, by the source of the cell itself and of what it holds. */
static DynVal *cell_that_came_in(DynRec *r, PyObject *cell, uint32_t own, uint32_t content) {
    for (uint32_t i = 0; i < r->seen.n; i++) {
        if (r->seen.at[i].real == cell) {
            uint32_t other = rec_found_at(r->seen.at[i].v);
            bool same = other == own || (other != DYN_NONE && rec_guard(r, DYN_GUARD_SAME, own, other, 0, NULL) == 0);
            return same && r->seen.at[i].v->kind == DV_CELL ? r->seen.at[i].v : NULL;
        }
    }
    bool empty = PyCell_GET(cell) == NULL;
    DynVal *inside = empty ? NULL : rec_source(r, content), *v = empty || inside != NULL ? rec_new_cell(r, inside) : NULL;
    if (v == NULL) {
        return NULL;
    }
    v->cell.found = own;
    return rec_saw(r, cell, v) < 0 ? NULL : v;
}

/* The shadow of closure cell i of the running function: made while recording, or found through the function. */
DynVal *rec_closure_cell(DynRec *r, RecFrame *f, uint32_t i, PyObject *cell) {
    DynVal *func = f->shadow[f->nall];
    DynSources *t = &r->cap->sources;
    if (func != NULL && func->kind == DV_FUNC) {
        DynVal *closure = func->function.closure;
        return closure != NULL && i < closure->n ? closure->items[i] : NULL;
    }
    PyCodeObject *code = f->code->code;
    PyObject *name = dyn_code_local_name(code, (int)(f->nslots - (uint32_t)dyn_code_nfree(code) + i));
    bool outermost = f->outer == NULL;
    uint32_t own = outermost ? dyn_source_intern(t, DYN_SRC_OWNCELL, DYN_NONE, i, name, NULL)
                             : dyn_source_intern(t, DYN_SRC_FCELL, f->func_source, i, NULL, NULL);
    uint32_t content = outermost ? dyn_source_intern(t, DYN_SRC_CLOSURE, DYN_NONE, i, name, NULL)
                                 : dyn_source_intern(t, DYN_SRC_FCLOSURE, f->func_source, i, NULL, NULL);
    return own == DYN_NONE || content == DYN_NONE ? NULL : cell_that_came_in(r, cell, own, content);
}

Step rec_COPY_FREE_VARS(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *closure = PyFunction_GetClosure(dyn_frame_func(f->f));
    bool fits = closure != NULL && PyTuple_GET_SIZE(closure) == (Py_ssize_t)in->arg;
    bool found = f->outer == NULL || f->func_source != DYN_NONE || f->shadow[f->nall] != NULL;
    if (!fits || !found) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "closure");
    }
    for (uint32_t i = 0; i < in->arg; i++) {
        uint32_t slot = f->nslots - in->arg + i;
        PyObject *cell = PyTuple_GET_ITEM(closure, i);
        DynVal *v = rec_closure_cell(r, f, i, cell);
        if (v == NULL) {
            v = rec_new(r, DV_OPAQUE);
        }
        set_slot(f, slot, Py_NewRef(cell), v);
    }
    return STEP_NEXT;
}

Step rec_LOAD_DEREF(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *cell = rec_local(f, in->arg);
    DynVal *v = f->shadow[in->arg];
    if (cell == NULL || !PyCell_Check(cell) || PyCell_GET(cell) == NULL) {
        return step_bail(r, DYN_R_EXCEPTION, "unbound free variable");
    }
    v = v->kind == DV_CELL ? v->cell.content : NULL;
    return v == NULL ? step_bail(r, DYN_R_UNSUPPORTED_VALUE, "closure") : push_both(f, Py_NewRef(PyCell_GET(cell)), v);
}

Step rec_STORE_DEREF(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *cell = rec_local(f, in->arg);
    DynVal *v = f->shadow[in->arg];
    if (cell == NULL || !PyCell_Check(cell)) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "closure");
    }
    int status = PyCell_Set(cell, *real_top(f, 1));
    r->why = DYN_R_SIDE_EFFECT;
    if (status == 0) {
        DynVal *items[2] = {v, *shadow_top(f, 1)};
        bool known = v->kind == DV_CELL;
        if (known) {
            v->cell.content = items[1];
        }
        status = known && rec_effect(r, (DynOperand){v, cell}, DYN_FX_SETCELL, NULL, 2, items) == 0 ? 0 : 1;
    }
    return rec_commit_none(r, f, 1, status);
}

/* ---- stack */

Step rec_POP_TOP(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)r, (void)in;
    f->ssp--;
    rec_drop(f, 1);
    return STEP_NEXT;
}

Step rec_COPY(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)r;
    DynOperand o = operand(f, in->arg);
    return push_both(f, Py_XNewRef(o.real), o.v);
}

Step rec_SWAP(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)r;
    DynOperand a = operand(f, 1), b = operand(f, in->arg);
    *real_top(f, 1) = b.real;
    *shadow_top(f, 1) = b.v;
    *real_top(f, in->arg) = a.real;
    *shadow_top(f, in->arg) = a.v;
    return STEP_NEXT;
}

Step rec_PUSH_NULL(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynVal *null = rec_new(r, DV_NULL);
    return null == NULL ? step_bail(r, DYN_R_NO_MEMORY, NULL) : push_both(f, NULL, null);
}

/* ---- building containers */

static Step build_sequence(DynRec *r, RecFrame *f, uint32_t n, DynValKind kind, PyObject *o) {
    if (o == NULL) {
        return STEP_ERROR;
    }
    return rec_commit(r, f, n, o, dyn_rec_seq(r, kind, n, &f->shadow[f->ssp - n], o));
}

Step rec_BUILD_TUPLE(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *t = PyTuple_New(in->arg);
    for (uint32_t i = 0; t != NULL && i < in->arg; i++) {
        PyTuple_SET_ITEM(t, i, Py_NewRef(f->real[f->sp - in->arg + i]));
    }
    if (t != NULL) {
        dyn_cpy_tuple_filled(t);
    }
    return build_sequence(r, f, in->arg, DV_TUPLE, t);
}

Step rec_BUILD_LIST(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *t = PyList_New(in->arg);
    for (uint32_t i = 0; t != NULL && i < in->arg; i++) {
        PyList_SET_ITEM(t, i, Py_NewRef(f->real[f->sp - in->arg + i]));
    }
    return build_sequence(r, f, in->arg, DV_LIST, t);
}

/* A set of plain constants keeps its items; of anything else it is a break, since equality would run Python code. */
Step rec_BUILD_SET(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *set = PySet_New(NULL);
    for (uint32_t i = 0; set != NULL && i < in->arg; i++) {
        if (PySet_Add(set, f->real[f->sp - in->arg + i]) < 0) {
            Py_CLEAR(set);
        }
    }
    if (set == NULL) {
        return STEP_ERROR;
    }
    bool plain = true;
    for (uint32_t i = 1; plain && i <= in->arg; i++) {
        DynOperand o = operand(f, i);
        plain = rec_plain_key(o.real) && dyn_rec_burn(r, o.v, o.real) == 0;
    }
    return rec_commit(r, f, in->arg, set, plain ? rec_wrap_fresh(r, set) : NULL);
}

int rec_dict_set(DynRec *r, DynVal *dict, PyObject *key, DynVal *value) {
    uint32_t at;
    if (rec_dict_find(dict, key, &at) != NULL) {
        dict->items[at + 1] = value;
        rec_changed(r, dict);
        return 0;
    }
    DynVal *k = rec_object(r, key);
    return k == NULL || rec_push_item(r, dict, k) < 0 || rec_push_item(r, dict, value) < 0 ? -1 : 0;
}

/* Keys of a dict that shadows can hold are burnt in. */
static int dict_set(DynRec *r, DynVal *dict, DynVal *key, PyObject *real, DynVal *value) {
    if (!rec_burn_key(r, (DynOperand){key, real})) {
        r->why = DYN_R_UNSUPPORTED_VALUE;
        return -1;
    }
    return rec_dict_put(r, dict, (DynOperand){key, real}, value);
}

Step rec_BUILD_MAP(DynRec *r, RecFrame *f, const DynInstr *in) {
    uint32_t n = 2 * in->arg;
    PyObject *dict = PyDict_New(), **real = &f->real[f->sp - n];
    DynVal **items = &f->shadow[f->ssp - n], *v = dyn_rec_seq(r, DV_DICT, 0, NULL, dict);
    for (uint32_t i = 0; dict != NULL && i < n; i += 2) {
        if (PyDict_SetItem(dict, real[i], real[i + 1]) < 0) {
            Py_DECREF(dict);
            return STEP_ERROR;
        }
        v = v != NULL && dict_set(r, v, items[i], real[i], items[i + 1]) == 0 ? v : NULL;
    }
    return dict == NULL ? STEP_ERROR : rec_commit(r, f, n, dict, v);
}

Step rec_BUILD_CONST_KEY_MAP(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *keys = *real_top(f, 1), *dict = PyDict_New(), **real = &f->real[f->sp - 1 - in->arg];
    DynVal **items = &f->shadow[f->ssp - 1 - in->arg], *v = dyn_rec_seq(r, DV_DICT, 0, NULL, dict);
    for (uint32_t i = 0; dict != NULL && i < in->arg; i++) {
        PyObject *key = PyTuple_GET_ITEM(keys, i);
        DynVal *k = dyn_rec_const(r, key);
        if (PyDict_SetItem(dict, key, real[i]) < 0) {
            Py_DECREF(dict);
            return STEP_ERROR;
        }
        v = v != NULL && k != NULL && dict_set(r, v, k, key, items[i]) == 0 ? v : NULL;
    }
    return dict == NULL ? STEP_ERROR : rec_commit(r, f, in->arg + 1, dict, v);
}

Step rec_BUILD_STRING(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *empty = PyUnicode_FromStringAndSize(NULL, 0), *parts = PyTuple_New(in->arg);
    bool constant = true;
    for (uint32_t i = 0; parts != NULL && i < in->arg; i++) {
        PyTuple_SET_ITEM(parts, i, Py_NewRef(f->real[f->sp - in->arg + i]));
    }
    PyObject *s = empty && parts ? PyUnicode_Join(empty, parts) : NULL;
    Py_XDECREF(empty);
    Py_XDECREF(parts);
    for (uint32_t i = 0; i < in->arg; i++) {
        DynOperand o = operand(f, i + 1);
        constant = constant && dyn_rec_resolve(r, o.v, o.real) == 0 && o.v->kind == DV_CONST;
    }
    return rec_commit(r, f, in->arg, s, s != NULL && constant ? dyn_rec_const(r, s) : NULL);
}

Step rec_BUILD_SLICE(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject **real = &f->real[f->sp - in->arg], *s = PySlice_New(real[0], real[1], in->arg == 3 ? real[2] : NULL);
    DynVal **parts = &f->shadow[f->ssp - in->arg], *step = in->arg == 3 ? parts[2] : dyn_rec_const(r, Py_None);
    return rec_commit(r, f, in->arg, s, s != NULL ? rec_new_slice(r, DV_SLICE, parts[0], parts[1], step) : NULL);
}

/* ---- adding to a container that the bytecode is building */

Step rec_LIST_APPEND(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynVal *list = *shadow_top(f, in->arg + 1);
    int status = PyList_Append(*real_top(f, in->arg + 1), *real_top(f, 1));
    if (status == 0) {
        status = list->kind == DV_LIST && list->fresh && rec_push_item(r, list, *shadow_top(f, 1)) == 0 ? 0 : 1;
    }
    return rec_commit_none(r, f, 1, status);
}

/* The set that the bytecode is building, as it is now. */
static int set_again(DynRec *r, DynVal *set, PyObject *real) {
    DynVal *now = set->kind == DV_SET && set->fresh ? rec_wrap_fresh(r, real) : NULL;
    if (now == NULL) {
        return 1;
    }
    set->items = now->items;
    set->n = now->n;
    set->cap = now->cap;
    rec_changed(r, set);
    return 0;
}

Step rec_SET_ADD(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand o = operand(f, 1), set = operand(f, in->arg + 1);
    int status = PySet_Add(set.real, o.real);
    if (status == 0) {
        status = rec_plain_key(o.real) && dyn_rec_burn(r, o.v, o.real) == 0 ? set_again(r, set.v, set.real) : 1;
    }
    return rec_commit_none(r, f, 1, status);
}

Step rec_SET_UPDATE(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand o = operand(f, 1), set = operand(f, in->arg + 1);
    bool plain = PyAnySet_CheckExact(o.real) || PyTuple_CheckExact(o.real) || PyList_CheckExact(o.real);
    bool known = plain && (o.v->kind == DV_CONST || dyn_rec_burn(r, o.v, o.real) == 0);
    if (!known) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "set from an iterator");
    }
    PyObject *none = PyObject_CallMethod(set.real, "update", "(O)", o.real);
    Py_XDECREF(none);
    return rec_commit_none(r, f, 1, none == NULL ? -1 : set_again(r, set.v, set.real));
}

Step rec_MAP_ADD(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynVal *dict = *shadow_top(f, in->arg + 2);
    int status = PyDict_SetItem(*real_top(f, in->arg + 2), *real_top(f, 2), *real_top(f, 1));
    if (status == 0) {
        status =
            dict->kind == DV_DICT && dict->fresh && dict_set(r, dict, *shadow_top(f, 2), *real_top(f, 2), *shadow_top(f, 1)) == 0
                ? 0
                : 1;
    }
    return rec_commit_none(r, f, 2, status);
}

Step rec_LIST_EXTEND(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand list = operand(f, in->arg + 1), more = operand(f, 1);
    DynVal **items;
    uint32_t n;
    if (rec_is_iterator(more.v)) { /* nobody sees the list before it is whole */
        more.real = rec_take_all(r, more, &more.v);
        if (more.real == NULL) {
            return STEP_ERROR;
        }
        int kept = rec_keep(r, more.real);
        Py_DECREF(more.real);
        if (kept < 0) {
            PyErr_NoMemory();
            return STEP_ERROR;
        }
    }
    bool own = list.v->kind == DV_LIST && list.v->fresh;
    bool known = own && more.v != NULL && rec_items(r, more.v, more.real, &items, &n) == 0;
    if (!PyTuple_CheckExact(more.real) && !PyList_CheckExact(more.real) && !known) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "list from an iterator");
    }
    PyObject *none = PyObject_CallMethod(list.real, "extend", "(O)", more.real);
    for (uint32_t i = 0; known && i < n; i++) {
        known = rec_push_item(r, list.v, items[i]) == 0;
    }
    Py_XDECREF(none);
    int status = known ? 0 : 1;
    return rec_commit_none(r, f, 1, none == NULL ? -1 : status);
}

static Step update_dict(DynRec *r, RecFrame *f, const DynInstr *in, bool unique) {
    DynOperand dict = operand(f, in->arg + 1), more = operand(f, 1);
    bool own = dict.v->kind == DV_DICT && dict.v->fresh;
    bool known = PyDict_Check(more.real) && dyn_rec_resolve(r, more.v, more.real) == 0 && more.v->kind == DV_DICT;
    if (!own || !known) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "dict update");
    }
    for (uint32_t i = 0; unique && i < more.v->n; i += 2) {
        if (rec_dict_find(dict.v, rec_constant_of(more.v->items[i]), NULL) != NULL) {
            return step_bail(r, DYN_R_EXCEPTION, "keyword given twice");
        }
    }
    int status = PyDict_Update(dict.real, more.real);
    for (uint32_t i = 0; status == 0 && i < more.v->n; i += 2) {
        status = dict_set(r, dict.v, more.v->items[i], rec_constant_of(more.v->items[i]), more.v->items[i + 1]) == 0 ? 0 : 1;
    }
    return rec_commit_none(r, f, 1, status);
}
Step rec_DICT_UPDATE(DynRec *r, RecFrame *f, const DynInstr *in) { return update_dict(r, f, in, false); }
Step rec_DICT_MERGE(DynRec *r, RecFrame *f, const DynInstr *in) { return update_dict(r, f, in, true); }

Step rec_LIST_TO_TUPLE(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand o = operand(f, 1);
    PyObject *t = PyList_AsTuple(o.real);
    DynVal *v = o.v->kind == DV_LIST ? dyn_rec_seq(r, DV_TUPLE, o.v->n, o.v->items, t) : NULL;
    return rec_commit(r, f, 1, t, v);
}

/* ---- taking containers apart */

Py_ssize_t rec_count_rows(PyObject *array) {
    DynArrayView view;
    return dyn_array_look(array, &view) && view.ndim > 0 ? (Py_ssize_t)view.dims[0] : -1;
}

/* Row i, as iterating gives it: of a tensor that is `unbound`. */
static PyObject *row_of(PyObject *array, PyObject *unbound, uint32_t i, PyObject *index) {
    return unbound == NULL ? PyObject_GetItem(array, index) : PySequence_GetItem(unbound, i);
}

int rec_array_rows(DynRec *r, DynOperand a, uint32_t n, DynVal **items, PyObject **real) {
    PyObject *unbound = dyn_torch_is(a.real) ? PyObject_CallMethod(a.real, "unbind", NULL) : NULL;
    if (unbound == NULL && PyErr_Occurred()) {
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        PyObject *index = PyLong_FromUnsignedLong(i);
        real[i] = index ? row_of(a.real, unbound, i, index) : NULL;
        if (real[i] == NULL) {
            Py_XDECREF(index);
            Py_XDECREF(unbound);
            return -1;
        }
        DynVal *iv = dyn_rec_const(r, index);
        items[i] = iv ? dyn_np_subscr(r, a, (DynOperand){iv, index}, real[i]) : NULL;
        Py_DECREF(index);
    }
    Py_XDECREF(unbound);
    return 0;
}

static Step unpack_array(DynRec *r, RecFrame *f, uint32_t n) {
    DynOperand a = operand(f, 1);
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, n + 1);
    PyObject **real = DYN_NEW_N(&r->arena, PyObject *, n + 1);
    if (items == NULL || real == NULL || rec_count_rows(a.real) != (Py_ssize_t)n) {
        return step_bail(r, DYN_R_EXCEPTION, "unpacking");
    }
    const DynNode *node = dyn_graph_node(&r->cap->graph, rec_node_of(a.v));
    uint32_t size = node->shape[0], want = dyn_sym_int(&r->cap->syms, n);
    bool known = want != DYN_NONE && dyn_rec_assume_equal(r, size, want) == 0;
    if (rec_array_rows(r, a, n, items, real) < 0) {
        for (uint32_t i = 0; i < n; i++) {
            Py_XDECREF(real[i]);
        }
        return STEP_ERROR;
    }
    for (uint32_t i = 0; i < n; i++) {
        known = known && items[i] != NULL;
    }
    PyObject *old = f->real[--f->sp];
    for (uint32_t i = n; i-- > 0;) {
        push_real(f, real[i]);
    }
    Py_DECREF(old);
    if (!known) {
        return STEP_BREAK;
    }
    f->ssp--;
    for (uint32_t i = n; i-- > 0;) {
        push_shadow(f, items[i]);
    }
    return STEP_NEXT;
}

/* As CPython does: exactly so many values, and one step more that finds the end. */
static Step unpack_iterator(DynRec *r, RecFrame *f, uint32_t want) {
    DynOperand o = operand(f, 1);
    PyObject **real = DYN_NEW_N(&r->arena, PyObject *, want + 1);
    DynVal **v = DYN_NEW_N(&r->arena, DynVal *, want + 1);
    uint32_t got = 0;
    if (real == NULL || v == NULL) {
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    while (got <= want && (real[got] = rec_take(r, o, &v[got])) != NULL) {
        got++;
    }
    if (got != want && !PyErr_Occurred()) {
        if (got < want) {
            PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %u, got %u)", want, got);
        } else {
            PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %u)", want);
        }
    }
    if (PyErr_Occurred()) {
        while (got > 0) {
            Py_DECREF(real[--got]);
        }
        return STEP_ERROR;
    }
    bool known = !r->take_lost && rec_snapshot_new_nodes(r) == 0;
    f->sp--;
    for (uint32_t i = want; i-- > 0;) {
        push_real(f, real[i]);
    }
    f->ssp -= known;
    for (uint32_t i = want; known && i-- > 0;) {
        push_shadow(f, v[i]);
    }
    Py_DECREF(o.real);
    return known ? STEP_NEXT : STEP_BREAK;
}

Step rec_UNPACK_SEQUENCE(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand o = operand(f, 1);
    DynVal **items;
    uint32_t n, want = in->arg;
    if (dyn_rec_resolve(r, o.v, o.real) < 0) {
        return step_bail(r, r->why, "unpacking");
    }
    if (o.v->kind == DV_ARRAY) {
        return unpack_array(r, f, want);
    }
    if (rec_is_iterator(o.v)) {
        return unpack_iterator(r, f, want);
    }
    bool known = rec_is_sequence(o.real) && rec_items(r, o.v, o.real, &items, &n) == 0;
    if (!known || n != want || PySequence_Fast_GET_SIZE(o.real) != (Py_ssize_t)want) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "unpacking");
    }
    f->sp--;
    f->ssp--;
    for (uint32_t i = want; i-- > 0;) {
        push_real(f, Py_NewRef(PySequence_Fast_GET_ITEM(o.real, i)));
        push_shadow(f, items[i]);
    }
    Py_DECREF(o.real);
    return STEP_NEXT;
}

Step rec_UNPACK_EX(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand o = operand(f, 1);
    uint32_t before = in->arg & 0xFF, after = in->arg >> 8, n;
    DynVal **items;
    if (!rec_is_sequence(o.real) || rec_items(r, o.v, o.real, &items, &n) < 0 || n < before + after) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "unpacking");
    }
    uint32_t middle = n - before - after;
    PyObject *rest = PySequence_List(o.real), *part = rest ? PyList_GetSlice(rest, before, before + middle) : NULL;
    DynVal *v = dyn_rec_seq(r, DV_LIST, middle, items + before, part);
    Py_XDECREF(rest);
    if (part == NULL || v == NULL) {
        PyErr_Clear();
        Py_XDECREF(part);
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    f->sp--;
    f->ssp--;
    for (uint32_t i = n; i-- > before + middle;) {
        push_both(f, Py_NewRef(PySequence_Fast_GET_ITEM(o.real, i)), items[i]);
    }
    push_both(f, part, v);
    for (uint32_t i = before; i-- > 0;) {
        push_both(f, Py_NewRef(PySequence_Fast_GET_ITEM(o.real, i)), items[i]);
    }
    Py_DECREF(o.real);
    return STEP_NEXT;
}

/* ---- strings */

static PyObject *convert(PyObject *o, int how) {
    static PyObject *(*const conversions[])(PyObject *) = {[1] = PyObject_Str, [2] = PyObject_Repr, [3] = PyObject_ASCII};
    return how >= 1 && how <= 3 ? conversions[how](o) : Py_NewRef(o);
}

/* Is its text the same at every call? Ints and strings are burnt in; floats would make an entry for each value. */
bool rec_has_one_text(DynRec *r, DynOperand o) {
    if (dyn_rec_resolve(r, o.v, o.real) < 0) {
        return false;
    }
    if (o.v->kind == DV_SYM) {
        bool whole = dyn_sym_at(&r->cap->syms, rec_sym_of(o.v))->type != DYN_T_FLOAT;
        return (whole || dyn_sym_is_const(&r->cap->syms, rec_sym_of(o.v))) && dyn_rec_burn(r, o.v, o.real) == 0;
    }
    if (PyExceptionInstance_Check(o.real)) {
        return rec_error_has_one_text(r, o);
    }
    if (dyn_is_tuple(o.real) && o.v->kind == DV_TUPLE) {
        bool all = true;
        for (uint32_t i = 0; all && i < o.v->n; i++) {
            all = rec_has_one_text(r, (DynOperand){o.v->items[i], PyTuple_GET_ITEM(o.real, i)});
        }
        return all;
    }
    bool plain = rec_is_text(o.real) || o.real == Py_None || rec_is_exact_number(o.real);
    return o.v->kind == DV_CONST && (plain || rec_is_fact(o.real) || dyn_torch_is_constant(o.real));
}

Step rec_CONVERT_VALUE(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand o = operand(f, 1);
    bool known = rec_has_one_text(r, o);
    PyObject *s = convert(o.real, in->sub);
    return rec_commit(r, f, 1, s, known && s ? dyn_rec_const(r, s) : NULL);
}

Step rec_FORMAT_VALUE(DynRec *r, RecFrame *f, const DynInstr *in) {
    uint32_t n = in->arg ? 2 : 1;
    DynOperand o = operand(f, n);
    DynOperand format = n == 2 ? operand(f, 1) : (DynOperand){0};
    bool known = rec_has_one_text(r, o);
    if (known && format.v != NULL) {
        known = dyn_rec_resolve(r, format.v, format.real) == 0 && format.v->kind == DV_CONST;
    }
    PyObject *value = convert(o.real, in->sub), *s = value ? PyObject_Format(value, format.real) : NULL;
    Py_XDECREF(value);
    return rec_commit(r, f, n, s, known && s ? dyn_rec_const(r, s) : NULL);
}
