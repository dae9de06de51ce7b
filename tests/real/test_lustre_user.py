"""A user without root measures on a real Lustre: his sudo has what `fsage site --sudoers` prints, on servers too.

The server is the same machine by an sshd of its own, which does not see his home, as at sites.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import lustre_vm as real
import pytest
from lustre_vm import CONFIG, HOST, LustreProject, ssh

from fsage.host import helper, sudoers
from fsage.host.system import privilege
from fsage.model.declaration import complete
from fsage.seam import sudo_rules

pytestmark = real.MARKS
USER, SERVER = "fsagetest", f"{HOST}-server"
RPCS = "max_rpcs_in_flight"
HOME, RULES, OF_SERVERS = f"/home/{USER}", "/etc/sudoers.d/fsagetest", "/etc/sudoers.d/fsagetest-servers"
PORT, KEYS, DAEMON = 2022, "/etc/ssh/fsagetest_keys", "/run/fsagetest.pid"
ONE = {"states__capacity": [10], "states__fragmentation": [50], "states__file_size": ["64M"], "headline": []}
MAKE = f"""set -e
useradd --create-home --shell /bin/bash {USER}
install -d -m 700 -o {USER} -g {USER} {HOME}/.ssh
install -m 600 -o {USER} -g {USER} -t {HOME}/.ssh /root/.ssh/*
cat >{HOME}/.ssh/config <<END
Host {SERVER}
  HostName 127.0.0.1
  Port {PORT}
  HostKeyAlias {HOST}
END
install -m 644 /root/.ssh/authorized_keys {KEYS}
mkdir -p /run/sshd
setsid unshare --mount sh -c 'mount -t tmpfs none /home &&
    exec /usr/sbin/sshd -D -p {PORT} -o PidFile=none -o AuthorizedKeysFile={KEYS}' </dev/null >/dev/null 2>&1 &
echo $! >{DAEMON}
install -D -m 755 /dev/stdin {privilege.HELPER}
chmod 1777 {real.MOUNT}
"""
UNMAKE = f"""chmod 755 {real.MOUNT}; kill $(cat {DAEMON}); rm -f {privilege.HELPER} {RULES} {OF_SERVERS} {KEYS} {DAEMON}
rmdir /usr/local/libexec/fsage; userdel --force --remove {USER}"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """His target, on all of the file system."""
    folder = tmp_path_factory.mktemp("user")
    first = Path(CONFIG).read_text() if CONFIG else f"Host {HOST}\n"
    config = folder / "user.conf"
    kept = [line for line in first.splitlines() if line.split()[:1] not in (["Host"], ["HostName"], ["Port"])]
    jump = f"ssh {f'-F {CONFIG} ' if CONFIG else ''}-W 127.0.0.1:{PORT} {HOST}"
    server = "\n".join([f"Host {SERVER}", f"  ProxyCommand {jump}", f"  HostKeyAlias {HOST}", *kept, f"  User {USER}"])
    config.write_text(server + "\n" + first.replace("User root", f"User {USER}"))
    spec = {**real.declaration(oss=[SERVER]), "home": f"{HOME}/fsage"}
    try:
        ssh(MAKE, stdin=sudoers.program())
        for role, path in ((helper.CLIENTS, RULES), (helper.SERVERS, OF_SERVERS)):
            ssh(
                f"install -m 440 /dev/stdin {path} && visudo -c -q",
                stdin=sudo_rules(USER, complete(spec), role).encode(),
            )
        with real.at_work(folder, spec, (HOST,), str(config), SERVER) as made:
            yield made
        assert ssh(f"ls -A {HOME}/fsage 2>/dev/null", check=False).split() == []
    finally:
        ssh(UNMAKE, check=False)


def test_a_site_tries_his_rights_before(project: LustreProject) -> None:
    """With exactly the printed rules nothing stands in the way. Each rule that is missing is named."""
    words = ("fsage", "--target", project.spec["name"], "site", "small")
    assert "Nothing stands in the way" in project.done(*words)
    for path, verb, front in (
        (RULES, "lustre-locks", "lacks the right to call"),
        (OF_SERVERS, "lustre-free-space", f"does not reach {SERVER} as `ssh {SERVER}` does: the right to call"),
    ):
        ssh(f"sed -i.bak s/{verb}/nothing/ {path} && visudo -c -q")
        try:
            assert f"{front} {privilege.HELPER} {verb} lustre" in project.fails(*words)
        finally:
            ssh(f"mv {path}.bak {path}")


def test_his_cells_are_cold_tuned_and_counted(project: LustreProject) -> None:
    """Locks, tunables, commit and counters are asked of the helper."""
    cells = {"cells__iterations": 1, "cells__transfer_size": ["4M"]}
    (record,) = project.measured(**ONE, **cells, tuning={RPCS: 16}).values()
    assert record["conditions"]["uid"] == int(ssh(f"id -u {USER}"))
    for phase in record["phases"]:
        assert (phase["cache_drop"], phase["metadata"], phase["cached_pages"]) == (
            "lru_size=clear, drop_caches=3",
            "cold",
            0,
        )
    assert record["osts"]["absent"] == {} and record["osts"]["brw_stats"]
    assert {
        value for phase in ("before", "now") for value in record["conditions"]["tunables"][RPCS][phase].values()
    } == {
        "8",
        "16",
    }
    assert set(ssh(f"lctl get_param -n osc.lustre-OST*-osc-[^M]*.{RPCS}").split()) == {"8"}, "the run put it back"
    refused = ssh(f"su {USER} -c 'sudo -n id'; su {USER} -c 'sudo -n lctl set_param debug=0'; true", check=False)
    assert refused == "", "his sudo has the verbs alone"
    place = next((project.root / "results/quarantine").rglob("10.50@64M.*.json"))  # where `measured` set it aside
    stores = json.loads(place.read_text())["layout"]["stores"]
    free = {store["ost"]: store["free_bytes"] for store in stores if store.get("ost")}
    assert len(free) == 6 and all(free.values()), stores


def asks(words: str, given: object = None) -> str:
    """What sudo and the helper tell him."""
    return ssh(f"su {USER} -c 'sudo -n {privilege.HELPER} {words}' 2>&1; true", stdin=json.dumps(given or {}).encode())


def test_his_rules_have_bounds_and_root_can_undo(project: LustreProject) -> None:
    """Neither another file system, nor a server's verb on a client, nor to undo what others set; a value has bounds."""
    full = ssh(f"lctl list_param osc.{real.FSNAME}-OST0000-osc-[^M]*.{RPCS}").strip()

    def tune(value: int) -> str:
        holder = {"target": "mine", "home": HOME, "run": None}
        return asks("lustre-tune lustre", {"values": {full: str(value)}, "holder": holder})

    def now() -> list[str]:
        return ssh(f"lctl get_param -n {full}").split()

    for words in ("lustre-locks other", "lustre-tune other", "undo"):
        assert "a password is required" in asks(words)
    assert "a user may have" in tune(100_000) and now() == ["8"]
    assert '"value"' in tune(32) and now() == ["32"]
    assert "32 -> 8" in ssh(f"{privilege.HELPER} undo") and now() == ["8"]


def test_ior_is_his(project: LustreProject) -> None:
    cells = {"cells__tool": "ior", "cells__iterations": 1, "cells__transfer_size": ["4M"]}
    (record,) = project.measured(**ONE, **cells).values()
    assert record["phases"][0]["argv"][0] == "mpirun" and "--allow-run-as-root" not in record["phases"][0]["argv"]
    assert sum(record["phases"][0]["placement"]["stripes"].values()) == 2
