// Half precision product with warpgroup instructions (wgmma), operands in shared memory without swizzle.
// arch: sm_90a
#include <cuda_fp16.h>

#include "bench.cuh"

constexpr int BM = 64, BN = 64, BK = 64, THREADS = 128;

/// Operands lie as 8x8 cores of 128 bytes: those along k follow each other, those along the rows are BK / 8 cores apart.
__device__ inline uint64_t describe(const void* shared) {
    uint64_t at = __cvta_generic_to_shared(shared);
    uint64_t leading = 128, stride = BK / 8 * 128;
    return (at & 0x3ffff) >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32;
}

__device__ inline int core_offset(int row, int k) { return (row / 8 * (BK / 8) + k / 8) * 64 + row % 8 * 8 + k % 8; }

__device__ inline void multiply(float (&d)[32], uint64_t a, uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
          "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
          "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b));
}

/// c = a * transposed b.
__global__ __launch_bounds__(THREADS) void gemm_wgmma(const half* __restrict__ a, const half* __restrict__ b, float* __restrict__ c,
                                                      int m, int n, int k) {
    __shared__ alignas(128) half as[2][BM * BK];
    __shared__ alignas(128) half bs[2][BN * BK];
    int tid = threadIdx.x, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    float sum[32] = {};
    uint4 ra[4], rb[4];
    auto load = [&](int k0) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int at = tid + i * THREADS, r = at / 8, q = at % 8 * 8;
            ra[i] = *(const uint4*)&a[(size_t)(row0 + r) * k + k0 + q];
            rb[i] = *(const uint4*)&b[(size_t)(col0 + r) * k + k0 + q];
        }
    };
    load(0);
    for (int k0 = 0, stage = 0; k0 < k; k0 += BK, stage ^= 1) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int at = tid + i * THREADS, r = at / 8, q = at % 8 * 8;
            *(uint4*)&as[stage][core_offset(r, q)] = ra[i];
            *(uint4*)&bs[stage][core_offset(r, q)] = rb[i];
        }
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int kk = 0; kk < BK; kk += 16)
            multiply(sum, describe(&as[stage][core_offset(0, kk)]), describe(&bs[stage][core_offset(0, kk)]));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (k0 + BK < k) load(k0 + BK);
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    int warp = tid / 32, lane = tid % 32;
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
        int row = row0 + warp * 16 + lane / 4 + i / 2 % 2 * 8, col = col0 + i / 4 * 8 + lane % 4 * 2;
        *(float2*)&c[(size_t)row * n + col] = make_float2(sum[i], sum[i + 1]);
    }
}

int main() {
    int m = 2048, n = 2048, k = 1024;
    Random random;
    Array<half> a(m * k, [&](size_t) { return __float2half(random.uniform(-1, 1)); }), b(n * k, [&](size_t) { return __float2half(random.uniform(-1, 1)); });
    Array<float> c(m * n);
    bench("gemm_wgmma", [&] { gemm_wgmma<<<dim3(n / BN, m / BM), THREADS>>>(a, b, c, m, n, k); }, [&] {
        auto got = c.down();
        return check_samples(got.size(), 200, [&](size_t i) {
            double sum = 0;
            for (int j = 0; j < k; j++) sum += (double)__half2float(a[i / n * k + j]) * __half2float(b[i % n * k + j]);
            return close(got[i], sum, 1e-3, 10);
        });
    });
    resources("gemm_wgmma", gemm_wgmma, THREADS);
}
