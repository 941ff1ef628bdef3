/* asm.h: makes code objects: the rewritten function and its resume functions. Knows bytecode versions; called by evalframe.
 *
 * Rewritten code (what is left of a function in Python when a graph was broken at instruction `at`): same signature, name, file
 * and flags as the original.
 *     state = RUNNER(slot, slot, …)            every slot with live_in, in slot order
 *     unpack state (a tuple): slots that are bound at the break, in slot order, then the stack, bottom first, without NULLs
 *     the instruction at `at`, with its prefixes, at its original source position
 *     return RESUME(every slot of the original, then the stack, bottom first)
 * RESUME gets None for slots that are not bound after the instruction and for NULLs on the stack. Slots that hold cells pass the
 * cell object itself, in RUNNER's arguments (free variables), in the state and to RESUME. live_in is the state behind
 * COPY_FREE_VARS and before MAKE_CELL: free variables are bound and may be in it.
 * A conditional jump (FOR_ITER is one) has two ways on, each with its own RESUME; where there is one way that stands where
 * `before` does, nothing is run between them: the function was cut there. A method is looked up as a plain attribute (LOAD_METHOD
 * leaves NULL and the bound method). Where a handler covers the instruction, it goes on in the rewritten function's own frame.
 *
 * Waiting code (plain Python until there is native code for what follows): the original, in which before the instruction at `at`
 * WAY_OUT() is asked, by a trap in its place. Where it says True, the instruction and the call of RESUME follow as in rewritten
 * code; else all goes on as in the original. `before` has to be the state in which WAY_OUT says True.
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
#include "ir/frame.h"
#include "tracer/bytecode/decode.h"

/* All return a new code object or NULL with an exception set. */
DYN_HIDDEN PyObject *dyn_asm_whole(const DynCode *c, PyObject *runner);
/* before: state at the break instruction (stack as the instruction finds it); ways: the state behind it, by DynWayOn (resume
 * NULL: no such way; where it isn't told how an instruction falls through, or what handles it, the rest is done there as CPython
 * would); live_in[slot]: bound at function entry. */
typedef struct DynWay {
    PyObject *resume;
    DynFrameShape shape;
} DynWay;
DYN_HIDDEN PyObject *dyn_asm_break(const DynCode *c, PyObject *runner, const bool *live_in, const DynFrameShape *before,
                                   const DynWay *ways);
/* Not where the trap's unit is the one in front of a call, which 3.13 takes for the call when it looks for a handler. */
DYN_HIDDEN bool dyn_asm_may_wait(const DynCode *c, uint32_t at);
DYN_HIDDEN PyObject *dyn_asm_waiting(const DynCode *c, PyObject *way_out, const DynFrameShape *before, const DynWay *ways);
DYN_HIDDEN PyObject *dyn_asm_resume(const DynCode *c, const DynFrameShape *shape);
DYN_HIDDEN int dyn_asm_init(PyObject *module); /* adds _asm_whole, _asm_break, _asm_resume, for tests */
#endif
