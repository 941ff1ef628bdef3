/* rec_segment.c: segments of a recording: where one begins (shadows from sources), is left or returns, and the snapshots of nodes
 * that can leave in the middle. Breaks are in rec_break.c.
 *
 * Called by record.c's main loop. A segment's capture is owned by the recording until rec_deliver hands it over. */
#include "base/torch.h"
#include "tracer/record/rec_segment.h"

void rec_forget(DynRec *r) {
    for (uint32_t i = 0; i < r->keep.n; i++) {
        Py_DECREF(r->keep.at[i]);
    }
    rec_forget_generators(r, false);
    r->handled = NULL;
    r->taken.n = 0;
    r->keep.n = r->seen.n = r->by_source.n = r->by_node.n = r->written.n = r->effects.n = r->touched.n = 0;
    r->gave.n = 0;
    r->behind = r->derives = false;
}

/* The number of the argument of the next resume function that a slot of the frame becomes. A resume function's own frame has the
 * cell __class__ a second time, behind its stack arguments. */
static uint32_t slot_told(const RecFrame *f, uint32_t slot) {
    for (uint32_t i = 0; slot >= f->ntold && i < f->ntold; i++) {
        if (rec_local(f, i) == rec_local(f, slot)) {
            return i;
        }
    }
    return slot;
}

/* Shadows of a frame at the start of a segment. The first: bound arguments are locals of the function. Later ones: every slot and
 * every stack value is a parameter of the resume function. */
static int shadows_from_sources(DynRec *r, RecFrame *f) {
    DynSources *t = &r->cap->sources;
    PyCodeObject *code = f->code->code;
    bool made_cells = f->pc > 0 || f->told != f->code; /* else an argument that is a cell is the user's */
    f->ssp = f->sp;
    for (uint32_t i = 0; i < f->sp; i++) {
        DynVal *v;
        PyObject *real = i < f->nslots ? rec_local(f, i) : f->real[i];
        if (real == NULL) {
            v = rec_new(r, DV_NULL);
        } else {
            PyObject *name =
                i < f->nslots ? Py_NewRef(dyn_code_local_name(code, (int)i)) : PyUnicode_FromFormat("<stack %u>", i - f->nslots);
            uint32_t at = i < f->nslots ? slot_told(f, i) : i - f->nslots + f->ntold;
            at = f->pc == 0 ? i : at;
            uint32_t s = name ? dyn_source_intern(t, DYN_SRC_LOCAL, DYN_NONE, at, name, NULL) : DYN_NONE;
            Py_XDECREF(name);
            v = s == DYN_NONE ? NULL : rec_source(r, s);
            bool cell = made_cells && i < f->nslots && PyCell_Check(real);
            if (v != NULL && cell && dyn_code_local_kind(code, (int)i) & (0x40 | 0x80)) {
                DynVal *content = NULL;
                if (PyCell_GET(real) != NULL) {
                    uint32_t inside = dyn_source_intern(t, DYN_SRC_CELL, s, 0, NULL, NULL);
                    content = inside == DYN_NONE ? NULL : rec_source(r, inside);
                    if (content == NULL) {
                        return -1;
                    }
                }
                v->kind = DV_CELL;
                v->cell.content = content;
                v->cell.found = DYN_NONE;
                if (rec_saw(r, real, v) < 0) { /* closures lead to it too */
                    return -1;
                }
            }
        }
        if (v == NULL) {
            return -1;
        }
        f->shadow[i] = v;
    }
    return 0;
}

int rec_new_capture(DynRec *r, RecFrame *f, PyObject *code) {
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
    r->cap->record_began = dyn_now_ns();
    r->cap->ninstrs = r->ninstrs;
    rec_torch_segment(r);
    r->nnodes_seen = 0;
    r->ninstrs_node = r->ninstrs;
    return 0;
}

int rec_begin(DynRec *r, RecFrame *top) {
    r->base = top;
    if (r->req->resumes != NULL) {
        if ((top->told = rec_code(r, r->req->resumes)) == NULL) {
            return -1;
        }
        top->moved = r->req->moved;
        top->ntold = (uint32_t)dyn_code_nlocalsplus(r->req->resumes);
    }
    if (rec_new_capture(r, top, (PyObject *)top->code->code) < 0) {
        return -1;
    }
    top->func_source = dyn_source_intern(&r->cap->sources, DYN_SRC_FUNCTION, DYN_NONE, 0, NULL, NULL);
    return top->func_source == DYN_NONE ? -1 : shadows_from_sources(r, top);
}

/* ---- states as recipes */

/* The state of a resume function's frame is described as a state of the code that it resumes, once its prologue has run. */
int rec_frame_state(DynRec *r, RecFrame *f, uint32_t at, bool as_argument, const RecInner *inner, DynFrameState *out) {
    uint32_t nfree = (uint32_t)dyn_code_nfree(f->code->code), nslots = at < f->moved ? f->nslots : f->ntold;
    if (f->generator != NULL) { /* its caller is not a Python frame that stands at a call */
        return -1;
    }
    out->code = Py_NewRef((PyObject *)(at < f->moved ? f->code : f->told)->code);
    out->func = DYN_NONE;
    out->at = at < f->moved ? at : at - f->moved;
    out->nslots = nslots;
    out->nstack = f->ssp - f->nslots;
    out->recipes = DYN_NEW_N(&r->cap->arena, uint32_t, nslots + out->nstack + 1);
    if (out->recipes == NULL) {
        Py_CLEAR(out->code);
        return -1;
    }
    for (uint32_t i = 0; i < nslots + out->nstack; i++) {
        uint32_t k = i < nslots ? i : i - nslots + f->nslots, recipe = DYN_NONE;
        bool free_slot = i < nslots && i >= f->nslots - nfree;
        DynVal *v = f->shadow[k];
        r->on_stack = i >= nslots;
        bool made_cell = free_slot && v->kind == DV_CELL && v->source == DYN_NONE, operand = inner != NULL && i >= nslots;
        if (made_cell && !as_argument) {
            recipe = dyn_capture_recipe(r->cap, DYN_RC_NULL, 0, NULL, 0, NULL);
        } else if (operand && i - nslots >= inner->from) {
            recipe = inner->recipes[i - nslots - inner->from];
        } else {
            recipe = rec_recipe(r, v);
        }
        if ((out->recipes[i] = recipe) == DYN_NONE) {
            const char *name = i < nslots ? PyUnicode_AsUTF8(dyn_code_local_name((PyCodeObject *)out->code, (int)i)) : NULL;
            r->detail = name == NULL ? NULL : dyn_arena_strdup(&r->arena, name);
            Py_CLEAR(out->code);
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

bool rec_has_work(const DynCapture *c) {
    for (uint32_t i = 0; i < c->graph.nodes.n; i++) {
        const DynNode *n = &c->graph.nodes.at[i];
        const DynExtern *x = dyn_graph_extern(&c->graph, n);
        bool foreign = x != NULL && rec_is_foreign(x); /* made by ctypes in any case */
        if (dyn_ops[n->op].kind != DYN_K_INPUT && !foreign) {
            return true;
        }
    }
    return false;
}

/* The arrays that came in, as a tuple for a back end that the graph is handed to. NULL, without an exception, if there is no
 * memory: the back end then gets no examples. */
static PyObject *examples_of(const DynRec *r) {
    const DynGraph *g = &r->cap->graph;
    PyObject *t = PyTuple_New(g->inputs.n);
    for (uint32_t i = 0; t != NULL && i < g->inputs.n; i++) {
        PyTuple_SET_ITEM(t, i, Py_NewRef(r->by_node.at[g->inputs.at[i]]->real));
    }
    if (t == NULL) {
        PyErr_Clear();
    }
    return t;
}

/* Does this reason stand for one in a callee, of which more is known? */
static bool is_of_callee(const DynRec *r, DynReason why) { return why == DYN_R_CALLEE_BAILED && r->callee_way.n > 0; }

/* What the segment ended for, in the callee where it was one. */
static void blame(const DynRec *r, DynCapture *c, DynReason why) {
    bool callee = is_of_callee(r, why);
    const char *detail = callee ? r->callee_detail : why == r->why ? r->detail : NULL;
    c->cause = callee ? r->callee_cause : why;
    c->detail = detail == NULL ? NULL : dyn_arena_strdup(&c->arena, detail);
    for (uint32_t i = 0; callee && i < r->callee_way.n; i++) {
        DynPlace p = r->callee_way.at[i];
        if (dyn_vec_push(&c->inner, p) == 0) {
            Py_INCREF(p.code);
        }
    }
}

void rec_finish_segment(DynRec *r, DynEnd end, DynReason why, RecFrame *f, const DynInstr *in) {
    DynCapture *c = r->cap;
    r->req->worked |= rec_has_work(c);
    c->end = end;
    c->reason = why;
    c->ninstrs = r->ninstrs - c->ninstrs;
    c->record_ns = dyn_now_ns() - c->record_began;
    place_of(r, f, in, &c->end_place);
    blame(r, c, why);
    if (r->req->whole) {
        c->examples = examples_of(r);
    }
    r->cap = NULL;
    if (dyn_vec_push(&r->done, c) < 0) {
        dyn_capture_free(c);
    }
}

static void stop_for(DynRec *r, RecFrame *f, const DynInstr *in, DynReason why, DynReason cause) {
    DynPlace p = {0};
    r->over = true;
    r->between = false;
    if (r->cap == NULL) {
        return;
    }
    r->req->worked |= rec_has_work(r->cap);
    place_of(r, f, in, &p);
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    r->req->refused(r->req, r->cap->code, why, cause, &p);
    dyn_capture_free(r->cap);
    r->cap = NULL;
    PyErr_Restore(type, value, tb);
    Py_DECREF(p.code);
}

void rec_stop(DynRec *r, RecFrame *f, const DynInstr *in, DynReason why) { stop_for(r, f, in, why, why); }

/* Do the finished segments save time: all of them run once, or one that a loop runs again and again? */
static bool pays(const DynRec *r) {
    double sum = 0, most = 0;
    for (uint32_t i = 0; i < r->done.n; i++) {
        double gain = r->req->gain(r->done.at[i]);
        sum += gain;
        most = gain > most ? gain : most;
    }
    return sum > 0 || (r->closed && most > 0);
}

void rec_deliver(DynRec *r) {
    bool known = !r->req->need_arrays || r->served || r->delivered, work = known;
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    uint32_t last = 0; /* segments behind the last one with array work aren't worth an entry */
    for (uint32_t i = 0; i < r->done.n; i++) {
        if (rec_has_work(r->done.at[i]) || r->done.at[i]->stands_in) {
            work = true;
            last = i;
        }
    }
    DynReason why = work ? DYN_R_NO_PROFIT : DYN_R_NO_ARRAYS;
    work = work && (known || r->req->gain == NULL || pays(r));
    if (r->closed || r->served) { /* the last one leads on to one that is */
        last = r->done.n;
    }
    for (uint32_t i = 0; i < r->done.n; i++) {
        DynCapture *c = r->done.at[i];
        if (work && (i <= last || !r->req->need_arrays)) {
            r->req->captured(r->req, c);
        } else {
            if (!work) {
                bool says_more = why == DYN_R_NO_ARRAYS && c->reason != DYN_R_OK;
                r->req->refused(r->req, c->code, why, says_more ? c->reason : why, &c->end_place);
            }
            dyn_capture_free(c);
        }
    }
    r->done.n = 0;
    r->delivered = work;
    if (!r->between) {
        r->req->ended(r->req);
    }
    PyErr_Restore(type, value, tb);
}

/* ---- what ends a recording, where, and what to do */

void rec_forget_callee(DynRec *r) {
    for (uint32_t i = 0; i < r->callee_way.n; i++) {
        Py_DECREF(r->callee_way.at[i].code);
    }
    r->callee_way.n = 0;
}

static void log_end(const DynRec *r, const char *what, const DynPlace *p) {
    DynStr s = {0};
    if (dyn_log_on(DYN_LOG_graph_breaks)) {
        dyn_str_printf(&s, "%s ", what);
        dyn_report_reason(&s, r->why, r->detail, p);
        dyn_log_text(DYN_LOG_graph_breaks, dyn_str_at(&s));
        dyn_str_free(&s);
    }
}

void rec_note_callee(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynPlace p;
    if (r->cap == NULL) {
        return;
    }
    if (r->why != DYN_R_CALLEE_BAILED) {
        rec_forget_callee(r);
        r->callee_cause = r->why;
        r->callee_detail = r->detail;
    }
    place_of(r, f, in, &p);
    if (r->why != DYN_R_CALLEE_BAILED) {
        log_end(r, "callee", &p);
    }
    if (dyn_vec_push(&r->callee_way, p) < 0) {
        Py_DECREF(p.code);
    }
}

void rec_unsupported(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynStr s = {0};
    DynPlace p;
    place_of(r, f, in, &p);
    if (is_of_callee(r, r->why)) {
        dyn_report_way(&s, r->callee_cause, r->callee_detail, r->callee_way.at, r->callee_way.n, &p);
    } else {
        dyn_report_reason(&s, r->why, r->detail, &p);
    }
    Py_DECREF(p.code);
    dyn_str_printf(&s, "\nmore: python -m dynoc reason %s", dyn_reason_code(is_of_callee(r, r->why) ? r->callee_cause : r->why));
    PyErr_SetString(dyn_unsupported_error ? dyn_unsupported_error : PyExc_RuntimeError, dyn_str_at(&s));
    dyn_str_free(&s);
}

/* ---- ends */

void rec_begin_recipes(DynRec *r, bool nodes) {
    r->stamp++;
    r->stamp_nodes = nodes;
}

void rec_return(DynRec *r, RecFrame *f, const DynInstr *in) {
    if (r->cap == NULL) {
        return;
    }
    rec_begin_recipes(r, false);
    r->cap->result = rec_recipe(r, f->shadow[f->ssp - 1]);
    if (r->cap->result == DYN_NONE || rec_effects_done(r, &r->cap->done) < 0) {
        rec_stop(r, f, in, DYN_R_NOT_REBUILDABLE);
        return;
    }
    rec_finish_segment(r, DYN_END_RETURN, DYN_R_OK, f, in);
}

void rec_leave(DynRec *r, RecFrame *f, const DynInstr *in) {
    if (r->cap == NULL) {
        return;
    }
    bool raised = r->derives && r->why == DYN_R_EXCEPTION; /* it is the program's, as without a gradient */
    if (r->req->fullgraph && r->why != DYN_R_FORCED && !raised) {
        rec_unsupported(r, f, in);
        return;
    }
    DynReason why = r->why;
    rec_begin_recipes(r, false);
    if (rec_frame_state(r, f, in->start, false, NULL, &r->cap->before) < 0 || rec_effects_done(r, &r->cap->done) < 0) {
        rec_stop(r, f, in, DYN_R_NOT_REBUILDABLE);
        return;
    }
    bool behind = rec_goes_on_behind(r, f, in), loop = rec_has_loop_behind(f);
    if (!rec_has_work(r->cap) && r->done.n == 0 && !(behind && loop)) {
        if (loop && why != DYN_R_BUDGET) {
            DynPlace p;
            place_of(r, f, in, &p);
            log_end(r, "left", &p);
            Py_DECREF(p.code);
        }
        stop_for(r, f, in, why == DYN_R_BUDGET ? why : DYN_R_NO_ARRAYS, why);
        return;
    }
    r->served = r->served || (behind && loop); /* what is there is recorded by the next call, which finds its resume function */
    rec_finish_segment(r, behind ? DYN_END_BREAK : DYN_END_LEAVE, why, f, in);
}

int rec_open_resumed(DynRec *r, RecFrame *f, PyObject *resume) {
    rec_forget(r);
    r->spoiled = false;
    r->seal.frame = NULL; /* what was sealed is over, or stands outside */
    r->forced = r->ninstrs;
    if (rec_new_capture(r, f, resume) < 0) {
        return -1;
    }
    r->base = f;
    f->func_source = DYN_NONE;
    f->shadow[f->nall] = NULL;
    return shadows_from_sources(r, f);
}

/* ---- snapshots */

/* May the instruction that makes sealed calls run again from its start? It may if nothing that it did so far would be done twice.
 */
static bool seal_holds(DynRec *r) {
    const DynGraph *g = &r->cap->graph;
    for (uint32_t i = r->seal.mark.nodes; i < g->nodes.n; i++) {
        const DynNode *n = &g->nodes.at[i];
        bool stores = dyn_node_stores(n) && n->storage < r->seal.mark.nodes;
        bool once = dyn_ops[n->op].kind == DYN_K_EXTERN && g->externs.at[n->extern_index].once;
        if (stores || (once && i + 1 < g->nodes.n)) {
            return false;
        }
    }
    return !rec_changed_since(r, &r->seal.mark);
}

static int add_snapshot(DynRec *r, uint32_t *index) {
    uint32_t n = 0, neffects = r->effects.n;
    bool sealed = r->seal.frame != NULL;
    RecFrame *top = sealed ? r->seal.frame : r->top;
    if (sealed && !seal_holds(r)) {
        return -1;
    }
    for (RecFrame *f = top; f != r->base->outer; f = f->outer) {
        n++;
    }
    DynSnapshot s = {.nframes = n, .nrecipes = r->cap->recipes.n, .nnodes = r->nnodes_seen};
    s.frames = DYN_NEW_N(&r->cap->arena, DynFrameState, n);
    if (s.frames == NULL) {
        return -1;
    }
    rec_begin_recipes(r, true);
    for (RecFrame *f = top; f != r->base->outer; f = f->outer) {
        if (rec_frame_state(r, f, f->code->v.at[f->pc].start, false, NULL, &s.frames[--n]) < 0) {
            while (n < s.nframes) {
                Py_CLEAR(s.frames[n].code);
                n++;
            }
            dyn_capture_forget_recipes(r->cap, s.nrecipes);
            return -1;
        }
    }
    DynVal *handled = r->handled;
    r->effects.n = sealed ? r->seal.mark.effects : neffects;
    r->handled = sealed ? r->seal.mark.handled : handled;
    int done = rec_effects_done(r, &s.effects);
    r->effects.n = neffects;
    r->handled = handled;
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
            RecMark before = rec_mark(r); /* guards and effects are the running instruction's, which takes them back itself */
            before.nodes = from;
            rec_rollback(r, &before);
            r->why = DYN_R_NOT_REBUILDABLE;
            return -1;
        }
        g->nodes.at[i].snapshot = index;
    }
    return 0;
}
