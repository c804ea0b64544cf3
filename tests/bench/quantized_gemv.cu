// Quantized weights by a vector: 4 bits with a scale for 32 weights, and 8 bits with dp4a.
#include <cuda_fp16.h>

#include "bench.cuh"

struct Block4 {
    half scale;
    uint8_t bits[16];
};
static_assert(sizeof(Block4) == 18, "packed");

__global__ void gemv_int4(const Block4* __restrict__ w, const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    int blocks = columns / 32;
    float sum = 0;
    for (int b = lane; b < blocks; b += 32) {
        const Block4& block = w[(size_t)row * blocks + b];
        float scale = __half2float(block.scale), part = 0;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            int low = (block.bits[i] & 15) - 8, high = (block.bits[i] >> 4) - 8;
            part += low * x[b * 32 + i] + high * x[b * 32 + i + 16];
        }
        sum += scale * part;
    }
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) y[row] = sum;
}

__global__ void gemv_int8(const int4* __restrict__ w, const int4* __restrict__ x, const float* __restrict__ scales, float* __restrict__ y,
                          int rows, int vectors, float x_scale) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    int sum = 0;
    for (int i = threadIdx.x; i < vectors; i += 32) {
        int4 a = w[(size_t)row * vectors + i], b = __ldg(x + i);
        sum = __dp4a(a.x, b.x, sum);
        sum = __dp4a(a.y, b.y, sum);
        sum = __dp4a(a.z, b.z, sum);
        sum = __dp4a(a.w, b.w, sum);
    }
    sum = __reduce_add_sync(~0u, sum);
    if (threadIdx.x == 0) y[row] = sum * scales[row] * x_scale;
}

int main() {
    int rows = 8192, columns = 4096;
    Random random;
    Array<Block4> w4((size_t)rows * columns / 32, [&](size_t) {
        Block4 b;
        b.scale = __float2half(random.uniform(0.01f, 0.1f));
        uint64_t r[2] = {random.next64(), random.next64()};
        memcpy(b.bits, r, 16);
        return b;
    });
    Array<float> x(columns, [&](size_t) { return random.uniform(-1, 1); }), y(rows), scales(rows, [&](size_t) { return random.uniform(); });
    dim3 block(32, 4);
    bench("gemv_int4", [&] { gemv_int4<<<rows / 4, block>>>(w4, x, y, rows, columns); }, [&] {
        auto got = y.down();
        return check_samples(rows, 300, [&](size_t r) {
            double sum = 0;
            for (int c = 0; c < columns; c++) {
                const Block4& b = w4[r * (columns / 32) + c / 32];
                int bits = b.bits[c % 16] >> (c % 32 < 16 ? 0 : 4) & 15;
                sum += (double)__half2float(b.scale) * (bits - 8) * x[c];
            }
            return close(got[r], sum, 1e-3, 1);
        });
    });
    Array<int8_t> w8((size_t)rows * columns, [&](size_t) { return (int8_t)random.next(); }), x8(columns, [&](size_t) { return (int8_t)random.next(); });
    bench("gemv_int8", [&] { gemv_int8<<<rows / 4, block>>>((const int4*)w8.device, (const int4*)x8.device, scales, y, rows, columns / 16, 0.01f); }, [&] {
        auto got = y.down();
        return check_samples(rows, 300, [&](size_t r) {
            long sum = 0;
            for (int c = 0; c < columns; c++) sum += w8[r * columns + c] * x8[c];
            return close(got[r], sum * (double)scales[r] * 0.01, 1e-4, 1);
        });
    });
    resources("gemv_int4", gemv_int4, 128);
    resources("gemv_int8", gemv_int8, 128);
}
