"""Sentences of the terminal in a page."""

from __future__ import annotations

import re

from markupsafe import Markup, escape


def code(sentence: str) -> Markup:
    """What stands between backticks as code, and all else as text."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))
