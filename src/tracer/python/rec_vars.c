/* rec_vars.c: what instances of Python classes hold beside attributes: `__dict__`, read name by name (DV_VARS), and the items of
 * those whose class derives from dict or OrderedDict (DynVal.contents of a DV_OBJECT that was made inside: a DV_DICT, which
 * nobody can get hold of).
 *
 * What the class has in Python for an operation is followed as for any instance. Here is what the builtin base does where it is
 * called: by an operator that the class leaves alone, or through super(). Called by the handlers of attributes, subscripts, calls
 * and by rec_object.c. */
#include "tracer/record/rec_callables.h"

/* ---- __dict__ */

DynVal *rec_vars(DynRec *r, DynOperand o) {
    DynVal *v = rec_keep(r, o.real) == 0 ? rec_new_fresh(r, DV_VARS) : NULL;
    if (v != NULL) {
        v->vars.instance = o.v;
        v->vars.object = o.real;
    }
    return v;
}

static RecAttr look_up(DynRec *r, DynVal *vars, DynOperand name, DynVal **v) {
    DynOperand o = {vars->vars.instance, vars->vars.object};
    bool known = PyUnicode_CheckExact(name.real) && dyn_rec_burn(r, name.v, name.real) == 0;
    return known ? rec_own_attr(r, o, name.real, v) : REC_ATTR_UNKNOWN;
}

/* vars(o).get(name), vars(o).get(name, otherwise) */
static DynVal *get_var(DynRec *r, const RecCall *c, PyObject **result) {
    DynVal *v = NULL;
    RecAttr how = look_up(r, c->args[0].v, c->args[1], &v);
    *result = rec_call_real(c);
    if (how == REC_ATTR_MISSING) {
        v = c->npos == 3 ? c->args[2].v : dyn_rec_const(r, Py_None);
    }
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
    bool dict = base == &PyDict_Type || base == &PyODict_Type;
    return base != type && !misses && dict ? base : NULL;
}

int rec_dict_made(DynRec *r, DynVal *v, PyTypeObject *base) {
    DynVal *content = dyn_rec_seq(r, DV_DICT, 0, NULL, NULL);
    if (content == NULL) {
        return -1;
    }
    content->type = base == &PyDict_Type ? NULL : (PyObject *)base;
    content->hidden = true;
    v->contents = content;
    return 0;
}

DynOperand rec_contents(DynOperand o) {
    return o.v->kind == DV_OBJECT && o.v->contents != NULL ? (DynOperand){o.v->contents, o.real} : o;
}

/* A key that is put in or taken out. */
static DynVal *change_key(DynRec *r, const RecCall *c, DynOperand dict, PyObject *result, RecDictMethod which) {
    PyObject *key = c->args[1].real;
    uint32_t at;
    bool changed = false;
    if (which == REC_DICT_SETITEM) {
        changed = c->npos == 3 && rec_dict_set(r, dict.v, key, c->args[2].v) == 0;
    } else if (rec_dict_find(dict.v, key, &at) != NULL) {
        rec_dict_drop(dict.v, at);
        changed = true;
    }
    if (!changed) {
        return NULL;
    }
    rec_changed(r, c->args[0].v);
    return dyn_rec_const(r, result);
}

/* As the method of an exact dict, of the instance's items. */
static DynVal *call_on_items(DynRec *r, const RecCall *c, DynOperand dict, PyObject **result, RecDictMethod which) {
    RecCall of = *c;
    if ((of.args = DYN_NEW_N(&r->arena, DynOperand, c->npos + 1)) == NULL) {
        return NULL;
    }
    memcpy(of.args, c->args, c->npos * sizeof *c->args);
    of.args[0] = dict;
    return rec_dict_method(r, &of, result, which);
}

/* A method of the builtin base that asks nothing of the class, and its items as they are. */
static DynVal *call_base(DynRec *r, const RecCall *c, DynOperand dict, PyObject **result, RecDictMethod which) {
    bool views = which == REC_DICT_KEYS || which == REC_DICT_VALUES || which == REC_DICT_ITEMS;
    if (views || which == REC_DICT_GET) {
        return call_on_items(r, c, dict, result, which);
    }
    DynOperand key = c->npos > 1 ? c->args[1] : (DynOperand){0};
    bool keyed = key.v != NULL && rec_plain_key(key.real) && dyn_rec_burn(r, key.v, key.real) == 0;
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    bool known = which == REC_DICT_INIT ? c->npos == 1 : which == REC_DICT_LEN || (keyed && which == REC_DICT_CONTAINS);
    if (known) {
        return dyn_rec_const(r, *result);
    }
    if (keyed && which == REC_DICT_GETITEM) {
        return rec_dict_find(dict.v, key.real, NULL);
    }
    bool changes = keyed && (which == REC_DICT_SETITEM || which == REC_DICT_DELITEM);
    return changes ? change_key(r, c, dict, *result, which) : NULL;
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

static DynVal *call_came_in(DynRec *r, const RecCall *c, PyObject **result, RecDictMethod which) {
    bool missing = false, asks = which == REC_DICT_GET || which == REC_DICT_CONTAINS || which == REC_DICT_GETITEM;
    DynVal *v = asks && c->npos >= 2 ? rec_held_key(r, c->args[0], c->args[1], &missing) : NULL;
    *result = rec_call_real(c);
    if (*result == NULL || (v == NULL && !missing)) {
        return NULL;
    }
    if (which == REC_DICT_CONTAINS) {
        return dyn_rec_const(r, *result);
    }
    if (v != NULL) {
        return v;
    }
    return c->npos == 3 ? c->args[2].v : dyn_rec_const(r, Py_None);
}

bool rec_is_held(DynOperand o) {
    bool came_in = o.v->kind == DV_OBJECT && !o.v->fresh && o.v->source != DYN_NONE;
    return came_in && PyDict_Check(o.real) && rec_dict_base(Py_TYPE(o.real)) != NULL;
}

/* Is the method one of the builtin base of the instance's class? dict's own go past an OrderedDict's order: they may only read.
 */
static bool is_of_base(const RecCall *c, RecDictMethod which) {
    PyTypeObject *of = ((PyDescrObject *)c->callable.real)->d_type;
    bool reads = which == REC_DICT_GET || which == REC_DICT_GETITEM || which == REC_DICT_CONTAINS || which == REC_DICT_LEN;
    return of == rec_dict_base(Py_TYPE(c->args[0].real)) || (of == &PyDict_Type && (reads || c->args[0].v->kind == DV_VARS));
}

DynVal *rec_held_method(DynRec *r, const RecCall *c, PyObject **result, RecDictMethod which) {
    DynOperand self = c->args[0], dict = rec_contents(self);
    bool held = self.v->kind == DV_VARS || dict.v != self.v || rec_is_held(self);
    if (!held || c->nkw != 0 || !is_of_base(c, which)) {
        return REC_DECLINED;
    }
    DynVal *v = NULL;
    r->why = DYN_R_UNSUPPORTED_VALUE;
    r->detail = NULL;
    if (self.v->kind == DV_VARS && which == REC_DICT_GET && c->npos >= 2) {
        v = get_var(r, c, result);
    } else if (self.v->kind == DV_VARS) {
        *result = rec_call_real(c);
    } else if (dict.v == self.v) {
        v = call_came_in(r, c, result, which);
    } else {
        v = call_base(r, c, dict, result, which);
    }
    const char *detail = r->detail != NULL ? r->detail : "dict";
    return rec_known_or(r, v, *result, DYN_R_UNSUPPORTED_VALUE, detail);
}
