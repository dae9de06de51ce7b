"""`fsage age TEXT` from text to report, where the layout is larger than the target and is laid whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from project import ROOT, Project, printed, succeeded

GIB = 1 << 30


@pytest.fixture
def ost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The text of an OST of 8 GiB, of which a fifth is free."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from made_ost import make

    make(tmp_path / "ost0012.txt.gz", groups=65, extents=600, full=0.8)
    return tmp_path / "ost0012.txt.gz"


@pytest.mark.root
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_layout_larger_than_the_target_goes_from_its_text_to_a_report(project: Project, ost: Path) -> None:
    shutil.copytree(ROOT / "config", project.root / "config", dirs_exist_ok=True)
    ran = succeeded(project.fsage("age", str(ost)))
    said = printed(ran)
    assert "the layout is laid whole on target whole-" in said, said
    (study,) = (project.root / "results/age").iterdir()
    (inventory,) = (study / "inventories").iterdir()
    try:
        (states,) = (project.root / "results/states").glob("whole-*/*")
        notes = json.loads(next(states.glob("*copied*.json")).read_text())["notes"]["replica"]
        assert notes["agree_share"] > 0.9999 and notes["found"]["device_bytes"] > 7 * GIB, notes
        records = [json.loads(path.read_text()) for path in (project.root / "results/records").rglob("*.json")]
        assert {record["status"] for record in records} == {"valid"} and len(records) == 15
        (page,) = (project.root / "results/report").rglob("index.html")
        assert "age of ost0012" in page.read_text()
    finally:
        words = ("playbooks/local_target.yml", "-e", "fsage_local_target_state=absent")
        removed = project.run("ansible-playbook", "-i", str(inventory), *words)
    assert removed.returncode == 0, removed.stdout
    assert not list(Path(project.spec["image_dir"]).glob("*whole*"))
