"""Examples take as long as they take: two cores may be shared by many."""

from hypothesis import settings

settings.register_profile("patient", deadline=None, print_blob=True)
settings.load_profile("patient")
