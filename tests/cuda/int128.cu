// 128-bit integers: high halves of products, carries, shifts, comparisons, division and multiplication modulo 2^61 - 1.
#include "check.cuh"

typedef unsigned __int128 u128;
typedef __int128 i128;

enum { HIGH, SIGNED_HIGH, HIGH_32, PRODUCT_LOW, PRODUCT_HIGH, SUM, DIFFERENCE, SHIFTED, QUOTIENT, REMAINDER, MODULAR,
       LESS, OPS };

__host__ __device__ uint64_t modular(uint64_t a, uint64_t b) {
    const uint64_t prime = (1ull << 61) - 1;
    u128 product = (u128)(a & prime) * (b & prime);
    uint64_t sum = (uint64_t)(product & prime) + (uint64_t)(product >> 61);
    return sum >= prime ? sum - prime : sum;
}

__host__ __device__ void wide(uint64_t a, uint64_t b, uint64_t* r) {
    u128 x = (u128)a << 64 | (b ^ 0x5555), y = (u128)(b >> 3) << 64 | a, product = x * y, sum = x + y;
    r[PRODUCT_LOW] = (uint64_t)product, r[PRODUCT_HIGH] = (uint64_t)(product >> 64);
    r[SUM] = (uint64_t)(sum >> 64) ^ (uint64_t)sum;
    r[DIFFERENCE] = (uint64_t)((x - y) >> 64);
    r[SHIFTED] = (uint64_t)((i128)x >> (a % 128)) ^ (uint64_t)(y << (b % 128) >> 64);
    u128 divisor = y >> (a % 100) | 1;
    r[QUOTIENT] = (uint64_t)(x / divisor), r[REMAINDER] = (uint64_t)(x % divisor);
    r[MODULAR] = modular(a, b);
    r[LESS] = (x < y) + 2 * ((i128)x < (i128)y) + 4 * (x == y);
}

__global__ void run(const uint64_t* a, const uint64_t* b, uint64_t* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint64_t* r = out + i * OPS;
    wide(a[i], b[i], r);
    r[HIGH] = __umul64hi(a[i], b[i]);
    r[SIGNED_HIGH] = __mul64hi(a[i], b[i]);
    r[HIGH_32] = __umulhi((uint32_t)a[i], (uint32_t)b[i]) + __mulhi((int)a[i], (int)b[i]);
}

int main() {
    const int n = 20000;
    Buffer<uint64_t> a(n), b(n), out(n * OPS);
    Random random;
    for (int i = 0; i < n; i++) {
        a[i] = random.next64() >> (i % 3 ? 0 : random.below(64));
        b[i] = random.next64() >> (i % 5 ? 0 : random.below(64));
        if (i % 101 == 0) a[i] = ~0ull;
        if (i % 103 == 0) b[i] = ~0ull;
    }
    a.up(), b.up();
    run<<<(n + 127) / 128, 128>>>(a.device, b.device, out.device, n);
    out.down();
    for (int i = 0; i < n; i++) {
        uint64_t want[OPS];
        wide(a[i], b[i], want);
        want[HIGH] = (uint64_t)((u128)a[i] * b[i] >> 64);
        want[SIGNED_HIGH] = (uint64_t)((i128)(int64_t)a[i] * (int64_t)b[i] >> 64);
        uint32_t c = (uint32_t)a[i], d = (uint32_t)b[i];
        want[HIGH_32] = (uint32_t)((uint64_t)c * d >> 32) + (uint32_t)((int64_t)(int)c * (int)d >> 32);
        for (int op = 0; op < OPS; op++) same("wide", i * OPS + op, out[i * OPS + op], want[op]);
    }
    return verdict();
}
