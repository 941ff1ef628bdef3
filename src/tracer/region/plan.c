/* plan.c: from a loop's bytecode, with the types that its slots have, to a region. Called by evalframe when control comes to a
 * header. A Plan and its arena last as long as the call; the region is the caller's.
 *
 * A *version* is a place in bytecode with the types of everything that is alive there; each becomes one block of IR. The types at
 * the header are the first version; following the bytecode from there finds the others, until no new ones turn up. So a sum that
 * begins as a float and goes on as np.float64 has a block for its first trip and one for the rest, and nothing asks for a type at
 * run time. Each version of the header is a way in, too.
 *
 * What isn't in the language, or is due to raise or warn, is an exit to the last place from which nothing has had an effect:
 * mostly the start of the statement. Inlined calls leave to their caller's, so they need no frames. */
#include "tracer/region/plan.h"
#include "base/log.h"

/* ---- states: of their values only those that are there */

static PlanState *state_for(Plan *p, uint32_t n) {
    return dyn_arena_alloc(&p->arena, offsetof(PlanState, values) + n * sizeof(PlanValue));
}

static void copy_state(PlanState *to, const PlanState *from) {
    memcpy(to, from, offsetof(PlanState, values) + from->n * sizeof(PlanValue));
}

/* ---- exits */

/* A value as an exit lists it, with the items of a tuple behind it. */
void plan_list(Plan *p, DynRegionValues *to, const PlanValue *v) {
    DynRegionValue out = v->v;
    if (plan_is_no_value(v)) {
        plan_stop(p, DYN_R_UNSUPPORTED_VALUE);
        return;
    }
    if (plan_is_literal(v) || v->v.kind == DYN_RK_SLICED) {
        p->no_literals = p->again = true;
        plan_stop(p, DYN_R_UNSUPPORTED_VALUE);
        return;
    }
    if (v->known && v->v.nregs == 0) {
        PyObject *o = v->v.kind == DYN_RK_FLOAT  ? PyFloat_FromDouble(v->number.f)
                      : v->v.kind == DYN_RK_BOOL ? PyBool_FromLong(v->number.i != 0)
                                                 : PyLong_FromLongLong(v->number.i);
        if (o == NULL || dyn_vec_push(&p->r->objects, o) < 0) {
            PyErr_Clear();
            Py_XDECREF(o);
            plan_stop(p, DYN_R_NO_MEMORY);
            return;
        }
        out = (DynRegionValue){.kind = DYN_RK_CONST, .ref = p->r->objects.n - 1};
    }
    plan_list_column(&out);
    if (dyn_vec_push(to, out) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
    for (uint32_t i = 0; dyn_region_has_items(v->v.kind) && i < v->v.n; i++) {
        plan_list(p, to, &v->items[i]);
    }
}

uint32_t plan_exit_at(Plan *p, const PlanState *s, uint32_t at, DynReason why) {
    DynRegionOut x = {.at = p->c->v.at[at].start, .nstack = s->n - p->r->nslots, .why = why};
    uint32_t instances = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        plan_list(p, &x.values, &s->values[i]);
    }
    for (uint32_t i = 0; i < x.values.n; i++) {
        instances += x.values.at[i].kind == DYN_RK_PARTS;
    }
    if (!(p->c->v.at[at].flags & DYN_IF_FIRST) || instances > DYN_REGION_INSTANCES) {
        plan_stop(p, instances > DYN_REGION_INSTANCES ? DYN_R_GRAPH_SIZE : DYN_R_INTERNAL);
    }
    if (dyn_vec_push(&p->r->exits, x) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
        dyn_vec_free(&x.values);
        return 0;
    }
    return p->r->exits.n - 1;
}

/* The function that the outermost inlined call is of can't be inlined: it has an effect, and needs a way out behind it. */
static void refuse_inlining(Plan *p) {
    if (p->s.nframes <
        2) { /* in the middle of an expression of the loop's own function, with what no way out can put on the stack */
        plan_stop(p, DYN_R_UNSUPPORTED_VALUE);
        return;
    }
    if (!p->again && dyn_vec_push(&p->opaque, p->s.frames[1].c->code) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
    p->again = true;
}

uint32_t plan_exit(Plan *p, DynReason why) {
    if (p->s.routine != 0) {
        return plan_give_up(p);
    }
    if (p->resume_at == DYN_NONE) {
        refuse_inlining(p);
        return 0;
    }
    if (p->resume_exit == DYN_NONE) {
        p->resume_exit = plan_exit_at(p, &p->resume, p->resume_at, why);
    }
    return p->resume_exit;
}

static void resume_here(Plan *p, uint32_t at) {
    copy_state(&p->resume, &p->s);
    p->resume_at = at;
    p->resume_exit = DYN_NONE;
    p->resume_due = false;
}

void plan_effect(Plan *p, uint32_t at) {
    plan_settle_doubts(p);
    for (uint32_t i = 0; i < p->s.n; i++) {
        if (plan_has_expression(&p->s.values[i])) { /* what it is of may have been changed */
            plan_stop(p, DYN_R_UNSUPPORTED_VALUE);
        }
    }
    if (p->s.routine != 0) {
        plan_refuse_routine(p);
    } else if (p->s.nframes == 1) {
        /* Only the first canonical instruction of one of CPython's can be gone on at. */
        bool can = p->c->v.at[at].flags & DYN_IF_FIRST;
        if (can) {
            resume_here(p, at);
        } else {
            p->resume_at = DYN_NONE; /* two operations on locals in one instruction of CPython's */
            p->resume_due = true;
        }
    } else {
        p->resume_at = DYN_NONE;
    }
}

Went plan_unknown(Plan *p, DynReason why, const char *what) {
    p->why = why;
    p->what = what;
    return WENT_NOWHERE;
}

/* ---- versions */

void plan_key_value(Plan *p, DynStr *key, const PlanValue *v) {
    const uint32_t row[3] = {(uint32_t)v->v.kind | (uint32_t)v->v.dtype << 8 | (uint32_t)v->v.n << 16 |
                                 (uint32_t)v->v.flags << 24,
                             v->v.ref, plan_is_parts(v) ? plan_parts_order(p, v->v.shape) : v->v.shape};
    dyn_str_put(key, row, sizeof row);
    for (uint32_t i = 0; dyn_region_has_items(v->v.kind) && i < v->v.n; i++) {
        plan_key_value(p, key, &v->items[i]);
    }
}

static void key_state(Plan *p, DynStr *key, uint32_t resume_at, uint32_t resume_n, const uint8_t *from) {
    for (uint32_t i = 0; i < p->s.nframes; i++) {
        const PlanFrame *f = &p->s.frames[i];
        const uint64_t row[3] = {(uintptr_t)f->c, (uint64_t)f->at << 2 | f->returns, (uint64_t)f->below << 32 | f->depth};
        dyn_str_put(key, row, sizeof row);
        dyn_str_put(key, f->blocks, f->depth * sizeof *f->blocks);
    }
    const uint32_t row[4] = {resume_at, resume_n, p->s.logged, p->s.routine};
    dyn_str_put(key, row, sizeof row);
    plan_key_carried(p, key, from, resume_n);
    p->ordered.n = 0;
    for (uint32_t i = 0; i < p->s.n; i++) {
        plan_key_value(p, key, &p->s.values[i]);
    }
}

/* The value in the registers of its place; `part` counts them. */
static PlanValue placed(Plan *p, const PlanValue *v, uint32_t place, uint32_t *part) {
    PlanValue out = *v;
    out.known = false;
    if (v->known && v->v.nregs == 0) {
        out.v.nregs = 1;
        out.v.regs[0] = plan_place(p, place, (*part)++, v->v.kind == DYN_RK_FLOAT ? 'D' : 'I');
        return out;
    }
    for (uint32_t i = 0; i < v->v.nregs; i++) {
        out.v.regs[i] = plan_place(p, place, (*part)++, p->r->regs.at[v->v.regs[i]]);
    }
    if (dyn_region_has_items(v->v.kind) && v->v.n > 0) {
        PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, v->v.n);
        for (uint32_t i = 0; items != NULL && i < v->v.n; i++) {
            items[i] = placed(p, &v->items[i], place, part);
        }
        out.items = items;
        if (items == NULL) {
            plan_stop(p, DYN_R_NO_MEMORY);
        }
    }
    return out;
}

/* Is there an object that would be recognised as this value, in slot i? */
static bool can_come_in(const Plan *p, const DynRegionValue *v, uint32_t i) {
    bool of_slot = dyn_region_iterates(v->kind) || v->kind == DYN_RK_ENTRY || v->kind == DYN_RK_CELL || v->flags & DYN_RF_MAYBE;
    if (of_slot) {
        return v->ref == i;
    }
    if (v->kind == DYN_RK_INST && v->n > 0) { /* attributes are taken for granted of the object in that slot */
        return v->n == i + 1;
    }
    if (v->kind == DYN_RK_MADE) { /* so is what is in its closure */
        return p->made.at[v->shape].of == i;
    }
    return !plan_is_no_object(v);
}

/* The same for a value with what is in it. What was stored in a cell may be the object of another slot, or one of several things:
 * what is in a cell that comes in isn't known to be that. */
static bool can_come_in_whole(const Plan *p, const PlanValue *v, uint32_t i) {
    if (v->v.kind == DYN_RK_CELL) {
        const DynRegionValue *held = &v->items[0].v;
        bool unsure = held->kind == DYN_RK_ENTRY || held->flags & DYN_RF_MAYBE;
        return !unsure && can_come_in(p, &v->v, i) && can_come_in(p, held, i);
    }
    if (plan_is_paused(v) && !plan_generator_can_come_in(v)) {
        return false;
    }
    return can_come_in(p, &v->v, i);
}

static void add_entry(Plan *p, const PlanVersion *v) {
    DynRegionEntry e = {.block = v->block};
    bool can = true;
    for (uint32_t i = 0; i < v->state->n; i++) {
        can = can && can_come_in_whole(p, &v->state->values[i], i);
        plan_list(p, &e.values, &v->state->values[i]);
    }
    if (can && dyn_vec_push(&p->r->entries, e) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
        can = false;
    }
    if (!can) {
        dyn_vec_free(&e.values);
    }
}

uint32_t plan_new_block(Plan *p, uint32_t at) {
    DynRegionBlock b = {.at = at};
    if (p->r->blocks.n > PLAN_BLOCKS) {
        plan_stop(p, DYN_R_GRAPH_SIZE);
    } else if (dyn_vec_push(&p->r->blocks, b) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
    return p->r->blocks.n - 1;
}

bool plan_is_head(const PlanLoops *l, uint32_t at) {
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->heads[i] == at) {
            return true;
        }
    }
    return false;
}

/* The block begins a loop's head. */
static void enter_loop(PlanFrame *f, uint32_t block) {
    if (plan_is_head(f->loops, f->at) && f->depth < PLAN_LOOPS) {
        f->heads[f->depth] = f->at;
        f->blocks[f->depth++] = block;
    }
}

/* Loops that the place isn't in are over; of its own head another block may be the one. */
static void leave_loops(PlanFrame *f) {
    for (bool within = false; f->depth > 0 && !within;) {
        uint32_t head = f->heads[f->depth - 1];
        for (uint32_t i = 0; i < f->loops->n; i++) {
            within = within || (f->loops->heads[i] == head && f->loops->in[i][f->at] && head != f->at);
        }
        f->depth -= !within;
    }
}

static PlanVersion *new_version(Plan *p, DynStr *key, uint64_t hash, uint32_t resume_at, uint32_t resume_n, const uint8_t *from) {
    PlanVersion v = {.hash = hash, .nkey = key->n, .resume_at = resume_at, .resume_n = resume_n};
    v.state = state_for(p, p->s.n);
    v.key = dyn_arena_alloc(&p->arena, key->n + 1);
    v.block = plan_new_block(p, plan_frame(p)->at);
    if (!plan_keep_carried(p, &v, from) || v.state == NULL || v.key == NULL || key->failed || p->stop != DYN_R_OK) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return NULL;
    }
    memcpy(v.key, key->at, key->n);
    copy_state(v.state, &p->s);
    for (uint32_t i = 0; i < p->s.n; i++) {
        uint32_t part = 0;
        v.state->values[i] = placed(p, &p->s.values[i], i, &part);
    }
    enter_loop(&v.state->frames[v.state->nframes - 1], v.block);
    if (dyn_vec_push(&p->versions, v) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return NULL;
    }
    if (p->s.nframes == 1 && p->s.frames[0].at == p->header) {
        add_entry(p, &v);
    }
    return &p->versions.at[p->versions.n - 1];
}

/* The version for the state as it is; NULL: there are too many for this place, or planning has stopped. */
static PlanVersion *find_version(Plan *p, uint32_t resume_at, uint32_t resume_n, const uint8_t *from) {
    DynStr key = {0};
    key_state(p, &key, resume_at, resume_n, from);
    uint64_t hash = dyn_hash64(dyn_str_at(&key), key.n, 0);
    uint32_t here = 0;
    PlanVersion *found = NULL;
    for (uint32_t i = 0; i < p->versions.n && found == NULL; i++) {
        PlanVersion *v = &p->versions.at[i];
        const PlanFrame *f = &v->state->frames[v->state->nframes - 1];
        here += v->state->nframes == p->s.nframes && f->at == plan_frame(p)->at && f->c == plan_frame(p)->c;
        if (v->hash == hash && v->nkey == key.n && memcmp(v->key, key.at, key.n) == 0) {
            found = v;
        }
    }
    if (found == NULL && here < PLAN_VERSIONS) {
        found = new_version(p, &key, hash, resume_at, resume_n, from);
    }
    dyn_str_free(&key);
    return found;
}

/* ---- ways between blocks */

typedef struct Moves {
    uint32_t to[PLAN_VALUES * 4], from[PLAN_VALUES * 4];
    uint32_t n;
} Moves;

static void add_moves(Plan *p, Moves *m, PlanValue *from, const PlanValue *to) {
    if (from->known && from->v.nregs == 0) {
        plan_reg(p, from);
    }
    for (uint32_t i = 0; i < from->v.nregs; i++) {
        if (from->v.regs[i] == to->v.regs[i]) {
            continue;
        }
        if (m->n == DYN_COUNTOF(m->to)) {
            plan_stop(p, DYN_R_GRAPH_SIZE);
            return;
        }
        m->to[m->n] = to->v.regs[i];
        m->from[m->n++] = from->v.regs[i];
    }
    for (uint32_t i = 0; dyn_region_has_items(from->v.kind) && i < from->v.n; i++) {
        PlanValue item = from->items[i];
        add_moves(p, m, &item, &to->items[i]);
    }
}

static void move(Plan *p, uint32_t to, uint32_t from) {
    static const struct {
        char type;
        DynRegionOp op;
    } ops[] = {{'I', DYN_RO_IMOV}, {'D', DYN_RO_DMOV}, {'S', DYN_RO_SMOV}, {'P', DYN_RO_PMOV}};
    for (size_t k = 0; k < DYN_COUNTOF(ops); k++) {
        if (ops[k].type == p->r->regs.at[from]) {
            DynRegionInstr in = {.op = (uint16_t)ops[k].op, .dst = to, .arg = {from, DYN_NONE, DYN_NONE}, .exit = DYN_NONE};
            if (dyn_vec_push(&p->r->blocks.at[p->block].v, in) < 0) {
                plan_stop(p, DYN_R_NO_MEMORY);
            }
        }
    }
}

/* All at once: what is still to be read and would be overwritten is kept elsewhere first. */
static void write_moves(Plan *p, Moves *m) {
    for (uint32_t i = 0; i < m->n; i++) {
        for (uint32_t k = i + 1; k < m->n; k++) {
            if (m->from[k] == m->to[i]) {
                uint32_t kept = dyn_region_reg(p->r, p->r->regs.at[m->from[k]]), old = m->from[k];
                if (kept == DYN_NONE) {
                    plan_stop(p, DYN_R_NO_MEMORY);
                    return;
                }
                move(p, kept, old);
                for (uint32_t l = k; l < m->n; l++) {
                    m->from[l] = m->from[l] == old ? kept : m->from[l];
                }
            }
        }
        move(p, m->to[i], m->from[i]);
    }
}

bool plan_is_same(const PlanValue *a, const PlanValue *b) {
    bool same = a->v.kind == b->v.kind && a->v.nregs == b->v.nregs && a->known == b->known && a->items == b->items &&
                memcmp(a->v.regs, b->v.regs, sizeof(uint32_t) * a->v.nregs) == 0;
    return same && a->number.i == b->number.i;
}

/* Too many versions: the loop is left there. */
static uint32_t leave_block(Plan *p, uint32_t at) {
    uint32_t before = p->block, block = plan_new_block(p, at);
    p->block = block;
    uint32_t exit = p->s.nframes == 1 ? plan_exit_at(p, &p->s, at, DYN_R_GRAPH_SIZE) : plan_exit(p, DYN_R_GRAPH_SIZE);
    plan_end(p, DYN_RO_LEAVE, DYN_NONE, DYN_NONE, DYN_NONE, exit);
    p->block = before;
    return block;
}

/* ---- loops that are left on each trip */

/* Notes that a way leads from instruction `from` to `at`: to the head of a loop, maybe from within. */
static void note_way(Plan *p, const DynCode *c, uint32_t from, uint32_t at) {
    for (uint32_t i = 0; i < p->loops.n; i++) {
        PlanLoops *l = p->loops.at[i];
        for (uint32_t k = 0; l->c == c && k < l->n; k++) {
            if (l->heads[k] == at) {
                l->reached[k] = true;
                l->closed[k] = l->closed[k] || (from > at && l->in[k][from]);
            }
        }
    }
}

/* Is there a loop that is left on each trip? With it inside, a region is left as often. */
static bool has_open_loop(const Plan *p) {
    for (uint32_t i = 0; i < p->loops.n; i++) {
        const PlanLoops *l = p->loops.at[i];
        for (uint32_t k = 0; k < l->n; k++) {
            if (l->reached[k] && !l->closed[k]) {
                return true;
            }
        }
    }
    return false;
}

const PlanVersion *plan_begin_routine(Plan *p) { return find_version(p, p->resume_at, p->resume.n, NULL); }

uint32_t plan_edge(Plan *p, uint32_t at) {
    note_way(p, plan_frame(p)->c, plan_frame(p)->at, at);
    plan_frame(p)->at = at;
    if (p->stop != DYN_R_OK) {
        return 0;
    }
    if (p->s.nframes == 1 && !p->in_loop[at]) {
        uint32_t before = p->block, block = plan_new_block(p, at);
        p->block = block;
        plan_end(p, DYN_RO_LEAVE, DYN_NONE, DYN_NONE, DYN_NONE, plan_exit_at(p, &p->s, at, DYN_R_OK));
        p->block = before;
        return block;
    }
    leave_loops(plan_frame(p));
    plan_forget_unread(p);
    uint8_t from[PLAN_VALUES];
    const uint32_t n = plan_carried(p, from);
    PlanVersion *v = n == DYN_NONE ? find_version(p, DYN_NONE, 0, NULL) : find_version(p, p->resume_at, n, from);
    if (v == NULL) {
        return p->stop == DYN_R_OK ? leave_block(p, at) : 0;
    }
    Moves m; /* large, and not cleared */
    m.n = 0;
    PlanState *to = v->state;
    uint32_t block = v->block;
    for (uint32_t i = 0; i < p->s.n; i++) {
        add_moves(p, &m, &p->s.values[i], &to->values[i]);
    }
    write_moves(p, &m);
    return block;
}

Went plan_go(Plan *p, uint32_t at) {
    plan_settle_doubts(p);
    for (uint32_t i = 0; i < p->s.n; i++) { /* another block may be left at its beginning */
        PlanValue *v = &p->s.values[i];
        if (plan_is_expression(v) && !plan_make_array(p, v, v)) {
            plan_stop(p, p->why);
        }
    }
    uint32_t to = plan_edge(p, at);
    plan_end(p, DYN_RO_JMP, DYN_NONE, to, DYN_NONE, DYN_NONE);
    return WENT_AWAY;
}

bool plan_two_ways(Plan *p, uint32_t reg, PlanWays *ways) {
    plan_settle_doubts(p);
    uint32_t yes = plan_new_block(p, plan_frame(p)->at);
    ways->other = plan_new_block(p, plan_frame(p)->at);
    ways->state = state_for(p, p->s.n);
    ways->resume = state_for(p, p->resume.n);
    if (ways->state == NULL || ways->resume == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return false;
    }
    copy_state(ways->state, &p->s);
    copy_state(ways->resume, &p->resume);
    ways->resume_at = p->resume_at;
    ways->resume_exit = p->resume_exit;
    ways->resume_due = p->resume_due;
    plan_end(p, DYN_RO_BR, reg, yes, ways->other, DYN_NONE);
    p->block = yes;
    return p->stop == DYN_R_OK;
}

void plan_other_way(Plan *p, PlanWays *ways) {
    copy_state(&p->s, ways->state);
    copy_state(&p->resume, ways->resume);
    p->resume_at = ways->resume_at;
    p->resume_exit = ways->resume_exit;
    p->resume_due = ways->resume_due;
    p->block = ways->other;
}

/* ---- blocks */

static void note_first(Plan *p) {
    if (p->first.reason == DYN_R_OK) {
        p->first.reason = p->why;
        p->first.at = p->c->v.at[p->s.frames[0].at].start;
        snprintf(p->first.detail, sizeof(p->first.detail), "%s: %s", dyn_opcodes[plan_instr(p)->op].name, p->what);
    }
}

void plan_leave(Plan *p) {
    p->ndoubts = 0; /* CPython computes it all again */
    p->r->array_paths = p->r->array_paths || plan_takes_array(p);
    note_first(p);
    plan_end(p, DYN_RO_LEAVE, DYN_NONE, DYN_NONE, DYN_NONE, plan_exit(p, p->why));
}

static void write_block(Plan *p, const PlanVersion *version) {
    p->ndoubts = 0;
    p->resume_due = false;
    copy_state(&p->s, version->state);
    p->block = version->block;
    if (p->s.nframes == 1) {
        resume_here(p, p->s.frames[0].at);
    } else {
        plan_resume_carried(p, version);
    }
    for (bool first = true; p->stop == DYN_R_OK && !p->again; first = false) {
        PlanFrame *f = plan_frame(p);
        const DynInstr *in = &f->c->v.at[f->at];
        if (!first && (in->flags & DYN_IF_TARGET)) {
            plan_go(p, f->at);
            return;
        }
        if (p->resume_due && p->s.nframes == 1 && (in->flags & DYN_IF_FIRST)) {
            resume_here(p, f->at);
        }
        uint32_t frames = p->s.nframes, at = f->at;
        Went went = plan_step(p, in);
        uint32_t inlined = p->s.nframes - (p->s.routine != 0 ? 2 : 1);
        p->r->deepest = p->r->deepest > inlined ? p->r->deepest : inlined;
        if (went == WENT_NOWHERE) {
            plan_leave(p);
        }
        if (went != WENT_ON) {
            return;
        }
        if (p->s.nframes == frames) {
            plan_frame(p)->at = at + 1;
            if (p->s.nframes == 1 && !p->in_loop[at + 1]) {
                plan_go(p, at + 1);
                return;
            }
        }
    }
}

/* ---- a plan */

static void free_plan(Plan *p) {
    for (uint32_t i = 0; i < p->codes.n; i++) {
        dyn_decode_free(p->codes.at[i]);
    }
    dyn_vec_free(&p->codes);
    dyn_vec_free(&p->loops);
    dyn_vec_free(&p->versions);
    dyn_vec_free(&p->places);
    dyn_vec_free(&p->ordered);
    dyn_vec_free(&p->wholes);
    dyn_arena_free(&p->arena);
}

static void begin(Plan *p, PyObject *const *slots, uint32_t nstack, PyObject *globals, PyObject *builtins) {
    DynRegion *r = p->r;
    const PlanLoops *loops = plan_loops_of(p, p->c, p->in_loop);
    if (loops == NULL) {
        return;
    }
    p->s.nframes = 1;
    p->s.frames[0] = (PlanFrame){.c = p->c, .globals = globals, .builtins = builtins, .base = 0, .at = p->header, .loops = loops};
    plan_describe(p, globals, nstack);
    for (uint32_t i = 0; i < r->nslots + nstack && p->stop == DYN_R_OK; i++) {
        bool stack = i >= r->nslots;
        bool cell = !stack && dyn_code_local_kind(p->c->code, (int)i) != 0x20;
        if (cell && p->stored_cells[i]) {
            plan_push(p, plan_of_cell(p, slots[i], i));
            continue;
        }
        plan_push(p, plan_of_object(p, slots[i], i, stack || (plan_is_live(loops, p->header, i) && !cell), stack));
    }
    note_way(p, p->c, p->header, p->header);
    plan_new_block(p, p->header); /* of no version: it only begins to count */
    if (p->stop == DYN_R_OK) {
        plan_forget_unread(p);
        find_version(p, DYN_NONE, 0, NULL);
    }
    plan_end(p, DYN_RO_JMP, DYN_NONE, 1, DYN_NONE, DYN_NONE);
}

static DynRegion *refuse(Plan *p, DynRegionRefusal *why) {
    *why = p->first;
    if (p->stop != DYN_R_OK) {
        why->reason = p->stop;
    }
    if (why->reason == DYN_R_OK) {
        why->reason = DYN_R_UNSUPPORTED_VALUE;
        snprintf(why->detail, sizeof(why->detail), "the loop is left on each trip");
    }
    if (why->detail[0] == 0) {
        snprintf(why->detail, sizeof(why->detail), "%s", dyn_reason_message(why->reason));
        why->at = p->c->v.at[p->header].start;
    }
    dyn_region_free(p->r);
    p->r = NULL;
    return NULL;
}

static DynRegion *leave_to_graphs(Plan *p, unsigned unless, DynRegionRefusal *why) {
    dyn_region_free(p->r);
    p->r = NULL;
    p->again = false;
    *why = (DynRegionRefusal){.at = p->c->v.at[p->header].start, .unless = unless};
    return NULL;
}

/* Region IR is held to its rules in every build: what breaks them is a fault of the planner's, and never compiled. */
static bool is_well_formed(Plan *p) {
    DynStr error = {0};
    bool holds = dyn_region_verify(p->r, &error) == 0;
    if (!holds) {
        p->stop = DYN_R_INTERNAL;
        snprintf(p->first.detail, sizeof(p->first.detail), "its region is malformed: %s", dyn_str_at(&error));
        p->first.at = p->c->v.at[p->header].start;
        dyn_count("loops", "malformed");
    }
    dyn_str_free(&error);
    return holds;
}

static DynRegion *plan_once(Plan *p, PyObject *const *slots, uint32_t nstack, PyObject *globals, PyObject *builtins,
                            DynRegionRefusal *why) {
    p->r = dyn_region_new();
    if (p->r == NULL) {
        p->stop = DYN_R_NO_MEMORY;
        return NULL;
    }
    plan_renew_routines(p);
    begin(p, slots, nstack, globals, builtins);
    bool left = false;
    while (p->next < p->versions.n && p->stop == DYN_R_OK && !p->again && !left) {
        const PlanVersion version = p->versions.at[p->next++];
        write_block(p, &version);
        left = (p->unless & DYN_UNLESS_ARRAYS) != 0 && p->r->whole_arrays; /* nothing changes that */
    }
    if (left) {
        return leave_to_graphs(p, DYN_UNLESS_ARRAYS, why);
    }
    plan_complete_entries(p);
    if (!p->again && p->stop == DYN_R_OK) {
        plan_complete_routines(p);
    }
    bool stands = !p->again && p->stop == DYN_R_OK && !has_open_loop(p);
    if (stands && p->whole && p->r->routines.n == 0) {
        p->why = DYN_R_OPAQUE_CALL;
        p->what = "a function that doesn't call itself here";
        note_first(p);
        refuse(p, why);
        why->unless = DYN_UNLESS_LEAF;
        return NULL;
    }
    bool thrown_away = stands && p->more_hints && !p->last;
    if (stands && !thrown_away && (p->unless & DYN_UNLESS_PATHS) != 0 && p->r->array_paths) {
        return leave_to_graphs(p, DYN_UNLESS_PATHS, why);
    }
    return stands && (thrown_away || is_well_formed(p)) ? p->r : refuse(p, why);
}

enum { ATTEMPTS = 16 };

/* What an attempt found out, which the next one goes by. */
static void carry(Plan *to, const Plan *from) {
    to->no_literals = from->no_literals;
    to->opaque = from->opaque;
    to->called = from->called;
    to->routines = from->routines;
    to->hints = from->hints;
    to->makers = from->makers;
    to->shapes = from->shapes;
    to->known = from->known;
    to->known_shapes = from->known_shapes;
    to->nclasses = from->nclasses;
    to->nsites = from->nsites;
    memcpy(to->roots, from->roots, sizeof to->roots);
    memcpy(to->classes, from->classes, sizeof to->classes);
    memcpy(to->ends, from->ends, sizeof to->ends);
    memcpy(to->sites, from->sites, sizeof to->sites);
    memcpy(to->stored_cells, from->stored_cells, sizeof to->stored_cells);
}

/* Each attempt forgets the rest. */
static DynRegion *attempt(Plan *p, PyObject *const *slots, uint32_t nstack, PyObject *globals, PyObject *builtins,
                          DynRegionRefusal *why) {
    DynRegion *r = NULL;
    for (int i = 0; i < ATTEMPTS; i++) {
        Plan *fresh = PyMem_RawCalloc(1, sizeof(Plan));
        if (fresh == NULL) {
            return NULL;
        }
        fresh->c = p->c;
        fresh->slots = slots;
        fresh->header = p->header;
        fresh->in_loop = p->in_loop;
        fresh->whole = p->whole;
        fresh->gives_up = DYN_NONE;
        fresh->unless = p->unless;
        fresh->last = i + 1 == ATTEMPTS;
        carry(fresh, p);
        dyn_arena_init(&fresh->arena);
        *why = (DynRegionRefusal){.reason = DYN_R_NO_MEMORY};
        r = plan_once(fresh, slots, nstack, globals, builtins, why);
        bool hinted = fresh->stop == DYN_R_OK && fresh->more_hints && r != NULL && !fresh->last;
        bool again = (fresh->again && fresh->stop != DYN_R_NO_MEMORY) || hinted; /* what was found may be what stopped it */
        carry(p, fresh);
        dyn_vec_free(&fresh->extras);
        dyn_vec_free(&fresh->made);
        free_plan(fresh);
        PyMem_RawFree(fresh);
        if (!again) {
            break;
        }
        dyn_region_free(r);
        r = NULL;
    }
    dyn_vec_free(&p->hints);
    dyn_vec_free(&p->makers);
    dyn_vec_free(&p->shapes);
    dyn_vec_free(&p->known);
    dyn_vec_free(&p->known_shapes);
    dyn_vec_free(&p->opaque);
    dyn_vec_free(&p->called);
    plan_free_routines(p);
    return r;
}

DynRegion *dyn_region_plan(const DynCode *c, uint32_t header, PyObject *const *slots, uint32_t nstack, PyObject *globals,
                           PyObject *builtins, unsigned unless, DynRegionRefusal *why) {
    uint32_t nslots = (uint32_t)dyn_code_nlocalsplus(c->code), at = header < c->nunits ? c->at_unit[header] : DYN_NONE;
    Plan *p = PyMem_RawCalloc(1, sizeof(Plan) + c->v.n + 1);
    *why = (DynRegionRefusal){.reason = DYN_R_NO_MEMORY, .at = header};
    if (p == NULL) {
        return NULL;
    }
    p->c = c;
    p->header = at;
    p->unless = unless;
    p->in_loop = (uint8_t *)(p + 1);
    DynRegion *r = NULL;
    p->whole = at != DYN_NONE && at == c->head;
    memset(p->in_loop, p->whole, c->v.n);
    if (at == DYN_NONE || c->generator || (!p->whole && !plan_loop(c, at, p->in_loop))) {
        *why = (DynRegionRefusal){.reason = c->generator ? DYN_R_GENERATOR : DYN_R_UNSUPPORTED_OPCODE, .at = header};
        snprintf(why->detail, sizeof(why->detail), "no loop begins there");
    } else if (nslots + nstack + 8 > PLAN_VALUES) {
        why->reason = DYN_R_GRAPH_SIZE;
    } else {
        r = attempt(p, slots, nstack, globals, builtins, why);
    }
    PyMem_RawFree(p);
    return r;
}
