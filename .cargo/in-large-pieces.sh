#!/bin/sh
# Links a program, and writes it once more in large pieces. Linkers write pages of 4 KB, and Linux keeps a file in its
# cache in the pieces that it was written in: with small ones each start of the program takes half again as long, until
# the file leaves the cache (measured with Linux 6.18 and ext4).
cc "$@" || exit
while [ $# -gt 1 ]; do
    if [ "$1" = -o ]; then
        cp "$2" "$2.copy" && mv "$2.copy" "$2" || exit
    fi
    shift
done
