/* opcodes.h: what is known of a canonical instruction by its opcode alone: the columns of opcodes.def as an enumeration and a
 * table. Included by decode.h, and so by all that reads decoded code; opcodes.c holds the table. */
#ifndef DYN_OPCODES_H
#define DYN_OPCODES_H
#include "base/cpy.h"

typedef enum DynOpcode {
#define OPCODE(name, stack, flow, breaks, effects, handler, what) DYN_I_##name,
#include "tracer/bytecode/opcodes.def"
#undef OPCODE
    DYN_I_COUNT
} DynOpcode;

/* Where execution goes behind an instruction. */
typedef enum DynFlow {
    DYN_FLOW_NEXT,   /* To the next instruction. */
    DYN_FLOW_BRANCH, /* To the next instruction or to the target, as the truth of the top of the stack decides. */
    DYN_FLOW_LOOP,   /* To the next instruction with an item of an iterator, or to the target at its end. */
    DYN_FLOW_SEND,   /* To the next instruction with what an iterator yields, or to the target at its end. */
    DYN_FLOW_JUMP,   /* To the target. */
    DYN_FLOW_RETURN, /* The frame ends with a result. */
    DYN_FLOW_RAISE   /* An exception is raised. */
} DynFlow;

/* What an instruction does that is seen outside its frame. */
typedef enum DynEffectOf {
    DYN_EFFECT_OF_NONE,      /* Nothing. */
    DYN_EFFECT_OF_SOME,      /* Something, or it isn't known. */
    DYN_EFFECT_OF_NAME,      /* What the use of a global does. */
    DYN_EFFECT_OF_CELL,      /* What the use of a free variable does. */
    DYN_EFFECT_OF_ATTRIBUTE, /* What an attribute of that name does. */
    DYN_EFFECT_OF_OPERATOR,  /* Nothing, unless it works in place. */
    DYN_EFFECT_OF_CALL,      /* What the callable does; its keyword names are `target`. */
    DYN_EFFECT_OF_CALL_KW    /* What the callable does; its keyword names are the constant before it. */
} DynEffectOf;

struct DynInstr;
typedef struct DynStackEffect {
    uint32_t pops;   /* Values that the instruction takes from the stack. */
    uint32_t pushes; /* Values that it leaves in their place when the next instruction follows. */
} DynStackEffect;

typedef struct DynOpcodeInfo {
    const char *name;                                    /* The name in opcodes.def. */
    DynStackEffect stack;                                /* The stack effect, unless stack_of gives it. */
    DynStackEffect (*stack_of)(const struct DynInstr *); /* It gives the stack effect that depends on the argument, or is NULL. */
    uint8_t flow;                                        /* DynFlow */
    uint8_t jumped;                                      /* Values that lie in place of the popped ones where it jumps. */
    bool breaks;                                         /* Recording can go on behind it when it was a graph break. */
    uint8_t asked;   /* The operand, from 1, that is asked for a special method which gives all that it gives; or 0. */
    uint8_t effects; /* DynEffectOf */
} DynOpcodeInfo;
extern DYN_HIDDEN const DynOpcodeInfo dyn_opcodes[DYN_I_COUNT];
#endif
