/* record.h: the door of the recorder. Called by evalframe/hook.c alone. */
#ifndef DYN_RECORD_H
#define DYN_RECORD_H
#include "base/log.h"
#include "tracer/bytecode/asm.h"
#include "ir/capture.h"

#define DYN_UNROLLED_TRIPS 16 /* of a loop whose trips are recorded one behind the other */

/* What a recording asks of the caller and hands to it. The callbacks run in the middle of the recorded call, with the GIL; they
 * must not run Python code of the user, and leave no exception set. */
typedef struct DynRecording DynRecording;
struct DynRecording {
    void *owner;
    bool fullgraph;    /* a break raises dynoc.Unsupported in place of going on */
    DynConfig config;  /* as it holds for the function */
    bool dynamic;      /* sizes and numbers are symbols */
    bool own_random;   /* random numbers of PyTorch's are made by kernels */
    bool own_products; /* small products that autograd follows may have other last bits than eager's */
    bool whole;        /* the graph is handed on: calls stay the calls that they are, where they make new arrays */
    bool need_arrays;  /* no entry for a segment without array work */
    bool apart;        /* a call that breaks is left to entries of its own function's, which can be given up alone */
    bool loud;         /* blocks of np.errstate are entered for real, so that there can be breaks in them. The recorder sets
                        * it when it met such a break */
    bool raises;       /* exceptions are raised for real, a graph break each, so that they can be had in except blocks: as loud */
    bool sure;       /* the truth of data that sizes alone decide is burnt in with them: a guess was wrong (DynCapture.guesses) */
    bool names_vary; /* an entry was missed by a dict's keys or by a string: they aren't burnt in where that can be helped */
    PyCodeObject *resumes; /* borrowed: the function to record is one of resume code for this code; NULL: it isn't */
    uint32_t moved;        /* … by so many code units */
    /* The resume code (asm.h) for a break in func's `code`, the same object for the same shape. New reference or NULL (no
     * exception). */
    PyObject *(*resume_code)(DynRecording *, const DynCode *code, const DynFrameShape *shape, PyObject *func);
    /* Would an entry of this resume code serve a call with these arguments? */
    bool (*serves)(DynRecording *, PyObject *resume, PyObject *const *args);
    /* The rest of the call is to be done by a resume function: its door (new reference; NULL, no exception: there is none any
     * more), and the rest itself, in place of frame f, that was left and is empty. Takes door and args over. return_at:
     * dyn_decode_return of its code. */
    PyObject *(*door_of)(DynRecording *, PyObject *resume);
    PyObject *(*go_on)(DynRecording *, PyThreadState *ts, DynFrame *f, uint32_t return_at, PyObject *door, PyObject *args);
    /* What an entry of the segment would save a call, in ns; NULL: whatever has array work is kept. */
    double (*gain)(const DynCapture *capture);
    /* A segment is finished. Takes the capture over. */
    void (*captured)(DynRecording *, DynCapture *capture);
    /* Nothing was kept of a segment or of the call. cause: where there was no array work, what ended the segment; else `why`. */
    void (*refused)(DynRecording *, PyObject *code, DynReason why, DynReason cause, const DynPlace *place);
    /* Nothing more will be recorded of the call, whose rest may be the whole program. */
    void (*ended)(DynRecording *);
    bool worked;      /* set by the recorder: there was array work, whatever became of it */
    uint64_t ninstrs; /* set by the recorder: instructions that it executed */
    /* The frame stands at the header of a loop (a code unit of `code`), with these slots and stack values, behind so
     * many nodes. true: recording is
     * over, and CPython goes on at unit *at of *loop_code (new reference), to which the frame may be changed. */
    bool (*takes_loop)(DynRecording *, const DynCode *code, DynFrame *f, uint32_t header, PyObject *const *slots, uint32_t nstack,
                       uint32_t nnodes, PyObject **loop_code, uint32_t *at);
    /* Makes the values (new references) of the nodes that are needed and have none, in their order, from those that have. 0, or
     * -1 with an exception. The symbols are what they were when they were recorded. */
    int (*evaluate)(DynRecording *, const DynGraph *g, const bool *needed, PyObject **values);
    DynReason (*may_inline)(DynRecording *, PyObject *func); /* DYN_R_OK, or why a Python function is not recorded into */
    /* A call of func ended a segment; `of` is what is called, or the object whose method it is. What later calls make in its
     * place: a function that takes `of` and the call's arguments. Borrowed; NULL: the call itself. */
    PyObject *(*stand_in)(DynRecording *, PyObject *func, PyObject *of);
};
/* Run the frame to its end, recording. Returns what default evaluation would (NULL with the program's exception set). The frame
 * is consumed as the hook's protocol asks, on every path. */
DYN_HIDDEN PyObject *dyn_record(PyThreadState *ts, DynFrame *f, DynRecording *recording);
/* Is this thread recording an inlined call whose callee is `f`? Then the hook calls this in place of evaluating f. */
DYN_HIDDEN bool dyn_record_wants(PyThreadState *ts, DynFrame *f);
DYN_HIDDEN bool dyn_record_expects(PyObject *func); /* does the recorder call this function, to get its frame? */
DYN_HIDDEN PyObject *dyn_record_inlined(PyThreadState *ts, DynFrame *f);
DYN_HIDDEN bool dyn_record_active(void);          /* dynoc.is_tracing() */
DYN_HIDDEN int rec_triton_init(PyObject *module); /* adds what tests call; -1 with an exception */
DYN_HIDDEN int dyn_record_init(void);
/* Nothing is recorded before: what the imports of dyn_record_init run, or other threads meanwhile, is CPython's. */
DYN_HIDDEN bool dyn_record_is_started(void);
extern DYN_HIDDEN PyObject *dyn_unsupported_error; /* dynoc.Unsupported, set by the module */
/* dynoc.allow_in_graph: calls of it are one node; dynoc.disallow_in_graph: breaks. -1 with an exception. */
typedef enum DynMark { DYN_MARK_NONE, DYN_MARK_ALLOW, DYN_MARK_DISALLOW } DynMark;
DYN_HIDDEN int dyn_record_mark(PyObject *callable, DynMark mark);
/* dynoc.skip, dynoc.graph_break and so on: callables the recorder knows by identity. */
typedef enum DynSpecial { DYN_SPECIAL_GRAPH_BREAK, DYN_SPECIAL_IS_TRACING, DYN_SPECIAL_COUNT } DynSpecial;
extern DYN_HIDDEN PyObject *dyn_special[DYN_SPECIAL_COUNT];
#endif
