/* follow_notes.c: the debug folder of a graph that autograd follows: its parts, and those that compute gradients, are compiled on
 * their own, some of them long after the folder was written. `timing.txt` and `fusion.txt` get their lines as they come.
 *
 * Called by follow_part.c for what it compiles, and by debug.c when the folder is there, with the GIL. The parts' share owns what
 * waits for the folder. Failures to write are swallowed: that is for people to read, and never in the way. */
#include "evalframe/follow_part.h"
#include "base/log.h"
#include <stdio.h>

void dyn_follow_name(const DynPart *p, Unit *u) {
    const char *what = u == &p->saving ? "forward, for gradients" : "values alone";
    if (p->order > 0) {
        what = p->order == 1 ? "backward" : "gradients of backward";
    }
    snprintf(u->name, sizeof u->name, "part %u: %s", p->number, what);
}

static void append(const char *folder, const char *name, DynStr *text) {
    DynStr path = {0};
    dyn_str_printf(&path, "%s/%s", folder, name);
    FILE *f = path.failed || text->n == 0 ? NULL : fopen(dyn_str_at(&path), "a");
    if (f != NULL) {
        fputs(dyn_str_at(text), f);
        fclose(f);
    }
    dyn_str_free(&path);
    dyn_str_free(text);
}

/* What waits is written, and builds of the unit write their lines themselves from now on. */
static void write_notes(DynPartShare *s, const Unit *u) {
    DynStr path = {0};
    append(s->folder, "timing.txt", &s->timing);
    append(s->folder, "fusion.txt", &s->story);
    dyn_str_printf(&path, "%s/timing.txt", s->folder);
    if (u->artifact != NULL && !path.failed) {
        dyn_artifact_tell_builds(u->artifact, dyn_str_at(&path), u->name);
    }
    dyn_str_free(&path);
}

void dyn_follow_note(const DynPart *p, Unit *u, int64_t ns) {
    DynPartShare *s = p->share;
    if (!s->config.debug) {
        return;
    }
    const char *ended = u->artifact != NULL ? "" : ", no code";
    dyn_str_printf(&s->timing, "stages    %9.1f us, %u nodes, %s%s\n", (double)ns * 1e-3, u->graph.nodes.n, u->name, ended);
    if (s->folder != NULL) {
        write_notes(s, u);
    }
}

void dyn_follow_note_in(const DynFollow *f, const char *folder) {
    size_t n = strlen(folder) + 1;
    for (uint32_t i = 0; i < f->steps.n; i++) {
        DynPart *p = f->steps.at[i].part;
        if (p == NULL) {
            continue;
        }
        DynPartShare *s = p->share;
        if (s->folder == NULL && (s->folder = PyMem_RawMalloc(n)) != NULL) {
            memcpy(s->folder, folder, n);
        }
        if (s->folder != NULL) {
            write_notes(s, &p->plain);
            write_notes(s, &p->saving);
        }
        if (s->folder != NULL && p->expected != NULL) {
            write_notes(s, &p->expected->plain);
        }
    }
}
