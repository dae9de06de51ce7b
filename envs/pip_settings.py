"""What pip is configured with here, for uv: from `pip config list` on standard input to `export NAME=VALUE` lines.

uv reads none of pip's files and variables, and a site often tells pip alone of its mirror, proxy and certificates.
What is said to uv itself stays.
"""

from __future__ import annotations

import ast
import os
import shlex
import sys
from collections.abc import Iterable, Mapping

#: Name for pip; name for uv; what separates several values for uv (for pip: blanks and lines).
NAMES = (
    ("index-url", "UV_DEFAULT_INDEX", " "),
    ("extra-index-url", "UV_INDEX", " "),
    ("find-links", "UV_FIND_LINKS", ","),
    ("no-index", "no_index", " "),  # uv has an option for it and no variable
    ("trusted-host", "UV_INSECURE_HOST", " "),
    ("cert", "SSL_CERT_FILE", " "),
    ("client-cert", "SSL_CLIENT_CERT", " "),
    ("proxy", "ALL_PROXY", " "),
    ("default-timeout", "UV_HTTP_TIMEOUT", " "),
    ("timeout", "UV_HTTP_TIMEOUT", " "),
    ("retries", "UV_HTTP_RETRIES", " "),
    ("keyring-provider", "UV_KEYRING_PROVIDER", " "),
)
#: Sections that hold for `pip install`, the weakest first.
SECTIONS = ("global", "install", ":env:")
NO = ("0", "no", "off", "false")


def for_uv(lines: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Variables for uv by name, without those that the environment has.

    >>> for_uv(["global.timeout='30'", "freeze.timeout='1'", ":env:.timeout='60'"], {})
    {'UV_HTTP_TIMEOUT': '60'}
    >>> for_uv(["install.find-links='/usr /nowhere https://m/wheels'", "global.no-index='false'"], {})
    {'UV_FIND_LINKS': '/usr,https://m/wheels'}
    """
    values: dict[tuple[str, str], str] = {}
    for line in lines:
        key, equals, value = line.strip().partition("=")
        section, _, name = key.rpartition(".")
        if equals:
            values[section, name] = str(ast.literal_eval(value))
    variables = {}
    for section in SECTIONS:
        for name, variable, separator in NAMES:
            if (section, name) in values and variable not in environment:
                words = values[section, name].split()
                if name == "find-links":  # pip passes over a folder that is not there, uv stops
                    words = [word for word in words if "://" in word or os.path.exists(os.path.expanduser(word))]
                variables[variable] = separator.join(words)
    if variables.get("no_index", "").lower() in NO:
        variables["no_index"] = ""
    return {name: value for name, value in variables.items() if value}


if __name__ == "__main__":
    for name, value in for_uv(sys.stdin, os.environ).items():
        print(f"export {name}={shlex.quote(value)}")
