"""What goes wrong with the embedded server, in words its user can act on."""

from penstock.contract.errors import DatabaseUnavailable


class EmbeddedServerError(DatabaseUnavailable):
    """The embedded server cannot do what was asked; the message says what to do next."""
