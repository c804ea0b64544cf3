// AES-128 in counter mode: tables in shared memory, round keys in constant memory.
#include "bench.cuh"

__constant__ uint32_t round_keys[44];
__constant__ uint32_t tables[4][256];
__constant__ uint8_t sbox_last[256];

struct Key {
    uint8_t sbox[256];
    uint32_t t[4][256], words[44];

    static uint8_t times(uint8_t a, uint8_t b) {
        uint8_t r = 0;
        for (; b; b >>= 1, a = a << 1 ^ (a & 0x80 ? 0x1b : 0))
            if (b & 1) r ^= a;
        return r;
    }
    explicit Key(const uint8_t key[16]) {
        for (int i = 0; i < 256; i++) {
            uint8_t inverse = 0;
            for (int j = 1; j < 256 && i; j++)
                if (times((uint8_t)i, (uint8_t)j) == 1) inverse = (uint8_t)j;
            uint8_t s = 0x63;
            for (int r = 0; r < 5; r++) s ^= (uint8_t)(inverse << r | inverse >> (8 - r));
            sbox[i] = s;
        }
        for (int i = 0; i < 256; i++) {
            uint32_t s = sbox[i], w = (uint32_t)times(sbox[i], 2) << 24 | s << 16 | s << 8 | times(sbox[i], 3);
            for (int r = 0; r < 4; r++) t[r][i] = r ? w >> (8 * r) | w << (32 - 8 * r) : w;
        }
        uint8_t constant = 1;
        for (int i = 0; i < 44; i++) {
            if (i < 4) {
                words[i] = (uint32_t)key[4 * i] << 24 | key[4 * i + 1] << 16 | key[4 * i + 2] << 8 | key[4 * i + 3];
                continue;
            }
            uint32_t w = words[i - 1];
            if (i % 4 == 0) {
                w = (uint32_t)sbox[w >> 16 & 255] << 24 | sbox[w >> 8 & 255] << 16 | sbox[w & 255] << 8 | sbox[w >> 24];
                w ^= (uint32_t)constant << 24;
                constant = times(constant, 2);
            }
            words[i] = words[i - 4] ^ w;
        }
    }
};

template <typename Table, typename Box>
__host__ __device__ inline void encrypt(uint32_t s[4], const Table& t, const Box& box, const uint32_t* k) {
    for (int i = 0; i < 4; i++) s[i] ^= k[i];
#pragma unroll
    for (int round = 1; round < 10; round++) {
        uint32_t n[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            n[i] = t[0][s[i] >> 24] ^ t[1][s[(i + 1) & 3] >> 16 & 255] ^ t[2][s[(i + 2) & 3] >> 8 & 255] ^ t[3][s[(i + 3) & 3] & 255] ^ k[round * 4 + i];
        for (int i = 0; i < 4; i++) s[i] = n[i];
    }
    uint32_t n[4];
    for (int i = 0; i < 4; i++)
        n[i] = ((uint32_t)box[s[i] >> 24] << 24 | (uint32_t)box[s[(i + 1) & 3] >> 16 & 255] << 16 | (uint32_t)box[s[(i + 2) & 3] >> 8 & 255] << 8 | box[s[(i + 3) & 3] & 255]) ^ k[40 + i];
    for (int i = 0; i < 4; i++) s[i] = n[i];
}

__global__ void aes_ctr(const uint4* __restrict__ in, uint4* __restrict__ out, int n, uint32_t nonce) {
    __shared__ uint32_t t[4][256];
    __shared__ uint8_t box[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
        for (int r = 0; r < 4; r++) t[r][i] = tables[r][i];
        box[i] = sbox_last[i];
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint32_t s[4] = {nonce, 0, 0, (uint32_t)i};
        encrypt(s, t, box, round_keys);
        uint4 v = in[i];
        out[i] = make_uint4(v.x ^ s[0], v.y ^ s[1], v.z ^ s[2], v.w ^ s[3]);
    }
}

int main() {
    uint8_t bytes[16];
    for (int i = 0; i < 16; i++) bytes[i] = (uint8_t)(i * 17 + 3);
    static Key key(bytes);
    CUDA(cudaMemcpyToSymbol(round_keys, key.words, sizeof key.words));
    CUDA(cudaMemcpyToSymbol(tables, key.t, sizeof key.t));
    CUDA(cudaMemcpyToSymbol(sbox_last, key.sbox, sizeof key.sbox));
    int n = 1 << 20;
    Random random;
    Array<uint4> in(n, [&](size_t) { return make_uint4(random.next(), random.next(), random.next(), random.next()); }), out(n);
    bench("aes_ctr", [&] { aes_ctr<<<132 * 4, 256>>>(in, out, n, 0x12345678); }, [&] {
        auto got = out.down();
        return check_samples(n, 3000, [&](size_t i) {
            uint32_t s[4] = {0x12345678, 0, 0, (uint32_t)i};
            encrypt(s, key.t, key.sbox, key.words);
            return got[i].x == (in[i].x ^ s[0]) && got[i].w == (in[i].w ^ s[3]);
        });
    });
    resources("aes_ctr", aes_ctr, 256);
}
