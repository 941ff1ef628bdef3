/* blas.c: products by the BLAS that NumPy itself calls, without NumPy's call, which costs more than a small product.
 *
 * Called by run.c in place of an extern call that is marked as a product (graph.h), where product.c doesn't make it. The routines
 * are looked up in the libraries that NumPy's module was linked with, so there is one pool of BLAS threads, with whatever number
 * of them was set. The routine, its order and its transpositions are those that NumPy's loops of matmul choose, so the bits are
 * NumPy's; what those loops do without BLAS, or by another routine (a matrix times its own transpose), is told, and NumPy's own
 * function does it. Large products of tensors are made by the BLAS that PyTorch was linked with, by the threads that it has.
 * Owns nothing but the routines' addresses. */
#define _GNU_SOURCE 1
#include "codegen/run/blas.h"
#include "base/torch.h"
#include "codegen/run/par.h"
#include "codegen/native.h"
#include <dlfcn.h>

#define MOST ((int64_t)1 << 30) /* of a size or a step: NumPy calls dot for more in pieces, and BLAS may count in int */

enum { ROW_MAJOR = 101, COL_MAJOR = 102 };

/* Sizes and steps are handed over as 64 bits, whether the library counts in int or in int64_t: both of the conventions below
 * have each argument in a register or a slot of 64 bits, of which an int is the lower half. */
typedef double DotF64(int64_t n, const void *a, int64_t a_step, const void *b, int64_t b_step);
typedef float DotF32(int64_t n, const void *a, int64_t a_step, const void *b, int64_t b_step);
typedef void GemvF64(int order, int trans, int64_t m, int64_t n, double alpha, const void *a, int64_t a_step, const void *x,
                     int64_t x_step, double beta, void *y, int64_t y_step);
typedef void GemvF32(int order, int trans, int64_t m, int64_t n, float alpha, const void *a, int64_t a_step, const void *x,
                     int64_t x_step, float beta, void *y, int64_t y_step);
typedef void GemmF64(int order, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, double alpha, const void *a,
                     int64_t a_step, const void *b, int64_t b_step, double beta, void *c, int64_t c_step);
typedef void GemmF32(int order, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const void *a,
                     int64_t a_step, const void *b, int64_t b_step, float beta, void *c, int64_t c_step);
static struct {
    DotF64 *ddot;
    DotF32 *sdot;
    GemvF64 *dgemv;
    GemvF32 *sgemv;
    GemmF64 *dgemm;
    GemmF32 *sgemm;
} blas; /* all or nothing */
/* PyTorch's, by columns; numbers are read as int or int64_t, of which the former is the lower half. */
typedef void TorchGemm(const char *trans_a, const char *trans_b, const int64_t *m, const int64_t *n, const int64_t *k,
                       const void *alpha, const void *a, const int64_t *a_step, const void *b, const int64_t *b_step,
                       const void *beta, void *c, const int64_t *c_step);
static struct { TorchGemm *dgemm, *sgemm; } torch; /* both or nothing */
static bool is_open, has_small;                    /* it is OpenBLAS; and its routines for small matrices are those for AVX-512 */

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
static bool look_up(void *library, const char *prefix, const char *suffix) {
    static const struct {
        const char *name;
        void *at;
    } routines[] = {{"ddot", &blas.ddot},   {"sdot", &blas.sdot},   {"dgemv", &blas.dgemv},
                    {"sgemv", &blas.sgemv}, {"dgemm", &blas.dgemm}, {"sgemm", &blas.sgemm}};
    for (size_t i = 0; i < DYN_COUNTOF(routines); i++) {
        char name[64];
        PyOS_snprintf(name, sizeof(name), "%scblas_%s%s", prefix, routines[i].name, suffix);
        void *found = dlsym(library, name);
        if (found == NULL) {
            return false;
        }
        memcpy(routines[i].at, &found, sizeof(found));
    }
    return true;
}

/* OpenBLAS takes as they lie, without packing them first, matrices of at most a million products, in files for AVX-512; and more
 * than one thread from half a million on. */
static bool look_up_small(void *library, const char *prefix, const char *suffix) {
    static const char *const cores[] = {"SkylakeX", "Cooperlake", "SapphireRapids", "Zen4", "Zen5"};
    char name[64];
    PyOS_snprintf(name, sizeof(name), "%sopenblas_get_corename%s", prefix, suffix);
    void *found = dlsym(library, name);
    char *(*core)(void);
    memcpy(&core, &found, sizeof(found));
    is_open = found != NULL;
    for (size_t i = 0; i < DYN_COUNTOF(cores) && core != NULL; i++) {
        if (strcmp(core(), cores[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Names as builds of OpenBLAS for NumPy have them, and as any BLAS has. */
static bool look_up_all(void) {
    static const char *const names[][2] = {{"scipy_", "64_"}, {"scipy_", ""}, {"", "64_"}, {"", ""}};
    Dl_info module;
    void *own = NULL, *function;
    memcpy(&function, &PyArray_API[2], sizeof(function)); /* any of its functions says which file it is in */
    dyn_load_lock(true);
    if (dladdr(function, &module) != 0 && module.dli_fname != NULL) {
        own = dlopen(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }
    bool found = false;
    for (size_t i = 0; i < DYN_COUNTOF(names) && own != NULL && !found; i++) {
        found = look_up(own, names[i][0], names[i][1]);
        has_small = found && look_up_small(own, names[i][0], names[i][1]);
    }
    dyn_load_lock(false);
    return found;
}
/* Its libraries are those that the module with its exchange API was linked with. */
static bool look_up_torch(void) {
    Dl_info module;
    void *at = dyn_torch_address(), *own = NULL, *routines[2] = {NULL, NULL};
    dyn_load_lock(true);
    if (at != NULL && dladdr(at, &module) != 0 && module.dli_fname != NULL) {
        own = dlopen(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }
    if (own != NULL) {
        routines[0] = dlsym(own, "dgemm_");
        routines[1] = dlsym(own, "sgemm_");
    }
    dyn_load_lock(false);
    memcpy(&torch.dgemm, &routines[0], sizeof(torch.dgemm));
    memcpy(&torch.sgemm, &routines[1], sizeof(torch.sgemm));
    return routines[0] != NULL && routines[1] != NULL;
}
#else
static bool look_up_all(void) { return false; }
static bool look_up_torch(void) { return false; }
#endif

static bool is_there(void) {
    static int known; /* under the GIL: 0 not looked, 1 yes, 2 no */
    if (known == 0) {
        known = look_up_all() ? 1 : 2;
    }
    return known == 1;
}

/* Does the library take a matrix of so many rows or columns? */
static bool is_size(int64_t n) { return n >= 1 && n <= MOST; }

/* Do rows of so many elements lie side by side, a step apart that is at least as long? */
static bool has_rows(int64_t step, int64_t along, int64_t length, int64_t size) {
    if (along != size || step % size != 0) {
        return false;
    }
    return step / size >= length && step / size <= MOST;
}

bool dyn_blas_lies(int64_t down, int64_t along, int64_t rows, int64_t columns, int64_t size, int *trans, int64_t *step) {
    bool by_rows = has_rows(down, along, columns, size);
    *trans = by_rows ? DYN_BLAS_NO_TRANS : DYN_BLAS_TRANS;
    *step = (by_rows ? down : along) / size;
    return by_rows || has_rows(along, down, rows, size);
}

static bool is_vector(int64_t along, int64_t size, int64_t *step) {
    *step = along / size;
    return along > 0 && along % size == 0 && *step <= MOST;
}

/* The stack's axes, which broadcast. */
static bool find_stack(DynBlas *p, const DynGeom *a, int a_axes, const DynGeom *b, int b_axes) {
    p->nstack = a_axes > b_axes ? a_axes : b_axes;
    p->stacks = 1;
    for (int d = 0; d < p->nstack; d++) {
        int i = d - p->nstack + a_axes, j = d - p->nstack + b_axes;
        int64_t x = i < 0 ? 1 : a->dims[i];
        int64_t y = j < 0 ? 1 : b->dims[j];
        if (x != y && x != 1 && y != 1) {
            return false;
        }
        p->dims[d] = x == 1 ? y : x;
        p->a[d] = x == 1 ? 0 : a->strides[i];
        p->b[d] = y == 1 ? 0 : b->strides[j];
        p->stacks *= p->dims[d];
    }
    return p->stacks > 0;
}

/* One of them is a matrix, the other a vector, or a matrix that is one. */
static bool find_gemv(DynBlas *p, const int64_t *x, const int64_t *y) {
    bool left = p->columns == 1; /* the matrix is on the left; else it is the transpose of what lies on the right */
    int64_t rows = left ? p->rows : p->columns;
    int trans;
    if (!dyn_blas_lies(left ? x[0] : y[1], left ? x[1] : y[0], rows, p->terms, p->size, &trans, &p->a_step) ||
        !is_vector(left ? y[0] : x[1], p->size, &p->b_step)) {
        return false;
    }
    p->routine = DYN_BLAS_GEMV;
    p->order = trans == DYN_BLAS_NO_TRANS ? COL_MAJOR
                                          : ROW_MAJOR; /* with DYN_BLAS_TRANS: the sums are over what lies side by side, or not */
    if (!left) {
        const char *matrix = p->right;
        p->right = p->left;
        p->left = matrix;
        for (int d = 0; d < p->nstack; d++) {
            int64_t stride = p->a[d];
            p->a[d] = p->b[d];
            p->b[d] = stride;
        }
    }
    return true;
}

static bool find_gemm(DynBlas *p, const int64_t *x, const int64_t *y) {
    if (!dyn_blas_lies(x[0], x[1], p->rows, p->terms, p->size, &p->trans_a, &p->a_step) ||
        !dyn_blas_lies(y[0], y[1], p->terms, p->columns, p->size, &p->trans_b, &p->b_step)) {
        return false;
    }
    p->routine = DYN_BLAS_GEMM;
    bool turned = p->rows == p->columns && x[0] == y[1] && x[1] == y[0];
    return !turned || (p->left != p->right && p->stacks == 1); /* else one may be its own transpose: half is made, by syrk */
}

bool dyn_blas_find(DynBlas *p, DynDtype dtype, const DynGeom *a, int a_ndim, const DynGeom *b, int b_ndim) {
    int ka = a_ndim - 1, kb = b_ndim > 1 ? b_ndim - 2 : 0; /* the axes that are summed over */
    int64_t x[2] = {a_ndim > 1 ? a->strides[ka - 1] : 0, a->strides[ka]};
    int64_t y[2] = {b->strides[kb], b_ndim > 1 ? b->strides[kb + 1] : 0};
    if ((dtype != DYN_F32 && dtype != DYN_F64) || !is_there()) {
        return false;
    }
    p->single = dtype == DYN_F32;
    p->torch = false;
    p->size = dyn_dtypes[dtype].size;
    p->left = a->data;
    p->right = b->data;
    p->rows = a_ndim > 1 ? a->dims[ka - 1] : 1;
    p->terms = a->dims[ka];
    p->columns = b_ndim > 1 ? b->dims[kb + 1] : 1;
    bool sizes_fit = is_size(p->rows) && is_size(p->terms) && is_size(p->columns);
    int a_stack = a_ndim > 1 ? a_ndim - 2 : 0;
    int b_stack = b_ndim > 1 ? b_ndim - 2 : 0;
    if (b->dims[kb] != p->terms || !sizes_fit || !find_stack(p, a, a_stack, b, b_stack)) {
        return false;
    }
    if (p->rows == 1 && p->columns == 1) {
        p->routine = DYN_BLAS_DOT;
        return is_vector(x[1], p->size, &p->a_step) && is_vector(y[0], p->size, &p->b_step);
    }
    if (p->terms == 1) {
        return false; /* NumPy's own loops */
    }
    return p->rows == 1 || p->columns == 1 ? find_gemv(p, x, y) : find_gemm(p, x, y);
}

/* A stack of left matrices that lie below one another, times one right matrix, is one product. */
static void join_stack(DynBlas *p) {
    int64_t below = p->rows * p->a_step * p->size;
    if (p->stacks > MOST / p->rows) {
        return;
    }
    for (int d = p->nstack; d-- > 0; below *= p->dims[d]) {
        bool one_matrix = p->b[d] == 0 && p->trans_a == DYN_BLAS_NO_TRANS && p->a[d] == below;
        if (p->dims[d] != 1 && !one_matrix) {
            return;
        }
    }
    p->rows *= p->stacks;
    p->stacks = 1;
    p->nstack = 0;
}

bool dyn_blas_torch(DynBlas *p) {
    static int known; /* under the GIL: 0 not looked, 1 yes, 2 no */
    if (p->routine != DYN_BLAS_GEMM || dyn_blas_terms(p) < DYN_TORCH_TERMS) {
        return false;
    }
    if (known == 0) {
        known = look_up_torch() ? 1 : 2;
    }
    join_stack(p);
    p->torch = known == 1 && p->stacks == 1;
    return p->torch;
}

/* What lies by rows is the transpose of what lies by columns. */
static void run_torch(const DynBlas *p, const char *a, const char *b, char *out, int64_t out_step) {
    const char *trans_a = p->trans_a == DYN_BLAS_NO_TRANS ? "N" : "T";
    const char *trans_b = p->trans_b == DYN_BLAS_NO_TRANS ? "N" : "T";
    if (p->single) {
        const float one = 1, none = 0;
        torch.sgemm(trans_b, trans_a, &p->columns, &p->rows, &p->terms, &one, b, &p->b_step, a, &p->a_step, &none, out,
                    &out_step);
    } else {
        const double one = 1, none = 0;
        torch.dgemm(trans_b, trans_a, &p->columns, &p->rows, &p->terms, &one, b, &p->b_step, a, &p->a_step, &none, out,
                    &out_step);
    }
}

static void run_gemm(const DynBlas *p, const char *a, const char *b, char *out, int64_t out_step) {
    if (p->torch) {
        run_torch(p, a, b, out, out_step);
    } else if (p->single) {
        blas.sgemm(ROW_MAJOR, p->trans_a, p->trans_b, p->rows, p->columns, p->terms, 1, a, p->a_step, b, p->b_step, 0, out,
                   out_step);
    } else {
        blas.dgemm(ROW_MAJOR, p->trans_a, p->trans_b, p->rows, p->columns, p->terms, 1, a, p->a_step, b, p->b_step, 0, out,
                   out_step);
    }
}

static void run_one(const DynBlas *p, const char *a, const char *b, char *out) {
    int64_t made = p->rows * p->columns; /* of a vector: its elements */
    if (p->routine == DYN_BLAS_DOT) {
        if (p->single) {
            *(float *)out = 0.0F + blas.sdot(p->terms, a, p->a_step, b, p->b_step); /* NumPy adds: there is no -0 */
        } else {
            *(double *)out = 0.0 + blas.ddot(p->terms, a, p->a_step, b, p->b_step);
        }
    } else if (p->routine == DYN_BLAS_GEMV) {
        if (p->single) {
            blas.sgemv(p->order, DYN_BLAS_TRANS, p->terms, made, 1, a, p->a_step, b, p->b_step, 0, out, 1);
        } else {
            blas.dgemv(p->order, DYN_BLAS_TRANS, p->terms, made, 1, a, p->a_step, b, p->b_step, 0, out, 1);
        }
    } else {
        run_gemm(p, a, b, out, p->columns);
    }
}

#define ALONE 524287     /* products that one thread makes */
#define UNPACKED 1000000 /* products that its routines for small matrices make */

/* Does the library start no threads for one of a stack? (For a matrix times a vector it does from 9216 elements on.) */
static bool is_alone(const DynBlas *p) {
    int64_t made = p->rows * p->columns;
    return is_open && (p->routine == DYN_BLAS_GEMM ? p->terms <= ALONE / made : p->terms <= 9215 / made);
}

typedef struct Stack {
    const DynBlas *p;
    char *out;
    int64_t chunk; /* of one region */
} Stack;

static void run_some(const Stack *s, int64_t from, int64_t to) {
    const DynBlas *p = s->p;
    int64_t index[DYN_MAX_NDIM], rest = from, made = p->rows * p->columns * p->size;
    const char *a = p->left, *b = p->right;
    for (int d = p->nstack; d-- > 0; rest /= p->dims[d]) {
        index[d] = rest % p->dims[d];
        a += index[d] * p->a[d];
        b += index[d] * p->b[d];
    }
    for (int64_t i = from; i < to; i++) {
        run_one(p, a, b, s->out + i * made);
        for (int d = p->nstack; d-- > 0;) {
            a += p->a[d];
            b += p->b[d];
            if (++index[d] < p->dims[d]) {
                break;
            }
            a -= p->a[d] * p->dims[d];
            b -= p->b[d] * p->dims[d];
            index[d] = 0;
        }
    }
}

static void stack_chunk(void *ctx, int64_t chunk) {
    const Stack *s = ctx;
    int64_t from = chunk * s->chunk, to = from + s->chunk;
    run_some(s, from, to < s->p->stacks ? to : s->p->stacks);
}

void dyn_blas_run(const DynBlas *p, char *out) {
    Stack s = {.p = p, .out = out};
    double each = (double)p->rows * (double)p->columns * (double)p->terms / DYN_BLAS_TERMS, all = each * (double)p->stacks;
    s.chunk = (int64_t)(DYN_CHUNK_COST / each) + 1;
    bool pays = s.chunk < p->stacks && all >= DYN_PARALLEL_COST;
    if (pays && is_alone(p) && dyn_par_threads() > 1) {
        dyn_par_for(stack_chunk, &s, (p->stacks + s.chunk - 1) / s.chunk);
    } else {
        run_some(&s, 0, p->stacks);
    }
}

/* Columns of a block that are made at a time, in whole vectors. */
static int64_t columns_at_a_time(const DynBlas *p) {
    int64_t n = (p->trans_b == DYN_BLAS_NO_TRANS ? UNPACKED : ALONE) / (DYN_BLAS_ROWS * p->terms) & -16;
    return n < DYN_BLAS_COLUMNS_MOST ? n : DYN_BLAS_COLUMNS_MOST;
}

bool dyn_blas_has_blocks(const DynBlas *p) {
    bool one_product = p->routine == DYN_BLAS_GEMM && p->stacks == 1;
    if (!has_small || !one_product) {
        return false;
    }
    return columns_at_a_time(p) >= DYN_BLAS_COLUMNS_LEAST && p->terms * p->columns * p->size <= DYN_BLAS_RIGHT_BYTES;
}

void dyn_blas_block(const DynBlas *p, int64_t row, int64_t rows, char *out) {
    DynBlas part = *p;
    int64_t from_row = p->trans_a == DYN_BLAS_NO_TRANS ? p->a_step : 1;
    int64_t to_column = p->trans_b == DYN_BLAS_NO_TRANS ? 1 : p->b_step;
    int64_t columns = columns_at_a_time(p);
    part.rows = rows;
    for (int64_t at = 0; at < p->columns; at += columns) {
        part.columns = p->columns - at < columns ? p->columns - at : columns;
        run_gemm(&part, p->left + row * from_row * p->size, p->right + at * to_column * p->size, out + at * p->size, p->columns);
    }
}
