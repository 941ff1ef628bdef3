/* region_strings.h: the rows of region_strings.def, for who plans loops and for who runs them. */
#ifndef DYN_REGION_STRINGS_H
#define DYN_REGION_STRINGS_H
#include "ir/region_ir.h"

#define DYN_STRING_BITS 8 /* of a row's number; behind it so many arguments */
enum {
#define STRING_METHOD(name, takes, gives) DYN_STRING_##name,
#define STRING_FUNCTION(NAME, function) DYN_STRING_##NAME,
#include "ir/region_strings.def"
    DYN_STRING_COUNT
};
typedef struct DynRegionString {
    const char *name, *takes; /* Of a method; NULL: it is another function. */
    char gives;
} DynRegionString;
extern DYN_HIDDEN const DynRegionString dyn_region_strings[DYN_STRING_COUNT];
DYN_HIDDEN PyObject *dyn_region_string_method(int64_t which); /* borrowed; NULL: there is none */
/* `what`: a row and the number of arguments, which are objects. What they give is the run's; NULL or 1: CPython has to do it. */
DYN_HIDDEN PyObject *dyn_region_string(const DynScalar *given, int64_t what);
DYN_HIDDEN PyObject *dyn_region_text_of_int(int64_t x);
DYN_HIDDEN int dyn_region_string_int(const DynScalar *given, int64_t what, int64_t *d); /* of an int or bool */
DYN_HIDDEN int dyn_region_string_float(PyObject *text, double *d);                      /* float(text) */
#endif
