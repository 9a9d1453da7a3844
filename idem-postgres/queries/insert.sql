-- For a transaction that holds the key's lock and has looked: writes where no row is, and says nothing of what is.
INSERT INTO idempotency_keys (
    claimed_at, sweep_at, profile, epoch, token, principal, route, key, digest, revision, lease_until, expires_at,
    format, state, answer
)
SELECT now, now + least($12::interval, $13::interval), $4, $7, $6, $1, $2, $3, $5, $8, now + $11::interval,
       now + $12::interval, 1, $9, $10
FROM (SELECT clock_timestamp() AS now, set_config('lock_timeout', $14, true)) AS clock
ON CONFLICT DO NOTHING
RETURNING revision
