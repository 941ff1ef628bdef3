/* nest_forms.h: what ints are all over a nest of loops, as nest.c follows them: sums of numbers that are known in front of the
 * nest and multiples of the trips of each loop around. nest_forms.c has their arithmetic, and the instructions that ask in front
 * of the nest whether they stay between bounds. Nobody else includes it. Nothing is owned. */
#ifndef DYN_NEST_FORMS_H
#define DYN_NEST_FORMS_H
#include "codegen/region/region_code.h"

enum { DYN_NEST_LOOPS = 10, DYN_NEST_NODES = 800, DYN_NEST_DEMANDS = 160 };
enum { DYN_NODE_ZERO = 0, DYN_NODE_ONE = 1 };

/* A number that is known in front of the nest: what an instruction makes of others. Two nodes are never the same. */
typedef struct DynNestNode {
    uint16_t op;     /* IMOV: a register, arg[0]; ICONST: imm */
    uint32_t arg[3]; /* Nodes. */
    int64_t imm;
    double most;  /* It isn't farther from 0. */
    bool used;    /* What was found out depends on it. */
    uint32_t reg; /* When it is computed: the register that has it. */
} DynNestNode;

/* at + the sum of step[k] * (how many trips loop k has made since it was entered last). Clamped: 0 if that is below 0, and then
 * `more` is added, a number. */
typedef struct DynNestForm {
    bool known, clamped;
    int64_t more;
    uint32_t at, step[DYN_NEST_LOOPS]; /* Nodes. */
} DynNestForm;

/* a <= b, two nodes. */
typedef struct DynNestDemand {
    uint32_t a, b;
} DynNestDemand;

typedef struct DynNestForms {
    DynNestNode nodes[DYN_NEST_NODES];
    DynNestDemand demands[DYN_NEST_DEMANDS];
    uint32_t nnodes, ndemands;
    double near;                       /* Numbers that nothing is known of are asked to be nearer to 0. */
    DynNestForm trips[DYN_NEST_LOOPS]; /* How many trips each loop has, */
    double most[DYN_NEST_LOOPS];       /* and not more than so many. */
    bool large;                        /* Something may be too large to be computed, */
    bool never;                        /* a demand never holds, or there is no room. */
} DynNestForms;

DYN_HIDDEN void dyn_nest_forms_begin(DynNestForms *f, double near);
DYN_HIDDEN DynNestForm dyn_nest_form_number(DynNestForms *f, int64_t i);
DYN_HIDDEN DynNestForm dyn_nest_form_register(DynNestForms *f, uint32_t reg);
/* What the instruction makes of forms, those of its operands in `args`. */
DYN_HIDDEN DynNestForm dyn_nest_form_compute(DynNestForms *f, const DynRegionInstr *in, const DynNestForm *args);
/* A counter of the loop, which begins as `first`: step more in each trip. */
DYN_HIDDEN DynNestForm dyn_nest_form_counter(DynNestForms *f, DynNestForm first, uint32_t loop, int64_t step);
/* The loop has so many trips; false: not known. Loops with smaller numbers are entered before it. */
DYN_HIDDEN bool dyn_nest_forms_enter(DynNestForms *f, uint32_t loop, DynNestForm trips);
DYN_HIDDEN bool dyn_nest_form_is_same(const DynNestForm *a, const DynNestForm *b);
/* The same number in all trips. */
DYN_HIDDEN bool dyn_nest_form_stays(const DynNestForm *a);
/* Something depends on the form being what it is. */
DYN_HIDDEN void dyn_nest_form_use(DynNestForms *f, const DynNestForm *a);
/* Not farther from 0 than this. */
DYN_HIDDEN double dyn_nest_form_most(const DynNestForms *f, const DynNestForm *a);
/* Where all demands hold, in all trips a is not below 0, and not above `last`, a node. */
DYN_HIDDEN void dyn_nest_form_demand_low(DynNestForms *f, const DynNestForm *a);
DYN_HIDDEN void dyn_nest_form_demand_high(DynNestForms *f, const DynNestForm *a, uint32_t last);
/* The node of a number. */
DYN_HIDDEN uint32_t dyn_nest_forms_number(DynNestForms *f, int64_t i);
/* The last one below the form, which stays: for dyn_nest_form_demand_high. */
DYN_HIDDEN uint32_t dyn_nest_form_last(DynNestForms *f, const DynNestForm *size);
/* At the block's end: a register that is true where all demands hold. What can't be computed goes on at `slow`. */
DYN_HIDDEN uint32_t dyn_nest_forms_emit(DynNestForms *f, DynRegion *r, uint32_t block, uint32_t slow, bool *failed);
#endif
