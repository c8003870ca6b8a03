"""What language a message is in, what it is about, and how sharp it is: advice for the orchestrator (L-19, L-20).

Two classifiers stand behind one port: rules over data files, and a model that
is asked on top of them. Neither is ever needed: whatever goes wrong, the
answer is a result that claims nothing.
"""

from penstock.apps.rewrite.classifier.port import (
    Classifier,
    Detection,
    classify_or_fallback,
    detect,
    llm_classifier,
    rule_classifier,
    warm_up,
)

__all__ = ["Classifier", "Detection", "classify_or_fallback", "detect", "llm_classifier", "rule_classifier", "warm_up"]
