// Threads among each other: loops that they leave one by one, votes, shuffles, atomics, locks, a reduction.
//
// run collatz grid=(1) block=(64) args: out:u32[64]=0
// expect out[i] = count(v, u32(i + 1), v != 1, if(v % 2 == 0, v / 2, 3 * v + 1))
//
// run ballots grid=(1) block=(64) args: x:u32[64]=random(1) out:u32[64]=0
// expect out[i] = sum(j, 0, 32, (x[i / 32 * 32 + j] & 1) << j)
//
// run butterfly grid=(2) block=(32) args: x:u32[64]=random(2) out:u32[64]=0
// expect out[i] = sum(j, i / 32 * 32, i / 32 * 32 + 32, x[j])
//
// run histogram grid=(2) block=(64) args: x:u8[128]=random(3) out:u32[16]=5
// expect out[i] = 5 + sum(j, 0, 128, x[j] % 16 == i)
//
// run largest grid=(2) block=(32) args: x:f32[64]=random(4, 0, 100000) out:f32[1]=0
// expect out[i] = sum(j, 0, 64, if(sum(k, 0, 64, x[k] > x[j]) == 0, x[j], 0.0))
//
// run total grid=(2) block=(128) args: x:u32[256]=random(5) out:u32[2]=0
// expect out[i] = sum(j, i * 128, i * 128 + 128, x[j])
#include "device.h"

GLOBAL collatz(u32* out) {
    u32 steps = 0;
    for (u32 v = index() + 1; v != 1; steps++) v = v % 2 ? 3 * v + 1 : v / 2;
    out[index()] = steps;
}

GLOBAL ballots(const u32* x, u32* out) { out[index()] = __nvvm_vote_ballot_sync(~0u, x[index()] & 1); }

GLOBAL butterfly(const u32* x, u32* out) {
    u32 sum = x[index()];
    for (int lane = 16; lane > 0; lane /= 2) sum += __nvvm_shfl_sync_bfly_i32(~0u, sum, lane, 31);
    out[index()] = sum;
}

GLOBAL histogram(const u8* x, u32* out) {
    SHARED static u32 counts[16];
    if (thread() < 16) counts[thread()] = 0;
    barrier();
    __atomic_fetch_add(&counts[x[index()] % 16], 1, __ATOMIC_RELAXED);
    barrier();
    if (thread() < 16) __atomic_fetch_add(&out[thread()], counts[thread()], __ATOMIC_RELAXED);
}

// There is no such atomic operation: it is a loop.
GLOBAL largest(const float* x, float* out) {
    float own = x[index()], old = __builtin_bit_cast(float, __atomic_load_n((u32*)out, __ATOMIC_RELAXED));
    while (old < own) {
        u32 was = __builtin_bit_cast(u32, old);
        if (__atomic_compare_exchange_n((u32*)out, &was, __builtin_bit_cast(u32, own), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            break;
        old = __builtin_bit_cast(float, was);
    }
}

GLOBAL total(const u32* x, u32* out) {
    SHARED static u32 part[128];
    u32 t = thread();
    part[t] = x[index()];
    for (u32 half = 64; half > 0; half /= 2) {
        barrier();
        if (t < half) part[t] += part[t + half];
    }
    if (t == 0) out[block()] = part[0];
}
