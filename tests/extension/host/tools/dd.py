"""dd, of GNU coreutils."""

from fsage.host.tools import Tool

TOOL = Tool(("--version",), r"dd \(coreutils\) ")
