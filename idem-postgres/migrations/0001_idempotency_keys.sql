-- One row per key. Columns stand in this order for a reason: a completion changes what follows `digest` and nothing
-- before it, so that its WAL record repeats only the tail of the row.
CREATE TABLE idempotency_keys (
    claimed_at  timestamptz NOT NULL,
    sweep_at    timestamptz NOT NULL,
    profile     bigint      NOT NULL,
    epoch       bigint      NOT NULL,
    token       uuid        NOT NULL,
    principal   text COLLATE "C" NOT NULL,
    route       text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    digest      bytea       NOT NULL,
    revision    bigint      NOT NULL,
    lease_until timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    format      smallint    NOT NULL,
    state       smallint    NOT NULL,
    answer      bytea,
    PRIMARY KEY (principal, route, key)
-- A completed row is twice its claim. At 30, groups of any size and completions of any age find room for it in the
-- claim's page; at 70, which sounds like plenty, it was a third of them, and each miss costs 450 bytes of WAL and an
-- entry in either index (benches/postgres-layout).
) WITH (fillfactor = 30);

-- `sweep_at`, not `expires_at`: a completion moves the expiry, and whatever moves an indexed column is no HOT update.
CREATE INDEX idempotency_keys_sweep_at ON idempotency_keys (sweep_at);

COMMENT ON TABLE idempotency_keys IS 'Idempotency keys (idem-postgres). Times are this server''s own.';
COMMENT ON COLUMN idempotency_keys.sweep_at IS 'When a sweep looks at the row; never later than its end.';
COMMENT ON COLUMN idempotency_keys.profile IS 'How the digest was made.';
COMMENT ON COLUMN idempotency_keys.epoch IS 'How many claims the key has seen.';
COMMENT ON COLUMN idempotency_keys.token IS 'Which attempt wrote the row.';
COMMENT ON COLUMN idempotency_keys.principal IS 'Who calls; empty where all callers share their keys.';
COMMENT ON COLUMN idempotency_keys.digest IS 'Which request the key stands for: SHA-256, 32 bytes.';
COMMENT ON COLUMN idempotency_keys.revision IS 'Random, another one with every write.';
COMMENT ON COLUMN idempotency_keys.lease_until IS 'How long the attempt may be silent.';
COMMENT ON COLUMN idempotency_keys.expires_at IS 'The row is as good as absent after this and after lease_until.';
COMMENT ON COLUMN idempotency_keys.format IS 'Format version of the row.';
COMMENT ON COLUMN idempotency_keys.state IS
    '1 in progress, 2 completed, 3 failed, 4 failed without effect, 5 released.';
COMMENT ON COLUMN idempotency_keys.answer IS 'What a replay gives back, where the key is completed.';

-- Takes the lock that stands for "in progress" in one-transaction mode, then looks: in one round trip, but in two
-- statements, so that the look is newer than the lock. It sees no row that was committed before the lock was taken
-- and after the look began, because the look begins after the lock.
CREATE FUNCTION idempotency_lock_and_find(lock_id bigint, of_principal text, of_route text, of_key text)
RETURNS TABLE (
    locked boolean, now timestamptz, revision bigint, claimed_at timestamptz, lease_until timestamptz,
    expires_at timestamptz, profile bigint, digest bytea, token uuid, epoch bigint, format smallint, state smallint,
    answer bytea
)
LANGUAGE plpgsql VOLATILE
-- Whatever statistics the caller's session plans with, this is one look into one index.
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    IF NOT pg_try_advisory_xact_lock(lock_id) THEN
        locked := false;
        RETURN NEXT;
        RETURN;
    END IF;
    RETURN QUERY
        SELECT true, clock_timestamp(), k.revision, k.claimed_at, k.lease_until, k.expires_at, k.profile, k.digest,
               k.token, k.epoch, k.format, k.state, k.answer
        FROM idempotency_keys AS k
        WHERE k.principal = of_principal AND k.route = of_route AND k.key = of_key;
    IF NOT FOUND THEN
        locked := true;
        RETURN NEXT;
    END IF;
END
$$;
