"""The command line tool ``oma``.

A program on top of the library, made of its public names only: what it can do, any program can.
"""

from ._main import main

__all__ = ["main"]
