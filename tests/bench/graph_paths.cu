// All shortest paths by Floyd and Warshall in blocks of 32, and one step of PageRank.
#include "bench.cuh"

constexpr int B = 32;

__global__ void paths_diagonal(int* d, int n, int k) {
    __shared__ int t[B][B + 1];
    int x = threadIdx.x, y = threadIdx.y;
    int* at = &d[(k * B + y) * n + k * B + x];
    t[y][x] = *at;
    __syncthreads();
    for (int m = 0; m < B; m++) {
        t[y][x] = min(t[y][x], t[y][m] + t[m][x]);
        __syncthreads();
    }
    *at = t[y][x];
}

__global__ void paths_cross(int* d, int n, int k) {
    if (blockIdx.x == k) return;
    __shared__ int pivot[B][B + 1], t[B][B + 1];
    int x = threadIdx.x, y = threadIdx.y;
    bool is_row = blockIdx.y == 0;
    int row = (is_row ? k : blockIdx.x) * B + y, column = (is_row ? blockIdx.x : k) * B + x;
    pivot[y][x] = d[(k * B + y) * n + k * B + x];
    t[y][x] = d[row * n + column];
    __syncthreads();
    for (int m = 0; m < B; m++) {
        int through = is_row ? pivot[y][m] + t[m][x] : t[y][m] + pivot[m][x];
        t[y][x] = min(t[y][x], through);
        __syncthreads();
    }
    d[row * n + column] = t[y][x];
}

__global__ void paths_rest(int* __restrict__ d, int n, int k) {
    if (blockIdx.x == k || blockIdx.y == k) return;
    __shared__ int left[B][B + 1], above[B][B + 1];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * B + y, column = blockIdx.x * B + x;
    left[y][x] = d[row * n + k * B + x];
    above[y][x] = d[(k * B + y) * n + column];
    __syncthreads();
    int best = d[row * n + column];
#pragma unroll
    for (int m = 0; m < B; m++) best = min(best, left[y][m] + above[m][x]);
    d[row * n + column] = best;
}

__global__ void page_rank(const int* __restrict__ start, const int* __restrict__ sources, const float* __restrict__ rank, const int* __restrict__ degree,
                          float* __restrict__ next, int n, float damping) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    float sum = 0;
    for (int e = start[v]; e < start[v + 1]; e++) {
        int u = sources[e];
        sum += rank[u] / degree[u];
    }
    next[v] = (1 - damping) / n + damping * sum;
}

int main() {
    int n = 512;
    Random random;
    Array<int> input(n * n, [&](size_t i) { return i / n == i % n ? 0 : random.below(100) < 5 ? 1 + (int)random.below(100) : 1000000; }), d(n * n);
    bench("shortest_paths", [&] {
        for (int k = 0; k < n / B; k++) {
            paths_diagonal<<<1, dim3(B, B)>>>(d, n, k);
            paths_cross<<<dim3(n / B, 2), dim3(B, B)>>>(d, n, k);
            paths_rest<<<dim3(n / B, n / B), dim3(B, B)>>>(d, n, k);
        }
    }, [&] {
        auto got = d.down();
        // Dijkstra's distances from a few vertices.
        for (int source = 0; source < n; source += 97) {
            std::vector<int> best(n, 1000000), done(n, 0);
            best[source] = 0;
            for (int round = 0; round < n; round++) {
                int u = -1;
                for (int v = 0; v < n; v++)
                    if (!done[v] && (u < 0 || best[v] < best[u])) u = v;
                done[u] = 1;
                for (int v = 0; v < n; v++) best[v] = std::min(best[v], best[u] + input[u * n + v]);
            }
            for (int v = 0; v < n; v++)
                if (got[source * n + v] != best[v]) return false;
        }
        return true;
    }, [&] { CUDA(cudaMemcpy(d, input, input.bytes(), cudaMemcpyDeviceToDevice)); });
    int vertices = 1 << 18;
    std::vector<int> start{0}, sources, degree(vertices, 0);
    for (int v = 0; v < vertices; v++) {
        for (int k = 4 + random.below(16); k > 0; k--) {
            int u = random.below(vertices);
            sources.push_back(u);
            degree[u]++;
        }
        start.push_back((int)sources.size());
    }
    for (int& x : degree) x = std::max(x, 1);
    Array<int> d_start(start), d_sources(sources), d_degree(degree);
    Array<float> rank(vertices, 1.0f / vertices), next(vertices);
    bench("page_rank", [&] { page_rank<<<blocks_for(vertices, 256), 256>>>(d_start, d_sources, rank, d_degree, next, vertices, 0.85f); }, [&] {
        auto got = next.down();
        return check_samples(vertices, 10000, [&](size_t v) {
            double sum = 0;
            for (int e = start[v]; e < start[v + 1]; e++) sum += (double)rank[sources[e]] / degree[sources[e]];
            return close(got[v], 0.15 / vertices + 0.85 * sum, 1e-4);
        });
    });
    resources("paths_cross", paths_cross, B * B);
    resources("paths_rest", paths_rest, B * B);
    resources("page_rank", page_rank, 256);
}
