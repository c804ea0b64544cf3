// Bitonic sort: rows of 1024 in shared memory, and the passes of a longer array in global memory.
#include "bench.cuh"

__device__ inline void compare(uint32_t& a, uint32_t& b, bool up) {
    if ((a > b) == up) {
        uint32_t t = a;
        a = b;
        b = t;
    }
}

__global__ void bitonic_shared(uint32_t* keys, int length) {
    extern __shared__ uint32_t s[];
    uint32_t* row = keys + (size_t)blockIdx.x * length;
    for (int i = threadIdx.x; i < length; i += blockDim.x) s[i] = row[i];
    for (int size = 2; size <= length; size <<= 1)
        for (int stride = size / 2; stride > 0; stride >>= 1) {
            __syncthreads();
            for (int t = threadIdx.x; t < length / 2; t += blockDim.x) {
                int at = 2 * t - (t & (stride - 1));
                compare(s[at], s[at + stride], (at & size) == 0);
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < length; i += blockDim.x) row[i] = s[i];
}

__global__ void bitonic_pass(uint32_t* keys, int size, int stride) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int at = 2 * t - (t & (stride - 1));
    uint32_t a = keys[at], b = keys[at + stride];
    bool up = (at & size) == 0;
    if ((a > b) == up) {
        keys[at] = b;
        keys[at + stride] = a;
    }
}

int main() {
    int length = 1024, n = 1 << 20;
    Random random;
    Array<uint32_t> input(n, [&](size_t) { return random.next(); });
    Array<uint32_t> keys(n);
    auto reset = [&] { CUDA(cudaMemcpy(keys, input, input.bytes(), cudaMemcpyDeviceToDevice)); };
    auto check = [&](int run) {
        auto got = keys.down(), want = input.host;
        for (int i = 0; i < n; i += run) std::sort(want.begin() + i, want.begin() + i + run);
        return got == want;
    };
    bench("bitonic_shared", [&] { bitonic_shared<<<n / length, 512, length * 4>>>(keys, length); }, [&] { return check(length); }, reset);
    bench("bitonic_global", [&] {
        for (int size = 2; size <= n; size *= 2)
            for (int stride = size / 2; stride > 0; stride /= 2) bitonic_pass<<<n / 2 / 256, 256>>>(keys, size, stride);
    }, [&] { return check(n); }, reset);
    resources("bitonic_shared", bitonic_shared, 512, length * 4);
    resources("bitonic_pass", bitonic_pass, 256);
}
