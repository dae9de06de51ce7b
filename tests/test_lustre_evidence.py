"""Evidence of a state on Lustre: each OST as its server sees it, from the agent's verb to the playbook's file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lustre_site import Site, lustre_target, recorded, site_in
from test_playbooks import ansible, done, inventory_of, request

from fsage.base import Refusal
from fsage.host.system import privilege
from fsage.studies.lustre import helper
from fsage.studies.lustre.host import servers
from fsage.studies.paf.model import Populate

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "tests" / "data" / "evidence"
ASKED = "lctl get_param osd-*.lustre-OST*.fstype osd-*.lustre-OST*.mntdev"
MIB = 1 << 20
STEPS = [Populate(1, percent=1, file_bytes=(16 * MIB,), seed=1, files_at_once=4)]


def parameters(kind: str = "ldiskfs") -> str:
    """Device and kind of both OSTs, as recorded; of the other kind with the names that osd-zfs has."""
    lines = [line for line in recorded("lctl_mntdev.txt").splitlines(True) if "OST" in line and "kbytes" not in line]
    text = "".join(lines)
    return text if kind == "ldiskfs" else text.replace("ldiskfs", kind).replace("/dev/vd", "pool/ost-")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = site_in(tmp_path, monkeypatch, "lfs", "lctl", "findmnt", "dumpe2fs")
    site.answer(ASKED, parameters())
    site.answer("dumpe2fs /dev/vdc", (EVIDENCE / "dumpe2fs.txt").read_text())
    site.answer("dumpe2fs /dev/vdd", stderr="dumpe2fs 1.47.2 (1-Jan-2025)\nNo such device\n", rc=1)
    return site


def test_the_device_that_lustre_names_is_read_and_nothing_else(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    spec = lustre_target(tmp_path, site)
    first, second = servers.inspect(spec, {}, False)["osts"]
    assert (first["ost"], first["store"], first["filesystem"]) == ("lustre-OST0000", 0, "ldiskfs")
    assert first["source"]["free"].startswith("dumpe2fs")
    assert first["groups"]["count"] == 64
    assert first["free_bytes"] == sum(row["bytes"] for row in first["free_extents"]["histogram"]) > 7 << 30
    assert second["free_bytes"] is None
    assert "No such device" in second["absent"]["free_extents"]
    assert site.commands() == [ASKED, "dumpe2fs /dev/vdc", "dumpe2fs /dev/vdd"]


@pytest.mark.skipif(not shutil.which("sudo"), reason="needs sudo: .ci/testbed installs it")
def test_a_users_helper_becomes_dumpe2fs_of_an_ost(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No device is named to it, and its text may be longer than an answer."""
    mntdev = "osd-ldiskfs.lustre-OST0000.mntdev"
    site.answer(f"lctl get_param -n {mntdev}", "/dev/vdc\n")
    code = (
        "import sys; from fsage.studies.lustre import helper; helper.free_space(dict(fsname='lustre', ost=sys.argv[1]))"
    )
    ran = subprocess.run([sys.executable, "-c", code, "lustre-OST0000"], capture_output=True, text=True, check=True)
    assert ran.stdout == (EVIDENCE / "dumpe2fs.txt").read_text()
    assert site.commands() == [f"lctl get_param -n {mntdev}", "dumpe2fs /dev/vdc"]
    for given in ("/dev/vdc", "lustre-OST0000;id", "lustre-MDT0000"):
        with pytest.raises(Refusal, match="is not the name of an OST"):
            helper.free_space({"fsname": "lustre", "ost": given})
    spec = lustre_target(tmp_path, site)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setattr(privilege, "unavailable_because", lambda: None)
    monkeypatch.setattr(privilege, "HELPER", "helper-of-nobody")
    first, _ = servers.inspect(spec, {}, False)["osts"]
    assert "`dumpe2fs /dev/vdc` ended with status 1: " in first["absent"]["free_extents"]


def test_zfs_is_recognised_and_unsupported(site: Site, tmp_path: Path) -> None:
    spec = lustre_target(tmp_path, site)
    site.answer(ASKED, parameters("zfs"))
    stores = servers.inspect(spec, {}, False)["osts"]
    assert [store["filesystem"] for store in stores] == ["zfs", "zfs"]
    assert stores[0]["absent"]["groups"] == "unsupported: the layout of zfs OSTs is not read, only of ldiskfs"
    assert site.commands("dumpe2fs") == []


def test_a_server_without_osts_has_none(site: Site, tmp_path: Path) -> None:
    spec = lustre_target(tmp_path, site)
    missing = "error: get_param: param_path 'osd-*/lustre-OST*/fstype': No such file or directory\n"
    site.answer(ASKED, stderr=missing, rc=2)
    assert servers.inspect(spec, {}, False)["osts"] == []


@pytest.mark.long
@pytest.mark.root
def test_the_playbook_joins_what_servers_and_client_see(site: Site, tmp_path: Path) -> None:
    spec = lustre_target(tmp_path, site)
    site.answer(ASKED, "".join(line for line in parameters().splitlines(True) if "OST0000" in line))
    site.commits()
    inventory = inventory_of(tmp_path / "inventory", spec, servers=["mds1"])
    file = tmp_path / "state.json"
    steps = [step.to_json() for step in STEPS]
    asked = request(tmp_path / "request.json", steps, state="1.00", evidence=str(file))
    done(ansible(inventory, "claim.yml", "scrub.yml", "populate.yml", "evidence.yml", "-e", asked))
    evidence = json.loads(file.read_text())
    first, second, client = evidence["layout"]["stores"]
    assert [first["store"], second["store"], client["store"]] == [0, 1, 2]
    assert first["groups"]["count"] == 64
    assert second["absent"]["groups"] == "no host of the inventory's group `servers` serves it"
    assert client["files"]["filler"]["files"] == evidence["filler_files"] > 0
    assert set(evidence["osts"]) == {"lustre-OST0000", "lustre-OST0001"}
    assert not any("mb_groups" in command for command in site.commands())
