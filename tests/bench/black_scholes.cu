// Black-Scholes prices of calls and puts, and a binomial tree in shared memory.
#include "bench.cuh"

__device__ float normal_cdf(float d) {
    const float a1 = 0.31938153f, a2 = -0.356563782f, a3 = 1.781477937f, a4 = -1.821255978f, a5 = 1.330274429f;
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float cnd = 0.3989422804f * expf(-0.5f * d * d) * (k * (a1 + k * (a2 + k * (a3 + k * (a4 + k * a5)))));
    return d > 0 ? 1.0f - cnd : cnd;
}

__global__ void black_scholes(float* call, float* put, const float* spot, const float* strike, const float* years, float rate,
                              float volatility, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float s = spot[i], x = strike[i], t = years[i];
        float root = sqrtf(t);
        float d1 = (logf(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
        float d2 = d1 - volatility * root;
        float n1 = normal_cdf(d1), n2 = normal_cdf(d2), discount = expf(-rate * t);
        call[i] = s * n1 - x * discount * n2;
        put[i] = x * discount * (1.0f - n2) - s * (1.0f - n1);
    }
}

constexpr int STEPS = 512;

__global__ void binomial(const float* spot, const float* strike, const float* years, float* value, float rate, float volatility) {
    __shared__ float nodes[STEPS + 1];
    int option = blockIdx.x;
    float s = spot[option], x = strike[option], dt = years[option] / STEPS;
    float v = volatility * sqrtf(dt), up = expf(v), growth = expf(rate * dt), discount = 1.0f / growth;
    float p = (growth - 1.0f / up) / (up - 1.0f / up), a = discount * p, b = discount * (1.0f - p);
    for (int i = threadIdx.x; i <= STEPS; i += blockDim.x) nodes[i] = fmaxf(s * expf(v * (2.0f * i - STEPS)) - x, 0.0f);
    for (int step = STEPS; step > 0; step--) {
        __syncthreads();
        float next[2];
        int count = 0;
        for (int i = threadIdx.x; i < step; i += blockDim.x) next[count++ & 1] = a * nodes[i + 1] + b * nodes[i];
        __syncthreads();
        count = 0;
        for (int i = threadIdx.x; i < step; i += blockDim.x) nodes[i] = next[count++ & 1];
    }
    __syncthreads();
    if (threadIdx.x == 0) value[option] = nodes[0];
}

int main() {
    int n = 1 << 22;
    Random random;
    Array<float> spot(n, [&](size_t) { return random.uniform(5, 30); }), strike(n, [&](size_t) { return random.uniform(1, 100); });
    Array<float> years(n, [&](size_t) { return random.uniform(0.25f, 10); }), call(n), put(n), value(n);
    auto price = [&](size_t i) {
        double s = spot[i], x = strike[i], t = years[i], r = 0.02f, v = 0.3f;
        auto cdf = [](double d) { return 0.5 * erfc(-d / sqrt(2.0)); };
        double d1 = (log(s / x) + (r + 0.5 * v * v) * t) / (v * sqrt(t)), d2 = d1 - v * sqrt(t);
        return s * cdf(d1) - x * exp(-r * t) * cdf(d2);
    };
    bench("black_scholes", [&] { black_scholes<<<132 * 16, 256>>>(call, put, spot, strike, years, 0.02f, 0.3f, n); }, [&] {
        auto c = call.down(), p = put.down();
        return check_samples(n, 5000, [&](size_t i) {
            double parity = c[i] - p[i] - spot[i] + strike[i] * exp(-0.02f * years[i]);
            return close(c[i], price(i), 1e-3, 1) && fabs(parity) < 1e-3;
        });
    });
    int options = 2048;
    bench("binomial", [&] { binomial<<<options, 256>>>(spot, strike, years, value, 0.02f, 0.3f); }, [&] {
        auto got = value.down();
        return check_samples(options, options, [&](size_t i) { return close(got[i], price(i), 5e-3, 5); });
    });
    resources("black_scholes", black_scholes, 256);
    resources("binomial", binomial, 256);
}
