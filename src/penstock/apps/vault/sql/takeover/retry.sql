select r.moved, r.quarantined from vault.retry_quarantine() as r
