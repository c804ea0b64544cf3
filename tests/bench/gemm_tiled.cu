// Single precision product with square tiles in shared memory, sizes known only at run time.
#include "bench.cuh"

constexpr int TILE = 32;

__global__ void gemm_tiled(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float as[TILE][TILE];
    __shared__ float bs[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < (k + TILE - 1) / TILE; t++) {
        int ka = t * TILE + threadIdx.x, kb = t * TILE + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0.0f;
        bs[threadIdx.y][threadIdx.x] = kb < k && col < n ? b[kb * n + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

int main() {
    int m = 1000, n = 1032, k = 1016;
    Random random;
    Array<float> a(m * k, [&](size_t) { return random.uniform(-1, 1); });
    Array<float> b(k * n, [&](size_t) { return random.uniform(-1, 1); });
    Array<float> c(m * n);
    dim3 block(TILE, TILE), grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
    bench("gemm_tiled", [&] { gemm_tiled<<<grid, block>>>(a, b, c, m, n, k); }, [&] {
        auto got = c.down();
        return check_samples(got.size(), 200, [&](size_t i) {
            double sum = 0;
            for (int j = 0; j < k; j++) sum += (double)a[i / n * k + j] * b[j * n + i % n];
            return close(got[i], sum, 1e-4, 10);
        });
    });
    resources("gemm_tiled", gemm_tiled, TILE * TILE);
}
