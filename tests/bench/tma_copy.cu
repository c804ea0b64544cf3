// The tensor memory accelerator: tiles of a plane come by cp.async.bulk.tensor, a transaction barrier tells when, and
// the scaled tile goes back the same way; also rows by plain bulk copies.
// arch: sm_90a
#include <cuda.h>

#include "bench.cuh"

constexpr int TX = 64, TY = 32;

__device__ inline uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ inline void wait_parity(uint64_t* barrier, uint32_t parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

__device__ inline void expect(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__global__ void tma_scale(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out, int tiles_x, int tiles, float factor) {
    __shared__ alignas(128) float tile[2][TY][TX];
    __shared__ alignas(8) uint64_t barrier[2];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier[i])) : "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
    }
    __syncthreads();
    auto fetch = [&](int t, int slot) {
        if (threadIdx.x != 0 || t >= tiles) return;
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        expect(&barrier[slot], TX * TY * 4);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                         shared_address(tile[slot])),
                     "l"(&in), "r"(t % tiles_x * TX), "r"(t / tiles_x * TY), "r"(shared_address(&barrier[slot]))
                     : "memory");
    };
    uint32_t parity[2] = {0, 0};
    int slot = 0;
    fetch(blockIdx.x, 0);
    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
        fetch(t + gridDim.x, slot ^ 1);
        wait_parity(&barrier[slot], parity[slot]);
        parity[slot] ^= 1;
        for (int i = threadIdx.x; i < TX * TY; i += blockDim.x) tile[slot][i / TX][i % TX] = tile[slot][i / TX][i % TX] * factor + 1.0f;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out), "r"(t % tiles_x * TX),
                         "r"(t / tiles_x * TY), "r"(shared_address(tile[slot]))
                         : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
        slot ^= 1;
    }
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

constexpr int ROW = 2048;

__global__ void bulk_row_sums(const float* in, float* out, int rows) {
    __shared__ alignas(128) float row[2][ROW];
    __shared__ alignas(8) uint64_t barrier[2];
    __shared__ float partial[8];
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier[i])) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    auto fetch = [&](int r, int slot) {
        if (threadIdx.x != 0 || r >= rows) return;
        expect(&barrier[slot], ROW * 4);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(row[slot])),
                     "l"(in + (size_t)r * ROW), "r"(ROW * 4), "r"(shared_address(&barrier[slot]))
                     : "memory");
    };
    fetch(blockIdx.x, 0);
    int slot = 0, phase = 0;
    for (int r = blockIdx.x; r < rows; r += gridDim.x) {
        fetch(r + gridDim.x, slot ^ 1);
        wait_parity(&barrier[slot], phase >> slot & 1);
        phase ^= 1 << slot;
        float sum = 0;
        for (int i = threadIdx.x; i < ROW; i += blockDim.x) sum += row[slot][i];
        for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 1; w < blockDim.x / 32; w++) sum += partial[w];
            out[r] = sum;
        }
        __syncthreads();
        slot ^= 1;
    }
}

CUtensorMap describe(void* data, uint64_t width, uint64_t height) {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    auto encode = (CUresult(*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                               CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill))entry;
    CUtensorMap map;
    cuuint64_t size[2] = {width, height}, stride[1] = {width * 4};
    cuuint32_t box[2] = {TX, TY}, step[2] = {1, 1};
    CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, data, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) printf("! cuTensorMapEncodeTiled gives %d\n", (int)result), exit(1);
    return map;
}

int main() {
    int width = 4096, height = 2048;
    Random random;
    Array<float> in((size_t)width * height, [&](size_t) { return random.uniform(); }), out(in.size()), sums(in.size() / ROW);
    CUtensorMap from = describe(in, width, height), to = describe(out, width, height);
    int tiles_x = width / TX, tiles = tiles_x * (height / TY);
    bench("tma_scale", [&] { tma_scale<<<132 * 8, 128>>>(from, to, tiles_x, tiles, 3.0f); }, [&] {
        auto got = out.down();
        return check_samples(got.size(), got.size(), [&](size_t i) { return close(got[i], in[i] * 3.0 + 1, 1e-6); });
    });
    int rows = (int)(in.size() / ROW);
    bench("bulk_row_sums", [&] { bulk_row_sums<<<132 * 4, 256>>>(in, sums, rows); }, [&] {
        auto got = sums.down();
        return check_samples(rows, rows, [&](size_t r) {
            double sum = 0;
            for (int i = 0; i < ROW; i++) sum += in[r * ROW + i];
            return close(got[r], sum, 1e-5);
        });
    });
    resources("tma_scale", tma_scale, 128);
    resources("bulk_row_sums", bulk_row_sums, 256);
}
