// Escape times of the Mandelbrot set in 32-bit fixed point (exact) and in double with explicit rounding (exact too).
#include "check.cuh"

const int LIMIT = 200;
const int ONE = 1 << 28;

__host__ __device__ int escape_fixed(int cx, int cy) {   // 4.28 fixed point
    int64_t x = 0, y = 0;
    for (int i = 0; i < LIMIT; i++) {
        int64_t xx = x * x >> 28, yy = y * y >> 28;
        if (xx + yy > (4ll << 28)) return i;
        y = (x * y >> 27) + cy;
        x = xx - yy + cx;
    }
    return LIMIT;
}

// Each operation rounds once; the intrinsics keep the compiler from fusing.
__device__ int escape_double(double cx, double cy) {
    double x = 0, y = 0;
    for (int i = 0; i < LIMIT; i++) {
        double xx = __dmul_rn(x, x), yy = __dmul_rn(y, y);
        if (__dadd_rn(xx, yy) > 4) return i;
        y = __dadd_rn(__dmul_rn(__dadd_rn(x, x), y), cy);
        x = __dadd_rn(__dsub_rn(xx, yy), cx);
    }
    return LIMIT;
}

int escape_on_host(double cx, double cy) {
    volatile double xx, yy, xy;   // volatile: no fusing on the host either
    double x = 0, y = 0;
    for (int i = 0; i < LIMIT; i++) {
        xx = x * x, yy = y * y;
        if (xx + yy > 4) return i;
        xy = (x + x) * y;
        y = xy + cy;
        xy = xx - yy;
        x = xy + cx;
    }
    return LIMIT;
}

__global__ void draw(int width, int height, int* fixed, int* doubles) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    int cx = (int)((int64_t)(px * 3 - 2 * width) * ONE / width), cy = (int)((int64_t)(py * 2 - height) * ONE / height);
    fixed[py * width + px] = escape_fixed(cx, cy);
    doubles[py * width + px] = escape_double(cx / (double)ONE, cy / (double)ONE);
}

int main() {
    const int width = 199, height = 131;
    Buffer<int> fixed(width * height), doubles(width * height);
    draw<<<dim3((width + 15) / 16, (height + 7) / 8), dim3(16, 8)>>>(width, height, fixed.device, doubles.device);
    fixed.down(), doubles.down();
    for (int py = 0; py < height; py++)
        for (int px = 0; px < width; px++) {
            int cx = (int)((int64_t)(px * 3 - 2 * width) * ONE / width);
            int cy = (int)((int64_t)(py * 2 - height) * ONE / height);
            int i = py * width + px;
            same("fixed", i, fixed[i], escape_fixed(cx, cy));
            same("double", i, doubles[i], escape_on_host(cx / (double)ONE, cy / (double)ONE));
        }
    return verdict();
}
