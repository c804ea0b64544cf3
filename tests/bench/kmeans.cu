// One step of k-means: the nearest centre of each point, sums by atomics in shared memory, new centres.
#include "bench.cuh"

constexpr int DIM = 8, K = 32;

__global__ void assign(const float* __restrict__ points, const float* __restrict__ centres, int* __restrict__ label, float* __restrict__ sums,
                       int* __restrict__ counts, int n) {
    __shared__ float c[K][DIM], s[K][DIM];
    __shared__ int count[K];
    for (int i = threadIdx.x; i < K * DIM; i += blockDim.x) {
        c[i / DIM][i % DIM] = centres[i];
        s[i / DIM][i % DIM] = 0;
    }
    if (threadIdx.x < K) count[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float p[DIM];
        for (int d = 0; d < DIM; d++) p[d] = points[d * n + i];
        int best = 0;
        float least = 3.4e38f;
        for (int k = 0; k < K; k++) {
            float distance = 0;
            for (int d = 0; d < DIM; d++) {
                float x = p[d] - c[k][d];
                distance += x * x;
            }
            if (distance < least) {
                least = distance;
                best = k;
            }
        }
        label[i] = best;
        atomicAdd(&count[best], 1);
        for (int d = 0; d < DIM; d++) atomicAdd(&s[best][d], p[d]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < K * DIM; i += blockDim.x) atomicAdd(&sums[i], s[i / DIM][i % DIM]);
    if (threadIdx.x < K) atomicAdd(&counts[threadIdx.x], count[threadIdx.x]);
}

__global__ void update(float* centres, const float* sums, const int* counts) {
    int i = threadIdx.x;
    if (counts[i / DIM] > 0) centres[i] = sums[i] / counts[i / DIM];
}

int main() {
    int n = 1 << 19;
    Random random;
    Array<float> points((size_t)n * DIM, [&](size_t) { return random.uniform(); }), start(K * DIM, [&](size_t) { return random.uniform(); });
    Array<float> centres(K * DIM), sums(K * DIM);
    Array<int> label(n), counts(K);
    bench("kmeans", [&] {
        assign<<<132 * 4, 256>>>(points, centres, label, sums, counts, n);
        update<<<1, K * DIM>>>(centres, sums, counts);
    }, [&] {
        auto got = label.down();
        auto number = counts.down();
        int total = 0;
        for (int c : number) total += c;
        return total == n && check_samples(n, 5000, [&](size_t i) {
            auto distance = [&](int k) {
                double sum = 0;
                for (int d = 0; d < DIM; d++) sum += pow((double)points[(size_t)d * n + i] - start[k * DIM + d], 2);
                return sum;
            };
            double least = 1e30;
            for (int k = 0; k < K; k++) least = std::min(least, distance(k));
            return distance(got[i]) <= least + 1e-5;
        });
    }, [&] {
        CUDA(cudaMemcpy(centres, start, start.bytes(), cudaMemcpyDeviceToDevice));
        sums.clear();
        counts.clear();
    });
    resources("assign", assign, 256);
    resources("update", update, K * DIM);
}
