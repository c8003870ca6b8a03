"""The version of this installation."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("penstock")
except PackageNotFoundError:  # run from a checkout that is not installed
    VERSION = "0+unknown"

__version__ = VERSION  # as `penstock` gives it
