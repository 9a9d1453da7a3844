SELECT clock_timestamp() AS now, revision, claimed_at, lease_until, expires_at, profile, digest, token, epoch, format,
       state, answer
FROM idempotency_keys
WHERE principal = $1 AND route = $2 AND key = $3
