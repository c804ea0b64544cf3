// Lennard-Jones forces over neighbour lists, with periodic boundaries, a cutoff and an energy sum.
#include "bench.cuh"

struct Box {
    float3 size, inverse;
};

__global__ void lennard_jones(const float4* __restrict__ position, const int* __restrict__ neighbours,
                              const int* __restrict__ counts, float4* __restrict__ force, int n, Box box, float cutoff2,
                              float epsilon, float sigma2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 me = position[i];
    float4 sum = make_float4(0, 0, 0, 0);
    int count = counts[i];
    for (int k = 0; k < count; k++) {
        int j = neighbours[k * n + i];
        float4 other = __ldg(&position[j]);
        float dx = me.x - other.x, dy = me.y - other.y, dz = me.z - other.z;
        dx -= box.size.x * rintf(dx * box.inverse.x);
        dy -= box.size.y * rintf(dy * box.inverse.y);
        dz -= box.size.z * rintf(dz * box.inverse.z);
        float r2 = dx * dx + dy * dy + dz * dz;
        if (r2 < cutoff2) {
            float inverse = 1.0f / r2;
            float s2 = sigma2 * inverse, s6 = s2 * s2 * s2;
            float f = 24.0f * epsilon * s6 * (2.0f * s6 - 1.0f) * inverse;
            sum.x += f * dx;
            sum.y += f * dy;
            sum.z += f * dz;
            sum.w += 4.0f * epsilon * s6 * (s6 - 1.0f);
        }
    }
    force[i] = sum;
}

int main() {
    int side = 40, n = side * side * side, reach = 2;
    float length = (float)side;
    Random random;
    Array<float4> position(n, [&](size_t i) {
        auto shake = [&] { return random.uniform(-0.1f, 0.1f); };
        return make_float4(i % side + shake(), i / side % side + shake(), i / (side * side) + shake(), 0);
    });
    std::vector<int> neighbours, counts(n, 0);
    for (int dz = -reach; dz <= reach; dz++)
        for (int dy = -reach; dy <= reach; dy++)
            for (int dx = -reach; dx <= reach; dx++) {
                if (!dx && !dy && !dz) continue;
                for (int i = 0; i < n; i++) {
                    int x = (i % side + dx + side) % side, y = (i / side % side + dy + side) % side, z = (i / (side * side) + dz + side) % side;
                    neighbours.push_back((z * side + y) * side + x);
                }
            }
    for (int i = 0; i < n; i++) counts[i] = 100 + i % 25;
    Array<int> d_neighbours(neighbours), d_counts(counts);
    Array<float4> force(n);
    Box box{{length, length, length}, {1 / length, 1 / length, 1 / length}};
    bench("lennard_jones", [&] { lennard_jones<<<blocks_for(n, 128), 128>>>(position, d_neighbours, d_counts, force, n, box, 6.25f, 1.0f, 0.8f); }, [&] {
        auto got = force.down();
        return check_samples(n, 2000, [&](size_t i) {
            double fx = 0, energy = 0, scale = 0;
            for (int k = 0; k < counts[i]; k++) {
                int j = neighbours[(size_t)k * n + i];
                double dx = position[i].x - position[j].x, dy = position[i].y - position[j].y, dz = position[i].z - position[j].z;
                dx -= length * rint(dx / length), dy -= length * rint(dy / length), dz -= length * rint(dz / length);
                double r2 = dx * dx + dy * dy + dz * dz;
                if (r2 >= 6.25) continue;
                double s6 = pow(0.8f / r2, 3);
                fx += 24 * s6 * (2 * s6 - 1) / r2 * dx;
                energy += 4 * s6 * (s6 - 1);
                scale += fabs(24 * s6 * (2 * s6 - 1) / r2 * dx) + fabs(4 * s6 * (s6 - 1));
            }
            return close(got[i].x, fx, 1e-4, scale) && close(got[i].w, energy, 1e-4, scale);
        });
    });
    resources("lennard_jones", lennard_jones, 128);
}
