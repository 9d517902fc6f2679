# %% [markdown]
r"""
(chapter-comparison)=
# Do the benchmarks agree?

**Question.** Four benchmarks each say which heatmaps are good. If the *same* methods, with the *same* options, go through all four: do they get the same answer?

A paper that proposes a method shows the benchmark that it wins.
That is fair if benchmarks measure one thing, faithfulness, and differ in detail only.
Then the {term}`rank <rank interval>` of a method would hardly depend on which benchmark was asked.

Two rankings of $M$ methods are compared by Kendall's $\tau$, the share of pairs of methods that both put in the same order less the share that they order oppositely {cite}`kendall1938new`,

```{math}
:label: eq-tau
\tau = \frac{n_\text{alike} - n_\text{opposite}}{M (M - 1) / 2},
```

1 for equal rankings, $-1$ for reversed ones, about 0 for unrelated ones.
Several rankings at once are compared by Kendall's $W$, between 0 and 1 {cite}`kendall1939problem`,

```{math}
:label: eq-concordance
W = \frac{12 \sum_m (R_m - \bar R)^2}{K^2 (M^3 - M)},
```

where $R_m$ is the sum of the ranks of method $m$ over $K$ rankings (corrected for ties).

The figures show one image with all maps and verdicts first, then all ranks, then how far metrics agree, where they contradict each other, and what explains it: chance, smoothness, too few images, or a different question.
"""

# %% tags=["hide-input"]
from heatcheck.benchmarks import (
    comparison,
    comparison_chance,
    comparison_clusters,
    comparison_columns,
    comparison_conflicts,
    comparison_decisions,
    comparison_examples,
    comparison_findings,
    comparison_published,
    comparison_signs,
    comparison_stability,
    comparison_summary,
    comparison_tables,
    comparison_text,
    kept_runs,
)
from heatcheck.figures import comparison as figures
from heatcheck.figures import comparison_baselines as baselines
from heatcheck.figures.common import notice
from heatcheck.figures.comparison_examples import verdict_figure
from heatcheck.figures.comparison_published import published_figure
from heatcheck.figures.export import export_figure, export_table
from heatcheck.figures.results import record
from heatcheck.figures.style import use_style
from heatcheck.runtime.store import ResultsStore

use_style()

# %% tags=["parameters"]
preset: str = "quick"  # name of the row in nbs/presets.toml
out: str = "book/results/comparison/latest"  # folder of the exported figures and tables
store: str = ".cache/store"  # folder of the results store
kept: str = "book/results/comparison/embedded-3-seeds"  # folder of a larger run that is shown beside this one
methods: list[str] = [
    "gradient",
    "integrated-gradients",
    "grad-cam",
    "random",
    "sobel",
]  # registered methods and controls
options: dict[str, dict[str, int | float | str | bool | list[int | float | str]]] = {}  # options, by method
plugins: list[str] = []  # Python files that register methods or models of your own
benchmarks: list[str] = ["clevr_xai", "deletion", "idsds", "roar"]  # which benchmarks are run
classifiers: list[str] = ["small/resnet8"]  # explained by deletion and single deletion, the main one first
tuned: dict[str, str] = {"small/resnet8": "small/resnet8-tuned"}  # the same after fine-tuning with deletion
clevr_xai: dict[str, int | float | str | bool | list[int | str]] = {}  # settings of CLEVR-XAI alone
deletion: dict[str, int | float | str | bool | list[int | str] | dict[str, str]] = {}  # of deletion alone
idsds: dict[str, int | float | str | bool | list[int | str] | dict[str, str]] = {}  # of single deletion alone
roar: dict[str, int | float | str | bool | list[int | str]] = {}  # of remove and retrain alone
seeds: list[int] = [0]  # seeds of stochastic methods, the main one first
n_splits: int = 50  # random halves of the images in the test of stability
seed: int = 0  # seed of bootstrap and random rankings
device: str = "auto"  # auto, cpu, cuda, cuda:<index>
workers: int = 0  # processes that compute on a CPU; 0 is one per core
on: str = "local"  # where cells are computed: local, or a Ray cluster: ray, ray://HOST:PORT
memory: str | None = None  # extra memory to use, such as "512MB"

# %% [markdown]
r"""
## Same methods, same options

{{ comparison.n_methods }} methods and {{ comparison.n_controls }} {term}`controls <control>` go through {{ comparison.n_benchmarks }} benchmarks with {{ comparison.n_metrics }} metrics between them.
A method has one set of options, whatever the chapters chose for it.
What a benchmark does to a map afterwards, such as joining channels, dropping signs or summing over patches, is part of that benchmark and stays as its chapter has it.

The definitions are those of the chapters: {doc}`CLEVR-XAI <clevr_xai>`, {doc}`deletion and localization <deletion>`, {doc}`single deletion <idsds>`, and {doc}`remove and retrain <roar>`, of which the areas over the random ranking count.

One call runs all of it; whatever a chapter has computed with the same settings is read from the results store.
"""

# %%
names = comparison.Settings.model_fields
settings = comparison.Settings(**{name: value for name, value in globals().items() if name in names})
results = comparison.run(settings, ResultsStore(store))
columns = results.columns
main = comparison_columns.main_columns(columns)
groups = comparison_tables.metric_groups(columns)

# %% tags=["hide-input", "remove-output"]
export_table(
    comparison_text.metric_text(columns), f"{out}/metrics", caption="The metrics.", label="tab:comparison-metrics"
)  # fmt: skip
example = comparison_examples.example(results)
verdicts = comparison_examples.benchmark_ranks(columns, with_controls=True).drop(
    columns=comparison_tables.MEAN_RANK
)
export_figure(verdict_figure(example.picture, example.maps, verdicts), f"{out}/verdicts", verdicts)
export_table(
    comparison_text.refusal_text(results.refused), f"{out}/refused", caption="What a benchmark cannot take.", label="tab:comparison-refused"
)  # fmt: skip

# %% [markdown]
r"""
:::{csv-table} The metrics: what each asks of a heatmap, an arrow to where it is better, the network that is explained, the images, and how often every ranking was retrained.
:name: tab-comparison-metrics
:file: ../results/comparison/latest/metrics.csv
:header-rows: 1
:::

:::{figure} ../results/comparison/latest/verdicts.svg
:name: fig-comparison-verdicts
:alt: One rendered scene and a grid of heatmaps of it, one per method; below each map a strip of four cells with its rank in the four benchmarks, dark for good ranks.

One scene, its heatmaps, and the mean rank of each *method* in the four benchmarks (over all their images, controls included; dark is good): C for CLEVR-XAI, D for deletion and localization, S for single deletion, R for remove and retrain. Before reading on: which map would you trust, and which strip says the same?
:::

:::{csv-table} Methods that a benchmark cannot take, and why.
:name: tab-comparison-refused
:file: ../results/comparison/latest/refused.csv
:header-rows: 1
:::

## All ranks

"""

# %% tags=["hide-input", "remove-output"]
ranks = comparison_tables.rank_table(columns, with_controls=True)
export_figure(figures.rank_figure(ranks, groups), f"{out}/ranks", ranks.reset_index())
export_table(
    comparison_text.glance_text(columns, seed=seed), f"{out}/glance", caption="One metric per benchmark.", label="tab:comparison-glance"
)  # fmt: skip
scores = comparison_tables.score_table(columns, seed=seed)
export_table(
    scores, f"{out}/scores", caption="All scores and ranks.", label="tab:comparison-scores", digits=4
)
kept_ranks = kept_runs.kept_table(kept, "all_ranks")
export_table(
    ranks.reset_index(), f"{out}/all_ranks", caption="All ranks.", label="tab:comparison-ranks", digits=2
)
export_figure(
    figures.rank_figure(kept_ranks.set_index("method"), comparison_text.groups_of(kept_ranks.columns))
    if len(kept_ranks)
    else notice("no larger run is kept yet"),
    f"{out}/kept_ranks",
)

# %% [markdown]
r"""
:::{figure} ../results/comparison/latest/ranks.svg
:name: fig-comparison-ranks
:alt: A table of ranks as colored cells, one row per method and one column per metric, grouped by benchmark.

Rank of every method by every metric; 1, darkest, is best, controls in italics below. A benchmark-free notion of a good heatmap would be rows of one color. *Mean rank* is over the benchmarks that take the method, each the mean over its metrics.
:::

*{{ comparison.best }}* has the best mean rank, {{ "%.1f" | format(comparison.best_rank) }}; its worst place by any metric is {{ "%g" | format(comparison.best_worst_rank) }}.
*{{ comparison.widest }}* has the widest range: place {{ "%g" | format(comparison.widest_best) }} by one metric, {{ "%g" | format(comparison.widest_worst) }} by another (among {{ comparison.n_methods }} methods).
{{ comparison.n_always_top }} of {{ comparison.n_methods }} methods are in the best quarter by every metric that scores them.

:::{csv-table} One metric of each benchmark with 95 % intervals over images (and runs). Arrows say which direction is better. A *constant* map has no order: where pixels are removed it goes row by row from the top, so it shows what a compact hole does; single deletion gives it no score.
:name: tab-comparison-glance
:file: ../results/comparison/latest/glance.csv
:header-rows: 1
:::

:::{figure} ../results/comparison/latest/kept_ranks.svg
:name: fig-comparison-kept-ranks
:alt: The same table of ranks for the larger run that is kept with the book.

The same for the larger run that is kept with the book.
:::

## Do they agree?

"""

# %% tags=["hide-input", "remove-output"]
agreement = comparison_tables.agreement_table(main, seed=seed)
square = comparison_tables.matrix(agreement)
band = [comparison_tables.matrix(agreement, f"chance_{end}") for end in ("low", "high")]
export_figure(figures.agreement_figure(square, groups, band), f"{out}/agreement_matrix")
export_table(
    agreement,
    f"{out}/agreement",
    caption="Agreement of all pairs of metrics.",
    label="tab:comparison-agreement",
)
export_table(
    comparison_text.agreement_text(agreement), f"{out}/headline_agreement", caption="Agreement of one metric per benchmark.", label="tab:comparison-headline"
)  # fmt: skip
concordance = comparison_tables.concordance_table(columns, seed=seed)
export_table(
    comparison_text.concordance_text(concordance), f"{out}/concordance", caption="Kendall's W.", label="tab:comparison-concordance"
)  # fmt: skip
kept_pairs = kept_runs.kept_table(kept, "agreement")
if len(kept_pairs):
    kept_square, *kept_band = (
        comparison_tables.matrix(kept_pairs, name) for name in ("kendall", "chance_low", "chance_high")
    )
    larger = figures.agreement_figure(kept_square, comparison_text.groups_of(kept_square.columns), kept_band)
else:
    larger = notice("no larger run is kept yet")
export_figure(larger, f"{out}/kept_agreement")

# %% [markdown]
r"""
:::{figure} ../results/comparison/latest/agreement_matrix.svg
:name: fig-comparison-agreement
:alt: A square of all metrics by all metrics colored by Kendall's tau, red for agreement and blue for reversed order, with blocks for the four benchmarks.

Kendall's $\tau$ between the rankings of {{ comparison.n_methods }} methods by every two metrics, controls left out. Pale cells with gray numbers are what two random rankings give 95 times in 100. Blocks on the diagonal belong to one benchmark.
:::

Of {{ comparison.n_pairs }} pairs of metrics of *different* benchmarks, {{ comparison.n_agreeing }} agree more than random rankings do, {{ comparison.n_like_random }} lie within what random rankings give, and {{ comparison.n_opposed }} are opposed more than random rankings are.

:::{csv-table} One metric of each benchmark: rank correlations over methods with 95 % bootstrap intervals over images.
:name: tab-comparison-headline
:file: ../results/comparison/latest/headline_agreement.csv
:header-rows: 1
:::

:::{csv-table} Kendall's W, {eq}`eq-concordance`, of several rankings at once, its 95 % interval over images, and what random rankings reach in 95 of 100 cases. The last rows are a benchmark's own metrics.
:name: tab-comparison-concordance
:file: ../results/comparison/latest/concordance.csv
:header-rows: 1
:::

:::{figure} ../results/comparison/latest/kept_agreement.svg
:name: fig-comparison-kept-agreement
:alt: The square of Kendall's tau for the larger run that is kept with the book.

The same for the larger run.
:::

## Where they contradict each other

A low $\tau$ may be noise: two methods that are equally good are ordered by chance.
So count only pairs of methods that *both* metrics decide, with a 95 % interval of the paired difference that excludes zero, and see how many of those they decide oppositely.
No reader of either benchmark alone would have doubted the answer.
"""

# %% tags=["hide-input", "remove-output"]
contradictions = comparison_conflicts.benchmark_contradictions(columns, seed=seed)
export_figure(figures.contradiction_figure(contradictions), f"{out}/contradictions", contradictions)
export_table(
    comparison_text.contradiction_text(contradictions), f"{out}/opposed", caption="Contradictions between benchmarks.", label="tab:comparison-opposed"
)  # fmt: skip
by_metric = comparison_conflicts.contradiction_table(columns, seed=seed)
export_table(
    by_metric,
    f"{out}/opposed_metrics",
    caption="Contradictions between metrics.",
    label="tab:comparison-opposed-metrics",
)
by_method = comparison_conflicts.method_contradictions(columns, seed=seed)
export_table(
    by_method,
    f"{out}/opposed_methods",
    caption="Methods that benchmarks contradict each other about.",
    label="tab:comparison-opposed-methods",
)

# %% [markdown]
r"""
:::{figure} ../results/comparison/latest/contradictions.svg
:name: fig-comparison-contradictions
:alt: One bar per pair of benchmarks, split into pairs of methods that both order alike, and pairs that they order oppositely.

Pairs of methods that metrics of two benchmarks both decide: alike, or oppositely. Each two metrics count once.
:::

Of {{ comparison.decided }} such decisions, {{ comparison.contradicted }} are opposite{{ ": %.0f %%" | format(100 * comparison.contradicted_share) if comparison.contradicted_share is not none else "" }}.

:::{csv-table} Contradictions between benchmarks, and the one whose weaker side is strongest.
:name: tab-comparison-opposed
:file: ../results/comparison/latest/opposed.csv
:header-rows: 1
:::

:::{csv-table} How often a method is one of two that benchmarks contradict each other about.
:name: tab-comparison-opposed-methods
:file: ../results/comparison/latest/opposed_methods.csv
:header-rows: 1
:::

## What explains it?

### Smoothness and other plain facts

Some metrics may rank maps by a fact that has nothing to do with the network: how smooth they are, how {term}`concentrated <concentration>`, how {term}`central <centrality>`.
Where a metric agrees with such a ranking, a blurred map may do well by it.
"""

# %% tags=["hide-input", "remove-output"]
smooth = comparison_chance.smoothness_table(columns, results.maps, seed=seed)
export_figure(baselines.smoothness_figure(smooth), f"{out}/smoothness", smooth)
partial = comparison_chance.partial_table(columns, results.maps, seed=seed)
export_table(partial, f"{out}/partial", caption="Agreement given smoothness.", label="tab:comparison-partial")
controls = comparison_chance.control_ranks(columns, seed=seed)
export_table(
    comparison_text.control_text(controls), f"{out}/controls", caption="Methods that a control beats.", label="tab:comparison-controls"
)  # fmt: skip

# %% [markdown]
r"""
:::{figure} ../results/comparison/latest/smoothness.svg
:name: fig-comparison-smoothness
:alt: Three panels for smoothness, concentration and centrality; one row per metric with Kendall's tau between the metric's ranking and the ranking by that fact, with intervals over a gray band of chance.

Kendall's $\tau$ between each metric's ranking of methods and their ranking by a fact about their maps. Right of the gray band: maps that are smooth (concentrated, central) do well. Hollow: as random rankings. Facts are of the maps of the scenes that deletion counts, of the main classifier.
:::

Taking smoothness out by the partial $\tau$ {cite}`kendall1942partial` changes the mean agreement between benchmarks from {{ "%+.2f" | format(comparison.partial.before) if comparison.partial.before is not none else "an unknown value" }} to {{ "%+.2f" | format(comparison.partial.after) if comparison.partial.after is not none else "an unknown value" }}.

Controls are the other baseline: they know no network, so a method that loses to one has shown nothing by that metric.

:::{csv-table} How many of {{ comparison.n_methods }} methods have a worse score than a control, by metric.
:name: tab-comparison-controls
:file: ../results/comparison/latest/controls.csv
:header-rows: 1
:::

### Signs

Where relevance should lie on an object, a benchmark may ask for the size of a map and forget its sign; where patches or pixels are ranked, relevance *against* the class comes last.
Single deletion can be scored both ways, with maps as they are and with their absolute values, on the same images.
"""

# %% tags=["hide-input", "remove-output"]
signs = comparison_signs.sign_table(columns, results.unsigned, seed=seed)
export_table(
    signs,
    f"{out}/sign_agreement",
    caption="Agreement with and without signs.",
    label="tab:comparison-sign-agreement",
)
export_table(
    comparison_text.sign_text(signs), f"{out}/signs", caption="What signs are worth.", label="tab:comparison-signs"
)  # fmt: skip
kept_signs = kept_runs.kept_or_notice(kept_runs.kept_text(kept, "signs"), kept)
export_table(
    kept_signs, f"{out}/kept_signs", caption="The same for the larger run.", label="tab:comparison-kept-signs"
)

# %% [markdown]
r"""
:::{csv-table} Kendall's $\tau$ of single deletion with one metric of each other benchmark, of signed maps and of absolute ones, and the paired difference with its 95 % interval over images. Where it is positive, signs are a part of the disagreement.
:name: tab-comparison-signs
:file: ../results/comparison/latest/signs.csv
:header-rows: 1
:::

:::{csv-table} The same for the larger run.
:name: tab-comparison-kept-signs
:file: ../results/comparison/latest/kept_signs.csv
:header-rows: 1
:::

Retraining has no such switch, but its chapter ranks the same maps with their sign and squared ({numref}`fig-roar-summary`).

### Families of metrics

"""

# %% tags=["hide-input", "remove-output"]
clusters = comparison_clusters.cluster_table(columns, seed=seed)
export_table(
    comparison_text.cluster_text(clusters), f"{out}/clusters", caption="Metrics that are alike.", label="tab:comparison-clusters"
)  # fmt: skip
tree = comparison_clusters.cluster(square)
export_figure(baselines.dendrogram_figure(tree, groups=groups), f"{out}/dendrogram")

# %% [markdown]
r"""
:::{figure} ../results/comparison/latest/dendrogram.svg
:name: fig-comparison-dendrogram
:alt: A tree that joins metrics which rank methods alike near its leaves; markers show the benchmark of each metric.

Metrics joined by how alike they rank methods (average linkage on the share of pairs ordered oppositely). If benchmarks measured one thing each, markers of one shape would sit together.
:::

:::{csv-table} The metric that each metric is most like, and in how many bootstrap resamples it still is. *Group*: the tree cut in two.
:name: tab-comparison-clusters
:file: ../results/comparison/latest/clusters.csv
:header-rows: 1
:::

### Too few images, another network, another seed

Two metrics can hardly agree better than each agrees with itself.
So the same $\tau$ is computed between two halves of the images, and, where there are several, between classifiers, between training runs and between seeds of the methods.
"""

# %% tags=["hide-input", "remove-output"]
stability = comparison_stability.stability_table(columns, agreement, n_splits=n_splits, seed=seed)
export_figure(baselines.stability_figure(stability), f"{out}/stability", stability)
export_table(
    comparison_text.stability_text(stability), f"{out}/self_agreement", caption="Agreement of each metric with itself and with others.", label="tab:comparison-self"
)  # fmt: skip
kept_stability = kept_runs.kept_or_notice(kept_runs.kept_text(kept, "self_agreement"), kept)
export_table(
    kept_stability, f"{out}/kept_self_agreement", caption="The same for the larger run.", label="tab:comparison-kept-self"
)  # fmt: skip

# %% [markdown]
r"""
:::{figure} ../results/comparison/latest/stability.svg
:name: fig-comparison-stability
:alt: One lane per metric with Kendall's tau for other images, another classifier, other training runs, the same benchmark and other benchmarks.

Agreement of each metric with itself (other images, classifier, run or seed) and with others. Large marks are means, small ones single comparisons, gray is chance. Where *other benchmark* lies left of *other images*, benchmarks disagree by more than noise.
:::

:::{csv-table} Mean Kendall's $\tau$ of each metric, by what is compared.
:name: tab-comparison-self
:file: ../results/comparison/latest/self_agreement.csv
:header-rows: 1
:::

:::{csv-table} The same for the larger run.
:name: tab-comparison-kept-self
:file: ../results/comparison/latest/kept_self_agreement.csv
:header-rows: 1
:::

## What the published tables say

Nothing below was run here.
The papers share few methods, seldom a network and images, and never all settings, so the same agreement can only be had where their tables overlap.
"""

# %% tags=["hide-input", "remove-output"]
published = comparison_published.published_pairs()
export_figure(published_figure(published), f"{out}/published", published)
export_table(
    comparison_text.published_text(published), f"{out}/published_pairs", caption="Agreement of published tables.", label="tab:comparison-published"
)  # fmt: skip
export_table(
    comparison_published.published_overlap(), f"{out}/published_overlap", caption="Published scores of shared methods.", label="tab:comparison-overlap"
)  # fmt: skip
export_table(
    comparison_published.published_names(), f"{out}/published_names", caption="Names of methods in the papers.", label="tab:comparison-names"
)  # fmt: skip

# %% [markdown]
r"""
:::{figure} ../results/comparison/latest/published.svg
:name: fig-comparison-published
:alt: One row per pair of published tables with Kendall's tau over the methods that both hold, over the band of chance, which is wide because few methods overlap.

Kendall's $\tau$ of published tables over the methods that both hold; gray is chance for so many methods. **Published values, not ours.**
:::

:::{csv-table} Published tables that share methods. Below three shared methods there is no $\tau$.
:name: tab-comparison-published
:file: ../results/comparison/latest/published_pairs.csv
:header-rows: 1
:::

:::{csv-table} Which published row is taken for which method, and what differs between the papers.
:name: tab-comparison-names
:file: ../results/comparison/latest/published_names.csv
:header-rows: 1
:::

## Does the published finding hold here?

The papers compare methods by their own benchmark; the statements marked *this book* are about benchmarks.
"""

# %% tags=["hide-input", "remove-output"]
found = comparison_findings.findings(columns, results.maps, seed=seed)
found += comparison_signs.sign_findings(signs)
answers = kept_runs.findings_text(found, kept_runs.kept_table(kept, "findings"))
export_table(answers, f"{out}/findings", caption="Which statements hold.", label="tab:comparison-findings")
export_table(
    kept_runs.answers_text(answers), f"{out}/answers", caption="Statements in short.", label="tab:comparison-answers"
)  # fmt: skip
decisions = comparison_decisions.decision_table(
    columns, results.maps, comparison_signs.sign_decisions(signs), seed=seed
)
export_table(
    decisions, f"{out}/decisions", caption="Which method, which benchmark.", label="tab:comparison-decisions"
)
export_table(
    decisions, f"{out}/questions", caption="Which method, which benchmark.", label="tab:comparison-questions",
    columns=["question", "answer", "evidence"],
)  # fmt: skip
kept_decisions = kept_runs.kept_or_notice(kept_runs.kept_text(kept, "decisions"), kept)
kept_decisions = kept_decisions.drop(columns=["about", "source"], errors="ignore")
export_table(
    kept_decisions,
    f"{out}/kept_decisions",
    caption="The same from the larger run.",
    label="tab:comparison-kept-decisions",
)
record(
    out,
    **comparison_summary.quotable(results, agreement, concordance, contradictions),
    partial=comparison_summary.partial_means(partial),
    signs=comparison_signs.sign_taus(signs),
    published=comparison_published.published_numbers(),
    findings={finding.key: finding.answer for finding in found},
    n_asked=len(found),
    n_yes=sum(finding.answer == "yes" for finding in found),
    n_no=sum(finding.answer == "no" for finding in found),
    n_undecided=sum(finding.answer == "undecided" for finding in found),
)

# %% [markdown]
r"""
:::{csv-table} Statements, what this run says about them, and what the larger one says.
:name: tab-comparison-findings
:file: ../results/comparison/latest/answers.csv
:header-rows: 1
:::

What follows for choosing a method or a benchmark is on the page {doc}`Which method, which benchmark? <../decisions>`.

:::{admonition} What to take away
:class: tip
- The four benchmarks rank {{ comparison.n_methods }} methods with a concordance of W = {{ "%.2f" | format(comparison.concordance.benchmarks.w) if comparison.concordance.benchmarks is defined and comparison.concordance.benchmarks.w is not none else "unknown" }}; random rankings reach {{ "%.2f" | format(comparison.concordance.benchmarks.chance) if comparison.concordance.benchmarks is defined and comparison.concordance.benchmarks.chance is not none else "an unknown value" }} in 95 of 100 cases.
- {{ comparison.n_agreeing }} of {{ comparison.n_pairs }} pairs of metrics of different benchmarks agree more than random rankings do.
- Of all decisions that two benchmarks are both sure of, {{ comparison.contradicted }} of {{ comparison.decided }} are opposite: that often a significant win by one benchmark is a significant loss by another.
- First by its own metric are *{{ comparison.first.values() | unique | join("*, *") }}*.
- Ask whether benchmarks want the sign of a map before asking whether they agree: IDSDS and mass have a tau of {{ "%+.2f" | format(comparison.signs.idsds.mass.signed) }} with signed maps and {{ "%+.2f" | format(comparison.signs.idsds.mass.absolute) }} with absolute ones, IDSDS and ROAR {{ "%+.2f" | format(comparison.signs.idsds.roar.signed) }} and {{ "%+.2f" | format(comparison.signs.idsds.roar.absolute) }}.
- A benchmark is a question, not a judge. Name the question a heatmap is meant to answer, then choose the benchmark that asks it, and show the others too.
- Of {{ comparison.n_asked }} statements, {{ comparison.n_yes }} hold here, {{ comparison.n_no }} are contradicted and {{ comparison.n_undecided }} stay undecided.
:::

:::{admonition} Limits of this test
:class: warning
- **One world.** Rendered scenes and small networks: relations between benchmarks may differ on photographs.
- **Different models.** CLEVR-XAI explains an answering network, ROAR a network of its own images; only deletion and single deletion explain the same classifier. Part of a disagreement may be one of models ({numref}`fig-comparison-stability` shows how large that part is where it can be seen).
- **Steps after the map.** Each benchmark joins channels and signs in its own way; a method is judged together with that.
- **Few methods.** With {{ comparison.n_methods }} methods the band of chance is wide, and methods of one family are no independent witnesses.
- **Options.** One set of options per method is fair and arbitrary; other noise levels or baselines move methods ({numref}`fig-clevr-xai-variants`).
- **Intervals** are over images, and over training runs where there are several, not over networks or methods. Retrainings per ranking in this run: {{ comparison.n_runs }}; where it is one, another run may turn a difference around that its interval calls sure.
:::

## Exercises

1. In {numref}`fig-comparison-agreement`, find two metrics of *one* benchmark that disagree. What does each of them ask that the other does not?
2. Run `heatcheck run comparison` with only the methods of one family, such as `-p methods='["gradient","smoothgrad","smoothgrad-squared","vargrad"]'`. Why does $W$ change, and why is that no news about the benchmarks?
3. Take a map that is blurred: register `contrast-gradient` of {doc}`bring_your_own` with a Gaussian filter behind it, and run `heatcheck compare --method`. Which metrics improve, and does {numref}`fig-comparison-smoothness` predict them?
4. The band of chance in {numref}`fig-comparison-agreement` is for *independent* rankings. Are SmoothGrad, SmoothGrad-Squared and VarGrad independent? Would a band that knows of it be wider or narrower?

:::{admonition} Solutions
:class: dropdown
1. Deletion and insertion, for instance: one asks how soon the class is lost when the top goes, the other how soon it appears when the top comes first. A map that finds one of two redundant parts inserts well and deletes badly. ROAR and KAR are the same pair for retrained networks.
2. Methods of one family differ less, so noise decides more of their order, and $W$ tends to fall; or all metrics agree on one trait of the family, and it rises. Agreement is always agreement *about some methods*.
3. Metrics whose mark lies to the right in the first panel should improve. If they do although the filter knows nothing about the network, that metric rewards smoothness.
4. They share maps and noise, so their ranks move together: there are fewer independent methods than names. A band for fewer methods is wider.
:::

## At paper scale

```bash
heatcheck run comparison --preset paper
```

runs the same comparison on ImageNet and the released CLEVR-XAI archive, with retraining on Food-101; it needs a GPU and the data that the four chapters name.
A method of your own enters all four benchmarks with one command, `heatcheck compare --method my_method.py`, which prints a card for a paper's appendix: see {doc}`Bring your own <bring_your_own>` and {doc}`Run it yourself <../howto>`.
Only what is missing is computed.
"""
