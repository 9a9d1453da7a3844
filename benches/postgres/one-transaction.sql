\set n random(1, 2000000000)
BEGIN;
SELECT * FROM idempotency_lock_and_find(:n::bigint, 'alice', '/payments', '8e03978e-40d5-43dd-bc93-' || :n::bigint);
INSERT INTO ledger (amount) VALUES (100);
INSERT INTO idempotency_keys (claimed_at, sweep_at, profile, epoch, token, principal, route, key, digest, revision, lease_until, expires_at, format, state, answer) VALUES (clock_timestamp(), clock_timestamp() + interval '1 day', 7, 1, '8e03978e-40d5-43dd-bc93-6894a57f9324', 'alice', '/payments', '8e03978e-40d5-43dd-bc93-' || :n::bigint, '\x00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff', :n::bigint, clock_timestamp(), clock_timestamp() + interval '1 day', 1, 2, decode(repeat('ab', 256), 'hex')) ON CONFLICT DO NOTHING RETURNING revision;
COMMIT;
