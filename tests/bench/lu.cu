// LU factors with partial pivoting of many 32x32 matrices, a warp for each, and of small ones in a thread's registers.
#include "bench.cuh"

constexpr int N = 32;

__global__ void lu_warp(float* matrices, int* pivots, int count) {
    int lane = threadIdx.x % 32, which = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (which >= count) return;
    float* a = matrices + (size_t)which * N * N;
    float row[N];
    for (int j = 0; j < N; j++) row[j] = a[j * N + lane];   // column major: lane is the row
#pragma unroll
    for (int k = 0; k < N; k++) {
        float best = lane >= k ? fabsf(row[k]) : -1.0f;
        int at = lane;
        for (int d = 16; d > 0; d >>= 1) {
            float other = __shfl_xor_sync(~0u, best, d);
            int other_at = __shfl_xor_sync(~0u, at, d);
            if (other > best || (other == best && other_at < at)) best = other, at = other_at;
        }
        if (lane == 0) pivots[which * N + k] = at;
#pragma unroll
        for (int j = 0; j < N; j++) {
            float from_k = __shfl_sync(~0u, row[j], k), from_at = __shfl_sync(~0u, row[j], at);
            if (lane == k) row[j] = from_at;
            else if (lane == at) row[j] = from_k;
        }
        float pivot = __shfl_sync(~0u, row[k], k);
        if (lane > k) row[k] /= pivot;
#pragma unroll
        for (int j = k + 1; j < N; j++) {
            float u = __shfl_sync(~0u, row[j], k);
            if (lane > k) row[j] -= row[k] * u;
        }
    }
    for (int j = 0; j < N; j++) a[j * N + lane] = row[j];
}

template <int M>
__global__ void solve_small(const float* __restrict__ matrices, const float* __restrict__ right, float* __restrict__ x, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float a[M][M], b[M];
    for (int r = 0; r < M; r++) {
        for (int c = 0; c < M; c++) a[r][c] = matrices[(size_t)(r * M + c) * count + i];
        b[r] = right[(size_t)r * count + i];
    }
#pragma unroll
    for (int k = 0; k < M; k++) {
        float inverse = 1.0f / a[k][k];
#pragma unroll
        for (int r = k + 1; r < M; r++) {
            float factor = a[r][k] * inverse;
#pragma unroll
            for (int c = k + 1; c < M; c++) a[r][c] -= factor * a[k][c];
            b[r] -= factor * b[k];
        }
    }
#pragma unroll
    for (int k = M - 1; k >= 0; k--) {
#pragma unroll
        for (int c = k + 1; c < M; c++) b[k] -= a[k][c] * b[c];
        b[k] /= a[k][k];
        x[(size_t)k * count + i] = b[k];
    }
}

int main() {
    int count = 8192;
    Random random;
    Array<float> input((size_t)count * N * N, [&](size_t) { return random.uniform(-1, 1); }), a(input.size());
    Array<int> pivots(count * N);
    bench("lu_warp", [&] { lu_warp<<<count / 4, 128>>>(a, pivots, count); }, [&] {
        auto got = a.down();
        auto swaps = pivots.down();
        return check_samples(count, 50, [&](size_t m) {
            std::vector<float> p(input.host.begin() + m * N * N, input.host.begin() + (m + 1) * N * N);
            for (int k = 0; k < N; k++)
                for (int j = 0; j < N; j++) std::swap(p[j * N + k], p[j * N + swaps[m * N + k]]);
            const float* f = &got[m * N * N];
            for (int i = 0; i < N; i++)
                for (int j = 0; j < N; j++) {
                    double sum = 0;
                    for (int k = 0; k <= std::min(i, j); k++) sum += (k == i ? 1.0 : (double)f[k * N + i]) * f[j * N + k];
                    if (!close(p[j * N + i], sum, 1e-3, 1)) return false;
                }
            return true;
        });
    }, [&] { CUDA(cudaMemcpy(a, input, input.bytes(), cudaMemcpyDeviceToDevice)); });
    constexpr int M = 6;
    int many = 1 << 17;
    Array<float> small((size_t)M * M * many, [&](size_t i) { return random.uniform(-1, 1) + (i / many % (M + 1) == 0 ? 8.0f : 0.0f); });
    Array<float> right((size_t)M * many, [&](size_t) { return random.uniform(-1, 1); }), x((size_t)M * many);
    bench("solve_small", [&] { solve_small<M><<<blocks_for(many, 128), 128>>>(small, right, x, many); }, [&] {
        auto got = x.down();
        return check_samples(many, 2000, [&](size_t i) {
            for (int r = 0; r < M; r++) {
                double sum = 0;
                for (int c = 0; c < M; c++) sum += (double)small[(size_t)(r * M + c) * many + i] * got[(size_t)c * many + i];
                if (!close(sum, right[(size_t)r * many + i], 1e-4, 1)) return false;
            }
            return true;
        });
    });
    resources("lu_warp", lu_warp, 128);
    resources("solve_small", solve_small<M>, 128);
}
