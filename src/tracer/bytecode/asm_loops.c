/* asm_loops.c: makes loop code (asm_loops.h): the function's instructions moved apart, so that there is room for a way in at each
 * header, and the way-in blocks behind them.
 *
 * Called by evalframe/loops_code.c. A DynLoopCode belongs to who asked for it. Moving instructions apart changes distances of
 * jumps, which may need more prefixes then; so the layout is repeated until nothing grows. */
#include "base/cpy_internal.h"
#include "base/cpy_over.h"
#include "tracer/bytecode/asm_loops.h"
#include "tracer/bytecode/asm_internal.h"
#include <opcode.h>

#define MOST_PLACES 20000 /* of all its headers together */
enum { PREFIXES = 2 };    /* of a jump between blocks and the rest, whose distance is set behind it */

/* One bytecode instruction of the original. */
typedef struct Item {
    uint32_t at, next; /* Its opcode's unit, and the one behind its caches. */
    uint32_t arg;
    uint32_t target; /* The item that it jumps to, or DYN_NONE. */
    uint32_t way;    /* A way in stands in front of it; or DYN_NONE. */
    uint32_t where;  /* The unit where it stands in loop code, prefixes included. */
    int line;
    int8_t jumps;    /* 1 ahead, -1 back, 0: it doesn't. */
    uint32_t called; /* It loads what this name stands for to call it; or DYN_NONE. */
    uint8_t op, prefixes;
} Item;
typedef struct Maker {
    const DynCode *c;
    DynAsm *a;
    DynLoopCode *out;
    DYN_VEC(Item)
    items;
    const DynCalledNames *called;
    uint32_t *item_at; /* for each old unit the item that starts there, or DYN_NONE */
    bool *far;         /* for each way: its block is farther than one unit can tell */
    uint32_t first_const;
    bool failed; /* something isn't as a compiler makes it, or too long */
    bool tells;  /* calls by a name need no question */
} Maker;

/* ---- where a loop can be left */

static int compare_places(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void add_place(DynLoopWay *w, bool *listed, const DynCode *c, const int32_t *depth, uint32_t i) {
    if (i < c->v.n && !listed[i] && depth[i] >= 0 && (c->v.at[i].flags & DYN_IF_FIRST)) {
        listed[i] = true;
        w->places[w->nplaces++] = c->v.at[i].start;
    }
}

/* Where the loop ends when nothing is out of the way: a for loop where its header says so, a while loop where its condition,
 * which jumps back to the header, does. */
static void add_end(DynLoopWay *w, bool *listed, const DynCode *c, const int32_t *depth, uint32_t header, const bool *members) {
    const DynInstr *in = &c->v.at[header];
    const bool function = header == c->head;
    for (uint32_t i = c->v.n; i-- > 0 && function && w->nplaces == 1;) { /* mostly by its last return */
        if (dyn_flow(&c->v.at[i]) == DYN_FLOW_RETURN) {
            add_place(w, listed, c, depth, i);
        }
    }
    if (dyn_flow(in) == DYN_FLOW_LOOP && !members[in->target]) {
        add_place(w, listed, c, depth, in->target);
    }
    for (uint32_t i = 0; i + 1 < c->v.n && w->nplaces == 1; i++) {
        bool condition = members[i] && dyn_is_branch(&c->v.at[i]) && c->v.at[i].target == header;
        if (condition && !members[i + 1]) {
            add_place(w, listed, c, depth, i + 1);
        }
    }
    w->has_end = w->nplaces == 2;
}

/* The way's places: what is in the loop, and what it goes to. */
static int find_places(const DynCode *c, const int32_t *depth, uint32_t header, const bool *members, DynLoopWay *w) {
    uint32_t n = c->v.n;
    bool *listed = PyMem_RawCalloc((size_t)n + 1, sizeof *listed);
    w->places = PyMem_RawMalloc((n + 1) * sizeof *w->places);
    if (listed == NULL || w->places == NULL) {
        PyMem_RawFree(listed);
        return -1;
    }
    add_place(w, listed, c, depth, header);
    add_end(w, listed, c, depth, header, members);
    uint32_t likely = w->nplaces;
    for (uint32_t i = 0; i < n; i++) {
        bool behind = i > 0 && members[i - 1] && dyn_falls_through(&c->v.at[i - 1]);
        if (members[i] || behind) {
            add_place(w, listed, c, depth, i);
        }
        if (members[i] && dyn_has_target(&c->v.at[i])) {
            add_place(w, listed, c, depth, c->v.at[i].target);
        }
    }
    qsort(w->places + likely, w->nplaces - likely, sizeof *w->places, compare_places);
    PyMem_RawFree(listed);
    return w->nplaces > 1 ? 0 : -1;
}

static int make_way(const DynCode *c, const int32_t *depth, const uint32_t *headers, uint32_t n, uint32_t i, DynLoopWay *w) {
    bool *members = dyn_loop_members(c, headers[i]);
    int done = members == NULL ? -1 : find_places(c, depth, c->at_unit[headers[i]], members, w);
    for (uint32_t k = 0; k < n && k < 64 && done == 0; k++) {
        bool inside = k != i && headers[k] < c->nunits && c->at_unit[headers[k]] != DYN_NONE && members[c->at_unit[headers[k]]];
        w->inner |= (uint64_t)inside << k;
    }
    PyMem_RawFree(members);
    return done;
}

/* ---- the original's instructions, apart */

static int if_false(uint32_t *caches) {
    *caches = DYN_PY >= 313;
#if DYN_PY == 311
    return POP_JUMP_FORWARD_IF_FALSE;
#else
    return POP_JUMP_IF_FALSE;
#endif
}

static uint8_t prefixes_of(uint32_t arg) { return (uint8_t)((arg > 0xff) + (arg > 0xffff) + (arg > 0xffffff)); }

/* What a call loads, by which of the names? before: the opcode in front of it. */
static uint32_t called_name(const Maker *m, const Item *it, uint8_t before) {
    enum { CALLED = 1, MAY = DYN_PY <= 314 }; /* from 3.15 on the stack borrows constants, and these may die */
    const uint8_t *code = (const uint8_t *)PyBytes_AS_STRING(m->c->bytes);
    uint8_t beside = dyn_call_null_first() ? before : it->next < m->c->nunits ? code[2 * it->next] : 0;
    bool global = it->op == LOAD_GLOBAL && (it->arg & CALLED) != 0, free = it->op == LOAD_DEREF && beside == PUSH_NULL;
    PyObject *name = !MAY     ? NULL
                     : global ? PyTuple_GET_ITEM(m->c->code->co_names, it->arg >> 1)
                     : free   ? dyn_code_local_name(m->c->code, (int)it->arg)
                              : NULL;
    uint32_t k = 0;
    while (k < m->called->n && (m->called->at[k] != name || m->called->free[k] != free)) {
        k++;
    }
    return k < m->called->n ? k : DYN_NONE;
}

static int read_items(Maker *m) {
    const uint8_t *code = (const uint8_t *)PyBytes_AS_STRING(m->c->bytes);
    uint32_t extended = 0, start = DYN_NONE;
    for (uint32_t at = 0, next; at < m->c->nunits; at = next) {
        start = start == DYN_NONE ? at : start;
        uint32_t arg = extended << 8 | code[2 * at + 1];
        for (next = at + 1; next < m->c->nunits && code[2 * next] == CACHE;) {
            next++;
        }
        if (code[2 * at] == EXTENDED_ARG) {
            extended = arg;
            continue;
        }
        Item it = {.at = at, .next = next, .arg = arg, .target = DYN_NONE, .way = DYN_NONE, .op = code[2 * at]};
        it.jumps = (int8_t)dyn_jump_way(it.op);
        it.prefixes = prefixes_of(arg);
        it.called = called_name(m, &it, m->items.n > 0 ? m->items.at[m->items.n - 1].op : 0);
        m->out->nsites += it.called != DYN_NONE;
        m->item_at[start] = m->items.n;
        if (dyn_vec_push(&m->items, it) < 0) {
            return -1;
        }
        extended = 0;
        start = DYN_NONE;
    }
    return start == DYN_NONE ? 0 : -1;
}

static uint32_t item_of(Maker *m, uint32_t unit) {
    uint32_t i = unit < m->c->nunits ? m->item_at[unit] : DYN_NONE;
    m->failed |= i == DYN_NONE;
    return i;
}

static void aim_jumps(Maker *m) {
    for (uint32_t i = 0; i < m->items.n && !m->failed; i++) {
        Item *it = &m->items.at[i];
        if (it->jumps != 0) {
            it->target = item_of(m, it->jumps > 0 ? it->next + it->arg : it->next - it->arg);
        }
    }
}

static uint32_t way_units(const Maker *m, const Item *it) { return it->way == DYN_NONE ? 0 : 1 + m->far[it->way]; }

static uint32_t own_units(const Item *it) { return it->prefixes + (it->next - it->at); }

/* The constants that what a name stands for is compared with, and replaced by. */
enum { COMPARED_WITH, REPLACED_BY };
static uint32_t call_const(const Maker *m, uint32_t name, uint32_t which) {
    return m->first_const + m->out->nways + name * DYN_CALL_CONSTS + which;
}

static uint32_t const_units(uint32_t index) { return prefixes_of(index) + 1; }

/* The first unit of what loads the constant leads to it itself, unless CPython makes something else of it (3.14), or it is only a
 * prefix. */
static bool leads_itself(const Maker *m, uint32_t name) {
    return DYN_PY <= 313 && const_units(call_const(m, name, REPLACED_BY)) == 1;
}

static bool is_free(const Maker *m, const Item *it) { return m->called->free[it->called]; }

static bool leads_to_constant(const Maker *m, const Item *it) { return m->tells && !is_free(m, it); }

/* What emit_constant or emit_question writes beside the instruction. */
static uint32_t call_units(const Maker *m, const Item *it) {
    enum { WAY = 1, PUSHED_NULL = 1, PASSED = 1, COMPARED = 1, BRANCHED = 1 };
    const uint32_t pushed_null = is_free(m, it) ? 0 : PUSHED_NULL;
    const uint32_t callable = pushed_null + const_units(call_const(m, it->called, REPLACED_BY)) + PASSED;
    if (leads_to_constant(m, it)) {
        return (leads_itself(m, it->called) ? 0 : WAY) + callable;
    }
    uint32_t caches;
    if_false(&caches);
    return own_units(it) + const_units(call_const(m, it->called, COMPARED_WITH)) + COMPARED + BRANCHED + caches + callable;
}

static uint32_t item_units(const Maker *m, const Item *it) {
    return own_units(it) + (it->called != DYN_NONE ? call_units(m, it) : 0);
}

/* Where jumps to the item come in: at its way. */
static uint32_t entry_of(const Maker *m, const Item *it) { return it->where - way_units(m, it); }

static bool lay_out_once(Maker *m) {
    uint32_t where = 0;
    bool grew = false;
    for (uint32_t i = 0; i < m->items.n; i++) {
        Item *it = &m->items.at[i];
        it->where = where + way_units(m, it);
        where = it->where + item_units(m, it);
    }
    for (uint32_t i = 0; i < m->items.n; i++) {
        Item *it = &m->items.at[i];
        if (it->jumps != 0) {
            uint32_t from = it->where + item_units(m, it), to = entry_of(m, &m->items.at[it->target]);
            it->arg = it->jumps > 0 ? to - from : from - to;
            uint8_t prefixes = prefixes_of(it->arg);
            grew |= prefixes > it->prefixes;
            it->prefixes = prefixes > it->prefixes ? prefixes : it->prefixes;
        }
    }
    return grew;
}

static void put_prefixed(DynAsm *a, int op, uint32_t arg, uint32_t prefixes) {
    for (uint32_t i = prefixes; i > 0; i--) {
        dyn_asm_put(a, EXTENDED_ARG, arg >> 8 * i & 255);
    }
    dyn_asm_put(a, op, arg & 255);
}

static DynPosition next_position(const Maker *m, DynPositionCursor *cursor, uint32_t at) {
    DynPosition p;
    dyn_cpy_position_on(m->c->code, cursor, at, &p.line, &p.end_line, &p.col, &p.end_col);
    return p;
}

static void emit_load(Maker *m, const Item *it, uint32_t arg) {
    put_prefixed(m->a, it->op, arg, it->prefixes);
    for (uint32_t k = it->at + 1; k < it->next; k++) {
        dyn_asm_put(m->a, CACHE, 0);
    }
}

/* The question whether the value is what calls are replaced of; then the constant, or the value once more. */
static void emit_question(Maker *m, const Item *it, uint32_t *nth) {
    const uint32_t constant = call_const(m, it->called, REPLACED_BY), pushed = !is_free(m, it);
    uint32_t caches;
    int op = if_false(&caches);
    m->out->sites[(*nth)++] = (DynCallSite){DYN_NONE, it->called};
    emit_load(m, it, pushed ? it->arg & ~1u : it->arg);
    dyn_asm_emit(m->a, LOAD_CONST, call_const(m, it->called, COMPARED_WITH));
    dyn_asm_emit(m->a, IS_OP, 0);
    dyn_asm_emit_cached(m->a, op, pushed + const_units(constant) + 1, (int)caches);
    if (pushed) {
        dyn_asm_emit_callable(m->a, constant);
    } else { /* beside it the NULL is an instruction of its own */
        dyn_asm_emit(m->a, LOAD_CONST, constant);
    }
    dyn_asm_put(m->a, JUMP_FORWARD, own_units(it));
    emit_load(m, it, it->arg);
}

/* The constant, or past it the global. What leads there has no line, so that tools for lines don't change it. */
static void emit_constant(Maker *m, const Item *it, DynPosition p, uint32_t *nth) {
    const uint32_t constant = call_const(m, it->called, REPLACED_BY);
    m->out->sites[(*nth)++] = (DynCallSite){dyn_asm_units(m->a), it->called};
    dyn_asm_locate(m->a, (DynPosition){-1, -1, -1, -1});
    dyn_asm_put(m->a, m->out->past[it->called][0], m->out->past[it->called][1]);
    dyn_asm_locate(m->a, p);
    if (!leads_itself(m, it->called)) {
        dyn_asm_emit_callable(m->a, constant);
    } else if (dyn_call_null_first()) { /* what leads there is the first one of two */
        dyn_asm_emit(m->a, LOAD_CONST, constant);
    } else {
        dyn_asm_emit(m->a, PUSH_NULL, 0);
    }
    dyn_asm_put(m->a, JUMP_FORWARD, own_units(it));
    emit_load(m, it, it->arg);
}

static void emit_items(Maker *m) {
    DynPositionCursor cursor = {0};
    uint32_t nth = 0;
    for (uint32_t i = 0; i < m->items.n; i++) {
        Item *it = &m->items.at[i];
        DynPosition p = next_position(m, &cursor, it->at);
        dyn_asm_locate(m->a, p);
        it->line = p.line;
        if (it->way != DYN_NONE) {
            DynLoopWay *w = &m->out->ways[it->way];
            w->at = dyn_asm_units(m->a);
            w->closed[0] = m->far[it->way] ? JUMP_FORWARD : NOP;
            w->closed[1] = m->far[it->way];
            dyn_asm_put(m->a, w->closed[0], w->closed[1]);
            if (m->far[it->way]) {
                dyn_asm_put(m->a, JUMP_FORWARD, 0);
            }
        }
        if (it->called != DYN_NONE && leads_to_constant(m, it)) {
            emit_constant(m, it, p, &nth);
        } else if (it->called != DYN_NONE) {
            emit_question(m, it, &nth);
        } else {
            emit_load(m, it, it->arg);
        }
    }
}

static void emit_handlers(Maker *m) {
    DynHandler h;
    for (Py_ssize_t cursor = 0; dyn_cpy_next_handler(m->c->code, &cursor, &h) && !m->failed;) {
        uint32_t start = item_of(m, h.start), target = item_of(m, h.target);
        uint32_t end = h.end < m->c->nunits ? item_of(m, h.end) : m->items.n - 1;
        if (m->failed) {
            return;
        }
        const Item *last = &m->items.at[end];
        uint32_t until = h.end < m->c->nunits ? entry_of(m, last) : last->where + item_units(m, last);
        uint32_t to = entry_of(m, &m->items.at[target]);
        dyn_asm_add_handler(m->a, (DynHandler){entry_of(m, &m->items.at[start]), until, to, h.depth, h.lasti});
    }
}

/* ---- way-in blocks */

static void ask(Maker *m, uint32_t way, int op) {
    dyn_asm_emit(m->a, LOAD_CONST, m->first_const + way);
    dyn_asm_emit(m->a, op, 0);
}

/* The line of an instruction of the original. */
static DynPosition line_of(const Maker *m, uint32_t old) { return (DynPosition){m->items.at[m->item_at[old]].line, -1, -1, -1}; }

/* Asks a question; gives the unit of the jump that land() aims, for where the answer is no. */
static uint32_t branch(Maker *m, uint32_t way) {
    uint32_t caches;
    dyn_asm_locate(m->a, line_of(m, m->out->ways[way].header));
    int op = if_false(&caches);
    ask(m, way, UNARY_INVERT);
    uint32_t at = dyn_asm_units(m->a);
    put_prefixed(m->a, op, 0, PREFIXES);
    while (caches--) {
        dyn_asm_put(m->a, CACHE, 0);
    }
    return at;
}

static void set_arg(Maker *m, uint32_t at, uint32_t arg) {
    for (uint32_t i = 0; i <= PREFIXES && !m->a->failed; i++) {
        m->a->code.at[2 * (at + i) + 1] = (uint8_t)(arg >> 8 * (PREFIXES - i));
    }
}

static void land(Maker *m, uint32_t jump) {
    uint32_t caches;
    if_false(&caches);
    set_arg(m, jump, dyn_asm_units(m->a) - (jump + PREFIXES + 1 + caches));
}

/* A leaf has the line of its place: CPython 3.12 takes what is jumped to from another line for the beginning of a line. */
static void emit_leaf(Maker *m, uint32_t way, uint32_t place) {
    const DynLoopWay *w = &m->out->ways[way];
    dyn_asm_locate(m->a, line_of(m, w->places[place]));
    uint32_t depth = (uint32_t)m->out->depth[w->places[place]], below = w->depth < depth ? w->depth : depth;
    for (uint32_t i = below; i < w->depth; i++) {
        dyn_asm_emit(m->a, POP_TOP, 0);
    }
    for (uint32_t i = below; i < depth; i++) {
        dyn_asm_emit(m->a, PUSH_NULL, 0);
    }
    if (depth > below) {
        ask(m, way, UNARY_NEGATIVE);
        dyn_asm_emit(m->a, POP_TOP, 0);
    }
    uint32_t at = dyn_asm_units(m->a), to = m->out->moved[w->places[place]];
    put_prefixed(m->a, JUMP_BACKWARD_NO_INTERRUPT, at + PREFIXES + 1 - to, PREFIXES);
}

/* The places from `from` to `to`, asked for as dyn_loops_answer answers. */
static void emit_tree(Maker *m, uint32_t way, uint32_t from, uint32_t to) {
    if (to - from == 1) {
        emit_leaf(m, way, from);
        return;
    }
    uint32_t middle = from + (to - from) / 2, jump = branch(m, way);
    emit_tree(m, way, from, middle);
    land(m, jump);
    emit_tree(m, way, middle, to);
}

/* As many units as ask(), branch() and emit_leaf() write. */
static uint32_t ask_units(const Maker *m, uint32_t way) { return prefixes_of(m->first_const + way) + 2; }

static uint32_t branch_units(const Maker *m, uint32_t way) {
    uint32_t caches;
    if_false(&caches);
    return ask_units(m, way) + PREFIXES + 1 + caches;
}

static uint32_t leaf_units(const Maker *m, uint32_t way, uint32_t place) {
    const DynLoopWay *w = &m->out->ways[way];
    uint32_t depth = (uint32_t)m->out->depth[w->places[place]];
    uint32_t moves = depth > w->depth ? depth - w->depth : w->depth - depth;
    return moves + (depth > w->depth ? ask_units(m, way) + 1 : 0) + PREFIXES + 1;
}

static uint32_t block_units(const Maker *m, uint32_t way) {
    const DynLoopWay *w = &m->out->ways[way];
    uint32_t likely = 1 + w->has_end, nbranches = w->nplaces > likely ? w->nplaces - 1 : likely;
    uint32_t units = nbranches * branch_units(m, way) + (w->nplaces > likely ? 0 : leaf_units(m, way, 0));
    for (uint32_t i = 0; i < w->nplaces; i++) {
        units += leaf_units(m, way, i);
    }
    return units;
}

static void emit_block(Maker *m, uint32_t way) {
    DynLoopWay *w = &m->out->ways[way];
    uint32_t block = dyn_asm_units(m->a), likely = 1 + w->has_end;
    for (uint32_t i = 0; i < likely; i++) {
        uint32_t jump = branch(m, way);
        emit_leaf(m, way, i);
        land(m, jump);
    }
    if (w->nplaces > likely) {
        emit_tree(m, way, likely, w->nplaces);
    } else {
        emit_leaf(m, way, 0); /* not come to */
    }
    assert(m->a->failed || dyn_asm_units(m->a) - block == block_units(m, way));
    uint32_t jump = w->at + m->far[way], distance = block - (jump + 1);
    if (m->far[way]) {
        w->open[0] = EXTENDED_ARG;
        w->open[1] = (uint8_t)(distance >> 8);
        m->failed |= distance > 0xffff;
        m->a->code.at[2 * jump + 1] = (uint8_t)distance;
    } else {
        w->open[0] = JUMP_FORWARD;
        w->open[1] = (uint8_t)distance;
        m->failed |= distance > 0xff;
    }
}

/* A frame goes over to loop code at the way in itself, or by a call (cpy_over.h) that leads there. */
static void emit_over(Maker *m, uint32_t way) {
    DynLoopWay *w = &m->out->ways[way];
    w->over = w->at;
    if (dyn_cpy_over_by_call()) {
        w->over = dyn_asm_units(m->a);
        dyn_asm_locate(m->a, line_of(m, w->header));
        dyn_asm_emit_call(m->a, 0);
        dyn_asm_emit(m->a, POP_TOP, 0);
        uint32_t at = dyn_asm_units(m->a);
        put_prefixed(m->a, JUMP_BACKWARD_NO_INTERRUPT, at + PREFIXES + 1 - w->at, PREFIXES);
    }
}

/* What loop code needs for its ways in: a value more than the function, or those of the call by which it is gone over to. */
static int stack_size(const Maker *m) {
    int size = m->c->code->co_stacksize + 1;
    for (uint32_t i = 0; i < m->out->nways && dyn_cpy_over_by_call(); i++) {
        int by_call = (int)m->out->ways[i].depth + 2;
        size = by_call > size ? by_call : size;
    }
    return size;
}

/* ---- all of it */

static void lay_out(Maker *m) {
    while (lay_out_once(m)) {
    }
    for (uint32_t unit = 0; unit < m->c->nunits; unit++) {
        uint32_t i = m->item_at[unit];
        m->out->moved[unit] = i == DYN_NONE ? DYN_NONE : m->items.at[i].where;
    }
}

static void emit(Maker *m) {
    lay_out(m);
    dyn_asm_start(m->a, m->c);
    emit_items(m);
    emit_handlers(m);
    for (uint32_t i = 0; i < m->out->nways && !m->failed && !m->a->failed; i++) {
        emit_block(m, i);
    }
    for (uint32_t i = 0; i < m->out->nways && !m->failed && !m->a->failed; i++) {
        emit_over(m, i);
    }
}

/* A block whose way in is near takes one unit less in front of its header. How far they are is known beforehand, as blocks are
 * of one size wherever they are: all ways are taken for far ones, and by those that aren't nothing gets farther. */
static void find_far(Maker *m) {
    memset(m->far, 1, m->out->nways);
    while (lay_out_once(m)) {
    }
    const Item *last = &m->items.at[m->items.n - 1];
    uint32_t block = last->where + item_units(m, last);
    for (uint32_t i = 0; i < m->out->nways; i++) {
        const DynLoopWay *w = &m->out->ways[i];
        const Item *header = &m->items.at[m->item_at[w->header]];
        m->far[i] = block - entry_of(m, header) > 0xff;
        block += block_units(m, i);
    }
}

/* What stands at the units that lead to constants, and room to say which they are. */
static int prepare_sites(Maker *m) {
    DynLoopCode *out = m->out;
    for (uint32_t name = 0; name < m->called->n; name++) {
        const uint32_t constant = call_const(m, name, REPLACED_BY);
        const uint8_t first = dyn_call_null_first() ? PUSH_NULL : LOAD_CONST;
        bool leads = leads_itself(m, name);
        out->past[name][0] = JUMP_FORWARD;
        out->past[name][1] = (uint8_t)(const_units(constant) + 1 + !leads);
        out->into[name][0] = leads ? first : NOP;
        out->into[name][1] = leads && first == LOAD_CONST ? (uint8_t)constant : 0;
    }
    out->sites = PyMem_RawMalloc((out->nsites + 1) * sizeof *out->sites);
    return out->sites == NULL ? -1 : 0;
}

static int prepare(Maker *m, const uint32_t *headers) {
    DynLoopCode *out = m->out;
    int32_t *depth = dyn_decode_depths(m->c);
    uint32_t total = 0;
    int done = depth == NULL || read_items(m) < 0 ? -1 : 0;
    done = done == 0 ? prepare_sites(m) : done;
    aim_jumps(m);
    for (uint32_t unit = 0; unit < m->c->nunits && done == 0; unit++) {
        uint32_t i = m->c->at_unit[unit];
        out->depth[unit] = i == DYN_NONE ? -1 : depth[i];
    }
    for (uint32_t i = 0; i < out->nways && done == 0 && !m->failed; i++) {
        DynLoopWay *w = &out->ways[i];
        uint32_t item = item_of(m, headers[i]), index = headers[i] < m->c->nunits ? m->c->at_unit[headers[i]] : DYN_NONE;
        if (item == DYN_NONE || index == DYN_NONE || depth[index] < 0 || make_way(m->c, depth, headers, out->nways, i, w) < 0) {
            done = -1;
            break;
        }
        m->items.at[item].way = i;
        w->header = headers[i];
        w->depth = (uint32_t)depth[index];
        total += w->nplaces;
    }
    PyMem_RawFree(depth);
    return done < 0 || m->failed || total > MOST_PLACES ? -1 : 0;
}

static DynLoopCode *new_result(const DynCode *c, uint32_t n) {
    DynLoopCode *l = PyMem_RawCalloc(1, sizeof *l);
    if (l == NULL) {
        return NULL;
    }
    l->nways = n;
    l->nunits = c->nunits;
    l->ways = PyMem_RawCalloc(n + 1, sizeof *l->ways);
    l->depth = PyMem_RawMalloc((c->nunits + 1) * sizeof *l->depth);
    l->moved = PyMem_RawMalloc((c->nunits + 1) * sizeof *l->moved);
    if (l->ways == NULL || l->depth == NULL || l->moved == NULL) {
        dyn_asm_loops_free(l);
        return NULL;
    }
    return l;
}

/* The original's, the ways in, and those for calls. The collector isn't to see what these borrow. */
static PyObject *consts_of(const Maker *m, PyObject *const *ways, uint32_t n) {
    const uint32_t all = n + m->called->n * DYN_CALL_CONSTS;
    PyObject *more[all + 1];
    for (uint32_t i = 0; i < all; i++) {
        more[i] = i < n ? ways[i] : Py_None;
    }
    PyObject *consts = dyn_asm_consts_with(m->c->code, (int)all, more);
    for (uint32_t i = 0; i < m->out->ninner && consts != NULL; i++) {
        const DynInnerCode *inner = &m->out->inner[i];
        PyObject *before = PyTuple_GET_ITEM(consts, inner->at);
        PyTuple_SET_ITEM(consts, inner->at, Py_NewRef(inner->made->code));
        Py_DECREF(before);
    }
    if (consts != NULL) {
        PyObject_GC_UnTrack(consts);
    }
    return consts;
}

static DynLoopCode *make_code(Maker *m, const uint32_t *headers, PyObject *const *ways, uint32_t n);

/* The code of a generator expression, a lambda or a function in the function, which calls one of the names: NULL if it doesn't,
 * or there can be none. */
static DynLoopCode *make_inner(const Maker *m, PyCodeObject *code) {
    bool calls = false;
    for (uint32_t name = 0; name < m->called->n && !calls; name++) {
        calls = m->called->free[name] ? dyn_code_has_free(code, m->called->at[name])
                                      : dyn_code_calls_global(code, m->called->at[name]);
    }
    DynCode *c = calls ? dyn_decode(code) : NULL;
    Maker inner = {.c = c, .called = m->called};
    DynLoopCode *made = c == NULL ? NULL : make_code(&inner, NULL, NULL, 0);
    dyn_decode_free(c);
    PyErr_Clear();
    return made;
}

static void make_all_inner(Maker *m) {
    PyObject *consts = m->c->code->co_consts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(consts) && m->out->ninner < DYN_MOST_INNER; i++) {
        PyObject *code = PyTuple_GET_ITEM(consts, i);
        DynLoopCode *made = PyCode_Check(code) ? make_inner(m, (PyCodeObject *)code) : NULL;
        if (made != NULL) {
            m->out->inner[m->out->ninner++] = (DynInnerCode){made, i};
            m->out->calls |= made->calls;
        }
    }
}

static DynLoopCode *make_code(Maker *m, const uint32_t *headers, PyObject *const *ways, uint32_t n) {
    const DynCode *c = m->c;
    DynAsm a = {0};
    DynLoopCode *result = c->nunits > DYN_LOOP_UNITS ? NULL : new_result(c, n);
    m->a = &a;
    m->out = result;
    m->tells = dyn_dict_tells();
    m->first_const = (uint32_t)PyTuple_GET_SIZE(c->code->co_consts);
    m->item_at = result == NULL ? NULL : PyMem_RawMalloc((c->nunits + 1) * sizeof *m->item_at);
    m->far = m->item_at == NULL ? NULL : PyMem_RawCalloc((size_t)n + 1, sizeof *m->far);
    for (uint32_t i = 0; m->item_at != NULL && i < c->nunits; i++) {
        m->item_at[i] = DYN_NONE;
    }
    PyObject *consts = NULL;
    if (m->far != NULL && prepare(m, headers) == 0) {
        find_far(m);
        emit(m);
        result->calls = result->nsites > 0;
        result->ncalled = m->called->n;
        make_all_inner(m);
        consts = m->failed ? NULL : consts_of(m, ways, n);
    }
    if (consts != NULL) {
        DynSlots s = dyn_asm_same_slots(c->code);
        result->code = dyn_asm_new_code(&a, c->code, &s, consts, c->code->co_flags, stack_size(m));
        Py_DECREF(consts);
    }
    dyn_asm_finish(&a);
    dyn_vec_free(&m->items);
    PyMem_RawFree(m->item_at);
    PyMem_RawFree(m->far);
    if (result != NULL && result->code == NULL) {
        dyn_asm_loops_free(result);
        result = NULL;
    }
    return result;
}

DynLoopCode *dyn_asm_loops(const DynCode *c, const uint32_t *headers, PyObject *const *ways, uint32_t n,
                           const DynCalledNames *called) {
    Maker m = {.c = c, .called = called};
    return c->generator ? NULL : make_code(&m, headers, ways, n);
}

void dyn_asm_loops_free(DynLoopCode *l) {
    for (uint32_t i = 0; l->ways != NULL && i < l->nways; i++) {
        PyMem_RawFree(l->ways[i].places);
    }
    for (uint32_t i = 0; i < l->ninner; i++) {
        dyn_asm_loops_free(l->inner[i].made);
    }
    Py_XDECREF(l->code);
    PyMem_RawFree(l->ways);
    PyMem_RawFree(l->sites);
    PyMem_RawFree(l->depth);
    PyMem_RawFree(l->moved);
    PyMem_RawFree(l);
}
