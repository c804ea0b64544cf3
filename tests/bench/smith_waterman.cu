// Local alignment scores of many pairs of sequences: a warp for a pair, cells of an antidiagonal by shuffles.
#include "bench.cuh"

constexpr int MATCH = 3, MISMATCH = -2, GAP = 4;

/// Each lane holds one column of a strip of 32; row by row, values go to the next lane.
__global__ void smith_waterman(const uint8_t* __restrict__ a, const uint8_t* __restrict__ b, int* __restrict__ scores, int pairs, int rows, int columns) {
    extern __shared__ short border[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pair = blockIdx.x * (blockDim.x / 32) + warp;
    if (pair >= pairs) return;
    short* edge = border + warp * (rows + 1);
    const uint8_t *x = a + (size_t)pair * rows, *y = b + (size_t)pair * columns;
    for (int i = lane; i <= rows; i += 32) edge[i] = 0;
    __syncwarp();
    int best = 0;
    for (int strip = 0; strip < columns; strip += 32) {
        int mine = strip + lane < columns ? y[strip + lane] : 255;
        int up = 0, diagonal = 0, value = 0;
        for (int step = 0; step < rows + 31; step++) {
            int row = step - lane;
            int left = __shfl_up_sync(~0u, value, 1);
            if (lane == 0) left = step < rows ? edge[step + 1] : 0;
            if (row >= 0 && row < rows) {
                int score = diagonal + (x[row] == mine ? MATCH : MISMATCH);
                score = max(score, max(left - GAP, up - GAP));
                value = max(score, 0);
                diagonal = left;
                up = value;
                best = max(best, value);
                if (lane == 31) edge[row + 1] = (short)value;
            }
        }
        __syncwarp();
    }
    for (int d = 16; d > 0; d >>= 1) best = max(best, __shfl_xor_sync(~0u, best, d));
    if (lane == 0) scores[pair] = best;
}

int main() {
    int pairs = 4096, rows = 160, columns = 192;
    Random random;
    Array<uint8_t> a((size_t)pairs * rows, [&](size_t) { return (uint8_t)random.below(4); });
    Array<uint8_t> b((size_t)pairs * columns, [&](size_t i) {
        size_t p = i / columns, at = i % columns;
        return at < (size_t)rows && random.below(5) ? a[p * rows + at] : (uint8_t)random.below(4);
    });
    Array<int> scores(pairs);
    int shared = 4 * (rows + 1) * 2;
    bench("smith_waterman", [&] { smith_waterman<<<pairs / 4, 128, shared>>>(a, b, scores, pairs, rows, columns); }, [&] {
        auto got = scores.down();
        return check_samples(pairs, 200, [&](size_t p) {
            std::vector<int> row(columns + 1, 0);
            int best = 0;
            for (int i = 0; i < rows; i++) {
                int diagonal = 0;
                for (int j = 1; j <= columns; j++) {
                    int v = std::max({0, diagonal + (a[p * rows + i] == b[p * columns + j - 1] ? MATCH : MISMATCH), row[j] - GAP, row[j - 1] - GAP});
                    diagonal = row[j];
                    row[j] = v;
                    best = std::max(best, v);
                }
            }
            return got[p] == best;
        });
    });
    resources("smith_waterman", smith_waterman, 128, shared);
}
