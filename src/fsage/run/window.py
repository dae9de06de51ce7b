"""A site's maintenance window: nothing is begun that would not end before it closes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from fsage.model.errors import Refusal
from fsage.run import runs
from fsage.study.study import StudyError


class WindowClosed(Refusal):
    """What comes next would not end in time; the message says what, and when it would have to."""


def read(text: str, now: datetime) -> datetime:
    """'18:00' is when the clock shows that next; else ISO 8601, such as 2026-11-21T18:00. Raises StudyError."""
    try:
        if "T" not in text and " " not in text and ":" in text:
            wanted = datetime.strptime(text, "%H:%M")
            moment = now.replace(hour=wanted.hour, minute=wanted.minute, second=0, microsecond=0)
            return moment if moment > now else moment + timedelta(days=1)
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)
    except ValueError:
        raise StudyError(f"until: {text!r} is no time; write 18:00 or 2026-11-21T18:00") from None


def length(text: str) -> timedelta:
    """'45m', '8h', '1h30m', '90s'. Raises StudyError."""
    match = re.fullmatch(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?", text)
    if not text or not match:
        raise StudyError(f"budget: {text!r} is no length of time; write 45m, 8h or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def check(what: str, needed_s: float) -> None:
    """Raises WindowClosed when `what`, which takes `needed_s` seconds, would not end before the window closes."""
    end, now = runs.current().until, datetime.now().astimezone()
    if end and now + timedelta(seconds=needed_s) > end:
        raise WindowClosed(
            f"{what} takes about {needed_s:.0f} s and would not end before {end:%Y-%m-%d %H:%M}, when the window "
            "closes: not begun. What was measured is kept; the same command continues in the next window"
        )
