"""Reference pages that are made from the program: commands, keys, columns and roles; and hooks of mkdocs.

`./run python docs/generate.py` writes the pages, and the schema of study files; they are committed, and tests compare
them. On the site a link out of docs/ is checked: its file must be there. It leads to a role's section or becomes plain
text.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer.cli
import typer.main
import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from fsage import workloads
from fsage.base.sizes import format_size
from fsage.cli import app
from fsage.count.tables import page_of_columns as columns_of_counts
from fsage.dataset import columns
from fsage.study.files import schema

ROOT = Path(__file__).resolve().parents[1]
ROLES = "reference/roles.md"
UNITS = {
    **{"_s": "s", "_percent": "%", "_size": "bytes", "_bytes_per_s": "B/s", "_iops": "1/s", "seconds": "s"},
    **{"word_size": "bases", "capacity": "%", "fragmentation": "%"},
}
"""The unit of a key by the end of its name, the longest that fits."""
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
MOST_EXAMPLE = 60
BLOCKS = {
    "reference_reads": "ReferenceReads",
    "headline": "Headline",
    "targets": "Bind",
    "database": "Database",
    "count": "Count",
}
log = get_plugin_logger("generate")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links out of docs/ into text, or into links to a role's section."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def replaced(link: re.Match[str]) -> str:
        text, target = link[1], link[2]
        if re.match(r"[a-z]+:", target):
            return link[0]
        path = Path(os.path.normpath(folder / target))
        if path.is_relative_to(ROOT / "docs"):
            return link[0]
        if not path.exists():
            log.warning(f"{page.file.src_uri}: there is no {target}")
        if path.parent.parent == ROOT / "roles":
            return f"[{text}]({os.path.relpath(ROOT / 'docs' / ROLES, folder)}#{path.parent.name})"
        return text

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(replaced, part) for part in parts)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> None:
    """Warn when a page would load something from elsewhere; links to other sites are for readers to follow."""
    for found in re.findall(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(https?:[^\"> ]*)", output):
        log.warning(f"{page.file.src_uri}: it loads {found}")


def _escaped(text: str) -> str:
    """Markdown whose `<` are no HTML: outside of code, which has them as they are."""
    text = f"{text.strip()}\n"
    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def pages() -> dict[str, str]:
    """The text of each page that is made, by its path below docs/."""
    texts = {
        "reference/commands.md": commands(),
        "reference/study.md": study_keys(),
        "reference/workloads.md": workload_keys(),
        "reference/records.md": f"{columns.page()}\n\n## Counts\n\n{columns_of_counts()}",
        ROLES: roles(),
    }
    return {name: _escaped(text) for name, text in texts.items()}


def commands() -> str:
    """Every command with its arguments and options, as `--help` has them; in the list each with its first sentence."""
    group = typer.main.get_group(app)
    context = group.make_context("fsage", [], resilient_parsing=True)
    text = typer.cli.get_docs_for_click(obj=group, ctx=context, name="fsage", title="Commands")
    for name, command in group.commands.items():
        about = " ".join((command.help or "").split("\n\n")[0].split())
        text = re.sub(rf"^\* `{name}`: .*$", rf"* [`{name}`](#fsage-{name}): {about}", text, flags=re.MULTILINE)
    return text.replace("$ fsage", "$ ./run fsage")


def study_keys() -> str:
    """Every key of a study file, and the keys of `states:` by recipe."""
    described = schema()
    lines = [
        "# Keys of a study",
        "A study is a YAML file in `config/`; its name is the file's name. `config/study.schema.json` is the same in "
        "JSON Schema, for editors. A list of values is an axis: fsage measures every combination.",
        "A size is a number with a unit: `512K`, `1M`, `264M`, `1G` are powers of 1024.",
        *_table(described["properties"], set(described["required"])),
        "## Keys of blocks",
    ]
    for name, block in BLOCKS.items():
        shape = described["$defs"][block]
        lines += [f"### `{name}:`", *_table(shape["properties"], set(shape.get("required", ())), name)]
    lines.append("## `states:` by recipe")
    for shape in described["properties"]["states"]["anyOf"]:
        recipe, keys = shape["properties"]["recipe"]["const"], shape["properties"]
        lines += [f"### `{recipe}`", *_table(keys, set(shape["required"]), "states", recipe)]
    return "\n\n".join(lines)


def workload_keys() -> str:
    """Every parameter of every workload."""
    lines = [
        "# Workloads",
        "A cell runs one workload: `cells:` in a study names it with its parameters. A list of values is an axis.",
    ]
    shapes = schema()["properties"]["cells"]["anyOf"]
    for shape in shapes:
        name = shape["properties"]["workload"]["const"]
        about = (inspect.getdoc(workloads.load(name)) or "").split("\n\n")[0]
        lines += [
            f"## `{name}`",
            about,
            *_table(shape["properties"], set(shape["required"]), "cells", name),
        ]
    stop = shapes[0]["properties"]["stop"]["anyOf"][0]
    lines += ["## `stop:`", *_table(stop["properties"], set(stop["required"]), "stop")]
    return "\n\n".join(line for line in lines if line)


def roles() -> str:
    """The README of every role, one below the other."""
    lines = [
        "# Roles",
        "The steps are roles of the Ansible collection `fsage.fsage`; each has a playbook of the same name, or as its "
        "example shows.",
    ]
    for readme in sorted((ROOT / "roles").glob("*/README.md")):
        _, _, text = readme.read_text(encoding="utf-8").partition("\n")
        role = readme.parent.name
        text = re.sub(r"^## ", "### ", text, flags=re.MULTILINE)
        text = re.sub(r"\]\(\.\./\.\./docs/", "](../", text)
        lines += [f"## {role}", text.strip()]
    return "\n\n".join(lines)


def _table(properties: dict[str, Any], required: set[str], block: str = "", kind: str | None = None) -> Iterator[str]:
    """Rows of keys: what each is, its unit, what it may be, its default and an example. `kind`: recipe or workload."""
    rows = ["| key | what | values | default | example |", "|---|---|---|---|---|"]
    for key, shape in properties.items():
        if kind and key in ("recipe", "workload"):
            continue
        unit = next((UNITS[end] for end in sorted(UNITS, key=len, reverse=True) if key.endswith(end)), "")
        default = "required" if key in required else _shown(shape.get("default"), unit == "bytes")
        values = ", ".join(dict.fromkeys(_values(shape)))
        example = example_of(key, shape, block, kind)
        cells = (f"`{key}`", shape.get("description", ""), values + (f" ({unit})" if unit else ""), default, example)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    yield "\n".join(rows)


def _shown(value: Any, size: bool) -> str:
    """A default as a study has it."""
    if size and isinstance(value, list):
        value = [format_size(each) for each in value]
    elif size and isinstance(value, int):
        value = format_size(value)
    return f"`{json.dumps(value, ensure_ascii=False)}`".replace('"', "")


def _values(shape: dict[str, Any]) -> Iterator[str]:
    """What a key may be, in words."""
    if isinstance(shape.get("type"), list):
        for kind in shape["type"]:
            yield from _values({**shape, "type": kind})
    elif "anyOf" in shape:
        for part in shape["anyOf"]:
            if part.get("type") != "array" or len(shape["anyOf"]) == 1:
                yield from _values(part)
    elif "enum" in shape:
        yield from (f"`{value}`" for value in shape["enum"])
    elif "const" in shape:
        yield f"`{shape['const']}`"
    elif shape.get("type") == "array":
        yield "list of " + ", ".join(dict.fromkeys(_values(shape.get("items", {}))))
    elif shape.get("type") in ("integer", "number"):
        yield _range(shape)
    elif shape.get("type") == "string" and "pattern" in shape and "[KMGT" in shape["pattern"]:
        yield "size"
    else:
        names = {"string": "text", "object": "block", "boolean": "`true`, `false`", "null": "`null`"}
        yield names.get(shape.get("type", "object"), "block")


def _range(shape: dict[str, Any]) -> str:
    """A number's kind and bounds."""
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "to below"}
    bounds = [f" {word} {shape[bound]}" for bound, word in words.items() if bound in shape]
    return ("whole number" if shape["type"] == "integer" else "number") + "".join(bounds)


@cache
def studies() -> dict[str, dict[str, Any]]:
    """Every study of `config/` as it is written, by its file's name."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {path.name: yaml.load(path.read_bytes(), loader) for path in sorted((ROOT / "config").glob("*.yaml"))}


def example_of(key: str, shape: dict[str, Any], block: str, kind: str) -> str:
    """The key as a study of `config/` has it, in the block that is of that kind; else a value that is allowed."""
    for name, study in studies().items():
        blocks = [study.get(block)] if block else [study]
        if block == "cells":
            blocks += study.get("additional_cells", ())
        for found in blocks:
            if (
                isinstance(found, dict)
                and key in found
                and found.get({"states": "recipe"}.get(block, "workload")) == kind
            ):
                text = yaml.safe_dump({key: found[key]}, default_flow_style=True, width=1000, sort_keys=False)
                return f"`{text.strip()[1:-1]}`" if len(text) <= MOST_EXAMPLE else f"see `config/{name}`"
    value = _allowed(shape)
    return f"`{key}: {value}`" if value else ""


def _allowed(shape: dict[str, Any]) -> str:
    """A value that is not the default."""
    if "anyOf" in shape:
        return next(
            (value for part in shape["anyOf"] if (value := _allowed({**part, "default": shape.get("default")}))), ""
        )
    if "enum" in shape:
        return str(next(value for value in reversed(shape["enum"]) if value != shape.get("default")))
    if shape.get("type") == "boolean":
        return "false" if shape.get("default") else "true"
    default = shape.get("default")
    if shape.get("type") in ("integer", "number"):
        low, high = shape.get("minimum", 0), shape.get("maximum", 2**63)
        [usual] = default if isinstance(default, list) and len(default) == 1 else [default]
        return "0.25" if high == 1 else str(min(max(low, (usual or 50) * 2), high))
    if "[KMGT" in shape.get("pattern", ""):
        size = format_size(default * 2) if isinstance(default, int) else "64K"
        return size if size[-1].isalpha() else f'"{size}"'
    return ""


if __name__ == "__main__":
    for name, text in pages().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
    (ROOT / "config/study.schema.json").write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")
