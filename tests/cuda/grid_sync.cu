// A cooperative launch: all blocks meet at grid-wide barriers between the rounds of a pairwise exchange.
#include "check.cuh"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void rounds(unsigned* from, unsigned* to, int n, int count) {
    cg::grid_group grid = cg::this_grid();
    for (int r = 0; r < count; r++) {
        for (int i = grid.thread_rank(); i < n; i += grid.num_threads())
            to[i] = from[i] * 3 + from[(i + (1 << r % 16)) % n];
        grid.sync();
        unsigned* t = from;
        from = to;
        to = t;
    }
}

int main() {
    int n = 100003, count = 20;
    Buffer<unsigned> a(n), b(n);
    Random random;
    for (unsigned& v : a.host) v = random.next();
    std::vector<unsigned> want = a.host, next(n);
    a.up();
    void* arguments[] = {&a.device, &b.device, &n, &count};
    CUDA(cudaLaunchCooperativeKernel((void*)rounds, dim3(64), dim3(256), arguments));
    a.down();
    for (int r = 0; r < count; r++) {
        for (int i = 0; i < n; i++) next[i] = want[i] * 3 + want[(i + (1 << r % 16)) % n];
        want.swap(next);
    }
    for (int i = 0; i < n; i++) same("value", i, a[i], want[i]);
    return verdict();
}
