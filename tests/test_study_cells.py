"""The cells of a study: axes, order, subsets, extras, and those of another workload."""

import pytest
import yaml
from studies import CONFIG, MIB, PLAIN, blocks, generations, names, state_named

from fsage import recipes
from fsage.study.files import load_study


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
    loaded = load(study)
    places = {}
    for state in recipes.expand(loaded):
        cells = loaded.combinations(state)
        places[state.name] = [(cell.params["iteration"], cell.params["place"]) for cell in cells]
    assert list(places) == ["80.00@264M", "80.50+5@264M", "80.50+6@264M", "80.50+7@264M"]
    assert places["80.00@264M"] == list(enumerate(whole, start=1))
    assert places["80.50+6@264M"] == second


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
