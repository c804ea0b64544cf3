// Sum, minimum and maximum: a tree in shared memory with a barrier at each level.
#include "check.cuh"

struct Sum {
    __host__ __device__ static int combine(int a, int b) { return a + b; }
};
struct Least {
    __host__ __device__ static int combine(int a, int b) { return a < b ? a : b; }
};
struct Greatest {
    __host__ __device__ static int combine(int a, int b) { return a > b ? a : b; }
};

template <typename Op>
__global__ void reduce(const int* in, int n, int identity, int* out) {
    __shared__ int partial[256];
    int value = identity;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        value = Op::combine(value, in[i]);
    partial[threadIdx.x] = value;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] = Op::combine(partial[threadIdx.x], partial[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}

template <typename Op>
void check(const char* what, Buffer<int>& in, int identity) {
    const int blocks = 37;
    Buffer<int> out(blocks);
    reduce<Op><<<blocks, 256>>>(in.device, in.size(), identity, out.device);
    out.down();
    int got = identity, want = identity;
    for (int v : out.host) got = Op::combine(got, v);
    for (int v : in.host) want = Op::combine(want, v);
    same(what, 0, got, want);
}

int main() {
    Buffer<int> in(1000003);
    Random random;
    for (int& v : in.host) v = (int)random.below(2001) - 1000;
    in.up();
    check<Sum>("sum", in, 0);
    check<Least>("min", in, INT32_MAX);
    check<Greatest>("max", in, INT32_MIN);
    return verdict();
}
