-- Medians over the rounds; ratios are medians of each round's ratio to the first layout in the same load.
CREATE TEMPORARY TABLE runs (
    place integer, layout text, size integer, load text, loads integer, round integer, keys numeric, rate numeric, cpu_ms numeric,
    wal numeric, fpi numeric, updated numeric, hot numeric,
    heap numeric, toast numeric, pkey numeric, sweep numeric, answers numeric, answers_pkey numeric
);
\copy runs FROM pstdin
\if :{?preload}
\else
\set preload 0
\endif
CREATE TEMPORARY TABLE compared AS
SELECT runs.*, runs.keys + :preload AS stored, runs.cpu_ms / nullif(first.cpu_ms, 0) AS cpu_ratio, runs.rate / first.rate AS rate_ratio
FROM runs LEFT JOIN LATERAL (
    SELECT cpu_ms, rate FROM runs AS other
    WHERE (other.size, other.load, other.round) = (runs.size, runs.load, runs.round) ORDER BY place LIMIT 1
) AS first ON true;

\pset format unaligned
\pset tuples_only on
SELECT '| answer | load | layout | HOT % | WAL | page images | heap | TOAST | key index | sweep index | answers | all bytes | CPU ms | CPU ratio | keys/s | rate ratio |';
SELECT '|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|';
SELECT concat('| ', size, ' | ', load, ' | ', layout,
    ' | ', to_char(avg(100 * hot / updated), 'FM990.0'), ' | ', round(avg(wal / keys)), ' | ', round(avg(fpi / keys)),
    ' | ', round(avg(heap / stored)), ' | ', round(avg(toast / stored)), ' | ', round(avg(pkey / stored)), ' | ', round(avg(sweep / stored)),
    ' | ', round(avg((answers + answers_pkey) / stored)),
    ' | ', round(avg((heap + toast + pkey + sweep + answers + answers_pkey) / stored)),
    ' | ', round((percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu_ms * 1000 / keys))::numeric),
    ' | ', round((percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu_ratio))::numeric, 2),
    ' | ', round((percentile_cont(0.5) WITHIN GROUP (ORDER BY rate))::numeric, -1),
    ' | ', round((percentile_cont(0.5) WITHIN GROUP (ORDER BY rate_ratio))::numeric, 2), ' |')
FROM compared GROUP BY size, loads, load, place, layout ORDER BY size, loads, place;
