#!/usr/bin/env bash
# Compiles the PTX files of this folder, executes their run lines on the GPU and judges them.
#
#   run.sh SASSAFRAS GPU_RUN
#
# GPU_RUN is `gpu-run` of the crate `gpu`. Exit code 0: all runs passed at every level.
#
#   LEVELS="0 1 3"   optimisation levels to test (default: these)
#   ARCH=sm_90       target
set -u
. "$(dirname "$0")/../script.sh"
[ $# -eq 2 ] || usage
bad=0
for level in ${LEVELS:-0 1 3}; do
    for file in "$here"/*.ptx; do
        "$1" -arch="${ARCH:-sm_90}" "-O$level" "$file" -o "$work/$(basename "$file" .ptx).cubin" || bad=1
    done
    timeout 100 "$2" --cubins "$work" "$here"/*.ptx > "$work/log" 2>&1 || bad=1
    echo "-O$level: $(tail -n 1 "$work/log")"
    grep -v '^pass\|^gpu-run: on\|runs passed$' "$work/log" | head -n 5
    rm -f "$work"/*.cubin
done
exit $bad
