// Functions that stay functions: they allocate, print nothing, assert, take locks, call each other through pointers in
// constant and global memory, and pass large structures.
#include "check.cuh"
#include <cassert>

struct Big {
    double values[9];
    int tag;
};

__host__ __device__ __noinline__ Big rotate(Big in, int by) {
    Big out;
    for (int i = 0; i < 9; i++) out.values[i] = in.values[(i + by) % 9] + by;
    out.tag = in.tag + by;
    return out;
}

typedef int (*Step)(int, int);
__host__ __device__ int down(int n, int depth);
__host__ __device__ int half(int n, int depth);
__constant__ Step steps[2] = {half, down};
__device__ Step chosen = half;
static const Step host_steps[2] = {half, down};

__host__ __device__ Step step_of(int n) {
#ifdef __CUDA_ARCH__
    return steps[n & 1];
#else
    return host_steps[n & 1];
#endif
}
__host__ __device__ __noinline__ int down(int n, int depth) { return n <= 1 ? depth : step_of(3 * n + 1)(3 * n + 1, depth + 1); }
__host__ __device__ __noinline__ int half(int n, int depth) { return step_of(n / 2)(n / 2, depth + 1); }

__device__ __noinline__ int* list_of(int n) {
    int* list = (int*)malloc(n * sizeof(int));
    assert(list != nullptr);
    for (int i = 0; i < n; i++) list[i] = i * i;
    return list;
}
__device__ __noinline__ int sum_of(int* list, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += list[i];
    free(list);
    return sum;
}

__device__ __noinline__ bool try_lock(int* word) { return atomicCAS(word, 0, 1) == 0; }
__device__ __noinline__ void unlock(int* word) {
    __threadfence();
    atomicExch(word, 0);
}

__global__ void structures(Big* out) {
    int i = threadIdx.x;
    Big big;
    for (int k = 0; k < 9; k++) big.values[k] = i + k;
    big.tag = i;
    for (int k = 0; k < i % 5; k++) big = rotate(big, k);
    out[i] = big;
}

__global__ void recursion(int* out, int* from_global) {
    int i = threadIdx.x;
    out[i] = step_of(i + 1)(i + 1, 0);
    from_global[i] = chosen(2 * i + 2, 0);
}

__global__ void allocation(int* out) {
    int n = threadIdx.x % 7 + 1;
    out[threadIdx.x] = sum_of(list_of(n), n);
}

__global__ void locks(int* word, volatile int* count) {
    while (!try_lock(word)) {}
    __threadfence();
    *count = *count + 1;
    unlock(word);
}

int main() {
    const int n = 96;
    CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 64 << 10));   // the steps from 73 are 115
    Buffer<Big> bigs(n);
    Buffer<int> depths(n), more(n), sums(n), word(1), count(1);
    structures<<<1, n>>>(bigs.device);
    recursion<<<1, n>>>(depths.device, more.device);
    allocation<<<1, n>>>(sums.device);
    locks<<<8, n>>>(word.device, count.device);
    bigs.down(), depths.down(), more.down(), sums.down(), count.down();
    for (int i = 0; i < n; i++) {
        Big want;
        for (int k = 0; k < 9; k++) want.values[k] = i + k;
        want.tag = i;
        for (int k = 0; k < i % 5; k++) want = rotate(want, k);
        for (int k = 0; k < 9; k++) same("structure", i * 9 + k, bigs[i].values[k], want.values[k]);
        same("tag", i, bigs[i].tag, want.tag);
        same("depth", i, depths[i], step_of(i + 1)(i + 1, 0));
        same("from global", i, more[i], half(2 * i + 2, 0));
        int sum = 0;
        for (int k = 0; k < i % 7 + 1; k++) sum += k * k;
        same("sum", i, sums[i], sum);
    }
    same("held", 0, count[0], 8 * n);
    return verdict();
}
