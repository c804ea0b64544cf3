// Transposition through a padded tile in shared memory, of 1-, 4-, 8- and 16-byte elements and ragged edges.
#include "check.cuh"

const int TILE = 32;

template <typename T>
__global__ void transpose(const T* in, T* out, int rows, int columns) {
    __shared__ T tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int d = 0; d < TILE; d += 8)
        if (x < columns && y + d < rows) tile[threadIdx.y + d][threadIdx.x] = in[(y + d) * columns + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x, y = blockIdx.x * TILE + threadIdx.y;
    for (int d = 0; d < TILE; d += 8)
        if (x < rows && y + d < columns) out[(y + d) * rows + x] = tile[threadIdx.x][threadIdx.y + d];
}

uint32_t key(unsigned char v) { return v; }
uint32_t key(float v) { return (uint32_t)v; }
uint32_t key(double v) { return (uint32_t)v; }
uint32_t key(uint4 v) { return v.x ^ v.w; }
void set(unsigned char& v, uint32_t k) { v = k; }
void set(float& v, uint32_t k) { v = k; }
void set(double& v, uint32_t k) { v = k; }
void set(uint4& v, uint32_t k) { v = make_uint4(k, 1, 2, 0); }

template <typename T>
void check(const char* what, int rows, int columns) {
    Buffer<T> in(rows * columns), out(rows * columns);
    for (int i = 0; i < rows * columns; i++) set(in[i], i);
    in.up();
    dim3 grid((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    transpose<<<grid, dim3(TILE, 8)>>>(in.device, out.device, rows, columns);
    out.down();
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            same(what, r * columns + c, key(out[c * rows + r]), key(in[r * columns + c]));
}

int main() {
    check<unsigned char>("bytes", 100, 70);
    check<float>("floats", 1000, 333);
    check<double>("doubles", 257, 511);
    check<uint4>("vectors", 65, 129);
    return verdict();
}
