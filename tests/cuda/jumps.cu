// Control flow that no structured statement makes: a loop with two entries, jumps out of nested loops, and a loop body
// entered in its middle.
#include "check.cuh"

__host__ __device__ unsigned two_entries(unsigned n, unsigned start) {
    unsigned a = 1, b = start, steps = 0;
    if (start & 1) goto second;
first:
    a = a * 3 + b;
    if (++steps > n) goto done;
second:
    b ^= a >> 2;
    if (++steps > n + 7) goto done;
    if (b & 4) goto first;
    a += 5;
    if (a % 11 != 0) goto second;
    goto first;
done:
    return a ^ b * 31 ^ steps;
}

__host__ __device__ unsigned out_of_nest(const unsigned* in, unsigned at) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 20; i++)
        for (unsigned j = 0; j < 20; j++) {
            unsigned v = in[(at + i * 20 + j) % 1024];
            if (v % 97 == 3) goto found;
            if (v % 89 == 5) goto next;
            sum += v;
            continue;
        next:
            sum ^= i;
            break;
        }
    return sum;
found:
    return sum * 7 + 1;
}

// By fours, entered in the middle of the loop.
__host__ __device__ unsigned duff(const unsigned* in, unsigned at, unsigned count) {
    unsigned hash = 0, i = at;
    if (count == 0) return 0;
    unsigned rounds = (count + 3) / 4;
    switch (count % 4) {
    case 0: do { hash = hash * 33 + in[i++ % 1024];
    case 3:      hash = hash * 33 + in[i++ % 1024];
    case 2:      hash = hash * 33 + in[i++ % 1024];
    case 1:      hash = hash * 33 + in[i++ % 1024];
            } while (--rounds);
    }
    return hash;
}

__global__ void run(const unsigned* in, unsigned* out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[3 * i] = two_entries(in[i] % 60, in[i] >> 8);
    out[3 * i + 1] = out_of_nest(in, i);
    out[3 * i + 2] = duff(in, i, in[i] % 41);
}

int main() {
    const unsigned n = 1024;
    Buffer<unsigned> in(n), out(3 * n);
    Random random;
    for (unsigned& v : in.host) v = random.next();
    in.up();
    run<<<n / 128, 128>>>(in.device, out.device);
    out.down();
    for (unsigned i = 0; i < n; i++) {
        same("two entries", i, out[3 * i], two_entries(in[i] % 60, in[i] >> 8));
        same("out of nest", i, out[3 * i + 1], out_of_nest(in.host.data(), i));
        same("from the middle", i, out[3 * i + 2], duff(in.host.data(), i, in[i] % 41));
    }
    return verdict();
}
