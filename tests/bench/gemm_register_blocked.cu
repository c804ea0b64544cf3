// Single precision product, 128x128 tiles of a block, 8x8 of a thread, vector loads, operands of the next tile in
// registers while this one is multiplied.
#include "bench.cuh"

template <int BM, int BN, int BK, int TM, int TN>
__global__ __launch_bounds__((BM / TM) * (BN / TN)) void gemm_register_blocked(const float* __restrict__ a,
                                                                               const float* __restrict__ b,
                                                                               float* __restrict__ c, int m, int n, int k,
                                                                               float alpha, float beta) {
    constexpr int THREADS = (BM / TM) * (BN / TN);
    __shared__ float as[BK][BM + 4];
    __shared__ float bs[BK][BN];
    int tid = threadIdx.x;
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int ty = tid / (BN / TN), tx = tid % (BN / TN);
    int a_row = tid / (BK / 4), a_col = tid % (BK / 4) * 4;
    int b_row = tid / (BN / 4), b_col = tid % (BN / 4) * 4;
    static_assert(THREADS == BM * BK / 4 && THREADS == BN * BK / 4, "one vector of each operand for a thread");

    float sum[TM][TN] = {};
    float4 next_a = *reinterpret_cast<const float4*>(&a[(row0 + a_row) * k + a_col]);
    float4 next_b = *reinterpret_cast<const float4*>(&b[b_row * n + col0 + b_col]);
    for (int k0 = 0; k0 < k; k0 += BK) {
        as[a_col + 0][a_row] = next_a.x;
        as[a_col + 1][a_row] = next_a.y;
        as[a_col + 2][a_row] = next_a.z;
        as[a_col + 3][a_row] = next_a.w;
        *reinterpret_cast<float4*>(&bs[b_row][b_col]) = next_b;
        __syncthreads();
        if (k0 + BK < k) {
            next_a = *reinterpret_cast<const float4*>(&a[(row0 + a_row) * k + k0 + BK + a_col]);
            next_b = *reinterpret_cast<const float4*>(&b[(k0 + BK + b_row) * n + col0 + b_col]);
        }
#pragma unroll
        for (int kk = 0; kk < BK; kk++) {
            float ra[TM], rb[TN];
#pragma unroll
            for (int i = 0; i < TM; i++) ra[i] = as[kk][ty * TM + i];
#pragma unroll
            for (int j = 0; j < TN; j++) rb[j] = bs[kk][tx * TN + j];
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++) sum[i][j] += ra[i] * rb[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4) {
            float4* out = reinterpret_cast<float4*>(&c[(row0 + ty * TM + i) * n + col0 + tx * TN + j]);
            float4 old = *out;
            old.x = alpha * sum[i][j] + beta * old.x;
            old.y = alpha * sum[i][j + 1] + beta * old.y;
            old.z = alpha * sum[i][j + 2] + beta * old.z;
            old.w = alpha * sum[i][j + 3] + beta * old.w;
            *out = old;
        }
}

int main() {
    int m = 2048, n = 2048, k = 1024;
    Random random;
    Array<float> a(m * k, [&](size_t) { return random.uniform(-1, 1); });
    Array<float> b(k * n, [&](size_t) { return random.uniform(-1, 1); });
    Array<float> c(m * n, 1.0f);
    auto kernel = gemm_register_blocked<128, 128, 8, 8, 8>;
    dim3 grid(n / 128, m / 128);
    float beta = 0.5f;
    bench("gemm_register_blocked", [&] { kernel<<<grid, 256>>>(a, b, c, m, n, k, 2.0f, beta); beta = 0; }, [&] {
        auto got = c.down();
        return check_samples(got.size(), 200, [&](size_t i) {
            double sum = 0;
            for (int j = 0; j < k; j++) sum += (double)a[i / n * k + j] * b[j * n + i % n];
            return close(got[i], 2 * sum + 0.5, 1e-4, 10);
        });
    });
    resources("gemm_register_blocked", kernel, 256);
}
