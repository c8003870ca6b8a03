"""Commands in this process, workers in their own."""

from tests.support.desks import desk, free_port, penstock

__all__ = ["desk", "free_port", "penstock"]
