// Integer division by values known only at run time: 64 bits, greatest common divisors, and powers modulo a prime.
#include "bench.cuh"

__global__ void divide_64(const uint64_t* __restrict__ a, const uint64_t* __restrict__ b, uint64_t* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] / b[i] + a[i] % b[i];
}

__global__ void divide_signed(const long long* a, const int* b, long long* out, int n, int repeat) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long v = a[i];
    for (int k = 0; k < repeat; k++) v = v / b[i] + v % (k + 7) + (long long)k * 1234567890123ll;
    out[i] = v;
}

__global__ void gcd_32(const uint32_t* a, const uint32_t* b, uint32_t* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t x = a[i], y = b[i];
    while (y) {
        uint32_t r = x % y;
        x = y;
        y = r;
    }
    out[i] = x;
}

__global__ void power_modulo(const uint32_t* base, uint32_t* out, int n, uint32_t exponent, uint32_t modulus) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint64_t result = 1, b = base[i] % modulus;
    for (uint32_t e = exponent; e; e >>= 1) {
        if (e & 1) result = result * b % modulus;
        b = b * b % modulus;
    }
    out[i] = (uint32_t)result;
}

int main() {
    int n = 1 << 20;
    Random random;
    Array<uint64_t> a(n, [&](size_t) { return random.next64() >> random.below(20); }), b(n, [&](size_t) { return (random.next64() >> random.below(60)) | 1; }), q(n);
    bench("divide_64", [&] { divide_64<<<blocks_for(n, 256), 256>>>(a, b, q, n); }, [&] {
        auto got = q.down();
        return check_samples(n, n, [&](size_t i) { return got[i] == a[i] / b[i] + a[i] % b[i]; });
    });
    int few = 1 << 17;
    Array<long long> c(few, [&](size_t) { return (long long)random.next64(); }), out(few);
    Array<int> d(few, [&](size_t) { return (int)random.next() | 1; });
    bench("divide_signed", [&] { divide_signed<<<blocks_for(few, 256), 256>>>(c, d, out, few, 8); }, [&] {
        auto got = out.down();
        return check_samples(few, few, [&](size_t i) {
            long long v = c[i];
            for (int k = 0; k < 8; k++) v = v / d[i] + v % (k + 7) + (long long)k * 1234567890123ll;
            return got[i] == v;
        });
    });
    Array<uint32_t> x(n, [&](size_t) { return random.next(); }), y(n, [&](size_t) { return random.next(); }), g(n);
    bench("gcd_32", [&] { gcd_32<<<blocks_for(n, 256), 256>>>(x, y, g, n); }, [&] {
        auto got = g.down();
        return check_samples(n, 20000, [&](size_t i) {
            uint32_t u = x[i], v = y[i];
            while (v) std::swap(u %= v, v);
            return got[i] == u;
        });
    });
    bench("power_modulo", [&] { power_modulo<<<blocks_for(few, 256), 256>>>(x, g, few, 1000003, 998244353); }, [&] {
        auto got = g.down();
        return check_samples(few, 5000, [&](size_t i) {
            uint64_t r = 1, v = x[i] % 998244353;
            for (uint32_t e = 1000003; e; e >>= 1, v = v * v % 998244353)
                if (e & 1) r = r * v % 998244353;
            return got[i] == r;
        });
    });
    resources("divide_64", divide_64, 256);
    resources("divide_signed", divide_signed, 256);
    resources("gcd_32", gcd_32, 256);
    resources("power_modulo", power_modulo, 256);
}
