// What session.gdb looks at: values that live in registers across calls, two deep, on the stack and in shared memory.
#include <cstdio>

struct Pair { int a; float b; };

__device__ __noinline__ int leaf(int x) {
    int y = x * x;
    return y + 1;
}

__device__ __noinline__ int middle(int x, int n) {
    int a = x + 3;
    int b = leaf(a);
    int c = leaf(b + n);
    return a + b + c;
}

__global__ void kernel(int *out, int n, Pair pair) {
    __shared__ int shared[32];
    int i = threadIdx.x + 11;
    int kept = i * 7 + n;
    int array[4] = {i, kept, n, pair.a};
    int r = middle(i, n);
    shared[threadIdx.x] = array[threadIdx.x & 3];
    __syncthreads();
    out[threadIdx.x] = kept + r + shared[threadIdx.x ^ 1];
}

int middle_on_host(int x, int n) {
    int a = x + 3, b = a * a + 1, c = (b + n) * (b + n) + 1;
    return a + b + c;
}

int main() {
    int *out, host[32], wrong = 0, n = 5;
    cudaMalloc(&out, sizeof host);
    kernel<<<1, 32>>>(out, n, Pair{6, 2.5f});
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    for (int t = 0; t < 32; t++) {
        int other = t ^ 1, array[4] = {other + 11, (other + 11) * 7 + n, n, 6};
        wrong += host[t] != (t + 11) * 7 + n + middle_on_host(t + 11, n) + array[other & 3];
    }
    printf("%s\n", wrong ? "FAIL" : "PASS");
    return wrong != 0;
}
