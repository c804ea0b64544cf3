// The discrete cosine transform of 8x8 blocks of an image: rows in registers, columns through shared memory, quantization.
#include "bench.cuh"

constexpr int N = 8;
__constant__ float quantum[64];

__host__ __device__ inline void dct8(float (&v)[N]) {
    const float c1 = 0.980785280f, s1 = 0.195090322f, c3 = 0.831469612f, s3 = 0.555570233f, c6 = 0.382683432f, s6 = 0.923879533f, r = 0.707106781f;
    float a0 = v[0] + v[7], a7 = v[0] - v[7], a1 = v[1] + v[6], a6 = v[1] - v[6], a2 = v[2] + v[5], a5 = v[2] - v[5], a3 = v[3] + v[4], a4 = v[3] - v[4];
    float b0 = a0 + a3, b3 = a0 - a3, b1 = a1 + a2, b2 = a1 - a2;
    v[0] = (b0 + b1) * r * 0.5f;
    v[4] = (b0 - b1) * r * 0.5f;
    v[2] = (b2 * c6 + b3 * s6) * 0.5f;
    v[6] = (b3 * c6 - b2 * s6) * 0.5f;
    v[1] = (a7 * c1 + a6 * c3 + a5 * s3 + a4 * s1) * 0.5f;
    v[3] = (a7 * c3 - a6 * s1 - a5 * c1 - a4 * s3) * 0.5f;
    v[5] = (a7 * s3 - a6 * c1 + a5 * s1 + a4 * c3) * 0.5f;
    v[7] = (a7 * s1 - a6 * s3 + a5 * c3 - a4 * c1) * 0.5f;
}

/// A warp has four blocks of the image, a thread one row of one, then one column.
__global__ void dct_quantize(const uint8_t* __restrict__ image, short* __restrict__ out, int width, int height) {
    __shared__ float s[8][4][N][N + 1];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, which = lane / N, row = lane % N;
    int bx = (blockIdx.x * 8 + warp) * 4 + which, by = blockIdx.y;
    float v[N];
    uint2 bytes = *(const uint2*)(image + (size_t)(by * N + row) * width + bx * N);
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = (float)((i < 4 ? bytes.x >> 8 * i : bytes.y >> 8 * (i - 4)) & 255) - 128.0f;
    dct8(v);
#pragma unroll
    for (int i = 0; i < N; i++) s[warp][which][row][i] = v[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = s[warp][which][i][row];
    dct8(v);
#pragma unroll
    for (int i = 0; i < N; i++) out[(size_t)(by * N + i) * width + bx * N + row] = (short)__float2int_rn(v[i] / quantum[i * N + row]);
}

int main() {
    int width = 4096, height = 2048;
    Random random;
    float q[64];
    for (int i = 0; i < 64; i++) q[i] = 4.0f + i / 8 + i % 8;
    CUDA(cudaMemcpyToSymbol(quantum, q, sizeof q));
    Array<uint8_t> image((size_t)width * height, [&](size_t i) { return (uint8_t)(128 + 60 * sin(i % width * 0.1) + random.below(60)); });
    Array<short> out(image.size());
    bench("dct_quantize", [&] { dct_quantize<<<dim3(width / N / 32, height / N), 256>>>(image, out, width, height); }, [&] {
        auto got = out.down();
        return check_samples(got.size(), 5000, [&](size_t at) {
            size_t x = at % width, y = at / width, u = x % N, w = y % N, x0 = x - u, y0 = y - w;
            double sum = 0;
            for (int i = 0; i < N; i++)
                for (int j = 0; j < N; j++)
                    sum += (image[(y0 + i) * width + x0 + j] - 128.0) * cos((2 * j + 1) * u * M_PI / 16) * cos((2 * i + 1) * w * M_PI / 16);
            sum *= 0.25 * (u ? 1 : sqrt(0.5)) * (w ? 1 : sqrt(0.5));
            return fabs(got[at] - sum / q[w * N + u]) < 0.51;
        });
    });
    resources("dct_quantize", dct_quantize, 256);
}
