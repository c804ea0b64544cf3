// More live values than registers: 160 words with 64 registers, doubles across calls, and predicates by the dozen.
#include "check.cuh"

const int LIVE = 160;

__host__ __device__ __noinline__ double helper(double a, double b, int n) { return n % 2 ? a * b + n : a - b * n; }

__host__ __device__ inline void mix(const unsigned* in, int stride, int at, unsigned* out) {
    unsigned v[LIVE];
#pragma unroll
    for (int k = 0; k < LIVE; k++) v[k] = in[k * stride + at];
#pragma unroll 1
    for (int round = 0; round < 3; round++) {
#pragma unroll
        for (int k = 0; k < LIVE; k++) v[k] = v[k] * 5 + (v[(k + 67) % LIVE] ^ v[(k + 101) % LIVE] >> 3);
    }
#pragma unroll
    for (int k = 0; k < LIVE; k++) out[k * stride + at] = v[k];
}

__global__ void __launch_bounds__(1024) pressed(const unsigned* in, int stride, unsigned* out) {
    mix(in, stride, blockIdx.x * blockDim.x + threadIdx.x, out);
}

__host__ __device__ inline double across_calls(const unsigned* in, int at) {
    double d[40], sum = 0;
#pragma unroll
    for (int k = 0; k < 40; k++) d[k] = in[at + k] % 1000 * 0.25;
#pragma unroll 1
    for (int round = 0; round < 2; round++) {
#pragma unroll
        for (int k = 0; k < 40; k++) d[k] = fmod(helper(d[k], d[(k + 11) % 40], k), 1024.0);
    }
#pragma unroll
    for (int k = 0; k < 40; k++) sum += d[k] * (k + 1);
    return sum;
}

__host__ __device__ inline unsigned many_conditions(const unsigned* in, int at) {
    bool c[24];
    unsigned r = 0;
#pragma unroll
    for (int k = 0; k < 24; k++) c[k] = (in[at + k] ^ in[at]) % 3 == 0;
#pragma unroll
    for (int k = 0; k < 24; k++) {
        if (c[k] && !c[(k * 7 + 1) % 24]) r += in[at + k];
        if (c[(k + 5) % 24] || c[(k + 9) % 24]) r = r * 3 + k;
    }
    return r;
}

__global__ void others(const unsigned* in, double* doubles, unsigned* words) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    doubles[i] = across_calls(in, i);
    words[i] = many_conditions(in, i);
}

int main() {
    const int n = 2048;
    Buffer<unsigned> in(LIVE * n), out(LIVE * n), words(n);
    Buffer<double> doubles(n);
    Random random;
    for (unsigned& v : in.host) v = random.next();
    in.up();
    pressed<<<n / 1024, 1024>>>(in.device, n, out.device);
    others<<<n / 128, 128>>>(in.device, doubles.device, words.device);
    out.down(), words.down(), doubles.down();
    std::vector<unsigned> want(LIVE * n);
    for (int i = 0; i < n; i++) mix(in.host.data(), n, i, want.data());
    for (int i = 0; i < LIVE * n; i++) same("pressed", i, out[i], want[i]);
    for (int i = 0; i < n; i++) {
        same("across calls", i, doubles[i], across_calls(in.host.data(), i));   // quarters below 2^20: all exact
        same("conditions", i, words[i], many_conditions(in.host.data(), i));
    }
    return verdict();
}
