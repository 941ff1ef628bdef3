/* story.c: what recompute.c and fuse.c did with each pair of kernels, and why, in a person's words: `fusion.txt` of the debug
 * folder and the log `fusion`.
 *
 * Called by these two where DynLoops.story isn't NULL, with the GIL. The text is compile.c's. A kernel is named by the nodes that
 * it writes, each with the source line that it comes from. */
#include "codegen/loops/loops.h"

#define MOST_NODES 6 /* of one kernel that are named; the others are counted */

static void put_node(const DynLoops *p, uint32_t id) {
    const DynNode *n = dyn_graph_node(p->graph, id);
    dyn_str_printf(p->story, "%%%u %s", id, dyn_graph_name_of(p->graph, n));
    if (n->where < p->graph->places.n && p->graph->places.at[n->where].code != NULL) {
        PyCodeObject *code = (PyCodeObject *)p->graph->places.at[n->where].code;
        const char *path = PyUnicode_AsUTF8(code->co_filename), *slash = path == NULL ? NULL : strrchr(path, '/');
        const char *file = slash == NULL ? path : slash + 1;
        dyn_str_printf(p->story, " (%s:%d)", file == NULL ? "?" : file, (int)p->graph->places.at[n->where].line);
        PyErr_Clear();
    }
}

static void put_kernel(const DynLoops *p, const DynKernel *k) {
    uint32_t seen[DYN_MAX_OPERANDS], nseen = 0;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        uint32_t id = dyn_loops_storage(p, k->operands.at[i].place);
        bool named = !k->operands.at[i].out || id >= p->nnodes;
        for (uint32_t j = 0; j < nseen && !named; j++) {
            named = seen[j] == id;
        }
        if (!named) {
            seen[nseen++] = id;
        }
    }
    for (uint32_t i = 0; i < nseen && i < MOST_NODES; i++) {
        dyn_str_puts(p->story, i > 0 ? ", " : "");
        put_node(p, seen[i]);
    }
    if (nseen > MOST_NODES) {
        dyn_str_printf(p->story, " and %u more", nseen - MOST_NODES);
    } else if (nseen == 0) {
        put_node(p, k->at);
    }
}

/* Does one of them hand elements on to the other, or do both read the same memory? */
static bool touch_the_same(const DynLoops *p, const DynKernel *a, const DynKernel *b) {
    bool touch = false;
    for (uint32_t i = 0; i < a->operands.n; i++) {
        touch = touch || dyn_kernel_touches(p, b, dyn_loops_storage(p, a->operands.at[i].place), false);
    }
    return touch;
}

static void put_readers(const DynLoops *p, uint32_t id) {
    uint32_t found = 0;
    for (uint32_t i = id + 1; i < p->nnodes; i++) {
        const DynNode *n = dyn_graph_node(p->graph, i);
        for (int k = 0; k < n->nargs; k++) {
            if (n->args[k].kind == DYN_ARG_NODE && n->args[k].id == id && found < MOST_NODES) {
                dyn_str_puts(p->story, found++ > 0 ? ", " : "");
                put_node(p, i);
                break;
            }
        }
    }
}

void dyn_loops_tell(DynLoops *p, DynStr *story) {
    p->story = story;
    dyn_str_puts(story, "# Pairs of nodes that touch the same memory, as they were looked at. One kernel: a value that the\n"
                        "# first writes stays in a register for the second.\n");
    for (uint32_t i = 0; i < p->nnodes; i++) {
        const DynNode *n = dyn_graph_node(p->graph, i);
        bool inlined = dyn_ops[n->op].kind == DYN_K_ELEMENTWISE && p->places[i].kind == DYN_P_NONE && !(n->flags & DYN_NODE_TWIN);
        if (inlined) {
            put_node(p, i);
            dyn_str_puts(story, "\n    with ");
            put_readers(p, i);
            dyn_str_puts(story, "\n    one kernel: it is computed where it is read, and has no memory\n");
        }
    }
}

void dyn_story_of_pair(const DynLoops *p, const DynKernel *a, const DynKernel *b, const char *apart) {
    if (p->story == NULL || (apart != NULL && !touch_the_same(p, a, b))) {
        return;
    }
    put_kernel(p, a);
    dyn_str_puts(p->story, "\n    with ");
    put_kernel(p, b);
    dyn_str_printf(p->story, "\n    %s%s\n", apart == NULL ? "one kernel" : "apart: ", apart == NULL ? "" : apart);
}

void dyn_story_of_call(const DynLoops *p, const DynKernel *k, uint32_t step) {
    const DynStep *s = &p->steps.at[step];
    if (p->story == NULL || s->kind == DYN_STEP_KERNEL || s->kind == DYN_STEP_VIEW) {
        return;
    }
    put_kernel(p, k);
    dyn_str_puts(p->story, "\n    with what stands before ");
    put_node(p, s->id);
    dyn_str_puts(p->story, "\n    apart: no kernel moves across a call, which sees the arrays that there are\n");
}

void dyn_story_of_window(const DynLoops *p, const DynKernel *maker) {
    if (p->story != NULL) {
        put_kernel(p, maker);
        dyn_str_puts(p->story, "\n    with all that read it\n    computed again in each window that is read\n");
    }
}
