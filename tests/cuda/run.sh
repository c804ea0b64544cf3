#!/usr/bin/env bash
# Builds every program of this folder with nvcc calling sassafras in ptxas's place, runs it on the GPU and judges it.
#
#   run.sh SASSAFRAS [CUDA_HOME] [PROGRAM...]
#
# CUDA_HOME is the toolkit that holds bin/nvcc (default: where the nvcc of the PATH stands); PROGRAM is a name such as
# transpose (default: all). A program passes if it leaves with exit code 0, its last line is PASS, and all that it
# printed equals PROGRAM.expected where that file is there. A program that does not pass is built once more with the
# toolkit's own ptxas and run: if it fails then too, the fault is not the compiler's. Exit code 0: all passed.
#
#   LEVELS="0 1 3"   optimisation levels to test (default 3)
#   ARCH=sm_90       target
#   NVCC_FLAGS=...   more flags for nvcc
#   BUILD_ONLY=1     for a machine without a GPU: builds, runs nothing
#   JOBS, RUN_JOBS   builds at a time (default 16), runs at a time (default 4)
#   SECONDS_EACH     limit of one run (default 20)
#   WORK=DIR         keeps executables and logs there
set -u
. "$(dirname "$0")/../script.sh"
[ $# -ge 1 ] || usage
sassafras=$(program "$1") || exit 2
home=$(cuda_home "${2:-}") || exit 2
shift; [ $# -eq 0 ] || shift
programs=("$@")
[ ${#programs[@]} -gt 0 ] || programs=($(cd "$here" && ls ./*.cu | sed 's,^\./,,; s,\.cu$,,'))
for name in "${programs[@]}"; do
    [ -f "$here/$name.cu" ] || { echo "run.sh: no program '$name'" >&2; exit 2; }
done
: "${LEVELS:=3}" "${ARCH:=sm_90}" "${NVCC_FLAGS:=}" "${BUILD_ONLY:=}" "${JOBS:=16}" "${RUN_JOBS:=4}" "${SECONDS_EACH:=20}"
if [ -n "$BUILD_ONLY" ]; then good=BUILT; else good=PASS; fi
export here work good ARCH NVCC_FLAGS BUILD_ONLY SECONDS_EACH
export CUDA_DISABLE_PTX_JIT=1   # the driver must not compile in the compiler's place

# build NAME LEVEL TOOLKIT: the executable holds machine code alone, no PTX that the driver could fall back to.
build() {
    local out="$work/$1.O$2.$3"
    rm -f "$out" "$out".*
    timeout 120 "$work/$3/bin/nvcc" -O3 -Xptxas "-O$2" -gencode "arch=compute_${ARCH#sm_},code=$ARCH" $NVCC_FLAGS \
        "$here/$1.cu" -o "$out" > "$out.build" 2>&1 || echo BUILD > "$out.verdict"
}

# judge NAME LEVEL TOOLKIT: runs what was built and writes PASS, FAIL, TIMEOUT, CRASH or OUTPUT (another text).
judge() {
    local out="$work/$1.O$2.$3" verdict=$good
    [ ! -f "$out.verdict" ] || return 0
    if [ -z "$BUILD_ONLY" ]; then
        timeout -k 2 "$SECONDS_EACH" "$out" > "$out.stdout" 2> "$out.stderr"
        case $? in
        0) [ "$(tail -n 1 "$out.stdout")" = PASS ] || verdict=FAIL ;;
        124 | 137) verdict=TIMEOUT ;;
        1) verdict=FAIL ;;
        *) verdict=CRASH ;;
        esac
        [ ! -f "$here/$1.expected" ] || cmp -s "$here/$1.expected" "$out.stdout" || [ $verdict != PASS ] || verdict=OUTPUT
    fi
    echo $verdict > "$out.verdict"
}
export -f build judge

# test_all TOOLKIT: reads lines of NAME LEVEL.
test_all() {
    local list="$work/list.$1"
    sed "s/\$/ $1/" > "$list"
    xargs -P "$JOBS" -L 1 bash -c 'build "$@"' build < "$list"
    xargs -P "$RUN_JOBS" -L 1 bash -c 'judge "$@"' judge < "$list"
}

verdict() { cat "$work/$1.O$2.$3.verdict" 2> /dev/null || echo NONE; }

# Why NAME LEVEL of ours did not pass, in a line.
reason() {
    local out="$work/$1.O$2.ours"
    case $(verdict "$1" "$2" ours) in
    BUILD) grep -m 1 -iE 'error|fatal' "$out.build" || head -n 1 "$out.build" ;;
    OUTPUT) diff "$here/$1.expected" "$out.stdout" | sed -n 2p ;;
    *) head -n 1 "$out.stdout" ;;
    esac | cut -c 1-160
}

toolkit "$home" "$work/ours" "$sassafras"
toolkit "$home" "$work/ptxas"
for level in $LEVELS; do
    for name in "${programs[@]}"; do echo "$name $level"; done
done | test_all ours

failed=()
for level in $LEVELS; do
    for name in "${programs[@]}"; do [ "$(verdict "$name" "$level" ours)" = $good ] || failed+=("$name $level"); done
done
[ ${#failed[@]} -eq 0 ] || printf '%s\n' "${failed[@]}" | test_all ptxas

printf '%-20s %-5s %-8s %-8s %s\n' program level ours ptxas reason
blameless=0
for level in $LEVELS; do
    for name in "${programs[@]}"; do
        ours=$(verdict "$name" "$level" ours) theirs=- why=
        if [ "$ours" != $good ]; then
            theirs=$(verdict "$name" "$level" ptxas) why=$(reason "$name" "$level")
            [ "$theirs" = $good ] || blameless=$((blameless + 1))
        fi
        printf '%-20s %-5s %-8s %-8s %s\n' "$name" "O$level" "$ours" "$theirs" "$why"
    done
done
runs=$((${#programs[@]} * $(wc -w <<< "$LEVELS")))
echo "$((runs - ${#failed[@]})) of $runs $good; ${#failed[@]} did not, of them $blameless with ptxas too; ${SECONDS} s"
[ ${#failed[@]} -eq 0 ]
