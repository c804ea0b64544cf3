// Every atomic operation of CUDA on global memory, with and without use of the old value.
#include "check.cuh"

enum { ADD, SUB, MIN, MAX, UMIN, UMAX, AND, OR, XOR, INC, DEC, SLOTS };

__global__ void words(const int* in, int* slots, unsigned long long* longs, int* taken) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
    unsigned* u = (unsigned*)slots;
    atomicAdd(&slots[ADD], v);
    atomicSub(&slots[SUB], v);
    atomicMin(&slots[MIN], v);
    atomicMax(&slots[MAX], v);
    atomicMin(&u[UMIN], (unsigned)v);
    atomicMax(&u[UMAX], (unsigned)v);
    atomicAnd(&slots[AND], v | 0xff);
    atomicOr(&slots[OR], v & 0x10101010);
    atomicXor(&slots[XOR], v);
    unsigned ticket = atomicInc(&u[INC], 999);
    atomicAdd(&taken[ticket], 1);
    atomicDec(&u[DEC], 999);
    atomicAdd(&longs[0], (unsigned long long)(unsigned)v << 20);
    atomicMax((long long*)&longs[1], v * (1ll << 30));
    atomicMin((long long*)&longs[2], v * (1ll << 30));
    atomicXor(&longs[3], (unsigned long long)(unsigned)v << 17);
}

__global__ void reals(const int* in, float* f, double* d, unsigned long long* bits, int* chain) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(f, (float)(in[i] & 7));
    atomicAdd(d, in[i] * 0.5);
    unsigned long long old = *bits, seen;   // a product modulo 2^64 by compare and swap
    do {
        seen = old;
        old = atomicCAS(bits, seen, seen * (2ull * i + 1));
    } while (old != seen);
    chain[i + 1] = atomicExch(&chain[0], i);   // each value is handed on exactly once
}

int main() {
    const int n = 16384;
    Buffer<int> in(n), slots(SLOTS), taken(1000), chain(n + 1);
    Buffer<unsigned long long> longs(4), bits(1, 1);
    Buffer<float> f(1);
    Buffer<double> d(1);
    Random random;
    for (int& v : in.host) v = random.next();
    slots[UMIN] = -1, slots[AND] = -1, chain[0] = -1;
    in.up(), slots.up(), chain.up();
    words<<<n / 256, 256>>>(in.device, slots.device, longs.device, taken.device);
    reals<<<n / 256, 256>>>(in.device, f.device, d.device, bits.device, chain.device);
    slots.down(), longs.down(), taken.down(), f.down(), d.down(), bits.down(), chain.down();

    unsigned want[SLOTS] = {};
    unsigned long long sum = 0, parity = 0, product = 1;
    long long most = 0, least = 0;
    float fsum = 0;
    double dsum = 0;
    want[UMIN] = want[AND] = ~0u;
    for (int i = 0; i < n; i++) {
        int v = in[i];
        want[ADD] += v, want[SUB] -= v, want[XOR] ^= v, want[AND] &= v | 0xff, want[OR] |= v & 0x10101010;
        if (v < (int)want[MIN]) want[MIN] = v;
        if (v > (int)want[MAX]) want[MAX] = v;
        if ((unsigned)v < want[UMIN]) want[UMIN] = v;
        if ((unsigned)v > want[UMAX]) want[UMAX] = v;
        sum += (unsigned long long)(unsigned)v << 20, parity ^= (unsigned long long)(unsigned)v << 17;
        if (v * (1ll << 30) > most) most = v * (1ll << 30);
        if (v * (1ll << 30) < least) least = v * (1ll << 30);
        fsum += v & 7, dsum += v * 0.5, product *= 2ull * i + 1;
    }
    want[INC] = n % 1000;
    want[DEC] = (1000 - n % 1000) % 1000;   // from 0 the first step goes to 999
    for (int s = 0; s < SLOTS; s++) same("slot", s, (unsigned)slots[s], want[s]);
    for (int t = 0; t < 1000; t++) same("ticket", t, taken[t], n / 1000 + (t < n % 1000));
    same("add64", 0, longs[0], sum), same("xor64", 0, longs[3], parity);
    same("max64", 0, (long long)longs[1], most), same("min64", 0, (long long)longs[2], least);
    same("float", 0, f[0], fsum), same("double", 0, d[0], dsum), same("product", 0, bits[0], product);
    std::vector<int> seen(n + 1, 0);
    for (int v : chain.host) seen[v + 1]++;
    for (int v = 0; v <= n; v++) same("exchanged", v, seen[v], 1);
    return verdict();
}
