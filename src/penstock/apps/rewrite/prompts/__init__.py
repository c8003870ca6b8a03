"""Prompts by version, from data files: what a model is told, and how a message is handed to it as data."""

from penstock.apps.rewrite.prompts.prompt import Prompt, Rendered
from penstock.apps.rewrite.prompts.registry import prompt, versions

__all__ = ["Prompt", "Rendered", "prompt", "versions"]
