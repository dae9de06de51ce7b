"""OSTs are formatted only when asked for by the file system's name, and only what is an OST of it."""

import json
from pathlib import Path

import preloaded
import pytest
import yaml
from lustre_site import FINDMNT, lustre_target, recorded, site_in

from fsage.base import Failure, Refusal
from fsage.plan.target import load_target
from fsage.studies.lustre.host import format as formatting
from fsage.studies.lustre.model import lustre_of

ROOT = Path(__file__).resolve().parents[1]
LOOK = "tunefs.lustre --dryrun /dev/vdc"
OPTIONS = "-J size=327 -m 5 -b 4096 -I 512 -N 524288 -g 32768 -G 256"
MKFS = (
    "mkfs.lustre --reformat --replace --ost --fsname=lustre --index=0 --mgsnode=10.0.2.15@tcp "
    f"--mkfsoptions={OPTIONS} --mountfsoptions=errors=remount-ro /dev/vdc"
)
DUMP = "dumpe2fs -h /dev/vdc"
HEADER = recorded("dumpe2fs_h.txt")
OST = recorded("tunefs_lustre_dryrun.txt")


@pytest.fixture
def site(tmp_path, monkeypatch):
    site = site_in(
        tmp_path, monkeypatch, "findmnt", "lfs", "tunefs.lustre", "mkfs.lustre", "mount", "umount", "dumpe2fs"
    )
    site.answer(LOOK, OST)
    site.answer(DUMP, HEADER)
    return site


@pytest.fixture
def spec(tmp_path, site):
    spec = lustre_target(tmp_path, site)
    site.answer(FINDMNT, rc=1)  # a server that is no client
    return spec


def request(tmp_path, destroy="lustre", device="/dev/vdc"):
    return {"destroy": destroy, "osts": [{"device": device, "mount": str(tmp_path / "ost0")}]}


def touched(site):
    """The programs that ran and change something."""
    return {"mkfs.lustre", "mount", "umount"} & {command.split()[0] for command in site.commands()}


def test_an_ost_keeps_its_number_and_what_mkfs_was_told(spec, site, tmp_path):
    mount = f"mount -t lustre /dev/vdc {tmp_path}/ost0"
    for command in (MKFS, mount):
        site.answer(command)
    would = formatting.format_osts(spec, request(tmp_path), True)["msg"]
    assert would == f"would format lustre-OST0000 on /dev/vdc ({OPTIONS})"
    assert site.commands() == [FINDMNT, LOOK, DUMP]
    formatting.format_osts(spec, request(tmp_path), False)
    assert site.commands() == [FINDMNT, LOOK, DUMP, MKFS, LOOK, DUMP, mount]
    # As seen: another journal than before.
    other = HEADER.replace("journal blocks:     83712", "journal blocks:     20736")
    site.answer(DUMP, HEADER, other)
    said = r"is formatted and mounted, but differs from before: Journal, MiB was 327, and is 81$"
    with pytest.raises(Failure, match=said):
        formatting.format_osts(spec, request(tmp_path), False)
    site.answer(DUMP, HEADER)
    site.answer(LOOK, OST, OST.replace("0", "1"))
    with pytest.raises(Failure, match="was formatted as lustre-OST1111"):
        formatting.format_osts(spec, request(tmp_path), False)


def test_a_journal_elsewhere_is_not_lost_in_passing(spec, site, tmp_path):
    site.answer(DUMP, HEADER.replace("Total journal blocks:", "Journal device:"))
    with pytest.raises(Refusal, match=r"has a journal on another device, or none, .* nothing was formatted"):
        formatting.format_osts(spec, request(tmp_path), False)
    assert not touched(site)


@pytest.mark.parametrize(
    ("destroy", "holds", "says"),
    [
        ("yes", ("", ""), "needs the file system's name: -e format_osts_destroy=lustre; it was 'yes'"),
        ("lustre", ("lustre-OST0000", "lustre-MDT0000"), "/dev/vdc holds lustre-MDT0000 of lustre, no OST of lustre"),
        ("lustre", ("lustre", "scratch"), "/dev/vdc holds scratch-OST0000 of scratch, no OST of lustre"),
        ("lustre", ("ldiskfs", "zfs"), "/dev/vdc is of zfs, and only ldiskfs can be formatted"),
        ("lustre", ("Target: ", "Tragedy:"), "holds no Lustre target"),
    ],
)
def test_everything_else_is_refused(spec, site, tmp_path, destroy, holds, says):
    site.answer(LOOK, OST.replace(*holds))
    with pytest.raises(Refusal, match=says):
        formatting.format_osts(spec, request(tmp_path, destroy), False)
    assert not touched(site)


def test_a_device_that_is_not_lustre_or_a_mounted_client_is_refused(spec, site, tmp_path):
    site.answer(LOOK, stderr="tunefs.lustre FATAL: no\n", rc=19)
    with pytest.raises(Refusal, match=r"status 19: tunefs.lustre FATAL: no; nothing was formatted"):
        formatting.format_osts(spec, request(tmp_path), False)
    site.answer(FINDMNT, recorded("findmnt_lustre.json"))
    with pytest.raises(Refusal, match="/mnt/lustre is a client's mount of lustre"):
        formatting.format_osts(spec, request(tmp_path), False)


@pytest.mark.root
def test_the_playbook_refuses_unless_the_file_system_is_named(spec, site, tmp_path):
    """One bad device of one server, and no server is touched."""
    site.answer("tunefs.lustre --dryrun /dev/vdx", "checking for existing Lustre data: not found\n", rc=1)
    this_host = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    hosts = {
        name: {**this_host, "format_osts_devices": request(tmp_path, device=device)["osts"]}
        for name, device in (("oss1", "/dev/vdc"), ("oss2", "/dev/vdx"))
    }
    inventory = tmp_path / "inventory"
    (inventory / "group_vars" / "all").mkdir(parents=True)
    (inventory / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": {"oss": {"hosts": hosts}}}}))
    (inventory / "group_vars" / "all" / "target.yml").write_text(yaml.safe_dump({"fsage_target": spec}))
    for more, says in (({}, "needs the file system's name"), ({"format_osts_destroy": "lustre"}, "/dev/vdx")):
        ran = preloaded.call("ansible-playbook", "playbooks/format_osts.yml", "-i", inventory, "-e", json.dumps(more))
        assert ran.returncode != 0
        assert says in " ".join(ran.stdout.split())
        assert not touched(site)


def test_the_example_of_a_site_is_whole():
    place = ROOT / "inventories" / "lustre"
    target = load_target(place)
    groups = yaml.safe_load((place / "hosts.yml").read_text())["all"]["children"]
    assert lustre_of(target.spec)["oss"] == list(groups["servers"]["children"]["oss"]["hosts"])
    assert list(groups["launcher"]["hosts"]) == list(groups["clients"]["hosts"])[:1]
