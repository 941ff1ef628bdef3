/* cpy_internal.h: CPython's internal headers, for cpy*.c, tracer/bytecode/decode.c and tracer/asm*.c alone. Include it first.
 *
 * DYN_PY is the version that the extension is built for: 311 to 315. */
#ifndef DYN_CPY_INTERNAL_H
#define DYN_CPY_INTERNAL_H
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include "base/cpy.h"

#if PY_VERSION_HEX >= 0x03100000 || PY_VERSION_HEX < 0x030b0000
#error "dynoc knows CPython 3.11 to 3.15"
#endif
#define DYN_PY (PY_MAJOR_VERSION * 100 + PY_MINOR_VERSION)

/* CPython's inline functions are not written for our warnings. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <internal/pycore_ceval.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_object.h>
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_genobject.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_interpframe.h>
#include <internal/pycore_stackref.h>
#endif
#if PY_VERSION_HEX >= 0x030f0000
#include <internal/pycore_lazyimportobject.h>
#endif
#pragma GCC diagnostic pop

#define DYN_SLOT_HIDDEN 0x10 /* CO_FAST_HIDDEN, which 3.11 doesn't have */

DYN_HIDDEN int dyn_cpy_function_init(void); /* -1 with an exception set */
DYN_HIDDEN int dyn_cpy_frame_init(void);    /* -1 with an exception set */
/* cpy_lend.c: the frame is about to go on at `at`: operands of a call there are borrowed where CPython's would be. */
DYN_HIDDEN void dyn_frame_lend_operands(DynFrame *f, uint32_t at, int depth);
DYN_HIDDEN int dyn_cpy_dict_init(void); /* watchers and their self-test; -1 with an exception set */
#endif
