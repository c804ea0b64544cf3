// SIMD inside a word: the v*2 and v*4 intrinsics, dp4a and dp2a, and wide-integer carry chains in inline PTX.
#include "check.cuh"
#include <algorithm>

enum { ADD4, ADDSS2, SUBUS4, ABSDIFF4, MAXS2, MINU4, CMPGT4, AVG4, SAD4, DP4A_S, DP4A_U, DP2A, CARRY_LOW, CARRY_HIGH,
       OPS };

__global__ void run(const uint32_t* xs, const uint32_t* ys, const uint32_t* zs, uint32_t* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t x = xs[i], y = ys[i], z = zs[i], *r = out + i * OPS;
    r[ADD4] = __vadd4(x, y), r[ADDSS2] = __vaddss2(x, y), r[SUBUS4] = __vsubus4(x, y);
    r[ABSDIFF4] = __vabsdiffu4(x, y), r[MAXS2] = __vmaxs2(x, y);
    r[MINU4] = __vminu4(x, y), r[CMPGT4] = __vcmpgts4(x, y), r[AVG4] = __vavgu4(x, y);
    r[SAD4] = __vsadu4(x, y);
    r[DP4A_S] = __dp4a((int)x, (int)y, (int)z), r[DP4A_U] = __dp4a(x, y, z);
    r[DP2A] = __dp2a_lo((int)x, (int)y, (int)z);
    asm("{ .reg .u32 t;\n\t"
        "mad.lo.cc.u32 t, %2, %3, %4;\n\t"
        "madc.hi.cc.u32 %0, %2, %3, %4;\n\t"
        "addc.u32 %1, t, 0; }"
        : "=&r"(r[CARRY_LOW]), "=r"(r[CARRY_HIGH])
        : "r"(x), "r"(y), "r"(z));
}

int sign_extended(uint32_t v, int width) { return (int)(v << (32 - width)) >> (32 - width); }

template <typename F>
uint32_t lanes(uint32_t x, uint32_t y, int width, bool is_signed, F f) {
    uint32_t r = 0, mask = width == 8 ? 0xff : 0xffff;
    for (int at = 0; at < 32; at += width) {
        int a = x >> at & mask, b = y >> at & mask;
        if (is_signed) a = sign_extended(a, width), b = sign_extended(b, width);
        r |= (uint32_t)(f(a, b) & (int)mask) << at;
    }
    return r;
}

int main() {
    const int n = 16384;
    Buffer<uint32_t> xs(n), ys(n), zs(n), out(n * OPS);
    Random random;
    for (int i = 0; i < n; i++) {
        xs[i] = random.next(), zs[i] = random.next();
        ys[i] = i % 7 ? random.next() : xs[i] ^ 0x80ff0001;
    }
    xs.up(), ys.up(), zs.up();
    run<<<n / 128, 128>>>(xs.device, ys.device, zs.device, out.device);
    out.down();
    for (int i = 0; i < n; i++) {
        uint32_t x = xs[i], y = ys[i], z = zs[i], want[OPS] = {};
        want[ADD4] = lanes(x, y, 8, false, [](int a, int b) { return a + b; });
        want[ADDSS2] = lanes(x, y, 16, true, [](int a, int b) { return std::min(std::max(a + b, -32768), 32767); });
        want[SUBUS4] = lanes(x, y, 8, false, [](int a, int b) { return a > b ? a - b : 0; });
        want[ABSDIFF4] = lanes(x, y, 8, false, [](int a, int b) { return abs(a - b); });
        want[MAXS2] = lanes(x, y, 16, true, [](int a, int b) { return a > b ? a : b; });
        want[MINU4] = lanes(x, y, 8, false, [](int a, int b) { return a < b ? a : b; });
        want[CMPGT4] = lanes(x, y, 8, true, [](int a, int b) { return a > b ? 255 : 0; });
        want[AVG4] = lanes(x, y, 8, false, [](int a, int b) { return (a + b + 1) / 2; });
        want[DP4A_S] = want[DP4A_U] = want[DP2A] = z;
        for (int b = 0; b < 4; b++) {
            want[SAD4] += (want[ABSDIFF4] >> 8 * b) & 255;
            want[DP4A_S] += (int8_t)(x >> 8 * b) * (int8_t)(y >> 8 * b);
            want[DP4A_U] += (x >> 8 * b & 255) * (y >> 8 * b & 255);
            if (b < 2) want[DP2A] += (int16_t)(x >> 16 * b) * (int8_t)(y >> 8 * b);
        }
        uint64_t low = (uint64_t)(uint32_t)(x * y) + z, high = ((uint64_t)x * y >> 32) + z + (low >> 32);
        want[CARRY_LOW] = (uint32_t)high, want[CARRY_HIGH] = (uint32_t)low + (uint32_t)(high >> 32);
        for (int op = 0; op < OPS; op++) same("operation", i * OPS + op, out[i * OPS + op], want[op]);
    }
    return verdict();
}
