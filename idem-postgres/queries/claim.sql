-- Gives the row that is there, or inserts one and gives its revision alone. Neither: the row came between look and
-- insert, and only a second statement can see it.
WITH found AS MATERIALIZED (
    SELECT clock_timestamp() AS now, revision, claimed_at, lease_until, expires_at, profile, digest, token, epoch,
           format, state, answer
    FROM idempotency_keys
    WHERE principal = $1 AND route = $2 AND key = $3
), inserted AS (
    INSERT INTO idempotency_keys (
        claimed_at, sweep_at, profile, epoch, token, principal, route, key, digest, revision, lease_until, expires_at,
        format, state, answer
    )
    SELECT now, now + least($12::interval, $13::interval), $4, $7, $6, $1, $2, $3, $5, $8, now + $11::interval,
           now + $12::interval, 1, $9, $10
    FROM (SELECT clock_timestamp() AS now) AS clock
    WHERE NOT EXISTS (SELECT FROM found)
    ON CONFLICT DO NOTHING
    RETURNING revision
)
SELECT NULL::timestamptz AS now, revision, NULL::timestamptz AS claimed_at, NULL::timestamptz AS lease_until,
       NULL::timestamptz AS expires_at, NULL::bigint AS profile, NULL::bytea AS digest, NULL::uuid AS token,
       NULL::bigint AS epoch, NULL::smallint AS format, NULL::smallint AS state, NULL::bytea AS answer
FROM inserted
UNION ALL
SELECT * FROM found
