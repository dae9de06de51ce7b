"""How it was measured: all that the records, the claim and the code that made the report say of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pandas as pd

import fsage
from fsage.analysis.conditions import settings
from fsage.analysis.groups import samples
from fsage.base import JsonView, in_words
from fsage.base.sizes import counted
from fsage.dataset import unpacked
from fsage.dataset.families import NOT_IN_FORCE, names_of, word, words
from fsage.plan.target import Target
from fsage.recipes import expand
from fsage.report.evidence import Evidence
from fsage.study.study import Study

OF_RECORDS = (
    ("device model", "device_model"),
    ("file system", "filesystem"),
    ("mount options", "mount_options"),
    ("allocator reset", "allocator_reset"),
    ("names and inodes of measured files", "metadata"),
    ("source of the amount", "amount_source"),
    ("launch", "launch"),
    ("tools", "tools"),
    ("container images", "images"),
    ("kernel", "kernel"),
    ("host", "host"),
)
OF_THE_CLAIM = (
    ("capacity, bytes", "capacity_bytes"),
    ("amount per task, MiB", "amount_mib"),
)


def facts(
    study: Study, target: Target, frame: pd.DataFrame, evidence: Evidence, claim: JsonView | None
) -> list[tuple[str, list[str]]]:
    """(what, values): each distinct value that the records hold, and what the claim says."""
    claim = claim or {}
    taken = frame[frame["status"].isin(["valid", "failed"])]
    texts = settings(taken).assign(host=taken["host"], amount_source=taken["amount_source"])
    first_and_last = (taken["began"].min(), taken["began"].max())
    steps = [step for state_evidence in evidence.known.values() for step in state_evidence["steps"]]
    lines: list[tuple[str, list[str]]] = [
        ("target", [f"{target.name} ({target.spec['kind']}); files {target.file_scale:g} x their nominal size"]),
        *((label, _distinct(texts[column])) for label, column in OF_RECORDS),
        ("first and last", [text for text in first_and_last if isinstance(text, str)]),
        ("seeds of the layouts", sorted({str(step["seed"]) for step in steps if "seed" in step})),
        ("one layout, the same for all seeds", [state.name for state in expand(study) if state.built_once]),
        (
            "order",
            [
                ("states in turns, every second time in the reverse order (ABBA)" if study.turns else "state by state")
                + f" as {study.state_order}; within a state in random order (column `order_in_state`), "
                f"drawn with the seed {study.order_seed}"
            ],
        ),
    ]
    lines += [(label, [word(claim[key])]) for label, key in OF_THE_CLAIM if claim.get(key) is not None]
    lines.append(("calibration", [words({**(claim.get("calibration") or {}), "commands": None})]))
    lines.append(("report made by", [f"fsage {fsage.__version__}, {commit()}"]))
    return [(label, values) for label, values in lines if any(values)]


def tunables(frame: pd.DataFrame) -> list[dict[str, str]]:
    """The tunables: value requested, value before, and value read back."""
    taken = frame[frame["status"].isin(["valid", "failed"])]
    rows = []
    for name in names_of(taken, "tunable"):
        if name.endswith(NOT_IN_FORCE):
            continue
        columns = unpacked(taken, "tunable", name, *(f"{name}{end}" for end in NOT_IN_FORCE))
        values = columns.dropna(how="all").astype("str").fillna("none").set_axis(["now", "asked", "before"], axis=1)
        counts = values.value_counts(sort=False).reset_index(name="cells").astype("str")
        rows += [{"name": name, **row} for row in counts.to_dict("records")]
    return rows


def example_commands(frame: pd.DataFrame) -> list[str]:
    """The command lines of one cell: the first valid one at the largest transfer."""
    valid_rows = samples(frame)
    if valid_rows.empty:
        return []
    valid_rows = valid_rows.sort_values("transfer_size_bytes", ascending=False, kind="stable")
    return valid_rows["commands"].iloc[0].split("; ")


def commit() -> str:
    """The commit of this code, `-dirty` where files differ from it; or that it is not known."""
    folder = Path(__file__).parent
    try:
        asked = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return "commit " + subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except subprocess.CalledProcessError as error:
        return f"commit not known ({(error.stderr.strip() or 'git says nothing').splitlines()[0]})"
    except (OSError, subprocess.SubprocessError) as error:
        return f"commit not known ({in_words(error)})"


def _distinct(column: pd.Series) -> list[str]:
    """Each distinct value in words; with several, how many cells each has: their groups are kept apart."""
    counts = column.dropna().value_counts().sort_index()
    if len(counts) < 2:
        return list(counts.index)
    return [f"{text} ({counted(number, 'cell')})" for text, number in counts.items()]
