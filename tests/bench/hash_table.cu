// An open-addressing hash table: insertions by 64-bit compare-and-swap, and lookups.
#include "bench.cuh"

constexpr uint32_t EMPTY = 0xffffffffu;

struct Entry {
    uint32_t key, value;
};

__host__ __device__ inline uint32_t mix(uint32_t k) {
    k ^= k >> 16;
    k *= 0x85ebca6bu;
    k ^= k >> 13;
    k *= 0xc2b2ae35u;
    return k ^ k >> 16;
}

__global__ void insert(unsigned long long* table, uint32_t mask, const uint32_t* keys, const uint32_t* values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t key = keys[i], slot = mix(key) & mask;
    unsigned long long entry = (unsigned long long)values[i] << 32 | key;
    while (true) {
        unsigned long long old = atomicCAS(&table[slot], (unsigned long long)EMPTY, entry);
        if (old == EMPTY) return;
        if ((uint32_t)old == key) {
            atomicMax(&table[slot], entry);
            return;
        }
        slot = (slot + 1) & mask;
    }
}

__global__ void lookup(const Entry* __restrict__ table, uint32_t mask, const uint32_t* __restrict__ keys,
                       uint32_t* __restrict__ found, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t key = keys[i], slot = mix(key) & mask, result = EMPTY;
    for (;;) {
        Entry e = table[slot];
        if (e.key == key) {
            result = e.value;
            break;
        }
        if (e.key == EMPTY) break;
        slot = (slot + 1) & mask;
    }
    found[i] = result;
}

int main() {
    int n = 1 << 20;
    uint32_t mask = 2 * n - 1;
    Random random;
    Array<uint32_t> keys(n, [&](size_t) { return random.next() & 0x7fffffff; });
    Array<uint32_t> values(n, [&](size_t i) { return mix(keys[i]) & 0xffff; });
    Array<uint32_t> queries(n, [&](size_t i) { return i % 2 ? keys[random.below(n)] : random.next() | 0x80000000u; });
    for (uint32_t& q : queries.host) q = q == EMPTY ? 0x80000000u : q;
    queries.up();
    Array<unsigned long long> table(2 * (size_t)n, (unsigned long long)EMPTY), fresh(2 * (size_t)n, (unsigned long long)EMPTY);
    Array<uint32_t> found(n);
    bench("hash_insert", [&] { insert<<<blocks_for(n, 256), 256>>>(table, mask, keys, values, n); }, [&] {
        auto got = table.down();
        size_t used = 0;
        for (auto e : got) used += e != EMPTY;
        auto distinct = keys.host;
        std::sort(distinct.begin(), distinct.end());
        return used == (size_t)(std::unique(distinct.begin(), distinct.end()) - distinct.begin());
    }, [&] { CUDA(cudaMemcpy(table, fresh, fresh.bytes(), cudaMemcpyDeviceToDevice)); });
    bench("hash_lookup", [&] { lookup<<<blocks_for(n, 256), 256>>>((const Entry*)table.device, mask, queries, found, n); }, [&] {
        auto got = found.down();
        return check_samples(n, n, [&](size_t i) { return got[i] == (i % 2 ? mix(queries[i]) & 0xffff : EMPTY); });
    });
    resources("hash_insert", insert, 256);
    resources("hash_lookup", lookup, 256);
}
