"""What the pages name is there: commands with their options, playbooks, variables, studies, files and messages."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import typer.main
import yaml
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt
from markdown_it.token import Token

from fsage.cli import app
from fsage.plan.settings import KEYS
from fsage.study.files import schema

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    path
    for pattern in ("*.md", "docs/**/*.md", "roles/*/*.md", "*/README.md", "tests/*/README.md", ".github/*.md")
    for path in sorted(ROOT.glob(pattern))
    if not path.is_relative_to(ROOT / "results")
]
PARSE = MarkdownIt("commonmark").enable("table")
PLACEHOLDER = re.compile(r"[A-Z_]{2,}[A-Z]*|my\w+|\.\.\.|…")
"""A name that a reader replaces, such as STUDY or mysite."""
GROUP = typer.main.get_group(app)
EXTRA = {"fsage_request", "fsage_local_target_state", "fsage_take_over"}


class Command(NamedTuple):
    page: str
    text: str

    @property
    def words(self) -> list[str]:
        """Its words without the variables before it, and without what follows in a pipe."""
        words = shlex.split(re.split(r" (?:&&|\|) ", self.text)[0].split(" > ")[0], comments=True)
        while words and re.match(r"\w+=", words[0]):
            words = words[1:]
        return words[1:] if words[0] == "./run" else words


@cache
def tokens(page: Path) -> list[Token]:
    """A page as it is parsed."""
    return PARSE.parse(page.read_text(encoding="utf-8"))


def written() -> Iterator[Command]:
    """Every command of ours in a code block, and in a sentence when it begins with ./run or fsage."""
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        for token in tokens(page):
            if token.type == "fence" and token.info in ("sh", "console", ""):
                for line in token.content.splitlines():
                    text = line.removeprefix("$ ")
                    if re.match(r"(\w+=\S+ )*(\./run|ansible-playbook) ", text):
                        yield Command(name, text)
            for child in token.children or ():
                if child.type == "code_inline" and re.match(
                    r"(\./run fsage|fsage|\./run|snakemake) [a-z-]", child.content
                ):
                    yield Command(name, child.content)


@cache
def commands() -> list[Command]:
    """Each once, without the synopses."""
    return [command for command in dict.fromkeys(written()) if "[OPTIONS]" not in command.text]


def commands_of(program: str) -> list[Command]:
    found = [command for command in commands() if command.words and command.words[0] == program]
    assert found
    return found


def check_options(words: list[str]) -> str:
    """Why a call of fsage cannot be parsed, or nothing. Nothing is run; a missing word is no fault, one too many is."""
    context = GROUP.make_context("fsage", [], resilient_parsing=True)
    try:
        _, rest, _ = GROUP.make_parser(context).parse_args(list(words))
        if not rest:
            return ""
        command = GROUP.get_command(context, rest[0])
        if command is None:
            return f"there is no command {rest[0]}"
        own = command.make_context(rest[0], [], parent=context, resilient_parsing=True)
        own.resilient_parsing = False
        _, more, _ = command.make_parser(own).parse_args(rest[1:])
    except Exception as error:
        return str(error)
    return f"too many words: {more}" if more else ""


def test_every_command_of_fsage_and_its_options_are_there() -> None:
    assert [(command, why) for command in commands_of("fsage") if (why := check_options(command.words[1:]))] == []
    assert check_options(["advise", "x", "--nothing"]) and check_options(["nothing"])


@cache
def sources() -> dict[Path, str]:
    """The text of each module, with sentences of several lines in one."""
    modules = ROOT.glob("src/fsage/**/*.py")
    return {path: re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8")) for path in modules}


def test_the_commands_and_playbooks_that_messages_name_are_there() -> None:
    wrong, seen = [], 0
    for path, text in sources().items():
        for named in re.findall(r"`(?:\./run )?fsage ([^`]*)`", text):
            words = re.sub(r"\{' (--\w+)' if [^}]*\}", r" \1", named.split(" > ")[0]).replace("{options}", "").split()
            seen += 1
            if check_options(words):
                wrong.append((path, named))
        for playbook in re.findall(r"playbooks/(\w+\.yml)|`(\w+\.yml)`", text):
            if not (ROOT / "playbooks" / "".join(playbook)).exists():
                wrong.append((path, playbook))
    assert wrong == [] and seen > 10


def test_every_study_and_setting_of_a_run_is_there() -> None:
    studies = {path.stem for path in ROOT.glob("config/*.yaml")} | {"<study>"}
    inventories = {path.name for path in ROOT.glob("inventories/*")} | {"ssu1", "ssu2", "ssu3", "ssu4", "seek1"}
    wrong = []
    for command in commands_of("snakemake"):
        words = [word for word in command.words[1:] if word != "--"]
        if "--profile" in words:
            profile = words.pop(words.index("--profile") + 1)
            assert (ROOT / "profiles" / profile).is_dir()
        for word in words:
            key, equals, value = word.partition("=")
            if equals:
                target = value.split(",")[0]
                known = key in KEYS and (key != "target" or target in inventories or PLACEHOLDER.fullmatch(target))
            else:
                known = word in studies or word.startswith("-") or word.endswith(".html") or PLACEHOLDER.fullmatch(word)
            if not known:
                wrong.append((command, word))
    assert wrong == []


def test_every_playbook_and_variable_is_there() -> None:
    variables = set(EXTRA)
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        variables |= set(yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"])
    wrong = []
    for command in commands_of("ansible-playbook"):
        option = ""
        for word in command.words[1:]:
            if option == "-e":
                keys = yaml.safe_load(word) if word.startswith("{") else [word.partition("=")[0]]
                wrong += [(command, key) for key in keys if key not in variables]
            elif not option and not word.startswith("-"):
                places = (ROOT / word, ROOT / "playbooks" / f"{word.removeprefix('fsage.fsage.')}.yml")
                if not any(place.exists() for place in places):
                    wrong.append((command, word))
            option = word if word in ("-i", "-e") else ""
    assert wrong == []


def test_every_other_program_and_file_is_there() -> None:
    wrong = []
    for command in commands():
        if command.text.startswith("./run ") and not PLACEHOLDER.fullmatch(program := command.words[0]):
            if not (shutil.which(program) or (ROOT / program).exists()):
                wrong.append((command, program))
            if program in ("python", "pytest"):
                files = [word for word in command.words[1:] if word.endswith(".py") or word.startswith("tests/")]
                wrong += [(command, file) for file in files if not (ROOT / file).exists()]
    assert wrong == []


def test_the_reference_pages_are_what_the_program_says() -> None:
    made = runpy.run_path(str(ROOT / "docs/generate.py"))["pages"]()
    stale = [name for name, text in made.items() if (ROOT / "docs" / name).read_text(encoding="utf-8") != text]
    assert stale == [], "write them anew: ./run python docs/generate.py"


def test_every_link_out_of_the_site_leads_somewhere() -> None:
    """Links in docs/ are checked when the site is built."""
    gone = []
    for page in PAGES:
        if not page.is_relative_to(ROOT / "docs"):
            text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
            targets = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if ":" not in target]
            gone += [(str(page), target) for target in targets if not (page.parent / target).exists()]
    assert gone == []


def test_every_path_of_the_tree_is_there() -> None:
    tree = re.compile(
        r"(src|tests|bench|docs|config|roles|playbooks|profiles|inventories|envs|plugins|workflow|\.ci)/[^\s:]*"
    )
    made = {"config/mystudy.yaml", "config/layouts/ost0012.gz"}
    gone = []
    for page in PAGES:
        for token in tokens(page):
            for code in token.children or ():
                if code.type == "code_inline" and tree.fullmatch(code.content) and code.content not in made:
                    name = re.sub(r"[A-Z][A-Z_]+|<\w+>|mysite|mytarget", "*", code.content).rstrip("/")
                    head, _, rest = name.partition("{")
                    parts, _, tail = rest.partition("}")
                    gone += [(page, name) for part in parts.split(",") if not any(ROOT.glob(f"{head}{part}{tail}"))]
    assert gone == []


def test_every_message_of_the_page_is_one_of_ours() -> None:
    page = (ROOT / "docs/reference/messages.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)) - {"No space left on device"}
    ours = "\n".join(sources().values())
    assert len(named) > 20 and [text for text in named if text not in ours] == []


def test_every_key_of_a_study_is_described_with_an_example_that_is_allowed() -> None:
    example_of = runpy.run_path(str(ROOT / "docs/generate.py"))["example_of"]
    whole = schema()
    tables = [(whole["properties"], "", None)]
    for block, kind in (("states", "recipe"), ("cells", "workload")):
        for shape in whole["properties"][block]["anyOf"]:
            tables.append((shape["properties"], block, shape["properties"][kind]["const"]))
    wrong = []
    for properties, block, kind in tables:
        for key, shape in properties.items():
            text = example_of(key, shape, block, kind).strip("`")
            if key in ("recipe", "workload"):
                continue
            if "description" not in shape:
                wrong.append((kind, key, "no description"))
            elif text and not text.startswith("see "):
                validator = Draft202012Validator({**shape, "$defs": whole["$defs"]})
                errors = validator.iter_errors(yaml.safe_load(text)[key])
                wrong += [(kind, key, f"{text}: {error.message}") for error in errors]
    assert wrong == []


def test_what_is_read_first_is_there_and_short() -> None:
    """The list of CONTRIBUTING: at most 40 files and 6,500 lines, which one reads in an afternoon."""
    text = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
    files = re.findall(r"^\| `([\w/]+\.py)` \| \S", text, re.MULTILINE)
    lines = [len((ROOT / "src/fsage" / file).read_text(encoding="utf-8").splitlines()) for file in files]
    assert 20 < len(files) <= 40 and sum(lines) <= 6500
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 920
    rows = re.findall(r"^\| (?!word )", (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert 0 < len(rows) <= 40
