// Locks made of atomicCAS: per warp leader, per lane with a flag, and per lane with a plain spin, which needs the
// lanes of a warp to make progress independently.
#include "check.cuh"

__device__ void lock(int* word) {
    while (atomicCAS(word, 0, 1) != 0) {}
    __threadfence();
}

__device__ void unlock(int* word) {
    __threadfence();
    atomicExch(word, 0);
}

__global__ void by_leaders(int* word, volatile long long* account) {
    if (threadIdx.x % 32 == 0) {
        lock(word);
        account[0] = account[0] + 1;
        account[1] = account[1] + account[0];
        unlock(word);
    }
}

__global__ void by_flags(int* words, volatile int* counts) {
    int slot = threadIdx.x % 4;
    for (bool done = false; !done;) {
        if (atomicCAS(&words[slot], 0, 1) == 0) {
            __threadfence();
            counts[slot] = counts[slot] + 1;
            __threadfence();
            atomicExch(&words[slot], 0);
            done = true;
        }
    }
}

__global__ void by_spinning(int* words, volatile int* counts) {
    int slot = threadIdx.x % 3;
    lock(&words[slot]);
    counts[slot] = counts[slot] + 1;
    unlock(&words[slot]);
}

// A lane waits for another lane of its own warp.
__global__ void lane_waits_for_lane(volatile int* flag, int* out) {
    if (threadIdx.x == 0) {
        while (*flag == 0) {}
        out[0] = 42;
    } else if (threadIdx.x == 1) {
        out[1] = 41;
        __threadfence();
        *flag = 1;
    }
}

int main() {
    const int blocks = 32, threads = 64;
    Buffer<int> word(1), words(4), counts(4), spin_words(3), spins(3), flag(1), out(2);
    Buffer<long long> account(2);
    by_leaders<<<256, 128>>>(word.device, account.device);
    by_flags<<<blocks, threads>>>(words.device, counts.device);
    by_spinning<<<blocks, threads>>>(spin_words.device, spins.device);
    lane_waits_for_lane<<<1, 32>>>(flag.device, out.device);
    account.down(), counts.down(), spins.down(), out.down(), word.down();
    const long long held = 256 * 4;
    same("times held", 0, account[0], held);
    same("sum over holders", 0, account[1], held * (held + 1) / 2);
    for (int s = 0; s < 4; s++) same("by flags", s, counts[s], blocks * threads / 4);
    for (int s = 0; s < 3; s++) same("by spinning", s, spins[s], blocks * (threads / 3 + (s < threads % 3)));
    same("waited", 0, out[0], 42), same("waited", 1, out[1], 41);
    same("free at the end", 0, word[0], 0);
    return verdict();
}
