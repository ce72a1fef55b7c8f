"""The door for the terminal: parse, call one function, print."""

from .commands import main

__all__ = ["main"]
