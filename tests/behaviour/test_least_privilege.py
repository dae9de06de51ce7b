"""A user without root measures on a loop target: a helper of root's, allowed by rules of sudo, does what needs root."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from machine import AGENT, LIBRARY, PLACE, Machine
from project import ROOT, make_project
from session import PREFIX

from fsage.agent import helper
from fsage.agent.device import cgroups, iocost, loops
from fsage.agent.system import privilege
from fsage.agent.targets.declaration import MIB
from fsage.site import sudoers

UID = 54321
RATES = {"bytes_per_s": 50 * MIB, "sequential_iops": 20_000, "random_iops": 100}
USER = "fsagetest"
needs_sudo = pytest.mark.skipif(not shutil.which("sudo"), reason="needs sudo (package sudo)")


@pytest.fixture
def user(machine: Machine) -> Iterator[Path]:
    """A place of the user's, on a disk; sudo allows him what `fsage site --sudoers` prints, and nothing else."""
    with tempfile.TemporaryDirectory(prefix=f"fsage-test-{PREFIX}user-", dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        home = Path(place, "home")
        home.mkdir()
        machine.add_user(USER, UID, home)
        yield home
        for image in home.glob("**/*.img"):  # of a test that failed
            for device in loops.devices_of(image_at(image)):
                machine.run("nsenter", f"--mount={PLACE}/mnt", "umount", device, check=False)
                machine.run("losetup", "--detach", device)
                Path(f"/run/fsage/devices/{Path(device).name}.json").unlink(missing_ok=True)


def as_user(machine: Machine, *words: str) -> list[str]:
    """A command of the user's."""
    become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    return machine.words(*become, *words)


def ask(machine: Machine, verb: str, **given: Any) -> tuple[int, str]:
    """What the helper answers the user: exit status, and the value or the sentence."""
    words = as_user(machine, "sh", "-c", 'sudo -n "$0" "$1"; exit $?', str(privilege.HELPER), verb)
    ran = subprocess.run(words, input=json.dumps(given), capture_output=True, text=True, check=False)
    answer = json.loads(ran.stdout) if ran.stdout else {"refused": ran.stderr}
    return ran.returncode, str(next(iter(answer.values())))


def image_at(path: Path) -> dict[str, Any]:
    """An image as the helper wants it named."""
    found = path.stat()
    return {"image": str(path), "dev": found.st_dev, "ino": found.st_ino, "bytes": found.st_size}


@pytest.mark.root
@pytest.mark.long
@pytest.mark.timeout(1200)
@needs_sudo
@pytest.mark.parametrize("study", ["small", "iocontrol"])
def test_a_study_runs_from_claim_to_release_as_a_user(
    machine: Machine, user: Path, local_target: dict, alone_with_controllers: None, study: str
) -> None:
    spec = {**local_target, "image_dir": str(user / "images"), "home": str(user / "state"), "scale": {"file_size": 1}}
    if study == "small":
        spec["device_model"] = {"kind": "iocost", "bytes_per_s": 50 * MIB}
    del spec["mount_dir"]
    project = make_project(user / "clone", spec)
    only = {"states__capacity": [30], "states__fragmentation": [50], "cells__transfer_size": ["4M"]}
    project.write_study(**only, cells__iterations=1, headline=[])
    shared = yaml.safe_load((ROOT / "config/iocontrol.yaml").read_text())
    del shared["target"]
    shared["states"]["stage"], shared["exclude"] = ["before"], []
    shared["cells"] |= {"pattern": ["P3"], "scheduler": ["bfq", "iocost"], "iterations": 1}
    (project.root / "config/iocontrol.yaml").write_text(yaml.safe_dump(shared))
    programs, asked = user / "bin", user / "who"
    programs.mkdir()
    (programs / "fio").write_text(f'#!/bin/sh\nid -u >>{asked}\nexec {shutil.which("fio")} "$@"\n')
    (programs / "fio").chmod(0o755)
    subprocess.run(["chown", "-R", f"{UID}:{UID}", user], check=True)
    project.env |= {"HOME": str(user), "USER": USER, "LOGNAME": USER, "PATH": f"{programs}:{project.env['PATH']}"}

    def run(*words: str) -> str:
        line = shlex.join(words)
        command = as_user(machine, "sh", "-c", f"cd {project.root} && exec {line}")
        ran = subprocess.run(command, env=project.env, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    inventory = f"inventories/{spec['name']}"
    run("snakemake", "--omit-from", f"report_{study}", "--", study)
    files = (project.root / "results/records").glob(f"*/{study}/*/*.json")
    records = sorted((json.loads(path.read_text()) for path in files), key=lambda one: str(one["params"]))
    conditions = [record["conditions"] for record in records]
    assert {one["uid"] for one in conditions} == {UID}
    assert set(asked.read_text().split()) == {str(UID)}, "all of fio ran as the user"
    why = iocost.possible({})
    if study == "small":
        assert [(record["status"], record["why"]) for record in records] == [("valid", None)]
        assert "filler" in run("fsage", "enter", "ls", f"/run/fsage/mnt/{spec['name']}/0")
        assert (conditions[0]["device_model"] or {}).get("group") == (None if why else f"fsage-{spec['name']}")
    elif why:
        assert {record["status"] for record in records} == {"unsupported"}, why
    else:
        assert [(record["params"]["scheduler"], record["why"]) for record in records] == [
            ("bfq", None),
            ("iocost", None),
        ]
    run("ansible-playbook", "-i", inventory, "release.yml")
    run("ansible-playbook", "-i", inventory, "local_target.yml", "-e", "fsage_local_target_state=absent")
    assert not list((user / "images").glob("*")) and not Path("/run/fsage/mnt", spec["name"]).exists()
    assert f"{PLACE}/mnt" not in machine.mounts(), "the namespace went with the target"
    assert not any(spec["name"] in name for name in (*cgroups.names(), *os.listdir("/run/fsage/groups")))


@pytest.mark.root
@needs_sudo
def test_a_user_has_a_device_model_xfs_tunables_evidence_and_cold_caches_too(
    machine: Machine, user: Path, local_target: dict, alone_with_controllers: None
) -> None:
    spec = {**local_target, "image_dir": str(user / "images"), "home": str(user / "state"), "filesystem": "xfs"}
    spec |= {"allocator_reset": "none", "device_model": {"kind": "iocost", "bytes_per_s": 50 * MIB}}
    del spec["mount_dir"]
    subprocess.run(["chown", "-R", f"{UID}:{UID}", user], check=True)
    library = {"PATH": os.environ["PATH"], "PYTHONPATH": LIBRARY, "HOME": str(user)}

    def agent(verb: str, **request: Any) -> dict:
        given = json.dumps({"target": spec, "request": request})
        words = as_user(machine, *AGENT, verb)
        ran = subprocess.run(words, input=given, env=library, capture_output=True, text=True, cwd="/", check=False)
        answer = json.loads(ran.stdout)
        assert ran.returncode == 0, answer["msg"] + ran.stderr
        return answer

    assert agent("probe")["probe"]["able"]
    agent("create")
    claimed = agent("claim")["claim"]
    assert claimed["uid"] == UID and claimed["device_model"]["why_none"] == iocost.possible({})
    if claimed["device_model"]["kind"] == "iocost":  # below which it was calibrated
        rates_mib_s = claimed["device_model"]["bytes_per_s"] / MIB, claimed["calibration"]["write_mib_s"]
        assert rates_mib_s[1] < 1.15 * rates_mib_s[0]
    study = {"study": "s", "state": "empty", "steps": []}
    agent("scrub", **study)
    tuned = agent("tune", tuning={"read_ahead_kb": 64})["tunables"]["read_ahead_kb"]
    assert tuned["now"] == ["64"]
    (store,) = agent("evidence", **study)["evidence"]["layout"]["stores"]
    assert store["source"]["free"] == "FS_IOC_GETFSMAP" and "free" not in store["absent"]
    drop = "import json; from fsage.agent.system import caches; print(json.dumps(caches.drop([])))"
    words = as_user(machine, AGENT[0], "-S", "-c", drop)
    dropped = subprocess.run(words, env=library, capture_output=True, text=True, cwd="/", check=True)
    assert json.loads(dropped.stdout)["method"] == "drop_caches=3"
    agent("remove")
    assert not list((user / "images").glob("*")) and f"{PLACE}/mnt" not in machine.mounts()
    assert not any(spec["name"] in name for name in (*cgroups.names(), *os.listdir("/run/fsage/groups")))


@pytest.mark.root
@needs_sudo
def test_the_helper_trusts_nobody(machine: Machine, user: Path, local_target: dict) -> None:
    mine, roots, link = user / "mine.img", user / "roots.img", user / "link.img"
    for path in (mine, roots):
        path.write_bytes(b"")
        os.truncate(path, 64 << 20)
    os.chown(mine, UID, UID)
    link.symlink_to(roots)
    for verb in ("create", "claim"):  # root's own target
        assert not machine.agent(verb, local_target).get("failed")
    theirs = json.loads((Path(local_target["home"]) / local_target["name"] / "images.json").read_text())["images"][0]
    (other,) = loops.devices_of(theirs)
    code, device = ask(machine, "attach", image=image_at(mine))
    assert code == 0 and loops.devices_of(image_at(mine)) == [device]

    def everything() -> list:
        images = [image_at(mine), image_at(roots), theirs]
        return [mine.read_bytes(), roots.read_bytes(), *(loops.devices_of(image) for image in images)]

    before = everything()
    mount_point = f"/run/fsage/mnt/{local_target['name']}x/0"
    fresh, name = str(uuid.uuid4()), f"{local_target['name']}x"
    as_link = {**image_at(roots), "image": str(link)}
    queue = f"/sys/block/{Path(device).name}/queue"
    for verb, given, said in (
        ("attach", {"image": image_at(roots)}, f"roots.img belongs to user 0, not {UID}"),
        ("attach", {"image": as_link}, "link.img is another file now"),
        ("attach", {"image": {**image_at(mine), "image": str(link)}}, "link.img is another file now"),
        ("attach", {"image": theirs}, "was not attached for fsagetest"),
        ("attach", {"image": {"image": "/etc/shadow"}}, "an image is {image, dev, ino, bytes}, not"),
        ("detach", {"image": theirs}, f"{other} was not attached for user fsagetest"),
        ("mkfs", {"filesystem": "ext4", "device": other}, f"{other} was not attached for user fsagetest"),
        ("mkfs", {"filesystem": "btrfs", "device": device}, "'btrfs' is not among ext4, xfs"),
        ("mkfs", {"filesystem": "ext4", "device": device, "fs_uuid": "-E x"}, "'-E x' is not a UUID"),
        ("wipe", {"device": "/dev/vda"}, "'/dev/vda' is not the name of a loop device"),
        ("mount", {"filesystem": "ext4", "device": device, "point": "/etc"}, "'/etc' is not a place for a target"),
        (
            "mount",
            {"filesystem": "ext4", "device": device, "point": mount_point, "more": "suid"},
            "is not a mount option",
        ),
        ("unmount-all", {"device": other}, f"{other} was not attached for user fsagetest"),
        ("tune", {"knob": f"{queue}/uevent", "value": 1}, "is not a tunable that is known"),
        ("tune", {"knob": f"{queue}/../../x", "value": 1}, "is not a tunable that is known"),
        ("tune", {"knob": "/sys/block/vda/queue/nr_requests", "value": 1}, "is not a tunable that is known"),
        ("tune", {"knob": f"{queue}/nr_requests", "value": "1\n2"}, "is not a tunable's value"),
        ("lay", {"name": "../x", "devices": [], "model": {}}, "is not the name of a target's control group"),
        ("lay", {"name": name, "devices": [other], "model": RATES}, f"{other} was not attached for user fsagetest"),
        ("lay", {"name": name, "devices": [device], "model": {**RATES, "random_iops": "1\n"}}, "a whole number"),
        ("lay", {"name": name, "devices": [], "model": {"allow_moving": ["blkio"]}}, "which only root may"),
        ("weigh", {"name": name, "version": "v2", "weight": 0}, "0 is not a weight: 1 to 10000 are"),
        ("weigh", {"name": "roots", "version": "v2", "weight": 9}, "control group roots is not of user fsagetest"),
        ("join", {"group": f"{cgroups.root()}/fsage-roots"}, "control group roots is not of user fsagetest"),
        ("join", {"group": f"{cgroups.root()}/system.slice"}, "is not a control group of fsagetest's"),
        ("remove-group", {"path": f"{cgroups.root()}/fsage-roots/../x"}, "is not a target's control group"),
        ("cost-off", {"number": "8:0"}, "'8:0' is not the number of a loop device"),
    ):
        code, sentence = ask(machine, verb, **given)
        assert code == 1 and said in sentence, (verb, given, sentence)
    code, sentence = ask(machine, "id")
    assert code == 1 and "password" in sentence, "sudo allows the verbs alone"
    unknown = machine.run(*("env", f"SUDO_UID={UID}", str(privilege.HELPER), "id"), input="{}", check=False)
    assert unknown.returncode == 1 and "no verb 'id'; there are enter, hello" in unknown.stdout
    assert everything() == before and not Path(mount_point).parent.exists(), "nothing was changed"
    assert not Path(f"/run/fsage/groups/{name}.json").exists(), "nor noted"
    assert machine.agent("claim", local_target)["msg"].endswith("is claimed and intact")

    rights = json.dumps({"argv": ["sh", "-c", "id -ru; grep CapEff /proc/self/status; cat"], "env": {"PATH": "/bin"}})
    words = as_user(machine, "sudo", "-n", str(privilege.HELPER), "enter")
    ran = subprocess.run(words, input=f"{rights}\nthe rest", capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(UID), "CapEff:", "0" * 16, "the", "rest"]
    assert ask(machine, "mkfs", filesystem="ext4", device=device, fs_uuid=fresh, hash_seed=fresh)[0] == 0
    assert ask(machine, "mount", filesystem="ext4", device=device, point=mount_point)[0] == 0
    code, sentence = ask(machine, "mount", filesystem="ext4", device=device, point=mount_point)
    assert code == 1 and "is mounted there" in sentence
    for verb, given in (("unmount", {"point": mount_point}), ("detach", {"image": image_at(mine)})):
        assert ask(machine, verb, **given) == (0, "None")
    assert not Path(mount_point).parent.exists()


@pytest.mark.root
@needs_sudo
def test_a_helper_of_another_version_is_refused(machine: Machine, user: Path, local_target: dict) -> None:
    subprocess.run(["chown", "-R", f"{UID}:{UID}", user], check=True)
    theirs = {**local_target, "image_dir": str(user / "images"), "home": str(user / "state")}
    place = {"name": "place", "kind": "directory", "directory": str(user / "target"), "home": str(user / "state")}
    place |= {"amount_mib": 8, "budget_gib": 0.25, "scale": {"file_size": 0.125, "tasks": 1}}
    library = {"PATH": os.environ["PATH"], "PYTHONPATH": LIBRARY, "HOME": str(user)}

    def refused(verb: str, spec: dict) -> str:
        words = as_user(machine, *AGENT, verb)
        given = json.dumps({"target": spec, "request": {}})
        ran = subprocess.run(words, input=given, env=library, capture_output=True, text=True, cwd="/", check=False)
        answer = json.loads(ran.stdout)
        return answer["msg"] if answer.get("failed") else ""

    assert not refused("create", place) and not refused("claim", place)
    with zipfile.ZipFile(io.BytesIO(sudoers.program())) as present:
        modules = {path: present.read(path) for path in present.namelist()}
    assert {f"{path}.py" for path in privilege.CODE} == {
        path.removeprefix("fsage/agent/") for path, text in modules.items() if text and path != "__main__.py"
    }
    modules["fsage/agent/system/shell.py"] += b"# of yesterday\n"
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        for path, text in modules.items():
            archive.writestr(path, text)
    program = b"#!/usr/bin/python3 -IS\n" + other.getvalue()
    machine.run("install", "-m", "0755", "/dev/stdin", str(privilege.HELPER), input=program, text=False)
    for verb, spec in (("create", theirs), ("claim", theirs), ("claim", place)):
        said = refused(verb, spec)
        assert "belongs to another version of fsage; nothing was touched" in said
        assert said.endswith(f": {privilege.INSTALL}") and "./run fsage site --helper | sudo install" in said
    assert not (user / "images").exists()


@pytest.mark.skipif(not shutil.which("visudo"), reason="needs visudo (package sudo)")
def test_the_rules_are_to_the_letter(tmp_path: Path) -> None:
    text = sudoers.rules(USER)
    (tmp_path / "rules").write_text(text)
    subprocess.run(["visudo", "-c", "-f", tmp_path / "rules"], check=True, capture_output=True)
    rules = [line for line in text.splitlines() if not line.startswith("#")]
    assert "*" not in "".join(rules) and rules[-1] == f"{USER} ALL = (root) NOPASSWD: FSAGE, FSAGE_GROUPS, FSAGE_LUSTRE"
    assert sum(f"{privilege.HELPER} " in line for line in rules) == len(helper.VERBS) + len(helper.ALONE) + 1
    assert sum(" | sudo install " in line for line in text.splitlines()) == 2
