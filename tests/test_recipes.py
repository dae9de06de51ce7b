"""What each recipe makes of its block `states:`, written out: names, what is compared with what, steps."""

from __future__ import annotations

from typing import Any

import pytest

from fsage import recipes

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
AXES = {"capacity": [80], "fragmentation": [50], "file_size": "8M"}
DEFRAG = {"extents": [2], "file_size": "1M"}
STRIPED = {"pattern": ["IOR.4"], "default": "IOR.4"}
BLAST = {**STRIPED, "database": {}}
FILLER = {"method": "fallocate", "request_bytes": 4 * MIB, "files_at_once": 16}
CONTENDED = {
    "kind": "contended_files",
    "generation": 1,
    "percent": 6,
    "piece_bytes": 64 * KIB,
    "hot_bytes": MIB,
    "every_bytes": 5 * MIB,
}
SQLITE = {"kind": "sqlite", "generation": 2, "percent": 6, "seed": 3}
FRAGMENTED = {"kind": "fragmented_file", "generation": 1, "percent": 4, "extents": 7}
OTHERS = {"kind": "populate", "generation": 2, "percent": 82, "file_bytes": [MIB], "seed": 5, **FILLER}
RUN = {"kind": "free_reserved_run", "generation": 1}
INTERLEAVE = {
    "kind": "interleave",
    "generation": 1,
    "files": 20,
    "granularity_bytes": 1 * MIB,
    "method": "together",
}
DEFRAGMENT = {"kind": "defragment", "generation": 1, "time_limit_s": 60}
AGE = {"kind": "age", "generation": 1, "way": "churn", "percent": 60, "written_percent": 120, "seed": 2}
RESTORE = {"kind": "restore", "generation": 1, "image": "old.qcow2"}
KEEP = [{"kind": "keep_free_space", "generation": 2 + joined, "joined": bool(joined)} for joined in (0, 1)]


def replica(draw: int, joined: bool) -> dict[str, Any]:
    step = {"kind": "replica", "generation": 1, "layout": "ost.b.gz", "joined": joined}
    return {**step, "draw": draw, "window_groups": 8, "seed": 4}


def of_replica(draw: int, holes: str) -> dict[str, Any]:
    return {"axes": {"layout": "ost", "holes": holes}, "reference": "ost.joined@8", "structure": draw}


def of_defrag(scope: str) -> dict[str, Any]:
    axes = {"extents": 7, "scope": scope}
    return {"capacity_percent": 90, "fullness_percent": 90, "reference": "7.before", "axes": axes}


def of_iocontrol(stage: str) -> dict[str, Any]:
    axes = {"piece_bytes": 64 * KIB, "stage": stage}
    return {"fullness_percent": 30, "reference": "64K.before", "axes": axes}


def of_prealloc(deleted: int, fullness_percent: float) -> dict[str, Any]:
    axes = {"preallocation_bytes": MIB, "deleted": deleted, "files": 20}
    return {"reference": "1M.clean", "axes": axes, "fullness_percent": fullness_percent}


def of_aged(way: str, holes: str) -> dict[str, Any]:
    return {"axes": {"way": way, "holes": holes}, "reference": f"{way}.joined"}


#: Of each recipe a block, and of each of its states: name, population, nominal values, steps.
BLOCKS: dict[str, tuple[dict[str, Any], list[tuple[str, str, dict[str, Any], list[dict[str, Any]]]]]] = {
    "defrag": (
        {
            **{"extents": [7], "scope": ["file", "filesystem"], "capacity": 90, "file_percent": 4},
            **{"file_size": "1M", "time_limit_s": 60, "seed": 5},
        },
        [
            (
                "7.before",
                "7",
                of_defrag("before"),
                [FRAGMENTED, OTHERS, RUN],
            ),
            *(
                (
                    f"7.{scope}",
                    "7",
                    of_defrag(scope),
                    [FRAGMENTED, OTHERS, RUN, {**DEFRAGMENT, "scope": scope}],
                )
                for scope in ("file", "filesystem")
            ),
        ],
    ),
    "iocontrol": (
        {
            **{"piece_size": ["64K"], "stage": ["after", "hot", "before"], "file_percent": 6, "hot_size": "1M"},
            **{"hot_percent": 20, "sqlite": True, "seed": 3, "time_limit_s": 60},
        },
        [
            (
                "64K.before",
                "64K",
                of_iocontrol("before"),
                [CONTENDED, SQLITE],
            ),
            (
                "64K.hot",
                "64K",
                of_iocontrol("hot"),
                [CONTENDED, SQLITE, {**DEFRAGMENT, "scope": "hot", "hot_bytes": MIB, "every_bytes": 5 * MIB}],
            ),
            (
                "64K.after",
                "64K",
                of_iocontrol("after"),
                [CONTENDED, SQLITE, {**DEFRAGMENT, "scope": "file"}],
            ),
        ],
    ),
    "prealloc": (
        {"preallocation_size": ["1M"], "deleted": [3, 1], "files": 20, "seed": 9, "filler": "together"},
        [
            ("1M.clean", "1M.clean", of_prealloc(0, 0), []),
            *(
                (
                    f"1M.{deleted:02d}",
                    "1M",
                    of_prealloc(deleted, full),
                    [INTERLEAVE, {"kind": "delete_files", "generation": 1, "deleted": deleted, "seed": 9}],
                )
                for deleted, full in ((1, 95), (3, 85))
            ),
        ],
    ),
    "replica": (
        {"layouts": ["ost.b.gz"], "structures": 2, "window_groups": 8, "seed": 4},
        [
            ("empty", "empty", {"fullness_percent": 0, "axes": {"layout": "empty", "holes": "empty"}}, []),
            *(
                (
                    f"ost.{holes}+{draw}@8",
                    f"ost.{holes}+{draw}@8",
                    of_replica(draw, holes),
                    [replica(draw, holes == "joined")],
                )
                for draw in (1, 2)
                for holes in ("joined", "copied")
            ),
        ],
    ),
    "aged": (
        {
            **{"ways": ["churn"], "images": ["old.qcow2"], "trusted": True, "fullness_percent": 60},
            **{"written_percent": 120, "seed": 2},
        },
        [
            (f"{way}.{holes}", way, of_aged(way, holes), [first, *KEEP[:kept]])
            for way, first in (("churn", AGE), ("old", RESTORE))
            for kept, holes in enumerate(("original", "copied", "joined"))
        ],
    ),
}


def states_of(name: str, **block: Any) -> list[recipes.State]:
    """The states of a recipe with this block."""
    recipe = recipes.load(name)
    return recipe.expand(recipe.States.model_validate(block))


@pytest.mark.parametrize("name", BLOCKS)
def test_states_are_those_that_are_written_out(name):
    block, wanted = BLOCKS[name]
    states = states_of(name, **block)
    assert [state.name for state in states] == [row[0] for row in wanted]
    for state, (_, population, nominal, steps) in zip(states, wanted, strict=True):
        assert (state.population, state.nominal) == (population, {"recipe": name, **nominal})
        made = state.steps(1, 0)
        assert [step.to_json() for step in made] == steps
        assert state.last_step == (steps[-1]["kind"] if steps else "scrub")
        assert recipes.built(name, made, GIB) == ("; ".join(step.describe() for step in made) or "empty")


def test_one_sample_of_a_layout_needs_no_number():
    states = states_of("replica", layouts=["ost.txt"], empty=False, seed=4)
    assert [(state.name, state.nominal["reference"], "structure" in state.nominal) for state in states] == [
        ("ost.joined", "ost.joined", False),
        ("ost.copied", "ost.joined", False),
    ]


def test_without_a_database_four_files_fill_the_target_and_nothing_is_hot():
    [state] = states_of("iocontrol", piece_size=["4K"], stage=["before"])
    assert state.nominal["fullness_percent"] == 20 and not state.built_once
    [step] = state.steps(1, 0)
    assert step.to_json() == {"kind": "contended_files", "generation": 1, "percent": 5, "piece_bytes": 4 * KIB}


@pytest.mark.parametrize(
    ("name", "block", "why"),
    [
        ("aged", {}, "no way and no image"),
        ("aged", {"images": ["a.qcow2"]}, "an image is mounted"),
        ("aged", {"ways": ["churn"], "images": ["churn.gz"], "trusted": True}, "two are called churn"),
        ("aged", {"ways": ["churn"], "fullness_percent": 70, "written_percent": 69}, "69% written cannot fill 70%"),
        ("blast", {**BLAST, "database": {"volumes": 4, "queries": 5}}, "5 queries of 4 volumes"),
        ("blast", {**BLAST, "eviction_file": 51}, "51 is not allowed"),
        ("blast", {**BLAST, "eviction_file": 0}, "0 is not allowed"),
        ("blast", {**BLAST, "eviction_file": True}, "true is not allowed"),
        ("blast", {**BLAST, "default": "IOR.5"}, "IOR.5"),
        ("blast", {**BLAST, "own": {"mine": ["A"]}}, "is missing, and the watermarks in 'own' relate to it"),
        ("defrag", {**DEFRAG, "capacity": 80, "file_percent": 40}, "twice 40% must be below"),
        ("defrag", {**DEFRAG, "capacity": 90, "file_percent": 10}, "fit into no free run"),
        ("iocontrol", {"piece_size": ["6K"]}, "6K is no multiple of 4K"),
        ("iocontrol", {"piece_size": ["4K"], "file_percent": 20, "sqlite": True}, "five times 20%, with the database"),
        ("iocontrol", {"piece_size": ["4K"], "stage": ["hot"]}, "is wanted for stage hot"),
        ("iocontrol", {"piece_size": ["4K"], "hot_size": "4K", "hot_percent": 30}, "4K is not 30% of whole blocks"),
        ("iocontrol", {"piece_size": ["4K"], "hot_size": "6K", "hot_percent": 50}, "6K is not 50% of whole blocks"),
        ("paf", {**AXES, "structures": 2}, "more than one needs a 'seed'"),
        ("paf", {"notation": ["PAF:70.30:5@8M", "PAF:70.30@8M"], "structures": 2}, "more than one needs a 'seed'"),
        ("paf", {**AXES, "structures": {"80.51": 2}, "seed": 1}, "'80.51' is not allowed; did you mean '80"),
        ("paf", {**AXES, "notation": ["PAF:70.30@8M"]}, "goes without 'notation'"),
        ("prealloc", {"preallocation_size": ["1M"], "deleted": [5], "files": 4}, "5 is more than the 4 files"),
        ("prealloc", {"preallocation_size": ["1M", "1022K"], "deleted": 1}, "1022K is no multiple of 4K, a block"),
        ("replica", {"layouts": ["a.txt", "a.gz"]}, "it is another layout's name"),
        ("replica", {"layouts": ["empty.txt"]}, "it is another layout's name, or 'empty'"),
        ("replica", {"layouts": ["../../etc/shadow"]}, "is not the name of a file in layouts/"),
    ],
)
def test_states_that_cannot_be_are_refused(name, block, why):
    with pytest.raises(ValueError, match=why):
        states_of(name, **block)


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("aged", {"ways": ["churn"], "fullness_percent": 70, "written_percent": 70}),
        ("blast", {**BLAST, "eviction_file": None}),
        ("defrag", {**DEFRAG, "capacity": 81, "file_percent": 18}),
        ("iocontrol", {"piece_size": ["4K"], "hot_size": "4K", "hot_percent": 50}),
        ("paf", {**AXES, "structures": 2, "seed": 1}),
        ("paf", {"notation": ["PAF:70.30:5@8M"], "structures": 2}),
        ("prealloc", {"preallocation_size": ["1M"], "deleted": [4], "files": 4}),
        ("replica", {"layouts": ["a.txt", "b.txt"]}),
        *(("striping", {**STRIPED, "eviction_file": size}) for size in (0.5, "memory")),
    ],
)
def test_states_just_within_the_limits_are_taken(name, block):
    assert states_of(name, **block)


def test_of_two_ways_to_lay_filler_each_fragmented_state_is_compared_with_the_whole_one_as_full():
    axes = {"capacity": [40, 80], "fragmentation": [0, 50], "filler": ["write", "fallocate"]}
    found = set()
    for state in states_of("paf", **{**AXES, **axes}, seed=5):
        found.add((state.name, state.population, state.nominal.get("reference")))
    assert found == {
        (f"{name}@8M-{way}.4Mx16", f"{aa}@8M-{way}.4Mx16", reference and f"{reference}@8M-{way}.4Mx16")
        for way in ("write", "fallocate")
        for name, aa, reference in (
            ("40.00", 40, None),
            ("40.50", 40, None),
            ("80.00", 80, None),
            ("80.50", 80, "40.00"),
        )
    }


def test_each_repetition_of_a_structure_has_its_number_and_its_seed():
    block = {**AXES, "structures": 2, "seed": 5, "reuse": "fresh"}
    states = states_of("paf", **block)
    assert [(state.name, state.population, state.nominal["structure"]) for state in states] == [
        ("80.50+5@8M", "80.50+5@8M", 1),
        ("80.50+6@8M", "80.50+6@8M", 2),
    ]
    for state, seed in zip(states, (5, 6), strict=True):
        made = state.steps(1, 0)
        assert recipes.built("paf", made, GIB) == f"PAF:80.50:{seed}@8M<1048576"
        assert [step.generation for step in made] == [1, 1]
    of_layouts = states_of("paf", **{**block, "fragmentation": [0, 50, 70], "structures": {"80.50": 2, "80.00": 5}})
    assert [(state.name, state.layouts) for state in of_layouts] == [
        ("80.00@8M", 5),  # all alike: built once
        ("80.50+5@8M", 2),
        ("80.50+6@8M", 2),
        ("80.70@8M", 1),
    ]
    [alone] = states_of("paf", **{**block, "structures": 1})
    assert alone.name == "80.50@8M" and "structure" not in alone.nominal


def test_a_pattern_lays_out_its_file_and_a_database_beside_it():
    database = {"volumes": 4, "percent": 50, "queries": 4}
    [state] = states_of("blast", **STRIPED, eviction_file=50, database=database, seed=7)
    laid_out = {
        **{"generation": 1, "pattern": "IOR.4", "realisation": "segments", "nominal_bytes": 4 << 40},
        **{"largest_count": 16, "segments": [[1 << 40, 4, MIB], [None, 8, MIB]]},
    }
    assert [step.to_json() for step in state.steps(1, 0)] == [
        {"kind": "stripe", **laid_out, "eviction_file": 50},
        {"kind": "database", **laid_out, **database, "seed": 7},
    ]
