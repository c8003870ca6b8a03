"""OpenAI: Files, Batches, Responses, Chat completions."""
