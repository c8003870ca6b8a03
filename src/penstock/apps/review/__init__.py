"""review: a changelist criticised once, everyone told once."""
