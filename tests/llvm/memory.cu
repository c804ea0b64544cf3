// Memory: shared tiles, arrays on the stack, tables in constant memory, structures by value, vectors.
//
// run reverse grid=(3) block=(64) args: x:f32[192]=random(1) out:f32[192]=0
// expect out[i] = x[i / 64 * 64 + 63 - i % 64]
//
// run insertion_sort grid=(1) block=(16) args: x:u32[128]=random(2, 0, 1000) out:u32[128]=0
// expect out[i] = x[sum(j, i / 8 * 8, i / 8 * 8 + 8, j * (i % 8 == sum(k, i / 8 * 8, i / 8 * 8 + 8, \
//     (x[k] < x[j]) + (x[k] == x[j]) * (k < j))))]
//
// run squares grid=(1) block=(40) args: out:u32[40]=0
// expect out[i] = i % 10 * (i % 10) + i
//
// run structure grid=(1) block=(32) args: x:u32[32]=i out:u32[32]=0
// expect out[i] = 10 * x[i] + (x[i] % 4 + 1) * 100 + 7
//
// run vectors grid=(1) block=(32) args: x:f32[128]=random(3) out:f32[128]=0
// expect out[i] = x[i - i % 4 + 3 - i % 4]
#include "device.h"

GLOBAL reverse(const float* x, float* out) {
    SHARED static float tile[64];
    u32 t = thread();
    tile[t] = x[index()];
    barrier();
    out[index()] = tile[63 - t];
}

GLOBAL insertion_sort(const u32* x, u32* out) {
    u32 own[8];
    const u32* from = x + 8 * index();
    for (int i = 0; i < 8; i++) {
        int at = i;
        for (; at > 0 && own[at - 1] > from[i]; at--) own[at] = own[at - 1];
        own[at] = from[i];
    }
    for (int i = 0; i < 8; i++) out[8 * index() + i] = own[i];
}

CONSTANT u32 table[10] = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81};

GLOBAL squares(u32* out) { out[index()] = table[index() % 10] + index(); }

struct Four {
    u32 part[4];
    u8 last;
};

// Its parameter is indexed by a variable, so that LLVM takes its address.
NOINLINE u32 pick(Four four, u32 i) { return four.part[i % 4] * 100 + four.last; }

GLOBAL structure(const u32* x, u32* out) {
    u32 i = index();
    Four four = {{1, 2, 3, 4}, (u8)7};
    out[i] = pick(four, x[i]) + 10 * x[i];
}

typedef float float4 __attribute__((ext_vector_type(4)));

GLOBAL vectors(const float4* x, float4* out) { out[index()] = x[index()].wzyx; }
