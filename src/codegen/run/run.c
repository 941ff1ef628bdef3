/* run.c: one call of an artifact: the driver that makes memory, runs the steps of the graph and hands out what it gives.
 *
 * Called by evalframe/hit.c with the GIL. A step, or several that run as one piece, is a task: tasks.def lists the kinds, and
 * task_*.c say how each is bound, run and finished. The driver alone gives up the GIL, asks for floating-point flags between
 * tasks, makes arrays in front of them and drops those that nobody needs behind them. The DynCall lives on the stack; it owns
 * the arrays that it makes until they are handed out. */
#include "base/cpy.h"
#include "base/log.h"
#include "base/torch.h"
#include "base/watch.h"
#include "codegen/run/call.h"
#include "codegen/run/flags.h"
#include "codegen/run/par.h"
#include "codegen/run/times.h"
#include "codegen/target.h"

#define FEW_PLACES 24 /* places for which the stack has room */

/* ---- floating-point flags: who gives the warning that is due */

void dyn_call_be_strict(DynCall *c, bool strict) {
    if (strict && !c->is_strict) {
        c->strict = dyn_flags_strict();
    } else if (!strict && c->is_strict) {
        dyn_flags_lenient(c->strict);
        c->strict = NULL;
    }
    c->is_strict = strict;
}

bool dyn_call_can_repeat(const DynCall *c) { return !c->acted && (!c->wrote || c->undo != NULL); }

/* CPython makes the call from its beginning: what was written into inputs is as it was. */
DynRunStatus dyn_call_repeat(DynCall *c) {
    if (c->wrote) {
        dyn_undo_put_back(c);
    }
    return DYN_RUN_AGAIN;
}

/* Those of them that somebody has to hear of; -1 with an exception. */
int dyn_call_flags_due(const DynCall *c, int flags) {
    int wanted = dyn_flags_wanted(flags);
    return wanted == 0 && (flags & (FE_INVALID | FE_DIVBYZERO)) && c->p->warns ? flags : wanted;
}

static void note_ran(DynFlagsRan *ran, uint16_t op) {
    if (ran->order[op] == 0) {
        ran->order[op] = ++ran->n;
    }
}

/* The steps since flags were asked for, up to `end`; what isn't between calls may stand anywhere. */
static void find_ran(const DynCall *c, uint32_t end, DynFlagsRan *ran) {
    const DynLoops *p = c->p;
    *ran = (DynFlagsRan){.to = p->graph->nodes.n};
    if (c->asked < p->steps.n && p->steps.at[c->asked].kind == DYN_STEP_EXTERN) {
        ran->from = p->steps.at[c->asked].id;
    }
    if (end < p->steps.n && p->steps.at[end].kind == DYN_STEP_EXTERN) {
        ran->to = p->steps.at[end].id;
    }
    for (uint32_t s = c->asked; s < end; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        for (uint32_t i = 0; k != NULL && i < k->insns.n; i++) {
            const DynInsn *insn = &k->insns.at[i];
            if (insn->kind == DYN_L_CAST) {
                note_ran(ran, DYN_OP_COPY);
                note_ran(ran, DYN_OP_STORE);
            } else if (insn->kind == DYN_L_OP || insn->kind == DYN_L_REDUCE) {
                note_ran(ran, insn->op);
            }
        }
        if (k == NULL) {
            note_ran(ran, dyn_graph_node(p->graph, p->steps.at[s].id)->op);
        }
    }
}

static DynRunStatus warn(DynCall *c, int flags, uint32_t step) {
    DynFlagsRan ran;
    find_ran(c, step, &ran);
    dyn_call_be_strict(c, false);
    return dyn_flags_warn(c->p->graph, flags, &ran) < 0 ? DYN_RUN_ERROR : DYN_RUN_OK;
}

static DynRunStatus answer_flags(DynCall *c, uint32_t step) {
    int flags = (c->flags | c->a->target->synchronise(c)) & DYN_FLAGS_SEEN;
    if (DYN_LIKELY(flags == 0)) {
        return DYN_RUN_OK;
    }
    if (c->p->tensors) { /* PyTorch doesn't warn */
        dyn_flags_clear();
        c->flags = 0;
        return DYN_RUN_OK;
    }
    flags = dyn_call_flags_due(c, flags);
    dyn_flags_clear();
    c->flags = 0;
    if (flags <= 0) {
        return flags < 0 ? DYN_RUN_ERROR : DYN_RUN_OK;
    }
    if (dyn_call_can_repeat(c)) {
        return dyn_call_repeat(c);
    }
    return warn(c, flags, step);
}

DynRunStatus dyn_call_check_flags(DynCall *c, uint32_t step) {
    DynRunStatus status = answer_flags(c, step);
    c->asked = step;
    return status;
}

/* ---- tasks */

static DynTaskId kernel_task(const DynCall *c, const DynStep *step, DynTaskId refused) {
    if (DYN_UNLIKELY(step->pair != 0) && refused != DYN_TASK_PAIR) {
        return step->pair == c->paired ? DYN_TASK_MADE : DYN_TASK_PAIR;
    }
    return c->p->kernels.at[step->id].group == DYN_NONE ? DYN_TASK_KERNEL : DYN_TASK_GROUP;
}

static DynTaskId extern_task(const DynCall *c, const DynStep *step, DynTaskId refused) {
    const DynGraph *g = c->p->graph;
    uint32_t flags = dyn_ops[dyn_graph_node(g, step->id)->op].flags;
    if (refused == DYN_TASK_PRODUCT || refused == DYN_TASK_OWN) {
        return DYN_TASK_CALL;
    }
    if (flags & DYN_OPF_PRODUCT) {
        return DYN_TASK_PRODUCT;
    }
    return flags & DYN_OPF_SAME_BITS ? DYN_TASK_OWN : DYN_TASK_CALL;
}

/* What runs a step, where the task `refused` doesn't (DYN_TASK_COUNT: none was tried). */
static DynTaskId choose(const DynCall *c, const DynStep *step, DynTaskId refused) {
    if (DYN_UNLIKELY(step->chain > c->chained)) {
        return DYN_TASK_CHAIN;
    }
    switch ((DynStepKind)step->kind) {
    case DYN_STEP_VIEW: return DYN_TASK_VIEW;
    case DYN_STEP_KERNEL: return kernel_task(c, step, refused);
    case DYN_STEP_EXTERN: return extern_task(c, step, refused);
    case DYN_STEP_SCAN: return DYN_TASK_NODE;
    case DYN_STEP_CHECK: return DYN_TASK_CHECK;
    }
    Py_UNREACHABLE();
}

static DynTaskEnd run_task(DynCall *c, const DynTaskKind *kind, DynTask *t) {
    t->cost = 0;
    DynTaskEnd end = kind->bind(c, t);
    if (end != DYN_TASK_DONE || kind->work == NULL) {
        return end;
    }
    PyThreadState *saved = t->cost > DYN_RELEASE_COST ? PyEval_SaveThread() : NULL;
    int failed = kind->work(c, t);
    if (saved) {
        PyEval_RestoreThread(saved);
    }
    return kind->finish(c, t, failed);
}

/* A size or stride is not what the guards promised. Before anything was written eager can take the call. */
static DynRunStatus refuse(DynCall *c) {
    if (dyn_call_can_repeat(c)) {
        PyErr_Clear();
        return dyn_call_repeat(c);
    }
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_SystemError, "dynoc: a compiled graph met arrays that its guards should have kept out");
    }
    return DYN_RUN_ERROR;
}

/* Make the arrays that step s is the first to touch. */
static int make_before(DynCall *c, uint32_t s) {
    const DynLoops *p = c->p;
    for (; c->made < p->makes.n && p->makes.at[c->made].step <= s; c->made++) {
        if (dyn_call_make_array(c, p->makes.at[c->made].place) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Drop the arrays that nobody needs behind step s. */
static void drop_behind(DynCall *c, uint32_t s) {
    const DynLoops *p = c->p;
    for (; c->dropped < p->drops.n && p->drops.at[c->dropped].step <= s; c->dropped++) {
        Py_CLEAR(c->objects[p->drops.at[c->dropped].place]);
    }
}

/* As long as nothing was written CPython can make the call again, and give its own warnings. */
static bool asks_for_flags(const DynCall *c, const DynStep *step) {
    return c->p->writes_inputs && !c->wrote && !c->acted && step->kind != DYN_STEP_VIEW;
}

static DynRunStatus run_steps(DynCall *c) {
    const DynLoops *p = c->p;
    DynTask t;
    for (uint32_t s = 0; s < p->steps.n; s = t.last + 1) {
        const DynStep *step = &p->steps.at[s];
        DynRunStatus due = asks_for_flags(c, step) ? dyn_call_check_flags(c, s) : DYN_RUN_OK;
        if (due != DYN_RUN_OK) {
            return due;
        }
        if (make_before(c, s) < 0) {
            return refuse(c);
        }
        DynTaskId id = DYN_TASK_COUNT;
        DynTaskEnd end;
        int64_t began = dyn_watch_now();
        PyObject *range = DYN_UNLIKELY(c->ranged) ? dyn_times_range(c, s) : NULL;
        do {
            id = choose(c, step, id);
            t.first = t.last = s;
            end = run_task(c, c->a->target->tasks[id], &t);
        } while (DYN_UNLIKELY(end == DYN_TASK_OTHERWISE));
        if (DYN_UNLIKELY(range != NULL)) {
            dyn_torch_range_end(range);
        }
        if (end != DYN_TASK_DONE) {
            return end == DYN_TASK_ENDED ? c->status : refuse(c);
        }
        if (DYN_UNLIKELY(began != 0)) {
            dyn_times_step(c, id, t.first, t.last, began);
        }
        drop_behind(c, t.last);
    }
    return DYN_RUN_OK;
}

/* ---- the call */

DynRunStatus dyn_call_hand_out(DynCall *c) {
    const DynGraph *g = c->p->graph;
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        if (dyn_call_piece(c, g->outputs.at[i]) != NULL) {
            continue;
        }
        c->run->outputs[i] = dyn_call_value(c, g->outputs.at[i]);
        if (!c->run->outputs[i]) {
            while (i-- > 0) {
                Py_CLEAR(c->run->outputs[i]);
            }
            return DYN_RUN_ERROR;
        }
    }
    return DYN_RUN_OK;
}

/* Tensors that came in and were written have a new version for each time, by which autograd knows that. */
static int bump_versions(const DynCall *c) {
    const DynGraph *g = c->p->graph;
    PyObject *written[16]; /* arrays of CuPy's have no versions */
    Py_ssize_t n = 0;
    for (uint32_t i = 0; !g->cupy && i < c->p->written.n; i++) {
        uint32_t at = c->p->written.at[i];
        if (dyn_graph_node(g, g->inputs.at[at])->flags & DYN_NODE_TENSOR) {
            written[n++] = c->run->inputs[at];
        }
        if (n > 0 && (n == DYN_COUNTOF(written) || i + 1 == c->p->written.n)) {
            if (dyn_torch_bump(written, n) < 0) {
                return -1;
            }
            n = 0;
        }
    }
    return 0;
}

/* So does each x.data that Python gets, which is a tensor with versions of its own. */
static int renew(DynCall *c) {
    for (uint32_t i = 0; i < c->p->renewed.n; i++) {
        PyObject *data = dyn_call_value(c, c->p->renewed.at[i]);
        int done = data == NULL ? -1 : dyn_torch_bump(&data, 1);
        Py_XDECREF(data);
        if (done < 0) {
            return -1;
        }
    }
    return 0;
}

DynRunStatus dyn_call_run(DynCall *c) {
    dyn_flags_clear();
    if (dyn_call_make_memory(c) < 0) { /* eager says it in NumPy's words, or makes do with less memory */
        PyErr_Clear();
        return DYN_RUN_AGAIN;
    }
    if (c->p->writes_inputs && c->a->target->takes != NULL && !c->a->target->takes(c)) {
        return DYN_RUN_AGAIN;
    }
    if (c->p->written.n > 0 && !c->p->tensors) {
        dyn_undo_keep(c);
    }
    DynRunStatus status = run_steps(c);
    if (status == DYN_RUN_OK) {
        status = dyn_call_check_flags(c, c->p->steps.n);
    }
    bool done = status != DYN_RUN_OK || renew(c) == 0;
    if (!done || (c->p->tensors && c->wrote && bump_versions(c) < 0)) {
        return DYN_RUN_ERROR;
    }
    return status == DYN_RUN_OK ? dyn_call_hand_out(c) : status;
}

static DynRunStatus replay_or_run(DynCall *c) {
    DynRunStatus status;
    return c->a->target->replay(c, &status) ? status : dyn_call_run(c);
}

DynRunStatus dyn_artifact_run(DynArtifact *a, DynRun *run) {
    DynGeom geoms[FEW_PLACES];
    PyObject *objects[FEW_PLACES];
    const DynLoops *p = a->loops;
    DynCall c = {.a = a, .p = p, .run = run, .geoms = geoms, .objects = objects, .leave_at = run->config->force_leave};
    dyn_par_limit(run->config->threads);
    dyn_cpy_notice_signals(); /* a build may have been submitted lately, with a new thread */
    if (a->rest != NULL && a->joined == NULL) {
        dyn_parts_join(a);
    }
    if (a->sizes != NULL) {
        dyn_sizes_submit(a);
    }
    c.table = atomic_load_explicit(&a->table, memory_order_acquire);
    DynTrial trial = {.way = -1};
    if (DYN_UNLIKELY(a->tune != NULL)) {
        trial = dyn_tune_start(a, run);
        c.table = trial.table;
    }
    if (p->nnative && !c.table) {
        dyn_build_poll();
        if (dyn_artifact_tier(a) == DYN_TIER_EAGER) {
            return DYN_RUN_AGAIN;
        }
        if (!a->built_in) {
            dyn_count("tier", "builtin");
            a->built_in = true;
        }
    }
    if (DYN_UNLIKELY(p->nplaces > FEW_PLACES)) {
        c.geoms = PyMem_Malloc((sizeof(DynGeom) + sizeof(PyObject *)) * p->nplaces);
        if (!c.geoms) {
            PyErr_NoMemory();
            return DYN_RUN_ERROR;
        }
        c.objects = (PyObject **)(c.geoms + p->nplaces);
    }
    memset(c.objects, 0, sizeof(PyObject *) * p->nplaces);
    dyn_artifact_incref(a);
    c.ranged = p->tensors && dyn_torch_profiled;
    c.grad = p->asks_torch && dyn_torch_grad_off();
    DynRunStatus status = DYN_UNLIKELY(a->asks_replay) ? replay_or_run(&c) : dyn_call_run(&c);
    dyn_torch_grad_back(c.grad);
    dyn_call_be_strict(&c, false);
    if (DYN_UNLIKELY(trial.way >= 0) && status == DYN_RUN_OK) {
        dyn_tune_end(a, &trial);
    }
    for (uint32_t i = 0; i < p->nplaces; i++) {
        Py_XDECREF(c.objects[i]);
    }
    a->target->release(&c);
    dyn_undo_drop(&c);
    if (c.geoms != geoms) {
        PyMem_Free(c.geoms);
    }
    dyn_artifact_decref(a);
    return status;
}
