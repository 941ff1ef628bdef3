/* asm_internal.h: code under construction, for the asm*.c files. Include base/cpy_internal.h first. */
#ifndef DYN_ASM_INTERNAL_H
#define DYN_ASM_INTERNAL_H
#include "tracer/bytecode/asm.h"

typedef struct DynPosition {
    int line, end_line, col, end_col; /* -1: unknown */
} DynPosition;
typedef struct DynAsm {
    DYN_VEC(uint8_t)
    code;
    DYN_VEC(uint8_t)
    lines; /* co_linetable */
    DYN_VEC(uint8_t)
    handlers;             /* co_exceptiontable */
    DynPosition position; /* of what is emitted now */
    uint32_t located;     /* code units that the line table covers */
    int line;             /* the line that its next entry counts from */
    bool failed;          /* memory ran out */
} DynAsm;

/* asm_tables.c. The position holds for all units emitted until the next call; close writes the last of them. */
DYN_HIDDEN void dyn_asm_locate(DynAsm *a, DynPosition p);
DYN_HIDDEN void dyn_asm_close_lines(DynAsm *a);
/* The rest of the line table is that of c, whose units follow. It counts from c's first line: so must ours so far. */
DYN_HIDDEN void dyn_asm_append_lines(DynAsm *a, PyCodeObject *c);
DYN_HIDDEN void dyn_asm_append_handlers(DynAsm *a, PyCodeObject *c, uint32_t shift);
DYN_HIDDEN void dyn_asm_add_handler(DynAsm *a, DynHandler h); /* in order of their starts */

/* asm_enter.c: the function that enters a manager, for code objects' constants; NULL where BEFORE_WITH does. The function that
 * gives an iterator; NULL where GET_ITER leaves one. */
extern DYN_HIDDEN PyObject *dyn_asm_enter, *dyn_asm_iter;
DYN_HIDDEN int dyn_asm_enter_init(void);

/* asm_emit.c */
typedef struct DynSlots {
    PyObject *names; /* tuple */
    PyObject *kinds; /* bytes */
    int argcount, posonly, kwonly;
} DynSlots;
DYN_HIDDEN void dyn_asm_start(DynAsm *a, const DynCode *c);
DYN_HIDDEN void dyn_asm_finish(DynAsm *a);
DYN_HIDDEN void dyn_asm_put(DynAsm *a, int opcode, uint32_t arg);
DYN_HIDDEN void dyn_asm_emit_cached(DynAsm *a, int opcode, uint32_t arg, int caches); /* with prefixes and caches */
DYN_HIDDEN void dyn_asm_emit(DynAsm *a, int opcode, uint32_t arg);
DYN_HIDDEN void dyn_asm_emit_callable(DynAsm *a, uint32_t const_index);
DYN_HIDDEN void dyn_asm_emit_call(DynAsm *a, uint32_t nargs);
DYN_HIDDEN void dyn_asm_emit_resume(DynAsm *a); /* at the start of a code, behind COPY_FREE_VARS */
DYN_HIDDEN void dyn_asm_emit_move(DynAsm *a, uint32_t slot);
DYN_HIDDEN void dyn_asm_emit_order(DynAsm *a, uint32_t *have, uint32_t n);
DYN_HIDDEN void dyn_asm_emit_entry(DynAsm *a, const DynCode *c);
DYN_HIDDEN int dyn_asm_class_slot(PyCodeObject *code);
DYN_HIDDEN void dyn_asm_emit_class_cell(DynAsm *a, int class_at, const bool *bound, uint32_t hidden);
/* Units of c as they are; and all of them, for a frame whose stack may come from elsewhere: RERAISE looks at no number there. */
DYN_HIDDEN void dyn_asm_copy_units(DynAsm *a, const DynCode *c, uint32_t from, uint32_t to);
DYN_HIDDEN void dyn_asm_copy_code(DynAsm *a, const DynCode *c);
DYN_HIDDEN PyObject *dyn_asm_new_code(DynAsm *a, PyCodeObject *like, const DynSlots *s, PyObject *consts, int flags,
                                      int stacksize);
DYN_HIDDEN PyObject *dyn_asm_consts_with(PyCodeObject *code, int n, PyObject *const *more);
DYN_HIDDEN DynSlots dyn_asm_same_slots(PyCodeObject *code);
DYN_HIDDEN const DynInstr *dyn_asm_instruction_at(const DynCode *c, uint32_t at); /* NULL with ValueError */
/* Does control go on behind it? */
static inline bool dyn_falls_through(const DynInstr *in) {
    DynFlow flow = dyn_flow(in);
    return flow != DYN_FLOW_JUMP && flow != DYN_FLOW_RETURN && flow != DYN_FLOW_RAISE;
}
static inline uint32_t dyn_asm_units(const DynAsm *a) { return a->code.n / 2; }
#endif
