/* opcodes.c: the table of canonical opcodes, expanded from opcodes.def, and the stack effects that depend on an argument.
 *
 * Called by whoever reads decoded code, through opcodes.h and dyn_stack_effect. Everything here is constant. */
#include "base/cpy_internal.h"
#include "tracer/bytecode/decode.h"

/* ---- stack effects that depend on the argument: the functions that the column `stack` names */

static DynStackEffect stack_global(const DynInstr *in) { return (DynStackEffect){0, in->sub == 1 ? 2 : 1}; }
static DynStackEffect stack_super(const DynInstr *in) { return (DynStackEffect){3, in->sub & 1 ? 2 : 1}; }
static DynStackEffect stack_build(const DynInstr *in) { return (DynStackEffect){in->arg, 1}; }
static DynStackEffect stack_pairs(const DynInstr *in) { return (DynStackEffect){2 * in->arg, 1}; }
static DynStackEffect stack_keyed(const DynInstr *in) { return (DynStackEffect){in->arg + 1, 1}; }
static DynStackEffect stack_unpack(const DynInstr *in) { return (DynStackEffect){1, in->arg}; }
static DynStackEffect stack_unpack_ex(const DynInstr *in) { return (DynStackEffect){1, (in->arg & 255) + 1 + (in->arg >> 8)}; }
static DynStackEffect stack_format(const DynInstr *in) { return (DynStackEffect){1 + in->arg, 1}; }
static DynStackEffect stack_call(const DynInstr *in) { return (DynStackEffect){in->arg + 2, 1}; }
static DynStackEffect stack_call_kw(const DynInstr *in) { return (DynStackEffect){in->arg + 3, 1}; }
static DynStackEffect stack_call_ex(const DynInstr *in) { return (DynStackEffect){3 + (in->arg & 1), 1}; }
static DynStackEffect stack_placed(const DynInstr *in) { return (DynStackEffect){2 + (in->arg & 1), 1}; }
static DynStackEffect stack_with(const DynInstr *in) { return (DynStackEffect){1, dyn_with_keeps_two() ? 3 : 2}; }
static DynStackEffect stack_with_end(const DynInstr *in) {
    return dyn_with_keeps_two() ? (DynStackEffect){5, 6} : (DynStackEffect){4, 5};
}
static DynStackEffect stack_all(const DynInstr *in) { return (DynStackEffect){in->arg, 0}; }

/* Each of the four flags stands for a value below the code. */
static DynStackEffect stack_function(const DynInstr *in) {
    uint32_t pops = 1;
    for (uint32_t flag = 1; flag <= 8; flag <<= 1) {
        pops += (in->arg & flag) != 0;
    }
    return (DynStackEffect){pops, 1};
}

/* The slots of an iterator (dyn_iterator_slots). Up to 3.11 SEND pops it at its end; END_SEND does from 3.12 on. */
enum { ITER = DYN_PY >= 315 ? 2 : 1, SEND_LEAVES = DYN_PY >= 312 ? ITER + 1 : 1 };

/* ---- the table */

#define STACK(pops, pushes) .stack = {pops, pushes}
#define BY(function) .stack_of = stack_##function
#define NEXT .flow = DYN_FLOW_NEXT
#define BRANCH(n) .flow = DYN_FLOW_BRANCH, .jumped = (n)
#define LOOP(n) .flow = DYN_FLOW_LOOP, .jumped = (n)
#define SEND(n) .flow = DYN_FLOW_SEND, .jumped = (n)
#define JUMP(n) .flow = DYN_FLOW_JUMP, .jumped = (n)
#define RETURN .flow = DYN_FLOW_RETURN
#define RAISE .flow = DYN_FLOW_RAISE
#define NO .breaks = false
#define YES .breaks = true
#define ASKS(operand) .breaks = true, .asked = (operand)
#define OPCODE(opcode, stack_effect, where, resumes, outside, handler, what) \
    [DYN_I_##opcode] = {.name = #opcode, stack_effect, where, resumes, .effects = DYN_EFFECT_OF_##outside},

const DynOpcodeInfo dyn_opcodes[DYN_I_COUNT] = {
#include "tracer/bytecode/opcodes.def"
};

DynStackEffect dyn_stack_effect(const DynInstr *in) {
    const DynOpcodeInfo *op = &dyn_opcodes[in->op];
    return op->stack_of != NULL ? op->stack_of(in) : op->stack;
}
