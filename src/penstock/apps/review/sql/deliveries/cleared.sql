-- Marked once without having been sent, cleared, and still waiting.
select count(*) from review.deliveries where status = 'pending' and cleared_count > 0 and notified_at is null
