// Dropout with Philox, four elements from each block of random bits; and bias, GELU and dropout fused in half precision.
#include <cuda_fp16.h>

#include "bench.cuh"

__host__ __device__ inline uint4 philox(uint32_t x, uint32_t y, uint32_t k0, uint32_t k1) {
    uint32_t z = 0, w = 0;
#pragma unroll
    for (int i = 0; i < 10; i++) {
        uint64_t a = (uint64_t)0xd2511f53u * x, b = (uint64_t)0xcd9e8d57u * z;
        uint32_t nx = (uint32_t)(b >> 32) ^ y ^ k0, nz = (uint32_t)(a >> 32) ^ w ^ k1;
        y = (uint32_t)b, w = (uint32_t)a, x = nx, z = nz;
        k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
    }
    return uint4{x, y, z, w};
}

__global__ void dropout(const float4* __restrict__ in, float4* __restrict__ out, uint8_t* __restrict__ mask, int n, float keep, uint64_t seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint4 bits = philox(i, 0, (uint32_t)seed, (uint32_t)(seed >> 32));
    uint32_t limit = (uint32_t)(keep * 4294967040.0f);
    float scale = 1.0f / keep;
    float4 v = in[i];
    bool a = bits.x < limit, b = bits.y < limit, c = bits.z < limit, d = bits.w < limit;
    out[i] = make_float4(a ? v.x * scale : 0, b ? v.y * scale : 0, c ? v.z * scale : 0, d ? v.w * scale : 0);
    mask[i] = a | b << 1 | c << 2 | d << 3;
}

__global__ void bias_gelu_dropout(const half2* __restrict__ in, const half2* __restrict__ bias, half2* __restrict__ out, int n, int columns,
                                  float keep, uint32_t seed) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float2 v = __half22float2(__hadd2(in[i], bias[i % columns]));
        auto gelu = [](float x) { return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))); };
        uint4 bits = philox(i, 1, seed, 0);
        float scale = 1.0f / keep;
        uint32_t limit = (uint32_t)(keep * 4294967040.0f);
        out[i] = __floats2half2_rn(bits.x < limit ? gelu(v.x) * scale : 0.0f, bits.y < limit ? gelu(v.y) * scale : 0.0f);
    }
}

int main() {
    int n = 1 << 22, columns = 2048;
    Random random;
    Array<float> in((size_t)n * 4, [&](size_t) { return random.uniform(-1, 1); }), out((size_t)n * 4);
    Array<uint8_t> mask(n);
    uint32_t limit = (uint32_t)(0.9f * 4294967040.0f);
    bench("dropout", [&] { dropout<<<blocks_for(n, 256), 256>>>((const float4*)in.device, (float4*)out.device, mask, n, 0.9f, 77); }, [&] {
        auto got = out.down();
        return check_samples(n, 10000, [&](size_t i) {
            uint4 bits = philox((uint32_t)i, 0, 77, 0);
            uint32_t b[4] = {bits.x, bits.y, bits.z, bits.w};
            for (int j = 0; j < 4; j++)
                if (!close(got[i * 4 + j], b[j] < limit ? in[i * 4 + j] / 0.9 : 0, 1e-5)) return false;
            return true;
        });
    });
    Array<half> x((size_t)n * 2, [&](size_t) { return __float2half(random.uniform(-2, 2)); }), bias(columns * 2, [&](size_t) { return __float2half(random.uniform(-1, 1)); }), y((size_t)n * 2);
    bench("bias_gelu_dropout", [&] { bias_gelu_dropout<<<132 * 16, 256>>>((half2*)x.device, (half2*)bias.device, (half2*)y.device, n, columns, 0.9f, 5); }, [&] {
        auto got = y.down();
        return check_samples(n, 10000, [&](size_t i) {
            float a = __half2float(__float2half(__half2float(x[i * 2]) + __half2float(bias[i % columns * 2])));
            double g = 0.5 * a * (1 + tanh(0.7978845608 * (a + 0.044715 * a * a * a)));
            return close(__half2float(got[i * 2]), philox((uint32_t)i, 1, 5, 0).x < limit ? g / 0.9 : 0, 3e-3, 1);
        });
    });
    resources("dropout", dropout, 256);
    resources("bias_gelu_dropout", bias_gelu_dropout, 256);
}
