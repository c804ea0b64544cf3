// printf on the device with every kind of argument. The runner compares what is printed with printf.expected.
#include "check.cuh"

__global__ void talk(float f, double d, const char* name, int* counts) {
    counts[0] = printf("hello from block %d thread %u\n", blockIdx.x, threadIdx.x);
    counts[1] = printf("%d %u %x %o %c %%\n", -42, 42u, 0xbeef, 8, 'z');
    counts[2] = printf("%lld %llu %llx\n", -1234567890123ll, 18446744073709551615ull, 0x123456789abcdefull);
    counts[3] = printf("%f %.3f %e %g\n", f, d, d, 0.5);
    counts[4] = printf("[%5d] [%-5d] [%05d] [%+d]\n", 42, 42, 42, 42);
    counts[5] = printf("%s and %s\n", name, "a literal");
    counts[6] = printf("no arguments\n");
    counts[7] = printf("%d %d %d %d %d %d %d %d %d %d\n", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
}

__device__ const char label[] = "a device string";

__global__ void in_a_loop(int n) {
    for (int i = 0; i < n; i++)
        if (i % 2) printf("odd %d\n", i);
        else printf("even %d: %s\n", i, label);
}

__global__ void from_all_lanes(int* counts) { counts[threadIdx.x] = printf(""); }

int main() {
    const int arguments[8] = {2, 5, 3, 4, 4, 2, 0, 10};
    Buffer<int> counts(8), lanes(32, -1);
    char* name;
    CUDA(cudaMalloc(&name, 16));
    CUDA(cudaMemcpy(name, "from memory", 12, cudaMemcpyHostToDevice));
    talk<<<1, 1>>>(1.25f, 3.14159265358979, name, counts.device);
    counts.down();
    in_a_loop<<<1, 1>>>(4);
    from_all_lanes<<<1, 32>>>(lanes.device);
    lanes.down();
    for (int i = 0; i < 8; i++) same("number of arguments", i, counts[i], arguments[i]);
    for (int i = 0; i < 32; i++) same("empty text", i, lanes[i], 0);
    return verdict();
}
