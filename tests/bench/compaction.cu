// Stream compaction: elements that satisfy a predicate, with one atomic for a warp, and in order with a scan of counts.
#include "bench.cuh"

__device__ inline bool wanted(int v) { return v % 3 == 0 && v > 0; }

__global__ void compact_warp(const int* __restrict__ in, int* __restrict__ out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = i < n ? in[i] : 0;
    bool keep = i < n && wanted(v);
    unsigned mask = __ballot_sync(0xffffffff, keep);
    int lane = threadIdx.x & 31, base = 0;
    if (mask == 0) return;
    int leader = __ffs(mask) - 1;
    if (lane == leader) base = atomicAdd(count, __popc(mask));
    base = __shfl_sync(0xffffffff, base, leader);
    if (keep) out[base + __popc(mask & ((1u << lane) - 1))] = v;
}

__global__ void compact_block(const int4* __restrict__ in, int* __restrict__ out, int* count, int n) {
    __shared__ int warps[8];
    __shared__ int base;
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int4 v = i < n ? in[i] : make_int4(0, 0, 0, 0);
    int mine = wanted(v.x) + wanted(v.y) + wanted(v.z) + wanted(v.w), sum = mine;
    for (int d = 1; d < 32; d <<= 1) {
        int other = __shfl_up_sync(~0u, sum, d);
        if (lane >= d) sum += other;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        int total = 0;
        for (int w = 0; w < 8; w++) {
            int c = warps[w];
            warps[w] = total;
            total += c;
        }
        base = atomicAdd(count, total);
    }
    __syncthreads();
    int to = base + warps[warp] + sum - mine;
    if (wanted(v.x)) out[to++] = v.x;
    if (wanted(v.y)) out[to++] = v.y;
    if (wanted(v.z)) out[to++] = v.z;
    if (wanted(v.w)) out[to++] = v.w;
}

int main() {
    int n = 1 << 23;
    Random random;
    Array<int> in(n, [&](size_t) { return (int)random.next() >> 8; });
    Array<int> out(n), count(1);
    std::vector<int> want;
    for (int v : in.host)
        if (v % 3 == 0 && v > 0) want.push_back(v);
    std::sort(want.begin(), want.end());
    auto check = [&] {
        auto got = out.down();
        got.resize(count.down()[0]);
        std::sort(got.begin(), got.end());
        return got == want;
    };
    auto clear = [&] { count.clear(); };
    bench("compact_warp", [&] { compact_warp<<<blocks_for(n, 256), 256>>>(in, out, count, n); }, check, clear);
    bench("compact_block", [&] { compact_block<<<blocks_for(n / 4, 256), 256>>>((const int4*)in.device, out, count, n / 4); }, check, clear);
    resources("compact_warp", compact_warp, 256);
    resources("compact_block", compact_block, 256);
}
