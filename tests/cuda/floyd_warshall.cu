// Shortest paths between all pairs of nodes, with the next hop of each path; the launch order carries the dependence.
#include "check.cuh"

const int N = 160, FAR = 1 << 28;

__global__ void relax(int* distance, short* hop, int via) {
    int to = blockIdx.x * blockDim.x + threadIdx.x, from = blockIdx.y * blockDim.y + threadIdx.y;
    if (to >= N || from >= N) return;
    int detour = distance[from * N + via] + distance[via * N + to];
    if (detour < distance[from * N + to]) {
        distance[from * N + to] = detour;
        hop[from * N + to] = hop[from * N + via];
    }
}

int main() {
    Buffer<int> distance(N * N, FAR);
    Buffer<short> hop(N * N, -1);
    Random random;
    for (int e = 0; e < N * 4; e++) {
        int from = random.below(N), to = random.below(N);
        distance[from * N + to] = 1 + random.below(100000);
        hop[from * N + to] = to;
    }
    for (int v = 0; v < N; v++) distance[v * N + v] = 0, hop[v * N + v] = v;
    std::vector<int> edges = distance.host, want = edges;
    distance.up(), hop.up();
    for (int via = 0; via < N; via++)
        relax<<<dim3((N + 31) / 32, (N + 7) / 8), dim3(32, 8)>>>(distance.device, hop.device, via);
    distance.down(), hop.down();
    for (int via = 0; via < N; via++)
        for (int from = 0; from < N; from++)
            for (int to = 0; to < N; to++) {
                int detour = want[from * N + via] + want[via * N + to];
                if (detour < want[from * N + to]) want[from * N + to] = detour;
            }
    for (int i = 0; i < N * N; i++) {
        same("distance", i, distance[i], want[i]);
        if (want[i] >= FAR) continue;
        int at = i / N, to = i % N, length = 0;   // walking the hops gives the distance
        for (int steps = 0; at >= 0 && at != to && steps < N; steps++) {
            int next = hop[at * N + to];
            length += next < 0 ? FAR : edges[at * N + next];
            at = next;
        }
        same("path", i, length, want[i]);
    }
    return verdict();
}
