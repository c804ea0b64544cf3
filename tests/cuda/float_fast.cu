// The fast functions that become one or two approximate instructions, within the errors that CUDA states for them,
// and exact behaviour of their special cases.
#include "check.cuh"

enum { SIN, COS, EXP, EXP10, LOG, LOG2, POW, DIVIDE, RSQRT, TANH, SATURATE, FUNCTIONS };

__global__ void compute(const float* xs, const float* ys, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = xs[i], y = ys[i], *r = out + i * FUNCTIONS;
    r[SIN] = __sinf(x), r[COS] = __cosf(x), r[EXP] = __expf(x), r[EXP10] = __exp10f(x), r[LOG] = __logf(y);
    r[LOG2] = __log2f(y), r[POW] = __powf(y, x), r[DIVIDE] = __fdividef(x, y), r[RSQRT] = rsqrtf(y);
    r[SATURATE] = __saturatef(x);
    asm("tanh.approx.f32 %0, %1;" : "=f"(r[TANH]) : "f"(x));
}

__global__ void specials(float zero, float one, float infinite, float* out) {
    out[0] = __fdividef(one, infinite);
    out[1] = rsqrtf(zero);
    out[2] = __logf(zero);
    out[3] = __expf(-infinite);
    out[4] = __saturatef(infinite - infinite);
    out[5] = rsqrtf(-one);
}

int main() {
    const int n = 50000;
    Buffer<float> x(n), y(n), out(n * FUNCTIONS), special(6);
    Random random;
    for (int i = 0; i < n; i++) x[i] = (float)random.between(-3.1, 3.1), y[i] = (float)random.between(0.6, 30);
    x.up(), y.up();
    compute<<<(n + 127) / 128, 128>>>(x.device, y.device, out.device, n);
    specials<<<1, 1>>>(0, 1, INFINITY, special.device);
    out.down(), special.down();
    const double ulp = pow(2, -23);
    for (int i = 0; i < n; i++) {
        float* r = &out[i * FUNCTIONS];
        double a = x[i], b = y[i];
        near("sin", i, r[SIN], sin(a), pow(2, -21), 1);
        near("cos", i, r[COS], cos(a), pow(2, -21), 1);
        near("exp", i, r[EXP], exp(a), 6 * ulp);
        near("exp10", i, r[EXP10], pow(10, a), 12 * ulp);
        near("log", i, r[LOG], log(b), pow(2, -21), 1);
        near("log2", i, r[LOG2], log2(b), pow(2, -21), 1);
        near("pow", i, r[POW], pow(b, a), 64 * ulp);
        near("divide", i, r[DIVIDE], a / b, 2 * ulp);
        near("rsqrt", i, r[RSQRT], 1 / sqrt(b), 2 * ulp);
        near("tanh", i, r[TANH], tanh(a), pow(2, -10.9));
        same("saturate", i, r[SATURATE], x[i] < 0 ? 0 : x[i] > 1 ? 1 : x[i]);
    }
    const float want[6] = {0, INFINITY, -INFINITY, 0, 0, NAN};
    for (int i = 0; i < 6; i++) same("special", i, special[i], want[i]);
    return verdict();
}
