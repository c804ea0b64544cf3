# Runs a command line in a root of its own, made anew each time: the system's programs, Rust as it is installed, a clone
# of the repository at its place, an empty home. Nothing else of this machine is there: no NVIDIA tools, no other Python,
# no file of the user's. What the tests built is at its place, too, so that it need not be built again.
#
# $1 an empty folder for the root, $2 the clone, $3 its place, $4 what was built, $5 the home, $6 Rust's toolchain,
# $7 the registry of crates, $8 the command line. It is process 1 of its own namespaces, where it may mount.
set -euo pipefail
root=$1 clone=$2 place=$3 built=$4 home=$5 rust=$6 registry=$7 line=$8

mount -t tmpfs none "$root"
show() { # A file or folder of this machine, at this place or another.
    if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$root$(dirname "$2")"; touch "$root$2"; fi
    mount --rbind "$1" "$root$2"
}
show /usr /usr
mount -t tmpfs none "$root/usr/local"
for folder in bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$folder" ]; then cp -d "/$folder" "$root/$folder"; elif [ -d "/$folder" ]; then show "/$folder" "/$folder"; fi
done
for file in alternatives ca-certificates group hosts ld.so.cache nsswitch.conf passwd pki resolv.conf ssl; do
    if [ -e "/etc/$file" ]; then show "/etc/$file" "/etc/$file"; fi
done
for device in null zero random urandom; do show "/dev/$device" "/dev/$device"; done
mkdir -p "$root/proc" "$root/tmp" "$root/run"
mount -t proc none "$root/proc"
show "$rust" "$rust"
show "$clone" "$place"
show "$built" "$built"
if [ -d "$built/ref" ] && [ ! -L "$built/ref" ]; then mount -t tmpfs none "$root$built/ref"; fi
user=/home/newcomer
show "$home" "$user"
show "$registry" "$user/.cargo/registry"
exec chroot "$root" /usr/bin/env -i HOME="$user" PATH="$user/.cargo/bin:$rust/bin:/usr/bin:/bin" \
    CARGO_TARGET_DIR="$built" \
    bash --noprofile --norc -c 'cd "$0" && set -euo pipefail && eval "$1"' "$place" "$line"
