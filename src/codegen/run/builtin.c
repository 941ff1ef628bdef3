/* builtin.c: runs kernels without native code of their own: instruction by instruction, over blocks of lanes that stay in the
 * first-level cache, by rows that were compiled with the package (builtin_rows.c).
 *
 * dyn_builtin_plan is a pass behind plan.c: it gives each kernel its steps, in program order, and blocks for values, of which
 * those whose values are used up are used again. Contract: a step reads operands, blocks filled before the loop and blocks that
 * an earlier step wrote; no step writes a block that it reads, since elements may differ in size. exec.c runs kernels by
 * dyn_builtin_lanes and dyn_builtin_columns as it would by compiled functions: same lanes, same padding, so the same bits. Plans
 * live in the capture's arena; the loaded object for ever. */
#define _GNU_SOURCE 1
#include "codegen/run/builtin.h"
#include "base/log.h"
#include "codegen/run/isa.h"
#include "codegen/native.h"
#include "codegen/run/exec.h"
#include <dlfcn.h>

#define LANES 64 /* a block has so many, or a multiple of it */
#define NONE (-1)

/* ---- the compiled rows */

static const DynNativeTable *load(DynStr *why) {
    Dl_info self;
    DynStr path = {0};
    if (dladdr((void *)&dyn_builtin_ready, &self) == 0 || self.dli_fname == NULL) {
        dyn_str_puts(why, "the extension's own path is not known");
        return NULL;
    }
    const char *slash = strrchr(self.dli_fname, '/');
    int folder = slash == NULL ? 0 : (int)(slash + 1 - self.dli_fname);
    dyn_str_printf(&path, "%.*s_builtin-%s.so", folder, self.dli_fname, dyn_isa_get()->name);
    dyn_load_lock(true);
    void *handle = path.failed ? NULL : dlopen(path.at, RTLD_NOW | RTLD_LOCAL);
    const DynNativeTable *table = handle == NULL ? NULL : dlsym(handle, DYN_NATIVE_SYMBOL);
    const char *error = table == NULL ? dlerror() : NULL;
    dyn_load_lock(false);
    if (table == NULL) {
        dyn_str_printf(why, "%s", error == NULL ? "no memory" : error);
    } else if (table->abi != DYN_NATIVE_ABI || table->count != dyn_builtin_count()) {
        dyn_str_printf(why, "%s is of another version of dynoc", path.at);
        table = NULL; /* what was loaded stays */
    }
    dyn_str_free(&path);
    return table;
}

static _Atomic(const DynNativeTable *) loaded;
bool dyn_builtin_off;

/* With the GIL. */
bool dyn_builtin_ready(void) {
    static bool tried;
    if (!tried) {
        DynStr why = {0};
        tried = true;
        const DynNativeTable *table = load(&why);
        atomic_store_explicit(&loaded, table, memory_order_release);
        if (table == NULL) {
            dyn_count("tier", "no builtin");
            dyn_log(DYN_LOG_perf, "no built-in tier: %s", dyn_str_at(&why));
        }
        dyn_str_free(&why);
    }
    return !dyn_builtin_off && atomic_load_explicit(&loaded, memory_order_relaxed) != NULL;
}

/* ---- the plan */

typedef struct Planner {
    const DynKernel *k;
    DynBuiltinPlan *plan;
    int16_t *at;    /* of each instruction: where its value is */
    uint32_t *last; /* and which one uses it last */
    uint64_t used;  /* blocks that hold something */
    uint64_t kept;  /* blocks that are nobody else's to the end */
    bool full;
} Planner;

static int16_t take_block(Planner *b, uint8_t size) {
    int block = b->used == UINT64_MAX ? 64 : __builtin_ctzll(~b->used);
    b->plan->size = size > b->plan->size ? size : b->plan->size;
    b->plan->nblocks = block >= b->plan->nblocks ? (uint16_t)(block + 1) : b->plan->nblocks;
    b->full = b->full || block == 64;
    b->used |= b->full ? 0 : 1ull << block;
    return (int16_t)block;
}

static void find_last_uses(Planner *b) {
    const DynKernel *k = b->k;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const DynInsn *insn = &k->insns.at[i];
        bool writes = insn->kind == DYN_L_STORE || insn->kind == DYN_L_REDUCE;
        bool reads = insn->kind == DYN_L_OP || insn->kind == DYN_L_CAST;
        b->last[i] = i;
        for (int a = 0; reads && a < insn->nargs; a++) {
            b->last[insn->a[a]] = i;
        }
        if (writes) {
            b->last[insn->a[1]] = i;
        }
    }
}

/* Values that are used up behind instruction i leave their blocks. */
static void drop_blocks(Planner *b, uint32_t i) {
    for (uint32_t v = 0; v <= i; v++) {
        if (b->last[v] == i && b->at[v] >= 0 && b->at[v] < 64) {
            b->used &= ~(1ull << b->at[v]) | b->kept;
        }
    }
}

/* The operand that a value may be made in: its only store, of a kernel that doesn't read what it writes. */
static int store_of(const Planner *b, uint32_t value) {
    for (uint32_t i = value + 1; i < b->k->insns.n && !b->k->in_place; i++) {
        const DynInsn *insn = &b->k->insns.at[i];
        if (insn->kind == DYN_L_STORE && insn->a[1] == value) {
            return (int)insn->a[0];
        }
    }
    return NONE;
}

/* A copy of bytes; of what kernels read in another form than it has in memory, by a row. */
static void add_copy(Planner *b, int16_t from, int16_t to, uint8_t dtype) {
    bool plain = dtype != DYN_BOOL && !dyn_dtype_is_half((DynDtype)dtype);
    b->plan->steps[b->plan->nsteps++] = (DynBuiltinStep){.row = plain ? NONE : (int16_t)dyn_builtin_row(DYN_OP_POSITIVE, dtype),
                                                         .from = {from},
                                                         .to = to,
                                                         .nargs = 1,
                                                         .size = dyn_dtypes[dtype].size};
}

/* What is read. Where it is written too, before the first store. */
static int add_load(Planner *b, uint32_t i) {
    const DynInsn *insn = &b->k->insns.at[i];
    const DynOperand *o = &b->k->operands.at[insn->a[0]];
    if (b->plan->fixed[i] >= 0) {
        b->at[i] = b->plan->fixed[i];
    } else if (b->k->in_place) {
        b->at[i] = take_block(b, dyn_dtypes[o->dtype].size);
        add_copy(b, (int16_t)~insn->a[0], b->at[i], o->dtype);
    } else {
        b->at[i] = (int16_t)~insn->a[0];
    }
    return o->out ? -1 : 0;
}

/* -1: there is no row for it. */
static int add_insn(Planner *b, uint32_t i) {
    const DynInsn *insn = &b->k->insns.at[i];
    uint8_t size = dyn_dtypes[insn->dtype].size;
    DynBuiltinStep s = {.nargs = insn->nargs};
    switch (insn->kind) {
    case DYN_L_SCALAR: b->at[i] = b->plan->fixed[i]; return 0;
    case DYN_L_LOAD: return add_load(b, i);
    case DYN_L_STORE: /* made in place, or put there now */
        if (b->at[insn->a[1]] != (int16_t)~insn->a[0]) {
            add_copy(b, b->at[insn->a[1]], (int16_t)~insn->a[0], insn->dtype);
        }
        return 0;
    default: break;
    }
    s.row = (int16_t)dyn_builtin_find(b->k, insn);
    for (int a = 0; a < insn->nargs; a++) {
        s.from[a] = b->at[insn->a[a]];
    }
    if (insn->kind == DYN_L_REDUCE) {
        s.from[0] = b->at[insn->a[1]];
        s.to = (int16_t)~insn->a[0];
        s.nargs = 1;
    } else {
        int store = store_of(b, i);
        b->at[i] = s.to = store >= 0 ? (int16_t)~store : take_block(b, size);
    }
    b->plan->steps[b->plan->nsteps++] = s;
    return s.row < 0 ? -1 : 0;
}

/* Blocks that are filled before the loop, or for whole rounds of it, are nobody else's. */
static void take_fixed(Planner *b) {
    const DynKernel *k = b->k;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const DynInsn *insn = &k->insns.at[i];
        bool one = insn->kind == DYN_L_SCALAR || (insn->kind == DYN_L_LOAD && k->operands.at[insn->a[0]].scalar);
        b->plan->fixed[i] = one ? take_block(b, dyn_dtypes[insn->dtype].size) : NONE;
    }
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        b->plan->laid[i] = k->reduced && !o->result && !o->scalar ? take_block(b, dyn_dtypes[o->dtype].size) : NONE;
    }
}

/* -1: memory. A kernel that has no row for an instruction, or too many values, gets no plan. */
static int plan_kernel(DynArena *arena, DynKernel *k) {
    uint32_t n = k->insns.n;
    Planner b = {.k = k};
    b.plan = dyn_arena_alloc(arena, sizeof(*b.plan) + 2 * n * sizeof(b.plan->steps[0]));
    b.at = DYN_NEW_N(arena, int16_t, n);
    b.last = DYN_NEW_N(arena, uint32_t, n);
    if (b.plan == NULL || b.at == NULL || b.last == NULL) {
        return -1;
    }
    *b.plan =
        (DynBuiltinPlan){.size = 1, .fixed = DYN_NEW_N(arena, int16_t, n), .laid = DYN_NEW_N(arena, int16_t, k->operands.n + 1)};
    if (b.plan->fixed == NULL || b.plan->laid == NULL) {
        return -1;
    }
    memset(b.at, -1, sizeof(*b.at) * n);
    find_last_uses(&b);
    take_fixed(&b);
    b.kept = b.used;
    bool has_rows = true;
    for (uint32_t i = 0; i < n && has_rows && !b.full; i++) {
        has_rows = add_insn(&b, i) == 0;
        drop_blocks(&b, i);
    }
    k->builtin = has_rows && !b.full && (size_t)b.plan->nblocks * (b.plan->size * LANES + DYN_BUFFERS_APART) <= DYN_BUILTIN_BYTES
                     ? b.plan
                     : NULL;
    return 0;
}

int dyn_builtin_plan(DynLoops *p) {
    p->builtin = !p->fast_math; /* whose bits are the compiler's */
    for (uint32_t i = 0; i < p->kernels.n && p->builtin; i++) {
        DynKernel *k = &p->kernels.at[i];
        if (!k->dead && plan_kernel(p->arena, k) < 0) {
            return -1;
        }
        p->builtin = k->dead || k->builtin != NULL;
    }
    return 0;
}

/* ---- printing */

static void print_at(DynStr *out, int16_t at) {
    if (at < 0) {
        dyn_str_printf(out, " a%d", ~at);
    } else {
        dyn_str_printf(out, " b%d", at);
    }
}

void dyn_builtin_print(const DynLoops *p, DynStr *out) {
    for (uint32_t i = 0; i < p->kernels.n; i++) {
        const DynKernel *k = &p->kernels.at[i];
        if (k->dead || k->builtin == NULL) {
            continue;
        }
        dyn_str_printf(out, "kernel %u: %u blocks\n", i, k->builtin->nblocks);
        for (int n = 0; n < k->builtin->nsteps; n++) {
            const DynBuiltinStep *s = &k->builtin->steps[n];
            const DynBuiltinRow *row = s->row < 0 ? NULL : dyn_builtin_at(s->row);
            const char *name = "copy";
            if (row != NULL) {
                name = row->kind == DYN_L_CAST ? "cast" : dyn_ops[row->op].text;
            }
            dyn_str_puts(out, " ");
            print_at(out, s->to);
            dyn_str_printf(out, " = %s", name);
            if (row != NULL) {
                dyn_str_printf(out, "_%s", dyn_dtypes[row->compute].name);
            }
            for (int a = 0; a < s->nargs; a++) {
                print_at(out, s->from[a]);
            }
            dyn_str_puts(out, "\n");
        }
    }
}

/* ---- running */

typedef struct Run {
    const DynKernel *k;
    const DynBuiltinPlan *plan;
    char *const *p;
    const int64_t *row_step; /* of a reduction, for each operand: bytes from row to row */
    uint32_t apart;          /* bit i: rows of operand i lie apart, and are laid into its block */
    char *blocks;
    int64_t block_bytes, lanes; /* of a block */
    bool wide;                  /* a row of several groups: results walk too */
} Run;

static char *block_at(const Run *r, int block) { return r->blocks + block * r->block_bytes; }

static void fill(char *to, const void *value, uint8_t size, int64_t n) { dyn_lanes_copy(to, value, size, 0, n, size); }

/* A number as a kernel sees it: emit_c.c's conversion. Only a float is made a float, as the conversion of another number may
 * raise a floating-point flag. */
static void fill_param(char *to, DynScalar v, uint8_t dtype, int64_t n) {
    float f = dtype == DYN_F32 ? (float)v.f : 0;
    bool truth = v.i != 0;
    const void *value = &v.i; /* of integers the low bytes */
    if (dtype == DYN_F64) {
        value = &v.f;
    } else if (dtype == DYN_F32) {
        value = &f;
    } else if (dtype == DYN_BOOL) {
        value = &truth;
    }
    fill(to, value, dyn_dtypes[dtype].size, n);
}

static void fill_fixed(const Run *r, const DynScalar *s, int64_t n) {
    for (uint32_t i = 0; i < r->k->insns.n; i++) {
        const DynInsn *insn = &r->k->insns.at[i];
        int block = r->plan->fixed[i];
        if (block < 0) {
            continue;
        }
        if (insn->kind == DYN_L_SCALAR) {
            fill_param(block_at(r, block), s[insn->a[0]], insn->dtype, n);
        } else {
            fill(block_at(r, block), r->p[insn->a[0]], dyn_dtypes[insn->dtype].size, n);
        }
    }
}

/* Lanes pos … pos + n of an operand of a reduction, or back: its rows of DYN_REDUCE_LANES lie a step apart. */
static void lay_operand(const Run *r, uint32_t operand, int64_t pos, int64_t n, bool back) {
    size_t bytes = (size_t)DYN_REDUCE_LANES * dyn_dtypes[r->k->operands.at[operand].dtype].size;
    int64_t step = r->row_step[operand];
    char *block = block_at(r, r->plan->laid[operand]), *memory = r->p[operand] + pos / DYN_REDUCE_LANES * step;
    for (int64_t i = 0; i < n; i += DYN_REDUCE_LANES, block += bytes, memory += step) {
        if (back) {
            memcpy(memory, block, bytes);
        } else {
            memcpy(block, memory, bytes);
        }
    }
}

static void lay_operands(const Run *r, int64_t pos, int64_t n, bool back) {
    for (uint32_t rest = r->apart; rest; rest &= rest - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(rest);
        if (r->k->operands.at[i].out == back) {
            lay_operand(r, i, pos, n, back);
        }
    }
}

static void find_apart(Run *r) {
    for (uint32_t i = 0; i < r->k->operands.n && r->k->reduced; i++) {
        int64_t step = r->row_step[i], size = dyn_dtypes[r->k->operands.at[i].dtype].size;
        r->apart |= r->plan->laid[i] >= 0 && step != DYN_REDUCE_LANES * size ? 1u << i : 0;
    }
}

static char *memory_at(const Run *r, int16_t at, int64_t pos) {
    if (at >= 0) {
        return block_at(r, at);
    }
    const DynOperand *o = &r->k->operands.at[~at];
    bool walks = r->wide || !o->result;
    if (r->apart >> ~at & 1) {
        return block_at(r, r->plan->laid[~at]);
    }
    return r->p[~at] + (walks ? pos * dyn_dtypes[o->dtype].size : 0);
}

/* A compiled row that reduces its first operand, lanes side by side, into its second, which goes on with what it holds. */
static void reduce_row(const DynNativeTable *rows, int row, char *const *operands, int64_t n, int64_t groups) {
    static const char *const start[2];
    const int64_t row_step[2] = {DYN_REDUCE_LANES * dyn_dtypes[dyn_builtin_at(row)->compute].size};
    rows->kernels[row].columns(
        &(DynColumnsArgs){.operands = operands, .row_step = row_step, .start = start, .n = n, .groups = groups});
}

static void run_step(const Run *r, const DynBuiltinStep *s, const DynNativeTable *rows, int64_t pos, int64_t n) {
    char *q[4];
    int last = s->nargs;
    for (int a = 0; a < last; a++) {
        q[a] = memory_at(r, s->from[a], pos);
    }
    q[last] = memory_at(r, s->to, pos);
    if (s->row < 0) {
        memcpy(q[1], q[0], (size_t)(n * s->size));
    } else if (dyn_builtin_at(s->row)->kind == DYN_L_REDUCE) {
        int64_t lanes = r->wide ? DYN_REDUCE_LANES : n;
        int64_t groups = r->wide ? n / DYN_REDUCE_LANES : 1;
        reduce_row(rows, s->row, q, lanes, groups);
    } else {
        rows->kernels[s->row].lanes(&(DynLanesArgs){.operands = q, .n = n});
    }
}

static void run_lanes(const Run *r, const DynNativeTable *rows, int64_t n) {
    for (int64_t pos = 0; pos < n; pos += r->lanes) {
        int64_t m = n - pos < r->lanes ? n - pos : r->lanes;
        lay_operands(r, pos, m, false);
        for (int i = 0; i < r->plan->nsteps; i++) {
            run_step(r, &r->plan->steps[i], rows, pos, m);
        }
        lay_operands(r, pos, m, true);
    }
}

/* A reduction's groups side by side; where `back` is set, the last is a step of its own. */
static void run_groups(Run *r, const DynNativeTable *rows, int64_t n, int64_t groups) {
    const DynKernel *k = r->k;
    char *p[DYN_MAX_OPERANDS];
    r->wide = groups >= DYN_BUILTIN_WIDE;
    int64_t rounds = r->wide ? n / DYN_REDUCE_LANES : groups;
    memcpy(p, r->p, sizeof(*p) * k->operands.n);
    r->p = p;
    r->apart = 0;
    if (!r->wide) {
        find_apart(r);
    }
    for (int64_t round = 0; round < rounds; round++) {
        run_lanes(r, rows, r->wide ? groups * DYN_REDUCE_LANES : n);
        for (uint32_t i = 0; i < k->operands.n; i++) {
            const DynOperand *o = &k->operands.at[i];
            int64_t row = o->result ? 0 : r->row_step[i];
            if (!o->scalar) {
                p[i] += r->wide ? row : DYN_REDUCE_LANES * (int64_t)dyn_dtypes[o->dtype].size;
            }
        }
    }
}

/* The last group, which lies `back` lanes before its place. */
static void run_last_group(Run *r, const DynNativeTable *rows, int64_t n, int64_t groups, int64_t back) {
    const DynKernel *k = r->k;
    char *p[DYN_MAX_OPERANDS];
    memcpy(p, r->p, sizeof(*p) * k->operands.n);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        int64_t lanes = (groups - 1) * DYN_REDUCE_LANES - (o->result ? 0 : back);
        p[i] += o->scalar ? 0 : lanes * dyn_dtypes[o->dtype].size;
    }
    Run last = *r;
    last.p = p;
    run_groups(&last, rows, n, 1);
}

/* A run in blocks of the caller's memory, of which those whose values never change are filled for n lanes. */
static Run begin_run(const DynKernel *k, char *const *operands, const DynScalar *scalars, int64_t n, char *blocks) {
    const DynBuiltinPlan *plan = k->builtin;
    int64_t per_block = plan->nblocks ? (DYN_BUILTIN_BYTES / plan->nblocks - DYN_BUFFERS_APART) / plan->size : DYN_BUILTIN_BYTES;
    Run r = {.k = k, .plan = plan, .p = operands, .blocks = blocks, .lanes = per_block / LANES * LANES};
    r.lanes = r.lanes > 1024 ? 1024 : r.lanes;
    r.block_bytes = r.lanes * plan->size + DYN_BUFFERS_APART;
    fill_fixed(&r, scalars, n < r.lanes ? n : r.lanes);
    return r;
}

void dyn_builtin_lanes(const DynKernel *k, const DynLanesArgs *args) {
    _Alignas(64) char blocks[DYN_BUILTIN_BYTES];
    Run r = begin_run(k, args->operands, args->scalars, args->n, blocks);
    run_lanes(&r, atomic_load_explicit(&loaded, memory_order_acquire), args->n);
}

void dyn_builtin_columns(const DynKernel *k, const DynColumnsArgs *args) {
    _Alignas(64) char blocks[DYN_BUILTIN_BYTES];
    const DynNativeTable *rows = atomic_load_explicit(&loaded, memory_order_acquire);
    Run r = begin_run(k, args->operands, args->scalars, args->n * args->groups, blocks);
    int64_t groups = args->groups;
    r.row_step = args->row_step;
    if (args->back) {
        run_last_group(&r, rows, args->n, groups, args->back);
        groups--;
    }
    run_groups(&r, rows, args->n, groups);
}

bool dyn_builtin_combine(const DynInsn *reduce, void *to, const void *from, int64_t lanes) {
    const DynNativeTable *rows = atomic_load_explicit(&loaded, memory_order_acquire);
    int row = rows == NULL ? -1 : dyn_builtin_row((DynOp)reduce->op, reduce->compute);
    char *const operands[2] = {(char *)from, to};
    if (row >= 0) {
        reduce_row(rows, row, operands, DYN_REDUCE_LANES, lanes / DYN_REDUCE_LANES);
    }
    return row >= 0;
}
