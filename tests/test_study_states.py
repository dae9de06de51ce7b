"""The states of a study: their steps, seeds and names."""

from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from studies import MIB, blocks, generations, state_named

from fsage import recipes
from fsage.studies.paf import recipe as paf
from fsage.studies.paf.model import Fragment, Populate


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
