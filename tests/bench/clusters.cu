// Clusters of blocks: a histogram spread over the shared memory of four blocks, and a row's softmax over two.
#include <cooperative_groups.h>

#include "bench.cuh"

namespace cg = cooperative_groups;

constexpr int RANKS = 4, BINS = 4096, HERE = BINS / RANKS;

__global__ void __cluster_dims__(RANKS) cluster_histogram(const uint32_t* __restrict__ in, unsigned* __restrict__ bins, int n) {
    __shared__ unsigned local[HERE];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < HERE; i += blockDim.x) local[i] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint32_t bin = in[i] % BINS;
        unsigned* remote = cluster.map_shared_rank(local, bin / HERE);
        atomicAdd(remote + bin % HERE, 1u);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < HERE; i += blockDim.x) atomicAdd(&bins[cluster.block_rank() * HERE + i], local[i]);
}

__device__ float block_max(float v, float* shared) {
    for (int d = 16; d > 0; d >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; w++) v = fmaxf(v, shared[w]);
    return v;
}

__global__ void __cluster_dims__(2) cluster_normalize(const float* in, float* out, int columns) {
    __shared__ float warps[32], top;
    cg::cluster_group cluster = cg::this_cluster();
    int row = blockIdx.x / 2, half = columns / 2;
    const float* x = in + (size_t)row * columns + cluster.block_rank() * half;
    float best = 0;
    for (int i = threadIdx.x; i < half; i += blockDim.x) best = fmaxf(best, fabsf(x[i]));
    best = block_max(best, warps);
    if (threadIdx.x == 0) top = best;
    cluster.sync();
    float other = *cluster.map_shared_rank(&top, cluster.block_rank() ^ 1);
    float scale = 1.0f / fmaxf(best, other);
    float* y = out + (size_t)row * columns + cluster.block_rank() * half;
    for (int i = threadIdx.x; i < half; i += blockDim.x) y[i] = x[i] * scale;
    cluster.sync();
}

int main() {
    int n = 1 << 22;
    Random random;
    Array<uint32_t> in(n, [&](size_t) { return random.next(); });
    Array<unsigned> bins(BINS);
    bench("cluster_histogram", [&] { cluster_histogram<<<132 * 4, 256>>>(in, bins, n); }, [&] {
        std::vector<unsigned> want(BINS);
        for (uint32_t v : in.host) want[v % BINS]++;
        return bins.down() == want;
    }, [&] { bins.clear(); });
    int rows = 2048, columns = 4096;
    Array<float> x((size_t)rows * columns, [&](size_t) { return random.uniform(-3, 3); }), y(x.size());
    bench("cluster_normalize", [&] { cluster_normalize<<<rows * 2, 256>>>(x, y, columns); }, [&] {
        auto got = y.down();
        return check_samples(got.size(), 1000, [&](size_t i) {
            float top = 0;
            for (int j = 0; j < columns; j++) top = std::max(top, fabsf(x[i / columns * columns + j]));
            return close(got[i], x[i] / top, 1e-5, 0.1);
        });
    });
}
