// Sums: a tree in shared memory, shuffles with a grid-stride loop, and the place of the greatest element.
#include "bench.cuh"

template <unsigned THREADS>
__global__ void reduce_tree(const float* in, float* out, unsigned n) {
    __shared__ float data[THREADS];
    unsigned tid = threadIdx.x, i = blockIdx.x * (THREADS * 2) + tid;
    float sum = 0;
    while (i < n) {
        sum += in[i];
        if (i + THREADS < n) sum += in[i + THREADS];
        i += THREADS * 2 * gridDim.x;
    }
    data[tid] = sum;
    __syncthreads();
    for (unsigned s = THREADS / 2; s > 0; s >>= 1) {
        if (tid < s) data[tid] += data[tid + s];
        __syncthreads();
    }
    if (tid == 0) atomicAdd(out, data[0]);
}

__inline__ __device__ float warp_sum(float v) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
    return v;
}

__global__ void reduce_shuffle(const float4* __restrict__ in, float* __restrict__ out, int n) {
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        float4 v = in[i];
        sum += v.x + v.y + v.z + v.w;
    }
    sum = warp_sum(sum);
    __shared__ float partial[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    sum = threadIdx.x < blockDim.x / warpSize ? partial[lane] : 0;
    if (warp == 0) sum = warp_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

struct Best {
    float value;
    int index;
};

__device__ Best better(Best a, Best b) { return a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b; }

__global__ void reduce_argmax(const float* in, Best* out, int columns) {
    const float* row = in + (size_t)blockIdx.x * columns;
    Best best{-INFINITY, -1};
    for (int i = threadIdx.x; i < columns; i += blockDim.x) best = better(best, Best{row[i], i});
    for (int mask = 16; mask > 0; mask >>= 1) {
        Best other{__shfl_xor_sync(~0u, best.value, mask), __shfl_xor_sync(~0u, best.index, mask)};
        best = better(best, other);
    }
    __shared__ Best warps[32];
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x / 32; i++) best = better(best, warps[i]);
        out[blockIdx.x] = best;
    }
}

int main() {
    int n = 1 << 24;
    Random random;
    Array<float> in(n, [&](size_t) { return random.uniform(); });
    Array<float> out(1);
    double want = 0;
    for (float v : in.host) want += v;
    auto clear = [&] { out.clear(); };
    auto check = [&] { return close(out.down()[0], want, 1e-4); };
    bench("reduce_tree", [&] { reduce_tree<256><<<132 * 8, 256>>>(in, out, n - 3); }, check, clear);
    bench("reduce_shuffle", [&] { reduce_shuffle<<<132 * 8, 256>>>((const float4*)in.device, out, n / 4); }, check, clear);
    int columns = 5000, rows = 3000;
    Array<Best> best(rows);
    bench("reduce_argmax", [&] { reduce_argmax<<<rows, 256>>>(in, best, columns); }, [&] {
        auto got = best.down();
        return check_samples(rows, rows, [&](size_t r) {
            auto row = in.host.begin() + r * columns;
            return got[r].index == std::max_element(row, row + columns) - row;
        });
    });
    resources("reduce_tree", reduce_tree<256>, 256);
    resources("reduce_shuffle", reduce_shuffle, 256);
    resources("reduce_argmax", reduce_argmax, 256);
}
