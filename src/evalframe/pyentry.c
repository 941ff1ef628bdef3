/* pyentry.c: a cache entry as Python shows it: fast.entries[i].guards, .graph, .code, .source, .tier, .hits …
 *
 * Made by the door's `entries`. Holds the entry; everything is made when it is asked for. */
#include "evalframe/follow.h"
#include "ir/place.h"

typedef struct PyEntry {
    PyObject_HEAD DynEntry *entry;
} PyEntry;

static DynEntry *entry_of(PyObject *self) { return ((PyEntry *)self)->entry; }

static PyObject *get_guards(PyObject *self, void *none) {
    const DynCapture *c = entry_of(self)->capture;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < c->guards.n; i++) {
        DynStr s = {0};
        dyn_guard_print(c, &c->guards.at[i], &s);
        dyn_debug_add_text(&list, &s);
    }
    return list;
}

static PyObject *get_groups(PyObject *self, void *none) {
#define HEADING_OF(k, heading, cure) heading,
    static const char *const headings[] = {DYN_GUARD_GROUPS(HEADING_OF)};
#undef HEADING_OF
    const DynCapture *c = entry_of(self)->capture;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < c->guards.n; i++) {
        DynStr s = {0};
        dyn_str_puts(&s, headings[dyn_guard_rows[c->guards.at[i].kind].group]);
        dyn_debug_add_text(&list, &s);
    }
    return list;
}

static PyObject *get_text(PyObject *self, void *none) {
    DynStr s = {0};
    dyn_graph_print(&entry_of(self)->capture->graph, &s);
    return dyn_debug_text(&s);
}

static PyObject *get_data(PyObject *self, void *none) { return dyn_capture_data(entry_of(self)->capture); }

static PyObject *get_bytes(PyObject *self, void *none) { return dyn_memory_parts(entry_of(self)); }

/* The Python face has the class. */
static PyObject *get_graph(PyObject *self, void *none) {
    PyObject *face = dyn_import("dynoc._capture");
    PyObject *graph = face == NULL ? NULL : PyObject_CallMethod(face, "graph_of", "O", self);
    Py_XDECREF(face);
    return graph;
}

/* An entry that leaves no Python behind needs no code; who asks gets one that does the same. */
static PyObject *get_code(PyObject *self, void *none) {
    DynEntry *e = entry_of(self);
    if (e->code != NULL) {
        return Py_NewRef(e->code);
    }
    if (e->capture->end != DYN_END_RETURN) {
        return Py_NewRef(e->capture->code);
    }
    DynCode *c = dyn_decode((PyCodeObject *)e->capture->code);
    if (c == NULL) {
        return NULL;
    }
    if (e->runner == NULL) {
        e->runner = dyn_hit_runner_new(e);
    }
    e->code = e->runner == NULL ? NULL : dyn_asm_whole(c, e->runner);
    dyn_decode_free(c);
    return Py_XNewRef(e->code);
}

static PyObject *get_source(PyObject *self, void *none) {
    DynArtifact *a = entry_of(self)->artifact;
    DynStr text = {0};
    if (a != NULL) {
        dyn_artifact_source(a, &text);
    } else if (entry_of(self)->follow != NULL) {
        dyn_follow_source(entry_of(self)->follow, &text);
    }
    return dyn_debug_text(&text);
}

static PyObject *get_tier(PyObject *self, void *none) {
    static const char *const names[] = {[DYN_TIER_EAGER] = "eager", [DYN_TIER_BUILTIN] = "builtin", [DYN_TIER_NATIVE] = "native"};
    DynArtifact *a = entry_of(self)->artifact;
    const DynFollow *f = entry_of(self)->follow;
    DynTier tier = a == NULL ? DYN_TIER_EAGER : dyn_artifact_tier(a);
    return PyUnicode_FromString(names[f == NULL ? tier : dyn_follow_tier(f)]);
}

static PyObject *get_lengths(PyObject *self, void *none) {
    DynArtifact *a = entry_of(self)->artifact;
    PyObject *list = PyList_New(0);
    int kernel;
    int64_t n;
    for (long i = 0; a != NULL && list != NULL && dyn_artifact_length(a, i, &kernel, &n); i++) {
        PyObject *pair = Py_BuildValue("(iL)", kernel, (long long)n);
        if (pair == NULL || PyList_Append(list, pair) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(pair);
    }
    return list;
}

static PyObject *get_hits(PyObject *self, void *none) { return PyLong_FromLongLong(entry_of(self)->hits); }

static PyObject *get_number(PyObject *self, void *none) { return PyLong_FromUnsignedLong(entry_of(self)->number); }

static PyObject *get_end(PyObject *self, void *none) {
    static const char *const names[] = {
        [DYN_END_RETURN] = "return", [DYN_END_BREAK] = "break", [DYN_END_LEAVE] = "leave", [DYN_END_PASS] = "break"};
    return PyUnicode_FromString(names[entry_of(self)->capture->end]);
}

static PyObject *get_reason(PyObject *self, void *none) {
    DynReason r = entry_of(self)->capture->cause;
    return entry_of(self)->capture->end == DYN_END_RETURN ? Py_NewRef(Py_None) : PyUnicode_FromString(dyn_reason_code(r));
}

static PyObject *get_why(PyObject *self, void *none) {
    const DynCapture *c = entry_of(self)->capture;
    DynStr s = {0};
    if (c->end == DYN_END_RETURN) {
        Py_RETURN_NONE;
    }
    dyn_report_way(&s, c->cause, c->detail, c->inner.at, c->inner.n, &c->end_place);
    return dyn_debug_text(&s);
}

static PyObject *get_kernels(PyObject *self, void *none) {
    const DynEntry *e = entry_of(self);
    long n = e->artifact == NULL ? 0 : dyn_artifact_kernel_count(e->artifact);
    for (uint32_t i = 0; e->follow != NULL && i < e->follow->steps.n; i++) {
        const DynFollowStep *step = &e->follow->steps.at[i];
        const DynArtifact *part = step->kind == DYN_FOLLOW_PART ? dyn_follow_part_artifact(step->part) : NULL;
        n += part == NULL ? 0 : dyn_artifact_kernel_count(part);
    }
    return PyLong_FromLong(n);
}

static PyObject *get_failure(PyObject *self, void *none) {
    DynEntry *e = entry_of(self);
    const char *detail = NULL;
    DynReason r = e->plain != DYN_R_OK || e->artifact == NULL ? e->plain : dyn_artifact_failure(e->artifact, &detail);
    return r == DYN_R_OK ? Py_NewRef(Py_None) : PyUnicode_FromString(dyn_reason_code(r));
}

static PyObject *get_times(PyObject *self, void *none) {
    DynEntry *e = entry_of(self);
    PyObject *times = PyDict_New();
    for (int i = -1; times != NULL && i < DYN_STAGE_COUNT; i++) {
        PyObject *seconds = PyFloat_FromDouble((double)(i < 0 ? e->capture->record_ns : e->stage_ns[i]) * 1e-9);
        if (seconds == NULL || PyDict_SetItemString(times, i < 0 ? "record" : dyn_stage_names[i], seconds) < 0) {
            Py_CLEAR(times);
        }
        Py_XDECREF(seconds);
    }
    return times;
}

static PyObject *get_made(PyObject *self, void *none) { return PyFloat_FromDouble((double)entry_of(self)->made_ns * 1e-9); }

/* A part of a graph that autograd follows, as a step. */
static PyObject *part_row(const DynFollowStep *step) {
    PyObject *outputs = PyList_New(0);
    for (uint32_t i = 0; outputs != NULL && i < (step->part != NULL ? step->outputs.n : 1); i++) {
        PyObject *node = PyLong_FromUnsignedLong(step->part != NULL ? step->outputs.at[i] : step->node);
        if (node == NULL || PyList_Append(outputs, node) < 0) {
            Py_CLEAR(outputs);
        }
        Py_XDECREF(node);
    }
    const char *kind = step->part != NULL ? "part" : step->kind == DYN_FOLLOW_VIEW ? "view" : "extern";
    return outputs == NULL ? NULL : Py_BuildValue("{ss,ss,sN}", "kind", kind, "name", kind, "outputs", outputs);
}

static PyObject *get_steps(PyObject *self, void *none) {
    const DynEntry *e = entry_of(self);
    PyObject *list = PyList_New(0);
    int done = list == NULL ? -1 : e->artifact == NULL ? 0 : dyn_artifact_steps(e->artifact, list);
    for (uint32_t i = 0; done == 0 && e->follow != NULL && i < e->follow->steps.n; i++) {
        PyObject *row = part_row(&e->follow->steps.at[i]);
        done = row == NULL ? -1 : PyList_Append(list, row);
        Py_XDECREF(row);
    }
    if (done < 0) {
        Py_CLEAR(list);
    }
    return list;
}

static PyObject *repr(PyObject *self) {
    DynEntry *e = entry_of(self);
    return PyUnicode_FromFormat("<dynoc entry %u of %s: %u guards, %u nodes, %lld hits>", e->number, e->capture->graph.name,
                                e->capture->guards.n, e->capture->graph.nodes.n, (long long)e->hits);
}

static PyGetSetDef getset[] = {
    {"guards", get_guards, NULL, "What has to hold, as Python expressions over the arguments.", NULL},
    {"_groups", get_groups, NULL, "The heading under which each guard belongs.", NULL},
    {"graph", get_graph, NULL, "The captured graph.", NULL},
    {"_text", get_text, NULL, "The captured graph, one node a line.", NULL},
    {"_data", get_data, NULL, "The captured graph as plain data: src/dynoc/_capture.py.", NULL},
    {"_made", get_made, NULL, "When it was made: seconds of the monotonic clock.", NULL},
    {"_steps", get_steps, NULL, "Kernels, calls and views of its graph, in order, with the nodes that each makes.", NULL},
    {"_bytes", get_bytes, NULL, "Bytes that it holds, by part: bench/entries.py.", NULL},
    {"code", get_code, NULL, "The rewritten code object.", NULL},
    {"source", get_source, NULL, "Generated C.", NULL},
    {"tier", get_tier, NULL, "\"eager\", \"builtin\" or \"native\".", NULL},
    {"lengths", get_lengths, NULL, "Lengths of rows that came so often that a kernel has code for them alone: (kernel, length).",
     NULL},
    {"hits", get_hits, NULL, "Calls that this entry served.", NULL},
    {"number", get_number, NULL, "Entries are numbered in the order in which they are made.", NULL},
    {"end", get_end, NULL, "\"return\", \"break\" or \"leave\": how the recorded segment ended.", NULL},
    {"reason", get_reason, NULL, "Code of the reason why the segment ended before the function; None: it didn't.", NULL},
    {"why", get_why, NULL, "That reason in a sentence, its place, and what can be done; None: the segment is the whole function.",
     NULL},
    {"kernels", get_kernels, NULL, "How many kernels its graph became.", NULL},
    {"failure", get_failure, NULL, "Code of the reason why it runs as plain Python; None.", NULL},
    {"times", get_times, NULL, "Seconds spent in each stage; recording has the program's own work in it.", NULL},
    {0}};

static void dealloc(PyObject *self) {
    dyn_entry_decref(entry_of(self));
    PyObject_Free(self);
}

static PyTypeObject Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.Entry",
    .tp_doc = "A cache entry of an optimised function.",
    .tp_basicsize = sizeof(PyEntry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = dealloc,
    .tp_repr = repr,
    .tp_getset = getset,
};

PyObject *dyn_pyentry_new(DynEntry *e) {
    PyEntry *p = PyObject_New(PyEntry, &Entry_Type);
    if (p != NULL) {
        p->entry = e;
        dyn_entry_incref(e);
    }
    return (PyObject *)p;
}

static int append_entries(PyObject *list, const DynCache *c) {
    for (uint32_t i = 0; i < c->entries.n; i++) {
        PyObject *p = dyn_pyentry_new(c->entries.at[i]);
        int done = p == NULL ? -1 : PyList_Append(list, p);
        Py_XDECREF(p);
        if (done < 0) {
            return -1;
        }
    }
    return 0;
}

PyObject *dyn_pyentry_list(DynCache *c) {
    PyObject *list = PyList_New(0);
    int done = list == NULL ? -1 : append_entries(list, c);
    for (uint32_t i = 0; done == 0 && i < c->resumes.n; i++) {
        done = append_entries(list, dyn_door_cache(c->resumes.at[i].door));
    }
    if (done < 0) {
        Py_CLEAR(list);
    }
    return list;
}

int dyn_pyentry_init(PyObject *module) {
    return PyType_Ready(&Entry_Type) < 0 ? -1 : PyModule_AddObjectRef(module, "Entry", (PyObject *)&Entry_Type);
}
