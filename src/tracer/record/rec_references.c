/* rec_references.c: calls that see how many references an object has, or that it is gone: sys.getrefcount, ndarray.resize,
 * gc.collect, calls of weak references. The recorder's own references would be seen, and those of a resume function's caller; so
 * such a call is never made here: recording ends before it, everything that was kept is dropped, and the rest of the function is
 * CPython's, on the compiled path in a rebuilt frame.
 *
 * Called by rec_call.c before it makes a call, and by record.c where a frame is handed back. */
#include "tracer/record/rec_callables.h"
#include "tracer/record/rec_segment.h"

static bool is_kept(const DynRec *r, PyObject *o) {
    for (uint32_t i = 0; i < r->keep.n; i++) {
        if (r->keep.at[i] == o) {
            return true;
        }
    }
    return false;
}

bool rec_sees_references(const DynRec *r, PyObject *callable) {
    if (PyWeakref_CheckRef(callable)) {
        return is_kept(r, ((PyWeakReference *)callable)->wr_object);
    }
    return rec_has_flag(callable, REC_SEES_REFERENCES);
}

/* The segment ends before the outermost function's call that led here: what happened in the call is taken back. */
void rec_leave_outermost(DynRec *r) {
    RecFrame *inner = NULL, *f = r->top;
    for (; f != r->base; f = f->outer) {
        if (f->generator != NULL ||
            r->req->fullgraph) { /* its caller isn't a frame that stands at a call; an error comes anyway */
            return;
        }
        inner = f;
    }
    if (r->cap == NULL || inner == NULL) {
        return;
    }
    const DynInstr *in = &f->code->v.at[f->pc];
    DynReason why = r->why;
    rec_rollback(r, &f->instr);
    if (r->spoiled || rec_changed_since(r, &inner->began)) {
        rec_stop(r, f, in, DYN_R_NOT_REBUILDABLE);
    } else {
        rec_leave(r, f, in);
    }
    r->why = why;
}

void rec_let_go(DynRec *r) {
    PyObject *type, *value, *tb; /* what dies here may run destructors */
    PyErr_Fetch(&type, &value, &tb);
    rec_forget(r);
    PyErr_Restore(type, value, tb);
}
