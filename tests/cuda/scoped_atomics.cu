// The memory model of libcu++: acquire and release at block, device and system scope; half words; store buffering.
#include "check.cuh"
#include <cuda/atomic>

const int ROUNDS = 100;

// Ping-pong between two blocks by release and acquire.
__global__ void ping_pong(int* word, int* payload, int* log) {
    cuda::atomic_ref<int, cuda::thread_scope_device> turn(*word);
    if (threadIdx.x != 0) return;
    for (int r = 0; r < ROUNDS; r++) {
        while (turn.load(cuda::memory_order_acquire) != 2 * r + (int)blockIdx.x) {}
        log[2 * r + blockIdx.x] = ++*payload;
        turn.store(2 * r + blockIdx.x + 1, cuda::memory_order_release);
    }
}

__global__ void counters(unsigned* device_word, unsigned long long* system_word, int* most, float* sum, short* halves) {
    __shared__ unsigned shared_word;
    if (threadIdx.x == 0) shared_word = 0;
    __syncthreads();
    cuda::atomic_ref<unsigned, cuda::thread_scope_block> in_block(shared_word);
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> on_device(*device_word);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> in_system(*system_word);
    cuda::atomic_ref<int, cuda::thread_scope_device> highest(*most);
    cuda::atomic_ref<float, cuda::thread_scope_device> adder(*sum);
    unsigned rank = in_block.fetch_add(1, cuda::memory_order_relaxed);
    on_device.fetch_add(rank, cuda::memory_order_seq_cst);
    in_system.fetch_or(1ull << (threadIdx.x % 64), cuda::memory_order_acq_rel);
    highest.fetch_max((int)(blockIdx.x * 1000 + threadIdx.x), cuda::memory_order_release);
    adder.fetch_add(0.5f, cuda::memory_order_relaxed);
    cuda::atomic_ref<short, cuda::thread_scope_device> half(halves[threadIdx.x % 8]);
    short old = half.load();
    while (!half.compare_exchange_weak(old, (short)(old + 3))) {}
}

// Stores to one place and reads of another: with sequential consistency not both reads see the old value.
__global__ void store_buffering(int* x, int* y, int* seen) {
    cuda::atomic_ref<int, cuda::thread_scope_device> mine(*(blockIdx.x ? y : x)), other(*(blockIdx.x ? x : y));
    mine.store(1);
    seen[blockIdx.x] = other.load();
}

int main() {
    Buffer<int> word(1), payload(1), log(2 * ROUNDS), most(1);
    Buffer<unsigned> on_device(1);
    Buffer<unsigned long long> in_system(1);
    Buffer<float> sum(1);
    Buffer<short> halves(8);
    const int blocks = 20, threads = 128, trials = 200;
    ping_pong<<<2, 32>>>(word.device, payload.device, log.device);
    counters<<<blocks, threads>>>(on_device.device, in_system.device, most.device, sum.device, halves.device);
    Buffer<int> places(2 * trials), seen(2 * trials);
    for (int k = 0; k < trials; k++)
        store_buffering<<<2, 1>>>(places.device + 2 * k, places.device + 2 * k + 1, seen.device + 2 * k);
    log.down(), on_device.down(), in_system.down(), most.down(), sum.down(), halves.down(), seen.down();
    for (int r = 0; r < 2 * ROUNDS; r++) same("log", r, log[r], r + 1);
    same("on the device", 0, on_device[0], (unsigned)(blocks * threads * (threads - 1) / 2));
    same("in the system", 0, in_system[0], ~0ull);
    same("highest", 0, most[0], (blocks - 1) * 1000 + threads - 1);
    same("sum", 0, sum[0], blocks * threads * 0.5f);
    for (int h = 0; h < 8; h++) same("half word", h, (int)halves[h], (int)(blocks * threads / 8 * 3));
    for (int k = 0; k < trials; k++) same("one store is first", k, seen[2 * k] + seen[2 * k + 1] > 0, true);
    return verdict();
}
