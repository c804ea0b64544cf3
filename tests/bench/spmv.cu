// Sparse matrix by vector: CSR with a thread and with a warp for a row, ELL, and COO with atomics.
#include "bench.cuh"

__global__ void spmv_csr_scalar(int rows, const int* __restrict__ start, const int* __restrict__ columns,
                                const float* __restrict__ values, const float* __restrict__ x, float* __restrict__ y) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float sum = 0;
        for (int i = start[row]; i < start[row + 1]; i++) sum += values[i] * x[columns[i]];
        y[row] = sum;
    }
}

__global__ void spmv_csr_vector(int rows, const int* __restrict__ start, const int* __restrict__ columns,
                                const float* __restrict__ values, const float* __restrict__ x, float* __restrict__ y) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0;
    for (int i = start[row] + lane; i < start[row + 1]; i += 32) sum += values[i] * __ldg(&x[columns[i]]);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
    if (lane == 0) y[row] = sum;
}

__global__ void spmv_ell(int rows, int width, const int* columns, const float* values, const float* x, float* y) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int i = 0; i < width; i++) {
        int column = columns[i * rows + row];
        if (column >= 0) sum += values[i * rows + row] * x[column];
    }
    y[row] = sum;
}

__global__ void spmv_coo(int count, const int* row, const int* column, const float* values, const float* x, float* y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&y[row[i]], values[i] * x[column[i]]);
}

int main() {
    int rows = 200000, width = 32;
    Random random;
    std::vector<int> start{0}, columns, row_of, ell_columns(rows * width, -1);
    std::vector<float> values, ell_values(rows * width, 0.0f);
    for (int r = 0; r < rows; r++) {
        int count = 4 + random.below(width - 3);
        for (int i = 0; i < count; i++) {
            columns.push_back((r + random.below(4000) + rows - 2000) % rows);
            values.push_back(random.uniform(-1, 1));
            row_of.push_back(r);
            ell_columns[i * rows + r] = columns.back();
            ell_values[i * rows + r] = values.back();
        }
        start.push_back((int)columns.size());
    }
    int count = (int)columns.size();
    Array<int> d_start(start), d_columns(columns), d_rows(row_of), d_ell_columns(ell_columns);
    Array<float> d_values(values), d_ell_values(ell_values), x(rows, [&](size_t) { return random.uniform(-1, 1); }), y(rows);
    auto check = [&] {
        auto got = y.down();
        return check_samples(rows, 20000, [&](size_t r) {
            double sum = 0;
            for (int i = start[r]; i < start[r + 1]; i++) sum += (double)values[i] * x[columns[i]];
            return close(got[r], sum, 1e-5, 10);
        });
    };
    bench("spmv_csr_scalar", [&] { spmv_csr_scalar<<<blocks_for(rows, 256), 256>>>(rows, d_start, d_columns, d_values, x, y); }, check);
    bench("spmv_csr_vector", [&] { spmv_csr_vector<<<blocks_for(rows * 32, 256), 256>>>(rows, d_start, d_columns, d_values, x, y); }, check);
    bench("spmv_ell", [&] { spmv_ell<<<blocks_for(rows, 256), 256>>>(rows, width, d_ell_columns, d_ell_values, x, y); }, check);
    bench("spmv_coo", [&] { spmv_coo<<<132 * 8, 256>>>(count, d_rows, d_columns, d_values, x, y); }, check, [&] { y.clear(); });
    resources("spmv_csr_scalar", spmv_csr_scalar, 256);
    resources("spmv_csr_vector", spmv_csr_vector, 256);
    resources("spmv_ell", spmv_ell, 256);
    resources("spmv_coo", spmv_coo, 256);
}
