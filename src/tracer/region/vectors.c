/* vectors.c: what NumPy's own loops compute of vectors and matrices of doubles in loops: products and norms. Called by
 * numbers.c and calls.c. The loops are called as NumPy calls them, so that results are its own to the bit. */
#include "tracer/region/plan.h"

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

/* A product of matmul's: of vectors, with memory of one's own for its element. */
static void multiply(Plan *p, int form, const PlanValue *made) {
    p->r->warns = true;
    plan_emit_or(p, DYN_RO_MATMUL, made->v.regs[1], plan_iconst(p, form), plan_iconst(p, made->v.dtype), DYN_R_FLAGS);
}

static bool is_of_doubles(const PlanValue *v, uint32_t rank) {
    return plan_is_array(v) && v->v.n == rank && v->v.dtype == DYN_F64;
}

static uint32_t size_of(const PlanValue *a, uint32_t axis) { return a->v.regs[2 + axis]; }

void plan_put_operand(Plan *p, const PlanValue *a, uint32_t axis) {
    plan_emit(p, DYN_RO_OPERAND, a->v.regs[1], plan_stride(p, a, axis), size_of(a, axis));
}

static bool dot_of_vectors(Plan *p, const PlanValue *a, const PlanValue *b, bool operator, PlanValue * out) {
    plan_emit(p, DYN_RO_DOTWITH, a->v.regs[1], plan_stride(p, a, 0), size_of(a, 0));
    uint32_t stride = plan_stride(p, b, 0);
    p->r->warns = true;
    *out =
        plan_np(DYN_F64, plan_emit_or(p, operator? DYN_RO_DOT : DYN_RO_NPDOT, b->v.regs[1], stride, size_of(b, 0), DYN_R_FLAGS));
    return true;
}

/* A new vector: of rows where the matrix comes first, else of columns. */
static bool with_matrix(Plan *p, const PlanValue *both, bool vector_first, PlanValue *out) {
    const PlanValue *matrix = &both[vector_first], *vector = &both[!vector_first];
    const uint32_t n = size_of(matrix, vector_first);
    PlanValue made = plan_new_array(p, (DynDtype)matrix->v.dtype, &n, 1, both, 2);
    if (vector_first) {
        plan_put_operand(p, vector, 0);
    }
    plan_put_operand(p, matrix, 0);
    plan_put_operand(p, matrix, 1);
    if (!vector_first) {
        plan_put_operand(p, vector, 0);
    }
    multiply(p, vector_first ? DYN_VEC_MAT : DYN_MAT_VEC, &made);
    *out = made;
    return true;
}

static bool of_matrices(Plan *p, const PlanValue *both, PlanValue *out) {
    const uint32_t sizes[2] = {size_of(&both[0], 0), size_of(&both[1], 1)};
    int64_t *samples = DYN_NEW_N(&p->arena, int64_t, 2);
    PlanValue made = plan_new_array(p, (DynDtype)both[0].v.dtype, sizes, 2, both, 2);
    if (samples == NULL) {
        return no(p, "memory");
    }
    samples[0] = plan_sampled(&both[0], 1);
    samples[1] = plan_sampled(&both[1], 0);
    made.sizes = samples;
    if (plan_is_large(&both[0]) || plan_is_large(&both[1]) || plan_is_large(&made)) {
        return no(p, "a product of large matrices");
    }
    for (uint32_t k = 0; k < 4; k++) {
        plan_put_operand(p, &both[k / 2], k % 2);
    }
    multiply(p, DYN_MAT_MAT, &made);
    *out = made;
    return true;
}

/* np.dot makes copies where `@` doesn't, and adds up in another order then: of a matrix it is known for dense rows alone. */
static bool is_for_dot(Plan *p, const PlanValue *matrix, const PlanValue *vector) {
    if (!(matrix->v.flags & DYN_RF_CONTIGUOUS)) {
        return no(p, "np.dot of a matrix whose rows aren't dense");
    }
    uint32_t row = plan_emit(p, DYN_RO_IMULW, size_of(matrix, 1), plan_stride(p, matrix, 1), DYN_NONE);
    uint32_t apart = plan_emit(p, DYN_RO_ILE, row, plan_stride(p, matrix, 0), DYN_NONE);
    uint32_t forward = plan_emit(p, DYN_RO_ILT, plan_iconst(p, 0), plan_stride(p, vector, 0), DYN_NONE);
    uint32_t both = plan_emit(p, DYN_RO_IAND, apart, forward, DYN_NONE);
    plan_emit_or(p, DYN_RO_IDX, plan_iconst(p, 0), both, DYN_NONE, DYN_R_UNSUPPORTED_VALUE); /* leaves where it is 0 */
    return true;
}

static bool is_complex(const PlanValue *v) { return plan_is_complex_array(v) && v->v.n <= 2; }

/* `@` of complex vectors and matrices. */
static bool of_complex(Plan *p, const PlanValue *both, PlanValue *out) {
    if (both[0].v.n == 2 || both[1].v.n == 2) {
        return both[0].v.n == both[1].v.n ? of_matrices(p, both, out) : with_matrix(p, both, both[0].v.n == 1, out);
    }
    PlanValue to = plan_memory(p, DYN_C128);
    plan_put_operand(p, &both[0], 0);
    plan_put_operand(p, &both[1], 0);
    multiply(p, DYN_VEC_VEC, &to);
    return plan_row(p, &to, plan_iconst(p, 0), out);
}

bool plan_dot(Plan *p, PlanValue a, PlanValue b, bool operator, PlanValue * out) {
    PlanValue both[2] = {a, b};
    if (!plan_make_arrays(p, both, 2)) {
        return false;
    }
    if (operator&& is_complex(&both[0]) && is_complex(&both[1])) {
        return of_complex(p, both, out);
    }
    if (is_of_doubles(&both[0], 1) && is_of_doubles(&both[1], 1)) {
        return dot_of_vectors(p, &both[0], &both[1], operator, out);
    }
    if (is_of_doubles(&both[0], 2) && is_of_doubles(&both[1], 1)) {
        return (operator|| is_for_dot(p, &both[0], &both[1])) && with_matrix(p, both, false, out);
    }
    if (is_of_doubles(&both[0], 1) && is_of_doubles(&both[1], 2)) {
        return (operator|| is_for_dot(p, &both[1], &both[0])) && with_matrix(p, both, true, out);
    }
    if (operator&& is_of_doubles(&both[0], 2) && is_of_doubles(&both[1], 2)) {
        return of_matrices(p, both, out);
    }
    return no(p, "a product of something else than vectors and matrices of doubles");
}

/* np.linalg.norm of a vector: the root of its product with itself, of a copy where it isn't dense. */
bool plan_norm(Plan *p, PlanValue a, PlanValue *out) {
    bool copies = plan_is_array(&a) && !(a.v.flags & DYN_RF_CONTIGUOUS);
    if (copies && is_of_doubles(&a, 1) && !plan_make_array(p, &a, &a)) {
        return false;
    }
    if (!plan_make_arrays(p, &a, 1)) {
        return false;
    }
    if (!is_of_doubles(&a, 1)) {
        return no(p, "a norm of something else than a vector of doubles");
    }
    dot_of_vectors(p, &a, &a, false, out);
    *out = plan_np(DYN_F64, plan_emit_or(p, DYN_RO_SQRT, out->v.regs[0], DYN_NONE, DYN_NONE, DYN_R_FLAGS));
    return true;
}

/* np.cross of two vectors of three: a product minus a product each, as NumPy computes it. */
bool plan_cross(Plan *p, PlanValue *both, PlanValue *out) {
    static const uint8_t at[3][2] = {{1, 2}, {2, 0}, {0, 1}};
    uint32_t element[2][3], three = plan_iconst(p, 3);
    if (!plan_make_arrays(p, both, 2)) {
        return false;
    }
    if (!is_of_doubles(&both[0], 1) || !is_of_doubles(&both[1], 1)) {
        return no(p, "np.cross of something else than vectors of doubles");
    }
    for (uint32_t i = 0; i < 2; i++) {
        plan_same_size(p, size_of(&both[i], 0), three);
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t offset = plan_emit(p, DYN_RO_IMULW, plan_iconst(p, k), plan_stride(p, &both[i], 0), DYN_NONE);
            element[i][k] = plan_emit(p, DYN_RO_LDF64, both[i].v.regs[1], offset, DYN_NONE);
        }
    }
    PlanValue made = plan_new_array(p, DYN_F64, &three, 1, both, 2);
    p->r->warns = true;
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t x = plan_emit(p, DYN_RO_DMUL, element[0][at[k][0]], element[1][at[k][1]], DYN_NONE);
        uint32_t y = plan_emit(p, DYN_RO_DMUL, element[0][at[k][1]], element[1][at[k][0]], DYN_NONE);
        uint32_t z = plan_emit(p, DYN_RO_DSUB, x, y, DYN_NONE);
        plan_leave_unless(p, plan_emit(p, DYN_RO_ISFINITE, z, DYN_NONE, DYN_NONE), DYN_R_FLAGS);
        plan_emit(p, DYN_RO_STF64, made.v.regs[1], plan_iconst(p, 8 * (int64_t)k), z);
    }
    *out = made;
    return true;
}
