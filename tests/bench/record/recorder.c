// Stands in for the CUDA runtime where there is no GPU: a program that is linked with it runs on the host alone, and what
// it launches is written down for `sassafras profile --recording`. ../predict.py builds programs with it.
//
//   RECORD_TO        the folder that recordings go to
//   RECORD_KERNELS   a file with a line for each kernel, `NAME BYTES OFFSET:SIZE ...`: its parameters, which the
//                    runtime would find in the cubin
//   RECORD_RUN       a command that executes a recording (docs/profile.md): `COMMAND KERNEL RECORDING CHANGES`;
//                    without it nothing is executed, and what kernels write stays zero
//   RECORD_SECONDS   how long it may do so, all launches together
//
// Device memory is host memory at addresses that a simulator can take over, so that pointers keep their meaning wherever
// they are: in parameters, in structures, in other memory. A kernel's first launch is recorded, and the first of another
// grid or block, at most MOST_LAUNCHES. A recording has the memory that can be reached from its parameters.
//
// What the runtime has and this file has not is an undefined symbol when the program is linked, which names it.

#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST_LAUNCHES = 3, MOST_KERNELS = 4096, MOST_BLOCKS = 1 << 16, MOST_PARAMETERS = 1 << 15, PAGE = 4096 };

// Numbers that few other 8-byte words have; 2 TiB from here on are no one's on Linux.
static const uint64_t FIRST = 0x2f3b00000000, SPACE = 1ull << 41;

// ---- Memory.

struct block {
    uint64_t base, size;
    unsigned version;      // of what it holds, as far as the runtime knows
    int host;              // the program may write to it without a word to the runtime
    int free;
    unsigned written;      // the version that is in a file
    int zeros;             // which had zeros only
    unsigned mark;         // the recording that reaches it
};

static struct block blocks[MOST_BLOCKS];
static int block_count;
static uint64_t next_address;

static void stop(const char *what, const char *name) {
    fprintf(stderr, "recorder: %s%s\n", what, name);
    exit(120);
}

static struct block *block_of(uint64_t address) {
    int low = 0, high = block_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (blocks[middle].base <= address) low = middle + 1;
        else high = middle;
    }
    if (low == 0) return NULL;
    struct block *block = &blocks[low - 1];
    return !block->free && address - block->base < block->size ? block : NULL;
}

static cudaError_t allocate(void **pointer, size_t size, int host) {
    *pointer = NULL;
    if (!next_address) next_address = FIRST;
    // Blocks are apart, so that an access beyond the end of one is found.
    uint64_t pages = (size + PAGE - 1) / PAGE * PAGE;
    if (block_count == MOST_BLOCKS || size > 141ull << 30 || next_address + pages > FIRST + SPACE)
        return cudaErrorMemoryAllocation;
    void *at = mmap((void *)next_address, pages ? pages : PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == MAP_FAILED) return cudaErrorMemoryAllocation;
    blocks[block_count++] = (struct block){.base = next_address, .size = size, .version = 1, .host = host, .zeros = 1};
    next_address += pages + 16 * PAGE;
    *pointer = at;
    return cudaSuccess;
}

static cudaError_t release(void *pointer) {
    struct block *block = block_of((uint64_t)pointer);
    if (!block || block->base != (uint64_t)pointer) return pointer ? cudaErrorInvalidValue : cudaSuccess;
    block->free = 1;
    madvise(pointer, (block->size + PAGE - 1) / PAGE * PAGE, MADV_DONTNEED);
    return cudaSuccess;
}

static void changed(const void *pointer) {
    struct block *block = block_of((uint64_t)pointer);
    if (block) block->version++;
}

static void copy(void *to, const void *from, size_t size) {
    memmove(to, from, size);
    changed(to);
}

// Zeros in whole pages take no memory.
static void set(void *to, int value, size_t size) {
    uint64_t start = ((uint64_t)to + PAGE - 1) / PAGE * PAGE, end = ((uint64_t)to + size) / PAGE * PAGE;
    if ((value & 255) == 0 && start < end && block_of((uint64_t)to)) {
        memset(to, 0, start - (uint64_t)to);
        madvise((void *)start, end - start, MADV_DONTNEED);
        memset((void *)end, 0, (uint64_t)to + size - end);
    } else {
        memset(to, value, size);
    }
    changed(to);
}

// ---- Kernels and variables.

struct kernel {
    const void *host;
    const char *name;
    int bytes, count;
    int *offsets, *sizes;
    int known, launches;
    dim3 grids[MOST_LAUNCHES], blocks[MOST_LAUNCHES];
};

struct variable {
    const void *host;
    const char *name;
    size_t size;
    uint64_t address;
    uint64_t low, high;    // what was written of it
};

static struct kernel kernels[MOST_KERNELS];
static struct variable variables[MOST_KERNELS];
static int kernel_count, variable_count, recordings;

static struct kernel *kernel_of(const void *function) {
    for (int i = 0; i < kernel_count; i++)
        if (kernels[i].host == function || (void *)&kernels[i] == function) return &kernels[i];
    return NULL;
}

static struct variable *variable_of(const void *symbol) {
    for (int i = 0; i < variable_count; i++)
        if (variables[i].host == symbol) return &variables[i];
    return NULL;
}

// Finds a kernel's parameters in the list of RECORD_KERNELS.
static void learn(struct kernel *kernel) {
    const char *path = getenv("RECORD_KERNELS");
    FILE *file = path ? fopen(path, "r") : NULL;
    char *line = NULL;
    size_t room = 0;
    while (file && !kernel->known && getline(&line, &room, file) > 0) {
        char *rest = NULL, *word = strtok_r(line, " \n", &rest);
        if (!word || strcmp(word, kernel->name)) continue;
        word = strtok_r(NULL, " \n", &rest);
        kernel->known = 1;
        kernel->bytes = word ? atoi(word) : 0;
        kernel->offsets = calloc(MOST_PARAMETERS, sizeof(int));
        kernel->sizes = calloc(MOST_PARAMETERS, sizeof(int));
        while ((word = strtok_r(NULL, " \n", &rest)) && kernel->count < MOST_PARAMETERS) {
            int offset, size;
            if (sscanf(word, "%d:%d", &offset, &size) != 2 || offset < 0 || size < 0 || offset + size > kernel->bytes)
                stop("cannot read the parameters of ", kernel->name);
            kernel->offsets[kernel->count] = offset;
            kernel->sizes[kernel->count++] = size;
        }
    }
    free(line);
    if (file) fclose(file);
    if (kernel->bytes > MOST_PARAMETERS) stop("too many bytes of parameters: ", kernel->name);
}

// ---- Recordings.

static char *path_of(const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("RECORD_TO") ? getenv("RECORD_TO") : ".", name);
    return path;
}

// Pieces that are not zero, each after its offset and length of 8 bytes; whether there were any.
static int write_memory(const char *name, uint64_t base, uint64_t low, uint64_t high) {
    static const char zeros[PAGE];
    FILE *file = NULL;
    for (uint64_t at = low; at < high;) {
        uint64_t end = at;
        while (end < high) {
            uint64_t size = high - end < PAGE ? high - end : PAGE;
            if (!memcmp((void *)(base + end), zeros, size)) break;
            end += size;
        }
        if (end == at) {
            at += PAGE;
            continue;
        }
        if (!file && !(file = fopen(path_of(name), "wb"))) stop("cannot write ", name);
        uint64_t head[2] = {at, end - at};
        fwrite(head, sizeof head, 1, file);
        fwrite((void *)(base + at), 1, end - at, file);
        at = end;
    }
    if (file && (ferror(file) | fclose(file))) stop("cannot write ", name);
    return file != NULL;
}

static void reach(uint64_t first, uint64_t size, unsigned mark) {
    for (uint64_t at = (first + 7) & ~7ull; at + 8 <= first + size; at += 8) {
        uint64_t word = *(const uint64_t *)at;
        if (word - FIRST >= SPACE) continue;
        struct block *block = block_of(word);
        if (!block || block->mark == mark) continue;
        block->mark = mark;
        reach(block->base, block->size, mark);
    }
}

static void write_block(FILE *file, struct block *block) {
    char name[64];
    if (block->host) block->version++;
    snprintf(name, sizeof name, "memory-%llx-%u", (unsigned long long)block->base, block->version);
    if (block->written != block->version) {
        block->zeros = !write_memory(name, block->base, 0, block->size);
        block->written = block->version;
    }
    fprintf(file, "memory %llx %llu %s\n", (unsigned long long)block->base, (unsigned long long)block->size,
            block->zeros ? "-" : name);
}

// What a kernel left, in the form of `write_memory` with addresses in place of offsets.
static void take_changes(const char *name) {
    FILE *file = fopen(path_of(name), "rb");
    uint64_t head[2];
    while (file && fread(head, sizeof head, 1, file) == 1) {
        struct block *block = block_of(head[0]);
        if (!block || head[1] > block->size - (head[0] - block->base)) break;
        if (fread((void *)head[0], 1, head[1], file) != head[1]) break;
        block->version++;
    }
    if (file) fclose(file);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void execute(const char *kernel, const char *recording) {
    static double spent;
    const char *command = getenv("RECORD_RUN"), *seconds = getenv("RECORD_SECONDS");
    double left = (seconds ? atof(seconds) : 10) - spent;
    if (!command || left < 1) return;
    double start = now();
    char line[16384], to[4096], from[4096];
    snprintf(to, sizeof to, "%s", path_of("changes"));
    snprintf(from, sizeof from, "%s", path_of(recording));
    unlink(to);
    snprintf(line, sizeof line, "exec timeout %d %s '%s' '%s' '%s'", (int)left, command, kernel, from, to);
    if (system(line) == 0) take_changes("changes");
    spent += now() - start;
}

static void write_recording(const char *name, const struct kernel *kernel, const dim3 sizes[3], size_t shared,
                            const unsigned char *parameters) {
    static unsigned mark;
    mark++;
    FILE *file = fopen(path_of(name), "w");
    if (!file) stop("cannot write ", name);
    fprintf(file, "kernel %s\ngrid %u %u %u\nblock %u %u %u\n", kernel->name, sizes[0].x, sizes[0].y, sizes[0].z,
            sizes[1].x, sizes[1].y, sizes[1].z);
    if (sizes[2].x) fprintf(file, "cluster %u %u %u\n", sizes[2].x, sizes[2].y, sizes[2].z);
    fprintf(file, "shared %zu\nparameters ", shared);
    for (int i = 0; i < kernel->bytes; i++) fprintf(file, "%02x", parameters[i]);
    fprintf(file, "\n");
    reach((uint64_t)parameters, (uint64_t)kernel->bytes, mark);
    for (int i = 0; i < variable_count; i++) {
        struct variable *variable = &variables[i];
        if (variable->low >= variable->high) continue;
        char content[64];
        snprintf(content, sizeof content, "variable-%d-%d", i, recordings);
        reach(variable->address, variable->size, mark);
        int any = write_memory(content, variable->address, variable->low, variable->high);
        fprintf(file, "variable %s %s\n", variable->name, any ? content : "-");
    }
    for (int i = 0; i < block_count; i++)
        if (blocks[i].mark == mark && !blocks[i].free) write_block(file, &blocks[i]);
    fclose(file);
}

static int is_same(dim3 a, dim3 b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

static int is_new(struct kernel *kernel, dim3 grid, dim3 block) {
    for (int i = 0; i < kernel->launches; i++)
        if (is_same(kernel->grids[i], grid) && is_same(kernel->blocks[i], block)) return 0;
    if (kernel->launches == MOST_LAUNCHES) return 0;
    kernel->grids[kernel->launches] = grid;
    kernel->blocks[kernel->launches++] = block;
    return 1;
}

static cudaError_t launch(const void *function, dim3 grid, dim3 block, dim3 cluster, void **arguments, size_t shared) {
    static _Alignas(16) unsigned char parameters[MOST_PARAMETERS];
    struct kernel *kernel = kernel_of(function);
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z || block.x * block.y * block.z > 1024)
        return cudaErrorInvalidConfiguration;
    if (!kernel->known) learn(kernel);
    if (!kernel->known) stop("no parameters are known of ", kernel->name);
    memset(parameters, 0, sizeof parameters);
    for (int i = 0; i < kernel->count; i++)
        memcpy(parameters + kernel->offsets[i], arguments[i], (size_t)kernel->sizes[i]);
    int recorded = is_new(kernel, grid, block);
    if (!recorded && !getenv("RECORD_RUN")) return cudaSuccess;
    char name[64];
    snprintf(name, sizeof name, recorded ? "launch-%04d" : "unrecorded", recordings);
    recordings += recorded;
    write_recording(name, kernel, (dim3[3]){grid, block, cluster}, shared, parameters);
    execute(kernel->name, name);
    return cudaSuccess;
}

// ---- The runtime: registration and launches.

#define API __attribute__((visibility("default")))

static struct {
    dim3 grid, block;
    size_t shared;
    void *stream;
} pushed[64];
static int depth;
static cudaError_t last_error;

static cudaError_t keep(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

API void **__cudaRegisterFatBinary(void *binary) {
    (void)binary;
    static void *handle;
    return &handle;
}
API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
API void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
API char __cudaInitModule(void **handle) { return (void)handle, 1; }

API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, uint3 *tid,
                                uint3 *bid, dim3 *block, dim3 *grid, int *warp) {
    (void)handle, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    if (kernel_count == MOST_KERNELS) stop("too many kernels", "");
    kernels[kernel_count++] = (struct kernel){.host = host, .name = name};
}

API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size,
                           int constant, int global) {
    (void)handle, (void)device, (void)external, (void)constant, (void)global;
    if (variable_count == MOST_KERNELS) stop("too many variables", "");
    void *at;
    if (allocate(&at, size, 0) != cudaSuccess) stop("no memory for ", name);
    struct variable variable = {.host = host, .name = name, .size = size, .address = (uint64_t)at, .low = size};
    variables[variable_count++] = variable;
}

API void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int external, size_t size,
                                  int constant, int global) {
    (void)handle, (void)host, (void)device, (void)external, (void)size, (void)constant, (void)global;
    stop("managed variables are not recorded: ", name);
}

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
    if (depth == 64) return 1;
    pushed[depth].grid = grid, pushed[depth].block = block;
    pushed[depth].shared = shared, pushed[depth++].stream = stream;
    return 0;
}

API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    if (depth == 0) return cudaErrorMissingConfiguration;
    *grid = pushed[--depth].grid, *block = pushed[depth].block;
    *shared = pushed[depth].shared, *(void **)stream = pushed[depth].stream;
    return cudaSuccess;
}

API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    *kernel = (cudaKernel_t)kernel_of(function);
    return *kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                   cudaStream_t stream) {
    (void)stream;
    return keep(launch(kernel, grid, block, (dim3){0, 0, 0}, arguments, shared));
}

API cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                                 cudaStream_t stream) {
    (void)stream;
    return keep(launch(function, grid, block, (dim3){0, 0, 0}, arguments, shared));
}

API cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                            size_t shared, cudaStream_t stream) {
    (void)stream;
    return keep(launch(function, grid, block, (dim3){0, 0, 0}, arguments, shared));
}

API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
    dim3 cluster = {0, 0, 0};
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id != cudaLaunchAttributeClusterDimension) continue;
        cluster.x = attribute->val.clusterDim.x, cluster.y = attribute->val.clusterDim.y;
        cluster.z = attribute->val.clusterDim.z;
    }
    return keep(launch(function, config->gridDim, config->blockDim, cluster, arguments, config->dynamicSmemBytes));
}

// ---- Memory.

API cudaError_t cudaMalloc(void **pointer, size_t size) { return keep(allocate(pointer, size, 0)); }
API cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream) {
    (void)stream;
    return cudaMalloc(pointer, size);
}
API cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned flags) {
    (void)flags;
    return keep(allocate(pointer, size, 1));
}
API cudaError_t cudaMallocHost(void **pointer, size_t size) { return keep(allocate(pointer, size, 1)); }
API cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags) {
    (void)flags;
    return keep(allocate(pointer, size, 1));
}
API cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
    (void)flags;
    *device = host;
    return block_of((uint64_t)host) ? cudaSuccess : keep(cudaErrorInvalidValue);
}
API cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    *pitch = (width + 511) / 512 * 512;
    return keep(allocate(pointer, *pitch * height, 0));
}
API cudaError_t cudaFree(void *pointer) { return keep(release(pointer)); }
API cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) { return (void)stream, keep(release(pointer)); }
API cudaError_t cudaFreeHost(void *pointer) { return keep(release(pointer)); }

API cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
    (void)kind;
    copy(to, from, size);
    return cudaSuccess;
}
API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream) {
    (void)stream;
    return cudaMemcpy(to, from, size, kind);
}
API cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                             size_t height, enum cudaMemcpyKind kind) {
    (void)kind;
    for (size_t i = 0; i < height; i++) copy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    return cudaSuccess;
}
API cudaError_t cudaMemset(void *to, int value, size_t size) {
    set(to, value, size);
    return cudaSuccess;
}
API cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
    (void)stream;
    return cudaMemset(to, value, size);
}
API cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset,
                                   enum cudaMemcpyKind kind) {
    (void)kind;
    struct variable *variable = variable_of(symbol);
    if (!variable || offset > variable->size || size > variable->size - offset) return keep(cudaErrorInvalidSymbol);
    copy((void *)(variable->address + offset), from, size);
    if (offset < variable->low) variable->low = offset;
    if (offset + size > variable->high) variable->high = offset + size;
    return cudaSuccess;
}
API cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t size, size_t offset,
                                        enum cudaMemcpyKind kind, cudaStream_t stream) {
    (void)stream;
    return cudaMemcpyToSymbol(symbol, from, size, offset, kind);
}
API cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t size, size_t offset, enum cudaMemcpyKind kind) {
    (void)kind;
    struct variable *variable = variable_of(symbol);
    if (!variable || offset > variable->size || size > variable->size - offset) return keep(cudaErrorInvalidSymbol);
    copy(to, (void *)(variable->address + offset), size);
    return cudaSuccess;
}
// Kernels that use the name see other memory than those that use the address.
API cudaError_t cudaGetSymbolAddress(void **pointer, const void *symbol) {
    struct variable *variable = variable_of(symbol);
    if (!variable) return keep(cudaErrorInvalidSymbol);
    *pointer = (void *)variable->address;
    return cudaSuccess;
}
API cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    *total = 141ull << 30, *free = 140ull << 30;
    return cudaSuccess;
}

// ---- Streams and events: everything is over at once, after a millisecond.

#define DONE(name, ...) \
    API cudaError_t name(__VA_ARGS__) { return cudaSuccess; }

API cudaError_t cudaStreamCreate(cudaStream_t *stream) { return *stream = (cudaStream_t)stream, cudaSuccess; }
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    (void)flags;
    return cudaStreamCreate(stream);
}
API cudaError_t cudaEventCreate(cudaEvent_t *event) { return *event = (cudaEvent_t)event, cudaSuccess; }
API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    (void)flags;
    return cudaEventCreate(event);
}
API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    (void)start, (void)end;
    return *ms = 1, cudaSuccess;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
DONE(cudaStreamDestroy, cudaStream_t stream)
DONE(cudaStreamSynchronize, cudaStream_t stream)
DONE(cudaStreamQuery, cudaStream_t stream)
DONE(cudaStreamWaitEvent, cudaStream_t stream, cudaEvent_t event, unsigned flags)
DONE(cudaEventDestroy, cudaEvent_t event)
DONE(cudaEventRecord, cudaEvent_t event, cudaStream_t stream)
DONE(cudaEventQuery, cudaEvent_t event)
DONE(cudaEventSynchronize, cudaEvent_t event)
DONE(cudaDeviceSynchronize, void)
DONE(cudaDeviceReset, void)
DONE(cudaSetDevice, int device)
DONE(cudaSetDeviceFlags, unsigned flags)
DONE(cudaDeviceSetLimit, enum cudaLimit limit, size_t value)
DONE(cudaDeviceSetCacheConfig, enum cudaFuncCache config)
DONE(cudaFuncSetCacheConfig, const void *function, enum cudaFuncCache config)
DONE(cudaFuncSetAttribute, const void *function, enum cudaFuncAttribute attribute, int value)
DONE(cudaProfilerStart, void)
DONE(cudaProfilerStop, void)

// ---- The device: an H200.

API cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
API cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }

API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    (void)device;
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "recorder");
    p->totalGlobalMem = 141ull << 30;
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerBlockOptin = 227 << 10;
    p->sharedMemPerMultiprocessor = 228 << 10;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 65536;
    p->major = 9;
    p->multiProcessorCount = 132;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
    p->l2CacheSize = 50 << 20;
    p->memoryBusWidth = 6144;
    p->concurrentKernels = p->cooperativeLaunch = p->unifiedAddressing = p->managedMemory = 1;
    p->canMapHostMemory = p->concurrentManagedAccess = 1;
    return cudaSuccess;
}

API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    struct cudaDeviceProp p;
    cudaGetDeviceProperties(&p, device);
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)p.sharedMemPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)p.sharedMemPerBlockOptin; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = (int)p.sharedMemPerMultiprocessor; break;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrClockRate: *value = 1980000; break;
    case cudaDevAttrMemoryClockRate: *value = 3201000; break;
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrUnifiedAddressing: *value = 1; break;
    default: *value = 0; return keep(cudaErrorNotSupported);
    }
    return cudaSuccess;
}

API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function) {
    if (!kernel_of(function)) return keep(cudaErrorInvalidDeviceFunction);
    memset(attributes, 0, sizeof *attributes);
    attributes->numRegs = 32;
    attributes->maxThreadsPerBlock = 1024;
    attributes->maxDynamicSharedSizeBytes = 227 << 10;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    return cudaSuccess;
}

// By threads and dynamic shared memory alone.
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, const void *function, int threads,
                                                                       size_t shared, unsigned flags) {
    (void)function, (void)flags;
    if (threads < 1 || threads > 1024) return keep(cudaErrorInvalidValue);
    size_t by_shared = (228 << 10) / (shared + 1024);
    *count = 2048 / ((threads + 31) / 32 * 32);
    if (*count > 32) *count = 32;
    if ((size_t)*count > by_shared) *count = (int)by_shared;
    return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *function, int threads,
                                                              size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, function, threads, shared, 0);
}

API cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                                 unsigned long long flags, enum cudaDriverEntryPointQueryResult *result) {
    (void)version, (void)flags;
    *function = NULL;
    if (result) *result = cudaDriverEntryPointSymbolNotFound;
    stop("no driver that has ", symbol);
    return cudaErrorNotSupported;
}

API cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
API cudaError_t cudaPeekAtLastError(void) { return last_error; }
API const char *cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "an error of the recorder"; }
API const char *cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaErrorUnknown"; }
