-- Writes over the row of a key where the guard holds: the owner's token, or the revision seen, NULL where it does not
-- count. A renewal brings no state, and leaves the record as it is.
UPDATE idempotency_keys AS k
SET claimed_at = CASE WHEN w.state IS NULL OR (w.state <> 1 AND w.alive) THEN k.claimed_at ELSE w.now END,
    sweep_at = CASE
        WHEN w.state IS NULL THEN k.sweep_at
        WHEN w.state <> 1 AND w.alive THEN
            least(k.sweep_at, greatest(k.claimed_at + w.retention, w.now + w.retention / 2))
        ELSE w.now + least(w.retention, w.expected)
    END,
    profile = coalesce(w.profile, k.profile),
    epoch = coalesce(w.epoch, k.epoch),
    token = coalesce(w.token, k.token),
    digest = coalesce(w.digest, k.digest),
    revision = w.revision,
    lease_until = w.now + w.lease,
    expires_at = CASE
        WHEN w.state IS NULL AND k.expires_at >= w.now + w.retention / 2 THEN k.expires_at
        WHEN w.state <> 1 AND w.alive THEN greatest(k.claimed_at + w.retention, w.now + w.retention / 2)
        ELSE w.now + w.retention
    END,
    format = 1,
    state = coalesce(w.state, k.state),
    answer = w.answer
FROM (
    SELECT clock_timestamp() AS now, $4::uuid AS owner, $5::bigint AS seen, $6::boolean AS alive,
           $7::bigint AS profile, $8::bytea AS digest, $9::uuid AS token, $10::bigint AS epoch, $11::smallint AS state,
           $12::bytea AS answer, $13::interval AS lease, $14::interval AS retention, $15::interval AS expected,
           $16::bigint AS revision
) AS w
WHERE k.principal = $1 AND k.route = $2 AND k.key = $3
  AND (k.format = 1 OR NOT w.alive)
  AND (w.owner IS NULL OR (k.token = w.owner AND k.state = 1 AND octet_length(k.digest) = 32 AND k.answer IS NULL))
  AND (w.seen IS NULL OR k.revision = w.seen)
  AND (w.state IS NOT NULL OR k.state = 1)
  AND (k.expires_at > w.now OR k.lease_until > w.now) = w.alive
RETURNING k.revision
