/* log.c: log records, counters and configuration.
 *
 * Every room logs, counts and reads dyn_config; the Python face (src/dynoc) sets the log mask and the configuration through
 * the module functions at the end. The counters dict is owned here for the life of the process. Texts of the configuration are
 * kept for the life of the process too, because the compile thread reads them without the GIL. */
#include "base/cpy.h"
#include "base/log.h"
#include <time.h>

uint32_t dyn_log_mask;
const char *const dyn_log_names[DYN_LOG_COUNT] = {
#define LOG(name, what) #name,
#include "dynoc/logs.def"
};
const char *const dyn_log_what[DYN_LOG_COUNT] = {
#define LOG(name, what) what,
#include "dynoc/logs.def"
};
DynConfig dyn_config = {
#define BOOLEAN(name, dflt, what) .name = dflt,
#define INTEGER(name, dflt, low, high, what) .name = dflt,
#define TEXT(name, dflt, what) .name = (char *)dflt,
#include "dynoc/settings.def"
};

static PyObject *counters;     /* Counters */
static PyTypeObject *counts;   /* the type of its values */
static PyObject *warned;       /* set of str: what dyn_warn_once said */
static _Thread_local int busy; /* calls into loggers that this thread is in */

int64_t dyn_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Logging. */

bool dyn_log_busy(void) { return busy > 0; }

/* logging.getLogger(name).<method>(text); -1 with an exception set. dynoc._logs sees to it that somebody hears it. */
static int emit(const char *name, const char *method, PyObject *text) {
    int done = -1;
    PyObject *face = dyn_import("dynoc._logs");
    PyObject *logger = face == NULL ? NULL : PyObject_CallMethod(face, "logger", "s", name);
    PyObject *result = logger == NULL ? NULL : PyObject_CallMethod(logger, method, "O", text);
    if (result != NULL) {
        done = 0;
    }
    Py_XDECREF(result);
    Py_XDECREF(logger);
    Py_XDECREF(face);
    return done;
}

/* emit, whatever exception is set now and whatever the logger raises. What a handler of signals raises is raised later. */
static void emit_safely(const char *name, const char *method, const char *text) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    busy++;
    dyn_cpy_hold_signals();
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (message == NULL || emit(name, method, message) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(message);
    dyn_cpy_release_signals();
    busy--;
    PyErr_Restore(type, value, traceback);
}

void dyn_log_text(DynLog c, const char *text) {
    char name[64];
    if (!dyn_log_on(c)) {
        return;
    }
    PyOS_snprintf(name, sizeof(name), "dynoc.%s", dyn_log_names[c]);
    emit_safely(name, "debug", text);
}

void dyn_log(DynLog c, const char *format, ...) {
    if (!dyn_log_on(c)) {
        return;
    }
    DynStr text = {0};
    va_list args;
    va_start(args, format);
    dyn_str_vprintf(&text, format, args);
    va_end(args);
    dyn_log_text(c, dyn_str_at(&text));
    dyn_str_free(&text);
}

/* The text without names of temporary folders (codegen/build/tempdir.c), which differ each time. */
static void put_lasting(DynStr *out, const char *text) {
    for (const char *temporary; (temporary = strstr(text, "/dynoc-")) != NULL;) {
        dyn_str_printf(out, "%.*s", (int)(temporary - text), text);
        text = temporary + 1;
        text += strcspn(text, "/ \n");
    }
    dyn_str_puts(out, text);
}

/* Was this said before? Remembers it. When memory is out the answer is no: better twice than never. */
static bool said_before(const char *said) {
    DynStr lasting = {0};
    put_lasting(&lasting, said);
    const char *text = dyn_str_at(&lasting);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bool before = false;
    PyObject *key = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (key != NULL && warned != NULL) {
        before = PySet_Contains(warned, key) == 1;
        if (!before) {
            PySet_Add(warned, key);
        }
    }
    Py_XDECREF(key);
    dyn_str_free(&lasting);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return before;
}

void dyn_warn_once(DynReason r, const char *format, ...) {
    DynStr text = {0};
    va_list args;
    dyn_str_printf(&text, "%s: %s", dyn_reason_code(r), dyn_reason_message(r));
    va_start(args, format);
    if (format[0] != 0) {
        dyn_str_puts(&text, ": ");
        dyn_str_vprintf(&text, format, args);
    }
    va_end(args);
    dyn_str_printf(&text, " (%s)", dyn_reason_hint(r));
    if (!said_before(dyn_str_at(&text))) {
        emit_safely("dynoc", "warning", dyn_str_at(&text));
    }
    dyn_str_free(&text);
}

/* Counters: two dict types, so that counting runs no Python code. */

static PyObject *counts_missing(PyObject *self, PyObject *key) { return PyLong_FromLong(0); }

static PyObject *counters_missing(PyObject *self, PyObject *key) {
    PyObject *group = PyObject_CallNoArgs((PyObject *)counts);
    if (group != NULL && PyDict_SetItem(self, key, group) < 0) {
        Py_CLEAR(group);
    }
    return group;
}

/* What is counted at this moment, as a plain dict: who goes over counters goes over that, as a key may be added meanwhile, by the
 * loop itself or by the thread that compiles. */
static PyObject *counted_now(PyObject *self) {
    PyObject *items = PyDict_Items(self), *now = items == NULL ? NULL : PyDict_New();
    if (now != NULL && PyDict_MergeFromSeq2(now, items, 1) < 0) {
        Py_CLEAR(now);
    }
    Py_XDECREF(items);
    return now;
}

static PyObject *ask_counted_now(PyObject *self, const char *method) {
    PyObject *now = counted_now(self), *view = now == NULL ? NULL : PyObject_CallMethod(now, method, NULL);
    Py_XDECREF(now);
    return view;
}

static PyObject *iterate_counted(PyObject *self) { return ask_counted_now(self, "__iter__"); }

static PyObject *counted_keys(PyObject *self, PyObject *no_args) { return ask_counted_now(self, "keys"); }

static PyObject *counted_values(PyObject *self, PyObject *no_args) { return ask_counted_now(self, "values"); }

static PyObject *counted_items(PyObject *self, PyObject *no_args) { return ask_counted_now(self, "items"); }

#define COUNTED_NOW                                                                  \
    {"keys", counted_keys, METH_NOARGS, "The keys that there are now."},             \
        {"values", counted_values, METH_NOARGS, "What was counted."}, {              \
        "items", counted_items, METH_NOARGS, "Keys and what was counted under them." \
    }
static PyMethodDef counts_methods[] = {
    {"__missing__", counts_missing, METH_O, "A key that was never counted reads as 0."}, COUNTED_NOW, {0}};
static PyMethodDef counters_methods[] = {
    {"__missing__", counters_missing, METH_O, "A group appears when it is asked for."}, COUNTED_NOW, {0}};

static PyTypeObject *make_dict_type(const char *name, PyMethodDef *methods, const char *doc) {
    PyType_Slot slots[] = {{Py_tp_methods, methods}, {Py_tp_iter, iterate_counted}, {Py_tp_doc, (void *)doc}, {0}};
    PyType_Spec spec = {.name = name, .flags = Py_TPFLAGS_DEFAULT, .slots = slots};
    PyObject *bases = PyTuple_Pack(1, &PyDict_Type);
    if (bases == NULL) {
        return NULL;
    }
    PyObject *type = PyType_FromSpecWithBases(&spec, bases);
    Py_DECREF(bases);
    return (PyTypeObject *)type;
}

/* -1 with an exception set. A group that the user replaced by something else is replaced again. */
static int count(PyObject *group_key, PyObject *key) {
    PyObject *group = PyDict_GetItemWithError(counters, group_key); /* borrowed */
    if (group != NULL && PyDict_Check(group)) {
        Py_INCREF(group);
    } else {
        group = PyErr_Occurred() ? NULL : counters_missing(counters, group_key);
    }
    PyObject *old = group == NULL ? NULL : PyDict_GetItemWithError(group, key); /* borrowed */
    long long n = old == NULL ? 0 : PyLong_AsLongLong(old);
    int done = -1;
    if (group != NULL && !PyErr_Occurred()) {
        PyObject *now = PyLong_FromLongLong(n + 1);
        done = now == NULL ? -1 : PyDict_SetItem(group, key, now);
        Py_XDECREF(now);
    }
    Py_XDECREF(group);
    return done;
}

void dyn_count(const char *group, const char *key) {
    if (counters == NULL) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *group_key = PyUnicode_InternFromString(group), *key_name = PyUnicode_InternFromString(key);
    if (group_key == NULL || key_name == NULL || count(group_key, key_name) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(group_key);
    Py_XDECREF(key_name);
    PyErr_Restore(type, value, traceback);
}

void dyn_count_call(DynServed how) {
    static const char *const names[] = {"served", "partly", "eager"};
    static PyObject *group, *keys[DYN_COUNTOF(names)]; /* made once: this is counted at every call */
    if (counters == NULL) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (group == NULL) {
        group = PyUnicode_InternFromString("calls");
    }
    if (keys[how] == NULL) {
        keys[how] = PyUnicode_InternFromString(names[how]);
    }
    if (group == NULL || keys[how] == NULL || count(group, keys[how]) < 0) {
        PyErr_Clear();
    }
    PyErr_Restore(type, value, traceback);
}

void dyn_count_reason(const char *group, DynReason r) { dyn_count(group, dyn_reason_code(r)); }

/* Configuration: one table for the rows of settings.def. */

typedef enum SettingType { SETTING_BOOLEAN, SETTING_INTEGER, SETTING_TEXT } SettingType;
typedef struct Setting {
    const char *name, *what, *text; /* text: default of a TEXT */
    SettingType type;
    int64_t number, low, high; /* number: default of the others */
    void *at;
} Setting;
static const Setting settings[] = {
#define BOOLEAN(name, dflt, what) {#name, what, NULL, SETTING_BOOLEAN, dflt, 0, 1, &dyn_config.name},
#define INTEGER(name, dflt, low, high, what) {#name, what, NULL, SETTING_INTEGER, dflt, low, high, &dyn_config.name},
#define TEXT(name, dflt, what) {#name, what, dflt, SETTING_TEXT, 0, 0, 0, &dyn_config.name},
#include "dynoc/settings.def"
};

/* The settings' row; NULL with KeyError that lists the names. */
static const Setting *find_setting(PyObject *name) {
    for (size_t i = 0; PyUnicode_Check(name) && i < DYN_COUNTOF(settings); i++) {
        if (PyUnicode_CompareWithASCIIString(name, settings[i].name) == 0) {
            return &settings[i];
        }
    }
    DynStr valid = {0};
    for (size_t i = 0; i < DYN_COUNTOF(settings); i++) {
        dyn_str_printf(&valid, i == 0 ? "%s" : ", %s", settings[i].name);
    }
    PyErr_Format(PyExc_KeyError, "unknown setting %R; valid settings: %s", name, dyn_str_at(&valid));
    dyn_str_free(&valid);
    return NULL;
}

static int set_boolean(const Setting *s, PyObject *value) {
    if (!PyBool_Check(value)) {
        PyErr_Format(PyExc_ValueError, "bad value %R for %s: valid values are True and False", value, s->name);
        return -1;
    }
    *(bool *)s->at = value == Py_True;
    return 0;
}

static int set_integer(const Setting *s, PyObject *value) {
    int overflow = 0;
    long long n = PyLong_Check(value) && !PyBool_Check(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : s->low - 1;
    if (overflow != 0 || n < s->low || n > s->high) {
        PyErr_Format(PyExc_ValueError, "bad value %R for %s: valid values are integers from %lld to %lld", value, s->name,
                     (long long)s->low, (long long)s->high);
        return -1;
    }
    *(int64_t *)s->at = n;
    return 0;
}

static int set_text(const Setting *s, PyObject *value) {
    static PyObject *kept; /* dict of str to itself: every text that was ever set; see the head comment */
    Py_ssize_t n = -1;
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &n) : NULL;
    if (text == NULL || (size_t)n != strlen(text)) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "bad value %R for %s: valid values are strings without NUL", value, s->name);
        return -1;
    }
    if (kept == NULL && (kept = PyDict_New()) == NULL) {
        return -1;
    }
    PyObject *own = PyUnicode_FromStringAndSize(text, n); /* exact str, so that the dict runs no Python code */
    PyObject *first = own == NULL ? NULL : PyDict_SetDefault(kept, own, own);
    Py_XDECREF(own);
    text = first == NULL ? NULL : PyUnicode_AsUTF8(first);
    if (text == NULL) {
        return -1;
    }
    *(char **)s->at = (char *)text;
    return 0;
}

static PyObject *set_config(PyObject *module, PyObject *args) {
    PyObject *name, *value;
    if (!PyArg_ParseTuple(args, "OO:set_config", &name, &value)) {
        return NULL;
    }
    const Setting *s = find_setting(name);
    if (s == NULL) {
        return NULL;
    }
    int (*const set[])(const Setting *, PyObject *) = {
        [SETTING_BOOLEAN] = set_boolean, [SETTING_INTEGER] = set_integer, [SETTING_TEXT] = set_text};
    if (set[s->type](s, value) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *get_config(PyObject *module, PyObject *name) {
    const Setting *s = find_setting(name);
    if (s == NULL) {
        return NULL;
    }
    switch (s->type) {
    case SETTING_BOOLEAN: return PyBool_FromLong(*(bool *)s->at);
    case SETTING_INTEGER: return PyLong_FromLongLong(*(int64_t *)s->at);
    default: return PyUnicode_FromString(*(char **)s->at);
    }
}

static PyObject *config_names(PyObject *module, PyObject *none) {
    PyObject *names = PyDict_New();
    for (size_t i = 0; names != NULL && i < DYN_COUNTOF(settings); i++) {
        const Setting *s = &settings[i];
        PyObject *row = NULL;
        if (s->type == SETTING_BOOLEAN) {
            row = Py_BuildValue("OOOOs", &PyBool_Type, s->number ? Py_True : Py_False, Py_None, Py_None, s->what);
        } else if (s->type == SETTING_INTEGER) {
            row = Py_BuildValue("OLLLs", &PyLong_Type, (long long)s->number, (long long)s->low, (long long)s->high, s->what);
        } else {
            row = Py_BuildValue("OsOOs", &PyUnicode_Type, s->text, Py_None, Py_None, s->what);
        }
        if (row == NULL || PyDict_SetItemString(names, s->name, row) < 0) {
            Py_CLEAR(names);
        }
        Py_XDECREF(row);
    }
    return names;
}

static PyObject *log_names(PyObject *module, PyObject *none) {
    PyObject *names = PyDict_New();
    for (int i = 0; names != NULL && i < DYN_LOG_COUNT; i++) {
        PyObject *what = PyUnicode_FromString(dyn_log_what[i]);
        if (what == NULL || PyDict_SetItemString(names, dyn_log_names[i], what) < 0) {
            Py_CLEAR(names);
        }
        Py_XDECREF(what);
    }
    return names;
}

static PyObject *set_log(PyObject *module, PyObject *args) {
    PyObject *name;
    int on;
    if (!PyArg_ParseTuple(args, "Up:set_log", &name, &on)) {
        return NULL;
    }
    for (int i = 0; i < DYN_LOG_COUNT; i++) {
        if (PyUnicode_CompareWithASCIIString(name, dyn_log_names[i]) == 0) {
            dyn_log_mask = on ? dyn_log_mask | 1u << i : dyn_log_mask & ~(1u << i);
            Py_RETURN_NONE;
        }
    }
    DynStr valid = {0};
    for (int i = 0; i < DYN_LOG_COUNT; i++) {
        dyn_str_printf(&valid, i == 0 ? "%s" : ", %s", dyn_log_names[i]);
    }
    PyErr_Format(PyExc_KeyError, "unknown log %R; valid logs: %s", name, dyn_str_at(&valid));
    dyn_str_free(&valid);
    return NULL;
}

static PyMethodDef functions[] = {
    {"config_names", config_names, METH_NOARGS, "Settings: name to (type, default, low, high, what it does)."},
    {"get_config", get_config, METH_O, "The value of a setting."},
    {"set_config", set_config, METH_VARARGS, "Set a setting. KeyError: no such setting; ValueError: no such value."},
    {"log_names", log_names, METH_NOARGS, "Log categories: name to what it shows."},
    {"set_log", set_log, METH_VARARGS, "Turn a log category on or off. KeyError: no such category."},
    {0}};

int dyn_log_init(PyObject *module) {
    PyTypeObject *outer = make_dict_type("dynoc._dynoc.Counters", counters_methods, "Counters in groups.");
    counts = make_dict_type("dynoc._dynoc.Counts", counts_methods, "Counters of one group.");
    warned = PySet_New(NULL);
    if (outer != NULL) {
        counters = PyObject_CallNoArgs((PyObject *)outer);
    }
    Py_XDECREF(outer);
    if (counters == NULL || counts == NULL || warned == NULL || PyModule_AddFunctions(module, functions) < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "counters", counters);
}
