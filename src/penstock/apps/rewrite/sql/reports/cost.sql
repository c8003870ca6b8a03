select source_locale, target_locale, lane, execution, calls, input_tokens, output_tokens, cost_micros
  from rewrite.cost_by_pair($1, $2)
