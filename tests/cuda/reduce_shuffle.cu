// Sums by butterfly, down and indexed shuffles, of 32- and 64-bit and double values, and the warp reductions.
#include "check.cuh"

const unsigned ALL = 0xffffffff;

template <typename T>
__device__ T butterfly(T v) {
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(ALL, v, d);
    return v;
}

template <typename T>
__device__ T downwards(T v, int width) {
    for (int d = width / 2; d; d /= 2) v += __shfl_down_sync(ALL, v, d, width);
    return __shfl_sync(ALL, v, 0, width);
}

__global__ void sums(const int* in, int* ints, long long* longs, double* doubles, int* eights, unsigned* redux) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    ints[i] = butterfly(in[i]);
    longs[i] = butterfly(in[i] * (1ll << 33));
    doubles[i] = downwards((double)in[i], 32);
    eights[i] = downwards(in[i], 8);
    redux[4 * i] = __reduce_add_sync(ALL, in[i]);
    redux[4 * i + 1] = __reduce_min_sync(ALL, in[i]);
    redux[4 * i + 2] = __reduce_max_sync(ALL, (unsigned)in[i]);
    redux[4 * i + 3] = __reduce_xor_sync(ALL, in[i]);
}

int main() {
    const int n = 4096;
    Buffer<int> in(n), ints(n), eights(n);
    Buffer<long long> longs(n);
    Buffer<double> doubles(n);
    Buffer<unsigned> redux(4 * n);
    Random random;
    for (int& v : in.host) v = (int)random.below(200001) - 100000;
    in.up();
    sums<<<n / 128, 128>>>(in.device, ints.device, longs.device, doubles.device, eights.device, redux.device);
    ints.down(), longs.down(), doubles.down(), eights.down(), redux.down();
    for (int i = 0; i < n; i++) {
        int sum = 0, eight = 0, least = INT32_MAX;
        unsigned greatest = 0, bits = 0;
        for (int j = i / 32 * 32; j < i / 32 * 32 + 32; j++) {
            sum += in[j], bits ^= in[j];
            if (in[j] < least) least = in[j];
            if ((unsigned)in[j] > greatest) greatest = in[j];
            if (j / 8 == i / 8) eight += in[j];
        }
        same("int", i, ints[i], sum);
        same("long", i, longs[i], sum * (1ll << 33));
        same("double", i, doubles[i], (double)sum);
        same("width 8", i, eights[i], eight);
        same("redux add", i, redux[4 * i], (unsigned)sum);
        same("redux min", i, redux[4 * i + 1], (unsigned)least);
        same("redux max", i, redux[4 * i + 2], greatest);
        same("redux xor", i, redux[4 * i + 3], bits);
    }
    return verdict();
}
