// Matrix product with tiles in shared memory and a 4 by 4 block of sums in the registers of each thread.
#include "check.cuh"

const int TILE = 64, DEPTH = 16, PER_THREAD = 4;

__global__ void multiply(const float* a, const float* b, float* c, int n) {
    __shared__ float left[DEPTH][TILE], right[DEPTH][TILE];
    int t = threadIdx.x, row = t / 16 * PER_THREAD, column = t % 16 * PER_THREAD;
    float sums[PER_THREAD][PER_THREAD] = {};
    for (int k = 0; k < n; k += DEPTH) {
        for (int i = t; i < TILE * DEPTH; i += 256) {
            left[i % DEPTH][i / DEPTH] = a[(blockIdx.y * TILE + i / DEPTH) * n + k + i % DEPTH];
            right[i / TILE][i % TILE] = b[(k + i / TILE) * n + blockIdx.x * TILE + i % TILE];
        }
        __syncthreads();
        for (int d = 0; d < DEPTH; d++) {
            float4 x = *(float4*)&left[d][row], y = *(float4*)&right[d][column];
            float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
            for (int i = 0; i < PER_THREAD; i++)
                for (int j = 0; j < PER_THREAD; j++) sums[i][j] += xs[i] * ys[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < PER_THREAD; i++) {
        float* line = &c[(blockIdx.y * TILE + row + i) * n + blockIdx.x * TILE + column];
        *(float4*)line = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    }
}

int main() {
    const int n = 256;
    Buffer<float> a(n * n), b(n * n), c(n * n);
    Random random;
    for (float& v : a.host) v = (int)random.below(31) - 15;
    for (float& v : b.host) v = (int)random.below(31) - 15;
    a.up(), b.up();
    multiply<<<dim3(n / TILE, n / TILE), 256>>>(a.device, b.device, c.device, n);
    c.down();
    for (int row = 0; row < n; row++)
        for (int column = 0; column < n; column++) {
            float want = 0;
            for (int k = 0; k < n; k++) want += a[row * n + k] * b[k * n + column];
            same("product", row * n + column, c[row * n + column], want);
        }
    return verdict();
}
