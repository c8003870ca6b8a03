select source_locale, target_locale, lane, requests, completed, failed, canceled, waiting, failure_rate
  from rewrite.failures_by_pair($1, $2)
