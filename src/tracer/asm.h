/* asm.h: makes code objects: the rewritten function and its resume functions. Knows bytecode versions; called by evalframe.
 *
 * Rewritten code (what is left of a function in Python when a graph was broken at instruction `at`): same signature, name, file
 * and flags as the original.
 *     state = RUNNER(slot, slot, …)            every slot with live_in, in slot order
 *     unpack state (a tuple): slots that are bound at the break, in slot order, then the stack, bottom first, without NULLs
 *     the instruction at `at`, with its prefixes, at its original source position
 *     return RESUME(every slot of the original, then the stack, bottom first)
 * RESUME gets None for slots that are not bound after the instruction and for NULLs on the stack. Slots that hold free variables
 * pass the cell object itself, in RUNNER's arguments, in the state and to RESUME. live_in is the state behind COPY_FREE_VARS:
 * free variables are bound and may be in it. Codes with cell variables are refused (ValueError), also by dyn_asm_whole.
 * A POP_JUMP_IF_TRUE or _FALSE has two ways on: with after->at == before->at and the same stack only the truth value is taken,
 * and RESUME starts at the jump itself with a bool on its stack.
 *
 * Resume code: a function of nslots + nstack positional parameters: all the slots of the original (same indices, so that the
 * original bytecode works unchanged), then the stack. None is passed for slots with `bound` = false and stack values with
 * `null_stack`; it empties these, pushes the stack and goes on at code unit `at` of a copy of the original, its tables shifted
 * with it. Make its function with PyFunction_New (types.FunctionType would ask for a closure); dyn_code_ncells and dyn_code_nfree
 * are 0 for it, its cells are arguments. A code with a free variable __class__ gets one slot more behind the parameters, which it
 * (and break codes made of it) fills for super().
 *
 * Whole code (nothing left in Python): return RUNNER(slot, slot, …): the parameters, then the free variables' cells. */
#ifndef DYN_ASM_H
#define DYN_ASM_H
#include "tracer/decode.h"

typedef struct DynFrameShape {
    uint32_t at; /* code unit */
    uint32_t nstack;
    const bool *bound;      /* for each slot of the original: is it bound */
    const bool *null_stack; /* for each stack value: is it NULL */
} DynFrameShape;
/* All return a new code object or NULL with an exception set. */
DYN_HIDDEN PyObject *dyn_asm_whole(const DynCode *c, PyObject *runner);
/* before: state at the break instruction (stack as the instruction finds it); after: state behind it (at: the next code unit);
 * live_in[slot]: bound at function entry. */
DYN_HIDDEN PyObject *dyn_asm_break(const DynCode *c, PyObject *runner, PyObject *resume, const bool *live_in,
                                   const DynFrameShape *before, const DynFrameShape *after);
DYN_HIDDEN PyObject *dyn_asm_resume(const DynCode *c, const DynFrameShape *shape);
DYN_HIDDEN int dyn_asm_init(PyObject *module); /* adds _asm_whole, _asm_break, _asm_resume, for tests */
#endif
