// malloc and free on the device: lists that one kernel builds, another reads and a third takes apart.
#include "check.cuh"

struct Node {
    int value;
    Node* next;
};

__global__ void build(Node** lists, int* failed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Node* head = nullptr;
    for (int k = 0; k < i % 17; k++) {
        Node* node = (Node*)malloc(sizeof(Node));
        if (!node) {
            atomicAdd(failed, 1);
            break;
        }
        node->value = i * k;
        node->next = head;
        head = node;
    }
    lists[i] = head;
}

__global__ void read(Node** lists, int* sums) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0, place = 0;
    for (Node* node = lists[i]; node; node = node->next) sum += node->value * ++place;
    sums[i] = sum;
}

__global__ void take_apart(Node** lists, int* counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, count = 0;
    for (Node* node = lists[i]; node; count++) {
        Node* next = node->next;
        free(node);
        node = next;
    }
    counts[i] = count;
}

// A buffer for the block, taken by one thread and used by all.
__global__ void shared_buffer(int* out) {
    __shared__ int* buffer;
    if (threadIdx.x == 0) buffer = (int*)malloc(blockDim.x * sizeof(int));
    __syncthreads();
    buffer[threadIdx.x] = threadIdx.x * 3;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(buffer);
}

int main() {
    const int n = 1024;
    Buffer<Node*> lists(n);
    Buffer<int> failed(1), sums(n), counts(n), mirrored(n);
    build<<<n / 128, 128>>>(lists.device, failed.device);
    read<<<n / 128, 128>>>(lists.device, sums.device);
    take_apart<<<n / 128, 128>>>(lists.device, counts.device);
    shared_buffer<<<n / 128, 128>>>(mirrored.device);
    failed.down(), sums.down(), counts.down(), mirrored.down();
    same("failed", 0, failed[0], 0);
    for (int i = 0; i < n; i++) {
        int length = i % 17, sum = 0;
        for (int place = 1; place <= length; place++) sum += i * (length - place) * place;
        same("sum", i, sums[i], sum);
        same("count", i, counts[i], length);
        same("buffer", i, mirrored[i], (127 - i % 128) * 3);
    }
    return verdict();
}
