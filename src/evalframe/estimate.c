/* estimate.c: does a captured segment look as if serving it could pay? From what it consists of, before it is built.
 *
 * Called for what enable() found (hook.c): a segment that is not worth an entry is not given one. The figures are nanoseconds on
 * one machine, rounded (docs/lab/small-calls.md); what is wrong in them is found out by profit.c, which measures. And called for
 * each hit of a graph whose values require gradients (hit.c): profit.c doesn't see what backward takes. */
#include "evalframe/follow.h"

/* What CPython and NumPy take for it. */
#define INSTRUCTION_NS 20.0 /* of bytecode */
#define SCALAR_NS 40.0      /* an operation on NumPy scalars */
#define SMALL_NS 350.0      /* … on arrays, whatever their size */
#define ELEMENT_NS 0.4      /* … and for each element */
#define VIEW_NS 120.0
#define REDUCTION_NS 1500.0
/* What serving it takes. */
#define HIT_NS 300.0
#define GUARD_NS 15.0
#define RECIPE_NS 25.0 /* an object that is handed on or made */
#define EFFECT_NS 60.0
#define BREAK_NS 900.0 /* the function of the rewritten code is called, and a resume function behind it */
#define LEAVE_NS 1500.0
#define KERNELS_NS 400.0 /* an artifact with kernels is run */
#define EXTERN_NS 300.0  /* a call is made from the graph in place of from bytecode */
/* With gradients, forward and back (docs/lab/training.md). */
#define GRAD_NS 8000.0       /* an operator of PyTorch's, … */
#define GRAD_ELEMENT_NS 2.0  /* … and for each element, … */
#define GRAD_DEVICE_NS 0.01  /* … on a device */
#define UNFOLLOWED_NS 3000.0 /* one that autograd doesn't follow */
#define PART_NS 10000.0      /* a part: a node of autograd's, … */
#define OUTPUT_NS 2000.0     /* … and each tensor that it gives, or saves */
#define STEP_NS 2000.0       /* a call or a view that is made from the graph in place of from bytecode */
/* Of a graph that has no part at all, forward and back: that it is served (guards, and the processor's caches, which backward
 * finds with other things in them), and each call or view that is made from it. */
#define FOLLOWED_NS 6000.0
#define CALL_NS 1000.0

/* Elements that the operator goes over, in the call that symbols have these values in; sizes that only a call tells, and all of
 * them where sym is NULL, are what they were when it was recorded. */
double dyn_estimate_work(const DynGraph *g, const DynNode *n, const DynScalar *sym) {
    bool reduces = dyn_ops[n->op].kind == DYN_K_REDUCE && n->nargs > 0 && n->args[0].kind == DYN_ARG_NODE;
    const DynNode *over = reduces ? dyn_graph_node(g, n->args[0].id) : n;
    double elements = 1;
    for (int i = 0; i < over->ndim; i++) {
        const DynSym *s = dyn_sym_at(g->syms, over->shape[i]);
        elements *= (double)(s->after == 0 && sym != NULL ? sym[over->shape[i]].i : s->hint.i);
    }
    return elements;
}

static double node_gain(const DynGraph *g, const DynNode *n) {
    double more = ELEMENT_NS * dyn_estimate_work(g, n, NULL);
    switch (dyn_ops[n->op].kind) {
    case DYN_K_INPUT:
    case DYN_K_RESULT: return 0;
    case DYN_K_VIEW: return n->ndim == 0 ? SCALAR_NS : VIEW_NS;
    case DYN_K_EXTERN: return -EXTERN_NS;
    case DYN_K_REDUCE: return REDUCTION_NS + more;
    default: return n->flags & DYN_NODE_NPSCALAR ? SCALAR_NS : SMALL_NS + more;
    }
}

static bool has_kernels(const DynGraph *g) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        uint8_t kind = dyn_ops[g->nodes.at[i].op].kind;
        bool called = kind == DYN_K_EXTERN || kind == DYN_K_RESULT;
        if (!called && kind != DYN_K_INPUT && kind != DYN_K_VIEW) {
            return true;
        }
    }
    return false;
}

double dyn_estimate_gain(const DynCapture *c) {
    const DynGraph *g = &c->graph;
    double gain = c->ninstrs * INSTRUCTION_NS;
    double cost = HIT_NS + c->guards.n * GUARD_NS + c->recipes.n * RECIPE_NS + c->effects.n * EFFECT_NS;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        gain += node_gain(g, &g->nodes.at[i]);
    }
    cost += has_kernels(g) ? KERNELS_NS : 0;
    if (c->end == DYN_END_BREAK) {
        cost += BREAK_NS;
    } else if (c->end == DYN_END_LEAVE) {
        cost += LEAVE_NS;
    }
    return gain - cost;
}

/* What PyTorch takes for the node, forward and back. */
static double followed_gain(const DynGraph *g, uint32_t id, const DynScalar *sym) {
    const DynNode *n = dyn_graph_node(g, id);
    bool computed = n->op != DYN_OP_INPUT && n->op != DYN_OP_RESULT && !dyn_node_calls(n) && !(n->flags & DYN_NODE_VIEW);
    double once = n->flags & DYN_NODE_GRAD ? GRAD_NS : UNFOLLOWED_NS;
    double element = g->device == 0 ? GRAD_ELEMENT_NS : GRAD_DEVICE_NS;
    return computed ? once + element * dyn_estimate_work(g, n, sym) : 0;
}

/* What the calls that a part is take: PyTorch's time for them, as in eager, and ours. */
static double calls_cost(const DynGraph *g, const DynFollowStep *s, const DynScalar *sym) {
    double taken = 0;
    for (uint32_t i = 0; i < s->ncalls; i++) {
        const DynWhole *w = s->calls[i].whole;
        taken += STEP_NS;
        for (uint32_t k = w == NULL ? 0 : w->first; w != NULL && k <= w->last; k++) {
            taken += followed_gain(g, k, sym);
        }
    }
    return taken;
}

/* Do its parts look as if they paid, with the bytecode that isn't run? */
static bool parts_pay(const DynCapture *c, const DynFollow *f, const DynScalar *sym) {
    const DynGraph *g = &c->graph;
    double gain = c->ninstrs * INSTRUCTION_NS - FOLLOWED_NS;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        gain += followed_gain(g, i, sym);
    }
    for (uint32_t i = 0; i < f->steps.n; i++) {
        const DynFollowStep *s = &f->steps.at[i];
        if (dyn_follow_is_calls(g, f, s, sym)) {
            gain -= calls_cost(g, s, sym);
        } else {
            bool follows = s->kind == DYN_FOLLOW_PART && dyn_follow_part_follows(s->part);
            gain -= follows ? PART_NS + OUTPUT_NS * dyn_follow_part_outputs(s->part) : STEP_NS;
        }
    }
    return gain >= 0;
}

/* A graph that has a part pays, or is what wait=True asks for. One that is nothing but calls saves the bytecode around them
 * alone. */
static bool calls_pay(const DynCapture *c, const DynFollow *f, const DynScalar *sym) {
    double calls = 0;
    for (uint32_t i = 0; i < f->steps.n; i++) {
        const DynFollowStep *s = &f->steps.at[i];
        bool is_calls = s->kind == DYN_FOLLOW_PART && dyn_follow_is_calls(&c->graph, f, s, sym);
        if (s->kind == DYN_FOLLOW_CHANGES || (s->kind == DYN_FOLLOW_PART && !is_calls)) {
            return true;
        }
        calls += is_calls ? s->ncalls : 1;
    }
    return c->ninstrs * INSTRUCTION_NS >= FOLLOWED_NS + CALL_NS * calls;
}

bool dyn_estimate_followed(const DynCapture *c, const DynFollow *f, const DynScalar *sym) {
    switch ((DynFollowJudged)f->judged) {
    case DYN_FOLLOW_TAKES_ALL: return true;
    case DYN_FOLLOW_JUDGES_CALLS: return calls_pay(c, f, sym);
    case DYN_FOLLOW_JUDGES_ALL: return parts_pay(c, f, sym);
    }
    return true;
}
