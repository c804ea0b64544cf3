// Clocks never run backwards, advance with work and with sleep, and the special registers name the thread rightly.
#include "check.cuh"

enum { TICKS, TICKS_32, SLEPT, SM, WARP, LANE, SHAPE, OPS };

__device__ unsigned long long wall_time() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

__global__ void measure(long long* out, int work, int* sink) {
    int t = threadIdx.x + threadIdx.y * blockDim.x;
    int i = (blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x * blockDim.y + t;
    long long* r = out + i * OPS;
    long long before = clock64(), previous = before, backwards = 0;
    clock_t before_32 = clock();
    int v = t;
    for (int k = 0; k < work; k++) {
        v = v * 1103515245 + 12345;
        long long now = clock64();
        backwards += now < previous;
        previous = now;
    }
    clock_t after_32 = clock();
    sink[i] = v;
    r[TICKS] = backwards ? -backwards : clock64() - before;
    r[TICKS_32] = (unsigned)(after_32 - before_32);
    unsigned long long asleep = wall_time();
    __nanosleep(20000);
    r[SLEPT] = wall_time() - asleep;
    unsigned sm, sms, lane;
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    asm("mov.u32 %0, %%nsmid;" : "=r"(sms));
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    r[SM] = sm < sms;
    r[LANE] = lane;
    r[WARP] = warpSize;
    r[SHAPE] = gridDim.x * 1000000 + gridDim.y * 10000 + blockDim.x * 100 + blockDim.y;
}

int main() {
    const int work = 1000, n = 6 * 64;
    Buffer<long long> out(n * OPS);
    Buffer<int> sink(n);
    measure<<<dim3(3, 2), dim3(16, 4)>>>(out.device, work, sink.device);
    out.down(), sink.down();
    for (int i = 0; i < n; i++) {
        long long* r = &out[i * OPS];
        same("ticks", i, r[TICKS] >= 2 * work && r[TICKS] < 1000000ll * work, true);
        same("ticks of 32 bits", i, r[TICKS_32] >= 2 * work && r[TICKS_32] <= r[TICKS], true);
        same("slept", i, r[SLEPT] >= 0 && r[SLEPT] < 1000000000, true);
        same("multiprocessor", i, r[SM], 1ll);
        same("lane", i, r[LANE], (long long)(i % 32));
        same("warp size", i, r[WARP], 32ll);
        same("shape", i, r[SHAPE], 3021604ll);
        int v = i % 64;
        for (int k = 0; k < work; k++) v = (int)((unsigned)v * 1103515245u + 12345u);
        same("work", i, sink[i], v);
    }
    return verdict();
}
