// Recursive device functions: one chain, two calls a step, mutual recursion, and depth that differs between lanes.
#include "check.cuh"

__host__ __device__ __noinline__ unsigned long long factorial(unsigned n) { return n < 2 ? 1 : n * factorial(n - 1); }

__host__ __device__ __noinline__ unsigned fibonacci(unsigned n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__host__ __device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0) return n + 1;
    return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

__host__ __device__ bool is_odd(unsigned n);
__host__ __device__ __noinline__ bool is_even(unsigned n) { return n == 0 || is_odd(n - 1); }
__host__ __device__ __noinline__ bool is_odd(unsigned n) { return n != 0 && is_even(n - 1); }

// The array keeps a different frame alive at each depth.
__host__ __device__ __noinline__ unsigned walk(unsigned depth, unsigned seed) {
    unsigned frame[8];
    for (int i = 0; i < 8; i++) frame[i] = seed * (i + 1) + depth;
    unsigned below = depth == 0 ? 1 : walk(depth - 1, frame[seed & 7]);
    return below + frame[(below ^ depth) & 7];
}

__global__ void run(unsigned long long* factorials, unsigned* others) {
    unsigned i = threadIdx.x;
    factorials[i] = factorial(i % 21);
    others[5 * i] = fibonacci(i % 16);
    others[5 * i + 1] = ackermann(i % 3, i % 5);
    others[5 * i + 2] = is_even(i);
    others[5 * i + 3] = is_odd(i);
    others[5 * i + 4] = walk(i % 13, i);
}

int main() {
    const unsigned n = 64;
    CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 16384));
    Buffer<unsigned long long> factorials(n);
    Buffer<unsigned> others(5 * n);
    run<<<1, n>>>(factorials.device, others.device);
    factorials.down(), others.down();
    for (unsigned i = 0; i < n; i++) {
        same("factorial", i, factorials[i], factorial(i % 21));
        same("fibonacci", i, others[5 * i], fibonacci(i % 16));
        same("ackermann", i, others[5 * i + 1], ackermann(i % 3, i % 5));
        same("is_even", i, others[5 * i + 2], i % 2 == 0 ? 1u : 0u);
        same("is_odd", i, others[5 * i + 3], i % 2);
        same("walk", i, others[5 * i + 4], walk(i % 13, i));
    }
    return verdict();
}
