// Inclusive prefix sums and running maxima of a block: shuffles inside each warp, one warp scans the warps' totals.
#include "check.cuh"

const int BLOCK = 1024;

template <typename T, typename Op>
__device__ T warp_scan(T v, Op op) {
    int lane = threadIdx.x % 32;
    for (int d = 1; d < 32; d *= 2) {
        T other = __shfl_up_sync(0xffffffff, v, d);
        if (lane >= d) v = op(other, v);
    }
    return v;
}

template <typename T, typename Op>
__device__ T block_scan(T v, T* totals, Op op) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    v = warp_scan(v, op);
    if (lane == 31) totals[warp] = v;
    __syncthreads();
    if (warp == 0) totals[lane] = warp_scan(totals[lane], op);
    __syncthreads();
    return warp == 0 ? v : op(totals[warp - 1], v);
}

struct Plus {
    __device__ double operator()(double a, double b) const { return a + b; }
};
struct Later {
    __device__ int operator()(int a, int b) const { return max(a, b); }
};

__global__ void scan(const int* in, double* sums, int* maxima) {
    __shared__ double sum_totals[32];
    __shared__ int max_totals[32];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    sums[i] = block_scan((double)in[i], sum_totals, Plus());
    maxima[i] = block_scan(in[i], max_totals, Later());
}

int main() {
    const int n = 16 * BLOCK;
    Buffer<int> in(n), maxima(n);
    Buffer<double> sums(n);
    Random random;
    for (int i = 0; i < n; i++) in[i] = (int)(random.below(1000) + i % BLOCK) - 700;
    in.up();
    scan<<<n / BLOCK, BLOCK>>>(in.device, sums.device, maxima.device);
    sums.down(), maxima.down();
    double sum = 0;
    int most = 0;
    for (int i = 0; i < n; i++) {
        bool first = i % BLOCK == 0;
        sum = first ? in[i] : sum + in[i];
        most = first || in[i] > most ? in[i] : most;
        same("sum", i, sums[i], sum);
        same("max", i, maxima[i], most);
    }
    return verdict();
}
