/* region_interp.c: the table of region_ops.def, and the interpreter of region IR, instruction by instruction: what native code is
 * compared with. Called by codegen/region (run.c) where a test asks for it. Owns nothing. */
#include "base/cpy_region.h"
#include "ir/region_flags.h"
#include "ir/region_foreign.h"
#include "ir/region_ir.h"
#include "ir/region_math.h"

enum {
#define WORLD(NAME, address) W_##NAME,
#include "ir/region_world.def"
    W_TAGGED = DYN_CPY_INT_IS_TAGGED,
    W_ITEMS = DYN_CPY_TUPLE_ITEMS,
    W_FIELDS = DYN_CPY_FIELDS,
    W_LOGGED = DYN_REGION_LOGGED
};
#define MATH(name, type, args, ...) static inline type name args __VA_ARGS__
#include "ir/region_objects.def"
#undef MATH
#define AS_IT_IS(...) __VA_ARGS__
DYN_REGION_FLAGS(AS_IT_IS)

#define AS_TEXT(...) #__VA_ARGS__ "\n"
#define TEXT_OF(x) TEXT_OF_TOKENS(x)
#define TEXT_OF_TOKENS(x) #x
#define LIBM(name, arity) LIBM_##arity(name)
#define LIBM_1(name) "D rg_" #name "(D) __asm__(\"" #name "\") __attribute__((const, nothrow));\n"
#define LIBM_2(name) "D rg_" #name "(D, D) __asm__(\"" #name "\") __attribute__((const, nothrow));\n"
#define MATH(name, type, args, ...) "static inline " #type " " #name #args " " #__VA_ARGS__ "\n"
const char *const dyn_region_math =
    "typedef long I; typedef double D; typedef float S; typedef char *P;\n"
    "typedef short M_I16 __attribute__((may_alias)); typedef unsigned short M_U16 __attribute__((may_alias));\n"
    "typedef int M_I32 __attribute__((may_alias)); typedef unsigned int M_U32 __attribute__((may_alias));\n"
    "typedef long M_I64 __attribute__((may_alias)); typedef float M_F32 __attribute__((may_alias));\n"
    "typedef double M_F64 __attribute__((may_alias)); typedef char *M_P __attribute__((may_alias));\n"
#include "ir/region_math.def"
    DYN_REGION_FLAGS(AS_TEXT) "enum {"
#define WORLD(NAME, address) " W_" #NAME ","
#include "ir/region_world.def"
                              " W_TAGGED = " TEXT_OF(DYN_CPY_INT_IS_TAGGED) ", W_ITEMS = " TEXT_OF(
                                  DYN_CPY_TUPLE_ITEMS) ","
                                                       " W_FIELDS = " TEXT_OF(DYN_CPY_FIELDS) ", W_LOGGED = " TEXT_OF(
                                                           DYN_REGION_LOGGED) " };\n"
#include "ir/region_objects.def"
    ;

const DynRegionOpInfo dyn_region_ops[DYN_RO_COUNT] = {
#define ROP(NAME, text, result, a, b, c, fails, value) \
    [DYN_RO_##NAME] = {text, #result[0], {#a[0], #b[0], #c[0]}, sizeof(#fails) > 2, false, #fails, #value},
#define FLOW(NAME, text, a) [DYN_RO_##NAME] = {text, 'N', {#a[0], 'N', 'N'}, DYN_RO_##NAME == DYN_RO_LEAVE, true, NULL, NULL},
#include "ir/region_ops.def"
#undef ROP
};

const char *const dyn_region_kinds[DYN_RK_COUNT] = {
    [DYN_RK_NULL] = "null",
    [DYN_RK_ENTRY] = "entry",
    [DYN_RK_CONST] = "const",
    [DYN_RK_BOOL] = "bool",
    [DYN_RK_INT] = "int",
    [DYN_RK_FLOAT] = "float",
    [DYN_RK_NP] = "np",
    [DYN_RK_ARRAY] = "array",
    [DYN_RK_VIEW] = "view",
    [DYN_RK_RANGE] = "range",
    [DYN_RK_ITER] = "iter",
    [DYN_RK_TUPLE] = "tuple",
    [DYN_RK_SEQ] = "seq",
    [DYN_RK_ENUM] = "enum",
    [DYN_RK_ZIP] = "zip",
    [DYN_RK_UFUNC] = "ufunc",
    [DYN_RK_LIST] = "list",
    [DYN_RK_LISTITER] = "listiter",
    [DYN_RK_TEXT] = "text",
    [DYN_RK_CHAR] = "char",
    [DYN_RK_COMPLEX] = "complex",
    [DYN_RK_CELL] = "cell",
    [DYN_RK_FUNC] = "func",
    [DYN_RK_GEN] = "gen",
    [DYN_RK_PAUSED] = "paused",
    [DYN_RK_INST] = "inst",
    [DYN_RK_CLASS] = "class",
    [DYN_RK_DICT] = "dict",
    [DYN_RK_SET] = "set",
    [DYN_RK_DEQUE] = "deque",
    [DYN_RK_KEYITER] = "keyiter",
    [DYN_RK_VALUEITER] = "valueiter",
    [DYN_RK_ITEMITER] = "itemiter",
    [DYN_RK_SETITER] = "setiter",
    [DYN_RK_DICTVIEW] = "dictview",
    [DYN_RK_ADDRESS] = "address",
    [DYN_RK_RECORDS] = "records",
    [DYN_RK_COLUMN] = "column",
    [DYN_RK_RECORD] = "record",
    [DYN_RK_FOREIGN] = "foreign",
    [DYN_RK_SLICE] = "slice",
    [DYN_RK_LITERAL] = "literal",
    [DYN_RK_EXPR] = "expr",
    [DYN_RK_METHOD] = "method",
    [DYN_RK_RNG] = "rng",
    [DYN_RK_MADE] = "made",
    [DYN_RK_PARTS] = "parts",
    [DYN_RK_SLICED] = "sliced",
};

static DynScalar F[DYN_ROUTINE_VALUES]; /* of the next call */
#define BREAKER (*breaker != 0)
#define W ((const P *)(const void *)dyn_region_world())
#define GET_I(x, k)        \
    I x = v[in->arg[k]].i; \
    (void)x;
#define GET_D(x, k)        \
    D x = v[in->arg[k]].f; \
    (void)x;
#define GET_S(x, k)           \
    S x = (S)v[in->arg[k]].f; \
    (void)x;
#define GET_P(x, k)                     \
    P x = (P)(intptr_t)v[in->arg[k]].i; \
    (void)x;
#define GET_N(x, k)
#define HAS_I I d = 0;
#define HAS_D D d = 0;
#define HAS_S S d = 0;
#define HAS_P P d = NULL;
#define HAS_N int d = 0;
#define SET_I v[in->dst].i = d;
#define SET_D v[in->dst].f = d;
#define SET_S v[in->dst].f = (D)d;
#define SET_P v[in->dst].i = (int64_t)(intptr_t)d;
#define SET_N (void)d;

/* One instruction that doesn't end a block. false: it leaves. */
static bool step(const DynRegionInstr *in, DynScalar *v, const volatile unsigned char *breaker) {
    const int64_t imm = in->imm.i;
    const double fimm = in->imm.f;
    (void)fimm;
    switch ((DynRegionOp)in->op) {
#define ROP(NAME, text, R, A, B, C, fails, value)                                      \
    case DYN_RO_##NAME: {                                                              \
        GET_##A(a, 0) GET_##B(b, 1) GET_##C(c, 2) HAS_##R if (fails) { return false; } \
        d = value;                                                                     \
        SET_##R break;                                                                 \
    }
#include "ir/region_ops.def"
#undef ROP
    case DYN_RO_JMP:
    case DYN_RO_BR:
    case DYN_RO_LEAVE:
    case DYN_RO_RETURN:
    case DYN_RO_COUNT: break;
    }
    return true;
}

static bool is_forced(DynRegion *r, const DynRegionInstr *in) {
    return dyn_region_ops[in->op].fails && in->exit != DYN_NONE && in->exit == r->force && r->after-- == 0;
}

/* A routine, with what F has, and registers of its own. false: it, or one that it calls, has given up. */
static bool call_routine(DynRegion *r, const DynRegionRoutine *f, const DynScalar *values, const volatile unsigned char *breaker,
                         DynRegionCalls *calls) {
    DynScalar *own = calls->left > 0 && !BREAKER ? PyMem_RawMalloc(r->regs.n * sizeof *own) : NULL;
    if (own == NULL) {
        calls->gave_up = BREAKER ? DYN_GAVE_UP_FOR_BREAKER : DYN_GAVE_UP_FOR_DEPTH;
        return false;
    }
    memcpy(own, values, r->regs.n * sizeof *own);
    for (uint32_t i = 0; i < f->nparams; i++) {
        own[f->params[i]] = F[i];
    }
    calls->left--;
    uint32_t exit = dyn_region_interpret(r, f->block, own, breaker, calls);
    calls->left++;
    PyMem_RawFree(own);
    if (exit != DYN_NONE && calls->gave_up == DYN_GAVE_UP_NOT) {
        calls->gave_up = DYN_GAVE_UP;
    }
    return exit == DYN_NONE;
}

uint32_t dyn_region_interpret(DynRegion *r, uint32_t block, DynScalar *values, const volatile unsigned char *breaker,
                              DynRegionCalls *calls) {
    rg_begin();
    for (;;) {
        const DynRegionBlock *b = &r->blocks.at[block];
        for (uint32_t i = 0; i < b->v.n; i++) {
            const DynRegionInstr *in = &b->v.at[i];
            if (in->op == DYN_RO_LEAVE || in->op == DYN_RO_RETURN) {
                return in->exit; /* of RETURN: none */
            }
            if (in->op == DYN_RO_JMP) {
                block = in->to[0];
            } else if (in->op == DYN_RO_BR) {
                block = in->to[values[in->arg[0]].i != 0 ? 0 : 1];
            } else if (is_forced(r, in)) {
                return in->exit;
            } else if (in->op == DYN_RO_CALM && r->force != DYN_NONE) {
                values[in->dst].i = 0; /* what may be left anywhere goes through loops with all their exits */
            } else if (in->op == DYN_RO_ROUTINE ? !call_routine(r, &r->routines.at[in->imm.i], values, breaker, calls)
                                                : !step(in, values, breaker)) {
                if (in->exit != DYN_NONE) {
                    return in->exit;
                }
                block = in->to[0];
                break;
            }
        }
    }
}
