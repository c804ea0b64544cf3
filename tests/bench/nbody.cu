// Gravity among all pairs of bodies: tiles of bodies in shared memory, one body for a thread.
#include "bench.cuh"

constexpr int TILE = 128;

__device__ float3 interact(float3 acceleration, float4 a, float4 b, float softening) {
    float3 d = make_float3(b.x - a.x, b.y - a.y, b.z - a.z);
    float r2 = d.x * d.x + d.y * d.y + d.z * d.z + softening;
    float inverse = rsqrtf(r2);
    float s = b.w * inverse * inverse * inverse;
    acceleration.x += d.x * s;
    acceleration.y += d.y * s;
    acceleration.z += d.z * s;
    return acceleration;
}

__global__ void nbody(const float4* __restrict__ position, float4* __restrict__ velocity, float4* __restrict__ moved, int n,
                      float dt, float softening) {
    __shared__ float4 tile[TILE];
    int i = blockIdx.x * TILE + threadIdx.x;
    float4 me = position[i];
    float3 acceleration = make_float3(0, 0, 0);
    for (int start = 0; start < n; start += TILE) {
        tile[threadIdx.x] = position[start + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < TILE; j++) acceleration = interact(acceleration, me, tile[j], softening);
        __syncthreads();
    }
    float4 v = velocity[i];
    v.x += acceleration.x * dt;
    v.y += acceleration.y * dt;
    v.z += acceleration.z * dt;
    me.x += v.x * dt;
    me.y += v.y * dt;
    me.z += v.z * dt;
    velocity[i] = v;
    moved[i] = me;
}

int main() {
    int n = 16384;
    Random random;
    Array<float4> position(n, [&](size_t) { return make_float4(random.uniform(-1, 1), random.uniform(-1, 1), random.uniform(-1, 1), random.uniform(0.1f, 1)); });
    Array<float4> velocity(n), moved(n);
    bench("nbody", [&] { nbody<<<n / TILE, TILE>>>(position, velocity, moved, n, 0.001f, 0.01f); }, [&] {
        auto got = velocity.down();
        return check_samples(n, 64, [&](size_t i) {
            double x = 0, y = 0;
            for (int j = 0; j < n; j++) {
                double dx = position[j].x - position[i].x, dy = position[j].y - position[i].y, dz = position[j].z - position[i].z;
                double r2 = dx * dx + dy * dy + dz * dz + 0.01f, s = position[j].w / (r2 * sqrt(r2));
                x += dx * s;
                y += dy * s;
            }
            return close(got[i].x, x * 0.001, 1e-3, 1) && close(got[i].y, y * 0.001, 1e-3, 1);
        });
    });
    resources("nbody", nbody, TILE);
}
