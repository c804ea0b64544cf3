// Attention of one new token against a cache of keys and values: a warp for a slice of the cache, online softmax.
#include <cuda_fp16.h>

#include "bench.cuh"

constexpr int D = 128, WARPS = 8;

__global__ __launch_bounds__(WARPS * 32) void attention_decode(const half* __restrict__ q, const half* __restrict__ keys,
                                                               const half* __restrict__ values, const int* __restrict__ lengths,
                                                               float* __restrict__ out, int heads, int capacity, float scale) {
    int head = blockIdx.x, sequence = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int length = lengths[sequence];
    size_t base = ((size_t)sequence * heads + head) * capacity * D;
    float query[4], sum[4] = {}, top = -INFINITY, total = 0;
    const half2* qp = (const half2*)(q + ((size_t)sequence * heads + head) * D) + lane * 2;
    float2 q0 = __half22float2(qp[0]), q1 = __half22float2(qp[1]);
    query[0] = q0.x * scale, query[1] = q0.y * scale, query[2] = q1.x * scale, query[3] = q1.y * scale;
    for (int t = warp; t < length; t += WARPS) {
        uint2 kv = *(const uint2*)(keys + base + (size_t)t * D + lane * 4);
        float2 k0 = __half22float2(*(half2*)&kv.x), k1 = __half22float2(*(half2*)&kv.y);
        float score = query[0] * k0.x + query[1] * k0.y + query[2] * k1.x + query[3] * k1.y;
        for (int d = 16; d > 0; d >>= 1) score += __shfl_xor_sync(~0u, score, d);
        float higher = fmaxf(top, score), old = __expf(top - higher), weight = __expf(score - higher);
        uint2 vv = *(const uint2*)(values + base + (size_t)t * D + lane * 4);
        float2 v0 = __half22float2(*(half2*)&vv.x), v1 = __half22float2(*(half2*)&vv.y);
        sum[0] = sum[0] * old + weight * v0.x;
        sum[1] = sum[1] * old + weight * v0.y;
        sum[2] = sum[2] * old + weight * v1.x;
        sum[3] = sum[3] * old + weight * v1.y;
        total = total * old + weight;
        top = higher;
    }
    __shared__ float tops[WARPS], totals[WARPS], sums[WARPS][D];
    if (lane == 0) tops[warp] = top, totals[warp] = total;
    *(float4*)&sums[warp][lane * 4] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    __syncthreads();
    if (threadIdx.x < D) {
        float highest = tops[0], result = 0, all = 0;
        for (int w = 1; w < WARPS; w++) highest = fmaxf(highest, tops[w]);
        for (int w = 0; w < WARPS; w++) {
            float factor = __expf(tops[w] - highest);
            result += sums[w][threadIdx.x] * factor;
            all += totals[w] * factor;
        }
        out[((size_t)sequence * heads + head) * D + threadIdx.x] = result / all;
    }
}

int main() {
    int sequences = 8, heads = 16, capacity = 2048;
    Random random;
    auto halves = [&](size_t) { return __float2half(random.uniform(-1, 1)); };
    Array<half> q(sequences * heads * D, halves), keys((size_t)sequences * heads * capacity * D, halves), values(keys.size(), halves);
    Array<int> lengths(sequences, [](size_t i) { return 2048 - (int)i * 37; });
    Array<float> out(sequences * heads * D);
    float scale = 1 / sqrtf(D);
    bench("attention_decode", [&] {
        attention_decode<<<dim3(heads, sequences), WARPS * 32>>>(q, keys, values, lengths, out, heads, capacity, scale);
    }, [&] {
        auto got = out.down();
        auto f = [](half h) { return (double)__half2float(h); };
        return check_samples(got.size(), 60, [&](size_t i) {
            size_t row = i / D, base = row * capacity * D;
            double total = 0, sum = 0;
            for (int t = 0; t < lengths[row / heads]; t++) {
                double score = 0;
                for (int d = 0; d < D; d++) score += f(q[row * D + d]) * f(keys[base + (size_t)t * D + d]);
                double weight = exp(score * scale);
                total += weight;
                sum += weight * f(values[base + (size_t)t * D + i % D]);
            }
            return close(got[i], sum / total, 1e-3, 0.1);
        });
    });
    resources("attention_decode", attention_decode, WARPS * 32);
}
