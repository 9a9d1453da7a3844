-- One layout, from the variables that `run` sets.

SELECT :'answers' = 'table' AS apart, :'inline' <> 'no' AS inlined, :'names' = 'digest' AS by_digest,
       :'keys' = 'ordered' AS ordered, :'sweep' <> 'none' AS swept \gset

DROP TABLE IF EXISTS idempotency_keys, idempotency_answers;
DROP FUNCTION IF EXISTS new_key(), merchant(bigint);

-- What a completion leaves alone comes first: the WAL of an update on the same page leaves out the common prefix.
CREATE TABLE idempotency_keys (
    claimed_at  timestamptz NOT NULL,
    sweep_at    timestamptz NOT NULL,
    profile     bigint NOT NULL,
    epoch       bigint NOT NULL,
    token       uuid NOT NULL,
\if :by_digest
    name        bytea NOT NULL,
\else
    principal   text COLLATE "C" NOT NULL,
    route       text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
\endif
    digest      bytea NOT NULL,
    revision    bigint NOT NULL,
    lease_until timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    format      smallint NOT NULL,
    state       smallint NOT NULL,
\if :apart
\else
    answer      bytea,
\endif
\if :by_digest
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (name)
\else
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (principal, route, key)
\endif
) WITH (fillfactor = :fillfactor);

\if :apart
CREATE TABLE idempotency_answers (token uuid PRIMARY KEY, answer bytea NOT NULL);
ALTER TABLE idempotency_answers ALTER COLUMN answer SET STORAGE :storage;
\else
ALTER TABLE idempotency_keys ALTER COLUMN answer SET STORAGE :storage;
\endif
\if :inlined
ALTER TABLE idempotency_keys SET (toast_tuple_target = :inline);
\endif
\if :swept
CREATE INDEX idempotency_keys_sweep ON idempotency_keys USING :sweep (sweep_at);
\endif

CREATE FUNCTION merchant(n bigint) RETURNS text LANGUAGE sql AS $$ SELECT 'merchant-' || lpad(n::text, 9, '0') $$;
\if :ordered
CREATE FUNCTION new_key() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT overlay(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') PLACING '-' FROM 9 FOR 0)
        || '-7' || substr(gen_random_uuid()::text, 16)
$$;
\else
CREATE FUNCTION new_key() RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT gen_random_uuid()::text $$;
\endif
