"""fio (IO on files and devices)."""

from fsage.model.tools import Tool

TOOL = Tool(("--version",), "fio-", "fio.sif")
