"""`./run snakemake`: Snakemake as it is, but that slips of the command line and Ctrl-C each have one sentence."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fsage import interrupt
from fsage.base import in_words
from fsage.base.message import say

LIMITS = ("--cores", "-c", "--jobs", "-j")
NOT_POSITIVE = re.compile(r"-\d+|0+")
CACHE_BYTES = 1 << 18
"""More than Snakemake's cache of this workflow takes."""
A_TIME = re.compile(r"\d{1,2}:\d\d|\d{4}-\d\d-\d\d")


def main() -> None:
    """Run Snakemake with the words of this command line."""
    interrupt.handle()
    interrupt.defer_in_threads()  # one of Snakemake's starts each job
    words = sys.argv[1:]
    wrong = slip(words)
    if wrong:
        say(wrong)
        sys.exit(2)
    from snakemake import cli

    sys.argv[0] = "snakemake"
    parser = cli.get_argument_parser()
    parser.usage = "./run snakemake [OPTION ...] STUDY ...; all options: ./run snakemake --help"
    given = parser.parse_args(words)  # an unknown option ends here, in two lines
    why = why_not_here()
    if why:
        say(why)
        sys.exit(1)
    for profile in given.profile or ():
        if cli.get_profile_dir(profile) is None:
            say(f"--profile {profile}: no folder with a config.yaml; fsage has slurm, which is profiles/slurm")
            sys.exit(1)
    for path in given.configfile or ():
        try:
            Path(path).read_text("utf-8")
        except (OSError, ValueError) as error:
            if isinstance(error, OSError):
                why = error.strerror
            else:
                why = "it is no text in UTF-8"
            say(f"--configfile {path}: {why}")
            sys.exit(2)
    try:
        done = cli.args_to_api(*reversed(cli.parse_args(words)))
    except OSError as error:
        say(in_words(error))
        done = False
    except Exception as error:
        cli.print_exception(error)
        done = False
    sys.exit(not done)


def why_not_here() -> str | None:
    """Why no run can be started in this folder; None where one can."""
    folder = os.getcwd()
    notes = ".snakemake"
    if not os.access(notes if os.path.exists(notes) else folder, os.W_OK, effective_ids=True):
        return (
            f"this user cannot write to {folder}, where a run keeps its notes: give the command in a copy of your own, "
            f"which `cp -r {shlex.quote(folder)} FOLDER` makes"
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache) as file:
            file.write(bytes(CACHE_BYTES))
    except OSError as error:
        return f"{cache}: Snakemake needs a cache there: {error.strerror}. Free some, or name another as XDG_CACHE_HOME"
    return None


def slip(words: Sequence[str]) -> str | None:
    """What is wrong where Snakemake would answer with a traceback or all of its options; None where nothing is."""
    from fsage.plan.settings import KEYS

    settings: list[str] | None = None  # those of the --config that is read
    for position, word in enumerate(words):
        if position + 1 < len(words):
            following = words[position + 1]
        else:
            following = ""
        option, _, value = word.partition("=")
        key = option.removeprefix("--").replace("-", "_")
        if word == "--":
            break
        if word.startswith("-"):
            if option in ("--config", "-C") and value:
                settings = [value]
            else:
                settings = [] if word in ("--config", "-C") else None
            value = value or following
            if option.startswith("--") and key in KEYS and (key != "until" or A_TIME.match(value)):
                text = shlex.quote(value)
                return (
                    f"snakemake takes {key} as a setting: ./run snakemake --config {key}={text} -- STUDY. "
                    f"The same is ./run fsage run STUDY {option} {text}"
                )
            if option in LIMITS and NOT_POSITIVE.fullmatch(value):
                return f"{option} {value}: give a whole number from 1 on, or all"
        elif settings is not None:
            if "=" not in word:
                return _no_setting(word, settings)
            settings.append(word)
    return None


def _no_setting(word: str, settings: list[str]) -> str:
    """What is wrong with a word behind --config that sets nothing."""
    last = settings[-1] if settings else ""
    if last.count("{") > last.count("}"):
        return f"the shell cut {last!r} at a blank: put it in quotes, such as 'only={{capacity: 80}}'"
    if not settings:
        return f"{word!r} comes after --config, which takes KEY=VALUE, such as --config target=local -- STUDY"
    line = shlex.join(["./run", "snakemake", "--config", *settings, "--", word])
    return f"{word!r} comes after --config, which takes KEY=VALUE. Put -- before the study: {line}"


if __name__ == "__main__":
    main()
