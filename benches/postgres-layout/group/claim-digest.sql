WITH claimed AS (
    INSERT INTO idempotency_keys
        (claimed_at, sweep_at, profile, epoch, token, name, digest, revision, lease_until, expires_at, format, state)
    SELECT clock_timestamp(), clock_timestamp() + interval '7 days', 1, 1, gen_random_uuid(),
           name, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()),
           1, clock_timestamp() + interval '30 s', clock_timestamp() + interval '7 days', 1, 0
    FROM unnest(ARRAY(SELECT sha256(convert_to(merchant(1 + floor(random() * :merchants)::bigint) || '/payments' || new_key(), 'UTF8'))
                      FROM generate_series(1, :group))) AS asked (name)
    ORDER BY name
    ON CONFLICT DO NOTHING
    RETURNING name, token
)
SELECT array_agg(name) AS names_@, array_agg(token) AS tokens_@ FROM claimed \gset
