// A separable convolution of an image: rows, then columns, the taps in constant memory.
#include "bench.cuh"

constexpr int RADIUS = 8, TAPS = 2 * RADIUS + 1;
__constant__ float taps[TAPS];

constexpr int RX = 16, RY = 4, STEPS = 8;

__global__ void convolve_rows(float* dst, const float* src, int width, int height, int pitch) {
    __shared__ float line[RY][(STEPS + 2) * RX];
    int base_x = (blockIdx.x * STEPS - 1) * RX + threadIdx.x;
    int y = blockIdx.y * RY + threadIdx.y;
    src += y * pitch + base_x;
    dst += y * pitch + base_x;
    for (int i = 0; i < STEPS + 2; i++) {
        int x = base_x + i * RX;
        line[threadIdx.y][threadIdx.x + i * RX] = x >= 0 && x < width ? src[i * RX] : 0.0f;
    }
    __syncthreads();
    for (int i = 1; i <= STEPS; i++) {
        float sum = 0;
#pragma unroll
        for (int j = -RADIUS; j <= RADIUS; j++) sum += taps[RADIUS - j] * line[threadIdx.y][threadIdx.x + i * RX + j];
        dst[i * RX] = sum;
    }
}

__global__ void convolve_columns(float* dst, const float* src, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0;
    for (int j = -RADIUS; j <= RADIUS; j++) {
        int yy = y + j;
        if (yy >= 0 && yy < height) sum += taps[RADIUS - j] * src[yy * width + x];
    }
    dst[y * width + x] = sum;
}

int main() {
    int width = 4096, height = 2048;
    Random random;
    Array<float> in(width * height, [&](size_t) { return random.uniform(); });
    Array<float> middle(width * height), out(width * height);
    float h[TAPS];
    for (float& tap : h) tap = random.uniform(0, 0.2f);
    CUDA(cudaMemcpyToSymbol(taps, h, sizeof h));
    bench("convolve_rows", [&] {
        convolve_rows<<<dim3(width / (STEPS * RX), height / RY), dim3(RX, RY)>>>(middle, in, width, height, width);
    }, [&] {
        auto got = middle.down();
        return check_samples(got.size(), 5000, [&](size_t i) {
            double sum = 0;
            for (int j = -RADIUS; j <= RADIUS; j++) {
                long x = (long)(i % width) + j;
                if (x >= 0 && x < width) sum += h[RADIUS - j] * in[i / width * width + x];
            }
            return close(got[i], sum, 1e-5);
        });
    });
    auto rows = middle.down();
    bench("convolve_columns", [&] {
        convolve_columns<<<dim3(width / 32, height / 8), dim3(32, 8)>>>(out, middle, width, height);
    }, [&] {
        auto got = out.down();
        return check_samples(got.size(), 5000, [&](size_t i) {
            double sum = 0;
            for (int j = -RADIUS; j <= RADIUS; j++) {
                long y = (long)(i / width) + j;
                if (y >= 0 && y < height) sum += h[RADIUS - j] * rows[y * width + i % width];
            }
            return close(got[i], sum, 1e-5);
        });
    });
    resources("convolve_rows", convolve_rows, RX * RY);
    resources("convolve_columns", convolve_columns, 256);
}
