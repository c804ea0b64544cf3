// Double precision product, 64x64 tiles, 4x4 of a thread.
#include "bench.cuh"

constexpr int TILE = 64, DEPTH = 16, PER = 4;

__global__ void gemm_double(const double* __restrict__ a, const double* __restrict__ b, double* __restrict__ c, int n) {
    __shared__ double as[DEPTH][TILE];
    __shared__ double bs[DEPTH][TILE];
    int tx = threadIdx.x, ty = threadIdx.y, tid = ty * 16 + tx;
    const double* a0 = a + (size_t)blockIdx.y * TILE * n;
    const double* b0 = b + (size_t)blockIdx.x * TILE;
    double sum[PER][PER] = {};
    for (int k0 = 0; k0 < n; k0 += DEPTH) {
        for (int i = tid; i < TILE * DEPTH; i += 256) {
            as[i % DEPTH][i / DEPTH] = a0[(size_t)(i / DEPTH) * n + k0 + i % DEPTH];
            bs[i / TILE][i % TILE] = b0[(size_t)(k0 + i / TILE) * n + i % TILE];
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; k++)
            for (int i = 0; i < PER; i++)
                for (int j = 0; j < PER; j++) sum[i][j] = fma(as[k][ty + i * 16], bs[k][tx + j * 16], sum[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < PER; i++)
        for (int j = 0; j < PER; j++)
            c[(size_t)(blockIdx.y * TILE + ty + i * 16) * n + blockIdx.x * TILE + tx + j * 16] = sum[i][j];
}

int main() {
    int n = 1024;
    Random random;
    Array<double> a(n * n, [&](size_t) { return random.uniform(-1, 1); });
    Array<double> b(n * n, [&](size_t) { return random.uniform(-1, 1); });
    Array<double> c(n * n);
    bench("gemm_double", [&] { gemm_double<<<dim3(n / TILE, n / TILE), dim3(16, 16)>>>(a, b, c, n); }, [&] {
        auto got = c.down();
        return check_samples(got.size(), 200, [&](size_t i) {
            double sum = 0;
            for (int j = 0; j < n; j++) sum += a[i / n * n + j] * b[j * n + i % n];
            return close(got[i], sum, 1e-12, 10);
        });
    });
    resources("gemm_double", gemm_double, 256);
}
