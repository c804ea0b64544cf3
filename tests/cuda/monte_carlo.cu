// Pi by random points: integer arithmetic throughout, so that the host gets the very same count.
#include "check.cuh"

__host__ __device__ uint64_t next_random(uint64_t& state) {   // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 2685821657736338717ull;
}

__host__ __device__ unsigned inside(int thread, int points) {
    uint64_t state = (thread + 1) * 0x9e3779b97f4a7c15ull;
    unsigned count = 0;
    for (int i = 0; i < points; i++) {
        uint64_t v = next_random(state), x = v >> 33, y = v >> 2 & 0x7fffffff;
        count += x * x + y * y < 1ull << 62;
    }
    return count;
}

__global__ void estimate(int points, unsigned* counts, unsigned long long* total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    counts[i] = inside(i, points);
    unsigned sum = counts[i];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
    if (threadIdx.x % 32 == 0) atomicAdd(total, sum);
}

int main() {
    const int n = 4096, points = 1000;
    Buffer<unsigned> counts(n);
    Buffer<unsigned long long> total(1);
    estimate<<<n / 256, 256>>>(points, counts.device, total.device);
    counts.down(), total.down();
    unsigned long long want = 0;
    for (int i = 0; i < n; i++) {
        unsigned count = inside(i, points);
        same("count", i, counts[i], count);
        want += count;
    }
    same("total", 0, total[0], want);
    near("pi", 0, 4.0 * total[0] / n / points, 3.14159265, 1e-3);
    return verdict();
}
