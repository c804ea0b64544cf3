# For scripts that set `home`, the toolkit that holds bin/nvcc.

# toolkit DIR [PTXAS]: a toolkit of links to the real one, in which PTXAS, if given, is the assembler. nvcc finds its
# toolkit by where it stands, so that it is copied. Toolkits installed by pip have lib where nvcc looks for lib64.
toolkit() {
    rm -rf "$1"
    mkdir -p "$1/bin"
    for entry in "$home"/*; do [ "$(basename "$entry")" = bin ] || ln -s "$entry" "$1/"; done
    [ -e "$1/lib64" ] || ln -s "$home/lib" "$1/lib64"
    for entry in "$home"/bin/*; do ln -s "$entry" "$1/bin/"; done
    rm "$1/bin/nvcc" "$1/bin/nvcc.profile"
    cp "$home/bin/nvcc" "$home/bin/nvcc.profile" "$1/bin/"
    [ $# -lt 2 ] || { rm "$1/bin/ptxas" && cp "$2" "$1/bin/ptxas"; }
}
