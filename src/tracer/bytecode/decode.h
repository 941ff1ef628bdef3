/* decode.h: CPython bytecode to canonical instructions, the same on every version. opcodes.def has the canonical opcodes with
 * what they do to the stack. Called by the recorder and the assembler; cached for each code object. */
#ifndef DYN_DECODE_H
#define DYN_DECODE_H
#include "base/cpy.h"

typedef enum DynOpcode {
#define OPCODE(name, what) DYN_I_##name,
#include "tracer/bytecode/opcodes.def"
#undef OPCODE
    DYN_I_COUNT
} DynOpcode;
#define DYN_IF_FIRST 1u    /* first canonical instruction of a bytecode instruction: the frame can be handed back here */
#define DYN_IF_TARGET 2u   /* something jumps here */
#define DYN_IF_BACKWARD 4u /* a jump back */

typedef struct DynInstr {
    uint8_t op;    /* DynOpcode */
    uint8_t flags; /* DYN_IF_* */
    uint16_t sub;  /* BINARY_OP: operator number 0..12 (NB_ADD…; in place: arg 1), COMPARE_OP: Py_LT…, others: opcodes.def */
    uint32_t arg;  /* canonical argument: slot, name index, const index, count … */
    uint32_t target; /* jumps: index of the canonical instruction jumped to */
    uint32_t start;  /* code unit where it starts, prefixes (EXTENDED_ARG, KW_NAMES, PRECALL) included: hand back here */
    uint32_t at;     /* code unit of the opcode itself: what f_lasti shows while it runs */
    uint32_t next;   /* code unit behind it and its caches */
} DynInstr;
typedef struct DynCode {
    PyCodeObject *code; /* strong */
    PyObject *bytes;    /* strong */
    DYN_VEC(DynInstr) v;
    uint32_t *at_unit; /* for each code unit: index of the canonical instruction that starts there (its `start`), or DYN_NONE */
    uint32_t nunits;
    bool generator; /* generator, coroutine, async generator */
    DynPositionCursor positions;
} DynCode;
static inline bool dyn_is_branch(const DynInstr *in) {
    return in->op >= DYN_I_POP_JUMP_IF_TRUE && in->op <= DYN_I_JUMP_IF_FALSE_OR_POP;
}
static inline bool dyn_is_conditional(const DynInstr *in) { return dyn_is_branch(in) || in->op == DYN_I_FOR_ITER; }
DYN_HIDDEN DynCode *dyn_decode(PyCodeObject *code); /* new; NULL with MemoryError. Unknown opcodes become DYN_I_UNSUPPORTED */
DYN_HIDDEN void dyn_decode_free(DynCode *c);
DYN_HIDDEN bool dyn_decode_loops(const DynCode *c);      /* does it jump back somewhere */
DYN_HIDDEN uint32_t dyn_decode_return(const DynCode *c); /* a code unit that returns what is on the stack; DYN_NONE: nowhere */
/* The same of a code object that isn't decoded. Without memory: no loop, no such unit. */
DYN_HIDDEN bool dyn_code_loops(PyCodeObject *code);
DYN_HIDDEN uint32_t dyn_code_return(PyCodeObject *code);
DYN_HIDDEN void dyn_decode_print(const DynCode *c, DynStr *out);
extern DYN_HIDDEN const char *const dyn_opcode_names[DYN_I_COUNT];
/* For the table test against `dis`: canonical opcode of a CPython opcode number, or DYN_I_UNSUPPORTED. */
DYN_HIDDEN DynOpcode dyn_decode_opcode(int cpython_opcode);
DYN_HIDDEN int dyn_decode_init(PyObject *module); /* adds _decode(code) -> str and _decode_opcode(number) -> str, for tests */
#endif
