"""Studies: the ones there are, exactly; and the schema that an editor reads."""

import json
import subprocess
import sys
from collections import Counter

import jsonschema
import pytest
import yaml
from studies import CONFIG, blocks, names, state_named

from fsage import recipes
from fsage.study.files import load_study, schema

STUDIES = ("quickstart", "series1", "series2")


@pytest.mark.parametrize(
    ("name", "states", "populates", "kinds"),
    [
        ("series1", 288, 48, {"planned": 2240, "reference": 576, "traced": 2}),
        ("series2", 7, 1, {"planned": 70, "sentinel": 14, "reference": 14, "traced": 2}),
        ("quickstart", 4, 3, {"planned": 20}),
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
        assert [cells[0].name, cells[-1].name] == ["reference_before", "reference_after"]
        assert [cell.name for cell in traced] == ["traced_1"] * (state.name in ("80.00@264M", "80.50+67005@264M"))
        assert all(cell is cells[-2] and cell.params["transfer_size"] == 64 << 20 for cell in traced)


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
        planned = [cell for cell in study.cells_of(state) if cell.kind == "planned"]
        iterations = [state.nominal["structure"]] if "structure" in state.nominal else range(1, 6)
        assert {cell.name for cell in planned} == {
            f"transfer_size-{size}M_i{i}" for size in (1, 2, 4, 8, 16, 32, 64) for i in iterations
        }
        assert all(cell.params["place"] == cell.params["iteration"] for cell in planned)
        assert all(cell.params["phases"] == ["write", "read"] and cell.params["direct"] for cell in planned)


def test_series2_only_writes():
    study = load_study(CONFIG / "series2.yaml")
    cells = [cell for state in recipes.expand(study) for cell in study.cells_of(state) if cell.kind != "reference"]
    assert {tuple(cell.params["phases"]) for cell in cells} == {("write",)}


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


def test_import_stays_light():
    heavy = "{'numpy', 'pandas', 'matplotlib', 'scipy', 'snakemake', 'ansible', 'typer', 'jinja2'}"
    code = f"import fsage.study.study, sys; sys.exit(' '.join({heavy} & set(sys.modules)) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_schema_is_up_to_date():
    written = json.loads((CONFIG / "study.schema.json").read_text())
    assert written == schema(), "run: python docs/generate.py"


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
