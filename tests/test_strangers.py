"""What a stranger hands over at the command line ends in a sentence: no traceback, no hang, nothing half-done."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import get_type_hints
from unittest.mock import Mock

import pandas as pd
import preloaded
import pytest
import typer
from records import CONFIG, make_records, store
from rich.text import Text
from studies import blocks

from fsage import cli, dataset, recipes
from fsage.base.message import Unacceptable, lines, printable
from fsage.commands import WRITTEN
from fsage.host.system import mounting
from fsage.model import structure
from fsage.study.files import load_study
from fsage.text.shown import Terminal

ROOT = CONFIG.parent
DATA = ROOT / "tests" / "data" / "evidence"
EVIDENCE = ("evidence", str(DATA / "e2freefrag.txt"))


@pytest.fixture
def fsage(monkeypatch, capfd, tmp_path):
    """Run the command in this process, below a folder of its own; its exit code and what it said on standard error."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("FSAGE_RESULTS", str(tmp_path / "results"))

    def run(*words) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["fsage", *map(os.fspath, words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, capfd.readouterr().err

    return run


def refused(answer: tuple[int, str], said: str, ends_with: int = 1) -> None:
    code, err = answer
    assert code == ends_with and said in err
    assert "Traceback" not in err and "Errno" not in err


@pytest.mark.timeout(60)
def test_what_is_no_file_is_refused_without_waiting(fsage, tmp_path) -> None:
    fifo, loop, made = tmp_path / "fifo.yaml", tmp_path / "loop", tmp_path / "made"
    os.mkfifo(fifo)
    for place, kind in ((fifo, "a FIFO"), (Path("/dev/zero"), "a device")):
        for words in (
            ("evidence", place),
            ("fragments", place),
            ("advise", "striping", "--files", place),
            ("remake", place, "--to", made),
            ("compare", place, place, "--to", made),
        ):
            refused(fsage(*words), f"it is {kind}, where a file is expected")
    refused(fsage("--studies", tmp_path, "plan", "fifo"), "it is a FIFO")
    loop.symlink_to("loop")
    refused(fsage("compare", loop, loop, "--to", made), "loop")
    assert not made.exists()


def test_a_file_where_a_folder_is_expected_is_refused(fsage, tmp_path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    refused(fsage("--results", file, "plan", "quickstart"), f"--results {file} is no folder")
    refused(fsage("compare", tmp_path, tmp_path, "--to", file), "is no folder")
    for option in ("--studies", "--inventories"):
        refused(
            fsage(option, tmp_path / "no", "plan", "quickstart"), f"{option} {tmp_path}/no: there is no such folder"
        )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--target local visit quickstart nostate", "has no state 'nostate'; it has "),
        ("--target local remeasure quickstart --state 99.99", "has no state '99.99'; it has "),
        ("--target local request quickstart 10.01@264M", "10.00@264M; did you mean '10.00@264M'?"),
        ("--target local request quickstart 80.50", "did you mean '80.50@264M'?"),
        ("--target local remeasure quickstart", "--failed"),
        ("--target local remeasure quickstart --cell transfer_size-64M_i9", "did you mean 'transfer_size-64M_i"),
        ("--target lokal plan quickstart", "lokal"),
        ("--target lokal doctor", "target 'lokal'"),
        ("--target lokal evidence .", "target 'lokal'"),
        ("hold lokal", "target 'lokal'"),
        ("hold --release lokal", "target 'lokal'"),
        ("--target local plan quickstart --budget 20s", "its primary comparisons alone take"),
        ("plan iocontrol --budget 8h", "a budget needs states that differ in capacity"),
    ],
)
def test_what_a_study_or_machine_has_not_is_named_before_anything_is_done(fsage, tmp_path, words, said) -> None:
    refused(fsage(*words.split()), said)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"evidence . --files {'9' * 20}", ""),
        (f"fragments . --worst {'9' * 20}", ""),
        ("count quickstart --layouts -3", "'-3' is too small; allowed: at least 1"),
        ("count quickstart --layouts 1.5", "'1.5' is not a whole number"),
        ("evidence . --fail-on full=1000", "a percentage is at most 100"),
        ("evidence . --fail-on full", "it is NAME=NUMBER"),
        ("evidence . --html -", "--html - is no file or folder: name one"),
        ("image 80.50 -o -", "--to - is no file or folder: name one"),
        ("plan quickstart --budget 45", "budget: '45' is no length of time; write 45m"),
        ("plan quickstart --budget 8h --precision 0%", "precision: '0%' is not between"),
        ("run quickstart --budget 45", "budget: '45' is no length of time; write 45m"),
        ("run quickstart --only {capacity", "a bracket is not closed: '{capacity'"),
        ("run quickstart --until soon", "until: 'soon' is no time; write 18:00"),
    ],
)
def test_an_option_that_cannot_be_is_a_wrong_command(fsage, words, said) -> None:
    refused(fsage(*words.split()), said, ends_with=2)


def test_what_is_written_need_not_be_readable() -> None:
    for command in typer.main.get_command(cli.app).commands.values():
        hints = get_type_hints(command.callback, include_extras=True)
        readable = [name for name in WRITTEN if name in hints and hints[name].__metadata__[0].readable]
        assert not readable, command.name


def test_what_a_budget_buys_is_said_and_nothing_where_all_is_measured(monkeypatch, tmp_path, capfd) -> None:
    monkeypatch.chdir(ROOT)
    words = ["--results", str(tmp_path), "--target", "local", "plan", "quickstart", "--budget", "8h"]
    cli.app(words, standalone_mode=False)
    said = r"^budget quickstart: about \d+ cells in 4 of 4 states, .*, which is all that is left$"
    assert re.search(said, capfd.readouterr().out, re.MULTILINE)
    store(make_records(load_study(CONFIG / "quickstart.yaml")), tmp_path / "records")
    cli.app(words, standalone_mode=False)
    assert "budget quickstart: nothing is left to measure" in capfd.readouterr().out


@pytest.mark.root
def test_a_full_disk_is_named_by_its_place(fsage, tmp_path, monkeypatch) -> None:
    full = tmp_path / "full"
    full.mkdir()
    mounting.mount_call("fsage-test", str(full), "tmpfs", 0, "size=64k,mode=0755")
    try:
        mine = full / "page.html"
        mine.write_text("kept")
        log = full / "log"
        log.write_bytes(b"\n" * 4000)  # its page has room for the beginning of a line
        with pytest.raises(OSError, match="No space left"):
            (full / "filling").write_bytes(bytes(1 << 20))
        refused(fsage(*EVIDENCE, "--html", mine), f"fsage: {mine}: No space left on device")
        done = preloaded.call("fsage", *EVIDENCE, "--beside", log, "--", "true")
        said = "the command ended with exit code 0, and its line stands on standard output"
        refused((done.returncode, done.stderr), said)
        assert json.loads(done.stdout)["exit_code"] == 0 and log.stat().st_size == 4000
        assert mine.read_text() == "kept" and len(list(full.iterdir())) == 3
        refused(fsage("--results", str(full), "hold", "local"), f"{full}: No space left on device. Free some")
        monkeypatch.setattr(cli.Where, "last_results", tmp_path)
        monkeypatch.setattr(cli, "app", Mock(side_effect=OSError(errno.ENOSPC, "full")))
        refused(fsage("figures", "quickstart", "--to", full / "figures"), f"fsage: {full}: No space left on device")
    finally:
        subprocess.run(["umount", "--lazy", full], check=True)  # what failed has a file open until it is forgotten


PRINTED = (
    ("evidence e2freefrag.txt > /dev/full", 1, "fsage: standard output: No space left on device\n"),
    ("evidence e2freefrag.txt | true", 0, ""),
    ("evidence e2freefrag.txt >&-", 1, "fsage: standard output: it is closed, and the answer goes there\n"),
    ("evidence - <&-", 1, "fsage: standard input: it is empty, which no program writes whose text is read"),
)


@pytest.mark.parametrize(("module", "cases"), [("fsage.cli", PRINTED[:2]), ("fsage.layouts.__main__", PRINTED)])
def test_what_cannot_be_printed_ends_with_a_sentence(module: str, cases) -> None:
    program = f"{shlex.quote(sys.executable)} -c 'import {module} as m; import sys; sys.exit(m.main())' "
    for words, code, said in cases:
        done = subprocess.run(["bash", "-c", program + words], cwd=DATA, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr[: len(said)]) == (code, said), words
        assert said or not done.stderr
        assert "Traceback" not in done.stderr and "Errno" not in done.stderr


@pytest.mark.parametrize("command", [(*EVIDENCE, "--html"), (*EVIDENCE, "--save"), ("site", "quickstart", "--html")])
def test_where_a_file_is_written_at_the_end_is_looked_at_before_the_work(fsage, tmp_path, command, capfd) -> None:
    refused(fsage(*command, tmp_path), "it is a folder, where a file is expected")
    refused(fsage(*command, tmp_path / "none" / "x.gz"), f"there is no folder {tmp_path}/none")
    assert not capfd.readouterr().out


def test_an_inventory_that_is_a_list_is_refused(fsage, tmp_path) -> None:
    place = tmp_path / "mine" / "group_vars" / "all" / "target.yml"
    place.parent.mkdir(parents=True)
    for text in ("- a\n- b\n", "", "fsage_target: &a [*a]\n"):
        place.write_text(text)
        refused(fsage("--inventories", tmp_path, "--target", "mine", "plan", "quickstart"), "target.yml: ")


def test_a_name_that_is_no_utf8_stands_escaped_in_a_page_and_on_the_terminal(fsage, tmp_path) -> None:
    place, made = tmp_path / os.fsdecode(b"\xff[red]\x1b[2Jx.txt"), tmp_path / "page.html"
    place.write_bytes((DATA / "e2freefrag.txt").read_bytes())
    assert fsage("evidence", place, "--html", made)[0] == 0
    page = made.read_text(encoding="utf-8")
    assert r"\udcff[red]\x1b[2Jx.txt" in page and "\x1b" not in page
    refused(fsage("evidence", tmp_path / os.fsdecode(b"no\x1b[2J\xff")), r"no\x1b[2J\udcff: No such file")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", b'size,count\n64M,"' + b"1" * 200_000 + b'"\n', "is no CSV"),
        ("a.yaml", b"- {size: 64M, count: 1" + b"0" * 400 + b"}\n", "a number from 0 to 10^15"),
        ("a.csv", b"size,count\n1,1e308\n2,1e308\n", "a number from 0 to 10^15"),
        ("a.yaml", b"[" * 100_000, "deep in each other"),
        ("a.csv", b"size,count\n1M,3,000\n", "line 2: has more values than size, count; write numbers without commas"),
        ("a.csv", b"\xef\xbb\xbfsize,count\n1M,-1\n", "line 2: '-1' files of a size"),
        ("a.txt", b"\xef\xbb\xbf1M\nx\n", "line 2: 'x' is not a size"),
    ],
)
def test_sizes_that_cannot_be_are_refused(fsage, tmp_path, name, text, said) -> None:
    (tmp_path / name).write_bytes(text)
    refused(fsage("advise", "striping", "--files", tmp_path / name), said)


@pytest.mark.timeout(20)
def test_aliases_depth_and_length_of_a_study_are_limited(refused) -> None:
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    laughs += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
    assert "with its aliases written out it is longer than 4,194,304 bytes" in refused(laughs)
    assert "line 1, column 8: there is no &a that ends before *a" in refused("a: &a [*a]")
    assert "blocks lie more than 20 deep in each other" in refused("a: " + "[" * 100_000)
    assert "longer than 1,048,576 bytes" in refused("#" * (1 << 20) + "\na: 1")
    assert "a value of 20001 characters: put it in quotes" in refused("a: 1" + ":1" * 10_000)


@pytest.mark.timeout(20)
def test_the_product_of_a_studys_axes_is_limited_before_it_is_made(refused) -> None:
    states = {"recipe": "paf", "capacity": [*range(1, 99)], "fragmentation": [*range(99)], "seed": 1}
    states["file_size"] = [f"{number}K" for number in range(1, 1000)]
    assert "999 of file_size make 9,692,298 states; allowed are 10,000 at most" in refused(blocks(states=states))
    cells = {"workload": "sequential", "transfer_size": ["1M", "2M", "4M"], "iterations": 9999}
    assert "4 states of 29,997 cells make 119,988 cells; allowed are 50,000 at most" in refused(blocks(cells=cells))
    cells = {"workload": "sequential", "transfer_size": ["1K", "2K", "4K"] * 800}
    assert "a list of 2,400 levels; allowed are 1,000 at most" in refused(blocks(cells=cells))
    assert "at most 100" in refused(blocks(only=[{"capacity": 80}] * 101))


def test_no_text_of_others_steers_a_terminal_or_is_markup(capfd) -> None:
    assert printable("a\x1b[2J\x9b\u202e\udcff\n\tb") == r"a\x1b[2J\x9b\u202e\udcff\n\tb"
    assert lines("a\nb\x07") == "a\nb" + r"\x07"
    console = Terminal(force_terminal=True, color_system="standard", width=200)
    console.print("[red]x[/] \x1b[2J :smile:")
    console.print(Text("[bold]\x1b]0;title\x07", "bold"))
    said = capfd.readouterr().out
    assert r"[red]x[/] \x1b[2J :smile:" in said and r"[bold]\x1b]0;title" in said
    assert "\x1b[2J" not in said and "\x1b]0" not in said and "\x07" not in said


def test_no_text_in_a_csv_is_a_formula(tmp_path) -> None:
    records = make_records(load_study(CONFIG / "quickstart.yaml"))[:2]
    records[0]["host"] = '=HYPERLINK("http://x")'
    records[1]["host"] = "@x"
    records[1]["metrics"]["balance"] = -1.5
    dataset.write(dataset.load(store(records, tmp_path / "records")), tmp_path)
    found = pd.read_csv(tmp_path / "records.csv")
    assert set(found["host"]) == {'\'=HYPERLINK("http://x")', "'@x"}
    assert -1.5 in set(found["balance"]), "numbers are untouched"
    assert '=HYPERLINK("http://x")' in set(dataset.read(tmp_path)["host"]), "Parquet is as it was"


def test_no_module_is_taken_by_a_name_that_data_give(load) -> None:
    for name in ("os", "paf.States", "../x", "__init__"):
        with pytest.raises(ValueError, match="unknown recipe"):
            recipes.load(name)
        with pytest.raises(Unacceptable, match=r"one of age, .* is wanted"):
            structure.read({"kind": name})


# Crates.


@pytest.fixture(scope="module")
def crate(figures_undrawn, tmp_path_factory) -> dict[str, bytes]:
    from hostile.readers import make_crate

    return make_crate(tmp_path_factory.mktemp("crate"))


METADATA = "ro-crate-metadata.json"
STUDY = "config/small.yaml"
TARGET = "inventories/local/group_vars/all/target.yml"
CLAIM = "results/targets/local.json"
RECORD = "results/records/local/small/10.00@264M/i1.json"


def zipped(files: dict[str, bytes], place: Path, mode: int = 0o100644, method: int = zipfile.ZIP_STORED) -> Path:
    """These files as a zip; the last one has the mode."""
    with zipfile.ZipFile(place, "w") as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (mode if name == [*files][-1] else 0o100644) << 16
            archive.writestr(info, content, method)
    return place


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("../../etc/x", 0o100644, "is no name of a file below the crate"),
        ("/etc/x", 0o100644, "is no name of a file below the crate"),
        ("config/a\x1b[2J.yaml", 0o100644, r"'config/a\x1b[2J.yaml' in it is no name"),
        ("results/records/local/small/10.00@264M/link.json", 0o120777, "is a link or a device"),
        ("results/sda", 0o060644, "is a link or a device"),
    ],
)
def test_what_leads_out_of_a_crate_is_refused(fsage, crate, tmp_path, name, mode, said) -> None:
    place = zipped({**crate, name: b"/etc/passwd"}, tmp_path / "crate.zip", mode)
    refused(fsage("remake", place, "--to", tmp_path / "made"), said)
    assert not (tmp_path / "made").exists()


def test_links_and_devices_in_a_crate_that_is_a_folder_are_refused(fsage, crate, tmp_path) -> None:
    zipfile.ZipFile(zipped(crate, tmp_path / "crate.zip")).extractall(tmp_path / "crate")
    odd = tmp_path / "crate" / "results" / "odd"
    for make in (lambda: odd.symlink_to("/etc/passwd"), lambda: os.mkfifo(odd)):
        make()
        answer = fsage("remake", tmp_path / "crate", "--to", tmp_path / "made")
        refused(answer, "'results/odd' in it is a link or a device")
        odd.unlink()


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_what_is_packed_too_tight_too_large_or_twice_is_not_unpacked(fsage, crate, tmp_path, monkeypatch) -> None:
    def remade(place: Path) -> tuple[int, str]:
        return fsage("remake", place, "--to", tmp_path / "made")

    zeros = dict.fromkeys([RECORD, RECORD.replace("i1", "i2")], bytes(9 << 20))
    bomb = zipped({**crate, **zeros}, tmp_path / "a.zip", method=zipfile.ZIP_DEFLATED)
    refused(remade(bomb), "packed tighter than 1 to 100")
    large = zipped({**crate, RECORD: bytes(17 << 20)}, tmp_path / "b.zip")
    refused(remade(large), f"{RECORD!r} in it has more than 16,777,216 bytes")
    twice = zipped(crate, tmp_path / "c.zip")
    with zipfile.ZipFile(twice, "a") as archive:
        archive.writestr(RECORD, b"{}")
    refused(remade(twice), f"{RECORD!r} stands in it twice")
    monkeypatch.setattr("fsage.archive.crate.MOST_ENTRIES", 5)
    refused(remade(zipped(crate, tmp_path / "d.zip")), "it has more than 5 files")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (METADATA, b"", b'{"@graph": 5}'),
        (METADATA, b"#fsage", b"#other"),
        (CLAIM, b"", b"[1, 2]"),
        (CLAIM, b"", b"[" * 100_000),
        (STUDY, b"", b"- a\n"),
        (STUDY, b"paf", b"os"),
        (TARGET, b"name: local", b"name: other"),
    ],
)
def test_a_crate_with_a_part_that_is_not_of_its_type_is_refused(fsage, crate, tmp_path, name, old, new) -> None:
    content = crate[name].replace(old, new) if old else new
    place = zipped({**crate, name: content}, tmp_path / "crate.zip")
    refused(fsage("remake", place, "--to", tmp_path / "made"), f"fsage: {place}")
    assert not (tmp_path / "made").exists()
