// Calls through function pointers: from a table in memory, chosen per lane, passed as an argument and to the kernel.
#include "check.cuh"

typedef unsigned (*Op)(unsigned, unsigned);
typedef double (*Real)(double, int);

__host__ __device__ __noinline__ unsigned add(unsigned a, unsigned b) { return a + b; }
__host__ __device__ __noinline__ unsigned sub(unsigned a, unsigned b) { return a - b; }
__host__ __device__ __noinline__ unsigned mul(unsigned a, unsigned b) { return a * b; }
__host__ __device__ __noinline__ unsigned mix(unsigned a, unsigned b) { return (a ^ b) * 31 + (a >> (b & 7)); }
__host__ __device__ __noinline__ double power(double x, int n) {
    double r = 1;
    for (int i = 0; i < n; i++) r *= x;
    return r;
}
__host__ __device__ __noinline__ double multiple(double x, int n) { return x * n; }

__device__ Op operations[4] = {add, sub, mul, mix};
__device__ Real power_pointer = power;
Op host_operations[4] = {add, sub, mul, mix};

__host__ __device__ __noinline__ unsigned fold(Op op, unsigned seed, int count) {
    for (int i = 1; i <= count; i++) seed = op(seed, i);
    return seed;
}

__global__ void run(const unsigned* in, unsigned* direct, unsigned* folded, double* reals, Real from_host) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Op op = operations[in[i] & 3];
    direct[i] = op(in[i], i);
    folded[i] = fold(operations[i & 3], in[i], i % 7);
    Real real = in[i] & 4 ? from_host : (Real)multiple;
    reals[i] = real(1.5, i % 20);
}

int main() {
    const int n = 1024;
    Buffer<unsigned> in(n), direct(n), folded(n);
    Buffer<double> reals(n);
    Random random;
    for (unsigned& v : in.host) v = random.next();
    in.up();
    Real device_power;   // the device's address of the function, which only the device can say
    CUDA(cudaMemcpyFromSymbol(&device_power, power_pointer, sizeof device_power));
    run<<<n / 128, 128>>>(in.device, direct.device, folded.device, reals.device, device_power);
    direct.down(), folded.down(), reals.down();
    for (int i = 0; i < n; i++) {
        same("direct", i, direct[i], host_operations[in[i] & 3](in[i], (unsigned)i));
        same("folded", i, folded[i], fold(host_operations[i & 3], in[i], i % 7));
        same("real", i, reals[i], in[i] & 4 ? power(1.5, i % 20) : multiple(1.5, i % 20));
    }
    return verdict();
}
