/* graph_python.h: what graph_python.c and graph_python_calls.c share while they write a graph as a Python program, and nobody
 * else. */
#ifndef DYN_GRAPH_PYTHON_H
#define DYN_GRAPH_PYTHON_H
#include "ir/graph.h"

typedef struct DynPythonWriter {
    const DynGraph *g;
    DynStr *out;   /* The program. */
    DynStr *names; /* Names of the nodes, then of the symbols; empty where nobody needs one. */
} DynPythonWriter;

static inline DynStr *node_name(const DynPythonWriter *w, uint32_t id) { return &w->names[id]; }
static inline DynStr *sym_name(const DynPythonWriter *w, uint32_t id) { return &w->names[w->g->nodes.n + id]; }

DYN_HIDDEN void dyn_python_put_dtype(DynStr *out, uint8_t dtype);
DYN_HIDDEN const char *dyn_python_behind_item(int i, int n); /* What stands behind item i of a tuple of n. */
DYN_HIDDEN void dyn_python_put_comment(const DynPythonWriter *w, const DynNode *n); /* Ends the line. */
DYN_HIDDEN void dyn_python_put_random(const DynPythonWriter *w, const DynNode *n);  /* Random numbers of its shape. */
DYN_HIDDEN void dyn_python_put_extern(const DynPythonWriter *w, uint32_t id);

#endif
