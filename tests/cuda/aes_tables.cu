// AES-128 with its round table in constant memory, indexed by every lane differently. The tables are computed here.
#include "check.cuh"

__constant__ uint32_t round_table[256];
__constant__ unsigned char boxes[256];
__constant__ uint32_t round_keys[44];

__host__ __device__ uint32_t rotated(uint32_t v, int by) { return by ? v << by | v >> (32 - by) : v; }

// A block is four columns, first byte lowest. Columns of the round table: 2s, s, s, 3s for a byte with box s.
__host__ __device__ void encrypt(uint32_t* block, const uint32_t* table, const unsigned char* box,
                                 const uint32_t* keys) {
    uint32_t state[4], next[4];
    for (int c = 0; c < 4; c++) state[c] = block[c] ^ keys[c];
    for (int round = 1; round <= 10; round++) {
        for (int c = 0; c < 4; c++) {
            uint32_t column = 0;
            for (int r = 0; r < 4; r++) {
                uint32_t byte = state[(c + r) % 4] >> 8 * r & 255;
                column ^= round < 10 ? rotated(table[byte], 8 * r) : (uint32_t)box[byte] << 8 * r;
            }
            next[c] = column ^ keys[4 * round + c];
        }
        for (int c = 0; c < 4; c++) state[c] = next[c];
    }
    for (int c = 0; c < 4; c++) block[c] = state[c];
}

__global__ void run(uint4* blocks, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint4 v = blocks[i];
    uint32_t block[4] = {v.x, v.y, v.z, v.w};
    encrypt(block, round_table, boxes, round_keys);
    blocks[i] = make_uint4(block[0], block[1], block[2], block[3]);
}

unsigned char product(unsigned char a, unsigned char b) {   // in the field of AES
    unsigned char r = 0;
    for (; b; b >>= 1, a = a << 1 ^ (a & 0x80 ? 0x1b : 0))
        if (b & 1) r ^= a;
    return r;
}

int main() {
    unsigned char box[256];
    uint32_t table[256], keys[44];
    for (int v = 0; v < 256; v++) {
        unsigned char inverse = 0;
        for (int w = 1; w < 256; w++)
            if (product(v, w) == 1) inverse = w;
        unsigned char s = 0x63;
        for (int k = 0; k < 5; k++) s ^= (unsigned char)(inverse << k | inverse >> (8 - k));
        box[v] = s;
        table[v] = product(s, 2) | s << 8 | s << 16 | (uint32_t)product(s, 3) << 24;
    }
    for (int k = 0; k < 4; k++) keys[k] = 0x03020100u + 0x04040404u * k;   // FIPS 197, appendix C.1: 00 01 02 … 0f
    for (int k = 4, factor = 1; k < 44; k++) {
        uint32_t word = keys[k - 1];
        if (k % 4 == 0) {
            word = rotated(word, 24);
            uint32_t replaced = factor;
            for (int r = 0; r < 4; r++) replaced ^= (uint32_t)box[word >> 8 * r & 255] << 8 * r;
            word = replaced;
            factor = product(factor, 2);
        }
        keys[k] = keys[k - 4] ^ word;
    }
    CUDA(cudaMemcpyToSymbol(round_table, table, sizeof table));
    CUDA(cudaMemcpyToSymbol(boxes, box, sizeof box));
    CUDA(cudaMemcpyToSymbol(round_keys, keys, sizeof keys));
    const int n = 5000;
    Buffer<uint4> blocks(n);
    Random random;
    for (uint4& v : blocks.host) v = make_uint4(random.next(), random.next(), random.next(), random.next());
    blocks[0] = make_uint4(0x33221100, 0x77665544, 0xbbaa9988, 0xffeeddcc);
    std::vector<uint4> plain = blocks.host;
    blocks.up();
    run<<<(n + 127) / 128, 128>>>(blocks.device, n);
    blocks.down();
    for (int i = 0; i < n; i++) {
        uint32_t want[4] = {plain[i].x, plain[i].y, plain[i].z, plain[i].w};
        encrypt(want, table, box, keys);
        const uint32_t got[4] = {blocks[i].x, blocks[i].y, blocks[i].z, blocks[i].w};
        for (int c = 0; c < 4; c++) same("block", 4 * i + c, got[c], want[c]);
    }
    same("standard's example", 0, blocks[0].x, 0xd8e0c469u);   // cipher text 69 c4 e0 d8 …
    return verdict();
}
