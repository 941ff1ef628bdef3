/* region_ir.h: region IR: typed registers, blocks that end with a jump, entries that fill registers from a frame's slots, and
 * exits that say what the slots hold when CPython goes on. tracer/region makes it, codegen/region compiles and runs it, the
 * files region_*.c here print, read, verify and interpret it.
 *
 * A register may be assigned in several blocks (there are no phis: compilers of C find them by themselves), and is assigned on
 * every way to where it is used. Blocks are made for types: one stretch of bytecode has a block for each combination of types
 * that its slots come with, so what is computed never looks at a type. An exit stands in front of an instruction that has not
 * been executed; what happened since then has no effect outside of registers. */
#ifndef DYN_REGION_IR_H
#define DYN_REGION_IR_H
#include "base/arrays.h"
#include "ir/region.h"

typedef enum DynRegionOp {
#define ROP(NAME, text, result, a, b, c, fails, value) DYN_RO_##NAME,
#define FLOW(NAME, text, a) DYN_RO_##NAME,
#include "ir/region_ops.def"
#undef ROP
    DYN_RO_COUNT,
    DYN_RO_PURE = DYN_RO_CALM /* The rows before it write nothing but registers. */
} DynRegionOp;
typedef struct DynRegionOpInfo {
    const char *text;
    char result, args[3]; /* The types of registers, 'N' for none. */
    bool fails;           /* It may leave the region. */
    bool flow;            /* It ends a block. */
    const char *c_fails, *c_value;
} DynRegionOpInfo;
extern DYN_HIDDEN const DynRegionOpInfo dyn_region_ops[DYN_RO_COUNT];

typedef struct DynRegionInstr {
    uint16_t op;     /* DynRegionOp */
    uint32_t dst;    /* The register of the result, or DYN_NONE. */
    uint32_t arg[3]; /* Registers. */
    uint32_t exit;   /* Of what may leave: the index of its exit. */
    uint32_t to[2];  /* Blocks: of JMP the first; of BR where the argument is true, and where it is 0. Of another one that may
                      * leave the first: it goes on there instead, and has no exit. */
    DynScalar imm;   /* The number of a constant, and of IFITS: how many bits, negative for unsigned. */
} DynRegionInstr;
/* One that can't leave, with no register for its result yet. */
static inline DynRegionInstr dyn_region_instr(DynRegionOp op, uint32_t a, uint32_t b, uint32_t c, int64_t imm) {
    return (DynRegionInstr){
        .op = (uint16_t)op, .dst = DYN_NONE, .arg = {a, b, c}, .exit = DYN_NONE, .to = {DYN_NONE, DYN_NONE}, .imm = {.i = imm}};
}
typedef struct DynRegionBlock {
    DYN_VEC(DynRegionInstr)
    v;
    uint32_t at; /* The canonical instruction that it begins with, for whoever reads it. */
    bool rare;   /* It is of a nest that has a copy, which is chosen where what is asked in front of it holds. */
} DynRegionBlock;

/* What a value is: for an entry what has to be in a slot, for an exit what is put there. */
typedef enum DynRegionKind {
    DYN_RK_NULL,  /* Nothing: an empty local, or CPython's NULL on the stack. */
    DYN_RK_ENTRY, /* The object that slot `ref` held at the entry, whatever it is; at an entry of the slot itself. */
    DYN_RK_CONST, /* The object `ref` of the region's objects. */
    DYN_RK_BOOL,  /* regs: value */
    DYN_RK_INT,   /* regs: value */
    DYN_RK_FLOAT, /* regs: value */
    DYN_RK_NP,    /* A NumPy scalar of `dtype`. regs: value */
    DYN_RK_ARRAY, /* An ndarray of `dtype` and rank `n`. regs: the object, data, sizes, strides in bytes. */
    DYN_RK_VIEW,  /* A view that is no object yet. regs: the object that owns the memory, data, sizes, strides */
    DYN_RK_RANGE, /* regs: start, length, step, stop. n: 1 where the step is 1 */
    DYN_RK_ITER,  /* An iterator of a range. regs: next, how many are left, step; n as of RANGE. ref: the slot it was in at the
                   * entry, or  DYN_NONE: it is made anew. */
    DYN_RK_TUPLE, /* Of the `n` values that follow, each with those in it. */
    DYN_RK_SEQ,   /* An iterator of an array. regs: the array's, then the next place. ref as of ITER. */
    DYN_RK_ENUM,  /* An enumerate object of the two values that follow: the next number, and the iterator. ref as of ITER. */
    DYN_RK_ZIP,   /* A zip object of the `n` iterators that follow. ref as of ITER. */
    DYN_RK_UFUNC, /* At entries: a ufunc with `n` operands that has a loop for doubles. regs: that loop, what it is called with.
                   */
    DYN_RK_LIST,  /* A list, or (DYN_RF_TUPLE) a tuple that is an object. regs: the object. ref: its shape, below. */
    DYN_RK_LISTITER, /* An iterator of the LIST or TEXT that follows. regs: the next place. ref as of ITER. */
    DYN_RK_TEXT,     /* A str whose codes are below 256, bytes or a bytearray: n, DYN_TEXT_*. regs: object, first byte, length. */
    DYN_RK_CELL,     /* The cell that slot `ref` holds, with the value that follows in it. */
    DYN_RK_FUNC,     /* While it is planned: a function that the loop makes of code `ref`, with the n cells that follow. */
    DYN_RK_GEN,      /* While it is planned: a generator of code `ref`, the iterator that follows, and the cells. */
    DYN_RK_COMPLEX,  /* regs: real and imaginary part. dtype: DYN_C128 of np.complex128, 0 of Python's own */
    DYN_RK_CHAR,     /* A str of one character. regs: its code, below 256. */
    DYN_RK_INST,     /* An instance of the class `ref` of the region's objects. regs: the object. n: 1 + the slot it came in. */
    DYN_RK_CLASS,    /* At entries: a class. regs: itself. */
    DYN_RK_DICT,     /* A dict. regs: the object. n: DYN_DICT_* */
    DYN_RK_SET,      /* A set. regs: the object */
    DYN_RK_DEQUE,    /* A deque. regs: the object */
    DYN_RK_METHOD,   /* Method `ref` of the region's objects, bound to a list, dict or set. regs: itself, what it is bound to. */
    DYN_RK_RNG, /* A generator of random numbers: n, DYN_RNG_*. regs: itself, what draws a double, what that is called with. */
    DYN_RK_KEYITER,   /* An iterator of the DICT that follows: its keys. regs: the next place, how many are left, how many there
                       * were.   ref as of ITER. The others, in the order of DYN_CPY_KEYS: */
    DYN_RK_VALUEITER, /* its values, */
    DYN_RK_ITEMITER,  /* its items, */
    DYN_RK_SETITER,   /* and those of the SET that follows. */
    DYN_RK_DICTVIEW,  /* While it is planned: keys, values or items (dtype: DYN_CPY_KEYS …) of the dict that follows. */
    DYN_RK_FOREIGN, /* At entries: a function of ctypes. regs: its address. ref: its signature (region_foreign.h). n: its place in
                     * the object, or 0 */
    DYN_RK_MADE,  /* A function that an inner `def` or lambda makes anew at each call. regs: the object. ref: what is the same of
                   * all of  them (dyn_cpy_function_facts). shape: while it is planned, the row of the plan's functions. */
    DYN_RK_SLICE, /* While it is planned: start, stop and step follow. */
    DYN_RK_LITERAL, /* While it is planned: a list of the n values that follow, which only a function of arrays will see. */
    DYN_RK_PAUSED,  /* A generator of Python code that is at row `shape` of the region's pauses; the n values that follow are what
                     * its  frame holds, variables and stack. ref as of ITER. */
    DYN_RK_EXPR, /* While it is planned: an expression of arrays of `dtype` and rank `shape`, whose operands follow. regs: sizes.
                  * ref: DynRegionOp, of an element. */
    DYN_RK_RECORDS, /* An ndarray, or with shape 1 a np.recarray, of rank `n` with fields: its dtype is `ref` of the region's
                     * objects. regs: as of ARRAY. */
    DYN_RK_COLUMN,  /* An ndarray of `dtype` and rank `n` that isn't aligned. regs: as of ARRAY. With DYN_RF_FRESH, while it is
                     * planned: a view that is no object yet. */
    DYN_RK_RECORD,  /* An element of RECORDS, with their ref and shape. regs: the object that owns the memory, data. */
    DYN_RK_ADDRESS, /* While it is planned: x.ctypes of the array that follows, or a pointer to its memory of type `ref` of the
                     * region's objects. */
    DYN_RK_SLICED,  /* While it is planned: a part of a list, which is moved into another one. The list and a SLICE follow. */
    DYN_RK_PARTS,   /* An instance that is no object yet. ref: a tuple of its class and the names of the n attributes that follow,
                     * in   the region's objects. shape: its number; values with one number are the same instance. */
    DYN_RK_COUNT
} DynRegionKind;
/* Functions of C for objects, called with numbers: region_calls.c. 1: it has raised, or gives something else. */
enum { DYN_BOXED_INT = 1, DYN_BOXED_FLOAT, DYN_BOXED_COMPLEX, DYN_BOXED_OBJECT };
#define DYN_BOXED_BITS 3
#define DYN_BOXED_ARGS 5
DYN_HIDDEN int dyn_region_boxed_float(PyObject *function, int64_t kinds, const DynScalar *given, double *d);
DYN_HIDDEN int dyn_region_boxed_int(PyObject *function, int64_t kinds, const DynScalar *given, int64_t *d);
DYN_HIDDEN int dyn_region_boxed_np_int(PyObject *function, int64_t kinds, const DynScalar *given, int64_t *d);
/* The imaginary part is given back in given[0]. */
DYN_HIDDEN int dyn_region_boxed_complex(PyObject *function, int64_t kinds, DynScalar *given, double *d);
/* What a list or tuple is asked about a plain value, or, from ORDER + Py_LT on, how it compares with another one; 1: CPython has
 * to do it, as of items of other kinds, or where index() finds nothing. */
enum { DYN_LIST_INDEX, DYN_LIST_COUNT, DYN_LIST_HAS, DYN_LIST_ORDER };
DYN_HIDDEN int dyn_region_list_ask(int64_t what, PyObject *list, PyObject *o, int64_t *d);
/* sum, max (largest) and min of a list or tuple of ints, or of floats; 1: CPython has to do it, as of other or no items. */
DYN_HIDDEN int dyn_region_sum_ints(PyObject *list, int64_t *d);
DYN_HIDDEN int dyn_region_sum_floats(PyObject *list, double *d);
DYN_HIDDEN int dyn_region_top_int(PyObject *list, int64_t largest, int64_t *d);
DYN_HIDDEN int dyn_region_top_float(PyObject *list, int64_t largest, double *d);
enum { DYN_RNG_PYTHON, DYN_RNG_STATE, DYN_RNG_GENERATOR };
/* Is the object one that loops can draw from now? Which, and what draws a double, from what. */
DYN_HIDDEN bool dyn_region_rng(PyObject *o, uint8_t *which, void **function, void **state);
DYN_HIDDEN PyTypeObject *dyn_region_rng_type(uint8_t which); /* The class of all of a kind that was met; borrowed. */
DYN_HIDDEN int dyn_region_gauss(PyObject *o, double mu, double sigma, double *d); /* 1: likewise */
DYN_HIDDEN double dyn_region_normalvariate(PyObject *o, double mu, double sigma);
DYN_HIDDEN double dyn_region_expovariate(PyObject *o, double rate);
DYN_HIDDEN int dyn_region_shuffle(PyObject *o, PyObject *list);
DYN_HIDDEN int dyn_region_randbelow(PyObject *o, int64_t n, int64_t *d); /* of random.Random; 1: nothing has happened */
/* What a str of the one character is asked: str.isspace and its like, by the place in dyn_region_questions. */
DYN_HIDDEN int64_t dyn_region_char_is(int64_t code, int64_t question);
#define DYN_REGION_QUESTIONS 8
extern DYN_HIDDEN const char *const dyn_region_questions[DYN_REGION_QUESTIONS];
/* Dicts, by what an item is that isn't there: an error, what a defaultdict makes, which is in it then, or a Counter's 0. */
enum { DYN_DICT_PLAIN, DYN_DICT_INT, DYN_DICT_FLOAT, DYN_DICT_LIST, DYN_DICT_DICT, DYN_DICT_COUNTER };
DYN_HIDDEN int64_t dyn_region_dict_kind(PyObject *o); /* -1: it is none that loops know */
enum { DYN_TEXT_STR, DYN_TEXT_BYTES, DYN_TEXT_BYTEARRAY };
/* Is the object a text? Which, and where its bytes lie. */
DYN_HIDDEN bool dyn_region_text_of(PyObject *o, uint8_t *which, const char **data, int64_t *n);
/* The shape of a list: what its items are, a byte of DYN_RL_*, and shifted by 8 what the items of those are that are lists. What
 * is said of the first item is looked at on entry, and each item when it is read. */
#define DYN_RL_BOOL 1u
#define DYN_RL_INT 2u
#define DYN_RL_FLOAT 4u
#define DYN_RL_LIST 8u
#define DYN_RL_TUPLE 16u
#define DYN_RL_OTHER 32u
#define DYN_RL_BYTE 63u /* those that an entry looks at; others are OTHER there: */
#define DYN_RL_NONE 64u
#define DYN_RL_INST 128u
#define DYN_RL_STR 256u
#define DYN_RL_DICT 512u
#define DYN_RL_SET 1024u
#define DYN_RL_NP_F64 2048u
#define DYN_RL_NP_I64 4096u
#define DYN_RL_COMPLEX 8192u
#define DYN_RL_DEPTH 3                                                          /* the deepest list in lists */
DYN_HIDDEN uint32_t dyn_region_bits(PyObject *o);                               /* DYN_RL_*; of instances too OTHER */
DYN_HIDDEN uint32_t dyn_region_shape(PyObject *list, uint32_t most, int depth); /* of the first `most` items, spread out */
static inline bool dyn_region_is_dict_iterator(uint8_t kind) { return kind >= DYN_RK_KEYITER && kind <= DYN_RK_SETITER; }
/* It is an iterator of one of the kinds that come in. */
static inline bool dyn_region_iterates(uint8_t kind) {
    return kind == DYN_RK_ITER || kind == DYN_RK_SEQ || kind == DYN_RK_ENUM || kind == DYN_RK_ZIP || kind == DYN_RK_LISTITER ||
           kind == DYN_RK_PAUSED || dyn_region_is_dict_iterator(kind);
}
/* It is made of the values that stand behind it. */
static inline bool dyn_region_has_items(uint8_t kind) {
    return dyn_region_is_dict_iterator(kind) || kind == DYN_RK_DICTVIEW || kind == DYN_RK_TUPLE || kind == DYN_RK_ENUM ||
           kind == DYN_RK_ZIP || kind == DYN_RK_LISTITER || kind == DYN_RK_CELL || kind == DYN_RK_FUNC || kind == DYN_RK_GEN ||
           kind == DYN_RK_SLICE || kind == DYN_RK_EXPR || kind == DYN_RK_LITERAL || kind == DYN_RK_PAUSED ||
           kind == DYN_RK_ADDRESS || kind == DYN_RK_PARTS || kind == DYN_RK_SLICED;
}
extern DYN_HIDDEN const char *const dyn_region_kinds[DYN_RK_COUNT];
#define DYN_RF_CONTIGUOUS 1u /* The last axis of an array has the stride of its elements. */
#define DYN_RF_WRITEABLE 2u
#define DYN_RF_DROPPABLE 4u /* ENTRY: dropping the object runs no code. */
#define DYN_RF_MAYBE 8u     /* The last register says what it is: 0, what slot `ref` held at the entry; or dyn_region_what. */
#define DYN_RF_TUPLE 16u    /* LIST: it is a tuple. */
#define DYN_RF_FRESH 32u    /* COLUMN: a view that is no object yet. */
#define DYN_REGION_RANK 6
#define DYN_REGION_REGS (3 + 2 * DYN_REGION_RANK) /* Of an array: object, elements, sizes, strides, and what is read next. */
#define DYN_REGION_INSTANCES 48                   /* The most instances in parts at an exit. */
#define DYN_REGION_EXTRAS 48                      /* The most objects that come in beside the slots. */
typedef struct DynRegionValue {
    uint8_t kind; /* DynRegionKind */
    uint8_t dtype;
    uint8_t n;
    uint8_t flags; /* DYN_RF_* */
    uint8_t nregs;
    uint16_t shape; /* LIST, DICT: what is in it, for the planner. UFUNC: 1 + the number of its loop, or 0: that of doubles. */
    uint32_t ref;
    uint32_t regs[DYN_REGION_REGS];
} DynRegionValue;
typedef DYN_VEC(DynRegionValue) DynRegionValues;
/* A kind and dtype as a number that isn't 0: numbers of one type of register share a value that may be any of them. */
static inline int64_t dyn_region_what(const DynRegionValue *v) {
    uint8_t kind = v->kind == DYN_RK_COLUMN && v->flags & DYN_RF_FRESH ? DYN_RK_VIEW : v->kind;
    return 1 + kind + 256 * (int64_t)v->dtype;
}

/* One way in: what the slots have to hold, and the block that runs then. The values of slots, then of the region's extra objects.
 */
typedef struct DynRegionEntry {
    uint32_t block;
    DynRegionValues values;
} DynRegionEntry;
/* One way out. `values` are those of locals, cells and free variables, then of `nstack` stack values, tuples' items behind them,
 * then `nmore` iterators that were in slots at the entry and are advanced, but lie nowhere now. */
typedef struct DynRegionOut {
    uint32_t at, nstack, nmore;
    DynReason why;
    bool gives_up; /* It is no way out of the region, but of routines: there are no values. */
    DynRegionValues values;
} DynRegionOut;
/* A Python function that is called by its name while the region runs, itself among the callers: it becomes a function of its own
 * in C. It has no exits: what it can't go on with gives up all calls of routines at once, up to the one of the region itself,
 * which is left at that call's exit. What they have stored by then is in the log, and undone; so nobody sees that they ran. */
#define DYN_ROUTINE_VALUES 20u /* The most registers of its arguments, or its results. */
typedef struct DynRegionRoutine {
    uint32_t block;                       /* Where it begins. */
    uint32_t nparams, nresults;           /* What RETURN finds in F is of these types, I, D or P: */
    char results[DYN_ROUTINE_VALUES + 1]; /* of each, a letter. */
    uint32_t params[DYN_ROUTINE_VALUES];  /* The registers that its arguments are in. */
} DynRegionRoutine;
/* An item of a dict that is taken for granted; NULL: the dict has none of this name. With `extra`: whatever array it is. Or of a
 * function its code and defaults. Strong. */
#define DYN_REGION_OF_EXTRA 0x10000u
typedef struct DynRegionFact {
    PyObject *dict, *name, *value;
    bool function;  /* `dict` is a function, `name` its code, `value` its defaults or NULL. */
    bool cell;      /* What is in a cell, which is `extra`: of `dict`, or where that is NULL of slot `slot`. */
    bool object;    /* The extra object is `value`; with a `name` it is a function of ctypes that is as that says (`dict`: what it
                     * refers to; region_foreign.h). */
    bool attribute; /* Of the object `dict`, or where that is NULL in slot `slot`: attribute `name`, which is `extra`, or with
                     * `value` the method that it is. */
    bool closure; /* Cell `index` of the closure of the function `of`: what is in it is `extra`, or it is the cell in slot `slot`.
                   */
    bool class;   /* `value` is a class in version `slot`, whose instances share `nkeys` keys. With `object`. */
    uint32_t slot, nkeys;
    uint32_t of, index; /* of: a slot, or DYN_REGION_OF_EXTRA + the index of an extra object. */
    uint32_t extra;     /* The index of the extra object that it gives, or DYN_NONE. */
} DynRegionFact;

/* A tuple that the region takes for granted, or something in one: what passes know of it without looking into objects. */
typedef enum DynRegionPartKind { DYN_PART_OTHER, DYN_PART_INT, DYN_PART_TUPLE } DynRegionPartKind;
typedef struct DynRegionPart {
    DynRegionPartKind kind;
    uint32_t reg;      /* The extra object's register; DYN_NONE: it is in another tuple. */
    int64_t i;         /* INT: the number. */
    uint32_t first, n; /* TUPLE: its items are so many parts, from there on. */
} DynRegionPart;

/* Where a generator stands: in front of this code unit, behind a yield; 0: it hasn't begun. */
typedef struct DynRegionPause {
    PyObject *function; /* A Python function, whose generators they are: one of the region's objects. */
    uint32_t at;
} DynRegionPause;

typedef struct DynRegionCode DynRegionCode;     /* native code: codegen/region */
typedef struct DynRegionSpares DynRegionSpares; /* objects for when memory is out: codegen/region/spare.c */
extern DYN_HIDDEN long dyn_region_starve;       /* Test: for the way out memory is out after so many objects; -1: it isn't. */
struct DynRegion {
    PyObject *code;      /* The code object, strong; or NULL in tests. */
    PyObject *namespace; /* Borrowed, and only compared: the dict in which variables of a module lie that are slots; or NULL. */
    uint32_t header;     /* Code unit. */
    uint32_t nslots;     /* Locals, cells and free variables. */
    uint32_t nstack;     /* Stack values at the header. */
    uint32_t nextra;     /* Objects that don't come in slots. */
    bool whole_arrays;   /* It computes whole arrays. */
    bool array_paths;    /* Some instruction that isn't in the language has an array among its operands. */
    bool makes;          /* It makes lists. */
    bool releases;       /* It calls functions beside which other code may run. */
    bool warns;          /* It does arithmetic that NumPy may report on: how is asked at the entry. */
    bool wraps;          /* Its NumPy integers wrap: np.errstate has to ignore overflow, which is asked there too. */
    DYN_VEC(char) regs;  /* The type of each register: I, D, S, P. */
    DYN_VEC(DynRegionBlock) blocks;
    DYN_VEC(DynRegionEntry) entries;
    DYN_VEC(DynRegionOut) exits;
    DYN_VEC(DynRegionRoutine) routines;
    uint32_t deepest; /* So many calls that are followed into are in one another, at most: they count for the recursion limit. */
    DYN_VEC(DynRegionFact) facts;
    DYN_VEC(DynRegionPart) parts;
    DYN_VEC(DynRegionPause) pauses;
    DYN_VEC(PyObject *) objects; /* Strong. */
    DynRegionCode *native;       /* NULL: not asked for. */
    DynRegionSpares *spares;     /* NULL: none yet, or a run has them. */
    PyObject **stack;            /* What the last exit handed out: room for the deepest. */
    bool asks_flags;             /* Some loop asks the processor's floating-point flags behind its trips (trips.c). */
    uint32_t in_front;           /* So many instructions were put in front of loops, to find out how they can run. */
    bool optimised;              /* The passes of codegen/region have been over it, … */
    bool malformed;              /* … and what they made breaks the rules. It isn't compiled. */
    uint32_t running;            /* Runs of it that go on, … */
    uint32_t writing;      /* … and jobs of the build thread that write it as C: registers, blocks and the two above are its. */
    bool removed, dropped; /* It is freed when the runs, and when the jobs have ended. */
    bool torn;             /* A fork came while it was written: what it points to is nobody's. */
    bool forced;           /* Test: its C can be told to leave at any exit. */
    uint32_t force, after; /* Test: leave at this exit (DYN_NONE: at none) when it is passed for the after-th time. */
    bool interpreted;      /* Test: run by the interpreter. */
};
DYN_HIDDEN DynRegion *dyn_region_new(void);
DYN_HIDDEN uint32_t dyn_region_reg(DynRegion *r, char type); /* DYN_NONE: no memory */

DYN_HIDDEN void dyn_region_optimise(DynRegion *r); /* codegen/region: its passes, once */

/* Text. parse: NULL with a sentence in error. It knows no objects: consts and facts are printed, and not read. */
DYN_HIDDEN void dyn_region_text(const DynRegion *r, DynStr *out);
DYN_HIDDEN DynRegion *dyn_region_parse(const char *text, DynStr *error);
/* Every register is assigned on each way to where it is used, types fit, blocks end once, exits say of each slot what it holds.
 */
DYN_HIDDEN int dyn_region_verify(const DynRegion *r, DynStr *error);
/* Runs it from block `block` with a value for each register; returns the exit that was taken. `breaker`: see POLL. */
typedef struct DynRegionCalls {
    int64_t left;    /* So many calls of routines in one another are allowed. */
    int64_t gave_up; /* DYN_GAVE_UP_* */
} DynRegionCalls;
DYN_HIDDEN uint32_t dyn_region_interpret(DynRegion *r, uint32_t block, DynScalar *values, const volatile unsigned char *breaker,
                                         DynRegionCalls *calls);
DYN_HIDDEN bool dyn_region_is_droppable(
    PyObject *o); /* Dropping it runs no code: numbers and what has no contents; NULL is too. */
/* What was stored in objects within an inlined call: where the region is left before that call has ended, all of it is undone. */
#define DYN_REGION_LOGGED 16384
typedef struct DynRegionLog {
    int64_t n, nobjects;
    struct {
        PyObject **place; /* NULL: `o` itself is a float whose number was `number`. Or it stands for an item that was appended. */
        PyObject *o;      /* With a place: what was there, owned. Or the list, owned, which had `number` items. */
        double number;
    } at[DYN_REGION_LOGGED];
} DynRegionLog;
extern DYN_HIDDEN DynRegionLog dyn_region_log;
DYN_HIDDEN void dyn_region_undo(void);
DYN_HIDDEN int dyn_region_log_object(PyObject **place); /* these four: 1: there is no room, or it couldn't be undone */
DYN_HIDDEN int dyn_region_log_append(PyObject *list);
DYN_HIDDEN int dyn_region_log_pop(PyObject *list);
/* Of a heap: can it be noted, and noted when it is done. */
typedef enum DynHeapChange { DYN_HEAP_PUSHED, DYN_HEAP_POPPED, DYN_HEAP_REPLACED, DYN_HEAP_CHANGES } DynHeapChange;
DYN_HIDDEN bool dyn_region_can_log_heap(PyObject *list, DynHeapChange change);
DYN_HIDDEN void dyn_region_log_heap(PyObject *list, DynHeapChange change, Py_ssize_t at, PyObject *top);
DYN_HIDDEN int dyn_region_log_key(PyObject *dict, PyObject *key, PyObject *old); /* takes the key over; old: NULL, or borrowed */
DYN_HIDDEN int dyn_region_commit(void);                                          /* the call has ended */
DYN_HIDDEN bool dyn_region_is_np_number(PyObject *o);
/* Lists and dicts that a run has made, and objects that it has taken out of others: they live until it ends, or longer where the
 * frame has them then. */
#define DYN_REGION_MADE 1024
typedef struct DynRegionMade {
    PyObject *at[DYN_REGION_MADE]; /* Owned. */
    uint32_t n;
    int64_t nitems;
    PyObject **more; /* Owned: what a call gave up when there was no place in `at` any more. */
    uint32_t nmore;
    PyObject *arrays[32]; /* Owned: vectors, which the run takes in turn. */
    uint32_t narrays;
    /* Where other code may run meanwhile (region_foreign.c): what the run holds anyway, slots and other objects; whether what it
     * takes for granted has changed; the thread, while it doesn't hold the GIL. */
    PyObject *const *held[2];
    uint32_t nheld[2];
    bool (*is_changed)(void *run);
    void *run;
    PyThreadState *thread;
} DynRegionMade;
extern DYN_HIDDEN DynRegionMade *dyn_region_made; /* Of the run that goes on. */
/* Of that run: where it has how many objects it made, and how many are so many that it looks for those that it can drop. */
extern DYN_HIDDEN struct DynRegionCrowd {
    const uint32_t *n;
    uint32_t many;
} dyn_region_crowd;
DYN_HIDDEN void dyn_region_enter_made(DynRegionMade *made); /* it is that of the run that goes on; NULL: there is none */
/* Records (region_arrays.c). Has the array a dtype with fields, no objects in it, and nothing of its own that hides a field? */
DYN_HIDDEN bool dyn_region_has_fields(PyObject *array);
DYN_HIDDEN PyTypeObject *dyn_region_recarray(void); /* borrowed */
DYN_HIDDEN PyObject *dyn_region_blank_record(PyObject *descr);
DYN_HIDDEN void dyn_region_lay_record(PyObject *record, PyObject *owner, char *data); /* of a blank one */
/* Operations on whole arrays (region_arrays.c): memory for results until they are stored, flags of the processor, and NumPy's own
 * reductions of n doubles that lie `stride` bytes apart; 1: CPython has to do it. */
DYN_HIDDEN char *dyn_region_scratch(int64_t bytes, int64_t which); /* borrowed; NULL: too large, or no memory */
DYN_HIDDEN int dyn_region_unflag(void);
DYN_HIDDEN int dyn_region_flags(void); /* one is raised that NumPy may report */
DYN_HIDDEN int dyn_region_array_sum(char *data, int64_t stride, int64_t n, double *d);
DYN_HIDDEN int dyn_region_array_max(char *data, int64_t stride, int64_t n, double *d);
DYN_HIDDEN int dyn_region_array_min(char *data, int64_t stride, int64_t n, double *d);
/* Vectors that a loop makes. A run has some of its own, which it takes in turn; those that values of the loop still are, are told
 * first (hold). What a frame holds when the run ends stays, the others are dropped with what else was made. */
DYN_HIDDEN int dyn_region_hold_array(PyObject *o);                   /* NULL: none */
DYN_HIDDEN int dyn_region_axis(int64_t n);                           /* of the next one: an axis in front of its last */
DYN_HIDDEN PyObject *dyn_region_new_array(int64_t n, int64_t dtype); /* borrowed; NULL: CPython has to make it */
DYN_HIDDEN char *dyn_region_array_data(PyObject *o);
DYN_HIDDEN void dyn_region_forget_arrays(void); /* what a run before was told: it may have been left in between */
/* Operands of the loop or product that is called next: n doubles, or one number for all of them. A matrix is told as its rows and
 * its columns. Those two give 1 where CPython has to do it. */
DYN_HIDDEN int dyn_region_operand(char *data, int64_t stride, int64_t n);
DYN_HIDDEN int dyn_region_lines(void); /* of two operands: do they overlap, in other steps of one direction? */
DYN_HIDDEN int dyn_region_operand_number(double number);
DYN_HIDDEN int dyn_region_operand_int(int64_t number);
DYN_HIDDEN int dyn_region_operand_single(float number);
DYN_HIDDEN int dyn_region_operand_complex(double real, double imag);
DYN_HIDDEN int dyn_region_call_ufunc(char *loop, char *data, char *out);
/* The same with several axes: of each operand the strides of those around its last, from the innermost; how many elements those
 * have; the result is the last operand that is told. */
DYN_HIDDEN int dyn_region_operand_stride(int64_t stride);
DYN_HIDDEN int dyn_region_around(int64_t n);
DYN_HIDDEN int dyn_region_call_ufunc_to(char *loop, char *data);
/* form: of a matrix and a vector, the other way, of matrices, of vectors. */
enum { DYN_MAT_VEC, DYN_VEC_MAT, DYN_MAT_MAT, DYN_VEC_VEC };
DYN_HIDDEN int dyn_region_matmul(char *out, int64_t form, int64_t dtype);
/* numpy.linalg of doubles, whose results lie dense in `out`. */
enum { DYN_LINALG_SOLVE, DYN_LINALG_SOLVE_MANY, DYN_LINALG_INV, DYN_LINALG_CHOLESKY, DYN_LINALG_DET };
DYN_HIDDEN int dyn_region_linalg(char *out, int64_t which);
/* An array's last axis is sorted; places into `out`, which is of int64, by which a vector would be; 1: there was an error. */
DYN_HIDDEN int dyn_region_array_sort(PyObject *a);
DYN_HIDDEN int dyn_region_array_argsort(PyObject *out, PyObject *a);
DYN_HIDDEN int64_t dyn_region_array_search(int64_t right, double x); /* in the operand: np.searchsorted */
/* The ops whose imm is printed, and written in C. */
static inline bool dyn_region_has_imm(uint16_t op) {
    return op == DYN_RO_IFITS || op == DYN_RO_WRAP || op == DYN_RO_DPOWN || op == DYN_RO_SLICE || op == DYN_RO_SAVE ||
           op == DYN_RO_RESTORE || op == DYN_RO_APART || op == DYN_RO_LASK || op == DYN_RO_HEAPPUSH || op == DYN_RO_HEAPPOP ||
           op == DYN_RO_HEAPREPLACE || op == DYN_RO_HEAPPUSHPOP || op == DYN_RO_ARGI || op == DYN_RO_ARGD ||
           (op >= DYN_RO_ARGP && op <= DYN_RO_BOXEDC) || (op >= DYN_RO_ROUTINE && op <= DYN_RO_RESULTP) ||
           (op >= DYN_RO_NAMEFLOAT && op <= DYN_RO_NAMEOBJECT);
}
/* Where the block goes on: how many, at most two. */
static inline uint32_t dyn_region_ways(const DynRegionBlock *b, uint32_t to[2]) {
    const DynRegionInstr *end = b->v.n == 0 ? NULL : &b->v.at[b->v.n - 1];
    if (end == NULL || (end->op != DYN_RO_JMP && end->op != DYN_RO_BR)) {
        return 0;
    }
    to[0] = end->to[0];
    to[1] = end->to[1];
    return end->op == DYN_RO_BR ? 2 : 1;
}
/* Where the instruction goes on if it fails, in place of an exit; or DYN_NONE. */
static inline uint32_t dyn_region_else(const DynRegionInstr *in) {
    const DynRegionOpInfo *op = &dyn_region_ops[in->op];
    return op->fails && !op->flow && in->exit == DYN_NONE ? in->to[0] : DYN_NONE;
}
/* The ops whose imm is a signature of region_foreign.h. */
static inline bool dyn_region_is_foreign_call(uint16_t op) {
    return op == DYN_RO_CALLI || op == DYN_RO_CALLD || op == DYN_RO_CALLN;
}
DYN_HIDDEN void dyn_region_drop_made(DynRegionMade *made);
DYN_HIDDEN bool dyn_region_has_room(int64_t items);     /* for another object that the run has, with so many items */
DYN_HIDDEN PyObject *dyn_region_keep_made(PyObject *o); /* it is the run's, borrowed from here on; NULL: memory was out */
/* Slices of lists (region_lists.c); where: as SLICE has it. 1 or NULL: CPython has to do it. */
DYN_HIDDEN bool dyn_region_is_plain(PyObject *o);          /* dropping it runs no code: what lists of numbers hold */
DYN_HIDDEN PyObject *dyn_region_keep_list(PyObject *list); /* as dyn_region_keep_made, with what is in it */
DYN_HIDDEN PyObject *dyn_region_list_slice(PyObject *list, int64_t where, int64_t step); /* borrowed */
DYN_HIDDEN extern int64_t dyn_region_list_step; /* of the next one that is assigned or moved to */
DYN_HIDDEN int dyn_region_list_assign(PyObject *list, int64_t where, PyObject *from);
DYN_HIDDEN int dyn_region_list_from(PyObject *list, int64_t where, int64_t step); /* what is moved next */
DYN_HIDDEN int dyn_region_list_move(PyObject *list, int64_t where);
DYN_HIDDEN int dyn_region_drop_list(PyObject *list); /* one that the run made, and no value is any more */
/* Tuples that are looked up, and strings that are cut out and joined (region_keys.c); 1 or NULL: CPython has to do it. */
DYN_HIDDEN PyObject *dyn_region_blank_tuple(int64_t n); /* of so many times None, which are replaced before anybody sees it */
DYN_HIDDEN PyObject *dyn_region_key(int64_t n);         /* borrowed, until the next one */
DYN_HIDDEN int dyn_region_key_int(PyObject *tuple, int64_t i, int64_t x);
DYN_HIDDEN int dyn_region_key_float(PyObject *tuple, int64_t i, double x);
DYN_HIDDEN int dyn_region_key_bool(PyObject *tuple, int64_t i, int64_t x);
DYN_HIDDEN int dyn_region_key_object(PyObject *tuple, int64_t i, PyObject *o);
DYN_HIDDEN int dyn_region_same_tuple(PyObject *a, PyObject *b, int64_t *d);
DYN_HIDDEN PyObject *dyn_region_text_slice(PyObject *text, int64_t where); /* where: as SLICE has it */
DYN_HIDDEN PyObject *dyn_region_text_join(PyObject *a, PyObject *b);
/* An object that is taken out of another one lives on: this takes its reference over. Only where nobody sees that, which is asked
 * before. */
DYN_HIDDEN bool dyn_region_can_keep(PyObject *o);
DYN_HIDDEN bool dyn_region_is_quiet(PyObject *o);
DYN_HIDDEN void dyn_region_note_stored(PyObject *o); /* in an object that was there before; who stores it says so then */
DYN_HIDDEN void dyn_region_keep_object(PyObject *o);
/* Heaps and deques (region_queues.c); 1: CPython has to do it, and nothing has been changed. */
DYN_HIDDEN int dyn_region_heap_push(PyObject *list, PyObject *o, int64_t logs);
DYN_HIDDEN int dyn_region_heap_replace(PyObject *list, int64_t root, PyObject *o, int64_t logs);
DYN_HIDDEN int dyn_region_heap_pushpop(PyObject *list, int64_t root, PyObject *o, int64_t logs);
DYN_HIDDEN void dyn_region_heap_undo(PyObject *list, DynHeapChange change, Py_ssize_t at, PyObject *top);
DYN_HIDDEN PyObject *dyn_region_heap_least(PyObject *list, PyObject *o);
DYN_HIDDEN int dyn_region_heapify(PyObject *list);

/* ---- region_sorts.c */
DYN_HIDDEN int dyn_region_sort(PyObject *list, PyObject *keys, int64_t reverse); /* keys: of its items, or it itself */
DYN_HIDDEN int dyn_region_heap_pop(PyObject *list, int64_t root, int64_t logs);
DYN_HIDDEN int dyn_region_deque_append(PyObject *deque, PyObject *o);
DYN_HIDDEN int dyn_region_deque_appendleft(PyObject *deque, PyObject *o);
DYN_HIDDEN int dyn_region_deque_take(PyObject *deque, int64_t i);
DYN_HIDDEN const void *const *dyn_region_world(void); /* region_world.def as a table */
/* An iterator of a list, dict or set that others see: of one in a zip object it isn't said whether it has ended. */
DYN_HIDDEN bool dyn_region_is_shared_iterator(PyObject *o);
/* What the method of a class is bound to in o, borrowed: an instance of exactly that class. NULL: o is something else. */
DYN_HIDDEN PyObject *dyn_region_bound_to(PyObject *o, PyObject *method);
/* The loop of a ufunc for n doubles that gives a double. */
DYN_HIDDEN bool dyn_region_ufunc(PyObject *o, int n, void **loop, void **data);
/* The loop of a ufunc whose n operands are all of the dtype: its number, and the dtype of the result; -1: there is none. */
DYN_HIDDEN int dyn_region_ufunc_of(PyObject *o, int n, DynDtype dt, DynDtype *result);
DYN_HIDDEN int dyn_region_loop_of(const PyUFuncObject *f, int n, DynDtype dt); /* its number alone, of generalised ufuncs too */
DYN_HIDDEN bool dyn_region_ufunc_at(PyObject *o, int n, int number, void **loop, void **data);
DYN_HIDDEN extern const char *const dyn_region_math; /* region_math.def as text, with the types that it uses */
#endif
