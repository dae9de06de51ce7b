"""A second client on the Lustre host: network, host name and processes of its own, its sshd, the same kernel and mount.

So MPI has two nodes to start on, and one of them can lose its power; to Lustre's servers both are one client.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from lustre_vm import CONFIG, HOST, ssh

NAME = "lvm2"
HERE, THERE = "10.99.0.1", "10.99.0.2"
INIT = f"/run/{NAME}.pid"
UP = f"""set -e
ip netns add {NAME}
ip link add {NAME} type veth peer name eth0 netns {NAME}
ip addr add {HERE}/24 dev {NAME}
ip link set {NAME} up
ip -n {NAME} link set lo up
ip -n {NAME} addr add {THERE}/24 dev eth0
ip -n {NAME} link set eth0 up
ip -n {NAME} route add default via {HERE}
grep -q ' {NAME}$' /etc/hosts || echo '{THERE} {NAME}' >>/etc/hosts
grep -q '^{NAME},' /root/.ssh/known_hosts ||
    awk '{{ print "{NAME},{THERE}", $1, $2 }}' /etc/ssh/ssh_host_ed25519_key.pub >>/root/.ssh/known_hosts
"""
# By nsenter, and not `ip netns exec`, which hides debugfs, where Lustre keeps parameters.
POWER = f"""mkdir -p /run/sshd
setsid nsenter --net=/run/netns/{NAME} unshare --uts --pid --mount --fork --mount-proc --kill-child sh -c \
    'hostname {NAME}; exec /usr/sbin/sshd -D -o PidFile=none' </dev/null >/dev/null 2>&1 &
echo $! >{INIT}
until timeout 1 bash -c '</dev/tcp/{THERE}/22' 2>/dev/null; do sleep 0.5; done
"""
DOWN = f"""ip netns del {NAME}; ip link del {NAME} 2>/dev/null
sed -i '/ {NAME}$/d' /etc/hosts; sed -i '/^{NAME},/d' /root/.ssh/known_hosts; rm -f {INIT}"""


def power_on() -> None:
    """Start it."""
    ssh(POWER, timeout=60)


def power_off() -> None:
    """End all that runs on it, at once."""
    ssh(f"kill -KILL $(cat {INIT})", check=False)
    time.sleep(1)


@contextlib.contextmanager
def second_client(folder: Path) -> Iterator[str]:
    """Have it; the ssh configuration that reaches both."""
    first = Path(CONFIG).read_text() if CONFIG else "Include ~/.ssh/config\n"
    more = first.replace(f"Host {HOST}", f"Host {NAME}") if CONFIG else f"Host {NAME}\n  User root\n"
    more = "\n".join(line for line in more.splitlines() if line.split()[:1] not in (["HostName"], ["Port"]))
    config = folder / "both.conf"
    jump = f"  HostName {THERE}\n  ProxyCommand ssh {f'-F {CONFIG} ' if CONFIG else ''}-W %h:%p {HOST}\n"
    config.write_text(f"{more}\n{jump}  HostKeyAlias {HOST}\n{first}")
    ssh(UP)
    try:
        power_on()
        yield str(config)
    finally:
        power_off()
        ssh(DOWN)
