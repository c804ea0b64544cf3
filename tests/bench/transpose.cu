// Transposition through shared memory, of floats and of 16-byte structures; runtime sizes with edges.
#include "bench.cuh"

constexpr int TILE = 32, ROWS = 8;

__global__ void transpose_floats(const float* in, float* out, int width, int height) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

struct Cell {
    double value;
    int tag, flags;
};

__global__ void transpose_cells(const Cell* in, Cell* out, int width, int height) {
    __shared__ Cell tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    if (x < height && y < width) out[y * height + x] = tile[threadIdx.x][threadIdx.y];
}

int main() {
    int width = 4090, height = 3000;
    Random random;
    Array<float> in(width * height, [&](size_t) { return random.uniform(); }), out(width * height);
    bench("transpose_floats", [&] {
        transpose_floats<<<dim3((width + TILE - 1) / TILE, (height + TILE - 1) / TILE), dim3(TILE, ROWS)>>>(in, out, width, height);
    }, [&] {
        auto got = out.down();
        return check_samples(got.size(), got.size(), [&](size_t i) { return got[i] == in[i % height * width + i / height]; });
    });
    width = 1500, height = 1990;
    Array<Cell> cells(width * height, [&](size_t i) { return Cell{(double)i, (int)i * 3, (int)i * 5}; }), turned(width * height);
    bench("transpose_cells", [&] {
        transpose_cells<<<dim3((width + 15) / 16, (height + 15) / 16), dim3(16, 16)>>>(cells, turned, width, height);
    }, [&] {
        auto got = turned.down();
        return check_samples(got.size(), got.size(), [&](size_t i) { return !memcmp(&got[i], &cells[i % height * width + i / height], sizeof(Cell)); });
    });
    resources("transpose_floats", transpose_floats, TILE * ROWS);
    resources("transpose_cells", transpose_cells, 256);
}
