/* cpy_lookup.c: looking things up in instances, dicts and sets as CPython does, where that can't run code. Called by native loops
 * and their planner (tracer/region, ir/region_world.c), with the GIL. Owns nothing.
 *
 * The tables are gone through as Objects/dictobject.c and setobject.c do. Keys are ints, strings, and tuples of plain values. A
 * key of another type with the hash that is looked for would be asked whether it is the same: then nothing is said. */
#include "base/cpy_internal.h"
#include "base/cpy_region.h"
#include <internal/pycore_dict.h>
#include <structmember.h>

/* ---- instances */

static PyDictKeysObject *shared_keys(PyTypeObject *t) {
    return (t->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 ? ((PyHeapTypeObject *)t)->ht_cached_keys : NULL;
}

bool dyn_cpy_has_no_dict(PyTypeObject *t) { return t->tp_dictoffset == 0 && (t->tp_flags & Py_TPFLAGS_MANAGED_DICT) == 0; }

static bool has_fields(PyTypeObject *t) {
#if DYN_PY >= 313
    return (t->tp_flags & Py_TPFLAGS_INLINE_VALUES) != 0;
#else
    return (t->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0;
#endif
}

static uint32_t key_count(PyTypeObject *t) {
    PyDictKeysObject *keys = shared_keys(t);
    return keys == NULL ? 0 : (uint32_t)keys->dk_nentries;
}

uint32_t dyn_cpy_type_version(PyTypeObject *t) {
    static PyObject *some_name;
    some_name = some_name != NULL ? some_name : PyUnicode_InternFromString("__class__");
    if (some_name == NULL) {
        PyErr_Clear();
        return 0;
    }
    (void)_PyType_Lookup(t, some_name); /* which gives it a version */
    bool valid = DYN_PY >= 313 || (t->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) != 0;
    return valid ? (uint32_t)t->tp_version_tag : 0;
}

uint32_t dyn_cpy_class_version(PyTypeObject *t, uint32_t *nkeys) {
    bool plain = t->tp_getattro == PyObject_GenericGetAttr && t->tp_setattro == PyObject_GenericSetAttr &&
                 (t->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && (has_fields(t) || dyn_cpy_has_no_dict(t));
    uint32_t version = plain ? dyn_cpy_type_version(t) : 0;
    *nkeys = plain ? key_count(t) : 0;
    return version;
}

bool dyn_cpy_class_is(PyTypeObject *t, uint32_t version, uint32_t nkeys) {
    uint32_t now = 0;
    return dyn_cpy_class_version(t, &now) == version && now == nkeys;
}

static bool is_slot(PyObject *descr, PyTypeObject *t, int64_t *at) {
    if (!Py_IS_TYPE(descr, &PyMemberDescr_Type) || !PyType_IsSubtype(t, PyDescr_TYPE(descr))) {
        return false;
    }
    const PyMemberDef *member = ((PyMemberDescrObject *)descr)->d_member;
    *at = member->offset;
    return member->type == T_OBJECT_EX && (member->flags & READONLY) == 0;
}

bool dyn_cpy_field(PyTypeObject *t, PyObject *name, bool *direct, int64_t *at) {
    PyObject *descr = _PyType_Lookup(t, name);
    PyDictKeysObject *keys = shared_keys(t);
    *direct = descr != NULL;
    if (descr != NULL || keys == NULL || !has_fields(t)) {
        return descr != NULL && is_slot(descr, t, at);
    }
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        if (DK_UNICODE_ENTRIES(keys)[i].me_key == name) {
            *at = i;
            return true;
        }
    }
    return false;
}

bool dyn_cpy_shares_key(PyTypeObject *t, PyObject *name) {
    PyDictKeysObject *keys = shared_keys(t);
    for (Py_ssize_t i = 0; keys != NULL && i < keys->dk_nentries; i++) {
        if (DK_UNICODE_ENTRIES(keys)[i].me_key == name) {
            return true;
        }
    }
    return false;
}

/* The fields of an instance that has no dict yet; NULL: it has one, or can't have fields. */
static PyDictValues *fields_of(PyObject *o) {
#ifdef Py_GIL_DISABLED
    (void)o; /* another thread may be storing into them */
    return NULL;
#else
    if (!has_fields(Py_TYPE(o)) || shared_keys(Py_TYPE(o)) == NULL) {
        return NULL;
    }
#if DYN_PY >= 313
    PyDictValues *fields = _PyObject_InlineValues(o);
    return _PyObject_GetManagedDict(o) == NULL && fields->valid ? fields : NULL;
#elif DYN_PY == 312
    PyDictOrValues *own = _PyObject_DictOrValuesPointer(o);
    return _PyDictOrValues_IsValues(*own) ? _PyDictOrValues_GetValues(*own) : NULL;
#else
    return *_PyObject_ValuesPointer(o);
#endif
#endif
}

int64_t dyn_cpy_place_of_name(PyTypeObject *t, PyObject *name) {
    bool direct;
    int64_t at;
    return !dyn_cpy_field(t, name, &direct, &at) ? 0 : direct ? at : -1 - at;
}

PyObject *dyn_cpy_new_instance(PyTypeObject *t) {
    static PyObject *nothing;
    nothing = nothing != NULL ? nothing : PyTuple_New(0);
    return nothing == NULL ? NULL : PyBaseObject_Type.tp_new(t, nothing, NULL);
}

bool dyn_cpy_fill(PyObject *o, int64_t at, PyObject *value) {
    PyDictValues *fields = at < 0 ? fields_of(o) : NULL;
    if (at < 0 && fields == NULL) {
        return false;
    }
    PyObject **place = at < 0 ? &fields->values[-1 - at] : (PyObject **)((char *)o + at), *old = *place;
    if (at < 0 && old == NULL) {
        _PyDictValues_AddToInsertionOrder(fields, (Py_ssize_t)(-1 - at));
    }
    *place = value;
    Py_XDECREF(old);
    return true;
}

PyObject **dyn_cpy_dict_place(PyObject *o) { return fields_of(o) == NULL ? _PyObject_GetDictPtr(o) : NULL; }

PyObject *dyn_cpy_own_value(PyObject *o, PyObject *name) {
    PyDictValues *fields = PyUnicode_CheckExact(name) ? fields_of(o) : NULL;
    PyObject **dict = fields == NULL ? _PyObject_GetDictPtr(o) : NULL;
    if (fields != NULL) {
        PyDictKeysObject *keys = shared_keys(Py_TYPE(o));
        for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
            if (dyn_cpy_is_same_text(DK_UNICODE_ENTRIES(keys)[i].me_key, name)) {
                return fields->values[i];
            }
        }
    }
    PyObject *value = dict != NULL && *dict != NULL ? PyDict_GetItemWithError(*dict, name) : NULL;
    if (value == NULL) {
        PyErr_Clear();
    }
    return value;
}

bool dyn_cpy_shows_its_methods(PyObject *o) {
    PyDictValues *fields = fields_of(o);
    PyObject **dict = fields == NULL ? _PyObject_GetDictPtr(o) : NULL;
    bool shows = dict == NULL || *dict == NULL || PyDict_GET_SIZE(*dict) == 0;
    for (Py_ssize_t i = 0; fields != NULL && i < shared_keys(Py_TYPE(o))->dk_nentries; i++) {
        shows = shows && fields->values[i] == NULL;
    }
    return shows;
}

/* ---- keys */

typedef struct Key {
    int64_t number;   /* object NULL: an int. */
    PyObject *object; /* A str, or a tuple of plain values. */
    Py_hash_t hash;
} Key;

static Py_hash_t hash_of_int(int64_t number) {
    const uint64_t modulus = _PyHASH_MODULUS;
    uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    Py_hash_t hash = (Py_hash_t)(size < modulus ? size : size % modulus);
    hash = number < 0 ? -hash : hash;
    return hash == -1 ? -2 : hash;
}

static Key int_key(int64_t number) { return (Key){number, NULL, hash_of_int(number)}; }

/* An int of at most one digit. */
static bool is_small(PyObject *o, int64_t *number) {
    const PyLongObject *l = (const PyLongObject *)o;
#if DYN_PY >= 312
    uintptr_t tag = l->long_value.lv_tag;
    *number = (1 - (int64_t)(tag & 3)) * (int64_t)l->long_value.ob_digit[0];
    return PyLong_CheckExact(o) && tag < 2 << 3;
#else
    Py_ssize_t size = Py_SIZE(o);
    *number = size == 0 ? 0 : size * (int64_t)l->ob_digit[0];
    return PyLong_CheckExact(o) && size >= -1 && size <= 1;
#endif
}

static Py_hash_t hash_of(PyObject *text) {
    Py_hash_t hash = ((PyASCIIObject *)text)->hash; /* once it was asked for */
    return hash != -1 ? hash : PyObject_Hash(text);
}

bool dyn_cpy_is_plain_key(PyObject *o, int depth) {
    bool plain = PyLong_CheckExact(o) || PyUnicode_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o) || o == Py_None;
    if (plain || depth == 0 || !PyTuple_CheckExact(o)) {
        return plain;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++) {
        if (!dyn_cpy_is_plain_key(PyTuple_GET_ITEM(o, i), depth - 1)) {
            return false;
        }
    }
    return true;
}

void dyn_cpy_tuple_changed(PyObject *tuple) {
#if DYN_PY >= 314
    ((PyTupleObject *)tuple)->ob_hash = -1;
#else
    (void)tuple; /* it keeps no hash */
#endif
}

/* As Objects/tupleobject.c has it, of small ints and strings; false: there are others among them. */
static bool hash_of_tuple(PyObject *o, Py_hash_t *hash) {
    const Py_uhash_t prime[] = {UINT64_C(11400714785074694791), UINT64_C(14029467366897019727), UINT64_C(2870177450012600261)};
    const Py_ssize_t n = PyTuple_GET_SIZE(o);
    Py_uhash_t all = prime[2];
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GET_ITEM(o, i);
        int64_t number;
        Py_uhash_t lane;
        if (is_small(item, &number)) {
            lane = (Py_uhash_t)hash_of_int(number);
        } else if (PyUnicode_CheckExact(item)) {
            lane = (Py_uhash_t)hash_of(item);
        } else {
            return false;
        }
        all += lane * prime[1];
        all = (all << 31 | all >> 33) * prime[0];
    }
    all += (Py_uhash_t)n ^ (prime[2] ^ UINT64_C(3527539));
    *hash = all == (Py_uhash_t)-1 ? 1546275796 : (Py_hash_t)all;
    return true;
}

/* false: asking for its hash, or whether it is equal to another, may run code. */
static bool object_key(PyObject *o, Key *key) {
    *key = (Key){0, o, 0};
    if (PyUnicode_CheckExact(o)) {
        key->hash = hash_of(o);
        return true;
    }
    if (!PyTuple_CheckExact(o)) {
        return false;
    }
    if (!hash_of_tuple(o, &key->hash)) {
        if (!dyn_cpy_is_plain_key(o, DYN_CPY_KEY_DEPTH)) {
            return false;
        }
        key->hash = PyObject_Hash(o);
    }
    return true;
}

/* Of small ints and strings; -1: there are others among them. */
static int are_same_items(PyObject *a, PyObject *b) {
    Py_ssize_t n = PyTuple_GET_SIZE(a);
    if (PyTuple_GET_SIZE(b) != n) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyTuple_GET_ITEM(a, i), *y = PyTuple_GET_ITEM(b, i);
        int64_t p, q;
        bool small = is_small(x, &p) && is_small(y, &q), texts = PyUnicode_CheckExact(x) && PyUnicode_CheckExact(y);
        if (!small && !texts) {
            return -1;
        }
        if (small ? p != q : x != y && PyUnicode_Compare(x, y) != 0) {
            return 0;
        }
    }
    return 1;
}

/* Of a tuple that is a key, with the same hash. */
static int is_same_tuple(PyObject *tuple, PyObject *o) {
    if (!PyTuple_CheckExact(o)) {
        return dyn_cpy_is_plain_key(o, 0) ? 0 : -1;
    }
    int same = are_same_items(o, tuple);
    if (same >= 0) {
        return same;
    }
    return dyn_cpy_is_plain_key(o, DYN_CPY_KEY_DEPTH) ? PyObject_RichCompareBool(o, tuple, Py_EQ) : -1;
}

/* Of a key with the same hash: 1, 0, or -1: that can't be said. */
static int is_same(const Key *key, PyObject *o) {
    int overflow = 0;
    int64_t small;
    if (key->object == NULL && is_small(o, &small)) {
        return small == key->number;
    }
    if (o == key->object) {
        return 1;
    }
    if (key->object != NULL && PyTuple_CheckExact(key->object)) {
        return is_same_tuple(key->object, o);
    }
    if (PyUnicode_CheckExact(o)) {
        return key->object != NULL && PyUnicode_Compare(o, key->object) == 0;
    }
    if (PyLong_CheckExact(o) || PyBool_Check(o)) {
        int64_t number = PyLong_AsLongLongAndOverflow(o, &overflow);
        return key->object == NULL && overflow == 0 && number == key->number;
    }
    return PyTuple_CheckExact(o) ? 0 : -1;
}

/* ---- dicts */

static int64_t index_at(const PyDictKeysObject *keys, uint64_t i) {
    switch (keys->dk_log2_index_bytes - keys->dk_log2_size) {
    case 0: return ((const int8_t *)keys->dk_indices)[i];
    case 1: return ((const int16_t *)keys->dk_indices)[i];
    case 2: return ((const int32_t *)keys->dk_indices)[i];
    default: return ((const int64_t *)keys->dk_indices)[i];
    }
}

enum { SHIFT = 5, NONE_THERE = -1 };

/* Where the last key that was looked for and found lies. A loop often looks for the same one again at once, to replace its value:
 * what lies there now tells by itself whether it is that key, so it doesn't matter what has happened to the table since. */
static struct {
    const PyDictKeysObject *keys; /* Only compared. */
    int64_t at;
} last;

static bool is_there(const Key *key, PyObject *o) {
    int64_t number;
    return key->object != NULL ? o == key->object : o != NULL && is_small(o, &number) && number == key->number;
}

static bool find_again(PyDictKeysObject *keys, const Key *key, PyObject ***place) {
    if (keys != last.keys || last.at >= keys->dk_nentries) {
        return false;
    }
    bool general = keys->dk_kind == DICT_KEYS_GENERAL;
    PyObject *o = general ? DK_ENTRIES(keys)[last.at].me_key : DK_UNICODE_ENTRIES(keys)[last.at].me_key;
    *place = general ? &DK_ENTRIES(keys)[last.at].me_value : &DK_UNICODE_ENTRIES(keys)[last.at].me_value;
    return is_there(key, o);
}

/* *place: where the value lies; NULL: there is none. */
static int find(PyObject *dict, const Key *key, PyObject ***place) {
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    uint64_t mask = (UINT64_C(1) << keys->dk_log2_size) - 1, perturb = (uint64_t)key->hash, i = perturb & mask;
    bool general = keys->dk_kind == DICT_KEYS_GENERAL;
    *place = NULL;
    if (((PyDictObject *)dict)->ma_values != NULL) {
        return 1;
    }
    if (find_again(keys, key, place)) {
        return 0;
    }
    *place = NULL;
    if (!general && (key->object == NULL || !PyUnicode_CheckExact(key->object))) { /* strings alone */
        return 0;
    }
    for (;; perturb >>= SHIFT, i = mask & (i * 5 + perturb + 1)) {
        int64_t at = index_at(keys, i);
        if (at == NONE_THERE) {
            return 0;
        }
        if (at < 0) {
            continue;
        }
        PyObject *o = general ? DK_ENTRIES(keys)[at].me_key : DK_UNICODE_ENTRIES(keys)[at].me_key;
        int same = is_there(key, o);
        if (same == 0) {
            Py_hash_t hash = general ? DK_ENTRIES(keys)[at].me_hash : hash_of(o);
            same = hash == key->hash ? is_same(key, o) : 0;
        }
        if (same != 0) {
            last.keys = keys;
            last.at = at;
            *place = general ? &DK_ENTRIES(keys)[at].me_value : &DK_UNICODE_ENTRIES(keys)[at].me_value;
            return same < 0;
        }
    }
}

int dyn_cpy_dict_place_int(PyObject *dict, int64_t number, PyObject ***place) {
    Key key = int_key(number);
    return find(dict, &key, place);
}

int dyn_cpy_dict_place_key(PyObject *dict, PyObject *o, PyObject ***place) {
    Key key;
    *place = NULL;
    return object_key(o, &key) ? find(dict, &key, place) : 1;
}

int dyn_cpy_dict_find_int(PyObject *dict, int64_t number, PyObject **value) {
    PyObject **place;
    int unknown = dyn_cpy_dict_place_int(dict, number, &place);
    *value = place == NULL ? NULL : *place;
    return unknown;
}

int dyn_cpy_dict_find_key(PyObject *dict, PyObject *o, PyObject **value) {
    PyObject **place;
    int unknown = dyn_cpy_dict_place_key(dict, o, &place);
    *value = place == NULL ? NULL : *place;
    return unknown;
}

PyObject *dyn_cpy_dict_key_of(PyObject *dict, PyObject **place) {
    bool general = ((PyDictObject *)dict)->ma_keys->dk_kind == DICT_KEYS_GENERAL;
    char *value = (char *)place;
    return general ? ((PyDictKeyEntry *)(void *)(value - offsetof(PyDictKeyEntry, me_value)))->me_key
                   : ((PyDictUnicodeEntry *)(void *)(value - offsetof(PyDictUnicodeEntry, me_value)))->me_key;
}

void dyn_cpy_dict_changed(PyObject *dict) {
#if DYN_PY < 312
    static uint64_t versions = UINT64_C(1) << 63; /* CPython itself counts from 0 */
    ((PyDictObject *)dict)->ma_version_tag = ++versions;
#else
    (void)dict;  /* of those that nobody watches nobody asks */
#endif
}

bool dyn_cpy_dict_is_watched(PyObject *dict) {
#if DYN_PY >= 314
    return (((PyDictObject *)dict)->_ma_watcher_tag & 0xff) != 0;
#elif DYN_PY >= 312
    return (((PyDictObject *)dict)->ma_version_tag & 0xff) != 0;
#else
    (void)dict;
    return false;
#endif
}

/* ---- sets */

enum { PROBES = 9 };

/* *stored: the key as it lies there, borrowed. */
static int has(PyObject *o, const Key *key, int64_t *found, PyObject **stored) {
    const PySetObject *set = (const PySetObject *)o;
    uint64_t mask = (uint64_t)set->mask, perturb = (uint64_t)key->hash, i = perturb & mask;
    *found = 0;
    for (;; perturb >>= SHIFT, i = (i * 5 + 1 + perturb) & mask) {
        const setentry *entry = &set->table[i], *last = entry + (i + PROBES <= mask ? PROBES : 0);
        for (; entry <= last; entry++) {
            if (entry->hash == 0 && entry->key == NULL) {
                return 0;
            }
            int same = entry->hash == key->hash ? is_same(key, entry->key) : 0;
            if (same != 0) {
                *found = 1;
                *stored = entry->key;
                return same < 0;
            }
        }
    }
}

int dyn_cpy_set_has_int(PyObject *set, int64_t number, int64_t *found) {
    Key key = int_key(number);
    PyObject *stored;
    return has(set, &key, found, &stored);
}

int dyn_cpy_set_find_key(PyObject *set, PyObject *o, int64_t *found, PyObject **stored) {
    Key key;
    *found = 0;
    *stored = NULL;
    return object_key(o, &key) ? has(set, &key, found, stored) : 1;
}

int dyn_cpy_set_has_key(PyObject *set, PyObject *o, int64_t *found) {
    PyObject *stored;
    return dyn_cpy_set_find_key(set, o, found, &stored);
}
