/* rec_segment.h: how a segment begins, breaks, is left and returns; used by record.c and rec_commit. */
#ifndef DYN_REC_SEGMENT_H
#define DYN_REC_SEGMENT_H
#include "tracer/rec_state.h"

DYN_HIDDEN int rec_begin(DynRec *r, RecFrame *top); /* the first segment: shadows of the arguments */
DYN_HIDDEN void rec_forget(DynRec *r);              /* drop what this segment knew of real objects */
/* The instruction ran and its result is unknown: close the segment before it and open the next behind it. 0, or -1 when recording
 * ends here (an exception may be set: dynoc.Unsupported under fullgraph). */
DYN_HIDDEN int rec_break(DynRec *r, RecFrame *f, const DynInstr *in);
DYN_HIDDEN void rec_leave(DynRec *r, RecFrame *f, const DynInstr *in);  /* the segment ends before `in`, CPython does the rest */
DYN_HIDDEN void rec_return(DynRec *r, RecFrame *f, const DynInstr *in); /* the segment ends with the function */
/* An inlined frame ends the recording: why, for the log and for fullgraph. */
DYN_HIDDEN void rec_note_callee(DynRec *r, RecFrame *f, const DynInstr *in);
DYN_HIDDEN void rec_stop(DynRec *r, RecFrame *f, const DynInstr *in, DynReason why); /* nothing is kept of this segment */
DYN_HIDDEN void rec_deliver(DynRec *r);                                              /* finished segments go to their owner */
/* Nodes that can leave got a snapshot of the frames as they are before the running instruction. -1: it can't be rebuilt, the new
 * nodes are gone. */
DYN_HIDDEN int rec_snapshot_new_nodes(DynRec *r);
#endif
