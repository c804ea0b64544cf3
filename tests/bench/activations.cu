// Element by element: SwiGLU in half precision, GELU with erf, a chain of broadcasts with runtime strides, conversions to FP8.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "bench.cuh"

__global__ void swiglu(const half2* __restrict__ gate, const half2* __restrict__ up, half2* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 g = __half22float2(gate[i]), u = __half22float2(up[i]);
    out[i] = __floats2half2_rn(g.x / (1.0f + __expf(-g.x)) * u.x, g.y / (1.0f + __expf(-g.y)) * u.y);
}

template <typename T, int PER>
__global__ void gelu(const T* __restrict__ in, T* __restrict__ out, int n) {
    struct alignas(sizeof(T) * PER) Vector {
        T v[PER];
    };
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * PER >= n) return;
    Vector x = reinterpret_cast<const Vector*>(in)[i];
#pragma unroll
    for (int j = 0; j < PER; j++) {
        float f = (float)x.v[j];
        x.v[j] = (T)(0.5f * f * (1.0f + erff(f * 0.70710678f)));
    }
    reinterpret_cast<Vector*>(out)[i] = x;
}

struct Strides {
    int size[4], a[4], b[4];
};

__global__ void broadcast_add(const float* a, const float* b, float* out, Strides s, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int rest = i, at = 0, bt = 0;
        for (int d = 3; d >= 0; d--) {
            int index = rest % s.size[d];
            rest /= s.size[d];
            at += index * s.a[d];
            bt += index * s.b[d];
        }
        out[i] = a[at] + b[bt];
    }
}

__global__ void to_fp8(const float4* __restrict__ in, __nv_fp8x4_e4m3* __restrict__ out, const float* __restrict__ scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = in[i];
    float s = *scale;
    out[i] = __nv_fp8x4_e4m3(make_float4(v.x * s, v.y * s, v.z * s, v.w * s));
}

int main() {
    int n = 1 << 22;
    Random random;
    Array<half> gate((size_t)n * 2, [&](size_t) { return __float2half(random.uniform(-4, 4)); }), up((size_t)n * 2, [&](size_t) { return __float2half(random.uniform(-1, 1)); }), out((size_t)n * 2);
    auto f = [](half h) { return (double)__half2float(h); };
    bench("swiglu", [&] { swiglu<<<blocks_for(n, 256), 256>>>((half2*)gate.device, (half2*)up.device, (half2*)out.device, n); }, [&] {
        auto got = out.down();
        return check_samples(got.size(), 20000, [&](size_t i) { return close(f(got[i]), f(gate[i]) / (1 + exp(-f(gate[i]))) * f(up[i]), 2e-3, 1); });
    });
    Array<__nv_bfloat16> x(n, [&](size_t) { return __float2bfloat16(random.uniform(-4, 4)); }), y(n);
    bench("gelu", [&] { gelu<__nv_bfloat16, 8><<<blocks_for(n / 8, 256), 256>>>(x.device, y.device, n); }, [&] {
        auto got = y.down();
        return check_samples(n, 20000, [&](size_t i) {
            double v = __bfloat162float(x[i]);
            return close(__bfloat162float(got[i]), 0.5 * v * (1 + erf(v * sqrt(0.5))), 1e-2, 0.1);
        });
    });
    Strides s{{8, 64, 96, 80}, {64 * 96 * 80, 96 * 80, 80, 1}, {0, 80, 0, 1}};
    int total = 8 * 64 * 96 * 80;
    Array<float> a(total, [&](size_t) { return random.uniform(); }), b(64 * 80, [&](size_t) { return random.uniform(); }), c(total);
    bench("broadcast_add", [&] { broadcast_add<<<132 * 8, 256>>>(a, b, c, s, total); }, [&] {
        auto got = c.down();
        return check_samples(total, 20000, [&](size_t i) { return got[i] == a[i] + b[i / (96 * 80) % 64 * 80 + i % 80]; });
    });
    Array<float> scale(1, 16.0f);
    Array<__nv_fp8x4_e4m3> small(total / 4);
    bench("to_fp8", [&] { to_fp8<<<blocks_for(total / 4, 256), 256>>>((const float4*)a.device, small, scale, total / 4); }, [&] {
        auto got = small.down();
        return check_samples(total / 4, 20000, [&](size_t i) {
            float4 v = (float4)got[i];
            return close(v.x, a[i * 4] * 16.0, 0.07, 0.1) && close(v.w, a[i * 4 + 3] * 16.0, 0.07, 0.1);
        });
    });
    resources("swiglu", swiglu, 256);
    resources("gelu", gelu<__nv_bfloat16, 8>, 256);
    resources("broadcast_add", broadcast_add, 256);
    resources("to_fp8", to_fp8, 256);
}
