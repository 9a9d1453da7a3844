SELECT (SELECT array_agg(wanted.name ORDER BY wanted.place)
        FROM unnest($1::text[]) WITH ORDINALITY AS wanted(name, place)
        WHERE NOT EXISTS (
            SELECT FROM pg_attribute
            WHERE attrelid = to_regclass('idempotency_keys') AND attname = wanted.name AND attnum > 0
              AND NOT attisdropped
        )) AS missing_columns,
       to_regclass('idempotency_keys') IS NOT NULL AS has_table,
       EXISTS (
           SELECT FROM pg_index AS i
           WHERE i.indrelid = to_regclass('idempotency_keys') AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
             AND i.indnkeyatts = 3
             AND (SELECT array_agg(a.attname::text ORDER BY a.attname)
                  FROM pg_attribute AS a
                  WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::smallint[]))
                 = ARRAY['key', 'principal', 'route']
       ) AS is_unique,
       (SELECT relpersistence = 'p' FROM pg_class WHERE oid = to_regclass('idempotency_keys')) AS is_logged,
       to_regproc('idempotency_lock_and_find') IS NOT NULL AS has_function,
       current_setting('server_encoding') AS encoding,
       current_setting('server_version_num')::integer AS version,
       current_setting('synchronous_commit') AS synchronous_commit,
       pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS is_read_only
