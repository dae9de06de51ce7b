"""What there is of a kind is listed where it is registered, and nowhere a second time."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from fsage import recipes, workloads
from fsage.agent import structure
from fsage.agent.device import models
from fsage.agent.stores import filesystems
from fsage.agent.targets import kinds

SOURCE = Path(__file__).resolve().parents[1] / "src/fsage"


def words(node: ast.AST) -> set[str]:
    """The texts that stand in a constant or in a list of them."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return {word for one in node.elts for word in words(one)}
    return set()


def named(tree: ast.AST, names: set[str]) -> list[str]:
    """Comparisons with one of these names, and lists, tables and types of several of them."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            here = {word for side in (node.left, *node.comparators) for word in words(side)}
            hit = bool(here & names)
        elif isinstance(node, ast.Dict):
            hit = len({word for key in node.keys if key for word in words(key)} & names) > 1
        else:
            hit = len(words(node) & names) > 1
        if hit:
            found.append(f"line {node.lineno}: {ast.unparse(node)[:100]}")
    return found


def branches(names: set[str], but: str) -> dict[str, list[str]]:
    """What modules of fsage do by these names, but for those that match `but`."""
    quoted = re.compile("|".join(f"[\"']{name}[\"']" for name in names))
    texts = {path: path.read_text(encoding="utf-8") for path in set(SOURCE.rglob("*.py")) - set(SOURCE.glob(but))}
    found = {
        str(path.relative_to(SOURCE)): named(ast.parse(text), names)
        for path, text in texts.items()
        if quoted.search(text)
    }
    return {path: lines for path, lines in found.items() if lines}


@pytest.mark.parametrize(
    "text",
    ['x == "xfs"', 'x in ("ext4", "y")', '["ext4", "xfs"]', '{"ext4": 1, "xfs": 2}', 'Literal["ext4", "xfs"]'],
)
def test_a_second_list_and_a_branch_are_found(text):
    assert named(ast.parse(text), {"ext4", "xfs"})
    assert not named(ast.parse(text), {"zfs", "jfs"})


def test_what_depends_on_the_file_system_is_in_its_type():
    every = {name for one in filesystems.names() for name in (one, *filesystems.of(one).like)}
    found = branches(every, "agent/filesystems/*.py")
    assert not found


def test_what_depends_on_the_kind_of_target_is_in_its_type():
    """Lustre has a package of its own; `directory` and `loop` are words of other things too, such as options."""
    found = branches(set(kinds.names()), "agent/kinds/*.py")
    words = {"agent/targets/declaration.py", "agent/targets/frozen.py", "agent/lustre/mounts.py", "evidence/inspect.py"}
    assert found.keys() <= words, found


@pytest.mark.parametrize(
    ("names", "but", "allowed"),
    [
        # What the step `stripe` notes is looked for by its name; `fsage age --after defragment` is no step.
        (
            structure.kinds(),
            "agent/steps/*.py",
            {"advise/striping.py", "report/striping/layouts.py", "commands/layouts.py"},
        ),
        # Views of one recipe know the workloads that it is measured with; `metadata` is a key of phases too.
        (
            workloads.names(),
            "workloads/*.py",
            {"advise/striping.py", "analysis/truth.py", "dataset/records.py", "matrix/patterns.py"}
            | {"report/iocontrol/rows.py", "report/striping/rates.py"},
        ),
        (
            recipes.names(),
            "recipes/*.py",
            {"advise/advice.py", *(f"report/striping/{name}.py" for name in ("layouts", "results", "rows", "times"))},
        ),
    ],
    ids=["steps", "workloads", "recipes"],
)
def test_steps_workloads_and_recipes_are_known_by_their_modules(names, but, allowed):
    found = branches(set(names), but)
    assert found.keys() <= allowed, found


def test_device_models_are_registered_once():
    """IOCost is also a scheduler that an `iocontrol` study compares others with."""
    found = branches(set(models.declarable()), "agent/device/*.py")
    assert found.keys() <= {"workloads/_groups.py", "report/iocontrol/rows.py"}, found


def test_the_set_up_looks_for_the_programs_of_each_file_system():
    """`./run` is there before Python is, so that its list is a file of its own."""
    lists = [SOURCE.parents[1] / f"envs/{name}-packages.txt" for name in ("system", "study")]
    listed = [line for path in lists for line in path.read_text(encoding="utf-8").splitlines()]
    programs = {line.split()[0]: line.split()[1] for line in listed if line and not line.startswith("#")}
    for found in map(filesystems.of, filesystems.names()):
        assert set(found.programs) <= programs.keys(), found.title
        if found.defragmenter:
            assert found.defragmenter.package in programs.values(), found.title
