// The Mandelbrot set in single and in double precision, and a Julia set with a template for the power.
#include "bench.cuh"

template <typename T>
__host__ __device__ inline int escape(T cx, T cy, int limit) {
    T x = 0, y = 0;
    int i = 0;
    while (x * x + y * y <= T(4) && i < limit) {
        T next = x * x - y * y + cx;
        y = T(2) * x * y + cy;
        x = next;
        i++;
    }
    return i;
}

template <typename T>
__global__ void mandelbrot(int* out, int width, int height, T left, T top, T step, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) out[y * width + x] = escape<T>(left + x * step, top + y * step, limit);
}

template <int POWER>
__global__ void julia(float* out, int width, int height, float2 c, float step, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float2 z = make_float2((x - width / 2) * step, (y - height / 2) * step);
    int i;
    for (i = 0; i < limit; i++) {
        float2 p = z;
#pragma unroll
        for (int k = 1; k < POWER; k++) p = make_float2(p.x * z.x - p.y * z.y, p.x * z.y + p.y * z.x);
        z = make_float2(p.x + c.x, p.y + c.y);
        if (z.x * z.x + z.y * z.y > 16.0f) break;
    }
    out[y * width + x] = i < limit ? i + 1 - __log2f(__log2f(z.x * z.x + z.y * z.y)) : 0.0f;
}

int main() {
    int width = 1024, height = 768, limit = 256;
    dim3 block(32, 8), grid(width / 32, height / 8);
    Array<int> out(width * height);
    auto count_wrong = [&](auto want) {
        auto got = out.down();
        int wrong = 0;
        for (int k = 0; k < 3000; k++) {
            int i = (int)(k * 7919ll % (width * height));
            wrong += abs(got[i] - want(i % width, i / width)) > 2;
        }
        // At the border of the set a rounding decides.
        return wrong < 60;
    };
    bench("mandelbrot_float", [&] { mandelbrot<float><<<grid, block>>>(out, width, height, -2.0f, -1.2f, 0.003f, limit); },
          [&] { return count_wrong([&](int x, int y) { return escape<float>(-2.0f + x * 0.003f, -1.2f + y * 0.003f, limit); }); });
    bench("mandelbrot_double", [&] { mandelbrot<double><<<grid, block>>>(out, width, height, -2.0, -1.2, 0.003, limit); },
          [&] { return count_wrong([&](int x, int y) { return escape<double>(-2.0 + x * 0.003, -1.2 + y * 0.003, limit); }); });
    Array<float> smooth(width * height);
    bench("julia", [&] { julia<3><<<grid, block>>>(smooth, width, height, make_float2(0.4f, 0.3f), 0.003f, limit); }, [&] {
        auto got = smooth.down();
        // The set has the symmetry of the power about the origin only with c; finite values are what can be asked.
        return check_samples(got.size(), got.size(), [&](size_t i) { return got[i] >= -4 && got[i] <= limit + 2; });
    });
    resources("mandelbrot", mandelbrot<float>, 256);
    resources("julia", julia<3>, 256);
}
