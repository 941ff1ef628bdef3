/* place.c: a place in the source as people read it: file, line, function, the source line and a caret under what is meant.
 *
 * Called by the recorder for dynoc.Unsupported, and by evalframe for the graph_breaks log and what wasn't captured. */
#include "base/cpy.h"
#include "ir/place.h"

/* linecache.getline(file, line) without the newline: new reference or NULL without an exception. */
static PyObject *source_line(PyObject *file, int line) {
    dyn_cpy_hold_signals();
    PyObject *linecache = dyn_import("linecache");
    PyObject *text = linecache == NULL ? NULL : PyObject_CallMethod(linecache, "getline", "Oi", file, line);
    PyObject *stripped = text == NULL || !PyUnicode_Check(text) ? NULL : PyObject_CallMethod(text, "rstrip", NULL);
    Py_XDECREF(text);
    Py_XDECREF(linecache);
    PyErr_Clear();
    dyn_cpy_release_signals();
    return stripped;
}

/* Columns are counted in bytes of the line as UTF-8. */
static void put_carets(DynStr *out, const char *text, const DynPlace *p) {
    int n = (int)strlen(text), end = p->end_line == p->line && p->end_col > p->col ? p->end_col : n;
    end = end > n ? n : end;
    dyn_str_puts(out, "\n    ");
    for (int i = 0; i < end; i++) {
        if (((unsigned char)text[i] & 0xC0) != 0x80) { /* one mark a character */
            char blank = text[i] == '\t' ? '\t' : ' ';
            dyn_str_putc(out, i >= p->col ? '^' : blank);
        }
    }
}

void dyn_report_place(DynStr *out, const DynPlace *p) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyCodeObject *code = (PyCodeObject *)p->code;
    const char *file = PyUnicode_AsUTF8(code->co_filename), *name = PyUnicode_AsUTF8(code->co_qualname);
    dyn_str_printf(out, "%s:%d: in %s", file ? file : "?", (int)p->line, name ? name : "?");
    PyErr_Clear();
    PyObject *line = p->line > 0 ? source_line(code->co_filename, (int)p->line) : NULL;
    const char *text = line == NULL ? NULL : PyUnicode_AsUTF8(line);
    if (text != NULL && text[0] != 0) {
        dyn_str_printf(out, "\n    %s", text);
        if (p->col >= 0) {
            put_carets(out, text, p);
        }
    }
    PyErr_Clear();
    Py_XDECREF(line);
    PyErr_Restore(type, value, tb);
}

void dyn_report_reason(DynStr *out, DynReason why, const char *detail, const DynPlace *place) {
    dyn_str_printf(out, "%s: %s", dyn_reason_code(why), dyn_reason_message(why));
    if (detail != NULL) {
        dyn_str_printf(out, " (%s)", detail);
    }
    dyn_str_putc(out, '\n');
    if (place != NULL && place->code != NULL) {
        dyn_report_place(out, place);
        dyn_str_putc(out, '\n');
    }
    dyn_str_printf(out, "hint: %s", dyn_reason_hint_for(why, detail));
}

void dyn_report_way(DynStr *out, DynReason why, const char *detail, const DynPlace *inner, uint32_t n, const DynPlace *outer) {
    dyn_report_reason(out, why, detail, n > 0 ? &inner[0] : outer);
    if (n > 0) {
        dyn_str_puts(out, "\ncalled from");
        for (uint32_t i = 1; i <= n; i++) {
            dyn_str_putc(out, '\n');
            dyn_report_place(out, i < n ? &inner[i] : outer);
        }
    }
}
