// 256-bit integers: Montgomery products with 32-bit limbs, and with 64-bit words and __int128.
#include "bench.cuh"

constexpr int LIMBS = 8;

struct Number {
    uint32_t limb[LIMBS];
};

__constant__ Number modulus;

/// a * b / 2^256 mod p, by Montgomery's method, limb by limb.
__host__ __device__ inline Number montgomery(const Number& a, const Number& b, const Number& p, uint32_t inverse) {
    uint32_t t[LIMBS + 2] = {};
#pragma unroll
    for (int i = 0; i < LIMBS; i++) {
        uint64_t carry = 0;
#pragma unroll
        for (int j = 0; j < LIMBS; j++) {
            carry += (uint64_t)a.limb[j] * b.limb[i] + t[j];
            t[j] = (uint32_t)carry;
            carry >>= 32;
        }
        carry += t[LIMBS];
        t[LIMBS] = (uint32_t)carry;
        t[LIMBS + 1] = (uint32_t)(carry >> 32);
        uint32_t m = t[0] * inverse;
        carry = ((uint64_t)m * p.limb[0] + t[0]) >> 32;
#pragma unroll
        for (int j = 1; j < LIMBS; j++) {
            carry += (uint64_t)m * p.limb[j] + t[j];
            t[j - 1] = (uint32_t)carry;
            carry >>= 32;
        }
        carry += t[LIMBS];
        t[LIMBS - 1] = (uint32_t)carry;
        t[LIMBS] = t[LIMBS + 1] + (uint32_t)(carry >> 32);
    }
    Number reduced;
    int64_t borrow = 0;
    for (int j = 0; j < LIMBS; j++) {
        borrow += (int64_t)t[j] - p.limb[j];
        reduced.limb[j] = (uint32_t)borrow;
        borrow >>= 32;
    }
    bool less = (int64_t)t[LIMBS] + borrow < 0;
    for (int j = 0; j < LIMBS; j++) reduced.limb[j] = less ? t[j] : reduced.limb[j];
    return reduced;
}

__global__ void power_montgomery(const Number* __restrict__ in, Number* __restrict__ out, int n, int steps, uint32_t inverse) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Number a = in[i], r = a;
    for (int s = 0; s < steps; s++) {
        r = montgomery(r, r, modulus, inverse);
        if (s & 1) r = montgomery(r, a, modulus, inverse);
    }
    out[i] = r;
}

__global__ void multiply_256(const ulonglong4* a, const ulonglong4* b, ulonglong4* low, ulonglong4* high, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long x[4] = {a[i].x, a[i].y, a[i].z, a[i].w}, y[4] = {b[i].x, b[i].y, b[i].z, b[i].w}, r[8] = {};
    for (int j = 0; j < 4; j++) {
        unsigned __int128 carry = 0;
        for (int k = 0; k < 4; k++) {
            carry += (unsigned __int128)x[j] * y[k] + r[j + k];
            r[j + k] = (unsigned long long)carry;
            carry >>= 64;
        }
        r[j + 4] = (unsigned long long)carry;
    }
    low[i] = make_ulonglong4(r[0], r[1], r[2], r[3]);
    high[i] = make_ulonglong4(r[4], r[5], r[6], r[7]);
}

int main() {
    // 2^255 - 19
    Number p{{0xffffffedu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x7fffffffu}};
    uint32_t inverse = 1;
    for (int i = 0; i < 5; i++) inverse *= 2 - p.limb[0] * inverse;
    inverse = 0u - inverse;
    CUDA(cudaMemcpyToSymbol(modulus, &p, sizeof p));
    int n = 1 << 17, steps = 8;
    Random random;
    Array<Number> in(n, [&](size_t) {
        Number v;
        for (uint32_t& limb : v.limb) limb = random.next();
        v.limb[LIMBS - 1] &= 0x3fffffff;
        return v;
    }), out(n);
    bench("power_montgomery", [&] { power_montgomery<<<blocks_for(n, 128), 128>>>(in, out, n, steps, inverse); }, [&] {
        auto got = out.down();
        return check_samples(n, 500, [&](size_t i) {
            Number r = in[i];
            for (int s = 0; s < steps; s++) {
                r = montgomery(r, r, p, inverse);
                if (s & 1) r = montgomery(r, in[i], p, inverse);
            }
            return !memcmp(&r, &got[i], sizeof r);
        });
    });
    n = 1 << 20;
    Array<ulonglong4> a(n, [&](size_t) { return make_ulonglong4(random.next64(), random.next64(), random.next64(), random.next64()); });
    Array<ulonglong4> b(n, [&](size_t) { return make_ulonglong4(random.next64(), random.next64(), random.next64(), random.next64()); }), low(n), high(n);
    bench("multiply_256", [&] { multiply_256<<<blocks_for(n, 256), 256>>>(a, b, low, high, n); }, [&] {
        auto l = low.down(), h = high.down();
        return check_samples(n, 2000, [&](size_t i) {
            // Modulo 2^64 - 1, where 2^64 is 1.
            auto fold = [](std::vector<unsigned long long> v) {
                unsigned __int128 sum = 0;
                for (auto x : v) sum += x;
                while (sum >> 64) sum = (unsigned long long)sum + (sum >> 64);
                return (unsigned long long)sum == ~0ull ? 0 : (unsigned long long)sum;
            };
            unsigned __int128 product = (unsigned __int128)fold({a[i].x, a[i].y, a[i].z, a[i].w}) * fold({b[i].x, b[i].y, b[i].z, b[i].w});
            return fold({(unsigned long long)product, (unsigned long long)(product >> 64)}) == fold({l[i].x, l[i].y, l[i].z, l[i].w, h[i].x, h[i].y, h[i].z, h[i].w});
        });
    });
    resources("power_montgomery", power_montgomery, 128);
    resources("multiply_256", multiply_256, 256);
}
