"""The MPI's launcher."""

from fsage.host.tools import Tool

TOOL = Tool(("--version",), "")
