"""Channels: one file per way to tell somebody something, all behind the port in `port`."""
