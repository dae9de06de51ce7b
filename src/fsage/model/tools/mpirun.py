"""The MPI's launcher."""

from fsage.model.tools import Tool

TOOL = Tool(("--version",), "")
