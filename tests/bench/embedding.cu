// Rows of a table gathered by indices, their gradients added by atomics, and the loss of a classifier.
#include <cuda_fp16.h>

#include "bench.cuh"

__global__ void gather_rows(const int* __restrict__ tokens, const half* __restrict__ table, const half* __restrict__ positions, half* __restrict__ out, int count, int length, int dim) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, vectors = dim / 8;
    if (i >= count * vectors) return;
    int token = i / vectors, v = i % vectors;
    uint4 a = *(const uint4*)(table + (size_t)tokens[token] * dim + v * 8), b = *(const uint4*)(positions + (size_t)(token % length) * dim + v * 8), r;
    half2 *pa = (half2*)&a, *pb = (half2*)&b, *pr = (half2*)&r;
#pragma unroll
    for (int j = 0; j < 4; j++) pr[j] = __hadd2(pa[j], pb[j]);
    *(uint4*)(out + (size_t)token * dim + v * 8) = r;
}

__global__ void scatter_add(const int* tokens, const float* slope, float* table, int count, int dim) {
    for (int token = blockIdx.x; token < count; token += gridDim.x) {
        float* row = table + (size_t)tokens[token] * dim;
        for (int d = threadIdx.x; d < dim; d += blockDim.x) atomicAdd(&row[d], slope[(size_t)token * dim + d]);
    }
}

__global__ void cross_entropy(const half* __restrict__ logits, const int* __restrict__ target, float* __restrict__ loss, half* __restrict__ slope, int classes) {
    __shared__ float shared[32];
    const half* row = logits + (size_t)blockIdx.x * classes;
    auto reduce = [&](float v, bool is_max) {
        for (int d = 16; d > 0; d >>= 1) {
            float o = __shfl_xor_sync(~0u, v, d);
            v = is_max ? fmaxf(v, o) : v + o;
        }
        __syncthreads();
        if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
        __syncthreads();
        v = shared[0];
        for (int w = 1; w < blockDim.x / 32; w++) v = is_max ? fmaxf(v, shared[w]) : v + shared[w];
        return v;
    };
    float top = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < classes; i += blockDim.x) top = fmaxf(top, __half2float(row[i]));
    top = reduce(top, true);
    for (int i = threadIdx.x; i < classes; i += blockDim.x) sum += expf(__half2float(row[i]) - top);
    sum = reduce(sum, false);
    int want = target[blockIdx.x];
    for (int i = threadIdx.x; i < classes; i += blockDim.x) {
        float p = expf(__half2float(row[i]) - top) / sum;
        slope[(size_t)blockIdx.x * classes + i] = __float2half(p - (i == want ? 1.0f : 0.0f));
    }
    if (threadIdx.x == 0) loss[blockIdx.x] = logf(sum) + top - __half2float(row[want]);
}

int main() {
    int rows = 16384, dim = 512, count = 8192, length = 1024;
    Random random;
    auto halves = [&](size_t) { return __float2half(random.uniform(-1, 1)); };
    Array<half> table((size_t)rows * dim, halves), positions((size_t)length * dim, halves), out((size_t)count * dim);
    Array<int> tokens(count, [&](size_t) { return (int)random.below(rows); });
    auto f = [](half h) { return (double)__half2float(h); };
    bench("gather_rows", [&] { gather_rows<<<blocks_for((size_t)count * dim / 8, 256), 256>>>(tokens, table, positions, out, count, length, dim); }, [&] {
        auto got = out.down();
        return check_samples(got.size(), 20000, [&](size_t i) {
            size_t t = i / dim, d = i % dim;
            return close(f(got[i]), f(table[(size_t)tokens[t] * dim + d]) + f(positions[t % length * dim + d]), 1e-3, 1);
        });
    });
    Array<float> slope((size_t)count * dim, [&](size_t) { return random.uniform(-1, 1); }), sums((size_t)rows * dim);
    bench("scatter_add", [&] { scatter_add<<<132 * 8, 256>>>(tokens, slope, sums, count, dim); }, [&] {
        double a = 0, b = 0;
        for (float v : slope.host) a += v;
        for (float v : sums.down()) b += v;
        return fabs(a - b) < 1;
    }, [&] { sums.clear(); });
    int classes = 16000, samples = 512;
    Array<half> logits((size_t)samples * classes, [&](size_t) { return __float2half(random.uniform(-4, 4)); }), gradient(logits.size());
    Array<int> target(samples, [&](size_t) { return (int)random.below(classes); });
    Array<float> loss(samples);
    bench("cross_entropy", [&] { cross_entropy<<<samples, 512>>>(logits, target, loss, gradient, classes); }, [&] {
        auto got = loss.down();
        return check_samples(samples, 50, [&](size_t s) {
            double sum = 0;
            for (int i = 0; i < classes; i++) sum += exp(f(logits[s * classes + i]));
            return close(got[s], log(sum) - f(logits[s * classes + target[s]]), 1e-4);
        });
    });
    resources("gather_rows", gather_rows, 256);
    resources("scatter_add", scatter_add, 256);
    resources("cross_entropy", cross_entropy, 512);
}
