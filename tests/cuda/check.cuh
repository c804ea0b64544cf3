// What the programs share: arrays with a twin on the host, comparisons that count their failures, and the verdict.
//
// A program passes only if it printed PASS and left with exit code 0; `verdict` fails when nothing was compared.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA(call)                                                                                        \
    do {                                                                                                  \
        cudaError_t error_ = (call);                                                                      \
        if (error_ != cudaSuccess) {                                                                      \
            printf("%s:%d: %s\nFAIL\n", __FILE__, __LINE__, cudaGetErrorString(error_));                  \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

/// Waits for the kernels that were launched and ends the program if one of them failed.
inline void finish_kernels() {
    CUDA(cudaGetLastError());
    CUDA(cudaDeviceSynchronize());
}

/// An array on the host with its twin on the device. `up` and `down` copy all of it.
template <typename T>
struct Buffer {
    std::vector<T> host;
    T* device = nullptr;

    explicit Buffer(size_t count, T fill = T()) : host(count, fill) {
        CUDA(cudaMalloc(&device, count * sizeof(T)));
        up();
    }
    ~Buffer() { cudaFree(device); }
    Buffer(const Buffer&) = delete;

    void up() { CUDA(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice)); }
    void down() {
        finish_kernels();
        CUDA(cudaMemcpy(host.data(), device, host.size() * sizeof(T), cudaMemcpyDeviceToHost));
    }
    size_t size() const { return host.size(); }
    T& operator[](size_t i) { return host[i]; }
};

/// Marsaglia's xorshift32: the same numbers on every machine.
struct Random {
    uint32_t state = 2463534242u;
    uint32_t next() {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        return state;
    }
    uint64_t next64() {
        uint64_t high = next();
        return high << 32 | next();
    }
    uint32_t below(uint32_t bound) { return next() % bound; }
    double between(double low, double high) { return low + (high - low) * (next() / 4294967296.0); }
};

inline long comparisons = 0, failures = 0;

inline void count_comparison(bool good, const char* what, size_t i, double got, double want) {
    comparisons++;
    if (good) return;
    if (failures++ < 5) printf("%s[%zu]: got %.17g, want %.17g\n", what, i, got, want);
}

/// Equal, or both NaN.
template <typename T>
void same(const char* what, size_t i, T got, T want) {
    count_comparison(got == want || (got != got && want != want), what, i, (double)got, (double)want);
}

/// At most `tolerance` times the wanted value (or times `scale`, where that is larger) away, or equal, or both NaN.
inline void near(const char* what, size_t i, double got, double want, double tolerance, double scale = 0) {
    double allowed = tolerance * fmax(fabs(want), scale);
    bool equal = got == want || (got != got && want != want);
    count_comparison(equal || (std::isfinite(want) && fabs(got - want) <= allowed), what, i, got, want);
}

/// The exit code of the program, with PASS or FAIL printed before it.
inline int verdict() {
    finish_kernels();
    bool good = failures == 0 && comparisons > 0;
    if (!good) printf("%ld of %ld comparisons failed\n", failures, comparisons);
    puts(good ? "PASS" : "FAIL");
    return good ? 0 : 1;
}
