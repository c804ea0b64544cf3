// Checksums of blocks of data: CRC-32 with slices of eight tables, Adler-32, FNV-1a of records, and xxHash's mixing.
#include "bench.cuh"

__global__ void crc32_blocks(const uint2* __restrict__ data, uint32_t* __restrict__ out, const uint32_t* __restrict__ tables, int blocks, int words) {
    __shared__ uint32_t t[8][256];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) t[i / 256][i % 256] = tables[i];
    __syncthreads();
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= blocks) return;
    uint32_t crc = ~0u;
    for (int i = 0; i < words; i++) {
        uint2 v = data[i * blocks + b];
        uint32_t low = v.x ^ crc, high = v.y;
        crc = t[7][low & 255] ^ t[6][low >> 8 & 255] ^ t[5][low >> 16 & 255] ^ t[4][low >> 24] ^ t[3][high & 255] ^ t[2][high >> 8 & 255] ^
              t[1][high >> 16 & 255] ^ t[0][high >> 24];
    }
    out[b] = ~crc;
}

__global__ void adler32(const uint8_t* data, uint32_t* out, int blocks, int length) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= blocks) return;
    uint32_t low = 1, high = 0;
    for (int i = 0; i < length; i++) {
        low = (low + data[(size_t)i * blocks + b]) % 65521;
        high = (high + low) % 65521;
    }
    out[b] = high << 16 | low;
}

__host__ __device__ inline uint64_t avalanche(uint64_t h) {
    h ^= h >> 33;
    h *= 0xc2b2ae3d27d4eb4full;
    h ^= h >> 29;
    h *= 0x165667b19e3779f9ull;
    return h ^ h >> 32;
}

__global__ void hash_records(const uint64_t* __restrict__ data, uint64_t* __restrict__ out, int n, int words) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint64_t h = 0x27d4eb2f165667c5ull + words * 8;
    for (int w = 0; w < words; w++) {
        uint64_t k = data[(size_t)w * n + i] * 0xc2b2ae3d27d4eb4full;
        k = (k << 31 | k >> 33) * 0x9e3779b185ebca87ull;
        h ^= k;
        h = (h << 27 | h >> 37) * 0x9e3779b185ebca87ull + 0x85ebca77c2b2ae63ull;
    }
    out[i] = avalanche(h);
}

int main() {
    int blocks = 1 << 15, words = 32, length = words * 8;
    Random random;
    Array<uint2> data((size_t)blocks * words, [&](size_t) { return make_uint2(random.next(), random.next()); });
    std::vector<uint32_t> t(2048);
    for (int i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
        t[i] = c;
    }
    for (int s = 1; s < 8; s++)
        for (int i = 0; i < 256; i++) t[s * 256 + i] = t[(s - 1) * 256 + i] >> 8 ^ t[t[(s - 1) * 256 + i] & 255];
    Array<uint32_t> tables(t), out(blocks);
    bench("crc32_blocks", [&] { crc32_blocks<<<blocks / 128, 128>>>(data, out, tables, blocks, words); }, [&] {
        auto got = out.down();
        return check_samples(blocks, 500, [&](size_t b) {
            uint32_t crc = ~0u;
            for (int i = 0; i < words; i++) {
                uint64_t v = (uint64_t)data[(size_t)i * blocks + b].y << 32 | data[(size_t)i * blocks + b].x;
                for (int k = 0; k < 8; k++, v >>= 8) crc = crc >> 8 ^ t[(crc ^ (uint32_t)v) & 255];
            }
            return got[b] == ~crc;
        });
    });
    const uint8_t* bytes = (const uint8_t*)data.host.data();
    bench("adler32", [&] { adler32<<<blocks / 128, 128>>>((const uint8_t*)data.device, out, blocks, length); }, [&] {
        auto got = out.down();
        return check_samples(blocks, 500, [&](size_t b) {
            uint32_t low = 1, high = 0;
            for (int i = 0; i < length; i++) low = (low + bytes[(size_t)i * blocks + b]) % 65521, high = (high + low) % 65521;
            return got[b] == (high << 16 | low);
        });
    });
    int n = 1 << 17;
    const uint64_t* longs = (const uint64_t*)data.host.data();
    Array<uint64_t> hashes(n);
    int per = (int)(data.size() / n);
    bench("hash_records", [&] { hash_records<<<n / 256, 256>>>((const uint64_t*)data.device, hashes, n, per); }, [&] {
        auto got = hashes.down();
        return check_samples(n, 2000, [&](size_t i) {
            uint64_t h = 0x27d4eb2f165667c5ull + per * 8;
            for (int w = 0; w < per; w++) {
                uint64_t k = longs[(size_t)w * n + i] * 0xc2b2ae3d27d4eb4full;
                k = (k << 31 | k >> 33) * 0x9e3779b185ebca87ull;
                h = ((h ^ k) << 27 | (h ^ k) >> 37) * 0x9e3779b185ebca87ull + 0x85ebca77c2b2ae63ull;
            }
            return got[i] == avalanche(h);
        });
    });
    resources("crc32_blocks", crc32_blocks, 128);
    resources("adler32", adler32, 128);
    resources("hash_records", hash_records, 256);
}
