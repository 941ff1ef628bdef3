/* rec_generator.c: generators that are made while recording. A handler that takes values out of one asks for its steps; each
 * brings the generator's frame to the hook, is recorded like an inlined call up to the yield, and leaves the shadow of what it
 * gave here. A step that nobody asked for loses the generator. Between two steps its frame has a recipe, so that a function can
 * be left with a generator in it that is half done.
 *
 * Called by rec_take.c, rec_recipe.c and record.c. Generators live in the recording's arena until the segment ends. */
#include "tracer/record/rec_state.h"

/* A slot of which nothing is known but whether something is in it. */
static DynVal *unknown_slot(DynRec *r, PyObject *real) { return rec_new(r, real != NULL ? DV_OPAQUE : DV_NULL); }

/* From 3.15 on a generator expression has its iterator on the stack before it begins. */
static int open_iterator(DynRec *r, RecFrame *f, const RecPending *call, const DynInstr *loaded) {
    DynVal *null = rec_new(r, DV_NULL), *it = call->iterator;
    if (loaded->op != DYN_I_LOAD_FAST || null == NULL || !dyn_frame_settle(f->f, dyn_frame_depth(f->f))) {
        return -1;
    }
    if (it == NULL) {
        it = rec_plain_iterator(r, (DynOperand){f->shadow[loaded->arg], rec_local(f, loaded->arg)});
    }
    if (it == NULL || !rec_is_iterator(it)) {
        return -1;
    }
    push_shadow(f, it);
    push_shadow(f, null);
    return 0;
}

/* Shadows as RETURN_GENERATOR left the slots: cells are made and free variables are there. */
static int open_slots(DynRec *r, RecGenerator *g, const RecPending *call) {
    RecFrame *f = &g->frame;
    for (uint32_t i = 0; i < f->nslots; i++) {
        DynVal *v = i < call->nslots ? call->slots[i] : NULL;
        PyObject *bound = rec_local(f, i);
        f->shadow[i] = v != NULL && bound != NULL ? v : unknown_slot(r, bound);
        if (f->shadow[i] == NULL) {
            return -1;
        }
    }
    f->shadow[f->nall] = g->func_val;
    for (const DynInstr *in = f->code->v.at; in->op != DYN_I_RETURN_GENERATOR; in++) {
        for (uint32_t i = 0; in->op == DYN_I_COPY_FREE_VARS && i < in->arg; i++) {
            uint32_t slot = f->nslots - in->arg + i;
            PyObject *real = rec_local(f, slot);
            DynVal *cell = real ? rec_closure_cell(r, f, i, real) : NULL;
            f->shadow[slot] = cell ? cell : unknown_slot(r, real);
        }
        if (in->op == DYN_I_MAKE_CELL) {
            DynVal *content = f->shadow[in->arg], *cell;
            bool empty = PyCell_GET(rec_local(f, in->arg)) == NULL;
            if ((cell = rec_new_cell(r, empty ? NULL : content)) == NULL) {
                return -1;
            }
            cell->fresh = true;
            f->shadow[in->arg] = cell;
        }
        if (in->op == DYN_I_GET_ITER && open_iterator(r, f, call, in - 1) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The function is one that recipes can make, or find. */
bool rec_may_make_generator(DynRec *r, DynVal *func, uint32_t source) {
    (void)r;
    return func->kind == DV_FUNC ? func->function.globals != NULL : source != DYN_NONE;
}

static bool stands_in_handler(const RecGenerator *g, const RecGeneratorState *s);

/* It is about to die, and to run what handlers of its frame do then. */
static PyObject *dies(PyObject *self, PyObject *weak) {
    RecGenerator *g = PyCapsule_GetPointer(self, NULL);
    (void)weak;
    if (g != NULL) {
        g->dead = true;
        g->rec->generator_died = g->rec->generator_died || g->lost || stands_in_handler(g, &g->now);
    }
    Py_RETURN_NONE;
}

static PyObject *watch(RecGenerator *g, PyObject *object) {
    static PyMethodDef method = {"dies", dies, METH_O, NULL};
    PyObject *self = PyCapsule_New(g, NULL, NULL), *callback = self ? PyCFunction_New(&method, self) : NULL;
    PyObject *weak = callback ? PyWeakref_NewRef(object, callback) : NULL;
    Py_XDECREF(self);
    Py_XDECREF(callback);
    return weak;
}

DynVal *rec_new_generator(DynRec *r, PyObject *object, const RecPending *call) {
    RecGenerator *g = DYN_NEW(&r->arena, RecGenerator);
    DynVal *v = rec_new(r, DV_GENERATOR);
    if (g == NULL || v == NULL || !PyGen_CheckExact(object)) {
        return rec_fail(r, DYN_R_GENERATOR, NULL);
    }
    g->rec = r;
    g->f = dyn_frame_of_generator(object);
    g->globals = PyFunction_GET_GLOBALS(call->func);
    g->func_val = call->func_val;
    g->v = v;
    if (rec_keep(r, g->globals) < 0 || rec_frame_open(r, &g->frame, g->f) < 0) {
        return rec_fail(r, DYN_R_NO_MEMORY, NULL);
    }
    g->frame.generator = g;
    g->frame.func_source = call->func_source;
    g->frame.outer = r->top;
    if (open_slots(r, g, call) < 0) {
        return rec_fail(r, DYN_R_GENERATOR, "what it goes over");
    }
    g->now = (RecGeneratorState){.at = dyn_frame_position(g->f), .ssp = g->frame.ssp, .shadow = g->frame.shadow};
    v->generator = r->generators.n;
    v->fresh = true;
    if (dyn_vec_push(&r->generators, g) < 0) {
        return rec_fail(r, DYN_R_NO_MEMORY, NULL);
    }
    g->weak = watch(g, object);
    PyErr_Clear();
    g->lost = g->weak == NULL;
    return g->lost ? rec_fail(r, DYN_R_NO_MEMORY, NULL) : v;
}

RecGenerator *rec_generator_of(DynRec *r, DynFrame *f) {
    for (uint32_t i = 0; i < r->generators.n; i++) {
        RecGenerator *g = r->generators.at[i];
        if (g->f == f && !g->dead && !g->now.finished) {
            g->lost = g->lost || !g->asked;
            return g->lost ? NULL : g;
        }
    }
    return NULL;
}

/* The frame as CPython resumes it: what was sent lies on its stack. */
static int resume(DynRec *r, RecGenerator *g) {
    RecFrame *f = &g->frame;
    uint32_t depth = (uint32_t)dyn_frame_depth(g->f), at = dyn_frame_position(g->f), top = f->nslots + depth - 1;
    f->pc = at < f->code->nunits ? f->code->at_unit[at] : DYN_NONE;
    if (g->sent.v == NULL || f->pc == DYN_NONE || depth == 0 || !dyn_frame_settle(g->f, (int)depth)) {
        return -1;
    }
    if (dyn_frame_get(g->f, top) != g->sent.real || f->ssp != top) {
        return -1;
    }
    for (f->sp = f->nslots; f->sp <= top; f->sp++) {
        f->real[f->sp] = dyn_frame_take(g->f, f->sp);
    }
    push_shadow(f, g->sent.v);
    return 0;
}

PyObject *rec_generator_step(DynRec *r, RecGenerator *g) {
    if (resume(r, g) < 0) {
        g->lost = true;
        return dyn_frame_default_eval(r->ts, g->f, 0);
    }
    g->now.started = true;
    r->depth++;
    PyObject *result = rec_run_frame(r, &g->frame);
    r->depth--;
    return result;
}

void rec_yielded(DynRec *r, RecFrame *f, const DynInstr *in) {
    RecGenerator *g = f->generator;
    bool yields = in->op == DYN_I_YIELD_VALUE;
    g->gave = f->shadow[f->ssp - 1]; /* a constant that is returned has no real value on the stack */
    g->returned = !yields;
    if (yields) {
        PyObject *real = operand(f, 1).real;
        f->ssp--; /* CPython's instruction takes the value itself */
        if (rec_keep(r, real) < 0) {
            g->lost = true;
        }
    }
}

/* Before the first step of an instruction: as it is now, it can be told again. */
static int remember(DynRec *r, RecGenerator *g) {
    RecFrame *f = &g->frame;
    if (g->taken) {
        return 0;
    }
    g->before = g->now;
    g->before.shadow = DYN_NEW_N(&r->arena, DynVal *, f->nall + 1);
    if (g->before.shadow == NULL) {
        return -1;
    }
    memcpy(g->before.shadow, f->shadow, (f->nall + 1) * sizeof *f->shadow);
    g->taken = true;
    return 0;
}

PyObject *rec_generator_take(DynRec *r, DynOperand o, DynOperand sent, DynVal **v) {
    RecGenerator *g = r->generators.at[o.v->generator];
    PyObject *item = NULL;
    *v = NULL;
    if (!g->now.finished && (g->lost || remember(r, g) < 0)) {
        rec_take_failed(r, DYN_R_CALLEE_BAILED, "generator");
    }
    g->asked = !r->take_lost;
    g->sent = sent;
    g->gave = NULL;
    g->returned = false;
    PySendResult how = PyIter_Send(o.real, sent.real, &item);
    g->asked = false;
    if (how == PYGEN_ERROR || (g->now.finished && how == PYGEN_RETURN)) {
        if (how == PYGEN_RETURN) { /* it was at its end before */
            Py_CLEAR(item);
            *v = dyn_rec_const(r, Py_None);
            return NULL;
        }
        g->lost = true;
        return NULL;
    }
    bool followed = !g->lost && !r->take_lost && r->cap != NULL;
    bool known = followed && g->gave != NULL && g->returned == (how == PYGEN_RETURN);
    if (!known) {
        g->lost = true;
        rec_take_failed(r, DYN_R_CALLEE_BAILED, "generator");
    } else {
        g->now.finished = how == PYGEN_RETURN;
        g->now.ssp = g->frame.ssp;
        g->now.at = g->now.finished ? DYN_NONE : dyn_frame_position(g->f);
        *v = g->gave;
    }
    if (how == PYGEN_RETURN) {
        if (item != Py_None) {
            PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, item);
            if (stop != NULL) {
                PyErr_SetObject(PyExc_StopIteration, stop);
                Py_DECREF(stop);
            }
        }
        Py_CLEAR(item);
    }
    return item;
}

/* The instruction at which it stands; NULL: it doesn't stand in its code. */
static const DynInstr *stands_at(const RecGenerator *g, const RecGeneratorState *s) {
    uint32_t at = s->started && !s->finished && s->at < g->frame.code->nunits ? g->frame.code->at_unit[s->at] : DYN_NONE;
    return at == DYN_NONE || at == 0 ? NULL : &g->frame.code->v.at[at];
}

/* `except X:` with a builtin exception that is no base of GeneratorExit. */
static bool catches_others(const RecGenerator *g, const DynInstr *in) {
    PyObject *name = in->op == DYN_I_LOAD_GLOBAL ? rec_name(&g->frame, in->arg) : NULL;
    bool own = name == NULL || g->old || PyDict_GetItemWithError(g->globals, name) != NULL;
    PyObject *type = own ? NULL : PyDict_GetItemWithError(PyEval_GetBuiltins(), name);
    if (type == NULL || !PyExceptionClass_Check(type)) {
        return false;
    }
    bool matches = in[1].op == DYN_I_CHECK_EXC_MATCH && in[2].op == DYN_I_POP_JUMP_IF_FALSE;
    return matches && !PyType_IsSubtype((PyTypeObject *)PyExc_GeneratorExit, (PyTypeObject *)type);
}

/* Is it where a handler of the compiler's own begins? */
static bool is_compilers_handler(const DynInstr *in) {
    return in->op == DYN_I_CLEANUP_THROW || (in->op == DYN_I_INTRINSIC_1 && in->arg == 3);
}

/* The instruction by which GeneratorExit leaves a handler that does nothing for it, or NULL. */
static const DynInstr *passes_by(const RecGenerator *g, const DynInstr *in) {
    if (in->op == DYN_I_COPY && in[1].op == DYN_I_POP_EXCEPT && in[2].op == DYN_I_RERAISE) { /* the end of each handler */
        return in + 2;
    }
    if (in->op != DYN_I_PUSH_EXC_INFO) {
        return NULL;
    }
    for (in++; catches_others(g, in);) {
        in = &g->frame.code->v.at[in[2].target];
    }
    return in->op == DYN_I_RERAISE ? in : NULL;
}

/* The handlers that cover this yield do something when the generator dies there: not those of the compiler's own, which turn
 * StopIteration into RuntimeError, and end what is delegated to, nor those of other exceptions. */
static bool is_guarded(const RecGenerator *g, const DynInstr *in) {
    const DynCode *c = g->frame.code;
    const DynInstr *leaves;
    DynHandler h;
    while (dyn_cpy_find_handler(c->code, in->at, &h)) {
        uint32_t target = h.target < c->nunits ? c->at_unit[h.target] : DYN_NONE;
        in = target == DYN_NONE ? NULL : &c->v.at[target];
        if (in != NULL && (leaves = passes_by(g, in)) != NULL) {
            in = leaves;
            continue;
        }
        if (in == NULL || !is_compilers_handler(in)) {
            return true;
        }
        if (in->op != DYN_I_CLEANUP_THROW) {
            return false;
        }
    }
    return false;
}

static bool stands_in_handler(const RecGenerator *g, const RecGeneratorState *s) {
    const DynInstr *in = stands_at(g, s);
    return in != NULL && is_guarded(g, in - 1);
}

bool rec_generator_may_guard(DynRec *r, DynVal *v) {
    const RecGenerator *g = r->generators.at[v->generator];
    const DynCode *c = g->frame.code;
    bool guards = g->lost;
    for (uint32_t i = 0; i < c->v.n && !guards; i++) {
        const DynInstr *in = &c->v.at[i];
        guards = (in->op == DYN_I_YIELD_VALUE || in->op == DYN_I_SEND) && is_guarded(g, in);
    }
    for (uint32_t i = 0; i < g->now.ssp && !guards; i++) { /* it goes over another, which dies with it */
        DynVal *held = g->now.shadow[i];
        guards = held != NULL && held != v && held->kind == DV_GENERATOR && rec_generator_may_guard(r, held);
    }
    return guards;
}

/* It stands in `yield from`. */
static bool delegates(const RecGenerator *g, const RecGeneratorState *s) {
    const DynInstr *in = stands_at(g, s);
    while (in != NULL && in->op == DYN_I_NOP) {
        in++;
    }
    return in != NULL && in->op == DYN_I_JUMP && g->frame.code->v.at[in->target].op == DYN_I_SEND;
}

bool rec_generator_close(DynRec *r, DynOperand o) {
    RecGenerator *g = r->generators.at[o.v->generator];
    if (g->lost || delegates(g, &g->now)) {
        return false;
    }
    if (stands_in_handler(g, &g->now) || remember(r, g) < 0) {
        return false;
    }
    g->now.finished = true;
    return true;
}

void rec_generators_settle(DynRec *r, bool known) {
    for (uint32_t i = 0; i < r->generators.n; i++) {
        RecGenerator *g = r->generators.at[i];
        if (!g->taken) {
            continue;
        }
        if (known) {
            rec_changed(r, g->v);
        } else { /* the real one has moved on: nobody asks for it any more */
            g->now = g->before;
            memcpy(g->frame.shadow, g->before.shadow, (g->frame.nall + 1) * sizeof *g->frame.shadow);
            g->now.shadow = g->frame.shadow;
            g->lost = true;
        }
        g->taken = false;
    }
}

/* ---- as recipes */

/* Its state before the running instruction. */
static const RecGeneratorState *state_of(const RecGenerator *g) { return g->taken ? &g->before : &g->now; }

int rec_generators_told(DynRec *r) {
    for (uint32_t i = 0; i < r->generators.n; i++) {
        const RecGenerator *g = r->generators.at[i];
        bool newer = r->seal.frame != NULL && g->v->born >= r->seal.mark.born; /* the instruction makes it again */
        bool dies = !newer && !g->old && g->v->stamp != r->stamp;              /* no recipe makes it */
        if (dies && stands_in_handler(g, state_of(g))) {
            return -1;
        }
    }
    return 0;
}

uint32_t rec_generator_recipe(DynRec *r, DynVal *v) {
    const RecGenerator *g = r->generators.at[v->generator];
    const RecGeneratorState *s = state_of(g);
    uint32_t n = s->finished ? 0 : s->ssp, *items = DYN_NEW_N(&r->cap->arena, uint32_t, n + 1);
    if (items == NULL || g->handled != NULL) {
        return DYN_NONE;
    }
    items[0] = g->frame.func_source != DYN_NONE ? dyn_capture_recipe(r->cap, DYN_RC_SOURCE, g->frame.func_source, NULL, 0, NULL)
                                                : rec_recipe(r, g->func_val);
    for (uint32_t i = 0; i < n && items[0] != DYN_NONE; i++) {
        items[1 + i] = rec_recipe(r, s->shadow[i]);
        if (items[1 + i] == DYN_NONE) {
            return DYN_NONE;
        }
    }
    if (items[0] == DYN_NONE) {
        return DYN_NONE;
    }
    return dyn_capture_recipe(r->cap, DYN_RC_GENERATOR, s->finished ? DYN_NONE : s->at, NULL, n + 1, items);
}

bool rec_generator_finished(DynRec *r, DynVal *v) { return state_of(r->generators.at[v->generator])->finished; }

DynVal *rec_generator_local(DynRec *r, DynVal *v, PyObject *name) {
    const RecGenerator *g = r->generators.at[v->generator];
    const RecGeneratorState *s = state_of(g);
    for (uint32_t i = 0; !s->finished && i < g->frame.nslots; i++) {
        if (PyUnicode_Compare(dyn_code_local_name(g->frame.code->code, (int)i), name) == 0) {
            return s->shadow[i]->kind == DV_NULL ? NULL : s->shadow[i];
        }
    }
    return NULL;
}

bool rec_generators_guarded(const DynRec *r) {
    for (uint32_t i = 0; i < r->generators.n; i++) {
        const RecGenerator *g = r->generators.at[i];
        if (!g->dead && (g->lost || stands_in_handler(g, &g->now))) {
            return true;
        }
    }
    return false;
}

void rec_forget_generators(DynRec *r, bool all) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->generators.n; i++) {
        RecGenerator *g = r->generators.at[i];
        if (all || g->dead || g->now.finished) {
            Py_CLEAR(g->weak);
        } else {
            g->old = g->lost = true;
            r->generators.at[n++] = g;
        }
    }
    r->generators.n = n;
}
