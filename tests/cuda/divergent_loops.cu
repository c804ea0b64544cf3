// Loops whose lanes leave at different times and in different ways: break, continue, return, nested, and early exit
// before a warp-wide operation of those that are left.
#include "check.cuh"

__host__ __device__ int collatz(unsigned n) {
    int steps = 0;
    while (n != 1) {
        n = n % 2 ? 3 * n + 1 : n / 2;
        steps++;
    }
    return steps;
}

__host__ __device__ int tangled(int seed) {
    int sum = 0;
    for (int i = 0; i < 40; i++) {
        if ((seed ^ i) % 5 == 0) continue;
        for (int j = i; j < 50; j++) {
            if ((seed + j) % 13 == 0) break;
            if ((seed * j + i) % 997 == 7) return sum * 2 + 1;
            sum += (j ^ seed) & 15;
        }
        if (sum > 900 + seed % 300) break;
    }
    return sum * 2;
}

// A value that is the same in all lanes of one iteration, read after lanes left in different iterations.
__host__ __device__ int left_at(int limit) {
    int i = 0, power = 1;
    for (;;) {
        power = power * 3 + 1;
        if (++i >= limit) break;
    }
    return power + i;
}

__global__ void run(const int* seeds, int n, int* out, int* survivors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[3 * i] = collatz(seeds[i]);
    out[3 * i + 1] = tangled(seeds[i]);
    out[3 * i + 2] = left_at(seeds[i] % 19);
    if (seeds[i] % 3 == 0) return;
    survivors[i] = __popc(__activemask());
}

// Lanes exit one after the other inside a loop with a barrier of the lanes that are left.
__global__ void dwindle(int* rounds, int* strangers) {
    unsigned left = 0xffffffff;
    for (int r = 0;; r++) {
        if (threadIdx.x <= r) {
            rounds[threadIdx.x] = r;
            return;
        }
        left &= ~(1u << r);
        __syncwarp(left);
        if (__ballot_sync(left, 1) != left) atomicAdd(strangers, 1);
    }
}

int main() {
    const int n = 5000;
    Buffer<int> seeds(n), out(3 * n), survivors(n, -7), rounds(32, -1), strangers(1);
    Random random;
    for (int& v : seeds.host) v = 1 + random.below(30000);
    seeds.up();
    run<<<(n + 95) / 96, 96>>>(seeds.device, n, out.device, survivors.device);
    dwindle<<<1, 32>>>(rounds.device, strangers.device);
    out.down(), survivors.down(), rounds.down(), strangers.down();
    for (int i = 0; i < n; i++) {
        same("collatz", i, out[3 * i], collatz(seeds[i]));
        same("tangled", i, out[3 * i + 1], tangled(seeds[i]));
        same("left_at", i, out[3 * i + 2], left_at(seeds[i] % 19));
        bool gone = seeds[i] % 3 == 0;   // how many lanes are together is the machine's choice, but not none
        same("survivors", i, gone ? survivors[i] == -7 : survivors[i] >= 1 && survivors[i] <= 32, true);
    }
    for (int i = 0; i < 32; i++) same("rounds", i, rounds[i], i);
    same("strangers", 0, strangers[0], 0);
    return verdict();
}
