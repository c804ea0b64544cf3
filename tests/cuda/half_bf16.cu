// Half and bfloat16 arithmetic, scalar and packed, against doubles rounded once (division: within one unit in
// the last place); conversions over all 65536 patterns.
#include "check.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

enum { ADD, SUB, MUL, FMA, DIV, MIN, MAX, PACKED, OPS };

template <typename T, typename T2>
__global__ void compute(const T* xs, const T* ys, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T x = xs[i], y = ys[i], *r = out + i * OPS;
    r[ADD] = __hadd(x, y), r[SUB] = __hsub(x, y), r[MUL] = __hmul(x, y), r[FMA] = __hfma(x, y, x);
    r[DIV] = __hdiv(x, y), r[MIN] = __hmin(x, y), r[MAX] = __hmax(x, y);
    T2 pair;
    pair.x = x, pair.y = y;
    T2 both = __hfma2(pair, pair, pair);
    r[PACKED] = __hgt(x, y) ? both.x : both.y;
}

__global__ void convert(unsigned short* bits, float* halves, float* bfloats, int* ints) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bits[i] = i;
    halves[i] = __half2float(__ushort_as_half(i));
    bfloats[i] = __bfloat162float(__ushort_as_bfloat16(i));
    ints[i] = __half2int_rn(__ushort_as_half(i & 0x7bff)) - __half2int_rz(__ushort_as_half(i & 0x7bff));
}

double value(__half h) { return __half2float(h); }
double value(__nv_bfloat16 h) { return __bfloat162float(h); }
void rounded(double v, __half& h) { h = __double2half(v); }
void rounded(double v, __nv_bfloat16& h) { h = __double2bfloat16(v); }

template <typename T, typename T2>
void check(const char* what, double ulp) {
    const int n = 20000;
    Buffer<T> x(n), y(n), out(n * OPS);
    Random random;
    for (int i = 0; i < n; i++) rounded(random.between(-30, 30), x[i]), rounded(random.between(0.05, 30), y[i]);
    x.up(), y.up();
    compute<T, T2><<<(n + 127) / 128, 128>>>(x.device, y.device, out.device, n);
    out.down();
    for (int i = 0; i < n; i++) {
        double a = value(x[i]), b = value(y[i]), packed = a > b ? a * a + a : b * b + b;
        const double exact[OPS] = {a + b, a - b, a * b, a * b + a, a / b, fmin(a, b), fmax(a, b), packed};
        for (int op = 0; op < OPS; op++) {
            T want;
            rounded(exact[op], want);
            if (op == DIV) near(what, i * OPS + op, value(out[i * OPS + op]), value(want), ulp);
            else same(what, i * OPS + op, value(out[i * OPS + op]), value(want));
        }
    }
}

int main() {
    check<__half, __half2>("half", 1.0 / 1024);
    check<__nv_bfloat16, __nv_bfloat162>("bfloat16", 1.0 / 128);
    const int n = 65536;
    Buffer<unsigned short> bits(n);
    Buffer<float> halves(n), bfloats(n);
    Buffer<int> ints(n);
    convert<<<n / 256, 256>>>(bits.device, halves.device, bfloats.device, ints.device);
    bits.down(), halves.down(), bfloats.down(), ints.down();
    for (int i = 0; i < n; i++) {
        double finite = value(__half(__half_raw{(unsigned short)(i & 0x7bff)}));
        same("half to float", i, (double)halves[i], value(__half(__half_raw{(unsigned short)i})));
        same("bfloat16 to float", i, (double)bfloats[i], value(__nv_bfloat16(__nv_bfloat16_raw{(unsigned short)i})));
        same("half to int", i, ints[i], (int)nearbyint(finite) - (int)finite);
    }
    return verdict();
}
