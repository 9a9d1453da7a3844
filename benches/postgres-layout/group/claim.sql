WITH claimed AS (
    INSERT INTO idempotency_keys
        (claimed_at, sweep_at, profile, epoch, token, principal, route, key, digest, revision, lease_until, expires_at, format, state)
    SELECT clock_timestamp(), clock_timestamp() + interval '7 days', 1, 1, gen_random_uuid(),
           principal, '/payments', key, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()),
           1, clock_timestamp() + interval '30 s', clock_timestamp() + interval '7 days', 1, 0
    FROM unnest(ARRAY(SELECT merchant(1 + floor(random() * :merchants)::bigint) FROM generate_series(1, :group)),
                ARRAY(SELECT new_key() FROM generate_series(1, :group))) AS asked (principal, key)
    ORDER BY principal, key
    ON CONFLICT DO NOTHING
    RETURNING principal, key, token
)
SELECT array_agg(principal) AS principals_@, array_agg(key) AS keys_@, array_agg(token) AS tokens_@ FROM claimed \gset
