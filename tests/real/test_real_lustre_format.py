"""An OST of a real Lustre is formatted, and is as it was: DESTROYS what is on it."""

from __future__ import annotations

from pathlib import Path

import lustre_vm as real
import yaml
from lustre_vm import ssh

pytestmark = real.MARKS
KEPT = "'^(Inode count|Inode size|Reserved block count|Total journal size|Filesystem features|Flex block group size)'"


def made(device: str) -> str:
    """What mke2fs was told, as far as it shows."""
    return ssh(f"dumpe2fs -h {device} 2>/dev/null | grep -E {KEPT} | sed 's/ needs_recovery//'")


def test_an_ost_has_its_number_and_its_own_journal_again(tmp_path: Path) -> None:
    """The client is unmounted for it, as the playbook asks."""
    project = real.project_in(tmp_path / "clone", real.declaration())
    hosts = project.root / "inventories" / "lvm" / "host_vars" / f"{real.HOST}.yml"
    hosts.parent.mkdir()
    hosts.write_text(yaml.safe_dump({"format_osts_devices": [{"device": "/dev/vdh", "mount": "/mnt/ost5"}]}))
    words = project.playing("format_osts.yml", "-e", f"format_osts_destroy={real.FSNAME}")
    assert "is a client's mount of lustre; unmount every client before" in project.fails(*words)
    before = made("/dev/vdh")
    source = ssh(f"findmnt -n -o SOURCE {real.MOUNT}").strip()
    ssh(f"umount {real.MOUNT}")
    try:
        project.done(*words)
        assert made("/dev/vdh") == before
    finally:
        ssh(f"mount -t lustre {source} {real.MOUNT}")
    assert len(real.used_mib()) == 6
