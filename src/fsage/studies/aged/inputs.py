"""What a step that restores an image needs: the image, by its path."""

from __future__ import annotations

import hashlib

from fsage.api.study import Plan, StudyError

from .model import Restore


def needed(plan: Plan, step: Restore) -> tuple[str, str]:
    """(SHA-256 of the image, its absolute path). Raises StudyError."""
    image = plan.layouts / step.image
    try:
        with open(image, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest(), str(image.absolute())
    except OSError as error:
        raise StudyError(f"study {plan.study.name}: image {image}: {error.strerror}") from error


def file_of(step: Restore) -> str:
    """The file in the folder layouts/ beside the study."""
    return step.image
