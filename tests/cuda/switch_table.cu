// Switches with many cases: a dense one with fall through, a sparse one, a small machine that interprets a program, and
// a jump through a table in inline PTX (nvcc makes trees of branches of its switches).
#include "check.cuh"

__host__ __device__ unsigned dense(unsigned op, unsigned a, unsigned b) {
    switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: a ^= b;   // falls through
    case 4: a += 17;  // falls through
    case 5: return a << 3;
    case 6: return a > b ? a : b;
    case 7: return a % (b | 1);
    case 8: return ~a;
    case 9: for (int i = 0; i < 5; i++) a = a * 3 + b; return a;
    case 10: return a & b;
    case 11: return a >> (b & 31);
    case 12: if (a & 1) return b; break;
    case 13: return a * a - b * b;
    case 14: return a / (b | 1);
    case 15: return (a << 16) | (b & 0xffff);
    case 16: b = a; break;
    default: return 0xdead;
    }
    return b + 1;
}

__host__ __device__ int sparse(int v) {
    switch (v) {
    case -1000000: return 1;
    case -5: return 2;
    case 0: return 3;
    case 99: return 4;
    case 1 << 20: return 5;
    case INT32_MAX: return 6;
    case INT32_MIN: return 7;
    default: return -v;
    }
}

enum { LOAD, ADD, SUB, MUL, JUMP_IF, SWAP, DUP, XOR, SHIFT, HALT };

__host__ __device__ int interpret(const signed char* code, int input) {
    int stack[16], top = 0, pc = 0;
    stack[top++] = input;
    for (int steps = 0; steps < 500; steps++) {
        switch (code[pc++]) {
        case LOAD: stack[top++] = code[pc++]; break;
        case ADD: top--; stack[top - 1] += stack[top]; break;
        case SUB: top--; stack[top - 1] -= stack[top]; break;
        case MUL: top--; stack[top - 1] *= stack[top]; break;
        case JUMP_IF: { int to = code[pc++]; if (stack[--top] > 0) pc = to; break; }
        case SWAP: { int t = stack[top - 1]; stack[top - 1] = stack[top - 2]; stack[top - 2] = t; break; }
        case DUP: stack[top] = stack[top - 1]; top++; break;
        case XOR: top--; stack[top - 1] ^= stack[top]; break;
        case SHIFT: stack[top - 1] = (int)((unsigned)stack[top - 1] << 1); break;
        case HALT: return (int)(stack[top - 1] * 1000u + steps);
        }
    }
    return -1;
}

// accumulator below a counter: doubles and mixes the accumulator until the counter, the input, is used up
const signed char program[] = {LOAD, 1,   SWAP,    SWAP, SHIFT, LOAD, 7,    XOR,  SWAP, LOAD,   1,
                               SUB,  DUP, JUMP_IF, 17,   SWAP,  HALT, SWAP, LOAD, 1,    JUMP_IF, 4};

__device__ unsigned by_table(unsigned op, unsigned a, unsigned b) {
    unsigned r;
    asm("{\n\t"
        "targets: .branchtargets sum, difference, product, both, sum;\n\t"
        "brx.idx %1, targets;\n\t"
        "sum:        add.u32 %0, %2, %3;    bra done;\n\t"
        "difference: sub.u32 %0, %2, %3;    bra done;\n\t"
        "both:       and.b32 %0, %2, %3;    bra done;\n\t"
        "product:    mul.lo.u32 %0, %2, %3;\n\t"
        "done: }"
        : "=&r"(r)
        : "r"(op), "r"(a), "r"(b));
    return r;
}

__global__ void run(const unsigned* in, const signed char* code, unsigned* out, unsigned* tabled) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[3 * i] = dense(in[i] % 20, in[i], i);
    out[3 * i + 1] = sparse(in[i]);
    out[3 * i + 2] = interpret(code, i % 23 + 1);
    tabled[i] = by_table(in[i] >> 8 & 3, in[i], i) + 3 * by_table(in[blockIdx.x] % 5, in[i], i);
}

int main() {
    const int n = 8192, special[] = {-1000000, -5, 0, 99, 1 << 20, INT32_MAX, INT32_MIN};
    Buffer<unsigned> in(n), out(3 * n), tabled(n);
    Buffer<signed char> code(sizeof program);
    for (size_t k = 0; k < sizeof program; k++) code[k] = program[k];
    Random random;
    for (int i = 0; i < n; i++) in[i] = i % 3 ? random.next() : special[i / 3 % 7];
    in.up(), code.up();
    run<<<n / 128, 128>>>(in.device, code.device, out.device, tabled.device);
    out.down(), tabled.down();
    for (int i = 0; i < n; i++) {
        same("dense", i, out[3 * i], dense(in[i] % 20, in[i], i));
        same("sparse", i, out[3 * i + 1], (unsigned)sparse(in[i]));
        const unsigned table[5] = {in[i] + i, in[i] - i, in[i] * i, in[i] & i, in[i] + i};
        same("by table", i, tabled[i], table[in[i] >> 8 & 3] + 3 * table[in[i / 128] % 5]);
        same("interpreted", i, out[3 * i + 2], (unsigned)interpret(program, i % 23 + 1));
    }
    return verdict();
}
