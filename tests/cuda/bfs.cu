// Breadth-first search level by level, with a queue that threads append to, until the queue stays empty.
#include "check.cuh"
#include <queue>

__global__ void expand(const int* starts, const int* edges, const int* queue, int length, int level, int* levels,
                       int* next, int* next_length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= length) return;
    int node = queue[i];
    for (int k = starts[node]; k < starts[node + 1]; k++)
        if (atomicCAS(&levels[edges[k]], -1, level + 1) == -1) next[atomicAdd(next_length, 1)] = edges[k];
}

int main() {
    const int n = 20000;
    Random random;
    Buffer<int> starts(n + 1), levels(n, -1), queue(n), next(n), length(1);
    std::vector<int> edge_list;
    for (int v = 0; v < n; v++) {
        int degree = v % 50 == 0 ? 60 : random.below(4);   // a few hubs make the loops of a warp differ
        for (int e = 0; e < degree; e++) edge_list.push_back((v / 1000 * 1000 + random.below(1500)) % n);
        starts[v + 1] = edge_list.size();
    }
    Buffer<int> edges(edge_list.size());
    edges.host = edge_list;
    levels[0] = 0;
    starts.up(), edges.up(), levels.up();
    int *from = queue.device, *to = next.device, size = 1;
    for (int level = 0; size > 0; level++) {
        length[0] = 0;
        length.up();
        expand<<<(size + 127) / 128, 128>>>(starts.device, edges.device, from, size, level, levels.device, to,
                                           length.device);
        length.down();
        size = length[0];
        std::swap(from, to);
    }
    levels.down();
    std::vector<int> want(n, -1);
    std::queue<int> open;
    want[0] = 0;
    open.push(0);
    while (!open.empty()) {
        int v = open.front();
        open.pop();
        for (int k = starts[v]; k < starts[v + 1]; k++)
            if (want[edge_list[k]] < 0) {
                want[edge_list[k]] = want[v] + 1;
                open.push(edge_list[k]);
            }
    }
    for (int v = 0; v < n; v++) same("level", v, levels[v], want[v]);
    return verdict();
}
