"""Adapters: one file per kind of LLM provider, all behind the port of `penstock.providers.port`."""
