"""What goes wrong with the embedded server, in words its user can act on."""


class EmbeddedServerError(RuntimeError):
    """The embedded server cannot do what was asked; the message says what to do next."""
