"""Anthropic: messages and message batches."""
