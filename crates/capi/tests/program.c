/* Calls every interface of libsassafras, from 16 threads at once. Any surprise ends it with a line number. */
#include "sassafras.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(truth)                                                                    \
    do {                                                                                \
        if (!(truth)) {                                                                 \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #truth);       \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

#define HEADER ".version 8.0\n.target sm_90\n.address_size 64\n"

static const char GOOD[] = HEADER ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %r;\nld.param.u64 %r, [p];\n"
                                  "st.global.u32 [%r], 7;\nret;\n}\n";
static const char BAD[] = HEADER ".visible .entry k()\n{\nrest;\n}\n";
static const char LATER[] = ".version 99.0\n.target sm_90\n";
static const char *const OPTIONS[] = {"-arch=sm_90", "-v"};

/* What all threads must get. */
static unsigned char *expected;
static size_t expected_size;

static void own_interface(void) {
    size_t size = 0;
    sassafras_result *result = sassafras_compile(GOOD, strlen(GOOD), OPTIONS, 2);
    CHECK(sassafras_ok(result));
    const void *cubin = sassafras_cubin(result, &size);
    CHECK(size == expected_size && memcmp(cubin, expected, size) == 0);
    CHECK(strstr(sassafras_log(result), "Used ") != NULL);
    sassafras_free(result);

    result = sassafras_compile(BAD, strlen(BAD), OPTIONS, 1);
    CHECK(!sassafras_ok(result));
    CHECK(sassafras_cubin(result, &size) == NULL && size == 0);
    CHECK(strstr(sassafras_log(result), "line 6; error") != NULL);
    sassafras_free(result);

    result = sassafras_compile(NULL, 10, NULL, 0);
    CHECK(!sassafras_ok(result));
    sassafras_free(result);
    sassafras_free(NULL);
    CHECK(!sassafras_ok(NULL));
    CHECK(strcmp(sassafras_version(), "0.1.0") == 0);
}

/* The log of a handle, in a buffer of exactly its size. */
static char *log_of(nvPTXCompilerHandle compiler, nvPTXCompileResult (*size_of)(nvPTXCompilerHandle, size_t *),
                    nvPTXCompileResult (*copy)(nvPTXCompilerHandle, char *)) {
    size_t size = 99;
    CHECK(size_of(compiler, &size) == NVPTXCOMPILE_SUCCESS);
    char *log = malloc(size > 0 ? size : 1);
    CHECK(copy(compiler, log) == NVPTXCOMPILE_SUCCESS);
    CHECK(strlen(log) == (size > 0 ? size - 1 : 0));
    return log;
}

static int cancel_second(void *asked, void *reserved) {
    CHECK(reserved == NULL);
    return ++*(int *)asked > 2;
}

static nvPTXCompileResult compile(nvPTXCompilerHandle *compiler, const char *text) {
    CHECK(nvPTXCompilerCreate(compiler, strlen(text), text) == NVPTXCOMPILE_SUCCESS);
    return nvPTXCompilerCompile(*compiler, 2, OPTIONS);
}

static void ptx_compiler(void) {
    nvPTXCompilerHandle compiler;
    unsigned major = 0, minor = 0;
    size_t size = 0;
    int count = 0;
    CHECK(nvPTXCompilerGetVersion(&major, &minor) == NVPTXCOMPILE_SUCCESS && major == 13);
    CHECK(nvPTXCompilerGetNumSupportedVersions(&count) == NVPTXCOMPILE_SUCCESS && count > 0);
    int(*versions)[2] = malloc(count * sizeof *versions);
    CHECK(nvPTXCompilerGetSupportedVersions(versions) == NVPTXCOMPILE_SUCCESS);
    CHECK(versions[count - 1][0] == 9 && versions[count - 1][1] == 0);
    free(versions);
    CHECK(nvPTXCompilerGetNumSupportedArchs(&count) == NVPTXCOMPILE_SUCCESS && count > 0);
    int *archs = malloc(count * sizeof *archs);
    CHECK(nvPTXCompilerGetSupportedArchs(archs) == NVPTXCOMPILE_SUCCESS && archs[0] == 75);
    free(archs);

    CHECK(nvPTXCompilerCreate(&compiler, strlen(GOOD), GOOD) == NVPTXCOMPILE_SUCCESS);
    CHECK(nvPTXCompilerGetCompiledProgramSize(compiler, &size) == NVPTXCOMPILE_ERROR_COMPILER_INVOCATION_INCOMPLETE);
    CHECK(nvPTXCompilerCompile(compiler, 2, OPTIONS) == NVPTXCOMPILE_SUCCESS);
    CHECK(nvPTXCompilerGetCompiledProgramSize(compiler, &size) == NVPTXCOMPILE_SUCCESS && size == expected_size);
    unsigned char *cubin = malloc(size);
    CHECK(nvPTXCompilerGetCompiledProgram(compiler, cubin) == NVPTXCOMPILE_SUCCESS);
    CHECK(memcmp(cubin, expected, size) == 0);
    free(cubin);
    char *log = log_of(compiler, nvPTXCompilerGetErrorLogSize, nvPTXCompilerGetErrorLog);
    CHECK(strcmp(log, "") == 0);
    free(log);
    log = log_of(compiler, nvPTXCompilerGetInfoLogSize, nvPTXCompilerGetInfoLog);
    CHECK(strstr(log, "Used ") != NULL);
    free(log);
    nvPTXCompilerHandle stale = compiler;
    CHECK(nvPTXCompilerDestroy(&compiler) == NVPTXCOMPILE_SUCCESS);
    CHECK(nvPTXCompilerDestroy(&stale) == NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE);
    CHECK(nvPTXCompilerCompile(stale, 0, NULL) == NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE);

    CHECK(compile(&compiler, BAD) == NVPTXCOMPILE_ERROR_COMPILATION_FAILURE);
    CHECK(nvPTXCompilerGetCompiledProgramSize(compiler, &size) == NVPTXCOMPILE_ERROR_COMPILER_INVOCATION_INCOMPLETE);
    log = log_of(compiler, nvPTXCompilerGetErrorLogSize, nvPTXCompilerGetErrorLog);
    CHECK(strcmp(log, "ptxas application ptx input, line 6; error   : Not a name of any known instruction: 'rest'\n"
                      "ptxas fatal   : Ptx assembly aborted due to errors\n") == 0);
    free(log);
    CHECK(nvPTXCompilerDestroy(&compiler) == NVPTXCOMPILE_SUCCESS);

    CHECK(compile(&compiler, LATER) == NVPTXCOMPILE_ERROR_UNSUPPORTED_PTX_VERSION);
    CHECK(nvPTXCompilerDestroy(&compiler) == NVPTXCOMPILE_SUCCESS);

    int asked = 0;
    CHECK(nvPTXCompilerCreate(&compiler, strlen(GOOD) + 1, GOOD) == NVPTXCOMPILE_SUCCESS);
    CHECK(nvPTXCompilerSetFlowCallback(compiler, cancel_second, &asked) == NVPTXCOMPILE_SUCCESS);
    CHECK(nvPTXCompilerCompile(compiler, 2, OPTIONS) == NVPTXCOMPILE_ERROR_CANCELLED);
    CHECK(nvPTXCompilerDestroy(&compiler) == NVPTXCOMPILE_SUCCESS);

    CHECK(nvPTXCompilerCreate(&compiler, 0, "") == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerCreate(NULL, 3, "abc") == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerDestroy(NULL) == NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE);
}

/* Names with versions, as NVIDIA's headers have them. */
nvJitLinkResult __nvJitLinkCreate_12_0(nvJitLinkHandle *, uint32_t, const char *const *);
nvJitLinkResult __nvJitLinkCreate_13_0(nvJitLinkHandle *, uint32_t, const char *const *);
nvJitLinkResult __nvJitLinkComplete_13_0(nvJitLinkHandle);
nvJitLinkResult __nvJitLinkDestroy_12_9(nvJitLinkHandle *);

static void jit_link(void) {
    nvJitLinkHandle linker;
    size_t size = 0;
    CHECK(__nvJitLinkCreate_12_0(&linker, 0, NULL) == NVJITLINK_ERROR_MISSING_ARCH);
    CHECK(__nvJitLinkCreate_13_0(&linker, 2, OPTIONS) == NVJITLINK_SUCCESS);
    CHECK(nvJitLinkGetLinkedCubinSize(linker, &size) == NVJITLINK_ERROR_INTERNAL);
    CHECK(nvJitLinkAddData(linker, NVJITLINK_INPUT_PTX, GOOD, strlen(GOOD) + 1, "good") == NVJITLINK_SUCCESS);
    CHECK(__nvJitLinkComplete_13_0(linker) == NVJITLINK_SUCCESS);
    CHECK(nvJitLinkGetLinkedCubinSize(linker, &size) == NVJITLINK_SUCCESS && size == expected_size);
    unsigned char *cubin = malloc(size);
    CHECK(nvJitLinkGetLinkedCubin(linker, cubin) == NVJITLINK_SUCCESS && memcmp(cubin, expected, size) == 0);
    free(cubin);
    CHECK(nvJitLinkGetInfoLogSize(linker, &size) == NVJITLINK_SUCCESS && size > 0);
    CHECK(__nvJitLinkDestroy_12_9(&linker) == NVJITLINK_SUCCESS);

    const char *options[] = {"-arch=sm_90"};
    CHECK(nvJitLinkCreate(&linker, 1, options) == NVJITLINK_SUCCESS);
    CHECK(nvJitLinkAddData(linker, NVJITLINK_INPUT_PTX, BAD, strlen(BAD), "bad") == NVJITLINK_ERROR_PTX_COMPILE);
    CHECK(nvJitLinkGetErrorLogSize(linker, &size) == NVJITLINK_SUCCESS && size > 1);
    char *log = malloc(size);
    CHECK(nvJitLinkGetErrorLog(linker, log) == NVJITLINK_SUCCESS && strlen(log) == size - 1);
    CHECK(strstr(log, "line 6; error") != NULL && strstr(log, "(bad)") != NULL);
    free(log);
    CHECK(nvJitLinkAddData(linker, NVJITLINK_INPUT_LTOIR, "x", 1, NULL) == NVJITLINK_ERROR_INCORRECT_INPUT_TYPE);
    CHECK(nvJitLinkAddFile(linker, NVJITLINK_INPUT_PTX, "/no/such/file") == NVJITLINK_ERROR_INVALID_INPUT);
    CHECK(nvJitLinkComplete(linker) == NVJITLINK_ERROR_INVALID_INPUT);
    CHECK(nvJitLinkDestroy(&linker) == NVJITLINK_SUCCESS);
    CHECK(nvJitLinkDestroy(&linker) == NVJITLINK_ERROR_NULL_INPUT);
}

static void *thread(void *unused) {
    (void)unused;
    for (int i = 0; i < 4; i++) {
        own_interface();
        ptx_compiler();
        jit_link();
    }
    return NULL;
}

int main(void) {
    enum { THREADS = 16 };
    pthread_t threads[THREADS];
    sassafras_result *result = sassafras_compile(GOOD, strlen(GOOD), OPTIONS, 2);
    CHECK(sassafras_ok(result));
    const void *cubin = sassafras_cubin(result, &expected_size);
    CHECK(expected_size > 4 && memcmp(cubin, "\177ELF", 4) == 0);
    expected = malloc(expected_size);
    memcpy(expected, cubin, expected_size);
    sassafras_free(result);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    free(expected);
    puts("done");
    return 0;
}
