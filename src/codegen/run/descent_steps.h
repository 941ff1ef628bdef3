/* descent_steps.h: the steps of gradient descent, an element at a time, as PyTorch's operators make them one after another.
 *
 * Read by descent_loops.h, whose loops they are the bodies of, and as text by codegen/cuda/descent.c: what is a macro here is
 * replaced in either, and what isn't (T, k, the operators) is told there. Element i of the parameter is p[i], of the gradient
 * g[i], of the state a[i], b[i] and c[i]; k has the numbers of the step, `form` its bits, which are constant. Each operator
 * rounds to T, and is named as PyTorch's is:
 *
 *     ADD(x, y, alpha)               x + alpha * y
 *     LERP(x, y, weight)             from x as far as the weight says to y
 *     ADDCMUL(x, y, z, value)        x + value * y * z; without a value: ADDCMUL_1
 *     ADDCDIV(x, y, z, value)        x + value * y / z; without a value: ADDCDIV_1
 *
 * A step that takes a root has a part BEFORE it, which leaves what the root is taken of in roots[i], and one BEHIND it. */
#ifndef DYN_DESCENT_STEPS_H
#define DYN_DESCENT_STEPS_H

#define DYN_GRADIENT                         \
    T x = k[DYN_STEP_SIGN] * g[i];           \
    if (form & DYN_DECAYS) {                 \
        x = ADD(x, p[i], k[DYN_STEP_DECAY]); \
    }

/* a: the momentum buffer */
#define DYN_SGD_STEP                                \
    DYN_GRADIENT                                    \
    if (form & DYN_AVERAGES) {                      \
        T kept = a[i] * k[DYN_STEP_MOMENTUM];       \
        a[i] = ADD(kept, x, k[DYN_STEP_FRESH]);     \
        if (form & DYN_NESTEROV) {                  \
            x = ADD(x, a[i], k[DYN_STEP_MOMENTUM]); \
        } else {                                    \
            x = a[i];                               \
        }                                           \
    }                                               \
    p[i] = ADD(p[i], x, k[DYN_STEP_RATE]);

/* a: averages of gradients; b: of their squares; c: the greatest that those were */
#define DYN_ADAM_BEFORE                                        \
    if (form & DYN_DECOUPLED) {                                \
        p[i] = p[i] * k[DYN_STEP_DECAY];                       \
    }                                                          \
    DYN_GRADIENT                                               \
    a[i] = LERP(a[i], x, k[DYN_STEP_FRESH]);                   \
    T kept = b[i] * k[DYN_STEP_KEEP];                          \
    b[i] = ADDCMUL(kept, x, x, k[DYN_STEP_SQUARES]);           \
    if (form & DYN_MAXIMA) { /* maximum: nan is the greater */ \
        c[i] = c[i] > b[i] || c[i] != c[i] ? c[i] : b[i];      \
    }                                                          \
    roots[i] = form & DYN_MAXIMA ? c[i] : b[i];
#define DYN_ADAM_BEHIND                      \
    T scaled = roots[i] / k[DYN_STEP_SCALE]; \
    T size = scaled + k[DYN_STEP_EPS];       \
    p[i] = ADDCDIV(p[i], a[i], size, k[DYN_STEP_RATE]);

/* a: sums of squares. The gradient is made anew behind the root: loops that keep it are slower. */
#define DYN_ADAGRAD_BEFORE        \
    DYN_GRADIENT                  \
    a[i] = ADDCMUL_1(a[i], x, x); \
    roots[i] = a[i];
#define DYN_ADAGRAD_BEHIND               \
    DYN_GRADIENT                         \
    T size = roots[i] + k[DYN_STEP_EPS]; \
    T scaled = k[DYN_STEP_RATE] * x;     \
    p[i] = ADDCDIV_1(p[i], scaled, size);

/* a: averages of squares; b: the momentum buffer; c: averages of gradients */
#define DYN_RMSPROP_BEFORE                           \
    DYN_GRADIENT                                     \
    T kept = a[i] * k[DYN_STEP_KEEP];                \
    a[i] = ADDCMUL(kept, x, x, k[DYN_STEP_SQUARES]); \
    roots[i] = a[i];                                 \
    if (form & DYN_CENTERED) {                       \
        c[i] = LERP(c[i], x, k[DYN_STEP_FRESH]);     \
        roots[i] = ADDCMUL(a[i], c[i], c[i], -1);    \
    }
#define DYN_RMSPROP_BEHIND                               \
    DYN_GRADIENT                                         \
    T size = roots[i] + k[DYN_STEP_EPS];                 \
    if (form & DYN_AVERAGES) {                           \
        T kept = b[i] * k[DYN_STEP_MOMENTUM];            \
        b[i] = ADDCDIV_1(kept, x, size);                 \
        p[i] = ADD(p[i], b[i], k[DYN_STEP_RATE]);        \
    } else {                                             \
        p[i] = ADDCDIV(p[i], x, size, k[DYN_STEP_RATE]); \
    }

#define DYN_SHRINK_STEP p[i] = p[i] * k[DYN_STEP_DECAY];
#endif
