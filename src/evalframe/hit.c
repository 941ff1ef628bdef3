/* hit.c: a call that a cache entry serves: guards, artifact, Python values rebuilt; and the two callables that rewritten code
 * calls.
 *
 * Called by the door (no frame exists) and by the hook under enable() (a fresh frame exists). Work is done in two steps:
 * dyn_hit_find checks guards, runs the graph and makes every value that is needed afterwards, then drops all it held of the
 * arguments; only then is Python code called again, so that reference counts are as without dynoc. */
#include "evalframe/follow.h"
#include "base/torch.h"
#include "evalframe/hook.h"
#include "evalframe/rebuild.h"

#define MOST_IDLE_TRIPS 64 /* of a loop without array work, one by one */
#define MOST_UNPAID 32     /* calls that are left to eager one after the other, before the function is for a while */
#define MOST_FLAGGED 16    /* calls more that are made twice than are not, before it is */
#define SMALL_SRC 40
#define SMALL_SYM 64
#define SMALL_PTR 24

/* A rewritten function on its way: made by dyn_hit_break, looked at by the runner, the continuation and the hook. */
typedef struct Running {
    DynEntry *entry;
    PyObject *state; /* strong until the runner takes it */
    DynNext next;    /* continuation: what to call when the rewritten function's frame is gone */
    DynSpent spent;  /* dropped by the runner */
    struct Running *outer;
} Running;
static _Thread_local Running *running;

/* ---- running the graph */

typedef struct Scratch { /* arrays of one run: on the C stack, in the heap where the graph is large */
    PyObject **inputs, **outputs;
    void *heap;
    PyObject *small[SMALL_PTR];
} Scratch;

static int scratch_init(Scratch *s, const DynGraph *g) {
    size_t n = (size_t)g->inputs.n + g->outputs.n;
    s->heap = NULL;
    s->inputs = s->small;
    if (DYN_UNLIKELY(n > SMALL_PTR)) {
        s->inputs = s->heap = PyMem_Malloc(n * sizeof *s->inputs);
        if (s->inputs == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    s->outputs = s->inputs + g->inputs.n;
    memset(s->outputs, 0, g->outputs.n * sizeof *s->outputs);
    return 0;
}

static void scratch_free(Scratch *s, const DynGraph *g) {
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        Py_XDECREF(s->outputs[i]);
    }
    if (DYN_UNLIKELY(s->heap != NULL)) {
        PyMem_Free(s->heap);
    }
}

static void free_values(PyObject **values, uint32_t n) {
    for (uint32_t i = 0; values != NULL && i < n; i++) {
        Py_XDECREF(values[i]);
    }
    PyMem_Free(values);
}

/* A graph without work hands inputs through. */
static DynRunStatus run_nothing(const DynGraph *g, DynRun *run) {
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        for (uint32_t k = 0; k < g->inputs.n; k++) {
            if (g->inputs.at[k] == g->outputs.at[i]) {
                run->outputs[i] = Py_NewRef(run->inputs[k]);
            }
        }
    }
    return DYN_RUN_OK;
}

/* Whose graph runs, and what its guards were checked with: the `owner` of a run. */
typedef struct Served {
    DynEntry *entry;
    PyObject *func;
    PyObject *const *slots;
    const DynEnv *env;
} Served;

static bool still_holds(void *owner) {
    const Served *s = owner;
    return dyn_guards_hold(s->entry->guards, s->func, s->slots, s->env);
}

/* Values that the frames of a snapshot need and that the artifact never made. */
static int complete_values(void *owner, DynRun *run) {
    const DynEntry *e = ((const Served *)owner)->entry;
    const DynCapture *c = e->capture;
    const DynSnapshot *s = &c->snapshots.at[run->snapshot];
    uint32_t nnodes = c->graph.nodes.n;
    int done = -1;
    bool *need = PyMem_Calloc(nnodes + 1, sizeof *need), *one = PyMem_Calloc(nnodes + 1, sizeof *one);
    if (need == NULL || one == NULL) {
        PyErr_NoMemory();
        goto out;
    }
    for (uint32_t f = 0; f < s->nframes; f++) {
        const DynFrameState *st = &s->frames[f];
        if (dyn_rebuild_needs(c, s->effects, st->recipes, st->nslots + st->nstack, one, nnodes) < 0) {
            goto out;
        }
        for (uint32_t i = 0; i < nnodes; i++) {
            need[i] |= one[i];
        }
    }
    if (e->follow != NULL && dyn_follow_complete(&c->graph, run, need) < 0) {
        goto out;
    }
    for (uint32_t i = 0; i < nnodes; i++) {
        if (need[i] && run->values[i] == NULL) {
            run->values[i] = dyn_interp_node(&c->graph, run, run->values, i);
            if (run->values[i] == NULL) {
                goto out;
            }
        }
    }
    done = 0;
out:
    PyMem_Free(need);
    PyMem_Free(one);
    return done;
}

/* ---- what comes after the graph */

static void end_with_error(DynHit *out) {
    out->kind = DYN_HIT_RETURN;
    out->result = NULL;
}

static void left_in_the_middle(DynEntry *e, const DynEnv *env, DynRun *run, DynHit *out) {
    const DynCapture *c = e->capture;
    const DynSnapshot *s = &c->snapshots.at[run->snapshot];
    dyn_count_reason("graph_breaks", DYN_R_LEFT);
    e->wrong = c->guesses && run->error == NULL && run->given == NULL;
    out->leave = dyn_leave_new(e, env, run->values, s->effects, s->frames, s->nframes);
    free_values(run->values, c->graph.nodes.n);
    if (out->leave != NULL) {
        dyn_leave_raise(out->leave, run->error);
        dyn_leave_give(out->leave, run->given);
    } else {
        Py_XDECREF(run->error);
        Py_XDECREF(run->given);
    }
    out->kind = DYN_HIT_LEAVE;
    if (out->leave == NULL) {
        end_with_error(out);
    }
}

static void finish(DynEntry *e, const DynEnv *env, PyObject **outputs, DynHit *out) {
    const DynCapture *c = e->capture;
    const DynRecipe *r;
    switch (c->end) {
    case DYN_END_RETURN:
        out->kind = DYN_HIT_RETURN;
        r = &c->recipes.at[c->result];
        if (DYN_LIKELY(r->kind == DYN_RC_OUTPUT && c->done.n == 0)) {
            out->result = outputs[r->id];
            outputs[r->id] = NULL;
            return;
        }
        out->result = dyn_rebuild_one(c, env, outputs, c->done, c->result);
        return;
    case DYN_END_BREAK:
        out->kind = DYN_HIT_BREAK;
        out->state = PyTuple_New(e->nstate);
        if (out->state == NULL ||
            dyn_rebuild(c, env, outputs, c->done, e->state, e->nstate, ((PyTupleObject *)out->state)->ob_item) < 0) {
            Py_CLEAR(out->state);
            end_with_error(out);
            return;
        }
        dyn_entry_incref(e);
        out->entry = e;
        return;
    default: /* what is passed never comes here */
        out->kind = DYN_HIT_LEAVE;
        out->leave = dyn_leave_new(e, env, outputs, c->done, &c->before, 1);
        if (out->leave == NULL) {
            end_with_error(out);
        }
    }
}

/* Is there code to run? Looks at what the compile thread has done meanwhile. */
static bool is_ready(DynEntry *e) {
    const char *detail;
    if (DYN_LIKELY(dyn_artifact_tier(e->artifact) != DYN_TIER_EAGER)) {
        return true;
    }
    if (e->rents) {
        dyn_rent_try_to_buy(e); /* nothing else can serve it */
    }
    dyn_build_poll();
    e->plain = dyn_artifact_failure(e->artifact, &detail);
    return false;
}

/* Is there code for the parts of a graph that autograd follows, do they look as if they paid, and is autograd in no mode that
 * CPython has to see to? */
static bool may_follow(DynEntry *e, const DynScalar *sym) {
    if (!dyn_follow_is_ready(e->follow)) {
        return false;
    }
    if (!dyn_estimate_followed(e->capture, e->follow, sym)) {
        dyn_count_reason("graph_breaks", DYN_R_NO_PROFIT);
        e->declined++;
        return false;
    }
    e->declined = 0;
    bool may = dyn_follow_may_run();
    if (!may) {
        dyn_count_reason("graph_breaks", DYN_R_REQUIRES_GRAD);
    }
    return may;
}

static void hand_to_python(DynEntry *e, DynHitKind kind, DynHit *out) {
    dyn_entry_incref(e);
    out->kind = kind;
    out->entry = e;
}

/* A loop without array work, so far: its next trips are CPython's. */
static bool is_idle(const DynCache *c, DynEntry *e, bool again) {
    if (!again) {
        e->trips = 0;
    } else {
        e->trips += e->trips < MOST_IDLE_TRIPS;
    }
    bool idle = e->idles && e->trips == MOST_IDLE_TRIPS;
    for (uint32_t i = 0; idle && i < c->entries.n; i++) {
        idle = !c->entries.at[i]->works;
    }
    return idle;
}

/* Has the entry nothing to run but CPython's own code, up to where dynoc goes on. */
static inline bool is_python(const DynCache *c, DynEntry *e, bool again) {
    bool plain = e->capture->end == DYN_END_PASS || (e->idles && is_idle(c, e, again));
    return plain && dyn_rewrite_aside(e);
}

/* The setting `verify`. Code that gives something else than eager isn't run any more. */
static DynRunStatus run_verified(DynEntry *e, DynRun *run) {
    DynRunStatus status = dyn_verify_run(&e->verify, e->artifact, &e->capture->graph, run, &e->capture->arena);
    e->plain = e->verify.differs ? DYN_R_DIFFERS : e->plain;
    return status;
}

/* Runs the graph by what the entry has for it. */
static inline DynRunStatus run_graph(DynEntry *e, DynRun *run) {
    const DynGraph *g = &e->capture->graph;
    if (DYN_LIKELY(e->artifact != NULL)) {
        if (DYN_UNLIKELY(run->config->verify) && dyn_verify_is_due(&e->verify, e->artifact, g)) {
            return run_verified(e, run);
        }
        return dyn_artifact_run(e->artifact, run);
    }
    if (e->follow != NULL) {
        return dyn_hit_followed(e, run);
    }
    if (e->handed != NULL) {
        return dyn_hit_handed(e, run);
    }
    return e->interpreted ? dyn_hit_eager(g, run, e->capture->writes) : run_nothing(g, run);
}

static void run_entry(DynEntry *e, PyObject *func, PyObject *const *slots, const DynEnv *env, DynHit *out) {
    const DynGraph *g = &e->capture->graph;
    Scratch s;
    out->kind = DYN_HIT_PLAIN;
    if (DYN_UNLIKELY(e->plain != DYN_R_OK) || (e->artifact != NULL && !is_ready(e))) {
        if (e->plain == DYN_R_OK && dyn_rewrite_waiting(e)) {
            hand_to_python(e, DYN_HIT_WAIT, out);
        }
        return;
    }
    if (DYN_UNLIKELY(e->follow != NULL) && !may_follow(e, env->sym)) {
        return;
    }
    if (scratch_init(&s, g) < 0) {
        PyErr_Clear();
        return;
    }
    e->hits++;
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        s.inputs[i] = env->src[dyn_graph_node(g, g->inputs.at[i])->source];
    }
    DynConfig own;
    if (DYN_UNLIKELY(e->options != NULL)) {
        own = dyn_options_config(e->options);
    }
    Served served = {e, func, slots, env};
    DynRun run = {.inputs = s.inputs,
                  .sources = env->src,
                  .views = env->views,
                  .config = e->options == NULL ? &dyn_config : &own,
                  .sym = env->sym,
                  .outputs = s.outputs,
                  .complete = complete_values,
                  .holds = still_holds,
                  .owner = &served};
    uint64_t began = DYN_UNLIKELY(e->rents) ? dyn_cycles() : 0;
    DynRunStatus status = run_graph(e, &run);
    if (DYN_UNLIKELY(e->rents)) {
        dyn_rent_pay(e, dyn_cycles() - began);
    }
    switch (status) {
    case DYN_RUN_OK:
        e->flagged -= e->flagged > 0;
        finish(e, env, s.outputs, out);
        break;
    case DYN_RUN_ERROR: end_with_error(out); break;
    case DYN_RUN_LEFT: left_in_the_middle(e, env, &run, out); break;
    case DYN_RUN_AGAIN:
        e->flagged += e->plain == DYN_R_OK;
        dyn_count_reason("graph_breaks", e->plain != DYN_R_OK ? e->plain : DYN_R_FLAGS);
        break;
    }
    scratch_free(&s, g);
}

/* The entry goes, and the next is made without guesses. */
static void forget_guess(DynCache *c, DynEntry *e) {
    DynCache *root = c->root != NULL ? c->root : c;
    if (dyn_cache_remove(c, e)) {
        root->sure = true;
    }
}

/* The function's calls don't look as if serving them paid: even to find that out takes time that CPython doesn't. Or each of them
 * was made twice, by the kernels and by CPython, whose the warnings are. */
static void give_up_for_a_while(DynCache *c, DynReason why) {
    bool measured = dyn_profit_is_measured(c), pauses = why == DYN_R_NO_PROFIT && dyn_profit_is_judged(c);
    if (c->root != NULL || !(measured || pauses)) {
        return;
    }
    const char *name = dyn_log_on(DYN_LOG_perf) ? PyUnicode_AsUTF8(dyn_cache_title(c).name) : NULL;
    dyn_log(DYN_LOG_perf, "%s: calls are CPython's for a while: %s", name != NULL ? name : "", dyn_reason_message(why));
    dyn_count_reason("retired", why);
    if (measured) {
        dyn_profit_decline(c);
    } else {
        dyn_profit_pause(c);
    }
}

/* `explain` and `refusals` name the place. */
static void tell_difference(DynCache *c, const DynEntry *e) {
    const DynGraph *g = &e->capture->graph;
    uint32_t place = dyn_graph_node(g, e->verify.node)->where;
    dyn_cache_tell(c->root != NULL ? c->root : c, DYN_R_DIFFERS, place < g->places.n ? &g->places.at[place] : NULL);
}

/* Under a profiler of PyTorch's, the range of a call. */
static PyObject *range_of(const DynCache *c) {
    const char *name = dyn_torch_profiling() ? PyUnicode_AsUTF8(dyn_cache_title(c).name) : NULL;
    DynStr text = {0};
    if (name == NULL) {
        PyErr_Clear();
        return NULL;
    }
    dyn_str_printf(&text, "dynoc: %s", name);
    PyObject *range = dyn_torch_range(dyn_str_at(&text));
    dyn_str_free(&text);
    return range;
}

/* The entry is left to CPython, as it doesn't look as if it paid, or isn't ready. Does what stands behind it pay, so that dynoc
 * goes on there? */
static bool goes_on_behind(const DynCache *c, DynEntry *e) {
    const DynCache *root = c->root != NULL ? c->root : c;
    return root->stands_in && e->capture->end == DYN_END_BREAK && dyn_rewrite_around(e);
}

static void find_in(DynCache *c, PyObject *func, PyObject *const *slots, DynEnv *env, DynHit *out) {
    int64_t began = dyn_watch_now();
    for (uint32_t i = 0; i < c->entries.n; i++) {
        DynEntry *e = c->entries.at[i];
        if (!dyn_guards_check(e->guards, func, slots, env)) {
            continue;
        }
        int64_t checked = dyn_watch_now();
        if (DYN_UNLIKELY(i > 0)) {
            memmove(c->entries.at + 1, c->entries.at, i * sizeof *c->entries.at);
            c->entries.at[0] = e;
        }
        dyn_entry_incref(e);
        e->found = true;
        e->used = dyn_memory_now;
        if (DYN_UNLIKELY(is_python(c, e, i == 0))) {
            e->hits++;
            hand_to_python(e, DYN_HIT_ASIDE, out);
        } else if (DYN_UNLIKELY(c->loop.counts) && dyn_loop_counts_in(c, e)) {
            hand_to_python(e, DYN_HIT_WAIT, out);
        } else {
            PyObject *range = DYN_UNLIKELY(e->tensors) ? range_of(c) : NULL;
            run_entry(e, func, slots, env, out);
            if (DYN_UNLIKELY(range != NULL)) {
                dyn_torch_range_end(range);
            }
            if (DYN_UNLIKELY(out->kind == DYN_HIT_PLAIN && e->follow != NULL) && goes_on_behind(c, e)) {
                e->declined = 0;
                hand_to_python(e, DYN_HIT_AROUND, out);
            }
            if (DYN_UNLIKELY(e->flagged > 0) && out->kind == DYN_HIT_PLAIN) {
                dyn_profit_missed(c);
            }
        }
        if (DYN_UNLIKELY(began != 0)) {
            dyn_watched_call(c, e, began, checked);
        }
        dyn_env_clear(e->guards, env);
        if (DYN_UNLIKELY(e->verify.differs)) {
            tell_difference(c, e);
        }
        if (DYN_UNLIKELY(e->wrong)) {
            forget_guess(c, e);
        } else if (DYN_UNLIKELY(e->declined >= MOST_UNPAID)) {
            e->declined = dyn_profit_is_measured(c) ? 0 : MOST_UNPAID - 1; /* behind a pause one call tells */
            give_up_for_a_while(c, DYN_R_NO_PROFIT);
        } else if (DYN_UNLIKELY(e->flagged >= MOST_FLAGGED)) {
            e->flagged = 0;
            give_up_for_a_while(c, DYN_R_FLAGS);
        }
        dyn_entry_decref(e);
        return; /* the cache may be gone */
    }
    if (DYN_UNLIKELY(began != 0)) {
        dyn_watched_call(c, NULL, began, dyn_now_ns());
    }
}

/* Room for what the guards of any entry of c need. */
typedef struct EnvRoom {
    PyObject *src[SMALL_SRC];
    DynScalar sym[SMALL_SYM];
    void *heap[2];
} EnvRoom;

static bool env_open(EnvRoom *room, const DynCache *c, DynEnv *env) {
    *env = (DynEnv){room->src, room->sym};
    room->heap[0] = room->heap[1] = NULL;
    if (DYN_LIKELY(c->nsrc <= SMALL_SRC && c->nsym <= SMALL_SYM)) {
        return true;
    }
    room->heap[0] = env->src = PyMem_Malloc(c->nsrc * sizeof *env->src);
    room->heap[1] = env->sym = PyMem_Malloc(c->nsym * sizeof *env->sym);
    return env->src != NULL && env->sym != NULL;
}

static void env_close(EnvRoom *room) {
    PyMem_Free(room->heap[0]);
    PyMem_Free(room->heap[1]);
}

bool dyn_hit_fits(DynCache *c, PyObject *func, PyObject *const *slots) {
    EnvRoom room;
    DynEnv env;
    bool fits = false, open = env_open(&room, c, &env);
    for (uint32_t i = 0; open && i < c->entries.n && !fits; i++) {
        DynEntry *e = c->entries.at[i];
        fits = dyn_guards_check(e->guards, func, slots, &env);
        if (fits) {
            dyn_entry_incref(e);
            dyn_env_clear(e->guards, &env);
            dyn_entry_decref(e);
        }
    }
    env_close(&room);
    return fits;
}

void dyn_hit_find(DynCache *c, PyObject *func, PyObject *const *slots, DynHit *out) {
    EnvRoom room;
    DynEnv env;
    *out = (DynHit){.kind = DYN_HIT_MISS};
    if (DYN_LIKELY(env_open(&room, c, &env))) {
        find_in(c, func, slots, &env, out);
    }
    if (DYN_UNLIKELY(room.heap[0] != NULL || room.heap[1] != NULL)) {
        env_close(&room);
    }
}

/* ---- rewritten code: runner and continuation */

PyObject *dyn_hit_function(PyObject *code, PyObject *func) {
    PyObject *f = PyFunction_New(code, PyFunction_GET_GLOBALS(func)), *closure = PyFunction_GET_CLOSURE(func);
    bool closes = closure != NULL && dyn_code_nfree((PyCodeObject *)code) > 0;
    if (f != NULL && closes && PyFunction_SetClosure(f, closure) < 0) {
        Py_CLEAR(f);
    }
    return f;
}

/* The function that runs the entry's code for a call of func: new reference. */
static PyObject *function_for(DynEntry *e, DynHitKind kind, PyObject *func) {
    DynPlain *plain = NULL;
    switch (kind) {
    case DYN_HIT_WAIT: plain = &e->waiting; break;
    case DYN_HIT_ASIDE: plain = &e->aside; break;
    case DYN_HIT_AROUND: plain = &e->around; break;
    default: break;
    }
    PyObject **kept = plain != NULL ? &plain->function : &e->function;
    if (*kept == NULL) {
        *kept = dyn_hit_function(plain != NULL ? plain->code : e->code, func);
    } else if (PyFunction_GET_CLOSURE(func) != PyFunction_GET_CLOSURE(*kept)) { /* same code, other closure: under enable() */
        return dyn_hit_function(PyFunction_GET_CODE(*kept), func);
    }
    return Py_XNewRef(*kept);
}

PyObject *dyn_hit_break(DynHit *hit, PyObject *func, PyObject *const *slots, DynSpent spent, DynNext *next) {
    DynEntry *e = hit->entry;
    PyCodeObject *code = (PyCodeObject *)e->capture->code;
    bool plain = hit->kind != DYN_HIT_BREAK;
    PyObject *function = function_for(e, hit->kind, func), *result = NULL;
    Running r = {.entry = e, .state = hit->state, .spent = spent, .outer = running};
    DynSignature sig;
    dyn_bind_signature(code, &sig);
    if (function != NULL) {
        PyThreadState *ts = PyThreadState_Get();
        int lent = dyn_cpy_lend_stack(ts);
        running = &r;
        result = plain ? dyn_hook_plain_bound(&sig, code, function, slots, spent)
                       : dyn_bind_call(&sig, code, function, slots, false); /* effects may be on them */
        running = r.outer;
        dyn_cpy_return_stack(ts, lent);
    }
    Py_XDECREF(function);
    Py_XDECREF(r.state);
    dyn_entry_decref(e);
    if (result == NULL) {
        Py_CLEAR(r.next.door);
        Py_CLEAR(r.next.args);
    }
    *next = r.next;
    return result;
}

bool dyn_hit_is_starting(PyObject *func) {
    return running != NULL && running->state != NULL && PyFunction_GET_CODE(func) == running->entry->code;
}

typedef struct Runner {
    PyObject_HEAD vectorcallfunc vectorcall;
    DynEntry *entry; /* borrowed; NULL when it is gone */
} Runner;

/* Somebody runs the rewritten code by hand: the arguments are all that there is. */
static PyObject *run_by_hand(DynEntry *e, PyObject *const *args, Py_ssize_t nargs) {
    DynSignature sig;
    DynHit hit = {.kind = DYN_HIT_MISS};
    dyn_bind_signature((PyCodeObject *)e->capture->code, &sig);
    DynEnv env = {PyMem_Malloc(e->nsrc * sizeof(PyObject *) + 1), PyMem_Malloc(e->nsym * sizeof(DynScalar) + 1)};
    PyObject **slots = PyMem_Calloc(sig.nslots + 1, sizeof *slots);
    PyObject *func = e->function != NULL ? e->function : e->capture->func;
    bool allocated = env.src != NULL && env.sym != NULL && slots != NULL;
    if (allocated && func != NULL && nargs == (Py_ssize_t)sig.nargs) {
        memcpy(slots, args, (size_t)nargs * sizeof *args);
        if (dyn_guards_check(e->guards, func, slots, &env)) {
            run_entry(e, func, slots, &env, &hit);
            dyn_env_clear(e->guards, &env);
        }
    }
    PyMem_Free(slots);
    PyMem_Free(env.src);
    PyMem_Free(env.sym);
    switch (hit.kind) {
    case DYN_HIT_BREAK: dyn_entry_decref(hit.entry); return hit.state;
    case DYN_HIT_RETURN: return hit.result;
    case DYN_HIT_LEAVE: dyn_leave_free(hit.leave); break;
    case DYN_HIT_WAIT: dyn_entry_decref(hit.entry); break;
    default: break;
    }
    PyErr_SetString(PyExc_RuntimeError, "this code object belongs to a dynoc cache entry, whose guards do not hold here");
    return NULL;
}

static PyObject *runner_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    DynEntry *e = ((Runner *)self)->entry;
    if (running != NULL && running->entry == e && running->state != NULL) {
        PyObject *state = running->state;
        running->state = NULL;
        dyn_spend(running->spent);
        return state;
    }
    if (e == NULL || kwnames != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this code object belongs to a dynoc cache entry that is gone");
        return NULL;
    }
    dyn_entry_incref(e);
    PyObject *result = run_by_hand(e, args, PyVectorcall_NARGS(nargsf));
    dyn_entry_decref(e);
    return result;
}

static PyTypeObject Runner_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.Runner",
    .tp_doc = "What rewritten code calls to run a graph: gives the values that the rest of the function needs.",
    .tp_basicsize = sizeof(Runner),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(Runner, vectorcall),
    .tp_call = PyVectorcall_Call,
};

PyObject *dyn_hit_runner_new(DynEntry *e) {
    Runner *r = PyObject_New(Runner, &Runner_Type);
    if (r != NULL) {
        r->vectorcall = runner_call;
        r->entry = e;
    }
    return (PyObject *)r;
}

void dyn_hit_runner_detach(PyObject *runner) { ((Runner *)runner)->entry = NULL; }

typedef struct Continuation {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *door; /* borrowed from the entry; NULL when that is gone */
    uint32_t drop, ndrop;
} Continuation;

static bool leads_to(const DynEntry *e, const PyObject *door) {
    bool leads = false;
    for (int i = 0; i < DYN_WAYS; i++) {
        leads = leads || e->resume[i] == door;
    }
    return leads;
}

/* The last thing that rewritten code does is to return what this gives. When it was called by dyn_hit_break, that calls the
 * resume function after the frame is gone: no second frame of the function is ever on the stack. */
static PyObject *continuation_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Continuation *c = (Continuation *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), drop = c->drop, ndrop = c->ndrop;
    if (c->door == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this code object belongs to a dynoc cache entry that is gone");
        return NULL;
    }
    if (kwnames != NULL || n < drop + ndrop) {
        PyErr_SetString(PyExc_SystemError, "a resume function was called with other arguments than its own");
        return NULL;
    }
    PyObject *packed = PyTuple_New(n - ndrop);
    if (packed == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n - ndrop; i++) {
        PyTuple_SET_ITEM(packed, i, Py_NewRef(args[i < drop ? i : i + ndrop]));
    }
    bool undecided = running != NULL && running->state == NULL && running->next.door == NULL;
    if (undecided && leads_to(running->entry, c->door)) {
        running->next = (DynNext){Py_NewRef(c->door), packed};
        Py_RETURN_NONE;
    }
    PyObject *door = Py_NewRef(c->door), *result = PyObject_Call(door, packed, NULL);
    Py_DECREF(door);
    Py_DECREF(packed);
    return result;
}

static PyTypeObject Continuation_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.Continuation",
    .tp_doc = "What rewritten code calls last: the rest of the function.",
    .tp_basicsize = sizeof(Continuation),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(Continuation, vectorcall),
    .tp_call = PyVectorcall_Call,
};

PyObject *dyn_hit_continuation_new(PyObject *door, uint32_t drop, uint32_t ndrop) {
    Continuation *c = PyObject_New(Continuation, &Continuation_Type);
    if (c != NULL) {
        c->vectorcall = continuation_call;
        c->door = door;
        c->drop = drop;
        c->ndrop = ndrop;
    }
    return (PyObject *)c;
}

void dyn_hit_continuation_detach(PyObject *continuation) { ((Continuation *)continuation)->door = NULL; }

int dyn_hit_init(void) {
    bool failed = PyType_Ready(&Runner_Type) < 0 || PyType_Ready(&Continuation_Type) < 0 || dyn_way_out_init() < 0;
    return failed ? -1 : dyn_inner_init();
}
