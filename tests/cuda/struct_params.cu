// Structures by value: kernel parameters of odd sizes, above 4 KB and indexed at run time; to and from functions.
#include "check.cuh"

struct Odd {
    char tag;
    short s;
    int i;
    double d;
    char tail[3];
};
struct Big {
    int values[2000];
    float scale;
};
struct Pair {
    long long a;
    float b;
};
struct __align__(16) Wide {
    float4 v;
    unsigned char small[5];
};

__host__ __device__ __noinline__ Pair combine(Odd o, Pair p, Wide w) {
    Pair r;
    r.a = o.i + p.a * o.s + w.small[o.tail[1] % 5];
    r.b = (float)o.d + p.b + w.v.y;
    return r;
}

__host__ __device__ __noinline__ Wide turned(Wide w, int by) {
    Wide r = w;
    r.v = make_float4(w.v.y, w.v.z, w.v.w, w.v.x + by);
    for (int k = 0; k < 5; k++) r.small[k] = w.small[(k + by) % 5];
    return r;
}

__host__ __device__ Pair step(const Odd& odd, const Wide& wide, int i) {
    Odd o = odd;
    o.i += i;
    o.tail[1] = i % 100;
    Pair p = {i * 1000ll, i * 0.5f};
    return combine(o, p, turned(wide, i % 7));
}

__global__ void run(Odd odd, Wide wide, char last, Pair* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = step(odd, wide, i);
    out[i].a += last;
}

__global__ void indexed(const __grid_constant__ Big big, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int* values = big.values;   // its address is taken, so the parameter is read through a generic pointer
    out[i] = values[i * 7 % 2000] + big.values[i * 13 % 2000] * (int)big.scale;
}

__global__ void copied(Big big, int* out) {   // a private copy that is written to
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    big.values[i % 2000] += i;
    out[i] = big.values[(i * 3) % 2000];
}

int main() {
    const int n = 2560;
    Odd odd = {'q', -3, 70000, 0.125, {1, 2, 3}};
    Wide wide = {make_float4(1, 2, 3, 4), {10, 20, 30, 40, 50}};
    Big big;
    for (int k = 0; k < 2000; k++) big.values[k] = k * k - 1000;
    big.scale = 3;
    Buffer<Pair> pairs(n);
    Buffer<int> first(n), second(n);
    run<<<n / 128, 128>>>(odd, wide, 'x', pairs.device);
    indexed<<<n / 128, 128>>>(big, first.device);
    copied<<<n / 128, 128>>>(big, second.device);
    pairs.down(), first.down(), second.down();
    for (int i = 0; i < n; i++) {
        Pair want = step(odd, wide, i);
        same("a", i, pairs[i].a, want.a + 'x');
        same("b", i, pairs[i].b, want.b);
        same("indexed", i, first[i], big.values[i * 7 % 2000] + big.values[i * 13 % 2000] * 3);
        int at = i * 3 % 2000;
        same("copied", i, second[i], big.values[at] + (at == i % 2000 ? i : 0));
    }
    return verdict();
}
