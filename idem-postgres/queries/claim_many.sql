-- As claim.sql, for many keys. Each look is a sub-select of its own, so that it cannot become a join that reads the
-- whole index; rows go in as they come, sorted by key, so that two groups cannot wait for each other.
WITH looked AS MATERIALIZED (
    SELECT w.*, clock.now, k.revision AS there, k.claimed_at, k.lease_until, k.expires_at, k.profile AS its_profile,
           k.digest AS its_digest, k.token AS its_token, k.epoch AS its_epoch, k.format AS its_format,
           k.state AS its_state, k.answer AS its_answer
    FROM (SELECT clock_timestamp() AS now, set_config('lock_timeout', $14, true)) AS clock
    CROSS JOIN unnest(
        $1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::uuid[], $7::bigint[], $8::bigint[],
        $9::smallint[], $10::bytea[], $11::interval[], $12::interval[], $13::interval[]
    ) WITH ORDINALITY AS w(
        principal, route, key, profile, digest, token, epoch, revision, state, answer, lease, retention, expected, place
    )
    LEFT JOIN LATERAL (
        SELECT * FROM idempotency_keys AS i
        WHERE i.principal = w.principal AND i.route = w.route AND i.key = w.key
        LIMIT 1
    ) AS k ON true
), inserted AS (
    INSERT INTO idempotency_keys (
        claimed_at, sweep_at, profile, epoch, token, principal, route, key, digest, revision, lease_until, expires_at,
        format, state, answer
    )
    SELECT now, now + least(retention, expected), profile, epoch, token, principal, route, key, digest, revision,
           now + lease, now + retention, 1, state, answer
    FROM looked
    WHERE there IS NULL
    ON CONFLICT DO NOTHING
    RETURNING revision
)
SELECT NULL::bigint AS place, NULL::timestamptz AS now, revision, NULL::timestamptz AS claimed_at,
       NULL::timestamptz AS lease_until, NULL::timestamptz AS expires_at, NULL::bigint AS profile,
       NULL::bytea AS digest, NULL::uuid AS token, NULL::bigint AS epoch, NULL::smallint AS format,
       NULL::smallint AS state, NULL::bytea AS answer
FROM inserted
UNION ALL
SELECT place, now, there, claimed_at, lease_until, expires_at, its_profile, its_digest, its_token, its_epoch,
       its_format, its_state, its_answer
FROM looked
WHERE there IS NOT NULL
