// SHA-256 of one message a thread, against the same code on the host and against the standard's vectors.
#include "check.cuh"
#include <cstring>

#define ROUND_CONSTANTS                                                                                        \
    {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,           \
     0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,           \
     0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,           \
     0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,           \
     0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,           \
     0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,           \
     0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,           \
     0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2}
__constant__ uint32_t device_constants[64] = ROUND_CONSTANTS;
const uint32_t host_constants[64] = ROUND_CONSTANTS;

__host__ __device__ uint32_t rotated(uint32_t v, int by) { return v >> by | v << (32 - by); }

__host__ __device__ void compress(uint32_t* state, const unsigned char* block, const uint32_t* constants) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | block[4 * i + 1] << 16 | block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t low = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t high = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + low + w[i - 7] + high;
    }
    for (int i = 0; i < 8; i++) s[i] = state[i];
    for (int i = 0; i < 64; i++) {
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]), majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        uint32_t e = rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25);
        uint32_t a = rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22);
        uint32_t t = s[7] + e + choice + constants[i] + w[i];
        for (int k = 7; k > 0; k--) s[k] = s[k - 1];
        s[4] += t;
        s[0] = t + a + majority;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

__host__ __device__ void sha256(const unsigned char* text, int length, uint32_t* state, const uint32_t* constants) {
    const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (int i = 0; i < 8; i++) state[i] = start[i];
    for (int block = 0; block * 64 < length + 9; block++) {
        unsigned char bytes[64];
        for (int i = 0; i < 64; i++) {
            int at = block * 64 + i;
            bool last = block * 64 + 64 >= length + 9;
            bytes[i] = at < length ? text[at] : at == length ? 0x80 : 0;
            if (last && i >= 56) bytes[i] = (unsigned char)((uint64_t)length * 8 >> 8 * (63 - i));
        }
        compress(state, bytes, constants);
    }
}

__global__ void run(const unsigned char* text, uint32_t* digests, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sha256(text + i, i % 150, digests + 8 * i, device_constants);
}

int main() {
    const int n = 600;
    Buffer<unsigned char> text(n + 150);
    Buffer<uint32_t> digests(8 * n);
    Random random;
    for (unsigned char& v : text.host) v = random.next() >> 24;
    memcpy(&text[3], "abc", 3);
    text.up();
    run<<<(n + 63) / 64, 64>>>(text.device, digests.device, n);
    digests.down();
    uint32_t want[8];
    for (int i = 0; i < n; i++) {
        sha256(&text[i], i % 150, want, host_constants);
        for (int k = 0; k < 8; k++) same("digest", 8 * i + k, digests[8 * i + k], want[k]);
    }
    same("empty message", 0, digests[0], 0xe3b0c442u);      // FIPS 180-4, message ""
    same("abc", 0, digests[8 * 3], 0xba7816bfu);            // FIPS 180-4, message "abc"
    return verdict();
}
