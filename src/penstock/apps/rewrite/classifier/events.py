"""The log lines of the classifiers: fixed keys, and nothing that could quote a message (L-12, L-66)."""

from __future__ import annotations

from penstock.contract.classify import classify
from penstock.telemetry.logs import log


def classifier_failed(classifier: str, error: Exception) -> None:
    """A classifier could not answer; somebody with less to say has answered instead."""
    log.warning("classifier_failed", kind=classifier, error_code=str(classify(error).error_class))
