// Large arrays in local memory with indices that only the run knows: a sieve, a permutation, a byte stack, a matrix.
#include "check.cuh"

__host__ __device__ int sieve(int limit) {
    bool composite[1000] = {};
    int primes = 0;
    for (int i = 2; i < limit; i++) {
        if (composite[i]) continue;
        primes += i;
        for (int j = i * 2; j < limit; j += i) composite[j] = true;
    }
    return primes;
}

__host__ __device__ unsigned shuffled(unsigned seed) {
    unsigned short deck[300];
    for (int i = 0; i < 300; i++) deck[i] = i;
    for (int i = 299; i > 0; i--) {
        seed = seed * 1664525 + 1013904223;
        int j = (seed >> 8) % (i + 1);
        unsigned short t = deck[i];
        deck[i] = deck[j];
        deck[j] = t;
    }
    unsigned hash = 0;
    for (int i = 0; i < 300; i++) hash = hash * 31 + deck[i];
    return hash;
}

// Evaluates a formula in reverse Polish notation: digits, + - *, on a stack.
__host__ __device__ int evaluate(const char* formula) {
    int stack[64], top = 0;
    for (; *formula; formula++) {
        char c = *formula;
        if (c >= '0' && c <= '9') {
            stack[top++] = c - '0';
            continue;
        }
        int b = stack[--top], a = stack[--top];
        stack[top++] = c == '+' ? a + b : c == '-' ? a - b : a * b;
    }
    return stack[0];
}

__host__ __device__ double determinant(int seed) {   // of a triangular matrix, pivots in a scattered order
    double m[12][12];
    int order[12];
    for (int r = 0; r < 12; r++) {
        order[(r * 5 + seed) % 12] = r;
        for (int c = 0; c < 12; c++) m[r][c] = c < r ? 0 : 1 + (r * c + seed) % 3;
    }
    double product = 1;
    for (int k = 0; k < 12; k++) product *= m[order[k]][order[k]];
    return product;
}

__global__ void run(const char* formulas, unsigned* out, double* determinants) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[3 * i] = sieve(i % 999 + 1);
    out[3 * i + 1] = shuffled(i);
    out[3 * i + 2] = evaluate(formulas + i % 4 * 32);
    determinants[i] = determinant(i);
}

int main() {
    const int n = 1280;
    const char* texts[4] = {"12+3*", "99*9*9*1-", "123456789++++++++", "55*2-34+*8-"};
    Buffer<char> formulas(4 * 32);
    for (int f = 0; f < 4; f++) snprintf(&formulas[f * 32], 32, "%s", texts[f]);
    formulas.up();
    Buffer<unsigned> out(3 * n);
    Buffer<double> determinants(n);
    run<<<n / 128, 128>>>(formulas.device, out.device, determinants.device);
    out.down(), determinants.down();
    for (int i = 0; i < n; i++) {
        same("sieve", i, out[3 * i], (unsigned)sieve(i % 999 + 1));
        same("shuffled", i, out[3 * i + 1], shuffled(i));
        same("formula", i, out[3 * i + 2], (unsigned)evaluate(texts[i % 4]));
        same("determinant", i, determinants[i], determinant(i));
    }
    return verdict();
}
