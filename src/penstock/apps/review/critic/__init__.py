"""The critic: what a model is asked about one part of a changelist, and what is kept of its answer."""

from penstock.apps.review.critic.answers import MOST, SCHEMA, Judged, findings_of
from penstock.apps.review.critic.prompts import prompt, versions
from penstock.apps.review.critic.questions import request_of

__all__ = ["MOST", "SCHEMA", "Judged", "findings_of", "prompt", "request_of", "versions"]
