// Virtual functions: shapes made on the device, and their areas and distances through pointers to a base.
#include "bench.cuh"

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual float distance(float x, float y) const = 0;
    __device__ virtual ~Shape() {}
};

struct Circle : Shape {
    float x, y, r;
    __device__ Circle(float a, float b, float c) : x(a), y(b), r(c) {}
    __device__ float area() const override { return 3.14159265f * r * r; }
    __device__ float distance(float a, float b) const override { return sqrtf((a - x) * (a - x) + (b - y) * (b - y)) - r; }
};

struct Box : Shape {
    float x, y, w, h;
    __device__ Box(float a, float b, float c, float d) : x(a), y(b), w(c), h(d) {}
    __device__ float area() const override { return 4 * w * h; }
    __device__ float distance(float a, float b) const override {
        float dx = fabsf(a - x) - w, dy = fabsf(b - y) - h;
        float ox = fmaxf(dx, 0.0f), oy = fmaxf(dy, 0.0f);
        return sqrtf(ox * ox + oy * oy) + fminf(fmaxf(dx, dy), 0.0f);
    }
};

struct Plane : Shape {
    float nx, ny, d;
    __device__ Plane(float a, float b, float c) : nx(a), ny(b), d(c) {}
    __device__ float area() const override { return 0; }
    __device__ float distance(float a, float b) const override { return nx * a + ny * b - d; }
};

constexpr size_t SLOT = sizeof(Box) > sizeof(Circle) ? sizeof(Box) : sizeof(Circle);

__global__ void create(Shape** shapes, char* memory, const float4* numbers, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = numbers[i];
    void* at = memory + i * SLOT;
    switch (i % 3) {
        case 0: shapes[i] = new (at) Circle(p.x, p.y, p.z); break;
        case 1: shapes[i] = new (at) Box(p.x, p.y, p.z, p.w); break;
        default: shapes[i] = new (at) Plane(p.x, p.y, p.z); break;
    }
}

__global__ void nearest_shape(Shape* const* shapes, int count, float* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float least = 1e30f;
    for (int i = 0; i < count; i++) least = fminf(least, shapes[i]->distance((float)x / width, (float)y / height));
    out[y * width + x] = least;
}

__global__ void areas(Shape* const* shapes, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = shapes[i]->area() + shapes[i]->distance(0.5f, 0.5f);
}

int main() {
    int count = 24, width = 512, height = 512, n = 1 << 20;
    Random random;
    Array<float4> numbers(n, [&](size_t) { return make_float4(random.uniform(), random.uniform(), random.uniform(0.01f, 0.1f), random.uniform(0.01f, 0.1f)); });
    Array<Shape*> shapes(n);
    Array<char> memory(n * SLOT);
    Array<float> out(n);
    auto distance = [&](int i, double a, double b) {
        float4 p = numbers[i];
        if (i % 3 == 0) return sqrt((a - p.x) * (a - p.x) + (b - p.y) * (b - p.y)) - p.z;
        if (i % 3 == 2) return (double)p.x * a + (double)p.y * b - p.z;
        double dx = fabs(a - p.x) - p.z, dy = fabs(b - p.y) - p.w;
        return sqrt(pow(std::max(dx, 0.0), 2) + pow(std::max(dy, 0.0), 2)) + std::min(std::max(dx, dy), 0.0);
    };
    create<<<blocks_for(n, 256), 256>>>(shapes, memory, numbers, n);
    bench("nearest_shape", [&] { nearest_shape<<<dim3(width / 32, height / 8), dim3(32, 8)>>>(shapes, count, out, width, height); }, [&] {
        auto got = out.down();
        return check_samples(width * height, 3000, [&](size_t k) {
            double least = 1e30;
            for (int i = 0; i < count; i++) least = std::min(least, distance(i, (k % width) / (double)width, (double)(k / width) / height));
            return close(got[k], least, 1e-4, 1);
        });
    });
    bench("areas", [&] { areas<<<blocks_for(n, 256), 256>>>(shapes, out, n); }, [&] {
        auto got = out.down();
        return check_samples(n, 3000, [&](size_t i) {
            float4 p = numbers[i];
            double area = i % 3 == 0 ? 3.14159265 * p.z * p.z : i % 3 == 1 ? 4.0 * p.z * p.w : 0;
            return close(got[i], area + distance((int)i, 0.5, 0.5), 1e-4, 1);
        });
    });
    resources("nearest_shape", nearest_shape, 256);
    resources("areas", areas, 256);
}
