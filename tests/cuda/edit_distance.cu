// Edit distance of many pairs of words: a block for each pair, along the diagonals, three rotating rows in shared memory.
#include "check.cuh"
#include <algorithm>

const int LONGEST = 100;

__global__ void distances(const char* left, const char* right, const int* lengths, int* out) {
    __shared__ int rows[3][LONGEST + 1];
    const char *a = left + blockIdx.x * LONGEST, *b = right + blockIdx.x * LONGEST;
    int m = lengths[2 * blockIdx.x], n = lengths[2 * blockIdx.x + 1], i = threadIdx.x;
    for (int diagonal = 0; diagonal <= m + n; diagonal++) {
        int *now = rows[diagonal % 3], *last = rows[(diagonal + 2) % 3], *before = rows[(diagonal + 1) % 3];
        int j = diagonal - i;
        if (i <= m && j >= 0 && j <= n) {
            if (i == 0 || j == 0) now[i] = i + j;
            else now[i] = min(min(last[i - 1], last[i]) + 1, before[i - 1] + (a[i - 1] != b[j - 1]));
        }
        __syncthreads();
    }
    if (i == m) out[blockIdx.x] = rows[(m + n) % 3][m];
}

int main() {
    const int pairs = 200;
    Buffer<char> left(pairs * LONGEST), right(pairs * LONGEST);
    Buffer<int> lengths(2 * pairs), out(pairs, -1);
    Random random;
    for (char& c : left.host) c = 'a' + random.below(4);
    for (size_t i = 0; i < right.size(); i++) right[i] = random.below(5) ? left[i] : 'a' + random.below(4);
    for (int& l : lengths.host) l = random.below(LONGEST + 1);
    left.up(), right.up(), lengths.up();
    distances<<<pairs, 128>>>(left.device, right.device, lengths.device, out.device);
    out.down();
    for (int p = 0; p < pairs; p++) {
        int m = lengths[2 * p], n = lengths[2 * p + 1];
        std::vector<std::vector<int>> d(m + 1, std::vector<int>(n + 1));
        for (int i = 0; i <= m; i++)
            for (int j = 0; j <= n; j++) {
                if (i == 0 || j == 0) d[i][j] = i + j;
                else {
                    bool other = left[p * LONGEST + i - 1] != right[p * LONGEST + j - 1];
                    d[i][j] = std::min(std::min(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + other);
                }
            }
        same("distance", p, out[p], d[m][n]);
    }
    return verdict();
}
