/* descent_loops.h: the loops of descent.c for one type T and one way of adding a product: LOOP(name) makes a function's name, FMA
 * is a * b + c, ROOTS(x, n) takes square roots in place, ATTRIBUTES says for what they are compiled. They round where PyTorch's
 * operators do, which make the same step one after another; the comment at a line names the operator. `form` is a constant where
 * they are inlined. */
#define STEP(name)                                                           \
    ATTRIBUTES __attribute__((always_inline)) static inline void LOOP(name)( \
        T *restrict p, const T *restrict g, T *restrict a, T *restrict b, T *restrict c, const T *k, int64_t n, unsigned form)

/* a: the momentum buffer */
STEP(sgd) {
    for (int64_t i = 0; i < n; i++) {
        T x = k[DYN_STEP_SIGN] * g[i];
        if (form & DYN_DECAYS) {
            x = FMA(p[i], k[DYN_STEP_DECAY], x); /* add */
        }
        if (form & DYN_AVERAGES) {
            T kept = a[i] * k[DYN_STEP_MOMENTUM];                                /* mul_ */
            a[i] = FMA(x, k[DYN_STEP_FRESH], kept);                              /* add_ */
            x = form & DYN_NESTEROV ? FMA(a[i], k[DYN_STEP_MOMENTUM], x) : a[i]; /* add */
        }
        p[i] = FMA(x, k[DYN_STEP_RATE], p[i]); /* add_ */
    }
}

/* a: averages of gradients; b: of their squares; c: the greatest that those were */
STEP(adam) {
    /* lerp_ goes from its nearer end. */
    bool near = k[DYN_STEP_FRESH] < (T)0.5;
    T weight = near ? k[DYN_STEP_FRESH] : k[DYN_STEP_FRESH] - 1, sizes[BLOCK];
    for (int64_t i = 0; i < n; i++) {
        T x = k[DYN_STEP_SIGN] * g[i];
        if (form & DYN_DECOUPLED) {
            p[i] = p[i] * k[DYN_STEP_DECAY]; /* mul_ */
        }
        if (form & DYN_DECAYS) {
            x = FMA(p[i], k[DYN_STEP_DECAY], x); /* add */
        }
        a[i] = FMA(weight, x - a[i], near ? a[i] : x); /* lerp_ */
        T kept = b[i] * k[DYN_STEP_KEEP];              /* mul_ */
        b[i] = FMA(k[DYN_STEP_SQUARES] * x, x, kept);  /* addcmul_ */
        if (form & DYN_MAXIMA) {
            c[i] = c[i] > b[i] || c[i] != c[i] ? c[i] : b[i]; /* maximum */
        }
        sizes[i] = form & DYN_MAXIMA ? c[i] : b[i];
    }
    ROOTS(sizes, n); /* sqrt */
    for (int64_t i = 0; i < n; i++) {
        T size = sizes[i] / k[DYN_STEP_SCALE] + k[DYN_STEP_EPS]; /* div, add_ */
        T quotient = k[DYN_STEP_RATE] * a[i] / size;
        p[i] = p[i] + quotient; /* addcdiv_ */
    }
}

/* a: sums of squares */
STEP(adagrad) {
    T sizes[BLOCK];
    for (int64_t i = 0; i < n; i++) {
        T x = k[DYN_STEP_SIGN] * g[i];
        if (form & DYN_DECAYS) {
            x = FMA(p[i], k[DYN_STEP_DECAY], x); /* add */
        }
        a[i] = FMA(x, x, a[i]); /* addcmul_ */
        sizes[i] = a[i];
    }
    ROOTS(sizes, n); /* sqrt */
    for (int64_t i = 0; i < n; i++) {
        T x = k[DYN_STEP_SIGN] * g[i];
        if (form & DYN_DECAYS) {
            x = FMA(p[i], k[DYN_STEP_DECAY], x);
        }
        T size = sizes[i] + k[DYN_STEP_EPS]; /* add_ */
        T quotient = k[DYN_STEP_RATE] * x / size;
        p[i] = p[i] + quotient; /* addcdiv_ */
    }
}

/* a: averages of squares; b: the momentum buffer; c: averages of gradients */
STEP(rmsprop) {
    bool near = k[DYN_STEP_FRESH] < (T)0.5;
    T weight = near ? k[DYN_STEP_FRESH] : k[DYN_STEP_FRESH] - 1, sizes[BLOCK];
    for (int64_t i = 0; i < n; i++) {
        T x = k[DYN_STEP_SIGN] * g[i];
        if (form & DYN_DECAYS) {
            x = FMA(p[i], k[DYN_STEP_DECAY], x); /* add */
        }
        T kept = a[i] * k[DYN_STEP_KEEP];             /* mul_ */
        a[i] = FMA(k[DYN_STEP_SQUARES] * x, x, kept); /* addcmul_ */
        sizes[i] = a[i];
        if (form & DYN_CENTERED) {
            c[i] = FMA(weight, x - c[i], near ? c[i] : x); /* lerp_ */
            sizes[i] = FMA(-c[i], c[i], a[i]);             /* addcmul */
        }
    }
    ROOTS(sizes, n); /* sqrt */
    for (int64_t i = 0; i < n; i++) {
        T x = k[DYN_STEP_SIGN] * g[i], size = sizes[i] + k[DYN_STEP_EPS]; /* add_ */
        if (form & DYN_DECAYS) {
            x = FMA(p[i], k[DYN_STEP_DECAY], x);
        }
        if (form & DYN_AVERAGES) {
            T old = b[i] * k[DYN_STEP_MOMENTUM], quotient = x / size; /* mul_, addcdiv_ */
            b[i] = old + quotient;
            p[i] = FMA(b[i], k[DYN_STEP_RATE], p[i]); /* add_ */
        } else {
            T quotient = k[DYN_STEP_RATE] * x / size;
            p[i] = p[i] + quotient; /* addcdiv_ */
        }
    }
}

STEP(shrink) {
    for (int64_t i = 0; i < n; i++) {
        p[i] = p[i] * k[DYN_STEP_DECAY]; /* mul_ */
    }
}
#undef STEP

/* A block of elements, at most, by the loop of the step's form, each compiled by itself. */
#define FORM(name, rule, bits) \
    case (rule)*DYN_ALL_FORMS + (bits): LOOP(name)(p, g, s[0], s[1], s[2], k, n, bits); break;
ATTRIBUTES static void LOOP(block)(const DynDescent *d, int64_t from, int64_t n) {
    T k[DYN_STEP_NUMBERS], *p = (T *)d->parameter + from, *s[DYN_STEP_STATES];
    const T *g = (const T *)d->gradient + from;
    for (int i = 0; i < DYN_STEP_NUMBERS; i++) {
        k[i] = (T)d->numbers[i];
    }
    for (int i = 0; i < DYN_STEP_STATES; i++) {
        s[i] = d->states[i] == NULL ? NULL : (T *)d->states[i] + from;
    }
    switch (d->rule * DYN_ALL_FORMS + d->form) { FORMS(FORM) }
}
#undef FORM

ATTRIBUTES static void LOOP(descend)(const DynDescent *d, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i += BLOCK) {
        LOOP(block)(d, i, to - i < BLOCK ? to - i : BLOCK);
    }
}
#undef LOOP
#undef T
#undef FMA
#undef ROOTS
