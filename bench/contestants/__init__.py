"""One module per contestant, each with a `contestant` in it. Imported only when asked for."""
