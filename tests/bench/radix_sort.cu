// A least-significant-digit radix sort of 32-bit keys with values, 4 bits in a pass: counts, their prefix sums, scatter.
#include "bench.cuh"

constexpr int BITS = 4, DIGITS = 1 << BITS, THREADS = 256, PER = 8, TILE = THREADS * PER;

__global__ void count_digits(const uint32_t* __restrict__ keys, uint32_t* __restrict__ counts, int n, int shift) {
    __shared__ uint32_t local[DIGITS];
    if (threadIdx.x < DIGITS) local[threadIdx.x] = 0;
    __syncthreads();
    int base = blockIdx.x * TILE;
    for (int i = 0; i < PER; i++) {
        int at = base + i * THREADS + threadIdx.x;
        if (at < n) atomicAdd(&local[(keys[at] >> shift) & (DIGITS - 1)], 1);
    }
    __syncthreads();
    if (threadIdx.x < DIGITS) counts[threadIdx.x * gridDim.x + blockIdx.x] = local[threadIdx.x];
}

__global__ void scan_counts(uint32_t* counts, int n) {
    __shared__ uint32_t data[2][1024];
    uint32_t carry = 0;
    for (int base = 0; base < n; base += 1024) {
        int i = base + threadIdx.x, from = 0;
        uint32_t v = i < n ? counts[i] : 0;
        data[0][threadIdx.x] = v;
        __syncthreads();
        for (int d = 1; d < 1024; d *= 2) {
            data[from ^ 1][threadIdx.x] = data[from][threadIdx.x] + (threadIdx.x >= d ? data[from][threadIdx.x - d] : 0);
            from ^= 1;
            __syncthreads();
        }
        if (i < n) counts[i] = carry + data[from][threadIdx.x] - v;
        carry += data[from][1023];
        __syncthreads();
    }
}

/// Each warp ranks its keys by votes; warps follow each other in the order of the input, so that the sort is stable.
__global__ void scatter(const uint32_t* __restrict__ keys, const uint32_t* __restrict__ values,
                        const uint32_t* __restrict__ offsets, uint32_t* __restrict__ new_keys,
                        uint32_t* __restrict__ new_values, int n, int shift) {
    __shared__ uint32_t warps[THREADS / 32][DIGITS];
    __shared__ uint32_t start[DIGITS];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (threadIdx.x < DIGITS) start[threadIdx.x] = offsets[threadIdx.x * gridDim.x + blockIdx.x];
    for (int i = 0; i < PER; i++) {
        int at = blockIdx.x * TILE + i * THREADS + threadIdx.x;
        bool valid = at < n;
        uint32_t key = valid ? keys[at] : 0, digit = (key >> shift) & (DIGITS - 1);
        uint32_t same = __ballot_sync(~0u, valid);
#pragma unroll
        for (int b = 0; b < BITS; b++) {
            uint32_t vote = __ballot_sync(~0u, digit >> b & 1);
            same &= digit >> b & 1 ? vote : ~vote;
        }
        uint32_t rank = __popc(same & ((1u << lane) - 1));
        if (lane < DIGITS) warps[warp][lane] = 0;
        __syncwarp();
        if (valid && rank == 0) warps[warp][digit] = __popc(same);
        __syncthreads();
        if (threadIdx.x < DIGITS) {
            uint32_t sum = start[threadIdx.x];
            for (int w = 0; w < THREADS / 32; w++) {
                uint32_t count = warps[w][threadIdx.x];
                warps[w][threadIdx.x] = sum;
                sum += count;
            }
            start[threadIdx.x] = sum;
        }
        __syncthreads();
        if (valid) {
            uint32_t to = warps[warp][digit] + rank;
            new_keys[to] = key;
            new_values[to] = values[at];
        }
        __syncthreads();
    }
}

int main() {
    int n = (1 << 20) - 13, tiles = blocks_for(n, TILE);
    Random random;
    Array<uint32_t> input(n, [&](size_t) { return random.next(); });
    Array<uint32_t> keys(n), other_keys(n), values(n), other_values(n), counts(tiles * DIGITS);
    Array<uint32_t> order(n, [](size_t i) { return (uint32_t)i; });
    bench("radix_sort", [&] {
        uint32_t *k = keys, *v = values, *k2 = other_keys, *v2 = other_values;
        for (int shift = 0; shift < 32; shift += BITS) {
            count_digits<<<tiles, THREADS>>>(k, counts, n, shift);
            scan_counts<<<1, 1024>>>(counts, tiles * DIGITS);
            scatter<<<tiles, THREADS>>>(k, v, counts, k2, v2, n, shift);
            std::swap(k, k2);
            std::swap(v, v2);
        }
    }, [&] {
        auto k = keys.down(), v = values.down();
        for (int i = 0; i < n; i++) {
            if (i && (k[i - 1] > k[i] || (k[i - 1] == k[i] && v[i - 1] > v[i]))) return false;
            if (v[i] >= (uint32_t)n || input[v[i]] != k[i]) return false;
        }
        return true;
    }, [&] {
        CUDA(cudaMemcpy(keys, input, input.bytes(), cudaMemcpyDeviceToDevice));
        CUDA(cudaMemcpy(values, order, order.bytes(), cudaMemcpyDeviceToDevice));
    });
    resources("count_digits", count_digits, THREADS);
    resources("scan_counts", scan_counts, 1024);
    resources("scatter", scatter, THREADS);
}
