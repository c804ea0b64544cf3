#!/usr/bin/env bash
# Makes the PTX files of this folder anew: clang's, with LLVM's NVPTX backend, and the run lines of the sources before.
#
#   make.sh CLANG [ARCH [FOLDER]]      the default is sm_90, here
#
# CLANG is a clang with the target nvptx64; neither CUDA nor its headers are needed. `python3 -m pip install ziglang`
# has one: `CLANG="zig clang"`.
set -eu
. "$(dirname "$0")/../script.sh"
[ $# -ge 1 ] || usage
arch=${2:-sm_90}
folder=${3:-$here}
for source in "$here"/*.cu; do
    out=$folder/$(basename "$source" .cu).ptx
    $1 -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch="$arch" --cuda-feature=+ptx87 -std=c++17 -O2 \
        -S "$source" -o "$out.tmp"
    { sed '/^#include/,$d' "$source"; echo; grep -v '^\s*//' "$out.tmp"; } > "$out"
    rm "$out.tmp"
done
