// Half precision product with warp matrix fragments (wmma), single precision sums.
#include <cuda_fp16.h>
#include <mma.h>

#include "bench.cuh"

using namespace nvcuda;

constexpr int BM = 64, BN = 64, BK = 32, PAD = 8;

__global__ __launch_bounds__(128) void gemm_wmma(const half* __restrict__ a, const half* __restrict__ b, float* __restrict__ c, int m,
                                                 int n, int k) {
    __shared__ half as[BM][BK + PAD];
    __shared__ half bs[BK][BN + PAD];
    int warp = threadIdx.x / 32, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int wr = warp / 2 * 32, wc = warp % 2 * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) wmma::fill_fragment(sum[i][j], 0.0f);
    for (int k0 = 0; k0 < k; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK / 8; i += 128)
            *(uint4*)&as[i / (BK / 8)][i % (BK / 8) * 8] = *(const uint4*)&a[(size_t)(row0 + i / (BK / 8)) * k + k0 + i % (BK / 8) * 8];
        for (int i = threadIdx.x; i < BK * BN / 8; i += 128)
            *(uint4*)&bs[i / (BN / 8)][i % (BN / 8) * 8] = *(const uint4*)&b[(size_t)(k0 + i / (BN / 8)) * n + col0 + i % (BN / 8) * 8];
        __syncthreads();
        for (int kk = 0; kk < BK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[2];
            for (int i = 0; i < 2; i++) wmma::load_matrix_sync(fa[i], &as[wr + i * 16][kk], BK + PAD);
            for (int j = 0; j < 2; j++) wmma::load_matrix_sync(fb[j], &bs[kk][wc + j * 16], BN + PAD);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) wmma::mma_sync(sum[i][j], fa[i], fb[j], sum[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(&c[(size_t)(row0 + wr + i * 16) * n + col0 + wc + j * 16], sum[i][j], n, wmma::mem_row_major);
}

int main() {
    int m = 2048, n = 2048, k = 1024;
    Random random;
    Array<half> a(m * k, [&](size_t) { return __float2half(random.uniform(-1, 1)); }), b(k * n, [&](size_t) { return __float2half(random.uniform(-1, 1)); });
    Array<float> c(m * n);
    bench("gemm_wmma", [&] { gemm_wmma<<<dim3(n / BN, m / BM), 128>>>(a, b, c, m, n, k); }, [&] {
        auto got = c.down();
        return check_samples(got.size(), 200, [&](size_t i) {
            double sum = 0;
            for (int j = 0; j < k; j++) sum += (double)__half2float(a[i / n * k + j]) * __half2float(b[j * n + i % n]);
            return close(got[i], sum, 1e-3, 10);
        });
    });
    resources("gemm_wmma", gemm_wmma, 128);
}
