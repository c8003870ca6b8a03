"""Properties are judged by what they find, not by how long a busy machine takes to find it."""

from hypothesis import settings

from tests.support.desks import desk, free_port, penstock

__all__ = ["desk", "free_port", "penstock"]

settings.register_profile("patient", deadline=None, print_blob=True)
settings.load_profile("patient")
