/* asm_tables.c: the line table and the exception table of a code object under construction.
 *
 * Called by asm.c, which owns the DynAsm. Line table (since 3.11): entries for up to eight code units; the first byte has bit 7,
 * a form and the number of units, then come numbers of six bits a byte, lowest first, bit 6 says that more follow. */
#include "base/cpy_internal.h"
#include "tracer/bytecode/asm_internal.h"

enum { FORM_SAME = 10, FORM_LINE = 13, FORM_FULL = 14, FORM_NOTHING = 15, MOST_UNITS = 8 };

static void put_line_byte(DynAsm *a, unsigned byte) {
    if (dyn_vec_push(&a->lines, (uint8_t)byte) < 0) {
        a->failed = true;
    }
}

static void put_line_number(DynAsm *a, unsigned value) {
    for (; value >= 64; value >>= 6) {
        put_line_byte(a, 64 | (value & 63));
    }
    put_line_byte(a, value);
}

static void put_line_delta(DynAsm *a, int delta) {
    put_line_number(a, delta < 0 ? (unsigned)-delta << 1 | 1 : (unsigned)delta << 1);
}

static void put_entry(DynAsm *a, uint32_t units, const DynPosition *p) {
    bool columns = p->end_line >= p->line && p->col >= 0 && p->end_col >= 0;
    int form = p->line < 0 ? FORM_NOTHING : columns ? FORM_FULL : FORM_LINE;
    put_line_byte(a, 128u | (unsigned)form << 3 | (units - 1));
    if (form == FORM_NOTHING) {
        return;
    }
    put_line_delta(a, p->line - a->line);
    a->line = p->line;
    if (form == FORM_FULL) {
        put_line_number(a, (unsigned)(p->end_line - p->line));
        put_line_number(a, (unsigned)p->col + 1);
        put_line_number(a, (unsigned)p->end_col + 1);
    }
}

void dyn_asm_close_lines(DynAsm *a) {
    for (uint32_t left = dyn_asm_units(a) - a->located, n; left; left -= n) {
        n = left < MOST_UNITS ? left : MOST_UNITS;
        put_entry(a, n, &a->position);
    }
    a->located = dyn_asm_units(a);
}

void dyn_asm_locate(DynAsm *a, DynPosition p) {
    dyn_asm_close_lines(a);
    a->position = p;
}

/* What an entry adds to the line. */
static int entry_delta(const uint8_t *entry) {
    unsigned form = *entry >> 3 & 15, value = 0;
    if (form < FORM_LINE) {
        return form < FORM_SAME ? 0 : (int)(form - FORM_SAME);
    }
    if (form == FORM_NOTHING) {
        return 0;
    }
    for (int shift = 0, more = 64; more; shift += 6) {
        value |= (*++entry & 63u) << shift;
        more = *entry & 64;
    }
    return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

void dyn_asm_append_lines(DynAsm *a, PyCodeObject *c) {
    dyn_asm_close_lines(a);
    const uint8_t *bytes = (const uint8_t *)PyBytes_AS_STRING(c->co_linetable);
    for (Py_ssize_t i = 0; i < PyBytes_GET_SIZE(c->co_linetable); i++) {
        a->line += bytes[i] & 128 ? entry_delta(bytes + i) : 0;
        put_line_byte(a, bytes[i]);
    }
    a->located = dyn_asm_units(a) + (uint32_t)Py_SIZE(c);
}

/* Exception table: six bits a byte, highest first; bit 7 marks the first byte of a row. */
static void put_handler_number(DynAsm *a, uint32_t value, unsigned mark) {
    int shift = 0;
    while (value >> shift >= 64) {
        shift += 6;
    }
    for (; shift >= 0; shift -= 6, mark = 0) {
        if (dyn_vec_push(&a->handlers, (uint8_t)(mark | (shift ? 64u : 0) | (value >> shift & 63))) < 0) {
            a->failed = true;
        }
    }
}

void dyn_asm_add_handler(DynAsm *a, DynHandler h) {
    put_handler_number(a, h.start, 128);
    put_handler_number(a, h.end - h.start, 0);
    put_handler_number(a, h.target, 0);
    put_handler_number(a, h.depth << 1 | h.lasti, 0);
}

void dyn_asm_append_handlers(DynAsm *a, PyCodeObject *c, uint32_t shift) {
    DynHandler h;
    for (Py_ssize_t cursor = 0; dyn_cpy_next_handler(c, &cursor, &h);) {
        dyn_asm_add_handler(a, (DynHandler){h.start + shift, h.end + shift, h.target + shift, h.depth, h.lasti});
    }
}
