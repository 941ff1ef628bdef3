/* region_arrays.c: what native loops call for whole arrays: memory for results that aren't stored yet, the processor's flags, and
 * NumPy's own reductions. Called by generated code and by the interpreter of region IR, with the GIL, by way of region_world.def.
 * The memory is of this file and kept for the next loop: as much as the largest result needed, up to LARGEST bytes each.
 *
 * An expression of arrays is computed into that memory, then the flags are read, and only then is anything stored. So where NumPy
 * has something to report, CPython computes the whole statement as if nothing had been. */
#include "base/cpu_flags.h"
#include "base/cpy_region.h"
#include "ir/region_ir.h"
#include <fenv.h>

enum { LARGEST = 1 << 18, PLACES = 4 };

char *dyn_region_scratch(int64_t bytes, int64_t which) {
    static struct {
        char *at;
        int64_t bytes;
    } places[PLACES];
    if (bytes < 0 || bytes > LARGEST) {
        return NULL;
    }
    if (places[which].at == NULL || places[which].bytes < bytes) {
        int64_t more = bytes < 1024 ? 1024 : bytes;
        char *at = PyMem_RawRealloc(places[which].at, (size_t)more);
        if (at == NULL) {
            return NULL;
        }
        places[which].at = at;
        places[which].bytes = more;
    }
    return places[which].at;
}

/* ---- arrays that the loop makes */

enum { MOST_HELD = 64 };
static PyObject *held[MOST_HELD]; /* Borrowed: values of the loop, until the next array is made. */
static uint32_t nheld;

int dyn_region_hold_array(PyObject *o) {
    if (nheld < MOST_HELD) {
        held[nheld] = o;
    }
    nheld++;
    return 0;
}

static bool is_held(PyObject *o) {
    bool is = false;
    for (uint32_t i = 0; i < nheld; i++) {
        is = is || held[i] == o;
    }
    return is;
}

static npy_intp axes[DYN_REGION_RANK]; /* Of the array that is made next: so many in front of its last. */
static int naxes;

int dyn_region_axis(int64_t n) {
    axes[naxes++] = (npy_intp)n;
    return 0;
}

/* Is it of this dtype, with the axes as they were told? */
static bool fits(PyObject *o, int rank, int64_t dtype) {
    const PyArrayObject *a = (PyArrayObject *)o;
    bool same = PyArray_TYPE(a) == dyn_dtypes[dtype].npy && PyArray_NDIM(a) == rank;
    for (int k = 0; same && k < rank; k++) {
        same = PyArray_DIM(a, k) == axes[k];
    }
    return same;
}

/* Elements within its axes; more than LARGEST bytes where that is too many. */
static int64_t elements_of(int rank) {
    int64_t all = 1;
    for (int k = 0; k < rank; k++) {
        bool room = axes[k] >= 0 && axes[k] <= LARGEST && all <= LARGEST;
        all = room ? all * axes[k] : LARGEST + 1;
    }
    return all;
}

/* One that no value of the loop is, as it is or in the place of another; or a new one. */
PyObject *dyn_region_new_array(int64_t n, int64_t dtype) {
    DynRegionMade *m = dyn_region_made;
    uint32_t at = m->narrays, held_now = nheld;
    axes[naxes] = (npy_intp)n;
    const int rank = naxes + 1;
    naxes = 0;
    for (uint32_t i = 0; i < m->narrays; i++) {
        if (!is_held(m->arrays[i])) {
            at = i;
            if (fits(m->arrays[i], rank, dtype)) {
                break;
            }
        }
    }
    nheld = 0;
    if (held_now > MOST_HELD || at == DYN_COUNTOF(m->arrays)) {
        return NULL;
    }
    if (at < m->narrays && fits(m->arrays[at], rank, dtype)) {
        return m->arrays[at];
    }
    bool room = elements_of(rank) <= LARGEST / dyn_dtypes[dtype].size;
    PyObject *o = room ? PyArray_SimpleNew(rank, axes, dyn_dtypes[dtype].npy) : NULL;
    if (o == NULL) {
        PyErr_Clear();
        return NULL;
    }
    if (at == m->narrays) {
        m->narrays++;
    } else {
        Py_DECREF(m->arrays[at]);
    }
    return m->arrays[at] = o;
}

char *dyn_region_array_data(PyObject *o) { return PyArray_BYTES((PyArrayObject *)o); }

int dyn_region_unflag(void) {
    dyn_flags_clear_all();
    return 0;
}

/* Regions aren't entered where np.errstate wants to hear of underflow. */
int dyn_region_flags(void) { return (dyn_flags_get_all() & (FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW)) != 0; }

/* ---- reductions, as NumPy's iterator calls the loop for one axis: the result lies in front of the first operand, with no step
 */

typedef struct Reduction {
    const char *name; /* of the ufunc */
    void *loop, *data;
} Reduction;

static bool find_loop(Reduction *r) {
    if (r->loop == NULL) {
        PyObject *f = dyn_module_attr("numpy", r->name);
        if (f == NULL || !dyn_region_ufunc(f, 2, &r->loop, &r->data)) {
            r->loop = NULL;
        }
        PyErr_Clear();
        Py_XDECREF(f);
    }
    return r->loop != NULL;
}

/* What isn't finite may be NumPy's to report. */
static int reduce(Reduction *r, char *data, int64_t stride, int64_t n, double *d) {
    char *args[3] = {(char *)d, data, (char *)d};
    const npy_intp count = (npy_intp)n, steps[3] = {0, (npy_intp)stride, 0};
    if (!find_loop(r)) {
        return 1;
    }
    ((PyUFuncGenericFunction)r->loop)(args, &count, steps, r->data);
    return !isfinite(*d);
}

int dyn_region_array_sum(char *data, int64_t stride, int64_t n, double *d) {
    static Reduction add = {.name = "add"};
    *d = 0.0;
    return reduce(&add, data, stride, n, d);
}

static int extreme(Reduction *r, char *data, int64_t stride, int64_t n, double *d) {
    if (n < 1) {
        return 1;
    }
    memcpy(d, data, sizeof *d);
    return n == 1 ? !isfinite(*d) : reduce(r, data + stride, stride, n - 1, d);
}

int dyn_region_array_max(char *data, int64_t stride, int64_t n, double *d) {
    static Reduction maximum = {.name = "maximum"};
    return extreme(&maximum, data, stride, n, d);
}

int dyn_region_array_min(char *data, int64_t stride, int64_t n, double *d) {
    static Reduction minimum = {.name = "minimum"};
    return extreme(&minimum, data, stride, n, d);
}

/* ---- NumPy's own loops over vectors */

enum { MOST_OPERANDS = 4 };
static struct {
    char *data;
    int64_t stride, n;
    int64_t around[DYN_REGION_RANK]; /* The strides of the axes around the last, from the innermost. */
    int naround;
    union {
        double parts[2];
        int64_t integer;
        float single;
    } number;
} operands[MOST_OPERANDS];
static int noperands;
static int64_t around[DYN_REGION_RANK]; /* How many elements those axes have. */
static int naround;

int dyn_region_operand(char *data, int64_t stride, int64_t n) {
    operands[noperands].data = data;
    operands[noperands].stride = stride;
    operands[noperands].naround = 0;
    operands[noperands++].n = n;
    return 0;
}

static int number_told(void) { return dyn_region_operand((char *)&operands[noperands].number, 0, -1); }

int dyn_region_operand_number(double number) {
    operands[noperands].number.parts[0] = number;
    return number_told();
}

/* Of any size: the low bytes come first. */
int dyn_region_operand_int(int64_t number) {
    operands[noperands].number.integer = number;
    return number_told();
}

int dyn_region_operand_single(float number) {
    operands[noperands].number.single = number;
    return number_told();
}

int dyn_region_operand_complex(double real, double imag) {
    operands[noperands].number.parts[0] = real;
    operands[noperands].number.parts[1] = imag;
    return number_told();
}

int dyn_region_operand_stride(int64_t stride) {
    operands[noperands - 1].around[operands[noperands - 1].naround++] = stride;
    return 0;
}

int dyn_region_around(int64_t n) {
    around[naround++] = n;
    return 0;
}

#define MOST_BYTES 16 /* of an element */

int dyn_region_lines(void) {
    char *low[2], *high[2];
    int64_t a = operands[0].stride, b = operands[1].stride;
    for (int i = 0; i < 2; i++) {
        int64_t far = (operands[i].n > 0 ? operands[i].n - 1 : 0) * operands[i].stride;
        low[i] = operands[i].data + (far < 0 ? far : 0);
        high[i] = operands[i].data + (far < 0 ? 0 : far) + MOST_BYTES;
    }
    noperands = 0;
    return a != b && (a < 0) == (b < 0) && low[0] < high[1] && low[1] < high[0];
}

int dyn_region_call_ufunc(char *loop, char *data, char *out) {
    char *args[MOST_OPERANDS + 1];
    npy_intp steps[MOST_OPERANDS + 1], n = -1;
    int count = noperands;
    for (int i = 0; i < count; i++) {
        args[i] = operands[i].data;
        steps[i] = (npy_intp)operands[i].stride;
        n = operands[i].n >= 0 ? (npy_intp)operands[i].n : n;
    }
    args[count] = out;
    steps[count] = sizeof(double);
    noperands = 0;
    ((PyUFuncGenericFunction)loop)(args, &n, steps, data);
    return 0;
}

/* The axes that are gone through, from the innermost: those of one element are left out, and those that lie behind each other in
 * all operands are one. */
typedef struct Axes {
    npy_intp size[DYN_REGION_RANK], steps[DYN_REGION_RANK][MOST_OPERANDS];
    int n;
    bool empty, backwards;
} Axes;

static void add_axis(Axes *a, npy_intp size, const npy_intp *steps, int count) {
    int last = a->n - 1;
    bool joins = last >= 0;
    for (int k = 0; joins && k < count; k++) {
        joins = steps[k] == a->steps[last][k] * a->size[last];
    }
    a->empty = a->empty || size == 0;
    if (size == 1 && a->n > 0) {
        return;
    }
    if (joins) {
        a->size[last] *= size;
        return;
    }
    if (last == 0 && a->size[0] == 1) {
        a->n = last = 0;
    }
    a->size[a->n] = size;
    memcpy(a->steps[a->n++], steps, (size_t)count * sizeof *steps);
}

static Axes axes_of_operands(int count) {
    Axes a = {.n = 0};
    for (int axis = 0; axis <= naround; axis++) {
        npy_intp steps[MOST_OPERANDS];
        for (int k = 0; k < count; k++) {
            bool number = operands[k].n < 0;
            steps[k] = number ? 0 : (npy_intp)(axis == 0 ? operands[k].stride : operands[k].around[axis - 1]);
            a.backwards = a.backwards || steps[k] < 0;
        }
        add_axis(&a, (npy_intp)(axis == 0 ? operands[count - 1].n : around[axis - 1]), steps, count);
    }
    return a;
}

static void go_through(const Axes *a, int axis, char *const *at, int count, PyUFuncGenericFunction loop, char *data) {
    char *args[MOST_OPERANDS];
    memcpy(args, at, sizeof args);
    if (axis == 0) {
        loop(args, &a->size[0], a->steps[0], data);
        return;
    }
    for (npy_intp i = 0; i < a->size[axis]; i++) {
        go_through(a, axis - 1, args, count, loop, data);
        for (int k = 0; k < count; k++) {
            args[k] += a->steps[axis][k];
        }
    }
}

/* NumPy turns several axes round that are gone through backwards: those are left to it. */
int dyn_region_call_ufunc_to(char *loop, char *data) {
    char *args[MOST_OPERANDS] = {NULL};
    const int count = noperands;
    const Axes a = axes_of_operands(count);
    for (int k = 0; k < count; k++) {
        args[k] = operands[k].data;
    }
    noperands = 0;
    naround = 0;
    if (a.backwards && a.n > 1) {
        return 1;
    }
    if (!a.empty) {
        go_through(&a, a.n - 1, args, count, (PyUFuncGenericFunction)loop, data);
    }
    bool failed = PyErr_Occurred() != NULL;
    PyErr_Clear();
    return failed;
}

/* The loop of matmul for a dtype: of doubles or complex numbers. */
static PyUFuncGenericFunction find_matmul(int64_t dtype, void **data) {
    static struct {
        PyUFuncGenericFunction loop;
        void *data;
    } found[2];
    const int which = dtype == DYN_C128;
    PyObject *o = found[which].loop == NULL ? dyn_module_attr("numpy", "matmul") : NULL;
    const PyUFuncObject *f = o != NULL && Py_IS_TYPE(o, &PyUFunc_Type) ? (PyUFuncObject *)o : NULL;
    int i = f == NULL ? -1 : dyn_region_loop_of(f, 2, (DynDtype)dtype);
    if (i >= 0 && f->types[3 * i + 2] == dyn_dtypes[dtype].npy) {
        found[which].loop = f->functions[i];
        found[which].data = f->data == NULL ? NULL : (void *)f->data[i];
    }
    PyErr_Clear();
    Py_XDECREF(o);
    *data = found[which].data;
    return found[which].loop;
}

/* What isn't finite may be NumPy's to report. */
static int is_not_finite(const char *at, int64_t n) {
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        finite = finite && isfinite(((const double *)(const void *)at)[i]);
    }
    return !finite;
}

/* Sizes that differ are NumPy's to report. A vector is a matrix of one row, or of one column, as matmul has it. */
int dyn_region_matmul(char *out, int64_t form, int64_t dtype) {
    void *data;
    PyUFuncGenericFunction loop = find_matmul(dtype, &data);
    const bool row = form == DYN_VEC_MAT || form == DYN_VEC_VEC, column = form == DYN_MAT_VEC || form == DYN_VEC_VEC;
    const int second = row ? 1 : 2; /* where the right operand is */
    char *args[3] = {operands[0].data, operands[second].data, out};
    const npy_intp size = dyn_dtypes[dtype].size, rows = row ? 1 : (npy_intp)operands[0].n;
    const npy_intp n = (npy_intp)operands[second - 1].n, columns = column ? 1 : (npy_intp)operands[second + 1].n;
    const npy_intp dims[4] = {1, rows, n, columns};
    const npy_intp steps[9] = {0,
                               0,
                               0,
                               row ? 0 : (npy_intp)operands[0].stride,
                               (npy_intp)operands[second - 1].stride,
                               (npy_intp)operands[second].stride,
                               column ? 0 : (npy_intp)operands[second + 1].stride,
                               row ? 0 : columns * size,
                               column ? 0 : size};
    noperands = 0;
    if (loop == NULL || n != operands[second].n) {
        return 1;
    }
    loop(args, dims, steps, data);
    return is_not_finite(out, rows * columns * (size / (npy_intp)sizeof(double)));
}

/* ---- records */

/* What lies in an array's own dictionary hides fields of the same name. */
static bool has_attributes(PyObject *array) { return !PyArray_CheckExact(array) && !dyn_cpy_shows_its_methods(array); }

bool dyn_region_has_fields(PyObject *array) {
    PyArray_Descr *d = PyArray_DESCR((PyArrayObject *)array);
    return d->type_num == NPY_VOID && PyDataType_HASFIELDS(d) && !PyDataType_REFCHK(d) && !has_attributes(array);
}

PyTypeObject *dyn_region_recarray(void) {
    static PyObject *type; /* strong */
    if (type == NULL) {
        type = dyn_module_attr("numpy", "recarray");
        PyErr_Clear();
    }
    return (PyTypeObject *)type;
}

PyObject *dyn_region_blank_record(PyObject *descr) {
    Py_INCREF(descr);
    PyArrayObject *array = (PyArrayObject *)PyArray_Zeros(0, NULL, (PyArray_Descr *)descr, 0);
    PyObject *o = array == NULL ? NULL : PyArray_Scalar(PyArray_DATA(array), (PyArray_Descr *)descr, (PyObject *)array);
    Py_XDECREF(array);
    return o;
}

/* As PyArray_Scalar lays it over an array. */
void dyn_region_lay_record(PyObject *record, PyObject *owner, char *data) {
    PyVoidScalarObject *v = (PyVoidScalarObject *)record;
    v->obval = data;
    v->flags = PyArray_FLAGS((PyArrayObject *)owner) & ~NPY_ARRAY_OWNDATA;
    Py_XSETREF(v->base, Py_NewRef(owner));
}

/* ---- linear algebra */

/* By DYN_LINALG_*: NumPy's generalised ufunc, how many of its operands there are, how many axes each has, and its result. */
static const struct {
    const char *name;
    int nin, rank[2], result;
} algebra[] = {[DYN_LINALG_SOLVE] = {"solve1", 2, {2, 1}, 1},
               [DYN_LINALG_SOLVE_MANY] = {"solve", 2, {2, 2}, 2},
               [DYN_LINALG_INV] = {"inv", 1, {2}, 2},
               [DYN_LINALG_CHOLESKY] = {"cholesky_lo", 1, {2}, 2},
               [DYN_LINALG_DET] = {"det", 1, {2}, 0}};

static PyUFuncGenericFunction find_algebra(int64_t which, void **data) {
    static struct {
        PyUFuncGenericFunction loop;
        void *data;
    } found[DYN_COUNTOF(algebra)];
    PyObject *o = found[which].loop == NULL ? dyn_module_attr("numpy.linalg._umath_linalg", algebra[which].name) : NULL;
    const PyUFuncObject *f = o != NULL && Py_IS_TYPE(o, &PyUFunc_Type) ? (PyUFuncObject *)o : NULL;
    int i = f == NULL || f->nin != algebra[which].nin || f->nout != 1 ? -1 : dyn_region_loop_of(f, f->nin, DYN_F64);
    if (i >= 0) {
        found[which].loop = f->functions[i];
        found[which].data = f->data == NULL ? NULL : (void *)f->data[i];
    }
    PyErr_Clear();
    Py_XDECREF(o);
    *data = found[which].data;
    return found[which].loop;
}

/* It says by a flag that a matrix is singular, which NumPy raises an exception for; of a determinant others are reported, too. */
static int call_algebra(PyUFuncGenericFunction loop, char **args, const npy_intp *dims, const npy_intp *steps, void *data,
                        int reported) {
    fexcept_t before;
    fegetexceptflag(&before, FE_ALL_EXCEPT);
    feclearexcept(FE_ALL_EXCEPT);
    loop(args, dims, steps, data);
    int raised = fetestexcept(reported);
    fesetexceptflag(&before, FE_ALL_EXCEPT);
    bool failed = PyErr_Occurred() != NULL; /* memory was out */
    PyErr_Clear();
    return failed || raised != 0;
}

/* Of the operands, an axis each: matrices that aren't square, and sizes that differ, are NumPy's to report. */
int dyn_region_linalg(char *out, int64_t which) {
    void *data;
    PyUFuncGenericFunction loop = find_algebra(which, &data);
    const int nin = algebra[which].nin, reported = which == DYN_LINALG_DET ? FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO : FE_INVALID;
    const npy_intp n = (npy_intp)operands[0].n, size = sizeof(double);
    npy_intp dims[3] = {1, n, 0}, steps[9] = {0};
    char *args[3] = {NULL};
    bool fits = loop != NULL && n > 0;
    int at = 0, step = nin + 1;
    for (int k = 0; k < nin; k++) {
        args[k] = operands[at].data;
        for (int axis = 0; axis < algebra[which].rank[k]; axis++, at++) {
            bool columns = k == 1 && axis == 1;
            fits = fits && (columns || operands[at].n == operands[0].n);
            dims[2] = columns ? (npy_intp)operands[at].n : dims[2];
            steps[step++] = (npy_intp)operands[at].stride;
        }
    }
    args[nin] = out;
    if (algebra[which].result == 2) {
        steps[step++] = (dims[2] != 0 ? dims[2] : n) * size;
    }
    steps[step] = size;
    noperands = 0;
    return !fits || call_algebra(loop, args, dims, steps, data, reported);
}

/* ---- orders */

static int failed(bool it) {
    PyErr_Clear();
    return it;
}

int dyn_region_array_sort(PyObject *a) {
    return failed(PyArray_Sort((PyArrayObject *)a, PyArray_NDIM((PyArrayObject *)a) - 1, NPY_QUICKSORT) < 0);
}

int dyn_region_array_argsort(PyObject *out, PyObject *a) {
    PyObject *places = PyArray_ArgSort((PyArrayObject *)a, 0, NPY_QUICKSORT);
    if (places != NULL) {
        memcpy(PyArray_DATA((PyArrayObject *)out), PyArray_DATA((PyArrayObject *)places),
               (size_t)PyArray_NBYTES((PyArrayObject *)places));
    }
    Py_XDECREF(places);
    return failed(places == NULL);
}

/* What is no number comes last. */
int64_t dyn_region_array_search(int64_t right, double x) {
    int64_t low = 0, high = operands[0].n;
    noperands = 0;
    while (low < high) {
        int64_t middle = low + ((high - low) >> 1);
        double there = *(const double *)(const void *)(operands[0].data + middle * operands[0].stride);
        if (right ? there <= x : there < x) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void dyn_region_forget_arrays(void) {
    noperands = 0;
    naround = 0;
    nheld = 0;
    naxes = 0;
}
