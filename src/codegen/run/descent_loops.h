/* descent_loops.h: the loops of descent.c for one type T and one way of adding a product: LOOP(name) makes a function's name, FMA
 * is a * b + c, ROOTS(x, n) takes square roots in place, ATTRIBUTES says for what they are compiled. Their bodies are those of
 * descent_steps.h, with the operators as PyTorch's vectors compute them. `form` is a constant where they are inlined. */
#define ADD(x, y, alpha) FMA(y, alpha, x)
#define LERP(x, y, weight) FMA((weight) < (T)0.5 ? (weight) : (weight)-1, (y) - (x), (weight) < (T)0.5 ? (x) : (y))
#define ADDCMUL(x, y, z, value) FMA((value) * (y), z, x)
#define ADDCMUL_1(x, y, z) FMA(y, z, x)
#define ADDCDIV(x, y, z, value) ((x) + (value) * (y) / (z))
#define ADDCDIV_1(x, y, z) ((x) + (y) / (z))
#define STEP(name)                                                           \
    ATTRIBUTES __attribute__((always_inline)) static inline void LOOP(name)( \
        T *restrict p, const T *restrict g, T *restrict a, T *restrict b, T *restrict c, const T *k, int64_t n, unsigned form)
#define EACH(body)                    \
    for (int64_t i = 0; i < n; i++) { \
        body                          \
    }
#define WITH_ROOTS(before, behind) \
    T roots[BLOCK];                \
    EACH(before)                   \
    ROOTS(roots, n);               \
    EACH(behind)

STEP(sgd){EACH(DYN_SGD_STEP)} STEP(adam){WITH_ROOTS(DYN_ADAM_BEFORE, DYN_ADAM_BEHIND)} STEP(adagrad){
    WITH_ROOTS(DYN_ADAGRAD_BEFORE, DYN_ADAGRAD_BEHIND)} STEP(rmsprop){
    WITH_ROOTS(DYN_RMSPROP_BEFORE, DYN_RMSPROP_BEHIND)} STEP(shrink) {
    EACH(DYN_SHRINK_STEP)
}
#undef WITH_ROOTS
#undef EACH
#undef ADDCDIV_1
#undef ADDCDIV
#undef ADDCMUL_1
#undef ADDCMUL
#undef LERP
#undef ADD
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
