// A layer's 3x3 convolution, NCHW: a tile of the image and some filters in shared memory, several outputs of a thread.
#include "bench.cuh"

constexpr int TILE = 16, FILTERS = 8, CHUNK = 4;

__global__ void conv3x3(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
                        float* __restrict__ y, int channels, int filters, int height, int width) {
    __shared__ float tile[CHUNK][TILE + 2][TILE + 2];
    __shared__ float weight[FILTERS][CHUNK][9];
    int tx = threadIdx.x, ty = threadIdx.y, tid = ty * TILE + tx;
    int x0 = blockIdx.x * TILE, y0 = blockIdx.y * TILE;
    int groups = filters / FILTERS;
    int image = blockIdx.z / groups, f0 = blockIdx.z % groups * FILTERS;
    float sum[FILTERS];
    for (int f = 0; f < FILTERS; f++) sum[f] = bias[f0 + f];
    for (int c0 = 0; c0 < channels; c0 += CHUNK) {
        for (int i = tid; i < CHUNK * (TILE + 2) * (TILE + 2); i += TILE * TILE) {
            int c = i / ((TILE + 2) * (TILE + 2)), r = i % ((TILE + 2) * (TILE + 2));
            int yy = y0 + r / (TILE + 2) - 1, xx = x0 + r % (TILE + 2) - 1;
            float v = 0;
            if (yy >= 0 && yy < height && xx >= 0 && xx < width) v = x[((image * channels + c0 + c) * height + yy) * width + xx];
            tile[c][r / (TILE + 2)][r % (TILE + 2)] = v;
        }
        for (int i = tid; i < FILTERS * CHUNK * 9; i += TILE * TILE)
            weight[i / (CHUNK * 9)][i / 9 % CHUNK][i % 9] = w[((f0 + i / (CHUNK * 9)) * channels + c0 + i / 9 % CHUNK) * 9 + i % 9];
        __syncthreads();
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
            float patch[9];
#pragma unroll
            for (int i = 0; i < 9; i++) patch[i] = tile[c][ty + i / 3][tx + i % 3];
#pragma unroll
            for (int f = 0; f < FILTERS; f++)
#pragma unroll
                for (int i = 0; i < 9; i++) sum[f] += patch[i] * weight[f][c][i];
        }
        __syncthreads();
    }
    int xx = x0 + tx, yy = y0 + ty;
    if (xx < width && yy < height)
        for (int f = 0; f < FILTERS; f++) y[((image * filters + f0 + f) * height + yy) * width + xx] = fmaxf(sum[f], 0.0f);
}

int main() {
    int images = 4, channels = 32, filters = 64, height = 112, width = 112;
    Random random;
    Array<float> x(images * channels * height * width, [&](size_t) { return random.uniform(-1, 1); });
    Array<float> w(filters * channels * 9, [&](size_t) { return random.uniform(-0.2f, 0.2f); });
    Array<float> bias(filters, [&](size_t) { return random.uniform(-1, 1); });
    Array<float> y(images * filters * height * width);
    dim3 grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE, images * filters / FILTERS), block(TILE, TILE);
    bench("conv3x3", [&] { conv3x3<<<grid, block>>>(x, w, bias, y, channels, filters, height, width); }, [&] {
        auto got = y.down();
        return check_samples(got.size(), 2000, [&](size_t i) {
            int xx = i % width, yy = i / width % height, f = i / (width * height) % filters, image = i / (width * height * filters);
            double sum = bias[f];
            for (int c = 0; c < channels; c++)
                for (int t = 0; t < 9; t++) {
                    int py = yy + t / 3 - 1, px = xx + t % 3 - 1;
                    if (py >= 0 && py < height && px >= 0 && px < width)
                        sum += (double)x[((image * channels + c) * height + py) * width + px] * w[(f * channels + c) * 9 + t];
                }
            return close(got[i], std::max(sum, 0.0), 1e-4, 1);
        });
    });
    resources("conv3x3", conv3x3, TILE * TILE);
}
