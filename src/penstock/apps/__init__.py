"""Applications that ship with Penstock, each with its own rules, tables and handlers; none imports another."""
