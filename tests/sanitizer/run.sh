#!/usr/bin/env bash
# Patches a program with functions that sassafras compiles, through NVIDIA's Sanitizer API, and compares what they count,
# and what the program computes, with ptxas's.
#
#   run.sh SASSAFRAS [CUDA_HOME]
#
# The functions are those of crates/sassafras/tests/patches/functions.cu, compiled by nvcc at -O3, -O0 and with -G. Needs
# a GPU, and compute-sanitizer in the toolkit. Exit code 0: everything is the same.
#
#   ARCH=sm_90       target
set -u
. "$(dirname "$0")/../script.sh"
[ $# -ge 1 ] || usage
sassafras=$(program "$1") || exit 2
home=$(cuda_home "${2:-}") || exit 2
sanitizer=$home/compute-sanitizer
[ -e "$sanitizer/include/sanitizer.h" ] || { echo "the Sanitizer API is not in $home"; exit 2; }
: "${ARCH:=sm_90}"
functions=$here/../../crates/sassafras/tests/patches/functions.cu

toolkit "$home" "$work/ptxas"
toolkit "$home" "$work/sassafras" "$sassafras"
g++ -O1 -fPIC -shared -I"$sanitizer/include" -I"$home/include" "$here/tool.cpp" -o "$work/libtool.so" \
    -L"$sanitizer" -lsanitizer-public -Wl,-rpath,"$sanitizer" || exit 2
"$home/bin/nvcc" -arch="$ARCH" "$here/app.cu" -o "$work/app" || exit 2

# patched WHO LEVEL FUNCTION: what the program prints with the function before its accesses of memory.
patched() {
    PATCH_FILE=$work/$1/functions$2.cubin PATCH_FUNCTION=$3 LD_PRELOAD=$work/libtool.so timeout 60 "$work/app" 2>&1
}

failed=0
for level in -O3 -O0 -G; do
    case $level in -G) flags=-G ;; *) flags="-Xptxas $level" ;; esac
    for who in ptxas sassafras; do
        "$work/$who/bin/nvcc" -arch="$ARCH" -cubin --keep-device-functions --compile-as-tools-patch $flags "$functions" \
            -o "$work/$who/functions$level.cubin" || exit 2
    done
    for function in Count Record Heavy Warp; do
        theirs=$(patched ptxas "$level" "$function")
        ours=$(patched sassafras "$level" "$function")
        if [ "$ours" = "$theirs" ] && grep -q 'count [1-9]' <<< "$ours"; then
            echo "$function $level: the same"
        else
            echo "$function $level: ptxas"; echo "$theirs"; echo "$function $level: sassafras"; echo "$ours"; failed=1
        fi
    done
done
exit $failed
