"""From samples to what a report says of them: what is pooled, compared, flagged and called a drift."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from records import comparisons, table_of

from fsage import dataset
from fsage.analysis.conditions import basis, conditions
from fsage.analysis.groups import samples, summarise
from fsage.analysis.words import Finding
from fsage.report import caveats
from fsage.statistics import Interval, Ratio, Units, factor
from fsage.study.comparisons import Headline

MIB = 1 << 20
STATES = {"10.00@264M": 300.0, "40.00@264M": 280.0, "80.00@264M": 240.0}
PAIRS = [
    Headline(label="fullness", state="80.00", against="10.00"),
    Headline(label="half", state="40.00", against="10.00"),
]
STUDY = SimpleNamespace(headline=PAIRS)


def record(state, iteration, rate, order, **more):
    """A row of the table of records, as dataset.load gives it."""
    capacity, fragmentation = (float(part) for part in state.split("@")[0].split("+")[0].split("."))
    return dict.fromkeys(dataset.COLUMNS) | {
        "study": "s",
        "target": "local",
        "state": state,
        "cell": f"transfer_size-64M_i{iteration}",
        "kind": "planned",
        "order": order,
        "status": "valid",
        "recipe": "paf",
        "capacity_percent": capacity,
        "fragmentation_percent": fragmentation,
        "file_size_bytes": 264 * MIB,
        "workload": "sequential",
        "transfer_size_bytes": 64 * MIB,
        "iteration": iteration,
        "params": f"transfer_size={64 * MIB} workload=sequential",
        "real_fullness_percent": capacity,
        "layout_digest": f"digest of {state}",
        "write_bw_mib_s": rate,
        "began": f"2026-11-21T01:{int(capacity):02d}:{order:02d}.000Z",
        "kernel": "6.18.0",
        "device_model": "no device model",
        "filesystem": "ext4",
        "tunable.read_ahead_kb": "4096",
        "tunable.read_ahead_kb.before": "128",
        "tool.blastn": "2.12",
        "tool.fio": "3.33",
        "amount_mib": 384.0,
        **more,
    }


def taken(iterations=5, seed=1, **more):
    """Each of STATES with iterations that scatter by 1% about its rate."""
    rng = np.random.default_rng(seed)
    return [
        record(state, i + 1, rate * rng.normal(1, 0.01), i + 1, **more)
        for state, rate in STATES.items()
        for i in range(iterations)
    ]


# what is pooled


def test_a_group_holds_its_iterations_and_is_compared_with_the_clean_state():
    frame = table_of(taken())
    table = summarise(frame)
    assert basis(frame).startswith("Intervals are over rewrites of the same blocks in 10.00, 40.00 and")
    assert list(table["n"]) == [5, 5, 5] and list(table["condition"]) == ["", "", ""] and table["main"].all()
    full = table[table["state"] == "80.00@264M"].iloc[0]
    assert full["mean"] == pytest.approx(np.mean(full["samples"]))
    assert full["clean"] == "10.00@264M" and full["to_clean"].loss_percent == pytest.approx(20, abs=2)
    # Two comparisons, both 5 against 5 without overlap: Benjamini and Hochberg leave p as it is.
    assert full["p_exploratory"] == pytest.approx(2 / 252)
    assert table["p_exploratory"].notna().sum() == 2


@pytest.mark.parametrize(
    ("column", "value", "label"),
    [
        ("tunable.read_ahead_kb", "64", "tunables read_ahead_kb=64"),
        ("amount_mib", 512.0, "MiB a task 512.0"),
        ("tool.fio", "3.41", "tools fio=3.41"),
    ],
)
def test_samples_under_other_conditions_are_a_group_of_their_own_and_compared_with_their_like(column, value, label):
    rows = taken()
    others = [row | {"write_bw_mib_s": row["write_bw_mib_s"] / 2, column: value} for row in taken(4, seed=2)]
    alone, mixed = summarise(table_of(rows)), summarise(table_of(rows + others))
    assert list(mixed.loc[mixed["main"], "samples"]) == list(alone["samples"])
    apart = mixed[~mixed["main"]]
    assert list(apart["n"]) == [4, 4, 4] and set(apart["condition"]) == {label}
    # Half as fast, and yet as far from the clean state that was taken under the same conditions.
    assert apart.iloc[2]["to_clean"].loss_percent == pytest.approx(20, abs=2)
    said = " ".join(conditions(table_of(rows + others)))
    assert "15 samples" in said and "12 samples" in said and "never pooled" in said
    assert comparisons(table_of(rows + others), STUDY) == comparisons(table_of(rows), STUDY)


def test_what_is_no_other_condition_changes_no_group():
    """Extra cells, and a tunable that was found at another value."""
    rows = taken()
    usual = summarise(table_of(rows))
    kinds = ["sentinel", "traced", "reference"]
    extras = [record("10.00@264M", 9, 1.0, 50, kind=kind, kernel="6.19.1") for kind in kinds]
    rows[0]["tunable.read_ahead_kb.before"] = "4096"
    frame = table_of(rows + extras)
    pd.testing.assert_frame_equal(summarise(frame), usual)
    assert conditions(samples(frame)) == []


def test_samples_by_several_versions_of_fsage_are_said_and_stay_together():
    rows = [row | {"code": "a1"} for row in taken()]
    rows[3]["code"] = "b2"
    assert conditions(table_of(rows)) == [
        "Samples were taken by more than one version of fsage: a1: 14 samples, b2: 1 sample. It was edited or replaced "
        "after the first of them."
    ]
    assert len(summarise(table_of(rows))) == 3


def test_another_layout_of_a_state_is_split_off_and_named():
    rows = taken()
    rows[10]["layout_digest"] = rows[11]["layout_digest"] = "feedfacecafe"
    table = summarise(table_of(rows))
    full = table[table["state"] == "80.00@264M"].set_index("condition")
    assert dict(full["n"]) == {"layout feedfa": 2, "layout digest": 3}
    assert dict(full["main"]) == {"layout feedfa": False, "layout digest": True}
    assert conditions(table_of(rows))[0].startswith("Measured in more than one layout: 80.00@264M (digest: 3 samples")


def in_structures(count, iterations=5):
    """Each of STATES in so many layouts, which differ by 4%; each with seed and digest in its name."""
    rng = np.random.default_rng(4)
    rows = []
    for structure in range(1, count + 1):
        for state, rate in STATES.items():
            name, at = state.replace("@", f"+{67004 + structure}@"), rate * rng.normal(1, 0.04)
            rates = at * rng.normal(1, 0.001, iterations)
            rows += [record(name, i + 1, rates[i], i + 1, structure=structure) for i in range(iterations)]
    return rows


def test_a_unit_is_a_layout_whose_value_is_its_bytes_over_the_time_of_its_places():
    rows = in_structures(6)
    for row in rows:
        row["place"] = row["iteration"]
    table = summarise(table_of(rows))
    assert (table["n"] == 6).all() and (table["layouts"] == 6).all()
    frame = table_of(rows)
    first = frame[frame["state"].str.startswith("10.00+")].groupby("structure")["write_bw_mib_s"]
    expected = first.agg(lambda rates: len(rates) / (1 / rates).sum())
    assert table.iloc[0]["samples"] == pytest.approx(expected.tolist())
    assert table.iloc[0]["units"].kind == "layout" and set(table["state"]) == set(STATES)
    assert (table["cov"] > 0.02).all()  # that of layouts; iterations scatter by 0.1%
    # The same draws on both sides are pairs.
    full = table.set_index("state").loc["80.00@264M"]
    pairs = np.divide(full["samples"], table.iloc[0]["samples"])
    interval = full["to_clean"].interval
    assert (interval.low, interval.high, interval.level) == pytest.approx((min(pairs), max(pairs), 1 - 2 / 64))


def test_builds_of_one_digest_are_one_layout_and_its_places_are_units():
    rows = [row | {"layout_digest": "the same", "place": row["iteration"]} for row in in_structures(3)]
    [kind] = {units.kind for units in summarise(table_of(rows))["units"]}
    assert kind == "place"
    assert basis(table_of(rows)) == (
        "Intervals are over the places of files in one layout of 10.00, 40.00 and 80.00. Other layouts of these can "
        "differ by more."
    )


def test_layouts_against_a_state_of_one_layout_are_over_its_median():
    ours = Units("layout", {1: 80.0, 2: 84.0, 3: 82.0, 4: 90.0, 5: 70.0})
    reference = Units("place", {1: 100.0, 2: 99.0, 3: 101.0})
    found, inverse = factor(ours, reference), factor(reference, ours)
    assert (found.value, found.interval.low, found.interval.high, found.over) == (0.82, 0.7, 0.9, " over 5 layouts")
    assert (inverse.value, inverse.interval.high) == pytest.approx((1 / 0.82, 1 / 0.7))
    few = factor(Units("target", {1: 80.0, 2: 84.0}), reference)
    assert few.interval is None and few.why == "2 of the 5 targets that an interval needs"


# the headline


def test_primary_comparisons_are_a_family_in_which_a_pair_asked_both_ways_is_one_test():
    back = Headline(label="back", state=PAIRS[0].against, against=PAIRS[0].state)
    found = comparisons(table_of(taken()), SimpleNamespace(headline=[*PAIRS, back]))
    assert [(each.finding.family, each.finding.p) for each in found] == [(2, pytest.approx(4 / 252))] * 3
    assert found[0].ratio.value * found[2].ratio.value == pytest.approx(1)
    detail = r"80\.00 against 10\.00: \d+% slower \(\d+ to \d+%\); n=5\+5, 96\.8%, adjusted p=0\.016\."
    assert re.fullmatch(detail, found[0].detail)


@pytest.mark.parametrize(
    ("low", "high", "p", "kind", "said"),
    [
        (0.81, 0.84, 0.03, "sure", "X is 18% slower than Y (16 to 19% over 5 layouts)"),
        (0.81, 0.84, 0.2, "chance", "X may be 18% slower than Y (16 to 19% over 5 layouts)"),
        (0.9, 1.05, 0.5, "open", "X shows no difference beyond chance from the rate Y (10% slower to 5.0% faster over"),
        (0.99, 1.01, 0.5, "alike", "X shows no difference from the rate Y (within 3%)"),
        # Sure and too small to matter: the margin is asked first.
        (1.003, 1.025, 0.03, "slight", "X shows no difference that matters from the rate Y (0.3 to 2.5% faster over 5"),
        (2.4, 2.6, 0.03, "sure", "X is 2.5 times as fast as Y (2.4 to 2.6 over 5 layouts)"),
        (9e-8, 4e-7, 0.03, "sure", "X is 99.99% slower than Y (99.99 to 99.99% over 5 layouts)"),
        (9e-4, 0.004, 0.03, "sure", "X is 99.8% slower than Y (99.6 to 99.9% over 5 layouts)"),
    ],
)
def test_a_finding_is_a_template_and_the_margin_is_asked_before_chance(low, high, p, kind, said):
    ratio = Ratio(
        {0.81: 0.82, 2.4: 2.5, 9e-4: 0.002, 9e-8: 2e-7}.get(low, 1.0),
        Interval(low, high, 0.96),
        5,
        5,
        unit="layout",
        units=5,
    )
    finding = Finding(ratio, p, family=4)
    assert finding.kind == kind and finding.said("X", "Y").startswith(said)
    assert (finding.effect > 0) == finding.sure == (kind == "sure")


def test_what_so_few_samples_cannot_tell_in_so_large_a_family_says_so():
    others = [Headline(label="not measured", state=f"{number}.00", against="10.00") for number in range(7)]
    found = comparisons(table_of(taken()), SimpleNamespace(headline=[PAIRS[0], *others]))[0].finding
    assert not found.sure and "5 against 5 samples are too few" in found.brief()


# drift


def drifting(rise, passes_fall=0.0, states=8, seed=3):
    """States of 30 cells in six groups, the last of which rises while measured; passes fall from state to state."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(states):
        state = f"{number + 1}0.00@264M"
        for kind, order, lost in (("reference_before", 0, 0.0), ("reference_after", 31, 0.5)):
            speed = 350 * (1 - passes_fall * (number + lost)) * rng.normal(1, 0.001)
            rows.append(record(state, 1, None, order, kind="reference", cell=kind, read_bw_mib_s=speed, params="{}"))
        for order, place in enumerate(rng.permutation(30), 1):
            group = int(place) // 5
            rate = 100 * (group + 1) * rng.normal(1, 0.01) * (1 + (number == states - 1) * rise * order / 30)
            params = f"transfer_size={group * MIB} workload=sequential"
            rows.append(record(state, int(place) % 5 + 1, rate, order, params=params))
    return table_of(rows)


def test_a_drift_within_one_state_is_found_and_named():
    text = caveats.drift_section(drifting(0.1)).text
    assert "Within states, 1 of 8 trend tests (Kendall, over time) find a drift" in text
    assert "Writes at 80.00@264M rise (tau +0." in text and "Over the study: no drift" in text


def test_passes_show_a_drift_between_states_and_what_a_state_did():
    found = caveats.drift_section(drifting(0, passes_fall=0.01))
    assert "0 of 8 trend tests (Kendall, over time) find a drift, under" in found.text
    assert "one fixed range of the device was read before and after 8 states" in found.text
    assert re.search(r"Over the study: a fall \(Kendall's tau -(0\.9\d|1\.00), p=\d", found.text)
    assert re.search(r"After a state they reach 0\.99\dx of before \(0\.99\d-0\.99\d, 99\.2%\)\.", found.text)
    [figure] = found.figures
    assert [(cloud.kind, len(cloud.ys)) for cloud in figure.clouds] == [("reference before", 8), ("reference after", 8)]
    assert figure.clouds[0].ys[0] > 1 > figure.clouds[1].ys[-1], "over the median of all"


def test_a_state_of_single_cells_has_no_trend_instead_of_none_found():
    assert caveats.drift_section(table_of(taken(1))).text == "Too few samples in each state for a trend test."
