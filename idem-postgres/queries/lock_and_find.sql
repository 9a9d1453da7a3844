SELECT locked, now, revision, claimed_at, lease_until, expires_at, profile, digest, token, epoch, format, state, answer
FROM idempotency_lock_and_find($1, $2, $3, $4)
