"""YAML that somebody wrote: read with limits on size, depth and aliases, and no key twice."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import yaml

from fsage.base import Json

MOST_BYTES = 1 << 20
"""Most bytes of a file. The largest study in config/ has three thousand."""
MOST_EXPANDED_BYTES = 4 << 20
"""With each alias written out: nine lines of nine aliases each, and a study would be a billion words."""
DEEPEST = 20
LONGEST_PLAIN = 10_000
"""Most characters of a value without quotes: YAML tries it as number and date, in time that grows with the square."""
OF_A_NODE = 16
_TAG = "tag:yaml.org,2002:"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml's is ten times faster
    """PyYAML's safe loader, but what it reads otherwise than people do is an error.

    A key that is there twice: the last one would win. The key no: it would be false. 010: it would be 8.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Json:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != f"{_TAG}merge":
                if key.value in seen:
                    raise _problem(f"the key {key.value!r} is there twice", key.start_mark)
                if key.tag != f"{_TAG}str":
                    raise _problem(f"the key {key.value!r} is no text to YAML: put it in quotes", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        number: int = super().construct_yaml_int(node)
        digits = node.value.replace("_", "")
        if ":" in digits or (digits.lstrip("+-").isdigit() and int(digits) != number):
            raise _problem(f"YAML reads {node.value} as {number}: write that, or put it in quotes", node.start_mark)
        return number


_Loader.add_constructor(f"{_TAG}int", _Loader.construct_yaml_int)


def load(text: str) -> Any:
    """The value of a YAML text. Raises yaml.YAMLError, with the place where it is known."""
    if len(text) > MOST_BYTES:
        raise yaml.YAMLError(f"it is longer than {MOST_BYTES:,} bytes, the most that is read")
    try:
        _check(text)
        return yaml.load(text, _Loader)
    except yaml.scanner.ScannerError as error:
        mark = error.problem_mark
        # YAML ends lines at more characters than \n, and the mark may be after the last line.
        if mark and any(line[mark.column :].startswith("\t") for line in text.splitlines()[mark.line : mark.line + 1]):
            raise _problem("a tab, where YAML takes blanks: indent with these", mark) from None
        raise _in_words(error, text) from None
    except (yaml.parser.ParserError, yaml.composer.ComposerError) as error:
        raise _in_words(error, text) from None
    except (ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError) as error:
        # Numbers and dates that cannot be, and tags of values that they do not fit (!!int "").
        raise yaml.YAMLError(str(error) if isinstance(error, ValueError) else "a value does not fit its tag") from None


def _in_words(error: yaml.MarkedYAMLError, text: str) -> yaml.MarkedYAMLError:
    """The same error, saying what to mend where that is known: YAML names what it expected."""
    mark = error.problem_mark
    problem = str(error.problem)
    lines = text.splitlines()
    opened = error.context_mark
    if opened and opened.line >= len(lines):  # the mark of what is opened last may be behind the end
        opened = None
    begun = lines[opened.line].strip() if opened else "\n".join(lines).strip().rpartition("\n")[2]
    if error.context and "end of stream" in problem:
        return _problem(f"the quote that begins here is not closed: {begun!r}", opened)
    if "another document" in problem or "<document start>" in problem:
        return _problem("a second document begins, and a file has one: remove the line --- or ...", mark)
    if "flow" in str(error.context):
        return _problem(f"a bracket is not closed: {begun!r}", opened)
    if not mark or mark.line >= len(lines):
        return error
    line = lines[mark.line]
    before = line[: mark.column]
    for number, text_line in enumerate(lines[: mark.line + 1], 1):
        strange = re.match(r" *(?![ \t])(\s)\s*\S", text_line)
        if strange:
            name = unicodedata.name(strange[1], "an unknown character").lower()
            return _problem(f"line {number} is indented with {name}, which only looks like a blank: type blanks", mark)
        if re.match(r"[^:#]*\uff1a", text_line):
            return _problem(f"line {number} has a full-width colon: type the plain one, with a blank after it", mark)
    dash = re.match(r" *-(?![ -])", line)
    if dash:
        return _problem(f"a blank is missing after the dash: write '- {line[dash.end() :].strip()}'", mark)
    above = [(number, text) for number, text in enumerate(lines[: mark.line], 1) if text.split("#")[0].strip()]
    if "cannot start any token" in problem:
        return _problem(f"no value begins with {line[mark.column : mark.column + 1]!r}: put it in quotes", mark)
    if "mapping values" in problem and re.search(r":\s+\S", before):
        return _problem("a colon in a value: quote it, such as title: 'a: b'", mark)
    if re.search(r""":\s+(["']).*\1$""", before):
        return _problem('the quote ends before the value does: put it in the other quotes, such as "it\'s"', mark)
    if not above:
        return error
    number, last = above[-1]
    open_quotes = [number for number, text in above if re.search(r""":\s+(["'])(?!.*\1)""", text)]
    if open_quotes:
        return _problem(f"the quote that begins in line {open_quotes[0]} is not closed there", mark)
    depth = len(line) - len(line.lstrip(" "))
    last_depth = len(last) - len(last.lstrip(" "))
    if "mapping values" in problem and not re.search(r":(\s|$)", last):
        return _problem(f"line {number} has no value: write it as KEY: VALUE, with a blank after the colon", mark)
    if depth > last_depth:
        return _problem(f"deeper than line {number}, which has a value already: give both the same indentation", mark)
    if depth < last_depth:
        return _problem(
            f"less deep than line {number}, and as deep as no line that it belongs to: indent it alike", mark
        )
    return error


def explain(error: yaml.YAMLError) -> str:
    """What is wrong, in one line, with its place where that is known."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        return f"{where}{error.problem}"
    return f"not YAML: {' '.join(str(error).split())}"


def _check(text: str) -> None:
    """Go through the text's events, which takes no memory, before anything is made of them."""
    weights: dict[str, int] = {}  # of what has an anchor, aliases written out
    open_: list[tuple[str | None, int]] = [(None, 0)]  # anchor and weight of each block that has not ended
    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        weight = 0
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append((anchor, OF_A_NODE))
            if len(open_) - 1 > DEEPEST:
                raise _problem(f"blocks lie more than {DEEPEST} deep in each other", event.start_mark)
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, weight = open_.pop()
        elif isinstance(event, yaml.ScalarEvent):
            weight = OF_A_NODE + len(event.value)
            if not event.style and len(event.value) > LONGEST_PLAIN:
                raise _problem(f"a value of {len(event.value)} characters: put it in quotes", event.start_mark)
        elif isinstance(event, yaml.AliasEvent):
            if anchor not in weights:
                raise _problem(f"there is no &{anchor} that ends before *{anchor}", event.start_mark)
            weight = weights[anchor]
            anchor = None
        if anchor is not None:
            weights[anchor] = weight
        above, so_far = open_.pop()
        open_.append((above, so_far + weight))
        if so_far + weight > MOST_EXPANDED_BYTES:
            raise _problem(
                f"with its aliases written out it is longer than {MOST_EXPANDED_BYTES:,} bytes, the most that is read",
                event.start_mark,
            )


def _problem(text: str, mark: yaml.Mark | None) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(problem=text, problem_mark=mark)
