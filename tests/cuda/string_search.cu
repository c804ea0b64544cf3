// All places of several patterns in a text: direct comparison with early exit, and rolling hashes; places are
// collected with an atomic counter and come in any order.
#include "check.cuh"
#include <algorithm>
#include <cstring>

const int PATTERNS = 4;
const char* patterns[PATTERNS] = {"ab", "abba", "aaaa", "babab"};
__constant__ char needles[PATTERNS][8];
__constant__ int lengths[PATTERNS];

__global__ void compare(const char* text, int n, int* found, int* count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int p = 0; p < PATTERNS; p++) {
        int k = 0;
        while (k < lengths[p] && i + k < n && text[i + k] == needles[p][k]) k++;
        if (k == lengths[p]) found[atomicAdd(count, 1)] = i * PATTERNS + p;
    }
}

__global__ void hashes(const char* text, int n, int per_thread, unsigned* matches) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * per_thread;
    for (int p = 0; p < PATTERNS; p++) {
        int length = lengths[p];
        unsigned wanted = 0, hash = 0, top = 1;
        for (int k = 0; k < length; k++) wanted = wanted * 257 + needles[p][k];
        for (int k = 1; k < length; k++) top *= 257;
        for (int i = first; i < first + per_thread && i + length <= n; i++) {
            if (i == first)
                for (int k = 0; k < length; k++) hash = hash * 257 + text[i + k];
            else
                hash = (hash - text[i - 1] * top) * 257 + text[i + length - 1];
            if (hash == wanted) atomicAdd(&matches[p], 1);
        }
    }
}

int main() {
    const int n = 50000;
    Buffer<char> text(n);
    Random random;
    for (char& c : text.host) c = "aabbc"[random.below(5)];
    text.up();
    char padded[PATTERNS][8] = {};
    int sizes[PATTERNS];
    for (int p = 0; p < PATTERNS; p++) strcpy(padded[p], patterns[p]), sizes[p] = strlen(patterns[p]);
    CUDA(cudaMemcpyToSymbol(needles, padded, sizeof padded));
    CUDA(cudaMemcpyToSymbol(lengths, sizes, sizeof sizes));
    Buffer<int> found(n * PATTERNS), count(1);
    Buffer<unsigned> matches(PATTERNS);
    compare<<<(n + 127) / 128, 128>>>(text.device, n, found.device, count.device);
    hashes<<<(n + 64 * 50 - 1) / (64 * 50), 64>>>(text.device, n, 50, matches.device);
    found.down(), count.down(), matches.down();
    std::vector<int> want;
    std::vector<unsigned> by_pattern(PATTERNS, 0);
    for (int i = 0; i < n; i++)
        for (int p = 0; p < PATTERNS; p++)
            if (i + sizes[p] <= n && memcmp(&text[i], patterns[p], sizes[p]) == 0) {
                want.push_back(i * PATTERNS + p);
                by_pattern[p]++;
            }
    same("count", 0, count[0], (int)want.size());
    std::sort(found.host.begin(), found.host.begin() + std::min((int)want.size(), count[0]));
    for (size_t k = 0; k < want.size(); k++) same("place", k, found[k], want[k]);
    // with letters of 1 byte and at most 5 of them modulo 2^32, equal hashes of these texts mean equal texts
    for (int p = 0; p < PATTERNS; p++) same("hashed", p, matches[p], by_pattern[p]);
    return verdict();
}
