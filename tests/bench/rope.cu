// Rotary position embedding of queries and keys in half precision, with a table and with angles computed in place.
#include <cuda_fp16.h>

#include "bench.cuh"

__global__ void rope_table(half* __restrict__ x, const float2* __restrict__ table, int tokens, int heads, int dim) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, half_dim = dim / 2;
    if (i >= tokens * heads * half_dim) return;
    int pair = i % half_dim, head = i / half_dim % heads, token = i / (half_dim * heads);
    float2 cs = table[token * half_dim + pair];
    half* p = x + ((size_t)token * heads + head) * dim + pair;
    float a = __half2float(p[0]), b = __half2float(p[half_dim]);
    p[0] = __float2half(a * cs.x - b * cs.y);
    p[half_dim] = __float2half(a * cs.y + b * cs.x);
}

__global__ void rope_computed(half2* x, const int* positions, int tokens, int heads, int pairs, float base) {
    int token = blockIdx.x;
    float position = (float)positions[token];
    for (int i = threadIdx.x; i < heads * pairs; i += blockDim.x) {
        int pair = i % pairs;
        float angle = position * powf(base, -2.0f * pair / (2 * pairs)), s, c;
        sincosf(angle, &s, &c);
        half2* at = x + (size_t)token * heads * pairs + i;
        float2 v = __half22float2(*at);
        *at = __floats2half2_rn(v.x * c - v.y * s, v.x * s + v.y * c);
    }
}

int main() {
    int tokens = 2048, heads = 32, dim = 128;
    Random random;
    Array<half> input((size_t)tokens * heads * dim, [&](size_t) { return __float2half(random.uniform(-1, 1)); }), x(input.size());
    auto angle = [&](size_t token, size_t pair) { return (double)token * pow(10000.0, -2.0 * pair / dim); };
    Array<float2> table((size_t)tokens * dim / 2, [&](size_t i) {
        double a = angle(i / (dim / 2), i % (dim / 2));
        return make_float2((float)cos(a), (float)sin(a));
    });
    Array<int> positions(tokens, [](size_t i) { return (int)i; });
    auto reset = [&] { CUDA(cudaMemcpy(x, input, input.bytes(), cudaMemcpyDeviceToDevice)); };
    auto f = [](half h) { return (double)__half2float(h); };
    bench("rope_table", [&] { rope_table<<<blocks_for(x.size() / 2, 256), 256>>>(x, table, tokens, heads, dim); }, [&] {
        auto got = x.down();
        return check_samples(got.size(), 5000, [&](size_t i) {
            size_t d = i % dim, token = i / (dim * heads), pair = d % (dim / 2), first = i - d + pair;
            double a = angle(token, pair), u = f(input[first]), v = f(input[first + dim / 2]);
            return close(f(got[i]), d < (size_t)dim / 2 ? u * cos(a) - v * sin(a) : u * sin(a) + v * cos(a), 2e-3, 1);
        });
    }, reset);
    bench("rope_computed", [&] { rope_computed<<<tokens, 256>>>((half2*)x.device, positions, tokens, heads, dim / 2, 10000.0f); }, [&] {
        auto got = x.down();
        return check_samples(got.size(), 5000, [&](size_t i) {
            size_t token = i / (dim * heads), pair = i % dim / 2, first = i & ~(size_t)1;
            double a = angle(token, pair), u = f(input[first]), v = f(input[first + 1]);
            return close(f(got[i]), i % 2 == 0 ? u * cos(a) - v * sin(a) : u * sin(a) + v * cos(a), 4e-3, 1);
        });
    }, reset);
    resources("rope_table", rope_table, 256);
    resources("rope_computed", rope_computed, 256);
}
