// Byte permutes, funnel shifts, population counts, leading zeros, bit reversal, bit fields and sums of differences.
#include "check.cuh"

enum { PERM, FUNNEL_L, FUNNEL_R, FUNNEL_LC, FUNNEL_RC, POPC, CLZ, BREV, FFS, POPCLL, CLZLL, BREVLL_HIGH, FFSLL, EXTRACT,
       INSERT, SAD, HADD, RHADD, MUL24, ROTATE, OPS };

__global__ void run(const uint32_t* xs, const uint32_t* ys, const uint32_t* zs, uint32_t* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t x = xs[i], y = ys[i], z = zs[i], *r = out + i * OPS;
    uint64_t w = (uint64_t)x << 32 | y;
    r[PERM] = __byte_perm(x, y, z);
    r[FUNNEL_L] = __funnelshift_l(x, y, z), r[FUNNEL_R] = __funnelshift_r(x, y, z);
    r[FUNNEL_LC] = __funnelshift_lc(x, y, z), r[FUNNEL_RC] = __funnelshift_rc(x, y, z);
    r[POPC] = __popc(x), r[CLZ] = __clz(x), r[BREV] = __brev(x), r[FFS] = __ffs(x);
    r[POPCLL] = __popcll(w), r[CLZLL] = __clzll(w), r[BREVLL_HIGH] = __brevll(w) >> 32, r[FFSLL] = __ffsll(w);
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(r[EXTRACT]) : "r"(x), "r"(z & 63), "r"(y & 63));
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r[INSERT]) : "r"(x), "r"(y), "r"(z & 31), "r"(z >> 8 & 31));
    r[SAD] = __usad(x, y, z) ^ __sad(x, y, z);
    r[HADD] = __hadd((int)x, (int)y), r[RHADD] = __urhadd(x, y);
    r[MUL24] = __mul24(x, y) + __umul24(x, y);
    r[ROTATE] = x << (z & 31) | x >> (-z & 31);
}

uint32_t extract(int x, unsigned position, unsigned length) {   // as the PTX manual defines bfe.s32
    unsigned last = position + length - 1 < 31 ? position + length - 1 : 31;
    uint32_t r = 0, sign = length == 0 ? 0 : (uint32_t)x >> last & 1;
    for (unsigned b = 0; b < 32; b++)
        r |= (b < length && position + b < 32 ? (uint32_t)x >> (position + b) & 1 : sign) << b;
    return r;
}

int low24(uint32_t x) { return (int)(x << 8) >> 8; }

int main() {
    const int n = 32768;
    Buffer<uint32_t> xs(n), ys(n), zs(n), out(n * OPS);
    Random random;
    for (int i = 0; i < n; i++) {
        xs[i] = i % 9 ? random.next() >> (i % 4 ? 0 : random.below(32)) : 0;
        ys[i] = i % 11 ? random.next() : 0, zs[i] = i % 3 ? random.next() : random.below(70);
    }
    xs.up(), ys.up(), zs.up();
    run<<<n / 128, 128>>>(xs.device, ys.device, zs.device, out.device);
    out.down();
    for (int i = 0; i < n; i++) {
        uint32_t x = xs[i], y = ys[i], z = zs[i], want[OPS] = {};
        uint64_t w = (uint64_t)x << 32 | y, pair = (uint64_t)y << 32 | x;
        for (int b = 0; b < 4; b++) want[PERM] |= (uint32_t)(pair >> (z >> 4 * b & 7) * 8 & 255) << 8 * b;
        unsigned wrapped = z & 31, clamped = z < 32 ? z : 32;
        want[FUNNEL_L] = (uint32_t)(pair << wrapped >> 32), want[FUNNEL_R] = (uint32_t)(pair >> wrapped);
        want[FUNNEL_LC] = (uint32_t)(pair << clamped >> 32), want[FUNNEL_RC] = (uint32_t)(pair >> clamped);
        want[POPC] = __builtin_popcount(x), want[CLZ] = x ? __builtin_clz(x) : 32, want[FFS] = __builtin_ffs(x);
        want[POPCLL] = __builtin_popcountll(w), want[CLZLL] = w ? __builtin_clzll(w) : 64;
        want[FFSLL] = __builtin_ffsll(w);
        for (int b = 0; b < 32; b++) {
            want[BREV] |= (x >> b & 1) << (31 - b);
            want[BREVLL_HIGH] |= (y >> b & 1) << (31 - b);
        }
        want[EXTRACT] = extract(x, z & 63, y & 63);
        unsigned at = z & 31, length = z >> 8 & 31;
        uint32_t mask = (uint32_t)(((1ull << length) - 1) << at);
        want[INSERT] = (y & ~mask) | (x << at & mask);
        int64_t apart = (int64_t)(int)x - (int)y;
        want[SAD] = ((x > y ? x - y : y - x) + z) ^ ((uint32_t)(apart < 0 ? -apart : apart) + z);
        want[HADD] = (uint32_t)(((int64_t)(int)x + (int)y) >> 1), want[RHADD] = (uint32_t)(((uint64_t)x + y + 1) >> 1);
        want[MUL24] = (uint32_t)((int64_t)low24(x) * low24(y)) + (uint32_t)((uint64_t)(x & 0xffffff) * (y & 0xffffff));
        want[ROTATE] = wrapped ? x << wrapped | x >> (32 - wrapped) : x;
        for (int op = 0; op < OPS; op++) same("operation", i * OPS + op, out[i * OPS + op], want[op]);
    }
    return verdict();
}
