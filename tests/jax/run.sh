#!/usr/bin/env bash
# Runs the JAX programs of this folder on the GPU with sassafras in ptxas's place, and judges them.
#
#   run.sh SASSAFRAS
#
# XLA's compilers in the process are turned off, and every call of ours is written down: a run in which XLA never asked
# us to compile anything is a failure. Exit code 0: all programs passed, and we compiled them.
#
#   SECONDS_EACH     limit of the process (default 150)
#   KEEP=DIR         keeps the PTX of every call there
set -u
. "$(dirname "$0")/../script.sh"
[ $# -eq 1 ] || usage
sassafras=$(program "$1") || exit 2
[ -z "${KEEP:-}" ] || mkdir -p "$KEEP"

# A toolkit that is the machine's, where there is one, but for ptxas.
mkdir -p "$work/cuda/bin"
if nvcc=$(command -v nvcc); then
    home=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
    for entry in "$home"/*; do [ "$(basename "$entry")" = bin ] || ln -s "$entry" "$work/cuda/"; done
    for entry in "$home"/bin/*; do [ "$(basename "$entry")" = ptxas ] || ln -s "$entry" "$work/cuda/bin/"; done
fi
cat > "$work/cuda/bin/ptxas" <<END
#!/bin/bash
echo "\$*" >> "$work/calls"
[ -z "${KEEP:-}" ] || [ ! -f "\$1" ] || cp "\$1" "${KEEP:-}/\$\$.ptx"
exec "$sassafras" "\$@"
END
chmod +x "$work/cuda/bin/ptxas"
export PATH=$work/cuda/bin:$PATH
export JAX_ENABLE_COMPILATION_CACHE=0 XLA_PYTHON_CLIENT_PREALLOCATE=false

# A version of XLA that does not know a flag stops at it: take the first set that it takes.
sets=(
    "--xla_gpu_enable_libnvptxcompiler=false --xla_gpu_enable_libnvjitlink=false"
    "--xla_gpu_enable_libnvptxcompiler=false --xla_gpu_libnvjitlink_mode=1"
    "--xla_gpu_enable_libnvptxcompiler=false"
)
for flags in "${sets[@]}"; do
    export XLA_FLAGS="--xla_gpu_cuda_data_dir=$work/cuda $flags"
    timeout 60 python3 -c 'import jax; jax.devices("gpu")' > "$work/probe" 2>&1 && break
    XLA_FLAGS=
done
[ -n "$XLA_FLAGS" ] || { echo "JAX does not find the GPU, or takes none of the flags: $(tail -n 1 "$work/probe")"; exit 1; }

timeout "${SECONDS_EACH:-150}" python3 "$here/programs.py" > "$work/log" 2> "$work/errors"
code=$?
grep ' FAIL ' "$work/log"
[ $code -le 1 ] || echo "programs.py ended with $code: $(tail -n 1 "$work/errors")"
compiled=$(grep -c -- '-o ' "$work/calls" 2> /dev/null)
echo "$(grep -c ' pass$' "$work/log") of $(grep -c '^    "[a-z0-9-]*": (' "$here/programs.py") programs pass; XLA had ${compiled:-0} modules compiled by us ($flags)"
[ $code -eq 0 ] && [ "${compiled:-0}" -gt 0 ]
