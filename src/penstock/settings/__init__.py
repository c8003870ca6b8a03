"""Every setting, read once from the environment and checked before anything starts.

A variable is the field's name in capitals behind `PENSTOCK_`: `poll_seconds`
is `PENSTOCK_POLL_SECONDS`. An empty variable counts as unset. Use
`load_settings`, whose errors name the variable, the rule and the next step and
never repeat a DSN.
"""

from penstock.settings.model import PREFIX, Notify, Settings
from penstock.settings.reading import load_settings, read_dsn

__all__ = ["PREFIX", "Notify", "Settings", "load_settings", "read_dsn"]
