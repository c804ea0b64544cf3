// Quicksort with recursion: each thread sorts its own stretch of memory, so depths and pivots diverge.
#include "check.cuh"
#include <algorithm>

__device__ __noinline__ void quicksort(int* first, int* last) {
    while (last - first > 1) {
        int pivot = first[(last - first) / 2];
        int *low = first, *high = last - 1;
        while (low <= high) {
            while (*low < pivot) low++;
            while (*high > pivot) high--;
            if (low <= high) {
                int t = *low;
                *low++ = *high;
                *high-- = t;
            }
        }
        quicksort(first, high + 1);
        first = low;
    }
}

__global__ void sort_all(int* data, const int* starts, int parts) {
    int part = blockIdx.x * blockDim.x + threadIdx.x;
    if (part < parts) quicksort(data + starts[part], data + starts[part + 1]);
}

int main() {
    const int parts = 300;
    CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 32768));
    Random random;
    Buffer<int> starts(parts + 1);
    for (int p = 0; p < parts; p++) starts[p + 1] = starts[p] + random.below(200);
    Buffer<int> data(starts[parts]);
    for (int& v : data.host) v = (int)random.below(1000) - 500;
    std::vector<int> want = data.host;
    data.up(), starts.up();
    sort_all<<<(parts + 63) / 64, 64>>>(data.device, starts.device, parts);
    data.down();
    for (int p = 0; p < parts; p++) std::sort(want.begin() + starts[p], want.begin() + starts[p + 1]);
    for (size_t i = 0; i < want.size(); i++) same("sorted", i, data[i], want[i]);
    return verdict();
}
