// Single precision functions against double precision on the host, within the bounds of the CUDA programming guide
// (in units of the last place, taken as 2^-23 of the value).
#include "check.cuh"

enum { ERF, ERFC, POW, ATAN2, LGAMMA, TGAMMA, EXP, LOG, SIN, TAN, CBRT, TANH, ASIN, LOG1P, FUNCTIONS };
const char* names[] = {"erf", "erfc",  "pow", "atan2", "lgamma", "tgamma", "exp",
                       "log", "sin", "tan", "cbrt",  "tanh",   "asin",   "log1p"};
const double bounds[] = {2, 4, 4, 3, 6, 5, 2, 1, 2, 4, 1, 2, 2, 1};

__global__ void compute(const float* xs, const float* ys, float* out, float* exact, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = xs[i], y = ys[i], positive = fabsf(x), *r = out + i * FUNCTIONS, *e = exact + i * 5;
    r[ERF] = erff(x), r[ERFC] = erfcf(y * 0.25f), r[POW] = powf(positive, y), r[ATAN2] = atan2f(y, x);
    r[LGAMMA] = lgammaf(positive + 3), r[TGAMMA] = tgammaf(y * 0.5f + 16), r[EXP] = expf(x), r[LOG] = logf(positive);
    r[SIN] = sinf(x * 1000000), r[TAN] = tanf(y), r[CBRT] = cbrtf(x), r[TANH] = tanhf(x);
    r[ASIN] = asinf(y / 32), r[LOG1P] = log1pf(positive);
    e[0] = x / y, e[1] = sqrtf(positive), e[2] = fmaf(x, y, y), e[3] = fmodf(x, y), e[4] = 1 / x;
}

int main() {
    const int n = 40000;
    Buffer<float> x(n), y(n), out(n * FUNCTIONS), exact(n * 5);
    Random random;
    for (int i = 0; i < n; i++) {
        x[i] = (float)random.between(-80, 80);
        if (i % 4 == 0) x[i] = (float)(random.between(-1, 1) * pow(2, random.between(-40, 4)));
        y[i] = (float)random.between(-20, 20);
    }
    x.up(), y.up();
    compute<<<(n + 127) / 128, 128>>>(x.device, y.device, out.device, exact.device, n);
    out.down(), exact.down();
    const double ulp = pow(2, -23), least = pow(2, -149);
    for (int i = 0; i < n; i++) {
        double a = x[i], b = y[i], p = fabs(a);
        const double want[FUNCTIONS] = {erf(a), erfc(b / 4), pow(p, b), atan2(b, a),
                                        lgamma((double)((float)p + 3)), tgamma((double)((float)(b / 2) + 16)),
                                        exp(a), log(p), sin((double)((float)a * 1000000)), tan(b), cbrt(a), tanh(a),
                                        asin((double)((float)b / 32)), log1p(p)};
        for (int f = 0; f < FUNCTIONS; f++) {
            double w = want[f] > 3.4028235e38 ? INFINITY : want[f];
            near(names[f], i, out[i * FUNCTIONS + f], w, bounds[f] * ulp, least / ulp);
        }
        same("div", i, exact[i * 5], x[i] / y[i]);
        same("sqrt", i, exact[i * 5 + 1], sqrtf(fabsf(x[i])));
        same("fma", i, exact[i * 5 + 2], fmaf(x[i], y[i], y[i]));
        same("fmod", i, exact[i * 5 + 3], fmodf(x[i], y[i]));
        same("rcp", i, exact[i * 5 + 4], 1 / x[i]);
    }
    return verdict();
}
