/* hook.c: the frame-evaluation hook (PEP 523). It serves what waits for a frame: a recording that the door asked for, a frame to
 * be rebuilt, an inlined call of the recorder; and under enable() every Python function (wait, record_all), or on 3.11 those that
 * the finder found.
 *
 * Installed while it is needed (counted), since it costs plain Python calls their short way. GIL throughout. */
#include "base/torch.h"
#include "evalframe/finder.h"
#include "evalframe/hold.h"
#include "evalframe/hook.h"
#include "evalframe/loops.h"
#include "ir/extern.h"

/* ---- recording */

typedef struct Recording { /* one recording of one call, on the C stack */
    DynRecording base;     /* first: the callbacks get this */
    DynCache *cache;
    PyObject *func;
    DYN_VEC(DynEntry *)
    hands; /* strong: their graphs are to be handed to a back end when the call is through */
    DYN_VEC(DynArtifact *)
    waits;              /* strong: native code has to be ready before the call returns */
    uint64_t compiling; /* cycles spent in dyn_compile */
    bool kept, active;
    bool went_on; /* the rest of the call was served */
    bool calls; /* the function calls itself, or others that have doors, as far as its names tell: such a recording is one of many
                 */
    DynReason why; /* not OK: the function's own recording was refused */
} Recording;

/* Python code that runs on dynoc's own account (logging, linecache, dis) is left alone. */
static _Thread_local uint32_t own_business;

static void ended(DynRecording *r) {
    Recording *rec = (Recording *)r;
    if (rec->active) {
        rec->active = rec->cache->recording = false;
        dyn_hook_release();
        own_business++;
        DynRaised before = dyn_callback_begin();
        dyn_loops_say_news();
        dyn_callback_end(before);
        own_business--;
    }
}

static DynCache *root_of(const Recording *rec) { return rec->cache->root != NULL ? rec->cache->root : rec->cache; }

static PyObject *resume_code(DynRecording *r, const DynCode *code, const DynFrameShape *shape, PyObject *func) {
    uint32_t next = code->at_unit[shape->at];
    /* What super().method leaves on the stack, (function, self) or a bound method and NULL, changes between calls: CPython
     * specialises the instruction. So there is no shape to resume with, and the frame is left there. */
    if (next == DYN_NONE || next == 0 || code->v.at[next - 1].op == DYN_I_LOAD_SUPER_ATTR) {
        return NULL;
    }
    DynResume *row = dyn_cache_resume(root_of((Recording *)r), code, shape, func);
    return row == NULL ? NULL : Py_NewRef(row->code);
}

static bool serves(DynRecording *r, PyObject *resume, PyObject *const *args) {
    DynResume *row;
    DynCache *c = dyn_cache_of_code(root_of((Recording *)r), resume, &row);
    return row != NULL && dyn_hit_fits(c, dyn_door_function(row->door), args);
}

static void captured(DynRecording *r, DynCapture *capture) {
    Recording *rec = (Recording *)r;
    DynEntry *made = NULL;
    DynCache *root = root_of(rec);
    PyObject *func = Py_NewRef(capture->func != NULL ? capture->func : rec->func);
    if (root->quiet) { /* under enable(): nobody can get at the entry's code, and the function may die before its code does */
        Py_CLEAR(capture->func);
    }
    own_business++;
    uint64_t began = dyn_cycles();
    dyn_compile(root, capture, func, &made);
    rec->compiling += dyn_cycles() - began;
    own_business--;
    Py_DECREF(func);
    if (made == NULL) {
        return;
    }
    rec->kept = true;
    root->stands_in |= made->capture->stands_in;
    if (made->interpreted && root->options->hands_on && dyn_vec_push(&rec->hands, made) == 0) {
        dyn_entry_incref(made);
    } else {
        Py_CLEAR(made->capture->examples);
    }
    if (made->artifact != NULL && dyn_options_wait(rec->cache->options) && dyn_vec_push(&rec->waits, made->artifact) == 0) {
        dyn_artifact_incref(made->artifact);
    }
    dyn_entry_decref(made);
}

static void refused(DynRecording *r, PyObject *code, DynReason why, DynReason cause, const DynPlace *place) {
    Recording *rec = (Recording *)r;
    DynResume *row;
    DynCache *c = dyn_cache_of_code(root_of(rec), code, &row);
    DynReason told = dyn_reason_is_of_array(cause) ? cause : why;
    if (why == DYN_R_NATIVE_LOOP) {
        return;
    }
    dyn_count_reason("refused", told);
    own_business++;
    if (told != DYN_R_NO_ARRAYS) {
        dyn_debug_break(told, place, "refused");
    }
    if (!root_of(rec)->quiet) {
        dyn_cache_tell(root_of(rec), cause, place);
    }
    own_business--;
    if (why == DYN_R_NO_PROFIT && c == root_of(rec)) {
        dyn_profit_decline(c);
    } else if (c != NULL) {
        rec->why = c == rec->cache ? why : rec->why;
        dyn_cache_refused(c, told == DYN_R_REQUIRES_GRAD ? told : why);
    }
}

/* The recorder comes to a header of a loop. */
static bool takes_loop(DynRecording *r, const DynCode *code, DynFrame *f, uint32_t header, PyObject *const *slots,
                       uint32_t nstack, uint32_t nnodes, PyObject **loop_code, uint32_t *at) {
    Recording *rec = (Recording *)r;
    DynCache *root = root_of(rec), *c = (PyObject *)code->code == root->code ? root : NULL;
    if (c == NULL) {
        DynKnown *row = dyn_known_find((PyObject *)code->code);
        c = row == NULL || row->globals != dyn_frame_globals(f) ? NULL : row->cache;
    }
    if (c == NULL || !dyn_frame_may_change(PyThreadState_Get(), f, code->code)) {
        return false;
    }
    own_business++;
    dyn_cache_incref(c);
    if (DYN_UNLIKELY(c->loose)) {
        dyn_hold_tighten(c);
    }
    bool takes = dyn_loops_take(c, code, f, header, slots, nstack, nnodes, loop_code, at);
    Py_XINCREF(takes ? *loop_code : NULL);
    dyn_cache_decref(c);
    own_business--;
    return takes;
}

/* PyTorch's functions that are left to CPython as a whole, by module and (unless NULL) by name; and those of torch.optim.
 * torch.compile's own take the hook away while they run: what they call is theirs. Optimisers, and what starts backward, come to
 * calls that nobody can see into, and on their way to states that no graph takes: recorded, they were tens of small entries
 * between breaks. So do a profiler's marks, what DistributedDataParallel does before and behind the model, a gradient
 * scaler, which goes over the gradients one by one, and hooks of a module's backward, which look at nodes of autograd's. */
static const struct {
    const char *module, *name;
} whole_calls[] = {{"torch._dynamo.eval_frame", NULL},
                   {"torch._compile", NULL},
                   {"torch.autograd", NULL},
                   {"torch.autograd.profiler", NULL},
                   {"torch.nn.parallel.distributed", "_pre_forward"},
                   {"torch.nn.parallel.distributed", "_post_forward"},
                   {"torch._tensor", "backward"},
                   {"torch.nn.utils.clip_grad", NULL},
                   {"torch.amp.grad_scaler", "unscale_"},
                   {"torch.amp.grad_scaler", "update"},
                   {"torch.utils.hooks", "_apply_on_tensors"},
                   {"torch.nn.modules.module", "zero_grad"}};

static const char *module_of(PyObject *func) {
    PyObject *name = PyDict_GetItemString(PyFunction_GET_GLOBALS(func), "__name__");
    const char *module = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    PyErr_Clear();
    return module == NULL ? "" : module;
}

/* Is the function, as torch.optim's wrapper of every optimiser's step, around one of the program's own, through other wrappers?
 */
static bool wraps_the_programs_own(PyObject *func, int depth) {
    PyObject *closure = PyFunction_GET_CLOSURE(func);
    for (Py_ssize_t i = 0; closure != NULL && depth < 4 && i < PyTuple_GET_SIZE(closure); i++) {
        PyObject *inner = PyCell_GET(PyTuple_GET_ITEM(closure, i));
        if (inner != NULL && PyFunction_Check(inner)) {
            bool own = strncmp(module_of(inner), "torch.", 6) != 0;
            if (own || wraps_the_programs_own(inner, depth + 1)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_called_whole(PyObject *func) {
    const char *module = module_of(func);
    PyObject *name = ((PyCodeObject *)PyFunction_GET_CODE(func))->co_name;
    if (strncmp(module, "torch.optim.", 12) == 0) {
        return !wraps_the_programs_own(func, 0);
    }
    for (size_t i = 0; i < DYN_COUNTOF(whole_calls); i++) {
        bool named = whole_calls[i].name == NULL || PyUnicode_CompareWithASCIIString(name, whole_calls[i].name) == 0;
        if (named && strcmp(module, whole_calls[i].module) == 0) {
            return true;
        }
    }
    return false;
}

static DynReason may_inline(DynRecording *r, PyObject *func) {
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(func);
    if (dyn_known_is_skipped((PyObject *)code)) {
        return DYN_R_SKIPPED_CALL;
    }
    if (is_called_whole(func)) {
        return DYN_R_OPAQUE_CALL;
    }
    return code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR) ? DYN_R_GENERATOR : DYN_R_OK;
}

/* A step of an optimiser of PyTorch's, and what limits the norm of gradients, has another form (src/dynoc/_optimizers.py), where
 * rounding may differ. */
static PyObject *stand_in(DynRecording *r, PyObject *func, PyObject *of) {
    static PyObject *face; /* strong */
    PyObject *name = ((PyFunctionObject *)func)->func_name;
    bool known =
        PyUnicode_CompareWithASCIIString(name, "step") == 0 || PyUnicode_CompareWithASCIIString(name, "clip_grad_norm_") == 0;
    if (!known || ((Recording *)r)->cache->options->exact || dyn_torch_tensor == NULL) {
        return NULL;
    }
    DynRaised before = dyn_callback_begin();
    own_business++;
    if (face == NULL) {
        face = dyn_import("dynoc._optimizers");
    }
    PyObject *found = face == NULL ? NULL : PyObject_CallMethod(face, "stand_in", "OO", func, of); /* the module holds it */
    own_business--;
    Py_XDECREF(found);
    dyn_callback_end(before);
    return found == Py_None ? NULL : found;
}

static void wait_for_native(Recording *rec) {
    DynRaised before = dyn_callback_begin();
    for (uint32_t i = 0; i < rec->waits.n; i++) {
        dyn_artifact_build(rec->waits.at[i], true);
        dyn_artifact_decref(rec->waits.at[i]);
    }
    dyn_vec_free(&rec->waits);
    dyn_callback_end(before);
}

/* -1: a back end failed, and its exception is set. One that was set before stays, and counts. */
static int hand_all_on(Recording *rec) {
    PyObject *type, *value, *tb;
    int failed = 0;
    PyErr_Fetch(&type, &value, &tb);
    own_business++;
    for (uint32_t i = 0; i < rec->hands.n; i++) {
        failed = failed < 0 ? failed : dyn_hand_on(rec->hands.at[i], rec->cache->options);
        dyn_entry_decref(rec->hands.at[i]);
    }
    own_business--;
    dyn_vec_free(&rec->hands);
    if (type != NULL) {
        PyErr_Clear();
        PyErr_Restore(type, value, tb);
    }
    return failed;
}

static PyObject *door_of(DynRecording *r, PyObject *resume) {
    DynResume *row;
    return dyn_cache_of_code(root_of((Recording *)r), resume, &row) == NULL || row == NULL ? NULL : Py_NewRef(row->door);
}

static PyObject *end_frame(PyThreadState *ts, DynFrame *f, uint32_t return_at, PyObject *result, bool rewritten);

/* The rest of the call is a resume function's. */
static PyObject *go_on(DynRecording *r, PyThreadState *ts, DynFrame *f, uint32_t return_at, PyObject *door, PyObject *args) {
    ((Recording *)r)->went_on = true;
    wait_for_native((Recording *)r);
    if (hand_all_on((Recording *)r) < 0) {
        Py_DECREF(door);
        Py_DECREF(args);
        return end_frame(ts, f, return_at, NULL, true);
    }
    return end_frame(ts, f, return_at, dyn_door_resume((DynNext){door, args}), true);
}

/* What recording takes beyond running the frame, about (docs/lab/small-calls.md): an instruction; and the rest, from the door
 * that the function got to the entry's end. */
#define INSTRUCTION_NS 800.0
#define FRAME_NS 3e4
#define LONG_FOR_NOTHING 1000 /* instructions of a recording that isn't made again for nothing, */
#define FELT 200              /* … nor is a shorter one for values of the same kinds */

static uint64_t recordings;

uint64_t dyn_hook_recordings(void) { return recordings; }

/* One entry for all names, from the first miss by a name on: for each name an entry of its own is what the limit would end. */
static bool names_vary(DynCache *c) {
    for (uint32_t i = 0; i < c->entries.n && !c->names_vary; i++) {
        c->names_vary = dyn_guards_missed_name(c->entries.at[i]->guards);
    }
    return c->names_vary;
}

/* Was it long, or of what may come to much, and saw no array work? */
static bool came_to_nothing(const Recording *rec) {
    const DynCache *c = rec->cache;
    bool felt = rec->base.ninstrs > FELT || dyn_loops_any_refused(c) || rec->calls;
    bool nothing = rec->why == DYN_R_NO_ARRAYS || rec->why == DYN_R_BUDGET || rec->why == DYN_R_CALLEE_BAILED;
    return felt && nothing && !c->works && !rec->kept;
}

/* The hook is needed by the caller; this is released here. */
static PyObject *record_frame(PyThreadState *ts, DynFrame *f, DynCache *c, PyObject *func) {
    Recording rec = {.cache = c, .func = Py_NewRef(func), .active = true};
    rec.calls = dyn_code_calls_itself((PyCodeObject *)c->code) || dyn_loops_name_doors(func);
    DynConfig config = dyn_options_config(c->options);
    bool judged = root_of(&rec)->quiet && c->need_arrays && dyn_profit_is_judged(c);
    rec.base = (DynRecording){
        .owner = c,
        .fullgraph = c->options->fullgraph,
        .config = config,
        .dynamic = c->options->dynamic && config.dynamic,
        .own_random = !c->options->exact && !config.fallback_random,
        .own_products = !c->options->exact,
        .whole = c->options->hands_on,
        .need_arrays = c->need_arrays,
        .loud = root_of(&rec)->loud,
        .raises = root_of(&rec)->raises,
        .sure = root_of(&rec)->sure,
        .names_vary = names_vary(c),
        .resume_code = resume_code,
        .serves = serves,
        .door_of = door_of,
        .go_on = go_on,
        .apart = judged,
        .gain = judged ? dyn_estimate_gain : NULL,
        .captured = captured,
        .refused = refused,
        .ended = ended,
        .evaluate = dyn_hit_evaluate,
        .may_inline = may_inline,
        .stand_in = stand_in,
        .takes_loop = takes_loop,
    };
    DynResume *row = NULL;
    if (c->root != NULL && dyn_cache_of_code(c->root, c->code, &row) != NULL && row != NULL) {
        rec.base.resumes = (PyCodeObject *)row->of;
        rec.base.moved = (uint32_t)row->shift;
    }
    dyn_count("frames", "total");
    recordings++;
    dyn_cache_incref(c);
    c->recording = true;
    uint64_t began = dyn_cycles();
    PyObject *result = dyn_record(ts, f, &rec.base);
    c->profit.recorded = rec.went_on ? 0 : dyn_cycles() - began;
    ended(&rec.base);
    if (rec.kept) {
        dyn_count("frames", "recorded");
    }
    if (c->quiet) {
        dyn_budget_spend(dyn_cycles_ns((double)rec.compiling) + (double)rec.base.ninstrs * INSTRUCTION_NS + FRAME_NS);
    }
    c->works |= rec.base.worked;
    if (rec.base.ninstrs > LONG_FOR_NOTHING && !c->works && dyn_profit_is_measured(c)) {
        dyn_cache_try_no_more(c);
    }
    c->for_nothing = came_to_nothing(&rec) ? rec.why : DYN_R_OK;
    root_of(&rec)->loud |= rec.base.loud;
    root_of(&rec)->raises |= rec.base.raises;
    wait_for_native(&rec);
    if (hand_all_on(&rec) < 0) {
        Py_CLEAR(result);
    }
    DynRaised before = dyn_callback_begin();
    Py_DECREF(rec.func);
    dyn_cache_decref(c);
    dyn_callback_end(before);
    return result;
}

/* ---- requests of this thread: the next frame of `func` is to be recorded into `cache`, or (NULL) left alone */

typedef struct Request {
    PyObject *func;
    DynCache *cache;
    DynSpent spent; /* dropped when the frame is there */
    uint64_t number;
} Request;
static _Thread_local Request request;

/* Of the next call; its number. */
static uint64_t make_request(Request wanted) {
    static _Thread_local uint64_t numbers;
    wanted.number = ++numbers;
    request = wanted;
    return wanted.number;
}

/* A frame was made and the hook saw it; not so where the arguments don't bind. */
static bool was_taken(uint64_t number) {
    if (request.number != number) {
        return true;
    }
    request = (Request){0};
    return false;
}

PyObject *dyn_hook_record(DynCache *c, PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    dyn_hook_need();
    uint64_t number = make_request((Request){.func = func, .cache = c});
    PyObject *result = dyn_func_call(func, args, nargsf, kwnames);
    if (!was_taken(number)) {
        dyn_hook_release();
    }
    return result;
}

PyObject *dyn_hook_resume(DynCache *c, PyObject *func, DynSpent args) {
    dyn_hook_need();
    uint64_t number = make_request((Request){.func = func, .cache = c, .spent = args});
    PyObject *result = PyObject_Vectorcall(func, args.at, args.n, NULL);
    if (!was_taken(number)) {
        dyn_hook_release();
    }
    return result;
}

/* ---- under enable() */

static DynOptions *enabled; /* counted; NULL: off */
static bool everything;     /* every frame is served; else those of functions that the finder found, on 3.11 */

/* The frame ends with an exception. Where it came out of rewritten code, its traceback shows the function already: no second row
 * for its frame. It is thrown at the first instruction, which no handler covers. */
static PyObject *end_with_exception(PyThreadState *ts, DynFrame *f, bool rewritten) {
    PyObject *before = rewritten ? dyn_cpy_traceback() : NULL, *result = dyn_frame_throw(ts, f, 0, 0);
    dyn_cpy_traceback_without_row(before);
    return result;
}

static PyObject *end_frame(PyThreadState *ts, DynFrame *f, uint32_t return_at, PyObject *result, bool rewritten) {
    if (result == NULL) {
        return end_with_exception(ts, f, rewritten);
    }
    if (return_at == DYN_NONE) {
        return dyn_frame_return(ts, f, result);
    }
    dyn_frame_put(f, (uint32_t)dyn_code_nlocalsplus(dyn_frame_code(f)), result);
    return dyn_frame_go_on(ts, f, return_at, 1);
}

static uint32_t return_of(DynCache *c) {
    if (!c->return_known) {
        c->return_at = dyn_code_return((PyCodeObject *)c->code);
        c->return_known = true;
    }
    return c->return_at;
}

static void count_eager(const DynCache *c) {
    if (c != NULL && c->works) {
        dyn_count_call(DYN_SERVED_NOT);
    }
}

/* The call is CPython's. */
static PyObject *eager_frame(PyThreadState *ts, DynFrame *f, const DynCache *c) {
    dyn_finder_saw_frame(false);
    count_eager(c);
    return dyn_frame_default_eval(ts, f, 0);
}

static PyObject *enabled_miss(PyThreadState *ts, DynFrame *f, DynCache *c, PyObject *func, PyObject *const *slots) {
    if (!dyn_cache_may_record(c, slots)) {
        dyn_profit_missed(c);
        return eager_frame(ts, f, c);
    }
    if (dyn_loops_begin(c, func, slots)) {
        dyn_finder_saw_frame(false);
        count_eager(c);
        return dyn_loops_frame(c, ts, f);
    }
    if (!dyn_record_is_started()) { /* there are no arrays to record */
        dyn_profit_missed(c);
        return eager_frame(ts, f, c);
    }
    dyn_finder_saw_frame(true);
    dyn_hook_need();
    PyObject *result = record_frame(ts, f, c, func);
    count_eager(c);
    return result;
}

/* Rewritten code goes on with what the frame was called with. */
static PyObject *serve_partly(PyThreadState *ts, DynFrame *f, DynCache *c, PyObject *func, DynHit *hit, DynSpent slots) {
    DynNext next;
    for (size_t i = 0; i < slots.n; i++) {
        slots.at[i] = dyn_frame_take(f, (uint32_t)i);
    }
    PyObject *result = dyn_hit_break(hit, func, slots.at, slots, &next);
    dyn_spend(slots);
    return end_frame(ts, f, return_of(c), dyn_door_finish(result, next), true);
}

/* slots: borrowed from the frame. */
static PyObject *serve_bound(PyThreadState *ts, DynFrame *f, DynCache *c, PyObject *func, DynSpent slots, bool *served) {
    DynHit hit;
    dyn_hit_find(c, func, slots.at, &hit);
    if (hit.kind == DYN_HIT_MISS) {
        return enabled_miss(ts, f, c, func, slots.at);
    }
    dyn_finder_saw_frame(true);
    *served = dyn_hit_serves(hit.kind);
    switch (hit.kind) {
    case DYN_HIT_RETURN: dyn_count_call(DYN_SERVED); return end_frame(ts, f, return_of(c), hit.result, false);
    case DYN_HIT_BREAK:
    case DYN_HIT_WAIT:
    case DYN_HIT_ASIDE:
    case DYN_HIT_AROUND:
        dyn_count_call(*served ? DYN_SERVED_PARTLY : DYN_SERVED_NOT);
        return serve_partly(ts, f, c, func, &hit, slots);
    case DYN_HIT_LEAVE: dyn_count_call(DYN_SERVED_PARTLY); return dyn_leave_fill(hit.leave, ts, f);
    default: count_eager(c); return dyn_frame_default_eval(ts, f, 0);
    }
}

#define FEW_SLOTS 24 /* for which the stack has room */

/* served: by an entry. */
static PyObject *serve_frame(PyThreadState *ts, DynFrame *f, DynCache *c, PyObject *func, bool *served) {
    size_t n = (size_t)dyn_code_nlocalsplus(dyn_frame_code(f));
    PyObject *few[FEW_SLOTS], **many = NULL, **slots = dyn_frame_pointers(f);
    if (slots == NULL) {
        many = n > FEW_SLOTS ? PyMem_Malloc(n * sizeof *many) : NULL;
        slots = n > FEW_SLOTS ? many : few;
        if (slots == NULL) {
            return eager_frame(ts, f, c);
        }
        dyn_frame_get_all(f, slots);
    }
    PyObject *result = serve_bound(ts, f, c, func, (DynSpent){slots, n}, served);
    PyMem_Free(many);
    return result;
}

/* The frame is served, or CPython's, whichever profit.c says, and timed where that asks for it. */
static PyObject *take_turn(PyThreadState *ts, DynFrame *f, DynCache *c, PyObject *func) {
    bool served = false;
    DynTurn turn = dyn_profit_turn(&c->profit, c);
    if (turn == DYN_TURN_SERVE) {
        return serve_frame(ts, f, c, func, &served);
    }
    if (turn == DYN_TURN_EAGER) {
        return eager_frame(ts, f, c);
    }
    bool eager = turn == DYN_TURN_EAGER_TIMED;
    uint64_t outer = eager ? dyn_profit_eager_begin(c) : 0;
    uint64_t before = recordings, began = dyn_cycles();
    PyObject *result = eager ? eager_frame(ts, f, c) : serve_frame(ts, f, c, func, &served);
    if (eager) {
        dyn_profit_eager_end(outer);
    }
    dyn_profit_tell(c, turn, began, before != recordings, served == !eager);
    return result;
}

static PyObject *hook(PyThreadState *ts, DynFrame *f, int throwflag);
static uint32_t needs;

/* CPython runs the frame and what it calls as if there were no hook. Tracers and monitoring tools are told of Python calls as of
 * calls of C functions where a hook is in, and calls use C stack. */
static PyObject *step_aside(PyThreadState *ts, DynFrame *f) {
    if (dyn_hook_get() != hook || dyn_hook_foreign() != NULL) {
        return dyn_frame_default_eval(ts, f, 0);
    }
    dyn_hook_set(NULL);
    PyObject *result = dyn_frame_eval_alone(ts, f);
    if (needs > 0 && dyn_hook_get() == NULL) {
        dyn_hook_set(hook);
    }
    return result;
}

/* Code of a module, which is never recorded, runs in loop code where it has loops: where the finder is on, it goes over later. */
static PyObject *module_frame(PyThreadState *ts, DynFrame *f) {
    PyObject *code = (PyObject *)dyn_frame_code(f), *namespace = dyn_frame_namespace(f), *result;
    bool loops = namespace != NULL && dyn_code_loops((PyCodeObject *)code);
    DynKnown *row = loops ? dyn_known_find(code) : NULL;
    row = loops && row == NULL ? dyn_known_meet((PyCodeObject *)code, namespace, enabled) : row;
    DynCache *c = row == NULL || row->globals != namespace ? NULL : row->cache;
    if (c == NULL) {
        return eager_frame(ts, f, NULL);
    }
    dyn_cache_incref(c); /* rows come and go */
    if (DYN_UNLIKELY(c->loose)) {
        dyn_hold_tighten(c);
    }
    if (dyn_loops_serve(c) || dyn_loops_begin_names(c, namespace)) {
        result = dyn_loops_frame(c, ts, f);
    } else {
        result = eager_frame(ts, f, NULL);
    }
    DynRaised before = dyn_callback_begin();
    dyn_cache_decref(c);
    dyn_callback_end(before);
    return result;
}

static PyObject *enabled_frame(PyThreadState *ts, DynFrame *f) {
    if (dyn_cpy_is_traced(ts)) {
        return step_aside(ts, f);
    }
    PyCodeObject *code = dyn_frame_code(f);
    DynKnown *row = dyn_known_find((PyObject *)code);
    bool function = (code->co_flags & CO_OPTIMIZED) != 0;
    if (everything && !function) {
        return module_frame(ts, f);
    }
    if (row == NULL && everything) {
        row = dyn_known_meet(code, dyn_frame_globals(f), enabled);
    } else if (row == NULL && dyn_finder_looks_at(dyn_frame_func(f))) {
        row = dyn_known_find((PyObject *)code);
    }
    DynCache *c = row == NULL || row->globals != dyn_frame_globals(f) || !function ? NULL : row->cache;
    if (c != NULL) {
        row->used = true;
    }
    bool loops = c != NULL && dyn_loops_serve(c), useless = c == NULL || (!loops && dyn_cache_idles(c));
    if (useless || dyn_profit_is_eager_below() || dyn_frame_is_generator(f)) {
        return eager_frame(ts, f, c);
    }
    dyn_cache_incref(c); /* rows come and go */
    if (DYN_UNLIKELY(c->loose)) {
        dyn_hold_tighten(c);
    }
    PyObject *result;
    if (loops) {
        dyn_finder_saw_frame(false); /* what its loops run natively tells whether the hook pays */
        result = dyn_loops_frame(c, ts, f);
    } else {
        result = take_turn(ts, f, c, dyn_frame_func(f));
    }
    DynRaised before = dyn_callback_begin();
    dyn_cache_decref(c);
    dyn_callback_end(before);
    return result;
}

bool dyn_hook_serves_frames;

PyObject *dyn_hook_plain(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    if (DYN_LIKELY(!dyn_hook_serves_frames)) {
        return dyn_func_call(func, args, nargsf, kwnames);
    }
    uint64_t number = make_request((Request){.func = func});
    PyObject *result = dyn_func_call(func, args, nargsf, kwnames);
    was_taken(number);
    return result;
}

PyObject *dyn_hook_plain_bound(const DynSignature *sig, PyCodeObject *code, PyObject *func, PyObject *const *slots,
                               DynSpent spent) {
    bool spends = spent.at != NULL;
    if (!spends && !dyn_hook_serves_frames) {
        return dyn_bind_call(sig, code, func, slots, true);
    }
    if (spends) {
        dyn_hook_need();
    }
    uint64_t number = make_request((Request){.func = func, .spent = spent});
    PyObject *result = dyn_bind_call(sig, code, func, slots, true);
    if (!was_taken(number) && spends) {
        dyn_hook_release();
    }
    return result;
}

/* Is the code that runs now dynoc's own? */
static bool is_busy(void) { return own_business > 0 || dyn_log_busy(); }

bool dyn_hook_is_ours(PyObject *func) {
    if (is_busy() || func == dyn_extern_calling) {
        return true;
    }
    return dyn_record_expects(func) || dyn_leave_expects(func);
}

/* ---- the hook */

static PyObject *hook(PyThreadState *ts, DynFrame *f, int throwflag) {
    if (throwflag || DYN_UNLIKELY(dyn_cpy_is_raising(ts))) {
        return dyn_frame_default_eval(ts, f, throwflag);
    }
    if (dyn_leave_wants(f)) {
        return dyn_leave_filled(ts, f);
    }
    PyObject *func = dyn_frame_func(f);
    if (func == dyn_extern_calling) {
        dyn_extern_calling = NULL;
        return dyn_frame_default_eval(ts, f, 0);
    }
    if (request.func != NULL && request.func == func) {
        Request r = request;
        request = (Request){0};
        dyn_spend(r.spent);
        if (r.cache == NULL && r.spent.at != NULL) {
            dyn_hook_release(); /* dyn_hook_resume needed it for this alone */
        }
        return r.cache != NULL ? record_frame(ts, f, r.cache, func) : dyn_frame_default_eval(ts, f, 0);
    }
    if (dyn_record_wants(ts, f)) {
        return dyn_record_inlined(ts, f);
    }
    if (DYN_UNLIKELY(dyn_cpy_deep_in_stack())) {
        return step_aside(ts, f);
    }
    bool served = dyn_hook_serves_frames && !is_busy();
    if (served && PyFunction_Check(func) && !dyn_hit_is_starting(func)) {
        return enabled_frame(ts, f);
    }
    return dyn_frame_default_eval(ts, f, 0);
}

void dyn_hook_need(void) {
    if (needs++ == 0 || dyn_hook_get() == NULL) { /* one that was put above ours meanwhile passes on to ours */
        dyn_hook_set(hook);
    }
}

bool dyn_hook_step_out(void) {
    bool ours = dyn_hook_get() == hook && dyn_hook_foreign() == NULL;
    if (ours) {
        dyn_hook_set(NULL);
    }
    return dyn_hook_get() == NULL;
}

void dyn_hook_step_in(void) {
    if (needs > 0 && dyn_hook_get() == NULL) {
        dyn_hook_set(hook);
    }
}

void dyn_hook_release(void) {
    if (--needs == 0) {
        dyn_hook_set(NULL);
    }
}

void dyn_hook_enable(DynOptions *options) {
    dyn_hook_disable();
    dyn_options_incref(options);
    enabled = options;
    everything = dyn_options_wait(options) || dyn_options_config(options).record_all;
    dyn_hook_serves_frames = everything || !dyn_func_has_doors();
    if (everything) {
        dyn_hook_need();
    } else {
        dyn_finder_start(options);
    }
    dyn_hold_start();
}

void dyn_hook_disable(void) {
    if (enabled == NULL) {
        return;
    }
    DynOptions *old = enabled;
    enabled = NULL;
    dyn_hook_serves_frames = false;
    if (everything) {
        dyn_hook_release();
    } else {
        dyn_finder_stop();
    }
    dyn_hold_stop();
    dyn_known_forget_all();
    dyn_options_decref(old);
}
