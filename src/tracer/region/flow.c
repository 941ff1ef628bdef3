/* flow.c: the loops of a function, and which locals a loop reads, by canonical bytecode alone. Called by plan.c, and by evalframe
 * through dyn_region_headers. Owns nothing that outlives a call. */
#include "tracer/region/plan.h"

/* The instructions that may follow instruction i: at most two. */
static uint32_t successors(const DynCode *c, uint32_t i, uint32_t to[2]) {
    const DynInstr *in = &c->v.at[i];
    uint32_t n = 0;
    DynFlow flow = dyn_flow(in);
    if (dyn_has_target(in)) {
        to[n++] = in->target;
    }
    if (flow != DYN_FLOW_JUMP && flow != DYN_FLOW_RETURN && flow != DYN_FLOW_RAISE && i + 1 < c->v.n) {
        to[n++] = i + 1;
    }
    return n;
}

/* From a jump to the header backwards: all that gets there without passing the header. A loop that can be entered elsewhere isn't
 * one: the function's first instruction is then among them. */
bool plan_loop(const DynCode *c, uint32_t header, uint8_t *in_loop) {
    bool found = false, changed = true;
    memset(in_loop, 0, c->v.n);
    for (uint32_t i = header; i < c->v.n; i++) {
        const DynInstr *in = &c->v.at[i];
        if (dyn_has_target(in) && in->target == header && in->target <= i) {
            in_loop[i] = 1;
            found = true;
        }
    }
    while (found && changed) {
        changed = false;
        for (uint32_t i = c->v.n; i-- > 0;) {
            uint32_t to[2], n = successors(c, i, to);
            for (uint32_t k = 0; k < n && !in_loop[i]; k++) {
                if (in_loop[to[k]] && to[k] != header) {
                    in_loop[i] = 1;
                    changed = true;
                }
            }
        }
    }
    in_loop[header] = found;
    return found && (header == 0 || !in_loop[0]);
}

static bool has_yield(const DynCode *c, const uint8_t *in_loop) {
    for (uint32_t i = 0; i < c->v.n; i++) {
        if (in_loop[i] && (c->v.at[i].op == DYN_I_YIELD_VALUE || c->v.at[i].op == DYN_I_SEND)) {
            return true;
        }
    }
    return false;
}

uint32_t dyn_region_headers(const DynCode *c, uint32_t *at, uint32_t room) {
    uint8_t *in_loop = PyMem_RawMalloc(c->v.n + 1);
    uint32_t n = 0;
    if (c->head != DYN_NONE) { /* all of the function */
        if (n < room) {
            at[n] = c->v.at[c->head].start;
        }
        n++;
    }
    for (uint32_t i = 0; in_loop != NULL && i < c->v.n; i++) {
        const DynInstr *in = &c->v.at[i];
        bool may_be = (in->flags & DYN_IF_TARGET) && (in->flags & DYN_IF_FIRST);
        if (may_be && plan_loop(c, i, in_loop) && !has_yield(c, in_loop)) {
            if (n < room) {
                at[n] = in->start;
            }
            n++;
        }
    }
    PyMem_RawFree(in_loop);
    return n;
}

static bool reads(const DynInstr *in) {
    return in->op == DYN_I_LOAD_FAST || in->op == DYN_I_LOAD_FAST_AND_CLEAR || in->op == DYN_I_DELETE_FAST ||
           in->op == DYN_I_LOAD_DEREF || in->op == DYN_I_STORE_DEREF;
}
static bool writes(const DynInstr *in) {
    return in->op == DYN_I_STORE_FAST || in->op == DYN_I_DELETE_FAST || in->op == DYN_I_LOAD_FAST_AND_CLEAR;
}

static void find_live(const DynCode *c, const uint8_t *in_loop, uint32_t nslots, uint8_t *at) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = c->v.n; i-- > 0;) {
            bool in = in_loop == NULL || in_loop[i];
            uint32_t to[2], n = in ? successors(c, i, to) : 0;
            const DynInstr *instr = &c->v.at[i];
            for (uint32_t s = 0; in && s < nslots; s++) {
                uint8_t is = 0;
                for (uint32_t k = 0; k < n; k++) {
                    is |= in_loop == NULL || in_loop[to[k]] ? at[(size_t)to[k] * nslots + s] : 0;
                }
                is = writes(instr) && instr->arg == s ? 0 : is;
                is = reads(instr) && instr->arg == s ? 1 : is;
                changed = changed || is != at[(size_t)i * nslots + s];
                at[(size_t)i * nslots + s] = is;
            }
        }
    }
}

/* Heads of the loops within in_loop. */
static void find_heads(Plan *p, PlanLoops *l, const uint8_t *in_loop) {
    const DynCode *c = l->c;
    for (uint32_t i = 0; i < c->v.n && l->n < PLAN_LOOPS; i++) {
        bool may_be = (c->v.at[i].flags & DYN_IF_TARGET) && (in_loop == NULL || in_loop[i]);
        if (may_be) {
            l->in[l->n] = dyn_arena_alloc(&p->arena, c->v.n + 1);
            if (l->in[l->n] != NULL && plan_loop(c, i, l->in[l->n])) {
                l->heads[l->n++] = i;
            }
        }
    }
}

enum { MOST_LIVE = 1 << 18 };

const PlanLoops *plan_loops_of(Plan *p, const DynCode *c, const uint8_t *in_loop) {
    for (uint32_t i = 0; i < p->loops.n; i++) {
        if (p->loops.at[i]->c == c) {
            return p->loops.at[i];
        }
    }
    PlanLoops *l = DYN_NEW(&p->arena, PlanLoops);
    if (l == NULL || dyn_vec_push(&p->loops, l) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return NULL;
    }
    l->c = c;
    l->nslots = (uint32_t)dyn_code_nlocalsplus(c->code);
    find_heads(p, l, in_loop);
    size_t bytes = (size_t)(c->v.n + 1) * (l->nslots + 1);
    l->live = bytes > MOST_LIVE || c->nnamed > 0 ? NULL : dyn_arena_alloc(&p->arena, bytes);
    if (l->live != NULL) {
        find_live(c, in_loop, l->nslots, l->live);
    }
    return l;
}
