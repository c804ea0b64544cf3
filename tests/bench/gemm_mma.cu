// bfloat16 product with mma.sync: asynchronous copies into two stages, ldmatrix, 128x128 tiles.
#include <cuda_bf16.h>

#include "bench.cuh"

constexpr int BM = 128, BN = 128, BK = 32, STAGES = 3, THREADS = 256, LINE = BK + 8;

__device__ inline void copy_async(void* shared, const void* global) {
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global));
}

__device__ inline void load_matrix(unsigned (&r)[4], const void* shared) {
    unsigned from = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
}

__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// c = a * transposed b: both operands have k innermost.
__global__ __launch_bounds__(THREADS) void gemm_mma(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                                                    __nv_bfloat16* __restrict__ c, int m, int n, int k) {
    extern __shared__ __nv_bfloat16 shared[];
    auto as = (__nv_bfloat16(*)[BM][LINE])shared;
    auto bs = (__nv_bfloat16(*)[BN][LINE])(shared + STAGES * BM * LINE);
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, wr = warp / 4 * 64, wc = warp % 4 * 32;
    float sum[4][4][4] = {};
    auto fetch = [&](int stage, int k0) {
        for (int i = tid; i < BM * BK / 8; i += THREADS) {
            int r = i / (BK / 8), q = i % (BK / 8) * 8;
            copy_async(&as[stage][r][q], a + (size_t)(row0 + r) * k + k0 + q);
            copy_async(&bs[stage][r][q], b + (size_t)(col0 + r) * k + k0 + q);
        }
    };
    for (int s = 0; s < STAGES - 1; s++) {
        if (s * BK < k) fetch(s, s * BK);
        asm volatile("cp.async.commit_group;");
    }
    for (int step = 0; step < k / BK; step++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        int ahead = step + STAGES - 1;
        if (ahead < k / BK) fetch(ahead % STAGES, ahead * BK);
        asm volatile("cp.async.commit_group;");
        int stage = step % STAGES;
#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
            unsigned fa[4][4], fb[2][4];
            for (int i = 0; i < 4; i++) load_matrix(fa[i], &as[stage][wr + i * 16 + lane % 16][kk + lane / 16 * 8]);
            for (int j = 0; j < 2; j++) load_matrix(fb[j], &bs[stage][wc + j * 16 + lane % 8 + lane / 16 * 8][kk + lane / 8 % 2 * 8]);
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) multiply(sum[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
        }
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            for (int h = 0; h < 2; h++) {
                int row = row0 + wr + i * 16 + lane / 4 + h * 8, col = col0 + wc + j * 8 + lane % 4 * 2;
                *(__nv_bfloat162*)&c[(size_t)row * n + col] = __floats2bfloat162_rn(sum[i][j][h * 2], sum[i][j][h * 2 + 1]);
            }
}

int main() {
    int m = 2048, n = 2048, k = 2048;
    Random random;
    Array<__nv_bfloat16> a(m * k, [&](size_t) { return __float2bfloat16(random.uniform(-1, 1)); });
    Array<__nv_bfloat16> b(n * k, [&](size_t) { return __float2bfloat16(random.uniform(-1, 1)); }), c(m * n);
    int shared = STAGES * (BM + BN) * LINE * 2;
    CUDA(cudaFuncSetAttribute(gemm_mma, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    bench("gemm_mma", [&] { gemm_mma<<<dim3(n / BN, m / BM), THREADS, shared>>>(a, b, c, m, n, k); }, [&] {
        auto got = c.down();
        return check_samples(got.size(), 200, [&](size_t i) {
            double sum = 0;
            for (int j = 0; j < k; j++) sum += (double)__bfloat162float(a[i / n * k + j]) * __bfloat162float(b[i % n * k + j]);
            return close(__bfloat162float(got[i]), sum, 1e-2, 10);
        });
    });
    resources("gemm_mma", gemm_mma, THREADS, shared);
}
