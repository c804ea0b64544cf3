// Cholesky factors of many 48x48 double precision matrices in shared memory, a block for each.
#include "bench.cuh"

__global__ void cholesky(double* matrices, int n) {
    extern __shared__ double s[];
    double* a = matrices + (size_t)blockIdx.x * n * n;
    int line = n + 1;
    for (int i = threadIdx.x; i < n * n; i += blockDim.x) s[i / n * line + i % n] = a[i];
    __syncthreads();
    for (int k = 0; k < n; k++) {
        if (threadIdx.x == 0) s[k * line + k] = sqrt(s[k * line + k]);
        __syncthreads();
        double inverse = 1.0 / s[k * line + k];
        for (int i = k + 1 + threadIdx.x; i < n; i += blockDim.x) s[i * line + k] *= inverse;
        __syncthreads();
        int rest = n - k - 1;
        for (int t = threadIdx.x; t < rest * rest; t += blockDim.x) {
            int i = k + 1 + t / rest, j = k + 1 + t % rest;
            if (j <= i) s[i * line + j] -= s[i * line + k] * s[j * line + k];
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n * n; i += blockDim.x) a[i] = i % n <= i / n ? s[i / n * line + i % n] : 0.0;
}

int main() {
    int n = 48, count = 1024;
    Random random;
    Array<double> input((size_t)count * n * n);
    for (int m = 0; m < count; m++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j <= i; j++) {
                double v = i == j ? n + random.uniform() : random.uniform(-1, 1);
                input.host[((size_t)m * n + i) * n + j] = input.host[((size_t)m * n + j) * n + i] = v;
            }
    input.up();
    Array<double> a(input.size());
    int shared = n * (n + 1) * 8;
    bench("cholesky", [&] { cholesky<<<count, 128, shared>>>(a, n); }, [&] {
        auto got = a.down();
        return check_samples(got.size(), 3000, [&](size_t at) {
            size_t base = at / (n * n) * n * n;
            int i = at % (n * n) / n, j = at % n;
            double sum = 0;
            for (int k = 0; k <= std::min(i, j); k++) sum += got[base + i * n + k] * got[base + j * n + k];
            return close(sum, input[at], 1e-10, 1);
        });
    }, [&] { CUDA(cudaMemcpy(a, input, input.bytes(), cudaMemcpyDeviceToDevice)); });
    resources("cholesky", cholesky, 128, shared);
}
