/* record.c: the recorder's main loop. It takes a fresh frame over from the hook, executes its canonical instructions with the
 * real objects (the handlers in rec_*.c), keeps shadows beside them, and hands the frame back to CPython: at its return, where an
 * instruction can't be executed here, or with an exception.
 *
 * Called by evalframe/hook.c through record.h. Owns the recording (DynRec) and each capture until it is handed to the
 * DynRecording's callback; the frame belongs to CPython throughout. Segments, breaks and snapshots are in rec_segment.c. */
#include "base/torch.h"
#include "tracer/record/rec_callables.h"
#include "tracer/record/rec_segment.h"

#define MAX_INLINE_DEPTH 40
#define NODES_PER_LIMIT 100 /* Nodes that buy as many instructions as record_limit gives at the start: docs/lab/pytorch.md. */
#define MOST_LOST 5         /* Limits that may go into inlined calls that come to nothing, and one for the rest. */
#define MAX_NODES 6000      /* Of one graph. */
#define MAX_TRIPS_IN_ALL 64 /* Of a loop in a loop, in all trips of that. */

static _Thread_local DynRec *current;
PyObject *dyn_unsupported_error;
PyObject *dyn_special[DYN_SPECIAL_COUNT];

const RecHandler rec_handlers[DYN_I_COUNT] = {
#define DYN_HANDLER_RECORDED(name) [DYN_I_##name] = rec_##name,
#define DYN_HANDLER_LEFT(name)
#define OPCODE(name, stack, flow, breaks, effects, handler, what) DYN_HANDLER_##handler(name)
#include "tracer/bytecode/opcodes.def"
#undef OPCODE
#undef DYN_HANDLER_RECORDED
#undef DYN_HANDLER_LEFT
};

bool dyn_record_active(void) { return current != NULL && current->cap != NULL; }

DynCode *rec_code(DynRec *r, PyCodeObject *code) {
    for (uint32_t i = 0; i < r->codes.n; i++) {
        if (r->codes.at[i]->code == code) {
            return r->codes.at[i];
        }
    }
    DynCode *c = dyn_decode(code);
    if (c == NULL || dyn_vec_push(&r->codes, c) < 0) {
        if (c != NULL) {
            dyn_decode_free(c);
        }
        return NULL;
    }
    return c;
}

void rec_drop(RecFrame *f, uint32_t npop) {
    while (npop-- > 0) {
        PyObject *o = f->real[--f->sp];
        Py_XDECREF(o);
    }
}

DynVal *rec_itself(DynVal *v, PyObject *result, PyObject *real, DynVal *operand) {
    if (v == NULL || operand == NULL || result != real) {
        return v;
    }
    bool fixed = PyTuple_CheckExact(real) || PyFrozenSet_CheckExact(real);
    bool older = operand->born < v->born && operand->kind != DV_OPAQUE;
    return v->fresh && fixed && older ? operand : v;
}

Step rec_commit(DynRec *r, RecFrame *f, uint32_t npop, PyObject *result, DynVal *v) {
    if (result == NULL) {
        return STEP_ERROR;
    }
    for (uint32_t i = 1; v != NULL && i <= npop; i++) {
        v = rec_itself(v, result, f->real[f->sp - i], f->shadow[f->ssp - i]);
    }
    if (v != NULL && rec_snapshot_new_nodes(r) < 0) {
        v = NULL;
    }
    if (v == NULL) {
        rec_blame_operands(r, f, npop);
    }
    /* Operands may die and run destructors, which may look at the frame: its stack is right before they do. */
    PyObject *dead[8], **old = dead;
    uint32_t base = f->sp - npop;
    if (npop > DYN_COUNTOF(dead)) {
        old = DYN_NEW_N(&r->arena, PyObject *, npop);
        if (old == NULL) {
            Py_DECREF(result);
            PyErr_NoMemory();
            return STEP_ERROR;
        }
    }
    memcpy(old, &f->real[base], npop * sizeof *old);
    f->sp = base;
    push_real(f, result);
    if (v != NULL) {
        f->ssp -= npop;
        push_shadow(f, v);
    }
    dyn_frame_running(f->f, f->code->v.at[f->pc].at, 0);
    while (npop-- > 0) {
        Py_XDECREF(old[npop]);
    }
    return v != NULL ? STEP_NEXT : STEP_BREAK;
}

Step rec_commit_none(DynRec *r, RecFrame *f, uint32_t npop, int status) {
    if (status < 0) {
        return STEP_ERROR;
    }
    if (status == 0 && rec_snapshot_new_nodes(r) < 0) {
        status = 1;
    }
    if (status > 0) {
        rec_blame_operands(r, f, npop);
    }
    rec_drop(f, npop);
    if (status == 0) {
        f->ssp -= npop;
        return STEP_NEXT;
    }
    return STEP_BREAK;
}

/* Nodes pay for instructions: the more there are, the longer the recording may be, but at most record_limit goes by without a new
 * one. That is asked at jump targets alone, as straight code comes to an end by itself. */
static Step check_limits(DynRec *r, RecFrame *f, const DynInstr *in, uint32_t n) {
    uint32_t nodes = r->cap->graph.nodes.n;
    if (nodes != r->nnodes_seen) {
        r->nnodes += nodes - r->nnodes_seen; /* fewer where some were taken back */
        r->nnodes_seen = nodes;
        r->ninstrs_node = n;
    }
    uint64_t idle = (uint64_t)r->req->config.record_limit, limit = idle + idle * r->nnodes / NODES_PER_LIMIT;
    uint32_t spent = n / MOST_LOST < limit ? n - r->ninstrs_lost : n;
    if (nodes > MAX_NODES && spent < limit && rec_may_break(r, f)) {
        f->next = f->pc;
        r->why = DYN_R_GRAPH_SIZE;
        return STEP_CUT;
    }
    bool spins = (in->flags & DYN_IF_TARGET) && n - r->ninstrs_node > idle;
    return spent >= limit || nodes > MAX_NODES || spins ? step_bail(r, DYN_R_BUDGET, NULL) : STEP_NEXT;
}

/* A jump back: counts the trips of its loop that made nodes, and looks at the eval breaker as CPython does. */
static Step jump_back(DynRec *r, RecFrame *f, const DynInstr *in) {
    uint32_t nodes = r->nnodes_seen, all = f->code->v.n;
    if (f->trips == NULL && (f->trips = DYN_NEW_N(&r->arena, uint32_t, 2 * all)) == NULL) {
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    uint32_t most = f->most_trips > 0 ? f->most_trips : REC_MAX_TRIPS;
    uint32_t in_all = most > MAX_TRIPS_IN_ALL ? most : MAX_TRIPS_IN_ALL;
    if (!r->derives && nodes > f->trip_nodes && (++f->trips[f->pc] >= most || ++f->trips[all + f->pc] >= in_all)) {
        if (!rec_may_break(r, f)) {
            return step_bail(r, DYN_R_BUDGET, "loop of more than 16 trips");
        }
        f->cut = true;
    }
    for (uint32_t i = in->target; i < f->pc; i++) { /* the loops inside begin anew */
        f->trips[i] = 0;
    }
    f->trip_nodes = nodes;
    if (dyn_cpy_serve(r->ts) < 0) {
        return STEP_ERROR;
    }
    return dyn_cpy_is_traced(r->ts) ? step_bail(r, DYN_R_TRACING, NULL) : STEP_NEXT;
}

/* Does the instruction begin a loop that is to run natively, or a function that is? */
static bool is_taken(DynRec *r, RecFrame *f, const DynInstr *in) {
    bool own = f->moved == 0 && f->generator == NULL && (f != r->base || r->req->resumes == NULL);
    if (r->req->takes_loop == NULL || !own || f->code->generator) {
        return false;
    }
    uint32_t nstack = f->sp - f->nslots;
    PyObject **slots = DYN_NEW_N(&r->arena, PyObject *, f->nall + 1);
    if (slots == NULL) {
        return false;
    }
    dyn_frame_get_all(f->f, slots);
    memcpy(slots + f->nslots, f->real + f->nslots, nstack * sizeof *slots);
    uint32_t ninputs = r->cap != NULL ? r->cap->graph.inputs.n : 0, nnodes = r->nnodes > ninputs ? r->nnodes - ninputs : 0;
    PyObject *it = nstack > 0 ? slots[f->nslots + nstack - 1] : NULL, *feeders[8];
    uint32_t nfed = it == NULL ? 0 : rec_unfeed(it, feeders, DYN_COUNTOF(feeders));
    bool takes = r->req->takes_loop(r->req, f->code, f->f, in->start, slots, nstack, nnodes, &f->loop_code, &f->loop_at);
    if (!takes) {
        rec_feed_again(it, feeders, nfed);
    }
    for (uint32_t i = 0; i < nfed; i++) {
        Py_DECREF(feeders[i]);
    }
    return takes;
}

/* What has to be asked before the instruction `in` runs. */
static Step before_instr(DynRec *r, RecFrame *f, const DynInstr *in) {
    if (!(in->flags & DYN_IF_FIRST)) {
        return STEP_NEXT;
    }
    uint32_t n = r->ninstrs++;
    if (DYN_UNLIKELY(r->req->config.force_bail >= 0) && n == (uint64_t)r->req->config.force_bail) {
        return step_bail(r, DYN_R_FORCED, NULL);
    }
    if (DYN_UNLIKELY(in->flags & DYN_IF_TARGET || f->pc == f->code->head) && is_taken(r, f, in)) {
        return step_bail(r, DYN_R_NATIVE_LOOP, NULL);
    }
    Step s = check_limits(r, f, in, n);
    return s == STEP_NEXT && (in->flags & DYN_IF_BACKWARD) ? jump_back(r, f, in) : s;
}

int rec_frame_open(DynRec *r, RecFrame *fr, DynFrame *f) {
    memset(fr, 0, sizeof *fr);
    fr->f = f;
    fr->code = rec_code(r, dyn_frame_code(f));
    if (fr->code == NULL) {
        return -1;
    }
    fr->nslots = (uint32_t)dyn_code_nlocalsplus(fr->code->code);
    fr->nall = fr->nslots + (uint32_t)fr->code->code->co_stacksize;
    fr->sp = fr->ssp = fr->nslots;
    fr->shadow = DYN_NEW_N(&r->arena, DynVal *, fr->nall + 1);
    fr->real = DYN_NEW_N(&r->arena, PyObject *, fr->nall + 1);
    fr->func_source = DYN_NONE;
    fr->told = fr->code;
    fr->ntold = fr->nslots;
    return fr->shadow == NULL || fr->real == NULL ? -1 : 0;
}

/* The stack goes into the frame, for CPython. How many values it has. */
static int put_stack(RecFrame *f) {
    for (uint32_t i = f->nslots; i < f->sp; i++) {
        dyn_frame_put(f->f, i, f->real[i]);
    }
    return (int)(f->sp - f->nslots);
}

/* The frame's part in the recording is over: what is finished is handed to the caller; now: also between two segments. */
static void deliver(DynRec *r, RecFrame *f, bool now) {
    rec_leave_base(r, f);
    if (r->cap == NULL && (!r->between || now)) {
        rec_deliver(r);
        rec_let_go(r);
    }
}

/* The frame goes back to CPython; a callee that didn't get to its return here makes its caller's call a break. Where references
 * are about to be seen, those that are kept for the next segment go too. */
static PyObject *hand_back(DynRec *r, RecFrame *f, DynFrameLink *link, uint32_t unit,
                           PyObject *(*how)(PyThreadState *, DynFrame *, uint32_t, int)) {
    deliver(r, f, r->why == DYN_R_REFERENCES);
    r->top = f->outer;
    dyn_frame_leave(r->ts, f->f, link);
    int depth = put_stack(f);
    if (f->loop_code != NULL) {
        dyn_frame_change_code(f->f, (PyCodeObject *)f->loop_code);
        Py_CLEAR(f->loop_code); /* the frame holds it */
        unit = f->loop_at;
    }
    return how(r->ts, f->f, unit, depth);
}

/* The frame's slots and stack as a resume function's arguments; it is empty then. NULL with an exception: nothing was done. */
static PyObject *take_values(RecFrame *f) {
    uint32_t nstack = f->sp - f->nslots;
    PyObject *args = PyTuple_New((Py_ssize_t)f->ntold + nstack);
    for (uint32_t i = 0; args != NULL && i < f->ntold + nstack; i++) {
        PyObject *value = i < f->ntold ? dyn_frame_take(f->f, i) : f->real[i - f->ntold + f->nslots];
        PyTuple_SET_ITEM(args, i, value != NULL ? value : Py_NewRef(Py_None));
    }
    return args;
}

/* CPython goes on in front of whole instructions. Where two operations on locals are one instruction (3.13) and the frame stands
 * between them, the second is done here. */
static void finish_instr(RecFrame *f) {
    const DynInstr *in = &f->code->v.at[f->next];
    if (in->flags & DYN_IF_FIRST) {
        return;
    }
    f->next++;
    if (in->op == DYN_I_STORE_FAST) {
        PyObject *old = dyn_frame_take(f->f, in->arg);
        dyn_frame_put(f->f, in->arg, f->real[--f->sp]);
        Py_XDECREF(old);
    } else {
        f->real[f->sp++] = Py_XNewRef(rec_local(f, in->arg)); /* LOAD_FAST */
    }
}

/* What was recorded of the call leads back into itself: the rest is a resume function's, whose native code may be ready soon. */
static PyObject *go_round(DynRec *r, RecFrame *f, DynFrameLink *link) {
    DynRecording *req = r->req;
    PyObject *resume = r->resume, *door = NULL, *args = NULL;
    r->resume = NULL;
    deliver(r, f, resume != NULL); /* its entries are needed now */
    if (resume != NULL && !dyn_cpy_is_traced(r->ts)) {
        door = req->door_of(req, resume);
        args = door == NULL ? NULL : take_values(f);
    }
    PyErr_Clear();
    Py_XDECREF(resume);
    r->top = f->outer;
    if (args == NULL) {
        Py_XDECREF(door);
        finish_instr(f);
        dyn_frame_leave(r->ts, f->f, link);
        return dyn_frame_go_on(r->ts, f->f, f->code->v.at[f->next].start, put_stack(f));
    }
    dyn_frame_running(f->f, f->code->v.at[f->pc].at, 0);
    dyn_frame_leave(r->ts, f->f, link);
    return req->go_on(req, r->ts, f->f, dyn_decode_return(f->code), door, args);
}

/* The frame ends with the exception that is set. One that it raised again has its row in the traceback already. */
static PyObject *throw_out(DynRec *r, RecFrame *f, DynFrameLink *link, const DynInstr *in) {
    bool again = r->error_again;
    r->error_again = false;                 /* for the frame that called */
    if (again && in->op == DYN_I_RERAISE) { /* CPython's own: the frame stands at what raised first when it is over */
        PyErr_Clear();
        return hand_back(r, f, link, in->start, dyn_frame_go_on);
    }
    PyObject *before = again ? dyn_cpy_traceback() : NULL;
    PyObject *result = hand_back(r, f, link, in->at, dyn_frame_throw);
    dyn_cpy_traceback_without_row(before);
    return result;
}

/* An inlined frame isn't recorded any more: its caller's call, or its generator's step, is a break. */
static void lose(DynRec *r, RecFrame *f) {
    if (r->why == DYN_R_BUDGET && f->outer != NULL) { /* without memory for it, it is recorded into once more */
        (void)dyn_vec_push(&r->lost, f->code->code);
    }
    if (f->generator != NULL) {
        f->generator->lost = true;
    } else {
        r->callee_bailed = f->outer != NULL;
    }
}

/* A test wants the function cut here. */
static bool is_forced(DynRec *r, RecFrame *f, const DynInstr *in) {
    bool wanted = r->forced != r->ninstrs && r->ninstrs % (uint32_t)r->req->config.force_break == 0;
    bool prologue = f->pc == 0 || in->start < f->moved || in->op == DYN_I_COPY_FREE_VARS || in->op == DYN_I_MAKE_CELL;
    return wanted && !prologue && (in->flags & DYN_IF_FIRST) && rec_may_break(r, f);
}

/* One step: runs the instruction at f->pc and says what has to follow. */
static Step step(DynRec *r, RecFrame *f, const DynInstr *in) {
    f->next = f->pc;
    f->instr = rec_mark(r);
    f->asks = NULL;
    f->instr_ssp = f->ssp;
    r->detail = NULL;
    if (f->cut) {
        f->cut = false;
        r->why = DYN_R_LOOP;
        return STEP_CUT;
    }
    if (DYN_UNLIKELY(r->req->config.force_break > 0) && is_forced(r, f, in)) {
        r->why = DYN_R_FORCED;
        return STEP_CUT;
    }
    f->next = f->pc + 1;
    Step s = before_instr(r, f, in);
    if (s != STEP_NEXT) {
        return s;
    }
    RecHandler h = rec_handlers[in->op];
    if (h == NULL) {
        return step_bail(r, DYN_R_UNSUPPORTED_OPCODE, dyn_opcodes[in->op].name);
    }
    dyn_frame_running(f->f, in->at, 0);
    r->why = DYN_R_UNSUPPORTED_VALUE;
    r->detail = NULL;
    r->error = NULL;
    r->error_again = false;
    return h(r, f, in);
}

/* The same where generators may die in the instruction, and run code: it is a break then. */
static Step step_watched(DynRec *r, RecFrame *f, const DynInstr *in) {
    bool guarded = rec_generators_guarded(r);
    if (guarded && (f->saved != NULL || (f->saved = DYN_NEW_N(&r->arena, DynVal *, f->nall + 1)) != NULL)) {
        memcpy(f->saved, f->shadow, (f->nall + 1) * sizeof *f->saved);
    }
    r->generator_died = false;
    Step s = step(r, f, in);
    if (!r->generator_died || r->cap == NULL) {
        return s;
    }
    r->generator_died = false;
    r->take_lost = true;
    r->error = NULL;
    if (s == STEP_NEXT) {
        bool known = guarded && f->saved != NULL;
        if (known) {
            memcpy(f->shadow, f->saved, (f->nall + 1) * sizeof *f->saved);
            f->ssp = f->instr_ssp;
            rec_rollback(r, &f->instr);
        }
        r->spoiled = r->spoiled || !known;
        r->why = DYN_R_SIDE_EFFECT;
        r->detail = "a generator is closed";
        s = STEP_BREAK;
    }
    return s;
}

static void stop_at_base(DynRec *r, RecFrame *f, const DynInstr *in) {
    if (f == r->base) {
        rec_stop(r, f, in, DYN_R_EXCEPTION);
    }
}

/* CPython's default evaluation raises what keeps the frame from running, in the right place. */
static PyObject *refuse_frame(DynRec *r, RecFrame *f, bool inlined) {
    PyErr_Clear();
    r->callee_bailed = true;
    r->why = DYN_R_RECURSION;
    if (f->generator != NULL) {
        f->generator->lost = true;
    }
    if (!inlined) {
        rec_stop(r, f, NULL, DYN_R_RECURSION);
        rec_deliver(r);
    }
    return dyn_frame_go_on(r->ts, f->f, 0, 0);
}

PyObject *rec_run_frame(DynRec *r, RecFrame *f) {
    DynFrameLink link;
    RecRaised how;
    bool inlined = r->top != NULL;
    if (dyn_frame_enter(r->ts, f->f, &link) < 0) {
        return refuse_frame(r, f, inlined);
    }
    f->outer = r->top;
    r->top = f;
    for (;;) {
        const DynInstr *in = &f->code->v.at[f->pc];
        Step s = r->generators.n > 0 ? step_watched(r, f, in) : step(r, f, in);
        if (r->taking != NULL) {
            rec_end_taking(r, f, s);
        }
        switch (s) {
        case STEP_NEXT:
            rec_check_shadows(r, f);
            f->pc = f->next;
            continue;
        case STEP_CUT:
        case STEP_BREAK:
            inlined = f != r->base;
            if ((!inlined || rec_may_break(r, f)) && rec_break(r, f, in) == 0) {
                f->pc = f->next;
                continue;
            }
            if (PyErr_Occurred()) { /* fullgraph */
                goto raised;
            }
            if (inlined) {
                rec_note_callee(r, f, in);
            }
            lose(r, f);
            return go_round(r, f, &link);
        case STEP_BAIL:
            if (f == r->base && f->loop_code != NULL) {
                rec_stop(r, f, in, DYN_R_NATIVE_LOOP);
            } else if (f == r->base) {
                rec_leave(r, f, in);
                if (PyErr_Occurred()) {
                    goto raised;
                }
            } else {
                rec_note_callee(r, f, in);
                if (r->why == DYN_R_REFERENCES) {
                    rec_leave_outermost(r);
                }
            }
            lose(r, f);
            return hand_back(r, f, &link, in->start, dyn_frame_go_on);
        case STEP_RETURN:
            if (f->generator != NULL) {
                rec_yielded(r, f, in);
            } else if (f != r->base) {
                r->result = f->shadow[f->ssp - 1];
            } else {
                rec_return(r, f, in);
            }
            return hand_back(r, f, &link, in->start, dyn_frame_go_on);
        case STEP_ERROR:
            how = rec_catch(r, f, in) ? REC_RAISED_ON : rec_break_raised(r, f, in);
            if (how == REC_RAISED_ON) {
                continue;
            }
            if (how == REC_RAISED_ROUND) {
                lose(r, f);
                return go_round(r, f, &link);
            }
            if (how == REC_RAISED_NOT) {
            raised:
                stop_at_base(r, f, in);
            }
            lose(r, f);
            r->why = DYN_R_EXCEPTION;
            return throw_out(r, f, &link, in);
        }
    }
}

static void rec_free(DynRec *r) {
    for (uint32_t i = 0; i < r->done.n; i++) {
        dyn_capture_free(r->done.at[i]);
    }
    dyn_vec_free(&r->done);
    if (r->cap != NULL) {
        dyn_capture_free(r->cap);
    }
    for (uint32_t i = 0; i < r->codes.n; i++) {
        dyn_decode_free(r->codes.at[i]);
    }
    dyn_vec_free(&r->codes);
    rec_forget(r);
    rec_forget_generators(r, true);
    dyn_vec_free(&r->generators);
    rec_forget_callee(r);
    dyn_vec_free(&r->callee_way);
    dyn_vec_free(&r->lost);
    dyn_vec_free(&r->taken);
    dyn_vec_free(&r->changes);
    dyn_vec_free(&r->seen);
    dyn_vec_free(&r->by_source);
    dyn_vec_free(&r->by_node);
    dyn_vec_free(&r->gave);
    dyn_vec_free(&r->written);
    dyn_vec_free(&r->effects);
    dyn_vec_free(&r->touched);
    dyn_vec_free(&r->keep);
    dyn_arena_free(&r->arena);
}

PyObject *dyn_record(PyThreadState *ts, DynFrame *f, DynRecording *recording) {
    static uint64_t recordings;
    DynRec r = {.serial = ++recordings, .ts = ts, .req = recording, .previous = current, .forced = UINT32_MAX};
    RecFrame top;
    dyn_arena_init(&r.arena);
    PyObject *result;
    if (rec_frame_open(&r, &top, f) < 0 || top.code->generator || rec_begin(&r, &top) < 0) {
        DynReason why = top.code && top.code->generator ? DYN_R_GENERATOR : DYN_R_NO_MEMORY;
        recording->refused(recording, (PyObject *)dyn_frame_code(f), why, why, NULL);
        recording->ended(recording);
        result = dyn_frame_default_eval(ts, f, 0);
    } else {
        current = &r;
        result = rec_run_frame(&r, &top);
        current = r.previous;
    }
    recording->ninstrs = r.ninstrs;
    PyObject *type, *value, *tb; /* freeing shadows' objects may run code */
    PyErr_Fetch(&type, &value, &tb);
    rec_free(&r);
    PyErr_Restore(type, value, tb);
    return result;
}

/* Is it a function of NumPy's or ctypes', which look at arguments of foreign functions and change nothing? */
static bool only_looks(PyObject *func) {
    PyObject *globals = PyFunction_Check(func) ? PyFunction_GET_GLOBALS(func) : NULL;
    PyObject *name = globals != NULL ? PyDict_GetItemString(globals, "__name__") : NULL;
    const char *text = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    PyErr_Clear();
    return text != NULL && (strncmp(text, "numpy.", 6) == 0 || strcmp(text, "ctypes") == 0);
}

bool dyn_record_wants(PyThreadState *ts, DynFrame *f) {
    DynRec *r = current;
    if (r == NULL || r->ts != ts) {
        return false;
    }
    bool called = r->pending.func != NULL && dyn_frame_func(f) == r->pending.func;
    bool wanted = called || (r->generators.n > 0 && rec_generator_of(r, f) != NULL);
    r->nstrangers += r->foreign > 0 && !wanted && !only_looks(dyn_frame_func(f));
    return wanted;
}

bool dyn_record_expects(PyObject *func) { return current != NULL && current->pending.func == func; }

PyObject *dyn_record_inlined(PyThreadState *ts, DynFrame *f) {
    DynRec *r = current;
    RecGenerator *g = r->generators.n > 0 ? rec_generator_of(r, f) : NULL;
    RecPending p = r->pending;
    RecFrame callee;
    if (g != NULL) {
        return rec_generator_step(r, g);
    }
    r->pending.func = NULL;
    if (rec_frame_open(r, &callee, f) < 0) {
        r->callee_bailed = true;
        return dyn_frame_default_eval(ts, f, 0);
    }
    callee.whole = p.whole || r->top->whole;
    callee.library = rec_is_library_call(&callee);
    callee.func_source = p.func_source;
    callee.began = rec_mark(r);
    for (uint32_t i = 0; i < callee.nslots; i++) {
        DynVal *v = i < p.nslots ? p.slots[i] : NULL;
        if (rec_local(&callee, i) == NULL) {
            v = rec_new(r, DV_NULL);
        }
        callee.shadow[i] = v != NULL ? v : rec_new(r, DV_OPAQUE);
        if (callee.shadow[i] == NULL) {
            r->callee_bailed = true;
            return dyn_frame_default_eval(ts, f, 0);
        }
    }
    callee.shadow[callee.nall] = p.func_val; /* where COPY_FREE_VARS finds the closure */
    if (++r->depth > MAX_INLINE_DEPTH) {
        r->depth--;
        r->callee_bailed = true;
        r->why = DYN_R_RECURSION;
        return dyn_frame_default_eval(ts, f, 0);
    }
    PyObject *result = rec_run_frame(r, &callee);
    r->depth--;
    return result;
}

static bool started;

bool dyn_record_is_started(void) { return started; }

int dyn_record_init(void) {
    /* In this order. Each gives 0, or -1 with an exception. */
    static int (*const inits[])(void) = {
        rec_object_init,  rec_dispatch_init,    rec_callables_init, rec_errstate_init, rec_named_init,
        rec_context_init, rec_collections_init, rec_enum_init,      rec_lazy_init,     rec_partial_init,
        rec_cached_init,  rec_function_init,    rec_break_init,     rec_call_init,
    };
    int status = 0;
    for (size_t i = 0; status == 0 && i < DYN_COUNTOF(inits); i++) {
        status = inits[i]();
    }
    started = status == 0;
    return status;
}
