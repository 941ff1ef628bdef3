/* rec_types.h: questions about the exact types of objects, for handlers and rules of every room above the recorder's core. */
#ifndef DYN_REC_TYPES_H
#define DYN_REC_TYPES_H
#include "base/base.h"

/* Is the object's type exactly one of these? */
static inline bool rec_has_type_of(PyObject *o, PyTypeObject *const *types, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (Py_IS_TYPE(o, types[i])) {
            return true;
        }
    }
    return false;
}

static inline bool rec_is_tuple_or_list(PyObject *o) { return PyTuple_CheckExact(o) || PyList_CheckExact(o); }
#endif
