// A step of the lattice Boltzmann method in the plane, nine velocities, structure of arrays, walls bounce back.
#include "bench.cuh"

__constant__ int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1}, opposite[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
__constant__ float weights[9] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};

__global__ void boltzmann_step(const float* __restrict__ f, float* __restrict__ next, const uint8_t* __restrict__ wall, int width, int height, float omega) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int n = width * height, at = y * width + x;
    float in[9], density = 0, ux = 0, uy = 0;
#pragma unroll
    for (int i = 0; i < 9; i++) {
        int fx = (x - cx[i] + width) % width, fy = (y - cy[i] + height) % height;
        in[i] = f[i * n + fy * width + fx];
        density += in[i];
        ux += cx[i] * in[i];
        uy += cy[i] * in[i];
    }
    if (wall[at]) {
#pragma unroll
        for (int i = 0; i < 9; i++) next[opposite[i] * n + at] = in[i];
        return;
    }
    ux /= density;
    uy /= density;
    float square = 1.5f * (ux * ux + uy * uy);
#pragma unroll
    for (int i = 0; i < 9; i++) {
        float along = 3.0f * (cx[i] * ux + cy[i] * uy);
        float equilibrium = weights[i] * density * (1.0f + along + 0.5f * along * along - square);
        next[i * n + at] = in[i] + omega * (equilibrium - in[i]);
    }
}

int main() {
    int width = 1024, height = 1024, n = width * height;
    Random random;
    Array<float> f((size_t)9 * n, [&](size_t) { return random.uniform(0.05f, 0.15f); }), next(f.size());
    Array<uint8_t> wall(n, [&](size_t) { return (uint8_t)(random.below(10) == 0); });
    bench("boltzmann_step", [&] { boltzmann_step<<<dim3(width / 32, height / 8), dim3(32, 8)>>>(f, next, wall, width, height, 1.2f); }, [&] {
        double before = 0, after = 0;
        for (float v : f.host) before += v;
        for (float v : next.down()) after += v;
        return close(after, before, 1e-6);
    });
    resources("boltzmann_step", boltzmann_step, 256);
}
