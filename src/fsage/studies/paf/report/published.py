"""What was published of populate and fragment beside what was found: in what it differs, and what may explain that."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fsage.analysis.conditions import values
from fsage.analysis.groups import plural
from fsage.analysis.headline import Comparison, at_largest_transfer, of_state
from fsage.analysis.words import Finding, extents_words, joined
from fsage.report.answer import finding_of
from fsage.report.section import Data
from fsage.studies.paf.report.rows import axes_of

LOW, HIGH = 2, 35
"""Percent that the source lost, of fullness and fragmentation together; writes lost more than reads there."""
SHARE = 11
"""Percent of the targets that the source measured: 10 GiB for each of 256 tasks, of 22.6 TiB."""
FEW_PIECES = 2.0
"""Of the written file, up to which the allocator is said to have found whole runs."""


def published(data: Data, compared: Sequence[Comparison]) -> list[str]:
    """Where sign or size differ from what was published; of which of fullness, fragmentation, and both together."""
    findings = [
        f"{label} {finding}"
        for label in dict.fromkeys(comparison.label for comparison in compared)
        if (finding := against_published([comparison for comparison in compared if comparison.label == label]))
    ]
    if not findings:
        return []
    shown = f"The PaF slides (Kaitschuck, Seagate) show a loss of {LOW}-{HIGH}%, writes more than reads"
    sentences = [f"{shown}; here {'; '.join(findings)}."]
    sentences += [*_both_together(data, compared), *_modelled(data, compared), *_measured(data.frame)]
    if any("agrees" not in finding for finding in findings):
        sentences.append(
            f"What explains a difference here: {'; '.join(_reasons(data, compared))}. docs/howto/reading.md says "
            "how to examine an unexpected result."
        )
    return sentences


def _both_together(data: Data, compared: Sequence[Comparison]) -> list[str]:
    """The published loss is of fullness and fragmentation at once: the fragmented states against the clean one."""
    rows = data.table[data.table["transfer_size_bytes"] == data.table["transfer_size_bytes"].max()]
    sentences = []
    for state in dict.fromkeys(
        comparison.state for comparison in compared if (axes := axes_of(data, comparison.state)) and axes[1]
    ):
        state_rows = of_state(rows, state)
        with_interval = [row for row in state_rows.itertuples() if row.to_clean is not None and row.to_clean.interval]
        if with_interval:
            parts = joined(
                [f"{plural(row.measure)} {Finding(row.to_clean, tested=False).brief()}" for row in with_interval]
            )
            both = f"here {state} against {with_interval[0].clean}: {parts}"
            sentences.append(f"The loss in the PaF slides combines fullness and fragmentation; {both}.")
    return sentences


def _modelled(data: Data, compared: Sequence[Comparison]) -> list[str]:
    """What a modelled device cannot show, where the study compares states that are unlike in fullness alone."""
    frame = data.frame
    pairs = [(axes_of(data, comparison.state), axes_of(data, comparison.against)) for comparison in compared]
    fuller = any(
        here and reference and here[0] != reference[0] and here[1] == reference[1] == 0 for here, reference in pairs
    )
    if not fuller or "IOCost" not in " ".join(frame.loc[frame["status"] == "valid", "device_model"].dropna().unique()):
        return []
    return [
        "Every block of this modelled device is alike: it has no slower inner tracks and no clean-up of its own. "
        "Fullness costs here only what the file system does about it."
    ]


def _measured(frame: pd.DataFrame) -> list[str]:
    """How much was measured, beside the source: who writes little may find whole runs where who writes much cannot."""
    taken = frame[frame["status"] == "valid"]
    shares = (100 * taken["measured_bytes"] / taken["capacity_bytes"]).dropna()
    if shares.empty:
        return []
    ends = [f"{end:.2g}" for end in (shares.min(), shares.max())]
    here = ends[0] if ends[0] == ends[1] else " to ".join(ends)
    return [f"Each sample wrote {here}% of the capacity (PaF slides: {SHARE}%). Study amount shows what that changes."]


def _reasons(data: Data, compared: Sequence[Comparison]) -> list[str]:
    """What is known of this target that the published one had not."""
    frame = data.frame
    taken = frame[frame["status"] == "valid"]
    device = " ".join(taken["device_model"].dropna().unique())
    reasons = []
    if "IOCost" in device:
        reasons.append("the modelled device charges jumps of more than 16 MiB only; nearer extents cost nothing")
    elif "seeks" in device:
        reasons.append("the modelled device charges each request that does not begin where the last one ended")
    else:
        reasons.append("nothing was laid over the device, and one without seeks has little to lose")
    rows = at_largest_transfer(frame)
    for state in dict.fromkeys(
        comparison.state for comparison in compared if (axes := axes_of(data, comparison.state)) and axes[1]
    ):
        extents = values(of_state(rows, state), "measured_extents")
        if extents and pd.Series(extents).median() <= FEW_PIECES:
            has = extents_words(pd.Series(extents).median())
            reasons.append(f"the allocator found contiguous space at {state}: the measured file has {has}")
    return reasons


def against_published(compared: Sequence[Comparison]) -> str:
    """'agrees', or in what it does not; nothing where no interval is known."""
    with_interval = [comparison for comparison in compared if comparison.ratio.interval]
    chance = [comparison.what for comparison in with_interval if not finding_of(comparison).sure]
    differences = [text for comparison in with_interval if (text := _difference(comparison))] + _order(with_interval)
    findings = [f"differs: {', '.join(differences)}"] if differences else []
    if chance:
        findings.append(f"shows no loss beyond chance in {' and '.join(chance)}")
    return " and ".join(findings) or ("agrees" if with_interval else "")


def _difference(comparison: Comparison) -> str | None:
    loss = comparison.ratio.loss_percent or 0.0
    if not finding_of(comparison).sure:
        return None
    if comparison.ratio.direction > 0:
        return f"{comparison.what} gain {-loss:.0f}%"
    if comparison.ratio.direction < 0 and loss > HIGH:
        return f"{comparison.what} lose {loss:.0f}%"
    return f"{comparison.what} lose only {loss:.1f}%" if comparison.ratio.direction < 0 and loss < LOW else None


def _order(comparisons: Sequence[Comparison]) -> list[str]:
    """Whether reads lose as much as writes or more, where both lose; else the differences say enough."""
    write, read = (
        next((comparison.ratio for comparison in comparisons if comparison.what == what), None)
        for what in ("writes", "reads")
    )
    if not write or not read or not write.interval or not read.interval or max(write.direction, read.direction) > -1:
        return []
    if write.interval.high < read.interval.low:
        return []
    if read.interval.high < write.interval.low:
        return ["reads lose more"]
    return ["writes and reads lose alike within their intervals"]
