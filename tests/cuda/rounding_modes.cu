// Arithmetic in all four rounding modes against the host's, with the mode set there, for float and double.
#include "check.cuh"
#include <cfenv>

enum { NEAREST, ZERO, UP, DOWN, MODES };
enum { ADD, SUB, MUL, DIV, SQRT, RCP, OPS };

#define OPERATIONS(MODE, SUFFIX)                                                                             \
    r[MODE * OPS + ADD] = PREFIX(add_##SUFFIX)(x, y), r[MODE * OPS + SUB] = PREFIX(sub_##SUFFIX)(x, y);       \
    r[MODE * OPS + MUL] = PREFIX(mul_##SUFFIX)(x, y), r[MODE * OPS + DIV] = PREFIX(div_##SUFFIX)(x, y);       \
    r[MODE * OPS + SQRT] = PREFIX(sqrt_##SUFFIX)(fabs(x)), r[MODE * OPS + RCP] = PREFIX(rcp_##SUFFIX)(y);

__device__ void compute(float x, float y, float* r) {
#define PREFIX(name) __f##name
    OPERATIONS(NEAREST, rn) OPERATIONS(ZERO, rz) OPERATIONS(UP, ru) OPERATIONS(DOWN, rd)
#undef PREFIX
}

__device__ void compute(double x, double y, double* r) {
#define PREFIX(name) __d##name
    OPERATIONS(NEAREST, rn) OPERATIONS(ZERO, rz) OPERATIONS(UP, ru) OPERATIONS(DOWN, rd)
#undef PREFIX
}

template <typename T>
__global__ void run(const T* xs, const T* ys, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) compute(xs[i], ys[i], out + i * MODES * OPS);
}

template <typename T>
void check(const char* what, double range, T tiny, T huge) {
    const T edges[] = {0,    T(-0.0), 1,      -3,       tiny,          -3 * tiny,   huge,
                       -huge, T(0.1), -1 / T(3), 1 / huge, T(sqrt(huge)), T(INFINITY), T(NAN)};
    const int count = sizeof edges / sizeof *edges, n = count * count + 5000;
    Buffer<T> x(n), y(n), out(n * MODES * OPS);
    Random random;
    for (int i = 0; i < n; i++) {
        x[i] = i < count * count ? edges[i / count] : T(random.between(-1, 1) * pow(2, random.between(-range, range)));
        y[i] = i < count * count ? edges[i % count] : T(random.between(-1, 1) * pow(2, random.between(-range, range)));
    }
    x.up(), y.up();
    run<<<(n + 127) / 128, 128>>>(x.device, y.device, out.device, n);
    out.down();
    const int modes[MODES] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
    for (int m = 0; m < MODES; m++)
        for (int i = 0; i < n; i++) {
            volatile T a = x[i], b = y[i], want[OPS];   // volatile: computed here, in this mode
            fesetround(modes[m]);
            want[ADD] = a + b, want[SUB] = a - b, want[MUL] = a * b, want[DIV] = a / b;
            want[SQRT] = std::sqrt(std::fabs((T)a)), want[RCP] = 1 / b;
            fesetround(FE_TONEAREST);
            for (int op = 0; op < OPS; op++) {
                int at = (i * MODES + m) * OPS + op;
                same(what, at, out[at], (T)want[op]);
            }
        }
}

int main() {
    check<float>("float", 70, 1e-45f, 3.4028235e38f);
    check<double>("double", 600, 4.9e-324, 1.7976931348623157e308);
    return verdict();
}
