// assert on the device: nothing happens while it holds, and the launch fails with cudaErrorAssert when it does not.
#include "check.cuh"
#include <cassert>

__global__ void bounded(const int* in, int limit, int* out) {
    int v = in[threadIdx.x];
    assert(v < limit);
    out[threadIdx.x] = v * 2;
}

int main() {
    const int n = 64;
    Buffer<int> in(n), out(n);
    for (int i = 0; i < n; i++) in[i] = i;
    in.up();
    bounded<<<1, n>>>(in.device, n, out.device);
    out.down();
    for (int i = 0; i < n; i++) same("doubled", i, out[i], i * 2);
    bool good = failures == 0 && comparisons > 0;
    // After a failed assertion the context is of no more use, so that the verdict is spoken here.
    bounded<<<1, n>>>(in.device, n - 1, out.device);
    cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaErrorAssert) printf("got '%s' for a failed assertion\n", cudaGetErrorString(error));
    good &= error == cudaErrorAssert;
    puts(good ? "PASS" : "FAIL");
    return good ? 0 : 1;
}
