"""`./run snakemake`: Snakemake as it is, but that slips of the command line and Ctrl-C each have one sentence."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence

from fsage import interrupt
from fsage.model.message import say

A_TIME = re.compile(r"\d{1,2}:\d\d|\d{4}-\d\d-\d\d")


def main() -> None:
    """Run Snakemake with the words of this command line."""
    interrupt.handle()
    words = sys.argv[1:]
    if wrong := slip(words):
        say(wrong)
        sys.exit(2)
    from snakemake.cli import main as snakemake

    sys.argv[0] = "snakemake"
    snakemake()


def slip(words: Sequence[str]) -> str | None:
    """What is wrong where Snakemake would answer with a traceback or all of its options; None where nothing is."""
    from fsage.plan.settings import KEYS

    settings: list[str] | None = None  # those of the --config that is read
    for position, word in enumerate(words):
        following = words[position + 1] if position + 1 < len(words) else ""
        option, _, value = word.partition("=")
        key = option.removeprefix("--").replace("-", "_")
        if word == "--":
            break
        if word.startswith("-"):
            settings = [value] if option in ("--config", "-C") and value else [] if word in ("--config", "-C") else None
            value = value or following
            if option.startswith("--") and key in KEYS and (key != "until" or A_TIME.match(value)):
                text = shlex.quote(value)
                return (
                    f"snakemake takes {key} as a setting: ./run snakemake --config {key}={text} -- STUDY. "
                    f"The same is ./run fsage run STUDY {option} {text}"
                )
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
