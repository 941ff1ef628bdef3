# shellcheck shell=bash
# rootfs.sh: Debian roots, and commands run in them. Sourced by tools/fresh and tools/sid, each of which has a root of its own.
#
# A command has a mount namespace of its own, and so has debootstrap: what is mounted for it nobody else sees, and it goes when the
# command ends, however that ends. DEBIAN_MIRROR names another mirror.

# why_no_root: why no root can be made or entered here; nothing where it can.
why_no_root() {
    if [ "$(id -u)" != 0 ]; then
        echo "chroot needs root"
    elif ! command -v debootstrap >/dev/null; then
        echo "debootstrap is missing: apt-get install debootstrap"
    elif ! unshare --mount true 2>/dev/null; then
        echo "nothing may be mounted here"
    fi
}

# make_root SUITE ROOT OPTION...: make the root unless it is there. Half a one, of a run that was ended, is made anew.
make_root() {
    local suite=$1 root=$2
    shift 2
    if [ ! -e "$root/ready" ]; then
        rm -rf --one-file-system "$root"
        mkdir -p "$(dirname "$root")"
        unshare --mount --propagation private \
            debootstrap --variant=minbase "$@" "$suite" "$root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" || return 1
        touch "$root/ready"
    fi
}

# share_network ROOT: names are resolved and certificates trusted in it as they are outside, those that this machine has added too
# where the root's package of certificates is installed later, which makes its list anew.
share_network() {
    local root=$1 file
    for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt "${PIP_CERT:-}" /usr/local/share/ca-certificates/*.crt; do
        if [ -e "$file" ] && ! cmp -s "$file" "$root$file"; then
            install -D -m 644 "$file" "$root$file"
        fi
    done
}

# enter ROOT "FOLDER ..." COMMAND...: run the command in the root in place of this shell. It finds the folders, which are absolute,
# where they are outside.
enter() {
    # shellcheck disable=SC2016
    exec unshare --mount --propagation private bash -euc '
        for folder in $1; do
            mkdir -p "$0$folder"
            mount --rbind "$folder" "$0$folder"
        done
        shift
        exec chroot "$0" "$@"' "$@"
}
