/* optimizers.h: what src/dynoc/_optimizers.py asks the extension. */
#ifndef DYN_OPTIMIZERS_H
#define DYN_OPTIMIZERS_H
#include "base/base.h"

DYN_HIDDEN int dyn_optimizers_init(PyObject *module);
#endif
