// The eight greatest elements of rows by insertion in registers, and a merge path of two sorted arrays.
#include "bench.cuh"

constexpr int K = 8;

__global__ void top_k(const float* __restrict__ in, float* __restrict__ values, int* __restrict__ indices, int rows, int columns) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float best[K];
    int at[K];
#pragma unroll
    for (int k = 0; k < K; k++) best[k] = -INFINITY, at[k] = -1;
    for (int i = lane; i < columns; i += 32) {
        float v = in[(size_t)row * columns + i];
        if (v <= best[K - 1]) continue;
        int index = i;
#pragma unroll
        for (int k = 0; k < K; k++)
            if (v > best[k]) {
                float t = best[k];
                int u = at[k];
                best[k] = v;
                at[k] = index;
                v = t;
                index = u;
            }
    }
    for (int k = 0; k < K; k++) {
        float v = best[0];
        int who = lane;
        for (int d = 16; d > 0; d >>= 1) {
            float other = __shfl_xor_sync(~0u, v, d);
            int other_who = __shfl_xor_sync(~0u, who, d);
            if (other > v || (other == v && other_who < who)) v = other, who = other_who;
        }
        int index = __shfl_sync(~0u, at[0], who);
        if (lane == 0) {
            values[row * K + k] = v;
            indices[row * K + k] = index;
        }
        if (lane == who) {
#pragma unroll
            for (int j = 0; j + 1 < K; j++) best[j] = best[j + 1], at[j] = at[j + 1];
            best[K - 1] = -INFINITY;
        }
    }
}

__global__ void merge_path(const int* __restrict__ a, int na, const int* __restrict__ b, int nb, int* __restrict__ out, int per) {
    int start = (blockIdx.x * blockDim.x + threadIdx.x) * per;
    if (start >= na + nb) return;
    int low = max(0, start - nb), high = min(start, na);
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= b[start - middle - 1]) low = middle + 1;
        else high = middle;
    }
    int i = low, j = start - low, end = min(start + per, na + nb);
    for (int k = start; k < end; k++) out[k] = j >= nb || (i < na && a[i] <= b[j]) ? a[i++] : b[j++];
}

int main() {
    int rows = 4096, columns = 2000;
    Random random;
    Array<float> in((size_t)rows * columns, [&](size_t) { return random.uniform(); }), values(rows * K);
    Array<int> indices(rows * K);
    bench("top_k", [&] { top_k<<<rows / 8, 256>>>(in, values, indices, rows, columns); }, [&] {
        auto got = values.down();
        auto at = indices.down();
        return check_samples(rows, 500, [&](size_t r) {
            std::vector<float> row(in.host.begin() + r * columns, in.host.begin() + (r + 1) * columns);
            for (int k = 0; k < K; k++)
                if (at[r * K + k] < 0 || row[at[r * K + k]] != got[r * K + k]) return false;
            std::partial_sort(row.begin(), row.begin() + K, row.end(), [](float x, float y) { return x > y; });
            return std::equal(row.begin(), row.begin() + K, got.begin() + r * K);
        });
    });
    int n = 1 << 20;
    auto sorted = [&](int count) {
        std::vector<int> v(count);
        for (int& x : v) x = (int)random.next();
        std::sort(v.begin(), v.end());
        return v;
    };
    Array<int> a(sorted(n)), b(sorted(n / 2)), out(n + n / 2);
    bench("merge_path", [&] { merge_path<<<blocks_for(out.size(), 128 * 16), 128>>>(a, n, b, n / 2, out, 16); }, [&] {
        std::vector<int> want(out.size());
        std::merge(a.host.begin(), a.host.end(), b.host.begin(), b.host.end(), want.begin());
        return out.down() == want;
    });
    resources("top_k", top_k, 256);
    resources("merge_path", merge_path, 128);
}
