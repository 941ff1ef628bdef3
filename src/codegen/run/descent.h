/* descent.h: steps of gradient descent over memory: a parameter, its gradient and its state, in one pass. descent.c has them for
 * this machine's memory, codegen/cuda/descent.c on a device. */
#ifndef DYN_DESCENT_H
#define DYN_DESCENT_H
#include "base/arrays.h"

/* DYN_SHRINK multiplies the parameter by DYN_STEP_DECAY, and reads no gradient. */
typedef enum DynDescentRule { DYN_SGD, DYN_ADAM, DYN_ADAGRAD, DYN_RMSPROP, DYN_SHRINK, DYN_DESCENT_RULES } DynDescentRule;

/* What a step consists of, as bits. */
#define DYN_DECAYS 1      /* The parameter, times DYN_STEP_DECAY, is added to the gradient. */
#define DYN_DECOUPLED 2   /* The parameter is multiplied by DYN_STEP_DECAY. Adam's. */
#define DYN_AVERAGES 4    /* There is a momentum buffer. SGD's and RMSprop's. */
#define DYN_NESTEROV 8    /* SGD's. */
#define DYN_CENTERED 16   /* There is an average of gradients. RMSprop's. */
#define DYN_MAXIMA 32     /* Adam's amsgrad. */
#define DYN_ALL_FORMS 64  /* the number of combinations */
#define DYN_STEP_STATES 3 /* tensors of state at most, in the order in which descent_loops.h takes them */

/* NUMBER(name) for each number of a step. They are rounded to the type of the elements. */
#define DYN_EACH_STEP_NUMBER(NUMBER)                                                                             \
    NUMBER(DYN_STEP_SIGN)     /* of the gradient: 1, or -1 where the objective is maximised */                   \
    NUMBER(DYN_STEP_RATE)     /* what the direction is multiplied by before it is added to the parameter: < 0 */ \
    NUMBER(DYN_STEP_DECAY)    /* see DYN_DECAYS and DYN_DECOUPLED */                                             \
    NUMBER(DYN_STEP_MOMENTUM) /* how much of the momentum buffer stays */                                        \
    NUMBER(DYN_STEP_FRESH)    /* how much of the gradient comes to their average, or to SGD's momentum buffer */ \
    NUMBER(DYN_STEP_KEEP)     /* how much of the average of squares stays */                                     \
    NUMBER(DYN_STEP_SQUARES)  /* how much of the gradient's square comes to it */                                \
    NUMBER(DYN_STEP_EPS)      /* what is added to the square root */                                             \
    NUMBER(DYN_STEP_SCALE)    /* what Adam's square root is divided by before */
typedef enum DynStepNumber {
#define NUMBER(name) name,
    DYN_EACH_STEP_NUMBER(NUMBER)
#undef NUMBER
        DYN_STEP_NUMBERS
} DynStepNumber;

typedef struct DynDescent {
    char *parameter, *states[DYN_STEP_STATES]; /* Written. Nothing of a step overlaps what it or another step writes. */
    const char *gradient;
    int64_t n; /* elements of each, all in the same order without gaps */
    DynDescentRule rule;
    uint8_t form;   /* of the bits above */
    uint8_t dtype;  /* DYN_F32 or DYN_F64; on a device halves too */
    uint8_t device; /* where all of that lies (base/arrays.h) */
    double numbers[DYN_STEP_NUMBERS];
} DynDescent;

/* Is there such a step, and has it state number i? */
DYN_HIDDEN bool dyn_descent_has_form(DynDescentRule rule, uint8_t form);
DYN_HIDDEN bool dyn_descent_has_state(DynDescentRule rule, uint8_t form, int i);
/* For the target: make n steps, in any order, by one parallel region. `fused`: products and the sums that take them are rounded
 * once. Needs no GIL, and can't fail where it can be made. */
DYN_HIDDEN bool dyn_can_descend(const DynDescent *steps, int64_t n, bool fused);
DYN_HIDDEN int dyn_descend(const DynDescent *steps, int64_t n, bool fused);
DYN_HIDDEN int64_t dyn_descent_elements(const DynDescent *steps, int64_t n); /* how many all have together */
#endif
