"""What is told about jobs: events, metrics, spans, and the redactor in front of them."""
