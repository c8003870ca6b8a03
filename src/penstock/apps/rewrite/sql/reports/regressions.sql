select prompt_version, model, eval_version, lexicon_version, passed, refused, refusal_rate, codes
  from rewrite.eval_regressions($1, $2)
