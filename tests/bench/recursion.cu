// Recursion: a tree searched by a recursive function, quadrature that halves intervals, and queens with a stack of its own.
#include "bench.cuh"

struct Node {
    int left, right;
    float key, value;
};

__device__ __noinline__ float range_sum(const Node* tree, int at, float low, float high) {
    if (at < 0) return 0;
    Node n = tree[at];
    float sum = n.key >= low && n.key <= high ? n.value : 0;
    if (n.key > low) sum += range_sum(tree, n.left, low, high);
    if (n.key < high) sum += range_sum(tree, n.right, low, high);
    return sum;
}

__global__ void tree_ranges(const Node* tree, const float2* ranges, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = range_sum(tree, 0, ranges[i].x, ranges[i].y);
}

__host__ __device__ inline float curve(float x, float a) { return expf(-a * x * x) * cosf(3 * a * x); }

__host__ __device__ float simpson(float a, float b, float fa, float fm, float fb, float whole, float parameter, float tolerance, int depth) {
    float m = 0.5f * (a + b), l = 0.5f * (a + m), r = 0.5f * (m + b);
    float fl = curve(l, parameter), fr = curve(r, parameter);
    float left = (m - a) / 6 * (fa + 4 * fl + fm), right = (b - m) / 6 * (fm + 4 * fr + fb), delta = left + right - whole;
    if (depth <= 0 || fabsf(delta) <= 15 * tolerance) return left + right + delta / 15;
    return simpson(a, m, fa, fl, fm, left, parameter, tolerance / 2, depth - 1) + simpson(m, b, fm, fr, fb, right, parameter, tolerance / 2, depth - 1);
}

__global__ void quadrature(const float* parameters, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p = parameters[i], fa = curve(0, p), fm = curve(1, p), fb = curve(2, p);
    out[i] = simpson(0, 2, fa, fm, fb, (fa + 4 * fm + fb) / 3, p, 1e-5f, 8);
}

__global__ void queens(int size, int* total) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    int first = id % size, second = id / size % size, third = id / (size * size);
    if (third >= size) return;
    unsigned all = (1u << size) - 1, columns = 0, left = 0, right = 0;
    for (int place : {first, second, third}) {
        unsigned bit = 1u << place;
        if ((columns | left | right) & bit) return;
        columns |= bit;
        left = (left | bit) << 1;
        right = (right | bit) >> 1;
    }
    unsigned open[16], lefts[16], rights[16], taken[16];
    int depth = 0, found = 0;
    taken[0] = columns, lefts[0] = left, rights[0] = right;
    open[0] = all & ~(columns | left | right);
    while (depth >= 0) {
        if (open[depth] == 0) {
            depth--;
            continue;
        }
        unsigned bit = open[depth] & -open[depth];
        open[depth] ^= bit;
        unsigned c = taken[depth] | bit;
        if (c == all) {
            found++;
            continue;
        }
        depth++;
        taken[depth] = c;
        lefts[depth] = (lefts[depth - 1] | bit) << 1;
        rights[depth] = (rights[depth - 1] | bit) >> 1;
        open[depth] = all & ~(c | lefts[depth] | rights[depth]);
    }
    if (found) atomicAdd(total, found);
}

int main() {
    int keys = 4095, n = 1 << 15;
    Random random;
    std::vector<Node> nodes(keys);
    // A balanced tree of the keys i / keys.
    struct Build {
        static int node(std::vector<Node>& t, int& used, int low, int high, int total) {
            if (low > high) return -1;
            int at = used++, middle = (low + high) / 2;
            t[at].key = (float)middle / total;
            t[at].value = (float)(middle % 7);
            t[at].left = node(t, used, low, middle - 1, total);
            t[at].right = node(t, used, middle + 1, high, total);
            return at;
        }
    };
    int used = 0;
    Build::node(nodes, used, 0, keys - 1, keys);
    Array<Node> tree(nodes);
    Array<float2> ranges(n, [&](size_t) { float a = random.uniform(0, 0.98f); return make_float2(a, a + 0.01f); });
    Array<float> out(1 << 17);
    CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
    bench("tree_ranges", [&] { tree_ranges<<<blocks_for(n, 128), 128>>>(tree, ranges, out, n); }, [&] {
        auto got = out.down();
        return check_samples(n, 2000, [&](size_t i) {
            double sum = 0;
            for (int k = 0; k < keys; k++) {
                float key = (float)k / keys;
                if (key >= ranges[i].x && key <= ranges[i].y) sum += k % 7;
            }
            return close(got[i], sum, 1e-5);
        });
    });
    n = 1 << 14;
    Array<float> parameters(n, [&](size_t) { return random.uniform(0.5f, 8); });
    bench("quadrature", [&] { quadrature<<<blocks_for(n, 128), 128>>>(parameters, out, n); }, [&] {
        auto got = out.down();
        return check_samples(n, 200, [&](size_t i) {
            // Adaptive quadrature may take a coarse sum for a good one: what the host's recursion gives is right here.
            float p = parameters[i], fa = curve(0, p), fm = curve(1, p), fb = curve(2, p);
            return close(got[i], simpson(0, 2, fa, fm, fb, (fa + 4 * fm + fb) / 3, p, 1e-5f, 8), 1e-3, 0.1);
        });
    });
    Array<int> total(1);
    bench("queens", [&] { queens<<<blocks_for(11 * 11 * 11, 64), 64>>>(11, total); }, [&] { return total.down()[0] == 2680; }, [&] { total.clear(); });
    resources("tree_ranges", tree_ranges, 128);
    resources("quadrature", quadrature, 128);
    resources("queens", queens, 64);
}
