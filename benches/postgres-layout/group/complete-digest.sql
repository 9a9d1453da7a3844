-- OFFSET 0 holds the look-up to one key at a time; without it, and without statistics, the planner joined a scan of the
-- whole index to the group.
\set revision random(1, 9000000000000000000)
UPDATE idempotency_keys AS record
SET revision = :revision, lease_until = clock_timestamp(), expires_at = clock_timestamp() + interval '1 day', state = 1,
    answer = found.body
FROM (
    SELECT held.at, held.token, bodies.body
    FROM unnest(:names_@::bytea[], :tokens_@::uuid[]) WITH ORDINALITY AS done (name, token, n)
    CROSS JOIN LATERAL (
        SELECT ctid AS at, token FROM idempotency_keys WHERE name = done.name AND token = done.token AND state = 0 OFFSET 0
    ) AS held
    CROSS JOIN LATERAL (SELECT body FROM bodies WHERE id = (:revision + done.n) % 1024) AS bodies
) AS found
WHERE record.ctid = found.at AND record.token = found.token AND record.state = 0;
