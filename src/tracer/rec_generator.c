/* rec_generator.c: generators that are made while recording (generator expressions above all). A handler that takes values out of
 * one asks for its steps first; each step brings the generator's frame to the hook, is recorded like an inlined call up to the
 * yield, and leaves the yielded value's shadow here. A step that nobody asked for loses the generator.
 *
 * Called by the call and loop handlers and by record.c. Generators live in the recording's arena until the segment ends. */
#include "tracer/rec_state.h"

DynVal *rec_new_generator(DynRec *r, PyObject *object, const RecPending *call) {
    RecGenerator *g = DYN_NEW(&r->arena, RecGenerator);
    DynVal *v = rec_new(r, DV_GENERATOR);
    if (g == NULL || v == NULL || !PyGen_CheckExact(object) || rec_keep(r, object) < 0) {
        return rec_fail(r, DYN_R_GENERATOR, NULL);
    }
    g->object = object;
    g->f = dyn_frame_of_generator(object);
    g->func_val = call->func_val;
    g->func_source = call->func_source;
    g->slots = call->slots;
    g->nslots = call->nslots;
    v->id = r->generators.n;
    v->fresh = true;
    return dyn_vec_push(&r->generators, g) < 0 ? rec_fail(r, DYN_R_NO_MEMORY, NULL) : v;
}

void rec_ask(DynRec *r, DynVal *v) {
    RecGenerator *g = r->generators.at[v->id];
    g->asked = true;
    g->yielded.n = 0;
    rec_changed(r, v);
}

int rec_asked(DynRec *r, DynVal *v, const DynOperand **yielded, uint32_t *n) {
    RecGenerator *g = r->generators.at[v->id];
    g->asked = false;
    *yielded = g->yielded.at;
    *n = g->yielded.n;
    return g->lost || r->cap == NULL ? -1 : 0;
}

RecGenerator *rec_generator_of(DynRec *r, DynFrame *f) {
    for (uint32_t i = 0; i < r->generators.n; i++) {
        RecGenerator *g = r->generators.at[i];
        if (g->f == f) {
            g->lost = g->lost || !g->asked;
            return g->lost ? NULL : g;
        }
    }
    return NULL;
}

/* Shadows as RETURN_GENERATOR left the slots: cells are made and free variables are there. */
static int open_slots(DynRec *r, RecGenerator *g) {
    RecFrame *f = &g->frame;
    for (uint32_t i = 0; i < f->nslots; i++) {
        DynVal *v = i < g->nslots ? g->slots[i] : NULL;
        f->shadow[i] = v != NULL ? v : rec_new(r, f->real[i] ? DV_OPAQUE : DV_NULL);
        if (f->shadow[i] == NULL) {
            return -1;
        }
    }
    f->shadow[f->nall] = g->func_val;
    for (const DynInstr *in = f->code->v.at; in->op != DYN_I_RETURN_GENERATOR; in++) {
        for (uint32_t i = 0; in->op == DYN_I_COPY_FREE_VARS && i < in->arg; i++) {
            uint32_t slot = f->nslots - in->arg + i;
            DynVal *cell = f->real[slot] ? rec_closure_cell(r, f, i, f->real[slot]) : NULL;
            f->shadow[slot] = cell ? cell : rec_new(r, f->real[slot] ? DV_OPAQUE : DV_NULL);
        }
        if (in->op == DYN_I_MAKE_CELL) {
            DynVal *content = f->shadow[in->arg], *cell = rec_new(r, DV_CELL);
            if (cell == NULL || (cell->items = DYN_NEW(&r->arena, DynVal *)) == NULL) {
                return -1;
            }
            bool empty = PyCell_GET(f->real[in->arg]) == NULL;
            cell->items[0] = empty ? NULL : content;
            cell->n = cell->cap = 1;
            cell->fresh = true;
            f->shadow[in->arg] = cell;
        }
    }
    return 0;
}

/* The frame as CPython resumes it: what was sent (None) lies on its stack. */
static int resume(DynRec *r, RecGenerator *g) {
    RecFrame *f = &g->frame;
    uint32_t depth = (uint32_t)dyn_frame_depth(g->f), at = dyn_frame_position(g->f);
    DynVal *none = dyn_rec_const(r, Py_None);
    if (!g->started) {
        if (rec_frame_open(r, f, g->f) < 0) {
            return -1;
        }
        f->generator = g;
        f->func_source = g->func_source;
        f->outer = r->top;
        if (open_slots(r, g) < 0) {
            return -1;
        }
        g->started = true;
    }
    f->sp = f->nslots + depth;
    f->pc = at < f->code->nunits ? f->code->at_unit[at] : DYN_NONE;
    if (none == NULL || f->pc == DYN_NONE || depth == 0 || f->real[f->sp - 1] != Py_None || f->ssp + 1 != f->sp) {
        return -1;
    }
    push_shadow(f, none);
    return 0;
}

PyObject *rec_generator_step(DynRec *r, RecGenerator *g) {
    if (resume(r, g) < 0) {
        g->lost = true;
        return dyn_frame_default_eval(r->ts, g->f, 0);
    }
    r->depth++;
    PyObject *result = rec_run_frame(r, &g->frame);
    r->depth--;
    return result;
}

void rec_yielded(DynRec *r, RecFrame *f, const DynInstr *in) {
    RecGenerator *g = f->generator;
    DynOperand o = operand(f, 1);
    if (in->op != DYN_I_YIELD_VALUE) {
        return;
    }
    f->ssp--; /* CPython's instruction takes the value itself */
    if (rec_keep(r, o.real) < 0 || dyn_vec_push(&g->yielded, o) < 0) {
        g->lost = true;
    }
}

void rec_forget_generators(DynRec *r) {
    for (uint32_t i = 0; i < r->generators.n; i++) {
        dyn_vec_free(&r->generators.at[i]->yielded);
    }
    r->generators.n = 0;
}
