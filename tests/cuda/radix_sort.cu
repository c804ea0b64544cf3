// Stable radix sort, 4 bits a pass: counts by block, a scan of the counts, and a scatter that ranks with ballots.
#include "check.cuh"
#include <algorithm>

const int BLOCK = 256, DIGITS = 16;

__global__ void count(const unsigned* keys, int shift, unsigned* counts) {
    __shared__ unsigned mine[DIGITS];
    if (threadIdx.x < DIGITS) mine[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&mine[keys[blockIdx.x * BLOCK + threadIdx.x] >> shift & (DIGITS - 1)], 1);
    __syncthreads();
    if (threadIdx.x < DIGITS) counts[threadIdx.x * gridDim.x + blockIdx.x] = mine[threadIdx.x];
}

__global__ void scan(unsigned* counts, int n) {
    unsigned sum = 0;
    for (int i = 0; i < n; i++) {
        unsigned v = counts[i];
        counts[i] = sum;
        sum += v;
    }
}

__global__ void scatter(const unsigned* keys, int shift, const unsigned* starts, unsigned* out) {
    __shared__ unsigned in_warp[BLOCK / 32][DIGITS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned key = keys[blockIdx.x * BLOCK + threadIdx.x], digit = key >> shift & (DIGITS - 1);
    unsigned same_digit = 0xffffffff;
    for (int bit = 0; bit < 4; bit++) {
        unsigned votes = __ballot_sync(0xffffffff, digit >> bit & 1);
        same_digit &= digit >> bit & 1 ? votes : ~votes;
    }
    if (lane < DIGITS) in_warp[warp][lane] = 0;
    __syncwarp();
    if (lane == __ffs(same_digit) - 1) in_warp[warp][digit] = __popc(same_digit);
    __syncthreads();
    unsigned place = starts[digit * gridDim.x + blockIdx.x] + __popc(same_digit & ((1u << lane) - 1));
    for (int w = 0; w < warp; w++) place += in_warp[w][digit];
    out[place] = key;
}

int main() {
    const int n = 1 << 14, blocks = n / BLOCK;
    Buffer<unsigned> keys(n), other(n), counts(DIGITS * blocks);
    Random random;
    for (unsigned& v : keys.host) v = random.next() & random.next();
    std::vector<unsigned> want = keys.host;
    keys.up();
    unsigned *from = keys.device, *to = other.device;
    for (int shift = 0; shift < 32; shift += 4) {
        count<<<blocks, BLOCK>>>(from, shift, counts.device);
        scan<<<1, 1>>>(counts.device, DIGITS * blocks);
        scatter<<<blocks, BLOCK>>>(from, shift, counts.device, to);
        std::swap(from, to);
    }
    keys.down();
    std::sort(want.begin(), want.end());
    for (int i = 0; i < n; i++) same("key", i, keys[i], want[i]);
    return verdict();
}
