/* rewrite.c: what is left of an entry's stretch in Python: the code that runs its graph and goes on behind it, and plain code, in
 * which CPython runs the stretch itself up to a trap.
 *
 * compile.c asks for the first when an entry is made; plain code is made when a call first needs it (hit.c, profit_loop.c): where
 * the entry waits for native code, and where a loop is left to CPython. The entry owns all of it. */
#include "evalframe/door.h"

/* The capture tells slots and positions of the code that ran; the entry's own code may be a resume code of it, with further slots
 * and moved. */
typedef struct Shapes {
    DynCode *own, *recorded;
    uint32_t nslots;
    bool *bound_before, *bound_after, *live_in, *null_before;
    DynFrameShape before;
    DynWay ways[DYN_WAYS];
} Shapes;

static void free_shapes(Shapes *s) {
    if (s->recorded != NULL && s->recorded != s->own) {
        dyn_decode_free(s->recorded);
    }
    if (s->own != NULL) {
        dyn_decode_free(s->own);
    }
    PyMem_RawFree(s->bound_before);
}

static bool is_null(const DynCapture *c, uint32_t i) { return c->recipes.at[c->before.recipes[i]].kind == DYN_RC_NULL; }

static int make_shapes(const DynEntry *e, Shapes *s) {
    const DynCapture *c = e->capture;
    DynSignature sig;
    bool moved = c->before.code != c->code;
    uint32_t shift = moved ? (uint32_t)e->shift : 0;
    s->own = dyn_decode((PyCodeObject *)c->code);
    s->recorded = moved ? dyn_decode((PyCodeObject *)c->before.code) : s->own;
    s->nslots = (uint32_t)dyn_code_nlocalsplus((PyCodeObject *)c->code);
    bool *room = PyMem_RawCalloc(3 * (size_t)s->nslots + c->before.nstack + 1, sizeof *room);
    s->bound_before = room;
    if (s->own == NULL || s->recorded == NULL || room == NULL) {
        return -1;
    }
    s->bound_after = room + s->nslots;
    s->live_in = s->bound_after + s->nslots;
    s->null_before = s->live_in + s->nslots;
    bool told = c->end == DYN_END_BREAK;
    for (uint32_t i = 0; told && i < c->before.nslots; i++) {
        s->bound_before[i] = !is_null(c, i);
    }
    for (uint32_t i = 0; told && i < c->before.nstack; i++) {
        s->null_before[i] = is_null(c, c->before.nslots + i);
    }
    dyn_bind_signature((PyCodeObject *)c->code, &sig);
    memset(s->live_in, 1, sig.nargs);
    s->before = (DynFrameShape){c->before.at + shift, c->before.nstack, s->bound_before, s->null_before};
    for (uint32_t i = 0; i < DYN_WAYS; i++) {
        const DynFrameShape *a = &c->after[i];
        if (!c->ways[i]) {
            continue;
        }
        memcpy(s->bound_after, a->bound, c->before.nslots * sizeof *room); /* the same on all of them */
        s->ways[i].shape = (DynFrameShape){a->at + shift, a->nstack, s->bound_after, a->null_stack};
    }
    return 0;
}

/* The ways on, by the entry's own continuations. */
static void open_ways(const DynEntry *e, Shapes *s) {
    for (int i = 0; i < DYN_WAYS; i++) {
        s->ways[i].resume = e->goes_on[i];
    }
}

static const DynInstr *breaking_instruction(const Shapes *s) {
    uint32_t at = s->before.at < s->own->nunits ? s->own->at_unit[s->before.at] : DYN_NONE;
    return at == DYN_NONE ? NULL : &s->own->v.at[at];
}

/* Does the entry end where a for loop takes its next item, with both ways on. */
static bool ends_at_loop(const DynEntry *e, const Shapes *s) {
    const DynInstr *in = breaking_instruction(s);
    bool both = e->capture->ways[DYN_WAY_NEXT] && e->capture->ways[DYN_WAY_JUMP];
    return both && in != NULL && in->op == DYN_I_FOR_ITER;
}

/* ---- the code that runs the graph */

static int make_state(DynEntry *e) {
    DynCapture *c = e->capture;
    uint32_t n = c->before.nslots + c->before.nstack;
    e->state = DYN_NEW_N(&c->arena, uint32_t, n + 1);
    for (uint32_t i = 0; e->state != NULL && i < n; i++) {
        if (!is_null(c, i)) {
            e->state[e->nstate++] = c->before.recipes[i];
        }
    }
    return e->state == NULL ? -1 : 0;
}

/* The doors of the resume functions, and what leads to them. */
static int make_ways(DynCache *cache, DynEntry *e, PyObject *func, const Shapes *s) {
    const DynCapture *c = e->capture;
    DynCache *root = cache->root != NULL ? cache->root : cache;
    for (uint32_t i = 0; i < DYN_WAYS; i++) {
        DynResume *next = c->ways[i] ? dyn_cache_resume(root, s->recorded, &c->after[i], func) : NULL;
        if (c->ways[i] && next == NULL) {
            return -1;
        }
        if (next == NULL) {
            continue;
        }
        e->resume[i] = Py_NewRef(next->door);
        e->goes_on[i] = dyn_hit_continuation_new(e->resume[i], c->before.nslots, s->nslots - c->before.nslots);
        if (e->goes_on[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

static int make_break(DynCache *cache, DynEntry *e, PyObject *func, Shapes *s) {
    if (make_state(e) < 0 || make_shapes(e, s) < 0 || make_ways(cache, e, func, s) < 0) {
        return -1;
    }
    open_ways(e, s);
    e->runner = dyn_hit_runner_new(e);
    e->code = e->runner == NULL ? NULL : dyn_asm_break(s->own, e->runner, s->live_in, &s->before, s->ways);
    e->function = e->code == NULL ? NULL : dyn_hit_function(e->code, func);
    const DynCache *behind = e->resume[DYN_WAY_NEXT] == NULL ? NULL : dyn_door_cache(e->resume[DYN_WAY_NEXT]);
    e->idles = !e->works && behind == cache && ends_at_loop(e, s);
    return e->function == NULL ? -1 : 0;
}

int dyn_rewrite_pass(DynCache *cache, DynEntry *e, PyObject *func) {
    Shapes s = {0};
    int done = make_shapes(e, &s) < 0 || make_ways(cache, e, func, &s) < 0 ? -1 : 0;
    free_shapes(&s);
    return done < 0 || !dyn_rewrite_aside(e) ? -1 : 0;
}

int dyn_rewrite_break(DynCache *cache, DynEntry *e, PyObject *func) {
    Shapes s = {0};
    int done = make_break(cache, e, func, &s);
    free_shapes(&s);
    return done;
}

/* ---- plain code */

void dyn_plain_free(DynPlain *p) {
    if (p->way_out != NULL) {
        dyn_way_out_detach(p->way_out);
    }
    Py_CLEAR(p->way_out);
    Py_CLEAR(p->function);
    Py_CLEAR(p->code);
}

/* The stretch as it is, with a trap in front of the instruction at `before`. */
static void make_plain(DynEntry *e, const Shapes *s, const DynFrameShape *before, const DynWay *ways, DynPlain *out) {
    if (!dyn_asm_may_wait(s->own, before->at)) {
        return;
    }
    out->way_out = dyn_way_out_new(e, s->nslots, before);
    out->code = out->way_out == NULL ? NULL : dyn_asm_waiting(s->own, out->way_out, before, ways);
    if (out->code != NULL) {
        dyn_way_out_belongs_to(out->way_out, out->code);
    }
}

static void make_waiting(DynEntry *e, Shapes *s) {
    if (e->capture->end == DYN_END_BREAK && e->capture->ways[DYN_WAY_NEXT] && dyn_decode_loops(s->own)) {
        make_plain(e, s, &s->before, s->ways, &e->waiting);
    }
}

static void make_aside(DynEntry *e, Shapes *s) {
    bool passes = e->capture->end == DYN_END_PASS;
    const DynWay *exit = &s->ways[passes ? DYN_WAY_NEXT : DYN_WAY_JUMP];
    DynWay ways[DYN_WAYS] = {[DYN_WAY_NEXT] = *exit};
    if (passes || ends_at_loop(e, s)) {
        make_plain(e, s, &exit->shape, ways, &e->aside);
        if (e->aside.way_out != NULL) {
            dyn_way_out_at_once(e->aside.way_out);
        }
    }
}

static void make_around(DynEntry *e, Shapes *s) {
    if (e->capture->end == DYN_END_BREAK && e->capture->ways[DYN_WAY_NEXT]) {
        make_plain(e, s, &s->before, s->ways, &e->around);
        if (e->around.way_out != NULL) {
            dyn_way_out_at_once(e->around.way_out);
        }
    }
}

typedef void PlainMaker(DynEntry *e, Shapes *s);

/* Made once; what can't be made isn't tried again. */
static bool have(DynEntry *e, DynPlain *p, PlainMaker *make) {
    if (p->tried || (e->capture->end != DYN_END_BREAK && e->capture->end != DYN_END_PASS)) {
        return p->code != NULL;
    }
    Shapes s = {0};
    DynRaised before = dyn_callback_begin();
    p->tried = true;
    if (make_shapes(e, &s) == 0) {
        open_ways(e, &s);
        make(e, &s);
    }
    PyErr_Clear();
    free_shapes(&s);
    dyn_callback_end(before);
    return p->code != NULL;
}

bool dyn_rewrite_waiting(DynEntry *e) { return have(e, &e->waiting, make_waiting); }

bool dyn_rewrite_aside(DynEntry *e) { return have(e, &e->aside, make_aside); }

bool dyn_rewrite_around(DynEntry *e) { return have(e, &e->around, make_around); }
