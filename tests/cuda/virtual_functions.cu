// Virtual functions: objects made on the device with new, tables of functions in global memory, two levels of classes.
#include "check.cuh"

struct Shape {
    __host__ __device__ virtual ~Shape() {}
    __host__ __device__ virtual double area() const = 0;
    __host__ __device__ virtual int corners() const { return 0; }
};
struct Circle : Shape {
    double radius;
    __host__ __device__ Circle(double r) : radius(r) {}
    __host__ __device__ double area() const override { return 3.0 * radius * radius; }
};
struct Rectangle : Shape {
    double width, height;
    __host__ __device__ Rectangle(double w, double h) : width(w), height(h) {}
    __host__ __device__ double area() const override { return width * height; }
    __host__ __device__ int corners() const override { return 4; }
};
struct Square : Rectangle {
    __host__ __device__ Square(double side) : Rectangle(side, side) {}
    __host__ __device__ int corners() const override { return Rectangle::corners() + 100; }
};

__host__ __device__ Shape* make(int i) {
    switch (i % 3) {
    case 0: return new Circle(i);
    case 1: return new Rectangle(i, i + 1);
    default: return new Square(i);
    }
}

__global__ void create(Shape** shapes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    shapes[i] = make(i);
}

__global__ void measure(Shape** shapes, double* areas, int* corners) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    areas[i] = shapes[i]->area();
    corners[i] = shapes[i]->corners();
}

__global__ void destroy(Shape** shapes) { delete shapes[blockIdx.x * blockDim.x + threadIdx.x]; }

int main() {
    const int n = 512;
    Buffer<Shape*> shapes(n);
    Buffer<double> areas(n);
    Buffer<int> corners(n);
    create<<<n / 64, 64>>>(shapes.device);
    measure<<<n / 64, 64>>>(shapes.device, areas.device, corners.device);
    destroy<<<n / 64, 64>>>(shapes.device);
    areas.down(), corners.down();
    for (int i = 0; i < n; i++) {
        Shape* shape = make(i);
        same("area", i, areas[i], shape->area());
        same("corners", i, corners[i], shape->corners());
        delete shape;
    }
    return verdict();
}
