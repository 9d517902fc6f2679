# %% [markdown]
r"""
(chapter-idsds)=
# In-domain single deletion (IDSDS)

**Question.** A model relies on some regions of an image and not on others, and it can be asked which: take one region away and see how far the score of the class falls.
Does a heatmap put the regions into the same order?

Cut the image into $M$ square patches.
Let $a_k$ be the sum of an attribution over the pixels of patch $k$, and $d_k$ the fall of the {term}`logit` of the class $c$ when that patch alone is deleted.
The score of the image is the {term}`rank correlation` of the two,

```{math}
:label: eq-idsds
\rho = \operatorname{Spearman}\big((a_1, \dots, a_M), (d_1, \dots, d_M)\big),
\qquad
d_k = z_c(x) - z_c(x \text{ without patch } k),
```

between -1 and 1; **higher is better**, and a map that knows nothing scores 0 on average {cite}`hesse2024benchmarking`.
The score of a data set is the mean over its images.

Two things set this benchmark apart.
The model is first *fine-tuned with patches deleted*, so that an image with a hole is nothing it has never seen: the deletion is {term}`in the domain <in-domain deletion>`.
And a rank correlation does not care about the scale of a model's outputs, so that **models** can be compared as well as methods.
The figures show one image patch by patch first, then the methods, then what the score depends on, and at last what the design of a network does to its explanations.
"""

# %% tags=["hide-input"]
from typing import Literal

import pandas as pd

from heatcheck.benchmarks import (
    findings,
    idsds,
    idsds_alignment,
    idsds_design,
    idsds_design_findings,
    idsds_examples,
    idsds_extras,
    idsds_findings,
    idsds_published,
    idsds_scores,
    idsds_summary,
    idsds_sweeps,
    idsds_tables,
    idsds_text,
)
from heatcheck.figures import idsds as figures
from heatcheck.figures import idsds_conditions as condition_figures
from heatcheck.figures import idsds_models as model_figures
from heatcheck.figures.export import export_figure, export_table
from heatcheck.figures.images import gallery_figure
from heatcheck.figures.results import record
from heatcheck.figures.style import use_style
from heatcheck.runtime.store import ResultsStore

use_style()

# %% tags=["parameters"]
preset: str = "quick"  # name of the row in nbs/presets.toml
out: str = "book/results/idsds/latest"  # folder of the exported figures and tables
store: str = ".cache/store"  # folder of the results store
profile: Literal["reference", "corrected"] = "reference"  # methods as published, or as their papers say
methods: list[str] = [
    "input-x-gradient",
    "integrated-gradients",
    "ig-uniform",
    "grad-cam",
    "random",
]  # see `heatcheck methods`
options: dict[str, dict[str, int | float | str | bool | dict[str, int | float | str]]] = {}  # by method
variants: dict[
    str, dict[str, str | dict[str, int | float | str | bool]]
] = {}  # methods under other names: {name = {method = "...", options = {...}}}
plugins: list[str] = []  # Python files that register methods or models of your own
data: str = "metal-color"  # metal-color, imagenet or places365
models: list[str] = ["small/resnet8"]  # classifiers as they were trained; the first is looked at closely
tuned: dict[str, str] = {"small/resnet8": "small/resnet8-tuned"}  # the same after fine-tuning, by model
weights: dict[str, str] = {}  # weights of torchvision, timm and design models: a file, "hub" or "random"
n_classes: dict[str, int] = {}  # number of classes of such weights, where it is not the model's default
factors: dict[str, list[str]] = {}  # models along each design factor, in order
n_images: int = 128  # images that are scored
n_train: int = 128  # training images that accuracy is also measured on
transforms: list[Literal["raw", "abs", "relu"]] = ["raw", "abs"]  # of every pixel, before patches are summed
grid: int = 4  # patches per side
fill: str = "zero"  # what a deleted patch becomes
detailed: list[str] | None = None  # models that are scored by everything; by default the first one
compared: list[str] | None = None  # methods of the other models; by default all
originals: Literal["all", "detailed", "none"] = "detailed"  # models also explained before fine-tuning
grids: list[int] = [2, 8]  # further grids
fills: list[str] = ["random", "wide-blur"]  # further deletion values
set_sizes: list[int] = [2, 4]  # numbers of patches that are deleted together
n_sets: int = 32  # random sets of each size
incremental: list[str] = ["input-x-gradient", "integrated-gradients", "grad-cam"]  # methods of the IDS
updated: list[str] = []  # those whose maps are also made anew at every step
n_incremental: int = 40  # images of the IDS
n_steps: int = 32  # steps of the IDS
directions: list[Literal["ascending", "descending"]] = ["ascending"]  # order of the deleted pixels
shown_methods: list[str] = ["integrated-gradients", "grad-cam", "input-x-gradient"]  # patch by patch
n_varied: int = 64  # images that noise, baselines, outputs and the other profile are compared on
noise_scales: list[float] = [0.25, 0.5, 1.0, 2.0, 4.0]  # standard deviations of SmoothGrad's noise
uniform_scales: list[float] = [0.5, 2.0, 4.0]  # half-widths of further uniform baselines
baseline_seeds: list[int] = [0, 1, 2]  # seeds of the uniform baseline
softmax_methods: list[str] = ["input-x-gradient", "integrated-gradients"]  # also explain the probability
other_methods: list[str] = ["ixg-smoothgrad", "grad-cam++"]  # methods of the other profile
seed: int = 0  # seed of everything random
device: str = "auto"  # auto, cpu, cuda, cuda:<index>
workers: int = 0  # processes that compute on a CPU; 0 is one per core
on: str = "local"  # where cells are computed: local, or a Ray cluster: ray, ray://HOST:PORT
memory: str | None = None  # extra memory to use, such as "512MB"

# %% [markdown]
"""
## The protocol

For each image, one pass over the intact image and one for each patch give the drops; they do not depend on the method, so they are computed once per model and shared by all.
Then each method explains the logit of the image's **true class**, right or wrong as the model may be, and its map is cut into the same patches.
Nothing is thrown away silently: a map without any ranking, such as a constant one, has no score and is counted ({term}`flag`).

The images are the rendered scenes of {doc}`deletion`: three to five objects, one of them made of metal, and the class is *its* color.
The networks are small ones that differ in one thing at a time: depth, width, normalization, biases, the size of the window they look through.
Each exists as it was trained and after fine-tuning with patches deleted.
*{{ idsds.model }}* is looked at closely, the others are compared with it.

One call computes everything; what a previous run has finished is read from the results store.
"""

# %%
names = idsds.Settings.model_fields
settings = idsds.Settings(**{name: value for name, value in globals().items() if name in names})
results = idsds.run(settings, ResultsStore(store))
settings = results.settings
subject = results.final(results.main)

# %% [markdown]
"""
## One image, patch by patch

Before any mean, one image.
It is the one on which the first method comes nearest to its own mean score: neither a success nor a failure.
"""

# %% tags=["hide-input", "remove-output"]
shown = idsds_examples.shown_methods(subject, shown_methods)
number = idsds_examples.typical_image(subject, results, shown[0])
example = idsds_examples.patch_example(results, subject, number, shown)
export_figure(model_figures.example_figure(example.image, example.explained), f"{out}/example")

# %% [markdown]
"""
:::{figure} ../results/idsds/latest/example.svg
:name: fig-idsds-example
:alt: One rendered scene in rows, one row per method: the image with a grid, the heatmap, a grid of summed relevance, a grid of true drops of the logit, and a scatter of the ranks of both.

One image of the class *{{ idsds.example.target }}* (the network says *{{ idsds.example.prediction }}*). From left to right: the image and its {{ idsds.grid }} x {{ idsds.grid }} patches; the map; the map summed over each patch; how far the logit really falls without it; and the ranks of both, whose correlation is the score. Red speaks for the class, blue against it.
:::

Blue drops are no error: without that patch the model is *surer* of the class.
{{ "%.0f" | format(100 * idsds.negative_drops[idsds.untuned]) }} % of all drops are negative before fine-tuning, so a score that rewards signs has much to reward.
And {{ "%.0f" | format(100 * idsds.faint_drops) }} % of the drops are fainter than a hundredth of the image's largest one; a rank counts them like any other.

## Heatmaps of all methods

Two scenes through every method.
"""

# %% tags=["hide-input", "remove-output"]
pictures, heatmaps, titles = idsds_examples.patch_gallery(results, subject, n=2)
export_figure(gallery_figure(pictures, heatmaps, titles), f"{out}/gallery")

# %% [markdown]
"""
:::{figure} ../results/idsds/latest/gallery.svg
:name: fig-idsds-gallery
:alt: Two rendered scenes, each followed by the heatmaps of all methods and of controls.

Maps of *{{ idsds.model }}* after fine-tuning, channels added up, signs kept, each scaled by itself; the method with the highest mean score comes first, controls come last. Red speaks for the class, blue against it; maps without a sign run from light to dark.
:::

## Is a hole in the domain?

A network that has never seen a gray square may stumble over the square instead of missing what was behind it.
So it is fine-tuned: in every batch half of the images lose exactly one random patch, with the same grid and the same deletion value as in the test {cite}`hesse2024benchmarking`.
Since the patch is chosen without looking at the image, the hole itself says nothing about the class.

If that works, deleting a patch costs less accuracy after fine-tuning than before, and costs about as much on training images as on test images.
"""

# %% tags=["hide-input", "remove-output"]
alignment = idsds_alignment.alignment_table(results, seed=seed)
export_figure(model_figures.alignment_figure(alignment), f"{out}/alignment", alignment)
export_table(
    idsds_text.alignment_text(alignment), f"{out}/accuracy", caption="Accuracy in percent, intact and with one patch deleted.", label="tab:idsds-accuracy"
)  # fmt: skip
moved = idsds_alignment.difference_table(results, ResultsStore(store), seed=seed)
export_table(
    idsds_text.difference_text(moved), f"{out}/differences", caption="Softmax outputs before and after fine-tuning.", label="tab:idsds-differences"
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/idsds/latest/alignment.svg
:name: fig-idsds-alignment
:alt: One row per network; a hollow gray dot for the accuracy that one deleted patch costs before fine-tuning and a filled dot for after, on test and on training images, with intervals.

Accuracy that one deleted patch costs: hollow before fine-tuning, filled after, mean over all patches, with 95 % intervals over images. The axis is logarithmic above 5 %. Dots at zero mean that the hole does no harm; equal dots left and right that the hole is as familiar in the test as in training.
:::

:::{csv-table} Top-1 accuracy in percent, on intact images and with one random patch deleted, and the gap between the two with its 95 % interval.
:name: tab-idsds-accuracy
:file: ../results/idsds/latest/accuracy.csv
:header-rows: 1
:::

Fine-tuning must not make another model of it.
The mean absolute difference (MAD) of the softmax outputs before and after says how far it moved.

:::{csv-table} How far fine-tuning moved each model on intact images: mean absolute difference over all {{ idsds.n_classes }} classes, and of the target alone; change of accuracy; share of images with the same prediction. In brackets 95 % intervals.
:name: tab-idsds-differences
:file: ../results/idsds/latest/differences.csv
:header-rows: 1
:::

## The methods

The study ranks 23 rows: some methods appear twice, raw and with absolute values (*abs.*).
Those that exist for one kind of network only stand here with a network of that kind: attention rollout and the relevance of {cite:t}`chefer2021transformer` with a transformer, B-cos and BagNet maps with networks that compute their own map {cite}`bohle2024bcos,brendel2019approximating`.
What each does is said in one line in {numref}`tab-methods`.
The presets `smoke` and `quick` take fewer steps of integrated gradients, masks of RISE and coalitions of KernelSHAP than were published; `heatcheck params idsds` lists them.
"""

# %% tags=["hide-input", "remove-output"]
scores = idsds_scores.all_scores(results)
methods_here = idsds_summary.method_table(results, seed=seed)
oracle = idsds_extras.oracle_table(results, subject, seed=seed)
quoted = idsds_summary.quotable(results, methods_here, oracle)
export_figure(
    figures.methods_figure(methods_here, ceiling=quoted["oracle_abs"]), f"{out}/methods", methods_here
)
methods_here["here"] = idsds_text.span_text(methods_here)
export_table(
    methods_here, f"{out}/scores", caption="IDSDS of all methods, with published values of other networks and images.", label="tab:idsds-scores",
    columns={"row": "method", "model": "network", "here": "IDSDS ↑", "n_excluded": "undefined", "published": "published", "published_model": "published network"},
)  # fmt: skip
oracle["here"] = idsds_text.span_text(oracle)
export_table(
    oracle, f"{out}/oracle", caption="True drops as attributions.", label="tab:idsds-oracle",
    columns={"oracle": "attribution", "transform": "transform", "here": "score ↑", "n_excluded": "undefined"},
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/idsds/latest/methods.svg
:name: fig-idsds-methods
:alt: One row per method with its mean rank correlation and interval, the best on top; filled dots for raw maps, hollow ones for absolute maps, gray ones for controls; a dashed line for the absolute true drops.

Scores of {{ idsds.n_rows }} rows of the study on {{ idsds.n_images }} scenes, with 95 % intervals over images; below them other methods, those that ask the model about deletions themselves, and controls. Filled: raw. Hollow: absolute. Dashed: what the true drops would score without their sign.
:::

:::{csv-table} IDSDS here, and published values of ImageNet networks. The two are **not comparable in value**: other networks, other images. Undefined: images on which the map has no ranking; they are left out of that mean. Profile, of which more below: {{ idsds.profile }}.
:name: tab-idsds-scores
:file: ../results/idsds/latest/scores.csv
:header-rows: 1
:::

How high can a score be?
The true drops themselves, the {term}`oracle` of this test, score 1 by definition; what they score without their sign, or with the drops of another deletion value, shows what the sign is worth and how far the order of patches is a fact about the image.

:::{csv-table} True drops in the place of an attribution: without their sign, with another deletion value, and from the model before fine-tuning.
:name: tab-idsds-oracle
:file: ../results/idsds/latest/oracle.csv
:header-rows: 1
:::

KernelSHAP over the same patches and the sliding patch ask the model about deletions, which is what the score asks.
They stand apart: a high score of theirs says that they answer the same question, not that they are better explanations.

## Raw or absolute?

Many papers draw the absolute values of a map.
That throws away which patches speak *against* the class.
"""

# %% tags=["hide-input", "remove-output"]
headline = idsds_scores.single_score(subject, results.headline)
signs = idsds_tables.compare_transforms(headline, seed=seed)
signs = idsds_summary.signed_only(signs, headline)
export_figure(figures.transforms_figure(signs), f"{out}/transforms", signs)

# %% [markdown]
"""
:::{figure} ../results/idsds/latest/transforms.svg
:name: fig-idsds-transforms
:alt: Left, a filled and a hollow dot per method for the raw and the absolute map; right, the paired difference with its interval around a line at zero.

Raw maps (filled) against absolute ones (hollow), and their paired difference with its 95 % interval; a hollow dot at the right has zero in its interval. Methods whose maps are never negative are left out.
:::

## Where integrated gradients start

Integrated gradients {cite}`sundararajan2017axiomatic` go from a {term}`baseline` to the image.
The study finds that a baseline of *uniform noise* (IG-U) scores higher than zero, although patches are deleted with zeros.
Its noise is one image, drawn once from [-1, 1) in the space of the network's inputs: for ImageNet networks about a fifth of the color range to either side, for these networks {{ "%.2f" | format(idsds.std) }} of it, because their inputs are scaled to the little contrast of the scenes.
So width and seed are varied.
"""

# %% tags=["hide-input", "remove-output"]
starts = idsds_sweeps.side_run(
    settings, ResultsStore(store), ["integrated-gradients"] if uniform_scales else [],
    n_images=n_varied, variants=idsds_sweeps.baseline_variants(uniform_scales),
)  # fmt: skip
by_seed = {
    number: idsds_sweeps.side_run(settings, ResultsStore(store), ["ig-uniform"], n_images=n_varied, seed=number)
    for number in baseline_seeds
}  # fmt: skip
baselines = idsds_sweeps.baseline_table(starts, by_seed, seed=seed)
export_figure(figures.baselines_figure(baselines), f"{out}/baselines", baselines)

# %% [markdown]
"""
:::{figure} ../results/idsds/latest/baselines.svg
:name: fig-idsds-baselines
:alt: One row per baseline of integrated gradients with the score of the raw map, filled, and of the absolute map, hollow.

Integrated gradients from several baselines on the same {{ idsds.n_varied }} images: zero, uniform noise of other half-widths and seeds, black, white, and the blurred image. Filled: raw. Hollow: absolute.
:::

## How much noise

SmoothGrad averages maps of noisy copies {cite}`smilkov2017smoothgrad`.
The published runs used what their library does by default: four copies, and noise with standard deviation 1 in the space of the inputs.
Again the unit is the network's: 1 is {{ "%.2f" | format(idsds.std) }} of the color range here and nearly a quarter of it for an ImageNet network.
What the study says about smoothing it says about *that* noise.
"""

# %% tags=["hide-input", "remove-output"]
noisy = idsds_sweeps.side_run(
    settings, ResultsStore(store), ["input-x-gradient", "integrated-gradients"] if noise_scales else [],
    n_images=n_varied, variants=idsds_sweeps.noise_variants(noise_scales),
)  # fmt: skip
noise = idsds_sweeps.noise_table(noisy, noise_scales, seed=seed)
export_figure(figures.noise_figure(noise), f"{out}/noise", noise)

# %% [markdown]
"""
:::{figure} ../results/idsds/latest/noise.svg
:name: fig-idsds-noise
:alt: Two panels, for input times gradient and for integrated gradients: the score of the smoothed raw and absolute map against the standard deviation of the noise; dashed lines show the maps without smoothing.

Score of the smoothed maps against the noise, four noisy copies each; bands are 95 % intervals. Dashed: not smoothed. Dotted: the noise of the published runs.
:::

## As published, or as written

Several published numbers come from methods that a library computes otherwise than their papers say {cite}`fernandez2020torchcam`: Grad-CAM++ with the cube of the positive gradients, its smoothed form with the activations of the last noisy copy, SmoothGrad with the noise above.
The profile `reference` repeats them, the profile `corrected` follows the papers, with noise of 0.15 of each image's range and three uniform baselines per image.
No table of this chapter mixes the two; this one holds the other profile, on {{ idsds.n_varied }} images.
"""

# %% tags=["hide-input", "remove-output"]
other = idsds_sweeps.side_run(
    settings, ResultsStore(store), other_methods, n_images=n_varied, profile=idsds_sweeps.OTHER_PROFILE[profile]
)  # fmt: skip
rows = idsds_sweeps.profile_table(other, seed=seed)
rows["here"] = idsds_text.span_text(rows)
export_table(
    rows, f"{out}/other_profile", caption="Methods in the other profile.", label="tab:idsds-profile",
    columns={"row": "method", "profile": "profile", "here": "IDSDS ↑", "n": "n", "n_excluded": "undefined"},
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} Methods that the two profiles compute differently, in the profile that the rest of the chapter does *not* use.
:name: tab-idsds-profile
:file: ../results/idsds/latest/other_profile.csv
:header-rows: 1
:::

## Three protocols

The same score on the network *before* fine-tuning is called {term}`SDS`: single deletion, out of the domain.
*Incremental* deletion ({term}`IDS`) deletes pixels one after the other, the least relevant first, in {{ idsds.n_steps }} steps, and averages the probability of the class; higher is better there too.
Do the three rank methods alike?
"""

# %% tags=["hide-input", "remove-output"]
protocols = idsds_summary.protocol_table(results, scores)
export_figure(figures.ranks_figure(protocols), f"{out}/protocols", protocols)
agreement = idsds_text.agreement_text(results, scores, seed=seed)
export_table(
    agreement, f"{out}/agreement", caption="Rank agreement of protocols over methods.", label="tab:idsds-agreement"
)  # fmt: skip
export_table(
    idsds_text.incremental_text(results, scores, seed=seed), f"{out}/incremental", caption="Scores by incremental deletion.", label="tab:idsds-incremental"
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/idsds/latest/protocols.svg
:name: fig-idsds-protocols
:alt: Lines that connect the rank of each method under incremental deletion, single deletion before fine-tuning, and single deletion after it; absolute maps are dashed.

Ranks of the same methods on *{{ idsds.model }}* under incremental deletion ({{ idsds.n_incremental }} images), SDS and IDSDS. Solid: raw maps. Dashed and hollow: absolute maps.
:::

:::{csv-table} {term}`Agreement <agreement>` of two protocols over methods, on the same images: {term}`Kendall's tau` and {term}`Spearman's rho` with 95 % intervals over images; over all maps, and over raw and absolute maps alone, for the sign drives much of the disagreement.
:name: tab-idsds-agreement
:file: ../results/idsds/latest/agreement.csv
:header-rows: 1
:::

:::{csv-table} Scores by incremental deletion: mean probability of the class over the steps, with 95 % intervals. *Updated*: the map is made anew at every step.
:name: tab-idsds-incremental
:file: ../results/idsds/latest/incremental.csv
:header-rows: 1
:::

## What else the score depends on

The number of patches, the deletion value, and whether one patch goes or several are choices.
Only the headline is in the domain of this network: it was fine-tuned with that grid and that value, one patch at a time.
For sets of patches a map's forecast is the sum over the set, and the score the rank correlation over random sets.
Two columns are extensions of this book: *positive drops* counts only the patches that speak for the class, which is kinder to maps that are made for positive evidence; *linear* takes the linear instead of the rank correlation, so that patches which hardly matter hardly count.
"""

# %% tags=["hide-input", "remove-output"]
conditions = idsds_summary.condition_table(results, scores)
raw = conditions[conditions["transform"] == "raw"]
export_figure(condition_figures.conditions_figure(raw), f"{out}/conditions", conditions)
probable = idsds_sweeps.side_run(
    settings, ResultsStore(store), softmax_methods, n_images=n_varied, softmax=True
)
outputs = idsds_sweeps.output_table(probable, seed=seed)
export_table(
    idsds_text.output_text(outputs), f"{out}/outputs", caption="Logit and probability.", label="tab:idsds-outputs"
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/idsds/latest/conditions.svg
:name: fig-idsds-conditions
:alt: A table of colored cells with mean scores, one row per method, one column per way of deleting: the headline, positive drops only, other grids, other deletion values, sets of patches.

Mean scores of raw maps on *{{ idsds.model }}*, red above zero and blue below. Left: the headline. *Positive drops* and *linear* use the same deletions; all other columns ask the network for deletions that it was not fine-tuned with. Blank: no ranking on such a grid.
:::

A method may explain the logit or the probability of the class, and the drop may be one of either.

:::{csv-table} The logit explained and dropped; the probability explained and dropped; and maps of the logit against drops of the probability. The last column is the paired difference of the second to the first. {{ idsds.n_varied }} images, 95 % intervals.
:name: tab-idsds-outputs
:file: ../results/idsds/latest/outputs.csv
:header-rows: 1
:::

Is the score a property of the method, or of the images?
"""

# %% tags=["hide-input", "remove-output"]
leading = idsds_summary.leading_columns(headline, n=4)
by_class = idsds_summary.breakdown(results, subject, headline, leading, "class", seed=seed)
by_confidence = idsds_summary.breakdown(results, subject, headline, leading, "confidence", seed=seed)
figure = condition_figures.breakdown_figure([("By class", by_class), ("By confidence", by_confidence)])
export_figure(figure, f"{out}/breakdown", pd.concat([by_class, by_confidence]))

# %% [markdown]
"""
:::{figure} ../results/idsds/latest/breakdown.svg
:name: fig-idsds-breakdown
:alt: Two panels with the mean score of four methods, for each class at the left and for four equal parts of the images by confidence at the right.

The four best methods within each class, and within equal parts of the images from the least to the most confident, with 95 % intervals. Below each group: its number of images.
:::

## How many images for which difference

A difference may be read as a ranking only if it is larger than its own noise.
"""

# %% tags=["hide-input", "remove-output"]
resolution = idsds_extras.resolution_rows(
    headline, counts=sorted({len(headline.values), *idsds_extras.COUNTS})
)
export_table(
    resolution, f"{out}/resolution", caption="Resolution of the benchmark by the number of images.", label="tab:idsds-resolution",
    columns={"n_images": "images", "standard_error": "standard error", "readable": "readable difference", "detectable": "detectable difference", "random": "random map"},
)  # fmt: skip
degraded = idsds_summary.degradations(results, subject, leading[:2], seed=seed)
export_figure(condition_figures.degradation_figure(degraded), f"{out}/degradation", degraded)

# %% [markdown]
"""
:::{csv-table} What some number of images can tell, from the spread of the scores of this run: standard error of one method's mean; smallest paired difference that may be read as a ranking (two standard errors); difference that a test finds four times in five; standard error of a random map. All medians over methods.
:name: tab-idsds-resolution
:file: ../results/idsds/latest/resolution.csv
:header-rows: 1
:::

And a benchmark must notice when a map gets worse.
So noise is added to the patch sums of good maps, in known doses.

:::{figure} ../results/idsds/latest/degradation.svg
:name: fig-idsds-degradation
:alt: Falling lines of the mean score against the amount of noise, for the true drops and for the best methods.

Scores of maps that are made worse on purpose, with 95 % intervals; a line that does not fall would be a benchmark that does not notice. The noise is the same at every dose but for its size.
:::

## What the design of a network does

So far one network was explained by many methods.
Now the networks change, one design factor at a time: more layers, more channels, no batch norm, no biases, another backbone, a larger window.
"""

# %% tags=["hide-input", "remove-output"]
design = idsds_design.design_table(results, factors, seed=seed)
drawn = idsds_summary.drawn_design(design)
export_figure(model_figures.design_figure(drawn), f"{out}/design", design)
by_model = idsds_summary.model_cells(results)
export_figure(condition_figures.cells_figure(by_model, highest=1.0), f"{out}/models")
published = idsds_published.published_backbones()
export_table(
    published, f"{out}/published", caption="Published IDSDS of ImageNet networks.", label="tab:idsds-published"
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/idsds/latest/design.svg
:name: fig-idsds-design
:alt: Panels of lines, one panel per design factor with its networks in order along the axis and one line per method; stars mark maps that a network computes itself.

Scores along each design factor, with 95 % intervals; read each panel from left to right, in the order in which the factor changes. Stars: maps that the network computes itself. The networks of a panel differ in one thing, but those without batch norm learn more slowly and were trained longer; *backbone* and *intrinsic* differ in more.
:::

:::{figure} ../results/idsds/latest/models.svg
:name: fig-idsds-models
:alt: A table of colored cells with mean scores, one row per network, one column per method.

Mean scores of raw maps, and of absolute ones where they are better, for all networks after fine-tuning. Blank: the method does not exist for that network.
:::

A network that computes its own map may still score low with it.
The map can be right about the patches that decide and leave the order of all others, whose drops are next to nothing, to chance; the linear correlation beside the score in {numref}`tab-idsds-best` tells the two apart.

The published values along the same factors, for orientation:

:::{csv-table} Published IDSDS on ImageNet (R: ResNet, WRN: wide ResNet; *-bn* and *-bias*: without batch norm and without biases). Not comparable in value with ours. Some were read from a figure, to about 0.001, and unlabelled absolute maps were identified by their pattern.
:name: tab-idsds-published
:file: ../results/idsds/latest/published.csv
:header-rows: 1
:::

## Accuracy against attribution quality

Does a network that is harder to explain pay for it with accuracy, or the other way round?
"""

# %% tags=["hide-input", "remove-output"]
quality = idsds_design.quality_table(results, seed=seed)
export_figure(
    model_figures.quality_figure(quality, idsds_design.published_quality()), f"{out}/quality", quality
)
export_table(
    idsds_text.quality_text(quality), f"{out}/best", caption="Accuracy and best maps of all networks.", label="tab:idsds-best"
)  # fmt: skip

# %% [markdown]
"""
:::{figure} ../results/idsds/latest/quality.svg
:name: fig-idsds-quality
:alt: Two scatter plots of the best score against accuracy, one point per network: small networks of this run at the left, published ImageNet networks at the right.

Accuracy after fine-tuning and score of the best method. Left: here; dots are the best general method, stars the network's own map. Right: the published networks {cite}`hesse2024benchmarking`. The axes of accuracy differ.
:::

:::{csv-table} For each network: accuracy on the scored images after fine-tuning, score of the best general method, and of the network's own map where it has one; beside each the linear correlation of the same maps with the drops. Best methods are chosen on the scored images, which flatters them a little.
:name: tab-idsds-best
:file: ../results/idsds/latest/best.csv
:header-rows: 1
:::

## Does the published finding hold here?

Each statement is answered by the interval of what was measured: *yes* or *no* only if the whole interval lies on one side of zero.
Identities that theory promises are answered by the largest difference.
Statements with the source *decaf2026* come from a later study that scored the published networks once more {cite}`decaf2026`.
"""

# %% tags=["hide-input", "remove-output"]
about_methods = [
    *idsds_findings.idsds_findings(results, scores),
    *idsds_findings.output_findings(outputs),
    *idsds_findings.degradation_findings(degraded),
]
about_models = idsds_design_findings.design_findings(results, factors)
columns = {
    "statement": "statement",
    "answer": "holds here?",
    "quantity": "measured",
    "interval": "estimate [interval]",
    "source": "source",
}
for found, stem, what in (
    (about_methods, "findings", "methods and the protocol"),
    (about_models, "design_findings", "networks"),
):
    export_table(
        findings.findings_table(found), f"{out}/{stem}", caption=f"Findings about {what}.", label=f"tab:idsds-{stem}", columns=columns
    )  # fmt: skip

# %% [markdown]
"""
:::{csv-table} Statements about methods and the protocol, on *{{ idsds.model }}* and {{ idsds.n_images }} scenes.
:name: tab-idsds-findings
:file: ../results/idsds/latest/findings.csv
:header-rows: 1
:::

:::{csv-table} Statements about networks, on the same scenes.
:name: tab-idsds-design-findings
:file: ../results/idsds/latest/design_findings.csv
:header-rows: 1
:::
"""

# %% tags=["hide-input", "remove-output"]
record(
    out,
    **quoted,
    **idsds_text.answer_counts([*about_methods, *about_models]),
    example={"target": example.target, "prediction": example.prediction},
    n_varied=min(n_varied, n_images),
    n_steps=n_steps,
    readable=idsds_text.readable(resolution, len(headline.values)),
    findings={finding.key: finding.answer for finding in [*about_methods, *about_models]},
)

# %% [markdown]
r"""
:::{admonition} What to take away
:class: tip
- The best general method on *{{ idsds.model }}* is *{{ idsds.best }}*; with {{ idsds.n_images }} images, differences below about {{ idsds.readable }} are no ranking.
- {{ idsds.n_below_control }} of {{ idsds.n_general }} general rows score no higher than the best control.
- Without their sign even the true drops score only {{ idsds.oracle_abs_text }}: ask whether a map is meant to be signed before drawing its absolute values.
- A score of smoothed maps is one of its noise, a score of integrated gradients one of its baseline: name both, in the units of the color range.
- Of {{ idsds.n_asked }} statements that were asked, {{ idsds.n_yes }} hold here, {{ idsds.n_no }} are contradicted, and {{ idsds.n_undecided }} are left open by these images.
:::

:::{admonition} Limits of this test
:class: warning
- It knows nothing finer than a patch: two maps that differ inside patches only have the same score.
- Ranks do not know what is large. Patches that hardly matter are most of a scene with few objects, and their order counts as much as that of the patches that decide.
- Only deletions of one patch are in the domain. Nothing is said about regions that matter together, and a model may notice one hole and shrug at two.
- It costs a fine-tuning per model, grid and deletion value, and judges the fine-tuned model, which is not quite the one that was asked about.
- Zero is a gray for most of these networks and black for the B-cos network; scores of different deletion values are scores of different questions.
- Methods that delete patches themselves are favored; they are kept apart in {numref}`fig-idsds-methods`.
- {{ idsds.n_undefined }} maps of all methods had no ranking and were left out of means.
- Small networks on rendered scenes are not ImageNet: relations may carry over, values do not. Each network was trained once; another training seed may move it.
:::

## Exercises

1. A linear model with *input times gradient* scores 1 on every image ({numref}`tab-idsds-findings`). Why? Does it still with `fill = "wide-blur"`?
2. Add a constant to a map, multiply it by two, cube every pixel. Which of these change the score, and which change that of the {doc}`deletion` chapter?
3. Run `heatcheck run idsds -p grids='[7]'`. Why is it refused, and which grids are allowed?
4. Bring a map that is high where the image has edges (see {doc}`bring_your_own`). Where does it stand between the controls and the methods?

:::{admonition} Solutions
:class: dropdown
1. Deleting a patch with zeros takes $\sum w_i x_i$ over its pixels from a linear logit, which is the patch's sum of input times gradient: the two vectors are equal. With another value the drop is $\sum w_i (x_i - b_i)$; integrated gradients with the baseline $b$ are exact then, input times gradient is not.
2. All patches have equal area, so a constant adds the same to each sum; a factor changes no order. A cube is taken before the sum and may change the order of the sums. Deletion orders single pixels, so any increasing function leaves it as it is.
3. Patches must be square and tile the image: the side of 64 pixels has no seventh. 2, 4, 8, 16 and 32 are allowed.
4. Edges are where objects are, and objects are what the model may rely on; but nothing tells it *which* object. Compare it with `sobel` and `centre`.
:::

## At paper scale

`heatcheck run idsds --preset paper` scores the validation images of ImageNet with the published fine-tuned networks, 50 nodes for integrated gradients and 1000 masks for RISE.
It needs a GPU, the images in the folder that `HEATCHECK_IMAGENET` names, and the checkpoints, which are not passed on with this book: starting and fine-tuned files under their published names in the folder that `HEATCHECK_IDSDS_WEIGHTS` names.
The networks are called `design/resnet50` and `design/resnet50-tuned`, and so on; one whose file is missing stops the run before anything is computed, so take those models out that you do not have.
The networks without batch norm are published after fine-tuning only: they enter as they are, and what the tables of accuracy call *before* is fine-tuned already.
Drops and patch sums are kept in the results store, 16 numbers per image and map, so that a further method costs its own maps only, and a stopped run goes on where it was.

For a network of your own: fine-tune it with `heatcheck.models.patch_deletion`, register both stages in a plug-in (see {doc}`bring_your_own`), and run `heatcheck run idsds -p plugins='["my_model.py"]' -p models='["mine"]' -p tuned='{mine = "mine-tuned"}'`.
"""
