// Filters of images: bilateral, 3x3 median, Sobel on bytes, and colours to grey with gamma.
#include "bench.cuh"

__global__ void bilateral(const float* __restrict__ in, float* __restrict__ out, int width, int height, int radius, float space, float range) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float centre = in[y * width + x], sum = 0, total = 0;
    for (int dy = -radius; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++) {
            int xx = min(max(x + dx, 0), width - 1), yy = min(max(y + dy, 0), height - 1);
            float v = in[yy * width + xx], d = v - centre;
            float weight = __expf(-(dx * dx + dy * dy) * space - d * d * range);
            sum += weight * v;
            total += weight;
        }
    out[y * width + x] = sum / total;
}

__device__ inline void order(uint8_t& a, uint8_t& b) {
    uint8_t low = min(a, b), high = max(a, b);
    a = low;
    b = high;
}

__global__ void median3x3(const uint8_t* __restrict__ in, uint8_t* __restrict__ out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
    uint8_t v[9];
    for (int i = 0; i < 9; i++) v[i] = in[(y + i / 3 - 1) * width + x + i % 3 - 1];
    // An exchange sort of which only the middle is needed.
    for (int i = 0; i < 5; i++)
        for (int j = i + 1; j < 9; j++) order(v[i], v[j]);
    out[y * width + x] = v[4];
}

__global__ void sobel(const uint8_t* in, uint8_t* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    auto at = [&](int dx, int dy) -> int { return in[min(max(y + dy, 0), height - 1) * width + min(max(x + dx, 0), width - 1)]; };
    int gx = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
    int gy = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1);
    int magnitude = (int)sqrtf((float)(gx * gx + gy * gy));
    out[y * width + x] = magnitude > 255 ? 255 : magnitude;
}

__global__ void grey_gamma(const uchar4* __restrict__ in, uint8_t* __restrict__ out, int n, float gamma) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 c = in[i];
    float grey = 0.2126f * c.x + 0.7152f * c.y + 0.0722f * c.z;
    out[i] = (uint8_t)__float2int_rn(255.0f * powf(grey / 255.0f, gamma));
}

int main() {
    int width = 1920, height = 1080, n = width * height;
    Random random;
    Array<float> image(n, [&](size_t) { return random.uniform(); }), smooth(n);
    Array<uint8_t> bytes(n, [&](size_t) { return (uint8_t)random.next(); }), result(n);
    Array<uchar4> colours(n, [&](size_t) { uint32_t r = random.next(); return make_uchar4(r & 255, r >> 8 & 255, r >> 16 & 255, 255); });
    dim3 block(32, 8), grid((width + 31) / 32, (height + 7) / 8);
    auto clamp = [](int v, int high) { return std::min(std::max(v, 0), high - 1); };
    bench("bilateral", [&] { bilateral<<<grid, block>>>(image, smooth, width, height, 4, 0.05f, 8.0f); }, [&] {
        auto got = smooth.down();
        return check_samples(n, 3000, [&](size_t i) {
            int x = i % width, y = i / width;
            double sum = 0, total = 0;
            for (int dy = -4; dy <= 4; dy++)
                for (int dx = -4; dx <= 4; dx++) {
                    double v = image[clamp(y + dy, height) * width + clamp(x + dx, width)], d = v - image[i];
                    double w = exp(-(dx * dx + dy * dy) * 0.05 - d * d * 8);
                    sum += w * v, total += w;
                }
            return close(got[i], sum / total, 1e-4);
        });
    });
    bench("median3x3", [&] { median3x3<<<grid, block>>>(bytes, result, width, height); }, [&] {
        auto got = result.down();
        return check_samples(n, 20000, [&](size_t i) {
            int x = i % width, y = i / width;
            if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return true;
            uint8_t v[9];
            for (int j = 0; j < 9; j++) v[j] = bytes[(y + j / 3 - 1) * width + x + j % 3 - 1];
            std::sort(v, v + 9);
            return got[i] == v[4];
        });
    });
    bench("sobel", [&] { sobel<<<grid, block>>>(bytes, result, width, height); }, [&] {
        auto got = result.down();
        return check_samples(n, 20000, [&](size_t i) {
            int x = i % width, y = i / width;
            auto at = [&](int dx, int dy) { return (int)bytes[clamp(y + dy, height) * width + clamp(x + dx, width)]; };
            int gx = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
            int gy = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1);
            return abs(got[i] - std::min(255, (int)sqrt((double)gx * gx + gy * gy))) <= 1;
        });
    });
    bench("grey_gamma", [&] { grey_gamma<<<blocks_for(n, 256), 256>>>(colours, result, n, 0.4545f); }, [&] {
        auto got = result.down();
        return check_samples(n, 20000, [&](size_t i) {
            double grey = 0.2126 * colours[i].x + 0.7152 * colours[i].y + 0.0722 * colours[i].z;
            return fabs(got[i] - 255 * pow(grey / 255, 0.4545)) < 0.6;
        });
    });
    resources("bilateral", bilateral, 256);
    resources("median3x3", median3x3, 256);
    resources("sobel", sobel, 256);
    resources("grey_gamma", grey_gamma, 256);
}
