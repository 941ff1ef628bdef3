/* nest_forms.c: arithmetic of forms (nest_forms.h), and the questions in front of a nest of loops. Called by nest.c.
 *
 * A form of what trips have made so far is largest and smallest at corners: in the first or last trip of each loop, with those of
 * the loops around at a corner too. How many trips a loop has is a form of the trips around it (`for j in range(i)`), so that the
 * last trip is put in as one, from the innermost loop outwards, and what is left are numbers that are known in front. All of it
 * is computed with ints that don't overflow: of each node it is known how large it can be, as numbers from outside are asked to
 * be near 0. */
#include "codegen/region/nest_forms.h"

#define LARGE 0x1p61 /* No form, and no corner of it, is farther from 0. */

/* ---- nodes */

static bool is_number(const DynNestForms *f, uint32_t node) { return f->nodes[node].op == DYN_RO_ICONST; }

static double most_of(const DynNestForms *f, uint16_t op, const uint32_t *args, int64_t imm) {
    switch (op) {
    case DYN_RO_ICONST: return fabs((double)imm);
    case DYN_RO_IADDW:
    case DYN_RO_ISUBW: return f->nodes[args[0]].most + f->nodes[args[1]].most;
    case DYN_RO_IMULW: return f->nodes[args[0]].most * f->nodes[args[1]].most;
    case DYN_RO_IMAX0: return f->nodes[args[0]].most;
    default: return f->near;
    }
}

static uint32_t find_node(DynNestForms *f, uint16_t op, uint32_t a, uint32_t b, uint32_t c, int64_t imm) {
    DynNestNode node = {.op = op, .arg = {a, b, c}, .imm = imm, .reg = DYN_NONE};
    for (uint32_t i = 0; i < f->nnodes; i++) {
        const DynNestNode *has = &f->nodes[i];
        if (has->op == op && has->imm == imm && has->arg[0] == a && has->arg[1] == b && has->arg[2] == c) {
            return i;
        }
    }
    node.most = most_of(f, op, node.arg, imm);
    if (f->nnodes == DYN_NEST_NODES || node.most > LARGE) {
        f->large = f->large || node.most > LARGE;
        f->never = true;
        return DYN_NODE_ZERO;
    }
    f->nodes[f->nnodes] = node;
    return f->nnodes++;
}

static uint32_t number(DynNestForms *f, int64_t i) { return find_node(f, DYN_RO_ICONST, DYN_NONE, DYN_NONE, DYN_NONE, i); }

/* Numbers are added up, and stand behind. */
static uint32_t add(DynNestForms *f, uint32_t a, uint32_t b) {
    if (is_number(f, a)) {
        uint32_t other = a;
        a = b;
        b = other;
    }
    if (b == DYN_NODE_ZERO) {
        return a;
    }
    bool near = f->nodes[a].most + f->nodes[b].most <= LARGE;
    if (near && is_number(f, a)) {
        return number(f, f->nodes[a].imm + f->nodes[b].imm);
    }
    if (near && is_number(f, b) && f->nodes[a].op == DYN_RO_IADDW && is_number(f, f->nodes[a].arg[1])) {
        return add(f, f->nodes[a].arg[0], number(f, f->nodes[f->nodes[a].arg[1]].imm + f->nodes[b].imm));
    }
    return find_node(f, DYN_RO_IADDW, a, b, DYN_NONE, 0);
}

static uint32_t multiply(DynNestForms *f, uint32_t a, uint32_t b) {
    if (is_number(f, a)) {
        uint32_t other = a;
        a = b;
        b = other;
    }
    if (b == DYN_NODE_ZERO || b == DYN_NODE_ONE) {
        return b == DYN_NODE_ZERO ? b : a;
    }
    if (is_number(f, a) && f->nodes[a].most * f->nodes[b].most <= LARGE) {
        return number(f, f->nodes[a].imm * f->nodes[b].imm);
    }
    return find_node(f, DYN_RO_IMULW, a, b, DYN_NONE, 0);
}

static uint32_t subtract(DynNestForms *f, uint32_t a, uint32_t b) {
    if (a == b) {
        return DYN_NODE_ZERO;
    }
    if (f->nodes[a].op == DYN_RO_IADDW && f->nodes[a].arg[0] == b) {
        return f->nodes[a].arg[1];
    }
    return is_number(f, b) ? add(f, a, number(f, -f->nodes[b].imm)) : find_node(f, DYN_RO_ISUBW, a, b, DYN_NONE, 0);
}

void dyn_nest_forms_begin(DynNestForms *f, double near) {
    memset(f, 0, sizeof *f);
    f->near = near;
    (void)number(f, 0);
    (void)number(f, 1);
}

/* ---- forms */

static DynNestForm of_node(uint32_t node) { return (DynNestForm){.known = true, .at = node}; }

DynNestForm dyn_nest_form_number(DynNestForms *f, int64_t i) { return of_node(number(f, i)); }
DynNestForm dyn_nest_form_register(DynNestForms *f, uint32_t reg) {
    return of_node(find_node(f, DYN_RO_IMOV, reg, DYN_NONE, DYN_NONE, 0));
}

bool dyn_nest_form_stays(const DynNestForm *a) {
    bool stays = a->known && !a->clamped;
    for (uint32_t k = 0; k < DYN_NEST_LOOPS; k++) {
        stays = stays && a->step[k] == DYN_NODE_ZERO;
    }
    return stays;
}

bool dyn_nest_form_is_same(const DynNestForm *a, const DynNestForm *b) {
    bool same = a->known == b->known && a->clamped == b->clamped && a->more == b->more && a->at == b->at;
    return same && memcmp(a->step, b->step, sizeof a->step) == 0;
}

void dyn_nest_form_use(DynNestForms *f, const DynNestForm *a) {
    f->nodes[a->at].used = true;
    for (uint32_t k = 0; k < DYN_NEST_LOOPS; k++) {
        if (a->step[k] != DYN_NODE_ZERO) {
            f->nodes[a->step[k]].used = true;
            dyn_nest_form_use(f, &f->trips[k]);
        }
    }
}

double dyn_nest_form_most(const DynNestForms *f, const DynNestForm *a) {
    double most = f->nodes[a->at].most + (a->more < 0 ? -(double)a->more : (double)a->more);
    for (uint32_t k = 0; k < DYN_NEST_LOOPS; k++) {
        most += a->step[k] == DYN_NODE_ZERO ? 0.0 : f->nodes[a->step[k]].most * f->most[k];
    }
    return most;
}

static DynNestForm near_enough(DynNestForms *f, DynNestForm a) {
    bool large = a.known && dyn_nest_form_most(f, &a) > LARGE;
    f->large = f->large || large;
    a.known = a.known && !large;
    return a;
}

/* Only what fits is added up: a node that is too large ends all. */
static DynNestForm sum(DynNestForms *f, const DynNestForm *a, const DynNestForm *b, bool minus) {
    DynNestForm out = {.known = a->known && b->known && !b->clamped};
    if (out.known && a->clamped) {
        out = *a;
        out.known = dyn_nest_form_stays(b) && is_number(f, b->at) && f->nodes[b->at].most < f->near;
        out.more += !out.known ? 0 : minus ? -f->nodes[b->at].imm : f->nodes[b->at].imm;
        return near_enough(f, out);
    }
    if (!out.known || dyn_nest_form_most(f, a) + dyn_nest_form_most(f, b) > LARGE) {
        f->large = f->large || out.known;
        return (DynNestForm){.known = false};
    }
    out.at = minus ? subtract(f, a->at, b->at) : add(f, a->at, b->at);
    for (uint32_t k = 0; k < DYN_NEST_LOOPS; k++) {
        out.step[k] = minus ? subtract(f, a->step[k], b->step[k]) : add(f, a->step[k], b->step[k]);
    }
    return near_enough(f, out);
}

static DynNestForm product(DynNestForms *f, const DynNestForm *a, const DynNestForm *b) {
    if (!dyn_nest_form_stays(b)) {
        const DynNestForm *other = a;
        a = b;
        b = other;
    }
    DynNestForm out = {.known = a->known && !a->clamped && dyn_nest_form_stays(b)};
    if (!out.known || dyn_nest_form_most(f, a) * dyn_nest_form_most(f, b) > LARGE) {
        f->large = f->large || out.known;
        return (DynNestForm){.known = false};
    }
    out.at = multiply(f, a->at, b->at);
    for (uint32_t k = 0; k < DYN_NEST_LOOPS; k++) {
        out.step[k] = multiply(f, a->step[k], b->at);
    }
    return near_enough(f, out);
}

/* Of numbers that stay: what makes nothing but an int of ints. */
static DynNestForm same_in_all_trips(DynNestForms *f, const DynRegionInstr *in, const DynNestForm *args) {
    const DynRegionOpInfo *op = &dyn_region_ops[in->op];
    uint32_t nodes[3] = {DYN_NONE, DYN_NONE, DYN_NONE};
    bool known = op->result == 'I' && in->op < DYN_RO_PURE && op->args[0] == 'I';
    for (int a = 0; a < 3 && op->args[a] != 'N' && known; a++) {
        known = op->args[a] == 'I' && dyn_nest_form_stays(&args[a]);
        nodes[a] = args[a].at;
    }
    return known ? of_node(find_node(f, in->op, nodes[0], nodes[1], nodes[2], in->imm.i)) : (DynNestForm){.known = false};
}

DynNestForm dyn_nest_form_compute(DynNestForms *f, const DynRegionInstr *in, const DynNestForm *args) {
    switch (in->op) {
    case DYN_RO_ICONST:
        return in->imm.i > -(INT64_C(1) << 60) && in->imm.i < INT64_C(1) << 60 ? dyn_nest_form_number(f, in->imm.i)
                                                                               : (DynNestForm){.known = false};
    case DYN_RO_IMOV: return args[0];
    case DYN_RO_IADD:
    case DYN_RO_IADDW: return args[0].clamped ? sum(f, &args[0], &args[1], false) : sum(f, &args[1], &args[0], false);
    case DYN_RO_ISUB:
    case DYN_RO_ISUBW: return sum(f, &args[0], &args[1], true);
    case DYN_RO_IMUL:
    case DYN_RO_IMULW: return product(f, &args[0], &args[1]);
    case DYN_RO_IDX:
    case DYN_RO_IDXLOW: return (DynNestForm){.known = false};
    case DYN_RO_IMAX0:
        if (args[0].known && !args[0].clamped && !dyn_nest_form_stays(&args[0])) {
            DynNestForm out = args[0];
            out.clamped = true;
            return out;
        }
        break;
    default: break;
    }
    return same_in_all_trips(f, in, args);
}

DynNestForm dyn_nest_form_counter(DynNestForms *f, DynNestForm first, uint32_t loop, int64_t step) {
    DynNestForm out = first;
    if (out.known && !out.clamped) {
        out.step[loop] = number(f, step);
        return near_enough(f, out);
    }
    return (DynNestForm){.known = false};
}

/* Where there are no trips nothing is followed, so it doesn't matter that the form is below 0 then. */
bool dyn_nest_forms_enter(DynNestForms *f, uint32_t loop, DynNestForm trips) {
    trips.clamped = trips.clamped && trips.more != 0;
    f->trips[loop] = trips;
    f->most[loop] = trips.known ? dyn_nest_form_most(f, &trips) + 1.0 : 1.0;
    return trips.known && !trips.clamped;
}

/* ---- demands */

static void demand(DynNestForms *f, uint32_t a, uint32_t b) {
    if (a == b) {
        return;
    }
    if (is_number(f, a) && is_number(f, b)) {
        f->never = f->never || f->nodes[a].imm > f->nodes[b].imm;
        return;
    }
    for (uint32_t i = 0; i < f->ndemands; i++) {
        if (f->demands[i].a == a && f->demands[i].b == b) {
            return;
        }
    }
    if (f->ndemands == DYN_NEST_DEMANDS) {
        f->never = true;
        return;
    }
    f->demands[f->ndemands++] = (DynNestDemand){a, b};
}

/* The last trip of the loop is put in. */
static DynNestForm in_last_trip(DynNestForms *f, DynNestForm a, uint32_t loop) {
    uint32_t step = a.step[loop];
    const DynNestForm *trips = &f->trips[loop];
    a.step[loop] = DYN_NODE_ZERO;
    a.at = add(f, a.at, multiply(f, step, add(f, trips->at, number(f, -1))));
    for (uint32_t i = 0; i < loop; i++) {
        a.step[i] = add(f, a.step[i], multiply(f, step, trips->step[i]));
    }
    return a;
}

/* 1: the node is 0 or more, which may be asked for; -1: 0 or less; 0: that isn't known. */
static int sign_of(DynNestForms *f, uint32_t node) {
    const DynNestNode *n = &f->nodes[node];
    int a, b;
    switch (n->op) {
    case DYN_RO_ICONST: return n->imm < 0 ? -1 : 1;
    case DYN_RO_IMAX0: return 1;
    case DYN_RO_IMULW: return sign_of(f, n->arg[0]) * sign_of(f, n->arg[1]);
    case DYN_RO_IADDW:
        a = sign_of(f, n->arg[0]);
        b = sign_of(f, n->arg[1]);
        return a == b ? a : 0;
    case DYN_RO_ISUBW:
        a = n->arg[0] == DYN_NODE_ZERO ? -1 : sign_of(f, n->arg[0]);
        b = -sign_of(f, n->arg[1]);
        return a == b ? a : 0;
    default: demand(f, DYN_NODE_ZERO, node); return 1;
    }
}

/* `way`: 1 for the largest that the form can be, -1 for the smallest. Where a loop has no trips, the corner of its last one lies
 * on the other side of its first, so it asks for nothing more. */
static void demand_corners(DynNestForms *f, DynNestForm a, int way, uint32_t last) {
    uint32_t loop = DYN_NEST_LOOPS;
    while (loop > 0 && a.step[loop - 1] == DYN_NODE_ZERO) {
        loop--;
    }
    if (loop == 0) {
        demand(f, way < 0 ? DYN_NODE_ZERO : a.at, way < 0 ? a.at : last);
        return;
    }
    int sign = sign_of(f, a.step[loop - 1]) * way;
    if (sign >= 0) {
        demand_corners(f, in_last_trip(f, a, loop - 1), way, last);
    }
    if (sign <= 0) {
        a.step[loop - 1] = DYN_NODE_ZERO;
        demand_corners(f, a, way, last);
    }
}

void dyn_nest_form_demand_low(DynNestForms *f, const DynNestForm *a) { demand_corners(f, *a, -1, DYN_NODE_ZERO); }
void dyn_nest_form_demand_high(DynNestForms *f, const DynNestForm *a, uint32_t last) { demand_corners(f, *a, 1, last); }
uint32_t dyn_nest_forms_number(DynNestForms *f, int64_t i) { return number(f, i); }
uint32_t dyn_nest_form_last(DynNestForms *f, const DynNestForm *size) { return add(f, size->at, number(f, -1)); }

/* ---- the block in front */

typedef struct Front {
    DynNestForms *f;
    DynRegion *r;
    uint32_t block, slow, all;
    bool *failed;
} Front;

static uint32_t put(Front *x, DynRegionOp op, uint32_t a, uint32_t b, uint32_t c, int64_t imm) {
    uint32_t dst = dyn_region_add(x->r, x->block, op, a, b, imm, x->failed);
    DynRegionBlock *block = &x->r->blocks.at[x->block];
    if (!*x->failed) {
        DynRegionInstr *in = &block->v.at[block->v.n - 1];
        in->arg[2] = c;
        in->to[0] = dyn_region_ops[op].fails ? x->slow : DYN_NONE;
        x->r->in_front++;
    }
    return dst;
}

static void hold(Front *x, uint32_t condition) { x->all = put(x, DYN_RO_IAND, x->all, condition, DYN_NONE, 0); }

/* The register that has the node; what comes from outside is near. */
static uint32_t compute(Front *x, uint32_t i) {
    DynNestNode *node = &x->f->nodes[i];
    if (node->reg != DYN_NONE || *x->failed) {
        return node->reg;
    }
    uint32_t args[3] = {DYN_NONE, DYN_NONE, DYN_NONE};
    bool outside = node->op == DYN_RO_IMOV;
    for (int a = 0; a < 3 && dyn_region_ops[node->op].args[a] != 'N'; a++) {
        args[a] = outside ? node->arg[a] : compute(x, node->arg[a]);
    }
    node->reg = outside ? args[0] : put(x, (DynRegionOp)node->op, args[0], args[1], args[2], node->imm);
    bool exact = node->op == DYN_RO_ICONST || node->op == DYN_RO_IADDW || node->op == DYN_RO_ISUBW || node->op == DYN_RO_IMULW;
    if (!exact && node->op != DYN_RO_IMAX0) {
        int64_t near = (int64_t)x->f->near;
        uint32_t low = put(x, DYN_RO_ICONST, DYN_NONE, DYN_NONE, DYN_NONE, -near);
        uint32_t high = put(x, DYN_RO_ICONST, DYN_NONE, DYN_NONE, DYN_NONE, near);
        hold(x, put(x, DYN_RO_ILT, low, node->reg, DYN_NONE, 0));
        hold(x, put(x, DYN_RO_ILT, node->reg, high, DYN_NONE, 0));
    }
    return node->reg;
}

/* Nodes that are in no demand may have to be near, too: of sums that don't overflow then. */
uint32_t dyn_nest_forms_emit(DynNestForms *f, DynRegion *r, uint32_t block, uint32_t slow, bool *failed) {
    Front x = {.f = f, .r = r, .block = block, .slow = slow, .failed = failed};
    x.all = put(&x, DYN_RO_CALM, DYN_NONE, DYN_NONE, DYN_NONE, 0);
    for (uint32_t i = 0; i < f->nnodes && !*failed; i++) {
        if (f->nodes[i].used) {
            (void)compute(&x, i);
        }
    }
    for (uint32_t i = 0; i < f->ndemands && !*failed; i++) {
        hold(&x, put(&x, DYN_RO_ILE, compute(&x, f->demands[i].a), compute(&x, f->demands[i].b), DYN_NONE, 0));
    }
    return x.all;
}
