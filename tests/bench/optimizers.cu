// Adam with weight decay over single precision, with half precision copies, and SGD with momentum over many tensors.
#include <cuda_fp16.h>

#include "bench.cuh"

struct AdamOptions {
    float rate, beta1, beta2, epsilon, decay, correction1, correction2;
};

template <typename G>
__global__ void adam(float* __restrict__ p, half* __restrict__ p16, const G* __restrict__ g, float* __restrict__ m, float* __restrict__ v,
                     long n, AdamOptions o) {
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x) {
        float slope = (float)g[i], weight = p[i];
        float m1 = o.beta1 * m[i] + (1 - o.beta1) * slope;
        float v1 = o.beta2 * v[i] + (1 - o.beta2) * slope * slope;
        weight -= o.rate * (m1 / o.correction1 / (sqrtf(v1 / o.correction2) + o.epsilon) + o.decay * weight);
        m[i] = m1;
        v[i] = v1;
        p[i] = weight;
        if (p16) p16[i] = __float2half(weight);
    }
}

struct Tensors {
    float* weight[24];
    float* momentum[24];
    const float* slope[24];
    int size[24];
};

__global__ void sgd_many(Tensors t, float rate, float momentum) {
    int which = blockIdx.y;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < t.size[which]; i += gridDim.x * blockDim.x) {
        float m = momentum * t.momentum[which][i] + t.slope[which][i];
        t.momentum[which][i] = m;
        t.weight[which][i] -= rate * m;
    }
}

int main() {
    long n = 1 << 22;
    Random random;
    Array<float> p(n, [&](size_t) { return random.uniform(-1, 1); }), m(n), v(n);
    Array<half> g(n, [&](size_t) { return __float2half(random.uniform(-1, 1)); }), p16(n);
    AdamOptions o{1e-3f, 0.9f, 0.999f, 1e-8f, 0.01f, 0.1f, 0.001f};
    bench("adam", [&] { adam<<<132 * 16, 256>>>(p.device, p16.device, g.device, m.device, v.device, n, o); }, [&] {
        auto got = p.down();
        return check_samples(n, 10000, [&](size_t i) {
            double s = __half2float(g[i]), step = s / (sqrt(s * s) + 1e-8) + 0.01 * p[i];
            return close(got[i], p[i] - 1e-3 * step, 1e-4, 1e-1);
        });
    });
    Tensors t;
    Array<float> w((size_t)24 << 18, [&](size_t) { return random.uniform(-1, 1); }), mom(w.size()), slope(w.size(), [&](size_t) { return random.uniform(-1, 1); });
    for (int i = 0; i < 24; i++) {
        t.weight[i] = w + (i << 18), t.momentum[i] = mom + (i << 18), t.slope[i] = slope + (i << 18);
        t.size[i] = (1 << 18) - i * 1000;
    }
    bench("sgd_many", [&] { sgd_many<<<dim3(64, 24), 256>>>(t, 0.01f, 0.9f); }, [&] {
        auto got = w.down();
        return check_samples(got.size(), 10000, [&](size_t i) {
            bool in = (int)(i & ((1 << 18) - 1)) < t.size[i >> 18];
            return close(got[i], w[i] - (in ? 0.01 * slope[i] : 0), 1e-5, 0.1);
        });
    });
    resources("adam", adam<half>, 256);
    resources("sgd_many", sgd_many, 256);
}
