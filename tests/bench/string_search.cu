// Searches in text: a pattern at every place, several patterns with an automaton, and bit-parallel with one substitution.
#include <string>

#include "bench.cuh"

__constant__ char pattern[32];

__global__ void search_naive(const char* __restrict__ text, int n, int length, int* count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool found = false;
    if (i + length <= n) {
        int j = 0;
        while (j < length && text[i + j] == pattern[j]) j++;
        found = j == length;
    }
    unsigned mask = __ballot_sync(~0u, found);
    if (mask && (threadIdx.x & 31) == __ffs(mask) - 1) atomicAdd(count, __popc(mask));
}

__global__ void search_automaton(const uint8_t* __restrict__ text, int n, const short* __restrict__ next, const uint8_t* __restrict__ hits,
                                 int states, int chunk, int overlap, int* count) {
    extern __shared__ short table[];
    for (int i = threadIdx.x; i < states * 4; i += blockDim.x) table[i] = next[i];
    __syncthreads();
    int start = (blockIdx.x * blockDim.x + threadIdx.x) * chunk, found = 0, state = 0;
    int end = min(start + chunk, n);
    for (int i = max(start - overlap, 0); i < end; i++) {
        state = table[state * 4 + (text[i] & 3)];
        if (i >= start) found += hits[state];
    }
    for (int d = 16; d > 0; d >>= 1) found += __shfl_xor_sync(~0u, found, d);
    if (threadIdx.x % 32 == 0 && found) atomicAdd(count, found);
}

__global__ void search_bits(const uint8_t* text, int n, uint4 masks, int length, int chunk, int* count) {
    __shared__ uint32_t mask[4];
    if (threadIdx.x == 0) mask[0] = masks.x, mask[1] = masks.y, mask[2] = masks.z, mask[3] = masks.w;
    __syncthreads();
    int start = (blockIdx.x * blockDim.x + threadIdx.x) * chunk, end = min(start + chunk, n), found = 0;
    uint32_t exact = 0, one = 0, goal = 1u << (length - 1);
    for (int i = max(start - length + 1, 0); i < end; i++) {
        uint32_t m = mask[text[i] & 3], before = exact;
        exact = (exact << 1 | 1) & m;
        one = ((one << 1 | 1) & m) | before << 1 | 1;
        if (i >= start && i >= length - 1 && (one & goal)) found++;
    }
    if (found) atomicAdd(count, found);
}

int main() {
    int n = 1 << 22, chunk = 32;
    Random random;
    Array<char> text(n, [&](size_t) { return (char)('A' + random.below(4)); });
    Array<uint8_t> codes(n, [&](size_t i) { return (uint8_t)(text[i] - 'A'); });
    Array<int> count(1);
    auto clear = [&] { count.clear(); };
    std::string all(text.host.begin(), text.host.end()), word = "ABCDABCA";
    auto occurrences = [&](const std::string& w) {
        int found = 0;
        for (size_t at = all.find(w); at != std::string::npos; at = all.find(w, at + 1)) found++;
        return found;
    };
    CUDA(cudaMemcpyToSymbol(pattern, word.data(), word.size()));
    int length = (int)word.size();
    bench("search_naive", [&] { search_naive<<<blocks_for(n, 256), 256>>>(text, n, length, count); }, [&] { return count.down()[0] == occurrences(word); }, clear);

    // Aho and Corasick's automaton.
    std::vector<std::string> words{"ABCDAB", "BBACD", "CCCAA", "DABDAB", "AACBDC", "DDDD"};
    std::vector<std::vector<int>> go(1, std::vector<int>(4, -1));
    std::vector<uint8_t> hits(1, 0);
    for (auto& w : words) {
        int s = 0;
        for (char c : w) {
            if (go[s][c - 'A'] < 0) {
                go[s][c - 'A'] = (int)go.size();
                go.push_back(std::vector<int>(4, -1));
                hits.push_back(0);
            }
            s = go[s][c - 'A'];
        }
        hits[s]++;
    }
    std::vector<int> fail(go.size(), 0), queue;
    for (int c = 0; c < 4; c++) {
        if (go[0][c] < 0) go[0][c] = 0;
        else queue.push_back(go[0][c]);
    }
    for (size_t i = 0; i < queue.size(); i++)
        for (int s = queue[i], c = 0; c < 4; c++) {
            int t = go[s][c], f = go[fail[s]][c];
            if (t < 0) go[s][c] = f;
            else fail[t] = f, hits[t] += hits[f], queue.push_back(t);
        }
    std::vector<short> flat;
    for (auto& row : go)
        for (int t : row) flat.push_back((short)t);
    Array<short> next(flat);
    Array<uint8_t> d_hits(hits);
    int states = (int)go.size(), blocks = blocks_for(n, 256 * chunk);
    bench("search_automaton", [&] { search_automaton<<<blocks, 256, states * 8>>>(codes, n, next, d_hits, states, chunk, 5, count); }, [&] {
        int want = 0;
        for (auto& w : words) want += occurrences(w);
        return count.down()[0] == want;
    }, clear);

    uint32_t masks[4] = {};
    for (int i = 0; i < length; i++) masks[word[i] - 'A'] |= 1u << i;
    bench("search_bits", [&] { search_bits<<<blocks, 256>>>(codes, n, make_uint4(masks[0], masks[1], masks[2], masks[3]), length, chunk, count); }, [&] {
        int want = 0;
        for (int i = 0; i + length <= n; i++) {
            int wrong = 0;
            for (int j = 0; j < length; j++) wrong += all[i + j] != word[j];
            want += wrong <= 1;
        }
        return count.down()[0] == want;
    }, clear);
    resources("search_naive", search_naive, 256);
    resources("search_automaton", search_automaton, 256, states * 8);
    resources("search_bits", search_bits, 256);
}
