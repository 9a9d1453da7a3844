-- What all layouts share: answers that do not compress, cheap to fetch, and plans that do not depend on statistics.

CREATE TABLE bodies (id integer PRIMARY KEY, body bytea NOT NULL);
ALTER TABLE bodies ALTER COLUMN body SET STORAGE PLAIN;

-- A grouped statement must not scan the table, whatever the planner believes of it.
ALTER DATABASE postgres SET enable_seqscan = off;
ALTER DATABASE postgres SET enable_hashjoin = off;
ALTER DATABASE postgres SET enable_mergejoin = off;
ALTER DATABASE postgres SET enable_bitmapscan = off;
ALTER DATABASE postgres SET enable_memoize = off;
ALTER DATABASE postgres SET jit = off;
