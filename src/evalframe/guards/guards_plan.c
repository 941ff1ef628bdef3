/* guards_plan.c: compiles a capture's guards, sources and symbols into the flat program that guards.c runs.
 *
 * Order: the guard that failed most lately first, then by cost; each step stands right before its first use, so that an early
 * exit has loaded no more than it looked at. Steps check their operands themselves, so any order is safe; only DIM relies on an
 * ARRAY step before it. Called when an entry is made and by guards.c when another guard turns out to fail. Owned by the program.
 */
#include "evalframe/guards/guards.h"

typedef struct Plan {
    DynGuardProgram *p;
    const DynCapture *c;
    DYN_VEC(Step)
    steps;
    DYN_VEC(uint32_t)
    attrs;
    Locals *locals; /* of all programs; this one's stand at the end */
    uint32_t first; /* … from here on */
    bool *source_done, *sym_done, *sym_mark, *guard_done, *group_done;
    uint32_t *array_guard, *id_guard; /* by source */
    uint32_t guard;                   /* being emitted */
    bool rest;                        /* the memo has answered */
    bool failed;                      /* memory */
} Plan;

static void emit(Plan *plan, Step s) {
    s.guard = plan->guard;
    if (dyn_vec_push(&plan->steps, s) < 0) {
        plan->failed = true;
    }
}

static void emit_guard(Plan *plan, uint32_t at);

/* ---- sources */

static void need_group(Plan *plan, uint32_t at) {
    Group *g = &plan->p->groups.at[at];
    if (plan->group_done[at]) {
        return;
    }
    plan->group_done[at] = true;
    /* the dict of a module that was reached through a source is the right one while that source is this module */
    for (uint32_t i = 0; i < g->members.n; i++) {
        const DynSource *s = &plan->c->sources.v.at[g->members.at[i].source];
        if (s->kind == DYN_SRC_ATTR) {
            emit_guard(plan, plan->id_guard[s->base]);
        }
    }
    emit(plan, (Step){.op = ST_GROUP, .a = at});
}

static void need_source(Plan *plan, uint32_t id) {
    const DynSource *s = &plan->c->sources.v.at[id];
    uint32_t group = plan->p->group_of[id];
    if (plan->source_done[id]) {
        return;
    }
    plan->source_done[id] = true;
    if (group != DYN_NONE) {
        need_group(plan, group);
        Group *g = &plan->p->groups.at[group];
        for (uint32_t i = 0; i < g->members.n; i++) {
            if (g->members.at[i].source == id) {
                g->members.at[i].needed = true;
            }
        }
        return;
    }
    if (s->base != DYN_NONE) {
        need_source(plan, s->base);
    }
    if (s->kind == DYN_SRC_NAMED) {
        need_source(plan, s->index);
    }
    if (s->kind == DYN_SRC_ATTR && dyn_vec_push(&plan->attrs, id) < 0) {
        plan->failed = true;
    }
    if (s->kind == DYN_SRC_LOCAL) {
        emit(plan, (Step){.op = ST_LOCAL, .dst = id, .a = s->index});
    } else {
        emit(plan, (Step){.op = s->kind == DYN_SRC_ATTR ? ST_ATTR : ST_LOAD, .dst = id});
    }
}

static bool is_plain_local(const Plan *plan, uint32_t id) {
    return plan->c->sources.v.at[id].kind == DYN_SRC_LOCAL && plan->p->group_of[id] == DYN_NONE;
}

/* Sources that a hit reads. Arguments that nothing else was asked of are loaded together, last of all. */
static void need_wanted(Plan *plan) {
    const DynSources *t = &plan->c->sources;
    for (uint32_t i = 0; i < t->v.n; i++) {
        if (plan->p->wanted[i] && !is_plain_local(plan, i)) {
            need_source(plan, i);
        }
    }
    for (uint32_t i = 0; i < t->v.n; i++) {
        Local l = {i, t->v.at[i].index};
        if (plan->p->wanted[i] && !plan->source_done[i] && dyn_vec_push(plan->locals, l) < 0) {
            plan->failed = true;
        }
    }
    if (plan->locals->n > plan->first) {
        emit(plan, (Step){.op = ST_LOCALS, .a = plan->first, .b = plan->locals->n - plan->first});
    }
}

/* ---- symbols */

static bool is_whole(const DynSyms *t, uint32_t id) { return dyn_sym_at(t, id)->type != DYN_T_FLOAT; }

static bool are_whole(const DynSyms *t, const DynSym *s) { return is_whole(t, s->a) && is_whole(t, s->b); }

/* Sums, differences and products of ints have steps of their own. */
static StepOp step_of_operator(const DynSyms *t, const DynSym *s) {
    bool has_step = s->op == DYN_S_ADD || s->op == DYN_S_SUB || s->op == DYN_S_MUL;
    if (!has_step || !are_whole(t, s)) {
        return ST_EVAL;
    }
    if (s->op == DYN_S_ADD) {
        return ST_ADD;
    }
    return s->op == DYN_S_SUB ? ST_SUB : ST_MUL;
}

/* Loads what has the axis of a DIM or STRIDE symbol, behind its ARRAY or TENSOR guard where that says that it has the axis.
 * Returns the step that reads it. */
static StepOp need_axis(Plan *plan, const DynSym *s) {
    uint32_t at = plan->array_guard[s->a];
    const DynGuard *g = at == DYN_NONE ? NULL : &plan->c->guards.at[at];
    bool known = g != NULL && s->index < (g->number >> 8 & 255);
    if (known) {
        emit_guard(plan, at);
    } else {
        need_source(plan, s->a);
    }
    if (s->op == DYN_S_STRIDE) {
        return ST_STRIDE;
    }
    if (!known) {
        return ST_DIM_OF_ANY;
    }
    return dyn_guard_subject(g) == DYN_ABOUT_TENSOR ? ST_DIM_OF_TENSOR : ST_DIM;
}

static void emit_sym(Plan *plan, uint32_t id) {
    static const uint8_t loads[] = {[DYN_T_INT] = ST_INT, [DYN_T_FLOAT] = ST_FLOAT, [DYN_T_BOOL] = ST_BOOL};
    const DynSyms *t = &plan->c->syms;
    const DynSym *s = dyn_sym_at(t, id);
    if (plan->sym_done[id]) {
        return;
    }
    plan->sym_done[id] = true;
    if (s->op == DYN_S_CONST) {
        return;
    }
    if (s->op == DYN_S_VAR) {
        need_source(plan, s->a);
        emit(plan, s->index ? (Step){.op = ST_NPSCALAR, .dst = id, .a = s->a, .x = (uint8_t)(s->index - 1)}
                            : (Step){.op = loads[s->type], .dst = id, .a = s->a});
    } else if (dyn_sym_of_axis((DynSymOp)s->op)) {
        StepOp op = need_axis(plan, s);
        emit(plan, (Step){.op = op, .dst = id, .a = s->a, .x = (uint8_t)s->index});
    } else {
        emit(plan, (Step){.op = step_of_operator(t, s), .dst = id, .a = s->a, .b = s->b});
    }
}

/* The symbol and what it is made of, in the table's order (no recursion: chains can be long). */
static void need_sym(Plan *plan, uint32_t id) {
    const DynSyms *t = &plan->c->syms;
    plan->sym_mark[id] = true;
    uint32_t low = id;
    for (uint32_t i = id + 1; i-- > 0 && i >= low;) {
        const DynSym *s = dyn_sym_at(t, i);
        int arity = dyn_sym_info[s->op].arity;
        if (!plan->sym_mark[i] || plan->sym_done[i]) {
            continue;
        }
        uint32_t operands[3] = {s->a, s->b, s->c};
        for (int k = 0; k < arity; k++) {
            plan->sym_mark[operands[k]] = true;
            if (operands[k] < low) {
                low = operands[k];
            }
        }
    }
    for (uint32_t i = low; i <= id; i++) {
        if (plan->sym_mark[i]) {
            emit_sym(plan, i);
        }
        plan->sym_mark[i] = false;
    }
}

/* A comparison of ints is one step that compares and stores True; anything else is evaluated, then looked at. */
static void emit_sym_guard(Plan *plan, uint32_t id) {
    const DynSyms *t = &plan->c->syms;
    const DynSym *s = dyn_sym_at(t, id);
    bool compares = s->op >= DYN_S_EQ && s->op <= DYN_S_GE;
    if (!compares || !are_whole(t, s) || plan->sym_done[id]) {
        need_sym(plan, id);
        emit(plan, (Step){.op = ST_TRUE, .a = id});
        return;
    }
    bool number = dyn_sym_is_const(t, s->b);
    need_sym(plan, s->a);
    need_sym(plan, s->b);
    plan->sym_done[id] = true;
    emit(plan, (Step){.op = (uint8_t)((number ? ST_EQ_NUMBER : ST_EQ) + (s->op - DYN_S_EQ)),
                      .dst = id,
                      .a = s->a,
                      .b = s->b,
                      .number = dyn_sym_at(t, s->b)->value.i});
}

/* ---- guards */

static void emit_array_guard(Plan *plan, const DynGuard *g) {
    int flags = NPY_ARRAY_ALIGNED | NPY_ARRAY_C_CONTIGUOUS, want = NPY_ARRAY_ALIGNED;
    if (g->layout.kind == DYN_LAYOUT_C) {
        want |= NPY_ARRAY_C_CONTIGUOUS;
    }
    if (g->number & DYN_ARRAY_WRITTEN) {
        flags |= NPY_ARRAY_WRITEABLE, want |= NPY_ARRAY_WRITEABLE;
    }
    if (g->number & (DYN_ARRAY_WRITTEN | DYN_ARRAY_ASKED)) {
        flags |= DYN_ARRAY_WARN_ON_WRITE;
    }
    PyArray_Descr *descr =
        PyArray_DescrFromType(dyn_dtypes[g->number & 255].npy); /* NumPy's one descriptor of the type, never freed */
    Py_XDECREF((PyObject *)descr);
    need_source(plan, g->source);
    emit(plan, (Step){.op = ST_ARRAY,
                      .a = g->source,
                      .x = (uint8_t)(g->number >> 8),
                      .y = (uint8_t)g->number,
                      .number = flags,
                      .want = want,
                      .obj = (PyObject *)descr});
}

static void emit_absence(Plan *plan, const DynGuard *g) {
    const DynSource *s = &plan->c->sources.v.at[g->source];
    if (s->base != DYN_NONE) {
        need_source(plan, s->base);
    }
    if (s->kind == DYN_SRC_NAMED) {
        need_source(plan, s->index);
    }
    emit(plan, (Step){.op = ST_ABSENT, .a = g->source});
}

/* A step that looks at the guard's one or two sources. */
static void emit_on_sources(Plan *plan, const DynGuard *g, StepOp op) {
    uint32_t other = dyn_guard_has_two(g) ? g->source2 : g->source;
    need_source(plan, g->source);
    need_source(plan, other);
    emit(plan, (Step){.op = op, .a = g->source, .b = other, .obj = g->obj});
}

/* The inputs are looked at before, as their own guards do. */
static void emit_apart(Plan *plan, const DynGuard *g) {
    const DynGuardProgram *p = plan->p;
    for (uint32_t i = 0; i < p->inputs.n; i++) {
        uint32_t source = p->inputs.at[i];
        need_source(plan, source);
        if (p->looked[source] != 0) {
            emit_guard(plan, plan->array_guard[source]);
        }
    }
    emit(plan, (Step){.op = ST_APART, .a = dyn_apart_row(p, g->source), .x = plan->rest});
}

/* The guard's own step, behind those that load what it looks at. */
static void emit_steps(Plan *plan, const DynGuard *g) {
    static const enum {
        BY_TYPE,
        BY_ID,
        BY_ARRAY,
        BY_TENSOR,
        BY_TORCH,
        BY_SYMBOL,
        BY_ABSENT,
        BY_APART,
        BY_CHECK
    } ways[DYN_GUARD_COUNT] = {
#define GUARD(kind, subject, object, text, was, is, cost, memo, step, flags, group) [DYN_GUARD_##kind] = BY_##step,
#include "ir/guards.def"
#undef GUARD
    };
    switch (ways[g->kind]) {
    case BY_TYPE: emit_on_sources(plan, g, ST_TYPE); break;
    case BY_ID: emit_on_sources(plan, g, ST_ID); break;
    case BY_ARRAY: emit_array_guard(plan, g); break;
    case BY_TENSOR: emit_on_sources(plan, g, ST_TENSOR); break;
    case BY_TORCH: emit(plan, (Step){.op = ST_TORCH, .number = g->number}); break;
    case BY_SYMBOL: emit_sym_guard(plan, g->source); break;
    case BY_ABSENT: emit_absence(plan, g); break;
    case BY_APART: emit_apart(plan, g); break;
    case BY_CHECK: emit_on_sources(plan, g, ST_CHECK); break;
    }
}

static void emit_guard(Plan *plan, uint32_t at) {
    const DynGuard *g = &plan->c->guards.at[at];
    uint32_t outer = plan->guard;
    if (plan->guard_done[at]) {
        return;
    }
    plan->guard_done[at] = true;
    plan->guard = at;
    if (dyn_guard_is_fixed(g) && plan->p->group_of[g->source] != DYN_NONE) {
        need_group(plan, plan->p->group_of[g->source]);
    } else {
        emit_steps(plan, g);
    }
    plan->guard = outer;
}

/* ---- order */

enum { NCOSTS = 5 };

/* Of reading one source when its base is there. */
static int cost_of_source(const Plan *plan, uint32_t id) {
    return plan->p->group_of[id] != DYN_NONE ? 1 : dyn_source_rows[plan->c->sources.v.at[id].kind].cost;
}

static int cost(const Plan *plan, const DynGuard *g) {
    int most = dyn_guard_rows[g->kind].cost;
    uint32_t id = dyn_guard_has_source(g) ? g->source : DYN_NONE;
    while (id != DYN_NONE) {
        int here = cost_of_source(plan, id);
        most = here > most ? here : most;
        id = plan->p->group_of[id] != DYN_NONE ? DYN_NONE : plan->c->sources.v.at[id].base;
    }
    return most;
}

static void emit_all(Plan *plan) {
    const DynCapture *c = plan->c;
    if (plan->p->hot != DYN_NONE) {
        emit_guard(plan, plan->p->hot);
    }
    for (int at_cost = 0; at_cost < NCOSTS; at_cost++) {
        for (uint32_t i = 0; i < c->guards.n; i++) {
            if (!plan->guard_done[i] && cost(plan, &c->guards.at[i]) == at_cost) {
                emit_guard(plan, i);
            }
        }
    }
    plan->guard = DYN_NONE;
    for (uint32_t i = 0; i < c->syms.v.n; i++) {
        if (!dyn_sym_is_late(&c->syms, i)) {
            emit_sym(plan, i);
        }
    }
    need_wanted(plan);
    emit(plan, (Step){.op = ST_HIT});
}

/* Sources that the graph and the recipes read. */
static void mark_wanted(const DynCapture *c, bool *wanted) {
    for (uint32_t i = 0; i < c->graph.inputs.n; i++) {
        wanted[dyn_graph_node(&c->graph, c->graph.inputs.at[i])->source] = true;
    }
    for (uint32_t i = 0; i < c->graph.nodes.n; i++) {
        for (uint32_t k = 0; k < dyn_graph_node(&c->graph, i)->nargs; k++) {
            if (dyn_graph_node(&c->graph, i)->args[k].kind == DYN_ARG_SOURCE) {
                wanted[dyn_graph_node(&c->graph, i)->args[k].id] = true;
            }
        }
    }
    for (uint32_t i = 0; i < c->recipes.n; i++) {
        if (c->recipes.at[i].kind == DYN_RC_SOURCE) {
            wanted[c->recipes.at[i].id] = true;
        }
    }
}

static void index_guards(Plan *plan) {
    for (uint32_t i = plan->c->guards.n; i-- > 0;) {
        const DynGuard *g = &plan->c->guards.at[i];
        if (dyn_guard_has_layout(g)) {
            plan->array_guard[g->source] = i;
        } else if (g->kind == DYN_GUARD_ID) {
            plan->id_guard[g->source] = i;
        }
    }
}

static bool is_allocated(const Plan *plan) {
    const void *const lists[] = {plan->source_done, plan->sym_done,    plan->sym_mark, plan->guard_done,
                                 plan->group_done,  plan->array_guard, plan->id_guard};
    for (size_t i = 0; i < DYN_COUNTOF(lists); i++) {
        if (lists[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* One program, owned by the caller in *steps and *attrs: all of it, or what is left where the memo has answered. */
static int plan_steps(DynGuardProgram *p, bool rest, Locals *locals, Plan *out) {
    const DynCapture *c = p->capture;
    uint32_t nsrc = c->sources.v.n, nsym = c->syms.v.n;
    Plan plan = {.p = p, .c = c, .locals = locals, .first = locals->n, .guard = DYN_NONE, .rest = rest};
    DynArena arena;
    dyn_arena_init(&arena);
    plan.source_done = DYN_NEW_N(&arena, bool, nsrc + 1);
    plan.sym_done = DYN_NEW_N(&arena, bool, nsym + 1);
    plan.sym_mark = DYN_NEW_N(&arena, bool, nsym + 1);
    plan.guard_done = DYN_NEW_N(&arena, bool, c->guards.n + 1);
    plan.group_done = DYN_NEW_N(&arena, bool, p->groups.n + 1);
    plan.array_guard = DYN_NEW_N(&arena, uint32_t, nsrc + 1);
    plan.id_guard = DYN_NEW_N(&arena, uint32_t, nsrc + 1);
    plan.failed = !is_allocated(&plan);
    if (!plan.failed) {
        memset(plan.array_guard, 0xFF, (nsrc + 1) * sizeof(uint32_t)); /* DYN_NONE */
        memset(plan.id_guard, 0xFF, (nsrc + 1) * sizeof(uint32_t));
        if (rest) {
            memcpy(plan.source_done, p->settled_source, nsrc * sizeof(bool));
            memcpy(plan.sym_done, p->settled_sym, nsym * sizeof(bool));
            for (uint32_t i = 0; i < c->guards.n; i++) { /* what is written has to lie apart from open inputs, too */
                plan.guard_done[i] = p->settled_guard[i] && (c->guards.at[i].kind != DYN_GUARD_DISJOINT || p->nopen == 0);
            }
        }
        index_guards(&plan);
        emit_all(&plan);
    }
    dyn_arena_free(&arena);
    *out = plan;
    return plan.failed ? -1 : 0;
}

#define MOVE(to, from) (to.at = from.at, to.n = from.n, to.cap = from.cap)
int dyn_guards_plan(DynGuardProgram *p) {
    Plan all = {0}, rest = {0};
    Locals locals = {0};
    if (p->wanted == NULL) {
        if ((p->wanted = PyMem_RawCalloc(p->capture->sources.v.n + 1, sizeof(bool))) == NULL) {
            return -1;
        }
        mark_wanted(p->capture, p->wanted);
    }
    int status = plan_steps(p, false, &locals, &all) < 0 || (p->memo != NULL && plan_steps(p, true, &locals, &rest) < 0) ? -1 : 0;
    if (status == 0) {
        dyn_vec_free(&p->steps);
        dyn_vec_free(&p->attrs);
        dyn_vec_free(&p->rest);
        MOVE(p->steps, all.steps);
        MOVE(p->attrs, all.attrs);
        MOVE(p->rest, rest.steps);
        dyn_vec_free(&p->locals);
        p->locals = locals;
    } else {
        dyn_vec_free(&all.steps);
        dyn_vec_free(&all.attrs);
        dyn_vec_free(&rest.steps);
        dyn_vec_free(&locals);
    }
    dyn_vec_free(&rest.attrs);
    return status;
}
#undef MOVE
