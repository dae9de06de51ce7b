"""Striping studies that cannot be: said in a sentence with exit code 1 before anything is changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import striped

from fsage.cli import main
from fsage.plan.results import Results
from fsage.run import runs

ROOT = Path(__file__).parents[1]
DEFAULT = "  default: IOR.1\n"
OWN = DEFAULT + "  own: {mine: [%s]}\n  file_size: 4T\n"
CLAIM = {
    **striped.CLAIM,
    "id": "one",
    "amount_mib": 320,
    "capacity_bytes": 16 << 30,
    "calibration": {"cell_overhead_s": 1.0, "write_mib_s": 16.0, "read_mib_s": 16.0},
}


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Any:
    """Plan a changed study on the target `osts`, claimed with these clients: exit code and what was said."""

    def run(name: str, was: str, now: str, clients: list[str]) -> tuple[int, str]:
        text = (ROOT / "config" / f"{name}.yaml").read_text()
        assert was in text
        (tmp_path / f"{name}.yaml").write_text(text.replace(was, now))
        place = tmp_path / "results"
        claim = Results(place, "osts", name).claim
        claim.parent.mkdir(parents=True)
        claim.write_text(json.dumps({**CLAIM, "hosts": clients}))
        options = ["--target", "osts", "--results", place, "--studies", tmp_path, "--inventories", ROOT / "inventories"]
        monkeypatch.setattr(sys, "argv", ["fsage", *map(str, options), "plan", name])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        assert [path for path in place.rglob("*") if path.is_file()] == [claim], "nothing was changed"
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out + said.err

    return run


@pytest.mark.parametrize(
    ("name", "was", "now", "why"),
    [
        ("striping", DEFAULT, OWN % "A to 1T, Q", "states.own.mine[1]: 'Q' is not allowed"),
        (
            "striping",
            DEFAULT,
            OWN % "A to 1T, B to 2T",
            "mine[1]: 'B to 2T' ends the pattern before the file",
        ),
        (
            "striping_scaling",
            "eviction_file: memory",
            "eviction_file: 60",
            "eviction_file: 60 is not allowed: percent of",
        ),
        ("striping_scaling", "", "", "are more than target osts was claimed with: 2 (n1, n2). Leave these cells out"),
    ],
)
def test_a_study_that_cannot_be_is_refused(ran: Any, name: str, was: str, now: str, why: str) -> None:
    code, said = ran(name, was, now, ["n1", "n2"])
    assert code == 1 and why in said, said


def test_the_part_of_it_that_a_site_has_nodes_for_is_planned(
    ran: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = [f"n{number}" for number in range(40)]
    part = runs.Run(runs.identity("snakemake"), only={"striping_scaling": {"nodes": ["16", "32"]}})
    monkeypatch.setenv(runs.NOTE, str(runs.note({}, part, tmp_path / "runs")))
    code, said = ran("striping_scaling", "", "", clients)
    assert code == 0 and "30 cells, 5 states" in said, said
