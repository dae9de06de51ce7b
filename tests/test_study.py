"""Studies: the ones there are, exactly; states and cells of a study; and the schema that an editor reads."""

import json
from itertools import groupby, pairwise

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from studies import CONFIG, MIB, PLAIN, blocks, generations, names, state_named

from fsage import recipes
from fsage.studies.paf import recipe as paf
from fsage.studies.paf.model import Fragment, Populate
from fsage.study.files import load_study, schema


def test_series1_is_the_published_matrix():
    study = load_study(CONFIG / "series1.yaml")
    states = recipes.expand(study)
    layouts = [f"+{seed}" for seed in range(67005, 67010)]
    assert sorted(state.name for state in states) == sorted(
        f"{a}.{b:02d}{layout}@264M"
        for a in range(10, 90, 10)
        for b in range(0, 80, 10)
        for layout in (layouts if b else [""])
    )
    for state in states:
        before, *cells, after = study.cells_of(state)
        assert (before.name, after.name) == ("reference_before", "reference_after")
        iterations = [state.nominal["structure"]] if "structure" in state.nominal else range(1, 6)
        names = {f"transfer_size-{size}M_i{i}" for size in (1, 2, 4, 8, 16, 32, 64) for i in iterations}
        if state.name in ("80.00@264M", "80.50+67005@264M"):
            traced = cells.pop()
            assert traced.name == "traced_1" and traced.params["transfer_size"] == 64 << 20
        assert {cell.name for cell in cells} == names and len(cells) == len(names)
        for cell in cells:
            assert cell.params["place"] == cell.params["iteration"]
            assert cell.params["phases"] == ["write", "read"] and cell.params["direct"]


def test_quickstart_measures_four_states_in_a_drawn_order_and_its_headline_is_among_them():
    study = load_study(CONFIG / "quickstart.yaml")
    found = [state.name.partition("@")[0] for state in recipes.expand(study)]
    assert sorted(found) == ["10.00", "40.00", "80.00", "80.50"]
    assert found != sorted(found)
    warm_up, *cells = study.cells_of(recipes.expand(study)[0], first=True)
    assert warm_up.kind == "warm_up" and all(cell.kind == "planned" for cell in cells)
    assert [cell.order for cell in (warm_up, *cells)] == list(range(1, len(cells) + 2))
    lines = {line.label: (state_named(study, line.state), state_named(study, line.against)) for line in study.headline}
    fragmented, even = lines["fragmentation"]
    assert fragmented.nominal["fullness_percent"] == even.nominal["fullness_percent"] == 40


def test_the_schema_is_up_to_date_takes_a_study_and_refuses_what_the_models_refuse():
    made = schema()
    written = json.loads((CONFIG / "study.schema.json").read_text())
    assert written == made, "run: python docs/generate.py"
    validator = jsonschema.Draft202012Validator(made)
    validator.validate(blocks())
    validator.validate(yaml.safe_load((CONFIG / "series1.yaml").read_text()))
    for wrong in (
        {"colour": 1},
        {"states": {"recipe": "pfa"}},
        {"cells": {"workload": "sequential"}},
        {"sentinels": {}},
    ):
        assert not validator.is_valid(blocks(**wrong)), wrong


def test_steps_are_scaled_and_seeded(load):
    study = blocks()
    study["states"]["filler"] = "write"
    state = state_named(load(study), "80.30")
    assert state.steps(0.125, 7) == [
        Populate(1, 80, (33 * MIB,), 7, "write", 4 * MIB, 16),
        Fragment(1, 30, 7),
    ]
    assert state.playbooks == ("tune_clients.yml", "scrub.yml", "populate.yml", "fragment.yml")
    assert state.nominal == {
        "recipe": "paf",
        "notation": "PAF:80.30@264M",
        "capacity_percent": 80,
        "fragmentation_percent": 30,
        "file_size_bytes": 264 * MIB,
        "fullness_percent": 56,
        "axes": {"filler": "write", "request_size_bytes": 4 * MIB, "files_at_once": 16},
        "generations": [{"capacity_percent": 80, "fragmentation_percent": 30, "file_sizes_bytes": [264 * MIB]}],
    }


@pytest.mark.parametrize(("scale", "file_bytes"), [(1, 264 * MIB), (0.1, 27_680_768), (1e-9, 4096)])
def test_scaled_files_are_whole_blocks(load, scale, file_bytes):
    state = state_named(load(blocks()), "10.00")
    [step] = state.steps(scale, 1)  # nothing is deleted
    assert step.kind == "populate" and step.file_bytes == (file_bytes,)
    assert state.playbooks == ("tune_clients.yml", "scrub.yml", "populate.yml")


def test_generations_have_their_own_steps_sizes_and_seed(load):
    study = load(blocks(states=generations("PAF:70.30,20.40:67005@264M,40M<24253639848", seed=5)))
    [state] = recipes.expand(study)
    assert (state.name, state.population) == ("70.30,20.40+67005@264M,40M", "70.30,20+67005@264M,40M")
    assert state.steps(1, 5) == [
        Populate(1, 70, (264 * MIB,), 67005, "fallocate", 4 * MIB, 16),
        Fragment(1, 30, 67005),
        Populate(2, 20, (40 * MIB,), 67005, "fallocate", 4 * MIB, 16),
        Fragment(2, 40, 67005),
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
    together = [population for population, _ in groupby(populations)]
    assert len(together) == len(set(together)), "the states of a population are not together"
    if reuse == "fresh":
        assert populations == [state.name for state in states]
    for before, after in pairwise(states):
        if before.population == after.population:
            assert before.parts[0] == after.parts[0]
            assert before.axes["fragmentation"] < after.axes["fragmentation"] == after.parts[1].percent


def cells_in(study, state="10.00"):
    return study.cells_of(state_named(study, state))


def test_lists_are_axes_and_name_the_cells(load):
    study = blocks()
    study["cells"] |= {"direct": [True, False], "transfer_size": "64M", "phases": ["write"]}
    cells = cells_in(load(study))
    assert {cell.name: cell.params["direct"] for cell in cells} == {
        "direct-true_i1": True,
        "direct-true_i2": True,
        "direct-false_i1": False,
        "direct-false_i2": False,
    }
    assert {cell.params["transfer_size"] for cell in cells} == {64 * MIB}, "a value names nothing"


def test_close_levels_name_states_of_their_own(load):
    text = (CONFIG / "allocator_last.yaml").read_text().replace("[99.9]", "[50, 99.9999991, 99.9999992]")
    names = [state.name for state in load(text, "allocator_last").expanded]
    assert names == ["50.4M", "99.9999991.4M", "99.9999992.4M"]


def test_order_is_random_by_state_and_seed_but_always_the_same(load):
    study = load_study(PLAIN / "series1.yaml")
    assert names(study) == names(load_study(PLAIN / "series1.yaml"))
    orders = set()
    for state in recipes.expand(study):
        cells = study.cells_of(state)
        assert [cell.order for cell in cells] == list(range(1, len(cells) + 1))
        orders.add(tuple(cell.name for cell in cells))
    assert len(orders) == 64
    reseeded = yaml.safe_load((PLAIN / "series1.yaml").read_text()) | {"order_seed": 2}
    assert names(load(reseeded, "series1")) != names(study)


@pytest.mark.parametrize(
    ("block", "more"),
    [
        ("cells", {"iterations": 3}),
        ("cells", {"transfer_size": ["4M", "8M", "64M"]}),
        ("states", {"capacity": [10, 40, 80], "fragmentation": [70, 30, 0]}),
    ],
)
def test_added_levels_leave_the_others_their_names_and_order(load, block, more):
    grown = blocks()
    grown[block] |= more
    before = names(load(blocks()))
    after = names(load(grown))
    assert len(before) < len(after)
    assert [name for name in after if name in set(before)] == before


@pytest.mark.parametrize(
    ("given", "whole", "second"),  # the places of iterations 1, 2, … of the state that is built once
    [  # and (iteration, place) of the second layout
        ({"places": 2}, [1, 2, 3], [(1, 1), (2, 2)]),
        ({"places": 2, "iterations": 4}, [1, 2, 3, 1], [(1, 1), (2, 2), (3, 1), (4, 2)]),
        ({"places": "one_each"}, [1, 2, 3], [(2, 2)]),
        ({"iterations": 2}, [1, 1, 1], [(1, 1), (2, 1)]),
    ],
)
def test_iterations_lie_at_places_and_a_layout_that_is_built_once_has_as_many_as_the_others(load, given, whole, second):
    study = blocks()
    study["states"] |= {"capacity": [80], "fragmentation": [0, 50], "structures": 3, "seed": 5}
    study["cells"] = {"workload": "sequential", "transfer_size": "64M", **given}
    loaded = load({**study, "additional_cells": [study["cells"], {"workload": "limits", "iterations": 1}]})
    places = {}
    for state in recipes.expand(loaded):
        *combinations, tried = loaded.combinations(state)
        assert tried.name == "limits_i1", "the same at each place, so once"
        cells = [(cell.params["iteration"], cell.params["place"]) for cell in combinations]
        places[state.name] = cells[: len(cells) // 2]
        assert cells == 2 * places[state.name], "additional cells are as many, and lie alike"
    assert list(places) == ["80.00@264M", "80.50+5@264M", "80.50+6@264M", "80.50+7@264M"]
    assert places["80.00@264M"] == list(enumerate(whole, start=1))
    assert places["80.50+6@264M"] == second


def test_a_seed_that_is_to_be_drawn_is_drawn_for_aged_states_too(load):
    text = (CONFIG / "kernels.yaml").read_text().replace("seed: 1", "seed: null")
    states = load(text.replace('{default: 2, "80.50": 10}', "1"), "kernels").expanded
    assert {step.seed for state in states for step in state.steps(1, 7)} == {7}


def test_a_parameter_that_may_be_null_may_be_written_so(load):
    """As a value it is the default; as a level it names cells."""
    study = blocks()
    study["cells"] |= {"transfer_size": "64M", "mount": None, "amount_percent": [None, 5], "iterations": 1}
    loaded = load(study)
    cells = {cell.name: (cell.params["amount_percent"], cell.params.get("mount")) for cell in cells_in(loaded)}
    assert cells == {"amount_percent-null_i1": (None, None), "amount_percent-5_i1": (5, None)}
    [cell] = cells_in(loaded.narrowed({"amount_percent": "null"}))
    assert cell.name == "amount_percent-null_i1"


@pytest.mark.parametrize(("every", "places"), [(1, [1, 3, 5, 7, 9]), (3, [1, 5]), (4, [1, 6]), (5, [1])])
def test_sentinels_come_first_and_after_every_few(load, every, places):
    cells = cells_in(load(blocks(sentinels={"every": every, "transfer_size": "64M"})))
    watch = [cell for cell in cells if cell.kind == "sentinel"]
    assert [cell.order for cell in watch] == places
    for number, cell in enumerate(watch, start=1):
        assert (cell.name, cell.params["iteration"]) == (f"sentinel_{number}", number)
        assert cell.params["transfer_size"] == 64 * MIB
    assert len(cells) == 4 + len(watch)


@pytest.mark.parametrize(
    ("named", "traced"),
    [("80.30", "80.30+5@264M"), ("80.30@264M", "80.30+5@264M"), ("80.30+6@264M", "80.30+6@264M")],
)
def test_the_first_layout_of_a_state_is_traced_or_the_one_that_is_named(load, named, traced):
    study = blocks(traces={"states": [named], "transfer_size": "8M"})
    study["states"] |= {"structures": 3, "seed": 5}
    assert [state for state, cell in names(load(study)) if cell == "traced_1"] == [traced]


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({"only": [{"capacity": 80, "transfer_size": ["8M"]}]}, 4),
        ({"only": [{"fragmentation": 0}, {"capacity": 80, "iteration": 1}]}, 10),
        ({"only": [{"file_size": "264 MiB"}]}, 16),
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


def test_more_cells_of_another_workload_stand_beside_the_studys_own(load):
    """In the states that are named, under names of their own; the states' cells go on from one order."""
    more = {"workload": "metadata", "files_per_task": 500, "iterations": 3, "states": ["80.00"]}
    study = load(blocks(additional_cells=[more]))
    added = set(names(study)) - set(names(load(blocks())))
    assert added == {("80.00@264M", f"metadata_i{number}") for number in (1, 2, 3)}
    cells = cells_in(study, "80.00")
    assert [cell.order for cell in cells] == list(range(1, len(cells) + 1))
    assert {cell.params["files_per_task"] for cell in cells if cell.params["workload"] == "metadata"} == {500}
    assert len(cells_in(load(blocks(additional_cells=[{**more, "states": []}])))) == 4 + 3


def test_more_cells_that_are_wrong_are_refused(refused):
    more = {"workload": "metadata", "files_per_task": 500, "iterations": 3}
    for wrong, said in (
        ([{**more, "states": ["81.00"]}], "additional_cells[0].states[0]: '81.00' is no state here"),
        ([{**more, "file_per_task": 1}], "unknown key; did you mean 'files_per_task'?"),
        ([{**more, "stop": {"interval_percent": 5, "iterations_at_most": 9}}], "stop: stands in 'cells' only"),
        ([more, more], "additional_cells: a workload stands there twice"),
    ):
        assert said in refused(blocks(additional_cells=wrong))


def test_a_kernel_on_a_command_line_is_no_number():
    study = load_study(CONFIG / "kernels.yaml")
    few = study.narrowed({"kernel": ["5.10", "6.1"], "cache": "warm"})  # as Snakemake hands on what is quoted or not
    [state, *_] = recipes.expand(few)
    assert {cell.params["kernel"] for cell in few.cells_of(state)} == {"5.10", "6.1"}
