// Barriers that count and vote, named barriers of some warps, and a barrier reached from both sides of a branch.
#include "check.cuh"

enum { COUNT, AND, OR, PAIR, BRANCH, OPS };

__device__ void named_barrier(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__global__ void run(const int* in, int* out) {
    __shared__ int box[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, v = in[i], *r = out + i * OPS;
    r[COUNT] = __syncthreads_count(v % 3 == 0);
    r[AND] = __syncthreads_and(v < 90) != 0;
    r[OR] = __syncthreads_or(v == 17) != 0;
    // two groups of four warps, each with its own barrier
    int group = t / 128;
    for (int round = 0; round < 4; round++) {
        box[t] = v + round;
        named_barrier(1 + group, 128);
        r[PAIR] = round == 0 ? box[t ^ 127] : r[PAIR] + box[(t & 128) + (t + 1) % 128];
        named_barrier(1 + group, 128);
    }
    // whole warps take either side and meet at the same barrier
    box[t] = v;
    if (t / 32 % 2) {
        box[t] *= 2;
        __syncthreads();
    } else {
        box[t] += 5;
        __syncthreads();
    }
    r[BRANCH] = box[255 - t];
}

// A barrier in a loop whose trip count is uniform but read from memory.
__global__ void loop(const int* trips, int* out) {
    __shared__ int ring[96];
    int t = threadIdx.x;
    ring[t] = t;
    for (int k = 0; k < *trips; k++) {
        __syncthreads();
        int next = ring[(t + 1) % 96];
        __syncthreads();
        ring[t] = next;
    }
    out[t] = ring[t];
}

int main() {
    const int blocks = 20, n = blocks * 256;
    Buffer<int> in(n), out(n * OPS), trips(1, 29), ring(96);
    Random random;
    for (int i = 0; i < n; i++) in[i] = random.below(i / 256 % 2 ? 91 : 16);
    in.up();
    run<<<blocks, 256>>>(in.device, out.device);
    loop<<<1, 96>>>(trips.device, ring.device);
    out.down(), ring.down();
    for (int i = 0; i < n; i++) {
        int *block = &in[i / 256 * 256], t = i % 256, want[OPS] = {0, 1, 0, 0, 0};
        for (int j = 0; j < 256; j++) {
            want[COUNT] += block[j] % 3 == 0;
            want[AND] &= block[j] < 90;
            want[OR] |= block[j] == 17;
        }
        want[PAIR] = block[t ^ 127];
        for (int round = 1; round < 4; round++) want[PAIR] += block[(t & 128) + (t + 1) % 128] + round;
        int other = 255 - t;
        want[BRANCH] = other / 32 % 2 ? block[other] * 2 : block[other] + 5;
        for (int op = 0; op < OPS; op++) same("barrier", i * OPS + op, out[i * OPS + op], want[op]);
    }
    for (int t = 0; t < 96; t++) same("ring", t, ring[t], (t + 29) % 96);
    return verdict();
}
