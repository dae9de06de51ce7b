"""The report is that of striping."""

from fsage.studies.striping.report import VIEW

__all__ = ["VIEW"]
