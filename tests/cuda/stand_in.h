// stand_in.h: what generated CUDA text finds where a device would be: the threads of a block run on this machine's processor, one
// after the other, each as far as the next barrier. Put in front of the text by stand_in.c.
#define DYN_STAND_IN
#include <cmath>
#include <cstring>
#include <ucontext.h>
#include <vector>
#define __device__
#define __forceinline__ inline
#define __noinline__
#define DYN_ROW_MEMORY alignas(16) static double row_memory[1 << 16]
#define __shared__ static
#define DYN_INF HUGE_VAL
#define DYN_KERNEL(threads, name, ...) extern "C" void name(const __VA_ARGS__ &a)

struct Index {
    unsigned x, y, z;
};
extern "C" {
Index threadIdx, blockIdx, blockDim, gridDim;
}

namespace stand_in {
constexpr size_t STACK = 64 << 10;
struct Thread {
    ucontext_t context;
    bool done;
};
std::vector<Thread> threads;
std::vector<char> stacks;
ucontext_t scheduler;
size_t current;
void (*kernel)(const void *);
const void *argument;
char exchanged[1024][16];
int missed;

void begin() {
    kernel(argument);
    threads[current].done = true;
    swapcontext(&threads[current].context, &scheduler);
}

void place(size_t i) {
    current = i;
    threadIdx = {unsigned(i % blockDim.x), unsigned(i / blockDim.x % blockDim.y), unsigned(i / blockDim.x / blockDim.y)};
}

void barrier() {
    size_t self = current;
    swapcontext(&threads[self].context, &scheduler);
    place(self);
}

// All threads of a block, each up to its next barrier, until all are done.
void run_block(size_t n) {
    threads.resize(n);
    stacks.resize(n * STACK);
    for (size_t i = 0; i < n; i++) {
        getcontext(&threads[i].context);
        threads[i].context.uc_stack.ss_sp = &stacks[i * STACK];
        threads[i].context.uc_stack.ss_size = STACK;
        threads[i].context.uc_link = nullptr;
        threads[i].done = false;
        makecontext(&threads[i].context, begin, 0);
    }
    for (size_t left = n; left > 0;) {
        left = 0;
        for (size_t i = 0; i < n; i++) {
            if (!threads[i].done) {
                place(i);
                swapcontext(&scheduler, &threads[i].context);
                left += !threads[i].done;
            }
        }
    }
}

template <class T> T lanes_down(T x, int n) {
    std::memcpy(exchanged[current], &x, sizeof(T));
    barrier();
    T from = x;
    if (current % 32 + n < 32) {
        std::memcpy(&from, exchanged[current + n], sizeof(T));
    }
    barrier();
    return from;
}
} // namespace stand_in

// The answer is whether a place was looked up that isn't there.
extern "C" int stand_in_run(void (*kernel)(const void *), const void *argument, const unsigned *grid, const unsigned *block,
                            int barriers) {
    stand_in::missed = 0;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    size_t n = size_t(block[0]) * block[1] * block[2];
    stand_in::kernel = kernel;
    stand_in::argument = argument;
    for (unsigned y = 0; y < grid[1]; y++) {
        for (unsigned x = 0; x < grid[0]; x++) {
            blockIdx = {x, y, 0};
            if (barriers) {
                stand_in::run_block(n);
                continue;
            }
            for (size_t i = 0; i < n; i++) {
                stand_in::place(i);
                kernel(argument);
            }
        }
    }
    return stand_in::missed;
}

#define __syncthreads() stand_in::barrier()
#define __threadfence()
inline unsigned atomicAdd(unsigned *at, unsigned n) { return (*at += n) - n; }
#define DYN_LANES_DOWN(x, n) stand_in::lanes_down(x, n)
#define DYN_NOT_THERE() (stand_in::missed = 1)
inline unsigned dyn_bits(float a) {
    unsigned i;
    std::memcpy(&i, &a, 4);
    return i;
}
inline float dyn_of_bits(unsigned a) {
    float f;
    std::memcpy(&f, &a, 4);
    return f;
}
inline unsigned long dyn_bits(double a) {
    unsigned long i;
    std::memcpy(&i, &a, 8);
    return i;
}
inline unsigned dyn_high(unsigned a, unsigned b) { return unsigned((unsigned long)a * b >> 32); }
inline unsigned short dyn_half_store(float a) {
    _Float16 h = (_Float16)a;
    unsigned short i;
    std::memcpy(&i, &h, 2);
    return i;
}
inline float dyn_half_load(unsigned short i) {
    _Float16 h;
    std::memcpy(&h, &i, 2);
    return (float)h;
}
inline float dyn_half(float a) { return (float)(_Float16)a; }
