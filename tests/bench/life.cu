// Conway's life: a byte for a cell with wrapped edges, and 32 cells in a word by full adders.
#include "bench.cuh"

__global__ void life_bytes(const uint8_t* __restrict__ in, uint8_t* __restrict__ out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int alive = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy) alive += in[(y + dy + height) % height * width + (x + dx + width) % width];
    out[y * width + x] = alive == 3 || (alive == 2 && in[y * width + x]);
}

__device__ inline void add3(uint32_t a, uint32_t b, uint32_t c, uint32_t& sum, uint32_t& carry) {
    sum = a ^ b ^ c;
    carry = (a & b) | (c & (a ^ b));
}

__global__ void life_bits(const uint32_t* __restrict__ in, uint32_t* __restrict__ out, int words, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= words || y >= height) return;
    uint32_t s[3], c[3], middle = 0, side_sum = 0, side_carry = 0;
    int left = x == 0 ? words - 1 : x - 1, right = x == words - 1 ? 0 : x + 1;
    for (int r = 0; r < 3; r++) {
        int row = (y + r - 1 + height) % height;
        uint32_t w = in[row * words + x];
        uint32_t l = __funnelshift_l(in[row * words + left], w, 1), h = __funnelshift_r(w, in[row * words + right], 1);
        if (r == 1) {
            middle = w;
            side_sum = l ^ h;
            side_carry = l & h;
        } else add3(l, w, h, s[r], c[r]);
    }
    uint32_t ones, twos_a, twos, fours_a, fours_b;
    add3(s[0], s[2], side_sum, ones, twos_a);
    add3(c[0], c[2], side_carry, twos, fours_a);
    fours_b = twos & twos_a;
    twos ^= twos_a;
    out[y * words + x] = twos & ~(fours_a | fours_b) & (ones | middle);
}

int main() {
    int width = 4096, height = 2048, words = width / 32;
    Random random;
    Array<uint32_t> bits((size_t)words * height, [&](size_t) { return random.next() & random.next(); }), next_bits(bits.size());
    Array<uint8_t> cells((size_t)width * height, [&](size_t i) { return (uint8_t)(bits[i / width * words + i % width / 32] >> (i % 32) & 1); }), next(cells.size());
    bench("life_bytes", [&] { life_bytes<<<dim3(width / 32, height / 8), dim3(32, 8)>>>(cells, next, width, height); }, [&] {
        auto got = next.down();
        return check_samples(got.size(), 100000, [&](size_t i) {
            int x = i % width, y = i / width, alive = 0;
            for (int dy = -1; dy <= 1; dy++)
                for (int dx = -1; dx <= 1; dx++)
                    if (dx || dy) alive += cells[(size_t)((y + dy + height) % height) * width + (x + dx + width) % width];
            return got[i] == (alive == 3 || (alive == 2 && cells[i]));
        });
    });
    auto wanted = next.down();
    bench("life_bits", [&] { life_bits<<<dim3(words / 32, height / 8), dim3(32, 8)>>>(bits, next_bits, words, height); }, [&] {
        auto got = next_bits.down();
        return check_samples(wanted.size(), wanted.size(), [&](size_t i) { return (got[i / width * words + i % width / 32] >> (i % 32) & 1) == wanted[i]; });
    });
    resources("life_bytes", life_bytes, 256);
    resources("life_bits", life_bits, 256);
}
