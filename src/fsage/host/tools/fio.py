"""fio (IO on files and devices)."""

from fsage.host.tools import Tool

TOOL = Tool(("--version",), "fio-", "fio.sif")
