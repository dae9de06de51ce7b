"""What a step that restores an image needs: the image, by its path."""

from __future__ import annotations

import hashlib

from fsage.plan.plan import Plan
from fsage.run.request import PLACE
from fsage.studies.aged.model import Restore
from fsage.study.study import StudyError


def needed(plan: Plan, step: Restore) -> tuple[str, str]:
    """(SHA-256 of the image, its absolute path). Raises StudyError."""
    image = plan.studies / PLACE / step.image
    try:
        with open(image, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest(), str(image.absolute())
    except OSError as error:
        raise StudyError(f"study {plan.study.name}: image {image}: {error.strerror}") from error
