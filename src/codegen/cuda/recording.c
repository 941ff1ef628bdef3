/* recording.c: makes the recording of a call as a CUDA graph: the call runs while its stream is captured, so that launches become
 * nodes and nothing is computed.
 *
 * Called by replay.c with the GIL. Capture and memory are PyTorch's (torch.cuda.CUDAGraph): what a captured call allocates comes
 * from a pool of the graph's own and stays its. Of dynoc's kernels the nodes are noted, for replay.c to change the addresses that
 * they were launched with; calls of PyTorch's keep theirs, so that inputs which move and which such calls read are recorded as
 * copies that stand still.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GRAPH.html */
#include "base/log.h"
#include "base/torch.h"
#include "codegen/cuda/replay.h"

/* ---- which graphs */

static const char *call_in_the_way(const DynGraph *g, uint32_t node) {
    const DynNode *n = dyn_graph_node(g, node);
    const DynExtern *x = &g->externs.at[n->extern_index];
    uint32_t written = dyn_graph_written(g, node);
    if (x->once || (written != DYN_NONE && dyn_graph_node(g, written)->op == DYN_OP_INPUT)) {
        return "a call changes something";
    }
    for (int i = 0; i < n->nargs; i++) {
        if (n->args[i].kind == DYN_ARG_SOURCE) {
            return "a call takes an object that is no tensor of the graph";
        }
    }
    return NULL;
}

bool dyn_recording_possible(const DynLoops *p, const char **why) {
    const DynGraph *g = p->graph;
    *why = p->writes_inputs || p->written.n > 0 ? "an input is written" : NULL;
    for (uint32_t i = 0; i < g->syms->v.n && *why == NULL; i++) {
        const DynSym *sym = dyn_sym_at(g->syms, i);
        *why = sym->op == DYN_S_LATE && sym->b == DYN_LATE_NUMBER ? "a call gives a number" : NULL;
    }
    for (uint32_t i = 0; i < g->outputs.n && *why == NULL; i++) {
        *why = dyn_graph_node(g, g->outputs.at[i])->flags & DYN_NODE_OBJECT ? "a call gives an object" : NULL;
    }
    for (uint32_t s = 0; s < p->steps.n && *why == NULL; s++) {
        *why = p->steps.at[s].kind == DYN_STEP_EXTERN ? call_in_the_way(g, p->steps.at[s].id) : NULL;
    }
    return *why == NULL;
}

/* Sizes, and what calls and views are handed, and all that these are made of. */
static void fix_numbers(const DynLoops *p, bool *fixed) {
    const DynSyms *t = p->graph->syms;
    for (uint32_t i = 0; i < p->nplaces; i++) {
        for (int d = 0; d < p->places[i].ndim; d++) {
            fixed[p->places[i].shape[d]] = true;
        }
    }
    for (uint32_t i = 0; i < p->kernels.n; i++) {
        for (int d = 0; d < p->kernels.at[i].ndim; d++) {
            fixed[p->kernels.at[i].shape[d]] = true;
        }
    }
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const DynStep *step = &p->steps.at[s];
        bool is_node = step->kind != DYN_STEP_KERNEL && step->id < p->nnodes; /* a copy that is reshaped is a place of its own */
        const DynNode *n = is_node ? dyn_graph_node(p->graph, step->id) : NULL;
        for (int i = 0; n != NULL && i < n->nargs; i++) {
            if (n->args[i].kind == DYN_ARG_SYM) {
                fixed[n->args[i].id] = true;
            }
        }
    }
    for (uint32_t i = t->v.n; i-- > 0;) {
        const DynSym *sym = dyn_sym_at(t, i);
        bool is_made = fixed[i] && sym->op != DYN_S_CONST && sym->op != DYN_S_LATE && !dyn_sym_is_read(sym->op);
        for (int k = 0; is_made && k < dyn_sym_info[sym->op].arity; k++) {
            fixed[dyn_sym_operand(sym, k)] = true;
        }
    }
}

void dyn_recording_touch(const DynLoops *p, bool *touched, bool *varies) {
    fix_numbers(p, varies);
    for (uint32_t i = 0; i < p->graph->syms->v.n; i++) {
        varies[i] = !varies[i];
    }
    for (uint32_t s = 0; s < p->steps.n; s++) {
        if (p->steps.at[s].kind != DYN_STEP_EXTERN) {
            continue;
        }
        const DynNode *n = dyn_graph_node(p->graph, p->steps.at[s].id);
        for (int i = 0; i < n->nargs; i++) {
            if (n->args[i].kind == DYN_ARG_NODE) {
                touched[dyn_loops_storage(p, n->args[i].id)] = true;
            }
        }
    }
}

/* ---- launches */

static int note(DynCudaRecording *r, DynReplayed *k, const int64_t *words, int nwords) {
    k->words = PyMem_Malloc(sizeof(*words) * (size_t)nwords);
    if (k->words == NULL || dyn_vec_push(&r->kernels, *k) < 0) {
        PyMem_Free(k->words);
        dyn_vec_free(&k->patches);
        return -1;
    }
    memcpy(k->words, words, sizeof(*words) * (size_t)nwords);
    return 0;
}

static int note_line(DynReplayed *k, const int64_t *words, int first, const DynCudaLine *l) {
    int base = first + DYN_CUDA_HEAD + 2 * dyn_cuda_rank(l->b.k), nops = l->b.nops,
        params = base + nops * (1 + dyn_cuda_rank(l->b.k));
    for (int i = 0; i < nops; i++) {
        uint32_t place = dyn_loops_storage(l->p, l->b.k->operands.at[i].place);
        DynPatch patch = {(uint32_t)(base + i), place, words[base + i], NULL};
        if (!(l->rowed >> i & 1) && dyn_vec_push(&k->patches, patch) < 0) {
            return -1;
        }
    }
    for (int i = 0; i < (int)l->b.k->params.n; i++) {
        DynPatch patch = {(uint32_t)(params + i), DYN_NONE, words[params + i], &l->b.k->params.at[i]};
        if (dyn_vec_push(&k->patches, patch) < 0) {
            return -1;
        }
    }
    return 0;
}

void dyn_recording_note(DynCudaRecording *r, const DynCudaNodeParams *launch, void *stream, const int64_t *words, int nwords,
                        const DynCudaLine *lines, const int *first, int nlines) {
    int status = 0;
    unsigned long long id = 0;
    DynCudaGraph *graph = NULL;
    DynCudaNode *const *last = NULL;
    size_t n = 0;
    DynReplayed k = {.launch = *launch};
    bool known = dyn_cuda.StreamGetCaptureInfo(stream, &status, &id, &graph, &last, &n) == 0 && n == 1;
    int done = known ? 0 : -1;
    for (int i = 0; i < nlines && done == 0; i++) {
        done = note_line(&k, words, first[i], &lines[i]);
    }
    if (done < 0) {
        dyn_vec_free(&k.patches);
    } else {
        k.node = last[0];
        done = note(r, &k, words, nwords);
    }
    r->failed |= done < 0;
}

int dyn_recording_keep(DynCudaRecording *r, PyObject *tensor) {
    if (dyn_vec_push(&r->memory, tensor) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    Py_INCREF(tensor);
    return 0;
}

/* ---- PyTorch's part */

static PyObject *of_torch(const char *path) {
    PyObject *found = dyn_torch_lookup(dyn_torch_module, path);
    if (found == NULL && !PyErr_Occurred()) {
        PyErr_Format(PyExc_AttributeError, "this PyTorch has no torch.%s", path);
    }
    return found;
}

static PyObject *call_torch(const char *path, PyObject *argument) {
    PyObject *f = of_torch(path);
    PyObject *result = f == NULL ? NULL : PyObject_CallFunctionObjArgs(f, argument, NULL);
    Py_XDECREF(f);
    return result;
}

/* What a capture changes in PyTorch, for `end` to put back. */
typedef struct Capture {
    PyObject *device; /* that PyTorch worked on */
    PyObject *stream; /* that was current on the graph's device */
    bool begun, collected;
} Capture;

static PyObject *new_graph(void) {
    PyObject *type = of_torch("cuda.CUDAGraph"), *none = PyTuple_New(0), *keep = Py_BuildValue("{sO}", "keep_graph", Py_True);
    PyObject *graph = type == NULL || none == NULL || keep == NULL ? NULL : PyObject_Call(type, none, keep);
    Py_XDECREF(type);
    Py_XDECREF(none);
    Py_XDECREF(keep);
    return graph;
}

/* A new stream of the graph's device becomes the current one, which makes that device the current one. */
static int change_stream(Capture *c, uint8_t device) {
    PyObject *on = dyn_torch_device_object(device), *side = on == NULL ? NULL : call_torch("cuda.Stream", on), *done = NULL;
    c->device = side == NULL ? NULL : call_torch("cuda.current_device", NULL);
    c->stream = c->device == NULL ? NULL : call_torch("cuda.current_stream", on);
    if (c->stream != NULL && (done = call_torch("cuda.set_stream", side)) != NULL) {
        c->begun = true;
        c->collected = PyGC_Disable();
    }
    Py_XDECREF(side);
    Py_XDECREF(done);
    return c->begun ? 0 : -1;
}

/* Only what this thread does is captured, and nothing is collected meanwhile: a finaliser could free memory. */
static int begin(DynCudaRecording *r, Capture *c, uint8_t device) {
    r->graph = new_graph();
    PyObject *begins = r->graph == NULL ? NULL : PyObject_GetAttrString(r->graph, "capture_begin");
    PyObject *none = PyTuple_New(0), *mode = Py_BuildValue("{ss}", "capture_error_mode", "thread_local");
    bool ready = begins != NULL && none != NULL && mode != NULL && change_stream(c, device) == 0;
    PyObject *done = ready ? PyObject_Call(begins, none, mode) : NULL;
    Py_XDECREF(begins);
    Py_XDECREF(none);
    Py_XDECREF(mode);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* No longer an exception: the first one says why there is no recording. */
static void say(DynCudaRecording *r) {
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    PyObject *text = error == NULL || r->why.n > 0 ? NULL : PyObject_Str(error);
    const char *s = text == NULL ? NULL : PyUnicode_AsUTF8(text);
    if (r->why.n == 0) {
        dyn_str_printf(&r->why, "%.300s", s == NULL ? "memory ran out" : s);
    }
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    PyErr_Clear();
}

static int refuse(DynCudaRecording *r, const char *why) {
    dyn_str_puts(&r->why, r->why.n > 0 ? "" : why);
    return -1;
}

/* Done, or said why not. */
static bool is_done(DynCudaRecording *r, PyObject *result) {
    if (result == NULL) {
        say(r);
    }
    Py_XDECREF(result);
    return result != NULL;
}

/* Stream and device as they were, whatever has happened. No exception is set. */
static int end(DynCudaRecording *r, Capture *c, bool captures) {
    bool ok = captures && is_done(r, PyObject_CallMethod(r->graph, "capture_end", NULL));
    if (c->begun) {
        ok &= is_done(r, call_torch("cuda.set_stream", c->stream));
        ok &= is_done(r, call_torch("cuda.set_device", c->device));
    }
    if (c->collected) {
        PyGC_Enable();
    }
    Py_CLEAR(c->stream);
    Py_CLEAR(c->device);
    return ok ? 0 : -1;
}

static int instantiate(DynCudaRecording *r) {
    PyObject *done = PyObject_CallMethod(r->graph, "instantiate", NULL);
    PyObject *exec = done == NULL ? NULL : PyObject_CallMethod(r->graph, "raw_cuda_graph_exec", NULL);
    r->exec = exec == NULL ? NULL : PyLong_AsVoidPtr(exec);
    Py_XDECREF(done);
    Py_XDECREF(exec);
    return r->exec == NULL ? -1 : 0;
}

/* ---- the call that is recorded */

static bool same_layout(const DynNode *n, const DynGeom *a, const DynGeom *b) {
    for (int d = 0; d < n->ndim; d++) {
        if (a->dims[d] != b->dims[d] || (a->dims[d] > 1 && a->strides[d] != b->strides[d])) {
            return false;
        }
    }
    return true;
}

/* A new tensor like this one, which lies as `geom` says; NULL: it can't lie so, or there is no memory. */
static PyObject *like(PyObject *tensor, const DynNode *n, const DynGeom *geom, DynCudaRecording *r) {
    PyObject *made = call_torch("empty_like", tensor);
    DynGeom other;
    if (made != NULL && (dyn_call_geom(made, &other) < 0 || !same_layout(n, &other, geom))) {
        refuse(r, PyErr_Occurred() ? "" : "something that has to be copied doesn't lie densely");
        Py_CLEAR(made);
    }
    return made;
}

/* Inputs that move and that calls read: as tensors that don't. */
static int make_still(const DynReplays *all, DynCudaRecording *r, const DynCall *c, PyObject **inputs) {
    const DynGraph *g = c->p->graph;
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        uint32_t node = g->inputs.at[i];
        inputs[i] = c->run->inputs[i];
        if (!all->moves[i] || !all->touched[node]) {
            continue;
        }
        r->still[i] = like(inputs[i], dyn_graph_node(g, node), &c->geoms[node], r);
        if (r->still[i] == NULL || dyn_replay_copy(r->still[i], inputs[i]) < 0) {
            return -1;
        }
        inputs[i] = r->still[i];
    }
    return 0;
}

/* Bytes in which elements of a place may lie. */
static void span(const DynNode *n, const DynGeom *g, char **low, char **high) {
    *low = *high = g->data;
    bool none = false;
    for (int d = 0; d < n->ndim; d++) {
        int64_t far = (g->dims[d] - 1) * g->strides[d];
        none |= g->dims[d] == 0;
        *(far < 0 ? low : high) += far;
    }
    *high = none ? *low : *high + dyn_dtypes[n->dtype].size;
}

static bool overlap(const DynGraph *g, const DynGeom *geoms, uint32_t a, uint32_t b) {
    char *from[2], *to[2];
    span(dyn_graph_node(g, a), &geoms[a], &from[0], &to[0]);
    span(dyn_graph_node(g, b), &geoms[b], &from[1], &to[1]);
    return from[0] < to[1] && from[1] < to[0];
}

/* Is what a call gave memory of its own, and not that of an input or of another result? Copies of it would part them. */
static bool is_apart(const DynGraph *g, const DynCudaRecording *r, uint32_t place) {
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        if (overlap(g, r->geoms, place, g->inputs.at[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < place; i++) {
        if (r->made[i] != NULL && overlap(g, r->geoms, place, i)) {
            return false;
        }
    }
    return true;
}

/* What the graph gives: inputs, arrays that each call makes anew for dynoc's kernels to fill, and copies of the rest. */
static int take_results(const DynReplays *all, DynCudaRecording *r, const DynCall *c) {
    const DynGraph *g = c->p->graph;
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        uint32_t place = dyn_loops_storage(c->p, g->outputs.at[i]);
        if (dyn_graph_node(g, place)->op == DYN_OP_INPUT || r->made[place] != NULL) {
            continue;
        }
        bool anew = c->p->places[place].kind == DYN_P_ARRAY && !all->touched[place];
        if (c->objects[place] == NULL || !is_apart(g, r, place)) {
            return refuse(r, "what it gives shares memory with something else");
        }
        PyObject *copy = anew ? Py_NewRef(Py_None) : like(c->objects[place], dyn_graph_node(g, place), &r->geoms[place], r);
        if (copy == NULL) {
            return -1;
        }
        Py_DECREF(copy);
        r->made[place] = anew ? NULL : Py_NewRef(c->objects[place]);
    }
    return 0;
}

/* Microseconds of the host's, as measured on H100s: what a launch or a call takes that a replay doesn't make; a replay, and each
 * copy in or out. */
#define OF_LAUNCH 4
#define OF_CALL 8
#define OF_REPLAY 8
#define OF_COPY 6

static bool always;

bool dyn_replays_always(bool so) {
    bool before = always;
    always = so;
    return before;
}

static bool pays(const DynCudaRecording *r, const DynLoops *p) {
    int64_t saved = 0, spent = OF_REPLAY;
    for (uint32_t s = 0; s < p->steps.n; s++) {
        saved += p->steps.at[s].kind == DYN_STEP_EXTERN ? OF_CALL : 0;
    }
    for (uint32_t i = 0; i < r->nplaces; i++) {
        spent += r->made[i] != NULL ? OF_COPY : 0;
    }
    for (uint32_t i = 0; i < r->ninputs; i++) {
        spent += r->still[i] != NULL ? OF_COPY : 0;
    }
    return always || saved + OF_LAUNCH * (int64_t)r->kernels.n > spent;
}

static int run_captured(const DynReplays *all, DynCudaRecording *r, DynCall *c, PyObject **outputs) {
    Capture capture = {0};
    bool captures = begin(r, &capture, c->p->graph->device) == 0;
    DynRunStatus status = captures ? dyn_call_run(c) : DYN_RUN_ERROR;
    for (uint32_t i = 0; status == DYN_RUN_OK && i < c->p->graph->outputs.n; i++) {
        Py_CLEAR(outputs[i]);
    }
    if (status == DYN_RUN_LEFT) {
        dyn_call_drop_values(c);
        PyErr_SetObject(c->run->error == NULL ? PyExc_ValueError : (PyObject *)Py_TYPE(c->run->error), c->run->error);
        Py_CLEAR(c->run->error);
    }
    if (status != DYN_RUN_OK) {
        refuse(r, PyErr_Occurred() ? "" : "the graph was left");
        say(r);
    }
    if (end(r, &capture, captures) < 0 || status != DYN_RUN_OK) {
        return -1;
    }
    memcpy(r->geoms, c->geoms, sizeof(*r->geoms) * c->p->nplaces);
    if (r->failed || c->acted || c->wrote) {
        return refuse(r, r->failed ? "a launch isn't a node" : "something was changed");
    }
    if (take_results(all, r, c) < 0) {
        return -1;
    }
    return pays(r, c->p) ? instantiate(r) : refuse(r, "launching it takes less time than copying what goes in and comes out");
}

/* In a DynCall and a DynRun of its own. */
static int record(const DynReplays *all, DynCudaRecording *r, const DynCall *of) {
    const DynLoops *p = of->p;
    const DynGraph *g = p->graph;
    size_t ninputs = g->inputs.n, noutputs = g->outputs.n, nplaces = p->nplaces;
    PyObject **objects = PyMem_Calloc(ninputs + noutputs + nplaces + 1, sizeof(*objects)), **inputs = objects + nplaces;
    DynGeom *geoms = PyMem_Calloc(nplaces + 1, sizeof(*geoms));
    DynRun run = *of->run;
    DynCall c = {.a = of->a, .p = p, .run = &run, .table = of->table, .geoms = geoms, .objects = objects, .leave_at = -1};
    c.recording = r;
    run.inputs = inputs;
    run.sym = r->sym;
    run.views.at = NULL;
    run.values = NULL;
    run.error = NULL;
    int done = -1;
    if (objects != NULL && geoms != NULL) {
        run.outputs = inputs + ninputs;
        done = make_still(all, r, of, inputs) < 0 ? -1 : run_captured(all, r, &c, run.outputs);
        for (uint32_t i = 0; i < nplaces; i++) {
            Py_XDECREF(objects[i]);
        }
        c.a->target->release(&c);
    }
    PyMem_Free(objects);
    PyMem_Free(geoms);
    return done;
}

static DynCudaRecording *new_recording(const DynReplays *all, const DynCall *c) {
    const DynLoops *p = c->p;
    size_t nsyms = all->nsyms, ninputs = p->graph->inputs.n;
    DynCudaRecording *r = PyMem_Calloc(1, sizeof(*r));
    if (r == NULL) {
        return NULL;
    }
    r->nplaces = p->nplaces;
    r->ninputs = p->graph->inputs.n;
    r->sym = PyMem_Calloc(nsyms + 1, sizeof(*r->sym));
    r->geoms = PyMem_Calloc(p->nplaces + 1, sizeof(*r->geoms));
    r->made = PyMem_Calloc(p->nplaces + 1, sizeof(*r->made));
    r->still = PyMem_Calloc(ninputs + 1, sizeof(*r->still));
    if (r->sym == NULL || r->geoms == NULL || r->made == NULL || r->still == NULL) {
        dyn_recording_free(r);
        return NULL;
    }
    memcpy(r->sym, c->run->sym, sizeof(*r->sym) * nsyms);
    return r;
}

DynCudaRecording *dyn_recording_make(DynReplays *all, DynCall *c, void *stream) {
    DynCudaRecording *r = new_recording(all, c);
    all->tries++;
    bool grad = dyn_torch_grad_off();
    if (r != NULL && record(all, r, c) < 0) {
        say(r);
        dyn_replay_refuse(all, c->p, dyn_str_at(&r->why));
        dyn_recording_free(r);
        r = NULL;
    }
    dyn_torch_grad_back(grad);
    PyErr_Clear();
    if (r != NULL) {
        r->stream = stream;
        dyn_count("cuda_graphs", "recorded");
        dyn_log(DYN_LOG_perf, "%s: recorded as a CUDA graph, %u of its kernels dynoc's", c->p->graph->name, r->kernels.n);
    }
    return r;
}
