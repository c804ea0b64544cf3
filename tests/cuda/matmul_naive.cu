// Matrix product, a thread per element, in float, double and 64-bit integers.
#include "check.cuh"

template <typename T>
__global__ void multiply(const T* a, const T* b, T* c, int m, int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    T sum = 0;
    for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

template <typename T>
void check(const char* what, int m, int n, int k) {
    Buffer<T> a(m * k), b(k * n), c(m * n);
    Random random;
    // small whole numbers: every sum is exact in float, whatever the order and the fusing
    for (T& v : a.host) v = (int)random.below(17) - 8;
    for (T& v : b.host) v = (int)random.below(17) - 8;
    a.up(), b.up();
    dim3 block(16, 16);
    multiply<<<dim3((n + 15) / 16, (m + 15) / 16), block>>>(a.device, b.device, c.device, m, n, k);
    c.down();
    for (int row = 0; row < m; row++)
        for (int column = 0; column < n; column++) {
            T want = 0;
            for (int i = 0; i < k; i++) want += a[row * k + i] * b[i * n + column];
            same(what, row * n + column, c[row * n + column], want);
        }
}

int main() {
    check<float>("float", 65, 130, 77);
    check<double>("double", 100, 33, 129);
    check<long long>("integer", 48, 50, 200);
    check<float>("thin", 1, 300, 5);
    return verdict();
}
