/* rec_break.c: graph breaks. The segment is closed with the state in front of the instruction, and the next begins behind it, in
 * the same frame: in loops, in try blocks, and in inlined calls, whose callers are made to call again what goes on there.
 *
 * Called by record.c's main loop. A break in an inlined call closes the segment of the outermost frame that it began in (base);
 * the callee's frame is the next one's base, and when it is done its caller's next begins (between). A segment that would begin
 * where an earlier one of this recording did is not recorded: the loop is closed, and the rest of this call is CPython's. */
#include "tracer/record/rec_segment.h"

static bool names(PyCodeObject *code, const char *name) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); i++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, i), name) == 0) {
            return true;
        }
    }
    return false;
}

/* No resume function may take the frame's place: its function asks for the frame, which would be gone when it is looked at later,
 * or somebody has the dict of its locals, which is the frame's own up to 3.12. */
static bool has_to_stay(const RecFrame *f) {
    PyCodeObject *code = f->code->code;
    bool asks = names(code, "_getframe") || names(code, "currentframe") || (names(code, "inspect") && names(code, "stack"));
    /* A resume function has arguments, and super() takes one. */
    bool binds_itself = f->told->code->co_argcount == 0 && names(code, "super");
    return asks || binds_itself || dyn_frame_has_locals(f->f);
}

/* ---- the standard library: a break in a function of its own, called without arrays, is a break of the caller's instead */

static char *library; /* its folder, with the separator; for ever */

int rec_break_init(void) {
    PyObject *os = dyn_import("os"), *file = os ? PyObject_GetAttrString(os, "__file__") : NULL;
    const char *path = file != NULL && PyUnicode_Check(file) ? PyUnicode_AsUTF8(file) : NULL;
    library = path == NULL || strlen(path) < strlen("os.py") ? NULL : PyMem_RawCalloc(strlen(path) + 1, 1);
    if (library != NULL) {
        memcpy(library, path, strlen(path) - strlen("os.py"));
    }
    PyErr_Clear(); /* a frozen program: nothing is known to be the library's then */
    Py_XDECREF(file);
    Py_XDECREF(os);
    return 0;
}

static bool has_array(PyObject *o, int depth) {
    Py_ssize_t pos = 0;
    PyObject *key, *value;
    bool found = o != NULL && PyArray_Check(o);
    if (o != NULL && depth > 0 && PyTuple_Check(o)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o) && !found; i++) {
            found = has_array(PyTuple_GET_ITEM(o, i), depth - 1);
        }
    }
    bool walks = o != NULL && depth > 0 && PyDict_CheckExact(o);
    while (walks && !found && PyDict_Next(o, &pos, &key, &value)) {
        found = has_array(value, depth - 1);
    }
    return found;
}

static bool begins_with(const char *path, const char *start) { return strncmp(path, start, strlen(start)) == 0; }

static bool is_library_path(const char *path) {
    bool installed = strstr(path, "site-packages") != NULL || strstr(path, "dist-packages") != NULL;
    return begins_with(path, "<frozen ") || (library != NULL && begins_with(path, library) && !installed);
}

bool rec_is_library_call(const RecFrame *f) {
    const char *path = PyUnicode_AsUTF8(f->code->code->co_filename);
    bool inside = path != NULL && is_library_path(path);
    PyErr_Clear();
    for (uint32_t i = 0; inside && i < f->nslots; i++) {
        inside = !has_array(rec_local(f, i), 1);
    }
    return inside;
}

/* ---- instructions whose result is what a Python function returns: a break inside it can be resumed */

bool rec_is_call(const DynInstr *in) {
    return in->op == DYN_I_CALL || in->op == DYN_I_CALL_KW || in->op == DYN_I_CALL_FUNCTION_EX;
}

void rec_asks(RecFrame *f, PyObject *func, DynVal *more) {
    const DynInstr *in = &f->code->v.at[f->pc];
    bool asks = dyn_opcodes[in->op].asked > 0 || (rec_is_call(in) && more != NULL);
    if (asks && PyFunction_Check(func)) {
        f->asks = func;
        f->more = more;
    }
}

/* Does the instruction give what the function of `inner` returns? It does if it asked that function for its result, or if the
 * callable is that function, a method of it, or an instance whose type has it as __call__. A function in C that calls it
 * gives something else. */
static bool calls_directly(const RecFrame *f, const RecFrame *inner) {
    const DynInstr *in = &f->code->v.at[f->pc];
    uint32_t n = dyn_stack_effect(in).pops;
    PyObject *func = dyn_frame_func(inner->f);
    if (!dyn_opcodes[in->op].breaks || f->sp < f->nslots + n) {
        return false;
    }
    if (f->asks != NULL || !rec_is_call(in)) {
        return f->asks == func;
    }
    PyObject **slots = &f->real[f->sp - n], *callable = slots[dyn_call_null_first() && slots[0] == NULL];
    if (callable != NULL && PyMethod_Check(callable)) {
        callable = PyMethod_GET_FUNCTION(callable);
    }
    if (callable == NULL || callable == func) {
        return callable == func;
    }
    return dyn_cpy_lookup_named(Py_TYPE(callable), "__call__") == func;
}

/* The break is the caller's of the outermost library call, which CPython finishes: where what was done since in Python objects is
 * nothing to the shadows that there were before. */
static bool is_left_to_library(const DynRec *r, const RecFrame *f) {
    bool spoils = false, left = false;
    for (; f != r->base; f = f->outer) {
        spoils = spoils || rec_changed_since(r, &f->began);
        left = f->library ? !spoils : left;
    }
    return left;
}

/* Every frame from f up to the segment's base can be resumed: later calls make the instruction that it stands at again, with the
 * resume function of the frame inside (RecInner) in place of the function that it called. */
static bool chain_resumes(const DynRec *r, const RecFrame *f) {
    for (; f != r->base; f = f->outer) {
        bool stay = has_to_stay(f) || has_to_stay(f->outer);
        if (stay || f->outer->generator != NULL || !calls_directly(f->outer, f)) {
            return false;
        }
    }
    return true;
}

bool rec_may_break(DynRec *r, const RecFrame *f) {
    bool sealed = r->seal.frame != NULL && r->seal.frame != f && r->seal.frame->asks == NULL;
    bool apart = r->req->apart && f->outer != NULL;
    bool one_piece = r->req->fullgraph || f->generator != NULL || f->whole;
    if (apart || one_piece || sealed) {
        return false;
    }
    return !is_left_to_library(r, f) && chain_resumes(r, f);
}

/* ---- shapes: what a resume function is made for */

static const bool *bound_slots(DynArena *arena, RecFrame *f) {
    bool *bound = DYN_NEW_N(arena, bool, f->ntold + 1);
    for (uint32_t i = 0; bound != NULL && i < f->ntold; i++) {
        bound[i] = rec_local(f, i) != NULL;
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

/* The way on to the handler of an exception, if there is one. Its stack is what lies below the try block, and the exception. */
static int way_caught(DynRec *r, RecFrame *b) {
    DynHandler h;
    if (!dyn_cpy_find_handler(b->code->code, b->code->v.at[b->pc].at, &h)) {
        return 0;
    }
    uint32_t pc = h.target < b->code->nunits ? b->code->at_unit[h.target] : DYN_NONE;
    return pc == DYN_NONE ? 0 : way_on(r, b, DYN_WAY_CAUGHT, pc, h.depth + h.lasti + 1, h.depth);
}

/* The place, from the top, of the NULL that rewritten code has on its stack behind the instruction; 0: there is none. */
static uint32_t null_behind(const DynInstr *in) {
    switch (in->op) {
    case DYN_I_LOAD_METHOD: return dyn_call_null_first() ? 2 : 1;
    case DYN_I_BEFORE_WITH: return dyn_with_keeps_two() ? 2 : 0;
    case DYN_I_GET_ITER: return dyn_iterator_slots() == 2 ? 1 : 0;
    case DYN_I_FOR_ITER: return dyn_iterator_slots() == 2 ? 2 : 0;
    case DYN_I_WITH_EXCEPT_START: return dyn_with_keeps_two() ? 5 : 0;
    default: return 0;
    }
}

/* The way on to the next instruction. `below`: values that this one doesn't take. */
static int way_next(DynRec *r, RecFrame *f, const DynInstr *in, uint32_t below) {
    uint32_t n = below + dyn_stack_effect(in).pushes, null = null_behind(in);
    if (way_on(r, f, DYN_WAY_NEXT, f->pc + 1, n, below) < 0) {
        return -1;
    }
    if (null > 0) {
        ((bool *)r->cap->after[DYN_WAY_NEXT].null_stack)[n - null] = true;
    }
    return 0;
}

/* The ways on from a conditional jump that found `depth` values on the stack. */
static int two_ways(DynRec *r, RecFrame *f, const DynInstr *in, uint32_t depth) {
    uint32_t below = depth - dyn_stack_effect(in).pops, jumped = dyn_opcodes[in->op].jumped;
    if (way_next(r, f, in, below) < 0) {
        return -1;
    }
    return way_on(r, f, DYN_WAY_JUMP, in->target, below + jumped, below);
}

/* Recording can go on behind the instruction that found `depth` values on the stack. */
static bool may_go_on_behind(const DynInstr *in, uint32_t depth) {
    return dyn_opcodes[in->op].breaks && dyn_stack_effect(in).pops <= depth;
}

/* The ways on behind an instruction that found `depth` values on the stack, and is still running. */
static int way_behind(DynRec *r, RecFrame *b, const DynInstr *at, uint32_t depth) {
    return may_go_on_behind(at, depth) ? way_next(r, b, at, depth - dyn_stack_effect(at).pops) : -1;
}

/* The ways on behind the instruction of the segment's base frame, which is the one that breaks or a call that is still running.
 */
static int ways_on(DynRec *r, RecFrame *f, const DynInstr *in) {
    RecFrame *b = r->base;
    const DynInstr *at = &b->code->v.at[b->pc];
    if (way_caught(r, b) < 0) {
        return -1;
    }
    if (b == f && dyn_is_conditional(in) && f->next != f->pc) {
        return two_ways(r, f, in, f->ssp - f->nslots);
    }
    if (b != f) {
        return way_behind(r, b, at, b->sp - b->nslots);
    }
    return way_on(r, b, DYN_WAY_NEXT, b->next, b->sp - b->nslots, b->sp - b->nslots);
}

static PyObject *resume_code(DynRec *r, RecFrame *f, const DynFrameShape *shape) {
    PyObject *func = dyn_frame_func(f->f);
    return PyFunction_Check(func) ? r->req->resume_code(r->req, f->told, shape, func) : NULL;
}

/* ---- states of frames: that of an inlined call is told in its caller's, as what the call there is made with */

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
        if (empty && (s.recipes[i] = dyn_capture_constant(r->cap, Py_None)) == DYN_NONE) {
            return DYN_NONE;
        }
    }
    DynVal *more = f->outer->asks != NULL ? f->outer->more : NULL; /* rec_frame_state left room for it */
    if (more != NULL && (s.recipes[n] = rec_recipe(r, more)) == DYN_NONE) {
        return DYN_NONE;
    }
    PyObject *resume = null == NULL || bound == NULL ? NULL : resume_code(r, f, &shape);
    if (resume != NULL) {
        recipe = dyn_capture_recipe(r->cap, DYN_RC_INNER, more != NULL, resume, n + (more != NULL), s.recipes);
        Py_DECREF(resume);
    }
    return recipe;
}

/* The operands of an instruction that asks a special method: `callee` takes the place of the one that is asked. */
static int question_of(DynRec *r, RecFrame *f, uint32_t callee, RecInner *out) {
    const DynInstr *in = &f->code->v.at[f->pc];
    uint32_t n = dyn_stack_effect(in).pops;
    DynVal **v = &f->shadow[f->ssp - n];
    out->from = f->ssp - f->nslots - n;
    out->recipes = DYN_NEW_N(&r->cap->arena, uint32_t, n);
    for (uint32_t i = 0; out->recipes != NULL && i < n; i++) {
        out->recipes[i] = i + 1 == dyn_opcodes[in->op].asked ? callee : rec_recipe(r, v[i]);
        if (out->recipes[i] == DYN_NONE) {
            return -1;
        }
    }
    return out->recipes == NULL ? -1 : 0;
}

/* The operands of the call that the frame stands at: `callee` is called, whatever it is given. */
static int call_of(DynRec *r, RecFrame *f, uint32_t callee, RecInner *out) {
    const DynInstr *in = &f->code->v.at[f->pc];
    uint32_t n = dyn_stack_effect(in).pops;
    if (!rec_is_call(in)) {
        return question_of(r, f, callee, out);
    }
    DynVal **v = &f->shadow[f->ssp - n];
    bool spread = in->op == DYN_I_CALL_FUNCTION_EX, second = dyn_call_null_first() && v[0]->kind == DV_NULL;
    PyObject *nothing = PyTuple_New(0);
    out->from = f->ssp - f->nslots - n;
    out->recipes = DYN_NEW_N(&r->cap->arena, uint32_t, n);
    for (uint32_t i = 0; out->recipes != NULL && nothing != NULL && i < n; i++) {
        bool names = in->op == DYN_I_CALL_KW && i == n - 1;
        if (i == (second ? 1u : 0u)) {
            out->recipes[i] = callee;
        } else if (v[i]->kind == DV_NULL || names) {
            out->recipes[i] = rec_recipe(r, v[i]);
        } else if (spread && i == 3) {
            out->recipes[i] = dyn_capture_recipe(r->cap, DYN_RC_DICT, 0, NULL, 0, NULL);
        } else {
            out->recipes[i] = dyn_capture_constant(r->cap, spread && i == 2 ? nothing : Py_None);
        }
        if (out->recipes[i] == DYN_NONE) {
            out->recipes = NULL;
        }
    }
    PyErr_Clear();
    Py_XDECREF(nothing);
    return out->recipes == NULL ? -1 : 0;
}

/* The operands of the call that the frame stands at, made with r->stand_in: that is called with what lies there as the callable,
 * or with the object whose method it is. */
static int stand_in_of(DynRec *r, RecFrame *f, const DynInstr *in, RecInner *out) {
    uint32_t n = dyn_stack_effect(in).pops;
    DynVal **v = &f->shadow[f->ssp - n];
    out->from = f->ssp - f->nslots - n;
    out->recipes = DYN_NEW_N(&r->cap->arena, uint32_t, n);
    for (uint32_t i = 0; out->recipes != NULL && i < n; i++) {
        DynVal *first = v[1]->kind == DV_NULL ? v[0] : v[1];
        out->recipes[i] = i == 0 ? dyn_capture_constant(r->cap, r->stand_in) : rec_recipe(r, i == 1 ? first : v[i]);
        if (out->recipes[i] == DYN_NONE) {
            return -1;
        }
    }
    return out->recipes == NULL ? -1 : 0;
}

static int state_before(DynRec *r, RecFrame *f, const DynInstr *in) {
    RecInner inner, *under = NULL;
    rec_begin_recipes(r, false);
    if (r->stand_in != NULL && rec_is_call(in)) {
        under = stand_in_of(r, f, in, &inner) < 0 ? NULL : &inner;
        r->cap->stands_in = under != NULL;
    }
    for (; f != r->base; f = f->outer, in = &f->code->v.at[f->pc]) {
        uint32_t callee = inner_recipe(r, f, in, under);
        if (callee == DYN_NONE || call_of(r, f->outer, callee, &inner) < 0) {
            return -1;
        }
        under = &inner;
    }
    return rec_frame_state(r, f, in->start, false, under, &r->cap->before);
}

/* ---- closing a segment and opening the next */

/* Did a segment of this recording begin there? */
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
    for (uint32_t i = 0; i < f->ntold; i++) {
        args[i] = rec_local(f, i);
    }
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

/* The segment ends in front of the instruction, and CPython goes on in the function's own frame. */
static int leave_here(DynRec *r, RecFrame *f, const DynInstr *in, DynReason none) {
    if (!rec_has_work(r->cap) && r->done.n == 0) {
        rec_stop(r, f, in, none);
    } else {
        rec_finish_segment(r, DYN_END_LEAVE, r->why, f, in);
        r->over = f != r->base; /* the state is its callers' too */
    }
    return -1;
}

/* Every way on has a resume function. */
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

/* The instruction isn't recorded, but for CPython it is one like any other. */
static bool is_cpythons(DynReason why) {
    bool unsupported = why == DYN_R_UNSUPPORTED_VALUE || why == DYN_R_UNSUPPORTED_OPCODE || why == DYN_R_UNSUPPORTED_OP;
    return unsupported || why == DYN_R_SIDE_EFFECT || dyn_reason_is_of_array(why);
}

/* The frame is left as it stands, so that a resume function takes its place: nobody looks at the frame, and it is past what
 * a resume function does first. */
static bool may_be_resumed(DynRec *r, const RecFrame *f, const DynInstr *in) {
    return in->start >= f->moved && !has_to_stay(f) && !dyn_cpy_is_traced(r->ts);
}

/* CPython runs the instruction, whole, and has no ways on from it but one. */
static bool is_run_whole(const RecFrame *f, const DynInstr *in) {
    bool whole = (in->flags & DYN_IF_FIRST) && !rec_is_first_half(f, in);
    return whole && !dyn_is_conditional(in) && in->op != DYN_I_LOAD_METHOD;
}

bool rec_has_loop_behind(const RecFrame *f) {
    for (uint32_t i = f->pc; i < f->code->v.n; i++) {
        if (f->code->v.at[i].flags & DYN_IF_BACKWARD) {
            return true;
        }
    }
    return false;
}

bool rec_goes_on_behind(DynRec *r, RecFrame *f, const DynInstr *in) {
    bool outermost = f == r->base && f->generator == NULL;
    bool runs = is_cpythons(r->why) && outermost && is_run_whole(f, in) && may_be_resumed(r, f, in);
    bool told = runs && way_caught(r, f) == 0 && way_behind(r, f, in, f->ssp - f->nslots) == 0;
    if (told && has_resume_codes(r)) {
        return true;
    }
    memset(r->cap->ways, 0, sizeof r->cap->ways);
    return false;
}

bool rec_is_first_half(const RecFrame *f, const DynInstr *in) {
    return in + 1 < f->code->v.at + f->code->v.n && in[1].at == in->at;
}

/* Would the frame go on between the two halves? One that is cut in front of the instruction goes on in front of both. */
static bool goes_on_between(const RecFrame *f, const DynInstr *in) { return rec_is_first_half(f, in) && f->next != f->pc; }

/* Does the way on behind the instruction lead to where the segment begins? Then later calls would go round without getting on. */
static bool leads_back(DynRec *r) {
    PyObject *resume = resume_code(r, r->base, &r->cap->after[DYN_WAY_NEXT]);
    Py_XDECREF(resume);
    return resume == r->cap->code;
}

/* What was recorded of the segment is given up: at the next call CPython runs the same stretch, up to where the frame stands
 * now, and recording goes on there. */
static int pass_by(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynCapture *c = r->cap;
    uint32_t depth = f->sp - f->nslots;
    bool stays = f->generator != NULL || f->code->v.at[f->next].start <= f->moved || has_to_stay(f) || dyn_cpy_is_traced(r->ts);
    rec_rollback(r, &(RecMark){.mutations = r->mutations, .handled = r->handled});
    dyn_graph_truncate(&c->graph, 0); /* what came in, too */
    dyn_capture_forget_recipes(c, 0);
    memset(c->ways, 0, sizeof c->ways);
    Py_XSETREF(c->before.code, Py_NewRef((PyObject *)f->told->code));
    c->before.nslots = f->ntold;
    c->before.nstack = 0;
    c->done = (DynEffects){0, 0};
    bool told = !stays && way_on(r, f, DYN_WAY_NEXT, f->next, depth, depth) == 0 && has_resume_codes(r);
    if (!told || leads_back(r)) {
        rec_stop(r, f, in, DYN_R_NOT_REBUILDABLE);
        return -1;
    }
    rec_finish_segment(r, DYN_END_PASS, DYN_R_NOT_REBUILDABLE, f, in);
    return open_behind(r, f, in);
}

/* How many recipes and effects the capture had before its end was described. If the segment doesn't end here after all, those
 * that came since are taken back, since the nodes that they name may be. */
typedef struct Told {
    RecFrame *seal;
    uint32_t nrecipes, neffects;
} Told;

static Told begin_telling(DynRec *r) {
    Told t = {.seal = r->seal.frame};
    if (r->cap != NULL) {
        t.nrecipes = r->cap->recipes.n;
        t.neffects = r->cap->effects.n;
    }
    r->seal.frame = NULL; /* frames are told as they stand */
    return t;
}

static void take_back(DynRec *r, Told t) {
    r->seal.frame = t.seal;
    Py_CLEAR(r->cap->before.code);
    dyn_capture_forget_recipes(r->cap, t.nrecipes);
    while (r->cap->effects.n > t.neffects) {
        Py_XDECREF(r->cap->effects.at[--r->cap->effects.n].obj);
    }
}

/* What the instruction has recorded goes, as CPython makes its effects, and its calls have no snapshot to be left at. Its guards
 * stay: they say of operands what the frame is described by. */
static void forget_instruction(DynRec *r, const RecFrame *f) {
    RecMark before = f->instr;
    before.guards = r->cap->guards.n;
    before.handled = r->handled;
    if (before.nodes < r->cap->graph.nodes.n) {
        rec_rollback(r, &before);
    }
    rec_forget_effects(r, before.effects);
    dyn_capture_forget_values(r->cap, f->instr.guards);
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
    Told told = begin_telling(r);
    forget_instruction(r, f);
    bool second_half = !(in->flags & DYN_IF_FIRST);
    bool spoiled = second_half || r->spoiled || rec_changed_since(r, &f->instr);
    if (spoiled || state_before(r, f, in) < 0 || rec_effects_done(r, &c->done) < 0) {
        if (f == r->base) {
            return goes_on_between(f, in) ? (rec_stop(r, f, in, DYN_R_NOT_REBUILDABLE), -1) : pass_by(r, f, in);
        }
        take_back(r, told); /* CPython finishes the inlined call, which is a break of its caller's */
        r->why = DYN_R_NOT_REBUILDABLE;
        return -1;
    }
    if (goes_on_between(f, in)) {
        return leave_here(r, f, in, why);
    }
    /* A trace function that was switched on by the call sees this frame: a resume function would be one more call to it. */
    if (has_to_stay(f) || dyn_cpy_is_traced(r->ts)) {
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

/* The segment ends in front of the instruction that raised. */
static bool close_raised(DynRec *r, RecFrame *f, const DynInstr *in) {
    rec_rollback(r, &f->instr);
    dyn_capture_forget_values(r->cap, f->instr.guards);
    bool lost = r->spoiled || rec_changed_since(r, &f->instr);
    if (lost || state_before(r, f, in) < 0 || rec_effects_done(r, &r->cap->done) < 0) {
        return false;
    }
    RecFrame *b = r->base;
    const DynInstr *at = &b->code->v.at[b->pc];
    uint32_t depth = (b == f ? b->ssp : b->sp) - b->nslots;
    bool falls = may_go_on_behind(at, depth);
    bool told = way_caught(r, b) == 0 && (!falls || way_behind(r, b, at, depth) == 0);
    if (!told || !has_resume_codes(r)) {
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
    bool jumps =
        dyn_is_conditional(in) || dyn_flow(in) == DYN_FLOW_JUMP; /* it raised nothing itself, or has ways on of its own */
    bool unchanged = r->cap != NULL && r->error == NULL && f->ssp == f->instr_ssp;
    if (!unchanged || jumps || r->req->fullgraph || !may_be_resumed(r, f, in)) {
        return false;
    }
    return f == r->base ? f->generator == NULL : rec_may_break(r, f);
}

RecRaised rec_break_raised(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynHandler h;
    PyObject *type, *value, *tb;
    bool here = dyn_cpy_find_handler(f->code->code, in->at, &h);
    uint32_t pc = here && h.target < f->code->nunits ? f->code->at_unit[h.target] : DYN_NONE;
    bool handled = here ? pc != DYN_NONE && f->sp >= f->nslots + h.depth : is_handled_outside(f);
    if (!handled) {
        return REC_RAISED_NOT;
    }
    if (!r->between) {
        if (!may_close_raised(r, f, in)) {
            return REC_RAISED_NOT;
        }
        PyErr_Fetch(&type, &value, &tb);
        Told told = begin_telling(r);
        bool closed = close_raised(r, f, in);
        PyErr_Restore(type, value, tb);
        if (!closed && f != r->base) { /* CPython finishes the inlined call */
            take_back(r, told);
            return REC_RAISED_NOT;
        }
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
