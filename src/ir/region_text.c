/* region_text.c: region IR as text, and back.
 *
 *     region header=12 slots=3 stack=1 extra=0
 *     regs IIDP
 *     entry b0: entry:0 int(r1) array.f64.2.cw(r2 r3 r4 r5 r6 r7) | iter@3(r8 r9 r10)
 *     routine b4: r12 r13 -> I
 *     b0 @4:
 *       r11 = iadd r1 r8 else x0
 *       br r11 b1 b2
 *     exit x0 at 24 stack=1 more=0 OK: int(r1) … | …
 *     exit x1 gives up
 *
 * Values behind the bar are those of the stack; a tuple stands in front of its items. Called by the test door and for logs; owns
 * nothing. The parser knows no objects: `const:3` is the fourth object, of which only the one who made the region has any. */
#include "base/cpy_region.h"
#include "ir/region_foreign.h"
#include "ir/region_ir.h"
#include <stdlib.h>

DynRegion *dyn_region_new(void) {
    DynRegion *r = PyMem_RawCalloc(1, sizeof(*r));
    if (r != NULL) {
        r->force = DYN_NONE;
    }
    return r;
}

uint32_t dyn_region_reg(DynRegion *r, char type) { return dyn_vec_push(&r->regs, type) < 0 ? DYN_NONE : r->regs.n - 1; }

/* A named tuple of plain values. */
static bool is_plain_named(PyObject *o) {
    bool plain = PyTuple_Check(o) && Py_TYPE(o)->tp_dictoffset == 0 && Py_TYPE(o)->tp_weaklistoffset == 0;
    for (Py_ssize_t i = 0; plain && i < PyTuple_GET_SIZE(o); i++) {
        plain = dyn_cpy_is_plain_key(PyTuple_GET_ITEM(o, i), 0);
    }
    return plain;
}

/* A record of an array that others hold too. */
static bool is_plain_record(PyObject *o) {
    static PyObject *type; /* np.record, strong */
    if (type == NULL) {
        type = dyn_module_attr("numpy", "record");
        PyErr_Clear();
    }
    if (!Py_IS_TYPE(o, &PyVoidArrType_Type) && (PyObject *)Py_TYPE(o) != type) {
        return false;
    }
    const PyVoidScalarObject *v = (PyVoidScalarObject *)o;
    bool lent = v->base != NULL && PyArray_Check(v->base) && Py_REFCNT(v->base) > 2 && (v->flags & NPY_ARRAY_OWNDATA) == 0;
    return lent && !dyn_cpy_has_weakrefs(o);
}

/* A list of few numbers and strings, or of such lists. */
static bool is_plain_list(PyObject *o, int depth, int *left) {
    bool plain = (PyList_CheckExact(o) || PyTuple_CheckExact(o)) && depth > 0;
    for (Py_ssize_t i = 0; plain && i < PySequence_Fast_GET_SIZE(o); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(o, i);
        plain = --*left > 0 && (dyn_cpy_is_plain_key(item, 0) || is_plain_list(item, depth - 1, left));
    }
    return plain;
}

/* A dict or set of few plain values, and such lists. */
static bool is_plain_dict(PyObject *o, int *left) {
    PyObject *found[2] = {NULL, NULL};
    bool plain = true;
    for (int64_t at = dyn_cpy_dict_next(o, 0, found); plain && at != 0; at = dyn_cpy_dict_next(o, at, found)) {
        plain = --*left > 0 && dyn_cpy_is_plain_key(found[0], DYN_CPY_KEY_DEPTH);
        plain = plain && (found[1] == NULL || dyn_cpy_is_plain_key(found[1], DYN_CPY_KEY_DEPTH) ||
                          is_plain_list(found[1], DYN_RL_DEPTH, left));
    }
    return plain;
}

static bool is_scalar(PyObject *o) { return PyArray_IsScalar(o, Number) || PyArray_IsScalar(o, Bool); }

enum { MOST_ITEMS = 4096 }; /* that are looked at in a list, dict or set */

bool dyn_region_is_droppable(PyObject *o) {
    int left = MOST_ITEMS;
    if (o == NULL || o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
        PyUnicode_CheckExact(o) || PyByteArray_CheckExact(o)) {
        return true;
    }
    if (PyArray_CheckExact(o)) {
        for (; o != NULL && PyArray_CheckExact(o); o = PyArray_BASE((PyArrayObject *)o)) {
            bool seen = ((PyArrayObject_fields *)o)->weakreflist != NULL || PyDataType_REFCHK(PyArray_DESCR((PyArrayObject *)o));
            if (seen) {
                return false;
            }
        }
        return o == NULL || PyBytes_CheckExact(o);
    }
    if (PyArray_IsScalar(o, Void)) {
        return is_plain_record(o);
    }
    bool contains = PyList_CheckExact(o) || PyTuple_CheckExact(o) || PyDict_CheckExact(o) || PyAnySet_CheckExact(o);
    bool finalized = Py_TYPE(o)->tp_finalize != NULL || Py_TYPE(o)->tp_del != NULL;
    if (Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE && !finalized && is_plain_named(o)) {
        return true;
    }
    if (Py_REFCNT(o) > 1 && (contains || (Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE && !finalized))) {
        return true; /* others hold it too, and nothing that they are in is dropped */
    }
    if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) {
        return is_plain_list(o, DYN_RL_DEPTH, &left);
    }
    if (PyDict_CheckExact(o) || PySet_CheckExact(o)) {
        bool referred = PySet_CheckExact(o) && ((PySetObject *)o)->weakreflist != NULL;
        return !referred && is_plain_dict(o, &left);
    }
    if (Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE) { /* a class of someone's own may have a __del__ */
        return dyn_cpy_drops_quietly(o, is_scalar);
    }
    return PyComplex_CheckExact(o) || PyBytes_CheckExact(o) || Py_IS_TYPE(o, &PyRange_Type) || is_scalar(o);
}

static bool has_loops(const PyUFuncObject *f, int n) {
    return Py_IS_TYPE(f, &PyUFunc_Type) && f->nin == n && f->nout == 1 && !f->core_enabled && f->types != NULL;
}

int dyn_region_loop_of(const PyUFuncObject *f, int n, DynDtype dt) {
    for (int i = 0; i < f->ntypes; i++) {
        bool fits = true;
        for (int k = 0; k < n; k++) {
            fits = fits && f->types[i * (n + 1) + k] == dyn_dtypes[dt].npy;
        }
        if (fits) {
            return i;
        }
    }
    return -1;
}

int dyn_region_ufunc_of(PyObject *o, int n, DynDtype dt, DynDtype *result) {
    const PyUFuncObject *f = (const PyUFuncObject *)o;
    int i = has_loops(f, n) ? dyn_region_loop_of(f, n, dt) : -1;
    if (i < 0) {
        return -1;
    }
    PyArray_Descr *d = PyArray_DescrFromType(f->types[i * (n + 1) + n]);
    *result = dyn_dtype_of(d);
    Py_DECREF(d);
    return *result == DYN_NO_DTYPE || f->functions[i] == NULL ? -1 : i;
}

bool dyn_region_ufunc_at(PyObject *o, int n, int number, void **loop, void **data) {
    const PyUFuncObject *f = (const PyUFuncObject *)o;
    if (!has_loops(f, n) || number >= f->ntypes) {
        return false;
    }
    *loop = (void *)f->functions[number];
    *data = f->data == NULL ? NULL : (void *)f->data[number];
    return *loop != NULL;
}

bool dyn_region_ufunc(PyObject *o, int n, void **loop, void **data) {
    DynDtype result;
    int number = dyn_region_ufunc_of(o, n, DYN_F64, &result);
    return number >= 0 && result == DYN_F64 && dyn_region_ufunc_at(o, n, number, loop, data);
}

/* ---- printing */

static void print_value(const DynRegionValue *v, DynStr *out) {
    dyn_str_puts(out, dyn_region_kinds[v->kind]);
    if (v->kind == DYN_RK_NP || v->kind == DYN_RK_ARRAY || v->kind == DYN_RK_VIEW || v->kind == DYN_RK_SEQ ||
        v->kind == DYN_RK_COLUMN || (v->kind == DYN_RK_COMPLEX && v->dtype != 0)) {
        dyn_str_printf(out, ".%s", dyn_dtypes[v->dtype].name);
    }
    if (v->n > 0) {
        dyn_str_printf(out, ".%u", v->n);
    }
    if (v->flags != 0) {
        dyn_str_printf(out, ".%s%s%s%s%s%s", v->flags & DYN_RF_CONTIGUOUS ? "c" : "", v->flags & DYN_RF_WRITEABLE ? "w" : "",
                       v->flags & DYN_RF_DROPPABLE ? "d" : "", v->flags & DYN_RF_MAYBE ? "m" : "",
                       v->flags & DYN_RF_TUPLE ? "t" : "", v->flags & DYN_RF_FRESH ? "f" : "");
    }
    if (v->ref != DYN_NONE) {
        dyn_str_printf(out, ":%u", v->ref);
    }
    for (uint32_t i = 0; i < v->nregs; i++) {
        dyn_str_printf(out, "%sr%u", i == 0 ? "(" : " ", v->regs[i]);
    }
    dyn_str_puts(out, v->nregs > 0 ? ")" : "");
}

static void print_values(const DynRegionValues *values, uint32_t nslots, DynStr *out) {
    uint32_t inner = 0, shown = 0;
    for (uint32_t i = 0; i < values->n; i++) {
        if (inner == 0 && shown++ == nslots) {
            dyn_str_puts(out, " |");
        }
        dyn_str_putc(out, ' ');
        print_value(&values->at[i], out);
        inner = (inner > 0 ? inner - 1 : 0) + (dyn_region_has_items(values->at[i].kind) ? values->at[i].n : 0);
    }
    dyn_str_putc(out, '\n');
}

static void print_instr(const DynRegionInstr *in, DynStr *out) {
    const DynRegionOpInfo *op = &dyn_region_ops[in->op];
    dyn_str_puts(out, "  ");
    if (op->result != 'N') {
        dyn_str_printf(out, "r%u = ", in->dst);
    }
    dyn_str_puts(out, op->text);
    for (int k = 0; k < 3 && op->args[k] != 'N'; k++) {
        dyn_str_printf(out, " r%u", in->arg[k]);
    }
    if (in->op == DYN_RO_ICONST || dyn_region_has_imm(in->op)) {
        dyn_str_printf(out, " %lld", (long long)in->imm.i);
    } else if (dyn_region_is_foreign_call(in->op)) {
        dyn_str_putc(out, ' ');
        dyn_foreign_print((uint32_t)in->imm.i, out);
    } else if (in->op == DYN_RO_DCONST) {
        dyn_str_printf(out, " %a", in->imm.f);
    } else if (in->op == DYN_RO_JMP) {
        dyn_str_printf(out, " b%u", in->to[0]);
    } else if (in->op == DYN_RO_BR) {
        dyn_str_printf(out, " b%u b%u", in->to[0], in->to[1]);
    }
    if (op->fails && in->exit == DYN_NONE) {
        dyn_str_printf(out, " else b%u", in->to[0]);
    } else if (op->fails) {
        dyn_str_printf(out, in->op == DYN_RO_LEAVE ? " x%u" : " else x%u", in->exit);
    }
    dyn_str_putc(out, '\n');
}

static void print_routine(const DynRegionRoutine *f, DynStr *out) {
    dyn_str_printf(out, "routine b%u:", f->block);
    for (uint32_t i = 0; i < f->nparams; i++) {
        dyn_str_printf(out, " r%u", f->params[i]);
    }
    dyn_str_printf(out, " ->%s%s\n", f->nresults > 0 ? " " : "", f->results);
}

void dyn_region_text(const DynRegion *r, DynStr *out) {
    dyn_str_printf(out, "region header=%u slots=%u stack=%u extra=%u\nregs ", r->header, r->nslots, r->nstack, r->nextra);
    for (uint32_t i = 0; i < r->regs.n; i++) {
        dyn_str_putc(out, r->regs.at[i]);
    }
    dyn_str_putc(out, '\n');
    for (uint32_t i = 0; i < r->entries.n; i++) {
        dyn_str_printf(out, "entry b%u:", r->entries.at[i].block);
        print_values(&r->entries.at[i].values, r->nslots, out);
    }
    for (uint32_t i = 0; i < r->routines.n; i++) {
        print_routine(&r->routines.at[i], out);
    }
    for (uint32_t i = 0; i < r->blocks.n; i++) {
        dyn_str_printf(out, "b%u @%u:\n", i, r->blocks.at[i].at);
        for (uint32_t k = 0; k < r->blocks.at[i].v.n; k++) {
            print_instr(&r->blocks.at[i].v.at[k], out);
        }
    }
    for (uint32_t i = 0; i < r->exits.n; i++) {
        const DynRegionOut *x = &r->exits.at[i];
        if (x->gives_up) {
            dyn_str_printf(out, "exit x%u gives up\n", i);
            continue;
        }
        dyn_str_printf(out, "exit x%u at %u stack=%u more=%u %s:", i, x->at, x->nstack, x->nmore,
                       x->why == DYN_R_OK ? "OK" : dyn_reason_code(x->why));
        print_values(&x->values, r->nslots, out);
    }
}

/* ---- reading */

typedef struct Reader {
    const char *at;
    uint32_t line;
    DynRegion *r;
    DynStr *error;
    bool failed;
} Reader;

static bool fail(Reader *p, const char *what) {
    if (!p->failed) {
        dyn_str_printf(p->error, "line %u: %s at '%.20s'", p->line, what, p->at);
    }
    p->failed = true;
    return false;
}

static void blanks(Reader *p) {
    while (*p->at == ' ') {
        p->at++;
    }
}

static bool take(Reader *p, const char *text) {
    size_t n = strlen(text);
    if (p->failed || strncmp(p->at, text, n) != 0) {
        return false;
    }
    p->at += n;
    return true;
}

static bool need(Reader *p, const char *text) { return take(p, text) || fail(p, text); }

static uint32_t number(Reader *p) {
    char *end;
    unsigned long n = strtoul(p->at, &end, 10);
    if (end == p->at || n >= DYN_NONE) {
        fail(p, "a number is missing");
        return 0;
    }
    p->at = end;
    return (uint32_t)n;
}

static size_t word(Reader *p) { return strspn(p->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"); }

static void read_flags(Reader *p, DynRegionValue *v) {
    static const struct {
        char letter;
        uint8_t flag;
    } letters[] = {{'c', DYN_RF_CONTIGUOUS}, {'w', DYN_RF_WRITEABLE}, {'d', DYN_RF_DROPPABLE},
                   {'m', DYN_RF_MAYBE},      {'t', DYN_RF_TUPLE},     {'f', DYN_RF_FRESH}};
    for (size_t k = 0; k < DYN_COUNTOF(letters); k++) {
        if (*p->at == letters[k].letter) {
            v->flags |= letters[k].flag;
            p->at++;
        }
    }
}

static void read_parts(Reader *p, DynRegionValue *v) {
    while (take(p, ".")) {
        char name[8] = {0};
        size_t n = word(p);
        if (*p->at >= '0' && *p->at <= '9') {
            v->n = (uint8_t)number(p);
        } else if (strspn(p->at, "cwdmtf") == n) {
            read_flags(p, v);
        } else if (n < sizeof(name)) {
            memcpy(name, p->at, n);
            v->dtype = (uint8_t)dyn_dtype_parse(name);
            p->at += n;
            if (v->dtype == DYN_NO_DTYPE) {
                fail(p, "no dtype");
            }
        } else {
            fail(p, "no part of a value");
        }
    }
    v->ref = take(p, ":") ? number(p) : DYN_NONE;
    if (take(p, "(")) {
        while (!p->failed && !take(p, ")")) {
            blanks(p);
            need(p, "r");
            if (v->nregs == DYN_REGION_REGS) {
                fail(p, "too many registers");
                return;
            }
            v->regs[v->nregs++] = number(p);
        }
    }
}

static bool read_value(Reader *p, DynRegionValue *v) {
    *v = (DynRegionValue){0};
    size_t n = word(p);
    for (int k = 0; k < DYN_RK_COUNT; k++) {
        if (strlen(dyn_region_kinds[k]) == n && strncmp(p->at, dyn_region_kinds[k], n) == 0) {
            v->kind = (uint8_t)k;
            p->at += n;
            read_parts(p, v);
            return !p->failed;
        }
    }
    return fail(p, "no value");
}

static void read_values(Reader *p, DynRegionValues *values) {
    need(p, ":");
    for (blanks(p); !p->failed && *p->at != '\n' && *p->at != 0; blanks(p)) {
        DynRegionValue v;
        if (!take(p, "|") && read_value(p, &v) && dyn_vec_push(values, v) < 0) {
            fail(p, "no memory");
        }
    }
}

static void read_instr(Reader *p, DynRegionBlock *b) {
    DynRegionInstr in = {.dst = DYN_NONE, .arg = {DYN_NONE, DYN_NONE, DYN_NONE}, .exit = DYN_NONE, .to = {DYN_NONE, DYN_NONE}};
    if (p->at[0] == 'r' && p->at[1] >= '0' && p->at[1] <= '9' && take(p, "r")) {
        in.dst = number(p);
        need(p, " = ");
    }
    size_t n = strcspn(p->at, " \n");
    int op = 0;
    while (op < DYN_RO_COUNT && (strlen(dyn_region_ops[op].text) != n || strncmp(dyn_region_ops[op].text, p->at, n) != 0)) {
        op++;
    }
    if (op == DYN_RO_COUNT) {
        fail(p, "no instruction");
        return;
    }
    p->at += n;
    in.op = (uint16_t)op;
    for (int k = 0; k < 3 && dyn_region_ops[op].args[k] != 'N'; k++) {
        need(p, " r");
        in.arg[k] = number(p);
    }
    blanks(p);
    char *end = NULL;
    if (op == DYN_RO_ICONST || dyn_region_has_imm((uint16_t)op)) {
        in.imm.i = strtoll(p->at, &end, 10);
    } else if (dyn_region_is_foreign_call((uint16_t)op)) {
        in.imm.i = dyn_foreign_parse(p->at, &end);
    } else if (op == DYN_RO_DCONST) {
        in.imm.f = strtod(p->at, &end);
    }
    p->r->releases = p->r->releases || op == DYN_RO_RELEASE;
    p->at = end != NULL ? end : p->at;
    for (int k = 0; k < 2 && (op == DYN_RO_BR || (op == DYN_RO_JMP && k == 0)); k++) {
        blanks(p);
        need(p, "b");
        in.to[k] = number(p);
    }
    blanks(p);
    if (dyn_region_ops[op].fails) {
        if (op != DYN_RO_LEAVE && take(p, "else b")) {
            in.to[0] = number(p);
        } else {
            need(p, op == DYN_RO_LEAVE ? "x" : "else x");
            in.exit = number(p);
        }
    }
    if (!p->failed && dyn_vec_push(&b->v, in) < 0) {
        fail(p, "no memory");
    }
}

static void read_block(Reader *p) {
    DynRegionBlock b = {0};
    if (!need(p, "b") || (number(p) != p->r->blocks.n && !fail(p, "blocks are counted from 0"))) {
        return;
    }
    need(p, " @");
    b.at = number(p);
    need(p, ":");
    if (!p->failed && dyn_vec_push(&p->r->blocks, b) < 0) {
        fail(p, "no memory");
    }
}

static void read_exit(Reader *p) {
    DynRegionOut x = {0};
    need(p, "x");
    number(p);
    x.gives_up = take(p, " gives up");
    if (x.gives_up) {
        if (dyn_vec_push(&p->r->exits, x) < 0) {
            fail(p, "no memory");
        }
        return;
    }
    need(p, " at ");
    x.at = number(p);
    need(p, " stack=");
    x.nstack = number(p);
    need(p, " more=");
    x.nmore = number(p);
    need(p, " ");
    size_t n = word(p);
    for (int k = 1; k < DYN_R_COUNT; k++) {
        const char *code = dyn_reason_code((DynReason)k);
        x.why = strlen(code) == n && strncmp(code, p->at, n) == 0 ? (DynReason)k : x.why;
    }
    p->at += n;
    read_values(p, &x.values);
    if (dyn_vec_push(&p->r->exits, x) < 0) {
        fail(p, "no memory");
    }
}

static void read_routine(Reader *p) {
    DynRegionRoutine f = {0};
    need(p, "routine b");
    f.block = number(p);
    need(p, ":");
    while (!p->failed && take(p, " r") && f.nparams < DYN_ROUTINE_VALUES) {
        f.params[f.nparams++] = number(p);
    }
    need(p, " ->");
    blanks(p);
    for (; strchr("IDP", *p->at) != NULL && *p->at != 0 && f.nresults < DYN_ROUTINE_VALUES; p->at++) {
        f.results[f.nresults++] = *p->at;
    }
    if (!p->failed && dyn_vec_push(&p->r->routines, f) < 0) {
        fail(p, "no memory");
    }
}

static void read_line(Reader *p) {
    DynRegion *r = p->r;
    if (take(p, "  ")) {
        if (r->blocks.n == 0) {
            fail(p, "an instruction outside of a block");
        } else {
            read_instr(p, &r->blocks.at[r->blocks.n - 1]);
        }
    } else if (take(p, "region header=")) {
        r->header = number(p);
        need(p, " slots=");
        r->nslots = number(p);
        need(p, " stack=");
        r->nstack = number(p);
        need(p, " extra=");
        r->nextra = number(p);
    } else if (take(p, "regs ")) {
        for (; !p->failed && *p->at != '\n' && *p->at != 0; p->at++) {
            if (strchr("IDSP", *p->at) == NULL || dyn_region_reg(r, *p->at) == DYN_NONE) {
                fail(p, "no type of a register");
            }
        }
    } else if (take(p, "entry b")) {
        DynRegionEntry e = {.block = number(p)};
        read_values(p, &e.values);
        if (dyn_vec_push(&r->entries, e) < 0) {
            fail(p, "no memory");
        }
    } else if (take(p, "exit ")) {
        read_exit(p);
    } else if (strncmp(p->at, "routine", 7) == 0) {
        read_routine(p);
    } else {
        read_block(p);
    }
    blanks(p);
    if (!p->failed && *p->at != 0 && !take(p, "\n")) {
        fail(p, "the line should end here");
    }
}

DynRegion *dyn_region_parse(const char *text, DynStr *error) {
    Reader p = {.at = text, .line = 1, .r = dyn_region_new(), .error = error};
    if (p.r == NULL) {
        dyn_str_puts(error, "no memory");
        return NULL;
    }
    for (; *p.at != 0 && !p.failed; p.line++) {
        read_line(&p);
    }
    if (p.failed) {
        dyn_region_free(p.r);
        return NULL;
    }
    return p.r;
}
