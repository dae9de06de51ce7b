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
# The machine's own certificates: a mirror on the way to the registries may have one of its own.
[[ ! -e ${PIP_CERT:-} ]] || install -D -m 644 "$PIP_CERT" "$root/run/certificates.crt"
section post | PIP_CERT=${PIP_CERT:+/run/certificates.crt} chroot "$root" bash -eux

sed '/^%files/,/^%/{/^%files/d;/^%/!d}; /^%post/,/^%/{/^%post/d;/^%/!d}' "$definition" >"$image.def"
apptainer build --notest --build-arg BOOTSTRAP=localimage --build-arg "FROM=$root" "$image" "$image.def"
apptainer test "$image"
