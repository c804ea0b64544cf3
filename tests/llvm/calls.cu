// Functions: recursion, pointers to functions, results larger than a register, more parameters than registers.
//
// run ackermann grid=(1) block=(12) args: out:u32[12]=0
// expect out[i] = if(i / 4 == 0, i % 4 + 1, if(i / 4 == 1, i % 4 + 2, 2 * (i % 4) + 3))
//
// run dispatch grid=(1) block=(64) args: x:s32[64]=random(1, -1000, 1000) out:s32[64]=0
// expect out[i] = if(i % 3 == 0, x[i] + 1, if(i % 3 == 1, x[i] * x[i], -x[i]))
//
// run pair grid=(1) block=(32) args: x:u64[32]=random(2) out:u64[32]=0
// expect out[i] = (x[i] ^ 0xff) * 3 + x[i] / 5
//
// run many grid=(1) block=(32) args: x:u32[32]=random(3) out:u32[32]=0
// expect out[i] = x[i] * 190 + 2470
#include "device.h"

NOINLINE u32 ack(u32 m, u32 n) {
    if (m == 0) return n + 1;
    if (n == 0) return ack(m - 1, 1);
    return ack(m - 1, ack(m, n - 1));
}

GLOBAL ackermann(u32* out) { out[index()] = ack(index() / 4, index() % 4); }

NOINLINE int next(int x) { return x + 1; }
NOINLINE int square(int x) { return x * x; }
NOINLINE int minus(int x) { return -x; }

typedef int (*Unary)(int);
CONSTANT Unary table[3] = {next, square, minus};

GLOBAL dispatch(const int* x, int* out) {
    u32 i = index();
    out[i] = table[i % 3](x[i]);
}

struct Pair {
    u64 first, second;
};

NOINLINE Pair split(u64 x) { return {x ^ 0xff, x / 5}; }

GLOBAL pair(const u64* x, u64* out) {
    Pair both = split(x[index()]);
    out[index()] = both.first * 3 + both.second;
}

NOINLINE u32 weigh(u32 a, u32 b, u32 c, u32 d, u32 e, u32 f, u32 g, u32 h, u32 i, u32 j, u32 k, u32 l, u32 m, u32 n,
                   u32 o, u32 p, u32 q, u32 r, u32 s) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l + 13 * m +
           14 * n + 15 * o + 16 * p + 17 * q + 18 * r + 19 * s;
}

GLOBAL many(const u32* x, u32* out) {
    u32 v = x[index()];
    out[index()] = weigh(v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7, v + 8, v + 9, v + 10, v + 11, v + 12,
                         v + 13, v + 14, v + 15, v + 16, v + 17, v + 18) + 190;
}
