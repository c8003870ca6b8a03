"""The rules, with the standard library only."""
