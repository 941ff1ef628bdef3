/* artifact.c: the life of an artifact: what a graph became, waiting for its kernels or with them.
 *
 * evalframe/compile.c makes artifacts, run.c runs them, build.c publishes compiled kernels into them from its thread (atomically;
 * they are never taken back). An artifact borrows graph and loop IR from the capture that its entry owns; build.c's reference can
 * outlive the entry, so what its thread reads is the artifact's own. */
#include "codegen/run/run.h"
#include "codegen/run/times.h"
#include "codegen/target.h"

DynArtifact *dyn_artifact_new(const DynTarget *target, const DynLoops *p, DynStr *source, const DynGraph *g,
                              const DynConfig *config) {
    DynArtifact *a = PyMem_RawCalloc(1, sizeof(*a));
    if (!a) {
        return NULL;
    }
    a->refs = 1;
    a->target = target;
    a->loops = p;
    a->nnative = p->nnative;
    a->graph = g;
    a->config = *config;
    a->source = *source;
    *source = (DynStr){0};
    return a;
}

size_t dyn_artifact_bytes(const DynArtifact *a) {
    size_t bytes = sizeof(*a) + a->source.cap + a->first.cap;
    if (a->joined != NULL) {
        bytes += sizeof(*a->joined) + sizeof(a->joined->kernels[0]) * (size_t)a->nnative;
    }
    if (a->detail != NULL) {
        bytes += strlen(a->detail) + 1;
    }
    return bytes + (a->rest == NULL ? 0 : dyn_artifact_bytes(a->rest));
}

void dyn_artifact_replay(DynArtifact *a) { a->asks_replay = a->target->replay != NULL; }

void dyn_artifact_incref(DynArtifact *a) { a->refs++; }

void dyn_artifact_decref(DynArtifact *a) {
    if (--a->refs == 0) {
        if (a->loaded) {
            dyn_load_release(a->loaded);
        }
        if (a->tune) {
            dyn_tune_free(a->tune);
        }
        if (a->replays) {
            a->target->forget(a);
        }
        if (a->rest) {
            dyn_artifact_decref(a->rest);
        }
        if (a->sizes) {
            dyn_sizes_free(a->sizes, a->nnative);
        }
        dyn_times_free(a->times);
        dyn_str_free(&a->source);
        dyn_str_free(&a->first);
        dyn_str_free(&a->builds);
        PyMem_RawFree(a->builds_file);
        PyMem_RawFree(a->joined);
        PyMem_RawFree(a->detail);
        PyMem_RawFree(a);
    }
}

void dyn_artifact_source(const DynArtifact *a, DynStr *out) {
    DynReason why;
    DynStr error = {0};
    if (a->source.n > 0) {
        dyn_str_puts(out, a->source.at);
        return;
    }
    dyn_str_puts(out, a->line == NULL ? "" : a->line);
    out->failed |= a->target->emit(a->loops, out, &why, &error) < 0;
    dyn_str_free(&error);
}

void dyn_artifact_write(DynArtifact *a) {
    DynReason why = DYN_R_NO_MEMORY;
    DynStr error = {0};
    if (dyn_draft_is_due(a)) {
        return;
    }
    if (a->source.n == 0 && (a->target->emit(a->loops, &a->source, &why, &error) < 0 || a->source.failed)) {
        dyn_count_reason("graphs_failed", why);
        dyn_warn_once(why, "emit in %s: %s", a->graph->name, dyn_str_at(&error));
        dyn_str_free(&a->source);
        dyn_artifact_fail(a, why, dyn_str_at(&error));
    }
    dyn_str_free(&error);
    if (a->tune == NULL) {
        dyn_parts_split(a);
    }
}

/* Failures are swallowed: that is for people to read, and never in the way. */
static void write_builds(DynArtifact *a) {
    FILE *f = a->builds_file == NULL || a->builds.n == 0 ? NULL : fopen(a->builds_file, "a");
    if (f != NULL) {
        for (const char *line = dyn_str_at(&a->builds); *line != 0;) {
            size_t n = strcspn(line, "\n");
            fprintf(f, "%.*s, %s\n", (int)n, line, a->builds_of);
            line += n + (line[n] == '\n');
        }
        fclose(f);
        dyn_str_free(&a->builds);
    }
}

void dyn_artifact_note_build(DynArtifact *a, const char *line) {
    if (a->config.debug) {
        dyn_str_puts(&a->builds, line);
        write_builds(a);
    }
}

void dyn_artifact_tell_builds(DynArtifact *a, const char *path, const char *of) {
    size_t n = strlen(path) + 1;
    if (a->builds_file == NULL) {
        a->builds_of = of;
        a->builds_file = PyMem_RawMalloc(n);
        if (a->builds_file != NULL) {
            memcpy(a->builds_file, path, n);
        }
    }
    write_builds(a);
    if (a->rest != NULL) {
        dyn_artifact_tell_builds(a->rest, path, of);
    }
}

void dyn_artifact_build(DynArtifact *a, bool wait) { a->target->build(a, wait); }

void dyn_artifact_settle(DynArtifact *a) {
    dyn_str_free(&a->source);
    dyn_str_free(&a->first);
}

const char *dyn_artifact_text(const DynArtifact *a) { return dyn_str_at(a->first.n > 0 ? &a->first : &a->source); }
bool dyn_artifact_is_later(const DynArtifact *a) { return a->later; }
const struct DynToolchain *dyn_artifact_toolchain(const DynArtifact *a) { return a->target->toolchain; }
const DynConfig *dyn_artifact_config(const DynArtifact *a) { return &a->config; }
long dyn_artifact_kernel_count(const DynArtifact *a) { return a->nnative; }

DynTier dyn_artifact_tier(const DynArtifact *a) {
    bool native = a->nnative == 0 || atomic_load_explicit(&a->table, memory_order_acquire) != NULL;
    if (native) {
        return DYN_TIER_NATIVE;
    }
    return a->loops->builtin && dyn_builtin_ready() ? DYN_TIER_BUILTIN : DYN_TIER_EAGER;
}

DynReason dyn_artifact_failure(const DynArtifact *a, const char **detail) {
    DynReason why = (DynReason)atomic_load_explicit(&a->failure, memory_order_acquire);
    if (detail) {
        *detail = why == DYN_R_OK ? NULL : a->detail;
    }
    return why;
}

bool dyn_artifact_claim(DynArtifact *a) {
    int fresh = 0;
    return atomic_compare_exchange_strong(&a->state, &fresh, 1);
}

bool dyn_artifact_has_owner(const DynArtifact *a, int references) { return a->refs > references; }
int dyn_artifact_state(const DynArtifact *a) { return atomic_load(&a->state); }
void dyn_artifact_unclaim(DynArtifact *a) { atomic_store(&a->state, 0); }

void dyn_artifact_publish(DynArtifact *a, DynLoaded *loaded) {
    dyn_load_retain(loaded);
    a->loaded = loaded;
    atomic_store_explicit(&a->table, dyn_load_table(loaded), memory_order_release);
    atomic_store(&a->state, 2);
}

void dyn_artifact_fail(DynArtifact *a, DynReason why, const char *detail) {
    size_t n = detail ? strlen(detail) + 1 : 0;
    a->detail = n ? PyMem_RawMalloc(n) : NULL;
    if (a->detail) {
        memcpy(a->detail, detail, n);
    }
    atomic_store_explicit(&a->failure, (int)why, memory_order_release);
    atomic_store(&a->state, 2);
}
