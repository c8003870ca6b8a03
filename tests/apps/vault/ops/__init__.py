"""The vault as a running system: phases, the verification strategy of its contract, a pooler in front."""
