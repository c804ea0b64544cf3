// A stencil of radius 4 in three dimensions: planes in shared memory, the column along z in registers.
#include "bench.cuh"

constexpr int R = 4, BX = 32, BY = 8;
__constant__ float coefficients[R + 1];

__global__ void __launch_bounds__(BX* BY) stencil_3d(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int nz) {
    __shared__ float plane[BY + 2 * R][BX + 2 * R];
    int x = blockIdx.x * BX + threadIdx.x + R, y = blockIdx.y * BY + threadIdx.y + R;
    int tx = threadIdx.x + R, ty = threadIdx.y + R;
    size_t stride = (size_t)nx * ny;
    const float* p = in + (size_t)y * nx + x;
    float behind[R], front[R], current;
    for (int i = 0; i < R; i++) behind[i] = p[i * stride];
    current = p[R * stride];
    for (int i = 0; i < R; i++) front[i] = p[(R + 1 + i) * stride];
    for (int z = R; z < nz - R; z++) {
        __syncthreads();
        plane[ty][tx] = current;
        if (threadIdx.y < R) {
            plane[threadIdx.y][tx] = in[z * stride + (size_t)(y - R) * nx + x];
            plane[threadIdx.y + BY + R][tx] = in[z * stride + (size_t)(y + BY) * nx + x];
        }
        if (threadIdx.x < R) {
            plane[ty][threadIdx.x] = in[z * stride + (size_t)y * nx + x - R];
            plane[ty][threadIdx.x + BX + R] = in[z * stride + (size_t)y * nx + x + BX];
        }
        __syncthreads();
        float value = coefficients[0] * current;
#pragma unroll
        for (int i = 1; i <= R; i++)
            value += coefficients[i] * (plane[ty - i][tx] + plane[ty + i][tx] + plane[ty][tx - i] + plane[ty][tx + i] +
                                        behind[R - i] + front[i - 1]);
        out[z * stride + (size_t)y * nx + x] = value;
#pragma unroll
        for (int i = 0; i + 1 < R; i++) behind[i] = behind[i + 1];
        behind[R - 1] = current;
        current = front[0];
#pragma unroll
        for (int i = 0; i + 1 < R; i++) front[i] = front[i + 1];
        if (z + R + 1 < nz) front[R - 1] = p[(z + R + 1) * stride];
    }
}

int main() {
    int nx = 256 + 2 * R, ny = 256 + 2 * R, nz = 96;
    Random random;
    Array<float> in((size_t)nx * ny * nz, [&](size_t) { return random.uniform(); });
    Array<float> out(in.size());
    float c[R + 1] = {0.5f, 0.1f, -0.05f, 0.02f, -0.01f};
    CUDA(cudaMemcpyToSymbol(coefficients, c, sizeof c));
    bench("stencil_3d", [&] { stencil_3d<<<dim3(256 / BX, 256 / BY), dim3(BX, BY)>>>(in, out, nx, ny, nz); }, [&] {
        auto got = out.down();
        long sy = nx, sz = (long)nx * ny;
        return check_samples(got.size(), 20000, [&](size_t i) {
            long x = i % nx, y = i / nx % ny, z = i / sz;
            if (x < R || y < R || z < R || x >= nx - R || y >= ny - R || z >= nz - R) return true;
            double sum = c[0] * in[i];
            for (int r = 1; r <= R; r++)
                sum += (double)c[r] * (in[i - r] + in[i + r] + in[i - r * sy] + in[i + r * sy] + in[i - r * sz] + in[i + r * sz]);
            return close(got[i], sum, 1e-5, 1);
        });
    });
    resources("stencil_3d", stencil_3d, BX * BY);
}
