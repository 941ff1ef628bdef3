/* arrays.h: NumPy's C API, imported once, and dynoc's own element types. Include this, never numpy headers. */
#ifndef DYN_ARRAYS_H
#define DYN_ARRAYS_H
#include "base/base.h"
#include "base/scalar.h"
#include <limits.h>
#define PY_ARRAY_UNIQUE_SYMBOL dyn_ARRAY_API
#define PY_UFUNC_UNIQUE_SYMBOL dyn_UFUNC_API
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#ifndef DYN_IMPORTS_ARRAY_API
#define NO_IMPORT_ARRAY
#define NO_IMPORT_UFUNC
#endif
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <numpy/ufuncobject.h>

typedef enum DynDtype {
#define DTYPE(name, npy, text, kind, size, ctype) DYN_##name,
#include "base/dtype.def"
#undef DTYPE
    DYN_DTYPE_COUNT,
    DYN_NO_DTYPE = 255
} DynDtype;
#define DYN_MAX_SIZE 16 /* bytes of the largest element */
typedef struct DynDtypeInfo {
    const char *name;  /* "f64" */
    const char *ctype; /* of an element in memory, in generated code */
    int npy;           /* NumPy type number; of BF16 that of its bits */
    uint8_t size;
    char kind;
} DynDtypeInfo;
extern DYN_HIDDEN const DynDtypeInfo dyn_dtypes[DYN_DTYPE_COUNT];
/* The dtype of the parts of a complex number; any other dtype is its own. */
static inline DynDtype dyn_dtype_real(DynDtype dt) {
    if (dt == DYN_C64) {
        return DYN_F32;
    }
    return dt == DYN_C128 ? DYN_F64 : dt;
}
/* Are its numbers real or complex floats, so that operations on them round? */
static inline bool dyn_dtype_is_inexact(DynDtype dt) { return dyn_dtypes[dt].kind == 'f' || dyn_dtypes[dt].kind == 'c'; }
static inline bool dyn_dtype_is_complex(DynDtype dt) { return dyn_dtypes[dt].kind == 'c'; }
/* Are its numbers integers, with or without a sign? Booleans are none. */
static inline bool dyn_dtype_is_integer(DynDtype dt) { return dyn_dtypes[dt].kind == 'i' || dyn_dtypes[dt].kind == 'u'; }
/* Is it 16 bits in memory and a float in between, rounded behind each operator? */
static inline bool dyn_dtype_is_half(DynDtype dt) { return dt == DYN_F16 || dt == DYN_BF16; }
DYN_HIDDEN int dyn_arrays_init(void);   /* as long as there is no NumPy; -1 with an exception set */
DYN_HIDDEN int dyn_arrays_load(void);   /* NumPy is imported: its C API is used from now on; -1 with an exception set */
DYN_HIDDEN void dyn_arrays_leave(void); /* It isn't used any more, as what works on arrays couldn't be started. */
/* Is NumPy used? Until then no object is an array or of another type of NumPy's. */
DYN_HIDDEN bool dyn_arrays_loaded(void);
DYN_HIDDEN DynDtype dyn_dtype_of(PyArray_Descr *descr); /* DYN_NO_DTYPE: not native byte order, or not ours */
DYN_HIDDEN DynDtype dyn_dtype_parse(const char *name);  /* from the short name; DYN_NO_DTYPE */

/* What a module has under a name, importing it: new, or NULL with an exception. */
DYN_HIDDEN PyObject *dyn_module_attr(const char *module, const char *name);
DYN_HIDDEN PyObject *dyn_int_tuple(int n, const int64_t *values, int64_t divisor); /* of each value / divisor; new, or NULL */

#define DYN_MAX_NDIM 8 /* arrays of a higher rank are left to eager */

/* Where elements lie: the order of the axes by decreasing |stride|, axes of size 1 left out of consideration.
 * C: C-contiguous. ORDERED: dense or strided in the order given by perm. What kernels may assume of an input. */
typedef enum DynLayoutKind { DYN_LAYOUT_C = 0, DYN_LAYOUT_STRIDED = 1 } DynLayoutKind;
typedef struct DynLayout {
    uint8_t kind;               /* DynLayoutKind */
    uint8_t perm[DYN_MAX_NDIM]; /* perm[0] is the axis with the largest |stride|; identity for C */
    uint8_t still;              /* bit i: axis i has stride 0 and not size 1; copies put such axes innermost, ufuncs leave them */
    bool folded;                /* elements may share memory, also along other axes: windows that overlap */
} DynLayout;
/* Where the elements of an array lie, whichever framework's it is. */
typedef struct DynArrayView {
    char *data;
    int64_t dims[DYN_MAX_NDIM], strides[DYN_MAX_NDIM]; /* strides in bytes */
    uint8_t ndim;
    uint8_t dtype; /* DynDtype */
    bool aligned, writeable;
    uint8_t device; /* Where that memory is: 0 in this machine's, 1 + i on CUDA device i, whose `data` nobody here may read. */
} DynArrayView;
/* Of an exact ndarray, or a tensor that can be captured (torch.h). false, without an exception: it is none, is of a higher rank
 * than DYN_MAX_NDIM or has elements of another type than ours. */
DYN_HIDDEN bool dyn_array_view(PyObject *o, DynArrayView *out);
/* The same, wherever the elements lie: for who asks for dtype, sizes and strides. */
DYN_HIDDEN bool dyn_array_look(PyObject *o, DynArrayView *out);
DYN_HIDDEN bool dyn_array_is(PyObject *o); /* an exact ndarray or an exact tensor, of whatever elements */
static inline bool dyn_view_empty(const DynArrayView *v) {
    for (int i = 0; i < v->ndim; i++) {
        if (v->dims[i] == 0) {
            return true;
        }
    }
    return false;
}
DYN_HIDDEN bool dyn_views_overlap(const DynArrayView *v, const DynArrayView *w); /* do the bytes they may lie in? */
DYN_HIDDEN void dyn_layout_of(const DynArrayView *v, DynLayout *out);
DYN_HIDDEN bool dyn_layout_fits(const DynLayout *l, const DynArrayView *v); /* do they lie so? */
DYN_HIDDEN bool dyn_layout_same(const DynLayout *a, const DynLayout *b, int ndim);
DYN_HIDDEN bool dyn_layout_is_dense(const DynLayout *l, const DynArrayView *v); /* do they, without gaps? */
/* Strides in bytes of a dense array in that order (NULL: C's); false: they are too large. */
DYN_HIDDEN bool dyn_layout_dense(const DynLayout *l, DynDtype dt, int ndim, const int64_t *dims, int64_t *strides);
/* What np.broadcast_arrays sets on its views: writing warns. The bit is private to NumPy (multiarray/common.h), and has no
 * setter. */
#define DYN_ARRAY_WARN_ON_WRITE INT_MIN
static inline bool dyn_array_write_warns(PyArrayObject *a) { return (PyArray_FLAGS(a) & DYN_ARRAY_WARN_ON_WRITE) != 0; }
/* A new array with the memory order of `layout` (dense), as NumPy allocates an elementwise result. */
DYN_HIDDEN PyObject *dyn_array_new(DynDtype dt, int ndim, const int64_t *dims, const DynLayout *layout);
/* Until dyn_arrays_own gets what this gives, the memory of NumPy's new arrays is the pool's, too, in this context. NULL, without
 * an exception: it isn't, as the program has a memory handler of its own. */
DYN_HIDDEN PyObject *dyn_arrays_lend_pool(void);
DYN_HIDDEN void dyn_arrays_own(PyObject *before); /* with no exception set */
/* The same as NumPy makes it of what an index names behind whole axes: a view of one in C order. */
DYN_HIDDEN PyObject *dyn_array_turned(DynDtype dt, int ndim, const int64_t *dims, const DynLayout *layout);
/* An array of the elements that v says, in memory that `owner` keeps alive. */
DYN_HIDDEN PyObject *dyn_array_blank(DynDtype dt, int ndim); /* one that lies nowhere yet: dyn_array_lay says where, once */
DYN_HIDDEN void dyn_array_lay(PyArrayObject *a, PyObject *owner, const DynArrayView *v, bool writeable);
DYN_HIDDEN PyObject *dyn_array_over(PyObject *owner, const DynArrayView *v, bool writeable);
/* How a symbol reads a NumPy scalar: as the number of a type (a DynDtype), or a part of a complex number, Python's or NumPy's. */
#define DYN_READ_REAL DYN_DTYPE_COUNT
#define DYN_READ_IMAG (DYN_DTYPE_COUNT + 1)
/* Is it exactly NumPy's scalar of this type (of those whose number a symbol can hold)? */
DYN_HIDDEN bool dyn_npscalar_is(PyObject *o, int how);
/* The number in an exact NumPy scalar of type dt (floats as double, the rest as int64): guards and the recorder read it alike. */
DYN_HIDDEN PyObject *dyn_npscalar_new(DynDtype dt, DynScalar value);
DYN_HIDDEN void dyn_npscalar_set(PyObject *o, DynDtype dt, DynScalar value); /* of one that nobody has seen yet, and no bool */
DYN_HIDDEN void dyn_npscalar_value(PyObject *o, int how, DynScalar *out);
#endif
