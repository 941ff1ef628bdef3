/* decode.c: CPython bytecode to canonical instructions. One table says for each CPython opcode of the version that is built for
 * what it becomes and how its argument is read; opcodes without a row are left to CPython (DYN_I_UNSUPPORTED).
 *
 * Called by the recorder and the assembler. A DynCode holds its code object and the bytes; whoever asked for it frees it. */
#include "base/cpy_internal.h"
#include "tracer/bytecode/decode.h"
#include <opcode.h>

/* How an argument becomes (arg, sub, target). */
typedef enum Form {
    PLAIN,       /* arg as it is */
    FORWARD,     /* jumps arg units ahead of the next instruction */
    FORWARD_FOR, /* FOR_ITER: behind the END_FOR (and what drops the iterator) that stand at the target */
    BACK,        /* jumps back, serving the eval breaker */
    BACK_QUIET,  /* jumps back without */
    BINARY,      /* 13 and up are the in-place operators */
    COMPARE,
    GLOBAL,      /* low bit: NULL with it */
    ATTR,        /* low bit (3.12+): for a call */
    SUPER_ATTR,  /* two low bits */
    FORMAT,      /* conversion and a bit for the format spec */
    FORMAT_SPEC, /* the spec is there (3.13) */
    CONVERT,     /* sub: conversion */
    CALLED,      /* keyword names from KW_NAMES before it */
    INTRINSIC,   /* which of several operations */
    ITERATED,    /* 3.15: what for; nothing: a loop */
    IMPORTED,    /* two low bits (3.15): not lazily, whatever is said elsewhere; lazily */
    KEYWORDS,    /* 3.14: keyword arguments are always there, or NULL */
    TWO_SLOTS,   /* 3.13: two operations on locals in one: `op` and `second`, slots in the high and low half */
    GENERATOR    /* tells what the code is */
} Form;
typedef struct Row {
    uint8_t op, form, second;
} Row;

#define SAME(name) [name] = {DYN_I_##name, PLAIN, 0}
#define AS(name, canonical) [name] = {DYN_I_##canonical, PLAIN, 0}
#define WITH(name, canonical, form) [name] = {DYN_I_##canonical, form, 0}

static const Row rows[256] = {
    SAME(NOP),
    AS(RESUME, NOP),
    SAME(LOAD_FAST),
    SAME(STORE_FAST),
    SAME(DELETE_FAST),
    SAME(LOAD_CONST),
    SAME(LOAD_NAME),
    WITH(LOAD_GLOBAL, LOAD_GLOBAL, GLOBAL),
    SAME(STORE_GLOBAL),
    SAME(DELETE_GLOBAL),
    SAME(LOAD_DEREF),
    SAME(STORE_DEREF),
    SAME(DELETE_DEREF),
    SAME(MAKE_CELL),
    SAME(COPY_FREE_VARS),
    WITH(LOAD_ATTR, LOAD_ATTR, ATTR),
    SAME(STORE_ATTR),
    SAME(DELETE_ATTR),
    WITH(BINARY_OP, BINARY_OP, BINARY),
    SAME(UNARY_NEGATIVE),
    SAME(UNARY_INVERT),
    SAME(UNARY_NOT),
    WITH(COMPARE_OP, COMPARE_OP, COMPARE),
    SAME(IS_OP),
    SAME(CONTAINS_OP),
    SAME(STORE_SUBSCR),
    SAME(DELETE_SUBSCR),
    SAME(BUILD_TUPLE),
    SAME(BUILD_LIST),
    SAME(BUILD_SET),
    SAME(BUILD_MAP),
    SAME(BUILD_STRING),
    SAME(BUILD_SLICE),
    SAME(LIST_APPEND),
    SAME(SET_ADD),
    SAME(MAP_ADD),
    SAME(LIST_EXTEND),
    SAME(SET_UPDATE),
    SAME(DICT_UPDATE),
    SAME(DICT_MERGE),
    SAME(UNPACK_SEQUENCE),
    SAME(UNPACK_EX),
    SAME(POP_TOP),
    SAME(COPY),
    SAME(SWAP),
    SAME(PUSH_NULL),
    WITH(CALL, CALL, CALLED),
    SAME(MAKE_FUNCTION),
    WITH(GET_ITER, GET_ITER, ITERATED),
    SAME(GET_LEN),
    WITH(FOR_ITER, FOR_ITER, FORWARD_FOR),
    WITH(JUMP_FORWARD, JUMP, FORWARD),
    WITH(JUMP_BACKWARD, JUMP, BACK),
    WITH(JUMP_BACKWARD_NO_INTERRUPT, JUMP, BACK_QUIET),
    SAME(RETURN_VALUE),
    SAME(RAISE_VARARGS),
    WITH(IMPORT_NAME, IMPORT_NAME, IMPORTED),
    SAME(IMPORT_FROM),
    SAME(LOAD_BUILD_CLASS),
    WITH(RETURN_GENERATOR, RETURN_GENERATOR, GENERATOR),
    SAME(YIELD_VALUE),
    SAME(PUSH_EXC_INFO),
    SAME(POP_EXCEPT),
    SAME(CHECK_EXC_MATCH),
    SAME(CHECK_EG_MATCH),
    SAME(RERAISE),
    SAME(WITH_EXCEPT_START),
    SAME(MATCH_MAPPING),
    SAME(MATCH_SEQUENCE),
    SAME(MATCH_KEYS),
    SAME(MATCH_CLASS),
    WITH(SEND, SEND, FORWARD),
#if DYN_PY < 315
    SAME(GET_YIELD_FROM_ITER),
#endif
    SAME(GET_AWAITABLE),
    SAME(GET_AITER),
    SAME(GET_ANEXT),
    SAME(END_ASYNC_FOR),
    SAME(SETUP_ANNOTATIONS),
    SAME(STORE_NAME),
    SAME(DELETE_NAME),
#if DYN_PY == 311
    SAME(PREP_RERAISE_STAR),
    SAME(ASYNC_GEN_WRAP),
    SAME(IMPORT_STAR),
    SAME(PRINT_EXPR),
    SAME(LOAD_METHOD),
    SAME(LOAD_CLASSDEREF),
    SAME(UNARY_POSITIVE),
    SAME(LIST_TO_TUPLE),
    WITH(JUMP_IF_TRUE_OR_POP, JUMP_IF_TRUE_OR_POP, FORWARD),
    WITH(JUMP_IF_FALSE_OR_POP, JUMP_IF_FALSE_OR_POP, FORWARD),
    WITH(POP_JUMP_FORWARD_IF_TRUE, POP_JUMP_IF_TRUE, FORWARD),
    WITH(POP_JUMP_FORWARD_IF_FALSE, POP_JUMP_IF_FALSE, FORWARD),
    WITH(POP_JUMP_FORWARD_IF_NONE, POP_JUMP_IF_NONE, FORWARD),
    WITH(POP_JUMP_FORWARD_IF_NOT_NONE, POP_JUMP_IF_NOT_NONE, FORWARD),
    WITH(POP_JUMP_BACKWARD_IF_TRUE, POP_JUMP_IF_TRUE, BACK),
    WITH(POP_JUMP_BACKWARD_IF_FALSE, POP_JUMP_IF_FALSE, BACK),
    WITH(POP_JUMP_BACKWARD_IF_NONE, POP_JUMP_IF_NONE, BACK),
    WITH(POP_JUMP_BACKWARD_IF_NOT_NONE, POP_JUMP_IF_NOT_NONE, BACK),
#else
    AS(LOAD_FAST_CHECK, LOAD_FAST),
    SAME(LOAD_FAST_AND_CLEAR),
    SAME(BINARY_SLICE),
    SAME(STORE_SLICE),
    WITH(LOAD_SUPER_ATTR, LOAD_SUPER_ATTR, SUPER_ATTR),
    SAME(END_SEND),
    SAME(CLEANUP_THROW),
    SAME(LOAD_LOCALS),
    SAME(LOAD_FROM_DICT_OR_GLOBALS),
    SAME(LOAD_FROM_DICT_OR_DEREF),
    AS(CALL_INTRINSIC_2, INTRINSIC_2),
    WITH(CALL_INTRINSIC_1, INTRINSIC_1, INTRINSIC),
    WITH(POP_JUMP_IF_TRUE, POP_JUMP_IF_TRUE, FORWARD),
    WITH(POP_JUMP_IF_FALSE, POP_JUMP_IF_FALSE, FORWARD),
    WITH(POP_JUMP_IF_NONE, POP_JUMP_IF_NONE, FORWARD),
    WITH(POP_JUMP_IF_NOT_NONE, POP_JUMP_IF_NOT_NONE, FORWARD),
#endif
#if DYN_PY < 314
    SAME(BINARY_SUBSCR),
    SAME(BUILD_CONST_KEY_MAP),
    SAME(CALL_FUNCTION_EX),
    AS(LOAD_ASSERTION_ERROR, LOAD_COMMON_CONSTANT),
    SAME(BEFORE_WITH),
    SAME(BEFORE_ASYNC_WITH),
#else
    AS(LOAD_FAST_BORROW, LOAD_FAST),
    [LOAD_FAST_BORROW_LOAD_FAST_BORROW] = {DYN_I_LOAD_FAST, TWO_SLOTS, DYN_I_LOAD_FAST},
    SAME(LOAD_SMALL_INT),
    SAME(LOAD_COMMON_CONSTANT),
    SAME(LOAD_SPECIAL),
    SAME(BUILD_INTERPOLATION),
    SAME(BUILD_TEMPLATE),
    AS(NOT_TAKEN, NOP),
    SAME(POP_ITER),
    WITH(CALL_FUNCTION_EX, CALL_FUNCTION_EX, KEYWORDS),
#endif
#if DYN_PY == 312 || DYN_PY == 313
    SAME(RETURN_CONST),
#endif
#if DYN_PY < 313
    AS(LOAD_CLOSURE, LOAD_FAST),
    WITH(FORMAT_VALUE, FORMAT_VALUE, FORMAT),
#else
    SAME(TO_BOOL),
    SAME(CALL_KW),
    SAME(SET_FUNCTION_ATTRIBUTE),
    AS(FORMAT_SIMPLE, FORMAT_VALUE),
    WITH(FORMAT_WITH_SPEC, FORMAT_VALUE, FORMAT_SPEC),
    WITH(CONVERT_VALUE, CONVERT_VALUE, CONVERT),
    [LOAD_FAST_LOAD_FAST] = {DYN_I_LOAD_FAST, TWO_SLOTS, DYN_I_LOAD_FAST},
    [STORE_FAST_LOAD_FAST] = {DYN_I_STORE_FAST, TWO_SLOTS, DYN_I_LOAD_FAST},
    [STORE_FAST_STORE_FAST] = {DYN_I_STORE_FAST, TWO_SLOTS, DYN_I_STORE_FAST},
#endif
};

DynOpcode dyn_decode_opcode(int cpython_opcode) {
    return cpython_opcode >= 0 && cpython_opcode < 256 ? rows[cpython_opcode].op : DYN_I_UNSUPPORTED;
}

#if DYN_PY == 311
enum { COMPARE_SHIFT = 0, COMPARE_BOOL = 0, END_OF_LOOP = 0 };
static const uint8_t end_of_loop[1] = {0};
#elif DYN_PY == 312
enum { COMPARE_SHIFT = 4, COMPARE_BOOL = 0, END_OF_LOOP = 1 };
static const uint8_t end_of_loop[END_OF_LOOP] = {END_FOR};
#else
enum { COMPARE_SHIFT = 5, COMPARE_BOOL = 16, END_OF_LOOP = 2 };
#if DYN_PY == 313
static const uint8_t end_of_loop[END_OF_LOOP] = {END_FOR, POP_TOP};
#else
static const uint8_t end_of_loop[END_OF_LOOP] = {END_FOR, POP_ITER};
#endif
#endif

const uint8_t *dyn_end_of_loop(uint32_t *n) {
    *n = END_OF_LOOP;
    return end_of_loop;
}

int dyn_jump_way(int cpython_opcode) {
    switch (rows[cpython_opcode].form) {
    case FORWARD:
    case FORWARD_FOR: return 1;
    case BACK:
    case BACK_QUIET: return -1;
    default: return 0;
    }
}

int dyn_forward_opcode(int cpython_opcode) {
    const Row *row = &rows[cpython_opcode];
    for (int i = 0; i < 256 && row->form == BACK; i++) {
        if (rows[i].op == row->op && rows[i].form == FORWARD) {
            return i;
        }
    }
    return cpython_opcode;
}

#if DYN_PY >= 315
enum { IMPORT_EAGERLY = 2 }; /* of the bits below the name that IMPORT_NAME has */
#endif

/* Reads the argument; jumps leave the code unit in `target`. */
static void read_arg(DynInstr *in, Form form, uint32_t kwnames) {
    uint32_t arg = in->arg;
    switch (form) {
    case FORWARD: in->target = in->next + arg; break;
    case FORWARD_FOR: in->target = in->next + arg + END_OF_LOOP; break;
    case BACK:
        in->flags |= DYN_IF_BACKWARD;
        in->target = in->next - arg;
        break;
    case BACK_QUIET: in->target = in->next - arg; break;
    case BINARY:
#if DYN_PY >= 314
        if (arg == NB_SUBSCR) {
            in->op = DYN_I_BINARY_SUBSCR;
            break;
        }
#endif
        in->sub = (uint16_t)(arg % NB_INPLACE_ADD);
        in->arg = arg >= NB_INPLACE_ADD;
        break;
    case COMPARE:
        in->sub = (uint16_t)(arg >> COMPARE_SHIFT);
        in->arg = (arg & COMPARE_BOOL) != 0;
        break;
    case GLOBAL:
        in->sub = arg & 1;
        in->arg = arg >> 1;
        break;
    case ATTR:
#if DYN_PY >= 312
        if (arg & 1) {
            in->op = DYN_I_LOAD_METHOD;
        }
        in->arg = arg >> 1;
#endif
        break;
    case SUPER_ATTR:
        in->sub = arg & 3;
        in->arg = arg >> 2;
        break;
    case FORMAT:
        in->sub = arg & 3;
        in->arg = (arg & 4) != 0;
        break;
    case KEYWORDS:
    case FORMAT_SPEC: in->arg = 1; break;
    case CONVERT: in->sub = (uint16_t)arg; break;
    case CALLED: in->target = kwnames; break;
    case INTRINSIC:
        if (arg == 5 || arg == 6) {
            in->op = arg == 5 ? DYN_I_UNARY_POSITIVE : DYN_I_LIST_TO_TUPLE;
        }
        break;
    case ITERATED:
#if DYN_PY >= 315
        in->op = arg == 0 ? DYN_I_GET_ITER : DYN_I_GET_YIELD_FROM_ITER;
#endif
        break;
    case IMPORTED:
#if DYN_PY >= 315
        in->sub = arg & IMPORT_EAGERLY ? 0 : 1;
        in->arg = arg >> 2;
#endif
        break;
    case PLAIN:
    case TWO_SLOTS:
    case GENERATOR: break;
    }
}

/* An instruction that only gives an argument or a preparation to the one behind it. */
static bool is_prefix(int opcode) {
#if DYN_PY < 313
    if (opcode == KW_NAMES) {
        return true;
    }
#endif
#if DYN_PY == 311
    if (opcode == PRECALL) {
        return true;
    }
#endif
    return opcode == EXTENDED_ARG;
}

static int push_instr(DynCode *c, int opcode, DynInstr in, uint32_t kwnames) {
    Row row = rows[opcode];
    in.op = row.op;
    in.flags = DYN_IF_FIRST;
    in.target = DYN_NONE;
    if (row.form == GENERATOR) {
        c->generator = true;
    }
    if (row.form == TWO_SLOTS) {
        DynInstr second = in;
        in.arg = second.arg >> 4;
        second.op = row.second;
        second.flags = 0;
        second.arg &= 15;
        return dyn_vec_push(&c->v, in) < 0 ? -1 : dyn_vec_push(&c->v, second);
    }
    read_arg(&in, (Form)row.form, kwnames);
    if (in.op == DYN_I_UNSUPPORTED) {
        in.arg = (uint32_t)opcode;
    }
    return dyn_vec_push(&c->v, in);
}

static int push_with(DynCode *c, DynInstr in) {
    in.op = DYN_I_BEFORE_WITH;
    in.flags = DYN_IF_FIRST;
    in.target = DYN_NONE;
    return dyn_vec_push(&c->v, in);
}

/* Units of the sequence that begins a with statement at unit `at`, which is one canonical instruction; or 0. */
static uint32_t with_units(const uint8_t *code, uint32_t at, uint32_t nunits) {
#if DYN_PY >= 314
    static const uint8_t sequence[] = {COPY, 1, LOAD_SPECIAL, SPECIAL___EXIT__,  SWAP, 2,
                                       SWAP, 3, LOAD_SPECIAL, SPECIAL___ENTER__, CALL, 0};
    bool there = at + sizeof sequence / 2 <= nunits && memcmp(code + 2 * at, sequence, sizeof sequence) == 0;
    return there ? sizeof sequence / 2 : 0;
#else
    return 0;
#endif
}

static int decode_units(DynCode *c) {
    const uint8_t *code = (const uint8_t *)PyBytes_AS_STRING(c->bytes);
    uint32_t start = DYN_NONE, extended = 0, kwnames = DYN_NONE;
    for (uint32_t at = 0, next; at < c->nunits; at = next) {
        uint32_t sequence = with_units(code, at, c->nunits);
        if (start == DYN_NONE) {
            start = at;
        }
        at += sequence > 0 ? sequence - 1 : 0;
        int opcode = code[2 * at];
        uint32_t arg = extended << 8 | code[2 * at + 1];
        for (next = at + 1; next < c->nunits && code[2 * next] == CACHE;) {
            next++;
        }
        extended = opcode == EXTENDED_ARG ? arg : 0;
#if DYN_PY < 313
        if (opcode == KW_NAMES) {
            kwnames = arg;
        }
#endif
        if (is_prefix(opcode)) {
            continue;
        }
        c->at_unit[start] = c->v.n;
        DynInstr in = {.arg = arg, .start = start, .at = at, .next = next};
        if ((sequence > 0 ? push_with(c, in) : push_instr(c, opcode, in, kwnames)) < 0) {
            return -1;
        }
        start = kwnames = DYN_NONE;
    }
    return 0;
}

/* Jumps name code units so far; now instructions. */
static void resolve_jumps(DynCode *c) {
    for (uint32_t i = 0; i < c->v.n; i++) {
        DynInstr *in = &c->v.at[i];
        if (!dyn_has_target(in)) {
            continue;
        }
        uint32_t target = in->target < c->nunits ? c->at_unit[in->target] : DYN_NONE;
        if (target == DYN_NONE) { /* into the middle of an instruction: not from CPython's compiler */
            in->op = DYN_I_UNSUPPORTED;
            in->arg = ((const uint8_t *)PyBytes_AS_STRING(c->bytes))[2 * in->at];
            in->flags &= (uint8_t)~DYN_IF_BACKWARD;
        } else {
            c->v.at[target].flags |= DYN_IF_TARGET;
        }
        in->target = target;
    }
}

/* Is it a method, by where it was written? */
static bool is_method(PyCodeObject *code) {
    Py_ssize_t all = PyUnicode_GET_LENGTH(code->co_qualname), own = PyUnicode_GET_LENGTH(code->co_name);
    return all > own + 1 && PyUnicode_READ_CHAR(code->co_qualname, all - own - 2) != '>'; /* <locals> */
}

/* Is the name that of a global which it loads? */
static bool loads_global(PyCodeObject *code, uint32_t name) {
    PyObject *bytes = dyn_cpy_code_bytes(code);
    bool loads = false;
    for (Py_ssize_t at = 0, extended = 0; bytes != NULL && at < PyBytes_GET_SIZE(bytes) && !loads; at += 2) {
        const uint8_t *unit = (const uint8_t *)PyBytes_AS_STRING(bytes) + at;
        Py_ssize_t arg = extended << 8 | unit[1];
        extended = unit[0] == EXTENDED_ARG ? arg : 0;
        loads = unit[0] == LOAD_GLOBAL && (uint32_t)arg >> 1 == name;
    }
    PyErr_Clear();
    Py_XDECREF(bytes);
    return loads;
}

bool dyn_code_calls_global(PyCodeObject *code, PyObject *name) {
    bool calls = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names) && !calls; i++) {
        calls = PyTuple_GET_ITEM(code->co_names, i) == name && loads_global(code, (uint32_t)i);
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts) && !calls; i++) {
        PyObject *inner = PyTuple_GET_ITEM(code->co_consts, i);
        calls = PyCode_Check(inner) && dyn_code_calls_global((PyCodeObject *)inner, name);
    }
    return calls;
}

bool dyn_code_has_free(PyCodeObject *code, PyObject *name) {
    enum { FREE = 0x80 }; /* CPython's CO_FAST_FREE */
    bool has = false;
    for (int i = 0; i < dyn_code_nlocalsplus(code) && !has; i++) {
        has = (dyn_code_local_kind(code, i) & FREE) != 0 && dyn_code_local_name(code, i) == name;
    }
    return has;
}

/* A function by a global, or a variable of the one that it was made in; a method by an attribute. */
bool dyn_code_calls_itself(PyCodeObject *code) {
    bool calls = dyn_code_calls_global(code, code->co_name) || dyn_code_has_free(code, code->co_name);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names) && !calls; i++) {
        calls = PyTuple_GET_ITEM(code->co_names, i) == code->co_name && is_method(code);
    }
    return calls;
}

/* The canonical instruction that a function which calls itself, as far as its names tell, begins with. */
static uint32_t head_of(const DynCode *c) {
    if (c->generator || !dyn_code_calls_itself(c->code)) {
        return DYN_NONE;
    }
    const uint8_t *code = (const uint8_t *)PyBytes_AS_STRING(c->bytes);
    for (uint32_t unit = 0; unit < c->nunits; unit++) {
        uint32_t at = c->at_unit[unit];
        if (at != DYN_NONE && code[2 * unit] == RESUME) {
            bool may_be = at + 1 < c->v.n && (c->v.at[at + 1].flags & (DYN_IF_FIRST | DYN_IF_TARGET)) == DYN_IF_FIRST;
            return may_be ? at + 1 : DYN_NONE;
        }
    }
    return DYN_NONE;
}

DynCode *dyn_decode(PyCodeObject *code) {
    DynCode *c = PyMem_RawCalloc(1, sizeof(*c));
    if (!c) {
        return (DynCode *)PyErr_NoMemory();
    }
    c->code = (PyCodeObject *)Py_NewRef(code);
    c->bytes = dyn_cpy_code_bytes(code);
    if (!c->bytes) {
        dyn_decode_free(c);
        return NULL;
    }
    c->nunits = (uint32_t)(PyBytes_GET_SIZE(c->bytes) / 2);
    c->generator = (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
    c->at_unit = PyMem_RawMalloc(sizeof(uint32_t) * (c->nunits + 1));
    if (!c->at_unit) {
        dyn_decode_free(c);
        return (DynCode *)PyErr_NoMemory();
    }
    for (uint32_t i = 0; i <= c->nunits; i++) {
        c->at_unit[i] = DYN_NONE;
    }
    if (decode_units(c) < 0) {
        dyn_decode_free(c);
        return (DynCode *)PyErr_NoMemory();
    }
    resolve_jumps(c);
    c->head = head_of(c);
    return c;
}

bool dyn_decode_loops(const DynCode *c) {
    for (uint32_t i = 0; i < c->v.n; i++) {
        if (c->v.at[i].flags & DYN_IF_BACKWARD) {
            return true;
        }
    }
    return false;
}

uint32_t dyn_decode_return(const DynCode *c) {
    for (uint32_t i = 0; i < c->v.n; i++) {
        if (c->v.at[i].op == DYN_I_RETURN_VALUE) {
            return c->v.at[i].start;
        }
    }
    return DYN_NONE;
}

/* The first code unit with an instruction that `is` so, without decoding the others: most functions are looked at this once. */
static uint32_t find_unit(PyCodeObject *code, bool (*is)(const Row *)) {
    PyObject *bytes = dyn_cpy_code_bytes(code);
    uint32_t found = DYN_NONE;
    for (Py_ssize_t at = 0; bytes != NULL && found == DYN_NONE && at < PyBytes_GET_SIZE(bytes); at += 2) {
        uint8_t opcode = (uint8_t)PyBytes_AS_STRING(bytes)[at];
        found = opcode != CACHE && is(&rows[opcode]) ? (uint32_t)at / 2 : DYN_NONE;
    }
    if (bytes == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(bytes);
    return found;
}

static bool jumps_back(const Row *row) { return row->form == BACK; }
static bool returns(const Row *row) { return row->op == DYN_I_RETURN_VALUE; }

bool dyn_code_loops(PyCodeObject *code) { return find_unit(code, jumps_back) != DYN_NONE; }
uint32_t dyn_code_return(PyCodeObject *code) { return find_unit(code, returns); }

void dyn_decode_free(DynCode *c) {
    if (!c) {
        return;
    }
    Py_XDECREF(c->code);
    Py_XDECREF(c->bytes);
    dyn_vec_free(&c->v);
    PyMem_RawFree(c->at_unit);
    PyMem_RawFree(c);
}

/* One line an instruction: number, > where jumped to, start:at:next, name (+ continues the one above), arg, sub, target. */
void dyn_decode_print(const DynCode *c, DynStr *out) {
    for (uint32_t i = 0; i < c->v.n; i++) {
        const DynInstr *in = &c->v.at[i];
        dyn_str_printf(out, "%u%s %u:%u:%u %s%s arg=%u sub=%u", i, in->flags & DYN_IF_TARGET ? ">" : "", in->start, in->at,
                       in->next, in->flags & DYN_IF_FIRST ? "" : "+", dyn_opcodes[in->op].name, in->arg, in->sub);
        if (in->target != DYN_NONE) {
            dyn_str_printf(out, in->op == DYN_I_CALL ? " kwnames=%u" : " to=%u", in->target);
        }
        dyn_str_puts(out, in->flags & DYN_IF_BACKWARD ? " back\n" : "\n");
    }
}

/* ---- for tests ---- */

static PyObject *decode_text(PyObject *self, PyObject *code) {
    if (!PyCode_Check(code)) {
        return PyErr_Format(PyExc_TypeError, "a code object is needed, not %.100s", Py_TYPE(code)->tp_name);
    }
    DynCode *c = dyn_decode((PyCodeObject *)code);
    if (!c) {
        return NULL;
    }
    DynStr s = {0};
    dyn_decode_print(c, &s);
    dyn_decode_free(c);
    PyObject *text = s.failed ? PyErr_NoMemory() : PyUnicode_FromString(dyn_str_at(&s));
    dyn_str_free(&s);
    return text;
}

static PyObject *decode_opcode(PyObject *self, PyObject *number) {
    long op = PyLong_AsLong(number);
    if (op == -1 && PyErr_Occurred()) {
        return NULL;
    }
    return PyUnicode_FromString(dyn_opcodes[dyn_decode_opcode((int)op)].name);
}

/* Positions of all code units, each asked for behind the one before and then again from the end. */
static PyObject *positions(PyObject *self, PyObject *code) {
    if (!PyCode_Check(code)) {
        return PyErr_Format(PyExc_TypeError, "a code object is needed, not %.100s", Py_TYPE(code)->tp_name);
    }
    Py_ssize_t n = Py_SIZE(code);
    DynPositionCursor cursor = {0};
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < 2 * n; i++) {
        int p[4];
        dyn_cpy_position_on((PyCodeObject *)code, &cursor, (uint32_t)(i < n ? i : 2 * n - 1 - i), &p[0], &p[1], &p[2], &p[3]);
        PyObject *row = Py_BuildValue("iiii", p[0], p[1], p[2], p[3]);
        if (!row || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

/* (pops, pushes, values left by a jump or None) of each canonical instruction. */
static PyObject *stack_effects(PyObject *self, PyObject *code) {
    if (!PyCode_Check(code)) {
        return PyErr_Format(PyExc_TypeError, "a code object is needed, not %.100s", Py_TYPE(code)->tp_name);
    }
    DynCode *c = dyn_decode((PyCodeObject *)code);
    PyObject *list = c == NULL ? NULL : PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < c->v.n; i++) {
        const DynInstr *in = &c->v.at[i];
        DynStackEffect stack = dyn_stack_effect(in);
        PyObject *jumped = dyn_has_target(in) ? PyLong_FromLong(dyn_opcodes[in->op].jumped) : Py_NewRef(Py_None);
        PyObject *row = jumped == NULL ? NULL : Py_BuildValue("IIN", stack.pops, stack.pushes, jumped);
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    if (c != NULL) {
        dyn_decode_free(c);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"_decode_stack", stack_effects, METH_O, "(pops, pushes, values left by a jump or None) of each canonical instruction"},
    {"_decode", decode_text, METH_O, "canonical instructions of a code object as text"},
    {"_positions", positions, METH_O, "(line, end line, column, end column) of each code unit, twice"},
    {"_decode_opcode", decode_opcode, METH_O, "canonical name of a CPython opcode"},
    {0}};

int dyn_decode_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }
