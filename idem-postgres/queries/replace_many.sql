-- As replace.sql, for many keys. A row that somebody's open transaction holds is left out instead of waited for: it is
-- tried again alone, and delays no other key.
WITH wanted AS MATERIALIZED (
    SELECT w.*, clock.now
    FROM (SELECT clock_timestamp() AS now) AS clock
    CROSS JOIN unnest(
        $1::text[], $2::text[], $3::text[], $4::uuid[], $5::bigint[], $6::boolean[], $7::bigint[], $8::bytea[],
        $9::uuid[], $10::bigint[], $11::smallint[], $12::bytea[], $13::interval[], $14::interval[], $15::interval[],
        $16::bigint[]
    ) AS w(
        principal, route, key, owner, seen, alive, profile, digest, token, epoch, state, answer, lease, retention,
        expected, revision
    )
)
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
FROM wanted AS w
CROSS JOIN LATERAL (
    SELECT i.ctid AS place
    FROM idempotency_keys AS i
    WHERE i.principal = w.principal AND i.route = w.route AND i.key = w.key
      AND (i.format = 1 OR NOT w.alive)
      AND (w.owner IS NULL
           OR (i.token = w.owner AND i.state = 1 AND octet_length(i.digest) = 32 AND i.answer IS NULL))
      AND (w.seen IS NULL OR i.revision = w.seen)
      AND (w.state IS NOT NULL OR i.state = 1)
      AND (i.expires_at > w.now OR i.lease_until > w.now) = w.alive
    FOR NO KEY UPDATE SKIP LOCKED
) AS free
WHERE k.ctid = free.place
RETURNING k.revision
