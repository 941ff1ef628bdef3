/* cache.c: caches of entries, one for each code object: made, limited, forgotten; and the resume functions of a function.
 *
 * A door holds its cache; the hook's table holds those of functions met under enable(). A root cache owns the rows of its resume
 * functions, each with a door that holds its own cache. Entries are counted: a cache has one reference, a running call another.
 * GIL throughout. */
#include "base/torch.h"
#include "evalframe/follow.h"
#include "evalframe/hold.h"
#include "evalframe/known.h"
#include "evalframe/loops.h"
#include "ir/place.h"

#define MAX_EXCEPTIONS 16 /* calls that raised while they were recorded: each says little about the next */
#define MAX_TOLD 8        /* different refusals of a function that are kept to be told */
#define RECORDING_NS 5e5  /* what another recording of a function that nobody asked for is taken to cost */

static DynCache *all_caches;
static uint32_t entries_made;

/* ---- what wasn't captured
 *
 * The text is written when it is asked for: to find a source line runs Python code, in which a signal's handler might raise. */

static bool is_told(const DynCache *root, const DynTold *new) {
    for (uint32_t i = 0; i < root->told.n; i++) {
        const DynTold *t = &root->told.at[i];
        bool same = t->why == new->why && t->place.code == new->place.code;
        if (same && t->place.line == new->place.line && t->place.col == new->place.col) {
            return true;
        }
    }
    return false;
}

void dyn_cache_tell(DynCache *root, DynReason why, const DynPlace *place) {
    bool says_nothing = why == DYN_R_NO_ARRAYS && root->told.n > 0; /* the rest of a function whose work wasn't captured */
    DynTold told = {.why = why};
    if (place != NULL && place->code != NULL) {
        told.place = *place;
    }
    if (says_nothing || root->told.n >= MAX_TOLD || is_told(root, &told)) {
        return;
    }
    told.code = told.place.code == NULL ? NULL : PyWeakref_NewRef(told.place.code, NULL);
    bool short_of_memory = told.place.code != NULL && told.code == NULL;
    PyErr_Clear();
    if (short_of_memory || dyn_vec_push(&root->told, told) < 0) { /* it isn't told, then */
        Py_XDECREF(told.code);
    }
}

PyObject *dyn_cache_refusals(const DynCache *root) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < root->told.n; i++) {
        const DynTold t = root->told.at[i];
        DynStr s = {0};
        PyObject *code = t.code == NULL ? NULL : PyObject_CallNoArgs(t.code); /* None: it is dead */
        bool placed = code != NULL && code != Py_None;
        dyn_report_reason(&s, t.why, NULL, placed ? &t.place : NULL);
        dyn_debug_add_text(&list, &s);
        Py_XDECREF(code);
    }
    if (root->entries.n == 0) { /* of a function that is captured they are no business of its */
        dyn_loops_add_refusals(root, &list);
    }
    return list;
}

static void forget_told(DynCache *c) {
    while (c->told.n > 0) {
        DynTold t = c->told.at[--c->told.n];
        Py_XDECREF(t.code);
    }
    dyn_vec_free(&c->told);
}

/* ---- entries */

DynEntry *dyn_entry_new(DynCapture *capture) {
    DynEntry *e = PyMem_RawCalloc(1, sizeof *e);
    if (e == NULL) {
        dyn_capture_free(capture);
        return NULL;
    }
    e->refs = 1;
    e->capture = capture;
    e->number = entries_made++;
    return e;
}

int dyn_entry_slots(DynEntry *e, DynVisitSlot *visit, void *arg) {
    int stop = e->guards == NULL ? 0 : dyn_guards_slots(e->guards, visit, arg);
    return stop != 0 ? stop : dyn_capture_slots(e->capture, visit, arg);
}

static int forget_loose(PyObject **slot, void *arg) {
    if (dyn_hold_is_loose(*slot)) {
        *slot = NULL;
    }
    return 0;
}

void dyn_entry_decref(DynEntry *e) {
    if (--e->refs > 0) {
        return;
    }
    DynRaised before = dyn_callback_begin(); /* what dies here may run destructors */
    dyn_memory_left(e);
    dyn_entry_slots(e, forget_loose, NULL);
    if (e->runner != NULL) {
        dyn_hit_runner_detach(e->runner);
    }
    if (e->options != NULL) {
        dyn_options_decref(e->options);
    }
    Py_XDECREF(e->runner);
    Py_XDECREF(e->handed);
    dyn_plain_free(&e->waiting);
    dyn_plain_free(&e->aside);
    dyn_plain_free(&e->around);
    Py_XDECREF(e->function);
    Py_XDECREF(e->code);
    for (int i = 0; i < DYN_WAYS; i++) {
        if (e->goes_on[i] != NULL) {
            dyn_hit_continuation_detach(e->goes_on[i]);
        }
        Py_XDECREF(e->goes_on[i]);
        Py_XDECREF(e->resume[i]);
    }
    if (e->follow != NULL) {
        dyn_follow_free(e->follow);
    }
    if (e->artifact != NULL) {
        dyn_artifact_decref(e->artifact);
    }
    if (e->guards != NULL) {
        dyn_guards_free(e->guards);
    }
    dyn_capture_free(e->capture);
    PyMem_RawFree(e);
    dyn_callback_end(before);
}

/* ---- caches */

DynCache *dyn_cache_new(PyObject *code, DynOptions *options) {
    DynCache *c = PyMem_RawCalloc(1, sizeof *c);
    if (c == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    c->refs = 1;
    c->code = Py_NewRef(code);
    c->options = options;
    dyn_options_incref(options);
    c->return_at = DYN_NONE;
    dyn_profit_clear(&c->profit);
    dyn_bind_signature((PyCodeObject *)code, &c->sig);
    c->next = all_caches;
    if (all_caches != NULL) {
        all_caches->previous = c;
    }
    all_caches = c;
    return c;
}

void dyn_cache_incref(DynCache *c) { c->refs++; }

DynTitle dyn_cache_title(const DynCache *c) {
    const DynCache *root = c->root != NULL ? c->root : c;
    PyCodeObject *code = (PyCodeObject *)root->code;
    PyObject *given = root->options->dict == NULL ? NULL : PyDict_GetItemString(root->options->dict, "title");
    if (given == NULL) {
        return (DynTitle){code->co_qualname, code->co_filename, code->co_firstlineno};
    }
    return (DynTitle){PyTuple_GET_ITEM(given, 0), PyTuple_GET_ITEM(given, 1), (int)PyLong_AsLong(PyTuple_GET_ITEM(given, 2))};
}

DynCache *dyn_cache_first(void) { return all_caches; }

static void free_resume(DynResume row) {
    dyn_door_cache(row.door)->root = NULL;
    PyMem_RawFree(row.shape);
    Py_DECREF(row.door);
    Py_DECREF(row.code);
    if (!dyn_hold_is_loose(row.of)) {
        Py_XDECREF(row.of);
    }
}

static void free_resumes(DynCache *c) {
    while (c->resumes.n > 0) {
        free_resume(c->resumes.at[--c->resumes.n]);
    }
    dyn_vec_free(&c->resumes);
}

void dyn_cache_sweep_resumes(DynCache *root) {
    for (uint32_t i = root->resumes.n; i-- > 0;) {
        DynResume row = i < root->resumes.n ? root->resumes.at[i] : (DynResume){.of = root->code};
        if (row.of == NULL && Py_REFCNT(row.door) == 1) {
            root->resumes.at[i] = root->resumes.at[--root->resumes.n];
            free_resume(row);
        }
    }
}

void dyn_cache_clear(DynCache *c) {
    c->refs++;
    c->refusals = c->without_arrays = c->exceptions = c->replaced = 0;
    c->dead = DYN_R_OK;
    c->idle = false;
    forget_told(c);
    dyn_profit_clear(&c->profit);
    dyn_loop_clear(c);
    dyn_loops_drop(c);
    while (c->entries.n > 0) {
        dyn_entry_decref(c->entries.at[--c->entries.n]);
    }
    dyn_vec_free(&c->entries);
    free_resumes(c);
    dyn_cache_decref(c);
}

void dyn_cache_decref(DynCache *c) {
    if (c->refs > 1) {
        c->refs--;
        return;
    }
    if (c->entries.n > 0 || c->resumes.n > 0 || c->loops != NULL) {
        dyn_cache_clear(c);
        dyn_cache_decref(c); /* now there is nothing left to clear */
        return;
    }
    *(c->previous != NULL ? &c->previous->next : &all_caches) = c->next;
    if (c->next != NULL) {
        c->next->previous = c->previous;
    }
    PyObject *code = dyn_hold_is_loose(c->code) ? NULL : c->code;
    DynOptions *options = c->options;
    dyn_hold_forget(c);
    dyn_vec_free(&c->entries);
    dyn_vec_free(&c->resumes);
    forget_told(c);
    dyn_profit_clear(&c->profit);
    dyn_loop_clear(c);
    PyMem_RawFree(c);
    dyn_options_decref(options);
    Py_XDECREF(code);
}

/* Is there anything in the cache that dyn_cache_clear would take out? */
static bool is_dirty(const DynCache *c) {
    bool tried = c->dead != DYN_R_OK || c->refusals + c->without_arrays + c->exceptions > 0;
    return tried || c->entries.n > 0 || c->resumes.n > 0 || c->loops_known;
}

void dyn_cache_reset_all(void) {
    /* What dies may run code that makes or frees caches, so each round starts from the beginning, and ends when all are clear. */
    for (DynCache *c = all_caches; c != NULL;) {
        bool dirty = is_dirty(c);
        if (dirty) {
            dyn_cache_clear(c);
        }
        c = dirty ? all_caches : c->next;
    }
}

int dyn_cache_add(DynCache *c, DynEntry *e) {
    if (dyn_vec_reserve(&c->entries, c->entries.n + 1) < 0) {
        dyn_entry_decref(e);
        return -1;
    }
    dyn_loops_forget_door(c); /* it isn't left to CPython any more */
    memmove(c->entries.at + 1, c->entries.at, c->entries.n * sizeof *c->entries.at);
    c->entries.at[0] = e;
    c->entries.n++;
    c->nsrc = c->nsrc > e->nsrc ? c->nsrc : e->nsrc;
    c->nsym = c->nsym > e->nsym ? c->nsym : e->nsym;
    dyn_memory_entered(e);
    return 0;
}

bool dyn_cache_remove(DynCache *c, DynEntry *e) {
    uint32_t i = 0;
    while (i < c->entries.n && c->entries.at[i] != e) {
        i++;
    }
    if (i == c->entries.n) {
        return false;
    }
    c->entries.n--;
    memmove(c->entries.at + i, c->entries.at + i + 1, (c->entries.n - i) * sizeof *c->entries.at);
    dyn_entry_decref(e);
    return true;
}

bool dyn_cache_make_room(DynCache *c, int64_t limit) {
    if ((int64_t)c->entries.n < limit) {
        return true;
    }
    DynEntry *coldest = NULL;
    for (uint32_t i = 0; i < c->entries.n && (int64_t)c->replaced < limit; i++) {
        DynEntry *e = c->entries.at[i];
        bool replaceable = !e->found && e->refs == 1;
        if (replaceable && (coldest == NULL || e->used < coldest->used)) {
            coldest = e;
        }
    }
    if (coldest == NULL) {
        return false;
    }
    dyn_entry_incref(coldest); /* loggers run Python code */
    c->replaced++;
    dyn_count("cache", "replaced");
    dyn_log(DYN_LOG_cache, "%s has %u entries: entry %u goes, which no call has found", coldest->capture->graph.name,
            c->entries.n, coldest->number);
    dyn_cache_remove(c, coldest);
    dyn_entry_decref(coldest);
    return (int64_t)c->entries.n < limit;
}

static bool given_array(PyObject *const *args, size_t n) {
    bool given = false;
    for (size_t i = 0; i < n && !given; i++) {
        given = args[i] != NULL && dyn_array_is(args[i]);
    }
    return given;
}

/* Calls without arrays were tried and gave nothing: from now on only one that is handed an array is recorded. The arguments may
 * be bound, NULL where a slot has none, or not. */
static bool lacks_arrays(const DynCache *c, PyObject *const *args, size_t n) {
    return dyn_cache_wants_arrays(c) && !given_array(args, n);
}

void dyn_cache_want_arrays(DynCache *c) { c->without_arrays = DYN_CACHE_TRIES; }

void dyn_cache_begin_anew(DynCache *c) { c->without_arrays = c->useless = 0; }

void dyn_cache_try_no_more(DynCache *c) {
    if (c->without_arrays > 0) {
        c->without_arrays = DYN_CACHE_TRIES;
    }
}

bool dyn_cache_passes(const DynCache *c, PyObject *const *args, size_t n) {
    return c->entries.n == 0 && c->dead == DYN_R_OK && lacks_arrays(c, args, n);
}

static void give_up(DynCache *c, DynReason why) {
    c->dead = why;
    c->idle = c->entries.n == 0;
}

/* What holds for all of a function is counted, and told with its first line. */
static void tell_of_function(DynCache *c, DynReason why) {
    DynPlace place = {.code = c->code, .line = ((PyCodeObject *)c->code)->co_firstlineno};
    dyn_count_reason("refused", why);
    dyn_cache_tell(c->root != NULL ? c->root : c, why, &place);
}

bool dyn_cache_wakes(DynCache *c) {
    if (!dyn_cache_may_wake(c) || dyn_torch_records_gradients()) {
        return false;
    }
    c->dead = DYN_R_OK;
    c->idle = false;
    c->refusals = 0;
    return true;
}

/* Was a call with values of these kinds recorded, and was that long and came to nothing? What it came to is then said once more.
 */
static bool was_for_nothing(DynCache *c, PyObject *const *slots) {
    uint64_t kinds = c->root == NULL && !given_array(slots, c->sig.nargs) ? dyn_loops_kinds(slots, (uint32_t)c->sig.nargs) : 0;
    DynReason why = c->for_nothing;
    bool again = kinds != 0 && why != DYN_R_OK && kinds == c->kinds;
    c->kinds = kinds;
    if (again) {
        dyn_cache_refused(c, why);
    }
    return again;
}

bool dyn_cache_may_record(DynCache *c, PyObject *const *slots) {
    bool disabled = c->root != NULL && c->root->dead == DYN_R_DISABLED;
    bool given_up = c->dead != DYN_R_OK && !dyn_cache_wakes(c);
    if (disabled || given_up || c->recording) {
        return false;
    }
    if (dyn_known_is_skipped(c->code)) {
        give_up(c, DYN_R_DISABLED);
        tell_of_function(c, DYN_R_SKIPPED_CALL);
        return false;
    }
    if (lacks_arrays(c, slots, c->sig.nargs)) {
        return false;
    }
    if (c->quiet && dyn_profit_is_measured(c) && !dyn_budget_affords(RECORDING_NS)) {
        dyn_count("profit", "recordings postponed");
        return false;
    }
    if (!dyn_cache_make_room(c, dyn_options_config(c->options).cache_limit)) {
        const char *name = PyUnicode_AsUTF8(((PyCodeObject *)c->code)->co_qualname);
        give_up(c, DYN_R_CACHE_LIMIT);
        tell_of_function(c, DYN_R_CACHE_LIMIT);
        if (!c->quiet) {
            dyn_warn_once(DYN_R_CACHE_LIMIT, "%s has %u", name ? name : "function", c->entries.n);
        }
        PyErr_Clear();
        return false;
    }
    return !was_for_nothing(c, slots);
}

void dyn_cache_refused(DynCache *c, DynReason why) {
    if (why == DYN_R_NO_ARRAYS && c->without_arrays < DYN_CACHE_TRIES) {
        c->without_arrays++;
        return;
    }
    if (why == DYN_R_TRACING || why == DYN_R_RECURSION) {
        return;
    }
    if (why == DYN_R_EXCEPTION && ++c->exceptions < MAX_EXCEPTIONS) {
        return;
    }
    if (++c->refusals >= DYN_CACHE_TRIES) {
        give_up(c, why);
    }
}

/* ---- resume functions */

/* Do two rows of n flags say the same? Either may be NULL where n is 0. */
static bool same_flags(const bool *a, const bool *b, uint32_t n) { return n == 0 || memcmp(a, b, n * sizeof(bool)) == 0; }

static bool same_shape(const DynResume *row, const DynCode *code, const DynFrameShape *s, uint32_t nslots, PyObject *func) {
    if (row->of != (PyObject *)code->code || row->at != s->at) {
        return false;
    }
    if (PyFunction_GET_GLOBALS(dyn_door_function(row->door)) != PyFunction_GET_GLOBALS(func)) {
        return false;
    }
    if (row->nstack != s->nstack || row->nslots != nslots) {
        return false;
    }
    return same_flags(row->shape, s->bound, nslots) && same_flags(row->shape + nslots, s->null_stack, s->nstack);
}

/* The function of a resume code: closure cells come as arguments, so it is like the recorded function in its globals alone. */
static PyObject *resume_function(PyObject *code, PyObject *func) {
    PyObject *f = PyFunction_New(code, PyFunction_GET_GLOBALS(func));
    PyObject *closure = PyFunction_GET_CLOSURE(func);
    int nfree = dyn_code_nfree((PyCodeObject *)code);
    if (f != NULL && nfree > 0) {
        if (closure == NULL || PyTuple_GET_SIZE(closure) != nfree) {
            PyErr_SetString(PyExc_SystemError, "resume code and function have different closures");
            Py_CLEAR(f);
        } else if (PyFunction_SetClosure(f, closure) < 0) {
            Py_CLEAR(f);
        }
    }
    return f;
}

static uint32_t code_units(PyCodeObject *code) {
    PyObject *bytes = dyn_cpy_code_bytes(code);
    uint32_t n = bytes == NULL ? 0 : (uint32_t)(PyBytes_GET_SIZE(bytes) / 2);
    Py_XDECREF(bytes);
    return n;
}

static int make_resume(DynCache *root, const DynCode *code, const DynFrameShape *shape, PyObject *func, uint32_t nslots,
                       DynResume *row) {
    PyObject *f = NULL;
    DynCache *cache = NULL;
    row->shape = PyMem_RawMalloc((nslots + shape->nstack + 1) * sizeof(bool));
    row->code = dyn_asm_resume(code, shape);
    if (row->shape != NULL && row->code != NULL) {
        f = resume_function(row->code, func);
        cache = f == NULL ? NULL : dyn_cache_new(row->code, root->options);
    }
    if (cache != NULL) {
        cache->root = root;
        cache->need_arrays = root->need_arrays;
        cache->quiet = root->quiet;
        row->door = dyn_door_new(f, cache, false);
        dyn_cache_decref(cache);
    }
    Py_XDECREF(f);
    if (row->door == NULL) {
        PyErr_Clear();
        Py_XDECREF(row->code);
        PyMem_RawFree(row->shape);
        return -1;
    }
    memcpy(row->shape, shape->bound, nslots * sizeof(bool));
    if (shape->nstack > 0) {
        memcpy(row->shape + nslots, shape->null_stack, shape->nstack * sizeof(bool));
    }
    row->of = Py_NewRef((PyObject *)code->code);
    row->at = shape->at;
    row->nslots = nslots;
    row->nstack = shape->nstack;
    row->shift = (int32_t)code_units((PyCodeObject *)row->code) - (int32_t)code->nunits;
    return 0;
}

DynResume *dyn_cache_resume(DynCache *root, const DynCode *code, const DynFrameShape *shape, PyObject *func) {
    uint32_t nslots = (uint32_t)dyn_code_nlocalsplus(code->code);
    for (uint32_t i = 0; i < root->resumes.n; i++) {
        if (same_shape(&root->resumes.at[i], code, shape, nslots, func)) {
            return &root->resumes.at[i];
        }
    }
    DynResume row = {0};
    if (dyn_vec_reserve(&root->resumes, root->resumes.n + 1) < 0 || make_resume(root, code, shape, func, nslots, &row) < 0) {
        return NULL;
    }
    root->resumes.at[root->resumes.n] = row;
    return &root->resumes.at[root->resumes.n++];
}

DynCache *dyn_cache_of_code(DynCache *root, PyObject *code, DynResume **row) {
    *row = NULL;
    if (root->code == code) {
        return root;
    }
    for (uint32_t i = 0; i < root->resumes.n; i++) {
        if (root->resumes.at[i].code == code) {
            *row = &root->resumes.at[i];
            return dyn_door_cache(root->resumes.at[i].door);
        }
    }
    return NULL;
}

/* ---- for the collector: objects of which this cache has the only counted reference */

typedef struct Visit {
    visitproc visit;
    void *arg;
} Visit;

static int visit_slot(PyObject **slot, void *arg) {
    const Visit *v = arg;
    return dyn_hold_is_loose(*slot) ? 0 : v->visit(*slot, v->arg);
}

static int traverse_entry(DynEntry *e, visitproc visit, void *arg) {
    if (e->refs > 1) {
        return 0;
    }
    Py_VISIT(e->function);
    Py_VISIT(e->waiting.function);
    Py_VISIT(e->aside.function);
    Py_VISIT(e->around.function);
    Py_VISIT(e->handed);
    for (int i = 0; i < DYN_WAYS; i++) {
        Py_VISIT(e->resume[i]);
    }
    return dyn_entry_slots(e, visit_slot, &(Visit){visit, arg});
}

int dyn_cache_traverse(DynCache *c, visitproc visit, void *arg) {
    if (c->refs > 1) {
        return 0;
    }
    for (uint32_t i = 0; i < c->entries.n; i++) {
        int stop = traverse_entry(c->entries.at[i], visit, arg);
        if (stop != 0) {
            return stop;
        }
    }
    for (uint32_t i = 0; i < c->resumes.n; i++) {
        Py_VISIT(c->resumes.at[i].door);
    }
    return dyn_loops_traverse(c, visit, arg);
}
