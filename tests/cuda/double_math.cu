// Double precision: division, square root, reciprocal and fused multiply-add are correctly rounded, at the edges
// too; exp, log, pow, sin, cos, tan, atan2 and cbrt are within the bounds of the CUDA programming guide,
// with one unit in the last place more for the host's own error.
#include "check.cuh"

enum { DIV, RCP, SQRT, FMA, MOD, EXP, LOG, POW, SIN, COS, TAN, ATAN2, CBRT, ERF, FUNCTIONS };

__global__ void compute(const double* xs, const double* ys, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = xs[i], y = ys[i], *r = out + i * FUNCTIONS;
    r[DIV] = x / y, r[RCP] = 1 / x, r[SQRT] = sqrt(x), r[FMA] = fma(x, y, -x), r[MOD] = fmod(x, y);
    r[EXP] = exp(x), r[LOG] = log(x), r[POW] = pow(fabs(x), y), r[SIN] = sin(x), r[COS] = cos(x);
    r[TAN] = tan(x), r[ATAN2] = atan2(x, y), r[CBRT] = cbrt(x), r[ERF] = erf(x);
}

int main() {
    const double edges[] = {0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-320, -4.9e-324, 2.2250738585072014e-308, 1e308,
                            -1.7976931348623157e308, INFINITY, -INFINITY, NAN, 1e-160, 1e160, 1.0000000000000002,
                            0.9999999999999999, 710.0, -746.0, 1e15, 1e22, 3.141592653589793, 1.5707963267948966};
    const int count = sizeof edges / sizeof *edges, pairs = count * count, n = pairs + 20000;
    Buffer<double> x(n), y(n), out(n * FUNCTIONS);
    Random random;
    for (int i = 0; i < n; i++) {
        x[i] = i < pairs ? edges[i / count] : random.between(-1, 1) * pow(2, random.between(-300, 300));
        y[i] = i < pairs ? edges[i % count] : random.between(-1, 1) * pow(2, random.between(-300, 300));
        if (i > n - 10000) x[i] = random.between(-50, 50), y[i] = random.between(-20, 20);
    }
    x.up(), y.up();
    compute<<<(n + 127) / 128, 128>>>(x.device, y.device, out.device, n);
    out.down();
    const double ulp = 2.220446049250313e-16, least = 4.94065645841246544e-324;
    for (int i = 0; i < n; i++) {
        double a = x[i], b = y[i], *r = &out[i * FUNCTIONS];
        same("div", i, r[DIV], a / b);
        same("rcp", i, r[RCP], 1 / a);
        same("sqrt", i, r[SQRT], sqrt(a));
        same("fma", i, r[FMA], fma(a, b, -a));
        same("fmod", i, r[MOD], fmod(a, b));
        // the scale allows an error of one in the last place of a denormal result
        near("exp", i, r[EXP], exp(a), 2 * ulp, least / ulp);
        near("log", i, r[LOG], log(a), 2 * ulp, least / ulp);
        near("pow", i, r[POW], pow(fabs(a), b), 3 * ulp, least / ulp);
        near("sin", i, r[SIN], sin(a), 3 * ulp, least / ulp);
        near("cos", i, r[COS], cos(a), 3 * ulp, least / ulp);
        near("tan", i, r[TAN], tan(a), 3 * ulp, least / ulp);
        near("atan2", i, r[ATAN2], atan2(a, b), 3 * ulp, least / ulp);
        near("cbrt", i, r[CBRT], cbrt(a), 3 * ulp, least / ulp);
        near("erf", i, r[ERF], erf(a), 3 * ulp, least / ulp);
    }
    return verdict();
}
