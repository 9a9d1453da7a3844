-- Looks at the rows whose time to be looked at has come: removes what has ended, and postpones what has not. A row that
-- somebody is writing is left to the next sweep; the others are locked, so that what is judged here is what is removed.
WITH looked AS MATERIALIZED (
    SELECT ctid AS place, greatest(expires_at, lease_until) AS ends_at
    FROM idempotency_keys
    WHERE sweep_at <= (SELECT clock_timestamp())
    ORDER BY sweep_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
), judged AS MATERIALIZED (
    SELECT place, ends_at, ends_at <= (SELECT clock_timestamp()) AS is_over FROM looked
), postponed AS (
    UPDATE idempotency_keys AS k
    SET sweep_at = judged.ends_at
    FROM judged
    WHERE k.ctid = judged.place AND NOT judged.is_over
), removed AS (
    DELETE FROM idempotency_keys AS k
    USING judged
    WHERE k.ctid = judged.place AND judged.is_over
    RETURNING 1
)
SELECT (SELECT count(*) FROM looked) AS looked, (SELECT count(*) FROM removed) AS removed
