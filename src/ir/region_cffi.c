/* region_cffi.c: functions that cffi makes: of libraries that it opened (cdata objects), and of modules that it compiled
 * (attributes of their `lib`). Called by region_foreign.c and tracer/region, and by generated code around a call. With the GIL,
 * but what generated code calls. cffi is never imported here, and owns everything but the strong references in `cffi`.
 *
 * All that is asked goes through what cffi offers to programs: typeof() says the types, cast() the address, addressof() what
 * stands behind a function of a compiled module. Where a type or the address isn't known the function is CPython's.
 *
 * cffi keeps the program's errno from one call to the next: it becomes C's in front of a call and is read behind it. Both are
 * functions of the table that cffi hands to the modules that it compiles. */
#include "ir/region_foreign.h"

enum { RESTORE_ERRNO = 13, SAVE_ERRNO = 14 }; /* places in that table; they are part of cffi's binary interface */

static struct {
    PyTypeObject *data, *library;                    /* _CDataBase, Lib; NULL: _cffi_backend isn't imported */
    PyObject *typeof, *cast, *uintptr, *default_abi; /* strong */
    void (*restore_errno)(void), (*save_errno)(void);
} cffi;

static const struct {
    const char *name;
    DynForeignType type;
} names[] = {
    {"signed char", DYN_FT_I8}, {"int8_t", DYN_FT_I8},     {"unsigned char", DYN_FT_U8},   {"uint8_t", DYN_FT_U8},
    {"short", DYN_FT_I16},      {"int16_t", DYN_FT_I16},   {"unsigned short", DYN_FT_U16}, {"uint16_t", DYN_FT_U16},
    {"int", DYN_FT_I32},        {"int32_t", DYN_FT_I32},   {"unsigned int", DYN_FT_U32},   {"uint32_t", DYN_FT_U32},
    {"long", DYN_FT_I64},       {"long long", DYN_FT_I64}, {"int64_t", DYN_FT_I64},        {"ssize_t", DYN_FT_I64},
    {"intptr_t", DYN_FT_I64},   {"ptrdiff_t", DYN_FT_I64}, {"unsigned long", DYN_FT_U64},  {"unsigned long long", DYN_FT_U64},
    {"uint64_t", DYN_FT_U64},   {"size_t", DYN_FT_U64},    {"uintptr_t", DYN_FT_U64},      {"float", DYN_FT_F32},
    {"double", DYN_FT_F64},
};

/* New reference, or NULL without an exception. */
static PyObject *attribute(PyObject *o, const char *name) {
    PyObject *found = PyObject_GetAttrString(o, name);
    PyErr_Clear();
    return found;
}

/* The attribute of `dict`, borrowed; NULL where it isn't there. */
static PyObject *item(PyObject *dict, const char *name) { return PyDict_GetItemString(dict, name); }

static PyObject *uintptr_type(PyObject *dict) {
    PyObject *make = item(dict, "new_primitive_type"),
             *type = make == NULL ? NULL : PyObject_CallFunction(make, "s", "uintptr_t");
    PyErr_Clear();
    return type;
}

static bool find_cffi(void) {
    PyObject *module = cffi.data != NULL ? NULL : PyDict_GetItemString(PyImport_GetModuleDict(), "_cffi_backend");
    PyObject *dict = module != NULL && PyModule_Check(module) ? PyModule_GetDict(module) : NULL;
    if (dict == NULL) {
        return cffi.data != NULL;
    }
    PyObject *data = item(dict, "_CDataBase"), *library = item(dict, "Lib"), *table = item(dict, "_C_API");
    PyObject *type_of = item(dict, "typeof"), *cast = item(dict, "cast"), *abi = item(dict, "FFI_DEFAULT_ABI");
    void **functions = table != NULL && PyCapsule_IsValid(table, "cffi") ? PyCapsule_GetPointer(table, "cffi") : NULL;
    bool all = data != NULL && PyType_Check(data) && library != NULL && PyType_Check(library) && functions != NULL &&
               type_of != NULL && cast != NULL && abi != NULL;
    cffi.uintptr = all ? uintptr_type(dict) : NULL;
    if (cffi.uintptr == NULL) {
        return false;
    }
    cffi.restore_errno = (void (*)(void))functions[RESTORE_ERRNO];
    cffi.save_errno = (void (*)(void))functions[SAVE_ERRNO];
    cffi.typeof = Py_NewRef(type_of);
    cffi.cast = Py_NewRef(cast);
    cffi.default_abi = Py_NewRef(abi);
    cffi.library = (PyTypeObject *)Py_NewRef(library);
    cffi.data = (PyTypeObject *)Py_NewRef(data);
    return true;
}

int dyn_foreign_errno_back(void) {
    cffi.restore_errno();
    return 0;
}

int dyn_foreign_errno_keep(void) {
    cffi.save_errno();
    return 0;
}

/* ---- what there is */

static bool is_text(PyObject *o, const char *name, const char *text) {
    PyObject *said = attribute(o, name);
    bool is = said != NULL && PyUnicode_Check(said) && PyUnicode_CompareWithASCIIString(said, text) == 0;
    Py_XDECREF(said);
    return is;
}

/* The type of a cdata object, new reference; NULL where that is no function. */
static PyObject *function_type(PyObject *o) {
    PyObject *type = Py_IS_TYPE(o, cffi.data) ? PyObject_CallOneArg(cffi.typeof, o) : NULL;
    PyErr_Clear();
    if (type != NULL && !is_text(type, "kind", "function")) {
        Py_CLEAR(type);
    }
    return type;
}

static bool is_compiled(PyObject *o) {
    PyObject *self = PyCFunction_CheckExact(o) ? PyCFunction_GET_SELF(o) : NULL;
    return self != NULL && Py_IS_TYPE(self, cffi.library);
}

bool dyn_foreign_is_cffi(PyObject *o) {
    PyObject *type = find_cffi() && !is_compiled(o) ? function_type(o) : NULL;
    Py_XDECREF(type);
    return type != NULL || (cffi.data != NULL && is_compiled(o));
}

bool dyn_foreign_is_cffi_library(PyObject *o) { return find_cffi() && Py_IS_TYPE(o, cffi.library); }

PyObject *dyn_foreign_of_cffi_library(PyObject *o, PyObject *name) {
    PyObject *found = find_cffi() && Py_IS_TYPE(o, cffi.library) ? PyObject_GetAttr(o, name) : NULL;
    bool lasts = found != NULL && is_compiled(found) && PyCFunction_GET_SELF(found) == o; /* the library has it, too */
    PyErr_Clear();
    Py_XDECREF(found);
    return lasts ? found : NULL;
}

/* What ffi.addressof(lib, name) gives for a function of a compiled module, which the function names: new reference, or NULL. */
static PyObject *pointer_of(PyObject *o) {
    PyObject *from = attribute(o, "__module__"), *name = attribute(o, "__name__"), *found = NULL;
    PyObject *module = from == NULL || name == NULL ? NULL : PyDict_GetItemWithError(PyImport_GetModuleDict(), from);
    PyObject *ffi = module == NULL ? NULL : attribute(module, "ffi"), *lib = module == NULL ? NULL : attribute(module, "lib");
    if (ffi != NULL && lib == PyCFunction_GET_SELF(o)) {
        found = PyObject_CallMethod(ffi, "addressof", "OO", lib, name);
    }
    PyErr_Clear();
    Py_XDECREF(lib);
    Py_XDECREF(ffi);
    Py_XDECREF(from);
    Py_XDECREF(name);
    return found;
}

/* ---- what it says */

static DynForeignType type_of(PyObject *type, bool result) {
    if (result && is_text(type, "kind", "void")) {
        return DYN_FT_VOID;
    }
    PyObject *name = is_text(type, "kind", "primitive") ? attribute(type, "cname") : NULL;
    DynForeignType found = DYN_FT_END;
    for (size_t i = 0; name != NULL && PyUnicode_Check(name) && i < DYN_COUNTOF(names); i++) {
        found = PyUnicode_CompareWithASCIIString(name, names[i].name) == 0 ? names[i].type : found;
    }
    Py_XDECREF(name);
    return found;
}

static uint32_t signature_of(PyObject *args, PyObject *result) {
    DynForeignType type = type_of(result, true);
    uint32_t signature = (uint32_t)type;
    if (type == DYN_FT_END || !PyTuple_CheckExact(args) || PyTuple_GET_SIZE(args) > (Py_ssize_t)DYN_FOREIGN_ARGS) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        type = type_of(PyTuple_GET_ITEM(args, i), false);
        if (type == DYN_FT_END) {
            return 0;
        }
        signature |= (uint32_t)type << (4 * i + 4);
    }
    return signature;
}

static uint32_t read_signature(PyObject *type) {
    PyObject *args = attribute(type, "args"), *result = attribute(type, "result"), *more = attribute(type, "ellipsis"),
             *abi = attribute(type, "abi");
    bool plain = args != NULL && result != NULL && more == Py_False && abi != NULL &&
                 PyObject_RichCompareBool(abi, cffi.default_abi, Py_EQ) == 1;
    uint32_t signature = plain ? signature_of(args, result) : 0;
    PyErr_Clear();
    Py_XDECREF(args);
    Py_XDECREF(result);
    Py_XDECREF(more);
    Py_XDECREF(abi);
    return signature;
}

static void *address_of(PyObject *pointer) {
    PyObject *as_number = PyObject_CallFunctionObjArgs(cffi.cast, cffi.uintptr, pointer, NULL);
    PyObject *number = as_number == NULL ? NULL : PyNumber_Long(as_number);
    void *address = number == NULL ? NULL : PyLong_AsVoidPtr(number);
    PyErr_Clear();
    Py_XDECREF(as_number);
    Py_XDECREF(number);
    return address;
}

bool dyn_foreign_of_cffi(PyObject *o, DynForeign *f) {
    PyObject *pointer = Py_IS_TYPE(o, cffi.data) ? Py_NewRef(o) : pointer_of(o);
    PyObject *type = pointer == NULL ? NULL : function_type(pointer);
    f->signature = type == NULL ? 0 : read_signature(type);
    f->address = f->signature == 0 ? NULL : address_of(pointer);
    f->checks = true;
    f->why = f->address == NULL ? "a function of cffi whose parameters or result aren't plain numbers" : NULL;
    Py_XDECREF(type);
    Py_XDECREF(pointer);
    return f->why == NULL;
}
