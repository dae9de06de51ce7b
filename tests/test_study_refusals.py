"""What is no study is refused: file, key path, value, what is allowed, the nearest."""

import datetime

import pytest
from studies import CONFIG, blocks, generations

from fsage import workloads
from fsage.model import structure
from fsage.study import StudyError
from fsage.study.files import load_study

TOP = (
    "name, title, question, target, targets, states, mkfs, cells, additional_cells, sentinels, reference_reads, "
    "traces, only, exclude, tuning, order_seed, state_order, warm_up, headline, count, compare"
)
RECIPES = "aged, allocator, blast, defrag, f2fs, iocontrol, kernels, paf, prealloc, replica, striping"
STATES = (
    "recipe, capacity, fragmentation, file_size, seed, reuse, filler, request_size, files_at_once, notation, structures"
)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("headlines", [], f"headlines: unknown key; did you mean 'headline'? allowed: {TOP}"),
        ("name", "Series 1", "name: 'Series 1' is not a name of at most 32 of a-z, 0-9 and '_', a letter first"),
        ("name", "other", "name: 'other' is not what the file is called; allowed: small"),
        ("title", None, "title: null is not text (quote what looks like a number)"),
        ("states.recipe", "PAF", f"states.recipe: 'PAF' is not allowed; did you mean 'paf'? allowed: {RECIPES}"),
        ("states.capacty", 5, f"states.capacty: unknown key; did you mean 'capacity'? allowed: {STATES}"),
        ("states.capacity", [10, 10], "states.capacity[1]: 10 is there twice"),
        ("states.capacity", [], "states.capacity: an empty list; allowed: one value or a list of at least one"),
        ("states.capacity", ["ten"], "states.capacity[0]: 'ten' is not a whole number: write it in digits, such as 60"),
        ("states.capacity", ["60%"], "states.capacity[0]: '60%' is not a whole number: write 60"),
        ("states.capacity", 0.6, "states.capacity: 0.6 is not a whole number: write 60, if percent are meant"),
        ("states.capacity", True, "states.capacity: true is not a whole number"),
        ("states.capacity", 100, "states.capacity: 100 is too large; allowed: at most 99"),
        ("states.capacity", 0, "states.capacity: 0 is too small; allowed: at least 1"),
        ("states.file_size", 264, "states.file_size: 264 is not a size; write it with its unit, such as 64M"),
        ("states.seed", datetime.date(2026, 11, 25), "states.seed: the date 2026-11-25 is not a whole number"),
        (
            "cells.tool",
            ["fio", "iro"],
            "cells.tool[1]: 'iro' is not allowed; did you mean 'ior'? allowed: auto, fio, ior",
        ),
        ("cells.direct", "maybe", "cells.direct: 'maybe' is not true or false"),
        ("cells.phases", "write", "cells.phases: 'write' is not a list, such as [a, b]"),
        ("cells.iterations", 0, "cells.iterations: 0 is not a whole number from 1 to 10000"),
        ("cells.places", "each", "cells.places: 'each' is neither a whole number from 1 to 99 nor one_each"),
        ("cells.places", 3, "cells.iterations: 2 do not reach 3 places: each iteration lies at one of them"),
        (
            "cells.transfer_size",
            ["3M", "8M", "64M"],
            "cells.transfer_size: 3M does not divide 64M, the largest; a cell moves multiples of that one",
        ),
        ("sentinels", {"every": 2}, "sentinels.transfer_size: sentinels are all alike: give one level (8M, 64M)"),
        (
            "sentinels",
            {"every": 2, "transfer_size": "65M"},
            "sentinels.transfer_size: 8M, 64M do not divide 65M, the largest; a cell moves multiples of that one",
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
            "allowed: notation, capacity, fragmentation, file_size, filler, request_size, files_at_once, "
            "transfer_size, iteration",
        ),
        ("only", ["capacity=5"], "only[0]: 'capacity=5' is not a block of keys, such as {key: value}"),
        ("only", [{}], "only[0]: an empty entry would match everything"),
        ("only", {"capacity": 80}, "only: {'capacity': 80} is not a list, such as [{capacity: 80}]"),
        ("exclude", [{"iteration": [1, 2]}], "only: together with 'exclude' this leaves no cell to measure"),
        (
            "headline",
            [{"label": "x", "state": "80.3", "against": "10.00"}],
            "headline[0].state: '80.3' is no state here; did you mean '80.30'? they go from 10.00@264M to 80.30@264M",
        ),
        (
            "headline",
            [{"label": "x", "state": "80.30", "against": "80.30@264M"}],
            "headline[0].against: '80.30@264M' is the state itself: name another",
        ),
        (
            "headline",
            [{"label": "x", "state": "70.30", "against": "70.30"}],
            "headline[0].state: '70.30' is no state here; did you mean '80.30'? they go from 10.00@264M to 80.30@264M\n"
            "small.yaml: headline[0].against: '70.30' is no state here; did you mean '80.30'? they go from 10.00@264M "
            "to 80.30@264M",
        ),
        (
            "compare",
            {"study": "smal"},
            "compare.study: there is no study 'smal' in here; did you mean 'small'? there are: small",
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
    study["cells"] |= {"transfer_size": ["8M", "8X"], "colour": 1}
    del study["question"]
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


def test_a_structure_is_named_once_and_each_axis_is_there(refused):
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
        ("", "small.yaml: it is empty; a study has the keys name, title, question, states, cells at least, as config/"),
        ("name: a\nstates:\n\trecipe: paf", "small.yaml: line 3, column 1: a tab, where YAML takes blanks: indent"),
        ("name: a\nname: b\n", "small.yaml: line 2, column 1: the key 'name' is there twice"),
        ("states:\n  no: 1", "small.yaml: line 2, column 3: the key 'no' is no text to YAML: put it in quotes"),
        ("a: [1, 017]", "small.yaml: line 1, column 8: YAML reads 017 as 15: write that, or put it in quotes"),
        ("a: 12:30", "small.yaml: line 1, column 4: YAML reads 12:30 as 750: write that, or put it in quotes"),
        ("a: 1\n...\nb: 2", "small.yaml: line 3, column 1: a second document begins, and a file has one"),
        ("? [a]\n: 1", "small.yaml: line 1, column 3: found unhashable key"),
        ("title: a: b", "small.yaml: line 1, column 9: a colon in a value: quote it, such as title: 'a: b'"),
        (
            "a:\n  b: [1]\n    c: 2",
            "small.yaml: line 3, column 5: deeper than line 2, which has a value already: give both the same",
        ),
        ('a: "x\nb:\n  c: "d"', "small.yaml: line 3, column 7: the quote that begins in line 1 is not closed there"),
        ("a: 'it's'", "small.yaml: line 1, column 8: the quote ends before the value does"),
        ("a: 1\n---\nb: 2", "small.yaml: line 2, column 1: a second document begins, and a file has one"),
        (
            "a:\n    b: paf\n  c: 10",
            "small.yaml: line 3, column 3: less deep than line 2, and as deep as no line that it belongs",
        ),
        (
            "a:x\nb: y",
            "small.yaml: line 2, column 2: line 1 has no value: write it as KEY: VALUE, with a blank after the colon",
        ),
        ('a: "x\nb: 1', "small.yaml: line 1, column 4: the quote that begins here is not closed"),
        ("a: [1, 2\nb: 3", "small.yaml: line 1, column 4: a bracket is not closed: 'a: [1, 2'"),
        ("a: %60", "small.yaml: line 1, column 4: no value begins with '%': put it in quotes"),
        ("a: 2026-99-99", "small.yaml: not YAML: month must be in 1..12"),
        ("a: !!python/name:os.system ''", "small.yaml: line 1, column 4: could not determine a constructor"),
        (
            "a:\n  b: 1\n\u00a0 c: 2\n  d: 3",
            "small.yaml: line 4, column 4: line 3 is indented with no-break space, which only looks like a blank",
        ),
        ("a\uff1ax\nb: y", "small.yaml: line 2, column 2: line 1 has a full-width colon: type the plain one"),
        ("a:\n  -{b: c, d: e}", "small.yaml: line 2, column 12: a blank is missing after the dash: write '- {b: c"),
        ("a: \x01", "small.yaml: not YAML: unacceptable character #x0001"),
    ],
)
def test_refuses_what_is_no_yaml(refused, text, message):
    assert refused(text).startswith(message)


def test_a_file_that_is_no_text_is_called_so(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_bytes(b"\x7fELF\2\1\1\0\0\0\0\0\3\0>\0\xff")
    with pytest.raises(StudyError, match=r"small.yaml: it is no text, where YAML is expected"):
        load_study(path)


@pytest.mark.parametrize(
    ("encoding", "called"), [("latin-1", "Latin-1 or alike"), ("utf-16", "UTF-16"), ("utf-16-be", "UTF-16")]
)
def test_a_file_that_is_not_utf_8_is_named(tmp_path, encoding, called):
    path = tmp_path / "small.yaml"
    path.write_text("name: small\ntitle: caf\u00e9\n", encoding=encoding)
    with pytest.raises(StudyError, match=rf"small.yaml: line \d: not UTF-8, but {called}: save the file as UTF-8"):
        load_study(path)


@pytest.mark.parametrize(
    ("name", "words", "instead", "message"),
    [
        ("iocontrol", "P6]", "P7]", "cells.pattern[5]: 'P7' is not allowed"),
        ("replica", "cells:", "compare: {study: replica, holes: copied}\ncells:", "compare.holes: unknown key"),
        (
            "kernels",
            "target: kernel",
            "targets: {bind: capacity}",  # which what use aged has not
            "targets.bind: 'capacity' is not allowed; allowed: none, for all states share no axis",
        ),
        (
            "mkfs",
            '["PAF:40.00@264M", "PAF:80.50@264M"]',
            '["PAF:80.50:1@264M", "PAF:80.50:2@264M"]',
            "states: 2 are called '80.50+2@264M', and a name is of one: change a seed or level",
        ),
        ("allocator", "[50, 80, 90]", "[0, 80]", "states.fullness[0]: 0 is too small; allowed: above 0"),
        ("allocator", "[50, 80, 90]", "[80, 100]", "states.fullness[1]: 100 is too large; allowed: below 100"),
        ("allocator_groups", "run_size: 64M", "run_size: 4M", "states.run_size: 4M is not larger than a hole"),
        ("allocator_groups", "run_size: 64M", "run_size: 65537K", "states.run_size: 65537K is not larger than a hole"),
        ("series1", "structures: 5 ", "structures: {80.50: 2} ", "the key '80.50' is no text to YAML: put it"),
        (
            "series1",
            "seed: 67005",
            f"seed: {2**63 - 1}",  # the second layout's is no number of 63 bits
            "states.seed: 9223372036854775807 is too large; allowed: at most 1000000000000000000",
        ),
        ("series1", "structures: 5 ", "structures: 100 ", "states.structures: 100 is too large; allowed: at most 99"),
    ],
)
def test_a_study_whose_states_do_not_hold_together_is_refused(refused, name, words, instead, message):
    text = (CONFIG / f"{name}.yaml").read_text()
    assert words in text
    assert message in refused(text.replace(words, instead, 1))


@pytest.mark.parametrize(
    ("workload", "change", "of_state", "why"),
    [
        ("sqlite", {}, {}, "an SQLite query needs a state with a database: `sqlite: true`"),
        ("weights", {"reads": "hot"}, {}, "reads: hot needs a state with hot ranges: `hot_size`"),
        (
            "weights",
            {"reads": "hot"},
            {"hot_bytes": 12288, "every_bytes": 49152},
            "131072 bytes do not divide a hot range of 12288",
        ),
    ],
)
def test_what_reads_what_the_state_has_not_is_refused(workload, change, of_state, why):
    """Here where files are there, but not all of it; test_plan has states without."""
    step = {"kind": "contended_files", "generation": 1, "percent": 6, "piece_bytes": 4096, **of_state}
    module = workloads.load(workload)
    params = module.Params.model_validate({"pattern": "P4", "scheduler": "bfq", "iteration": 1, **change})
    with pytest.raises(ValueError, match=why):
        module.check(params, [structure.read(step)])


def test_a_study_that_is_not_there_names_those_that_are():
    every = ", ".join(sorted(path.stem for path in CONFIG.glob("*.yaml")))
    with pytest.raises(
        StudyError, match=f"there is no study 'serie1' in .*; did you mean 'series1'. there are: {every}$"
    ):
        load_study(CONFIG / "serie1.yaml")
    with pytest.raises(StudyError, match="cannot be read: it is a folder, where a file is expected"):
        load_study(CONFIG)
