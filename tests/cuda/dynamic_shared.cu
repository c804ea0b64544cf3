// Dynamic shared memory: carved into arrays of several types, beside static arrays, and above 48 KB by request.
#include "check.cuh"

extern __shared__ double pool[];

__global__ void carve(int n, int* out) {
    __shared__ int fixed[32];
    double* doubles = pool;
    int* ints = (int*)(doubles + n);
    unsigned char* bytes = (unsigned char*)(ints + n);
    int t = threadIdx.x;
    if (t < 32) fixed[t] = t * t;
    doubles[t] = t * 0.5;
    ints[t] = t * 3;
    bytes[t] = t * 7;
    __syncthreads();
    int other = n - 1 - t;
    out[t] = (int)(doubles[other] * 4) + ints[other] + bytes[other] + fixed[other % 32];
}

// Reverses a stretch that fits into shared memory only with the larger limit.
__global__ void reverse(int* data, int n) {
    int* room = (int*)pool;
    for (int i = threadIdx.x; i < n; i += blockDim.x) room[i] = data[blockIdx.x * n + i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[blockIdx.x * n + i] = room[n - 1 - i];
}

__global__ void report_size(unsigned* size) {
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(*size));
}

int main() {
    const int n = 256, bytes = 200 * 1024, words = bytes / 4, blocks = 3;
    Buffer<int> out(n), data(blocks * words);
    Buffer<unsigned> size(1);
    for (int i = 0; i < blocks * words; i++) data[i] = i;
    data.up();
    carve<<<1, n, n * (8 + 4 + 1)>>>(n, out.device);
    CUDA(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    reverse<<<blocks, 512, bytes>>>(data.device, words);
    report_size<<<1, 1, 1024>>>(size.device);
    out.down(), data.down(), size.down();
    for (int i = 0; i < n; i++) {
        int o = n - 1 - i;
        same("carved", i, out[i], o * 2 + o * 3 + (unsigned char)(o * 7) + (o % 32) * (o % 32));
    }
    for (int i = 0; i < blocks * words; i++)
        same("reversed", i, data[i], i / words * words + words - 1 - i % words);
    same("size", 0, size[0], 1024u);
    return verdict();
}
