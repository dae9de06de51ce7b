"""`fsage advise` on records that were taken on this project's targets, on what is wrong with them, and on bad input."""

import json
import random
import re
import sys
from pathlib import Path

import pytest
from recorded import file_of, taken
from records import CONFIG, gave_nothing, store

from fsage.advise import distribution
from fsage.cli import main
from fsage.statistics import ratio
from fsage.studies.striping import advice as striping
from fsage.studies.striping.model import Segment

MIB = 1 << 20
INVENTORIES = CONFIG.parent / "inventories"


@pytest.fixture
def advise(tmp_path, monkeypatch, capsys):
    """The command over some records: exit status, what it prints, what it complains of. The study's text may differ."""

    def run(study, records, *arguments, replaced=("", "")):
        store(records, tmp_path / "results" / "records")
        (tmp_path / f"{study}.yaml").write_text(file_of(study).read_text().replace(*replaced))
        roots = ["--results", tmp_path / "results", "--studies", tmp_path, "--inventories", INVENTORIES]
        if records:
            roots += ["--target", records[0]["target"]]
        monkeypatch.setattr(sys, "argv", ["fsage", *map(str, roots), "advise", study, *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "400")
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def found(advise):
    """What the command gives as JSON."""

    def run(study, records, *arguments, **more):
        code, out, complaints = advise(study, records, *arguments, "--json", **more)
        assert code == 0, complaints
        return json.loads(out)

    return run


def files(tmp_path, text, name="sizes.csv"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def with_bandwidths(record, factor):
    metrics = {key: value * (factor if key.endswith("_mib_s") else 1) for key, value in record["metrics"].items()}
    return record | {"metrics": metrics}


# what the recorded studies say


def test_a_layout_is_chosen_and_every_number_is_that_of_the_records(found):
    advice = found("striping", taken("striping"), "--mix", "read=3,write=1")
    assert (advice["verdict"], advice["choose"], advice["default"]) == ("choose", ["IOR.3"], "IOR.1")
    chosen = "Choose IOR.3 (16 \u00d7 1 MiB): IOR.3 is 3.98 times as fast as IOR.1, the default ("
    assert advice["sentences"][0].startswith(chosen)
    assert "modelled device (IOCost, 15 MiB/s" in advice["taken_on"]
    samples = {}
    for state, paths in advice["records"].items():
        metrics = [json.loads(Path(path).read_text())["metrics"] for path in paths]
        samples[state] = [1024 * (0.75 / each["read_bw_mib_s"] + 0.25 / each["write_bw_mib_s"]) for each in metrics]
    assert len(samples) == len(advice["choices"]) == 6
    for choice in advice["choices"]:
        (state,) = choice["names"]
        assert sorted(choice["samples_seconds_per_gib"]) == pytest.approx(sorted(samples[state]))
        if state != "IOR.1":
            expected = ratio(samples[state], samples["IOR.1"]).value
            assert choice["times_default"]["value"] == pytest.approx(expected)


def test_files_below_the_first_watermark_are_in_the_layout_of_the_first_segment(found, tmp_path):
    """4 x 1 MiB up to 80 MiB in IOR.4 to IOR.6, as in IOR.1: of 16 stripes 64 MiB fill four rounds, 70 MiB do not."""
    advice = found("striping", taken("striping"), "--files", files(tmp_path, "size,count\n64M,20\n70M,3\n70M,0\n"))
    choices = {tuple(choice["names"]): choice["states"] for choice in advice["choices"]}
    assert choices == {("IOR.1", "IOR.4", "IOR.5", "IOR.6"): {"IOR.1": 1}, ("IOR.2",): {"IOR.2": 1}}
    assert advice["covered_share_of_bytes"]["IOR.3"] == pytest.approx(20 * 64 / (20 * 64 + 3 * 70))
    assert advice["choose"] == ["IOR.2"]
    assert advice["doubts"][0] == "Not compared: IOR.3, measured for 86% of the bytes."
    advice = found("striping", [], "--files", files(tmp_path, "size,count\n64M,300\n70M,3\n"))
    assert advice["choose"] == ["IOR.3"] and advice["compared_share_of_bytes"] == pytest.approx(0.989, abs=0.001)
    assert "1.1% of the bytes are not judged: by the map their stripes" in " ".join(advice["sentences"])
    same = found("striping", [], "--files", files(tmp_path, "64M\n", "one.txt"), "--at", "pattern=IOR.1,IOR.6")
    assert same["verdict"] == "either" and same["choose"] == ["IOR.1", "IOR.6"]
    assert same["sentences"][0] == "IOR.1 = IOR.6: for these files one and the same layout; any will do."


def test_sizes_that_no_layout_was_measured_for_decide_nothing(advise, tmp_path):
    code, out, _ = advise("striping", taken("striping"), "--files", files(tmp_path, "4096\n" * 9 + "0\n", "sizes.txt"))
    assert code == 0 and out.startswith("The data do not decide: no two choices were measured for the same 90%")


def test_a_file_is_like_the_measured_one_that_is_shared_out_alike():
    first = Segment(0, 80 * MIB, 4, MIB, 0)
    rest = Segment(80 * MIB, 320 * MIB, 8, MIB, 4)
    layouts = {"A": [first._replace(end_bytes=320 * MIB)], "AB": [first, rest]}
    found = [striping._of_size("AB", layouts, 0.03, size * MIB) for size in (40, 41, 120, 330)]
    assert found == [{"A": 1.0}, {}, {}, {"AB": 1.0}], "41: an object has a tenth more; 120: a third on eight stripes"


@pytest.mark.long
def test_three_iterations_of_preallocation_do_not_decide_and_four_do(found):
    records = taken("prealloc_quick")
    advice = found("prealloc_quick", [record for record in records if record["params"]["iteration"] <= 3])
    assert advice["verdict"] == "undecided" and advice["choose"] == []
    assert advice["sentences"][0] == (
        "The data do not decide: there are too few samples to tell 4M, 2M, 1M from 8M (n=3+3). Fastest so far: 8M."
    )
    advice = found("prealloc_quick", [record for record in records if record["params"]["iteration"] == 4])
    assert advice["verdict"] == "choose" and advice["choose"] == ["8M"]
    two = found("prealloc_quick", [], "--at", "preallocation_bytes=1M,8M", "--at", "deleted=1,20")
    assert two["choices"][0]["states"] == {"8M.01": 0.5, "8M.20": 0.5}
    assert "Deleted files: 1, 20, equally likely." in two["sentences"]


def test_defragmenting_is_chosen_once_the_reads_earn_it_back(found, tmp_path):
    advice = found("defrag", taken("defrag"))
    assert advice["choose"] == ["1233.file"] and advice["requested"]["params"] == "1 MiB"
    assert len(advice["records"]["1233.file"]) == 5, "cold reads alone"
    said = " ".join(advice["sentences"])
    assert re.search(r"the work took \d\d\.\d s for a GiB, timed once, and is earned back after 1\.4 cold reads", said)
    assert found("defrag", [], "--cold-reads", 1)["choose"] == ["1233.before"]
    assert found("defrag", [], "--cold-reads", 2)["choose"] == ["1233.file"]
    advice = found("defrag", [], "--files", files(tmp_path, "size,weight\n256K,0.5\n1G,0.5\n"))
    assert advice["compared_share_of_bytes"] == pytest.approx(1024 / 1024.25)
    assert "they fit into one piece of 264 KiB: there is nothing to gain" in " ".join(advice["sentences"])


# what makes evidence doubtful


@pytest.mark.parametrize("layouts", [1, 5])
def test_what_joining_free_space_gains_is_told_of_an_aged_file_system(found, layouts):
    """Records of a replica whose rates are planted: an aged file system beside its free space in one run.

    Of five layouts each has one sample, of the two places that a file was left at.
    """
    records, noise = [], random.Random(3)
    for record in taken("replica"):
        rate = 100 * noise.lognormvariate(0, 0.004) / (1.25 if ".copied" in record["state"] else 1)
        record["metrics"] |= {f"{phase}_bw_mib_s": rate for phase in ("write", "read")}
        for number in range(1, layouts + 1) if layouts > 1 and record["state"] != "empty" else ():
            place = {"place": record["params"]["iteration"]}
            if record["kind"] == "planned" and place["place"] <= 2:
                of_layout = {"state": f"{record['state']}+{number}@16", "params": record["params"] | place}
                of_layout |= {"nominal": record["nominal"] | {"structure": number}}
                records.append(record | of_layout | {"layout": record["layout"] | {"digest": str(number)}})
        if layouts == 1 or record["state"] == "empty":
            records.append(record)
    advice = found("replica", records, replaced=("  seed:", f"  structures: {layouts}\n  seed:"))
    assert (advice["default"], advice["kind"], advice["choose"]) == ("copied", "free space", ["joined"])
    said = " ".join([*advice["sentences"], *advice["doubts"]])
    assert re.search(r"joined is 2[456]% faster than copied, the default \(", said)
    over = {1: "rewrites of the same blocks in", 5: "the layouts of example"}
    assert f"Intervals are over {over[layouts]}" in said
    assert {len(choice["samples_seconds_per_gib"]) for choice in advice["choices"]} == {5}
    assert all(Path(path).exists() for paths in advice["records"].values() for path in paths)


def test_a_failed_choice_is_named_and_not_chosen(found):
    records = taken("striping")
    for record in records:
        if record["state"] == "IOR.3":
            gave_nothing(record, "the disk was gone")
    advice = found("striping", records)
    assert advice["sentences"][0].startswith("Among the 5 choices that can be compared: choose IOR.4 or IOR.6")
    assert "No sample: IOR.3: 5 cells failed: the disk was gone." in advice["doubts"]
    assert {choice["stands"] for choice in advice["choices"]} == {"best", "open", "worse"}


def test_samples_of_another_layout_and_drift_are_not_kept_quiet(found):
    records = taken("striping")
    of_3 = [record for record in records if record["state"] == "IOR.3"]
    for each in of_3[:2]:
        each["layout"]["digest"] = "0" * 32
    in_time = sorted(records, key=lambda each: (each["state"], each["began"]))
    advice = found("striping", [with_bandwidths(each, 0.9 ** (number % 5)) for number, each in enumerate(in_time)])
    counts = {choice["names"][0]: len(choice["samples_seconds_per_gib"]) for choice in advice["choices"]}
    assert counts["IOR.3"] == 3 and counts["IOR.6"] == 5
    said = " ".join(advice["doubts"])
    assert "Measured in more than one layout: IOR.3 (" in said
    assert "Drift within a state: reads at IOR.5 fall (tau -1.00" in said


def test_equal_choices_keep_the_default(found):
    draw = random.Random(4)
    records = [
        with_bandwidths(each, 61 / each["metrics"]["read_bw_mib_s"] * draw.lognormvariate(0, 0.1))
        for each in taken("striping")
    ]
    advice = found("striping", records)
    assert advice["verdict"] == "either" and "IOR.1" in advice["choose"]
    assert advice["sentences"][0].startswith(
        "Keep IOR.1 (4 \u00d7 1 MiB), the default: nothing is shown to be better by"
    )
    assert any("samples of each, now 5, would probably tell" in sentence for sentence in advice["sentences"])


# bad input


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "size,count\n64M,3\n-5,1\n", "a.csv, line 3: size '-5' is not a number of bytes from 0"),
        ("a.csv", "size,count\n64M,nan\n", "'nan' files of a size"),
        ("a.csv", "size,number\n64M,1\n", "has size, number; allowed: size and count, or weight"),
        ("a.csv", "size,count\n64M,0\n0,7\n", "names no file with a byte in it"),
        ("a.txt", "12\n\ntwelve\n", "a.txt, line 3: 'twelve' is not a size"),
        ("a.yaml", "- {size: 1.5, count: 1}\n", "size 1.5 is not a number of bytes"),
        ("a.yaml", "{size: 64M, count: 1}\n", "is not a list such as"),
        ("a.yaml", "- [64M, 1]: {\n", "is not YAML"),
    ],
)
def test_a_distribution_that_cannot_be_read_is_refused(tmp_path, name, text, said):
    with pytest.raises(ValueError, match=r"^--files ") as refused:
        distribution.read(str(files(tmp_path, text, name)))
    assert said in str(refused.value)


def test_a_distribution_in_any_form_is_the_same(tmp_path, monkeypatch):
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    for number, size in enumerate([0, 4096, 4096, 2 * MIB]):
        (tmp_path / "tree" / "deep" / str(number)).write_bytes(b"x" * size)
    lines = files(tmp_path, "0\n4096\n4K\n2M\n", "lines")
    table = files(tmp_path, "size, count\n0,0.5\n4K,1\n2M,0.5\n")
    written = files(tmp_path, "- {size: 0, weight: 1}\n- {size: 4K, weight: 2}\n- {size: 2 MiB, weight: 1}\n", "a.yaml")
    read = [distribution.read(str(each)) for each in (tmp_path / "tree", lines, table, written)]
    with lines.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        read.append(distribution.read("-"))
    for each in read:
        assert list(each.files) == [4096, 2 * MIB] and each.empty == each.files[2 * MIB]
        assert each.share_of_files(4097) == 0.75 and each.share_of_bytes([2 * MIB]) == pytest.approx(512 / 514)


@pytest.mark.parametrize(
    ("study", "arguments", "code", "said"),
    [
        ("striping", ["--mix", "reads=1"], 1, "--mix reads: 'reads' is not allowed; did you mean 'read'?"),
        ("striping", ["--at", "transfer_size=2M"], 1, "transfer_size=2M: '2M' is not allowed; allowed: 1048576"),
        ("striping", ["--cold-reads", "3"], 1, "--cold-reads is of studies of defragmentation"),
        ("replica", ["--at", "layout=empty"], 1, "no layout was measured: say which with --at layout=NAME"),
        ("replica", ["--at", "holes=copied"], 1, "nothing valid was measured to have its free space in one run"),
        ("defrag", ["--at", "scope=file"], 1, "no valid sample of the file before it is defragmented is there"),
        ("striping", ["--mix", "read"], 2, "--mix read: is not NAME=VALUE"),
        ("striping", ["--mix", "read=0"], 2, "no measure has a share"),
        ("defrag", ["--margin", "nan"], 2, "--margin nan: a percentage from 0 up is allowed"),
        ("defrag", ["--cold-reads", "0"], 2, "--cold-reads 0: a number above 0 is allowed"),
    ],
)
def test_what_was_not_measured_or_cannot_be_is_not_asked(advise, study, arguments, code, said):
    records = taken(study) if code == 1 else []
    ended, out, complaints = advise(study, records, *arguments)
    assert (ended, out) == (code, "") and complaints.startswith("fsage: ") and said in complaints
    assert complaints.count("\n") == 1


@pytest.mark.long
def test_several_workloads_or_files_in_pieces_are_never_mixed(advise):
    records = taken("striping")
    for record in records[:7]:
        record["params"]["direct"] = False
    code, _, complaints = advise("striping", records)
    assert code == 1
    assert "several workloads were measured: say which with --at NAME=VALUE: direct: false, true" in complaints
    code, out, _ = advise("striping", records, "--at", "direct=true")
    assert code == 0 and "1 MiB" in out
    hundred = taken("defrag")
    for record in hundred:
        record["state"] = record["state"].replace("1233", "100")
        record["nominal"]["axes"]["extents"] = 100
    both = ("extents: 1233", "extents: [100, 1233]")
    code, _, complaints = advise("defrag", taken("defrag") + hundred, replaced=both)
    assert code == 1 and "files in 100, 1233 extents were measured: say which yours are like" in complaints
    code, out, _ = advise("defrag", [], "--at", "extents=100", replaced=both)
    assert code == 0 and out.startswith("Choose 100.file (defragment the file)")


def test_without_records_it_is_said_what_measures(advise):
    code, out, complaints = advise("striping", [])
    assert (code, out) == (1, "")
    assert "has no record on target osts" in complaints and "target=osts -- striping` measures" in complaints
    code, _, complaints = advise("iocontrol", taken("iocontrol")[:3])
    assert (
        code == 1
        and "has recipe iocontrol: there is advice for blast, defrag, prealloc, replica, striping" in complaints
    )


def test_the_table_for_people_names_the_states(advise, tmp_path):
    code, out, _ = advise("striping", taken("striping"), "--files", files(tmp_path, "size,count\n64M,4\n320M,1\n"))
    assert code == 0 and out.startswith("Choose IOR.3 (16 \u00d7 1 MiB)")
    row = next(line for line in out.splitlines() if line.strip().startswith("IOR.4"))
    assert "worse" in row and "44% IOR.1, 56% IOR.4" in row
    assert "- Assumed: one file of 320 MiB was measured in each layout" in out
