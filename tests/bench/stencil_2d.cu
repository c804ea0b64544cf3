// A five-point and a nine-point stencil on a plane, with a halo in shared memory and without.
#include "bench.cuh"

constexpr int BX = 32, BY = 8;

__global__ void stencil5_shared(const float* in, float* out, int width, int height, float c0, float c1) {
    __shared__ float tile[BY + 2][BX + 2];
    int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    if (x < width && y < height) {
        tile[ty][tx] = in[y * width + x];
        if (threadIdx.x == 0 && x > 0) tile[ty][0] = in[y * width + x - 1];
        if (threadIdx.x == BX - 1 && x + 1 < width) tile[ty][BX + 1] = in[y * width + x + 1];
        if (threadIdx.y == 0 && y > 0) tile[0][tx] = in[(y - 1) * width + x];
        if (threadIdx.y == BY - 1 && y + 1 < height) tile[BY + 1][tx] = in[(y + 1) * width + x];
    }
    __syncthreads();
    if (x > 0 && x < width - 1 && y > 0 && y < height - 1)
        out[y * width + x] =
            c0 * tile[ty][tx] + c1 * (tile[ty - 1][tx] + tile[ty + 1][tx] + tile[ty][tx - 1] + tile[ty][tx + 1]);
}

__global__ void stencil9_direct(const float* __restrict__ in, float* __restrict__ out, int width, int height,
                                float3 weights) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
    float corners = 0, sides = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            float value = __ldg(&in[(y + dy) * width + x + dx]);
            if (dx != 0 && dy != 0) corners += value;
            else if (dx != 0 || dy != 0) sides += value;
        }
    out[y * width + x] = weights.x * in[y * width + x] + weights.y * sides + weights.z * corners;
}

int main() {
    int width = 4093, height = 4096;
    Random random;
    Array<float> in((size_t)width * height, [&](size_t) { return random.uniform(); });
    Array<float> out((size_t)width * height);
    dim3 block(BX, BY), grid((width + BX - 1) / BX, (height + BY - 1) / BY);
    auto at = [&](long x, long y) { return in[y * width + x]; };
    auto inner = [&](size_t i) { long x = i % width, y = i / width; return x > 0 && y > 0 && x < width - 1 && y < height - 1; };
    bench("stencil5_shared", [&] { stencil5_shared<<<grid, block>>>(in, out, width, height, 0.6f, 0.1f); }, [&] {
        auto got = out.down();
        return check_samples(got.size(), 20000, [&](size_t i) {
            if (!inner(i)) return true;
            long x = i % width, y = i / width;
            return close(got[i], 0.6 * at(x, y) + 0.1 * (at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1)), 1e-5);
        });
    });
    resources("stencil5_shared", stencil5_shared, BX * BY);
    bench("stencil9_direct", [&] { stencil9_direct<<<grid, block>>>(in, out, width, height, {0.5f, 0.1f, 0.025f}); }, [&] {
        auto got = out.down();
        return check_samples(got.size(), 20000, [&](size_t i) {
            if (!inner(i)) return true;
            long x = i % width, y = i / width;
            double sides = at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1);
            double corners = at(x - 1, y - 1) + at(x + 1, y - 1) + at(x - 1, y + 1) + at(x + 1, y + 1);
            return close(got[i], 0.5 * at(x, y) + 0.1 * sides + 0.025 * corners, 1e-5);
        });
    });
    resources("stencil9_direct", stencil9_direct, BX * BY);
}
