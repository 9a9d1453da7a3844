\set merchant random(1, :merchants)
INSERT INTO idempotency_keys
    (claimed_at, sweep_at, profile, epoch, token, name, digest, revision, lease_until, expires_at, format, state)
VALUES (clock_timestamp(), clock_timestamp() + interval '7 days', 1, 1, gen_random_uuid(),
        sha256(convert_to(merchant(:merchant) || '/payments' || new_key(), 'UTF8')),
        uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()),
        1, clock_timestamp() + interval '30 s', clock_timestamp() + interval '7 days', 1, 0)
ON CONFLICT DO NOTHING
RETURNING name AS name_@, token AS token_@ \gset
