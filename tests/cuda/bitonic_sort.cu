// Bitonic sort of keys with values: global steps for far partners, shared memory for near ones.
#include "check.cuh"
#include <algorithm>

const int NEAR = 1024;   // elements that a block sorts in shared memory

__device__ void order(uint2& a, uint2& b, bool ascending) {
    if ((a.x > b.x) == ascending) {
        uint2 t = a;
        a = b;
        b = t;
    }
}

__global__ void far_step(uint2* data, int span, int distance) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, partner = i ^ distance;
    if (partner > i) order(data[i], data[partner], (i & span) == 0);
}

__global__ void near_steps(uint2* data, int first_span, int last_span) {
    __shared__ uint2 part[NEAR];
    int t = threadIdx.x, base = blockIdx.x * NEAR;
    part[t] = data[base + t];
    part[t + NEAR / 2] = data[base + t + NEAR / 2];
    for (int span = first_span; span <= last_span; span *= 2)
        for (int distance = min(span, NEAR) / 2; distance > 0; distance /= 2) {
            __syncthreads();
            int i = 2 * t - (t & (distance - 1));
            order(part[i], part[i + distance], ((base + i) & span) == 0);
        }
    __syncthreads();
    data[base + t] = part[t];
    data[base + t + NEAR / 2] = part[t + NEAR / 2];
}

int main() {
    const int n = 1 << 15;
    Buffer<uint2> data(n);
    Random random;
    std::vector<unsigned> keys;
    for (int i = 0; i < n; i++) {
        data[i] = make_uint2(random.next() * 2 + 1, 0);
        data[i].y = data[i].x * 2654435761u;
        keys.push_back(data[i].x);
    }
    data.up();
    near_steps<<<n / NEAR, NEAR / 2>>>(data.device, 2, NEAR);
    for (int span = 2 * NEAR; span <= n; span *= 2) {
        for (int distance = span / 2; distance >= NEAR; distance /= 2)
            far_step<<<n / 256, 256>>>(data.device, span, distance);
        near_steps<<<n / NEAR, NEAR / 2>>>(data.device, span, span);
    }
    data.down();
    std::sort(keys.begin(), keys.end());
    for (int i = 0; i < n; i++) {
        same("key", i, data[i].x, keys[i]);
        same("value", i, data[i].y, keys[i] * 2654435761u);
    }
    return verdict();
}
