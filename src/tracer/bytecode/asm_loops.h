/* asm_loops.h: loop code: a copy of a function's code in which each loop's header has a way in to native code. Made by
 * asm_loops.c; called by evalframe/loops*.c, which says when a way is open.
 *
 * In front of each header stands a unit that does nothing (a NOP; where the way-in block is far, a JUMP_FORWARD over the unit
 * behind it). When it is overwritten, it jumps to the header's way-in block, at the end of the code:
 *     ~WAY_IN                        enters the native loop; True: go on at the header
 *     ~WAY_IN, ~WAY_IN …             a binary tree of questions over the places where the loop may be left
 *     at each place: values of the stack that are too many are dropped; for those that are too few a NULL each is pushed, and
 *     -WAY_IN puts them there; a jump to the place
 * WAY_IN is a constant of a type of its own. Its operators are C functions, which look for the running frame themselves: so
 * nothing is called, no signal is served, and no exception can be raised in the block, whose line is the header's.
 *
 * Where the function calls itself, or another one, by one of the names that were asked for, a constant may stand for what the
 * name does. If the name is that of a global, and somebody tells when dicts change (dyn_dict_tells), a unit like that in front of
 * a header leads to the constant, or past it to the global. Elsewhere the value is compared with one constant, and another is
 * called where it is the same. Those are None until dyn_asm_loops_aim says otherwise. Generator expressions, lambdas and
 * functions in it that do so have such code, too: the function's constants have it in the place of theirs. */
#ifndef DYN_ASM_LOOPS_H
#define DYN_ASM_LOOPS_H
#include "tracer/bytecode/decode.h"

/* The way in at one header. Positions called `old` are code units of the original. */
typedef struct DynLoopWay {
    uint32_t header;   /* Old: the start of the header's instruction. */
    uint32_t depth;    /* Stack values at the header. */
    uint32_t at;       /* The unit of loop code that opens and closes the way. */
    uint8_t closed[2]; /* What stands there, as opcode and argument, while the way is closed … */
    uint8_t open[2];   /* … and while it is open. */
    uint32_t over;     /* The unit of loop code where a call goes on that ran in the function's own code until here. */
    uint32_t *places;  /* Old: where the loop can be left: the header first, then where it ends, then the others, ascending. */
    uint32_t nplaces;
    bool has_end;   /* places[1] is where the loop ends. */
    uint64_t inner; /* A bit for each of the first 64 ways whose loops are nested in this one. */
} DynLoopWay;

#define DYN_CALL_CONSTS 2 /* constants of loop code for each name that is called: they are the last ones */
#define DYN_MOST_CALLED 8 /* names */
#define DYN_MOST_INNER 8  /* generator expressions, lambdas and functions in a function, which call them */
typedef struct DynCallSite {
    uint32_t unit; /* It leads to the constant; DYN_NONE: what the name stands for is compared there. */
    uint32_t name; /* Which of the names is called. */
} DynCallSite;
typedef struct DynInnerCode {
    struct DynLoopCode *made; /* Owned: it has no ways. */
    Py_ssize_t at;            /* Which constant it is. */
} DynInnerCode;

typedef struct DynLoopCode {
    PyObject *code;   /* Strong. */
    DynLoopWay *ways; /* In the order of the headers that were asked for. */
    uint32_t nways;
    uint32_t nunits;  /* Of the original. */
    int32_t *depth;   /* For each old unit where an instruction starts, the stack values in front of it; else -1. */
    uint32_t *moved;  /* For each old unit, where its instruction stands in loop code: behind a header's way. */
    uint32_t ncalled; /* So many names were asked for. */
    uint32_t nsites;  /* Places where they are called … */
    DynCallSite *sites;
    uint8_t past[DYN_MOST_CALLED][2]; /* What stands at a unit that leads to the global, as opcode and argument … */
    uint8_t into[DYN_MOST_CALLED][2]; /* … and where it leads to the constant. */
    uint32_t stuck;                   /* A bit for each name that can't be aimed any more. */
    bool calls;                       /* Any of the names, here or in the code of … */
    DynInnerCode inner[DYN_MOST_INNER];
    uint32_t ninner;
} DynLoopCode;

#define DYN_LOOP_UNITS 30000 /* the most units of a code for which loop code is made */
/* The stack values in front of each canonical instruction, -1 where it can't be reached: a new array (PyMem_Raw), or
 * NULL without an exception. */
DYN_HIDDEN int32_t *dyn_decode_depths(const DynCode *c);
/* Headers of loops by bytecode alone: targets of jumps back that every way into the loop goes through. How many; `at` gets the
 * first `room`, in ascending order. */
DYN_HIDDEN uint32_t dyn_loop_headers(const DynCode *c, uint32_t *at, uint32_t room);
/* The canonical instructions of the loop whose header starts at a code unit: a new array (PyMem_Raw), one bool each. NULL without
 * an exception: it has none. */
DYN_HIDDEN bool *dyn_loop_members(const DynCode *c, uint32_t header);
/* Names of globals, or of variables of functions around the code, of which calls are to be aimed. They belong to the code. */
typedef struct DynCalledNames {
    PyObject *at[DYN_MOST_CALLED];
    bool free[DYN_MOST_CALLED]; /* It is such a variable. */
    uint32_t n;
} DynCalledNames;
/* Loop code with a way in, the constant ways[i], at each of the n headers (old units, ascending). NULL with an exception, or
 * without one where there can be none: the code is too long, or a header isn't one. */
DYN_HIDDEN DynLoopCode *dyn_asm_loops(const DynCode *c, const uint32_t *headers, PyObject *const *ways, uint32_t n,
                                      const DynCalledNames *called);
DYN_HIDDEN void dyn_asm_loops_free(DynLoopCode *l);
/* Calls of `door` by this name become calls of `function`, without passing the door; NULL: none do any more. Both are borrowed by
 * the code's constants, so this has to be told before one of them dies, or the name stands for something else. */
DYN_HIDDEN void dyn_asm_loops_aim(DynLoopCode *l, uint32_t name, PyObject *door, PyObject *function);
#endif
