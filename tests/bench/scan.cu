// Inclusive prefix sums in three kernels: of each block (shuffles), of the blocks' sums, and the addition of them.
#include "bench.cuh"

constexpr int THREADS = 256, PER = 4;

template <typename T>
__device__ T scan_warp(T v) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        T other = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d) v += other;
    }
    return v;
}

/// The sum of all threads up to and with this one; `total` is that of the block.
template <typename T>
__device__ T scan_block(T v, T& total) {
    __shared__ T warps[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    T sum = scan_warp(v);
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        T w = lane < (blockDim.x >> 5) ? warps[lane] : T(0);
        warps[lane] = scan_warp(w);
    }
    __syncthreads();
    if (warp > 0) sum += warps[warp - 1];
    total = warps[(blockDim.x >> 5) - 1];
    return sum;
}

__global__ void scan_tiles(const int* __restrict__ in, int* __restrict__ out, int* __restrict__ sums, int n) {
    int base = (blockIdx.x * THREADS + threadIdx.x) * PER;
    int v[PER], total;
#pragma unroll
    for (int i = 0; i < PER; i++) v[i] = base + i < n ? in[base + i] : 0;
#pragma unroll
    for (int i = 1; i < PER; i++) v[i] += v[i - 1];
    int before = scan_block(v[PER - 1], total) - v[PER - 1];
#pragma unroll
    for (int i = 0; i < PER; i++)
        if (base + i < n) out[base + i] = v[i] + before;
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void scan_sums(int* sums, int n) {
    int carry = 0;
    for (int base = 0; base < n; base += blockDim.x) {
        int i = base + threadIdx.x, total;
        int v = i < n ? sums[i] : 0;
        int sum = scan_block(v, total);
        __syncthreads();
        if (i < n) sums[i] = carry + sum - v;
        carry += total;
    }
}

__global__ void add_sums(int* out, const int* sums, int n) {
    int base = blockIdx.x * THREADS * PER;
    int add = sums[blockIdx.x];
    for (int i = threadIdx.x; i < THREADS * PER; i += THREADS)
        if (base + i < n) out[base + i] += add;
}

int main() {
    int n = (1 << 23) - 77, tiles = blocks_for(n, THREADS * PER);
    Random random;
    Array<int> in(n, [&](size_t) { return (int)random.below(100); });
    Array<int> out(n), sums(tiles);
    bench("scan", [&] {
        scan_tiles<<<tiles, THREADS>>>(in, out, sums, n);
        scan_sums<<<1, 1024>>>(sums, tiles);
        add_sums<<<tiles, THREADS>>>(out, sums, n);
    }, [&] {
        auto got = out.down();
        int sum = 0;
        for (int i = 0; i < n; i++)
            if (got[i] != (sum += in[i])) return false;
        return true;
    });
    bench("scan_tiles", [&] { scan_tiles<<<tiles, THREADS>>>(in, out, sums, n); }, [&] { return out.down()[1] == in[0] + in[1]; });
    resources("scan_tiles", scan_tiles, THREADS);
    resources("scan_sums", scan_sums, 1024);
}
