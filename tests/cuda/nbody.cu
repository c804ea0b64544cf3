// A few steps of gravity between 1000 bodies, tiles of bodies in shared memory, against double precision on the host.
#include "check.cuh"

const int TILE = 128;
const float SOFTENING = 0.01f, STEP = 0.001f;

__global__ void step(const float4* bodies, float4* moved, float3* velocities, int n) {
    __shared__ float4 tile[TILE];
    int i = blockIdx.x * TILE + threadIdx.x;
    float4 me = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
    float ax = 0, ay = 0, az = 0;
    for (int base = 0; base < n; base += TILE) {
        int j = base + threadIdx.x;
        tile[threadIdx.x] = j < n ? bodies[j] : make_float4(0, 0, 0, 0);   // no mass, no pull
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < TILE; k++) {
            float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
            float pull = tile[k].w * inverse * inverse * inverse;
            ax += dx * pull, ay += dy * pull, az += dz * pull;
        }
        __syncthreads();
    }
    if (i >= n) return;
    float3 v = velocities[i];
    v.x += ax * STEP, v.y += ay * STEP, v.z += az * STEP;
    velocities[i] = v;
    moved[i] = make_float4(me.x + v.x * STEP, me.y + v.y * STEP, me.z + v.z * STEP, me.w);
}

int main() {
    const int n = 1000, steps = 4;
    Buffer<float4> bodies(n), moved(n);
    Buffer<float3> velocities(n);
    Random random;
    std::vector<double> p(3 * n), v(3 * n, 0.0), mass(n);
    for (int i = 0; i < n; i++) {
        float x = random.between(-1, 1), y = random.between(-1, 1), z = random.between(-1, 1);
        bodies[i] = make_float4(x, y, z, random.between(0, 1));
        p[3 * i] = bodies[i].x, p[3 * i + 1] = bodies[i].y, p[3 * i + 2] = bodies[i].z, mass[i] = bodies[i].w;
    }
    bodies.up();
    for (int s = 0; s < steps; s++) {
        float4 *from = s % 2 ? moved.device : bodies.device, *to = s % 2 ? bodies.device : moved.device;
        step<<<(n + TILE - 1) / TILE, TILE>>>(from, to, velocities.device, n);
        std::vector<double> next = p;
        for (int i = 0; i < n; i++) {
            double a[3] = {};
            for (int j = 0; j < n; j++) {
                double d[3], square = SOFTENING;
                for (int c = 0; c < 3; c++) d[c] = p[3 * j + c] - p[3 * i + c], square += d[c] * d[c];
                for (int c = 0; c < 3; c++) a[c] += d[c] * mass[j] / (square * sqrt(square));
            }
            for (int c = 0; c < 3; c++) v[3 * i + c] += a[c] * STEP, next[3 * i + c] += v[3 * i + c] * STEP;
        }
        p = next;
    }
    bodies.down(), velocities.down();
    for (int i = 0; i < n; i++) {
        const float got[6] = {bodies[i].x, bodies[i].y, bodies[i].z, velocities[i].x, velocities[i].y, velocities[i].z};
        for (int c = 0; c < 3; c++) near("place", 3 * i + c, got[c], p[3 * i + c], 1e-6, 1);
        for (int c = 0; c < 3; c++) near("velocity", 3 * i + c, got[3 + c], v[3 * i + c], 1e-4, 1);
    }
    return verdict();
}
