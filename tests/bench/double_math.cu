// Functions of double precision: exp, log, sin, pow, erf, sqrt and division in typical formulas.
#include "bench.cuh"

__global__ void double_exp_log(const double* x, double* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = log1p(exp(-fabs(x[i]))) + fmax(x[i], 0.0);
}

__global__ void double_orbit(const double* __restrict__ mean, double* __restrict__ angle, int n, double e) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double m = mean[i], x = m;
    for (int k = 0; k < 6; k++) {
        double s, c;
        sincos(x, &s, &c);
        x -= (x - e * s - m) / (1.0 - e * c);
    }
    angle[i] = x;
}

__global__ void double_pow_erf(const double* x, double* y, int n, double exponent) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = pow(fabs(x[i]) + 0.5, exponent) * erfc(x[i]) / sqrt(1.0 + x[i] * x[i]);
}

int main() {
    int n = 1 << 19;
    Random random;
    Array<double> x(n, [&](size_t) { return (double)random.uniform(-3, 3); }), y(n);
    auto run = [&](const char* name, auto launch, auto want) {
        bench(name, launch, [&] {
            auto got = y.down();
            return check_samples(n, 10000, [&](size_t i) { return close(got[i], want(x[i]), 1e-12); });
        });
    };
    run("double_exp_log", [&] { double_exp_log<<<blocks_for(n, 256), 256>>>(x, y, n); }, [](double v) { return log1p(exp(-fabs(v))) + fmax(v, 0.0); });
    run("double_orbit", [&] { double_orbit<<<blocks_for(n, 256), 256>>>(x, y, n, 0.3); }, [](double m) {
        double v = m;
        for (int k = 0; k < 6; k++) v -= (v - 0.3 * sin(v) - m) / (1 - 0.3 * cos(v));
        return v;
    });
    run("double_pow_erf", [&] { double_pow_erf<<<132 * 8, 256>>>(x, y, n, 1.7); }, [](double v) { return pow(fabs(v) + 0.5, 1.7) * erfc(v) / sqrt(1 + v * v); });
    resources("double_exp_log", double_exp_log, 256);
    resources("double_orbit", double_orbit, 256);
    resources("double_pow_erf", double_pow_erf, 256);
}
