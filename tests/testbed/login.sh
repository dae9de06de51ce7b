#!/bin/bash
# login.sh FOLDER HOST...: first process of the cluster's outer namespaces (network, mounts, processes, host name).
# It is the host "login", 10.77.0.254, whose bridge joins all hosts; everything dies with it.
set -euo pipefail
folder=$1
shift

hostname login
mount --make-rprivate /
# our copies of others' mounts would pin their file systems
tac /proc/self/mounts | while read -r source point _; do
    [[ $source != /dev/loop* && $source != fsage-seekdisk-* ]] || umount "$point"
done
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/munge /run/sshd /run/host
# what `ssh n1`, `srun` and `sbatch` read by themselves
mount --bind "$folder/hosts" /etc/hosts
mount --bind "$folder/ssh/config" /etc/ssh/ssh_config
mount --bind "$folder/slurm" /etc/slurm
# what this machine's owner has shells do when they start (a minute, where a killed one left a lock) is not the hosts'
for file in ~/.bashrc ~/.bash_profile ~/.profile; do
    [[ ! -f $file ]] || mount --bind /dev/null "$file"
done

ip link set lo up
ip link add cluster type bridge
ip addr add 10.77.0.254/24 dev cluster
ip link set cluster up
number=0
for host; do
    number=$((number + 1))
    ip netns add "$host"
    ip link add "$host" type veth peer name eth0 netns "$host"
    ip link set "$host" master cluster up
    ip -n "$host" link set lo up
    ip -n "$host" addr add "10.77.0.$number/24" dev eth0
    ip -n "$host" link set eth0 up
done
echo ready

trap : CHLD # reap what is left to us
while :; do
    sleep 3600 &
    wait $! || true
done
