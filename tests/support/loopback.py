"""What clients of this machine trust."""

import ssl
from typing import Final

# Nothing on loopback is encrypted, and a client of its own accord reads a hundred certificates, for 40 ms.
NOBODY: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
