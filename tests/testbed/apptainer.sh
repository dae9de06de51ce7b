#!/usr/bin/env bash
# apptainer.sh DIR MIRROR: an Apptainer of our own in DIR/bin, on a Debian whose release has none; root.
#
# Nothing is installed: a newer release's package is unpacked into DIR with the libraries that it wants, and made to load
# those. The machine's own libc is as it was.
set -euo pipefail
dir=$(realpath -m "${1:?directory}") mirror=${2:?mirror of Debian}
mkdir -p "$dir"/{bin,lists/partial,packages}

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] $mirror sid main" >"$dir/sources.list"
# Lists of their own: the machine's apt shall never see these packages.
newer=(apt-get -o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$dir/lists"
    -o APT::Sandbox::User=root -qq)
"${newer[@]}" update
(cd "$dir/packages" && "${newer[@]}" download apptainer libc6 libseccomp2 libsqlite3-0)
for package in "$dir"/packages/*.deb; do dpkg-deb --extract "$package" "$dir"; done

libraries=$(dirname "$(find "$dir/usr/lib" -name 'ld-linux*' -print -quit)")
for program in "$dir/usr/bin/apptainer" "$dir"/usr/lib/*/apptainer/bin/starter; do
    # RPATH and not RUNPATH: what a library loads shall come from here too.
    patchelf --set-interpreter "$libraries/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$libraries" "$program"
done
# Both look for /etc and /var beside where they lie, and they lie at different depths.
for prefix in usr usr/lib; do
    ln -sfn "$dir/etc" "$dir/$prefix/etc"
    ln -sfn "$dir/var" "$dir/$prefix/var"
done
mkdir -p "$dir/var/lib/apptainer/mnt/session"
# Else it asks for every capability for root's containers, and fails where the machine itself lacks one.
sed -i 's/^#* *root default capabilities.*/root default capabilities = no/' "$dir/etc/apptainer/apptainer.conf"
ln -sfn "$dir/usr/bin/apptainer" "$dir/bin/apptainer"
"$dir/bin/apptainer" --version
