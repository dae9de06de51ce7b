"""The servers' cache on ZFS: a `zfs` that keeps properties as the real one does, on servers that are real agents."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lustre_site import Site, lustre_target
from measuring import holder

from fsage.base import Failure, Refusal
from fsage.host.instruments import Visit
from fsage.host.remote.remote_hosts import Hosts, Lost
from fsage.host.system import settings
from fsage.host.targets import lease
from fsage.host.verbs import tune
from fsage.model.declaration import complete
from fsage.studies.lustre.instruments import server_cache

pytestmark = pytest.mark.root
ZFS = """#!{python} -SE
import json, pathlib, sys
book = pathlib.Path({book!r})
with open(book.parent / "log", "a") as log:
    log.write("zfs " + " ".join(sys.argv[1:]) + "\\n")
known = json.loads(book.read_text())
verb, *words = sys.argv[1:]
one = known[words[-1]]
if verb == "get":
    assert words[:-1] == ["-H", "-o", "value,source", "primarycache"], words
    print(one["value"], one["source"], sep="\\t")
elif verb == "set":
    value = words[0].removeprefix("primarycache=")
    if one.get("stubborn"):
        sys.exit("cannot set property for '" + words[-1] + "': permission denied")
    one.update(value=value, source="local")
elif verb == "inherit":
    one.update(one["received"] if "-S" in words else one["inherited"])
book.write_text(json.dumps(known))
"""
DEFAULT = {"value": "all", "source": "default"}
FROM_POOL = {"value": "metadata", "source": "inherited from fast"}
RECEIVED = {"value": "metadata", "source": "received"}
OF = "lctl get_param osd-{}.lustre-OST*.mntdev"


def kept(**now: object) -> dict:
    return {"inherited": DEFAULT, "received": RECEIVED, **now}


@pytest.fixture
def spec(tmp_path: Path, site: Site) -> dict:
    zfs = site.bin / "zfs"
    zfs.write_text(ZFS.format(python=sys.executable, book=str(site.place / "zfs.json")))
    zfs.chmod(0o755)
    spec = complete({**lustre_target(tmp_path, site), "amount_mib": 64})
    site.answer(OF.format("ldiskfs"), stderr="error: get_param: param_path 'osd-*': No such file or directory\n", rc=2)
    site.answer(OF.format("zfs"), "".join(f"osd-zfs.lustre-OST000{n}.mntdev=fast/ost{n}\n" for n in range(4)))
    return spec


def zfs(site: Site, **more: dict) -> dict:
    """The properties; `more`: to be so from now on."""
    book = site.place / "zfs.json"
    known = json.loads(book.read_text()) if book.exists() else {}
    book.write_text(json.dumps(known := {**known, **{f"fast/{name}": each for name, each in more.items()}}))
    return {name: {key: each[key] for key in ("value", "source")} for name, each in known.items()}


def beside(spec: dict, servers: int = 1) -> Hosts:
    """The launcher's connection to agents that take this machine for a server."""
    server = {"python": sys.executable, "local": True, "name": "oss1"}
    return Hosts(spec, {"id": "one"}, {"clients": [{"name": "c1"}], "servers": [server] * servers})


ASKING = {"phases": [{"name": "write", "server_cache": "none"}, {"name": "read", "server_cache": "none"}]}
WITHOUT = {"phases": [{"name": "write"}]}


@contextlib.contextmanager
def held(hosts: Hosts, cell: dict) -> Iterator[dict]:
    """What a phase has on record while the cell runs."""
    instrument = of(hosts)
    with instrument.around_cell(cell), instrument.around_phase(cell["phases"][0], cell) as noted:
        yield noted


def of(hosts: Hosts) -> server_cache.ServerCache:
    return server_cache.ServerCache(Visit(None, {}, hosts))


def test_it_is_set_for_a_cell_and_put_back_exactly(spec, site):
    """Where a user only watches a server, there is nothing: the folder of the note is root's, and he makes none."""
    os.seteuid(65534)
    try:
        assert server_cache.put_back(spec) == []
    finally:
        os.seteuid(0)
    assert not settings.NOTE.parent.exists()
    before = zfs(
        site,
        ost0=kept(**DEFAULT),
        ost1=kept(value="metadata", source="local"),
        ost2=kept(**RECEIVED),
        ost3=kept(**FROM_POOL, inherited=FROM_POOL),
    )
    hosts = beside(spec)
    with held(hosts, ASKING) as noted:
        assert noted == {"oss1": dict.fromkeys(before, "none")}
        assert {each["value"] for each in zfs(site).values()} == {"none"}
        assert {name: entry["first"] for name, entry in settings.notes("datasets").items()} == before
    assert zfs(site) == before
    assert site.commands("zfs inherit -S") == ["zfs inherit -S primarycache fast/ost2"], "as it was received"
    with pytest.raises(ZeroDivisionError), held(hosts, {"phases": [{"server_cache": "metadata"}]}):
        raise ZeroDivisionError
    assert zfs(site) == before
    site.commands("zfs")
    with held(hosts, WITHOUT) as noted:
        assert noted == {} and not site.commands("zfs set")
    hosts.close()
    assert not settings.notes("datasets")


@pytest.mark.long
def test_it_is_put_back_when_launcher_or_server_is_lost(spec, site):
    before = zfs(site, ost0=kept(**DEFAULT))
    site.answer(OF.format("zfs"), "osd-zfs.lustre-OST0000.mntdev=fast/ost0\n")
    gone = beside(spec)
    gone.ask_servers(do="server_cache", setting="none")
    assert zfs(site) != before
    gone.close()  # as a killed launcher's connection ends
    assert zfs(site) == before, "by the agent there"
    with pytest.raises(Lost), held(hosts := beside(spec), ASKING):
        hosts.servers[0].process.kill()
        hosts.servers[0].process.wait()
    hosts.close()
    assert zfs(site)["fast/ost0"] == {"value": "none", "source": "local"}
    would = server_cache.server_cache_back(spec, {}, True)
    assert would["changed"] and would["msg"] == "would put back: fast/ost0: primarycache is none (local)"
    assert server_cache.server_cache_back(spec, {}, False)["proof"] == ["fast/ost0: primarycache is all (default)"]
    assert zfs(site) == before
    assert not server_cache.server_cache_back(spec, {}, False)["changed"]


@pytest.mark.long
def test_a_dataset_that_cannot_be_set_fails_the_cell_and_leaves_the_others_as_they_were(spec, site):
    before = zfs(site, ost0=kept(**DEFAULT), ost1=kept(**DEFAULT, stubborn=True))
    site.answer(OF.format("zfs"), "".join(f"osd-zfs.lustre-OST000{n}.mntdev=fast/ost{n}\n" for n in range(2)))
    hosts = beside(spec)
    with (
        pytest.raises(Failure, match=r"oss1: `zfs set .*fast/ost1` ended with .* permission denied"),
        held(hosts, ASKING),
    ):
        raise AssertionError("no cell runs")
    hosts.close()
    assert zfs(site) == before


def test_why_it_cannot_be_set_is_said(spec, site):
    nobody = beside(spec, 0)
    assert of(nobody).unsupported(WITHOUT) is None
    assert "server_cache none: the inventory's group `servers` names no host" in str(of(nobody).unsupported(ASKING))
    hosts = beside(spec)
    assert of(hosts).unsupported(ASKING) is None
    site.answer(OF.format("zfs"))
    assert "none of oss1 serves an OST on ZFS" in str(of(hosts).unsupported(ASKING))
    site.answer(OF.format("ldiskfs"), "osd-ldiskfs.lustre-OST0000.mntdev=/dev/vdc\n")
    assert "lustre-OST0000 is on ldiskfs, and primarycache is a property of ZFS" in str(of(hosts).unsupported(ASKING))
    hosts.close()


def test_recovering_is_refused_while_a_run_holds_the_target(spec):
    home = Path(spec["home"]) / "scratch"
    home.mkdir(parents=True)
    assert not tune.recover(spec, {}, False)["changed"]
    lease.take(home, holder())
    with pytest.raises(Refusal, match="is held by run r1"):
        tune.recover(spec, {}, False)
