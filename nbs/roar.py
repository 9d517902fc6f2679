# %% [markdown]
r"""
(chapter-roar)=
# Remove and retrain (ROAR and KAR)

**Question.** A heatmap says which pixels matter. If they are taken away from *every* image, training images included, and a new network is trained on what is left: is the information gone?

{doc}`Deletion <deletion>` removes pixels from images and asks the network that was trained without holes.
Its confidence may fall because evidence is gone, or because it has never seen a hole.
ROAR (*remove and retrain*) settles that by {term}`retraining`: the network that is asked has seen nothing but images with holes {cite}`hooker2019benchmark`.
Whatever accuracy it still reaches, it reaches with the pixels that are left.

The methods under test are called {term}`estimators <estimator>`: each ranks the {term}`units <unit>` of an image, here its pixels or its channel values.
Let $T_p(x)$ be the $p$ % of the units of image $x$ that an estimator ranks first, and $\bar x$ a {term}`fill` that tells nothing, such as the mean color:

```{math}
:label: eq-roar
\text{ROAR}_p:\quad x'_i = \begin{cases} \bar x_i & i \in T_p(x) \\ x_i & \text{otherwise,} \end{cases}
\qquad
\text{KAR}_p:\quad x'_i = \begin{cases} x_i & i \in T_p(x) \\ \bar x_i & \text{otherwise.} \end{cases}
```

A network is trained from random weights on all $x'$ and tested on all $x'$ of the test images.
Under ROAR a good ranking makes it **bad**; under KAR (*keep and retrain*) a good ranking keeps it **good**.
Accuracy against $p$ is a curve, and curves become one number by their area against the curve of a random ranking, {term}`RACU`,

```{math}
:label: eq-racu
\text{RACU} = \frac{\int (\text{random} - \text{estimator})\, dp}{\int (\text{random} - \text{chance})\, dp},
```

0 for a ranking that is as good as random, 1 if everything is lost at once, below 0 for one that is worse than random {cite}`madsen2022evaluating`.

The figures show what is removed first, then a case where the truth is known, then the curves, and at last why this test cannot be believed as it stands either: the removed pixels have a shape, and a network that is trained on holes can read the holes.
"""

# %% tags=["hide-input"]
from typing import Literal

import pandas as pd

from heatcheck.benchmarks import (
    kept_runs,
    roar,
    roar_controls,
    roar_cost,
    roar_examples,
    roar_findings,
    roar_lesson,
    roar_published,
    roar_summary,
    roar_tables,
    roar_text,
    roar_ways,
    toy_roar,
)
from heatcheck.figures import roar as figures
from heatcheck.figures import roar_masks as mask_figures
from heatcheck.figures.export import export_figure, export_table
from heatcheck.figures.results import record
from heatcheck.figures.roar_published import published_scatter
from heatcheck.figures.style import use_style
from heatcheck.figures.toy_roar import toy_figure
from heatcheck.runtime.store import ResultsStore

use_style()

# %% tags=["parameters"]
preset: str = "quick"  # name of the row in nbs/presets.toml
out: str = "book/results/roar/latest"  # folder of the exported figures and tables
store: str = ".cache/store"  # folder of the results store
kept: str = "book/results/roar/embedded-3-seeds"  # folder of a larger run that is shown beside this one
protocol: Literal["paper", "release", "recommended"] = "recommended"  # reading of the published protocol
estimators: list[str] = [
    "random",
    "grad",
    "sq-grad",
    "sg-sq-grad",
    "var-grad",
]  # the 18 estimators, controls, oracle, leaky, and registered methods
options: dict[str, dict[str, int | float | str | bool]] = {}  # options of registered methods, by method
plugins: list[str] = []  # Python files that register methods or networks of your own
data: str = "color-material"  # or shape-material-size, digits, cifar10, food101, birdsnap, imagenet
n_train: int | None = None  # training images; none is all, 2000 of rendered ones
n_test: int | None = None  # test images; none is all, 1000 of rendered ones
size: int | None = None  # side of the images in pixels; by default that of the data set
recipe: str | None = None  # recipe of training; by default that of the data set
epochs: float | None = None  # passes over the training images, instead of the recipe's
percents: list[int] = [10, 30, 50, 70, 90]  # percent of the units that are removed or kept
modes: list[Literal["roar", "kar"]] = ["roar", "kar"]  # remove the top, keep the top
n_runs: int = 3  # retrainings of every condition
n_checkpoints: int = 1  # explained networks
granularity: Literal["element", "pixel"] | None = None  # channel values or pixels; by default the protocol's
aggregate: Literal["sum", "abs_sum", "max_abs"] | None = None  # how channels are joined for pixels
ties: Literal["index", "hash"] = "index"  # order of equal units
fill: Literal["mean", "road"] = "mean"  # what stands where units are removed
target: Literal["predicted", "label"] = "predicted"  # class that is explained; the label leaks itself
n_samples: int | None = None  # noisy copies of the ensembles, instead of the protocol's
n_steps: int | None = None  # gradients of integrated gradients, instead of the protocol's
extra_percents: list[int] = []  # percents of everything below; all by default
matched: list[str] = []  # estimators that are compared with controls made from their own maps
probes: list[str] = []  # estimators whose maps are also filtered
leaks: list[str] = []  # estimators whose masks alone are learned from
road: list[str] = []  # estimators that are also retrained with imputed pixels
road_sigma: float = 0.01  # noise on imputed pixels, in [0, 1]
finetuned: list[str] = []  # estimators for which the explained network is also fine-tuned
evaluator: bool = False  # whether one network trained on random masks judges all estimators
recursive: list[str] = []  # estimators whose maps are made anew with each retrained network
lesson: list[str] = []  # data sets whose masks are compared by what they leak
lesson_percent: int = 10  # percent of the pixels removed there
shown: list[str] = ["random", "grad", "sq-grad", "sg-sq-grad"]  # rankings shown on one image
toy_examples: int = 20_000  # examples of the toy experiment, for training and for testing
toy_seeds: int = 5  # data sets of the toy experiment
images_per_second: float = 3000.0  # training images per second and GPU, for the cost at full scale
seed: int = 0  # seed of everything random
device: str = "auto"  # auto, cpu, cuda, cuda:<index>
workers: int = 0  # processes that compute on a CPU; 0 is one per core
on: str = "local"  # where cells are computed: local, or a Ray cluster: ray, ray://HOST:PORT
memory: str | None = None  # extra memory to use, such as "512MB"

# %% [markdown]
r"""
## Data, networks, estimators

The published study trained thousands of ResNet-50s on ImageNet, Birdsnap and Food-101.
This page trained {{ roar.n_trained }} networks on {{ roar.n_train }} {{ roar.data_name }}; there are {{ roar.n_classes }} classes.
The embedded label, color and material, is chosen with care: neither can be read off the outline of an object, so a mask that fits the object gives nothing away by its shape.

One network is *explained*; it names {{ "%.1f" | format(100 * roar.explained_accuracy) }} % of {{ roar.n_test }} test images rightly.
The estimators are its maps $e(x)$ of the class that it predicts: the gradient (GRAD), guided backpropagation (GB) and integrated gradients (IG), which {numref}`tab-methods` describes.
Each has six forms: the map itself; those of {eq}`eq-ensembles`, with the noise $\eta_j$ of $J$ noisy copies of the image, {{ roar.n_samples }} here; and SQ-SG, the square of SG.

```{math}
:label: eq-ensembles
\begin{aligned}
\text{SQ} &= e(x)^2, & \text{SG} &= \tfrac1J \textstyle\sum_j e(x + \eta_j), \\
\text{SG-SQ} &= \tfrac1J \textstyle\sum_j e(x + \eta_j)^2, & \text{VAR} &= \text{SG-SQ} - \text{SG}^2,
\end{aligned}
```

Raw and averaged maps are ranked with their sign: large negative values come *last*.
Squares are ranked by magnitude.
Two {term}`controls <control>` know no network: **random**, a fixed random order for each image, and **Sobel**, the edges of the image.
The units are {{ "pixels, removed with all their channels" if roar.granularity == "pixel" else "channel values, each removed by itself" }}.

Every condition is trained {{ roar.n_runs }} times.
Run number $s$ starts from the same weights and sees the images in the same order under *all* estimators, so that differences are paired.
One call trains everything; what a previous run has finished is read from the results store.
"""

# %%
names = roar.Settings.model_fields
settings = roar.Settings(**{name: value for name, value in globals().items() if name in names})
results = roar.run(settings, ResultsStore(store))
settings = results.settings

# %% [markdown]
"""
## What is removed

Before any accuracy, one image.
"""

# %% tags=["hide-input", "remove-output"]
example = roar_examples.removals(
    results, ResultsStore(store), [name for name in shown if name in settings.estimators]
)
export_figure(mask_figures.removal_figure(*example[:5]), f"{out}/removal")

# %% [markdown]
r"""
:::{figure} ../results/roar/latest/removal.svg
:name: fig-roar-removal
:alt: One rendered object in a grid: one row per ranking, the image at the left, then with 10 to 90 percent of its pixels replaced by the mean color, and at the right with only the top 10 to 90 percent kept.

One image of the class *{{ roar.example }}* as the retrained networks see it, one row per ranking. Left: the pixels that the ranking puts first are gone. Right: nothing else is left.
:::

A magnitude, such as SQ, can rank all of an object first; a signed map cannot, for a gradient speaks for the class at one pixel and against it at the next.
And random pixels leave a coarse version of everything: a network that is *retrained* learns to see through it.

## Where the truth is known

Sixteen numbers, of which four tell the label and all carry the same disturbance: $x = a z / 10 + d\,\eta + \varepsilon / 10$.
Here $z$, $\eta$ and $\varepsilon$ are normal random numbers, new ones for each example; the label says whether $z > 0$; the sixteen weights $a$ are zero but for four, and the weights $d$ spread the disturbance $\eta$ over all.
A linear model is fitted by least squares.
Which features matter is known, so rankings can be made that are true, inverted or random.
"""

# %% tags=["hide-input", "remove-output"]
toy_settings = toy_roar.ToySettings(n_train=toy_examples, n_test=toy_examples, n_seeds=toy_seeds, seed=seed)
toy = toy_roar.run(toy_settings)
toy_curves = toy_roar.toy_summary(toy)
export_figure(toy_figure(toy_curves), f"{out}/toy", toy_curves)
export_figure(toy_figure(toy_curves, noise="shared"), f"{out}/toy_shared")

# %% [markdown]
r"""
:::{figure} ../results/roar/latest/toy.svg
:name: fig-roar-toy
:alt: Two panels of accuracy against the share of features removed, weights kept at the left, retrained at the right, one line per ranking; at the right the inverted ranking stays flat until three quarters are gone.

The toy experiment: lines are exact, markers are measured on {{ roar.toy_seeds }} data sets of {{ roar.toy_examples }} examples. Dotted: where the true ranking has removed all four informative features, and where the inverted one begins to.
:::

At the left the model keeps its weights, and the *inverted* ranking loses accuracy although nothing that informs was removed: the other twelve weights had canceled the disturbance.
At the right the model is trained again, and the inverted ranking stays flat until three quarters of the features are gone.
That is the case for retraining.

Whether $\varepsilon$ is one number per feature or one for all cannot be told from the paper's prose.
If all features share it, they repeat each other so exactly that three suitable ones are as good as all.

:::{figure} ../results/roar/latest/toy_shared.svg
:name: fig-roar-toy-shared
:alt: The same two panels for shared noise; after retraining accuracy stays perfect until nearly all features are gone, even with a random ranking.

The same with shared noise: full redundancy. Retraining then hides a loss of information until the last copy goes, which is one of the limits that the authors state.
:::

## Curves

Now the images: each point is the accuracy of networks that were trained anew for one ranking and one percentage.
"""

# %% tags=["hide-input", "remove-output"]
table = roar_tables.condition_table(results, seed=seed)
curves = roar_tables.main_curves(results, table)
export_figure(figures.curves_figure(curves), f"{out}/curves", curves)
export_table(
    roar_text.accuracy_text(table, results), f"{out}/accuracy", caption="Accuracy after retraining, in percent.", label="tab:roar-accuracy"
)  # fmt: skip
export_table(
    curves, f"{out}/curve_points", caption="Points of the curves.", label="tab:roar-points", digits=4,
    columns=["ranking", "label", "mode", "percent", "mean", "std", "t_low", "t_high", "low", "high", "n_runs", "n_images"],
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/roar/latest/curves.svg
:name: fig-roar-curves
:alt: Accuracy of retrained networks against the share of pixels removed, above, and kept, below; one column per base estimator with lines for its ensembles, one for controls; the random ranking is dotted in every panel.

Accuracy of retrained networks, mean over {{ roar.n_runs }} runs on {{ roar.n_test }} test images; bars are 95 % intervals over runs and images. Curves start at {{ "%.1f" | format(100 * roar.intact_accuracy) }} %, the accuracy with nothing removed *through the same pipeline*, and end at the majority class. Above: lower is better. Below: higher is better.
:::

:::{csv-table} Accuracy in percent, mean ± standard deviation over {{ roar.n_runs }} runs.
:name: tab-roar-accuracy
:file: ../results/roar/latest/accuracy.csv
:header-rows: 1
:::

Read the dotted line first.
With {{ roar.last }} % of its pixels gone at random, an image still supports {{ "%.0f" | format(100 * roar.random_last) if roar.random_last is not none else "an unknown number of" }} % accuracy: images repeat themselves, and a ranking must beat *that*.

## One number per estimator

RACU, defined in {eq}`eq-racu`, sums up the ROAR curve; the *KAR area*, how far the KAR curve lies above that of random, sums up the other.
{term}`DiffROAR` asks one thing more: accuracy with the top $p$ % kept, minus accuracy with the bottom $p$ % kept {cite}`shah2021input`.
It is positive where the top of a ranking is worth more than its bottom, whatever random does.
"""

# %% tags=["hide-input", "remove-output"]
areas = roar_tables.summary_table(results, seed=seed)
export_figure(figures.summary_figure(areas, roar_published.published_summary()), f"{out}/summary")
export_table(
    roar_text.summary_text(areas), f"{out}/scores", caption="RACU, ranks, KAR area and DiffROAR.", label="tab:roar-scores"
)  # fmt: skip
export_table(
    roar_text.published_text(areas), f"{out}/published", caption="RACU here and from the published table; not comparable.", label="tab:roar-published"
)  # fmt: skip
export_table(
    areas, f"{out}/areas", caption="Areas, RACU and DiffROAR in full.", label="tab:roar-areas", digits=4
)

# %% [markdown]
"""
:::{figure} ../results/roar/latest/summary.svg
:name: fig-roar-summary
:alt: Three panels of dots with intervals, one row per estimator sorted by RACU; the first panel also has hollow markers for the values computed from the published table.

RACU, KAR area and DiffROAR with 95 % intervals, in which whole curves are resampled; to the right is better in each panel, and zero is a random ranking. Hollow: RACU computed from the published table, **not comparable** in value with ours: other networks, other images.
:::

:::{csv-table} RACU with its rank among estimators and controls and a p-value against random, corrected for all of them by Holm {cite}`holm1979simple`; KAR area and DiffROAR in percentage points. Rankings that know the objects or the classes, of which more below, have no rank.
:name: tab-roar-scores
:file: ../results/roar/latest/scores.csv
:header-rows: 1
:::

:::{csv-table} RACU of this run, and computed from the published accuracies. **Not comparable** in value: other networks, other images, other units.
:name: tab-roar-published
:file: ../results/roar/latest/published.csv
:header-rows: 1
:::

## Removing and keeping disagree

If RACU measures how well a ranking finds the information, then what it ranks first should also be what is worth keeping.
The published table says otherwise.
It is data here, and what follows from it is computed: ROAR and KAR rank the twelve published estimators in largely *opposite* order.
"""

# %% tags=["hide-input", "remove-output"]
scatter, agreement = roar_tables.beside_published(results, seed=seed)
export_figure(published_scatter(scatter, agreement), f"{out}/disagreement", scatter)
export_table(
    roar_text.agreement_text(agreement), f"{out}/agreement", caption="Rank correlation of ROAR and KAR.", label="tab:roar-agreement"
)  # fmt: skip
statements = pd.DataFrame(roar_published.published_statements())
export_table(
    statements, f"{out}/published_statements", caption="Statements about the published table.", label="tab:roar-statements",
    columns={"statement": "statement", "claimed": "who says so", "holds": "in all cells?", "agreeing": "cells that agree", "cells": "of", "exceptions": "exceptions"},
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/roar/latest/disagreement.svg
:name: fig-roar-disagreement
:alt: Four scatter plots of the area over random when keeping against RACU when removing, one for this run and one for each published data set; in the published ones points fall from upper left to lower right.

Each point is an estimator: to the right it removes well, upwards it keeps well. This run first, then the published table. Rings: cells of the published table that are out of line with their neighbors and may be misprints.
:::

:::{csv-table} Spearman's rank correlation of ROAR and KAR over estimators: of RACU with the KAR area, and of the accuracies at one percentage. Intervals for this run; published cells have none.
:name: tab-roar-agreement
:file: ../results/roar/latest/agreement.csv
:header-rows: 1
:::

What the paper says of its table can be checked cell by cell, too.

:::{csv-table} Statements about the published table, and the cells that contradict them.
:name: tab-roar-statements
:file: ../results/roar/latest/published_statements.csv
:header-rows: 1
:::

The headline, that single maps are *worse than random*, deserves its context: for most of them DiffROAR is positive.
Their top is worth more than their bottom; but signed maps put large negative values last, so both ends are rich, and ROAR leaves one of them in place.

## What the masks give away

A network that is trained on holes can read the holes.
Suppose an estimator removed a fixed pattern for each class: it would destroy next to nothing, and the pattern would *be* the label.
Such an estimator is easily built, and is called {term}`LEAKY` here.
A map of a trained network depends on the class that the network sees, so its mask may tell the class as well {cite}`rong2022consistent`.
"""

# %% tags=["hide-input", "remove-output"]
masked = roar_examples.masks(
    results, ResultsStore(store), leaks or ["random"], percent=roar_summary.last_extra(settings)
)
export_figure(mask_figures.masks_figure(*masked), f"{out}/masks")
leaked = roar_controls.leak_table(results, seed=seed)
chance = 1 / len(results.data.images.classes)
export_figure(mask_figures.leak_figure(leaked, chance=chance), f"{out}/leaks", leaked)
export_table(
    roar_text.leak_text(leaked), f"{out}/leak_scores", caption="What masks alone tell of the class.", label="tab:roar-leaks"
)  # fmt: skip
lessons = roar_lesson.leak_lesson(settings, ResultsStore(store), lesson, ["oracle"], percent=lesson_percent)
export_table(
    roar_lesson.lesson_text(lessons), f"{out}/lesson", caption="Leak score by label.", label="tab:roar-lesson"
)

# %% [markdown]
r"""
:::{figure} ../results/roar/latest/masks.svg
:name: fig-roar-masks
:alt: Pairs of images of the same class, and below them their masks by several rankings; LEAKY's masks are equal within a class.

Masks at {{ roar.extra_last }} %: white is kept. LEAKY's are the same for all images of a class. Can you tell the class from the others?
:::

So a network is trained on masks alone, without any image.
Its {term}`leak score` is 0 at chance and 1 when every class is found, and the information it must have had is bounded from below, in nats; to know the class means {{ "%.2f" | format(roar.entropy) }} of them.

:::{figure} ../results/roar/latest/leaks.svg
:name: fig-roar-leaks
:alt: One row per estimator and kind of removal: a filled dot for the accuracy from masks alone, a hollow one for the accuracy from the masked images, and a dashed line at chance.

Accuracy from masks alone (filled) and from images seen through these masks (hollow), with 95 % intervals. Dots to the right of the dashed line are masks that tell something of the class.
:::

:::{csv-table} What masks alone tell: accuracy, leak score, and two lower bounds on the information about the class. For comparison the accuracy on the masked images.
:name: tab-roar-leaks
:file: ../results/roar/latest/leak_scores.csv
:header-rows: 1
:::

How much can leak depends on the label.
If the class were the *shape* of the object, a mask that fits the object perfectly would be an image of the label; for its color and material the same mask says little.

:::{csv-table} Leak score of masks that are the objects themselves ({{ roar.lesson_percent }} % removed), where the label is color and material, and where it is shape, material and size.
:name: tab-roar-lesson
:file: ../results/roar/latest/lesson.csv
:header-rows: 1
:::

## Controls made from the maps themselves

Random pixels are a weak opponent for smooth maps: a blob of holes destroys more than as many scattered ones.
Fairer opponents are the estimator's own masks on the wrong images, *shuffled* among all images or among those of the same predicted class, or *rolled* away from their place.
And filters that know nothing of the network, which should improve no explanation, but can improve the score of a mask by making it smooth {cite}`song2023pitfalls`.
An estimator can even lose against its own masks on the wrong images: on the right image a mask tells the class, on a wrong one it no longer does.
"""

# %% tags=["hide-input", "remove-output"]
made = roar_controls.matched_accuracies(results, table)
intact = float(table.loc[table["percent"] == 0, "mean"].iloc[0])
export_figure(mask_figures.controls_figure(made, intact=intact), f"{out}/controls", made)
export_table(
    roar_text.control_text(results, seed=seed), f"{out}/differences", caption="Paired differences to controls made from maps.", label="tab:roar-differences"
)  # fmt: skip
export_table(
    roar_controls.matched_racu(results, seed=seed), f"{out}/matched", caption="RACU against matched controls.", label="tab:roar-matched",
    columns={"label": "estimator", "reference": "against", "racu": "RACU", "low": "low", "high": "high"},
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/roar/latest/controls.svg
:name: fig-roar-controls
:alt: Two panels of dots with intervals, removed at the left and kept at the right; rows for the estimator itself, random, shuffled, shuffled within classes, rolled, and two filters.

Accuracy under an estimator and under rankings made from its maps; an estimator that is no better than its shuffled or filtered masks has shown no more than their shape. Dashed: nothing removed.
:::

:::{csv-table} Paired differences of accuracies in percentage points with 95 % intervals. *Class in the mask*: shuffled within predicted classes minus shuffled among all. *Shape of the mask*: random minus shuffled. *Place in the image*: shuffled minus the estimator itself. Filters: gain in the direction that counts as better.
:name: tab-roar-differences
:file: ../results/roar/latest/differences.csv
:header-rows: 1
:::

:::{csv-table} RACU with other references in the place of random, over {{ roar.extra }} %.
:name: tab-roar-matched
:file: ../results/roar/latest/matched.csv
:header-rows: 1
:::

## Cheaper than retraining

A network for every estimator, percentage, kind of removal and run is dear.
Three ways are cheaper: *fine-tune* the explained network for a few steps; train *one evaluator* on random masks, which cannot learn the code of any estimator {cite}`zheng2025fidelity`; or do *not retrain* at all.
And {term}`ROAD` fills the holes from their neighbors with a little noise, so that the mask can hardly be seen, which is meant to make retraining unnecessary {cite}`rong2022consistent`.
"""

# %% tags=["hide-input", "remove-output"]
ways = roar_ways.ways_table(results, seed=seed)
by_way = roar_ways.way_accuracies(results, table)
export_figure(figures.ways_figure(by_way), f"{out}/ways", by_way)
export_table(
    roar_text.ways_text(ways), f"{out}/way_agreement", caption="Cheaper ways against full retraining.", label="tab:roar-ways"
)  # fmt: skip
stale = roar_tables.main_curves(results, table, way="none")
export_figure(figures.curves_figure(stale), f"{out}/not_retrained", stale)

# %% [markdown]
"""
:::{figure} ../results/roar/latest/ways.svg
:name: fig-roar-ways
:alt: Two panels, removed and kept, with accuracy over the ways to judge from retrained to imputed and not retrained, one line per estimator; lines cross where ways rank differently.

The same masks, judged in several ways. Lines that cross are estimators whose order depends on the way.
:::

:::{csv-table} Rank correlation of each way with full retraining over the model-based estimators, with 95 % intervals over runs and images, and what it costs.
:name: tab-roar-ways
:file: ../results/roar/latest/way_agreement.csv
:header-rows: 1
:::

:::{figure} ../results/roar/latest/not_retrained.svg
:name: fig-roar-not-retrained
:alt: The curves of the explained network itself under the same masks, without retraining; the random ranking falls much faster than after retraining.

The explained network itself under the same masks. Compare the dotted line with that of {numref}`fig-roar-curves`: the difference is surprise about holes, not lost information.
:::

## Removing in steps

When the same information stands in two places, a map may point at one of them, and retraining finds the other.
Recursive removal asks the *retrained* network for new maps at every step {cite}`madsen2022evaluating`.
"""

# %% tags=["hide-input", "remove-output"]
steps = roar_controls.recursive_table(results, seed=seed)
export_table(
    roar_text.recursive_text(steps), f"{out}/recursive", caption="Removal in steps and at once.", label="tab:roar-recursive"
)  # fmt: skip
spread = roar_tables.variance_table(results)
export_table(
    roar_text.spread_text(results, spread), f"{out}/spread", caption="Where the spread of RACU comes from.", label="tab:roar-spread"
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} ROAR accuracy in percent after removal in steps, with maps made anew, and at once; below zero the new maps find what is left.
:name: tab-roar-recursive
:file: ../results/roar/latest/recursive.csv
:header-rows: 1
:::

## Would another run say the same?

Every run ranks the estimators once, so the rankings of several runs can be compared: all {term}`pairs of them <Kendall's tau>`, or {term}`all at once <Kendall's W>`.

:::{csv-table} Agreement of the RACU rankings of single runs, and, where several networks were explained, the parts of the spread that come from them and from retraining.
:name: tab-roar-spread
:file: ../results/roar/latest/spread.csv
:header-rows: 1
:::

All estimators of one run explain *one* network.
Intervals over retrainings say nothing about another explained network; `n_checkpoints` trains several and takes the two apart.

## All estimators, five percentages, three seeds

A reader's machine trains {{ roar.n_trained }} networks in the time one waits for a page.
A larger run is kept with the book: all 18 estimators and the controls, five percentages, three seeds, more and larger images; `manifest.json` beside its tables says when, on what and with which versions.
"""

# %% tags=["hide-input", "remove-output"]
kept_curves = kept_runs.kept_table(kept, "curve_points")
kept_accuracy = kept_runs.kept_or_notice(kept_runs.kept_table(kept, "accuracy"), kept)
export_figure(figures.curves_figure(kept_curves), f"{out}/kept_curves", kept_accuracy)
kept_areas = kept_runs.kept_table(kept, "areas")
kept_scores = kept_runs.kept_or_notice(kept_runs.kept_table(kept, "scores"), kept)
export_figure(
    figures.summary_figure(kept_areas, roar_published.published_summary()), f"{out}/kept_summary", kept_scores
)
for name in ["differences", "leak_scores", "way_agreement"]:
    larger = kept_runs.kept_or_notice(kept_runs.kept_table(kept, name), kept)
    larger.to_csv(f"{out}/kept_{name}.csv", index=False)

# %% [markdown]
"""
:::{figure} ../results/roar/latest/kept_curves.svg
:name: fig-roar-kept-curves
:alt: Curves of the larger run, one column per base estimator and one for controls, removed above and kept below.

Kept run: accuracy of retrained networks, as in {numref}`fig-roar-curves`.
:::

:::{csv-table} Kept run: accuracy in percent, mean ± standard deviation over runs.
:name: tab-roar-kept-accuracy
:file: ../results/roar/latest/kept_curves.csv
:header-rows: 1
:::

:::{figure} ../results/roar/latest/kept_summary.svg
:name: fig-roar-kept-summary
:alt: RACU, KAR area and DiffROAR of all estimators of the larger run with their intervals, sorted by RACU.

Kept run: areas with 95 % intervals, as in {numref}`fig-roar-summary`.
:::

:::{csv-table} Kept run: RACU, ranks, KAR area and DiffROAR, as in {numref}`tab-roar-scores`.
:name: tab-roar-kept-scores
:file: ../results/roar/latest/kept_summary.csv
:header-rows: 1
:::

:::{csv-table} Kept run: what masks alone tell of the class, as in {numref}`tab-roar-leaks`.
:name: tab-roar-kept-leaks
:file: ../results/roar/latest/kept_leak_scores.csv
:header-rows: 1
:::

:::{csv-table} Kept run: differences to controls made from the maps, as in {numref}`tab-roar-differences`.
:name: tab-roar-kept-differences
:file: ../results/roar/latest/kept_differences.csv
:header-rows: 1
:::

:::{csv-table} Kept run: cheaper ways against full retraining, as in {numref}`tab-roar-ways`.
:name: tab-roar-kept-ways
:file: ../results/roar/latest/kept_way_agreement.csv
:header-rows: 1
:::

## Does the published finding hold here?

Each statement is answered by the interval of what was measured: *yes* or *no* only if the whole interval lies on one side of zero, or, where two things are said to be alike, within the margin or outside.
"""

# %% tags=["hide-input", "remove-output"]
found = [*roar_findings.roar_findings(results, seed=seed), *toy_roar.toy_findings(toy)]
answers = kept_runs.findings_text(found, kept_runs.kept_table(kept, "findings"))
export_table(
    kept_runs.answers_text(answers), f"{out}/answers", caption="Findings in short.", label="tab:roar-answers"
)  # fmt: skip
export_table(
    answers, f"{out}/findings", caption="Findings, answered by 95 % intervals.", label="tab:roar-findings"
)
apart = roar_findings.separation_table(results, table)
export_table(
    apart, f"{out}/separation", caption="Distance from random in pooled standard deviations.", label="tab:roar-separation",
    columns={"label": "estimator", "percent": "percent", "below": "random minus estimator", "pooled_std": "pooled SD", "ratio": "ratio"},
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} Statements, what this run says about them, and what the larger one says where it is kept.
:name: tab-roar-findings
:file: ../results/roar/latest/answers.csv
:header-rows: 1
:::

The statements of {cite:t}`hooker2019benchmark` are about ImageNet-sized networks and channel values as units; a *no* here says that a statement does not carry over to small networks and pixels, not that it was wrong.
"""

# %% tags=["hide-input", "remove-output"]
export_table(
    roar_cost.training_counts(settings), f"{out}/trainings", caption="Networks of this run.", label="tab:roar-trainings"
)  # fmt: skip
export_table(
    roar_text.storage_text(roar_cost.run_storage(results)), f"{out}/storage", caption="Bytes of rank maps.", label="tab:roar-storage"
)  # fmt: skip
cost = roar_cost.published_cost(training_rate=images_per_second)
export_table(roar_text.cost_text(cost), f"{out}/cost", caption="The published study.", label="tab:roar-cost")
record(
    out,
    **roar_summary.quotable(results, table, areas),
    example=example.title,
    toy_examples=toy_examples,
    toy_seeds=toy_seeds,
    lesson_percent=lesson_percent,
    passes=dict(zip(("shared", "apart"), roar_cost.run_passes(settings), strict=True)),
    images_per_second=images_per_second,
    findings={finding.key: finding.answer for finding in found},
    n_asked=len(found),
    n_yes=sum(finding.answer == "yes" for finding in found),
    n_no=sum(finding.answer == "no" for finding in found),
    n_undecided=sum(finding.answer == "undecided" for finding in found),
)

# %% [markdown]
r"""
:::{admonition} What to take away
:class: tip
- Of the model-based estimators, *{{ roar.best }}* removes most here and *{{ roar.worst }}* least.
- The opponent is random: {{ "%.0f" | format(100 * roar.random_last) if roar.random_last is not none else "?" }} % accuracy with {{ roar.last }} % of the pixels gone, after retraining; {{ "%.0f" | format(100 * roar.random_last_not_retrained) if roar.random_last_not_retrained is not none else "?" }} % without.
- The other opponent is the image itself: {{ roar.behind_sobel if roar.behind_sobel is not none else "an unknown number" }} of {{ roar.n_model_based }} model-based estimators remove less here than Sobel's edges, which know no network.
- Report ROAR and KAR together, and their correlation; in the published table they contradict each other.
- A low ROAR accuracy does not prove a faithful map: shape and class of the mask count too. Show shuffled controls and a network that sees masks alone.
- Of {{ roar.n_asked }} statements, {{ roar.n_yes }} hold here, {{ roar.n_no }} are contradicted and {{ roar.n_undecided }} stay undecided.
:::

:::{admonition} Limits of this test
:class: warning
- **Leaks.** The mask is a function of the explained network's prediction, and a fixed fill lets a retrained network read it.
- **Shape.** Smooth masks destroy more than scattered ones; filters that add nothing about the network can improve a score {cite}`song2023pitfalls`.
- **Removing against keeping.** The two orders of removal rank estimators differently, and neither is *the* right one.
- **Another network.** The retrained network is not the explained one. What it can do without says something about the data, not only about the map.
- **Redundancy.** While a copy of the information is left, nothing is lost; look at several percentages.
- **Coordinates.** Removing pixels cannot tell apart maps that differ in how pixels act together {cite}`park2024geometric`.
- **One explained network**, few runs, small images: the spread over other explained networks is not in the intervals.
- Training images are nearly all answered rightly by the explained network, so their masks tell the label better than those of test images do.
:::

## Exercises

1. Run `heatcheck run roar -p target=label`. Which number should move first, and why?
2. In {numref}`tab-roar-accuracy`, compare KAR of random at 10 % with ROAR of random at 90 %. Why must they agree, and what would a difference tell you about the pipeline?
3. Keep the pixels of `oracle`, the object itself, at 10 %. Does KAR reach the accuracy of the whole image? What does ROAR say of the same ranking?
4. Run with `-p granularity=element -p road='[]'`, because imputation is for whole pixels. Does random removal become an even stronger opponent, and why should it?

:::{admonition} Solutions
:class: dropdown
1. The leak score of the test masks. The map now depends on the true label even where the network errs, so a mask can tell what the network does not know. ROAR accuracies may rise for the same reason.
2. Both leave a random tenth of the pixels. Only the draw differs, so a difference beyond the intervals means that removing and keeping are not handled alike: another fill, another order of masking and augmentation, or ranks that are not exact.
3. Take the list that `heatcheck params roar` shows for `estimators`, and add `oracle`. With the embedded data, color and material are in the object, so keeping it should be enough and removing it fatal: good in both directions at once, which the published estimators are not.
4. A position loses all three channels only when each of them is drawn. With 90 % of the values gone, 27 % of the positions still show at least one channel, and colors can be guessed from one.
:::

## At paper scale

What a run costs is counted in trainings, and in bytes of maps.

:::{csv-table} Networks that this run trained, and how often one was tested.
:name: tab-roar-trainings
:file: ../results/roar/latest/trainings.csv
:header-rows: 1
:::

No modified data set is ever written.
What is stored is at which percentage a pixel goes, half a byte or a byte each; images are masked when they are read, on the device.

:::{csv-table} Bytes for this run's images: rank maps in several forms, and the data sets that one would otherwise write.
:name: tab-roar-storage
:file: ../results/roar/latest/storage.csv
:header-rows: 1
:::

The ensembles share their noisy copies: {{ roar.passes.shared }} passes per image for this run's estimators instead of {{ roar.passes.apart }}.

:::{csv-table} The published study, computed from its recipes: 18 estimators, 5 percentages, ROAR and KAR, 5 runs, at {{ "%.0f" | format(roar.images_per_second) }} training images per second and GPU, which is an assumption: put in your own with `-p images_per_second=...`.
:name: tab-roar-cost
:file: ../results/roar/latest/cost.csv
:header-rows: 1
:::

`heatcheck run roar --preset paper` follows the published protocol with a ResNet-50 on Food-101 (`HEATCHECK_FOOD101`; `heatcheck data food101` says how the folder must be laid out).
`-p data=birdsnap` and `-p data=imagenet` take the other two.
It ranks channel values, masks the image after the first preprocessing and preprocesses it again, as the published runs did; `-p protocol=recommended` ranks pixels and masks once.
The two must not be mixed in one table.

Every condition is a cell of its own: a run can be stopped and resumed, and `--on ray` spreads its cells over the GPUs of a cluster, with Slurm or Kubernetes underneath ({doc}`../cluster`).
Cheaper plans, in the order of what they give up: fewer epochs (`-p epochs=18`), fewer estimators, one evaluator and ROAD for all (`-p evaluator=true`, at a single training per run).

To make the larger run of this page yourself, in some hours on two cores (`manifest.json` has all its parameters):

```bash
heatcheck run roar --into _build/roar-large -p n_train=none -p n_test=none -p size=none -p epochs=none \
  -p n_runs=3 -p percents='[10, 30, 50, 70, 90]' -p estimators='["random", "sobel",
  "grad", "sq-grad", "sg-grad", "sq-sg-grad", "sg-sq-grad", "var-grad",
  "gb", "sq-gb", "sg-gb", "sq-sg-gb", "sg-sq-gb", "var-gb",
  "ig", "sq-ig", "sg-ig", "sq-sg-ig", "sg-sq-ig", "var-ig", "oracle", "leaky"]'
heatcheck keep roar embedded-3-seeds --from _build/roar-large
```
"""
