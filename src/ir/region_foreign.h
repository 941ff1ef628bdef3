/* region_foreign.h: functions of other languages that native loops call by their address: what an object of ctypes says of one,
 * its signature as a number and as text, and what is done around a call. tracer/region asks, codegen/region reads and writes it
 * as C, region_interp.c calls. With the GIL. */
#ifndef DYN_REGION_FOREIGN_H
#define DYN_REGION_FOREIGN_H
#include "base/base.h"
#include "base/scalar.h"

typedef enum DynForeignType {
    DYN_FT_END, /* There is no such argument. */
#define FOREIGN(NAME, text, c_type, by) DYN_FT_##NAME,
#include "ir/region_foreign.def"
    DYN_FT_COUNT
} DynForeignType;
typedef struct DynForeignTypeInfo {
    const char *text, *c_type;
    char by;
} DynForeignTypeInfo;
extern DYN_HIDDEN const DynForeignTypeInfo dyn_foreign_types[DYN_FT_COUNT];

#define DYN_FOREIGN_ARGS 7u /* The most arguments. */
static inline DynForeignType dyn_foreign_result(uint32_t signature) { return (DynForeignType)(signature & 15); }
static inline DynForeignType dyn_foreign_arg(uint32_t signature, uint32_t i) {
    return i < DYN_FOREIGN_ARGS ? (DynForeignType)(signature >> (4 * i + 4) & 15) : DYN_FT_END;
}
static inline uint32_t dyn_foreign_nargs(uint32_t signature) {
    uint32_t n = 0;
    while (dyn_foreign_arg(signature, n) != DYN_FT_END) {
        n++;
    }
    return n;
}
DYN_HIDDEN void dyn_foreign_print(uint32_t signature, DynStr *out);   /* f64(f64,i32) */
DYN_HIDDEN uint32_t dyn_foreign_parse(const char *text, char **end);  /* 0: it is none */
DYN_HIDDEN void dyn_foreign_declare(uint32_t signature, DynStr *out); /* a pointer to such a function, as a type of C */

typedef struct DynForeign {
    void *address;
    uint32_t signature;
    uint32_t place;   /* Where in the object it lies, so many pointers from its beginning. */
    bool pure;        /* It belongs to the C library's mathematics: it neither blocks nor calls back, and can be called again. */
    bool skips;       /* Its last argument is 0, which the caller of the object doesn't give: region_cython.c. */
    bool swaps;       /* errno is the one that ctypes keeps for the program, while it runs. */
    bool floats_only; /* Its arguments are floats, and nothing that could become one. */
    bool checks;      /* Ints that don't fit its parameters are errors, and errno is kept for the program: region_cffi.c. */
    /* Of parameters that take addresses, the type of pointers to which they are, or a class of np.ctypeslib.ndpointer's;
     * borrowed. NULL: they take any, as c_void_p does, or numbers. */
    PyObject *accepts[DYN_FOREIGN_ARGS];
    const char *why; /* Where it can't be called natively: why, in words. */
} DynForeign;
DYN_HIDDEN bool dyn_foreign_is(PyObject *o);         /* Is it an object of ctypes, cffi or SciPy that stands for a function? */
DYN_HIDDEN bool dyn_foreign_is_special(PyObject *o); /* … of SciPy: region_cython.c */
DYN_HIDDEN bool dyn_foreign_of_special(PyObject *o, DynForeign *f);
DYN_HIDDEN bool dyn_foreign_is_cffi(PyObject *o); /* … of cffi: region_cffi.c */
DYN_HIDDEN bool dyn_foreign_of_cffi(PyObject *o, DynForeign *f);
DYN_HIDDEN bool dyn_foreign_is_cffi_library(PyObject *o);
DYN_HIDDEN bool dyn_foreign_is_library(PyObject *o);     /* … for a library, whose attributes are its functions? */
DYN_HIDDEN bool dyn_foreign_is_number_type(PyObject *o); /* Is it c_int, c_double …, whose objects are one number each? */
/* Is what a call of `function` gave an object of ctypes that the call has made? */
DYN_HIDDEN bool dyn_foreign_gives_new(PyObject *function, PyObject *result);
/* What a module that cffi has compiled calls `lib` has this function for its name as long as it lives. Borrowed, or NULL. */
DYN_HIDDEN PyObject *dyn_foreign_of_cffi_library(PyObject *o, PyObject *name);
/* Around a call of cffi's: the program's errno becomes C's, and the other way round. */
DYN_HIDDEN int dyn_foreign_errno_back(void);
DYN_HIDDEN int dyn_foreign_errno_keep(void);
/* Of ctypes: where the thread's is, with the GIL (1: that isn't known); C's and that change places, around a call. */
DYN_HIDDEN int dyn_foreign_errno_find(void);
DYN_HIDDEN int dyn_foreign_errno_swap(void);
/* What it says of its function now. false: it can't be called natively, and f->why says why. No Python code runs. */
DYN_HIDDEN bool dyn_foreign_of(PyObject *o, DynForeign *f);

/* The object's memory as it is now, bytes, and all that it refers to, a tuple: both new references. As long as they are held,
 * equal memory says the same. NULL without an exception: memory is out. */
DYN_HIDDEN PyObject *dyn_foreign_snapshot(PyObject *o, PyObject **refers_to);
DYN_HIDDEN bool dyn_foreign_is_as(PyObject *o, PyObject *snapshot);
static inline void *dyn_foreign_address(PyObject *o, uint32_t place) { return ((void **)o)[place]; }

DYN_HIDDEN bool dyn_foreign_is_pointer_type(PyObject *o);
DYN_HIDDEN PyObject *dyn_foreign_pointer_class(void);  /* The class of x.ctypes; borrowed, or NULL: nobody has met it … */
DYN_HIDDEN PyObject *dyn_foreign_pointer_method(void); /* … and what x.ctypes.data_as calls. */
/* What a class of ndpointer's asks of an array: its dtype (borrowed, or None), rank (-1: any) and flags. false: more than that.
 */
DYN_HIDDEN bool dyn_foreign_ndpointer(PyObject *class, PyObject **dtype, long *ndim, long *flags);

/* The signature of a call with n arguments; 0: there are too many or too few. Without argtypes they are ints. */
DYN_HIDDEN uint32_t dyn_foreign_with(uint32_t signature, uint32_t n);

/* Calls the function with what lies in `args`, for the interpreter. */
DYN_HIDDEN int64_t dyn_foreign_call_int(const void *function, const DynScalar *args, uint32_t signature);
DYN_HIDDEN double dyn_foreign_call_float(const void *function, const DynScalar *args, uint32_t signature);
/* Other threads, and code that the function calls back, may run between the two. */
DYN_HIDDEN void *dyn_foreign_release(void);
DYN_HIDDEN int dyn_foreign_hold(void *released);
/* The region has the object until it is left, whoever drops it. 1: there is no room. */
DYN_HIDDEN int dyn_foreign_keep(PyObject *o);
DYN_HIDDEN int dyn_foreign_is_changed(void); /* What the region takes for granted holds no more. */
#endif
