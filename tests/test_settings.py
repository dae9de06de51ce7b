"""What `--config` may say, and of which studies a command line is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fsage.plan import settings
from fsage.study import StudyError

STUDIES = ("quickstart", "series1", "striping")


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["-n", "series1", "quickstart"], ["quickstart", "series1"]),
        (["results/report/local/series1/index.html"], ["series1"]),
        (["--config", "target=series1", "--", "quickstart"], ["quickstart"]),
        (["--report", "series1.html"], []),
        (["-n"], []),
    ],
)
def test_which_studies_are_asked_for(words, asked):
    assert settings.requested(words, STUDIES) == asked


def test_only_studies_that_a_command_line_mentions_get_rules():
    names = ["prealloc", "prealloc_quick", "series1"]
    assert settings.mentioned(["-n", "results/records/local/series1/0/i1.json"], names) == ["series1"]
    assert settings.mentioned(["report_prealloc_quick"], names) == ["prealloc", "prealloc_quick"], "a rule's name"
    assert settings.mentioned(["--list"], names) == names


def test_only_narrows_what_is_asked_for_and_nothing_else():
    assert settings.narrowed({}, []) == {}
    assert settings.narrowed({"only": {"capacity": 80}}, ["series1"]) == {"series1": {"capacity": 80}}
    with pytest.raises(StudyError, match="narrows the requested studies, and none is requested: name one"):
        settings.narrowed({"only": {"capacity": 80}}, [])


def test_where_things_are():
    given = settings.places({"target": "seek"}, {"FSAGE_RESULTS": "/r", "FSAGE_TARGET": "local"})
    assert (given["FSAGE_RESULTS"], given["FSAGE_STUDIES"], given["FSAGE_TARGET"]) == ("/r", "config", "seek")


def test_the_page_about_the_configuration_has_every_key():
    page = (Path(__file__).parents[1] / "config/README.md").read_text()
    table = "\n".join(line.split("|")[1] for line in page.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`(\w+)`", table)) == set(settings.KEYS)


def test_an_empty_variable_is_as_if_it_were_not_set() -> None:
    """`FSAGE_RESULTS= ./run snakemake` wrote records and claims into the clone itself."""
    empty = {f"FSAGE_{key.upper()}": "" for key in settings.PLACES}
    assert settings.places({}, empty) == settings.places({}, {})
