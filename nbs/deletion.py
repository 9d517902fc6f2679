# %% [markdown]
r"""
(chapter-deletion)=
# Deletion and localization

**Question.** If the pixels that a heatmap calls important are removed, does the network lose its confidence?
And does the heatmap find the object at all?

A {term}`heatmap` orders the pixels; they are removed from the highest relevance to the lowest.
Let $x_k$ be the image after $k$ of $S$ steps; the deletion score is the area under the probability of the explained class $c$,

```{math}
:label: eq-deletion
\text{deletion} = \frac{1}{S}\left(\sum_{k=0}^{S} p_c(x_k) - \frac{p_c(x_0) + p_c(x_S)}{2}\right),
```

a number between 0 and 1; **lower is better** {cite}`petsiuk2018rise`.
{term}`Insertion <insertion>` runs the film backwards, from a blurred image to the original, and higher is better.

Localization asks something else: the box around the most relevant pixels is compared with the true box of the object {cite}`fong2017interpretable,agarwal2020explaining`.
The two need not agree.
The figures show one deletion frame by frame first, then heatmaps and what is put in the holes, then curves and scores beside those of controls, and at last what the scores and the maps depend on.
"""

# %% tags=["hide-input"]
from typing import Literal

from heatcheck.benchmarks import (
    deletion,
    deletion_boxes,
    deletion_examples,
    deletion_findings,
    deletion_pairs,
    deletion_removal,
    deletion_summary,
    deletion_tables,
    findings,
    mask_paths,
    plausibility,
    robustness,
    robustness_tables,
)
from heatcheck.benchmarks.published import published_table
from heatcheck.data import photographs
from heatcheck.figures import deletion as figures
from heatcheck.figures import removal as removal_figures
from heatcheck.figures import robustness as robustness_figures
from heatcheck.figures import tables
from heatcheck.figures.export import export_figure, export_table
from heatcheck.figures.results import record
from heatcheck.figures.style import use_style
from heatcheck.runtime.store import ResultsStore

use_style()

# %% tags=["parameters"]
preset: str = "quick"  # name of the row in nbs/presets.toml
out: str = "book/results/deletion/latest"  # folder of the exported figures and tables
store: str = ".cache/store"  # folder of the results store
methods: list[str] = [
    "gradient",
    "integrated-gradients",
    "sliding-patch",
    "random",
    "random-blocks",
]  # see `heatcheck methods`
options: dict[str, dict[str, int | float | str | bool | list[int | float | str]]] = {}  # options, by method
shown_options: dict[
    str, dict[str, int | float | str | bool | list[int | float | str]]
] = {}  # on shown images
poolings: dict[str, str] = {}  # pooling over channels, by method; each has a default
plugins: list[str] = []  # Python files that register methods or models of your own
shown: str = "photographs"  # data set that is shown image by image
shown_model: str = "efficientnet-lite0"  # classifier of the shown images
n_shown: int = 6  # images that are shown
counted: str = "metal-color"  # data set the statistics come from
counted_model: str = "resnet8-metal-color"  # classifier of the counted images
weights: dict[str, str] = {}  # weights of torchvision and timm models: a file, "hub" or "random"
n_classes: dict[str, int] = {}  # number of classes of such weights, where it is not the model's default
n_images: int = 100  # images that are counted
n_heldout: int = 100  # further images that choose the thresholds
fills: list[str] = ["zero", "blur"]  # what replaces deleted pixels; the first one is the headline
insertion_fill: str = "blur"  # what insertion starts from
ties: Literal["stable", "random", "mean"] = "stable"  # order of equal pixels
step: int | None = None  # pixels changed per step; by default a twenty-eighth of the image
spacing: Literal["uniform", "exact"] = "uniform"  # spacing of the points of a curve
max_fraction: float = 1.0  # share of the pixels changed in the end
threshold: Literal["max", "mean", "value", "energy"] = "max"  # what a box's threshold is a fraction of
region: Literal["tight", "component", "component-mass"] = "tight"  # which pixels above it a box surrounds
ground_truth: Literal["best", "union"] = "best"  # overlap with one true box, or with all of them
sweeps: list[str] = ["stride"]  # what is varied to see how robust heatmaps are
n_robust: int = 10  # counted images whose methods are varied
sweep_options: dict[
    str, dict[str, int | float | str | bool | list[int | float | str]]
] = {}  # options of the methods that are varied, by method
sweep_values: dict[
    str, list[int | float | str]
] = {}  # settings of a sweep, the reference first; lengths are those at 224 pixels
strict: bool = False  # an object is found from an overlap of more than one half
seed: int = 0  # seed of everything random
device: str = "auto"  # auto, cpu, cuda, cuda:<index>
workers: int = 0  # processes that compute on a CPU; 0 is one per core
on: str = "local"  # where cells are computed: local, or a Ray cluster: ray, ray://HOST:PORT
memory: str | None = None  # extra memory to use, such as "512MB"

# %% [markdown]
"""
## What is explained

Two sets of images take part.
**Photographs** are shown: a real ImageNet classifier, EfficientNet-Lite0 {cite}`tan2019efficientnet`, looks at a few pictures that everybody can judge.
A few pictures prove nothing, so the **counting** is done on rendered scenes: three to five objects of which exactly one is made of metal, and the class is *its* color.
There the box and the mask of the object that decides the class are known to the pixel, and the rubber objects carry colors too, but wrong ones.

The photographs, none of which is copied into this book's sources: {{ deletion.credits }}.

One call computes all heatmaps and scores; what a previous run has finished is read from the results store.
"""

# %%
names = deletion.Settings.model_fields
settings = deletion.Settings(**{name: value for name, value in globals().items() if name in names})
results = deletion.run(settings, ResultsStore(store))
settings = results.settings

# %% [markdown]
"""
## One deletion on one photograph

Before any average, one film.
The heatmap comes from the first method of the run; gray is what an ImageNet network calls *nothing*: zero after normalization.
"""

# %% tags=["hide-input", "remove-output"]
example = deletion_examples.first_method(results)
strip = deletion_examples.strip(results, 0, example)
figure = figures.strip_figure(*strip)
export_figure(figure, f"{out}/strip")

# %% [markdown]
"""
:::{figure} ../results/deletion/latest/strip.svg
:name: fig-deletion-strip
:alt: One photograph in seven frames with more and more of its pixels replaced by gray; under each frame the probability of its class.

One deletion, frame by frame, by the heatmap of *{{ deletion.example }}*. The share above each frame is the share of pixels that are gone, the curve is the probability of the explained class: {{ "%.2f" | format(deletion.strip_first) }} for the untouched photograph, {{ "%.2f" | format(deletion.strip_last) }} when everything is gray.
:::

## Heatmaps of all methods

The same two photographs through every method; {numref}`tab-methods` says in one line what each of them does.
Maps with a sign are red where a pixel speaks for the class and blue where it speaks against it.
"""

# %% tags=["hide-input", "remove-output"]
pictures = deletion_examples.pictures(results.shown)[:2]
titles = list(results.shown.data.ids)
figure = figures.gallery_figure(pictures, deletion_examples.gallery(results, n=2), titles[:2])
export_figure(figure, f"{out}/gallery")

# %% [markdown]
"""
:::{figure} ../results/deletion/latest/gallery.svg
:name: fig-deletion-gallery
:alt: Rows of photographs, each followed by the heatmap of every method laid over it; controls, which never look at the network, come last.

Heatmaps as they enter every score below: channels joined, signs kept, each scaled by itself. The last ones are controls, which never look at the network.
:::

The eye likes some of these maps better than others.
It cannot tell which of them says the truth; that is what the scores are for.

## Gray, blurred, or painted over

Three methods of this chapter find out what matters by taking it away, and each takes it away in a manner of its own.
{cite:t}`agarwal2020explaining` keep the methods and change what stands in the hole: an *inpainter* paints what might have been there.
The variants are called SP-G, LIME-G and MP-G.

Sliding patch (SP) hides one window after the other {cite}`zeiler2014visualizing`.
"""

# %% tags=["hide-input", "remove-output"]
removal = deletion_removal.removal_gallery(results, "sliding-patch")
figure = removal_figures.removal_figure(*removal, titles[:3])
export_figure(figure, f"{out}/removal_sp")

# %% [markdown]
"""
:::{figure} ../results/deletion/latest/removal_sp.svg
:name: fig-deletion-removal-sp
:alt: Photographs in rows; beside each the image with a gray square and the sliding patch's heatmap, then the image with the same kind of square inpainted and the variant's heatmap.

Sliding patch without and with inpainting. Shown is the window that costs most probability; under each picture stands the probability of the class. Heatmaps are red where hiding a window hurts.
:::

LIME hides a random half of the {term}`superpixels <superpixel>` and fits a linear model to many such samples {cite}`ribeiro2016why`.
"""

# %% tags=["hide-input", "remove-output"]
removal = deletion_removal.removal_gallery(results, "lime")
figure = removal_figures.removal_figure(*removal, titles[:3])
export_figure(figure, f"{out}/removal_lime")

# %% [markdown]
"""
:::{figure} ../results/deletion/latest/removal_lime.svg
:name: fig-deletion-removal-lime
:alt: Photographs in rows; beside each one sample with about half of the superpixels gray and LIME's heatmap, then the same sample inpainted and the variant's heatmap.

LIME without and with inpainting: one of its random samples, the same for both. Half of an image is a large hole, larger than learned inpainters are trained on.
:::

Meaningful perturbation (MP) searches the smallest smooth mask that takes the evidence away {cite}`fong2017interpretable`.
"""

# %% tags=["hide-input", "remove-output"]
removal = deletion_removal.removal_gallery(results, "meaningful-perturbation")
figure = removal_figures.removal_figure(*removal, titles[:3])
export_figure(figure, f"{out}/removal_mp")

# %% [markdown]
r"""
:::{figure} ../results/deletion/latest/removal_mp.svg
:name: fig-deletion-removal-mp
:alt: Photographs in rows; beside each the image blurred by the mask that was found and that mask as a heatmap, then the image with the variant's mask inpainted and that mask as a heatmap.

Meaningful perturbation without and with inpainting: the image through the mask that was found, and the mask, dark where pixels are removed. MP blurs by degrees, MP-G removes a pixel or does not.
:::

The inpainter is `pushpull` here, a smooth continuation of the surroundings.
It invents no object, so what is said below is said of SP-G(pushpull), LIME-G(pushpull) and MP-G(pushpull); {doc}`../removal` tells how to bring a generative network.

## What inpainting does to a map

A gray window lowers the probability almost wherever it lies, because gray itself is strange; an inpainted one only where it covers evidence.
If that is so, the mean of a map should sink while its maximum stays.
"""

# %% tags=["hide-input", "remove-output"]
statistics = deletion_pairs.statistic_table(results, seed=seed)
export_table(
    deletion_pairs.statistic_text(statistics), f"{out}/statistics", caption="Smallest, largest and mean value of heatmaps, without and with inpainting.", label="tab:deletion-statistics"
)  # fmt: skip
published_maps = published_table("deletion_maps", deletion_pairs.method_statistics(statistics))
export_table(
    published_maps, f"{out}/published_maps", caption="Published maps beside ours; not comparable.", label="tab:deletion-published-maps",
    columns={"method": "method", "metric": "statistic", "published": "published", "here": "here", "data": "published image", "setting": "published setting", "source": "source"},
    digits=4,
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} Values of the heatmaps of {{ deletion.n_images }} {{ deletion.counted_name }}: means over images, and the paired difference that inpainting makes.
:name: tab-deletion-statistics
:file: ../results/deletion/latest/statistics.csv
:header-rows: 1
:::

The authors' code comes with six maps of two photographs.
They show the effect they describe: the mean of SP falls when the window is inpainted, and the largest coefficient of LIME grows.
They are one image each, of another network, and cannot be compared with the means here.

:::{csv-table} Maps published with the code of {cite:t}`agarwal2020explaining` (ResNet-50, two photographs) beside the means of this run. None is comparable.
:name: tab-deletion-published-maps
:file: ../results/deletion/latest/published_maps.csv
:header-rows: 1
:::

## How a mask finds its way

MP-G sees its mask as zeros and ones and lets the gradient pass as if it did not.
And its fill depends on the mask: behind a pixel that is *kept* stands the pixel itself.
Then removing it would change nothing, its cell gets no gradient from the score, and only the smoothness of the mask can still remove it.
The published inpainter escapes from that by accident: it works on 256 pixels instead of 224, so that a kept pixel comes back slightly blurred, and the lost detail gives the gradient.
Here both can be had, `kept = "resampled"` (as published) and `kept = "exact"`.
"""

# %% tags=["hide-input", "remove-output"]
paths = mask_paths.mask_paths(results, ResultsStore(store), seed=seed)
figure = removal_figures.mask_paths_figure(paths)
export_figure(figure, f"{out}/paths", paths)

# %% [markdown]
"""
:::{figure} ../results/deletion/latest/paths.svg
:name: fig-deletion-paths
:alt: Two panels over the number of iterations: left the probability of the class seen through the mask, right the share of the image that the mask removes; one line for meaningful perturbation and three for its inpainting variant.

Meaningful perturbation on its way, means over {{ deletion.paths_n }} {{ deletion.counted_name }}. Left: how well the mask hides the class, with 95 % intervals. Right: how much it removes. The dash-dotted line starts from a mask that removes nothing, with exact pixels behind what is kept.
:::

Where the dotted line stays above the dashed one, a part of the distance between MP and MP-G is no property of inpainting but of how the mask is optimized: the hard mask jumps where the soft one slides, and a kept cell hears of the score only through lost detail.

## Curves

From one film to many: each image gives a curve for each method, and these are their means.
"""

# %% tags=["hide-input", "remove-output"]
curves = deletion_tables.curve_table(results, seed=seed)
shown_curves = deletion_tables.headline(curves, settings)
figure = figures.curves_figure(shown_curves)
export_figure(figure, f"{out}/curves", shown_curves)

# %% [markdown]
"""
:::{figure} ../results/deletion/latest/curves.svg
:name: fig-deletion-curves
:alt: Mean probability of the class against the share of pixels changed, left for deletion and right for insertion, one line per method and dotted gray lines for controls; controls that look at no network are among them.

Mean curves on {{ deletion.n_images }} {{ deletion.counted_name }} with 95 % intervals. Deletion (left): the faster a curve falls, the better. Insertion (right): the faster it rises, the better. The legend is sorted by the area on the left.
:::

## Scores, with intervals and controls

Every score has a 95 % {term}`bootstrap interval` over images, drawn from the same images for all methods.
Equal pixels go row by row, from the top; `ties = "mean"` averages over ten random orders instead, which superpixels deserve in a published table ({term}`tie rule`).
Thresholds of boxes are chosen per method on {{ deletion.n_heldout }} held-out images, never on those that are scored.
"""

# %% tags=["hide-input", "remove-output"]
scores = deletion_tables.all_scores(results)
table = deletion_tables.score_table(scores, seed=seed)
main = deletion_tables.headline(table, settings)
figure = figures.scores_figure(main[main["metric"].isin(["deletion", "insertion"])])
export_figure(figure, f"{out}/scores", table)

# %% [markdown]
"""
:::{figure} ../results/deletion/latest/scores.svg
:name: fig-deletion-scores
:alt: Two panels of dots with intervals, one row per method sorted from best on top, left deletion and right insertion; hollow gray dots are controls.

Deletion (lower is better) and insertion (higher is better) on {{ deletion.n_images }} {{ deletion.counted_name }}: means with 95 % intervals, the best method on top of each panel. Hollow and gray: controls that never look at the network; what stands below one of them has shown nothing. A count beside a row: its {term}`flagged <flag>` maps.
:::
"""

# %% tags=["hide-input", "remove-output"]
summary = tables.wide_table(main)
export_table(
    summary, f"{out}/summary", caption="Scores on rendered scenes, means with 95 % bootstrap intervals.", label="tab:deletion-summary"
)  # fmt: skip
by_pixels = tables.wide_table(main[main["metric"].isin(["deletion", "insertion", "saliency-metric"])])
export_table(
    by_pixels,
    f"{out}/by_pixels",
    caption="Scores by removing and keeping pixels.",
    label="tab:deletion-pixels",
)
by_place = tables.wide_table(
    main[main["metric"].isin(["localization error", "pointing-game", "relevance-mass", "relevance-rank"])]
)
export_table(
    by_place, f"{out}/by_place", caption="Scores by where the relevance lies.", label="tab:deletion-place"
)

pairs = deletion_summary.paired_table(deletion_tables.find_score(scores, counted, "deletion"), seed=seed)
export_table(
    pairs,
    f"{out}/tests",
    caption="Paired tests of the deletion scores.",
    label="tab:deletion-tests",
    columns=["method", "difference", "p", "p_holm", "n"],
    digits=4,
)

# %% [markdown]
"""
:::{csv-table} Scores by removing and keeping pixels, on {{ deletion.n_images }} {{ deletion.counted_name }}: mean [95 % interval]. Arrows say which direction is better; {term}`flagged <flag>` maps are those that mark nothing, or everything alike.
:name: tab-deletion-pixels
:file: ../results/deletion/latest/by_pixels.csv
:header-rows: 1
:::

Differences that intervals leave open are tested in pairs.

:::{csv-table} Deletion of each method against {{ deletion.reference }}: mean difference, p-value of a paired {term}`sign-flip test`, and the p-value corrected for all methods by Holm {cite}`holm1979simple`.
:name: tab-deletion-tests
:file: ../results/deletion/latest/tests.csv
:header-rows: 1
:::

## Boxes on photographs

A heatmap becomes a box by a threshold $\alpha$: pixels with at least $\alpha$ times the maximum are kept, and the tight box around them is the prediction.
An object counts as found when box and truth overlap by at least one half.
"""

# %% tags=["hide-input", "remove-output"]
boxes = deletion_examples.box_examples(results, deletion_summary.best_localizer(scores, counted))
figure = figures.boxes_figure(*boxes, titles)
export_figure(figure, f"{out}/boxes")

# %% [markdown]
r"""
:::{figure} ../results/deletion/latest/boxes.svg
:name: fig-deletion-boxes
:alt: Photographs with a solid white box around the object and a dashed yellow box from the heatmap; above each the overlap of the two.

Boxes of *{{ deletion.best_localizer }}*, the method that localizes best on the counted images, at the default threshold $\alpha$ = {{ deletion.default_alpha }}. White: the true box, drawn by hand. Yellow: the box of the heatmap. Where the object fills the photograph, nearly every box scores.
:::

## Localization error against the threshold

The {term}`localization error` is the share of images whose object is not found, and it moves with $\alpha$.
"""

# %% tags=["hide-input", "remove-output"]
alphas = deletion_tables.alpha_table(results, seed=seed)
figure = figures.alpha_figure(alphas)
export_figure(figure, f"{out}/alpha", alphas)

# %% [markdown]
r"""
:::{figure} ../results/deletion/latest/alpha.svg
:name: fig-deletion-alpha
:alt: Localization error against the threshold, one line per method; a dot on each line marks the threshold chosen on held-out images.

Share of {{ deletion.counted_name }} whose object is not found, against the threshold. Dots mark the threshold chosen on the held-out images. A comparison at one common threshold would be a comparison of how peaked the maps are.
:::

## Four thresholds and two regions

The threshold can be a fraction of something else than the maximum: of the map's mean, of its range, or the smallest value of the pixels that hold a share of its *energy* {cite}`fong2017interpretable`.
And the box may surround all pixels above it or only their largest connected part.
Every rule has its own threshold, chosen on the held-out images.
"""

# %% tags=["hide-input", "remove-output"]
rules = deletion_boxes.rule_table(results, ResultsStore(store), seed=seed)
export_table(
    deletion_boxes.wide_rules(rules), f"{out}/rules", caption="Localization error by threshold and region.", label="tab:deletion-rules"
)  # fmt: skip

# %% [markdown]
r"""
:::{csv-table} Localization error in percent by what the threshold is a fraction of, without and with *component*: only the largest connected part. In brackets the threshold $\alpha$ of each method and rule, chosen on held-out images. Same images, lower is better.
:name: tab-deletion-rules
:file: ../results/deletion/latest/rules.csv
:header-rows: 1
:::

The rule under which most methods have their smallest error is *{{ deletion.best_rule }}*; a method that is good under one rule only is good at being thresholded.

## Localization, saliency metric, pointing game, mass and rank

The saliency metric {cite}`dabkowski2017real` asks whether a small crop is enough: $\ln \max(a, 0.05) - \ln p$ for a box of area $a$ whose crop alone has probability $p$.
The pointing game {cite}`zhang2018top` takes one pixel, the maximum.
Where the mask of the object is known, mass and rank, defined in {eq}`eq-mass-rank`, count relevance inside it {cite}`arras2022clevr`.
"""

# %% tags=["hide-input", "remove-output"]
localizing = ["localization error", "saliency-metric", "pointing-game", "relevance-mass", "relevance-rank"]
figure = figures.scores_figure(main[main["metric"].isin(localizing)])
export_figure(figure, f"{out}/localization")

# %% [markdown]
"""
:::{figure} ../results/deletion/latest/localization.svg
:name: fig-deletion-localization
:alt: Panels of dots with intervals for localization error, saliency metric, pointing game, relevance mass and relevance rank; one row per method in each panel, sorted from best on top.

The other scores on the same scenes. Compare the order of the methods from panel to panel: *which method is best* has no answer before *by which score* is said. Mass and rank use each method's best pooling, chosen on these very images as {cite:t}`arras2022clevr` do, which flatters every method a little.
:::

:::{csv-table} Scores by where the relevance lies, on the same scenes: mean [95 % interval].
:name: tab-deletion-place
:file: ../results/deletion/latest/by_place.csv
:header-rows: 1
:::

## What replaces a deleted pixel

Gray is not nothing: a gray hole is an edge the network has never seen.
So deletion is run again with other {term}`fills <fill>`.
"""

# %% tags=["hide-input", "remove-output"]
by_fill = table[(table["data"] == counted) & (table["metric"] == "deletion")]
figure = figures.fill_figure(by_fill)
export_figure(figure, f"{out}/fills", by_fill)

# %% [markdown]
"""
:::{figure} ../results/deletion/latest/fills.svg
:name: fig-deletion-fills
:alt: Left, the deletion score of each method for each fill; right, the rank each fill gives it. Lines cross where the order of two methods depends on the fill.

Deletion scores (left) and the ranks they give (right) for different fills. Lines that cross are methods whose order depends on what a removed pixel is replaced by.
:::

## Does the network notice?

A fill is *plausible* when the network takes the result for an image.
There is no agreed measure of that; the following proxy is **this book's own**.
Pixels are removed that should not matter, for none belongs to the object that decides (where its place is known): one square of the sliding patch's default size, and a random half of the superpixels.
If what stands there is plausible, the *penultimate features*, those before the last layer, should stay where they were, and the entropy of the prediction too.
"""

# %% tags=["hide-input", "remove-output"]
noticed = plausibility.plausibility_table(
    results.counted, ["zero", "blur", "noise", "superpixel-mean", "pushpull", "diffusion"], seed=seed
)
export_table(
    plausibility.wide_plausibility(noticed), f"{out}/plausibility", caption="How much the network notices removals beside the object; a measure of this book.", label="tab:deletion-plausibility"
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} Our own measure: relative change of the penultimate features and change of the entropy in nats when pixels beside the object are removed, mean [95 % interval] over {{ deletion.n_images }} {{ deletion.counted_name }}. Zero means that the network does not notice.
:name: tab-deletion-plausibility
:file: ../results/deletion/latest/plausibility.csv
:header-rows: 1
:::

The measure trusts the network that it judges: a network that ignores gray squares makes gray plausible.

## Does the map survive another setting?

A method has knobs: the size of the patch, the number of superpixels, a seed.
A map that changes with them says something about the knob.
So one setting after the other is varied (a {term}`sweep`) and each map compared with that of a *reference* setting {cite}`bansal2020sam`, on the same images and with the same random numbers for a method and its inpainting variant.
Lengths are given for an image of 224 pixels and scale with the image.
"""

# %%
thresholds = deletion_tables.chosen_alphas(results, counted)
plan = robustness.Plan(
    sweeps=sweeps,
    n_images=n_robust,
    options=sweep_options,
    values=sweep_values,
    alphas=thresholds,
)
robust = robustness.run_robustness(settings, plan, ResultsStore(store))

# %% tags=["hide-input", "remove-output"]
similar = robustness_tables.robustness_table(robust, seed=seed)
figure = robustness_figures.robustness_figure(similar)
export_figure(figure, f"{out}/robustness", similar)

# %% [markdown]
"""
:::{figure} ../results/deletion/latest/robustness.svg
:name: fig-deletion-robustness
:alt: One row per varied setting. Left, dots for the rank correlation with the reference map, filled for the method and hollow for its variant, with intervals; right, diamonds for the difference of variant and method around a line at zero.

Rank correlation over pixels between the map of another setting and that of the reference, on {{ deletion.n_robust }} {{ deletion.counted_name }}, with 95 % intervals over images; under each name the reference and what it is varied to. Right: the variant minus the method on the same images; a hollow diamond's interval holds zero.
:::

Rank correlation is the headline because it asks for the order of the pixels alone.
SSIM, structural similarity {cite}`wang2004image`, looks at local structure and depends on how the map is scaled.
HOG, histograms of oriented gradients {cite}`dalal2005histograms`, sees edges without their sign, so a map and its negative are alike to it.
Where the three disagree, a map has moved without changing its shape, or changed its values without changing their order.
"""

# %% tags=["hide-input", "remove-output"]
figure = robustness_figures.measures_figure(similar)
export_figure(figure, f"{out}/robustness_measures")

# %% [markdown]
"""
:::{figure} ../results/deletion/latest/robustness_measures.svg
:name: fig-deletion-robustness-measures
:alt: Three panels side by side, for rank correlation, SSIM and correlation of HOG vectors, with a row per varied setting and a filled and a hollow dot in each for the method and its variant.

Similarity to the reference by three measures, on the same maps. A row whose dots change places from panel to panel is one where the verdict depends on the measure.
:::

A mean over images can stay still while every single score jumps.
The spread asks for each image by itself: the standard deviation of its score over the settings.
"""

# %% tags=["hide-input", "remove-output"]
spread = robustness_tables.spread_table(robust, seed=seed)
figure = robustness_figures.spread_figure(spread)
export_figure(figure, f"{out}/spread", spread)

# %% [markdown]
"""
:::{figure} ../results/deletion/latest/spread.svg
:name: fig-deletion-spread
:alt: A panel for the deletion score and, where boxes are known, one for the overlap with the box; in each a row per varied setting with a filled dot for the method and a hollow one for its variant.

Standard deviation of an image's score over the settings of each sweep, mean over images with 95 % intervals. To the left is a method whose verdict about an image depends little on its setting.
:::

## Are the inpainting variants better?

{cite:t}`agarwal2020explaining` report that all three variants are more accurate by three metrics and more robust; the first two rows ask for the effect that their published maps show.
Deletion is asked twice, because it fills holes itself: with gray, which the methods know, and inpainted, which their variants know.
Their inpainter is a generative network; with `pushpull` in its place, on these images, the answers are:
"""

# %% tags=["hide-input", "remove-output"]
better = [
    *deletion_pairs.statistic_findings(results),
    *deletion_pairs.variant_findings(scores, counted),
    *robustness_tables.robustness_findings(robust),
]
export_table(
    findings.findings_table(better), f"{out}/variants", caption="Inpainting variants, answered by 95 % intervals over images.", label="tab:deletion-variants",
    columns={"statement": "statement", "answer": "holds here?", "quantity": "measured", "interval": "estimate [interval]"},
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} Statements about the inpainting variants, and what {{ deletion.n_images }} {{ deletion.counted_name }} ({{ deletion.n_robust }} for robustness) say about them.
:name: tab-deletion-variants
:file: ../results/deletion/latest/variants.csv
:header-rows: 1
:::

## The same on more images

A reader's machine counts {{ deletion.n_images }} images in the time one waits for a page.
The tables below were made the same way on 200 scenes, of which those count whose class the network names rightly, once, and are kept with the book; `manifest.json` beside them says when, on what and with which versions.

:::{csv-table} Kept run, 200 rendered scenes: scores by removing and keeping pixels.
:name: tab-deletion-kept-pixels
:file: ../results/deletion/embedded-200/by_pixels.csv
:header-rows: 1
:::

:::{csv-table} Kept run, 200 rendered scenes: scores by where the relevance lies.
:name: tab-deletion-kept-place
:file: ../results/deletion/embedded-200/by_place.csv
:header-rows: 1
:::

:::{csv-table} Kept run, 200 rendered scenes, 30 of them for robustness: statements about the inpainting variants.
:name: tab-deletion-kept-variants
:file: ../results/deletion/embedded-200/variants.csv
:header-rows: 1
:::

## Does the published finding hold here?

Each statement is answered by the interval of what was measured: *yes* or *no* only if the whole interval lies on one side of zero.
"""

# %% tags=["hide-input", "remove-output"]
found = deletion_findings.deletion_findings(scores, counted)
answers = findings.findings_table(found)
export_table(
    answers, f"{out}/findings", caption="Findings, answered by 95 % intervals over images.", label="tab:deletion-findings",
    columns={"statement": "statement", "answer": "holds here?", "quantity": "measured", "interval": "estimate [interval]", "source": "source"},
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} Statements and what {{ deletion.n_images }} {{ deletion.counted_name }} say about them.
:name: tab-deletion-findings
:file: ../results/deletion/latest/findings.csv
:header-rows: 1
:::

Published scores come from other networks and other images, so they cannot be set against ours; they are given for orientation.
Deletion and insertion are from the evaluation notebook of {cite:t}`petsiuk2018rise` (ResNet-50), localization errors from that of {cite:t}`fong2017interpretable` (GoogLeNet, three ways to set the threshold).
The result tables of {cite:t}`agarwal2020explaining` could not be consulted, so none of their numbers is quoted.
"""

# %% tags=["hide-input", "remove-output"]
published = published_table("deletion", table[table["data"] == counted])
export_table(
    published, f"{out}/published", caption="Published scores beside ours; not comparable.", label="tab:deletion-published",
    columns={"method": "method", "metric": "metric", "published": "published", "here": "here", "setting": "published setting", "model": "published model"},
)  # fmt: skip

# %% [markdown]
"""
:::{csv-table} Published scores on ImageNet's validation images beside those of this run on rendered scenes. None is comparable.
:name: tab-deletion-published
:file: ../results/deletion/latest/published.csv
:header-rows: 1
:::
"""

# %% tags=["hide-input", "remove-output"]
record(
    out,
    **deletion_summary.quotable(results, scores),
    credits=photographs.credits().replace("\n", "; "),
    example=example,
    reference=pairs["reference"].iloc[0] if len(pairs) else "no other method",
    strip_first=strip.probabilities[0],
    strip_last=strip.probabilities[-1],
    findings={finding.key: finding.answer for finding in [*found, *better]},
    n_better=sum(finding.answer == "yes" for finding in better),
    n_worse=sum(finding.answer == "no" for finding in better),
    n_asked=len(better),
    n_robust=int(robust.accuracy["image"].nunique()),
    paths_n=int(paths["n"].max()) if len(paths) else 0,
    best_rule=deletion_boxes.best_rule(rules),
)

# %% [markdown]
"""
:::{admonition} What to take away
:class: tip
- The best method by deletion on these scenes is *{{ deletion.best.deletion }}*, by insertion *{{ deletion.best.insertion }}*, by localization error *{{ deletion.best["localization error"] }}*.
- Read no score without its controls: {{ deletion.beaten_by_control.deletion }} of {{ deletion.n_methods }} methods are beaten by the best control under deletion.
- Say which fill was used, and look at {numref}`fig-deletion-fills` before trusting a ranking.
- A threshold chosen on the test images flatters; choose it on others and report it.
- Of {{ deletion.n_asked }} statements about the inpainting variants, {{ deletion.n_better }} hold here and {{ deletion.n_worse }} are contradicted; the inpainter was a smooth one, not a generative one.
:::

:::{admonition} Limits of this test
:class: warning
- Deletion shows the network images it was never trained on. A fall may mean that evidence is gone, or that gray holes are strange. ROAR retrains for that reason {cite}`hooker2019benchmark`.
- Removing pixels at random destroys fine structure quickly and scores well; a low score is not the same as an explanation.
- Boxes reward compact maps, and a network may rightly use the surroundings.
- {{ deletion.n_wrong }} images were left out because the network answers them wrongly; a handful of photographs is no sample of anything.
:::

## Exercises

1. Run `heatcheck run deletion -p fills='["zero","noise"]'`. Which methods change places, and what do their maps have in common?
2. Give `sliding-patch` a patch as large as the object: `-p options='{"sliding-patch" = {patch = 24, stride = 8}}'`. Which scores improve, and which get worse?
3. Negate a method's map (ten lines, see {doc}`bring_your_own`). What should happen to deletion and insertion, and what does happen?

:::{admonition} Solutions
:class: dropdown
1. Compare the two columns of `fills.csv`. A fill that is itself full of edges punishes scattered maps differently from one that is smooth.
2. A patch of the object's size blurs the map to the object's scale. Whether that helps depends on whether the score asks for the object as a whole (boxes) or for an order inside it (deletion).
3. The negated map removes what speaks against the class first, so deletion should get worse and insertion too. A map for which nothing changes was no ordering by evidence.
:::

## At paper scale

`heatcheck run deletion --preset paper` explains 1000 validation images of ImageNet with a ResNet-50, chooses thresholds on 1000 others, and uses the published step of 1792 pixels.
It adds extremal perturbation {cite}`fong2019understanding`, whose 800 iterations per area are too slow for the presets above.
It needs the folder of the images and boxes in `HEATCHECK_IMAGENET`; `heatcheck data imagenet` says how it must be laid out.
For scenes without boxes there is Places365, whose validation images and lists are looked for in `HEATCHECK_PLACES365` (`heatcheck data places365`).
Deletion, insertion, the saliency metric and robustness are measured there; what needs boxes or masks is left out, and tables and figures say so.
Run it with `-p counted='"places365"' -p counted_model='"torchvision/resnet50"' -p weights='{"torchvision/resnet50" = "resnet50_places365.pth.tar"}' -p n_classes='{"torchvision/resnet50" = 365}' --into places365`, which keeps its results apart.
"""
