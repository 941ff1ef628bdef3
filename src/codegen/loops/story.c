/* story.c: what recompute.c and fuse.c did with each pair of kernels, which kernels schedule.c has run together, and why, in a
 * person's words: `fusion.txt` of the debug folder and the log `fusion`.
 *
 * Called by these three where DynLoops.story isn't NULL, with the GIL. The text is compile.c's. A kernel is named by the nodes
 * that it writes, each with the source line that it comes from. */
#include "codegen/loops/loops.h"

#define MOST_NODES 6 /* of one kernel that are named; the others are counted */

static void put_node(const DynLoops *p, uint32_t id) {
    const DynNode *n = dyn_graph_node(p->graph, id);
    dyn_str_printf(p->story, "%%%u %s", id, dyn_graph_name_of(p->graph, n));
    const char *file = dyn_graph_file_of(p->graph, n);
    if (file != NULL) {
        dyn_str_printf(p->story, " (%s:%d)", file, (int)n->line);
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

/* ---- which kernels run together */

static void put_step(const DynLoops *p, uint32_t step) {
    const DynStep *s = &p->steps.at[step];
    if (s->kind == DYN_STEP_KERNEL) {
        put_kernel(p, &p->kernels.at[s->id]);
    } else {
        put_node(p, s->id);
    }
}

static void put_neighbour(const DynLoops *p, const char *where, uint32_t step, const char *why) {
    if (step >= p->steps.n || p->steps.at[step].kind == DYN_STEP_VIEW) {
        return;
    }
    dyn_str_printf(p->story, "    not with what comes %s, ", where);
    put_step(p, step);
    dyn_str_printf(p->story, ": %s\n", why);
}

void dyn_story_of_rows(const DynLoops *p, uint32_t first, uint32_t last, const char *before, const char *behind) {
    if (p->story == NULL) {
        return;
    }
    put_step(p, first);
    for (uint32_t s = first + 1; s <= last; s++) {
        dyn_str_puts(p->story, "\n    with ");
        put_step(p, s);
    }
    if (behind == NULL) {
        dyn_str_printf(p->story, "\n    a reduction that runs by itself: %s\n", before);
        return;
    }
    bool alone = first == last;
    dyn_str_puts(p->story,
                 alone ? "\n    a reduction that runs by itself\n" : "\n    row by row together: a row stays in the cache\n");
    if (first > 0) {
        put_neighbour(p, "before", first - 1, before);
    }
    put_neighbour(p, "behind", last + 1, behind);
}

void dyn_story_of_steps(const DynLoops *p) {
    if (p->story == NULL || p->steps.n == 0) {
        return;
    }
    dyn_str_puts(p->story,
                 "# What a call does, in order. What has one letter and number goes over memory together: g row by row in\n"
                 "# one function (on a device: one launch), c block of rows by block of rows with a product of matrices,\n"
                 "# p two reductions of the same elements at one time.\n");
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const DynStep *step = &p->steps.at[s];
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        if (step->kind == DYN_STEP_VIEW) {
            continue;
        }
        dyn_str_printf(p->story, "%u", s);
        if (k != NULL && k->group != DYN_NONE) {
            dyn_str_printf(p->story, " g%u", k->group);
        }
        if (step->chain != 0) {
            dyn_str_printf(p->story, " c%u", step->chain - 1);
        }
        if (step->pair != 0) {
            dyn_str_printf(p->story, " p%u", step->pair - 1);
        }
        dyn_str_puts(p->story, k != NULL ? " kernel " : " ");
        put_step(p, s);
        dyn_str_putc(p->story, '\n');
    }
}
