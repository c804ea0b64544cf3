// Cooperative groups: tiles of 4 to 32 lanes with shuffles, reductions and scans; coalesced and labelled groups.
#include "check.cuh"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

template <int SIZE>
__device__ int tile_sum(int v) {
    auto tile = cg::tiled_partition<SIZE>(cg::this_thread_block());
    for (int d = SIZE / 2; d; d /= 2) v += tile.shfl_xor(v, d);
    return v;
}

enum { SUM_4, SUM_16, REDUCED, SCANNED, RANK, LABELLED, PAIR_VOTE, TICKET, OPS };

__global__ void run(const int* in, int* out, int* tickets) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i], *r = out + i * OPS;
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto eight = cg::tiled_partition<8>(warp);
    r[SUM_4] = tile_sum<4>(v), r[SUM_16] = tile_sum<16>(v);
    r[REDUCED] = cg::reduce(eight, v, cg::greater<int>());
    r[SCANNED] = cg::exclusive_scan(warp, v, cg::plus<int>());
    r[RANK] = block.thread_rank() * 1000 + eight.meta_group_rank() * 100 + eight.thread_rank();
    auto labelled = cg::labeled_partition(warp, v % 3);
    r[LABELLED] = cg::reduce(labelled, v, cg::plus<int>()) * 100 + labelled.num_threads();
    auto pair = cg::tiled_partition<2>(block);
    r[PAIR_VOTE] = pair.all(v > 50) + 2 * pair.any(v > 50);
    r[TICKET] = 0;
    if (v % 2) {
        auto odd = cg::coalesced_threads();
        // one lane takes tickets for all of its group, however the machine grouped them
        int first = odd.thread_rank() == 0 ? atomicAdd(tickets, odd.num_threads()) : 0;
        r[TICKET] = 1 + odd.shfl(first, 0) + odd.thread_rank();
    }
    block.sync();
}

int main() {
    const int blocks = 12, threads = 96, n = blocks * threads;
    Buffer<int> in(n), out(n * OPS), tickets(1);
    Random random;
    for (int& v : in.host) v = random.below(100);
    in.up();
    run<<<blocks, threads>>>(in.device, out.device, tickets.device);
    out.down(), tickets.down();
    int odds = 0;
    std::vector<int> taken(n + 1, 0);
    for (int i = 0; i < n; i++) {
        int want[OPS] = {}, count = 0, warp = i / 32 * 32;
        for (int j = warp; j < warp + 32; j++) {
            if (j / 4 == i / 4) want[SUM_4] += in[j];
            if (j / 16 == i / 16) want[SUM_16] += in[j];
            if (j / 8 == i / 8 && in[j] > want[REDUCED]) want[REDUCED] = in[j];
            if (j < i) want[SCANNED] += in[j];
            if (in[j] % 3 == in[i] % 3) want[LABELLED] += in[j] * 100, count++;
        }
        want[LABELLED] += count;
        want[RANK] = i % threads * 1000 + i % 32 / 8 * 100 + i % 8;
        int partner = in[i ^ 1];
        want[PAIR_VOTE] = (in[i] > 50 && partner > 50) + 2 * (in[i] > 50 || partner > 50);
        for (int op = 0; op < TICKET; op++) same("group", i * OPS + op, out[i * OPS + op], want[op]);
        int ticket = out[i * OPS + TICKET];
        same("has a ticket", i, ticket > 0, in[i] % 2 == 1);
        if (ticket > 0 && ticket <= n) taken[ticket - 1]++;
        odds += in[i] % 2;
    }
    same("tickets", 0, tickets[0], odds);
    for (int t = 0; t < odds; t++) same("taken once", t, taken[t], 1);
    return verdict();
}
