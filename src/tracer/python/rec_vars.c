/* rec_vars.c: what instances of Python classes hold beside attributes: `__dict__`, read name by name (DV_VARS), and the items of
 * those whose class derives from dict or OrderedDict (DynVal.extra of a DV_OBJECT that was made inside: a DV_DICT, which nobody
 * can get hold of).
 *
 * What the class has in Python for an operation is followed as for any instance. Here is what the builtin base does where it is
 * called: by an operator that the class leaves alone, or through super(). Called by the handlers of attributes, subscripts, calls
 * and by rec_object.c. */
#include "tracer/record/rec_state.h"

/* ---- __dict__ */

DynVal *rec_vars(DynRec *r, DynOperand o) {
    DynVal *items[1] = {o.v}, *v = dyn_rec_seq(r, DV_VARS, 1, items, NULL);
    return v != NULL && rec_keep(r, o.real) == 0 ? (v->obj = o.real, v) : NULL;
}

static RecAttr look_up(DynRec *r, DynVal *vars, DynOperand name, DynVal **v) {
    DynOperand o = {vars->items[0], vars->obj};
    bool known = PyUnicode_CheckExact(name.real) && dyn_rec_burn(r, name.v, name.real) == 0;
    return known ? rec_own_attr(r, o, name.real, v) : REC_ATTR_UNKNOWN;
}

/* vars(o).get(name), vars(o).get(name, otherwise) */
static DynVal *get_var(DynRec *r, const RecCall *c, PyObject **result) {
    DynVal *v = NULL;
    RecAttr how = look_up(r, c->args[0].v, c->args[1], &v);
    *result = rec_call_real(c);
    v = how != REC_ATTR_MISSING ? v : c->npos == 3 ? c->args[2].v : dyn_rec_const(r, Py_None);
    return *result == NULL || how == REC_ATTR_UNKNOWN ? NULL : v;
}

DynVal *rec_var_item(DynRec *r, DynOperand vars, DynOperand name) {
    DynVal *v = NULL;
    return look_up(r, vars.v, name, &v) == REC_ATTR_VALUE ? v : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "__dict__");
}

bool rec_has_var(DynRec *r, DynOperand vars, DynOperand name) {
    DynVal *v = NULL;
    return look_up(r, vars.v, name, &v) != REC_ATTR_UNKNOWN;
}

/* ---- instances that are dicts */

PyTypeObject *rec_dict_base(PyTypeObject *type) {
    PyTypeObject *base = type;
    while (base != NULL && (base->tp_flags & Py_TPFLAGS_HEAPTYPE) && !(base->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) {
        base = base->tp_base;
    }
    bool misses = dyn_cpy_lookup_named(type, "__missing__") != NULL;
    return base != type && !misses && (base == &PyDict_Type || base == &PyODict_Type) ? base : NULL;
}

int rec_dict_made(DynRec *r, DynVal *v, PyTypeObject *base) {
    DynVal *content = dyn_rec_seq(r, DV_DICT, 0, NULL, NULL);
    if (content == NULL) {
        return -1;
    }
    content->type = base == &PyDict_Type ? NULL : (PyObject *)base;
    content->hidden = true;
    v->extra = content;
    return 0;
}

DynOperand rec_contents(DynOperand o) {
    return o.v->kind == DV_OBJECT && o.v->extra != NULL ? (DynOperand){o.v->extra, o.real} : o;
}

static bool is(const char *name, const char *other) { return strcmp(name, other) == 0; }

/* A method of the builtin base that asks nothing of the class, and its items as they are. */
static DynVal *call_base(DynRec *r, const RecCall *c, DynOperand dict, PyObject **result, const char *name) {
    DynOperand key = c->npos > 1 ? c->args[1] : (DynOperand){0};
    bool keyed = key.v != NULL && rec_plain_key(key.real) && dyn_rec_burn(r, key.v, key.real) == 0;
    uint32_t at;
    if (is(name, "keys") || is(name, "values") || is(name, "items") || is(name, "get")) {
        RecCall of = *c;
        if ((of.args = DYN_NEW_N(&r->arena, DynOperand, c->npos + 1)) == NULL) {
            return NULL;
        }
        memcpy(of.args, c->args, c->npos * sizeof *c->args);
        of.args[0] = dict;
        return rec_dict_method(r, &of, result, name);
    }
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    if (is(name, "__init__") && c->npos == 1) {
        return dyn_rec_const(r, *result);
    }
    if (is(name, "__len__")) {
        return dyn_rec_const(r, *result);
    }
    if (!keyed) {
        return NULL;
    }
    if (is(name, "__getitem__")) {
        return rec_dict_find(dict.v, key.real, NULL);
    }
    if (is(name, "__contains__")) {
        return dyn_rec_const(r, *result);
    }
    bool set = is(name, "__setitem__") && c->npos == 3, del = is(name, "__delitem__");
    if (set && rec_dict_set(r, dict.v, key.real, c->args[2].v) == 0) {
        rec_changed(r, c->args[0].v);
        return dyn_rec_const(r, *result);
    }
    if (del && rec_dict_find(dict.v, key.real, &at) != NULL) {
        rec_dict_drop(dict.v, at);
        rec_changed(r, c->args[0].v);
        return dyn_rec_const(r, *result);
    }
    return NULL;
}

/* A key of an instance that came in and is a dict: its value at a source of its own, or that there is none. The others aren't
 * looked at. */
DynVal *rec_held_key(DynRec *r, DynOperand o, DynOperand key, bool *missing) {
    bool known = rec_plain_key(key.real) && dyn_rec_burn(r, key.v, key.real) == 0;
    PyObject *value = known ? PyDict_GetItemWithError(o.real, key.real) : NULL;
    uint32_t s = known ? dyn_source_intern(&r->cap->sources, DYN_SRC_KEY, o.v->source, 0, NULL, key.real) : DYN_NONE;
    *missing = s != DYN_NONE && value == NULL && rec_guard(r, DYN_GUARD_MISSING, s, DYN_NONE, 0, NULL) == 0;
    return s == DYN_NONE || value == NULL ? NULL : rec_source(r, s);
}

static DynVal *call_came_in(DynRec *r, const RecCall *c, PyObject **result, const char *name) {
    bool missing = false, asks = is(name, "get") || is(name, "__contains__") || is(name, "__getitem__");
    DynVal *v = asks && c->npos >= 2 ? rec_held_key(r, c->args[0], c->args[1], &missing) : NULL;
    *result = rec_call_real(c);
    if (*result == NULL || (v == NULL && !missing)) {
        return NULL;
    }
    return is(name, "__contains__") ? dyn_rec_const(r, *result)
           : v != NULL              ? v
           : c->npos == 3           ? c->args[2].v
                                    : dyn_rec_const(r, *result);
}

bool rec_is_held(DynOperand o) {
    return o.v->kind == DV_OBJECT && !o.v->fresh && o.v->source != DYN_NONE && PyDict_Check(o.real) &&
           rec_dict_base(Py_TYPE(o.real)) != NULL;
}

DynVal *rec_call_held(DynRec *r, const RecCall *c, PyObject **result, bool *handled) {
    PyObject *f = c->callable.real;
    bool descr = Py_TYPE(f) == &PyMethodDescr_Type || Py_TYPE(f) == &PyWrapperDescr_Type;
    if (!descr || c->npos == 0 || c->nkw != 0) {
        return NULL;
    }
    const char *name = PyUnicode_AsUTF8(((PyDescrObject *)f)->d_name);
    PyTypeObject *of = ((PyDescrObject *)f)->d_type;
    DynOperand self = c->args[0], dict = rec_contents(self);
    /* dict's own methods go past an OrderedDict's order: they read, and nothing else */
    bool reads = name != NULL && (is(name, "get") || is(name, "__getitem__") || is(name, "__contains__") || is(name, "__len__"));
    bool of_dict = of == rec_dict_base(Py_TYPE(self.real)) || (of == &PyDict_Type && (reads || self.v->kind == DV_VARS));
    if (name == NULL || !of_dict || (self.v->kind != DV_VARS && dict.v == self.v && !rec_is_held(self))) {
        PyErr_Clear();
        return NULL;
    }
    *handled = true;
    DynVal *v = NULL;
    r->why = DYN_R_UNSUPPORTED_VALUE;
    r->detail = NULL;
    if (self.v->kind == DV_VARS && is(name, "get") && c->npos >= 2) {
        v = get_var(r, c, result);
    } else if (self.v->kind == DV_VARS) {
        *result = rec_call_real(c);
    } else if (dict.v == self.v) {
        v = call_came_in(r, c, result, name);
    } else {
        v = call_base(r, c, dict, result, name);
    }
    return v != NULL || *result == NULL ? v : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, r->detail != NULL ? r->detail : name);
}
