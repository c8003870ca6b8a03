"""Penstock beside its peers: one server, one machine, one run, ratios in one table."""
