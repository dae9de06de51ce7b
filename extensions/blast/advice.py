"""What can be chosen is a layout, as in striping."""

from fsage.studies.striping.advice import options

__all__ = ["options"]
