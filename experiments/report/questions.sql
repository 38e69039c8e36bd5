-- Every question that the report asks, by name, and the tables that they are asked of.
-- A part begins with `==== NAME`, a query of it with `== NAME` (`experiments.report.database`).
-- `$name` is a parameter; `{name}` is a list that is made of `optim.figures`.

-- ==== macros: how differences are seen, as `optim.figures.figure.Figure` says

-- == macros
-- sums of figures are maximised; of levels the first is seen
CREATE OR REPLACE MACRO level1(name) AS split_part(name, ',', 1);
CREATE OR REPLACE MACRO is_max(name) AS
  level1(name) IN ({maximised}) OR regexp_matches(level1(name), '[-+*]');
CREATE OR REPLACE MACRO is_min(name) AS level1(name) IN ({minimised});
-- whose gaps are differences in percent of their size
CREATE OR REPLACE MACRO is_percent(name) AS level1(name) IN ({percent});
CREATE OR REPLACE MACRO finite(x) AS CASE WHEN isfinite(x) THEN x END;
CREATE OR REPLACE MACRO size_of(name, sizes) AS CASE {size_of_name} END;
CREATE OR REPLACE MACRO tolerance(name, a, b, sizes) AS CASE
  WHEN is_percent(name) THEN {percent_gap}::DOUBLE * coalesce(size_of(name, sizes) / 100, 1)
  ELSE greatest(
    {relative_gap}::DOUBLE * greatest(abs(a), abs(b), coalesce(size_of(name, sizes), 0)),
    CASE WHEN level1(name) IN ({shares}) THEN {share_noise}::DOUBLE ELSE 0 END) END;
CREATE OR REPLACE MACRO gap_of(name, a, b, sizes) AS CASE
  WHEN a IS NULL OR b IS NULL THEN NULL
  WHEN a = b THEN 0
  WHEN a > b AND is_max(name) THEN 0
  WHEN a < b AND is_min(name) THEN 0
  WHEN is_percent(name) THEN CASE
    WHEN size_of(name, sizes) IS NULL THEN abs(a - b)
    WHEN size_of(name, sizes) > 0 THEN 100 * abs(a - b) / size_of(name, sizes)
    ELSE 'Infinity'::DOUBLE END
  ELSE abs(a - b) / greatest(abs(a), abs(b)) END;
CREATE OR REPLACE MACRO gap_share(name, a, b, sizes) AS
  gap_of(name, a, b, sizes) / CASE WHEN is_percent(name) THEN 100 ELSE 1 END;
CREATE OR REPLACE MACRO share_of(part, whole) AS
  CASE WHEN whole = 0 AND part = 0 THEN 1 ELSE part / nullif(whole, 0) END;
CREATE OR REPLACE MACRO beats(name, a, b, sizes) AS CASE
  WHEN is_max(name) THEN a - b > tolerance(name, a, b, sizes)
  ELSE b - a > tolerance(name, a, b, sizes) END;
-- the sorted list of known values where a condition holds
CREATE OR REPLACE MACRO known(x, condition) AS
  coalesce(list(DISTINCT x ORDER BY x) FILTER (WHERE condition AND x IS NOT NULL), []);
-- the mean of what is known, in an order that does not vary; else NULL
CREATE OR REPLACE MACRO ordered_mean(x) AS list_sum(list_sort(list(x))) / nullif(count(x), 0);
-- the geometric mean of times, shifted
CREATE OR REPLACE MACRO shifted_mean(seconds, shift) AS
  exp(ordered_mean(ln(seconds + shift))) - shift;
CREATE OR REPLACE MACRO run_of(contestant, seed, run_key, instance) AS
  struct_pack(contestant := contestant, seed := seed, run_key := run_key, instance := instance);

-- ==== rows: which problem and contestant each row of `sweep_rows` is of

-- == named
WITH contents AS (
  SELECT instance_sha256, coalesce(max(instance_content), instance_sha256) AS content
  FROM sweep_rows GROUP BY instance_sha256
), solvers AS (
  SELECT method_label, count(DISTINCT coalesce(solver, factors['solver'])) AS num_solvers
  FROM sweep_rows GROUP BY method_label
), ready AS (
  SELECT *, sweep_rows.rowid AS line, coalesce(solver, factors['solver']) AS used_solver,
    array_to_string(list_sort(ignored), ', ') AS limits
  FROM sweep_rows JOIN contents USING (instance_sha256) JOIN solvers USING (method_label)
)
SELECT line, run_key, concat(content, CASE WHEN limits <> '' THEN ' without ' || limits END)
  AS problem, {contestant} AS contestant
FROM ready

-- == placed
SELECT line, CAST(problem AS problem_name) AS problem,
  CAST(contestant AS contestant_name) AS contestant, row_number() OVER (ORDER BY run_key) AS place
FROM named

-- == runs
-- an instance has its sizes whatever became of a run, and whichever version wrote the row
WITH of_problem AS (
  SELECT problem, struct_pack({sizes}) AS sizes
  FROM sweep_rows r JOIN placed ON placed.line = r.rowid GROUP BY problem
)
SELECT run_key, sweep, factors, instance, instance_sha256, num_tasks, num_nodes,
  method, family, kind, coalesce(seed, 0) AS seed,
  host, versions, started_at, outcome, error, exit_code, termination, feasible, repaired,
  objective_name, sense, bound_of, trace,
  coalesce(array_to_string(list_sort(ignored), ', '), '') AS ignored,
  finite(objective) AS objective, finite(bound) AS bound,
  finite(certified_bound) AS certified_bound, bound_by AS said_by,
  drained, {figures},
  coalesce(finite(time_build), 0) + finite(time_solve) AS seconds,
  problem, contestant,
  CASE
    WHEN outcome = 'error' AND regexp_matches(error, '{unsuitable}') THEN 'not applicable'
    WHEN outcome IN ('crash', 'timeout', 'memory') THEN outcome
    WHEN outcome <> 'ok' THEN 'error'
    WHEN termination = 'error' THEN 'error'
    WHEN feasible AND termination = 'optimal' AND coalesce(bound_of, 'problem') = 'problem'
      AND finite(objective) IS NOT NULL THEN 'proved optimal'
    WHEN feasible THEN 'plan'
    WHEN NOT feasible THEN 'refused plan'
    WHEN termination = 'infeasible' THEN 'proven infeasible'
    ELSE 'no plan' END AS verdict,
  sizes, place
FROM sweep_rows r JOIN placed ON placed.line = r.rowid JOIN of_problem USING (problem)

-- ==== graded: what runs are graded by

-- == infeasible_problems
SELECT problem, list(DISTINCT contestant ORDER BY contestant) AS infeasible_by
FROM runs WHERE verdict = 'proven infeasible' GROUP BY problem

-- == own_objectives
SELECT contestant, max(objective_name) AS own_objective FROM runs GROUP BY contestant

-- == judged
SELECT r.* EXCLUDE (objective_name), coalesce(objective_name, own_objective) AS objective_name,
  infeasible_by IS NOT NULL AS none_exists,
  verdict IN ('proved optimal', 'plan') AS has_plan
FROM runs r JOIN own_objectives USING (contestant) LEFT JOIN infeasible_problems USING (problem)

-- == claims
-- a proof of optimality is a bound too, should its row hold none
SELECT problem, objective_name, sense, contestant, seed, run_key, instance,
  verdict = 'proved optimal' AS proved,
  CASE WHEN verdict IN ('proved optimal', 'plan') THEN objective END AS objective, sizes,
  CASE WHEN bound_of = 'problem' AND verdict <> 'error' THEN bound
    WHEN bound IS NULL AND verdict = 'proved optimal' THEN objective END AS bound
FROM runs
WHERE outcome = 'ok' AND objective_name IS NOT NULL AND sense IN ('max', 'min')

-- == measured
SELECT problem, contestant, seed, run_key, instance, verdict, outcome, has_plan, none_exists,
  objective_name, bound, bound_of, certified_bound, said_by, collocation_factor, total_traffic,
  num_tasks, seconds, sizes, place, m.metric, m.metric_sense,
  CASE WHEN has_plan THEN CASE m.metric {values} END END AS value
FROM judged CROSS JOIN (VALUES {metrics}) m(metric, metric_sense)

-- ==== compared: what is asked about runs that do not contradict each other

-- == reference
SELECT problem, objective_name,
  CASE min(sense) WHEN 'max' THEN min(bound) ELSE max(bound) END AS best_bound,
  first(contestant ORDER BY CASE sense WHEN 'max' THEN bound ELSE -bound END, contestant)
    FILTER (WHERE bound IS NOT NULL) AS bound_by,
  CASE min(sense) WHEN 'max' THEN max(objective) FILTER (WHERE proved)
    ELSE min(objective) FILTER (WHERE proved) END AS optimum,
  known(contestant, proved) AS proved_by,
  CASE min(sense) WHEN 'max' THEN max(objective) ELSE min(objective) END AS best_known
FROM claims GROUP BY problem, objective_name

-- == compared
SELECT j.*, best_bound, optimum, best_known,
  CASE WHEN has_plan THEN gap_share(objective_name, objective, best_bound, sizes) END AS gap_bound,
  CASE WHEN has_plan THEN gap_share(objective_name, objective, optimum, sizes) END AS gap_optimum,
  CASE WHEN has_plan THEN gap_share(objective_name, objective, best_known, sizes) END AS gap_known,
  has_plan AND abs(objective - best_known)
    <= tolerance(objective_name, objective, best_known, sizes) AS is_best
FROM judged j LEFT JOIN reference USING (problem, objective_name)
WHERE objective_name IS NOT NULL

-- == best_measured
SELECT problem, metric,
  CASE min(metric_sense) WHEN 'max' THEN max(value) ELSE min(value) END AS best_known
FROM measured GROUP BY problem, metric

-- == evaluated
SELECT m.* EXCLUDE (run_key, instance), r.best_bound, r.optimum, b.best_known,
  gap_share(m.metric, value, r.best_bound, sizes) AS gap_bound,
  gap_share(m.metric, value, r.optimum, sizes) AS gap_optimum,
  CASE WHEN m.objective_name = m.metric
    THEN gap_share(m.metric, value, certified_bound, sizes) END AS gap_certified,
  gap_share(m.metric, value, b.best_known, sizes) AS gap_known,
  share_of(value, r.optimum) AS of_optimum,
  abs(value - b.best_known) <= tolerance(m.metric, value, b.best_known, sizes) AS is_best
FROM measured m
LEFT JOIN reference r ON r.problem = m.problem AND r.objective_name = m.metric
LEFT JOIN best_measured b ON b.problem = m.problem AND b.metric = m.metric

-- == cells
-- per metric, contestant and case
SELECT metric, contestant, problem, count(*) AS runs,
  bool_or(NOT none_exists AND verdict <> 'not applicable') AS suited,
  count(*) FILTER (WHERE has_plan) AS plans,
  count(*) FILTER (WHERE verdict = 'proved optimal' AND objective_name = metric) AS proved,
  array_to_string(known(verdict, true), ',') AS verdicts,
  ordered_mean(value) AS value,
  ordered_mean(CASE WHEN has_plan THEN collocation_factor END) AS collocation_factor,
  ordered_mean(of_optimum) AS of_optimum, min(of_optimum) AS worst_of_optimum,
  ordered_mean(gap_bound) AS gap_bound, max(gap_bound) AS worst_gap_bound,
  ordered_mean(gap_optimum) AS gap_optimum, max(gap_optimum) AS worst_gap_optimum,
  ordered_mean(gap_known) AS gap_known, max(gap_known) AS worst_gap_known,
  ordered_mean(gap_certified) AS gap_certified, count(*) FILTER (WHERE is_best) AS best,
  array_to_string(known(CASE WHEN own_bound IS NOT NULL THEN said_by END, true), ',') AS said_by,
  CASE WHEN min(metric_sense) = 'max' THEN min(own_bound) ELSE max(own_bound) END AS own_bound,
  CASE WHEN min(metric_sense) = 'max' THEN min(certified) ELSE max(certified) END AS certified,
  ordered_mean(CASE WHEN outcome = 'ok' THEN seconds END) AS seconds
FROM (SELECT *, CASE WHEN objective_name = metric AND bound_of = 'problem' THEN bound END
  AS own_bound, CASE WHEN objective_name = metric THEN certified_bound END AS certified
  FROM evaluated)
GROUP BY metric, contestant, problem

-- ==== of_metrics: asked about every metric, once for all: each row names its `metric`

-- == status
-- per metric and case: what is known
WITH found AS (
SELECT metric, problem, max(best_bound) AS best_bound, max(optimum) AS optimum,
  max(best_known) AS best_known,
  count(*) FILTER (WHERE objective_name = metric AND verdict = 'proved optimal'
    AND said_by = 'certificate') > 0 AS certified,
  max(total_traffic) AS total_traffic, max(gap_known) AS worst_gap,
  known(contestant, is_best) AS best_by
FROM evaluated GROUP BY metric, problem)
SELECT f.*, bound_by, proved_by FROM found f
LEFT JOIN reference r ON r.problem = f.problem AND r.objective_name = f.metric
ORDER BY f.metric, f.problem

-- == contestants
-- per metric and contestant: averaged over the cases where it has a plan
SELECT metric, contestant, ordered_mean(value) AS value,
  ordered_mean(collocation_factor) AS collocation_factor,
  ordered_mean(of_optimum) AS of_optimum, min(worst_of_optimum) AS worst_of_optimum,
  ordered_mean(gap_bound) AS gap_bound, max(worst_gap_bound) AS worst_gap_bound,
  count(gap_bound) AS num_gap_bound,
  ordered_mean(gap_optimum) AS gap_optimum, max(worst_gap_optimum) AS worst_gap_optimum,
  count(gap_optimum) AS num_gap_optimum,
  ordered_mean(gap_known) AS gap_known, max(worst_gap_known) AS worst_gap_known,
  count(gap_known) AS num_gap_known,
  CAST(sum(best) AS BIGINT) AS best
FROM cells WHERE suited GROUP BY metric, contestant
ORDER BY metric, contestant

-- == best
-- the virtual best of a metric: on each case the best plan of any contestant
WITH best AS (
  SELECT metric, problem, max(best_known) AS value, max(optimum) AS optimum,
    max(collocation_factor) FILTER (WHERE is_best) AS collocation_factor,
    min(seconds) FILTER (WHERE is_best) AS seconds, max(sizes) AS sizes
  FROM evaluated WHERE NOT none_exists AND verdict <> 'not applicable'
  GROUP BY metric, problem)
SELECT metric, ordered_mean(value) AS value, ordered_mean(collocation_factor) AS collocation_factor,
  ordered_mean(gap_share(metric, value, optimum, sizes)) AS gap_optimum,
  max(gap_share(metric, value, optimum, sizes)) AS worst_gap_optimum,
  ordered_mean(share_of(value, optimum)) AS of_optimum,
  min(share_of(value, optimum)) AS worst_of_optimum,
  shifted_mean(seconds, $shift) AS seconds, count(value) AS plans, count(*) AS runs,
  count(optimum) AS proved
FROM best GROUP BY metric

-- == profiled
-- the number of cases in the two profiles
SELECT metric, count(DISTINCT problem) AS measured,
  count(DISTINCT CASE WHEN verdict = 'proved optimal' AND objective_name = metric AND seconds > 0
    THEN problem END) AS proved
FROM evaluated WHERE best_known IS NOT NULL GROUP BY metric

-- == sizes
-- the gap to the best proven bound by the number of tasks
WITH sized AS (
  SELECT *, CASE WHEN $buckets THEN CAST(pow(2, floor(log2(num_tasks))) AS BIGINT)
    ELSE num_tasks END AS size
  FROM evaluated WHERE NOT none_exists AND num_tasks > 0)
SELECT metric, contestant, size, count(DISTINCT problem) AS cases, count(gap_bound) AS runs,
  ordered_mean(gap_bound) AS gap_bound, max(gap_bound) AS worst_gap_bound
FROM sized GROUP BY metric, contestant, size HAVING count(gap_bound) > 0
ORDER BY metric, contestant, size

-- ==== of_metric: asked about one, `$metric`: columns that grow with the rows of the sweep

-- == cells
SELECT enum_code(contestant) AS contestant, enum_code(problem) AS problem, runs, plans, proved,
  verdicts, value, collocation_factor, gap_bound, gap_optimum, gap_known, gap_certified,
  said_by, own_bound, certified, seconds
FROM cells WHERE metric = $metric ORDER BY contestant, problem

-- == ratios
-- how far each plan is from the best known: ratio, or gap where that is a difference
WITH graded AS (
  SELECT contestant, count(*) OVER (PARTITION BY contestant, problem) AS tries,
    CASE WHEN value IS NULL THEN NULL
      WHEN is_percent(metric) THEN gap_share(metric, value, best_known, sizes)
      WHEN best_known = value THEN 1 WHEN value <= 0 THEN NULL
      ELSE best_known / value END AS ratio
  FROM evaluated WHERE best_known IS NOT NULL AND metric = $metric)
SELECT enum_code(contestant) AS contestant, ratio, tries, count(*) AS runs
FROM graded WHERE ratio IS NOT NULL
GROUP BY contestant, ratio, tries ORDER BY contestant, ratio, tries

-- == proof_ratios
-- how much longer than the fastest proof of the same case each proof took
WITH proofs AS (
  SELECT contestant, problem, count(*) OVER (PARTITION BY contestant, problem) AS tries,
    CASE WHEN verdict = 'proved optimal' THEN seconds END AS seconds
  FROM compared WHERE NOT none_exists AND objective_name = $metric),
graded AS (SELECT *, min(seconds) OVER (PARTITION BY problem) AS fastest FROM proofs)
SELECT enum_code(contestant) AS contestant, seconds / fastest AS ratio, tries, count(*) AS runs
FROM graded WHERE seconds IS NOT NULL AND fastest > 0
GROUP BY contestant, ratio, tries ORDER BY contestant, ratio, tries

-- == runs
-- every run on a case that may have a plan, for comparisons in pairs
SELECT enum_code(contestant) AS contestant, enum_code(problem) AS problem, seed, has_plan, value,
  collocation_factor, tolerance(metric, value, value, sizes) AS noise
FROM evaluated WHERE NOT none_exists AND verdict <> 'not applicable' AND metric = $metric
ORDER BY contestant, problem, seed, place

-- ==== of_objective: asked about one, `$objective`

-- == anytime
-- the gaps to the best proven bound that each run had, and when; its last one even if unknown
WITH stated AS (
  SELECT contestant, objective_name, place, best_bound, sizes, has_plan,
    list_append(
      [e for e in coalesce(trace, [])
        if has_plan AND e.incumbent IS NOT NULL AND e.seconds <= seconds],
      struct_pack(seconds := seconds, incumbent := objective, bound := bound)) AS events
  FROM compared
  WHERE objective_name = $objective AND NOT none_exists AND best_bound IS NOT NULL
    AND verdict <> 'not applicable'),
steps AS (
  SELECT * EXCLUDE (events), unnest(events) AS event, generate_subscripts(events, 1) AS step
  FROM stated)
SELECT enum_code(contestant) AS contestant, place, event.seconds AS seconds,
  CASE WHEN has_plan THEN gap_share(objective_name, event.incumbent, best_bound, sizes) END AS gap
FROM steps ORDER BY contestant, place, step

-- ==== of_sweep: asked about all of it, in one row

-- == sweep
SELECT known(sweep, true) AS sweeps, known(objective_name, true) AS objectives,
  count(*) AS num_runs,
  count(DISTINCT contestant) AS num_contestants, known(host, true) AS hosts,
  count(DISTINCT CASE WHEN NOT none_exists THEN num_tasks END) AS num_sizes,
  known(versions, true) AS versions,
  strftime(min(started_at), '%Y-%m-%d %H:%M') AS first_start,
  strftime(max(started_at), '%Y-%m-%d %H:%M') AS last_start,
  quantile_disc(seconds, 0.5) AS median_seconds,
  min(first_seconds) FILTER (WHERE first_seconds > 0) AS least_seconds,
  max(seconds) AS most_seconds
FROM (SELECT *, least(seconds, list_min([e.seconds for e in trace])) AS first_seconds
  FROM judged)

-- ==== of_runs: what is asked besides

-- == contestants
SELECT contestant, min(method) AS method, min(family) AS family, min(kind) AS kind,
  min(objective_name) AS objective_name, count(*) AS runs,
  count(*) FILTER (WHERE has_plan) AS plans,
  count(*) FILTER (WHERE NOT none_exists AND verdict <> 'not applicable') AS solvable,
  count(*) FILTER (WHERE verdict = 'proved optimal') AS proved,
  count(*) FILTER (WHERE verdict = 'proved optimal' AND said_by = 'certificate') AS certified,
  count(*) FILTER (WHERE verdict = 'plan') AS unproved,
  count(*) FILTER (WHERE verdict = 'refused plan') AS refused,
  count(*) FILTER (WHERE verdict = 'proven infeasible') AS infeasible,
  count(*) FILTER (WHERE verdict = 'no plan' AND NOT none_exists) AS no_plan,
  count(*) FILTER (WHERE verdict = 'no plan' AND none_exists) AS none_exists,
  count(*) FILTER (WHERE verdict = 'not applicable') AS not_applicable,
  count(*) FILTER (WHERE verdict = 'error') AS error,
  count(*) FILTER (WHERE verdict = 'crash') AS crash,
  count(*) FILTER (WHERE verdict = 'timeout') AS timeout,
  count(*) FILTER (WHERE verdict = 'memory') AS memory,
  count(*) FILTER (WHERE repaired) AS repaired,
  count(*) FILTER (WHERE has_plan AND NOT drained) AS undrained,
  shifted_mean(CASE WHEN outcome = 'ok' THEN seconds END, $shift) AS seconds,
  max(CASE WHEN outcome = 'ok' THEN seconds END) AS most_seconds
FROM judged GROUP BY contestant ORDER BY contestant

-- == infeasible
SELECT problem, infeasible_by FROM infeasible_problems ORDER BY problem

-- == own_gaps
-- per objective and contestant: the three gaps, mean over cases and worst run
WITH per_case AS (
  SELECT objective_name, contestant, problem,
    ordered_mean(gap_bound) AS gap_bound, max(gap_bound) AS worst_gap_bound,
    ordered_mean(gap_optimum) AS gap_optimum, max(gap_optimum) AS worst_gap_optimum,
    ordered_mean(gap_known) AS gap_known, max(gap_known) AS worst_gap_known,
    count(*) AS runs, count(*) FILTER (WHERE has_plan) AS plans,
    count(*) FILTER (WHERE verdict = 'proved optimal') AS proved,
    count(*) FILTER (WHERE is_best) AS best
  FROM compared WHERE NOT none_exists AND verdict <> 'not applicable'
  GROUP BY objective_name, contestant, problem)
SELECT objective_name, contestant,
  ordered_mean(gap_bound) AS gap_bound, max(worst_gap_bound) AS worst_gap_bound,
  count(gap_bound) AS num_gap_bound,
  ordered_mean(gap_optimum) AS gap_optimum, max(worst_gap_optimum) AS worst_gap_optimum,
  count(gap_optimum) AS num_gap_optimum,
  ordered_mean(gap_known) AS gap_known, max(worst_gap_known) AS worst_gap_known,
  count(gap_known) AS num_gap_known, count(*) AS cases,
  CAST(sum(runs) AS BIGINT) AS runs, CAST(sum(plans) AS BIGINT) AS plans,
  CAST(sum(proved) AS BIGINT) AS proved, CAST(sum(best) AS BIGINT) AS best
FROM per_case GROUP BY objective_name, contestant
ORDER BY objective_name, contestant

-- == own_best
-- per objective: what the best contestant on each case reaches, and its least time there
WITH best AS (
  SELECT objective_name, problem, min(seconds) FILTER (WHERE is_best) AS seconds,
    gap_share(objective_name, max(best_known), max(best_bound), max(sizes)) AS gap_bound,
    gap_share(objective_name, max(best_known), max(optimum), max(sizes)) AS gap_optimum,
    count(*) FILTER (WHERE verdict = 'proved optimal') > 0 AS proved,
    count(*) FILTER (WHERE has_plan) > 0 AS has_plan
  FROM compared WHERE NOT none_exists AND verdict <> 'not applicable'
  GROUP BY objective_name, problem)
SELECT objective_name, ordered_mean(gap_bound) AS gap_bound, max(gap_bound) AS worst_gap_bound,
  ordered_mean(gap_optimum) AS gap_optimum, max(gap_optimum) AS worst_gap_optimum,
  count(*) AS runs, count(*) FILTER (WHERE has_plan) AS plans,
  count(*) FILTER (WHERE proved) AS proved, shifted_mean(seconds, $shift) AS seconds
FROM best GROUP BY objective_name ORDER BY objective_name

-- == failed
SELECT contestant, problem, seed, outcome, verdict, exit_code, error, run_key FROM judged
WHERE verdict IN ('error', 'crash', 'timeout', 'memory')
ORDER BY contestant, problem, seed, run_key

-- == without_plan
SELECT contestant, problem, seed, verdict, error FROM judged
WHERE NOT has_plan AND NOT none_exists AND verdict <> 'not applicable'
ORDER BY contestant, problem, seed, run_key

-- == not_applicable
SELECT contestant, error, count(*) AS runs FROM judged
WHERE verdict = 'not applicable' GROUP BY contestant, error ORDER BY contestant, error

-- == chosen
-- per case the best plan by the objective that most runs have; any run where there is no plan
WITH asked AS (SELECT objective_name, count(*) AS runs FROM compared GROUP BY objective_name),
ranked AS (
  SELECT problem, instance_sha256, ignored, run_key, contestant, method, has_plan, none_exists,
    objective_name, best_bound, row_number() OVER (PARTITION BY problem ORDER BY has_plan DESC,
      coalesce(asked.runs, 0) DESC, objective_name, CASE sense WHEN 'max' THEN -objective
      ELSE objective END NULLS LAST, contestant, seed, run_key) AS position
  FROM judged LEFT JOIN asked USING (objective_name)
  LEFT JOIN reference USING (problem, objective_name))
SELECT * EXCLUDE (position) FROM ranked WHERE position = 1 ORDER BY problem

-- ==== contradictions: runs that cannot both be right, or one that cannot

-- == optima
-- each proven optimum against the best of them
WITH proved AS (
  SELECT problem, objective_name, sense, objective, sizes,
    run_of(contestant, seed, run_key, instance) AS run
  FROM claims WHERE proved AND objective IS NOT NULL),
best AS (
  SELECT problem, objective_name, CASE min(sense)
      WHEN 'max' THEN first(struct_pack(objective := objective, run := run)
        ORDER BY objective DESC, run DESC)
      ELSE first(struct_pack(objective := objective, run := run)
        ORDER BY objective, run) END AS best
  FROM proved GROUP BY problem, objective_name)
SELECT p.problem, p.objective_name, p.run AS first, p.objective AS first_value,
  best.run AS second, best.objective AS second_value
FROM proved p JOIN best USING (problem, objective_name)
WHERE abs(p.objective - best.objective)
  > tolerance(objective_name, p.objective, best.objective, p.sizes)
ORDER BY problem, objective_name, first

-- == bound
-- every feasible plan, measured by any objective, against the tightest bound proved on it
WITH plans AS (
  SELECT problem, objective_name, objective AS value, sizes, contestant, seed, run_key, instance
  FROM claims WHERE objective IS NOT NULL
  UNION ALL
  SELECT problem, metric, value, sizes, contestant, seed, run_key, instance
  FROM measured WHERE value IS NOT NULL),
bounds AS (
  SELECT problem, objective_name, min(sense) AS sense, CASE min(sense)
      WHEN 'max' THEN first(struct_pack(bound := bound, run := run) ORDER BY bound, run)
      ELSE first(struct_pack(bound := bound, run := run) ORDER BY bound DESC, run DESC)
      END AS tightest
  FROM (SELECT *, run_of(contestant, seed, run_key, instance) AS run
    FROM claims WHERE bound IS NOT NULL)
  GROUP BY problem, objective_name)
SELECT DISTINCT p.problem, p.objective_name, run_of(contestant, seed, run_key, instance) AS first,
  p.value AS first_value, tightest.run AS second, tightest.bound AS second_value
FROM plans p JOIN bounds USING (problem, objective_name)
WHERE beats(objective_name, p.value, tightest.bound, p.sizes)
ORDER BY problem, objective_name, first

-- == infeasible
-- feasible plans of a problem that another run proved to have none
WITH refused AS (
  SELECT problem, first(run_of(contestant, seed, run_key, instance)
    ORDER BY contestant, seed, run_key) AS second
  FROM runs WHERE verdict = 'proven infeasible' GROUP BY problem)
SELECT problem, '' AS objective_name, run_of(contestant, seed, run_key, instance) AS first,
  CAST(NULL AS DOUBLE) AS first_value, second, CAST(NULL AS DOUBLE) AS second_value
FROM judged JOIN refused USING (problem) WHERE has_plan ORDER BY problem, first

-- == own bound
-- runs that claim a proven optimum away from their own bound
SELECT problem, objective_name, run_of(contestant, seed, run_key, instance) AS first,
  objective AS first_value, run_of(contestant, seed, run_key, instance) AS second,
  bound AS second_value
FROM claims
WHERE proved AND abs(objective - bound) > tolerance(objective_name, objective, bound, sizes)
ORDER BY problem, objective_name, first
