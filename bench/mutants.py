"""How strong the default tier of the tests is: the share of a seeded sample of mutants that it kills.

    mutants.py                       200 mutants; the survivors and a table; all in .cache/mutants/COMMIT/mutants.json
    mutants.py --list                only the sample
    mutants.py --root OTHER_CLONE    of another clone, at the commit that is checked out there

A mutant is the project with one small change in one module. It is killed when a test of the default tier fails or times
out. Cosmic Ray makes the mutants. All happens in a clone below .cache/mutants/; the work tree is only read. What was
done is kept there: the same command goes on where it was interrupted.

**The sample.** A place is one operator, number, keyword, condition, loop or decorator. Each place has a rank: a hash of
the seed, the module, the function and the text of the line. The places of the lowest ranks are drawn, and at each of
them one of its mutants. So a place stays in the sample where its line only moved.

**Not mutated**, since no test should tell the difference: annotations; f-strings, which are mostly messages; arguments
of decorators, and the decorators that only remember values; `strict=` of zip; `__all__`. Docstrings and other texts
have no operators. A symbol is replaced by one of its kind: `+` by `/` but not by `|`, `==` by `!=`, `<` by `<=` or `>`.

**Which tests see a mutant.** The tier runs once under coverage.py, with one context for each test. A test sees a mutant
when it ran the statement. For a statement that runs at import, it is each test that ran a function of the module, and
then of the package.
Coverage cannot look into the agent that another process runs, so the tests that start Python processes come last.
The fastest test is first and the first failure ends the run. A mutant gets tests of `--seconds` in all; with more
seconds, or more files of tests, the same command gives survivors the tests that they have not met. A test that fails
without a mutant counts for nothing: each must pass under coverage, or else without it, and each that killed once more
at the end.
"""

from __future__ import annotations

import argparse
import ast
import bisect
import collections
import contextlib
import difflib
import functools
import hashlib
import importlib
import itertools
import json
import math
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RECIPES = tuple(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("src/fsage/studies/*/recipe.py")))
PACKAGES = ("src/fsage/host/states", "src/fsage/recipes", *RECIPES, "src/fsage/statistics", "src/fsage/records")
"""Folders, and the modules of recipes."""
REQUIREMENTS = ("cosmic-ray ~= 8.7", "coverage ~= 7.17")  # for this alone; they never enter the environment
TEST = "FSAGE_MUTANTS_TEST"  # the environment variable with the test that runs
REMEMBERING = ("cache", "cached_property", "lru_cache")
KINDS = (  # of symbols: another kind's would be a TypeError, or the same again
    ("Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"),
    ("RShift", "LShift", "BitOr", "BitAnd", "BitXor"),
    ("Eq", "NotEq"),
    ("Lt", "LtE", "Gt", "GtE"),
    ("Is", "IsNot"),
)
PROCESSES = ("ansible-playbook", "fsage", "snakemake")
NOT_PRELOADED = ("_hypothesis", "_pytest", "ansible", "fsage", "hypothesis", "pyarrow", "pytest_", "xdist")
TEST_LIMIT_S, END_LIMIT_S = 60, 30

# --- The sample


class Place(NamedTuple):
    """Where a module can be changed; its changes are operators with their numbers, the one to take first."""

    rank: str
    package: str
    path: str
    line: int
    definition: str
    changes: tuple[tuple[str, int], ...]


class Mutant(NamedTuple):
    """One change of one module; a line as it was and as it is."""

    rank: str
    package: str
    path: str
    line: int
    definition: str
    operator: str
    occurrence: int
    before: str
    after: str


def sample(root: Path, seed: int, count: int) -> list[Mutant]:
    """A mutant at each of the places with the lowest ranks."""
    places = sorted(
        place
        for package in PACKAGES
        for path in ([root / package] if package.endswith(".py") else sorted((root / package).rglob("*.py")))
        for place in places_of(root, path, package, seed)
    )
    print(f"{len(places)} places in {', '.join(PACKAGES)}", file=sys.stderr)
    mutants = (mutant for place in places if (mutant := mutant_at(root, place)))
    return list(itertools.islice(mutants, count))


def places_of(root: Path, path: Path, package: str, seed: int) -> Iterator[Place]:
    """The places of a module."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.ast.ast_query import ASTQuery

    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    counts: collections.Counter[str] = collections.Counter()  # Cosmic Ray numbers an operator's mutants in a module
    found: dict[Any, list[tuple[str, int]]] = {}
    for node in ast_nodes(get_ast(source)):
        for name, operator in operators().items():
            for start, end in operator.mutation_positions(node):
                if not excluded(node, name):
                    place = (start, end, ASTQuery(node).get_definition_name() or "")
                    found.setdefault(place, []).append((name, counts[name]))
                counts[name] += 1
    same: collections.Counter[str] = collections.Counter()
    for ((line, _), _, definition), changes in sorted(found.items()):
        text = f"{path.relative_to((root / package).parent)}:{definition}:{lines[line - 1].strip()}"
        same[text] += 1
        key = f"{seed}:{text}:{same[text]}"
        first = changes[0][1]
        order = sorted(changes, key=lambda change: digest(f"{key}:{change[0]}:{change[1] - first}"))
        yield Place(digest(key), package, str(path.relative_to(root)), line, definition, tuple(order))


def mutant_at(root: Path, place: Place) -> Mutant | None:
    """The first change at a place that makes another program, if there is one."""
    source = (root / place.path).read_text(encoding="utf-8")
    for name, occurrence in place.changes:
        mutated = mutated_by(source, name, occurrence)
        if mutated and differs(source, mutated):
            return Mutant(*place[:5], name, occurrence, *changed_lines(source, mutated))
    return None


def mutated_by(source: str, operator: str, occurrence: int) -> str | None:
    """A module with one change, where the operator can make it."""
    from cosmic_ray.mutating import mutate_code

    try:
        return mutate_code(source, operators()[operator], occurrence)
    except AttributeError:  # Cosmic Ray replaces no dotted name of an exception
        return None


@functools.cache
def operators() -> dict[str, Any]:
    """Cosmic Ray's operators that need no arguments, without those that exchange symbols of two kinds."""
    import cosmic_ray.plugins

    classes = {name: cosmic_ray.plugins.get_operator(name) for name in sorted(cosmic_ray.plugins.operator_names())}
    return {name: operator() for name, operator in classes.items() if not operator.arguments() and alike(name)}


def alike(operator: str) -> bool:
    """Whether what an operator replaces and what it puts there are of one kind, where it exchanges two symbols."""
    replaced = re.search(r"/Replace(?:Binary|Comparison)Operator_([A-Za-z]+)_([A-Za-z]+)$", operator)
    return not replaced or any(replaced[1] in kind and replaced[2] in kind for kind in KINDS)


def excluded(node: Any, operator: str) -> bool:
    """Whether a change here is noise: see the top of this file."""
    if operator.endswith("RemoveDecorator"):
        return any(word in node.get_code() for word in REMEMBERING)
    if node.type in ("arith_expr", "expr") and "None" in [part.get_code().strip() for part in node.children]:
        return True  # the name of a type, as in `Wrong = Callable | None`
    while parent := node.parent:
        types = {"tfpdef": 2, "annassign": 1}
        if parent.type in types and node is parent.children[types[parent.type]]:
            return True
        if parent.type == "funcdef" and node is parent.annotation:
            return True
        if parent.type in ("fstring", "decorator"):
            return True
        if parent.type == "argument" and parent.children[0].get_code().strip() == "strict":
            return True
        if parent.type == "expr_stmt" and parent.children[0].get_code().strip() == "__all__":
            return True
        node = parent
    return False


def differs(source: str, mutated: str) -> bool:
    """Whether the mutant is Python and means something else."""
    try:
        return ast.dump(ast.parse(source)) != ast.dump(ast.parse(mutated))
    except SyntaxError:
        return False


def changed_lines(source: str, mutated: str) -> tuple[str, str]:
    """What was changed, as it was and as it is."""
    lines = list(difflib.unified_diff(source.splitlines(), mutated.splitlines(), n=0, lineterm=""))[3:]
    before, after = (" ".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return before, after


def digest(text: str) -> str:
    """A number that looks like chance, the same on each machine."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# --- The copy, and an environment that imports it


def prepare(root: Path, work: Path, environment: Path) -> None:
    """Clone the commit; make an environment of the packages of `environment` that imports the clone instead."""
    copy, venv = work / "copy", work / "venv"
    if (venv / "ready").exists():
        subprocess.run(["git", "-C", copy, "checkout", "-q", "--", *PACKAGES], check=True)
        return
    shutil.rmtree(work, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", root, copy], check=True)
    python = environment / "bin/python"
    subprocess.run([python, "-m", "venv", "--without-pip", venv], check=True)
    subprocess.run([python, "-m", "venv", work / "tools"], check=True)
    subprocess.run([work / "tools/bin/pip", "install", "-q", *REQUIREMENTS], check=True)
    packages = {
        name: next((where / "lib").glob("python3*/site-packages"))
        for name, where in {"own": venv, "theirs": environment, "tools": work / "tools"}.items()
    }
    (packages["own"] / "a_copy.pth").write_text(f"{copy / 'src'}\n")
    (packages["own"] / "b_theirs.pth").write_text(f"import site; site.addsitedir({str(packages['theirs'])!r})\n")
    (packages["own"] / "c_tools.pth").write_text(f"{packages['tools']}\n")
    old = f"#!{environment}/bin/python"
    for script in (environment / "bin").iterdir():
        new = venv / "bin" / script.name
        if not new.exists() and script.is_file():
            content = script.read_bytes()
            first, _, rest = content.partition(b"\n")
            if first.startswith(old.encode()):
                new.write_bytes(f"#!{venv}/bin/python\n".encode() + rest)
                new.chmod(0o755)
            else:
                new.symlink_to(script)
    (venv / "ready").touch()


# --- Which tests see what


class Seen:
    """The plugin of pytest that says to coverage, and to the processes that are started, which test runs."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self.now = ""
        sys.addaudithook(self.started)

    def started(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note a test that starts a process which may run the project."""
        if event == "subprocess.Popen" and self.now:
            words = arguments[1] if isinstance(arguments[1], (list, tuple)) else [arguments[1]]
            names = [Path(os.fsdecode(word)).name for word in words]
            if any(name.startswith("python") or name in PROCESSES for name in names):
                self.tests[self.now]["starts"] = True

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begin a test."""
        from coverage import Coverage

        self.now = os.environ[TEST] = nodeid
        self.tests[nodeid] = {"seconds": 0.0, "passed": False, "failed": False, "starts": False, "lines": {}}
        if running := Coverage.current():
            running.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add up a test's parts."""
        test = self.tests[report.nodeid]
        test["seconds"] += report.duration
        test["failed"] |= report.failed
        test["passed"] = (test["passed"] or report.when == "call") and not report.skipped and not test["failed"]

    def pytest_sessionfinish(self) -> None:
        """Write it down, with the packages that can be loaded beforehand."""
        places = [str(Path(path)) for path in sys.path if path.endswith("site-packages")]
        loaded = [
            name
            for name, module in sorted(sys.modules.items())
            if str(getattr(module, "__file__", None) or "").startswith(tuple(places))
            and not name.startswith(NOT_PRELOADED)
        ]
        Path(os.environ["FSAGE_MUTANTS_SEEN"]).write_text(json.dumps({"tests": self.tests, "loaded": loaded}))


def look(work: Path, tests: list[str]) -> dict[str, Any]:
    """Run tests that were not looked at before under coverage, and those that fail there without it.

    Returns the tests, with what each ran, and the packages that they load; seen.json keeps both.
    """
    path = work / "seen.json"
    seen = json.loads(path.read_text()) if path.exists() else {"files": [], "tests": {}, "loaded": []}
    tests = [test for test in tests or ["tests"] if test not in seen["files"]]
    if not tests:
        return seen
    number = len(seen["files"])
    rc, data = work / "coverage.ini", work / f"coverage-{number}" / "data"
    data.parent.mkdir(exist_ok=True)
    folders = {Path(package).parent if package.endswith(".py") else Path(package) for package in PACKAGES}
    sources = "\n    ".join(sorted(str(work / "copy" / folder) for folder in folders))
    rc.write_text(
        f"[run]\nsource =\n    {sources}\nparallel = true\ndata_file = {data}\ncontext = ${{{TEST}-}}\n"
        "patch = subprocess, fork\ndisable_warnings = no-data-collected, module-not-imported, module-not-measured\n"
    )
    found = under(work, f"covered-{number}", ["-m", "coverage", "run", f"--rcfile={rc}"], tests)
    failed = [test for test, result in found["tests"].items() if result["failed"]]
    if failed:
        again = under(work, f"alone-{number}", [], failed)
        found["tests"].update({test: result for test, result in again["tests"].items() if result["passed"]})
    for test, lines in ran(data, work / "copy").items():
        if test in found["tests"]:
            found["tests"][test]["lines"] = lines
    seen["files"] += tests
    seen["tests"].update(found["tests"])
    seen["loaded"] = sorted({*seen["loaded"], *found["loaded"]})
    path.write_text(json.dumps(seen))
    return seen


def under(work: Path, name: str, front: list[str], tests: list[str]) -> dict[str, Any]:
    """What `Seen` noted of a run of tests."""
    code = "import sys, pytest; sys.path.insert(0, sys.argv.pop(1)); import mutants; "
    code += "sys.path.pop(0); sys.exit(pytest.main(sys.argv[1:], plugins=[mutants.Seen()]))"
    start = work / "start.py"
    start.write_text(code)
    seen = work / f"{name}.json"
    with open(work / f"{name}.txt", "wb") as log:
        subprocess.run(
            [work / "venv/bin/python", *front, start, Path(__file__).parent, *words(tests)],
            cwd=work / "copy",
            env={**os.environ, "FSAGE_MUTANTS_SEEN": str(seen)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        )
    return json.loads(seen.read_text())


def ran(data: Path, copy: Path) -> dict[str, dict[str, list[int]]]:
    """test -> module -> lines that it ran."""
    from coverage import Coverage, CoverageData

    whole = Coverage(data_file=str(data), config_file=False)
    whole.combine([str(data.parent)], keep=True)
    lines: dict[str, dict[str, list[int]]] = {}
    found: CoverageData = whole.get_data()
    for path in found.measured_files():
        for line, contexts in found.contexts_by_lineno(path).items():
            for context in contexts:
                for test in filter(None, context.split("|")):
                    lines.setdefault(test, {}).setdefault(os.path.relpath(path, copy), []).append(line)
    return lines


def watchers(mutant: Mutant, source: str, tests: dict[str, Any]) -> list[str]:
    """The tests that see a mutant, fastest first; at the end those that start processes nobody can look into.

    Tests of about the same length stay together by their files, which may share a target.
    """
    lines, inside = statement(source, mutant.line)
    passing = {name: test for name, test in tests.items() if test["passed"]}

    def running(wanted: set[int]) -> list[str]:
        return [name for name, test in passing.items() if wanted & set(test["lines"].get(mutant.path, ()))]

    groups = [running(lines) if inside else running(in_functions(source))]
    if not inside:  # others of the package may use it
        groups.append([name for name, test in passing.items() if any(mutant.package in at for at in test["lines"])])
    groups.append([name for name, test in passing.items() if test["starts"]])

    def order(name: str) -> tuple[int, str, float]:
        seconds = passing[name]["seconds"]
        return max(0, round(math.log2(10 * seconds + 1))), name.partition("::")[0], seconds

    return list(dict.fromkeys(name for group in groups for name in sorted(group, key=order)))


def statement(source: str, line: int) -> tuple[set[int], bool]:
    """The lines of the innermost statement at a line, of a compound one its head; whether a function's body has it."""
    lines, inside = {line}, False
    smallest = 10**9

    def walk(node: ast.AST, within: bool) -> None:
        nonlocal lines, inside, smallest
        for child in ast.iter_child_nodes(node):
            body = within
            if isinstance(child, ast.stmt):
                first, last = child.lineno, child.end_lineno or child.lineno
                parts = getattr(child, "body", None)
                if isinstance(parts, list) and parts:
                    first = min([first, *(item.lineno for item in getattr(child, "decorator_list", []))])
                    last = max(first, parts[0].lineno - 1)
                if first <= line <= last and last - first < smallest:
                    lines, inside, smallest = set(range(first, last + 1)), within, last - first
                body = within or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            walk(child, body)

    walk(ast.parse(source), False)
    return lines, inside


def in_functions(source: str) -> set[int]:
    """All lines of functions' bodies."""
    return {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for line in range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
    }


# --- Running them


def words(tests: Iterable[str], limit_s: float = 0) -> list[str]:
    """pytest's arguments; what pyproject.toml adds chooses the tier.

    A limit ends a test and not the process, which has targets to remove.
    """
    limit = ["--timeout-method=signal", *([f"--timeout={limit_s:.0f}"] if limit_s else [])]
    return ["-n", "0", "-q", "--no-header", "-rfE", "--tb=short", *limit, *tests]


class Order:
    """The plugin of pytest that runs tests in the order in which they are named."""

    def __init__(self, tests: list[str]) -> None:
        self.places = {test: place for place, test in enumerate(tests)}

    def pytest_collection_finish(self, session: Any) -> None:
        """Sort what was collected."""
        session.items.sort(key=lambda item: self.places.get(item.nodeid, -1))


class Run(NamedTuple):
    """How one run of tests ended."""

    status: str
    by: str
    seconds: float


def run(work: Path, tests: list[str], each_s: float, all_s: float) -> Run:
    """Run tests in a child that has the packages loaded; at the first failure it ends."""
    import pytest

    began, log = time.monotonic(), work / "run.txt"
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 70
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts in the background ignores it
            os.chdir(work / "copy")
            for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
                os.dup2(os.open(log if descriptor else os.devnull, flags), descriptor)
            os.dup2(1, 2)
            code = int(pytest.main(["-x", *words(tests, each_s)], plugins=[Order(tests)]))
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = wait(child, all_s)
    clean(child)
    text = log.read_text(encoding="utf-8", errors="replace")
    named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE)
    by, seconds = named[1] if named else "", time.monotonic() - began
    if status is None or re.search(r"^E +Failed: Timeout", text, re.MULTILINE):
        return Run("timed out", by, seconds)
    if (
        status == 4
        and "ERROR: not found" in text
        and (rest := sorted({test.partition("::")[0] for test in tests} - {*tests}))
    ):
        return run(work, rest, each_s, all_s)  # tests that have other parameters with the mutant
    if status in (70, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"pytest ended with {status}: see {log}")
    return Run("killed" if status else "survived", by or text[-200:] if status else "", seconds)


def wait(child: int, limit_s: float) -> int | None:
    """A child's exit code; None when it had to be ended, which gives it time to tidy up."""
    descriptor = os.pidfd_open(child)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    ended = poll.poll(limit_s * 1000)
    if not ended:
        os.kill(child, signal.SIGINT)
        if not poll.poll(END_LIMIT_S * 1000):
            os.killpg(child, signal.SIGKILL)
    os.close(descriptor)
    _, status = os.waitpid(child, 0)
    return abs(os.waitstatus_to_exitcode(status)) if ended else None


def clean(child: int) -> None:
    """Remove what a mutant kept a test from removing: its processes, loop devices and files, known by their names."""
    for place in Path("/var/tmp").glob(f"fsage-test-t{child}-*"):
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if str(place).encode() in (process / "cmdline").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                continue
        for image in place.glob("images/*"):
            found = subprocess.run(["losetup", "-n", "-O", "NAME", "-j", image], capture_output=True, text=True).stdout
            for device in found.split():
                subprocess.run(["losetup", "-d", device], check=False)
        shutil.rmtree(place, ignore_errors=True)


def measure(work: Path, seen: dict[str, Any], mutants: list[Mutant], seconds: float) -> list[dict[str, Any]]:
    """Run each mutant that has no result yet, and each survivor with the tests that it has not met."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as tests have it; numpy reads it once
    for name in seen["loaded"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    path = work / "results.json"
    results: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    elsewhere = killers_elsewhere(work)
    none: dict[str, Any] = {"status": "survived", "met": []}
    order = sorted(enumerate(mutants, 1), key=lambda pair: len(results.get(pair[1].rank, none)["met"]))
    for number, mutant in order:
        before = results.get(mutant.rank, none)
        if before["status"] != "survived":
            continue
        watching = watchers(mutant, (work / "copy" / mutant.path).read_text(encoding="utf-8"), seen["tests"])
        left = [name for name in watching if name not in set(before["met"])]
        sums = list(itertools.accumulate(seen["tests"][name]["seconds"] for name in left))
        chosen = left[: max(1, bisect.bisect(sums, seconds))]
        tried_first = [name for name in elsewhere.get(mutant.rank, ()) if name not in set(before["met"])]
        result = Run("survived", "", 0)
        for some in filter(None, (tried_first, chosen)):
            each = [seen["tests"][name]["seconds"] if name in seen["tests"] else TEST_LIMIT_S for name in some]
            with mutated_copy(work, mutant):
                result = run(work, some, max(TEST_LIMIT_S, 5 * max(each)), TEST_LIMIT_S + 5 * sum(each))
            if result.status != "survived":
                break
        met = list(dict.fromkeys([*before["met"], *tried_first, *chosen]))
        results[mutant.rank] = {**mutant._asdict(), **result._asdict(), "met": met, "watching": len(watching)}
        path.write_text(json.dumps(results, indent=1))
        place = f"{mutant.path}:{mutant.line}"
        print(f"{number:4} {result.status:9} {result.seconds:6.1f} s  {place}  {mutant.after}", flush=True)
    return [results[mutant.rank] for mutant in mutants]


def killers_elsewhere(work: Path) -> dict[str, list[str]]:
    """The tests that killed a mutant at other commits, by its rank: each is tried first."""
    found: dict[str, list[str]] = {}
    for path in work.parent.glob("*/results.json"):
        for rank, result in json.loads(path.read_text()).items():
            file, _, function = result["by"].partition("::")
            source = work / "copy" / file
            if function and source.exists() and f"def {function.partition('[')[0]}(" in source.read_text():
                found.setdefault(rank, []).append(result["by"])
    return found


def confirm(work: Path, seen: dict[str, Any], mutants: list[Mutant]) -> list[str]:
    """Run the tests that killed once more, without a mutant; forget what a test did that fails now, and name it."""
    path = work / "results.json"
    results = json.loads(path.read_text())
    killers = {by for mutant in mutants if "::" in (by := results[mutant.rank]["by"])}
    if not killers:
        return []
    again = under(work, "confirmed", [], sorted(killers))["tests"]
    unsteady = [name for name in killers if name in again and not again[name]["passed"]]
    for name in unsteady:
        seen["tests"].setdefault(name, {"seconds": 0.0, "starts": False, "lines": {}})["passed"] = False
    kept = {rank: result for rank, result in results.items() if result["by"] not in unsteady}
    (work / "seen.json").write_text(json.dumps(seen))
    path.write_text(json.dumps(kept, indent=1))
    return unsteady


@contextlib.contextmanager
def mutated_copy(work: Path, mutant: Mutant) -> Iterator[None]:
    """The copy with one mutant in it.

    A module gets a time of its own, so that Python takes no bytecode of another version for it.
    """
    path = work / "copy" / mutant.path
    source = path.read_text(encoding="utf-8")
    mutated = mutated_by(source, mutant.operator, mutant.occurrence)
    assert mutated
    own = 10**9 + int(mutant.rank[:7], 16)
    try:
        path.write_text(mutated, encoding="utf-8")
        os.utime(path, (own, own))
        yield
    finally:
        path.write_text(source, encoding="utf-8")
        os.utime(path, (10**9, 10**9))


def show(results: list[dict[str, Any]]) -> str:
    """The survivors, and the table."""
    lines = [
        f"survived {result['path']}:{result['line']} {result['definition']}: {result['before']}  ->  {result['after']}"
        f"  ({len(result['met'])} of {result['watching']} tests)"
        for result in results
        if result["status"] == "survived"
    ]
    lines += ["", "| modules | mutants | killed | timed out | survived | share |", "|---|---|---|---|---|---|"]
    for package in (*PACKAGES, ""):
        part = [result["status"] for result in results if package in result["path"]]
        killed, late, alive = (part.count(status) for status in ("killed", "timed out", "survived"))
        if part:
            share = f"{(killed + late) / len(part):.1%}"
            lines.append(f"| {package or 'all'} | {len(part)} | {killed} | {late} | {alive} | {share} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=28)
    parser.add_argument("--seconds", type=float, default=60, help="of tests that a mutant gets at most")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--environment", type=Path, default=Path(sys.prefix))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("tests", nargs="*", help="files of tests (default: the whole tier)")
    options = parser.parse_args()
    commit = subprocess.run(
        ["git", "-C", options.root, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    work = ROOT / ".cache/mutants" / commit
    if Path(sys.prefix) != work / "venv":
        prepare(options.root.resolve(), work, options.environment.resolve())
        python = work / "venv/bin/python"
        os.environ["PATH"] = f"{python.parent}:{os.environ['PATH']}"
        os.execv(python, [python, "-P", __file__, *sys.argv[1:]])
    mutants = sample(work / "copy", options.seed, options.count)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.path}:{mutant.line} {mutant.definition}: {mutant.before}  ->  {mutant.after}")
        return
    seen = look(work, options.tests)
    results = measure(work, seen, mutants, options.seconds)
    while unsteady := confirm(work, seen, mutants):
        print(f"failed without a mutant, and count no more: {', '.join(unsteady)}")
        results = measure(work, seen, mutants, options.seconds)
    print(show(results))


if __name__ == "__main__":
    main()
