/* gather_loops.h: the loops of exec_gather.c over the elements of an index, for each_isa.h. The compiler makes vectors of them.
 */

/* The sign of the result tells whether a place is not there. A place counts from the beginning or, where it is negative, from
 * the end: place + extent is neither below 0 nor above 2 * extent - 1. Signs are gathered: nothing has to be compared. */
#define CHECK(N, T)                                                      \
    case DYN_##N:                                                        \
        for (int64_t i = 0; i < n; i++) {                                \
            int64_t u = (int64_t)((uint64_t)((const T *)at)[i] + whole); \
            wrong |= u | (int64_t)(2 * whole - 1 - (uint64_t)u);         \
        }                                                                \
        break;
TARGET static int64_t LOOP(wrong)(const void *at, int64_t n, uint8_t dtype, int64_t extent) {
    const uint64_t whole = (uint64_t)extent;
    int64_t wrong = 0;
    switch (dtype) {
        DYN_INTEGERS(CHECK)
    default: break;
    }
    return wrong;
}
#undef CHECK

/* Places counted from the beginning; the sign of the result as above. What isn't there is the last. */
#define FIND(N, T)                                                \
    case DYN_##N:                                                 \
        for (int64_t i = 0; i < n; i++) {                         \
            int64_t v = (int64_t)((const T *)at)[i];              \
            int64_t u = (int64_t)((uint64_t)v + whole);           \
            wrong |= u | (int64_t)(2 * whole - 1 - (uint64_t)u);  \
            uint64_t place = (uint64_t)(v < 0 ? u : v);           \
            to[i] = (int64_t)(place < whole ? place : whole - 1); \
        }                                                         \
        break;
TARGET static int64_t LOOP(find)(int64_t *to, const void *at, int64_t n, uint8_t dtype, int64_t extent) {
    const uint64_t whole = (uint64_t)extent;
    int64_t wrong = 0;
    switch (dtype) {
        DYN_INTEGERS(FIND)
    default: break;
    }
    return wrong;
}
#undef FIND
