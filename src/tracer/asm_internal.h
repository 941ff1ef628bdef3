/* asm_internal.h: code under construction, for asm.c and asm_tables.c. Include base/cpy_internal.h first. */
#ifndef DYN_ASM_INTERNAL_H
#define DYN_ASM_INTERNAL_H
#include "tracer/asm.h"

typedef struct DynPosition {
    int line, end_line, col, end_col; /* -1: unknown */
} DynPosition;
typedef struct DynAsm {
    DYN_VEC(uint8_t) code;
    DYN_VEC(uint8_t) lines;    /* co_linetable */
    DYN_VEC(uint8_t) handlers; /* co_exceptiontable */
    DynPosition position;      /* of what is emitted now */
    uint32_t located;          /* code units that the line table covers */
    int line;                  /* the line that its next entry counts from */
    bool failed;               /* memory ran out */
} DynAsm;

/* asm_tables.c. The position holds for all units emitted until the next call; close writes the last of them. */
DYN_HIDDEN void dyn_asm_locate(DynAsm *a, DynPosition p);
DYN_HIDDEN void dyn_asm_close_lines(DynAsm *a);
/* The rest of the line table is that of c, whose units follow. It counts from c's first line: so must ours so far. */
DYN_HIDDEN void dyn_asm_append_lines(DynAsm *a, PyCodeObject *c);
DYN_HIDDEN void dyn_asm_append_handlers(DynAsm *a, PyCodeObject *c, uint32_t shift);
static inline uint32_t dyn_asm_units(const DynAsm *a) { return a->code.n / 2; }
#endif
