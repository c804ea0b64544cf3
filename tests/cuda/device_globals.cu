// Global variables of the device: initialised, addresses of others as initialisers, strings, symbols from the host.
#include "check.cuh"

struct Link {
    const int* target;
    short weight;
    const char* name;
};

__device__ int numbers[5] = {5, 4, 3, 2, 1};
__device__ int zeroes[300];
__device__ double precise = 0.1;
__device__ const char text[] = "kernel";
__device__ Link links[3] = {{&numbers[1], 7, "one"}, {numbers + 4, -8, text}, {&numbers[0], 9, "three"}};
__device__ int* chosen = &zeroes[100];
__device__ unsigned long long counter = 0xfffffffffffffff0ull;
static __device__ float4 corner = {1, 2, 3, 4};

__global__ void use(int* out) {
    int t = threadIdx.x;
    const Link& link = links[t % 3];
    int length = 0;
    while (link.name[length]) length++;
    out[t] = *link.target * 1000 + link.weight * 10 + length;
    atomicAdd(&chosen[t % 10], t);
    atomicAdd(&counter, 1ull);
    if (t == 0) {
        precise += 1;
        corner.z = corner.x + corner.y + corner.w;
        numbers[2] = 77;
    }
}

__global__ void address(int** out) { *out = &numbers[3]; }

int main() {
    const int n = 64;
    Buffer<int> out(n);
    Buffer<int*> pointer(1);
    int seven = 700, zero_copy[300], number_copy[5];
    double precise_copy;
    unsigned long long counter_copy;
    float4 corner_copy;
    void* symbol;
    use<<<1, n>>>(out.device);
    address<<<1, 1>>>(pointer.device);
    out.down(), pointer.down();
    CUDA(cudaMemcpyFromSymbol(zero_copy, zeroes, sizeof zero_copy));
    CUDA(cudaMemcpyFromSymbol(number_copy, numbers, sizeof number_copy));
    CUDA(cudaMemcpyFromSymbol(&precise_copy, precise, sizeof precise_copy));
    CUDA(cudaMemcpyFromSymbol(&counter_copy, counter, sizeof counter_copy));
    CUDA(cudaMemcpyFromSymbol(&corner_copy, corner, sizeof corner_copy));
    CUDA(cudaGetSymbolAddress(&symbol, numbers));
    const int targets[3] = {4, 1, 5}, weights[3] = {7, -8, 9}, lengths[3] = {3, 6, 5}, changed[5] = {5, 4, 77, 2, 1};
    for (int t = 0; t < n; t++) same("link", t, out[t], targets[t % 3] * 1000 + weights[t % 3] * 10 + lengths[t % 3]);
    int sums[10] = {};
    for (int t = 0; t < n; t++) sums[t % 10] += t;
    for (int i = 0; i < 300; i++) same("zeroes", i, zero_copy[i], i >= 100 && i < 110 ? sums[i - 100] : 0);
    for (int i = 0; i < 5; i++) same("numbers", i, number_copy[i], changed[i]);
    same("precise", 0, precise_copy, 0.1 + 1);
    same("counter", 0, counter_copy, 48ull);
    same("corner", 0, corner_copy.z, 7.0f);
    same("address", 0, (char*)pointer[0] - (char*)symbol, (ptrdiff_t)12);
    CUDA(cudaMemcpyToSymbol(numbers, &seven, sizeof seven, 4));
    use<<<1, n>>>(out.device);
    out.down();
    same("set from the host", 0, out[0], 700 * 1000 + 70 + 3);
    return verdict();
}
