-- What claims and figures may use beside DuckDB's own functions.

-- mean and median with their 95 % intervals, and the same of rows that meet a condition
CREATE MACRO mean95(x) AS mean_of(list(x));
CREATE MACRO median95(x) AS median_of(list(x));
CREATE MACRO mean95_if(x, condition) AS mean_of(list(x) FILTER (WHERE condition));
CREATE MACRO median95_if(x, condition) AS median_of(list(x) FILTER (WHERE condition));
-- p of the sign test on pairs, rank correlation
CREATE MACRO sign_p(x, y) AS sign_p_of(list(x), list(y));
CREATE MACRO rank_corr(x, y) AS rank_corr_of(list(x), list(y));
-- the verdict of a predicate of which all or some parts hold
CREATE MACRO verdict_word(whole, partly) AS if(whole, 'same', if(partly, 'in part', 'different'));
-- percentage of rows for which a condition holds
CREATE MACRO share(condition) AS 100.0 * avg(CAST(condition AS INTEGER));
-- squared correlation, unknown where one side does not vary
CREATE MACRO r2(x, y) AS nullif(corr(x, y), 'nan') ^ 2;
-- whether y never falls, or never rises, with x
CREATE MACRO rises(y, x) AS list_sort(list(y)) = list(y ORDER BY x);
-- who proves optima, and how many: "certificate (12), one solver (3)"
CREATE MACRO whose(names) AS (
    SELECT string_agg(format('{} ({:,})', name, n), ', ' ORDER BY n DESC)
    FROM (SELECT name, count(*) AS n FROM (SELECT unnest(names) AS name)
          WHERE name IS NOT NULL GROUP BY name));
CREATE MACRO falls(y, x) AS list_reverse_sort(list(y)) = list(y ORDER BY x);
