/* rec_segment.c: segments of a recording: where one begins (shadows from sources), breaks (state before the instruction, resume
 * code, fresh shadows behind it), is left or returns, and the snapshots of nodes that can leave in the middle.
 *
 * Called by record.c's main loop. A segment's capture is owned by the recording until rec_deliver hands it over. */
#include "tracer/rec_segment.h"

void rec_forget(DynRec *r) {
    for (uint32_t i = 0; i < r->keep.n; i++) {
        Py_DECREF(r->keep.at[i]);
    }
    rec_forget_generators(r);
    r->keep.n = r->seen.n = r->by_source.n = r->by_node.n = r->written.n = r->effects.n = r->touched.n = 0;
    r->behind = false;
}

/* Shadows of a frame at the start of a segment. The first: bound arguments are locals of the function. Later ones: every slot and
 * every stack value is a parameter of the resume function. */
static int shadows_from_sources(DynRec *r, RecFrame *f, bool resumed) {
    DynSources *t = &r->cap->sources;
    PyCodeObject *code = f->code->code;
    f->ssp = f->sp;
    for (uint32_t i = 0; i < f->sp; i++) {
        DynVal *v;
        if (f->real[i] == NULL) {
            v = rec_new(r, DV_NULL);
        } else {
            PyObject *name =
                i < f->nslots ? Py_NewRef(dyn_code_local_name(code, (int)i)) : PyUnicode_FromFormat("<stack %u>", i - f->nslots);
            uint32_t s = name ? dyn_source_intern(t, DYN_SRC_LOCAL, DYN_NONE, i, name, NULL) : DYN_NONE;
            Py_XDECREF(name);
            v = s == DYN_NONE ? NULL : rec_source(r, s);
            if (v != NULL && resumed && i < f->nslots && PyCell_Check(f->real[i]) &&
                dyn_code_local_kind(code, (int)i) & (0x40 | 0x80)) {
                DynVal *content = NULL;
                if (PyCell_GET(f->real[i]) != NULL) {
                    uint32_t inside = dyn_source_intern(t, DYN_SRC_CELL, s, 0, NULL, NULL);
                    content = inside == DYN_NONE ? NULL : rec_source(r, inside);
                    if (content == NULL) {
                        return -1;
                    }
                }
                v->kind = DV_CELL;
                v->items = DYN_NEW(&r->arena, DynVal *);
                if (v->items == NULL) {
                    return -1;
                }
                v->items[0] = content;
                v->n = v->cap = 1;
            }
        }
        if (v == NULL) {
            return -1;
        }
        f->shadow[i] = v;
    }
    return 0;
}

static int new_capture(DynRec *r, RecFrame *f, PyObject *code) {
    PyCodeObject *c = f->code->code;
    const char *name = PyUnicode_AsUTF8(c->co_name);
    if (name == NULL) {
        PyErr_Clear();
        name = "function";
    }
    r->cap = dyn_capture_new(code, name);
    if (r->cap == NULL) {
        return -1;
    }
    r->cap->func = Py_XNewRef(dyn_frame_func(f->f));
    r->nnodes_seen = 0;
    r->ninstrs_node = r->ninstrs;
    return 0;
}

int rec_begin(DynRec *r, RecFrame *top) {
    if (new_capture(r, top, (PyObject *)top->code->code) < 0) {
        return -1;
    }
    top->func_source = dyn_source_intern(&r->cap->sources, DYN_SRC_FUNCTION, DYN_NONE, 0, NULL, NULL);
    return top->func_source == DYN_NONE ? -1 : shadows_from_sources(r, top, false);
}

/* ---- states as recipes */

static int frame_state(DynRec *r, RecFrame *f, uint32_t at, DynFrameState *out) {
    PyCodeObject *code = f->code->code;
    int nfree = dyn_code_nfree(code);
    if (f->generator != NULL) { /* its caller is not a Python frame that stands at a call */
        return -1;
    }
    out->code = Py_NewRef((PyObject *)code);
    out->func = DYN_NONE;
    out->at = at;
    out->nslots = f->nslots;
    out->nstack = f->ssp - f->nslots;
    out->recipes = DYN_NEW_N(&r->cap->arena, uint32_t, f->ssp + 1);
    if (out->recipes == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < f->ssp; i++) {
        bool free_slot = i < f->nslots && i >= f->nslots - (uint32_t)nfree;
        DynVal *v = f->shadow[i];
        r->on_stack = i >= f->nslots;
        out->recipes[i] = free_slot && v->kind == DV_CELL && v->source == DYN_NONE
                              ? dyn_capture_recipe(r->cap, DYN_RC_NULL, 0, NULL, 0, NULL)
                              : rec_recipe(r, v);
        if (out->recipes[i] == DYN_NONE) {
            return -1;
        }
    }
    return 0;
}

static void place_of(DynRec *r, RecFrame *f, const DynInstr *in, DynPlace *p) {
    (void)r;
    p->code = Py_NewRef((PyObject *)f->code->code);
    if (in == NULL || dyn_cpy_code_position(f->code->code, in->at, &p->line, &p->end_line, &p->col, &p->end_col) < 0) {
        p->line = f->code->code->co_firstlineno;
        p->end_line = p->col = p->end_col = -1;
    }
}

static bool has_work(const DynCapture *c) {
    for (uint32_t i = 0; i < c->graph.nodes.n; i++) {
        if (dyn_ops[c->graph.nodes.at[i].op].kind != DYN_K_INPUT) {
            return true;
        }
    }
    return false;
}

static void finish_segment(DynRec *r, DynEnd end, DynReason why, RecFrame *f, const DynInstr *in) {
    DynCapture *c = r->cap;
    r->req->worked |= has_work(c);
    c->end = end;
    c->reason = why;
    c->ninstrs = r->ninstrs;
    place_of(r, f, in, &c->end_place);
    r->cap = NULL;
    if (dyn_vec_push(&r->done, c) < 0) {
        dyn_capture_free(c);
    }
}

void rec_stop(DynRec *r, RecFrame *f, const DynInstr *in, DynReason why) {
    DynPlace p = {0};
    if (r->cap == NULL) {
        return;
    }
    r->req->worked |= has_work(r->cap);
    place_of(r, f, in, &p);
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    r->req->refused(r->req, r->cap->code, why, &p);
    dyn_capture_free(r->cap);
    r->cap = NULL;
    PyErr_Restore(type, value, tb);
    Py_DECREF(p.code);
}

void rec_deliver(DynRec *r) {
    bool work = !r->req->need_arrays;
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    uint32_t last = 0; /* segments behind the last one with array work aren't worth an entry */
    for (uint32_t i = 0; i < r->done.n; i++) {
        if (has_work(r->done.at[i])) {
            work = true;
            last = i;
        }
    }
    for (uint32_t i = 0; i < r->done.n; i++) {
        DynCapture *c = r->done.at[i];
        if (work && (i <= last || !r->req->need_arrays)) {
            r->req->captured(r->req, c);
        } else {
            if (!work) {
                r->req->refused(r->req, c->code, DYN_R_NO_ARRAYS, &c->end_place);
            }
            dyn_capture_free(c);
        }
    }
    r->done.n = 0;
    PyErr_Restore(type, value, tb);
}

/* What ends the recording at this instruction, where, and what to do. */
static void describe(DynRec *r, RecFrame *f, const DynInstr *in, DynStr *out) {
    DynPlace p;
    place_of(r, f, in, &p);
    dyn_str_printf(out, "%s: %s", dyn_reason_code(r->why), dyn_reason_message(r->why));
    if (r->detail != NULL) {
        dyn_str_printf(out, " (%s)", r->detail);
    }
    dyn_str_puts(out, "\n");
    dyn_report_place(out, &p);
    dyn_str_printf(out, "\nhint: %s", dyn_reason_hint(r->why));
    Py_DECREF(p.code);
}

void rec_note_callee(DynRec *r, RecFrame *f, const DynInstr *in) {
    bool logged = dyn_log_on(DYN_LOG_graph_breaks);
    if (r->cap == NULL || r->why == DYN_R_CALLEE_BAILED || (!logged && !r->req->fullgraph)) {
        return;
    }
    DynStr s = {0};
    dyn_str_puts(&s, "callee ");
    describe(r, f, in, &s);
    r->callee_why = dyn_arena_strdup(&r->arena, dyn_str_at(&s));
    if (logged) {
        dyn_log_text(DYN_LOG_graph_breaks, dyn_str_at(&s));
    }
    dyn_str_free(&s);
}

static void unsupported(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynStr s = {0};
    describe(r, f, in, &s);
    if (r->why == DYN_R_CALLEE_BAILED && r->callee_why != NULL) {
        dyn_str_printf(&s, "\n%s", r->callee_why);
    }
    PyErr_SetString(dyn_unsupported_error ? dyn_unsupported_error : PyExc_RuntimeError, dyn_str_at(&s));
    dyn_str_free(&s);
}

/* ---- ends */

static void begin_recipes(DynRec *r, bool nodes) {
    r->stamp++;
    r->stamp_nodes = nodes;
}

void rec_return(DynRec *r, RecFrame *f, const DynInstr *in) {
    if (r->cap == NULL) {
        return;
    }
    begin_recipes(r, false);
    r->cap->result = rec_recipe(r, f->shadow[f->ssp - 1]);
    if (r->cap->result == DYN_NONE || rec_effects_done(r, &r->cap->done) < 0) {
        rec_stop(r, f, in, DYN_R_NOT_REBUILDABLE);
        return;
    }
    finish_segment(r, DYN_END_RETURN, DYN_R_OK, f, in);
}

void rec_leave(DynRec *r, RecFrame *f, const DynInstr *in) {
    if (r->cap == NULL) {
        return;
    }
    if (r->req->fullgraph && r->why != DYN_R_FORCED) {
        unsupported(r, f, in);
        return;
    }
    DynReason why = r->why;
    begin_recipes(r, false);
    if (frame_state(r, f, in->start, &r->cap->before) < 0 || rec_effects_done(r, &r->cap->done) < 0) {
        rec_stop(r, f, in, DYN_R_NOT_REBUILDABLE);
        return;
    }
    if (!has_work(r->cap) && r->done.n == 0) {
        rec_stop(r, f, in, why == DYN_R_BUDGET ? why : DYN_R_NO_ARRAYS);
        return;
    }
    finish_segment(r, DYN_END_LEAVE, why, f, in);
}

/* Is the instruction in a loop: between a backward jump and its target. */
static bool in_loop(const DynCode *c, uint32_t pc) {
    for (uint32_t i = pc; i < c->v.n; i++) {
        if ((c->v.at[i].flags & DYN_IF_BACKWARD) && c->v.at[i].target <= pc) {
            return true;
        }
    }
    return false;
}

/* Names of what looks at the frame it is called from: behind a break such a frame has to stay the function's own. */
static bool looks_at_frame(PyCodeObject *code) {
    static const char *const names[] = {"locals", "eval", "exec", "vars", "dir", "super", "_getframe", "currentframe", "stack"};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); i++) {
        for (size_t k = 0; k < DYN_COUNTOF(names); k++) {
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, i), names[k]) == 0) {
                return true;
            }
        }
    }
    return false;
}

static int open_resumed(DynRec *r, RecFrame *f, PyObject *resume) {
    rec_forget(r);
    if (new_capture(r, f, resume) < 0) {
        return -1;
    }
    f->func_source = DYN_NONE;
    return shadows_from_sources(r, f, true);
}

int rec_break(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynCapture *c = r->cap;
    if (c == NULL) {
        return -1;
    }
    if (r->req->fullgraph) {
        unsupported(r, f, in);
        return -1;
    }
    PyCodeObject *code = f->code->code;
    DynReason why = r->why;
    bool *bound = DYN_NEW_N(&c->arena, bool, f->nslots + 1);
    uint32_t nstack = f->sp - f->nslots;
    bool *null = DYN_NEW_N(&c->arena, bool, nstack + 1);
    begin_recipes(r, false);
    rec_forget_effects(r, r->instr_effects); /* the instruction makes them itself */
    if (bound == NULL || null == NULL || r->spoiled || r->instr_changed || frame_state(r, f, in->start, &c->before) < 0 ||
        rec_effects_done(r, &c->done) < 0) {
        rec_stop(r, f, in, DYN_R_NOT_REBUILDABLE);
        return -1;
    }
    for (uint32_t i = 0; i < f->nslots; i++) {
        bound[i] = f->real[i] != NULL;
    }
    for (uint32_t i = 0; i < nstack; i++) {
        null[i] = f->real[f->nslots + i] == NULL;
    }
    /* A trace function that was switched on by the call sees this frame: a resume function would be one more call to it. */
    bool stays = in_loop(f->code, f->pc) || in->op == DYN_I_BEFORE_WITH || dyn_code_has_exception_handler(code, in->at) ||
                 dyn_code_ncells(code) > 0 || looks_at_frame(code) || dyn_cpy_is_traced(r->ts);
    DynFrameShape shape = {f->code->v.at[f->next].start, nstack, bound, null};
    PyObject *resume = stays ? NULL : r->req->resume_code(r->req, f->code, &shape);
    if (resume == NULL) {
        if (!has_work(c) && r->done.n == 0) {
            rec_stop(r, f, in, stays ? DYN_R_BREAK_IN_LOOP : DYN_R_NO_MEMORY);
        } else {
            finish_segment(r, DYN_END_LEAVE, why, f, in);
        }
        return -1;
    }
    c->after_at = shape.at;
    c->after_nstack = nstack;
    c->after_bound = bound;
    c->after_null = null;
    finish_segment(r, DYN_END_BREAK, why, f, in);
    int ok = open_resumed(r, f, resume);
    Py_DECREF(resume);
    if (ok < 0 && r->cap != NULL) {
        rec_stop(r, f, in, DYN_R_NO_MEMORY);
    }
    return ok;
}

/* A node that stands for what came in: it is known by its source from then on, so it outlives a callee that bailed out. */
static bool came_in(const DynRec *r, const DynNode *n) {
    return n->op == DYN_OP_INPUT || (n->op == DYN_OP_SCALAR && n->args[0].kind == DYN_ARG_SYM &&
                                     dyn_sym_at(&r->cap->syms, n->args[0].id)->op == DYN_S_VAR && (n->flags & DYN_NODE_NPSCALAR));
}

/* Node `from` is node `to` from now on, for all that know it by number. */
static void renumber(DynRec *r, uint32_t from, uint32_t to) {
    DynGraph *g = &r->cap->graph;
    g->nodes.at[to] = g->nodes.at[from];
    g->nodes.at[to].storage = to;
    if (to < r->by_node.n) {
        r->by_node.at[to] = from < r->by_node.n ? r->by_node.at[from] : NULL;
    }
    for (uint32_t k = 0; k < r->by_source.n; k++) { /* one object may have been met in several ways */
        DynVal *v = r->by_source.at[k];
        if (v != NULL && (v->kind == DV_NPSCALAR || v->kind == DV_ARRAY) && v->id == from) {
            v->id = to;
        }
    }
    for (uint32_t k = 0; k < g->inputs.n; k++) {
        g->inputs.at[k] = g->inputs.at[k] == from ? to : g->inputs.at[k];
    }
    for (uint32_t k = 0; k < r->written.n; k++) {
        r->written.at[k] = r->written.at[k] == from ? to : r->written.at[k];
    }
}

void rec_rollback(DynRec *r, uint32_t nnodes) {
    if (r->cap == NULL) {
        return;
    }
    DynGraph *g = &r->cap->graph;
    uint32_t to = nnodes;
    for (uint32_t i = nnodes; i < g->nodes.n; i++) {
        if (came_in(r, &g->nodes.at[i])) {
            renumber(r, i, to++);
        }
    }
    while (r->cap->snapshots.n > 0 && r->cap->snapshots.at[r->cap->snapshots.n - 1].nnodes >= nnodes) {
        dyn_capture_forget_snapshots(r->cap, r->cap->snapshots.n - 1);
    }
    dyn_syms_forget(&r->cap->syms, nnodes); /* also of calls whose place is taken by a node that came in */
    dyn_graph_truncate(g, to);
    r->by_node.n = r->by_node.n < to ? r->by_node.n : to;
    r->nnodes_seen = to;
}

/* ---- snapshots */

/* Nothing that a sealed call did so far keeps the instruction that makes it from running again. */
static bool seal_holds(DynRec *r) {
    const DynGraph *g = &r->cap->graph;
    for (uint32_t i = r->seal_nodes; i < g->nodes.n; i++) {
        const DynNode *n = &g->nodes.at[i];
        bool stores = n->op == DYN_OP_STORE && n->storage < r->seal_nodes;
        if (stores || (dyn_ops[n->op].kind == DYN_K_EXTERN && g->externs.at[n->extern_index].once && i + 1 < g->nodes.n)) {
            return false;
        }
    }
    return !r->seal_broken;
}

static int add_snapshot(DynRec *r, uint32_t *index) {
    uint32_t n = 0, neffects = r->effects.n;
    RecFrame *top = r->seal != NULL ? r->seal : r->top;
    if (r->seal != NULL && !seal_holds(r)) {
        return -1;
    }
    for (RecFrame *f = top; f != NULL; f = f->outer) {
        n++;
    }
    DynSnapshot s = {.nframes = n, .nrecipes = r->cap->recipes.n, .nnodes = r->nnodes_seen};
    s.frames = DYN_NEW_N(&r->cap->arena, DynFrameState, n);
    if (s.frames == NULL) {
        return -1;
    }
    begin_recipes(r, true);
    for (RecFrame *f = top; f != NULL; f = f->outer) {
        if (frame_state(r, f, f->code->v.at[f->pc].start, &s.frames[--n]) < 0) {
            while (n < s.nframes) {
                Py_CLEAR(s.frames[n].code);
                n++;
            }
            dyn_capture_forget_recipes(r->cap, s.nrecipes);
            return -1;
        }
    }
    r->effects.n = r->seal != NULL ? r->seal_effects : neffects;
    int done = rec_effects_done(r, &s.effects);
    r->effects.n = neffects;
    if (done < 0) {
        for (uint32_t i = 0; i < s.nframes; i++) {
            Py_CLEAR(s.frames[i].code);
        }
        dyn_capture_forget_recipes(r->cap, s.nrecipes);
        return -1;
    }
    *index = r->cap->snapshots.n;
    return dyn_vec_push(&r->cap->snapshots, s);
}

int rec_snapshot_new_nodes(DynRec *r) {
    if (r->cap == NULL) {
        return 0;
    }
    DynGraph *g = &r->cap->graph;
    uint32_t from = r->nnodes_seen, index = DYN_NONE;
    for (uint32_t i = from; i < g->nodes.n; i++) {
        if (dyn_ops[g->nodes.at[i].op].kind != DYN_K_EXTERN) {
            continue;
        }
        if (index == DYN_NONE && add_snapshot(r, &index) < 0) {
            rec_rollback(r, from);
            r->why = DYN_R_NOT_REBUILDABLE;
            return -1;
        }
        g->nodes.at[i].snapshot = index;
    }
    return 0;
}
