// Constant memory: written from the host, initialised, indexed by uniform and by divergent values, of every width.
#include "check.cuh"

struct Entry {
    short a;
    char b;
    double c;
};

__constant__ int coefficients[64];
__constant__ float3 offset = {1.5f, -2.0f, 0.25f};
__constant__ Entry entries[3] = {{1, 'x', 0.5}, {-2, 'y', 1.5}, {300, 'z', -2.5}};
__constant__ unsigned char bytes[5] = {250, 1, 2, 3, 4};
__constant__ long long large = 0x123456789abcdefll;
__device__ int plain[4] = {10, 20, 30, 40};
__constant__ int* pointer = plain + 1;   // an address as initialiser

__global__ void read(int rounds, int* uniform, int* divergent, float* floats, double* doubles, long long* rest) {
    int i = threadIdx.x, sum = 0;
    for (int r = 0; r < rounds; r++) sum += coefficients[r] * i;
    uniform[i] = sum;
    divergent[i] = coefficients[(i * 7) % 64];
    floats[i] = offset.x * i + offset.y + offset.z;
    Entry e = entries[i % 3];
    doubles[i] = e.a + e.b + e.c;
    rest[i] = large + bytes[i % 5] + pointer[i % 3];
}

int main() {
    const int n = 128;
    int values[64];
    Random random;
    for (int& v : values) v = (int)random.below(2000) - 1000;
    CUDA(cudaMemcpyToSymbol(coefficients, values, sizeof values));
    Buffer<int> uniform(n), divergent(n);
    Buffer<float> floats(n);
    Buffer<double> doubles(n);
    Buffer<long long> rest(n);
    read<<<1, n>>>(50, uniform.device, divergent.device, floats.device, doubles.device, rest.device);
    uniform.down(), divergent.down(), floats.down(), doubles.down(), rest.down();
    const double sums[3] = {1 + 'x' + 0.5, -2 + 'y' + 1.5, 300 + 'z' - 2.5};
    const int small[5] = {250, 1, 2, 3, 4};
    for (int i = 0; i < n; i++) {
        int sum = 0;
        for (int r = 0; r < 50; r++) sum += values[r] * i;
        same("uniform", i, uniform[i], sum);
        same("divergent", i, divergent[i], values[(i * 7) % 64]);
        same("float", i, floats[i], 1.5f * i - 1.75f);
        same("entry", i, doubles[i], sums[i % 3]);
        same("rest", i, rest[i], 0x123456789abcdefll + small[i % 5] + 20 + 10 * (i % 3));
    }
    return verdict();
}
