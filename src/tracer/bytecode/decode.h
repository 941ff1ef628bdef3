/* decode.h: CPython bytecode to canonical instructions, the same on every version. opcodes.def has the canonical opcodes with
 * all that is known of each. Called by the recorder and the assembler; decoded code is cached for each code object. */
#ifndef DYN_DECODE_H
#define DYN_DECODE_H
#include "tracer/bytecode/opcodes.h"

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
    DYN_VEC(DynInstr)
    v;
    uint32_t *at_unit; /* for each code unit: index of the canonical instruction that starts there (its `start`), or DYN_NONE */
    uint32_t nunits;
    uint32_t head;   /* the canonical instruction that a function which calls itself, as far as its names tell, begins with: where
                      * native code may be entered. DYN_NONE: it doesn't, or something jumps there. */
    bool generator;  /* generator, coroutine, async generator */
    uint32_t nnamed; /* The last so many slots are variables of a module, which lie in a dict: dyn_decode_names. Else 0. */
    uint32_t nshared; /* The last so many of those are declared global in some function, which may store them. */
    DynPositionCursor positions;
} DynCode;
DYN_HIDDEN DynStackEffect dyn_stack_effect(const DynInstr *in);
static inline DynFlow dyn_flow(const DynInstr *in) { return (DynFlow)dyn_opcodes[in->op].flow; }
static inline bool dyn_is_branch(const DynInstr *in) { return dyn_flow(in) == DYN_FLOW_BRANCH; }
/* The recorder and the assembler know both ways on from it. */
static inline bool dyn_is_conditional(const DynInstr *in) { return dyn_is_branch(in) || dyn_flow(in) == DYN_FLOW_LOOP; }
/* It names another instruction in `target`. */
static inline bool dyn_has_target(const DynInstr *in) {
    return dyn_is_conditional(in) || dyn_flow(in) == DYN_FLOW_SEND || dyn_flow(in) == DYN_FLOW_JUMP;
}
/* The CPython opcode that jumps ahead where this one jumps back, and otherwise does the same; any other opcode itself. */
DYN_HIDDEN int dyn_forward_opcode(int cpython_opcode);
/* Does this CPython opcode jump by its argument: 1 ahead, -1 back, counted from the next instruction; 0: it doesn't. */
DYN_HIDDEN int dyn_jump_way(int cpython_opcode);
/* CPython opcodes that have to stand at the target of FOR_ITER, which FOR_ITER skips; *n: how many. */
DYN_HIDDEN const uint8_t *dyn_end_of_loop(uint32_t *n);
DYN_HIDDEN DynCode *dyn_decode(PyCodeObject *code); /* new; NULL with MemoryError. Unknown opcodes become DYN_I_UNSUPPORTED */
DYN_HIDDEN void dyn_decode_free(DynCode *c);
/* decode_names.c: code of a module, whose variables are items of `dict`. Those that its loops come to are slots, and loaded and
 * stored as locals are; functions, classes and modules, which it makes once, aren't. `code` of it is a copy with more locals, and
 * places are the same. NULL without an exception: there are none, or the code isn't like that. */
DYN_HIDDEN DynCode *dyn_decode_names(PyCodeObject *code, PyObject *dict);
/* Names that are loaded in the outermost loop around code unit `at`, borrowed; how many, of which `names` gets the first `room`.
 * DYN_NONE: there is no loop around it. */
DYN_HIDDEN uint32_t dyn_code_loop_names(PyCodeObject *code, uint32_t at, PyObject **names, uint32_t room);
DYN_HIDDEN bool dyn_decode_loops(const DynCode *c);      /* does it jump back somewhere */
DYN_HIDDEN uint32_t dyn_decode_return(const DynCode *c); /* a code unit that returns what is on the stack; DYN_NONE: nowhere */
/* The same of a code object that isn't decoded. Without memory: no loop, no such unit. */
DYN_HIDDEN bool dyn_code_loops(PyCodeObject *code);
DYN_HIDDEN uint32_t dyn_code_return(PyCodeObject *code);
DYN_HIDDEN bool dyn_code_calls_global(PyCodeObject *code, PyObject *name); /* … or code in it */
/* Is the name that of a variable of a function around it? */
DYN_HIDDEN bool dyn_code_has_free(PyCodeObject *code, PyObject *name);
DYN_HIDDEN bool dyn_code_calls_itself(PyCodeObject *code); /* by its names alone */
/* Is there anything in it that could run natively: a loop, or calls of itself? */
static inline bool dyn_code_repeats(PyCodeObject *code) { return dyn_code_loops(code) || dyn_code_calls_itself(code); }
DYN_HIDDEN void dyn_decode_print(const DynCode *c, DynStr *out);
/* For the table test against `dis`: canonical opcode of a CPython opcode number, or DYN_I_UNSUPPORTED. */
DYN_HIDDEN DynOpcode dyn_decode_opcode(int cpython_opcode);
DYN_HIDDEN int dyn_decode_init(PyObject *module); /* adds _decode(code) -> str and _decode_opcode(number) -> str, for tests */
#endif
