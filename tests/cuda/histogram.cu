// Histogram of bytes: atomics on shared memory per block, then on global memory; and one with global atomics alone.
#include "check.cuh"

__global__ void by_blocks(const uchar4* in, int n, unsigned* bins) {
    __shared__ unsigned mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uchar4 v = in[i];
        atomicAdd(&mine[v.x], 1);
        atomicAdd(&mine[v.y], 1);
        atomicAdd(&mine[v.z], 1);
        atomicAdd(&mine[v.w], 1);
    }
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

__global__ void directly(const unsigned char* in, int n, unsigned* bins) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[in[i]], 1);
}

// The last thread to arrive at a bin in shared memory sees the bin's full count.
__global__ void ranks(const unsigned char* in, unsigned* rank_sums) {
    __shared__ unsigned mine[256];
    if (threadIdx.x < 256) mine[threadIdx.x] = 0;
    __syncthreads();
    unsigned rank = atomicAdd(&mine[in[threadIdx.x]], 1);
    atomicAdd(&rank_sums[in[threadIdx.x]], rank);
}

int main() {
    const int n = 1 << 20;
    Buffer<unsigned char> in(n);
    Buffer<unsigned> shared(256), global(256), sums(256);
    Random random;
    for (unsigned char& v : in.host) v = random.below(256) & random.below(256);
    in.up();
    by_blocks<<<64, 256>>>((uchar4*)in.device, n / 4, shared.device);
    directly<<<n / 256, 256>>>(in.device, n, global.device);
    ranks<<<1, 1024>>>(in.device, sums.device);
    shared.down(), global.down(), sums.down();
    std::vector<unsigned> want(256, 0), first(256, 0);
    for (int i = 0; i < n; i++) {
        want[in[i]]++;
        if (i < 1024) first[in[i]]++;
    }
    for (int b = 0; b < 256; b++) {
        same("by blocks", b, shared[b], want[b]);
        same("directly", b, global[b], want[b]);
        same("ranks", b, sums[b], first[b] * (first[b] - 1) / 2);
    }
    return verdict();
}
