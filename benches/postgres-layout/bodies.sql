-- 1,024 answers of :size random bytes.
TRUNCATE bodies;
INSERT INTO bodies
SELECT id, (SELECT string_agg(sha256(convert_to(id || ':' || part || ':' || random(), 'UTF8')), '')
            FROM generate_series(1, :size / 32) AS part)
FROM generate_series(0, 1023) AS id;
VACUUM ANALYZE bodies;
