// Managed memory: a list and a variable that host and device both read and write.
#include "check.cuh"

struct Node {
    int value;
    Node* next;
};

__managed__ int total = 1000;
__managed__ int table[4] = {3, 1, 4, 1};

__global__ void add_up(Node* head, int n) {
    int i = threadIdx.x;
    Node* node = head;
    for (int k = 0; k < i && node; k++) node = node->next;
    if (i < n && node) {
        atomicAdd(&total, node->value);
        node->value *= table[i % 4];
    }
}

int main() {
    const int n = 50;
    Node* nodes;
    CUDA(cudaMallocManaged(&nodes, n * sizeof(Node)));
    int want = 1007;
    for (int i = 0; i < n; i++) {
        int at = i * 7 % n;
        nodes[at].value = i * i;
        nodes[at].next = i + 1 < n ? &nodes[(i + 1) * 7 % n] : nullptr;
        want += i * i;
    }
    total += 7;
    table[3] = 5;
    add_up<<<1, 64>>>(&nodes[0], n);
    finish_kernels();
    same("total", 0, total, want);
    const int factors[4] = {3, 1, 4, 5};
    for (int i = 0; i < n; i++) same("node", i, nodes[i * 7 % n].value, i * i * factors[i % 4]);
    CUDA(cudaFree(nodes));
    return verdict();
}
