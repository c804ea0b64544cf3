// A bytecode interpreter: a switch in a loop. All threads run one program, or each runs one of eight, or one of its own.
#include "bench.cuh"

constexpr int PROGRAM = 64, PROGRAMS = 4096;

// Twelve operations on an accumulator, a second register and a word of what was seen.
__host__ __device__ inline unsigned step(unsigned code, unsigned a, unsigned& b, unsigned* seen) {
    unsigned operand = code >> 8;
    switch (code & 255) {
        case 0: return a + operand;
        case 1: return a * (2 * operand + 1);
        case 2: { unsigned old = a; a = b; b = old; return a; }
        case 3: return a ^ (b >> (operand & 15));
        case 4: *seen += a; return a - b;
        case 5: b = b * 31 + a; return a + *seen;
        case 6: return a % (operand + 7);
        case 7: b ^= operand; return (a << 7) | (a >> 25);
        case 8: *seen ^= b; b += 3; return a;
        case 9: return a > b ? a - b : b - a;
        case 10: b = a / (operand + 3); return a + b;
        case 11: *seen = *seen * 5 + 1; return a ^ *seen;
        default: return a;
    }
}

__host__ __device__ inline unsigned interpret(const unsigned* program, unsigned a) {
    unsigned b = a * 2654435761u, seen = 1;
    for (int i = 0; i < PROGRAM; i++) a = step(program[i], a, b, &seen);
    return a + b + seen;
}

__global__ void interpret_same(const unsigned* programs, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = interpret(programs + blockIdx.x % PROGRAMS * PROGRAM, i);
}

__global__ void interpret_few(const unsigned* programs, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = interpret(programs + i % 8 * PROGRAM, i);
}

__global__ void interpret_own(const unsigned* programs, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = interpret(programs + i % PROGRAMS * PROGRAM, i);
}

int main() {
    int n = 1 << 18, threads = 256;
    Random random;
    Array<unsigned> programs(PROGRAM * PROGRAMS, [&](size_t) {
        unsigned code = (unsigned)(random.uniform() * 13), operand = (unsigned)(random.uniform() * 1000);
        return operand << 8 | code;
    });
    Array<unsigned> out(n);
    auto checked = [&](auto program_of) {
        return [&, program_of] {
            auto got = out.down();
            return check_samples(n, 3000, [&](size_t i) { return got[i] == interpret(&programs[program_of(i) * PROGRAM], (unsigned)i); });
        };
    };
    bench("interpret_same", [&] { interpret_same<<<n / threads, threads>>>(programs, out, n); }, checked([&](size_t i) { return i / threads % PROGRAMS; }));
    bench("interpret_few", [&] { interpret_few<<<n / threads, threads>>>(programs, out, n); }, checked([](size_t i) { return i % 8; }));
    bench("interpret_own", [&] { interpret_own<<<n / threads, threads>>>(programs, out, n); }, checked([](size_t i) { return i % PROGRAMS; }));
    resources("interpret_same", interpret_same, threads);
    resources("interpret_own", interpret_own, threads);
}
