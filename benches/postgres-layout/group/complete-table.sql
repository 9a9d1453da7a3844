-- OFFSET 0 holds the look-up to one key at a time; without it, and without statistics, the planner joined a scan of the
-- whole index to the group.
\set revision random(1, 9000000000000000000)
WITH completed AS (
    UPDATE idempotency_keys AS record
    SET revision = :revision, lease_until = clock_timestamp(), expires_at = clock_timestamp() + interval '1 day', state = 1
    FROM (
        SELECT held.at, held.token, done.n
        FROM unnest(:principals_@::text[], :keys_@::text[], :tokens_@::uuid[]) WITH ORDINALITY AS done (principal, key, token, n)
        CROSS JOIN LATERAL (
            SELECT ctid AS at, token FROM idempotency_keys
            WHERE principal = done.principal AND route = '/payments' AND key = done.key AND token = done.token AND state = 0
            OFFSET 0
        ) AS held
    ) AS found
    WHERE record.ctid = found.at AND record.token = found.token AND record.state = 0
    RETURNING record.token, found.n
)
INSERT INTO idempotency_answers
SELECT token, body FROM completed
CROSS JOIN LATERAL (SELECT body FROM bodies WHERE id = (:revision + completed.n) % 1024) AS bodies;
