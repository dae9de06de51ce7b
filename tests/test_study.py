"""Studies: the three there are, exactly; what else can be written; and what is refused, in which words."""

import copy
import json
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fsage import recipes, workloads
from fsage.recipes import paf
from fsage.study import StudyError, load_study, schema

CONFIG = Path(__file__).parents[1] / "config"
STUDIES = ("quickstart", "series1", "series2")
MIB = 1 << 20


def blocks(**changes):
    """A small study as YAML would give it, with some of its top blocks replaced."""
    states = {"recipe": "paf", "capacity": [10, 80], "fragmentation": [0, 30], "file_size": "264M"}
    cells = {"workload": "sequential", "transfer_size": ["8M", "64M"], "iterations": 2}
    return {"name": "small", "title": "t", "question": "q", "states": states, "cells": cells, **changes}


@pytest.fixture
def load(tmp_path):
    """Load a study from its blocks, or from the text of a file."""

    def loaded(study, name="small"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(study if isinstance(study, str) else yaml.safe_dump(study, sort_keys=False))
        return load_study(path)

    return loaded


@pytest.fixture
def refused(load, tmp_path):
    """Say how a study is refused, without the folder it lies in."""

    def message(study):
        with pytest.raises(StudyError) as caught:
            load(study)
        return str(caught.value).replace(f"{tmp_path}/", "").replace(str(tmp_path), "here")

    return message


def names(study):
    return [(state.name, cell.name) for state in recipes.expand(study) for cell in study.cells_of(state)]


# The three studies.


@pytest.mark.parametrize(
    ("name", "states", "populates", "kinds"),
    [
        ("series1", 64, 8, {"planned": 2240, "sentinel": 128, "pass": 128, "traced": 2}),
        ("series2", 7, 1, {"planned": 70, "sentinel": 14, "pass": 14, "traced": 2}),
        ("quickstart", 4, 3, {"planned": 20, "traced": 2}),
    ],
)
def test_counts(name, states, populates, kinds):
    study = load_study(CONFIG / f"{name}.yaml")
    expanded = recipes.expand(study)
    cells = [cell for state in expanded for cell in study.cells_of(state)]
    assert len(expanded) == states
    assert len({state.population for state in expanded}) == populates
    assert Counter(cell.kind for cell in cells) == kinds
    assert len(set(names(study))) == sum(kinds.values())


def test_passes_are_first_and_last_and_traced_cells_in_their_states_only():
    study = load_study(CONFIG / "series1.yaml")
    for state in recipes.expand(study):
        cells = study.cells_of(state)
        traced = [cell for cell in cells if cell.kind == "traced"]
        assert [cells[0].name, cells[-1].name] == ["pass_before", "pass_after"]
        assert [cell.name for cell in traced] == ["traced_1"] * (state.name in ("80.00@264M", "80.50@264M"))
        assert all(cell is cells[-2] and cell.params["transfer_size"] == 64 << 20 for cell in traced)


def test_series1_is_the_published_matrix():
    study = load_study(CONFIG / "series1.yaml")
    states = recipes.expand(study)
    assert [state.name for state in states] == [
        f"{a}.{b:02d}@264M" for a in range(10, 90, 10) for b in range(0, 80, 10)
    ]
    assert [state.population for state in states] == [f"{a}@264M" for a in range(10, 90, 10) for _ in range(8)]
    for state in states:
        planned = [cell for cell in study.cells_of(state) if cell.kind == "planned"]
        assert {cell.name for cell in planned} == {
            f"transfer_size-{size}M_i{i}" for size in (1, 2, 4, 8, 16, 32, 64) for i in range(1, 6)
        }
        assert all(cell.params["phases"] == ["write", "read"] and cell.params["direct"] for cell in planned)


def test_series2_only_writes_and_stands_beside_series1():
    study, other = (load_study(CONFIG / f"{name}.yaml") for name in ("series2", "series1"))
    cells = [cell for state in recipes.expand(study) for cell in study.cells_of(state) if cell.kind != "pass"]
    assert {tuple(cell.params["phases"]) for cell in cells} == {("write",)}
    pairs = study.counterparts(other)
    assert len(pairs) == 70
    assert pairs["20.30@33M", "transfer_size-8M_i4"] == ("20.30@264M", "transfer_size-8M_i4")
    assert set(pairs.values()) <= set(names(other))


def test_what_the_other_study_does_not_plan_has_no_counterpart(load):
    load(blocks(), "small")
    study = blocks(name="other", compare={"study": "small", "file_size": "264M"})
    study["states"] |= {"file_size": "33M", "fragmentation": [30, 50]}
    study["cells"]["iterations"] = 3
    pairs = load(study, "other").counterparts(load(blocks(), "small"))
    assert pairs["10.30@33M", "transfer_size-8M_i2"] == ("10.30@264M", "transfer_size-8M_i2")
    assert pairs["10.30@33M", "transfer_size-8M_i3"] is None
    assert pairs["10.50@33M", "transfer_size-8M_i1"] is None


def test_quickstart_measures_four_states_and_its_headline_is_among_them():
    study = load_study(CONFIG / "quickstart.yaml")
    found = [state.name.partition("@")[0] for state in recipes.expand(study)]
    assert found == ["10.00", "40.00", "80.00", "80.50"]
    lines = {line.label: (study.state_named(line.state), study.state_named(line.against)) for line in study.headline}
    fragmented, even = lines["fragmentation"]
    assert fragmented.nominal["fullness_percent"] == even.nominal["fullness_percent"] == 40


def test_import_stays_light():
    heavy = "{'numpy', 'pandas', 'matplotlib', 'scipy', 'snakemake', 'ansible', 'typer', 'jinja2'}"
    code = f"import fsage.study, sys; sys.exit(' '.join({heavy} & set(sys.modules)) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True)


# States.


def test_steps_are_scaled_and_seeded(load):
    study = blocks()
    study["states"]["filler"] = "write"
    state = load(study).state_named("80.30")
    assert state.steps(0.125, 7) == [
        {
            "kind": "populate",
            "generation": 1,
            "percent": 80,
            "file_bytes": [33 * MIB],
            "seed": 7,
            "method": "write",
        },
        {"kind": "fragment", "generation": 1, "percent": 30, "seed": 7},
    ]
    assert state.playbooks == ("tune_clients.yml", "scrub.yml", "populate.yml", "fragment.yml")
    assert state.nominal == {
        "recipe": "paf",
        "notation": "PAF:80.30@264M",
        "capacity_percent": 80,
        "fragmentation_percent": 30,
        "file_size_bytes": 264 * MIB,
        "fullness_percent": 56,
        "generations": [{"capacity_percent": 80, "fragmentation_percent": 30, "file_sizes_bytes": [264 * MIB]}],
    }


def test_nothing_is_fragmented_where_nothing_is_deleted(load):
    state = load(blocks()).state_named("80.00")
    assert [step["kind"] for step in state.steps(1, 1)] == ["populate"]
    assert state.playbooks == ("tune_clients.yml", "scrub.yml", "populate.yml")


@pytest.mark.parametrize(("scale", "file_bytes"), [(1, 264 * MIB), (0.1, 27_680_768), (1e-9, 4096)])
def test_scaled_files_are_whole_blocks(load, scale, file_bytes):
    [step, *_] = load(blocks()).state_named("10.00").steps(scale, 1)
    assert step["file_bytes"] == [file_bytes]


def generations(*notation, **changes):
    return {"recipe": "paf", "notation": list(notation), **changes}


def test_generations_have_their_own_steps_sizes_and_seed(load):
    study = load(blocks(states=generations("PAF:70.30,20.40:67005@264M,40M<24253639848", seed=5)))
    [state] = recipes.expand(study)
    assert (state.name, state.population) == ("70.30,20.40+67005@264M,40M", "70.30,20+67005@264M,40M")
    assert state.steps(1, 5) == [
        {
            "kind": "populate",
            "generation": 1,
            "percent": 70,
            "file_bytes": [264 * MIB],
            "seed": 67005,
            "method": "fallocate",
        },
        {"kind": "fragment", "generation": 1, "percent": 30, "seed": 67005},
        {
            "kind": "populate",
            "generation": 2,
            "percent": 20,
            "file_bytes": [40 * MIB],
            "seed": 67005,
            "method": "fallocate",
        },
        {"kind": "fragment", "generation": 2, "percent": 40, "seed": 67005},
    ]
    assert state.playbooks[2:] == ("populate.yml", "fragment.yml", "populate.yml", "fragment.yml")
    assert state.nominal["notation"] == "PAF:70.30,20.40:67005@264M,40M"
    assert state.nominal["capacity_percent"] is None  # on no plane of Series 1
    assert state.nominal["fullness_percent"] == 61


def test_structures_of_one_population_come_together(load):
    written = ("PAF:70.30,20.40@264M", "PAF:10.20@264M", "PAF:70.30,20.00@264M", "PAF:10.10@264M,1M")
    study = load(blocks(states=generations(*written)))
    assert [state.name for state in recipes.expand(study)] == [
        "70.30,20.00@264M",
        "70.30,20.40@264M",
        "10.20@264M",
        "10.10@264M,1M",
    ]


percents = st.lists(st.integers(1, 99), min_size=1, max_size=5, unique=True)


@given(percents, percents, st.sampled_from(["nested", "fresh"]), st.randoms())
def test_each_state_of_a_population_only_deletes_more(capacity, fragmentation, reuse, random):
    fragmentation = [0, *fragmentation]
    random.shuffle(fragmentation)
    states = paf.expand(
        paf.States(recipe="paf", capacity=capacity, fragmentation=fragmentation, file_size=["1M", "2M"], reuse=reuse)
    )
    assert len(states) == len({state.name for state in states}) == 2 * len(capacity) * len(fragmentation)
    populations = [state.population for state in states]
    assert [p for i, p in enumerate(populations) if p not in populations[:i]] == [
        p for i, p in enumerate(populations) if i == 0 or p != populations[i - 1]
    ], "the states of a population are not together"
    if reuse == "fresh":
        assert populations == [state.name for state in states]
    for before, after in pairwise(states):
        if before.population == after.population:
            assert before.parts[0] == after.parts[0]
            assert before.axes["fragmentation"] < after.axes["fragmentation"] == after.parts[1]["percent"]


# Cells.


def test_lists_are_axes_and_name_the_cells(load):
    study = blocks()
    study["cells"] |= {"direct": [True, False], "transfer_size": ["64M"], "iterations": 1}
    study = load(study)
    cells = study.cells_of(study.state_named("10.00"))
    assert {cell.name: cell.params["direct"] for cell in cells} == {
        "direct-true_transfer_size-64M_i1": True,
        "direct-false_transfer_size-64M_i1": False,
    }


def test_values_are_parameters_and_name_nothing(load):
    study = blocks()
    study["cells"] |= {"transfer_size": "64M"}
    study = load(study)
    cells = study.cells_of(study.state_named("10.00"))
    assert sorted(cell.name for cell in cells) == ["i1", "i2"]
    assert {cell.params["transfer_size"] for cell in cells} == {64 * MIB}


def test_order_is_random_by_state_and_seed_but_always_the_same(load):
    study = load_study(CONFIG / "series1.yaml")
    assert names(study) == names(load_study(CONFIG / "series1.yaml"))
    orders = [[cell.name for cell in study.cells_of(state)] for state in recipes.expand(study)]
    assert len(set(map(tuple, orders))) == 64
    assert all(
        [cell.order for cell in cells] == list(range(1, len(cells) + 1))
        for state in recipes.expand(study)
        if (cells := study.cells_of(state))
    )
    reseeded = yaml.safe_load((CONFIG / "series1.yaml").read_text()) | {"order_seed": 2}
    assert names(load(reseeded, "series1")) != names(study)


@pytest.mark.parametrize(
    ("block", "more"),
    [
        ("cells", {"iterations": 3}),
        ("cells", {"transfer_size": ["4M", "8M", "64M"]}),
        ("states", {"capacity": [10, 40, 80]}),
        ("states", {"fragmentation": [70, 30, 0]}),
    ],
)
def test_added_levels_leave_the_others_their_names_and_order(load, block, more):
    study, grown = blocks(), blocks()
    grown[block] |= more
    before, after = names(load(study)), names(load(grown))
    assert len(before) < len(after)
    assert [name for name in after if name in set(before)] == before


@pytest.mark.parametrize(
    ("every", "places"), [(1, [1, 3, 5, 7, 9]), (2, [1, 4, 7]), (3, [1, 5]), (4, [1, 6]), (5, [1])]
)
def test_sentinels_come_first_and_after_every_few(load, every, places):
    study = load(blocks(sentinels={"every": every, "transfer_size": "64M"}))
    cells = study.cells_of(study.state_named("10.00"))
    watch = [cell for cell in cells if cell.kind == "sentinel"]
    assert [cell.order for cell in watch] == places
    assert [cell.name for cell in watch] == [f"sentinel_{k}" for k in range(1, len(places) + 1)]
    assert [cell.params["iteration"] for cell in watch] == list(range(1, len(places) + 1))
    assert {cell.params["transfer_size"] for cell in watch} == {64 * MIB}
    assert len(cells) == 4 + len(watch)


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({"only": [{"capacity": 80}]}, 8),
        ({"only": [{"capacity": 80, "transfer_size": ["8M"]}]}, 4),
        ({"only": [{"fragmentation": 0}, {"capacity": 80, "iteration": 1}]}, 10),
        ({"only": [{"file_size": "264 MiB"}]}, 16),
        ({"exclude": [{"capacity": [10, 80], "fragmentation": 30}]}, 8),
        ({"exclude": [{"transfer_size": "8192K"}]}, 8),
        ({"only": [{"capacity": 80}], "exclude": [{"iteration": 2}]}, 4),
        ({"only": [{"notation": "PAF:80.30@264M"}]}, 4),
    ],
)
def test_subsets(load, filters, kept):
    study = load(blocks(**filters))
    cells = names(study)
    assert len(cells) == kept
    assert set(cells) <= set(names(load(blocks())))
    assert len(recipes.expand(study)) == len({state for state, _ in cells})


def test_an_axis_that_a_state_has_not_matches_nothing(load):
    states = generations("PAF:70.30,20.40@264M", "PAF:80.00@264M")
    study = load(blocks(states=states, only=[{"capacity": 80}]))
    assert [state.name for state in recipes.expand(study)] == ["80.00@264M"]


# Refusals: file, key path, value, what is allowed, the nearest.

TOP = (
    "name, title, question, target, states, cells, also, sentinels, passes, traces, only, exclude, tuning, order_seed, "
    "headline, compare"
)
STATES = "recipe, capacity, fragmentation, file_size, seed, reuse, filler, notation, structures"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("headlines", [], f"headlines: unknown key; did you mean 'headline'? allowed: {TOP}"),
        ("name", "Series 1", "name: 'Series 1' is not allowed; it must match ^[a-z][a-z0-9_]{0,31}$"),
        ("name", "other", "name: 'other' is not what the file is called; allowed: small"),
        ("title", None, "title: null is not text (quote what looks like a number)"),
        ("order_seed", "x", "order_seed: 'x' is not a whole number"),
        ("tuning", {"max_dirty_mb": [1]}, "tuning.max_dirty_mb: [1] is not a single value"),
        ("states", 5, "states: 5 is not a block of keys"),
        (
            "states.recipe",
            "pfa",
            "states.recipe: 'pfa' is not allowed; did you mean 'paf'? "
            "allowed: defrag, iocontrol, paf, prealloc, striping",
        ),
        ("states.capacty", 5, f"states.capacty: unknown key; did you mean 'capacity'? allowed: {STATES}"),
        ("states.capacity", [10, 10], "states.capacity[1]: 10 is there twice"),
        (
            "states.capacity",
            [],
            "states.capacity: an empty list; allowed: one value or a list of at least one",
        ),
        ("states.capacity", ["ten"], "states.capacity[0]: 'ten' is not a whole number"),
        ("states.capacity", True, "states.capacity: true is not a whole number"),
        ("states.capacity", 100, "states.capacity: 100 is too large; allowed: at most 99"),
        ("states.capacity", 0, "states.capacity: 0 is too small; allowed: at least 1"),
        ("states.file_size", 264, "states.file_size: 264 is not a size; write it with its unit, such as 64M"),
        (
            "states.file_size",
            "264MB",
            "states.file_size: '264MB' may be a power of ten; sizes are powers of two: write 264M or 264MiB",
        ),
        (
            "states.reuse",
            "nestd",
            "states.reuse: 'nestd' is not allowed; did you mean 'nested'? allowed: nested, fresh",
        ),
        ("states.seed", 1.5, "states.seed: 1.5 is not a whole number"),
        (
            "cells.workload",
            "sequentail",
            "cells.workload: 'sequentail' is not allowed; did you mean 'sequential'? "
            f"allowed: {', '.join(workloads.names())}",
        ),
        (
            "cells.tool",
            ["fio", "iro"],
            "cells.tool[1]: 'iro' is not allowed; did you mean 'ior'? allowed: auto, fio, ior",
        ),
        ("cells.direct", "maybe", "cells.direct: 'maybe' is not true or false"),
        ("cells.phases", "write", "cells.phases: 'write' is not a list, such as [a, b]"),
        (
            "cells.phases",
            ["wriet"],
            "cells.phases[0]: 'wriet' is not allowed; did you mean 'write'? allowed: write, read",
        ),
        ("cells.iterations", 0, "cells.iterations: 0 is not a whole number from 1 to 10000"),
        ("cells.iterations", True, "cells.iterations: true is not a whole number from 1 to 10000"),
        (
            "cells.transfer_size",
            ["3M", "8M", "64M"],
            "cells.transfer_size: 3M does not divide 64M, the largest; a cell moves multiples of that one",
        ),
        (
            "sentinels",
            {"every": 2},
            "sentinels.transfer_size: sentinels are all alike: give one level (8M, 64M)",
        ),
        (
            "sentinels",
            {"every": 2, "transfer_size": "65M"},
            "sentinels.transfer_size: 8M, 64M do not divide 65M, the largest; a cell moves multiples of that one",
        ),
        (
            "only",
            [{"capacity": 85}],
            "only[0].capacity: 85 is no level of this study; the nearest is 80; allowed: 10, 80",
        ),
        (
            "exclude",
            [{"transfer_size": "128M"}],
            "exclude[0].transfer_size: 128M is no level of this study; the nearest is 64M; allowed: 8M, 64M",
        ),
        (
            "only",
            [{"capcity": 80}],
            "only[0].capcity: unknown key; did you mean 'capacity'? "
            "allowed: notation, capacity, fragmentation, file_size, transfer_size, iteration",
        ),
        ("only", [{}], "only[0]: an empty entry would match everything"),
        ("only", {"capacity": 80}, "only: {'capacity': 80} is not a list, such as [{capacity: 80}]"),
        ("exclude", [{"iteration": [1, 2]}], "only: together with 'exclude' this leaves no cell to measure"),
        (
            "headline",
            [{"label": "x", "state": 80.3, "against": "10.00"}],
            "headline[0].state: 80.3 is not text (quote what looks like a number)",
        ),
        (
            "headline",
            [{"label": "x", "state": "80.3", "against": "10.00"}],
            "headline[0].state: '80.3' is no state here; did you mean '80.30'? they go from 10.00@264M to 80.30@264M",
        ),
        (
            "compare",
            {"study": "smal"},
            "compare.study: there is no study 'smal' in here; did you mean 'small'? there are: small",
        ),
        ("compare", {"study": "a/b"}, "compare.study: 'a/b' is not the name of a study"),
        ("compare", {"capacity": 10}, "compare.study: null is not the name of a study"),
        (
            "compare",
            {"study": "small", "file_sze": "1M"},
            "compare.file_sze: unknown key; did you mean 'file_size'? "
            "allowed: study, capacity, fragmentation, file_size",
        ),
    ],
)
def test_refuses(refused, path, value, message):
    study = blocks()
    *blocks_above, key = path.split(".")
    inner = study
    for block in blocks_above:
        inner = inner[block]
    inner[key] = value
    assert refused(study) == f"small.yaml: {message}"


def test_every_problem_is_listed(refused):
    study = blocks(titel="t", sentinels={"every": 0})
    study["states"] |= {"capacity": [10, 100], "reuse": "fesh"}
    study["cells"]["transfer_size"] = ["8M", "64"]
    study["cells"]["colour"] = 1
    del study["question"]
    study["cells"]["transfer_size"] = ["8M", "8X"]
    assert [line.split(":")[1].strip() for line in refused(study).splitlines()] == [
        "question",
        "states.capacity[1]",
        "states.reuse",
        "cells.colour",
        "cells.transfer_size[1]",
        "titel",
    ]


def test_capacities_that_cannot_be_reached_are_shown_with_a_caret(refused):
    assert refused(blocks(states=generations("PAF:70.30,20.00@264M", "PAF:70.30,60.00@264M"))) == (
        "small.yaml: states.notation[1]: generation 2 adds 60% to the 49% that the ones before it leave: "
        "more than the target holds; AA is at most 51 here\n"
        "    PAF:70.30,60.00@264M\n"
        "              ^^^^^"
    )


def test_axes_and_notation_exclude_each_other(refused):
    both = generations("PAF:70.30@264M", capacity=10)
    assert refused(blocks(states=both)) == (
        "small.yaml: states.capacity: goes without 'notation', which names whole structures"
    )
    assert refused(blocks(states={"recipe": "paf", "capacity": 10})) == (
        "small.yaml: states.fragmentation: is missing\nsmall.yaml: states.file_size: is missing"
    )
    assert refused(blocks(states=generations("PAF:70.30@264M", "PAF:70.30@264M<5"))) == (
        "small.yaml: states.notation[1]: 'PAF:70.30@264M<5' is there twice"
    )


def test_a_state_that_may_be_two_is_refused(refused):
    study = blocks(headline=[{"label": "x", "state": "80.30", "against": "80.30@33M"}])
    study["states"]["file_size"] = ["264M", "33M"]
    assert refused(study) == (
        "small.yaml: headline[0].state: '80.30' may mean 80.30@264M or 80.30@33M: give the whole name"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "small.yaml: null is not a block of keys"),
        ("a: [1", "small.yaml: line 2, column 1: did not find expected ',' or ']'"),
        ("name: a\nname: b\n", "small.yaml: line 2, column 1: the key 'name' is there twice"),
        ("? [a]\n: 1", "small.yaml: line 1, column 3: found unhashable key"),
        ("a: 2026-99-99", "small.yaml: not YAML: month must be in 1..12"),
        ("a: !!python/name:os.system ''", "small.yaml: line 1, column 4: could not determine a constructor"),
        ("a: \x01", "small.yaml: not YAML: unacceptable character #x0001"),
    ],
)
def test_refuses_what_is_no_yaml(refused, text, message):
    assert refused(text).startswith(message)


@pytest.mark.parametrize(
    ("name", "words", "instead", "message"),
    [
        ("iocontrol_hot", "  hot_size: 1M\n", "", "states.hot_size: is wanted for stage hot, e.g. 1M"),
        ("iocontrol_hot", "hot_percent: 25", "hot_percent: 30", "states.hot_size: 1M is not 30% of whole blocks"),
        ("iocontrol", "piece_size: 4K", "piece_size: 5K", "states.piece_size: 5K is no multiple of 4K, a block"),
        ("iocontrol", "P6]", "P7]", "cells.pattern[5]: 'P7' is not allowed"),
    ],
)
def test_a_study_of_io_control_that_does_not_hold_together_is_refused(refused, name, words, instead, message):
    text = (CONFIG / f"{name}.yaml").read_text()
    assert words in text
    assert message in refused(text.replace(words, instead, 1))


def test_what_reads_what_the_state_has_not_is_refused():
    one = {"pattern": "P4", "scheduler": "bfq", "iteration": 1}
    readers = {"kind": "readers", "generation": 1, "percent": 6, "piece_bytes": 4096}
    claimed = {"kind": "loop", "stores": [{"mount": "/mnt"}]}
    with pytest.raises(ValueError, match="an SQLite query needs a state with a database: `sqlite: true`"):
        workloads.load("sqlite").commands(one, claimed, [readers])
    with pytest.raises(ValueError, match="reads: hot needs a state with hot ranges: `hot_percent`"):
        workloads.load("weights").commands({**one, "reads": "hot"}, claimed, [readers])
    hot = {**readers, "hot_bytes": 12288, "every_bytes": 49152}
    with pytest.raises(ValueError, match="131072 bytes do not divide a hot range of 12288"):
        workloads.load("weights").commands({**one, "reads": "hot"}, claimed, [hot])


def test_a_study_that_is_not_there_names_those_that_are():
    with pytest.raises(StudyError) as caught:
        load_study(CONFIG / "serie1.yaml")
    every = ", ".join(sorted(path.stem for path in CONFIG.glob("*.yaml")))
    assert str(caught.value) == (
        f"{CONFIG}/serie1.yaml: there is no study 'serie1' in {CONFIG}; did you mean 'series1'? there are: {every}"
    )
    with pytest.raises(StudyError, match="cannot be read: Is a directory"):
        load_study(CONFIG)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["8M", "paf", "read"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


def places(block, path=()):
    """Every place of a nested block, by its path."""
    entries = block.items() if isinstance(block, dict) else enumerate(block) if isinstance(block, list) else ()
    for key, value in entries:
        yield (*path, key)
        yield from places(value, (*path, key))


FULL = blocks(
    sentinels={"every": 2, "transfer_size": "64M"},
    only=[{"capacity": 80, "transfer_size": ["8M"]}],
    exclude=[{"iteration": 2}],
    headline=[{"label": "x", "state": "80.30", "against": "80.00"}],
    compare={"study": "small", "file_size": "33M"},
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(list(places(FULL))), anything)
def test_anything_anywhere_is_a_study_or_a_study_error(load, place, value):
    study = copy.deepcopy(FULL)
    *above, key = place
    inner = study
    for step in above:
        inner = inner[step]
    inner[key] = value
    try:
        assert names(load(study))
    except StudyError as error:
        assert all(line.startswith((" ", "/")) for line in str(error).splitlines())


# The schema.


def test_the_schema_is_up_to_date():
    written = json.loads((CONFIG / "study.schema.json").read_text())
    assert written == schema(), "run: python -m fsage.study > config/study.schema.json"


@pytest.mark.parametrize("name", STUDIES)
def test_the_schema_takes_the_studies(name):
    jsonschema.Draft202012Validator(schema()).validate(yaml.safe_load((CONFIG / f"{name}.yaml").read_text()))


@pytest.mark.parametrize(
    "wrong",
    [{"colour": 1}, {"states": {"recipe": "pfa"}}, {"cells": {"workload": "sequential"}}, {"sentinels": {}}],
)
def test_the_schema_refuses_what_the_models_refuse(wrong):
    assert list(jsonschema.Draft202012Validator(schema()).iter_errors(blocks())) == []
    assert list(jsonschema.Draft202012Validator(schema()).iter_errors(blocks(**wrong)))


def test_more_cells_of_another_workload_stand_beside_the_studys_own(load):
    """In the states that are named, under names of their own; the states' cells go on from one order."""
    more = {"workload": "metadata", "files_per_task": 500, "iterations": 3, "states": ["80.00"]}
    study, plain = load(blocks(also=[more])), load(blocks())
    added = set(names(study)) - set(names(plain))
    assert added == {("80.00@264M", f"metadata_i{number}") for number in (1, 2, 3)}
    cells = study.cells_of(study.state_named("80.00"))
    assert [cell.order for cell in cells] == list(range(1, len(cells) + 1))
    assert {cell.params["files_per_task"] for cell in cells if cell.params["workload"] == "metadata"} == {500}
    assert len(load(blocks(also=[{**more, "states": []}])).cells_of(study.state_named("10.00"))) == 4 + 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"states": ["81.00"]}, "also[0].states[0]: '81.00' is no state here"),
        ({"file_per_task": 1}, "unknown key; did you mean 'files_per_task'?"),
        ({"stop": {"interval_percent": 5, "iterations_at_most": 9}}, "stop: stands in 'cells' only"),
        (None, "also: a workload stands there twice"),
    ],
)
def test_more_cells_that_are_wrong_are_refused(load, wrong, said):
    more = {"workload": "metadata", "files_per_task": 500, "iterations": 3}
    with pytest.raises(StudyError) as refusal:
        load(blocks(also=[more, more] if wrong is None else [{**more, **wrong}]))
    assert said in str(refusal.value)
