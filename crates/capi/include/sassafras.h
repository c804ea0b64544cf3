/*
 * libsassafras: an open PTX compiler. PTX in, a cubin out, without a GPU and without the CUDA toolkit.
 *
 *     const char *options[] = {"-arch=sm_90"};
 *     sassafras_result *result = sassafras_compile(ptx, strlen(ptx), options, 1);
 *     if (sassafras_ok(result)) {
 *         size_t size;
 *         const void *cubin = sassafras_cubin(result, &size);   // for cuModuleLoadData
 *         ...
 *     } else {
 *         fputs(sassafras_log(result), stderr);
 *     }
 *     sassafras_free(result);
 *
 * Any thread may call any function at any time. No function prints, ends the process or throws.
 *
 * The library also has the functions of NVIDIA's PTX Compiler API (nvPTXCompiler.h) and, for PTX inputs, of nvJitLink
 * (nvJitLink.h), with the same names and types: include those headers where you have them. Below are the same
 * declarations for those who don't.
 */
#ifndef SASSAFRAS_H
#define SASSAFRAS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sassafras_result sassafras_result;

/* Compiles `length` bytes of PTX. `options` are `count` words of ptxas's command line: "-arch=sm_90", "-O1", "-v".
 * The result is never NULL. */
sassafras_result *sassafras_compile(const char *ptx, size_t length, const char *const *options, size_t count);

/* 1 if there was no error, otherwise 0. */
int sassafras_ok(const sassafras_result *result);

/* The cubin and its size; NULL and 0 if there is none. It lives as long as the result. */
const void *sassafras_cubin(const sassafras_result *result, size_t *size);

/* What ptxas would print: errors first, then warnings and notes. It lives as long as the result. */
const char *sassafras_log(const sassafras_result *result);

/* Frees a result; NULL is fine. */
void sassafras_free(sassafras_result *result);

/* "0.1.0" */
const char *sassafras_version(void);

/* ---- NVIDIA's PTX Compiler API ---- */

#ifndef nvPTXCompiler_INCLUDED
#define nvPTXCompiler_INCLUDED

typedef struct nvPTXCompiler *nvPTXCompilerHandle;

typedef enum {
    NVPTXCOMPILE_SUCCESS = 0,
    NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE = 1,
    NVPTXCOMPILE_ERROR_INVALID_INPUT = 2,
    NVPTXCOMPILE_ERROR_COMPILATION_FAILURE = 3,
    NVPTXCOMPILE_ERROR_INTERNAL = 4,
    NVPTXCOMPILE_ERROR_OUT_OF_MEMORY = 5,
    NVPTXCOMPILE_ERROR_COMPILER_INVOCATION_INCOMPLETE = 6,
    NVPTXCOMPILE_ERROR_UNSUPPORTED_PTX_VERSION = 7,
    NVPTXCOMPILE_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 8,
    NVPTXCOMPILE_ERROR_CANCELLED = 9,
    NVPTXCOMPILE_PARSE_ONLY_SUCCESS = 10,
} nvPTXCompileResult;

nvPTXCompileResult nvPTXCompilerGetVersion(unsigned int *major, unsigned int *minor);
nvPTXCompileResult nvPTXCompilerGetNumSupportedVersions(int *numVersions);
nvPTXCompileResult nvPTXCompilerGetSupportedVersions(int (*versions)[2]);
nvPTXCompileResult nvPTXCompilerGetNumSupportedArchs(int *numArchs);
nvPTXCompileResult nvPTXCompilerGetSupportedArchs(int *supportedArchs);
nvPTXCompileResult nvPTXCompilerCreate(nvPTXCompilerHandle *compiler, size_t ptxCodeLen, const char *ptxCode);
nvPTXCompileResult nvPTXCompilerDestroy(nvPTXCompilerHandle *compiler);
nvPTXCompileResult nvPTXCompilerCompile(nvPTXCompilerHandle compiler, int numCompileOptions,
                                        const char *const *compileOptions);
nvPTXCompileResult nvPTXCompilerGetCompiledProgramSize(nvPTXCompilerHandle compiler, size_t *binaryImageSize);
nvPTXCompileResult nvPTXCompilerGetCompiledProgram(nvPTXCompilerHandle compiler, void *binaryImage);
nvPTXCompileResult nvPTXCompilerGetErrorLogSize(nvPTXCompilerHandle compiler, size_t *errorLogSize);
nvPTXCompileResult nvPTXCompilerGetErrorLog(nvPTXCompilerHandle compiler, char *errorLog);
nvPTXCompileResult nvPTXCompilerGetInfoLogSize(nvPTXCompilerHandle compiler, size_t *infoLogSize);
nvPTXCompileResult nvPTXCompilerGetInfoLog(nvPTXCompilerHandle compiler, char *infoLog);
nvPTXCompileResult nvPTXCompilerSetFlowCallback(nvPTXCompilerHandle compiler, int (*callback)(void *, void *),
                                                void *payload);

#endif

/* ---- nvJitLink, for PTX inputs ---- */

#ifndef nvJitLink_INCLUDED
#define nvJitLink_INCLUDED

typedef struct nvJitLink *nvJitLinkHandle;

typedef enum {
    NVJITLINK_SUCCESS = 0,
    NVJITLINK_ERROR_UNRECOGNIZED_OPTION,
    NVJITLINK_ERROR_MISSING_ARCH,
    NVJITLINK_ERROR_INVALID_INPUT,
    NVJITLINK_ERROR_PTX_COMPILE,
    NVJITLINK_ERROR_NVVM_COMPILE,
    NVJITLINK_ERROR_INTERNAL,
    NVJITLINK_ERROR_THREADPOOL,
    NVJITLINK_ERROR_UNRECOGNIZED_INPUT,
    NVJITLINK_ERROR_FINALIZE,
    NVJITLINK_ERROR_NULL_INPUT,
    NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS,
    NVJITLINK_ERROR_INCORRECT_INPUT_TYPE,
    NVJITLINK_ERROR_ARCH_MISMATCH,
    NVJITLINK_ERROR_OUTDATED_LIBRARY,
    NVJITLINK_ERROR_MISSING_FATBIN,
    NVJITLINK_ERROR_UNRECOGNIZED_ARCH,
    NVJITLINK_ERROR_UNSUPPORTED_ARCH,
    NVJITLINK_ERROR_LTO_NOT_ENABLED,
} nvJitLinkResult;

typedef enum {
    NVJITLINK_INPUT_NONE = 0,
    NVJITLINK_INPUT_CUBIN,
    NVJITLINK_INPUT_PTX,
    NVJITLINK_INPUT_LTOIR,
    NVJITLINK_INPUT_FATBIN,
    NVJITLINK_INPUT_OBJECT,
    NVJITLINK_INPUT_LIBRARY,
    NVJITLINK_INPUT_INDEX,
    NVJITLINK_INPUT_ANY = 10,
} nvJitLinkInputType;

nvJitLinkResult nvJitLinkCreate(nvJitLinkHandle *handle, uint32_t numOptions, const char **options);
nvJitLinkResult nvJitLinkDestroy(nvJitLinkHandle *handle);
nvJitLinkResult nvJitLinkAddData(nvJitLinkHandle handle, nvJitLinkInputType inputType, const void *data, size_t size,
                                 const char *name);
nvJitLinkResult nvJitLinkAddFile(nvJitLinkHandle handle, nvJitLinkInputType inputType, const char *fileName);
nvJitLinkResult nvJitLinkComplete(nvJitLinkHandle handle);
nvJitLinkResult nvJitLinkGetLinkedCubinSize(nvJitLinkHandle handle, size_t *size);
nvJitLinkResult nvJitLinkGetLinkedCubin(nvJitLinkHandle handle, void *cubin);
nvJitLinkResult nvJitLinkGetLinkedPtxSize(nvJitLinkHandle handle, size_t *size);
nvJitLinkResult nvJitLinkGetLinkedPtx(nvJitLinkHandle handle, char *ptx);
nvJitLinkResult nvJitLinkGetLinkedLTOIRSize(nvJitLinkHandle handle, size_t *size);
nvJitLinkResult nvJitLinkGetLinkedLTOIR(nvJitLinkHandle handle, void *ltoir);
nvJitLinkResult nvJitLinkGetErrorLogSize(nvJitLinkHandle handle, size_t *size);
nvJitLinkResult nvJitLinkGetErrorLog(nvJitLinkHandle handle, char *log);
nvJitLinkResult nvJitLinkGetInfoLogSize(nvJitLinkHandle handle, size_t *size);
nvJitLinkResult nvJitLinkGetInfoLog(nvJitLinkHandle handle, char *log);
nvJitLinkResult nvJitLinkVersion(unsigned int *major, unsigned int *minor);

#endif

#ifdef __cplusplus
}
#endif

#endif
