#!/usr/bin/env bash
# Runs Triton kernels and torch.compile programs on the GPU with sassafras in ptxas's place, and judges them.
#
#   run.sh SASSAFRAS
#
# Every cubin that Triton made must be ours: a fallback to another compiler is a failure. A case that fails is run once
# more with Triton's own ptxas: if it fails then too, the fault is not the compiler's, and it is listed apart.
# Exit code 0: all that pass with ptxas pass with us.
#
#   JOBS=6           processes that share the work
#   SECONDS_EACH     limit of one process (default 400)
set -u
. "$(dirname "$0")/../script.sh"
[ $# -eq 1 ] || usage
sassafras=$(program "$1") || exit 2
jobs=${JOBS:-6}
limit=${SECONDS_EACH:-400}

# run WHERE SCRIPT [ARGUMENT...]: with caches of its own, so that nothing compiled earlier is used.
run() {
    local where=$1 script=$2; shift 2
    mkdir -p "$where"
    TRITON_CACHE_DIR=$where/triton TORCHINDUCTOR_CACHE_DIR=$where/inductor TORCHINDUCTOR_COMPILE_THREADS=4 \
        timeout "$limit" python3 "$here/$script" "$@" >"$where/log" 2>"$where/errors"
    local code=$?
    [ $code -le 1 ] || { echo "$script $* FAIL ended with $code: $(tail -n 1 "$where/errors")"; } >>"$where/log"
}
export TRITON_PTXAS_PATH=$sassafras
run "$work/kernels" kernels.py &
for ((part = 0; part < jobs; part++)); do run "$work/compiled$part" compiled.py --part "$part/$jobs" & done
wait
unset TRITON_PTXAS_PATH

cat "$work"/*/log >"$work/all"
ours=$(find "$work" -name '*.cubin' -exec grep -l sassafras {} + | wc -l)
cubins=$(find "$work" -name '*.cubin' | wc -l)
bad=0
for script in kernels compiled; do
    names=$(cat "$work/$script"*/log | awk '$2 == "FAIL" {print $1}' | grep -v '\.py$')
    [ -n "$names" ] || continue
    run "$work/reference-$script" "$script.py" $names
    while read -r name; do
        if grep -q "^$name pass" "$work/reference-$script/log"; then
            bad=$((bad + 1)); grep "^$name FAIL" "$work/all"
        else
            echo "$name fails with ptxas, too: $(grep "^$name FAIL" "$work/reference-$script/log" | cut -c1-160)"
        fi
    done <<<"$names"
done
stopped=$(grep -c '^[a-z]*\.py .*FAIL' "$work/all"); grep '^[a-z]*\.py .*FAIL' "$work/all"
echo "$(grep -c ' pass$' "$work/all") cases pass, $bad fail, $stopped processes stopped; $ours of $cubins cubins are ours"
[ "$bad" -eq 0 ] && [ "$stopped" -eq 0 ] && [ "$ours" -eq "$cubins" ] && [ "$cubins" -gt 0 ]
