#!/usr/bin/env bash
# image.sh ROOT DEFINITION IMAGE: build an image from an unpacked Debian where Apptainer may not run %post; root.
#
# That is so where the machine lacks a capability that Apptainer asks for. So %files and %post of the definition are
# carried out in ROOT (which is changed), by chroot, and Apptainer makes the image of that and of the other sections.
set -euo pipefail
root=${1:?unpacked Debian} definition=${2:?definition file} image=${3:?image to make}

section() { sed -n "/^%$1/,/^%/{/^%/d;p}" "$definition"; }
while read -r from to; do
    [[ -z $from ]] || install -D -m 644 "$from" "$root$to"
done < <(section files)
# The machine's certificates are its own matter: on the way to the registries there may be a mirror with one of its own.
clean=(PATH=/usr/sbin:/usr/bin:/sbin:/bin)
if [[ -e ${PIP_CERT:-} ]]; then
    install -D -m 644 "$PIP_CERT" "$root/run/certificates.crt"
    clean+=(PIP_CERT=/run/certificates.crt)
fi
section post | env --ignore-environment "${clean[@]}" chroot "$root" bash -eux
rm -f "$root/run/certificates.crt"

sed '/^%files/,/^%/{/^%files/d;/^%/!d}; /^%post/,/^%/{/^%post/d;/^%/!d}' "$definition" >"$image.def"
apptainer build --notest --mksquashfs-args "-Xcompression-level 1" --build-arg BOOTSTRAP=localimage --build-arg "FROM=$root" "$image" "$image.def"
apptainer test "$image"
