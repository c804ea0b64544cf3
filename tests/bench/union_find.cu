// Connected components by union-find with path halving and hooks by compare-and-swap.
#include "bench.cuh"

__device__ int find_root(int* parent, int v) {
    int p = parent[v];
    while (p != parent[p]) {
        int up = parent[parent[p]];
        parent[v] = up;
        v = p;
        p = parent[v];
    }
    return p;
}

__global__ void init_parents(int* parent, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) parent[i] = i;
}

__global__ void unite_edges(const int2* __restrict__ edges, int count, int* parent) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        int2 e = edges[i];
        int a = find_root(parent, e.x), b = find_root(parent, e.y);
        while (a != b) {
            if (a < b) {
                int t = a;
                a = b;
                b = t;
            }
            int old = atomicCAS(&parent[a], a, b);
            if (old == a) break;
            a = find_root(parent, old);
            b = find_root(parent, b);
        }
    }
}

__global__ void flatten(int* parent, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int root = parent[i];
        while (root != parent[root]) root = parent[root];
        parent[i] = root;
    }
}

int main() {
    int n = 1 << 20, count = n;
    Random random;
    Array<int2> edges(count, [&](size_t) { int a = random.below(n); return make_int2(a, (a + random.below(1000)) % n); });
    Array<int> parent(n);
    std::vector<int> want(n);
    for (int i = 0; i < n; i++) want[i] = i;
    auto root = [&](int v) {
        while (want[v] != v) v = want[v] = want[want[v]];
        return v;
    };
    for (int2 e : edges.host) {
        int a = root(e.x), b = root(e.y);
        if (a != b) want[std::max(a, b)] = std::min(a, b);
    }
    bench("union_find", [&] {
        init_parents<<<blocks_for(n, 256), 256>>>(parent, n);
        unite_edges<<<132 * 8, 256>>>(edges, count, parent);
        flatten<<<blocks_for(n, 256), 256>>>(parent, n);
    }, [&] {
        auto got = parent.down();
        return check_samples(n, n, [&](size_t i) { return got[i] == root((int)i); });
    });
    resources("unite_edges", unite_edges, 256);
    resources("flatten", flatten, 256);
}
