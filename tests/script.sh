# What the scripts of the folders beside have in common; they begin with `. "$(dirname "$0")/../script.sh"`.
#
# `here` is the script's folder, `work` an empty one that goes when the script ends; if $WORK names one, that stays.
here=$(cd "$(dirname "$0")" && pwd)
if [ -n "${WORK:-}" ]; then
    work=$WORK
    mkdir -p "$work"
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi

# usage: prints the comment at the head of the script, and ends it.
usage() {
    awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"
    exit 2
}

# program PATH: the whole path of a program.
program() {
    if [ -x "$1" ]; then readlink -f "$1"; else echo "$(basename "$0"): no program $1" >&2; return 1; fi
}

# cuda_home [DIR]: the toolkit that holds bin/nvcc, by default that of the nvcc of the PATH.
cuda_home() {
    local home=${1:-$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")}
    if [ -x "$home/bin/nvcc" ]; then readlink -f "$home"; else echo "$(basename "$0"): no bin/nvcc in '$home'" >&2; return 1; fi
}

# toolkit HOME DIR [PTXAS]: DIR becomes a toolkit of links to HOME, in which PTXAS, if given, is the assembler. nvcc finds
# its toolkit by where it stands, so that it is copied. Toolkits installed by pip have lib where nvcc looks for lib64.
toolkit() {
    local home=$1 dir=$2
    rm -rf "$dir"
    mkdir -p "$dir/bin"
    for entry in "$home"/*; do [ "$(basename "$entry")" = bin ] || ln -s "$entry" "$dir/"; done
    [ -e "$dir/lib64" ] || ln -s "$home/lib" "$dir/lib64"
    for entry in "$home"/bin/*; do ln -s "$entry" "$dir/bin/"; done
    rm "$dir/bin/nvcc" "$dir/bin/nvcc.profile"
    cp "$home/bin/nvcc" "$home/bin/nvcc.profile" "$dir/bin/"
    [ $# -lt 3 ] || { rm "$dir/bin/ptxas" && cp "$3" "$dir/bin/ptxas"; }
}
