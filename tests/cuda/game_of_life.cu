// Conway's life on a torus: one byte a cell with a halo in shared memory, and 32 cells a word with bit arithmetic.
#include "check.cuh"

const int SIZE = 128, TILE = 16;

__global__ void bytes_step(const unsigned char* now, unsigned char* next) {
    __shared__ unsigned char tile[TILE + 2][TILE + 2];
    int x0 = blockIdx.x * TILE - 1, y0 = blockIdx.y * TILE - 1;
    for (int i = threadIdx.y * TILE + threadIdx.x; i < (TILE + 2) * (TILE + 2); i += TILE * TILE) {
        int x = (x0 + i % (TILE + 2) + SIZE) % SIZE, y = (y0 + i / (TILE + 2) + SIZE) % SIZE;
        tile[i / (TILE + 2)][i % (TILE + 2)] = now[y * SIZE + x];
    }
    __syncthreads();
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1, neighbours = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy) neighbours += tile[ty + dy][tx + dx];
    next[(y0 + ty) * SIZE + x0 + tx] = neighbours == 3 || (neighbours == 2 && tile[ty][tx]);
}

// One thread steps 32 cells: neighbours are counted in three bit planes with full adders.
__global__ void words_step(const unsigned* now, unsigned* next) {
    const int words = SIZE / 32;
    int column = threadIdx.x, row = blockIdx.x;
    unsigned ones = 0, twos = 0, fours = 0, centre = 0;
    for (int dy = -1; dy <= 1; dy++) {
        const unsigned* line = now + (row + dy + SIZE) % SIZE * words;
        unsigned here = line[column], before = line[(column + words - 1) % words], after = line[(column + 1) % words];
        unsigned planes[3] = {here << 1 | before >> 31, here >> 1 | after << 31, dy ? here : 0};
        if (!dy) centre = here;
        for (unsigned plane : planes) {
            unsigned carry = ones & plane;
            ones ^= plane;
            fours |= twos & carry;   // four and more are all the same: dead
            twos ^= carry;
        }
    }
    next[row * words + column] = twos & ~fours & (ones | centre);
}

int main() {
    const int steps = 20;
    Buffer<unsigned char> a(SIZE * SIZE), b(SIZE * SIZE);
    Buffer<unsigned> p(SIZE * SIZE / 32), q(SIZE * SIZE / 32);
    Random random;
    for (int i = 0; i < SIZE * SIZE; i++) {
        a[i] = random.below(3) == 0;
        p[i / 32] |= (unsigned)a[i] << i % 32;
    }
    std::vector<unsigned char> now = a.host, next = now;
    a.up(), p.up();
    for (int s = 0; s < steps; s += 2) {
        dim3 grid(SIZE / TILE, SIZE / TILE), block(TILE, TILE);
        bytes_step<<<grid, block>>>(a.device, b.device);
        bytes_step<<<grid, block>>>(b.device, a.device);
        words_step<<<SIZE, SIZE / 32>>>(p.device, q.device);
        words_step<<<SIZE, SIZE / 32>>>(q.device, p.device);
    }
    for (int s = 0; s < steps; s++) {
        for (int i = 0; i < SIZE * SIZE; i++) {
            int x = i % SIZE, y = i / SIZE, neighbours = -now[i];
            for (int d = 0; d < 9; d++)
                neighbours += now[(y + d / 3 + SIZE - 1) % SIZE * SIZE + (x + d % 3 + SIZE - 1) % SIZE];
            next[i] = neighbours == 3 || (neighbours == 2 && now[i]);
        }
        now.swap(next);
    }
    a.down(), p.down();
    for (int i = 0; i < SIZE * SIZE; i++) {
        same("bytes", i, (int)a[i], (int)now[i]);
        same("words", i, p[i / 32] >> i % 32 & 1, (unsigned)now[i]);
    }
    return verdict();
}
