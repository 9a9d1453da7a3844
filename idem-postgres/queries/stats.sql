-- Counts rows one by one up to a bound, and asks the statistics beyond it: a table of any size is counted in little
-- time. What is expired is counted along the sweep's index, up to a bound as well.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), counted AS MATERIALIZED (
    SELECT count(*) AS rows FROM (SELECT FROM idempotency_keys LIMIT $1 + 1) AS few
), due AS MATERIALIZED (
    SELECT greatest(k.expires_at, k.lease_until) AS ended_at
    FROM idempotency_keys AS k
    WHERE k.sweep_at <= (SELECT now FROM clock)
    ORDER BY k.sweep_at
    LIMIT $1
)
SELECT CASE
           WHEN counted.rows <= $1 THEN counted.rows
           ELSE greatest(counted.rows, (
               SELECT greatest(reltuples::bigint, pg_stat_get_live_tuples(oid))
               FROM pg_class
               WHERE oid = 'idempotency_keys'::regclass
           ))
       END AS rows,
       (SELECT count(*) FROM due WHERE ended_at <= clock.now) AS expired,
       pg_total_relation_size('idempotency_keys') AS bytes,
       (SELECT clock.now - min(ended_at) FROM due WHERE ended_at <= clock.now) AS oldest_expired
FROM clock, counted
