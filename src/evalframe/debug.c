/* debug.c: what the pipeline made, for people: log records, and one folder for each entry under DYNOC_DEBUG.
 *
 * Called by compile.c and hook.c, with the GIL. Texts are collected in a DynDump only where somebody wants them. Failures are
 * swallowed: a log is never in the way. */
#include "evalframe/door.h"
#include "evalframe/follow.h"
#include "ir/place.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool dyn_debug_wanted(const DynConfig *config, DynLog log) { return config->debug || dyn_log_on(log); }

void dyn_debug_free(DynDump *d) {
    DynStr *const all[] = {&d->graph,    &d->python, &d->loops[0], &d->loops[1], &d->loops[2], &d->guards,
                           &d->bytecode, &d->source, &d->story,    &d->program,  &d->calls};
    for (size_t i = 0; i < DYN_COUNTOF(all); i++) {
        dyn_str_free(all[i]);
    }
}

PyObject *dyn_debug_text(DynStr *s) {
    PyObject *text = s->failed ? PyErr_NoMemory() : PyUnicode_DecodeUTF8(dyn_str_at(s), s->n, "replace");
    dyn_str_free(s);
    return text;
}

void dyn_debug_add_text(PyObject **list, DynStr *s) {
    PyObject *text = dyn_debug_text(s);
    if (text == NULL || PyList_Append(*list, text) < 0) {
        Py_CLEAR(*list);
    }
    Py_XDECREF(text);
}

/* What a function of the Python face writes of the capture's data; `otherwise` where it can't. */
static void put_from_face(const DynCapture *c, const char *module, const char *function, const char *otherwise, DynStr *out) {
    PyObject *data = dyn_capture_data(c), *face = data == NULL ? NULL : dyn_import(module);
    PyObject *text = face == NULL ? NULL : PyObject_CallMethod(face, function, "O", data);
    const char *utf8 = text != NULL && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    dyn_str_puts(out, utf8 != NULL ? utf8 : otherwise);
    Py_XDECREF(text);
    Py_XDECREF(face);
    Py_XDECREF(data);
    PyErr_Clear();
}

/* What operators are in PyTorch's words the Python face knows. */
void dyn_debug_program(const DynCapture *c, DynStr *out) {
    if (!dyn_graph_has_tensors(&c->graph)) {
        dyn_graph_print_python(&c->graph, out);
        return;
    }
    put_from_face(c, "dynoc._program", "text_of", "raise SystemExit(\"this graph has no program\")\n", out);
}

void dyn_debug_calls(const DynCapture *c, DynStr *out) {
    if (c->graph.externs.n > 0) {
        put_from_face(c, "dynoc._calls", "text_of", "", out);
    }
}

/* dis.Bytecode(code).dis(). */
void dyn_debug_disassemble(PyObject *code, DynStr *out) {
    PyObject *dis = dyn_import("dis");
    PyObject *bytecode = dis == NULL ? NULL : PyObject_CallMethod(dis, "Bytecode", "O", code);
    PyObject *text = bytecode == NULL ? NULL : PyObject_CallMethod(bytecode, "dis", NULL);
    const char *utf8 = text != NULL && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    dyn_str_puts(out, utf8 ? utf8 : "");
    Py_XDECREF(text);
    Py_XDECREF(bytecode);
    Py_XDECREF(dis);
    PyErr_Clear();
}

void dyn_debug_break(DynReason why, const DynPlace *place, const char *what) {
    if (!dyn_log_on(DYN_LOG_graph_breaks)) {
        return;
    }
    DynStr s = {0};
    dyn_str_printf(&s, "%s ", what);
    dyn_report_reason(&s, why, NULL, place);
    dyn_log_text(DYN_LOG_graph_breaks, dyn_str_at(&s));
    dyn_str_free(&s);
}

void dyn_debug_end(const DynCapture *c) {
    if (!dyn_log_on(DYN_LOG_graph_breaks)) {
        return;
    }
    DynStr s = {0};
    dyn_str_puts(&s, "break ");
    dyn_report_way(&s, c->cause, c->detail, c->inner.at, c->inner.n, &c->end_place);
    dyn_log_text(DYN_LOG_graph_breaks, dyn_str_at(&s));
    dyn_str_free(&s);
}

static void print_guards(const DynCapture *c, DynStr *out) {
    for (uint32_t i = 0; i < c->guards.n; i++) {
        const DynGuard *g = &c->guards.at[i];
        dyn_guard_print(c, g, out);
        if (g->place < c->graph.places.n) {
            const DynPlace *p = &c->graph.places.at[g->place];
            const char *file = PyUnicode_AsUTF8(((PyCodeObject *)p->code)->co_filename);
            dyn_str_printf(out, "    # %s:%d", file ? file : "?", (int)p->line);
        }
        dyn_str_putc(out, '\n');
    }
    PyErr_Clear();
}

static void print_times(const DynEntry *e, DynStr *out) {
    for (int i = 0; i < DYN_STAGE_COUNT; i++) {
        dyn_str_printf(out, "%-9s %9.1f us\n", dyn_stage_names[i], (double)e->stage_ns[i] * 1e-3);
    }
    dyn_str_printf(out, "recording %9.1f us, %u instructions\n", (double)e->capture->record_ns * 1e-3, e->capture->ninstrs);
}

/* ---- the debug folder: DEBUG_DIR/run_TIME-PID/FUNCTION_N/ */

static int make_folder(const char *path) { return mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : -1; }

static int folder_of(const DynDump *d, DynStr *path) {
    static char run[48];
    static long pid;
    const char *base = d->config->debug_dir;
    if (pid != (long)getpid()) {
        struct tm t;
        time_t now = time(NULL);
        char when[24] = "";
        pid = (long)getpid();
        if (localtime_r(&now, &t) != NULL) {
            strftime(when, sizeof when, "%Y%m%d-%H%M%S", &t);
        }
        snprintf(run, sizeof run, "run_%s-%ld", when, pid);
    }
    dyn_str_puts(path, base != NULL && base[0] ? base : "dynoc_debug");
    if (make_folder(dyn_str_at(path)) < 0) {
        return -1;
    }
    dyn_str_printf(path, "/%s", run);
    if (make_folder(dyn_str_at(path)) < 0) {
        return -1;
    }
    dyn_str_putc(path, '/');
    for (const char *c = d->entry->capture->graph.name; *c; c++) { /* "<lambda>" */
        dyn_str_putc(path, Py_ISALNUM(*c) || *c == '_' ? *c : '-');
    }
    dyn_str_printf(path, "_%u", d->entry->number);
    return make_folder(dyn_str_at(path));
}

static int write_text(const DynStr *folder, const char *name, const DynStr *text) {
    DynStr path = {0};
    dyn_str_printf(&path, "%s/%s", dyn_str_at(folder), name);
    FILE *f = path.failed ? NULL : fopen(dyn_str_at(&path), "w");
    dyn_str_free(&path);
    if (f == NULL) {
        return -1;
    }
    bool written = fputs(dyn_str_at(text), f) >= 0;
    return fclose(f) == 0 && written ? 0 : -1;
}

static void write_folder(const DynDump *d, const DynStr *times) {
    DynStr folder = {0}, schedule = {0};
    static const char *const headings[] = {"lowered", "fused", "scheduled and planned"};
    for (int i = 0; i < 3; i++) {
        dyn_str_printf(&schedule, "# %s\n%s\n", headings[i], dyn_str_at(&d->loops[i]));
    }
    const struct {
        const char *name;
        const DynStr *text;
    } files[] = {{"graph.py", &d->python},       {"graph.txt", &d->graph},   {"guards.txt", &d->guards},
                 {"bytecode.txt", &d->bytecode}, {"kernels.c", &d->program}, {"schedule.txt", &schedule},
                 {"fusion.txt", &d->story},      {"timing.txt", times},      {"calls.txt", &d->calls}};
    int done = folder_of(d, &folder);
    for (size_t i = 0; done == 0 && i < DYN_COUNTOF(files); i++) {
        bool is_left_out = files[i].text == &d->calls && d->calls.n == 0;
        done = is_left_out ? 0 : write_text(&folder, files[i].name, files[i].text);
    }
    if (done == 0 && d->entry->follow != NULL) {
        dyn_follow_note_in(d->entry->follow, dyn_str_at(&folder));
    }
    if (done == 0 && d->entry->artifact != NULL) {
        dyn_str_puts(&folder, "/timing.txt");
        dyn_artifact_tell_builds(d->entry->artifact, dyn_str_at(&folder), "the graph");
    }
    if (done < 0) {
        dyn_warn_once(DYN_R_NO_FOLDER, "%s: %s", dyn_str_at(&folder), strerror(errno));
    }
    dyn_str_free(&folder);
    dyn_str_free(&schedule);
}

/* ---- */

static void log_text(const DynDump *d, DynLog log, const DynStr *text) {
    if (dyn_log_on(log) && text->n > 0) {
        dyn_log(log, "%s, entry %u:\n%s", d->entry->capture->graph.name, d->entry->number, dyn_str_at(text));
    }
}

void dyn_debug_entry(DynDump *d) {
    DynStr times = {0}, capture = {0};
    if (dyn_debug_wanted(d->config, DYN_LOG_guards)) {
        print_guards(d->entry->capture, &d->guards);
    }
    if (d->config->debug && d->bytecode.n == 0) {
        dyn_debug_disassemble(d->entry->capture->code, &d->bytecode);
    }
    if (dyn_debug_wanted(d->config, DYN_LOG_perf)) {
        print_times(d->entry, &times);
    }
    log_text(d, DYN_LOG_graph, &d->graph);
    log_text(d, DYN_LOG_guards, &d->guards);
    log_text(d, DYN_LOG_fusion, &d->story);
    log_text(d, DYN_LOG_fusion, &d->loops[1]);
    log_text(d, DYN_LOG_schedule, &d->loops[2]);
    log_text(d, DYN_LOG_output_code, &d->source);
    if (dyn_log_on(DYN_LOG_bytecode)) { /* what the rewritten code's values are made of */
        dyn_capture_print(d->entry->capture, &capture);
    }
    log_text(d, DYN_LOG_bytecode, &capture);
    log_text(d, DYN_LOG_bytecode, &d->bytecode);
    log_text(d, DYN_LOG_perf, &times);
    if (d->config->debug) {
        write_folder(d, &times);
    }
    dyn_str_free(&times);
    dyn_str_free(&capture);
}
