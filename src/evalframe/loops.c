/* loops.c: what is known of a function's loops: loop code, the regions of each loop, and whether its way is open.
 *
 * cache.c owns a DynLoops for each function that has one; loops_arrive.c asks here for a region when a header is arrived at. A
 * loop is planned when it is first arrived at, its way is closed while the compiler works, and open when there is native code:
 * that is looked at by a call that CPython makes between two instructions (Py_AddPendingCall, asked for by the build thread), so
 * that a loop that runs becomes native in its middle. */
#include "evalframe/loops.h"
#include "base/torch.h"
#include "evalframe/hook.h"
#include "evalframe/ticks.h"
#include "ir/place.h"

#define ANEW_NS 5e7 /* of calls in loop code, of which planning it again takes some hundredths */

static const DynLoopEngine native = {dyn_region_headers,  dyn_region_plan, dyn_region_build, dyn_region_state,
                                     dyn_region_failure,  dyn_region_run,  dyn_region_exit,  dyn_region_print_source,
                                     dyn_region_traverse, dyn_region_free};
const DynLoopEngine *dyn_loop_engine = &native;
static DynLoops *all_loops;

/* ---- ways */

bool dyn_loops_open(DynLoops *l, uint32_t i, bool open) {
    if (l->made == NULL) {
        return false;
    }
    const DynLoopWay *w = &l->made->ways[i];
    DynLoop *loop = &l->loops[i];
    bool done = loop->open == open ||
                dyn_code_swap_unit((PyCodeObject *)l->made->code, w->at, open ? w->closed : w->open, open ? w->open : w->closed);
    loop->open = done ? open : loop->open;
    return done;
}

/* ---- what is said of a loop */

static void place_of(const DynLoops *l, uint32_t unit, DynPlace *place) {
    int line, end_line, col, end_col;
    dyn_cpy_code_position((PyCodeObject *)l->code, unit, &line, &end_line, &col, &end_col);
    *place = (DynPlace){.code = l->code, .line = line, .end_line = end_line, .col = col, .end_col = end_col};
}

static void say_what(const DynLoops *l, uint32_t at, const char *what) {
    DynPlace place;
    DynStr s = {0};
    place_of(l, at, &place);
    dyn_str_printf(&s, "%s\n", what);
    dyn_report_place(&s, &place);
    dyn_log_text(DYN_LOG_loops, dyn_str_at(&s));
    dyn_str_free(&s);
}

static void say_why(DynLoops *l, const DynRegionRefusal *why) {
    DynPlace place;
    DynStr s = {0};
    place_of(l, why->at, &place);
    if (dyn_log_on(DYN_LOG_loops)) {
        dyn_report_reason(&s, why->reason, why->detail[0] != 0 ? why->detail : NULL, &place);
        dyn_log(DYN_LOG_loops, "a loop stays in CPython: %s", dyn_str_at(&s));
        dyn_str_free(&s);
    }
}

static uint32_t nnews; /* of all functions */

static void bring(DynLoops *l, const DynLoopNews *news) {
    if (!l->recording) {
        if (news->what != NULL) {
            say_what(l, news->refusal.at, news->what);
        } else {
            say_why(l, &news->refusal);
        }
    } else if (l->nnews < DYN_MOST_NEWS) {
        l->news[l->nnews++] = *news;
        nnews++;
    }
}

void dyn_loops_say_news(void) {
    for (DynLoops *l = nnews > 0 ? all_loops : NULL, *next; l != NULL; l = next) {
        l->refs++;
        while (l->nnews > 0) {
            const DynLoopNews news = l->news[--l->nnews];
            nnews--;
            bring(l, &news);
        }
        next = l->following;
        dyn_loops_decref(l);
    }
}

static void say(DynLoops *l, uint32_t i, const char *what) {
    if (dyn_log_on(DYN_LOG_loops)) {
        bring(l, &(DynLoopNews){what, {.at = l->headers[i]}});
    }
}

static void say_refusal(DynLoops *l, uint32_t i, DynReason reason, uint32_t at, const char *detail) {
    DynLoopNews news = {NULL, {.reason = reason, .at = at}};
    snprintf(news.refusal.detail, sizeof news.refusal.detail, "%s", detail != NULL ? detail : "");
    l->loops[i].why = news.refusal;
    dyn_count("loops", "refused");
    bring(l, &news);
}

/* ---- regions */

static void remove_region(DynLoops *l, DynLoop *loop, uint32_t k) {
    DynRegion *r = loop->regions[k];
    loop->nregions--;
    memmove(loop->regions + k, loop->regions + k + 1, (loop->nregions - k) * sizeof(DynRegion *));
    l->engine->free(r);
}

/* Does loop code have all places at which the region may be left? */
static bool fits(const DynLoops *l, uint32_t i, const DynRegion *r) {
    const DynLoopWay *w = &l->made->ways[i];
    uint32_t at, depth;
    for (uint32_t k = 0; l->engine->exit(r, k, &at, &depth); k++) {
        bool found = false;
        for (uint32_t p = 0; p < w->nplaces && !found; p++) {
            found = w->places[p] == at && (uint32_t)l->made->depth[at] == depth;
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

/* Is it native, or will it be? */
static bool stands(const DynLoop *loop) {
    return loop->state == DYN_LOOP_COLD || loop->state == DYN_LOOP_WAITING || loop->state == DYN_LOOP_NATIVE;
}

static bool is_waiting(const DynLoop *loop) { return loop->state == DYN_LOOP_WAITING; }

/* Is it nested in a loop of which that is true? */
static bool is_within(const DynLoops *l, uint32_t i, bool (*is)(const DynLoop *)) {
    for (uint32_t k = 0; k < l->nloops; k++) {
        if (is(&l->loops[k]) && l->made != NULL && (l->made->ways[k].inner >> i & 1) != 0) {
            return true;
        }
    }
    return false;
}

/* Ways are as the states of all loops say. In a loop that is native, or will be, none is planned alone; one that is cold is left
 * alone while the compiler works on a loop around it. */
static void set_ways(DynLoops *l) {
    for (uint32_t i = 0; i < l->nloops; i++) {
        DynLoopState state = l->loops[i].state;
        bool fresh = state == DYN_LOOP_NEW && !is_within(l, i, stands);
        bool cold = state == DYN_LOOP_COLD && !l->loops[i].rests && !is_within(l, i, is_waiting);
        dyn_loops_open(l, i, fresh || cold || state == DYN_LOOP_NATIVE);
    }
}

static void settle(DynLoops *l, uint32_t i, DynLoopState state) {
    DynLoop *loop = &l->loops[i];
    l->nwaiting += (uint32_t)(state == DYN_LOOP_WAITING) - (loop->state == DYN_LOOP_WAITING);
    loop->state = state;
    loop->rests = false;
    set_ways(l);
}

void dyn_loops_rouse(DynLoops *l, uint32_t i) {
    l->loops[i].rests = false;
    set_ways(l);
}

DynLoops *dyn_loops_with_code(PyObject *code) {
    DynLoops *l = all_loops;
    while (l != NULL && (l->made == NULL || l->made->code != code)) {
        l = l->following;
    }
    return l;
}

/* Is any loop of the function native, or may it yet be? Otherwise its calls are what they were before. Where nobody measures
 * whether graphs would pay, a loop that was retired is CPython's with the function around it. */
static void look_at_all(DynLoops *l) {
    bool any = false, measured = l->cache != NULL && dyn_profit_is_measured(l->cache);
    for (uint32_t i = 0; i < l->nloops; i++) {
        any |= stands(&l->loops[i]) || (l->loops[i].state == DYN_LOOP_RETIRED && !measured);
    }
    if (!any && l->cache != NULL) {
        l->cache->loops_on = false;
    }
}

/* The newest region's code is there, or never will be. */
static void look_at_build(DynLoops *l, uint32_t i) {
    DynLoop *loop = &l->loops[i];
    DynRegionState state = l->engine->state(loop->regions[0]);
    if (state == DYN_REGION_WAITING) {
        settle(l, i, DYN_LOOP_WAITING);
    } else if (state == DYN_REGION_READY) {
        dyn_count("loops", "native");
        settle(l, i, DYN_LOOP_NATIVE);
        dyn_loops_begin_inner(l, i);
        say(l, i, loop->function ? "a function that calls itself runs natively" : "a loop runs natively");
    } else {
        const char *detail = NULL;
        DynReason why = l->engine->failure(loop->regions[0], &detail);
        say_refusal(l, i, why != DYN_R_OK ? why : DYN_R_LOAD_FAILED, l->headers[i], detail);
        remove_region(l, loop, 0);
        settle(l, i, loop->nregions > 0 ? DYN_LOOP_NATIVE : DYN_LOOP_REFUSED);
        look_at_all(l);
    }
}

/* Loop code is made when the first region is planned. */
int dyn_loops_complete(DynLoops *l) {
    PyObject *ways[DYN_MOST_LOOPS];
    if (l->made != NULL) {
        return 0;
    }
    l->decoded = l->decoded != NULL ? l->decoded : dyn_decode((PyCodeObject *)l->code);
    for (uint32_t i = 0; i < l->nloops && l->decoded != NULL; i++) {
        PyObject **way = &l->loops[i].way_in;
        *way = *way != NULL ? *way : dyn_way_in_new(l, i);
        if (*way == NULL) {
            PyErr_Clear();
            return -1;
        }
        ways[i] = *way;
    }
    DynCode *own = l->names != NULL ? dyn_decode((PyCodeObject *)l->code) : l->decoded;
    l->made = own == NULL ? NULL : dyn_asm_loops(own, l->headers, ways, l->nloops, &l->called);
    if (own != NULL && own != l->decoded) {
        dyn_decode_free(own);
    }
    PyErr_Clear();
    if (l->made == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < l->nloops; i++) {
        dyn_way_in_belongs_to(ways[i], l->made);
        for (uint32_t k = 0; k < l->nloops; k++) {
            l->loops[i].nested |= (l->made->ways[k].inner >> i & 1) != 0;
        }
    }
    set_ways(l);
    return 0;
}

static DynLoopState refuse(DynLoops *l, uint32_t i, const DynRegionRefusal *why) {
    say_refusal(l, i, why->reason, why->at, why->detail[0] != 0 ? why->detail : NULL);
    l->loops[i].refusals++;
    dyn_profit_postpone(&l->loops[i].next, &l->loops[i].patience);
    settle(l, i, DYN_LOOP_REFUSED);
    look_at_all(l);
    return DYN_LOOP_REFUSED;
}

DynLoopState dyn_loops_build(DynLoops *l, uint32_t i) {
    DynLoop *loop = &l->loops[i];
    DynRegion *r = loop->regions[0];
    bool wait = l->cache != NULL && dyn_options_wait(l->cache->options);
    l->refs++; /* waiting gives up the GIL */
    if (l->engine->build(r, wait) < 0) {
        const char *detail = NULL;
        DynReason reason = l->engine->failure(r, &detail);
        DynRegionRefusal why = {reason != DYN_R_OK ? reason : DYN_R_NO_MEMORY, l->headers[i], ""};
        snprintf(why.detail, sizeof why.detail, "%s", detail != NULL ? detail : "");
        remove_region(l, loop, 0);
        refuse(l, i, &why);
    } else if (loop->nregions > 0 && loop->regions[0] == r) {
        look_at_build(l, i);
    }
    DynLoopState state = loop->state;
    dyn_loops_decref(l);
    return state;
}

bool dyn_loops_may_put_off(const DynLoops *l) {
    return l->cache != NULL && !dyn_options_wait(l->cache->options) && l->engine == &native;
}

static DynLoopState begin_cold(DynLoops *l, uint32_t i) {
    dyn_loops_count_anew(l, i);
    settle(l, i, DYN_LOOP_COLD);
    return DYN_LOOP_COLD;
}

DynLoopState dyn_loops_put_off(DynLoops *l, uint32_t i, double worth_ns) {
    DynLoop *loop = &l->loops[i];
    if (dyn_loops_complete(l) < 0) {
        return refuse(l, i, &(DynRegionRefusal){DYN_R_INTERNAL, l->headers[i], "its function has no loop code"});
    }
    loop->worth_ns = worth_ns;
    for (uint32_t k = 0; k < l->nloops; k++) { /* what it is nested in is planned as a whole */
        const DynLoop *outer = &l->loops[k];
        bool around = (l->made->ways[k].inner >> i & 1) != 0 && outer->state == DYN_LOOP_COLD && outer->nregions == 0;
        loop->worth_ns = around && outer->worth_ns > loop->worth_ns ? outer->worth_ns : loop->worth_ns;
    }
    return begin_cold(l, i);
}

static bool any_planned;
bool dyn_loops_any_planned(void) { return any_planned; }

static uint64_t kinds_of(const DynCode *c, PyObject *const *slots, uint32_t nstack) {
    return dyn_loops_kinds(slots, (uint32_t)dyn_code_nlocalsplus(c->code) + nstack);
}

DynLoopState dyn_loops_plan(DynLoops *l, uint32_t i, const DynCode *decoded, PyObject *const *slots, uint32_t nstack,
                            PyObject *globals, PyObject *builtins) {
    DynLoop *loop = &l->loops[i];
    DynRegionRefusal why = {.reason = DYN_R_CACHE_LIMIT, .at = l->headers[i]};
    bool room = loop->nregions < DYN_LOOP_VERSIONS && l->cache != NULL;
    unsigned unless = l->recording ? (l->few_trips ? DYN_UNLESS_PATHS : 0) | (l->unrolled ? DYN_UNLESS_ARRAYS : 0) : 0;
    DynRegion *r = room ? l->engine->plan(decoded, l->headers[i], slots, nstack, globals, builtins, unless, &why) : NULL;
    any_planned = true;
    if (r != NULL && loop->nregions == DYN_LOOP_VERSIONS) { /* another thread was faster: planning may run Python code */
        l->engine->free(r);
        r = NULL;
    }
    if (r == NULL && loop->function && (loop->nregions > 0 || why.unless != 0) && loop->tried++ < DYN_MOST_TRIED) {
        return loop->state; /* another call may have other values */
    }
    if (r == NULL && why.unless != 0 && !loop->function) {
        loop->left_to_graph = true;
        say(l, i,
            why.unless == DYN_UNLESS_PATHS ? "a loop is left to the graph, for the array operations on some of its paths"
                                           : "a loop is left to the graph, which has its few trips one behind the other");
        return DYN_LOOP_NEW;
    }
    if (r == NULL) {
        if (loop->refusals < DYN_MOST_REFUSALS) {
            loop->refused_as[loop->refusals] = kinds_of(decoded, slots, nstack);
        }
        return refuse(l, i, &why);
    }
    if (dyn_loops_complete(l) < 0 || !fits(l, i, r)) {
        l->engine->free(r);
        return refuse(l, i, &(DynRegionRefusal){DYN_R_INTERNAL, l->headers[i], "a place where it is left has no way out"});
    }
    memmove(loop->regions + 1, loop->regions, loop->nregions * sizeof(DynRegion *));
    loop->regions[0] = r;
    loop->nregions++;
    dyn_count("loops", "planned");
    const DynOptions *o = l->cache->options;
    bool can_wait = loop->state != DYN_LOOP_COLD && (l->cache->quiet || (l->recording && l->short_loop));
    if (can_wait && !dyn_options_wait(o) && loop->nregions == 1) {
        return begin_cold(l, i);
    }
    return dyn_loops_build(l, i);
}

void dyn_loops_retire(DynLoops *l, uint32_t i) {
    DynLoop *loop = &l->loops[i];
    dyn_profit_postpone(&loop->next, &loop->patience);
    dyn_count("loops", "retired");
    settle(l, i, DYN_LOOP_RETIRED);
    say(l, i,
        loop->function ? "a function that calls itself is CPython's for a while: it gains too little"
                       : "a loop is CPython's for a while: it is left again too soon");
    look_at_all(l);
}

/* ---- what the build thread has done */

void dyn_loops_poll(void) {
    dyn_build_poll();
    for (DynLoops *l = all_loops, *next; l != NULL; l = next) {
        l->refs++;
        for (uint32_t i = 0; i < l->nloops && l->nwaiting > 0; i++) {
            if (l->loops[i].state == DYN_LOOP_WAITING) {
                look_at_build(l, i);
            }
        }
        next = l->following;
        dyn_loops_decref(l);
    }
}

static int poll_pending(void *unused) {
    DynRaised before = dyn_callback_begin();
    dyn_loops_poll();
    dyn_callback_end(before);
    return 0;
}

static bool may_be_planned_again(const DynLoop *loop) {
    return loop->state == DYN_LOOP_REFUSED && loop->nregions == 0 && loop->refusals < DYN_MOST_REFUSALS;
}

/* A retired loop is tried again when its time has come, and one that was refused: with other values it may be planned. */
static void try_again(DynLoops *l) {
    for (uint32_t i = 0; i < l->nloops; i++) {
        DynLoop *loop = &l->loops[i];
        if (may_be_planned_again(loop) && dyn_cycles() >= loop->next) {
            settle(l, i, DYN_LOOP_NEW);
        }
        if (loop->state == DYN_LOOP_RETIRED && dyn_cycles() >= loop->next) {
            loop->entered = 0;
            loop->inside = 0;
            loop->trips = 0;
            loop->weighed = loop->looked_at = loop->compared = false;
            settle(l, i, loop->nregions > 0 ? DYN_LOOP_NATIVE : DYN_LOOP_NEW);
        }
    }
}

void dyn_loops_refresh(DynLoops *l) {
    if (l->nwaiting > 0) {
        dyn_loops_poll();
    }
    try_again(l);
    dyn_loops_rouse_forgotten(l);
    set_ways(l);
}

/* ---- made and dropped */

/* What dies here may run code that comes back to these loops. */
void dyn_loops_forget_regions(DynLoops *l) {
    l->refs++;
    for (uint32_t i = 0; i < l->nloops; i++) {
        DynLoop *loop = &l->loops[i];
        bool planned = loop->nregions > 0;
        while (loop->nregions > 0) {
            remove_region(l, loop, loop->nregions - 1);
        }
        if (planned && loop->state != DYN_LOOP_RETIRED && loop->state != DYN_LOOP_REFUSED) {
            settle(l, i, DYN_LOOP_NEW);
        }
    }
    dyn_loops_decref(l);
}

static void unlink_loops(DynLoops *l) {
    if (l->previous != NULL) {
        l->previous->following = l->following;
    } else if (all_loops == l) {
        all_loops = l->following;
    }
    if (l->following != NULL) {
        l->following->previous = l->previous;
    }
    l->previous = l->following = NULL;
}

void dyn_loops_decref(DynLoops *l) {
    if (--l->refs > 0) {
        return;
    }
    unlink_loops(l);
    dyn_loops_aim_at_nothing(l);
    nnews -= l->nnews;
    for (uint32_t i = 0; i < l->nloops; i++) {
        DynLoop *loop = &l->loops[i];
        while (loop->nregions > 0) {
            remove_region(l, loop, loop->nregions - 1);
        }
        if (loop->way_in != NULL) {
            dyn_way_in_detach(loop->way_in);
            Py_DECREF(loop->way_in);
        }
    }
    Py_XDECREF(l->function);
    Py_DECREF(l->code);
    if (l->made != NULL) {
        dyn_asm_loops_free(l->made);
    }
    if (l->decoded != NULL) {
        dyn_decode_free(l->decoded);
    }
    dyn_loop_names_free(l->names);
    PyMem_RawFree(l->loops);
    PyMem_RawFree(l);
}

/* Calls without arrays begin with loops again, though there may be nothing to record in them, where those paid for being planned
 * once more: a program may collect all the time. */
void dyn_loops_drop(DynCache *c) {
    DynLoops *l = c->loops;
    if (c->loops_on && dyn_cycles_ns((double)dyn_loops_ran(l)) >= ANEW_NS) {
        dyn_cache_begin_anew(c);
    }
    dyn_loops_forget_door(c);
    c->loops = NULL;
    c->loops_on = c->loops_known = c->calls_known = false;
    if (l != NULL) {
        l->cache = NULL;
        dyn_loops_aim_at_nothing(l);
        for (uint32_t i = 0; i < l->nloops; i++) {
            dyn_loops_open(l, i, false);
        }
        dyn_loops_decref(l);
    }
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* While a call runs the references of its loops aren't all of them. */
int dyn_loops_traverse(const DynCache *c, visitproc visit, void *arg) {
    const DynLoops *l = c->loops;
    if (l == NULL || l->refs > 1) {
        return 0;
    }
    Py_VISIT(l->function);
    for (uint32_t i = 0; i < l->nloops; i++) {
        for (uint32_t k = 0; k < l->loops[i].nregions; k++) {
            int stop = l->engine->traverse(l->loops[i].regions[k], visit, arg);
            if (stop != 0) {
                return stop;
            }
        }
    }
    return 0;
}

/* The engine's headers that loop code can have a way in at, ascending. */
static uint32_t headers_of(const DynCode *c, uint32_t *headers) {
    uint32_t own[DYN_MOST_LOOPS], n = dyn_loop_engine->headers(c, headers, DYN_MOST_LOOPS),
                                  nown = dyn_loop_headers(c, own, DYN_MOST_LOOPS);
    uint32_t kept = 0;
    if (n > DYN_MOST_LOOPS || nown > DYN_MOST_LOOPS) {
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < nown; k++) {
            if (own[k] == headers[i]) {
                headers[kept++] = headers[i];
                break;
            }
        }
    }
    qsort(headers, kept, sizeof *headers, compare);
    return kept;
}

static DynLoops *new_loops(DynCache *c, const DynCode *decoded, PyObject *func, const uint32_t *headers, uint32_t n) {
    DynLoops *l = PyMem_RawCalloc(1, sizeof *l);
    DynLoop *loops = l == NULL ? NULL : PyMem_RawCalloc(n + 1, sizeof *loops);
    if (loops == NULL) {
        PyMem_RawFree(l);
        return NULL;
    }
    l->refs = 1;
    l->cache = c;
    l->engine = dyn_loop_engine;
    l->code = Py_NewRef(c->code);
    l->loops = loops;
    l->nloops = n;
    for (uint32_t i = 0; i < n; i++) {
        l->headers[i] = headers[i];
        l->loops[i].function = decoded->at_unit[headers[i]] == decoded->head;
    }
    if (func != NULL) {
        dyn_loops_find_called(l, decoded, func);
    }
    l->following = all_loops;
    if (all_loops != NULL) {
        all_loops->previous = l;
    }
    all_loops = l;
    c->loops = l;
    return l;
}

/* May the function have loop code? */
static bool may_have_loops(const DynCache *c) {
    const DynOptions *o = c->options;
    bool ours = c->root == NULL && !o->eager && !o->fullgraph && !o->hands_on;
    return ours && dyn_options_config(o).loops && dyn_cpy_may_patch();
}

DynLoops *dyn_loops_of(DynCache *c, const DynCode *decoded, PyObject *func) {
    uint32_t headers[DYN_MOST_LOOPS], n = c->loops_known || !may_have_loops(c) ? 0 : headers_of(decoded, headers);
    c->loops_known = true;
    return n > 0 ? new_loops(c, decoded, func, headers, n) : c->loops;
}

DynLoops *dyn_loops_of_calls(DynCache *c, const DynCode *decoded, PyObject *func) {
    DynLoops *l = dyn_loops_of(c, decoded, func);
    return l == NULL && may_have_loops(c) ? new_loops(c, decoded, func, NULL, 0) : l;
}

/* ---- what a recording comes to */

/* Is it nested in a loop that was left to the graph? If this one is native, that has no graph any more, and is planned as a
 * whole. */
static bool is_in_one_left(const DynLoops *l, const DynCode *decoded, uint32_t header) {
    bool within = false;
    for (uint32_t k = 0; k < l->nloops && !within; k++) {
        bool *members = l->loops[k].left_to_graph ? dyn_loop_members(decoded, l->headers[k]) : NULL;
        within = members != NULL && l->headers[k] != header && members[decoded->at_unit[header]];
        PyMem_RawFree(members);
    }
    return within;
}

bool dyn_loops_take(DynCache *c, const DynCode *decoded, DynFrame *f, uint32_t header, PyObject *const *slots, uint32_t nstack,
                    uint32_t nnodes, PyObject **code, uint32_t *at) {
    DynLoops *l = dyn_loops_of(c, decoded, dyn_frame_func(f));
    uint32_t i = 0;
    if (l != NULL) {
        try_again(l);
    }
    while (l != NULL && i < l->nloops && l->headers[i] != header) {
        i++;
    }
    bool again = l != NULL && i < l->nloops && may_be_planned_again(&l->loops[i]);
    if (again && !dyn_loops_was_refused_as(&l->loops[i], kinds_of(decoded, slots, nstack))) { /* types have changed */
        settle(l, i, DYN_LOOP_NEW);
    }
    if (l == NULL || i == l->nloops || l->loops[i].state == DYN_LOOP_REFUSED || l->loops[i].state == DYN_LOOP_RETIRED) {
        return false;
    }
    DynLoopGuess guess;
    bool pays = dyn_loops_outweigh(decoded, header, slots, nstack, nnodes, 0, &guess);
    if (!pays) {
        double behind_ns = dyn_loops_behind(l, decoded, header, slots, dyn_frame_globals(f));
        pays = behind_ns > 0 && dyn_loops_outweigh(decoded, header, slots, nstack, nnodes, behind_ns, &guess);
    }
    if (!pays) {
        return false;
    }
    DynLoopState state = l->loops[i].state;
    bool later = (guess.short_loop || is_in_one_left(l, decoded, header)) && dyn_loops_may_put_off(l);
    if (state == DYN_LOOP_NEW && later && dyn_loops_may_come_later(f, decoded, header, slots, nstack, &guess)) {
        state = dyn_loops_put_off(l, i, guess.worth_ns);
    } else if (state == DYN_LOOP_NEW) {
        l->refs++;
        l->recording = true;
        l->unrolled = guess.unrolled;
        l->few_trips = guess.few_trips;
        l->short_loop = guess.short_loop;
        state = dyn_loops_plan(l, i, decoded, slots, nstack, dyn_frame_globals(f), dyn_frame_builtins(f));
        l->recording = false;
        dyn_loops_decref(l);
    }
    if (c->loops != l || l->made == NULL || state == DYN_LOOP_REFUSED || state == DYN_LOOP_NEW) {
        return false;
    }
    c->loops_on = true;
    dyn_loops_begin_frame(l);
    *code = l->made->code;
    *at = l->made->ways[i].at;
    return true;
}

/* ---- what became of them, for whoever asks */

static const char *said_of(DynLoopState state) {
    switch (state) {
    case DYN_LOOP_NATIVE: return "native";
    case DYN_LOOP_COLD: return "CPython's until it has run for a while";
    case DYN_LOOP_WAITING: return "waiting for the compiler";
    case DYN_LOOP_RETIRED: return "CPython's for a while: left again too soon";
    case DYN_LOOP_REFUSED: return "CPython's";
    case DYN_LOOP_NEW: break;
    }
    return NULL;
}

static void say_refused(const DynLoops *l, const DynRegionRefusal *why, DynStr *s) {
    DynPlace place;
    place_of(l, why->at, &place);
    dyn_report_reason(s, why->reason, why->detail[0] != 0 ? why->detail : NULL, &place);
}

PyObject *dyn_loops_list(const DynCache *c) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && c->loops != NULL && i < c->loops->nloops; i++) {
        const char *what = said_of(c->loops->loops[i].state);
        DynPlace place;
        DynStr s = {0};
        if (what == NULL) {
            continue;
        }
        place_of(c->loops, c->loops->headers[i], &place);
        dyn_str_printf(&s, "%s: ", what);
        dyn_report_place(&s, &place);
        if (c->loops->loops[i].state == DYN_LOOP_REFUSED) {
            dyn_str_puts(&s, "\n    ");
            say_refused(c->loops, &c->loops->loops[i].why, &s);
        }
        dyn_debug_add_text(&list, &s);
    }
    return list;
}

void dyn_loops_add_refusals(const DynCache *c, PyObject **list) {
    for (uint32_t i = 0; *list != NULL && c->loops != NULL && i < c->loops->nloops; i++) {
        DynStr s = {0};
        bool again = false; /* another loop says the same */
        for (uint32_t k = 0; k < i; k++) {
            const DynLoop *other = &c->loops->loops[k];
            again |= other->state == DYN_LOOP_REFUSED && other->why.at == c->loops->loops[i].why.at;
        }
        if (c->loops->loops[i].state == DYN_LOOP_REFUSED && !again) {
            say_refused(c->loops, &c->loops->loops[i].why, &s);
            dyn_debug_add_text(list, &s);
        }
    }
}

PyObject *dyn_loops_times(const DynCache *c) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && c->loops != NULL && i < c->loops->nloops; i++) {
        const DynWatched *w = &c->loops->loops[i].watched;
        DynPlace place;
        if (w->round != dyn_watch_round) {
            continue;
        }
        place_of(c->loops, c->loops->headers[i], &place);
        PyObject *file = ((PyCodeObject *)c->loops->code)->co_filename;
        PyObject *row = dyn_watch_row("loop", "native loop", file, (int)place.line, &w->run);
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

void dyn_loops_source(const DynCache *c, DynStr *out) {
    const DynLoops *l = c->loops;
    for (uint32_t i = 0; l != NULL && i < l->nloops; i++) {
        for (uint32_t k = 0; k < l->loops[i].nregions; k++) {
            l->engine->source(l->loops[i].regions[k], out);
        }
    }
}

/* ---- for tests */

static PyObject *loops_null(PyObject *module, PyObject *args) {
    Py_ssize_t after;
    if (!PyArg_ParseTuple(args, "n", &after)) {
        return NULL;
    }
    dyn_loop_null_leave(after);
    dyn_loop_engine = after < -1 ? &native : &dyn_loop_null;
    Py_RETURN_NONE;
}

static PyObject *loops_trips(PyObject *module, PyObject *iterator) { return PyLong_FromSsize_t(dyn_loops_trips_left(iterator)); }

static PyObject *loops_swap(PyObject *module, PyObject *args) {
    PyObject *code;
    unsigned at;
    Py_buffer unit;
    if (!PyArg_ParseTuple(args, "O!Iy*", &PyCode_Type, &code, &at, &unit)) {
        return NULL;
    }
    bool done = unit.len == 2 && dyn_code_swap_unit((PyCodeObject *)code, at, unit.buf, unit.buf);
    PyBuffer_Release(&unit);
    return PyBool_FromLong(done);
}

static PyObject *loops_time(PyObject *module, PyObject *by) {
    dyn_loops_tell_time(by == Py_None ? NULL : by);
    Py_RETURN_NONE;
}

static PyObject *loops_turns(PyObject *module, PyObject *args) {
    double native, plain;
    return PyArg_ParseTuple(args, "dd", &native, &plain) ? PyLong_FromUnsignedLong(dyn_loops_tell_turns(native, plain)) : NULL;
}

static PyMethodDef methods[] = {
    {"_loops_turns", loops_turns, METH_VARARGS,
     "_loops_turns(native, plain): calls of functions that call themselves take so many ns where they are compared; 0: the clock "
     "says it. How many of them were CPython's since this was asked last."},
    {"_loops_time", loops_time, METH_O,
     "_loops_time(by): by(native, trips) says how many ns passed since the last arrival in CPython, or in a native run. None: "
     "the "
     "clock says it again."},
    {"_loops_swap", loops_swap, METH_VARARGS,
     "_loops_swap(code, at, unit): puts the unit that stands at `at` there as it was before the code became warm; whether it "
     "stood there."},
    {"_loops_trips", loops_trips, METH_O, "_loops_trips(iterator): the trips that a loop over it has left; -1: it doesn't tell."},
    {"_loops_null", loops_null, METH_VARARGS,
     "_loops_null(after): loops run as the null region, left after so many instructions; -1: at once; -2: no more. For functions "
     "without entries."},
    {0}};

int dyn_loops_init(PyObject *module) {
    (void)dyn_ticks_prepare(); /* without ticks loops that can't be counted are asked about instead */
    dyn_build_tell(poll_pending);
    dyn_dict_tell(dyn_loops_global_changes);
    return dyn_way_in_init() < 0 ? -1 : PyModule_AddFunctions(module, methods);
}
