\set body random(0, 1023)
\set revision random(1, 9000000000000000000)
UPDATE idempotency_keys
SET revision = :revision, lease_until = clock_timestamp(), expires_at = clock_timestamp() + interval '1 day', state = 1,
    answer = (SELECT body FROM bodies WHERE id = :body)
WHERE name = :name_@ AND token = :token_@ AND state = 0;
