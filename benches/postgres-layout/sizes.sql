-- What one run left behind: updates, HOT updates, then bytes of heap, TOAST, primary key, sweep index, and of the answers'
-- table and its indexes where there is one. Fails unless every key was claimed and completed exactly once.
SELECT 1 / (count(*) = :keys)::integer FROM idempotency_keys WHERE state = 1 AND revision <> 1 \g /dev/null

SELECT keys.n_tup_upd, keys.n_tup_hot_upd,
       pg_relation_size('idempotency_keys'),
       coalesce(pg_total_relation_size(nullif(table_of_keys.reltoastrelid, 0)), 0)
       + coalesce(pg_total_relation_size(nullif(table_of_answers.reltoastrelid, 0)), 0),
       pg_relation_size('idempotency_keys_pkey'),
       coalesce(pg_relation_size(to_regclass('idempotency_keys_sweep')), 0),
       coalesce(pg_relation_size(to_regclass('idempotency_answers')), 0),
       coalesce(pg_relation_size(to_regclass('idempotency_answers_pkey')), 0)
FROM pg_stat_user_tables AS keys
JOIN pg_class AS table_of_keys ON table_of_keys.oid = keys.relid
LEFT JOIN pg_class AS table_of_answers ON table_of_answers.oid = to_regclass('idempotency_answers')
WHERE keys.relname = 'idempotency_keys';
