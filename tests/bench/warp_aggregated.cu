// Atomics that warps aggregate: counters by __match_any_sync, queues by coalesced groups, and a maximum of floats.
#include <cooperative_groups.h>

#include "bench.cuh"

namespace cg = cooperative_groups;

__global__ void count_matching(const int* __restrict__ keys, int* __restrict__ counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int key = keys[i];
    unsigned peers = __match_any_sync(__activemask(), key);
    if ((threadIdx.x & 31) == __ffs(peers) - 1) atomicAdd(&counts[key], __popc(peers));
}

__device__ int next_place(int* counter) {
    cg::coalesced_group group = cg::coalesced_threads();
    int first = 0;
    if (group.thread_rank() == 0) first = atomicAdd(counter, group.size());
    return group.shfl(first, 0) + group.thread_rank();
}

__global__ void split_queues(const float* __restrict__ in, float* __restrict__ low, float* __restrict__ high, int* counters, int n, float limit) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float v = in[i];
        if (v < limit) low[next_place(&counters[0])] = v;
        else if (v < 2 * limit) high[next_place(&counters[1])] = v;
    }
}

__device__ void atomic_max_float(float* at, float v) {
    int* word = (int*)at;
    int old = *word, seen;
    do {
        seen = old;
        if (__int_as_float(seen) >= v) return;
        old = atomicCAS(word, seen, __float_as_int(v));
    } while (old != seen);
}

__global__ void segment_max(const float* values, const int* segment, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomic_max_float(&out[segment[i]], values[i]);
}

int main() {
    int n = 1 << 21, bins = 64, segments = 4096;
    Random random;
    Array<int> keys(n, [&](size_t) { return (int)(random.below(bins) & random.below(bins)); }), counts(bins), counters(2);
    Array<float> in(n, [&](size_t) { return random.uniform(); }), low(n), high(n), out(segments);
    Array<int> segment(n, [&](size_t i) { return (int)((i / 700 + random.below(3)) % segments); });
    bench("count_matching", [&] { count_matching<<<blocks_for(n, 256), 256>>>(keys, counts, n); }, [&] {
        std::vector<int> want(bins);
        for (int k : keys.host) want[k]++;
        return counts.down() == want;
    }, [&] { counts.clear(); });
    bench("split_queues", [&] { split_queues<<<132 * 8, 256>>>(in, low, high, counters, n, 0.3f); }, [&] {
        int a = 0, b = 0;
        for (float v : in.host) a += v < 0.3f, b += v >= 0.3f && v < 2 * 0.3f;
        auto c = counters.down();
        auto l = low.down(), h = high.down();
        for (int i = 0; i < c[0]; i++)
            if (l[i] >= 0.3f) return false;
        for (int i = 0; i < c[1]; i++)
            if (h[i] < 0.3f) return false;
        return c[0] == a && c[1] == b;
    }, [&] { counters.clear(); });
    bench("segment_max", [&] { segment_max<<<blocks_for(n, 256), 256>>>(in, segment, out, n); }, [&] {
        std::vector<float> want(segments, 0.0f);
        for (int i = 0; i < n; i++) want[segment[i]] = std::max(want[segment[i]], in[i]);
        return out.down() == want;
    }, [&] { out.clear(); });
    resources("count_matching", count_matching, 256);
    resources("split_queues", split_queues, 256);
    resources("segment_max", segment_max, 256);
}
