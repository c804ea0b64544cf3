// Votes and matches of a warp: all, any, uni, ballot, match_any, match_all, with full and partial masks.
#include "check.cuh"

enum { ALL, ANY, UNI, BALLOT, MATCH_ANY, MATCH_ALL, MATCH_64, HALF_BALLOT, FNS, LANEMASK, OPS };

__global__ void vote(const int* in, unsigned* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, v = in[i], agreed;
    unsigned full = 0xffffffff, *r = out + i * OPS;
    r[ALL] = __all_sync(full, v > 2);
    r[ANY] = __any_sync(full, v == 9);
    r[UNI] = __uni_sync(full, v > 2);
    r[BALLOT] = __ballot_sync(full, v & 1);
    r[MATCH_ANY] = __match_any_sync(full, v);
    unsigned mask = __match_all_sync(full, v / 8, &agreed);
    r[MATCH_ALL] = agreed ? mask : 0x80000000 + (mask != 0);
    r[MATCH_64] = __match_any_sync(full, (long long)v << 32 | (lane & 1));
    if (lane % 3 == 1) r[HALF_BALLOT] = __ballot_sync(0x92492492, v > 4);   // the lanes of one branch alone
    r[FNS] = __fns(r[BALLOT], 0, 3);
    unsigned below, above;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(above));
    r[LANEMASK] = below ^ (above >> 1);
}

int main() {
    const int n = 4096;
    Buffer<int> in(n);
    Buffer<unsigned> out(n * OPS);
    Random random;
    for (int i = 0; i < n; i++) {
        int kind = i / 32 % 4;   // whole warps that agree, nearly agree and don't
        in[i] = kind == 0 ? 5 : kind == 1 ? 3 + random.below(3) : kind == 2 ? 1 : random.below(10);
    }
    in.up();
    vote<<<n / 128, 128>>>(in.device, out.device);
    out.down();
    for (int i = 0; i < n; i++) {
        unsigned want[OPS] = {}, yes = 0, lane = i % 32;
        int* warp = &in[i / 32 * 32];
        bool agree = true;
        for (unsigned j = 0; j < 32; j++) {
            unsigned bit = 1u << j;
            if (warp[j] > 2) yes |= bit;
            if (warp[j] == 9) want[ANY] = 1;
            if (warp[j] & 1) want[BALLOT] |= bit;
            if (warp[j] == in[i]) want[MATCH_ANY] |= bit;
            if (warp[j] == in[i] && j % 2 == lane % 2) want[MATCH_64] |= bit;
            if (j % 3 == 1 && lane % 3 == 1 && warp[j] > 4) want[HALF_BALLOT] |= bit;
            agree &= warp[j] / 8 == warp[0] / 8;
        }
        want[ALL] = yes == 0xffffffff;
        want[UNI] = yes == 0xffffffff || yes == 0;
        want[MATCH_ALL] = agree ? 0xffffffff : 0x80000000;
        want[FNS] = 0xffffffff;
        int seen = 0;
        for (unsigned j = 0; j < 32; j++)
            if (want[BALLOT] >> j & 1 && ++seen == 3) want[FNS] = j;
        want[LANEMASK] = ((1u << lane) - 1) ^ (~((1u << lane) - 1) >> 1);
        for (int op = 0; op < OPS; op++) same("vote", i * OPS + op, out[i * OPS + op], want[op]);
    }
    return verdict();
}
