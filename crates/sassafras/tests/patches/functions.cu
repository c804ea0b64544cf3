// Functions that NVIDIA's Sanitizer API puts before accesses of memory: what each counts does not depend on the order in
// which threads come.
#include <stdint.h>

struct State {
    unsigned long long count, bytes, sum, mix;
    unsigned filled, room;
    unsigned long long* list;
};

__device__ unsigned long long of_module[4];

#define PATCH(name)                                                                                                  \
    extern "C" __device__ __noinline__ int name(void* userdata, uint64_t pc, void* ptr, uint32_t size, uint32_t flags, \
                                                const void* value)

// Atomics, on a variable of this file too.
PATCH(Count) {
    State* s = (State*)userdata;
    atomicAdd(&s->count, 1ull);
    atomicAdd(&s->bytes, (unsigned long long)size);
    atomicAdd(&of_module[flags & 3], 1ull);
    atomicAdd(&s->mix, of_module[0] * 0 + flags);
    return 0;
}

// A list of accesses.
PATCH(Record) {
    State* s = (State*)userdata;
    unsigned at = atomicAdd(&s->filled, 1);
    if (at >= s->room) return 0;
    s->list[at] = (uint64_t)ptr << 8 | (size & 15) << 4 | (flags & 15);
    atomicAdd(&s->count, 1ull);
    atomicAdd(&s->sum, (unsigned long long)(threadIdx.x + blockDim.x * blockIdx.x));
    return 0;
}

__device__ __noinline__ unsigned hash(unsigned x, unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++) {
        x ^= x >> 15;
        x *= 0x2c1b3c6du;
        x ^= x >> 12;
        x += i;
    }
    return x;
}

// Calls, local memory, loops that threads leave one by one, routines for division, more values than registers.
PATCH(Heavy) {
    State* s = (State*)userdata;
    unsigned id = threadIdx.x + blockDim.x * blockIdx.x, table[20];
    for (int i = 0; i < 20; i++) table[i] = hash(id + i, i & 3);
    unsigned total = 0;
    for (unsigned i = 0; i < (id & 7) + size; i++) total += table[(total + i * flags) % 20];
    unsigned long long q = ((unsigned long long)total << 20 | id) / ((unsigned long long)size * 977 + id % 13);
    float f[24];
#pragma unroll
    for (int i = 0; i < 24; i++) f[i] = (float)(table[i % 20] & 255);
    __threadfence_block();
    float g = 0;
#pragma unroll
    for (int i = 0; i < 24; i++) g += f[i] * f[23 - i] + f[(i * 7) % 24];
    g = g / (float)(1 + (id & 3));
    double d = sqrt((double)q + 1.0) / 3.0;
    if (id & 1) total ^= hash((unsigned)q, 3);
    else total += __float2uint_rz(g);
    atomicAdd(&s->count, 1ull);
    atomicAdd(&s->sum, (unsigned long long)total);
    atomicAdd(&s->mix, q + (unsigned long long)(d * 8));
    return 0;
}

// What threads of a warp do together.
PATCH(Warp) {
    State* s = (State*)userdata;
    unsigned mask = __activemask(), lane = threadIdx.x & 31;
    unsigned odd = __ballot_sync(mask, lane & 1);
    unsigned first = __ffs(mask) - 1, from = __shfl_sync(mask, size + lane, first);
    if (lane == first) {
        atomicAdd(&s->count, (unsigned long long)__popc(mask));
        atomicAdd(&s->sum, (unsigned long long)__popc(odd));
    }
    __syncwarp(mask);
    atomicAdd(&s->mix, (unsigned long long)(from - first));
    return 0;
}
