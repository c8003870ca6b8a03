"""The batch lane: jobs that wait in a provider's batch without holding a worker."""
