// A fast Fourier transform of 1024 points in shared memory: against the sum on the host, and there and back again.
#include "check.cuh"

const int N = 1024, BITS = 10;

__global__ void transform(const float2* in, float2* out, float direction) {
    __shared__ float2 data[N];
    int t = threadIdx.x, base = blockIdx.x * N;
    for (int i = t; i < N; i += blockDim.x) data[__brev(i) >> (32 - BITS)] = in[base + i];
    for (int half = 1; half < N; half *= 2) {
        __syncthreads();
        int k = t % half, at = t / half * 2 * half + k;
        float s, c;
        sincospif(direction * k / half, &s, &c);
        float2 a = data[at], b = data[at + half];
        float2 turned = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
        data[at] = make_float2(a.x + turned.x, a.y + turned.y);
        data[at + half] = make_float2(a.x - turned.x, a.y - turned.y);
    }
    __syncthreads();
    for (int i = t; i < N; i += blockDim.x) out[base + i] = data[i];
}

int main() {
    const int batch = 4;
    Buffer<float2> in(batch * N), out(batch * N), back(batch * N);
    Random random;
    for (float2& v : in.host) v = make_float2(random.between(-1, 1), random.between(-1, 1));
    in.up();
    transform<<<batch, N / 2>>>(in.device, out.device, -1);
    transform<<<batch, N / 2>>>(out.device, back.device, 1);
    out.down(), back.down();
    for (int i = 0; i < batch * N; i++) {
        near("back", 2 * i, back[i].x / N, in[i].x, 1e-5, 1);
        near("back", 2 * i + 1, back[i].y / N, in[i].y, 1e-5, 1);
    }
    for (int k = 0; k < N; k += 7) {
        double x = 0, y = 0;
        for (int i = 0; i < N; i++) {
            double angle = -2 * 3.14159265358979323846 * (k * i % N) / N, s = sin(angle), c = cos(angle);
            x += in[i].x * c - in[i].y * s, y += in[i].x * s + in[i].y * c;
        }
        near("spectrum", 2 * k, out[k].x, x, 1e-5, 32);
        near("spectrum", 2 * k + 1, out[k].y, y, 1e-5, 32);
    }
    return verdict();
}
