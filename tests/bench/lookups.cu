// Searches and interpolation: binary search, a B-tree of 16 keys a node, and trilinear interpolation in a grid.
#include "bench.cuh"

__global__ void lower_bound(const int* __restrict__ sorted, int n, const int* __restrict__ queries, int* __restrict__ out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int q = queries[i], low = 0, high = n;
    while (low < high) {
        int middle = (low + high) >> 1;
        if (sorted[middle] < q) low = middle + 1;
        else high = middle;
    }
    out[i] = low;
}

constexpr int FAN = 16;

__global__ void tree_search(const int* __restrict__ keys, int levels, const int* __restrict__ queries, int* __restrict__ out, int count) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / FAN, lane = threadIdx.x % FAN;
    if (i >= count) return;
    unsigned group = 0xffffu << (threadIdx.x & 16);
    int q = queries[i], node = 0, first = 0, width = 1;
    for (int level = 0; level < levels; level++) {
        int key = keys[(size_t)(first + node) * FAN + lane];
        unsigned less = __ballot_sync(group, key < q) & group;
        int child = __popc(less);
        node = node * (FAN + 1) + child;
        first += width;
        width *= FAN + 1;
    }
    if (lane == 0) out[i] = node;
}

struct Grid {
    int nx, ny, nz;
    float3 origin, inverse;
};

__global__ void interpolate(const float* __restrict__ field, Grid g, const float3* __restrict__ points, float* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float3 p = points[i];
    float fx = (p.x - g.origin.x) * g.inverse.x, fy = (p.y - g.origin.y) * g.inverse.y, fz = (p.z - g.origin.z) * g.inverse.z;
    int x = min(max((int)floorf(fx), 0), g.nx - 2), y = min(max((int)floorf(fy), 0), g.ny - 2), z = min(max((int)floorf(fz), 0), g.nz - 2);
    fx -= x, fy -= y, fz -= z;
    const float* c = field + ((size_t)z * g.ny + y) * g.nx + x;
    auto lerp = [](float a, float b, float t) { return a + t * (b - a); };
    size_t row = g.nx, plane = (size_t)g.nx * g.ny;
    float low = lerp(lerp(c[0], c[1], fx), lerp(c[row], c[row + 1], fx), fy);
    float high = lerp(lerp(c[plane], c[plane + 1], fx), lerp(c[plane + row], c[plane + row + 1], fx), fy);
    out[i] = lerp(low, high, fz);
}

int main() {
    int n = 1 << 20, count = 1 << 20;
    Random random;
    std::vector<int> values(n);
    for (int& v : values) v = (int)(random.next() >> 1);
    std::sort(values.begin(), values.end());
    Array<int> sorted(values), queries(count, [&](size_t) { return (int)(random.next() >> 1); }), out(count);
    bench("lower_bound", [&] { lower_bound<<<blocks_for(count, 256), 256>>>(sorted, n, queries, out, count); }, [&] {
        auto got = out.down();
        return check_samples(count, 50000, [&](size_t i) { return got[i] == std::lower_bound(values.begin(), values.end(), queries[i]) - values.begin(); });
    });
    // A complete tree of three levels over leaves 0, 1, 2 ...: key k of a node parts child k from child k + 1.
    int levels = 4, leaves = (FAN + 1) * (FAN + 1) * (FAN + 1) * (FAN + 1);
    std::vector<int> keys;
    for (int level = 0, width = 1, span = leaves / (FAN + 1); level < levels; level++, width *= FAN + 1, span /= FAN + 1)
        for (int node = 0; node < width; node++)
            for (int k = 1; k <= FAN; k++) keys.push_back((node * (FAN + 1) + k) * span * 16 - 1);
    Array<int> tree(keys), wanted(count, [&](size_t) { return (int)random.below(leaves * 16); });
    bench("tree_search", [&] { tree_search<<<blocks_for((size_t)count * FAN, 256), 256>>>(tree, levels, wanted, out, count); }, [&] {
        auto got = out.down();
        return check_samples(count, 50000, [&](size_t i) { return got[i] == wanted[i] / 16; });
    });
    Grid g{128, 128, 64, {-1, -1, -1}, {63.5f, 63.5f, 31.5f}};
    auto linear = [&](float x, float y, float z) { return 2 * x - y + 3 * z; };
    Array<float> field((size_t)g.nx * g.ny * g.nz, [&](size_t i) { return linear(i % g.nx / 63.5f - 1, i / g.nx % g.ny / 63.5f - 1, i / (g.nx * g.ny) / 31.5f - 1); }), result(count);
    Array<float3> points(count, [&](size_t) { return make_float3(random.uniform(-1, 1), random.uniform(-1, 1), random.uniform(-1, 1)); });
    bench("interpolate", [&] { interpolate<<<blocks_for(count, 256), 256>>>(field, g, points, result, count); }, [&] {
        auto got = result.down();
        return check_samples(count, 50000, [&](size_t i) { return close(got[i], linear(points[i].x, points[i].y, points[i].z), 1e-4, 1); });
    });
    resources("lower_bound", lower_bound, 256);
    resources("tree_search", tree_search, 256);
    resources("interpolate", interpolate, 256);
}
