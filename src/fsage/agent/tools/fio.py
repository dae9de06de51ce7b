"""fio (IO on files and devices)."""

from fsage.agent.tools import Tool

TOOL = Tool(("--version",), "fio-", "fio.sif")
