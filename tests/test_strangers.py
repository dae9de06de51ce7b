"""What a stranger hands over at the command line ends in a sentence: no traceback, no hang, nothing half-done."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from records import CONFIG, make_records, store
from rich.text import Text
from studies import blocks

from fsage import cli, dataset, recipes
from fsage.base.message import Unacceptable, lines, printable
from fsage.host.system import mounting
from fsage.model import structure
from fsage.plan.plan import load_plan
from fsage.study.files import load_study
from fsage.text.shown import Terminal

ROOT = CONFIG.parent
DATA = ROOT / "tests" / "data" / "evidence"


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


def refused(answer: tuple[int, str], *said: str, ends_with: int = 1) -> None:
    code, err = answer
    assert code == ends_with and "Traceback" not in err
    for each in said:
        assert each in err


@pytest.mark.timeout(60)
def test_a_fifo_or_a_device_where_a_file_is_expected_is_refused_without_waiting(fsage, tmp_path) -> None:
    fifo = tmp_path / "fifo.yaml"
    os.mkfifo(fifo)
    for place in (fifo, Path("/dev/zero")):
        kind = "a FIFO" if place == fifo else "a device"
        refused(fsage("evidence", place), f"it is {kind}, where a file is expected")
        refused(fsage("remake", place, "--to", tmp_path / "made"), f"it is {kind}")
        refused(fsage("advise", "striping", "--files", place), f"it is {kind}")
        refused(fsage("compare", place, place, "--to", tmp_path / "compared"), f"it is {kind}")
    refused(fsage("--studies", tmp_path, "plan", "fifo"), "it is a FIFO")
    assert not (tmp_path / "made").exists() and not (tmp_path / "compared").exists()


def test_a_file_where_a_folder_is_expected_is_refused(fsage, tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    refused(fsage("--results", tmp_path / "file", "plan", "quickstart"), "--results", "is no folder")
    for option in ("--studies", "--inventories"):
        refused(
            fsage(option, tmp_path / "no", "plan", "quickstart"), f"{option} {tmp_path}/no: there is no such folder"
        )
    frame = dataset.load(
        store(
            make_records(load_plan(CONFIG / "quickstart.yaml", ROOT / "inventories/local", tmp_path).study),
            tmp_path / "records",
        )
    )
    dataset.write(frame, tmp_path / "table")
    refused(fsage("compare", tmp_path / "table", tmp_path / "table", "--to", tmp_path / "file"), "is no folder")


def test_a_state_that_a_study_has_not_is_named_before_anything_is_done(fsage, tmp_path) -> None:
    refused(fsage("--target", "local", "visit", "quickstart", "nostate"), "has no state 'nostate'; it has ")
    refused(
        fsage("--target", "local", "remeasure", "quickstart", "--state", "99.99"),
        "has no state '99.99'; it has ",
    )
    refused(fsage("--target", "local", "request", "quickstart", "10.01@264M"), "10.00@264M; did you mean '10.00@264M'?")
    refused(fsage("--target", "local", "request", "quickstart", "80.50"), "did you mean '80.50@264M'?")
    refused(fsage("--target", "local", "remeasure", "quickstart"), "--failed")
    refused(fsage("--target", "lokal", "plan", "quickstart"), "lokal")
    for words in (["doctor"], ["kernels"], ["evidence", tmp_path], ["fragments", tmp_path]):
        refused(fsage("--target", "lokal", *words), "target 'lokal'")
    refused(
        fsage("--target", "local", "remeasure", "quickstart", "--cell", "transfer_size-64M_i9"),
        "did you mean 'transfer_size-64M_i",
    )
    assert not (tmp_path / "results").exists()


@pytest.mark.root
def test_a_full_disk_is_named_by_its_place(fsage, tmp_path, monkeypatch) -> None:
    full = tmp_path / "full"
    full.mkdir()
    mounting.mount_call("fsage-test", str(full), "tmpfs", 0, "size=64k,mode=0755")
    try:
        with pytest.raises(OSError, match="No space left"):
            (full / "filling").write_bytes(bytes(1 << 20))
        refused(fsage("--results", str(full), "hold", "local"), f"{full}: No space left on device. Free some")
        monkeypatch.setattr(cli.Where, "last_results", tmp_path)
        monkeypatch.setattr(cli, "app", Mock(side_effect=OSError(errno.ENOSPC, "full")))
        refused(fsage("figures", "quickstart", "--to", full / "figures"), f"fsage: {full}: No space left on device")
    finally:
        subprocess.run(["umount", "--lazy", full], check=True)  # what failed has a file open until it is forgotten


EVIDENCE = ["evidence", str(DATA / "e2freefrag.txt")]


@pytest.mark.parametrize("module", ["fsage.cli", "fsage.layouts.__main__"])
def test_what_cannot_be_printed_ends_with_a_sentence(module: str) -> None:
    program = f"{shlex.quote(sys.executable)} -c 'import {module} as m; import sys; sys.exit(m.main())' "
    for words, code, said in (
        (f"{shlex.join(EVIDENCE)} > /dev/full", 1, "fsage: standard output: No space left on device\n"),
        (f"{shlex.join(EVIDENCE)} --json > /dev/full", 1, "fsage: standard output: No space left on device\n"),
        (f"{shlex.join(EVIDENCE)} >&-", 1, "fsage: standard output: it is closed, and the answer goes there\n"),
        ("evidence - <&-", 1, "fsage: standard input: it is empty, which no program writes whose text is read"),
        (f"{shlex.join(EVIDENCE)} | true", 0, ""),
    ):
        done = subprocess.run(["bash", "-c", program + words], cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr[: len(said)]) == (code, said), words
        assert said or not done.stderr
        assert "Traceback" not in done.stderr and "Errno" not in done.stderr


def test_numbers_that_cannot_be_are_refused_in_plain_words(fsage, tmp_path) -> None:
    assert fsage(*EVIDENCE, "--files", "9" * 20)[0] == 2
    assert fsage("fragments", tmp_path, "--worst", "9" * 20)[0] == 2
    for value, why in (("-3", "-3 is too small; allowed: at least 1"), ("1.5", "'1.5' is not a whole number")):
        code, err = fsage("count", "quickstart", "--layouts", value)
        assert code == 2 and why in err
    refused(fsage(*EVIDENCE, "--fail-on", "full=1000"), "a percentage is at most 100", ends_with=2)


@pytest.mark.root
def test_a_table_that_a_user_cannot_read_is_named_without_an_errno(fsage, tmp_path) -> None:
    table = tmp_path / "records.parquet"
    table.mkdir()
    refused(fsage("compare", table, table, "--to", tmp_path / "to"), "records.parquet")
    (tmp_path / "file").write_bytes(b"PAR1" * 10)
    (tmp_path / "loop").symlink_to("loop")
    code, err = fsage("compare", tmp_path / "loop", tmp_path / "file", "--to", tmp_path / "to")
    assert code == 1 and "Errno" not in err and "loop" in err


@pytest.mark.parametrize("command", [(*EVIDENCE, "--html"), (*EVIDENCE, "--save"), ("site", "quickstart", "--html")])
def test_where_a_file_is_written_at_the_end_is_looked_at_before_the_work(fsage, tmp_path, command, capfd) -> None:
    refused(fsage(*command, tmp_path), "it is a folder, where a file is expected")
    refused(fsage(*command, tmp_path / "none" / "x.gz"), f"there is no folder {tmp_path}/none")
    assert not capfd.readouterr().out


def test_fragments_of_what_is_no_file_are_refused_at_once(fsage, tmp_path) -> None:
    os.mkfifo(tmp_path / "fifo")
    refused(fsage("fragments", tmp_path / "fifo"), "it is a FIFO, where a file is expected")
    refused(fsage("fragments", "/dev/null"), "it is a device, where a file is expected")


def test_a_limit_that_is_none_is_refused_before_the_work(fsage, tmp_path, capfd) -> None:
    refused(
        fsage("evidence", tmp_path, "--save", tmp_path / "x.gz", "--fail-on", "full"), "it is NAME=NUMBER", ends_with=2
    )
    assert not (tmp_path / "x.gz").exists() and "free extents" not in capfd.readouterr().err


def test_a_budget_that_buys_nothing_is_refused_before_a_site_gives_its_time(fsage, capfd) -> None:
    plan = ("--target", "local", "plan", "quickstart", "--budget")
    refused(fsage(*plan, "45"), "budget: '45' is no length of time; write 45m", ends_with=2)
    refused(fsage("run", "quickstart", "--budget", "45"), "budget: '45' is no length of time; write 45m", ends_with=2)
    refused(fsage("run", "quickstart", "--only", "{capacity"), "a bracket is not closed: '{capacity'", ends_with=2)
    refused(fsage("run", "quickstart", "--until", "soon"), "until: 'soon' is no time; write 18:00", ends_with=2)
    refused(fsage(*plan, "20s"), "its primary comparisons alone take")
    refused(fsage(*plan, "8h", "--precision", "0%"), "precision: '0%' is not between", ends_with=2)
    refused(fsage("plan", "iocontrol", "--budget", "8h"), "a budget needs states that differ in capacity")
    cli.app([*plan, "8h"], standalone_mode=False)
    said = r"^budget quickstart: about \d+ cells in 4 of 4 states, .*, which is all that is left$"
    assert re.search(said, capfd.readouterr().out, re.MULTILINE)


def test_a_budget_where_all_is_measured_buys_nothing(monkeypatch, tmp_path, capfd) -> None:
    monkeypatch.chdir(ROOT)
    store(make_records(load_study(CONFIG / "quickstart.yaml")), tmp_path / "records")
    words = ["--results", str(tmp_path), "--target", "local", "plan", "quickstart", "--budget", "8h"]
    cli.app(words, standalone_mode=False)
    assert "budget quickstart: nothing is left to measure" in capfd.readouterr().out


def test_an_inventory_that_is_a_list_is_refused(fsage, tmp_path) -> None:
    place = tmp_path / "inventories" / "mine" / "group_vars" / "all" / "target.yml"
    place.parent.mkdir(parents=True)
    for text in ("- a\n- b\n", "a: 1\n", "", "fsage_target: &a [*a]\n"):
        place.write_text(text)
        refused(
            fsage("--inventories", tmp_path / "inventories", "--target", "mine", "plan", "quickstart"), "target.yml: "
        )


@pytest.mark.parametrize(
    ("sample", "old", "new"),
    [
        ("e2freefrag", b"Blocksize: 4096 bytes", b"Blocksize: 1000000000000000000 bytes"),
        ("dumpe2fs", b"Block size:               4096", b"Block size:               1000000000000000000"),
        ("e2freefrag", b"Num. free extent: ", b"Num. free extent: " + b"7" * 400),
        ("filefrag_plain_f1", b": 2 extents found", b": " + b"9" * 400 + b" extents found"),
        ("dumpe2fs", b"Free blocks:              ", b"Free blocks:              " + b"9" * 400),
    ],
)
def test_numbers_in_evidence_that_no_device_has_are_refused(fsage, tmp_path, sample, old, new) -> None:
    text = (DATA / f"{sample}.txt").read_bytes()
    assert old in text
    (tmp_path / "text").write_bytes(text.replace(old, new, 1))
    refused(fsage("evidence", tmp_path / "text"), f"fsage: {tmp_path}/text: ")


def test_a_name_that_is_no_utf8_stands_escaped_in_a_page_and_on_the_terminal(fsage, tmp_path, monkeypatch) -> None:
    name = os.fsdecode(b"\xff[red]\x1b[2Jx.txt")
    (tmp_path / name).write_bytes((DATA / "e2freefrag.txt").read_bytes())
    monkeypatch.setattr(sys, "argv", ["fsage", "evidence", str(tmp_path / name), "--html", str(tmp_path / "page.html")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert r"\udcff[red]\x1b[2Jx.txt" in page and "\x1b" not in page
    refused(fsage("evidence", tmp_path / os.fsdecode(b"no\x1b[2J\xff")), r"no\x1b[2J\udcff: No such file")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", b'size,count\n64M,"' + b"1" * 200_000 + b'"\n', "is no CSV"),
        ("a.yaml", b"- {size: 64M, count: 1" + b"0" * 400 + b"}\n", "a number from 0 to 10^15"),
        ("a.txt", b"\xff\n", "is not text"),
        ("a.csv", b"size,count\n1,1e308\n2,1e308\n", "a number from 0 to 10^15"),
        ("a.yaml", b"[" * 100_000, "deep in each other"),
    ],
)
def test_sizes_that_cannot_be_are_refused(fsage, tmp_path, name, text, said) -> None:
    (tmp_path / name).write_bytes(text)
    refused(fsage("advise", "striping", "--files", tmp_path / name), f"fsage: --files {tmp_path}/{name}", said)


@pytest.mark.timeout(20)
def test_aliases_depth_and_length_of_a_study_are_limited(refused) -> None:
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    laughs += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
    assert "with its aliases written out it is longer than 4,194,304 bytes" in refused(laughs)
    assert "line 1, column 8: *a stands before &a ends" in refused("a: &a [*a]")
    assert "blocks lie more than 20 deep in each other" in refused("a: " + "[" * 100_000)
    assert "longer than 1,048,576 bytes" in refused("#" * (1 << 20) + "\na: 1")
    assert "a value of 20001 characters: put it in quotes" in refused("a: 1" + ":1" * 10_000)
    assert "does not fit its tag" in refused("a: !!int ''") or "not YAML" in refused("a: !!int ''")


@pytest.mark.timeout(20)
def test_the_product_of_a_studys_axes_is_limited_before_it_is_made(refused) -> None:
    many = [f"{number}K" for number in range(1, 1000)]
    states = {
        "recipe": "paf",
        "capacity": list(range(1, 99)),
        "fragmentation": list(range(99)),
        "file_size": many,
        "seed": 1,
    }
    said = refused(blocks(states=states))
    assert (
        "98 of capacity x 99 of fragmentation x 999 of file_size make 9,692,298 states; allowed are 10,000 at most"
        in said
    )
    cells = {
        "workload": "sequential",
        "transfer_size": ["1M", "2M", "4M"],
        "file_per_process": [True, False],
        "iterations": 9999,
    }
    known = {key: value for key, value in cells.items() if key != "file_per_process"}
    assert "3 of transfer_size x 9999 iterations make 29,997 cells" not in refused(blocks(cells=known, headline="x"))
    assert "4 states of 29,997 cells make 119,988 cells; allowed are 50,000 at most" in refused(blocks(cells=known))
    levels = {"workload": "sequential", "transfer_size": [f"{2**n}K" for n in range(12)] * 200}
    assert "a list of 2,400 levels; allowed are 1,000 at most" in refused(blocks(cells=levels))
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
    study = load_plan(CONFIG / "quickstart.yaml", ROOT / "inventories" / "local", tmp_path).study
    records = make_records(study)[:2]
    records[0]["host"], records[1]["host"] = '=HYPERLINK("http://x")', "@x"
    records[0]["metrics"]["balance"], records[1]["kernel"] = -1.5, "-6"
    frame = dataset.load(store(records, tmp_path / "records"))
    dataset.write(frame, tmp_path / "table")
    import pandas as pd

    found = pd.read_csv(tmp_path / "table" / "records.csv")
    assert sorted(found["host"]) == ['\'=HYPERLINK("http://x")', "'@x"] and "'-6" in set(found["kernel"])
    assert -1.5 in set(found["balance"]), "numbers are untouched"
    assert sorted(dataset.read(tmp_path / "table")["host"])[0] == '=HYPERLINK("http://x")', "Parquet is as it was"


def test_no_module_is_taken_by_a_name_that_data_give(load) -> None:
    for name in ("os", "paf.States", "../x", "__init__"):
        with pytest.raises(ValueError, match="unknown recipe"):
            recipes.load(name)
        with pytest.raises(Unacceptable, match=r"one of age, .* is wanted"):
            structure.read({"kind": name})


# Crates.


def zipped(files: dict[str, bytes], place: Path, modes: dict[str, int] | None = None) -> Path:
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (modes or {}).get(name, 0o100644) << 16
            archive.writestr(info, content)
    return place


@pytest.fixture(scope="module")
def crate(tmp_path_factory) -> dict[str, bytes]:
    """A crate of a study of two states, file by file."""
    from fsage.archive.export import export

    place = tmp_path_factory.mktemp("crate")
    (place / "config").mkdir()
    states = {"recipe": "paf", "capacity": [10, 80], "fragmentation": 0, "file_size": "264M", "seed": 1}
    cells = {"workload": "sequential", "transfer_size": "64M", "iterations": 1}
    study = place / "config" / "small.yaml"
    study.write_text(yaml.safe_dump(blocks(states=states, cells=cells)))
    inventory = ROOT / "inventories" / "local"
    plan = load_plan(study, inventory, place / "results")
    store(make_records(plan.study), place / "results" / "records")
    to = export(load_plan(study, inventory, place / "results"), study, inventory, place / "crate")
    found = {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if "/figures/" not in name}


RECORD = "results/records/local/small/10.00@264M/i1.json"


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("../../etc/x", 0o100644, "is no name of a file below the crate"),
        ("/etc/x", 0o100644, "is no name of a file below the crate"),
        ("results/records/../../../x", 0o100644, "is no name of a file below the crate"),
        ("config/a\x1b[2J.yaml", 0o100644, r"'config/a\x1b[2J.yaml' in it is no name"),
        ("results/records/local/small/10.00@264M/link.json", 0o120777, "is a link or a device"),
        ("results/fifo", 0o010644, "is a link or a device"),
        ("results/sda", 0o060644, "is a link or a device"),
    ],
)
def test_what_leads_out_of_a_crate_is_refused(fsage, crate, tmp_path, name, mode, said) -> None:
    place = zipped({**crate, name: b"/etc/passwd"}, tmp_path / "crate.zip", {name: mode})
    refused(fsage("remake", place, "--to", tmp_path / "made"), said)
    assert not (tmp_path / "made").exists()


def test_links_and_devices_in_a_crate_that_is_a_folder_are_refused(fsage, crate, tmp_path) -> None:
    for name, content in crate.items():
        (tmp_path / "crate" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "crate" / name).write_bytes(content)
    odd = tmp_path / "crate" / "results" / "odd"
    odd.symlink_to("/etc/passwd")
    refused(fsage("remake", tmp_path / "crate", "--to", tmp_path / "made"), "'results/odd' in it is a link or a device")
    odd.unlink()
    os.mkfifo(odd)
    refused(fsage("remake", tmp_path / "crate", "--to", tmp_path / "made"), "'results/odd' in it is a link or a device")
    odd.unlink()
    if os.geteuid() == 0:
        os.mknod(odd, stat.S_IFCHR | 0o600, os.makedev(1, 5))
        refused(
            fsage("remake", tmp_path / "crate", "--to", tmp_path / "made"), "'results/odd' in it is a link or a device"
        )


@pytest.mark.timeout(60)
def test_what_is_packed_too_tight_too_large_or_twice_is_not_unpacked(fsage, crate, tmp_path, monkeypatch) -> None:
    bomb = zipped(
        {**crate, RECORD: b"0" * (15 << 20), RECORD.replace("i1", "i2"): b"0" * (15 << 20)}, tmp_path / "a.zip"
    )
    refused(fsage("remake", bomb, "--to", tmp_path / "made"), "packed tighter than 1 to 100")
    large = zipped({**crate, RECORD: os.urandom(17 << 20)}, tmp_path / "b.zip")
    refused(fsage("remake", large, "--to", tmp_path / "made"), f"{RECORD!r} in it has more than 16,777,216 bytes")
    with (
        pytest.warns(UserWarning, match="Duplicate"),
        zipfile.ZipFile(zipped(crate, tmp_path / "c.zip"), "a") as archive,
    ):
        archive.writestr(RECORD, b"{}")
    refused(fsage("remake", tmp_path / "c.zip", "--to", tmp_path / "made"), f"{RECORD!r} stands in it twice")
    monkeypatch.setattr("fsage.archive.crate.MOST_ENTRIES", 5)
    refused(fsage("remake", zipped(crate, tmp_path / "d.zip"), "--to", tmp_path / "made"), "it has more than 5 files")


def bent(content: bytes, *keys, value) -> bytes:
    """JSON with one value replaced."""
    found = block = json.loads(content)
    for key in keys[:-1]:
        block = block[key]
    block[keys[-1]] = value
    return json.dumps(found).encode()


STUDY, CLAIM = "config/small.yaml", "results/targets/local.json"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ro-crate-metadata.json", lambda _: b"[]"),
        ("ro-crate-metadata.json", lambda _: b'{"@graph": 5}'),
        ("ro-crate-metadata.json", lambda _: b"[" * 100_000),
        ("ro-crate-metadata.json", lambda content: content.replace(b"#fsage", b"#other")),
        (CLAIM, lambda _: b"[1, 2]"),
        (CLAIM, lambda _: b"[" * 100_000),
        (STUDY, lambda _: b"- a\n"),
        (STUDY, lambda content: content.replace(b"paf", b"os")),
        ("inventories/local/group_vars/all/target.yml", lambda _: b"- a\n"),
        (
            "inventories/local/group_vars/all/target.yml",
            lambda content: content.replace(b"name: local", b"name: other"),
        ),
    ],
)
def test_a_crate_with_a_part_that_is_not_of_its_type_is_refused(fsage, crate, tmp_path, name, change) -> None:
    place = zipped({**crate, name: change(crate.get(name, b""))}, tmp_path / "crate.zip")
    refused(fsage("remake", place, "--to", tmp_path / "made"), f"fsage: {tmp_path}/crate.zip")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda content: bent(content, "params", value=[]),
        lambda content: bent(content, "nominal", "axes", value="text"),
        lambda content: bent(content, "nominal", "recipe", value="os"),
        lambda content: bent(content, "metrics", "write_bw_mib_s", value=0),
        lambda content: bent(content, "metrics", "write_bw_mib_s", value=10**30),
        lambda content: bent(content, "order", value=1 << 64),
        lambda content: bent(content, "phases", 0, "argv", value=[1, None]),
        lambda content: bent(content, "conditions", "tunables", value={"a": 1}),
        lambda content: bent(content, "layout", "generations", value=[{}]),
        lambda content: bent(content, "state", value="../../x"),
        lambda _: b"[" * 100_000,
        lambda _: b'{"a": NaN}',
    ],
)
def test_a_record_in_a_crate_that_is_none_is_counted_as_unreadable(crate, tmp_path, change) -> None:
    place = tmp_path.joinpath(*RECORD.split("/"))
    place.parent.mkdir(parents=True)
    place.write_bytes(change(crate[RECORD]))
    frame = dataset.load([place])
    (row,) = frame.to_dict("records")
    if json.loads(crate[RECORD])["nominal"]["recipe"] == row["recipe"] or row["recipe"] != "os":
        assert row["status"] == "unreadable" and row["why"].startswith("local/small/10.00@264M/i1.json: not a readable")
