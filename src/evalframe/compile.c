/* compile.c: the pipeline, one page: a capture becomes a cache entry.
 *
 *     verify → guards → common → lower → recompute → fuse → schedule → plan → emit → build → rewrite → enter
 *
 * Called by hook.c for each segment that a recording gives. Owns the capture until the entry does. Each stage is timed, logged
 * and dumped where asked. A failure before `lower` or behind `build` gives no entry; one between them gives an entry that runs as
 * plain Python, so that the function isn't recorded again and again. Either way its reason is counted and the program goes on. */
#include "codegen/target.h"
#include "evalframe/follow.h"

const char *const dyn_stage_names[DYN_STAGE_COUNT] = {
#define STAGE(name) #name,
    DYN_STAGES(STAGE)
#undef STAGE
};

typedef struct Job {
    DynCache *root, *cache; /* of the function; of the capture's code */
    PyObject *resumes;      /* the code that the capture's code is a resume code of; borrowed; NULL: none */
    PyObject *func;
    DynEntry *entry;
    DynCapture *capture; /* the entry's */
    DynConfig config;
    DynArena scratch; /* of the back end's stages */
    DynLoops *loops;  /* NULL: nothing to build */
    const DynTarget *target;
    DynStr source, error;
    DynReason why;
    DynDump dump;
} Job;

static int fail(Job *j, DynReason why) {
    j->why = why;
    return -1;
}

/* ---- before the back end */

/* A graph that is handed on with sizes and numbers burnt in: what isn't the entry's yet becomes it. */
static int pin(DynCapture *c) {
    DynSyms *t = &c->syms;
    for (uint32_t i = 0, n = t->v.n; i < n; i++) {
        const DynSym s = *dyn_sym_at(t, i);
        if (!dyn_sym_is_read(s.op)) {
            continue;
        }
        uint32_t value = dyn_sym_constant(t, (DynSymType)s.type, s.hint);
        DynSymOp same = s.type == DYN_T_FLOAT ? DYN_S_SAME_BITS : DYN_S_EQ;
        DynGuard g = {.kind = DYN_GUARD_SYM, .source = dyn_sym_op(t, same, i, value, DYN_NONE), .source2 = DYN_NONE};
        if (value == DYN_NONE || g.source == DYN_NONE || dyn_capture_guard(c, &g) < 0) {
            return -1;
        }
    }
    return 0;
}

static int verify(Job *j) {
    DynResume *row;
    DynCache *c = dyn_cache_of_code(j->root, j->capture->code, &row);
    if (c == NULL || !dyn_cache_make_room(c, j->config.cache_limit)) {
        return fail(j, c == NULL ? DYN_R_DISABLED : DYN_R_CACHE_LIMIT); /* no cache: reset() was called meanwhile */
    }
    j->cache = c;
    if (row != NULL) {
        j->resumes = row->of;
        j->entry->shift = row->shift;
    }
#ifdef DYN_DEBUG
    if (dyn_capture_verify(j->capture, &j->error) < 0 || dyn_graph_verify(&j->capture->graph, &j->error) < 0) {
        return fail(j, DYN_R_INTERNAL);
    }
#endif
    if (j->root->options->hands_on && !j->root->options->dynamic && pin(j->capture) < 0) {
        return fail(j, DYN_R_NO_MEMORY);
    }
    dyn_graph_trim(&j->capture->graph); /* now, as the loop IR points to nodes */
    if (dyn_debug_wanted(&j->config, DYN_LOG_graph)) {
        dyn_graph_print(&j->capture->graph, &j->dump.graph);
    }
    if (j->config.debug) {
        dyn_debug_program(j->capture, &j->dump.python);
        dyn_debug_calls(j->capture, &j->dump.calls);
    }
    return 0;
}

static int guards(Job *j) {
    DynEntry *e = j->entry;
    e->guards = dyn_guards_compile(j->capture);
    if (e->guards == NULL) {
        return fail(j, DYN_R_NO_MEMORY);
    }
    dyn_guards_sizes(e->guards, &e->nsrc, &e->nsym);
    return 0;
}

/* ---- the back end. A graph without work, or one that is not to be compiled, goes through untouched. */

static bool has_work(const DynGraph *g) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (dyn_ops[g->nodes.at[i].op].kind != DYN_K_INPUT) {
            return true;
        }
    }
    return false;
}

/* May an operator without a vector call give other bits than eager's for numbers of this kind ('f', 'c' …)? */
static bool rounds_otherwise(const DynOpInfo *op, char kind) {
    if (op->kind == DYN_K_REDUCE) {
        return kind == 'f' || kind == 'c';
    }
    return op->kind == DYN_K_ELEMENTWISE && kind == 'c'; /* eager's products differ from stride to stride */
}

bool dyn_compile_is_inexact(const DynGraph *g) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = &g->nodes.at[i];
        const DynOpInfo *op = &dyn_ops[n->op];
        if (op->flags & (DYN_OPF_VECTOR_CALL | DYN_OPF_PRODUCT) || rounds_otherwise(op, dyn_dtypes[n->compute].kind)) {
            return true;
        }
    }
    return false;
}

/* exact=True: products are the calls that they were. */
static void leave_products(DynGraph *g) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        DynNode *n = &g->nodes.at[i];
        n->op = dyn_ops[n->op].flags & DYN_OPF_PRODUCT ? DYN_OP_EXTERN : n->op;
    }
}

/* The graph stays eager's for good, and whoever asks is told why. */
static int leave(Job *j, DynReason why) {
    j->entry->plain = why;
    dyn_count_reason("graphs_failed", why);
    dyn_cache_tell(j->root, why, NULL);
    return 0;
}

/* exact=True was asked for, and the graph can't be. */
static int leave_inexact(Job *j) {
    j->entry->plain = DYN_R_DISABLED;
    dyn_count("graphs", "inexact");
    return 0;
}

/* Which calls of a graph that autograd follows are CPython's: under wait=True only such as nothing follows, so that all of the
 * function's parts are served. */
static DynFollowJudged judged(const Job *j) {
    if (dyn_profit_is_measured(j->root)) {
        return DYN_FOLLOW_JUDGES_ALL;
    }
    bool last = j->capture->end == DYN_END_RETURN;
    return last && dyn_profit_is_judged(j->root) ? DYN_FOLLOW_JUDGES_CALLS : DYN_FOLLOW_TAKES_ALL;
}

/* Values require gradients: the graph becomes parts that autograd follows, which are compiled on their own. */
static int follow(Job *j) {
    if (j->root->options->exact) {
        return leave_inexact(j);
    }
    j->entry->follow = dyn_follow_new(&j->capture->graph, j->root->options, &j->why, &j->error);
    if (j->entry->follow != NULL) {
        dyn_count("graphs", "compiled");
        j->entry->follow->judged = judged(j);
        if (!dyn_estimate_followed(j->capture, j->entry->follow, NULL)) {
            dyn_cache_tell(j->root, DYN_R_NO_PROFIT, NULL);
            bool only = j->cache == j->root && j->capture->end == DYN_END_RETURN; /* there is nothing else in the function */
            if (only && j->entry->follow->judged == DYN_FOLLOW_JUDGES_ALL) {
                dyn_profit_decline(j->root);
            }
        }
    } else if (j->why == DYN_R_REQUIRES_GRAD) { /* nothing went wrong: it can't be followed */
        leave(j, j->why);
        dyn_log(DYN_LOG_graph_breaks, "%s: %s in %s", dyn_reason_code(j->why), dyn_str_at(&j->error), j->capture->graph.name);
        j->error.n = 0;
    } else {
        return -1;
    }
    return 0;
}

static int lower(Job *j) {
    DynGraph *g = &j->capture->graph;
    if (j->root->options->exact) {
        leave_products(g);
    }
    if (!has_work(g)) {
        return 0;
    }
    j->entry->works = true;
    j->entry->tensors = dyn_graph_has_tensors(g);
    j->target = dyn_target_of(g);
    dyn_count("graphs", "captured");
    if (dyn_follow_wanted(g)) {
        return follow(j);
    }
    bool interpreted = j->root->options->eager || j->root->options->hands_on, device = g->device != 0;
    if (interpreted && !device) {
        j->entry->interpreted = true;
        return 0;
    }
    if (interpreted || (j->root->options->exact && (device || dyn_compile_is_inexact(g)))) {
        return leave_inexact(j);
    }
    if (dyn_common(g, &j->scratch) < 0) {
        return fail(j, DYN_R_NO_MEMORY);
    }
    j->loops = dyn_lower(g, &j->config, &j->scratch, &j->why, &j->error);
    if (j->loops != NULL && dyn_debug_wanted(&j->config, DYN_LOG_fusion)) {
        dyn_loops_tell(j->loops, &j->dump.story);
    }
    return j->loops == NULL ? -1 : 0;
}

static int check_loops(Job *j, int text) {
    if (j->loops != NULL && dyn_debug_wanted(&j->config, text == 1 ? DYN_LOG_fusion : DYN_LOG_schedule)) {
        dyn_loops_print(j->loops, &j->dump.loops[text]);
    }
#ifdef DYN_DEBUG
    if (j->loops != NULL && dyn_loops_verify(j->loops, &j->error) < 0) {
        return fail(j, DYN_R_LOWERING);
    }
#endif
    return 0;
}

static int recompute(Job *j) {
    if (check_loops(j, 0) < 0) {
        return -1;
    }
    return j->loops == NULL ? 0 : dyn_recompute(j->loops, &j->why, &j->error);
}

static int fuse(Job *j) {
    if (j->loops != NULL && dyn_fuse(j->loops, &j->why, &j->error) < 0) {
        return -1;
    }
    return check_loops(j, 1);
}

static int schedule(Job *j) { return j->loops == NULL ? 0 : dyn_schedule(j->loops, &j->why, &j->error); }

static int plan(Job *j) {
    if (j->loops != NULL && dyn_plan(j->loops, &j->why, &j->error) < 0) {
        return -1;
    }
    return check_loops(j, 2);
}

/* Is the text written now? Where native code may never be asked for (rent.c), it is written when it is, and where nobody looks
 * at it here, by the build thread. */
static bool is_written_now(const Job *j) {
    bool asked_for = j->config.debug || dyn_debug_wanted(&j->config, DYN_LOG_output_code);
    return asked_for || j->root->options->tune || !(j->entry->rents || j->target->written_apart);
}

static int emit(Job *j) {
    if (j->loops == NULL) {
        return 0;
    }
    j->entry->rents = j->root->quiet && dyn_profit_is_measured(j->root);
    return is_written_now(j) ? j->target->emit(j->loops, &j->source, &j->why, &j->error) : 0;
}

static int build(Job *j) {
    if (j->loops == NULL) {
        return 0;
    }
    if (dyn_debug_wanted(&j->config, DYN_LOG_output_code)) {
        dyn_str_puts(&j->dump.source, dyn_str_at(&j->source));
    }
    if (j->config.debug) {
        j->target->program(j->loops, &j->config, dyn_str_at(&j->source), &j->dump.program);
    }
    const DynLoops *kept = dyn_loops_keep(j->loops, &j->capture->arena);
    j->entry->artifact = kept == NULL ? NULL : dyn_artifact_new(j->target, kept, &j->source, &j->capture->graph, &j->config);
    if (j->entry->artifact == NULL) {
        return fail(j, DYN_R_NO_MEMORY);
    }
    dyn_count("graphs", "compiled");
    if (j->root->options->tune && j->target == &dyn_target_c) {
        dyn_artifact_tune(j->entry->artifact);
    }
    if (j->root->options->replay) {
        dyn_artifact_replay(j->entry->artifact);
    }
    if (!j->entry->rents) {
        dyn_rent_buy(j->entry);
    }
    return 0;
}

/* ---- what is left in Python (rewrite.c) */

/* Recipes of inlined calls name resume codes so far; now their doors. */
static int open_inner(Job *j) {
    DynCapture *c = j->capture;
    for (uint32_t i = 0; i < c->recipes.n; i++) {
        DynRecipe *r = &c->recipes.at[i];
        DynResume *row = NULL;
        if (r->kind != DYN_RC_INNER) {
            continue;
        }
        if (dyn_cache_of_code(j->root, r->obj, &row) == NULL || row == NULL) {
            return -1;
        }
        PyObject *code = r->obj;
        r->obj = Py_NewRef(row->door);
        Py_DECREF(code);
    }
    return 0;
}

static int rewrite(Job *j) {
    DynCapture *c = j->capture;
    DynEntry *e = j->entry;
    if (c->end != DYN_END_RETURN && c->before.code != c->code && c->before.code != j->resumes) {
        /* No row tells what a resume code resumes: reset() was called meanwhile, and its cache is on its own. */
        return fail(j, j->resumes == NULL ? DYN_R_DISABLED : DYN_R_INTERNAL);
    }
    if (open_inner(j) < 0) { /* no row: reset() was called meanwhile */
        return fail(j, DYN_R_DISABLED);
    }
    if (c->end == DYN_END_PASS && dyn_rewrite_pass(j->cache, e, j->func) < 0) {
        PyErr_Clear();
        return fail(j, DYN_R_NOT_REBUILDABLE);
    }
    if (c->end == DYN_END_BREAK && dyn_rewrite_break(j->cache, e, j->func) < 0) {
        PyErr_Clear(); /* the frame is rebuilt at the break instead, and CPython does the rest */
        c->end = DYN_END_LEAVE;
        Py_CLEAR(e->code);
    }
    if (e->code != NULL && dyn_debug_wanted(&j->config, DYN_LOG_bytecode)) {
        dyn_debug_disassemble(c->code, &j->dump.bytecode);
        dyn_str_puts(&j->dump.bytecode, "\nrewritten:\n");
        dyn_debug_disassemble(e->code, &j->dump.bytecode);
    }
    return 0;
}

static int enter(Job *j) {
    DynEntry *e = j->entry;
    dyn_capture_trim(j->capture);
    dyn_guards_trim(e->guards);
    dyn_entry_incref(e);
    return dyn_cache_add(j->cache, e) < 0 ? fail(j, DYN_R_NO_MEMORY) : 0;
}

/* ---- */

static int (*const stages[DYN_STAGE_COUNT])(Job *) = {
#define STAGE(name) [DYN_STAGE_##name] = name,
    DYN_STAGES(STAGE)
#undef STAGE
};

static int run_stage(Job *j, DynStage s) {
    int64_t start = dyn_now_ns();
    bool back_end = s >= DYN_STAGE_lower && s <= DYN_STAGE_build;
    int done = stages[s](j);
    j->entry->stage_ns[s] += dyn_now_ns() - start;
    if (DYN_UNLIKELY(dyn_watching != 0)) {
        dyn_watch_event("stage", dyn_stage_names[s], start, j->entry->stage_ns[s], 0);
    }
    if (done == 0 || !back_end) {
        return done;
    }
    dyn_count_reason("graphs_failed", j->why);
    dyn_warn_once(j->why, "%s in %s: %s", dyn_stage_names[s], j->capture->graph.name, dyn_str_at(&j->error));
    j->entry->plain = j->why == DYN_R_OK ? DYN_R_LOWERING : j->why;
    j->loops = NULL;
    return 0;
}

void dyn_compile(DynCache *root, DynCapture *capture, PyObject *func, DynEntry **made) {
    Job j = {.root = root, .capture = capture, .func = func, .config = dyn_options_config(root->options)};
    int done = 0;
    *made = NULL;
    j.entry = dyn_entry_new(capture);
    if (j.entry == NULL) {
        dyn_count_reason("refused", DYN_R_NO_MEMORY);
        return;
    }
    j.entry->made_ns = dyn_now_ns();
    dyn_cache_incref(root);
    if (root->options->given != 0) {
        j.entry->options = root->options;
        dyn_options_incref(root->options);
    }
    j.dump.entry = j.entry;
    j.dump.config = &j.config;
    int64_t began = dyn_watch_now();
    for (DynStage s = 0; s < DYN_STAGE_COUNT && done == 0; s++) {
        done = run_stage(&j, s);
    }
    if (DYN_UNLIKELY(began != 0)) {
        dyn_watch_event("record", capture->graph.name, capture->record_began, capture->record_ns, 0);
        dyn_watch_event("compile", capture->graph.name, began, dyn_now_ns() - began, 0);
    }
    if (done == 0) {
        if (capture->end != DYN_END_RETURN) {
            dyn_count_reason("graph_breaks", capture->reason);
            dyn_debug_end(capture);
        }
        dyn_debug_entry(&j.dump);
        *made = j.entry;
    } else {
        dyn_count_reason("refused", j.why);
        if (j.why == DYN_R_INTERNAL) {
            dyn_warn_once(j.why, "%s: %s", capture->graph.name, dyn_str_at(&j.error));
        }
        dyn_entry_decref(j.entry);
    }
    PyErr_Clear();
    dyn_debug_free(&j.dump);
    dyn_arena_free(&j.scratch);
    dyn_str_free(&j.source);
    dyn_str_free(&j.error);
    dyn_cache_decref(root);
}
