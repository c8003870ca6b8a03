"""Properties are judged by what they find, not by how long a busy machine takes to find it."""

from hypothesis import settings

settings.register_profile("patient", deadline=None, print_blob=True)
settings.load_profile("patient")
