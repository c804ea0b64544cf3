// 64-bit division and remainder, signed and unsigned, by variables and by constants, with 32- and 16-bit ones beside.
#include "check.cuh"

enum { UDIV, UREM, SDIV, SREM, BY_7, BY_10_9, REM_641, BY_POWER, SMALL, OPS };

__host__ __device__ void divide(uint64_t a, uint64_t b, uint64_t* r) {
    int64_t s = a, t = b;
    bool overflows = s == INT64_MIN && t == -1;
    r[UDIV] = a / b, r[UREM] = a % b;
    r[SDIV] = overflows ? 0 : s / t, r[SREM] = overflows ? 0 : s % t;
    r[BY_7] = s / 7, r[BY_10_9] = a / 1000000007u, r[REM_641] = s % -641, r[BY_POWER] = s / 4096 + s % 4096 * 3;
    uint32_t c = (uint32_t)a, d = (uint32_t)b | 1;
    short e = (short)a, f = (short)(b | 1);
    r[SMALL] = c / d + c % d * 5ull + (uint64_t)((int)c / ((int)d == -1 ? 3 : (int)d)) * 7 + (e / f + e % f) * 11ull;
}

__global__ void run(const uint64_t* a, const uint64_t* b, uint64_t* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) divide(a[i], b[i], out + i * OPS);
}

int main() {
    const uint64_t edges[] = {1, 2, 3, 7, 10, 255, 65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
                              0x100000001, 0x7fffffffffffffff, 0x8000000000000000, 0x8000000000000001,
                              0xfffffffffffffffe, 0xffffffffffffffff, 0xffffffff00000000, 0x123456789abcdef, 0};
    const int count = sizeof edges / sizeof *edges, divisors = count - 1, pairs = count * divisors, n = pairs + 30000;
    Buffer<uint64_t> a(n), b(n), out(n * OPS);
    Random random;
    for (int i = 0; i < n; i++) {
        a[i] = i < pairs ? edges[i / divisors] : random.next64() >> random.below(64);
        b[i] = i < pairs ? edges[i % divisors] : random.next64() >> random.below(64);
        if (b[i] == 0) b[i] = 1;
    }
    a.up(), b.up();
    run<<<(n + 127) / 128, 128>>>(a.device, b.device, out.device, n);
    out.down();
    for (int i = 0; i < n; i++) {
        uint64_t want[OPS];
        divide(a[i], b[i], want);
        for (int op = 0; op < OPS; op++) same("quotient", i * OPS + op, out[i * OPS + op], want[op]);
    }
    return verdict();
}
