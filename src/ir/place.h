/* place.h: a place in the source, as logs and dynoc.Unsupported show it. */
#ifndef DYN_PLACE_H
#define DYN_PLACE_H
#include "ir/graph.h"

/* `file.py:12: in f`, then the source line and a caret under the columns, each on a line of its own (no newline at the end). The
 * source line comes from linecache; where there is none, only the first line. Needs the GIL; keeps the current exception. */
DYN_HIDDEN void dyn_report_place(DynStr *out, const DynPlace *place);
/* The reason's code and sentence (with a detail, unless that is NULL), the place (unless it is NULL, or has no code), and what
 * can be done; no newline at the end. */
DYN_HIDDEN void dyn_report_reason(DynStr *out, DynReason why, const char *detail, const DynPlace *place);
/* As dyn_report_reason, of what happened in a call within a call: the reason stands at inner[0], and the calls that lead there
 * follow, from the inside to the outside. n 0: it happened at `outer` itself. */
DYN_HIDDEN void dyn_report_way(DynStr *out, DynReason why, const char *detail, const DynPlace *inner, uint32_t n,
                               const DynPlace *outer);
#endif
