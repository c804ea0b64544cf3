// Attention forward in single precision: a query for a thread, tiles of keys and values in shared memory.
#include "bench.cuh"

constexpr int D = 64, ROWS = 128, TILE = 16;

__global__ __launch_bounds__(ROWS) void attention_tiled(const float* __restrict__ q, const float* __restrict__ k,
                                                        const float* __restrict__ v, float* __restrict__ out, int length, float scale, bool causal) {
    __shared__ float4 ks[TILE][D / 4], vs[TILE][D / 4];
    int row = blockIdx.x * ROWS + threadIdx.x;
    size_t base = (size_t)blockIdx.y * length * D;
    float4 query[D / 4], sum[D / 4];
    for (int i = 0; i < D / 4; i++) {
        query[i] = ((const float4*)(q + base + (size_t)row * D))[i];
        sum[i] = make_float4(0, 0, 0, 0);
    }
    float top = -INFINITY, total = 0;
    int end = causal ? min(length, (int)(blockIdx.x + 1) * ROWS) : length;
    for (int start = 0; start < end; start += TILE) {
        __syncthreads();
        for (int i = threadIdx.x; i < TILE * D / 4; i += ROWS) {
            ks[i / (D / 4)][i % (D / 4)] = ((const float4*)(k + base + (size_t)start * D))[i];
            vs[i / (D / 4)][i % (D / 4)] = ((const float4*)(v + base + (size_t)start * D))[i];
        }
        __syncthreads();
        float scores[TILE], highest = top;
#pragma unroll
        for (int j = 0; j < TILE; j++) {
            float s = 0;
#pragma unroll
            for (int i = 0; i < D / 4; i++) {
                float4 key = ks[j][i];
                s += query[i].x * key.x + query[i].y * key.y + query[i].z * key.z + query[i].w * key.w;
            }
            s *= scale;
            if (causal && start + j > row) s = -INFINITY;
            scores[j] = s;
            highest = fmaxf(highest, s);
        }
        float old = __expf(top - highest);
        total *= old;
#pragma unroll
        for (int i = 0; i < D / 4; i++) sum[i].x *= old, sum[i].y *= old, sum[i].z *= old, sum[i].w *= old;
#pragma unroll
        for (int j = 0; j < TILE; j++) {
            float weight = __expf(scores[j] - highest);
            total += weight;
#pragma unroll
            for (int i = 0; i < D / 4; i++) {
                float4 value = vs[j][i];
                sum[i].x += weight * value.x;
                sum[i].y += weight * value.y;
                sum[i].z += weight * value.z;
                sum[i].w += weight * value.w;
            }
        }
        top = highest;
    }
    float inverse = 1.0f / total;
    for (int i = 0; i < D / 4; i++)
        ((float4*)(out + base + (size_t)row * D))[i] = make_float4(sum[i].x * inverse, sum[i].y * inverse, sum[i].z * inverse, sum[i].w * inverse);
}

int main() {
    int heads = 32, length = 1024;
    Random random;
    auto values = [&](size_t) { return random.uniform(-1, 1); };
    Array<float> q((size_t)heads * length * D, values), k(q.size(), values), v(q.size(), values), out(q.size());
    bench("attention_tiled", [&] { attention_tiled<<<dim3(length / ROWS, heads), ROWS>>>(q, k, v, out, length, 0.125f, true); }, [&] {
        auto got = out.down();
        return check_samples(got.size(), 100, [&](size_t i) {
            size_t row = i / D % length, base = i / (D * length) * D * length;
            double total = 0, sum = 0;
            for (size_t t = 0; t <= row; t++) {
                double score = 0;
                for (int d = 0; d < D; d++) score += (double)q[base + row * D + d] * k[base + t * D + d];
                total += exp(score * 0.125);
                sum += exp(score * 0.125) * v[base + t * D + i % D];
            }
            return close(got[i], sum / total, 1e-3, 0.1);
        });
    });
    resources("attention_tiled", attention_tiled, ROWS);
}
