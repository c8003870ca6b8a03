"""The bench: its arithmetic, and that it runs."""
