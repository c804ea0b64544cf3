// Copies into shared memory behind computation: the pipeline primitives, four stages, a filter over each tile.
#include <cuda_pipeline.h>

#include "bench.cuh"

constexpr int THREADS = 256, TILE = 1024, STAGES = 4;

__global__ __launch_bounds__(THREADS) void pipeline_filter(const float* __restrict__ in, float* __restrict__ out, int tiles, const float* __restrict__ taps, int count) {
    __shared__ alignas(16) float stage[STAGES][TILE];
    int first = blockIdx.x, step = gridDim.x;
    auto fetch = [&](int tile, int slot) {
        if (tile < tiles) __pipeline_memcpy_async(&stage[slot][threadIdx.x * 4], &in[(size_t)tile * TILE + threadIdx.x * 4], 16);
        __pipeline_commit();
    };
    for (int s = 0; s < STAGES - 1; s++) fetch(first + s * step, s);
    int slot = 0;
    for (int tile = first; tile < tiles; tile += step) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        fetch(tile + (STAGES - 1) * step, (slot + STAGES - 1) % STAGES);
        for (int i = threadIdx.x; i < TILE; i += THREADS) {
            float sum = 0;
            for (int k = 0; k < count; k++) sum += taps[k] * stage[slot][(i + k) & (TILE - 1)];
            out[(size_t)tile * TILE + i] = sum;
        }
        slot = (slot + 1) % STAGES;
    }
}

int main() {
    int tiles = 8192, count = 9;
    Random random;
    Array<float> in((size_t)tiles * TILE, [&](size_t) { return random.uniform(); }), out(in.size()), taps(count, [&](size_t) { return random.uniform(); });
    bench("pipeline_filter", [&] { pipeline_filter<<<132 * 4, THREADS>>>(in, out, tiles, taps, count); }, [&] {
        auto got = out.down();
        return check_samples(got.size(), 20000, [&](size_t i) {
            double sum = 0;
            for (int k = 0; k < count; k++) sum += taps[k] * in[i / TILE * TILE + (i + k) % TILE];
            return close(got[i], sum, 1e-5);
        });
    });
    resources("pipeline_filter", pipeline_filter, THREADS);
}
