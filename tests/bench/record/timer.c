// Times each kernel of a CUDA program on the GPU, and gives the program other code than it was built with. It is loaded
// into a program that nvcc linked with `-cudart shared`, by LD_PRELOAD and, for CUPTI, by CUDA_INJECTION64_PATH.
// ../kernels.py does both.
//
//   CODE           a folder of fat binaries: the program's own is replaced by the file whose name is the hash of its bytes
//   TIMES          the file that the times go to: `# swapped N kept N`, the fat binaries that were replaced or not; then
//                  for each kernel with a grid and a block
//                  NAME|GRID|BLOCK|REGISTERS|LAUNCHES|NANOSECONDS OF ALL|LEAST|MEDIAN
//   TIMER_SECONDS  how long after its first launch the program is ended (default 3)
//   GPU_LOCK       a file: only one program at a time goes on from its first launch, so that several can start at once
//
// Times are those that the GPU stamps, without the launch.

#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

static void stop(const char *what, const char *name) {
    fprintf(stderr, "timer: %s%s\n", what, name);
    _exit(120);
}

// ---- Code.

static int swapped, kept;

// What nvcc's host code hands to the runtime.
struct wrapper {
    int magic, version;
    const unsigned char *data;
    void *more;
};

// FNV-1a.
static uint64_t hash(const unsigned char *bytes, size_t size) {
    uint64_t hash = 0xcbf29ce484222325;
    while (size--) hash = (hash ^ *bytes++) * 0x100000001b3;
    return hash;
}

static unsigned char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    size_t size = ftell(file);
    rewind(file);
    unsigned char *bytes = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!bytes || fread(bytes, 1, size, file) != size) stop("cannot read ", path);
    fclose(file);
    return bytes;
}

API void **__cudaRegisterFatBinary(void *binary) {
    void **(*real)(void *) = (void **(*)(void *))dlsym(RTLD_NEXT, "__cudaRegisterFatBinary");
    const char *folder = getenv("CODE");
    struct wrapper *wrapper = binary;
    if (!folder || wrapper->magic != 0x466243b1) return real(binary);
    // The header says how long it is, and how long what follows.
    uint16_t header;
    uint64_t rest;
    memcpy(&header, wrapper->data + 6, sizeof header);
    memcpy(&rest, wrapper->data + 8, sizeof rest);
    char path[4096];
    snprintf(path, sizeof path, "%s/%016llx", folder, (unsigned long long)hash(wrapper->data, header + rest));
    unsigned char *other = read_file(path);
    if (!other) return kept++, real(binary);
    struct wrapper *copy = malloc(sizeof *copy);
    *copy = *wrapper;
    copy->data = other;
    return swapped++, real(copy);
}

// ---- Times.

enum { MOST_KERNELS = 4096, MOST_SAMPLES = 512, BUFFER = 4 << 20 };

static struct kernel {
    char *name;
    int grid[3], block[3];
    unsigned registers;
    unsigned long launches;
    double sum;
    int count;
    double samples[MOST_SAMPLES];
} *kernels;
static int kernel_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void add(const CUpti_ActivityKernel10 *activity) {
    const int grid[3] = {activity->gridX, activity->gridY, activity->gridZ};
    const int block[3] = {activity->blockX, activity->blockY, activity->blockZ};
    struct kernel *kernel = kernels;
    for (; kernel < kernels + kernel_count; kernel++)
        if (!memcmp(kernel->grid, grid, sizeof grid) && !memcmp(kernel->block, block, sizeof block) &&
            !strcmp(kernel->name, activity->name))
            break;
    if (kernel == kernels + kernel_count) {
        if (kernel_count == MOST_KERNELS) stop("too many kernels", "");
        kernel_count++;
        kernel->name = strdup(activity->name);
        memcpy(kernel->grid, grid, sizeof grid);
        memcpy(kernel->block, block, sizeof block);
        kernel->registers = activity->registersPerThread;
    }
    double nanoseconds = (double)(activity->end - activity->start);
    kernel->launches++;
    kernel->sum += nanoseconds;
    if (kernel->count < MOST_SAMPLES) kernel->samples[kernel->count++] = nanoseconds;
}

static void give_buffer(uint8_t **buffer, size_t *size, size_t *most) {
    *buffer = aligned_alloc(8, *size = BUFFER);
    *most = 0;
}

static void take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    (void)context, (void)stream, (void)size;
    pthread_mutex_lock(&lock);
    for (CUpti_Activity *record = NULL; cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS;)
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) add((const CUpti_ActivityKernel10 *)record);
    pthread_mutex_unlock(&lock);
    free(buffer);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void say(void) {
    static int said;
    if (said++) return;
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    pthread_mutex_lock(&lock);
    const char *path = getenv("TIMES");
    FILE *file = path ? fopen(path, "w") : stderr;
    if (!file) stop("cannot write ", path);
    fprintf(file, "# swapped %d kept %d\n", swapped, kept);
    for (struct kernel *k = kernels; k < kernels + kernel_count; k++) {
        qsort(k->samples, k->count, sizeof *k->samples, by_value);
        fprintf(file, "%s|%d,%d,%d|%d,%d,%d|%u|%lu|%.0f|%.0f|%.0f\n", k->name, k->grid[0], k->grid[1], k->grid[2],
                k->block[0], k->block[1], k->block[2], k->registers, k->launches, k->sum, k->samples[0],
                k->samples[k->count / 2]);
    }
    fflush(file);
    pthread_mutex_unlock(&lock);
}

// CUPTI's entry.
API int InitializeInjection(void) {
    kernels = calloc(MOST_KERNELS, sizeof *kernels);
    if (!kernels) stop("no memory", "");
    if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS)
        stop("CUPTI does not start", "");
    atexit(say);
    return 1;
}

// ---- The first launch.

static void *end_later(void *none) {
    const char *seconds = getenv("TIMER_SECONDS");
    usleep((useconds_t)((seconds ? atof(seconds) : 3) * 1e6));
    say();
    fflush(stdout);
    _exit(0);
    return none;
}

static void first_launch(void) {
    static int begun;
    if (begun++) return;
    const char *path = getenv("GPU_LOCK");
    int file = path ? open(path, O_RDWR | O_CREAT, 0666) : -1;
    if (path && (file < 0 || flock(file, LOCK_EX))) stop("cannot lock ", path);
    pthread_t thread;
    pthread_create(&thread, NULL, end_later, NULL);
}

#define LAUNCH(name, parameters, ...)                                  \
    API cudaError_t name parameters {                                  \
        __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
        return first_launch(), real(__VA_ARGS__);                      \
    }

LAUNCH(__cudaLaunchKernel, (cudaKernel_t k, dim3 g, dim3 b, void **a, size_t m, cudaStream_t s), k, g, b, a, m, s)
LAUNCH(cudaLaunchKernel, (const void *k, dim3 g, dim3 b, void **a, size_t m, cudaStream_t s), k, g, b, a, m, s)
LAUNCH(cudaLaunchCooperativeKernel, (const void *k, dim3 g, dim3 b, void **a, size_t m, cudaStream_t s), k, g, b, a, m, s)
LAUNCH(cudaLaunchKernelExC, (const cudaLaunchConfig_t *c, const void *k, void **a), c, k, a)
