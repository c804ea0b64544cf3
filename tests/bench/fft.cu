// Batched complex Fourier transforms of 1024 points: radix 4 in shared memory with sincos, and radix 2 in place.
#include "bench.cuh"

constexpr int POINTS = 1024;

__device__ inline float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ inline float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ inline float2 operator*(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

/// Stockham's form: the result comes in order without a bit reversal.
__global__ __launch_bounds__(POINTS / 4) void fft_radix4(const float2* __restrict__ in, float2* __restrict__ out) {
    __shared__ float2 data[2][POINTS];
    int t = threadIdx.x, from = 0;
    const float2* row = in + (size_t)blockIdx.x * POINTS;
    for (int i = 0; i < 4; i++) data[0][t + i * (POINTS / 4)] = row[t + i * (POINTS / 4)];
    __syncthreads();
    for (int span = 1; span < POINTS; span *= 4) {
        float2 v[4];
        int k = t & (span - 1);
        float angle = -6.283185307f * k / (span * 4);
        for (int i = 0; i < 4; i++) {
            v[i] = data[from][t + i * (POINTS / 4)];
            float s, c;
            __sincosf(angle * i, &s, &c);
            v[i] = v[i] * make_float2(c, s);
        }
        float2 a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = v[1] - v[3];
        d = make_float2(d.y, -d.x);
        int to = (t - k) * 4 + k;
        data[from ^ 1][to] = a + c;
        data[from ^ 1][to + span] = b + d;
        data[from ^ 1][to + 2 * span] = a - c;
        data[from ^ 1][to + 3 * span] = b - d;
        from ^= 1;
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) out[(size_t)blockIdx.x * POINTS + t + i * (POINTS / 4)] = data[from][t + i * (POINTS / 4)];
}

__global__ void fft_radix2(const float2* in, float2* out, const float2* roots, int points, int bits) {
    extern __shared__ float2 s[];
    const float2* row = in + (size_t)blockIdx.x * points;
    for (int i = threadIdx.x; i < points; i += blockDim.x) s[__brev(i) >> (32 - bits)] = row[i];
    __syncthreads();
    for (int half = 1; half < points; half <<= 1) {
        for (int i = threadIdx.x; i < points / 2; i += blockDim.x) {
            int k = i & (half - 1), at = 2 * i - k;
            float2 u = s[at], v = s[at + half] * roots[k * (points / 2 / half)];
            s[at] = u + v;
            s[at + half] = u - v;
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < points; i += blockDim.x) out[(size_t)blockIdx.x * points + i] = s[i];
}

int main() {
    int batch = 2048;
    Random random;
    Array<float2> in(batch * POINTS, [&](size_t) { return make_float2(random.uniform(-1, 1), random.uniform(-1, 1)); });
    Array<float2> out(batch * POINTS), roots(POINTS / 2, [](size_t k) {
        return make_float2((float)cos(2 * M_PI * k / POINTS), (float)-sin(2 * M_PI * k / POINTS));
    });
    auto check = [&] {
        auto got = out.down();
        return check_samples(got.size(), 300, [&](size_t at) {
            double re = 0, im = 0;
            for (int j = 0; j < POINTS; j++) {
                double angle = -2 * M_PI * (double)((at % POINTS) * j % POINTS) / POINTS;
                float2 v = in[at / POINTS * POINTS + j];
                re += v.x * cos(angle) - v.y * sin(angle);
                im += v.x * sin(angle) + v.y * cos(angle);
            }
            return fabs(got[at].x - re) < 1e-2 && fabs(got[at].y - im) < 1e-2;
        });
    };
    bench("fft_radix4", [&] { fft_radix4<<<batch, POINTS / 4>>>(in, out); }, check);
    bench("fft_radix2", [&] { fft_radix2<<<batch, 256, POINTS * sizeof(float2)>>>(in, out, roots, POINTS, 10); }, check);
    resources("fft_radix4", fft_radix4, POINTS / 4);
    resources("fft_radix2", fft_radix2, 256, POINTS * sizeof(float2));
}
