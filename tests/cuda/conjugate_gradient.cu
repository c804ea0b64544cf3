// Conjugate gradients for a sparse symmetric system (a 2D Laplacian in compressed rows), steered from the host.
#include "check.cuh"

__global__ void multiply(const int* rows, const int* columns, const double* values, const double* x, double* y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    double sum = 0;
    for (int k = rows[row]; k < rows[row + 1]; k++) sum += values[k] * x[columns[k]];
    y[row] = sum;
}

__global__ void dot(const double* x, const double* y, double* result, int n) {
    __shared__ double parts[256];
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += 256) sum += x[i] * y[i];
    parts[threadIdx.x] = sum;
    for (int half = 128; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *result = parts[0];
}

__global__ void axpy(double a, const double* x, const double* y, double* out, int n) {   // out = a x + y
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}

int main() {
    const int side = 40, n = side * side, blocks = (n + 127) / 128;
    std::vector<int> row_starts = {0}, column_list;
    std::vector<double> value_list, solution(n);
    Random random;
    for (int i = 0; i < n; i++) {
        int x = i % side, y = i / side;
        auto add = [&](bool there, int j, double v) { if (there) column_list.push_back(j), value_list.push_back(v); };
        add(y > 0, i - side, -1), add(x > 0, i - 1, -1), add(true, i, 4.5);
        add(x < side - 1, i + 1, -1), add(y < side - 1, i + side, -1);
        row_starts.push_back(column_list.size());
        solution[i] = random.between(-10, 10);
    }
    Buffer<int> rows(n + 1), columns(column_list.size());
    Buffer<double> values(value_list.size()), x(n), r(n), p(n), ap(n), result(1);
    rows.host = row_starts, columns.host = column_list, values.host = value_list;
    for (int i = 0; i < n; i++)
        for (int k = row_starts[i]; k < row_starts[i + 1]; k++) r[i] += value_list[k] * solution[column_list[k]];
    p.host = r.host;
    rows.up(), columns.up(), values.up(), r.up(), p.up();
    auto product = [&](Buffer<double>& a, Buffer<double>& b) {
        dot<<<1, 256>>>(a.device, b.device, result.device, n);
        result.down();
        return result[0];
    };
    double rr = product(r, r);
    int iterations = 0;
    for (; rr > 1e-22 && iterations < 300; iterations++) {
        multiply<<<blocks, 128>>>(rows.device, columns.device, values.device, p.device, ap.device, n);
        double alpha = rr / product(p, ap);
        axpy<<<blocks, 128>>>(alpha, p.device, x.device, x.device, n);
        axpy<<<blocks, 128>>>(-alpha, ap.device, r.device, r.device, n);
        double next = product(r, r);
        axpy<<<blocks, 128>>>(next / rr, p.device, r.device, p.device, n);
        rr = next;
    }
    x.down();
    same("converged", 0, iterations < 300, true);
    for (int i = 0; i < n; i++) near("solution", i, x[i], solution[i], 1e-10, 10);
    return verdict();
}
