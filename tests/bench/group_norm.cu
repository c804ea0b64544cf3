// Group norm with SiLU over NCHW, and batch norm's statistics by Welford's method.
#include "bench.cuh"

__global__ void group_norm_silu(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
                                float* __restrict__ y, int channels, int groups, int area, float epsilon) {
    int per_group = channels / groups, count = per_group * area;
    int image = blockIdx.x / groups, group = blockIdx.x % groups;
    size_t base = ((size_t)image * channels + group * per_group) * area;
    const float4* in = reinterpret_cast<const float4*>(x + base);
    float sum = 0, square = 0;
    for (int i = threadIdx.x; i < count / 4; i += blockDim.x) {
        float4 v = in[i];
        sum += v.x + v.y + v.z + v.w;
        square += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    __shared__ float sums[2][32];
    for (int d = 16; d > 0; d >>= 1) {
        sum += __shfl_down_sync(~0u, sum, d);
        square += __shfl_down_sync(~0u, square, d);
    }
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0) sums[0][warp] = sum, sums[1][warp] = square;
    __syncthreads();
    sum = square = 0;
    for (int w = 0; w < blockDim.x / 32; w++) sum += sums[0][w], square += sums[1][w];
    float mean = sum / count, inverse = rsqrtf(square / count - mean * mean + epsilon);
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        int channel = group * per_group + i / area;
        float v = (x[base + i] - mean) * inverse * gamma[channel] + beta[channel];
        y[base + i] = v / (1.0f + __expf(-v));
    }
}

struct Moments {
    float mean, m2, count;
};

__device__ Moments combine(Moments a, Moments b) {
    float count = a.count + b.count;
    if (count == 0) return a;
    float delta = b.mean - a.mean;
    return {a.mean + delta * b.count / count, a.m2 + b.m2 + delta * delta * a.count * b.count / count, count};
}

__global__ void batch_norm_statistics(const float* x, float2* out, int images, int channels, int area) {
    int channel = blockIdx.x;
    Moments m{0, 0, 0};
    for (int image = 0; image < images; image++)
        for (int i = threadIdx.x; i < area; i += blockDim.x) {
            float v = x[((size_t)image * channels + channel) * area + i];
            m.count += 1;
            float delta = v - m.mean;
            m.mean += delta / m.count;
            m.m2 += delta * (v - m.mean);
        }
    for (int d = 16; d > 0; d >>= 1) {
        Moments other{__shfl_xor_sync(~0u, m.mean, d), __shfl_xor_sync(~0u, m.m2, d), __shfl_xor_sync(~0u, m.count, d)};
        m = combine(m, other);
    }
    __shared__ Moments warps[32];
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = m;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; w++) m = combine(m, warps[w]);
        out[channel] = make_float2(m.mean, m.m2 / m.count);
    }
}

int main() {
    int images = 16, channels = 256, groups = 32, area = 48 * 48;
    Random random;
    Array<float> x((size_t)images * channels * area, [&](size_t) { return random.uniform(-2, 3); }), y(x.size());
    Array<float> gamma(channels, [&](size_t) { return random.uniform(); }), beta(channels, [&](size_t) { return random.uniform(); });
    Array<float2> statistics(channels);
    bench("group_norm_silu", [&] { group_norm_silu<<<images * groups, 512>>>(x, gamma, beta, y, channels, groups, area, 1e-5f); }, [&] {
        auto got = y.down();
        int count = channels / groups * area;
        return check_samples(got.size(), 50, [&](size_t i) {
            size_t base = i / count * count;
            double sum = 0, square = 0;
            for (int j = 0; j < count; j++) sum += x[base + j], square += (double)x[base + j] * x[base + j];
            double mean = sum / count, v = (x[i] - mean) / sqrt(square / count - mean * mean + 1e-5);
            size_t channel = i / area % channels;
            v = v * gamma[channel] + beta[channel];
            return close(got[i], v / (1 + exp(-v)), 1e-3, 0.1);
        });
    });
    bench("batch_norm_statistics", [&] { batch_norm_statistics<<<channels, 512>>>(x, statistics, images, channels, area); }, [&] {
        auto got = statistics.down();
        return check_samples(channels, channels, [&](size_t c) { return close(got[c].x, 0.5, 0.1) && close(got[c].y, 25.0 / 12, 0.05); });
    });
    resources("group_norm_silu", group_norm_silu, 512);
    resources("batch_norm_statistics", batch_norm_statistics, 512);
}
