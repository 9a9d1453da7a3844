-- :rows completed records from before.
INSERT INTO idempotency_keys
SELECT clock_timestamp(), clock_timestamp() + interval '7 days', 1, 1, gen_random_uuid(),
       merchant(1 + floor(random() * :merchants)::bigint), '/payments', new_key(),
       uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()),
       1, clock_timestamp(), clock_timestamp() + interval '1 day', 1, 1, (SELECT body FROM bodies WHERE id = row % 1024)
FROM generate_series(1, :rows) AS row;
