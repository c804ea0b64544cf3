// Asynchronous copies to shared memory in a pipeline of two stages: 4, 8 and 16 bytes, and filled up with zeroes.
#include "check.cuh"
#include <cuda_pipeline.h>

const int TILE = 256;

__global__ void smooth(const float4* in, float4* out, int tiles) {
    __shared__ float4 stages[2][TILE];
    int t = threadIdx.x;
    const float4* mine = in + blockIdx.x * tiles * TILE;
    __pipeline_memcpy_async(&stages[0][t], &mine[t], 16);
    __pipeline_commit();
    for (int k = 0; k < tiles; k++) {
        if (k + 1 < tiles) __pipeline_memcpy_async(&stages[(k + 1) % 2][t], &mine[(k + 1) * TILE + t], 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        float4 a = stages[k % 2][t], b = stages[k % 2][(t + 1) % TILE];
        out[(blockIdx.x * tiles + k) * TILE + t] = make_float4(a.x + b.x, a.y + b.y, a.z - b.z, a.w * b.w);
        __syncthreads();
    }
}

__global__ void small(const int* words, const double* doubles, double* out) {
    __shared__ int word_room[TILE];
    __shared__ double double_room[TILE];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&word_room[t], &words[t], 4);
    __pipeline_memcpy_async(&double_room[t], &doubles[t], 8, t % 2 ? 0 : 8);   // even ones become zero
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = word_room[TILE - 1 - t] + double_room[TILE - 1 - t];
}

int main() {
    const int blocks = 5, tiles = 7, n = blocks * tiles * TILE;
    Buffer<float4> in(n), out(n);
    Buffer<int> words(TILE);
    Buffer<double> doubles(TILE), sums(TILE);
    Random random;
    for (int i = 0; i < n; i++) in[i] = make_float4(i, random.below(100), random.below(50), random.below(9));
    for (int i = 0; i < TILE; i++) words[i] = i * 10, doubles[i] = i * 0.25;
    in.up(), words.up(), doubles.up();
    smooth<<<blocks, TILE>>>(in.device, out.device, tiles);
    small<<<1, TILE>>>(words.device, doubles.device, sums.device);
    out.down(), sums.down();
    for (int i = 0; i < n; i++) {
        float4 a = in[i], b = in[i / TILE * TILE + (i + 1) % TILE];
        same("x", i, out[i].x, a.x + b.x), same("y", i, out[i].y, a.y + b.y);
        same("z", i, out[i].z, a.z - b.z), same("w", i, out[i].w, a.w * b.w);
    }
    for (int i = 0; i < TILE; i++) {
        int o = TILE - 1 - i;
        same("small", i, sums[i], o * 10 + (o % 2 ? o * 0.25 : 0.0));
    }
    return verdict();
}
