// Texture objects: fetches, 1D, 2D, 3D and layered lookups, filters, address modes, gather, floats, bytes and integers.
// Every coordinate is chosen so that the filter's weights are 0, 1/2 or 1: the results are exact.
#include "check.cuh"

const int W = 16, H = 8, D = 4;

cudaTextureObject_t texture(cudaArray_t array, cudaTextureFilterMode filter, cudaTextureAddressMode address,
                            bool normalised = false) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how = {};
    for (auto& mode : how.addressMode) mode = address;
    how.filterMode = filter;
    how.readMode = cudaReadModeElementType;
    how.normalizedCoords = normalised;
    cudaTextureObject_t object;
    CUDA(cudaCreateTextureObject(&object, &resource, &how, nullptr));
    return object;
}

template <typename T>
cudaArray_t array(const std::vector<T>& data, int depth, unsigned flags) {
    cudaArray_t made;
    auto format = cudaCreateChannelDesc<T>();
    CUDA(cudaMalloc3DArray(&made, &format, make_cudaExtent(W, H, depth), flags));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr((void*)data.data(), W * sizeof(T), W, H);
    copy.dstArray = made;
    copy.extent = make_cudaExtent(W, H, depth ? depth : 1);
    copy.kind = cudaMemcpyHostToDevice;
    CUDA(cudaMemcpy3D(&copy));
    return made;
}

struct Textures {
    cudaTextureObject_t linear, border, wrapped, volume, layers, bytes, line;
};

__global__ void look(Textures t, float* out, int stride) {
    int x = threadIdx.x, y = threadIdx.y, i = y * W + x;
    out[i] = tex2D<float>(t.linear, x + 0.5f, y + 0.5f);
    out[i + stride] = tex2D<float>(t.linear, x + 1.0f, y + 1.0f);
    out[i + 2 * stride] = tex2D<float>(t.border, x - 3.5f, y + 2.5f);
    out[i + 3 * stride] = tex2D<float>(t.wrapped, (x + 0.5f) / W + 3, (y + 0.5f) / H - 2);
    out[i + 4 * stride] = tex3D<float>(t.volume, x + 0.5f, y + 0.5f, x % D + 0.5f);
    out[i + 5 * stride] = tex2DLayered<float>(t.layers, x + 0.5f, y + 0.5f, y % D);
    uchar4 texel = tex2D<uchar4>(t.bytes, x + 0.5f, y + 0.5f);
    out[i + 6 * stride] = texel.x + 256 * texel.w;
    out[i + 7 * stride] = tex1Dfetch<int2>(t.line, i).y;
    float4 four = tex2Dgather<float4>(t.linear, x + 1.0f, y + 1.0f, 0);
    out[i + 8 * stride] = four.x + 2 * four.y + 4 * four.z + 8 * four.w;
}

int main() {
    const int n = W * H;
    std::vector<float> flat(n), deep(n * D);
    std::vector<uchar4> colours(n);
    Buffer<int2> line(n);
    for (int i = 0; i < n; i++) flat[i] = i * i % 61 * 4, colours[i] = make_uchar4(i, 1, 2, 255 - i);
    for (int i = 0; i < n * D; i++) deep[i] = i * 3 % 1009;
    for (int i = 0; i < n; i++) line[i] = make_int2(-i, 5 * i - 100);
    line.up();
    cudaArray_t plane = array(flat, 0, cudaArrayTextureGather), volume = array(deep, D, 0);
    cudaArray_t layers = array(deep, D, cudaArrayLayered), bytes = array(colours, 0, 0);
    Textures t;
    t.linear = texture(plane, cudaFilterModeLinear, cudaAddressModeClamp);
    t.border = texture(plane, cudaFilterModePoint, cudaAddressModeBorder);
    t.wrapped = texture(plane, cudaFilterModePoint, cudaAddressModeWrap, true);
    t.volume = texture(volume, cudaFilterModePoint, cudaAddressModeClamp);
    t.layers = texture(layers, cudaFilterModePoint, cudaAddressModeClamp);
    t.bytes = texture(bytes, cudaFilterModePoint, cudaAddressModeClamp);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear = {line.device, cudaCreateChannelDesc<int2>(), n * sizeof(int2)};
    cudaTextureDesc how = {};
    CUDA(cudaCreateTextureObject(&t.line, &resource, &how, nullptr));
    Buffer<float> out(9 * n, -1);
    look<<<1, dim3(W, H)>>>(t, out.device, n);
    out.down();
    auto at = [&](int x, int y) { return flat[(y < H ? y : H - 1) * W + (x < W ? x : W - 1)]; };
    for (int i = 0; i < n; i++) {
        int x = i % W, y = i / W;
        float a = at(x, y), b = at(x + 1, y), c = at(x, y + 1), d = at(x + 1, y + 1);
        bool outside = x < 4 || y + 2 >= H;
        same("texel", i, out[i], a);
        same("mean", i, out[i + n], (a + b + c + d) / 4);
        same("border", i, out[i + 2 * n], outside ? 0 : at(x - 4, y + 2));
        same("wrapped", i, out[i + 3 * n], a);
        same("volume", i, out[i + 4 * n], deep[x % D * n + i]);
        same("layer", i, out[i + 5 * n], deep[y % D * n + i]);
        same("colour", i, out[i + 6 * n], (float)(i + 256 * (255 - i)));
        same("line", i, out[i + 7 * n], (float)(5 * i - 100));
        same("gather", i, out[i + 8 * n], c + 2 * d + 4 * b + 8 * a);
    }
    return verdict();
}
