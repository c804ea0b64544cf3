// What kernels need of CUDA, without its headers: clang's own words for it.
#pragma once
#define GLOBAL extern "C" __attribute__((global)) void
#define DEVICE __attribute__((device))
#define NOINLINE __attribute__((device, noinline))
#define SHARED __attribute__((shared))
#define CONSTANT __attribute__((constant))

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

DEVICE inline u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE inline u32 threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE inline u32 block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE inline u32 index() { return block() * threads() + thread(); }
DEVICE inline void barrier() { __syncthreads(); }
