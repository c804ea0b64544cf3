// Whole numbers: what LLVM makes of division, wide products, counts of bits, rotations, saturation and switches.
//
// run divide grid=(2) block=(64) args: n:u32=100 a:s32[n]=random(1) b:s32[n]=random(2, 1, 1000) out:s32[n]=0
// expect out[i] = a[i] / b[i] * 7 + a[i] % b[i] + a[i] / 10 - a[i] % 1000
//
// run divide_wide grid=(1) block=(64) args: n:u32=64 a:u64[n]=random(3) b:u64[n]=random(4) out:u64[n]=0
// expect out[i] = a[i] / (b[i] >> 20 | 1) + a[i] % (b[i] >> 40 | 1) + a[i] / 1000003
//
// run bits grid=(1) block=(96) args: n:u32=96 a:u32[n]=random(5) out:u32[n]=0
// expect out[i] = sum(j, 0, 32, a[i] >> j & 1) + count(v, a[i], v < 0x80000000, v * 2) * 100 \
//     + (a[i] << i % 32 | a[i] >> (32 - i % 32) % 32)
//
// run product grid=(1) block=(64) args: n:u32=64 a:u64[n]=random(6) b:u64[n]=random(7) out:u64[n]=0
// expect out[i] = a[i] * b[i] + (a[i] & 0xffffffff) * (b[i] >> 32)
//
// run choose grid=(1) block=(64) args: n:u32=60 a:u32[n]=i%12 out:u32[n]=0
// expect out[i] = if(a[i] == 0, 17, if(a[i] == 1, i * i, if(a[i] == 2, i ^ 0x55, if(a[i] == 3, i + 1000, \
//     if(a[i] == 4, i * 3, if(a[i] == 5, 60 - i, if(a[i] == 6, i << 5, if(a[i] == 7, 5, 99))))))))
//
// run bytes grid=(1) block=(64) args: n:u32=64 a:u8[n]=random(8) out:u8[n]=0
// expect out[i] = u8(min(255, u32(a[i]) + 100))
#include "device.h"

GLOBAL divide(u32 n, const int* a, const int* b, int* out) {
    u32 i = index();
    if (i < n) out[i] = a[i] / b[i] * 7 + a[i] % b[i] + a[i] / 10 - a[i] % 1000;
}

GLOBAL divide_wide(u32 n, const u64* a, const u64* b, u64* out) {
    u32 i = index();
    if (i < n) out[i] = a[i] / (b[i] >> 20 | 1) + a[i] % (b[i] >> 40 | 1) + a[i] / 1000003;
}

GLOBAL bits(u32 n, const u32* a, u32* out) {
    u32 i = index();
    if (i < n) out[i] = __builtin_popcount(a[i]) + __builtin_clz(a[i]) * 100 + __builtin_rotateleft32(a[i], i);
}

GLOBAL product(u32 n, const u64* a, const u64* b, u64* out) {
    u32 i = index();
    if (i < n) out[i] = (u64)((unsigned __int128)a[i] * b[i]) + (u64)(u32)a[i] * (u32)(b[i] >> 32);
}

GLOBAL choose(u32 n, const u32* a, u32* out) {
    u32 i = index();
    if (i >= n) return;
    u32 x;
    switch (a[i]) {
    case 0: x = 17; break;
    case 1: x = i * i; break;
    case 2: x = i ^ 0x55; break;
    case 3: x = i + 1000; break;
    case 4: x = i * 3; break;
    case 5: x = n - i; break;
    case 6: x = i << 5; break;
    case 7: x = 5; break;
    default: x = 99;
    }
    out[i] = x;
}

GLOBAL bytes(u32 n, const u8* a, u8* out) {
    u32 i = index();
    if (i < n) out[i] = __builtin_elementwise_add_sat(a[i], (u8)100);
}
