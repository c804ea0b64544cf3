// A program to be patched. The second kernel has many live registers and predicates, loops that the warp runs together,
// threads that part, and barriers: what a patch could destroy shows in its results.
#include <cstdio>

__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void busy(const float* a, float* c, int n, int rounds) {
    __shared__ float s[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x[16];
    for (int k = 0; k < 16; k++) x[k] = a[(i + k * 7) % n];
    for (int r = 0; r < rounds; r++) {
        s[threadIdx.x] = x[r & 15];
        __syncthreads();
        float y = s[(threadIdx.x + r) & 127];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++) x[k] = x[k] * 0.5f + y + k;
        if (threadIdx.x % 3 == r % 3) x[3] += a[(i * 3 + r) % n];
        else if (threadIdx.x & 4) x[5] -= a[(i + r) % n];
    }
    float t = 0;
#pragma unroll
    for (int k = 0; k < 16; k++) t += x[k];
    c[i] = t;
}

int main() {
    const int n = 4096;
    float *a, *b, *c;
    cudaMallocManaged(&a, 4 * n);
    cudaMallocManaged(&b, 4 * n);
    cudaMallocManaged(&c, 4 * n);
    for (int i = 0; i < n; i++) { a[i] = i * 0.25f; b[i] = i; c[i] = 0; }
    add<<<n / 128, 128>>>(a, b, c, n);
    cudaError_t error = cudaDeviceSynchronize();
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += c[i] != a[i] + b[i];
    printf("add: %s, %d wrong\n", cudaGetErrorString(error), wrong);
    busy<<<n / 128, 128>>>(a, c, n, 9);
    error = cudaDeviceSynchronize();
    unsigned long long hash = 1469598103934665603ull;
    for (int i = 0; i < n; i++) hash = (hash ^ *(unsigned*)&c[i]) * 1099511628211ull;
    printf("busy: %s, %016llx\n", cudaGetErrorString(error), hash);
}
