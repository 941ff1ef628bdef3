/* progress.c: a line on the terminal while a call waits for the compiler, so that a long warm-up doesn't look like a program that
 * hangs. Called by build.c with the GIL, some times a second. Only where stderr is a terminal, and only behind the first second.
 */
#include "codegen/build/build.h"
#include "base/log.h"
#include <stdio.h>
#include <unistd.h>

#define QUIET_NS 1000000000 /* what nobody minds to wait for */

static void put(const char *text) {
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written; /* a terminal that is gone shows nothing */
}

void dyn_progress_show(DynProgress *p, int jobs) {
    int64_t now = dyn_now_ns();
    if (p->since == 0) {
        p->since = now;
        p->terminal = isatty(STDERR_FILENO) == 1;
    }
    int64_t seconds = (now - p->since) / 1000000000;
    if (!p->terminal || now - p->since < QUIET_NS || (p->shown && seconds == p->seconds)) {
        return;
    }
    char line[100];
    snprintf(line, sizeof(line), "\rdynoc: waiting for the C compiler, %d to go, %d s (Ctrl-C ends the wait) ", jobs,
             (int)seconds);
    put(line);
    p->seconds = seconds;
    p->shown = true;
}

void dyn_progress_end(DynProgress *p) {
    if (p->shown) {
        put("\r\033[K");
        p->shown = false;
    }
}
