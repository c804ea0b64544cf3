#!/usr/bin/env bash
# Looks at a kernel of `nvcc -G` with cuda-gdb, once compiled by sassafras and once by ptxas, and compares what the
# debugger says with `expected`.
#
#   run.sh SASSAFRAS [CUDA_HOME]
#
# The session (session.gdb) stops in a function that a function of the kernel calls, goes up through the frames, and
# prints variables in registers that the calls save, on the stack and in shared memory. Exit code 0: ours is as expected.
#
#   ARCH=sm_90       target
#   NVCC_FLAGS=...   more flags for nvcc, such as -rdc=true
set -u
. "$(dirname "$0")/../script.sh"
[ $# -ge 1 ] || usage
sassafras=$(program "$1") || exit 2
home=$(cuda_home "${2:-}") || exit 2
debugger=$home/bin/cuda-gdb
[ -x "$debugger" ] || debugger=$(command -v cuda-gdb) || { echo "cuda-gdb is not on this machine"; exit 2; }
: "${ARCH:=sm_90}" "${NVCC_FLAGS:=}"

# What the debugger said, without addresses, launch sizes and its own remarks.
said() {
    grep -E '^(in |behind |\$|#|PASS|FAIL|.*rror)' "$1" |
        sed -E 's/^#([0-9]+) +(0x[0-9a-f]+ in )?/#\1 /; s/<<<[^>]*>>>//; s/out=[^,]*, //; s/ at (.*\/)?calls/ calls/'
}

# session WHO [PTXAS]: nvcc with its own ptxas, or with PTXAS.
session() {
    local out=$work/$1
    toolkit "$home" "$out" "${@:2}"
    timeout 60 "$out/bin/nvcc" -G -g -arch="$ARCH" $NVCC_FLAGS "$here/calls.cu" -o "$out/calls" > "$out/log" 2>&1 || { head -n 3 "$out/log"; return 1; }
    (cd "$out" && timeout 60 "$debugger" -batch -x "$here/session.gdb" ./calls) > "$out/log" 2>&1
    said "$out/log" > "$out/said"
    [ -s "$out/said" ] || tail -n 3 "$out/log"
    if diff "$here/expected" "$out/said" > "$out/diff"; then
        echo "$1: all $(grep -c '' "$here/expected") lines as expected"
    else
        echo "$1: $(grep -c '^<' "$out/diff") of $(grep -c '' "$here/expected") lines are otherwise"; grep '^[<>]' "$out/diff"
    fi
    [ ! -s "$out/diff" ]
}

session ptxas
session sassafras "$sassafras"
