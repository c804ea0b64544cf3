// Many small products: 16x16 matrices with template sizes, and a vector by a matrix for each of many rows in half precision.
#include <cuda_fp16.h>

#include "bench.cuh"

template <typename T, int N>
__global__ void gemm_batched(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int batch) {
    __shared__ T as[4][N][N], bs[4][N][N];
    int which = threadIdx.x / 64, t = threadIdx.x % 64, m = blockIdx.x * 4 + which;
    if (m < batch)
        for (int i = t; i < N * N; i += 64) {
            as[which][i / N][i % N] = a[(size_t)m * N * N + i];
            bs[which][i / N][i % N] = b[(size_t)m * N * N + i];
        }
    __syncthreads();
    if (m >= batch) return;
    for (int i = t; i < N * N; i += 64) {
        T sum = 0;
#pragma unroll
        for (int k = 0; k < N; k++) sum += as[which][i / N][k] * bs[which][k][i % N];
        c[(size_t)m * N * N + i] = sum;
    }
}

__global__ void gemv_half(const half* __restrict__ w, const half* __restrict__ x, half* __restrict__ y, int rows, int columns) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const uint4* p = (const uint4*)(w + (size_t)row * columns);
    const uint4* q = (const uint4*)x;
    float sum = 0;
    for (int i = threadIdx.x; i < columns / 8; i += 32) {
        uint4 a = p[i], b = q[i];
        half2 *ha = (half2*)&a, *hb = (half2*)&b, product = __float2half2_rn(0);
#pragma unroll
        for (int j = 0; j < 4; j++) product = __hfma2(ha[j], hb[j], product);
        float2 f = __half22float2(product);
        sum += f.x + f.y;
    }
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(~0u, sum, d);
    if (threadIdx.x == 0) y[row] = __float2half(sum);
}

int main() {
    int batch = 1 << 14;
    Random random;
    auto values = [&](size_t) { return random.uniform(-1, 1); };
    Array<float> a((size_t)batch * 256, values), b((size_t)batch * 256, values), c((size_t)batch * 256);
    bench("gemm_batched", [&] { gemm_batched<float, 16><<<batch / 4, 256>>>(a.device, b.device, c.device, batch); }, [&] {
        auto got = c.down();
        return check_samples(got.size(), 10000, [&](size_t i) {
            double sum = 0;
            for (int k = 0; k < 16; k++) sum += (double)a[i / 16 * 16 + k] * b[i / 256 * 256 + k * 16 + i % 16];
            return close(got[i], sum, 1e-5, 1);
        });
    });
    int rows = 8192, columns = 4096;
    Array<half> w((size_t)rows * columns, [&](size_t) { return __float2half(random.uniform(-0.1f, 0.1f)); }), x(columns, [&](size_t) { return __float2half(random.uniform(-1, 1)); }), y(rows);
    bench("gemv_half", [&] { gemv_half<<<rows / 4, dim3(32, 4)>>>(w, x, y, rows, columns); }, [&] {
        auto got = y.down();
        return check_samples(rows, 300, [&](size_t r) {
            double sum = 0;
            for (int i = 0; i < columns; i++) sum += (double)__half2float(w[r * columns + i]) * __half2float(x[i]);
            return close(__half2float(got[r]), sum, 1e-2, 2);
        });
    });
    resources("gemm_batched", gemm_batched<float, 16>, 256);
    resources("gemv_half", gemv_half, 128);
}
