// CRC-32 of many messages: bit by bit, by a table that the kernel builds in shared memory, and of unaligned bytes.
#include "check.cuh"

__host__ __device__ uint32_t crc_bits(const unsigned char* text, int length) {
    uint32_t crc = ~0u;
    for (int i = 0; i < length; i++) {
        crc ^= text[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

__global__ void check_sums(const unsigned char* text, const int* starts, uint32_t* by_bits, uint32_t* by_table, int n) {
    __shared__ uint32_t table[256];
    for (int v = threadIdx.x; v < 256; v += blockDim.x) {
        uint32_t crc = v;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
        table[v] = crc;
    }
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned char* message = text + starts[i];
    int length = starts[i + 1] - starts[i];
    by_bits[i] = crc_bits(message, length);
    uint32_t crc = ~0u;
    for (int k = 0; k < length; k++) crc = table[(crc ^ message[k]) & 255] ^ crc >> 8;
    by_table[i] = ~crc;
}

int main() {
    const int n = 777;
    Random random;
    Buffer<int> starts(n + 1);
    for (int i = 0; i < n; i++) starts[i + 1] = starts[i] + random.below(150);
    Buffer<unsigned char> text(starts[n]);
    for (unsigned char& v : text.host) v = random.next() >> 24;
    text.up(), starts.up();
    Buffer<uint32_t> by_bits(n), by_table(n);
    check_sums<<<(n + 95) / 96, 96>>>(text.device, starts.device, by_bits.device, by_table.device, n);
    by_bits.down(), by_table.down();
    same("known value", 0, crc_bits((const unsigned char*)"123456789", 9), 0xcbf43926u);   // the standard's check word
    for (int i = 0; i < n; i++) {
        uint32_t want = crc_bits(text.host.data() + starts[i], starts[i + 1] - starts[i]);
        same("by bits", i, by_bits[i], want);
        same("by table", i, by_table[i], want);
    }
    return verdict();
}
