/* rec_break.c: graph breaks. The segment is closed with the state in front of the instruction, and the next begins behind it, in
 * the same frame: in loops, in try blocks, and in inlined calls, whose callers are made to call again what goes on there.
 *
 * Called by record.c's main loop. A break in an inlined call closes the segment of the outermost frame that it began in (base);
 * the callee's frame is the next one's base, and when it is done its caller's next begins (between). A segment that would begin
 * where an earlier one of this recording did is not recorded: the loop is closed, and the rest of this call is CPython's. */
#include "tracer/rec_segment.h"

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

/* Operands of the call that an outer frame stands at, its callable among them; 0: it stands at something else. */
static uint32_t call_operands(const DynInstr *in) {
    switch (in->op) {
    case DYN_I_CALL: return in->arg + 2;
    case DYN_I_CALL_KW: return in->arg + 3;
    case DYN_I_CALL_FUNCTION_EX: return 3 + (in->arg & 1);
    default: return 0;
    }
}

/* Is what the call gives what the function of `inner` returns: the callable is that function, a method of it, or an instance
 * whose type has it as __call__; not a class, or something in C that calls it on its way. */
static bool calls_directly(const RecFrame *f, const RecFrame *inner) {
    uint32_t n = call_operands(&f->code->v.at[f->pc]);
    if (n == 0 || f->sp < f->nslots + n) {
        return false;
    }
    PyObject **slots = &f->real[f->sp - n], *callable = slots[dyn_call_null_first() && slots[0] == NULL];
    PyObject *func = dyn_frame_func(inner->f);
    if (callable != NULL && PyMethod_Check(callable)) {
        callable = PyMethod_GET_FUNCTION(callable);
    }
    if (callable == NULL || callable == func) {
        return callable == func;
    }
    return dyn_cpy_lookup_named(Py_TYPE(callable), "__call__") == func;
}

bool rec_may_break(DynRec *r, const RecFrame *f) {
    if (r->req->fullgraph || f->generator != NULL || f->whole || (r->seal != NULL && r->seal != f)) {
        return false;
    }
    for (const RecFrame *o = f; o != r->base; o = o->outer) {
        bool own_cells = dyn_code_nfree(o->code->code) > 0 && o->func_source != DYN_NONE; /* a closure that is not ours to make */
        if (o->outer->generator != NULL || own_cells || !calls_directly(o->outer, o) || looks_at_frame(o->code->code) ||
            looks_at_frame(o->outer->code->code)) {
            return false;
        }
    }
    return true;
}

/* ---- shapes: what a resume function is made for */

static const bool *bound_slots(DynArena *arena, RecFrame *f) {
    bool *bound = DYN_NEW_N(arena, bool, f->ntold + 1);
    for (uint32_t i = 0; bound != NULL && i < f->ntold; i++) {
        bound[i] = f->real[i] != NULL;
    }
    return bound;
}

/* n stack values, those from `known` on not NULL. */
static int shape_of(DynArena *arena, RecFrame *f, uint32_t pc, uint32_t n, uint32_t known, DynFrameShape *out) {
    bool *null = DYN_NEW_N(arena, bool, n + 1);
    *out = (DynFrameShape){f->code->v.at[pc].start - f->moved, n, bound_slots(arena, f), null};
    if (null == NULL || out->bound == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        null[i] = i < known && f->real[f->nslots + i] == NULL;
    }
    return 0;
}

static int way_on(DynRec *r, RecFrame *f, DynWayOn way, uint32_t pc, uint32_t n, uint32_t known) {
    r->cap->ways[way] = true;
    return shape_of(&r->cap->arena, f, pc, n, known, &r->cap->after[way]);
}

/* To the handler, if there is one: what lies on the stack below what was there in its try block, and the exception. */
static int way_caught(DynRec *r, RecFrame *b) {
    DynHandler h;
    if (!dyn_cpy_find_handler(b->code->code, b->code->v.at[b->pc].at, &h)) {
        return 0;
    }
    uint32_t pc = h.target < b->code->nunits ? b->code->at_unit[h.target] : DYN_NONE;
    return pc == DYN_NONE ? 0 : way_on(r, b, DYN_WAY_CAUGHT, pc, h.depth + h.lasti + 1, h.depth);
}

/* The ways on from a conditional jump that found `depth` values on the stack. */
static int two_ways(DynRec *r, RecFrame *f, const DynInstr *in, uint32_t depth) {
    bool loop = in->op == DYN_I_FOR_ITER, keeps = in->op == DYN_I_JUMP_IF_TRUE_OR_POP || in->op == DYN_I_JUMP_IF_FALSE_OR_POP;
    return way_on(r, f, DYN_WAY_NEXT, f->pc + 1, loop ? depth + 1 : depth - 1, depth - 1) < 0
               ? -1
               : way_on(r, f, DYN_WAY_JUMP, in->target, keeps ? depth : depth - 1, depth - 1);
}

/* Behind the instruction of the segment's base frame: the breaking one, or a call that is still under way. */
static int ways_on(DynRec *r, RecFrame *f, const DynInstr *in) {
    RecFrame *b = r->base;
    const DynInstr *at = &b->code->v.at[b->pc];
    if (way_caught(r, b) < 0) {
        return -1;
    }
    if (b == f && dyn_is_conditional(in) && f->next != f->pc) {
        return two_ways(r, f, in, f->ssp - f->nslots);
    }
    uint32_t depth = b->sp - b->nslots, popped = b == f ? 0 : call_operands(at);
    uint32_t n = b == f ? depth : depth - popped + 1;
    return way_on(r, b, DYN_WAY_NEXT, b->next, n, b == f ? n : n - 1);
}

static PyObject *resume_code(DynRec *r, RecFrame *f, const DynFrameShape *shape) {
    PyObject *func = dyn_frame_func(f->f);
    return PyFunction_Check(func) ? r->req->resume_code(r->req, f->told, shape, func) : NULL;
}

/* ---- states: base's, where an inlined call's frame is an argument of the call that leads to it */

static uint32_t constant(DynRec *r, PyObject *o) { return dyn_capture_recipe(r->cap, DYN_RC_CONST, 0, o, 0, NULL); }

/* What the frame's function goes on as, in front of `in`. */
static uint32_t inner_recipe(DynRec *r, RecFrame *f, const DynInstr *in, const RecInner *inner) {
    DynFrameState s;
    uint32_t recipe = DYN_NONE;
    if (in->start < f->moved || rec_frame_state(r, f, in->start, true, inner, &s) < 0) {
        return DYN_NONE;
    }
    Py_CLEAR(s.code);
    uint32_t n = s.nslots + s.nstack;
    bool *null = DYN_NEW_N(&r->cap->arena, bool, s.nstack + 1), *bound = DYN_NEW_N(&r->cap->arena, bool, s.nslots + 1);
    DynFrameShape shape = {in->start - f->moved, s.nstack, bound, null};
    for (uint32_t i = 0; null != NULL && bound != NULL && i < n; i++) {
        bool empty = r->cap->recipes.at[s.recipes[i]].kind == DYN_RC_NULL;
        if (i >= s.nslots) {
            null[i - s.nslots] = empty;
        } else {
            bound[i] = !empty; /* the frame is behind the instruction already */
        }
        if (empty && (s.recipes[i] = constant(r, Py_None)) == DYN_NONE) {
            return DYN_NONE;
        }
    }
    PyObject *resume = null == NULL || bound == NULL ? NULL : resume_code(r, f, &shape);
    if (resume != NULL) {
        recipe = dyn_capture_recipe(r->cap, DYN_RC_INNER, 0, resume, n, s.recipes);
        Py_DECREF(resume);
    }
    return recipe;
}

/* The operands of the call that the frame stands at: `callee` is called, whatever it is given. */
static int call_of(DynRec *r, RecFrame *f, uint32_t callee, RecInner *out) {
    const DynInstr *in = &f->code->v.at[f->pc];
    uint32_t n = call_operands(in);
    DynVal **v = &f->shadow[f->ssp - n];
    bool spread = in->op == DYN_I_CALL_FUNCTION_EX, second = dyn_call_null_first() && v[0]->kind == DV_NULL;
    PyObject *nothing = PyTuple_New(0);
    out->from = f->ssp - f->nslots - n;
    out->recipes = DYN_NEW_N(&r->cap->arena, uint32_t, n);
    for (uint32_t i = 0; out->recipes != NULL && nothing != NULL && i < n; i++) {
        bool names = in->op == DYN_I_CALL_KW && i == n - 1;
        out->recipes[i] = i == (second ? 1 : 0)            ? callee
                          : v[i]->kind == DV_NULL || names ? rec_recipe(r, v[i])
                          : spread && i == 2               ? constant(r, nothing)
                          : spread && i == 3               ? dyn_capture_recipe(r->cap, DYN_RC_DICT, 0, NULL, 0, NULL)
                                                           : constant(r, Py_None);
        if (out->recipes[i] == DYN_NONE) {
            out->recipes = NULL;
        }
    }
    PyErr_Clear();
    Py_XDECREF(nothing);
    return out->recipes == NULL ? -1 : 0;
}

static int state_before(DynRec *r, RecFrame *f, const DynInstr *in) {
    RecInner inner, *under = NULL;
    rec_begin_recipes(r, false);
    for (; f != r->base; f = f->outer, in = &f->code->v.at[f->pc]) {
        uint32_t callee = inner_recipe(r, f, in, under);
        if (callee == DYN_NONE || call_of(r, f->outer, callee, &inner) < 0) {
            return -1;
        }
        under = &inner;
    }
    return rec_frame_state(r, f, in->start, false, under, &r->cap->before);
}

/* ---- */

/* Did a segment of this recording begin there. */
static bool is_known(const DynRec *r, PyObject *resume) {
    bool known = false;
    for (uint32_t i = 0; i < r->done.n && !known; i++) {
        known = r->done.at[i]->code == resume;
    }
    return known;
}

/* The values in the frame as a resume function's arguments. */
static bool is_served(DynRec *r, RecFrame *f, PyObject *resume) {
    uint32_t nstack = f->sp - f->nslots;
    PyObject **args = DYN_NEW_N(&r->arena, PyObject *, f->ntold + nstack + 1);
    if (args == NULL) {
        return false;
    }
    memcpy(args, f->real, f->ntold * sizeof *args);
    if (nstack > 0) {
        memcpy(args + f->ntold, f->real + f->nslots, nstack * sizeof *args);
    }
    return r->req->serves(r->req, resume, args);
}

/* The next segment begins at f->next. */
static int open_behind(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynFrameShape shape;
    uint32_t depth = f->sp - f->nslots;
    PyObject *resume = shape_of(&r->arena, f, f->next, depth, depth, &shape) < 0 ? NULL : resume_code(r, f, &shape);
    bool known = resume != NULL && is_known(r, resume), served = resume != NULL && !known && is_served(r, f, resume);
    int ok = -1;
    r->base = f;
    r->closed = r->closed || known;
    r->served = r->served || served;
    if (resume != NULL && !known && !served && (ok = rec_open_resumed(r, f, resume)) < 0) {
        rec_stop(r, f, in, DYN_R_NO_MEMORY);
    }
    if (known || served) {
        Py_XSETREF(r->resume, resume);
    } else {
        Py_XDECREF(resume);
    }
    return ok;
}

void rec_leave_base(DynRec *r, RecFrame *f) {
    if (f == r->base && f->outer != NULL) {
        r->base = f->outer;
        r->between = r->cap == NULL && !r->over;
    }
}

/* Keep the frame: what was recorded ends in front of the instruction. */
static int leave_here(DynRec *r, RecFrame *f, const DynInstr *in, DynReason none) {
    if (!rec_has_work(r->cap) && r->done.n == 0) {
        rec_stop(r, f, in, none);
    } else {
        rec_finish_segment(r, DYN_END_LEAVE, r->why, f, in);
        r->over = f != r->base; /* the state is its callers' too */
    }
    return -1;
}

/* Of every way on. */
static bool has_resume_codes(DynRec *r) {
    for (int i = 0; i < DYN_WAYS; i++) {
        PyObject *resume = r->cap->ways[i] ? resume_code(r, r->base, &r->cap->after[i]) : NULL;
        if (r->cap->ways[i] && resume == NULL) {
            return false;
        }
        Py_XDECREF(resume);
    }
    return true;
}

int rec_break(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynCapture *c = r->cap;
    DynReason why = r->why;
    if (r->between) { /* an inlined call is over, and the segment that it ended in */
        r->between = false;
        return open_behind(r, f, in);
    }
    if (c == NULL) {
        return -1;
    }
    if (r->req->fullgraph) {
        rec_unsupported(r, f, in);
        return -1;
    }
    rec_forget_effects(r, f->instr_effects); /* the instruction makes them itself */
    dyn_capture_forget_values(c, f->instr_guards);
    if (r->spoiled || f->instr_changed || state_before(r, f, in) < 0 || rec_effects_done(r, &c->done) < 0) {
        rec_stop(r, f, in, DYN_R_NOT_REBUILDABLE);
        return -1;
    }
    /* A trace function that was switched on by the call sees this frame: a resume function would be one more call to it. */
    if (looks_at_frame(f->code->code) || dyn_cpy_is_traced(r->ts)) {
        return leave_here(r, f, in, DYN_R_LOOKS_AT_FRAME);
    }
    if (ways_on(r, f, in) < 0) {
        return leave_here(r, f, in, DYN_R_NO_MEMORY);
    }
    if (!has_resume_codes(r)) {
        return leave_here(r, f, in, why);
    }
    r->why = why;
    rec_finish_segment(r, DYN_END_BREAK, why, f, in);
    return open_behind(r, f, in);
}

/* ---- exceptions that are raised for real */

/* How many values the instruction leaves of `depth` when it doesn't raise, the last of them no NULL; DYN_NONE: not known. */
static uint32_t depth_behind(const DynInstr *in, uint32_t depth) {
    static const int8_t popped[DYN_I_COUNT] = {
        [DYN_I_BINARY_OP] = 2,    [DYN_I_COMPARE_OP] = 2,   [DYN_I_CONTAINS_OP] = 2,    [DYN_I_BINARY_SUBSCR] = 2,
        [DYN_I_BINARY_SLICE] = 3, [DYN_I_LOAD_ATTR] = 1,    [DYN_I_UNARY_NEGATIVE] = 1, [DYN_I_UNARY_INVERT] = 1,
        [DYN_I_GET_ITER] = 1,     [DYN_I_IMPORT_NAME] = 2,  [DYN_I_STORE_SUBSCR] = 3,   [DYN_I_STORE_SLICE] = 4,
        [DYN_I_STORE_ATTR] = 2,   [DYN_I_DELETE_SUBSCR] = 2};
    bool stores = in->op == DYN_I_STORE_SUBSCR || in->op == DYN_I_STORE_SLICE || in->op == DYN_I_STORE_ATTR ||
                  in->op == DYN_I_DELETE_SUBSCR;
    uint32_t n = call_operands(in) > 0 ? call_operands(in) : (uint32_t)popped[in->op];
    return n == 0 || n > depth ? DYN_NONE : depth - n + !stores;
}

/* The segment ends in front of the instruction that raised. */
static bool close_raised(DynRec *r, RecFrame *f, const DynInstr *in) {
    rec_rollback(r, f->instr_nodes);
    dyn_capture_forget_guards(r->cap, f->instr_guards);
    dyn_capture_forget_values(r->cap, f->instr_guards);
    rec_forget_effects(r, f->instr_effects);
    if (r->spoiled || f->instr_changed || state_before(r, f, in) < 0 || rec_effects_done(r, &r->cap->done) < 0) {
        return false;
    }
    RecFrame *b = r->base;
    const DynInstr *at = &b->code->v.at[b->pc];
    uint32_t n = depth_behind(at, (b == f ? b->ssp : b->sp) - b->nslots);
    bool falls = n != DYN_NONE && (way_on(r, b, DYN_WAY_NEXT, b->pc + 1, n, n > 0 ? n - 1 : 0) < 0 || true);
    if (way_caught(r, b) < 0 || (falls && r->cap->after[DYN_WAY_NEXT].bound == NULL) || !has_resume_codes(r)) {
        return false;
    }
    rec_finish_segment(r, DYN_END_BREAK, DYN_R_EXCEPTION, f, in);
    return true;
}

/* One of the frames that called, up to the outermost, stands at a call that is in a try block. */
static bool is_handled_outside(const RecFrame *f) {
    DynHandler h;
    for (f = f->outer; f != NULL && f->generator == NULL; f = f->outer) {
        if (dyn_cpy_find_handler(f->code->code, f->code->v.at[f->pc].at, &h)) {
            return true;
        }
    }
    return false;
}

static bool may_close_raised(DynRec *r, RecFrame *f, const DynInstr *in) {
    bool jumps = dyn_is_conditional(in) || in->op == DYN_I_JUMP; /* it raised nothing itself, or has ways on of its own */
    return r->cap != NULL && r->error == NULL && f->ssp == f->instr_ssp && !jumps && r->seal == NULL && in->start >= f->moved &&
           !looks_at_frame(f->code->code) && !dyn_cpy_is_traced(r->ts) && !r->req->fullgraph &&
           (f == r->base ? f->generator == NULL : rec_may_break(r, f));
}

RecRaised rec_break_raised(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynHandler h;
    PyObject *type, *value, *tb;
    bool here = dyn_cpy_find_handler(f->code->code, in->at, &h);
    uint32_t pc = here && h.target < f->code->nunits ? f->code->at_unit[h.target] : DYN_NONE;
    if ((here && pc == DYN_NONE) || (!here && !is_handled_outside(f)) || (here && f->sp < f->nslots + h.depth)) {
        return REC_RAISED_NOT;
    }
    if (!r->between) {
        if (!may_close_raised(r, f, in)) {
            return REC_RAISED_NOT;
        }
        PyErr_Fetch(&type, &value, &tb);
        bool closed = close_raised(r, f, in);
        PyErr_Restore(type, value, tb);
        if (!closed) {
            rec_stop(r, f, in, DYN_R_NOT_REBUILDABLE);
            return REC_RAISED_NOT;
        }
        r->base = f;
    }
    if (!here) {
        return REC_RAISED_OUT;
    }
    r->between = false;
    rec_unwind(r, f, in, &h);
    f->next = f->pc = pc;
    return open_behind(r, f, in) == 0 ? REC_RAISED_ON : REC_RAISED_ROUND;
}
