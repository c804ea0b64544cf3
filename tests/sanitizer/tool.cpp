// A tool with NVIDIA's Sanitizer API: it puts a function ($PATCH_FUNCTION of the cubin $PATCH_FILE) before every access
// of global and shared memory of the program that it is loaded into (LD_PRELOAD), and prints what the function counted in
// each launch.
#include <sanitizer.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

// As crates/sassafras/tests/patches/functions.cu has it.
struct State {
    unsigned long long count, bytes, sum, mix;
    unsigned filled, room;
    unsigned long long* list;
};

static const unsigned ROOM = 1 << 20;
static State* device;
static unsigned long long* list;

static void check(SanitizerResult result, const char* what) {
    if (result != SANITIZER_SUCCESS) printf("tool: %s: error %d\n", what, (int)result);
}

static void patch(const Sanitizer_ResourceModuleData* loaded) {
    const char* function = getenv("PATCH_FUNCTION");
    check(sanitizerAddPatchesFromFile(getenv("PATCH_FILE"), loaded->context), "add patches");
    check(sanitizerPatchInstructions(SANITIZER_INSTRUCTION_GLOBAL_MEMORY_ACCESS, loaded->module, function), "global");
    check(sanitizerPatchInstructions(SANITIZER_INSTRUCTION_SHARED_MEMORY_ACCESS, loaded->module, function), "shared");
    check(sanitizerPatchModule(loaded->module), "patch");
}

static void begin(const Sanitizer_LaunchData* launch) {
    State state = {0, 0, 0, 0, 0, ROOM, nullptr};
    check(sanitizerAlloc(launch->context, (void**)&list, sizeof(*list) * ROOM), "allocate");
    check(sanitizerMemset(list, 0, sizeof(*list) * ROOM, launch->hStream), "clear");
    state.list = list;
    check(sanitizerAlloc(launch->context, (void**)&device, sizeof state), "allocate");
    check(sanitizerMemcpyHostToDeviceAsync(device, &state, sizeof state, launch->hStream), "write");
    check(sanitizerSetCallbackData(launch->function, device), "callback data");
}

static void end(const Sanitizer_LaunchData* launch) {
    State state;
    check(sanitizerStreamSynchronize(launch->hStream), "wait");
    check(sanitizerMemcpyDeviceToHost(&state, device, sizeof state, launch->hStream), "read");
    std::vector<unsigned long long> all(std::min(state.filled, ROOM));
    if (!all.empty()) check(sanitizerMemcpyDeviceToHost(all.data(), list, 8 * all.size(), launch->hStream), "read");
    std::sort(all.begin(), all.end());
    // Of addresses only what does not depend on where the arrays are.
    unsigned long long hash = 1469598103934665603ull;
    for (auto entry : all) hash = (hash ^ ((entry >> 8 & 0xffff) << 8) ^ (entry & 0xff)) * 1099511628211ull;
    printf("%s: count %llu bytes %llu sum %llu mix %llu filled %u list %016llx\n", launch->functionName, state.count,
           state.bytes, state.sum, state.mix, state.filled, hash);
    check(sanitizerFree(launch->context, list), "free");
    check(sanitizerFree(launch->context, device), "free");
}

static void called(void*, Sanitizer_CallbackDomain domain, Sanitizer_CallbackId id, const void* data) {
    if (domain == SANITIZER_CB_DOMAIN_RESOURCE && id == SANITIZER_CBID_RESOURCE_MODULE_LOADED)
        patch((const Sanitizer_ResourceModuleData*)data);
    else if (domain == SANITIZER_CB_DOMAIN_LAUNCH && id == SANITIZER_CBID_LAUNCH_BEGIN)
        begin((const Sanitizer_LaunchData*)data);
    else if (domain == SANITIZER_CB_DOMAIN_LAUNCH && id == SANITIZER_CBID_LAUNCH_END)
        end((const Sanitizer_LaunchData*)data);
}

__attribute__((constructor)) static void start() {
    Sanitizer_SubscriberHandle handle;
    check(sanitizerSubscribe(&handle, called, nullptr), "subscribe");
    check(sanitizerEnableDomain(1, handle, SANITIZER_CB_DOMAIN_RESOURCE), "resources");
    check(sanitizerEnableDomain(1, handle, SANITIZER_CB_DOMAIN_LAUNCH), "launches");
}
