// Messages between blocks and between warps: data, fence, flag on one side; flag, fence, data on the other.
#include "check.cuh"

const int ROUNDS = 200, WORDS = 64;

// Block 0 makes batches, block 1 uses them up; `turn` counts the batches made and `done` the batches used.
__global__ void through_global(volatile int* turn, volatile int* done, int* data, int* sums) {
    int t = threadIdx.x;
    for (int r = 1; r <= ROUNDS; r++) {
        if (blockIdx.x == 0) {
            while (*done < r - 1) {}
            data[t] = r * 1000 + t;
            __threadfence();
            __syncthreads();
            if (t == 0) *turn = r;
        } else {
            if (t == 0)
                while (*turn < r) {}
            __syncthreads();
            __threadfence();
            atomicAdd(&sums[r - 1], ((volatile int*)data)[WORDS - 1 - t] * (t + 1));
            __syncthreads();
            if (t == 0) *done = r;
        }
    }
}

// One warp hands values to the next through shared memory, around a ring of eight.
__global__ void through_shared(int* out) {
    __shared__ volatile int mail[8][32], full[8];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, to = (warp + 1) % 8;
    if (lane == 0) full[warp] = 0;
    __syncthreads();
    int value = lane;
    for (int lap = 1; lap <= 20; lap++) {
        if (warp != 0 || lap > 1) {
            while (full[warp] < lap - (warp == 0)) {}
            __threadfence_block();
            value = mail[warp][lane] + 1;
            __syncwarp();
        }
        mail[to][lane] = value;
        __threadfence_block();
        __syncwarp();
        if (lane == 0) full[to] = lap;
    }
    if (warp == 7) out[lane] = value;
}

// The last block to arrive, by an atomic ticket after a fence, adds up what all blocks wrote.
__global__ void last_block(int* parts, unsigned* arrived, int* total) {
    __shared__ bool last;
    parts[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x * 3 + threadIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    int sum = 0;
    for (int b = 0; b < gridDim.x; b++) sum += ((volatile int*)parts)[b * blockDim.x + threadIdx.x];
    atomicAdd(total, sum);
}

int main() {
    const int blocks = 300;
    Buffer<int> turn(1), done(1), data(WORDS), sums(ROUNDS), ring(32), parts(blocks * 128), total(1);
    Buffer<unsigned> arrived(1);
    through_global<<<2, WORDS>>>(turn.device, done.device, data.device, sums.device);
    through_shared<<<1, 256>>>(ring.device);
    last_block<<<blocks, 128>>>(parts.device, arrived.device, total.device);
    sums.down(), ring.down(), total.down();
    for (int r = 1; r <= ROUNDS; r++) {
        int want = 0;
        for (int t = 0; t < WORDS; t++) want += (r * 1000 + WORDS - 1 - t) * (t + 1);
        same("batch", r, sums[r - 1], want);
    }
    for (int lane = 0; lane < 32; lane++) same("ring", lane, ring[lane], lane + 20 * 8 - 1);
    int want = 0;
    for (int b = 0; b < blocks; b++)
        for (int t = 0; t < 128; t++) want += b * 3 + t;
    same("total", 0, total[0], want);
    return verdict();
}
