"""The only SQL: one module per noun, one file per statement."""
