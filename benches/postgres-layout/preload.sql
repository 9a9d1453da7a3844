-- :rows completed records from before, in the order of their claims.
SELECT :'answers' = 'table' AS apart, :'names' = 'digest' AS by_digest \gset

CREATE TEMPORARY TABLE before AS
SELECT gen_random_uuid() AS token, merchant(1 + floor(random() * :merchants)::bigint) AS principal, new_key() AS key,
       n % 1024 AS body
FROM generate_series(1, :rows) AS n;

INSERT INTO idempotency_keys
SELECT clock_timestamp(), clock_timestamp() + interval '7 days', 1, 1, token,
\if :by_digest
       sha256(convert_to(principal || '/payments' || key, 'UTF8')),
\else
       principal, '/payments', key,
\endif
       uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 1, clock_timestamp(), clock_timestamp() + interval '1 day', 1, 1
\if :apart
FROM before;
INSERT INTO idempotency_answers SELECT token, (SELECT body FROM bodies WHERE id = before.body) FROM before;
\else
       , (SELECT body FROM bodies WHERE id = before.body)
FROM before;
\endif
