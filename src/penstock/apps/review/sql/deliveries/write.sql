-- What is sent from now on: written once (N-10).
update review.deliveries set payload = $2, promise = $3 where delivery_id = $1 and payload is null
