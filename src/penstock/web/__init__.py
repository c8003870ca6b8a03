"""The HTTP API: keys with scopes, problems in one form, and the routes of the applications.

gate      outermost: an id for each request, its log line, the answer to a bug, headers
cap       no body larger than allowed is read
keys      who calls, decided before the body is looked at
problems  every error as `application/problem+json`, without a word of the input
streams   Server-Sent Events of one's own home
"""

from penstock.web.application import create_app
from penstock.web.logins import Logins
from penstock.web.ports import Homes, Items, Reviewing, Rewriting

__all__ = ["Homes", "Items", "Logins", "Reviewing", "Rewriting", "create_app"]
