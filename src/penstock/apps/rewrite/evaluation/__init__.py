"""The last gate before anything is stored: schema, language and lexicon of a rewrite (A-43, L-48).

What fails here is final and leaves no output (A-62, C-41). A refusal is told
in codes: neither the text nor the word that was found is repeated anywhere.
"""

from penstock.apps.rewrite.evaluation.answers import response_of
from penstock.apps.rewrite.evaluation.evaluate import evaluate_rewrite
from penstock.apps.rewrite.evaluation.lexicon import LEXICON_VERSION
from penstock.apps.rewrite.evaluation.verdict import EVAL_VERSION, Detail, Evaluation

__all__ = ["EVAL_VERSION", "LEXICON_VERSION", "Detail", "Evaluation", "evaluate_rewrite", "response_of"]
