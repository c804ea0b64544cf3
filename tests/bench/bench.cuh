// What the benchmark programs share: arrays with a twin on the host, timing by events, and the lines that they print.
//
//   NAME MILLISECONDS ok|WRONG                 for each kernel that is timed
//   # NAME registers R local L shared S threads T blocks B
//                                              what one block of it takes, and how many an SM holds
//
// A program is one translation unit without dependencies; `nvcc -O3 -std=c++17 -arch=sm_90 NAME.cu` builds it. A line
// `// arch: sm_90a` in a program asks for another target.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#define CUDA(call)                                                                                          \
    do {                                                                                                    \
        cudaError_t error_ = (call);                                                                        \
        if (error_ != cudaSuccess) {                                                                        \
            printf("! %s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));                        \
            exit(1);                                                                                        \
        }                                                                                                   \
    } while (0)

/// Steele, Lea and Flood's splitmix64: the same numbers on every machine.
struct Random {
    uint64_t state;
    explicit Random(uint64_t seed = 1) : state(seed) {}
    uint64_t next64() {
        uint64_t z = state += 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    uint32_t next() { return (uint32_t)(next64() >> 32); }
    uint32_t below(uint32_t bound) { return (uint32_t)(((uint64_t)next() * bound) >> 32); }
    float uniform(float low = 0, float high = 1) { return low + (high - low) * (next() >> 8) * (1.0f / 16777216.0f); }
};

/// An array on the host with its twin on the device.
template <typename T>
struct Array {
    std::vector<T> host;
    T* device = nullptr;

    explicit Array(size_t count, T fill = T()) : host(count, fill) { allocate(); }
    /// Element i is `make(i)`.
    template <typename Make, typename = decltype(std::declval<Make>()(size_t()))>
    Array(size_t count, Make make) : host(count) {
        for (size_t i = 0; i < count; i++) host[i] = make(i);
        allocate();
    }
    explicit Array(std::vector<T> values) : host(std::move(values)) { allocate(); }
    ~Array() { cudaFree(device); }
    Array(const Array&) = delete;

    void up() { CUDA(cudaMemcpy(device, host.data(), bytes(), cudaMemcpyHostToDevice)); }
    /// The device's content.
    std::vector<T> down() const {
        std::vector<T> result(host.size());
        CUDA(cudaDeviceSynchronize());
        CUDA(cudaMemcpy(result.data(), device, bytes(), cudaMemcpyDeviceToHost));
        return result;
    }
    void clear() { CUDA(cudaMemset(device, 0, bytes())); }
    size_t size() const { return host.size(); }
    size_t bytes() const { return host.size() * sizeof(T); }
    const T& operator[](size_t i) const { return host[i]; }
    operator T*() const { return device; }

private:
    void allocate() {
        CUDA(cudaMalloc(&device, bytes()));
        up();
    }
};

inline bool close(double got, double want, double tolerance, double scale = 0) {
    return std::isfinite(got) && fabs(got - want) <= tolerance * std::max(fabs(want), scale);
}

/// Whether `good(i)` holds for `samples` indices below `count`, spread over all of them; the last is among them.
template <typename Good>
bool check_samples(size_t count, size_t samples, Good good) {
    samples = std::min(samples, count);
    for (size_t k = 0; k < samples; k++) {
        size_t i = k + 1 == samples ? count - 1 : (k * (count / samples) + k * 7919) % count;
        if (!good(i)) {
            printf("! differs at %zu of %zu\n", i, count);
            return false;
        }
    }
    return true;
}

/// Milliseconds of one `launch`: the median over samples of as many launches as last half a millisecond. With `reset`,
/// which is not timed, each sample is one launch.
template <typename Launch, typename Reset>
double median_ms(Launch launch, Reset reset, bool has_reset) {
    cudaEvent_t start, stop;
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&stop));
    auto sample = [&](int launches) {
        reset();
        CUDA(cudaEventRecord(start));
        for (int i = 0; i < launches; i++) launch();
        CUDA(cudaEventRecord(stop));
        CUDA(cudaEventSynchronize(stop));
        float ms = 0;
        CUDA(cudaEventElapsedTime(&ms, start, stop));
        return ms / launches;
    };
    // The clocks rise within the first milliseconds of work.
    double once = 1e9, total = 0;
    for (int i = 0; i < 200 && (total < 25 || i < 3); i++) {
        double ms = sample(1);
        once = std::min(once, ms);
        total += ms;
    }
    int launches = has_reset ? 1 : (int)std::min(50.0, std::max(1.0, ceil(0.5 / once)));
    int samples = (int)std::min(41.0, std::max(7.0, 80 / (once * launches)));
    std::vector<double> times(samples);
    for (double& ms : times) ms = sample(launches);
    CUDA(cudaGetLastError());
    CUDA(cudaEventDestroy(start));
    CUDA(cudaEventDestroy(stop));
    std::nth_element(times.begin(), times.begin() + samples / 2, times.end());
    return times[samples / 2];
}

/// Launches once, calls `check`, then times. `reset` puts back the input of a kernel that works in place; it is called
/// before every launch.
template <typename Launch, typename Check, typename Reset>
void bench(const char* name, Launch launch, Check check, Reset reset, bool has_reset = true) {
    reset();
    launch();
    CUDA(cudaGetLastError());
    CUDA(cudaDeviceSynchronize());
    bool good = check();
    printf("%s %.6f %s\n", name, median_ms(launch, reset, has_reset), good ? "ok" : "WRONG");
    fflush(stdout);
}

template <typename Launch, typename Check>
void bench(const char* name, Launch launch, Check check) {
    bench(name, launch, check, [] {}, false);
}

/// Prints what a block of a kernel takes, and how many of them an SM holds.
template <typename Kernel>
void resources(const char* name, Kernel* kernel, int threads, size_t dynamic_shared = 0) {
    cudaFuncAttributes a;
    int blocks = 0;
    CUDA(cudaFuncGetAttributes(&a, (const void*)kernel));
    CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, dynamic_shared));
    printf("# %s registers %d local %zu shared %zu threads %d blocks %d\n", name, a.numRegs, a.localSizeBytes,
           a.sharedSizeBytes + dynamic_shared, threads, blocks);
}

inline unsigned blocks_for(size_t count, unsigned threads) { return (unsigned)((count + threads - 1) / threads); }
