// Surface objects: writes and reads of 1D, 2D, 3D and layered arrays in several formats, and the boundary modes.
#include "check.cuh"

const int W = 16, H = 8, D = 4;

template <typename T>
cudaSurfaceObject_t surface(cudaArray_t& array, int height, int depth, unsigned flags) {
    auto format = cudaCreateChannelDesc<T>();
    CUDA(cudaMalloc3DArray(&array, &format, make_cudaExtent(W, height, depth), flags | cudaArraySurfaceLoadStore));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t object;
    CUDA(cudaCreateSurfaceObject(&object, &resource));
    return object;
}

struct Surfaces {
    cudaSurfaceObject_t line, plane, volume, layers;
};

__global__ void write(Surfaces s) {
    int x = threadIdx.x, y = threadIdx.y, i = y * W + x;
    if (y == 0) surf1Dwrite((unsigned short)(x * 1001), s.line, x * sizeof(short));
    surf2Dwrite(make_float4(i, -i, 0.5f, i * 0.25f), s.plane, x * sizeof(float4), y);
    surf2Dwrite(make_float4(7, 7, 7, 7), s.plane, (x + W) * sizeof(float4), y, cudaBoundaryModeZero);   // dropped
    for (int z = 0; z < D; z++) {
        surf3Dwrite(1000 * z + i, s.volume, x * sizeof(int), y, z);
        surf2DLayeredwrite((unsigned char)(z * 64 + i), s.layers, x, y, z);
    }
}

__global__ void read(Surfaces s, float* out, int stride) {
    int x = threadIdx.x, y = threadIdx.y, i = y * W + x, z = (x + y) % D;
    out[i] = surf1Dread<unsigned short>(s.line, x * sizeof(short));
    float4 v = surf2Dread<float4>(s.plane, (W - 1 - x) * sizeof(float4), H - 1 - y);
    out[i + stride] = v.x + v.y + v.z + v.w;
    out[i + 2 * stride] = surf2Dread<float4>(s.plane, (x + 1) * sizeof(float4), y, cudaBoundaryModeZero).w;
    out[i + 3 * stride] = surf3Dread<int>(s.volume, x * sizeof(int), y, z);
    out[i + 4 * stride] = surf2DLayeredread<unsigned char>(s.layers, x, y, z);
    out[i + 5 * stride] = surf2Dread<float4>(s.plane, (x + 1) * sizeof(float4), y, cudaBoundaryModeClamp).x;
}

int main() {
    const int n = W * H;
    cudaArray_t line, plane, volume, layers;
    Surfaces s;
    s.line = surface<unsigned short>(line, 0, 0, 0);
    s.plane = surface<float4>(plane, H, 0, 0);
    s.volume = surface<int>(volume, H, D, 0);
    s.layers = surface<unsigned char>(layers, H, D, cudaArrayLayered);
    Buffer<float> out(6 * n, -1);
    write<<<1, dim3(W, H)>>>(s);
    read<<<1, dim3(W, H)>>>(s, out.device, n);
    out.down();
    std::vector<float4> texels(n);
    CUDA(cudaMemcpy2DFromArray(texels.data(), W * sizeof(float4), plane, 0, 0, W * sizeof(float4), H,
                               cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        int x = i % W, y = i / W, z = (x + y) % D;
        same("line", i, out[i], x * 1001.0f);
        same("plane", i, out[i + n], 0.5f + (n - 1 - i) * 0.25f);
        same("zero outside", i, out[i + 2 * n], x + 1 < W ? (i + 1) * 0.25f : 0.0f);
        same("volume", i, out[i + 3 * n], 1000.0f * z + i);
        same("layer", i, out[i + 4 * n], (float)(unsigned char)(z * 64 + i));
        same("clamped", i, out[i + 5 * n], (float)(x + 1 < W ? i + 1 : i));
        same("copied", i, texels[i].w, i * 0.25f);
    }
    return verdict();
}
