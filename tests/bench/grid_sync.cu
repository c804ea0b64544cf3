// Cooperative groups: Jacobi steps of a whole grid with grid.sync, and sums of tiles of eight threads.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "bench.cuh"

namespace cg = cooperative_groups;

__global__ void jacobi_grid(float* a, float* b, int width, int height, int steps) {
    cg::grid_group grid = cg::this_grid();
    for (int step = 0; step < steps; step++) {
        const float* from = step % 2 ? b : a;
        float* to = step % 2 ? a : b;
        for (int i = grid.thread_rank(); i < width * height; i += grid.size()) {
            int x = i % width, y = i / width;
            to[i] = x == 0 || y == 0 || x == width - 1 || y == height - 1 ? from[i]
                                                                          : 0.25f * (from[i - 1] + from[i + 1] + from[i - width] + from[i + width]);
        }
        grid.sync();
    }
}

__global__ void tile_sums(const float* __restrict__ in, float* __restrict__ out, int groups, int length) {
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
    int group = (blockIdx.x * blockDim.x + threadIdx.x) / 8;
    if (group >= groups) return;
    float sum = 0;
    for (int i = tile.thread_rank(); i < length; i += tile.size()) sum += in[(size_t)group * length + i];
    sum = cg::reduce(tile, sum, cg::plus<float>());
    if (tile.thread_rank() == 0) out[group] = sum;
}

int main() {
    int width = 1024, height = 512, steps = 10;
    Random random;
    Array<float> input(width * height, [&](size_t) { return random.uniform(); }), a(input.size()), b(input.size());
    bench("jacobi_grid", [&] {
        void* arguments[] = {&a.device, &b.device, &width, &height, &steps};
        CUDA(cudaLaunchCooperativeKernel((const void*)jacobi_grid, dim3(132 * 2), dim3(256), arguments, 0, 0));
    }, [&] {
        auto u = input.host, v = u;
        for (int s = 0; s < steps; s++, std::swap(u, v))
            for (int y = 0; y < height; y++)
                for (int x = 0; x < width; x++) {
                    int i = y * width + x;
                    v[i] = x == 0 || y == 0 || x == width - 1 || y == height - 1 ? u[i] : 0.25f * (u[i - 1] + u[i + 1] + u[i - width] + u[i + width]);
                }
        auto got = a.down();
        return check_samples(got.size(), got.size(), [&](size_t i) { return close(got[i], u[i], 1e-5, 1); });
    }, [&] { CUDA(cudaMemcpy(a, input, input.bytes(), cudaMemcpyDeviceToDevice)); });
    int groups = 1 << 16, length = 100;
    Array<float> in((size_t)groups * length, [&](size_t) { return random.uniform(); }), out(groups);
    bench("tile_sums", [&] { tile_sums<<<groups * 8 / 256, 256>>>(in, out, groups, length); }, [&] {
        auto got = out.down();
        return check_samples(groups, 5000, [&](size_t g) {
            double sum = 0;
            for (int i = 0; i < length; i++) sum += in[g * length + i];
            return close(got[g], sum, 1e-5);
        });
    });
    resources("jacobi_grid", jacobi_grid, 256);
    resources("tile_sums", tile_sums, 256);
}
