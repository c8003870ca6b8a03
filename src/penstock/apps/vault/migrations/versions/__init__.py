"""One file per version: what it does, whether it is safe before a deploy, and its way back."""
