# %% [markdown]
r"""
(chapter-clevr-xai)=
# CLEVR-XAI

**Question.** A network answers a question about a scene, and a heatmap shows where its answer comes from.
Is the relevance on the objects that decide the answer?

In most pictures nobody knows which pixels *should* matter.
Here it is known by construction: scenes are rendered, questions are programs, and the program says which objects decide {cite}`arras2022clevr,johnson2017clevr`.
Let $h \ge 0$ be a {term}`heatmap` and $G$ the pixels of those objects, $|G| = K$ of them.
Two numbers measure what falls on them, {term}`relevance mass accuracy` and {term}`relevance rank accuracy`, or *mass* and *rank* for short:

```{math}
:label: eq-mass-rank
\text{mass} = \frac{\sum_{i \in G} h_i}{\sum_i h_i},
\qquad
\text{rank} = \frac{|P_K \cap G|}{K},
```

where $P_K$ are the $K$ pixels with the largest $h$.
Both lie between 0 and 1, **higher is better**, and a map that knows nothing scores the share of the image that $G$ covers, its {term}`chance level`.
The figures show scenes with their questions first, then heatmaps, then who finds the objects, and at last whether a map that finds them has anything to do with the question.
"""

# %% tags=["hide-input"]
from typing import Literal

import pandas as pd

from heatcheck.benchmarks import (
    clevr_xai,
    clevr_xai_comparisons,
    clevr_xai_conservation,
    clevr_xai_examples,
    clevr_xai_findings,
    clevr_xai_subsets,
    clevr_xai_summary,
    clevr_xai_tables,
    findings,
)
from heatcheck.benchmarks.clevr_xai_questions import KINDS
from heatcheck.benchmarks.published import published_table
from heatcheck.figures import clevr_xai as figures
from heatcheck.figures.export import export_figure, export_table
from heatcheck.figures.results import record
from heatcheck.figures.style import use_style
from heatcheck.runtime.store import ResultsStore

use_style()

# %% tags=["parameters"]
preset: str = "quick"  # name of the row in nbs/presets.toml
out: str = "book/results/clevr_xai/latest"  # folder of the exported figures and tables
store: str = ".cache/store"  # folder of the results store
methods: list[str] = ["lrp", "gradient", "grad-cam", "random", "centre"]  # see `heatcheck methods`
options: dict[str, dict[str, int | float | str | bool | list[int | float | str]]] = {}  # options, by method
plugins: list[str] = []  # Python files that register methods or models of your own
data: str = "embedded"  # embedded, release, or a folder laid out like the release
model: str = "relation-network"  # the model that answers; see `heatcheck models`
complex_model: str | None = None  # the model that answers complex questions, where it is another one
weights: str | None = None  # file of weights of the relation network, such as one trained on CLEVR
n_simple: int = 64  # correctly answered simple questions that are explained, at most
n_complex: int = 60  # the same for complex questions
n_asked: int = 256  # questions of each kind that are asked, at most
ground_truths: list[str] = [
    "single",
    "all",
    "unique",
    "unique-first-nonempty",
    "union",
]  # masks that count
first: Literal["published", "both-branches"] = "published"  # first non-empty set of a comparison
masks: Literal["stored", "computed"] = "stored"  # masks from the data's folders, or from its programs
drop_exist_no: bool = False  # leave out questions about existence whose answer is no
fixed_pooling: str = "max-norm"  # pooling that all methods share where the best is not chosen
variants: list[str] = ["ig-baselines", "smoothing", "cam-layers", "lrp-rules"]  # settings to compare
n_variants: int = 24  # questions that settings are compared on
noise_scales: list[float] = [0.05, 0.1, 0.2]  # noise of the smoothing methods, a share of the range
noise_samples: list[int] = [4, 16]  # noisy copies of the smoothing methods
n_controls: int = 12  # questions of the control experiments
n_wrong: int = 6  # wrongly answered questions to look at, of each kind
seed: int = 0  # seed of everything random
device: str = "auto"  # auto, cpu, cuda, cuda:<index>
workers: int = 0  # processes that compute on a CPU; 0 is one per core
on: str = "local"  # where cells are computed: local, or a Ray cluster: ray, ray://HOST:PORT
memory: str | None = None  # extra memory to use, such as "512MB"

# %% [markdown]
"""
## Scenes, questions, and what decides

The model is a {term}`Relation Network` {cite}`santoro2017simple`: it looks at all pairs of the 49 cells of a grid over the image, together with the question, and gives one of 28 answers.
**Simple** questions ask for one attribute of one object that the words single out.
**Complex** ones count, compare and follow relations.

What counts as *the objects that decide* is a choice, so there are several {term}`ground truths <ground truth>`.
Each is a *mask*: the set of pixels of some objects.
For simple questions: the *single* object that is asked for, or *all* objects of the scene.
For complex ones, from narrow to wide: objects that a "the ..." denotes (*unique*), these and the first set that the question's last steps work on (*first non-empty*), every set on the way (*union*), and *all* objects.

One call answers the questions, computes all heatmaps and scores them; what a previous run has finished is read from the results store.
"""

# %%
names = clevr_xai.Settings.model_fields
settings = clevr_xai.Settings(**{name: value for name, value in globals().items() if name in names})
results = clevr_xai.run(settings, ResultsStore(store))
settings = results.settings

# %% tags=["hide-input", "remove-output"]
shown = clevr_xai_examples.examples(results)
figure = figures.questions_figure(
    [item.image for item in shown],
    [item.masks for item in shown],
    [item.question for item in shown],
    [item.answer for item in shown],
)
export_figure(figure, f"{out}/questions")

# %% [markdown]
"""
:::{figure} ../results/clevr_xai/latest/questions.svg
:name: fig-clevr-xai-questions
:alt: Rendered scenes of spheres, cubes and cylinders; below each a question and its answer, and in the scene an outline around the objects that decide it.

Scenes with a question each, and outlines of ground truths: the single object of a simple question, and the narrowest and a wide set for complex ones. The network sees the scenes squashed to 128 x 128 pixels; here they have their own shape.
:::

## Does the network know the answers?

A heatmap can only be on the right object if the network looked there, so only correctly answered questions count.
"""

# %% tags=["hide-input", "remove-output"]
answers = clevr_xai_subsets.answer_table(results.predictions)
export_table(
    answers, f"{out}/answers", caption="Answers of the network, by type of question.", label="tab:clevr-xai-answers"
)  # fmt: skip
side = next(iter(results.right.values())).questions.images.shape[-1]
sizes = clevr_xai_subsets.mask_table(results.predictions, side * side)
export_table(
    clevr_xai_summary.mask_text(sizes), f"{out}/masks", caption="Ground truths of the questions that were asked.", label="tab:clevr-xai-masks", digits=1
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} Answers of the network; complex questions go to `complex_model` where one is named. Of {{ clevr_xai.n_asked }} questions {{ clevr_xai.n_right }} were answered correctly, and {{ clevr_xai.n_counted }} of these are explained; the others are left out of all means.
:name: tab-clevr-xai-answers
:file: ../results/clevr_xai/latest/answers.csv
:header-rows: 1
:::

:::{csv-table} Ground truths of the questions that were asked: least, mean, standard deviation and most pixels of 128 x 128, mean number of objects, and mean number of steps of the questions' programs. Questions without such objects (*none*) have no mask and are left out for that ground truth only.
:name: tab-clevr-xai-masks
:file: ../results/clevr_xai/latest/masks.csv
:header-rows: 1
:::

## Heatmaps of all methods

{cite:t}`arras2022clevr` compare ten methods, most of them in several {term}`variants <variant>`; those of this run all explain the answer that the network gave.
What each of them does is said in one line in {numref}`tab-methods`.
A variant's channels are joined by the {term}`pooling` under which it scores best, as it is reported below.
"""

# %% tags=["hide-input", "remove-output"]
accuracy = clevr_xai_tables.accuracy_table(results, seed=seed)
paper = clevr_xai_tables.paper_table(results, accuracy, seed=seed)
gallery = clevr_xai_examples.gallery(results, paper, right=True)
export_figure(figures.answers_figure(*gallery[1:]), f"{out}/gallery")
wrong = clevr_xai_examples.gallery(results, paper, right=False)
export_figure(figures.answers_figure(*wrong[1:]), f"{out}/wrong")
cut = clevr_xai_tables.cuts(settings)[0]
mistaken = clevr_xai_subsets.wrong_table(results, cut, seed=seed)
export_table(
    mistaken[mistaken["method"].isin([*clevr_xai_examples.representatives(paper), "sobel", "centre"])], f"{out}/wrong_mass",
    caption="Relevance mass of right and wrong answers.", label="tab:clevr-xai-wrong", digits=2,
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/clevr_xai/latest/gallery.svg
:name: fig-clevr-xai-gallery
:alt: Three scenes with the object that is asked for outlined in yellow, each followed by the heatmaps of all methods and of controls.

Heatmaps of correctly answered questions, the best method by mass first; controls, which never look at the network, come last. The darker, the more relevance, each map scaled by itself. Yellow: the object that decides. The questions: {{ clevr_xai.questions }}.
:::

When the answer is wrong, the map can tell why.
Did the network look at another object, or at the right one and misjudge it?

:::{figure} ../results/clevr_xai/latest/wrong.svg
:name: fig-clevr-xai-wrong
:alt: Scenes whose question was answered wrongly, with the heatmaps of all methods for the wrong answer.

Maps for wrongly answered questions, colored as in {numref}`fig-clevr-xai-gallery`. At the left: what the network said, and what was right. The questions: {{ clevr_xai.wrong_questions }}.
:::

:::{csv-table} Relevance mass on the object that was asked for: maps of right answers, and of the few wrong ones with a 95 % interval.
:name: tab-clevr-xai-wrong
:file: ../results/clevr_xai/latest/wrong_mass.csv
:header-rows: 1
:::

## Who finds the object?

Each method appears with its best variant and pooling *for that very panel*, chosen on the same questions, as the paper does it; how far that flatters is measured below ({numref}`tab-clevr-xai-split`).
"""

# %% tags=["hide-input", "remove-output"]
for kind in KINDS:
    panel = paper[paper["kind"] == kind]
    export_figure(figures.accuracy_figure(panel), f"{out}/{kind}", panel)
for kind, metric, stem in (
    ("simple", None, "simple_best"),
    ("complex", "relevance-mass", "complex_mass"),
    ("complex", "relevance-rank", "complex_rank"),
):
    export_table(
        clevr_xai_summary.paper_style(paper, kind, metric), f"{out}/{stem}",
        caption=f"Accuracy on {kind} questions: mean (standard deviation) median.", label=f"tab:clevr-xai-{stem}",
    )  # fmt: skip
export_table(
    clevr_xai_summary.paper_style(accuracy[accuracy["ground_truth"] == cut.ground_truth], cut.kind), f"{out}/variants_best", caption="All variants: mean (standard deviation) median.", label="tab:clevr-xai-all"
)  # fmt: skip
choices = clevr_xai_summary.choice_table(paper, cut.kind, cut.ground_truth)
export_table(
    choices, f"{out}/choices", caption="Chosen variants and poolings, and ranks with 95 % intervals.", label="tab:clevr-xai-choices"
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/clevr_xai/latest/simple.svg
:name: fig-clevr-xai-simple
:alt: Panels of dots with intervals, one row per method, for mass and rank on the single object and on all objects; hollow gray dots are controls and a dashed line marks chance.

Mass (top) and rank (bottom) on simple questions, with 95 % intervals over questions. Hollow: controls that never look at the network. Dashed: the share of the image that the masks cover, which a uniform map scores.
:::

:::{csv-table} Simple questions, best variant and pooling of each method: mean (standard deviation) median.
:name: tab-clevr-xai-simple
:file: ../results/clevr_xai/latest/simple_best.csv
:header-rows: 1
:::

:::{csv-table} What was chosen for the first ground truth (of two variants the first is best by mass, the second by rank), and each method's rank among the methods, 1 is best, with its 95 % interval ({term}`rank interval`). Discarded maps are zero everywhere.
:name: tab-clevr-xai-choices
:file: ../results/clevr_xai/latest/choices.csv
:header-rows: 1
:::

Complex questions have wider masks, and wider masks give higher numbers: compare methods within a panel, never one panel with the next.
"""

# %% [markdown]
"""
:::{figure} ../results/clevr_xai/latest/complex.svg
:name: fig-clevr-xai-complex
:alt: Panels of dots with intervals for mass and rank on four ground truths of complex questions, from the narrowest on the left to all objects on the right; hollow gray dots are controls.

The same on complex questions, for four ground truths from narrow to wide.
:::

:::{csv-table} Mass on complex questions, best variant and pooling of each method: mean (standard deviation) median.
:name: tab-clevr-xai-complex-mass
:file: ../results/clevr_xai/latest/complex_mass.csv
:header-rows: 1
:::

:::{csv-table} Rank on complex questions, likewise.
:name: tab-clevr-xai-complex-rank
:file: ../results/clevr_xai/latest/complex_rank.csv
:header-rows: 1
:::

Are neighbors in the ranking really different?
Both explain the same questions, so their difference has a paired interval ({term}`paired difference`).
"""

# %% tags=["hide-input", "remove-output"]
pairs = clevr_xai_comparisons.pair_table(results, cut, seed=seed)
export_table(
    clevr_xai_summary.neighbor_text(pairs), f"{out}/neighbors", caption="Differences of neighbors in the ranking by mass.", label="tab:clevr-xai-neighbors"
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} Difference in mass between each method and the next one of the ranking, on the first ground truth: paired 95 % {term}`bootstrap interval`. Where it holds zero, the two have no order.
:name: tab-clevr-xai-neighbors
:file: ../results/clevr_xai/latest/neighbors.csv
:header-rows: 1
:::

## How much of it is the pooling?

Attributions have three channels, heatmaps have one, and how the three are joined moves the numbers.
So does choosing the pooling on the questions that are reported.
"""

# %% tags=["hide-input", "remove-output"]
poolings = clevr_xai_tables.pooling_table(results)
one = poolings[(poolings["kind"] == cut.kind) & (poolings["ground_truth"] == cut.ground_truth)]
export_figure(figures.pooling_figure(one), f"{out}/poolings", poolings)
fixed = clevr_xai_tables.accuracy_table(results, "fixed", seed=seed)
fixed_paper = clevr_xai_tables.paper_table(results, fixed, seed=seed)
for kind, metric, stem in (
    ("simple", None, "simple_fixed"),
    ("complex", "relevance-mass", "complex_fixed_mass"),
    ("complex", "relevance-rank", "complex_fixed_rank"),
):
    export_table(
        clevr_xai_summary.paper_style(fixed_paper, kind, metric), f"{out}/{stem}",
        caption=f"Accuracy on {kind} questions with one pooling for all.", label=f"tab:clevr-xai-{stem}",
    )  # fmt: skip
split = clevr_xai_tables.split_half_table(results, seed=seed)
export_table(
    clevr_xai_summary.split_text(split, cut, clevr_xai_examples.representatives(paper)), f"{out}/split_half",
    caption="Pooling chosen on one half of the questions, scored on the other.", label="tab:clevr-xai-split",
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/clevr_xai/latest/poolings.svg
:name: fig-clevr-xai-poolings
:alt: A table of colored cells, one row per method and one column per pooling, for mass and for rank; the best pooling of each row is framed.

Mean accuracy in percent for every method and pooling on the first ground truth; the best one of each row is framed. Squaring makes a map more peaked, which helps mass where the peak lies inside the mask, and leaves the order of pixels, hence the rank, as it was.
:::

:::{csv-table} Simple questions with the pooling {{ clevr_xai.fixed_pooling }} for all methods: mean (standard deviation) median.
:name: tab-clevr-xai-simple-fixed
:file: ../results/clevr_xai/latest/simple_fixed.csv
:header-rows: 1
:::

:::{csv-table} Mass on complex questions with that pooling.
:name: tab-clevr-xai-complex-fixed-mass
:file: ../results/clevr_xai/latest/complex_fixed_mass.csv
:header-rows: 1
:::

:::{csv-table} Rank on complex questions with that pooling.
:name: tab-clevr-xai-complex-fixed-rank
:file: ../results/clevr_xai/latest/complex_fixed_rank.csv
:header-rows: 1
:::

The best of ten poolings is flattered.
To see by how much, the pooling is chosen on a random half of the questions and scored on the other half, fifty times and both ways: the largest gain that vanishes is {{ clevr_xai.optimism_text }}.

:::{csv-table} Pooling chosen on all questions, and on halves that are not scored. *Optimism* is what choosing on the reported questions adds, *agree* the share of halves that choose the same pooling.
:name: tab-clevr-xai-split
:file: ../results/clevr_xai/latest/split_half.csv
:header-rows: 1
:::

## What does accuracy depend on?

Questions are not alike, so they are split by how sure the network was, by their type, by the length of their program and by the size of the objects that decide.
"""

# %% tags=["hide-input", "remove-output"]
best_variants = clevr_xai_examples.representatives(paper)
subsets = pd.concat(
    [clevr_xai_subsets.subset_table(results, cut, by, seed=seed) for by in clevr_xai_subsets.SUBSETS]
)
drawn = subsets[subsets["method"].isin(best_variants)]
export_figure(figures.subsets_figure(drawn, ylabel="relevance mass"), f"{out}/subsets", subsets)

# %% [markdown]
"""
:::{figure} ../results/clevr_xai/latest/subsets.svg
:name: fig-clevr-xai-subsets
:alt: Four panels of relevance mass against the confidence of the answer, the type of question, the length of its program and the size of its target, one line per method.

Relevance mass on subsets of the correctly answered questions, with 95 % intervals. The number below each subset is how many questions it holds; target sizes are thirds.
:::

A map has a finest grain, so a small target may be hard to hit whatever the method.

## Settings

Every method has knobs, and the ranking is one of *settings*, not of names.

:::{csv-table} All variants that were run on all questions, on the first ground truth, each with its best pooling: mean (standard deviation) median.
:name: tab-clevr-xai-all
:file: ../results/clevr_xai/latest/variants_best.csv
:header-rows: 1
:::

Each group below changes one knob on {{ clevr_xai.n_variants }} questions.
"""

# %% tags=["hide-input", "remove-output"]
compared = clevr_xai_comparisons.all_variants(results, seed=seed)
narrow = compared[(compared["kind"] == cut.kind) & (compared["ground_truth"] == cut.ground_truth)]
export_figure(figures.variants_figure(narrow), f"{out}/variants", compared)
export_table(
    clevr_xai_summary.variant_text(compared, cut), f"{out}/settings", caption="Settings of methods.", label="tab:clevr-xai-settings"
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/clevr_xai/latest/variants.svg
:name: fig-clevr-xai-variants
:alt: Dots with intervals for mass and rank, one row per setting: baselines of integrated gradients, noise and samples of the smoothing methods, layers of Grad-CAM, rules of LRP; filled dots are the main settings.

Settings of the methods, each with its best pooling; compare the dots of one group, which differ in one knob. Filled: the setting that the rest of the chapter uses.
:::

:::{csv-table} The same in numbers: means with the best pooling, and the paired difference to the main setting with its 95 % interval; poolings are in the exported rows of the figure.
:name: tab-clevr-xai-settings
:file: ../results/clevr_xai/latest/settings.csv
:header-rows: 1
:::

Two methods promise that their maps add up.
Integrated gradients promise the difference between the answer's {term}`logit` and that of the baseline; too few steps leave a gap.
LRP shares out the logit itself, and only a part of it can reach the image: the rest stays with the question's words, with the coordinates that every cell is given, and with biases.
"""

# %% tags=["hide-input", "remove-output"]
kept = clevr_xai_conservation.conservation_table(results)
export_table(
    kept, f"{out}/conservation", caption="What maps add up to, as shares of the explained score.", label="tab:clevr-xai-conservation", digits=3
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} A few questions: the score that is shared out (for integrated gradients the difference to the baseline's), and shares of it.
:name: tab-clevr-xai-conservation
:file: ../results/clevr_xai/latest/conservation.csv
:header-rows: 1
:::

## Is it the map of *this* question?

A map can lie on the right object and still not explain the answer: perhaps it lies there whatever is asked.
So each map is made again with one thing exchanged, and compared with the map as it was (a {term}`control experiment`):

- **other question**: another question about the same image, scored on the object of the first one,
- **other answer**: the same question, but another answer of its kind is explained,
- **other image**: the same answer explained on another image and question,
- **random weights**: a network that was never trained.

A map that belongs to its question is *unlike* the exchanged one, and loses mass when it is exchanged.
"""

# %% tags=["hide-input", "remove-output"]
controls = clevr_xai_comparisons.control_table(results, seed=seed)
few = list(dict.fromkeys([*best_variants, "deconvnet", "sobel", "centre"]))
export_figure(figures.controls_figure(controls[controls["method"].isin(few)]), f"{out}/controls", controls)
for measure, stem in (("relevance-mass", "lost"), ("spearman", "likeness")):
    export_table(
        clevr_xai_summary.control_text(controls, measure, few), f"{out}/{stem}", caption=f"Control experiments: {measure}.", label=f"tab:clevr-xai-{stem}"
    )  # fmt: skip

# %% [markdown]
r"""
:::{figure} ../results/clevr_xai/latest/controls.svg
:name: fig-clevr-xai-controls
:alt: Four columns of dots, one per exchanged thing: above, how alike the two maps are from minus one to one; below, how much mass on the object is lost by the exchange.

Above: rank correlation of each map with the exchanged one; 1 means that nothing changed. Below: mass on the question's own object, the map as it was minus the exchanged one; 0 means that the exchange costs nothing. Pooling {{ clevr_xai.fixed_pooling }}, {{ clevr_xai.n_controls }} questions, 95 % intervals.
:::

:::{csv-table} Mass lost by each exchange, paired, with 95 % intervals.
:name: tab-clevr-xai-lost
:file: ../results/clevr_xai/latest/lost.csv
:header-rows: 1
:::

:::{csv-table} Likeness of the maps (rank correlation) under each exchange.
:name: tab-clevr-xai-likeness
:file: ../results/clevr_xai/latest/likeness.csv
:header-rows: 1
:::

Two results stand out in theory already.
Deconvnet goes backwards through a ReLU by the sign of the backward signal alone, whatever the image had done there; this network has no other gate, so the map of an answer *cannot* depend on the image.
And LRP with the rule of the paper, $\alpha 1 \beta 0$, is known to change little with the answer it explains {cite}`sixt2022rigorous`: it can find the right object without saying why this answer was given.
Here the map of another answer is correlated with that of the right one by {{ clevr_xai.other_answer.lrp }} for LRP, {{ clevr_xai.other_answer.guided_backprop }} for Guided Backprop and {{ clevr_xai.other_answer.gradient }} for the gradient.
With another question, which asks for another object, LRP's is {{ clevr_xai.other_question.lrp }}.
Whether a map follows the question, the answer or neither is read off the columns of {numref}`fig-clevr-xai-controls`.

## Reference levels

What would a map score that knows nothing of the network, and what one that knows the mask?
"""

# %% tags=["hide-input", "remove-output"]
levels = clevr_xai_tables.reference_table(fixed)
export_table(
    clevr_xai_summary.level_text(levels), f"{out}/levels", caption="Reference levels.", label="tab:clevr-xai-levels", digits=2
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} What maps score that know nothing of the network. *chance* is the mean share of the image that the masks cover; {term}`oracle` is the mask itself.
:name: tab-clevr-xai-levels
:file: ../results/clevr_xai/latest/levels.csv
:header-rows: 1
:::

The control *sobel* only sees edges, and objects are where the edges are: with the mask of *all* objects compare every method with it.
That mask asks whether a map avoids the background, not whether it explains.

## Does the published finding hold here?

Each statement is answered by the interval of what was measured: *yes* or *no* only if the whole interval lies on one side of zero.
"""

# %% tags=["hide-input", "remove-output"]
found = clevr_xai_findings.clevr_xai_findings(results)
export_table(
    findings.findings_table(found), f"{out}/findings", caption="Findings, answered by 95 % intervals over questions.", label="tab:clevr-xai-findings",
    columns={"statement": "statement", "answer": "holds here?", "quantity": "measured", "interval": "estimate [interval]", "n": "n", "source": "source"},
)  # fmt: skip
published = published_table("clevr_xai", narrow[narrow["label"] == "zero"])
export_table(
    published, f"{out}/published", caption="Published scores beside ours; not comparable.", label="tab:clevr-xai-published", digits=2,
    columns={"method": "method", "metric": "metric", "published": "published", "here": "here", "setting": "published setting", "model": "model", "data": "data"},
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} Statements and what the questions of this run say about them.
:name: tab-clevr-xai-findings
:file: ../results/clevr_xai/latest/findings.csv
:header-rows: 1
:::

The result tables of {cite:t}`arras2022clevr` could not be consulted; statements above come from its text, and of its numbers only these are known to us.
They are of a network trained on CLEVR and of other scenes, so they cannot be set against ours.

:::{csv-table} Published scores, and ours of the same setting. None is comparable.
:name: tab-clevr-xai-published
:file: ../results/clevr_xai/latest/published.csv
:header-rows: 1
:::
"""

# %% tags=["hide-input", "remove-output"]
quoted = clevr_xai_summary.quotable(results, paper, split)
record(
    out,
    **quoted,
    other_answer=clevr_xai_summary.likeness_text(controls, "other answer"),
    other_question=clevr_xai_summary.likeness_text(controls, "other question"),
    complex_accuracy=f"{quoted['answers']['complex']['accuracy']:.0%}" if n_complex else "none (not asked)",
    optimism_text="not measured" if quoted["optimism"] is None else f"{quoted['optimism']:.3f}",
    questions=clevr_xai_examples.question_list(gallery),
    wrong_questions=clevr_xai_examples.question_list(wrong),
    findings={finding.key: finding.answer for finding in found},
)

# %% [markdown]
"""
:::{admonition} What to take away
:class: tip
- By mass the best method here is *{{ clevr_xai.best.mass.method }}*, by rank *{{ clevr_xai.best.rank.method }}*; a uniform map would score {{ "%.3f" | format(clevr_xai.chance) }}.
- {{ clevr_xai.n_below_control }} of the methods put less of their relevance on the object than the best control does.
- Name the variant and the pooling with every number: {numref}`fig-clevr-xai-poolings` shows how far they move the ranking.
- Being on the right object is necessary for an explanation and not sufficient: look at {numref}`fig-clevr-xai-controls` before trusting a high score.
:::

:::{admonition} Limits of this test
:class: warning
- It supposes that a network which answers correctly looks at the objects that decide. It may use shadows, reflections or what else stands in the scene {cite}`lapuschkin2019unmasking`, and masks hold neither shadow nor reflection.
- Masks are generous: a pixel touched by the resizing filter belongs to the object.
- Colors and shapes of rendered scenes are not the world, and one small network is not all networks. The weights were trained on scenes of this renderer; they do not know the original CLEVR images.
- {{ clevr_xai.discarded }} maps were discarded because they are zero everywhere, and {{ clevr_xai.wide_ties }} ranks depend by more than 0.05 on the order of equal pixels.
- A question that is answered correctly by luck counts as if the network had understood it. Of the complex questions {{ clevr_xai.complex_accuracy }} were answered correctly, and half of the yes-or-no questions would be by tossing a coin.
- {{ clevr_xai.negative_logits }} explained answers have a logit below zero, which is still the largest of all; maps that share out the logit have their signs turned there.
- Intervals are over {{ clevr_xai.n_counted }} explained questions; where one is wide, more questions are needed.
:::

## Exercises

1. Which mask is fair for "How many red things are left of the cube?"? Run `heatcheck run clevr_xai -p first=both-branches -p masks=computed` and look for the questions that change.
2. Square any map by hand before scoring it. What happens to mass, what to rank, and why?
3. Give integrated gradients a baseline of another color: `-p options='{"integrated-gradients" = {baseline = "white", n_steps = 16}}'`. When does the baseline's color hide an object?
4. Add a method of your own that returns the edges of the *answered* color only (see {doc}`bring_your_own`). Can you beat every attribution method without the network?

:::{admonition} Solutions
:class: dropdown
1. The *unique* mask holds the cube alone, *first non-empty* the red things that are counted, *union* both and the steps between. The two modes differ only for questions that compare two numbers: as published, the walk meets the second number's objects first.
2. Squaring makes large values larger, so mass rises wherever the peak is inside; the order of pixels stays, so rank does not change but for ties.
3. Where image and baseline are equal the factor $x - b$ is zero: gray objects vanish before a gray baseline, bright ones before a white one.
4. Compare it on questions about color with the best method. A mask alone cannot tell a detector from an explanation, which is why the control experiments are part of this chapter.
:::

## At paper scale

`heatcheck run clevr_xai --preset paper` asks all 39,761 simple and 100,000 complex questions of the released archives with a network trained on CLEVR.
It needs a GPU, the unpacked archives in the folder that `HEATCHECK_CLEVR_XAI` names (and, where images and masks lie apart, `HEATCHECK_CLEVR_XAI_IMAGES`), and weights: `-p weights=...` names a file made by `python -m heatcheck.benchmarks.make_relation_network` on CLEVR's training questions.
The shipped weights were trained on this book's own renders and are no substitute.
Maps are scored as they are made, one shard at a time, so memory does not grow with the number of questions, and a stopped run goes on where it was.
`heatcheck.data.clevr.exchange` writes heatmaps, masks and predictions in the form that the published evaluation script reads, and reads them back.

For more questions about scenes of the kind shown here, make them: `heatcheck data make clevr --scenes 1000 --seed 7 --into my_scenes`, then `heatcheck run clevr_xai -p data=my_scenes -p n_simple=4000`.
"""
