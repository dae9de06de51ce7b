#!/bin/bash
# host.sh FOLDER NAME: first process of one host, in its own namespaces (network, mounts, processes, host name).
# Runs sshd and slurmd; killing it is power off.
set -euo pipefail
folder=$1 name=$2

hostname "$name"
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /run/host # what hosts do not share
# After a power off the port is free when the last process of the host before is gone, which takes a moment.
until /usr/sbin/sshd -D -f "$folder/ssh/sshd_config" -E "$folder/log/sshd.$name"; do sleep 0.2; done &
/usr/sbin/slurmd -D -N "$name" >>"$folder/log/slurmd.$name" 2>&1 &

trap : CHLD # reap what is left to us
while :; do
    sleep 3600 &
    wait $! || true
done
