// Layer norm and its gradient by the input, of half precision rows; RMS norm with a residual sum.
#include <cuda_fp16.h>

#include "bench.cuh"

__device__ inline float2 warp_sum2(float2 v) {
    for (int d = 16; d > 0; d >>= 1) {
        v.x += __shfl_xor_sync(~0u, v.x, d);
        v.y += __shfl_xor_sync(~0u, v.y, d);
    }
    return v;
}

__device__ float2 block_sum2(float2 v) {
    __shared__ float2 warps[32];
    v = warp_sum2(v);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : make_float2(0, 0);
    return warp_sum2(v);
}

__global__ void layer_norm(const half2* __restrict__ x, const half2* __restrict__ gamma, const half2* __restrict__ beta,
                           half2* __restrict__ y, float2* __restrict__ saved, int pairs, float epsilon) {
    const half2* row = x + (size_t)blockIdx.x * pairs;
    float2 sums = make_float2(0, 0);
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        float2 v = __half22float2(row[i]);
        sums.x += v.x + v.y;
        sums.y += v.x * v.x + v.y * v.y;
    }
    sums = block_sum2(sums);
    float mean = sums.x / (2 * pairs), inverse = rsqrtf(sums.y / (2 * pairs) - mean * mean + epsilon);
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        float2 v = __half22float2(row[i]), g = __half22float2(gamma[i]), b = __half22float2(beta[i]);
        y[(size_t)blockIdx.x * pairs + i] = __floats2half2_rn((v.x - mean) * inverse * g.x + b.x, (v.y - mean) * inverse * g.y + b.y);
    }
    if (threadIdx.x == 0) saved[blockIdx.x] = make_float2(mean, inverse);
}

__global__ void layer_norm_backward(const half* x, const half* dy, const half* gamma, const float2* saved, half* dx, int columns) {
    size_t base = (size_t)blockIdx.x * columns;
    float2 s = saved[blockIdx.x], sums = make_float2(0, 0);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        float normal = (__half2float(x[base + i]) - s.x) * s.y, d = __half2float(dy[base + i]) * __half2float(gamma[i]);
        sums.x += d;
        sums.y += d * normal;
    }
    sums = block_sum2(sums);
    sums.x /= columns;
    sums.y /= columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        float normal = (__half2float(x[base + i]) - s.x) * s.y, d = __half2float(dy[base + i]) * __half2float(gamma[i]);
        dx[base + i] = __float2half(s.y * (d - sums.x - normal * sums.y));
    }
}

/// A row of at most 8 * 8 * blockDim.x halves stays in registers.
__global__ __launch_bounds__(256) void rms_norm_residual(const uint4* __restrict__ x, uint4* __restrict__ residual, const uint4* __restrict__ weight,
                                                         uint4* __restrict__ y, int vectors, float epsilon) {
    uint4 held[2];
    size_t base = (size_t)blockIdx.x * vectors;
    float square = 0;
#pragma unroll
    for (int v = 0; v < 2; v++) {
        int i = threadIdx.x + v * 256;
        if (i >= vectors) continue;
        uint4 a = x[base + i], b = residual[base + i];
        half2 *ha = (half2*)&a, *hb = (half2*)&b;
        for (int j = 0; j < 4; j++) {
            hb[j] = __hadd2(ha[j], hb[j]);
            float2 f = __half22float2(hb[j]);
            square += f.x * f.x + f.y * f.y;
        }
        held[v] = b;
        residual[base + i] = b;
    }
    square = block_sum2(make_float2(square, 0)).x;
    float scale = rsqrtf(square / (8 * vectors) + epsilon);
#pragma unroll
    for (int v = 0; v < 2; v++) {
        int i = threadIdx.x + v * 256;
        if (i >= vectors) continue;
        uint4 w = weight[i], out;
        for (int j = 0; j < 4; j++) {
            float2 f = __half22float2(((half2*)&held[v])[j]), g = __half22float2(((half2*)&w)[j]);
            ((half2*)&out)[j] = __floats2half2_rn(f.x * scale * g.x, f.y * scale * g.y);
        }
        y[base + i] = out;
    }
}

int main() {
    int rows = 4096, columns = 4096;
    Random random;
    auto halves = [&](size_t) { return __float2half(random.uniform(-1, 1)); };
    Array<half> x((size_t)rows * columns, halves), dy((size_t)rows * columns, halves), gamma(columns, halves), beta(columns, halves);
    Array<half> y((size_t)rows * columns), dx((size_t)rows * columns), residual((size_t)rows * columns);
    Array<float2> saved(rows);
    auto f = [](half h) { return (double)__half2float(h); };
    std::vector<double> means(rows), inverses(rows);
    auto moments = [&](size_t r) {
        double sum = 0, square = 0;
        for (int i = 0; i < columns; i++) sum += f(x[r * columns + i]), square += f(x[r * columns + i]) * f(x[r * columns + i]);
        means[r] = sum / columns;
        inverses[r] = 1 / sqrt(square / columns - means[r] * means[r] + 1e-5);
    };
    bench("layer_norm", [&] {
        layer_norm<<<rows, 256>>>((half2*)x.device, (half2*)gamma.device, (half2*)beta.device, (half2*)y.device, saved, columns / 2, 1e-5f);
    }, [&] {
        auto got = y.down();
        return check_samples(got.size(), 300, [&](size_t i) {
            size_t r = i / columns, k = i % columns;
            moments(r);
            return close(f(got[i]), (f(x[i]) - means[r]) * inverses[r] * f(gamma[k]) + f(beta[k]), 2e-3, 1);
        });
    });
    bench("layer_norm_backward", [&] { layer_norm_backward<<<rows, 256>>>(x, dy, gamma, saved, dx, columns); }, [&] {
        auto got = dx.down();
        return check_samples(got.size(), 100, [&](size_t i) {
            size_t r = i / columns;
            moments(r);
            double a = 0, b = 0;
            auto normal = [&](size_t j) { return (f(x[r * columns + j]) - means[r]) * inverses[r]; };
            auto d = [&](size_t j) { return f(dy[r * columns + j]) * f(gamma[j]); };
            for (int j = 0; j < columns; j++) a += d(j), b += d(j) * normal(j);
            return close(f(got[i]), inverses[r] * (d(i % columns) - a / columns - normal(i % columns) * b / columns), 3e-3, 1);
        });
    });
    bench("rms_norm_residual", [&] {
        rms_norm_residual<<<rows, 256>>>((uint4*)x.device, (uint4*)residual.device, (uint4*)gamma.device, (uint4*)y.device, columns / 8, 1e-5f);
    }, [&] {
        auto got = y.down();
        return check_samples(got.size(), 200, [&](size_t i) {
            double square = 0;
            for (int j = 0; j < columns; j++) square += f(x[i / columns * columns + j]) * f(x[i / columns * columns + j]);
            return close(f(got[i]), f(x[i]) / sqrt(square / columns + 1e-5) * f(gamma[i % columns]), 3e-3, 1);
        });
    }, [&] { residual.clear(); });
    resources("layer_norm", layer_norm, 256);
    resources("layer_norm_backward", layer_norm_backward, 256);
    resources("rms_norm_residual", rms_norm_residual, 256);
}
