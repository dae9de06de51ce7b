"""What launcher and hosts both need of kernels that are programs: which are here, starting one, and keeping images."""

TASK = "new_file.json"
"""Of a phase that writes one new file, the text with its size, how it is written, and the declared device."""
