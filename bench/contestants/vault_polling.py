"""The vault in the first phase of its roll-out: no NOTIFY, a poll every two seconds."""

from __future__ import annotations

from bench.contestants.vault import Vault


class VaultPolling(Vault):
    name = "vault-polling"
    phase = 1


contestant = VaultPolling()
