// Monte Carlo: the area of a circle with xorshift, and an Asian option with Philox and Box-Muller.
#include "bench.cuh"

struct XorShift {
    uint32_t x, y, z, w;
    __device__ uint32_t next() {
        uint32_t t = x ^ (x << 11);
        x = y;
        y = z;
        z = w;
        return w = w ^ (w >> 19) ^ t ^ (t >> 8);
    }
    __device__ float uniform() { return (next() >> 8) * (1.0f / 16777216.0f); }
};

__global__ void circle_area(unsigned long long* inside, int per_thread, uint32_t seed) {
    uint32_t id = blockIdx.x * blockDim.x + threadIdx.x;
    XorShift random{id * 2654435761u + seed, id ^ 362436069u, 521288629u + id, 88675123u};
    for (int i = 0; i < 8; i++) random.next();
    int hits = 0;
    for (int i = 0; i < per_thread; i++) {
        float x = random.uniform(), y = random.uniform();
        if (x * x + y * y <= 1.0f) hits++;
    }
    hits = __reduce_add_sync(0xffffffff, hits);
    if (threadIdx.x % 32 == 0) atomicAdd(inside, (unsigned long long)hits);
}

__device__ inline uint4 philox(uint4 counter, uint2 key) {
#pragma unroll
    for (int i = 0; i < 10; i++) {
        uint32_t hi0 = __umulhi(0xd2511f53u, counter.x), lo0 = 0xd2511f53u * counter.x;
        uint32_t hi1 = __umulhi(0xcd9e8d57u, counter.z), lo1 = 0xcd9e8d57u * counter.z;
        counter = make_uint4(hi1 ^ counter.y ^ key.x, lo1, hi0 ^ counter.w ^ key.y, lo0);
        key.x += 0x9e3779b9u;
        key.y += 0xbb67ae85u;
    }
    return counter;
}

__device__ inline float2 normals(uint32_t a, uint32_t b) {
    float u = (a + 1.0f) * 2.3283064e-10f, v = b * 2.3283064e-10f;
    float radius = sqrtf(-2.0f * __logf(fminf(u, 1.0f))), s, c;
    __sincosf(6.2831853f * v, &s, &c);
    return make_float2(radius * c, radius * s);
}

__global__ void asian_option(float* payoff, int paths, int steps, float spot, float strike, float drift, float sigma, uint32_t seed) {
    int path = blockIdx.x * blockDim.x + threadIdx.x;
    if (path >= paths) return;
    float log_price = logf(spot), sum = 0;
    for (int step = 0; step < steps; step += 4) {
        uint4 bits = philox(make_uint4(path, step, 0, 0), make_uint2(seed, 42));
        float2 a = normals(bits.x, bits.y), b = normals(bits.z, bits.w);
        float z[4] = {a.x, a.y, b.x, b.y};
        for (int i = 0; i < 4; i++) {
            log_price += drift + sigma * z[i];
            sum += expf(log_price);
        }
    }
    payoff[path] = fmaxf(sum / steps - strike, 0.0f);
}

int main() {
    Array<unsigned long long> inside(1);
    int per_thread = 512, threads = 132 * 8 * 256;
    bench("circle_area", [&] { circle_area<<<threads / 256, 256>>>(inside, per_thread, 12345); }, [&] {
        return close(4.0 * inside.down()[0] / ((double)per_thread * threads), 3.14159265, 1e-3);
    }, [&] { inside.clear(); });
    int paths = 1 << 18, steps = 64;
    Array<float> payoff(paths);
    float years = 1, rate = 0.05f, volatility = 0.2f, dt = years / steps;
    bench("asian_option", [&] {
        asian_option<<<blocks_for(paths, 256), 256>>>(payoff, paths, steps, 100, 100, (rate - volatility * volatility / 2) * dt, volatility * sqrtf(dt), 7);
    }, [&] {
        double sum = 0;
        for (float p : payoff.down()) sum += p;
        // The value of this option is near 5.77 times the discount's inverse.
        return close(sum / paths * exp(-0.05), 5.8, 0.03);
    });
    resources("circle_area", circle_area, 256);
    resources("asian_option", asian_option, 256);
}
