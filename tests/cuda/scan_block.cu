// Exclusive prefix sum of a long array: up- and down-sweep in shared memory, then the sums of blocks are added.
#include "check.cuh"

const int TILE = 512;

__global__ void scan_tiles(const unsigned* in, unsigned* out, unsigned* totals) {
    __shared__ unsigned tree[TILE];
    int t = threadIdx.x, base = blockIdx.x * TILE;
    tree[2 * t] = in[base + 2 * t];
    tree[2 * t + 1] = in[base + 2 * t + 1];
    int stride = 1;
    for (int active = TILE / 2; active > 0; active /= 2, stride *= 2) {
        __syncthreads();
        if (t < active) tree[stride * (2 * t + 2) - 1] += tree[stride * (2 * t + 1) - 1];
    }
    if (t == 0) {
        totals[blockIdx.x] = tree[TILE - 1];
        tree[TILE - 1] = 0;
    }
    for (int active = 1; active < TILE; active *= 2) {
        stride /= 2;
        __syncthreads();
        if (t < active) {
            unsigned left = tree[stride * (2 * t + 1) - 1];
            tree[stride * (2 * t + 1) - 1] = tree[stride * (2 * t + 2) - 1];
            tree[stride * (2 * t + 2) - 1] += left;
        }
    }
    __syncthreads();
    out[base + 2 * t] = tree[2 * t];
    out[base + 2 * t + 1] = tree[2 * t + 1];
}

__global__ void add_totals(unsigned* out, const unsigned* before) {
    out[blockIdx.x * TILE + threadIdx.x] += before[blockIdx.x];
}

int main() {
    const int n = TILE * TILE;
    Buffer<unsigned> in(n), out(n), totals(TILE), before(TILE), all(1);
    Random random;
    for (unsigned& v : in.host) v = random.below(1000000);
    in.up();
    scan_tiles<<<TILE, TILE / 2>>>(in.device, out.device, totals.device);
    scan_tiles<<<1, TILE / 2>>>(totals.device, before.device, all.device);
    add_totals<<<TILE, TILE>>>(out.device, before.device);
    out.down(), all.down();
    unsigned sum = 0;
    for (int i = 0; i < n; i++) {
        same("prefix", i, out[i], sum);
        sum += in[i];
    }
    same("total", 0, all[0], sum);
    return verdict();
}
