/* rec.h: the recorder's inside: shadow values and what its handler files share. record.c has the loop over instructions, rec_*.c
 * the handlers by family, rec_numpy*.c the NumPy rules. Only evalframe/hook.c calls in, through record.h.
 *
 * A shadow (DynVal) says what the compiled code will know of a Python value. Every real value in the frame has one beside it. */
#ifndef DYN_REC_H
#define DYN_REC_H
#include "ir/capture.h"

typedef enum DynValKind { /* what each is, and what its DynVal holds: shadow.def */
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) DV_##kind,
#include "tracer/record/shadow.def"
#undef SHADOW
                          DV_COUNT
} DynValKind;
typedef enum DynView { DYN_VIEW_KEYS, DYN_VIEW_VALUES, DYN_VIEW_ITEMS } DynView; /* what a view of a dict shows */
typedef struct DynContents {
    void *word[7];
} DynContents; /* the union in DynVal as a whole, for who copies or empties it */
typedef struct DynVal DynVal;
struct DynVal {
    uint8_t kind;           /* DynValKind. */
    bool looped;            /* A loop runs over this iterator over listed items. */
    bool hidden;            /* Nobody sees this iterator over listed items: any other over them will do. */
    bool fresh;             /* A container that was made while recording: the caller could not reach it before. */
    uint32_t source;        /* Where the object is found at call time, or DYN_NONE. */
    union {                 /* What it holds: a member for each kind or family of kinds. Zero where nothing was said. */
        uint32_t sym;       /* SYM: the symbol. */
        PyObject *constant; /* CONST: the object itself, kept alive. */
        uint32_t generator; /* GENERATOR: its row of DynRec.generators. */
        DynVal *bound_to;   /* SUPER: the object that it is bound to. */
        struct {            /* ARRAY, NPSCALAR, MADE. */
            uint32_t node;  /* The graph's node. */
            PyObject *real; /* ARRAY: the real array, where its identity or its rows are asked for; kept alive. Else NULL. */
        };
        struct { /* METHOD. */
            DynVal *function;
            DynVal *self;
        } method;
        struct {               /* FUNC. The parts are NULL where the function has none. */
            PyObject *code;    /* Kept alive. */
            PyObject *globals; /* Kept alive; NULL: the function can't be rebuilt. */
            DynVal *closure;
            DynVal *defaults;
            DynVal *kwdefaults;
            DynVal *annotations; /* A tuple. */
            DynVal *wrapped;     /* The function that it was made to look like. */
        } function;
        struct { /* SLICE, RANGE. */
            DynVal *start;
            DynVal *stop;
            DynVal *step;
        } slice;
        struct { /* COMPLEX: numbers. */
            DynVal *real;
            DynVal *imag;
        } parts;
        struct {            /* ATTR. */
            DynVal *of;     /* The object that has the attribute. */
            PyObject *name; /* The attribute's name, kept alive. */
        } attribute;
        struct { /* VIEW. */
            DynVal *dict;
            DynView shows;
        } view;
        struct { /* ROW. */
            DynVal *array;
            uint32_t at; /* Its place along the first axis. */
        } row;
        struct { /* VARS. */
            DynVal *instance;
            PyObject *object; /* The instance itself, kept alive. */
        } vars;
        struct {             /* CELL. */
            DynVal *content; /* NULL: it is empty. */
            uint32_t found;  /* The source of the cell itself, where it is a closure's and no value; or DYN_NONE. */
        } cell;
        struct {            /* Kinds that list items (rec_lists_items). */
            DynVal **items; /* In the recording's arena. */
            uint32_t n;     /* How many there are. */
            uint32_t cap;   /* How many there is room for. */
            union {
                struct {
                    PyObject *type; /* The class, where it isn't the kind's own; or NULL. Borrowed from what keeps it alive. */
                    union {
                        DynVal *maxlen;   /* DEQUE. */
                        DynVal *factory;  /* DICT: a defaultdict's, or NULL. */
                        DynVal *contents; /* OBJECT: the dict that the instance is (rec_vars.c), or NULL. */
                    };
                    PyObject *dict; /* DICT: the real one, where it is known by place; kept alive. */
                };
                struct {                  /* ITER, LAZY. */
                    uint32_t position;    /* How many items it gave. */
                    PyObject *maker;      /* ITER: zip, enumerate or reversed, called with `items`; or NULL. Borrowed for ever. */
                    DynVal *over;         /* ITER: what it runs over. */
                    struct RecLazy *lazy; /* LAZY: what it takes from, see rec_state.h. */
                } iter;
                struct {               /* PARTIAL. */
                    PyObject *type;    /* Its class, kept alive by the object. */
                    PyObject *kwnames; /* The names of the last items, a tuple that is kept alive; NULL: there are none. */
                    uint32_t npos;     /* How many items go by position. */
                } partial;
            };
        };
        DynContents whole;
    };
    uint32_t state;  /* Of a container: how often its size or order changed. Of an iterator: its containers', when it began. */
    uint32_t born;   /* Which shadow of the recording it is. */
    DynVal *twin;    /* The next shadow of the same object, in a ring, where it was met in several ways; or NULL. */
    bool module;     /* OBJECT: a torch.nn.Module. */
    bool touched;    /* The object outlives the call and was changed. */
    bool raised;     /* The exception was made and raised while recording: nothing raises it at later calls. */
    bool wanted;     /* RESULT: a recipe names it. */
    bool ending;     /* The running instruction came to the end of this iterator. */
    bool by_place;   /* DICT: its keys are known by their places alone, and are no constants (rec_walk.c). */
    uint32_t ends;   /* SOURCE: so many items of the list were looked for from its end (rec_methods.c). */
    uint32_t ahead;  /* How many items of this iterator the running instruction took (rec_take.c). */
    uint32_t recipe; /* The recipe that was made of it in the rebuild `stamp`. */
    uint32_t stamp;  /* The rebuild that `recipe` is of. */
};
_Static_assert(sizeof(DynVal) <= 104, "a recording makes many shadows");

/* What shadows stand for. A debug build checks that the kind is one that has it. */
#ifdef DYN_DEBUG
DYN_HIDDEN void rec_wrong_kind(const DynVal *v, const char *asked); /* ends the process */
static inline void rec_has(const DynVal *v, bool fits, const char *asked) {
    if (!fits) {
        rec_wrong_kind(v, asked);
    }
}
#else
static inline void rec_has(const DynVal *v, bool fits, const char *asked) { (void)v, (void)fits, (void)asked; }
#endif
static inline uint32_t rec_sym_of(const DynVal *v) {
    rec_has(v, v->kind == DV_SYM, "symbol");
    return v->sym;
}
static inline uint32_t rec_node_of(const DynVal *v) {
    rec_has(v, v->kind == DV_ARRAY || v->kind == DV_NPSCALAR || v->kind == DV_MADE, "node");
    return v->node;
}
static inline PyObject *rec_constant_of(const DynVal *v) {
    rec_has(v, v->kind == DV_CONST, "constant");
    return v->constant;
}
/* Its kind is one that has `items`. What isn't looked at yet may be a list that was appended to. */
static inline bool rec_lists_items(const DynVal *v) {
    static const bool lists[DV_COUNT] = {
        [DV_SOURCE] = true, [DV_OPAQUE] = true,  [DV_OBJECT] = true, [DV_TUPLE] = true, [DV_LIST] = true, [DV_DEQUE] = true,
        [DV_SET] = true,    [DV_MEMBERS] = true, [DV_DICT] = true,   [DV_ITER] = true,  [DV_LAZY] = true, [DV_PARTIAL] = true,
    };
    return lists[v->kind];
}
static inline PyObject *rec_constant_or_null(const DynVal *v) { return v->kind == DV_CONST ? v->constant : NULL; }

typedef struct DynOperand { /* a shadow and the real object it stands for */
    DynVal *v;              /* The shadow. */
    PyObject *real;         /* The real object, borrowed. */
} DynOperand;

typedef struct DynRec DynRec; /* one recording: private to record.c and rec_*.c, see rec_state.h */

/* ---- for handlers and NumPy rules. Functions that return DynVal * give NULL on failure, with *dyn_rec_why(r) set to the reason:
 * the instruction is then a break (the real operation was or will be run by the recorder all the same). */
DYN_HIDDEN DynReason *dyn_rec_why(DynRec *r);
DYN_HIDDEN DynCapture *dyn_rec_capture(DynRec *r);
static inline DynGraph *dyn_rec_graph(DynRec *r) { return &dyn_rec_capture(r)->graph; }
static inline DynSyms *dyn_rec_syms(DynRec *r) { return &dyn_rec_capture(r)->syms; }
DYN_HIDDEN bool dyn_rec_whole(DynRec *r);              /* DynRecording.whole */
DYN_HIDDEN bool dyn_rec_own_random(const DynRec *r);   /* DynRecording.own_random */
DYN_HIDDEN bool dyn_rec_own_products(const DynRec *r); /* may a product that autograd follows be made in a part? */
DYN_HIDDEN void dyn_rec_truncate(DynRec *r,
                                 uint32_t first); /* takes nodes back from `first` on, and what is known by their numbers */
DYN_HIDDEN uint32_t dyn_rec_place(DynRec *r);     /* DynGraph.places row of the instruction that is running */

DYN_HIDDEN DynVal *dyn_rec_const(DynRec *r, PyObject *obj); /* int, float and bool become constant symbols (DV_SYM) */
DYN_HIDDEN DynVal *dyn_rec_sym(DynRec *r, uint32_t sym);    /* NULL when sym is DYN_NONE */
DYN_HIDDEN DynVal *dyn_rec_array(DynRec *r, uint32_t node,
                                 PyObject *real); /* the shadow of an array that a node gives; remembers real's identity */
DYN_HIDDEN DynVal *dyn_rec_constant_array(DynRec *r, PyObject *array); /* an input that the entry itself owns */
DYN_HIDDEN DynVal *dyn_rec_npscalar(DynRec *r, uint32_t node, PyObject *real);
DYN_HIDDEN DynVal *dyn_rec_made(DynRec *r, uint32_t node);
DYN_HIDDEN DynVal *rec_new_fresh(DynRec *r, DynValKind kind); /* made while recording, its contents to be filled in */
DYN_HIDDEN DynVal *rec_new_attribute(DynRec *r, DynVal *of, PyObject *name);
DYN_HIDDEN DynVal *rec_new_method(DynRec *r, DynVal *function, DynVal *self); /* NULL where one of them is */
DYN_HIDDEN DynVal *dyn_rec_seq(DynRec *r, DynValKind kind, uint32_t n, DynVal **items, PyObject *real);
/* Look at a value: a DV_SOURCE gets its kind (INPUT node for an exact ndarray of a captured dtype, symbol for a number, items for
 * an exact tuple, list or dict, DV_CONST guarded by value for None, str, bytes, slices …) and the guards for that. In place: 0 or
 * -1. */
DYN_HIDDEN int dyn_rec_resolve(DynRec *r, DynVal *v, PyObject *real);
/* The symbol of a Python number (resolved; DV_CONST numbers too), or DYN_NONE when v is no number. */
DYN_HIDDEN uint32_t dyn_rec_number(DynRec *r, DynVal *v, PyObject *real);
/* The symbols of the parts of a Python complex number: a constant, or one that comes in. -1: v is none. */
DYN_HIDDEN int dyn_rec_complex(DynRec *r, DynVal *v, PyObject *real, uint32_t *parts);
/* Burn the value in: guards say that it is the same at every call. For axes, dtypes, flags, strings, tuples of these. -1 when it
 * is (or contains) an array or something opaque. */
DYN_HIDDEN int dyn_rec_burn(DynRec *r, DynVal *v, PyObject *real);
/* Guard that a bool symbol is what its hint says. assume: a branch of Python's; what is known only in the middle of the graph
 * can't decide it (-1). expect: what a node takes for granted; if it fails in the middle, the graph is left there. a == b for two
 * int symbols whose hints are equal (sizes that have to agree). */
DYN_HIDDEN int dyn_rec_assume(DynRec *r, uint32_t sym);
DYN_HIDDEN int dyn_rec_expect(DynRec *r, uint32_t sym);
DYN_HIDDEN int dyn_rec_assume_equal(DynRec *r, uint32_t a, uint32_t b);
/* An array is written: what came in is guarded to lie apart from (or to be) every other input. -1: overlap that can't be
 * expressed. */
DYN_HIDDEN int dyn_rec_will_write(DynRec *r, uint32_t node);
/* Its flags are asked for: of an array that comes in, guarded to be one that does not warn. -1: it does. */
DYN_HIDDEN int dyn_rec_reads_flags(DynRec *r, uint32_t node, PyObject *real);

/* ---- rec_torch_state.c */
/* May this tensor be captured where the running instruction stands: no mode is on, and gradients can be followed. */
DYN_HIDDEN bool rec_torch_allows(DynRec *r, PyObject *tensor);
/* Nodes up to here are made in torch's state as it is now. */
DYN_HIDDEN void rec_torch_noted(DynRec *r);
/* Does autograd follow the change in place that has been made to the tensor? */
DYN_HIDDEN bool rec_torch_follows(PyObject *tensor);
/* `call` has changed a tensor, which is `node`, in place: both require gradients as it does now. */
DYN_HIDDEN void rec_torch_changed(DynRec *r, uint32_t call, uint32_t node, PyObject *tensor);
/* `node`, which a rule has made, stands for `result`: whether nodes require gradients is noted. -1: not as the result does, or
 * its gradient wouldn't be PyTorch's. */
DYN_HIDDEN int rec_torch_grade(DynRec *r, uint32_t node, PyObject *result);
/* Why a tensor, which isn't captured, isn't one that is. */
DYN_HIDDEN DynReason rec_torch_why_none(PyObject *tensor);
/* rec_resolve.c: why an array or tensor isn't captured; OK: it is neither. */
DYN_HIDDEN DynReason dyn_rec_why_no_array(PyObject *o);
/* Does the array, which lies there (DynArrayView), lie where the graph's arrays do, and is it of their framework? The first one
 * says what that is. */
DYN_HIDDEN bool dyn_rec_lies_with(DynRec *r, PyObject *array, uint8_t device);
DYN_HIDDEN int rec_torch_begin(DynRec *r); /* torch's state (torch.h) when the segment began */
DYN_HIDDEN int rec_torch_guard(DynRec *r); /* it is that at every call */
/* A call of a C function that changes the process's state, made again behind the graph. 0, or -1: it can't be. */
DYN_HIDDEN int rec_global_effect(DynRec *r, PyObject *callable, uint32_t n, DynVal *const *args);

/* ---- rec_numpy: what NumPy callables, operators, methods and attributes mean. Each is called after the operation ran for real
 * on operands (resolved by the callee as needed) and gave `result` (borrowed); it adds nodes and gives the result's shadow. Where
 * the form isn't captured it gives NULL and a reason. Rules compare the shape, dtype and rank they predict with what eager gave,
 * and refuse when they differ. */
typedef struct DynBinding DynBinding;
DYN_HIDDEN int dyn_np_init(void);                             /* fills the tables from bind.def; -1 with an exception */
DYN_HIDDEN const DynBinding *dyn_np_find(PyObject *callable); /* np.sin, np.where, np.linalg.solve, np.float64 … or NULL */
DYN_HIDDEN bool dyn_np_has_rule(const DynBinding *b);         /* or is it only listed as a call without effects */
/* Is the function made of others that have derivatives, while a call of it as a whole has none? */
DYN_HIDDEN bool dyn_np_has_derivative_inside(const DynBinding *b);
DYN_HIDDEN bool dyn_np_is_pure(const DynBinding *b); /* no effect but the result (out= aside) */
/* rec_pure.c: a function that may be called any number of times: it has no effect but its result. scalars: its arguments will be
 * numbers, not arrays. Makes the guards for what its names stand for. */
DYN_HIDDEN bool rec_is_pure(DynRec *r, DynOperand func, bool scalars);
DYN_HIDDEN const DynBinding *dyn_np_find_method(PyObject *name); /* ndarray methods by name: "sum", "reshape" … or NULL */
DYN_HIDDEN DynVal *dyn_np_call(DynRec *r, const DynBinding *b, const DynOperand *args, int npos, PyObject *kwnames,
                               PyObject *result);
DYN_HIDDEN DynVal *dyn_np_binary(DynRec *r, int nb, bool inplace, DynOperand a, DynOperand b,
                                 PyObject *result);                                     /* nb: as BINARY_OP sub */
DYN_HIDDEN DynVal *dyn_np_unary(DynRec *r, int opcode, DynOperand a, PyObject *result); /* DYN_I_UNARY_* */
/* abs, divmod, pow and round(x, n) of arrays and NumPy scalars */
DYN_HIDDEN DynVal *dyn_np_builtin(DynRec *r, const char *name, const DynOperand *args, int n, PyObject *result);
DYN_HIDDEN DynVal *dyn_np_compare(DynRec *r, int cmp, DynOperand a, DynOperand b, PyObject *result); /* Py_LT … */
DYN_HIDDEN DynVal *dyn_np_attr(DynRec *r, DynOperand a, PyObject *name,
                               PyObject *result); /* shape ndim size T dtype real nbytes itemsize … */
DYN_HIDDEN DynVal *dyn_np_subscr(DynRec *r, DynOperand a, DynOperand index, PyObject *result);
/* rec_numpy_extern.c: the call as it was made, as an EXTERN node: the function has no effect but its result, which may be arrays,
 * NumPy scalars, Python numbers, and tuples and lists of these, none of which shares memory with an argument. */
/* dyn_np_extern_made: a result of another kind is an object that the call made (DV_MADE). */
DYN_HIDDEN DynVal *dyn_np_extern_made(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos,
                                      PyObject *kwnames, PyObject *result);
DYN_HIDDEN DynVal *dyn_np_extern(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos,
                                 PyObject *kwnames, PyObject *result);
/* A call of a function without effects through an object that has it (np.vectorize's), which is the first argument. */
DYN_HIDDEN DynVal *dyn_np_mapped_call(DynRec *r, PyObject *callable, const DynOperand *args, int npos, PyObject *kwnames,
                                      PyObject *result);
/* The same for a call that changes the memory of its first operand, an array, and returns None. */
DYN_HIDDEN DynVal *dyn_np_extern_write(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos,
                                       PyObject *kwnames, PyObject *result);
DYN_HIDDEN DynVal *dyn_np_flag_attr(DynRec *r, DynOperand flags, PyObject *name,
                                    PyObject *result);                                         /* x.flags.name, x.ctypes.name */
DYN_HIDDEN DynVal *dyn_np_address(DynRec *r, DynOperand of, PyObject *name, PyObject *result); /* x.ctypes.data: rec_foreign.c */
DYN_HIDDEN bool dyn_np_is_pointer_method(PyObject *method); /* Is it what x.ctypes.data_as calls? */
DYN_HIDDEN DynVal *dyn_np_contains(DynRec *r, DynOperand a, DynOperand item, PyObject *result); /* item in a: a bool */
/* x.flat[index] (and x.flags[index]), x.flat[index] = value, and x.flat, z.real, z.imag = value; after they ran. */
DYN_HIDDEN DynVal *dyn_np_flat_item(DynRec *r, DynOperand flat, DynOperand index, PyObject *result);
DYN_HIDDEN int dyn_np_flat_store(DynRec *r, DynOperand flat, DynOperand index, DynOperand value);
DYN_HIDDEN int dyn_np_store_attr(DynRec *r, DynOperand a, PyObject *name, DynOperand value);
DYN_HIDDEN int dyn_np_store_subscr(DynRec *r, DynOperand a, DynOperand index, DynOperand value); /* after a[index] = value ran */
#endif
