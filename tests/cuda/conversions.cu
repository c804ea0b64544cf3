// Conversions between floats, doubles and integers of all widths, in every rounding mode, with saturation at the ends.
#include "check.cuh"
#include <cfenv>
#include <limits>

enum { INT_RN, INT_RZ, INT_RU, INT_RD, UINT_RZ, LONG_RN, LONG_RU, ULONG_RZ, BYTE, SHORT, TRUNC, ROUND, FLOAT_RU, OPS };

__global__ void from_double(const double* in, long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double v = in[i];
    float f = (float)v;
    long long* r = out + i * OPS;
    r[INT_RN] = __float2int_rn(f), r[INT_RZ] = __double2int_rz(v), r[INT_RU] = __float2int_ru(f);
    r[INT_RD] = __double2int_rd(v), r[UINT_RZ] = __float2uint_rz(f), r[LONG_RN] = __double2ll_rn(v);
    r[LONG_RU] = __float2ll_ru(f), r[ULONG_RZ] = __double2ull_rz(v);
    r[BYTE] = (signed char)__double2int_rz(fmod(v, 100.0));
    r[SHORT] = (short)__double2int_rz(v);
    r[TRUNC] = __double2ll_rz(trunc(fmod(v, 1e9)));
    r[ROUND] = __double2ll_rz(rint(fmod(v, 1e9)));
    r[FLOAT_RU] = __float_as_int(__double2float_ru(v));
}

__global__ void from_integer(const long long* in, float* floats, double* doubles, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long v = in[i];
    floats[4 * i] = v, floats[4 * i + 1] = (unsigned long long)v, floats[4 * i + 2] = (int)v;
    floats[4 * i + 3] = __ll2float_rd(v);
    doubles[3 * i] = v, doubles[3 * i + 1] = (unsigned long long)v, doubles[3 * i + 2] = (unsigned char)v;
}

/// What PTX's cvt gives: saturated. NaN becomes the highest bit alone where one side has 64 bits, and 0 elsewhere.
template <typename T, typename From>
long long saturated(From v) {
    typedef std::numeric_limits<T> Limits;
    if (v != v) return (long long)(sizeof(T) + sizeof(From) > 8 ? T(1ull << (8 * sizeof(T) - 1)) : T(0));
    if (v >= ldexp(1.0, Limits::digits)) return (long long)Limits::max();
    if (v <= (double)Limits::min()) return (long long)Limits::min();
    return (long long)(T)v;
}

int main() {
    const double edges[] = {0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 2147483647.5, 2147483648.0, -2147483648.0,
                            -2147483649.0, 4294967295.0, 4294967296.0, 9223372036854775807.0, -9223372036854775808.0,
                            1e19, 2e19, 1e300, -1e300, INFINITY, -INFINITY, NAN, 1e-320, 16777217.0, 1e-46};
    const int count = sizeof edges / sizeof *edges, n = 20000;
    Buffer<double> in(n), doubles(3 * n);
    Buffer<long long> out(n * OPS), integers(n);
    Buffer<float> floats(4 * n);
    Random random;
    for (int i = 0; i < n; i++) {
        in[i] = i < count ? edges[i] : random.between(-1, 1) * pow(2, random.between(-3, 66));
        integers[i] = (long long)random.next64() >> random.below(64);
        if (i < 128) integers[i] = (long long)((1ull << i / 2) * (i % 2 ? 1 : -1));
    }
    in.up(), integers.up();
    from_double<<<(n + 127) / 128, 128>>>(in.device, out.device, n);
    from_integer<<<(n + 127) / 128, 128>>>(integers.device, floats.device, doubles.device, n);
    out.down(), floats.down(), doubles.down();
    for (int i = 0; i < n; i++) {
        volatile double v = in[i];   // volatile: converted here, in the mode that is set
        volatile long long integer = integers[i];
        float f = (float)v;
        fesetround(FE_UPWARD);
        volatile float up = (float)v;
        fesetround(FE_DOWNWARD);
        volatile float down = (float)integer;
        fesetround(FE_TONEAREST);
        union { float f; int bits; } raised = {up};
        double small = fmod(v, 100.0), rest = fmod(v, 1e9);
        const long long want[OPS] = {
            saturated<int>(rintf(f)), saturated<int>(trunc(v)), saturated<int>(ceilf(f)), saturated<int>(floor(v)),
            saturated<unsigned>(truncf(f)), saturated<long long>(rint(v)), saturated<long long>(ceilf(f)),
            saturated<unsigned long long>(trunc(v)), (signed char)saturated<int>(small),
            (short)saturated<int>(trunc(v)), saturated<long long>(trunc(rest)), saturated<long long>(rint(rest)),
            raised.bits};
        bool nan = v != v;   // the bits of a NaN are the machine's choice
        for (int op = 0; op < OPS - nan; op++) same("to integer", i * OPS + op, out[i * OPS + op], want[op]);
        long long k = integers[i];
        same("float of signed", i, floats[4 * i], (float)k);
        same("float of unsigned", i, floats[4 * i + 1], (float)(unsigned long long)k);
        same("float of int", i, floats[4 * i + 2], (float)(int)k);
        same("float rounded down", i, floats[4 * i + 3], (float)down);
        same("double of signed", i, doubles[3 * i], (double)k);
        same("double of unsigned", i, doubles[3 * i + 1], (double)(unsigned long long)k);
        same("double of byte", i, doubles[3 * i + 2], (double)(unsigned char)k);
    }
    return verdict();
}
