// Bytes: base64 in both directions, numbers read from text, and letters counted by SIMD within a word.
#include "bench.cuh"

__device__ inline char to_letter(unsigned v) {
    if (v < 26) return 'A' + v;
    if (v < 52) return 'a' + v - 26;
    if (v < 62) return '0' + v - 52;
    return v == 62 ? '+' : '/';
}

__global__ void base64_encode(const uint8_t* __restrict__ in, uchar4* __restrict__ out, int triples) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= triples) return;
    unsigned v = in[i * 3] << 16 | in[i * 3 + 1] << 8 | in[i * 3 + 2];
    out[i] = make_uchar4(to_letter(v >> 18), to_letter(v >> 12 & 63), to_letter(v >> 6 & 63), to_letter(v & 63));
}

__device__ inline int from_letter(char c) {
    switch (c) {
        case '+': return 62;
        case '/': return 63;
        default: return c >= 'a' ? c - 'a' + 26 : c >= 'A' ? c - 'A' : c - '0' + 52;
    }
}

__global__ void base64_decode(const uchar4* __restrict__ in, uint8_t* __restrict__ out, int triples) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= triples) return;
    uchar4 c = in[i];
    unsigned v = from_letter(c.x) << 18 | from_letter(c.y) << 12 | from_letter(c.z) << 6 | from_letter(c.w);
    out[i * 3] = v >> 16;
    out[i * 3 + 1] = v >> 8;
    out[i * 3 + 2] = v;
}

__global__ void parse_numbers(const char* text, const int* start, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const char* p = text + start[i];
    bool negative = *p == '-';
    if (negative) p++;
    long long digits = 0;
    int scale = 0;
    bool fraction = false;
    for (;; p++) {
        char c = *p;
        if (c >= '0' && c <= '9') {
            digits = digits * 10 + (c - '0');
            scale += fraction;
        } else if (c == '.') fraction = true;
        else break;
    }
    double value = (double)digits;
    for (; scale > 0; scale--) value /= 10;
    out[i] = negative ? -value : value;
}

__global__ void count_lines(const uint4* __restrict__ text, int n, unsigned* count) {
    unsigned lines = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint4 v = text[i];
        lines += __popc(__vcmpeq4(v.x, 0x0a0a0a0au)) + __popc(__vcmpeq4(v.y, 0x0a0a0a0au)) + __popc(__vcmpeq4(v.z, 0x0a0a0a0au)) + __popc(__vcmpeq4(v.w, 0x0a0a0a0au));
    }
    lines = __reduce_add_sync(~0u, lines / 8);
    if (threadIdx.x % 32 == 0) atomicAdd(count, lines);
}

int main() {
    int triples = 1 << 21;
    Random random;
    Array<uint8_t> in((size_t)triples * 3, [&](size_t) { return (uint8_t)random.next(); }), back(in.size());
    Array<uchar4> letters(triples);
    bench("base64_encode", [&] { base64_encode<<<blocks_for(triples, 256), 256>>>(in, letters, triples); }, [&] {
        auto got = letters.down();
        const char* alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        return check_samples(triples, 50000, [&](size_t i) {
            unsigned v = in[i * 3] << 16 | in[i * 3 + 1] << 8 | in[i * 3 + 2];
            return got[i].x == alphabet[v >> 18] && got[i].y == alphabet[v >> 12 & 63] && got[i].z == alphabet[v >> 6 & 63] && got[i].w == alphabet[v & 63];
        });
    });
    bench("base64_decode", [&] { base64_decode<<<blocks_for(triples, 256), 256>>>(letters, back, triples); }, [&] { return back.down() == in.host; });
    int n = 1 << 18;
    std::vector<char> text;
    std::vector<int> start;
    std::vector<double> want;
    for (int i = 0; i < n; i++) {
        char buffer[40];
        double value = (int)random.next() / 1000.0;
        int length = snprintf(buffer, sizeof buffer, "%.3f\n", value);
        start.push_back((int)text.size());
        text.insert(text.end(), buffer, buffer + length);
        want.push_back(value);
    }
    text.resize((text.size() + 15) / 16 * 16, ' ');
    Array<char> d_text(text);
    Array<int> d_start(start);
    Array<double> numbers(n);
    Array<unsigned> count(1);
    bench("parse_numbers", [&] { parse_numbers<<<blocks_for(n, 256), 256>>>(d_text, d_start, numbers, n); }, [&] {
        auto got = numbers.down();
        return check_samples(n, n, [&](size_t i) { return close(got[i], want[i], 1e-12); });
    });
    int words = (int)(in.size() / 16);
    bench("count_lines", [&] { count_lines<<<132 * 8, 256>>>((const uint4*)in.device, words, count); }, [&] {
        unsigned lines = 0;
        for (int i = 0; i < words * 16; i++) lines += in[i] == 10;
        return count.down()[0] == lines;
    }, [&] { count.clear(); });
    resources("base64_encode", base64_encode, 256);
    resources("base64_decode", base64_decode, 256);
    resources("parse_numbers", parse_numbers, 256);
    resources("count_lines", count_lines, 256);
}
