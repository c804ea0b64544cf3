// SHA-256 of many 64-byte messages, two blocks each, and a search for a digest with leading zeros.
#include "bench.cuh"

__constant__ uint32_t round_words[64];

__host__ __device__ inline uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

template <typename Words>
__host__ __device__ inline void compress(uint32_t state[8], uint32_t w[16], const Words& k) {
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
#pragma unroll
    for (int i = 0; i < 64; i++) {
        if (i >= 16) {
            uint32_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i & 15] += w[(i + 9) & 15] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
        }
        uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i & 15];
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

template <typename Words>
__host__ __device__ inline void digest(uint32_t state[8], const uint32_t* message, const Words& k) {
    const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint32_t w[16];
    for (int i = 0; i < 8; i++) state[i] = start[i];
    for (int i = 0; i < 16; i++) w[i] = message[i];
    compress(state, w, k);
    for (int i = 0; i < 16; i++) w[i] = i == 0 ? 0x80000000u : i == 15 ? 512u : 0u;
    compress(state, w, k);
}

__global__ void sha256(const uint32_t* __restrict__ messages, uint32_t* __restrict__ digests, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t state[8];
    digest(state, messages + i * 16, round_words);
    for (int j = 0; j < 8; j++) digests[i * 8 + j] = state[j];
}

__global__ void sha256_search(const uint32_t* header, uint32_t* found, uint32_t first, int tries, int zeros) {
    uint32_t message[16], state[8];
    for (int i = 0; i < 15; i++) message[i] = header[i];
    for (int t = 0; t < tries; t++) {
        message[15] = first + (blockIdx.x * blockDim.x + threadIdx.x) * tries + t;
        digest(state, message, round_words);
        if (__clz(state[0]) >= zeros) atomicAdd(found, 1u);
    }
}

int main() {
    uint32_t k[64];
    // The fractional parts of the cube roots of the first primes.
    for (int i = 0, candidate = 2; i < 64; candidate++) {
        bool prime = true;
        for (int d = 2; d * d <= candidate; d++) prime &= candidate % d != 0;
        if (prime) {
            long double root = cbrtl((long double)candidate);
            k[i++] = (uint32_t)((root - floorl(root)) * 4294967296.0L);
        }
    }
    CUDA(cudaMemcpyToSymbol(round_words, k, sizeof k));
    int n = 1 << 18;
    Random random;
    Array<uint32_t> messages(n * 16, [&](size_t) { return random.next(); }), digests(n * 8), found(1);
    bench("sha256", [&] { sha256<<<blocks_for(n, 256), 256>>>(messages, digests, n); }, [&] {
        auto got = digests.down();
        return check_samples(n, 1000, [&](size_t i) {
            uint32_t state[8];
            digest(state, &messages[i * 16], k);
            return !memcmp(state, &got[i * 8], 32);
        });
    });
    int tries = 2, zeros = 8, threads = 132 * 256 * 4;
    bench("sha256_search", [&] { sha256_search<<<threads / 256, 256>>>(messages, found, 5, tries, zeros); }, [&] {
        uint32_t count = found.down()[0];
        double expected = (double)threads * tries / 256;
        return count > expected * 0.8 && count < expected * 1.2;
    }, [&] { found.clear(); });
    resources("sha256", sha256, 256);
    resources("sha256_search", sha256_search, 256);
}
