/* replay.c: plays recordings of a graph's calls (recording.c), where mode="reduce-overhead" asks for it.
 *
 * Called by run.c through the target, with the GIL, in place of the steps of a call. What differs from the recorded call is
 * brought in: addresses of inputs that moved and of the arrays that the call gives out go into the nodes of dynoc's kernels,
 * inputs that PyTorch's calls read are copied to where these read them, and what PyTorch's calls gave is copied out, so that it
 * stays valid. The first call notes where inputs lie; the second is recorded. Owned by the artifact. */
#include "base/log.h"
#include "base/torch.h"
#include "codegen/cuda/replay.h"

#define MOST_RECORDINGS 8 /* that a graph has at a time: of so many sizes */
#define MOST_TRIES 32     /* … and that are made of it; behind that calls are launched */
#define ALIGNED 15        /* which function of a kernel fits is told by these bits of addresses */

/* ---- their life */

void dyn_recording_free(DynCudaRecording *r) {
    for (uint32_t i = 0; i < r->kernels.n; i++) {
        PyMem_Free(r->kernels.at[i].words);
        dyn_vec_free(&r->kernels.at[i].patches);
    }
    for (uint32_t i = 0; i < r->memory.n; i++) {
        Py_DECREF(r->memory.at[i]);
    }
    dyn_vec_free(&r->memory);
    dyn_vec_free(&r->kernels);
    Py_CLEAR(r->graph);
    for (uint32_t i = 0; r->made != NULL && i < r->nplaces; i++) {
        Py_XDECREF(r->made[i]);
    }
    for (uint32_t i = 0; r->still != NULL && i < r->ninputs; i++) {
        Py_XDECREF(r->still[i]);
    }
    PyMem_Free(r->sym);
    PyMem_Free(r->geoms);
    PyMem_Free(r->made);
    PyMem_Free(r->still);
    dyn_str_free(&r->why);
    PyMem_Free(r);
}

void dyn_cuda_forget(DynArtifact *a) {
    DynReplays *all = a->replays;
    a->replays = NULL;
    while (all != NULL && all->first != NULL) {
        DynCudaRecording *r = all->first;
        all->first = r->next;
        dyn_recording_free(r);
    }
    if (all != NULL) {
        PyMem_Free(all->touched);
        PyMem_Free(all->varies);
        PyMem_Free(all->moves);
        PyMem_Free(all->last);
        PyMem_Free(all);
    }
}

void dyn_replay_refuse(DynReplays *r, const DynLoops *p, const char *why) {
    r->off = true;
    dyn_count("cuda_graphs", "refused");
    dyn_log(DYN_LOG_perf, "%s: not replayed as a CUDA graph: %s", p->graph->name, why);
}

static DynReplays *replays_of(DynArtifact *a) {
    const DynLoops *p = a->loops;
    DynReplays *all = a->replays != NULL ? a->replays : PyMem_Calloc(1, sizeof(*all));
    const char *why;
    if (all == NULL || a->replays != NULL) {
        return all;
    }
    a->replays = all;
    all->touched = PyMem_Calloc(p->nplaces + 1, sizeof(*all->touched));
    all->nsyms = p->graph->syms->v.n;
    all->varies = PyMem_Calloc(all->nsyms + 1, sizeof(*all->varies));
    all->moves = PyMem_Calloc(p->graph->inputs.n + 1, sizeof(*all->moves));
    all->last = PyMem_Calloc(p->graph->inputs.n + 1, sizeof(*all->last));
    if (all->touched == NULL || all->varies == NULL || all->moves == NULL || all->last == NULL) {
        dyn_replay_refuse(all, p, "memory ran out");
    } else if (!dyn_recording_possible(p, &why)) {
        dyn_replay_refuse(all, p, why);
    } else {
        dyn_recording_touch(p, all->touched, all->varies);
    }
    return all;
}

/* ---- which one */

/* Inputs that don't lie where they lay are told. false: one was seen for the first time. */
static bool note_inputs(DynReplays *all, const DynCall *c) {
    const DynGraph *g = c->p->graph;
    bool seen = true;
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        char *at = c->geoms[g->inputs.at[i]].data;
        seen = seen && all->last[i] != NULL;
        all->moves[i] |= all->last[i] != NULL && all->last[i] != at;
        all->last[i] = at;
    }
    return seen;
}

static bool same_strides(const DynNode *n, const DynGeom *a, const DynGeom *b) {
    size_t bytes = sizeof(*a->dims) * n->ndim;
    return memcmp(a->dims, b->dims, bytes) == 0 && memcmp(a->strides, b->strides, bytes) == 0;
}

static bool fits_input(const DynReplays *all, const DynCudaRecording *r, const DynCall *c, uint32_t i) {
    uint32_t node = c->p->graph->inputs.at[i];
    const DynGeom *now = &c->geoms[node], *then = &r->geoms[node];
    uintptr_t apart = (uintptr_t)now->data ^ (uintptr_t)then->data;
    if (!same_strides(dyn_graph_node(c->p->graph, node), now, then)) {
        return false;
    }
    return r->still[i] != NULL || (all->touched[node] ? apart == 0 : (apart & ALIGNED) == 0);
}

/* The same sizes and numbers, but for those that may vary; what a call gives it gives again. */
static bool same_numbers(const DynReplays *all, const DynCudaRecording *r, const DynCall *c) {
    const DynSyms *t = c->p->graph->syms;
    for (uint32_t i = 0; i < all->nsyms; i++) {
        if (!all->varies[i] && !dyn_sym_is_late(t, i) && memcmp(&r->sym[i], &c->run->sym[i], sizeof(r->sym[i])) != 0) {
            return false;
        }
    }
    return true;
}

static bool fits(const DynReplays *all, const DynCudaRecording *r, const DynCall *c, const void *stream) {
    const DynGraph *g = c->p->graph;
    bool same = r->stream == stream && same_numbers(all, r, c);
    for (uint32_t i = 0; i < g->inputs.n && same; i++) {
        same = fits_input(all, r, c, i);
    }
    return same;
}

/* The recording for this call, which comes to the front; NULL: there is none. */
static DynCudaRecording *find(DynReplays *all, const DynCall *c, const void *stream) {
    for (DynCudaRecording **at = &all->first; *at != NULL; at = &(*at)->next) {
        DynCudaRecording *r = *at;
        if (fits(all, r, c, stream)) {
            *at = r->next;
            r->next = all->first;
            return all->first = r;
        }
    }
    return NULL;
}

static void drop_last(DynReplays *all) {
    DynCudaRecording **at = &all->first;
    while ((*at)->next != NULL) {
        at = &(*at)->next;
    }
    dyn_recording_free(*at);
    *at = NULL;
    all->n--;
}

static DynCudaRecording *make(DynReplays *all, DynCall *c, void *stream) {
    if (all->tries >= MOST_TRIES) {
        dyn_replay_refuse(all, c->p, "inputs keep coming in other sizes, or on other streams");
        return NULL;
    }
    DynCudaRecording *r = dyn_recording_make(all, c, stream);
    if (r != NULL) {
        r->next = all->first;
        all->first = r;
        if (++all->n > MOST_RECORDINGS) {
            drop_last(all);
        }
    }
    return r;
}

/* ---- playing it */

static int make_results(DynCall *c, const DynCudaRecording *r) {
    const DynGraph *g = c->p->graph;
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        uint32_t place = dyn_loops_storage(c->p, g->outputs.at[i]);
        bool anew = dyn_graph_node(g, place)->op != DYN_OP_INPUT && r->made[place] == NULL && c->objects[place] == NULL;
        if (anew && dyn_call_make_array(c, place) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Is it known where the call has it: an input, or an array that was made or copied for it. */
static bool is_there(const DynCall *c, uint32_t place) {
    return place < c->p->nnodes && (dyn_graph_node(c->p->graph, place)->op == DYN_OP_INPUT || c->objects[place] != NULL);
}

/* How far what lies at a place has moved since the recording. */
static int64_t moved(const DynReplays *all, const DynCudaRecording *r, const DynCall *c, uint32_t place) {
    bool follows = !all->touched[place] && is_there(c, place);
    return follows ? c->geoms[place].data - r->geoms[place].data : 0;
}

static DynCudaError patch(const DynReplays *all, DynCudaRecording *r, const DynCall *c) {
    for (uint32_t i = 0; i < r->kernels.n; i++) {
        DynReplayed *k = &r->kernels.at[i];
        bool changed = false;
        for (uint32_t j = 0; j < k->patches.n; j++) {
            const DynPatch *p = &k->patches.at[j];
            int64_t word = p->param == NULL ? p->at + moved(all, r, c, p->place) : dyn_exec_param(p->param, c->run->sym).i;
            changed |= k->words[p->word] != word;
            k->words[p->word] = word;
        }
        void *parameters[1] = {k->words};
        k->launch.parameters = parameters;
        DynCudaError error = changed ? dyn_cuda.GraphExecKernelNodeSetParams(r->exec, k->node, &k->launch) : 0;
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

int dyn_replay_copy(PyObject *to, PyObject *from) {
    PyObject *done = PyObject_CallMethod(to, "copy_", "O", from);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int copy_in(const DynCudaRecording *r, const DynCall *c) {
    for (uint32_t i = 0; i < c->p->graph->inputs.n; i++) {
        if (r->still[i] != NULL && dyn_replay_copy(r->still[i], c->run->inputs[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Where everything lies that views are made of, and copies of what PyTorch's calls gave. */
static int copy_out(const DynCudaRecording *r, DynCall *c) {
    const DynLoops *p = c->p;
    for (uint32_t i = 0; i < p->nnodes; i++) {
        if (r->made[i] != NULL) {
            c->objects[i] = PyObject_CallMethod(r->made[i], "clone", NULL);
            if (c->objects[i] == NULL || dyn_call_geom(c->objects[i], &c->geoms[i]) < 0) {
                return -1;
            }
        }
    }
    for (uint32_t i = 0; i < p->nnodes; i++) {
        uint32_t of = dyn_loops_storage(p, i);
        if (of != i && is_there(c, of)) {
            c->geoms[i] = r->geoms[i];
            c->geoms[i].data += c->geoms[of].data - r->geoms[of].data;
        }
    }
    return 0;
}

static DynCudaError launch(const DynCudaRecording *r, const DynCudaInfo *info) {
    DynCudaContext *before;
    DynCudaError error = dyn_cuda_enter(info, &before);
    error = error == 0 ? dyn_cuda.GraphLaunch(r->exec, r->stream) : error;
    dyn_cuda_leave(info, before);
    return error;
}

static DynRunStatus failed(const DynCall *c, DynCudaError error) {
    dyn_cuda_raise(error, "replaying the CUDA graph of %s", c->p->graph->name);
    return DYN_RUN_ERROR;
}

static void take_late(const DynReplays *all, const DynCudaRecording *r, const DynCall *c) {
    const DynSyms *t = c->p->graph->syms;
    for (uint32_t i = 0; i < all->nsyms; i++) {
        c->run->sym[i] = dyn_sym_is_late(t, i) ? r->sym[i] : c->run->sym[i];
    }
}

static DynRunStatus play(const DynReplays *all, DynCudaRecording *r, DynCall *c) {
    bool grad = dyn_torch_grad_off();
    take_late(all, r, c);
    DynCudaError error = 0;
    bool ok = make_results(c, r) == 0 && (error = patch(all, r, c)) == 0 && copy_in(r, c) == 0 &&
              (error = launch(r, dyn_cuda_info(c->p->graph->device - 1))) == 0 && copy_out(r, c) == 0;
    DynRunStatus status = ok ? dyn_call_hand_out(c) : DYN_RUN_ERROR;
    dyn_torch_grad_back(grad);
    return error == 0 ? status : failed(c, error);
}

/* The stream that the call would work on. false: the program captures it itself, and gets launches. */
static bool is_free(const DynCall *c, void **stream) {
    int capturing = 0;
    return dyn_torch_stream(c->p->graph->device, stream) && dyn_cuda.StreamIsCapturing(*stream, &capturing) == 0 &&
           capturing == 0;
}

bool dyn_cuda_replay(DynCall *c, DynRunStatus *status) {
    DynReplays *all = replays_of(c->a);
    void *stream;
    if (all != NULL && !all->off && c->p->graph->cupy) {
        dyn_replay_refuse(all, c->p, "its arrays are CuPy's");
    }
    if (all == NULL || all->off || !is_free(c, &stream) || dyn_call_find_inputs(c) < 0) {
        PyErr_Clear();
        return false;
    }
    bool seen = note_inputs(all, c);
    DynCudaRecording *r = find(all, c, stream);
    r = r == NULL && seen ? make(all, c, stream) : r;
    if (r != NULL) {
        *status = play(all, r, c);
    }
    return r != NULL;
}
