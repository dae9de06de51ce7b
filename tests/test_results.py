"""Where root writes results: only where nobody else could have prepared anything, and nobody else may write after."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fsage.cli import app
from fsage.plan import results

pytestmark = pytest.mark.root
UID = 54321
ROOT = Path(__file__).parents[1]


def shared(root: Path) -> None:
    root.mkdir()
    root.chmod(0o777)


def of_another(root: Path) -> None:
    root.mkdir()
    os.chown(root, UID, UID)


def link_of_another(root: Path) -> None:
    root.symlink_to("/etc")
    os.lchown(root, UID, UID)


def link_inside(root: Path) -> None:
    root.mkdir()
    (root / "records").symlink_to("/etc")
    os.lchown(root / "records", UID, UID)


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (shared, "can be written to by others (mode 0777)"),
        (of_another, f"belongs to uid {UID} (mode 0755)"),
        (link_of_another, "is a symbolic link of uid"),
        (link_inside, "is a symbolic link of uid"),
    ],
)
def test_results_that_others_prepared_are_refused(prepare, said, tmp_path) -> None:
    root = tmp_path / "the results"
    prepare(root)
    with pytest.raises(ValueError, match="results: ") as why:
        results.check(root)
    assert said in str(why.value) and "nothing was touched" in str(why.value)
    assert "chown" not in str(why.value) or f"`chown root '{root}'` and `chmod go-w '{root}'`" in str(why.value)


def test_only_results_that_are_used_are_looked_at(tmp_path, monkeypatch) -> None:
    """In the clone of a user, root could not even look at a file system, or name other results behind a command."""
    of_another(tmp_path / "results")
    monkeypatch.setenv("FSAGE_RESULTS", str(tmp_path / "results"))
    monkeypatch.chdir(ROOT)
    plan = ["plan", "quickstart", "--target", "local"]
    for words in (["evidence", "config/layouts/example.gz"], [*plan, "--results", str(tmp_path / "other")]):
        assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    with pytest.raises(ValueError, match="`--results FOLDER` names another"):
        CliRunner().invoke(app, plan, catch_exceptions=False)


def test_what_root_makes_others_cannot_write_to_whatever_the_umask(tmp_path) -> None:
    before = os.umask(0)
    try:
        results.check(tmp_path / "results")
        results.write(tmp_path / "results/records/one.json", {})
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / "results").rglob("*")]
    assert len(made) == 2 and not any(path.stat().st_mode & 0o022 for path in made)
    results.check(tmp_path / "results")
