// Softmax of rows: a block for a row in three passes, and a warp for a row in one pass with a running maximum.
#include "bench.cuh"

template <typename Op>
__device__ float block_reduce(float v, Op op, float neutral) {
    __shared__ float warps[32];
    for (int d = 16; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(~0u, v, d));
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : neutral;
    for (int d = 16; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(~0u, v, d));
    return v;
}

__global__ void softmax_block(const float* in, float* out, int columns) {
    const float* x = in + (size_t)blockIdx.x * columns;
    float* y = out + (size_t)blockIdx.x * columns;
    float top = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, x[i]);
    top = block_reduce(top, [](float a, float b) { return fmaxf(a, b); }, -INFINITY);
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(x[i] - top);
    sum = block_reduce(sum, [](float a, float b) { return a + b; }, 0.0f);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) y[i] = expf(x[i] - top) / sum;
}

__global__ void softmax_online(const float* __restrict__ in, float* __restrict__ out, int rows, int columns) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* x = in + (size_t)row * columns;
    float top = -INFINITY, sum = 0;
    for (int i = lane; i < columns; i += 32) {
        float v = x[i], higher = fmaxf(top, v);
        sum = sum * __expf(top - higher) + __expf(v - higher);
        top = higher;
    }
    for (int d = 16; d > 0; d >>= 1) {
        float other_top = __shfl_xor_sync(~0u, top, d), other_sum = __shfl_xor_sync(~0u, sum, d);
        float higher = fmaxf(top, other_top);
        sum = sum * __expf(top - higher) + other_sum * __expf(other_top - higher);
        top = higher;
    }
    float scale = 1.0f / sum;
    for (int i = lane; i < columns; i += 32) out[(size_t)row * columns + i] = __expf(x[i] - top) * scale;
}

int main() {
    int rows = 4096, columns = 2000;
    Random random;
    Array<float> in(rows * columns, [&](size_t) { return random.uniform(-4, 4); }), out(rows * columns);
    auto check = [&] {
        auto got = out.down();
        return check_samples(got.size(), 300, [&](size_t i) {
            double sum = 0;
            for (int j = 0; j < columns; j++) sum += exp(in[i / columns * columns + j]);
            return close(got[i], exp(in[i]) / sum, 1e-4);
        });
    };
    bench("softmax_block", [&] { softmax_block<<<rows, 256>>>(in, out, columns); }, check);
    bench("softmax_online", [&] { softmax_online<<<rows / 8, 256>>>(in, out, rows, columns); }, check);
    resources("softmax_block", softmax_block, 256);
    resources("softmax_online", softmax_online, 256);
}
