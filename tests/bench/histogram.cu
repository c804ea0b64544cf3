// Histograms of bytes: a copy for each warp in shared memory, and global atomics with a skewed input.
#include "bench.cuh"

constexpr int WARPS = 8, BINS = 256;

__device__ inline void count_word(unsigned* bins, unsigned word) {
    atomicAdd(&bins[word & 255], 1);
    atomicAdd(&bins[word >> 8 & 255], 1);
    atomicAdd(&bins[word >> 16 & 255], 1);
    atomicAdd(&bins[word >> 24], 1);
}

__global__ void histogram_shared(const unsigned* __restrict__ data, unsigned* __restrict__ bins, int words) {
    __shared__ unsigned local[WARPS][BINS];
    for (int i = threadIdx.x; i < WARPS * BINS; i += blockDim.x) (&local[0][0])[i] = 0;
    __syncthreads();
    unsigned* mine = local[threadIdx.x / 32];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) count_word(mine, data[i]);
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        unsigned sum = 0;
        for (int w = 0; w < WARPS; w++) sum += local[w][bin];
        atomicAdd(&bins[bin], sum);
    }
}

__global__ void histogram_global(const float* values, unsigned* bins, int n, float low, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int bin = (int)((values[i] - low) * scale);
    if (bin >= 0 && bin < 1024) atomicAdd(bins + bin, 1u);
}

int main() {
    int words = 1 << 22, n = 1 << 21;
    Random random;
    Array<unsigned> data(words, [&](size_t) { return random.next() & random.next(); });
    Array<unsigned> bins(1024);
    auto clear = [&] { bins.clear(); };
    bench("histogram_shared", [&] { histogram_shared<<<132 * 4, WARPS * 32>>>(data, bins, words); }, [&] {
        std::vector<unsigned> want(1024);
        for (unsigned word : data.host)
            for (int b = 0; b < 32; b += 8) want[word >> b & 255]++;
        return bins.down() == want;
    }, clear);
    Array<float> values(n, [&](size_t) { float u = random.uniform(); return u * u * 8 - 1; });
    bench("histogram_global", [&] { histogram_global<<<blocks_for(n, 256), 256>>>(values, bins, n, -0.5f, 128.0f); }, [&] {
        std::vector<unsigned> want(1024);
        for (float v : values.host) {
            int bin = (int)((v - -0.5f) * 128.0f);
            if (bin >= 0 && bin < 1024) want[bin]++;
        }
        return bins.down() == want;
    }, clear);
    resources("histogram_shared", histogram_shared, WARPS * 32);
    resources("histogram_global", histogram_global, 256);
}
