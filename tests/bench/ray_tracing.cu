// A ray tracer of spheres with reflections and shadows; the scene is in constant memory.
#include "bench.cuh"

struct Vec {
    float x, y, z;
    __host__ __device__ Vec operator+(Vec o) const { return {x + o.x, y + o.y, z + o.z}; }
    __host__ __device__ Vec operator-(Vec o) const { return {x - o.x, y - o.y, z - o.z}; }
    __host__ __device__ Vec operator*(float s) const { return {x * s, y * s, z * s}; }
};
__host__ __device__ inline float dot(Vec a, Vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__host__ __device__ inline Vec unit(Vec a) { return a * (1.0f / sqrtf(dot(a, a))); }

struct Sphere {
    Vec centre;
    float radius;
    Vec colour;
    float mirror;
};

constexpr int SPHERES = 20;
__constant__ Sphere scene[SPHERES];

template <typename Scene>
__host__ __device__ inline int nearest(const Scene& s, Vec from, Vec direction, float& distance) {
    int hit = -1;
    distance = 1e20f;
    for (int i = 0; i < SPHERES; i++) {
        Vec to = s[i].centre - from;
        float along = dot(to, direction), square = dot(to, to) - along * along, r2 = s[i].radius * s[i].radius;
        if (along < 0 || square > r2) continue;
        float t = along - sqrtf(r2 - square);
        if (t > 1e-3f && t < distance) {
            distance = t;
            hit = i;
        }
    }
    return hit;
}

template <typename Scene>
__host__ __device__ inline Vec trace(const Scene& s, Vec from, Vec direction) {
    Vec colour{0, 0, 0}, light = unit({1, 2, -1.5f});
    float weight = 1;
    for (int depth = 0; depth < 4; depth++) {
        float distance;
        int hit = nearest(s, from, direction, distance);
        if (hit < 0) {
            float sky = 0.5f + 0.5f * direction.y;
            colour = colour + Vec{0.4f, 0.6f, 1.0f} * (sky * weight);
            break;
        }
        Vec at = from + direction * distance, normal = unit(at - s[hit].centre);
        float shade = fmaxf(dot(normal, light), 0.0f), blocked;
        if (shade > 0 && nearest(s, at, light, blocked) >= 0) shade = 0;
        colour = colour + s[hit].colour * (weight * (1 - s[hit].mirror) * (0.1f + shade));
        weight *= s[hit].mirror;
        if (weight < 0.01f) break;
        direction = direction - normal * (2 * dot(direction, normal));
        from = at;
    }
    return colour;
}

template <typename Scene>
__host__ __device__ inline Vec pixel(const Scene& s, int x, int y, int width, int height) {
    Vec direction = unit({(x - width / 2) * 1.5f / width, (height / 2 - y) * 1.5f / width, 1.0f});
    return trace(s, Vec{0, 0, -8}, direction);
}

__global__ void ray_tracing(uchar4* image, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    Vec c = pixel(scene, x, y, width, height);
    image[y * width + x] = make_uchar4((unsigned char)(255 * fminf(c.x, 1)), (unsigned char)(255 * fminf(c.y, 1)), (unsigned char)(255 * fminf(c.z, 1)), 255);
}

int main() {
    int width = 1600, height = 900;
    Random random;
    Sphere spheres[SPHERES];
    for (Sphere& s : spheres)
        s = {{random.uniform(-4, 4), random.uniform(-2.5f, 2.5f), random.uniform(0, 8)}, random.uniform(0.3f, 1), {random.uniform(), random.uniform(), random.uniform()}, random.uniform(0, 0.7f)};
    CUDA(cudaMemcpyToSymbol(scene, spheres, sizeof spheres));
    Array<uchar4> image(width * height);
    bench("ray_tracing", [&] { ray_tracing<<<dim3((width + 15) / 16, (height + 15) / 16), dim3(16, 16)>>>(image, width, height); }, [&] {
        auto got = image.down();
        // Rays that graze a sphere may miss it with another rounding.
        int wrong = 0, samples = 5000;
        for (int k = 0; k < samples; k++) {
            int i = (int)((k * 104729ll) % (width * height));
            Vec c = pixel(spheres, i % width, i / width, width, height);
            wrong += abs(got[i].x - (int)(255 * std::min(c.x, 1.0f))) > 2 || abs(got[i].z - (int)(255 * std::min(c.z, 1.0f))) > 2;
        }
        return wrong < samples / 100;
    });
    resources("ray_tracing", ray_tracing, 256);
}
