"""fsage: how a file system's age changes what it gives, measured."""

__version__ = "0.1.0"
