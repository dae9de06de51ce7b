"""Who loses its share, and what defragmenting gives back: the whole file, or what is hot.

Defragmenting what is hot beside the whole file: what was moved, and what each gained.

Who loses its share: the victim under each scheduler, before and after, in words beside what was published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fsage.api.model import Json, round_size
from fsage.api.report import Data, Section, dataset, statistics, words

from ..recipe import AFTER, BEFORE, HOT
from ..weighted import FRAGMENTED, PATTERNS
from .rows import (
    ALONE,
    BESIDE,
    CALLED,
    GROUPS,
    STAGES,
    WEIGHTS,
    Shared,
    Verdict,
    by_panel,
    scheduler_label,
    shared,
    victim,
)

GAINS = ((ALONE["1"], "1"), ("P4", "1"), ("P4", "2"))
"""Pattern and group whose gain is shown, where it was measured."""


def hot(data: Data) -> Section | None:
    """A table of what was moved in each stage and what it gained, in words what the hot ranges alone did of that."""
    everything = shared(data, WEIGHTS)
    stages = dataset.unpacked(data.frame, "axis", "stage")["stage"]
    if not (stages == HOT).any():
        return None
    notes = _notes(data)
    gains = [f"{pattern}, {CALLED[WEIGHTS][group]}" for pattern, group in GAINS]
    table = [["scheduler", "pieces", "defragmented", "moved", "its extents", "took", *gains]]
    texts = []
    warnings = []
    for piece_bytes in dict.fromkeys(piece for piece, _ in notes):
        piece = round_size(piece_bytes)
        done = _done(notes, piece_bytes)
        why = done[HOT].get("unsupported")
        if why:
            warnings.append(f"Pieces of {piece}: what is hot could not be defragmented alone: {why}.")
        kept_of: dict[str, float] = {}
        for panel in by_panel(everything):
            if panel[0].piece != piece:
                continue
            label = panel[0].label
            cases = {(case.stage, case.pattern): case for case in panel}
            by_stage = {}
            for stage in (HOT, AFTER):
                by_stage[stage] = [_gain(cases, stage, *which) for which in GAINS]
                if done[stage] and "unsupported" not in done[stage]:
                    table.append(_row(label, piece, stage, done[stage], by_stage[stage]))
            kept = _kept(by_stage)
            if kept is not None:
                kept_of[label] = kept
        share = None if why else _share(done)
        texts += words.sentences("iocontrol/hot", piece=piece, moved=done, share=share, gains=kept_of)
    text = (
        "Only the hot ranges of the fragmented file are read, in all stages. In stage hot, the file system's own call "
        "made each fragmented hot range contiguous, one range at a time. In stage after, its tool defragmented the "
        "whole file. A gain is the rate over the rate before. It is the median of all pairwise ratios, and the "
        "interval inverts the exact rank-sum test. " + " ".join(texts)
    )
    return Section(
        "What is hot beside the whole file", text, [], warnings=warnings, table=table if len(table) > 1 else []
    )


def moved_share(data: Data, piece: str) -> float | None:
    """What was moved for what is hot in a file in pieces of a size, of what was for the whole file; None: not known."""
    notes = _notes(data)
    moved = (_share(_done(notes, piece_bytes)) for piece_bytes, _ in notes if round_size(piece_bytes) == piece)
    return next(moved, None)


def _notes(data: Data) -> dict[tuple[int, str], Json]:
    """(piece in bytes, stage) -> what the steps noted."""
    axes = dataset.levels(data.frame)
    return {(axes[state]["piece_bytes"], axes[state]["stage"]): notes for state, notes in data.notes.items()}


def _done(notes: Mapping[tuple[int, str], Json], piece_bytes: int) -> dict[str, Json]:
    return {stage: notes.get((piece_bytes, stage), {}).get("defragment", {}) for stage in (HOT, AFTER)}


def _share(done: Mapping[str, Json]) -> float | None:
    hot, whole = (done[stage].get("moved_bytes") for stage in (HOT, AFTER))
    if hot is not None and whole:
        return hot / whole
    return None


def _row(label: str, piece: str, stage: str, done: Json, gains: list[statistics.Ratio | None]) -> list[str]:
    if stage == HOT:
        extents = f"{done['ranges_before']:,} to {done['ranges_after']:,}"
    else:
        extents = f"{done['before']['extents']:,} to {done['after']['extents']:,}"
    return [
        label,
        piece,
        "what is hot" if stage == HOT else "the whole file",
        round_size(done["moved_bytes"]),
        extents,
        f"{done['seconds']:.1f} s ({done['tool']})",
        *map(words.times, gains),
    ]


def _gain(shareds: Mapping[tuple[str, str], Shared], stage: str, pattern: str, group: str) -> statistics.Ratio | None:
    now = shareds.get((stage, pattern))
    before = shareds.get((BEFORE, pattern))
    if now and before:
        return statistics.ratio(now.bw_mib_s[group], before.bw_mib_s[group])
    return None


def _kept(gains: Mapping[str, list[statistics.Ratio | None]]) -> float | None:
    """What share of the gain alone (the first of GAINS) the hot ranges gave; None where there was none to give."""
    hot = gains[HOT][0]
    whole = gains[AFTER][0]
    if not hot or not whole or hot.value is None or whole.value is None or whole.direction <= 0:
        return None
    return (hot.value - 1) / (whole.value - 1)


PUBLISHED = {"cfq": "1", "bfq": "2", "iocost": "2"}
"""The victim before defragmentation in the source, of both workloads; after it none was left."""
ROLES = {"1": "which reads the pieces", "2": "its neighbour"}
RESTORED = "none, fairness was restored"
CONTROL = "nothing, it is the control"


def victims(data: Data, workload: str) -> Section | None:
    """A table: for each scheduler and state the victim in the patterns in which group 1 reads the pieces."""
    by_state: dict[tuple[str, str], dict[str, Shared]] = {}
    patterns = set()
    for case in shared(data, workload):
        if len(case.shares) == len(GROUPS) and PATTERNS[case.pattern]["1"].file == FRAGMENTED:
            by_state.setdefault((case.scheduler, case.state), {})[case.pattern] = case
            patterns.add(case.pattern)
    if not by_state:
        return None
    table = [["scheduler", "stage", "state", *map("victim in {}".format, sorted(patterns)), "Park and Eom"]]
    for (scheduler, state), by_pattern in by_state.items():
        said = []
        verdicts = []
        for pattern in sorted(patterns):
            if pattern in by_pattern:
                verdicts.append(victim(by_pattern[pattern]))
                said.append(_said(by_pattern[pattern], verdicts[-1]))
            else:
                said.append(Section.NONE)
        stage = next(iter(by_pattern.values())).stage
        published = _beside_published(scheduler, stage, workload, verdicts)
        table.append([scheduler_label(scheduler), STAGES[stage], state, *said, published])
    margin = f"{statistics.Ratio.MARGIN:.0%}"
    text = (
        "The fair rate is the group's rate alone under the same scheduler, times its weight's share. The victim is "
        f"the group furthest below it. Its interval excludes the fair rate, and its median loss is {margin} or "
        "more. The interval inverts the exact rank-sum test; 3 samples against 3 give 90%. Smaller losses do not "
        "count, because the fair rate is measured with another file at another time. None means: no group's interval "
        f"contains a loss of {margin}. Otherwise the answer is not known. The word differs marks results that are "
        "not as in Park and Eom, File Fragmentation from the Perspective of I/O Control."
    )
    return Section(
        f"Who loses its share{BESIDE[workload]}", text, [], warnings=_unsupported(data, workload), table=table
    )


def _said(case: Shared, verdict: Verdict) -> str:
    """E.g. 'group 2, 0.48x (0.45 to 0.52) of fair', 'none', 'none (group 2 0.98x of fair)'."""
    if verdict.why:
        return f"not known: {verdict.why}"
    called = CALLED[case.workload]
    if verdict.victim:
        return f"{called[verdict.victim]}, {words.times(case.against_fair(verdict.victim))} of fair"
    slight = []
    for group in case.shares:
        ratio = case.against_fair(group)
        if ratio and ratio.value and ratio.direction < 0:
            slight.append(f"{called[group]} {ratio.value:.2f}x")
    if slight:
        return f"none ({' and '.join(slight)} of fair)"
    return "none"


def _beside_published(scheduler: str, stage: str, workload: str, verdicts: Sequence[Verdict]) -> str:
    """What was published, and whether what was found (of what is known) differs from it."""
    before = PUBLISHED.get(scheduler.partition(" ")[0])
    if before is None:
        return CONTROL
    expected = None
    published = RESTORED
    if stage == BEFORE:
        expected = before
        published = _named(workload, before)
    if {verdict.victim for verdict in verdicts if not verdict.why} - {expected}:
        return f"{published}; differs"
    return published


def _named(workload: str, group: str) -> str:
    return f"{CALLED[workload][group]}, {ROLES[group]}"


def _unsupported(data: Data, workload: str) -> list[str]:
    """A sentence for each scheduler that this machine has not."""
    rows = data.frame[data.frame["workload"] == workload]
    rows = rows.join(dataset.unpacked(rows, "param", "scheduler"))
    measured = set(rows.loc[rows["status"] == "valid", "scheduler"])
    refused = rows[rows["status"] == "unsupported"]
    reasons = dict(zip(refused["scheduler"], refused["why"], strict=True))
    absent = {}
    for name, why in reasons.items():
        if name not in measured:
            victim = PUBLISHED.get(name)
            absent[scheduler_label(name)] = why, _named(workload, victim) if victim else "none"
    return words.sentences("iocontrol/unmeasured", refused=absent)
