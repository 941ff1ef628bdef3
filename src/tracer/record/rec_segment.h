/* rec_segment.h: how a segment begins, breaks, is left and returns; used by record.c and rec_commit. rec_segment.c and
 * rec_break.c. */
#ifndef DYN_REC_SEGMENT_H
#define DYN_REC_SEGMENT_H
#include "tracer/record/rec_state.h"

DYN_HIDDEN int rec_begin(DynRec *r, RecFrame *top); /* the first segment: shadows of the arguments */
DYN_HIDDEN void rec_forget(DynRec *r);              /* drop what this segment knew of real objects */
/* The instruction ran and its result is unknown: close the segment before it and open the next behind it. 0, or -1 when recording
 * ends here (an exception may be set: dynoc.Unsupported under fullgraph). */
DYN_HIDDEN int rec_break(DynRec *r, RecFrame *f, const DynInstr *in);
/* The exception that is set was raised for real, and follows from nothing that is known. */
typedef enum RecRaised {
    REC_RAISED_NOT,   /* Nothing was done. */
    REC_RAISED_ON,    /* A segment ended there, and the next begins in the frame's handler, at f->pc. */
    REC_RAISED_ROUND, /* The frame stands at its handler, f->next, and nothing more is recorded of it. */
    REC_RAISED_OUT    /* A segment ended there; one of the frames that called has the handler. */
} RecRaised;
DYN_HIDDEN RecRaised rec_break_raised(DynRec *r, RecFrame *f, const DynInstr *in);
/* The frame goes back to CPython: if its segment is closed and it is an inlined call, its caller's next one may begin. */
DYN_HIDDEN void rec_leave_base(DynRec *r, RecFrame *f);
DYN_HIDDEN void rec_leave(DynRec *r, RecFrame *f, const DynInstr *in);  /* the segment ends before `in`, CPython does the rest */
DYN_HIDDEN void rec_return(DynRec *r, RecFrame *f, const DynInstr *in); /* the segment ends with the function */
/* The recorder doesn't execute the instruction, in front of which the segment ends. Adds the ways on behind it to the capture, so
 * that recording can go on there. Returns false if there are none. */
DYN_HIDDEN bool rec_goes_on_behind(DynRec *r, RecFrame *f, const DynInstr *in);
DYN_HIDDEN bool rec_has_loop_behind(const RecFrame *f);
/* Writes down why and where an inlined frame ended the recording: for the log, and for the error under fullgraph. */
DYN_HIDDEN void rec_forget_callee(DynRec *r); /* what is known of a callee that bailed out */
DYN_HIDDEN void rec_note_callee(DynRec *r, RecFrame *f, const DynInstr *in);
DYN_HIDDEN void rec_stop(DynRec *r, RecFrame *f, const DynInstr *in, DynReason why); /* nothing is kept of this segment */
DYN_HIDDEN void rec_deliver(DynRec *r);                                              /* finished segments go to their owner */
/* Gives new nodes that can leave a snapshot: the state of the frames in front of the running instruction. 0, or -1: that can't be
 * rebuilt, and the new nodes were taken back. */
DYN_HIDDEN int rec_snapshot_new_nodes(DynRec *r);

/* ---- for rec_break.c */
/* What an outer frame's running call is made with at later calls, in place of the operands that lie on the frame's stack. */
typedef struct RecInner {
    uint32_t from;     /* Where on the stack the operands begin. */
    uint32_t *recipes; /* A recipe for each operand. */
} RecInner;
/* The state of the frame as recipes. as_argument: the cells of free variables are in it too; elsewhere the function's own closure
 * gives them. */
DYN_HIDDEN int rec_frame_state(DynRec *r, RecFrame *f, uint32_t at, bool as_argument, const RecInner *inner, DynFrameState *out);
DYN_HIDDEN void rec_begin_recipes(DynRec *r, bool nodes);
DYN_HIDDEN bool rec_has_work(const DynCapture *c);
DYN_HIDDEN void rec_finish_segment(DynRec *r, DynEnd end, DynReason why, RecFrame *f, const DynInstr *in);
DYN_HIDDEN void rec_unsupported(DynRec *r, RecFrame *f, const DynInstr *in); /* sets dynoc.Unsupported */
DYN_HIDDEN int rec_new_capture(DynRec *r, RecFrame *f, PyObject *code);
DYN_HIDDEN int rec_open_resumed(DynRec *r, RecFrame *f, PyObject *resume);
#endif
