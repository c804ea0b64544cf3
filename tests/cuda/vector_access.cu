// Loads and stores of every width and cache hint: bytes to 16-byte vectors, read-only, streaming, volatile, unaligned.
#include "check.cuh"

template <typename T>
__global__ void copy(const T* __restrict__ in, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[n - 1 - i] = in[i];
}

__global__ void hints(const float4* in, float4* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 a = __ldg(&in[i]), b = __ldcs(&in[i]), c = __ldcg(&in[i]), d = __ldca(&in[i]);
    float4 r = make_float4(a.x, b.y, c.z, d.w);
    if (i % 3 == 0) __stcs(&out[i], r);
    else if (i % 3 == 1) __stcg(&out[i], r);
    else __stwt(&out[i], r);
}

// Fields of a packed structure lie at odd addresses and are put together from bytes.
struct __attribute__((packed)) Record {
    unsigned char tag;
    unsigned short small;
    unsigned word;
    unsigned long long large;
};

__global__ void packed(const Record* in, unsigned long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i].tag + in[i].small * 3ull + in[i].word * 5ull + in[i].large * 7;
}

template <typename T>
void check(const char* what) {
    const int n = 1000;
    Buffer<T> in(n), out(n);
    Random random;
    unsigned char* bytes = (unsigned char*)in.host.data();
    for (size_t k = 0; k < n * sizeof(T); k++) bytes[k] = random.next() >> 24;
    in.up();
    copy<<<(n + 127) / 128, 128>>>(in.device, out.device, n);
    out.down();
    unsigned char* copied = (unsigned char*)out.host.data();
    for (size_t k = 0; k < n * sizeof(T); k++) {
        size_t from = (n - 1 - k / sizeof(T)) * sizeof(T) + k % sizeof(T);
        same(what, k, (int)copied[k], (int)bytes[from]);
    }
}

int main() {
    check<unsigned char>("1 byte"), check<char2>("2 bytes"), check<char3>("3 bytes"), check<short>("short");
    check<short4>("short4"), check<int>("int"), check<int3>("int3"), check<float2>("float2"), check<int4>("int4");
    check<double>("double"), check<longlong2>("longlong2"), check<uchar4>("uchar4"), check<double4_16a>("double4");
    const int n = 3000;
    Buffer<float4> in(n), out(n);
    Buffer<Record> records(n);
    Buffer<unsigned long long> sums(n);
    for (int i = 0; i < n; i++) {
        in[i] = make_float4(i, i + 0.25f, -i, i * 2);
        records[i] = {(unsigned char)i, (unsigned short)(i * 31), i * 99991u, i * 1234567891011ull};
    }
    in.up(), records.up();
    hints<<<(n + 127) / 128, 128>>>(in.device, out.device, n);
    packed<<<(n + 127) / 128, 128>>>(records.device, sums.device, n);
    out.down(), sums.down();
    for (int i = 0; i < n; i++) {
        same("hinted", i, out[i].x + out[i].y + out[i].z + out[i].w, in[i].x + in[i].y + in[i].z + in[i].w);
        same("packed", i, sums[i],
             (unsigned char)i + (unsigned short)(i * 31) * 3ull + i * 99991u * 5ull + i * 1234567891011ull * 7);
    }
    return verdict();
}
