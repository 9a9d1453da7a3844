\set body random(0, 1023)
\set revision random(1, 9000000000000000000)
WITH completed AS (
    UPDATE idempotency_keys
    SET revision = :revision, lease_until = clock_timestamp(), expires_at = clock_timestamp() + interval '1 day', state = 1
    WHERE principal = :principal_@ AND route = '/payments' AND key = :key_@ AND token = :token_@ AND state = 0
    RETURNING token
)
INSERT INTO idempotency_answers SELECT token, (SELECT body FROM bodies WHERE id = :body) FROM completed;
