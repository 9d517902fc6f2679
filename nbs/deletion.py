# %% [markdown]
r"""
(chapter-deletion)=
# Deletion and localization

**Question.** If the pixels that a heatmap calls important are removed, does the network lose its confidence?
And does the heatmap find the object at all?

Pixels are removed from the highest relevance to the lowest.
Let $x_k$ be the image after $k$ of $S$ steps; the deletion score is the area under the probability of the explained class $c$,

```{math}
:label: eq-deletion
\text{deletion} = \frac{1}{S}\left(\sum_{k=0}^{S} p_c(x_k) - \frac{p_c(x_0) + p_c(x_S)}{2}\right),
```

a number between 0 and 1; **lower is better** {cite}`petsiuk2018rise`.
Insertion runs the film backwards, from a blurred image to the original, and higher is better.

Localization asks something else: the box around the most relevant pixels is compared with the true box of the object {cite}`fong2017interpretable,agarwal2020explaining`.
The two need not agree, and this chapter shows where they part.
"""

# %% tags=["hide-input"]
from typing import Literal

from heatcheck.benchmarks import (
    deletion,
    deletion_examples,
    deletion_findings,
    deletion_summary,
    deletion_tables,
    findings,
)
from heatcheck.benchmarks.published import published_table
from heatcheck.data import photographs
from heatcheck.figures import deletion as figures
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
strict: bool = False  # an object is found from an overlap of more than one half
seed: int = 0  # seed of everything random
device: str = "auto"  # auto, cpu, cuda, cuda:<index>
workers: int = 0  # processes that compute on a CPU; 0 is one per core
memory: str | None = None  # extra memory to use, such as "512MB"

# %% [markdown]
"""
## What is explained

Two sets of images take part.
**Photographs** are shown: a real ImageNet classifier, EfficientNet-Lite0, looks at six pictures that everybody can judge.
Six pictures prove nothing, so the **counting** is done on rendered scenes: three to five objects of which exactly one is made of metal, and the class is *its* color.
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

The same three photographs through every method.
Maps with a sign are red where a pixel speaks for the class and blue where it speaks against it.
"""

# %% tags=["hide-input", "remove-output"]
pictures = deletion_examples.pictures(results.shown)[:3]
titles = list(results.shown.data.ids)
figure = figures.gallery_figure(pictures, deletion_examples.gallery(results), titles[:3])
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

## Curves

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

Every score has a 95 % bootstrap interval over images, drawn from the same images for all methods.
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

Deletion and insertion scores on {{ deletion.n_images }} {{ deletion.counted_name }}. Hollow and gray: controls that never look at the network.
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
:::{csv-table} Scores by removing and keeping pixels, on {{ deletion.n_images }} {{ deletion.counted_name }}: mean [95 % interval]. Arrows say which direction is better; flagged maps are those that mark nothing, or everything alike.
:name: tab-deletion-pixels
:file: ../results/deletion/latest/by_pixels.csv
:header-rows: 1
:::

Differences that intervals leave open are tested in pairs.

:::{csv-table} Deletion of each method against {{ deletion.reference }}: mean difference, p-value of a paired sign-flip test, and the p-value corrected for all methods by Holm {cite}`holm1979simple`.
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

Boxes of *{{ deletion.best_localizer }}*, the method that localizes best on the counted images, at the default threshold $\alpha$ = {{ deletion.default_alpha }}. White: the true box, drawn by hand. Yellow: the box of the heatmap. Two of the photographs are filled by their object, so nearly every box scores there.
:::

## Localization error against the threshold

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

## Localization, saliency metric, pointing game, mass and rank

The saliency metric {cite}`dabkowski2017real` asks whether a small crop is enough: $\ln \max(a, 0.05) - \ln p$ for a box of area $a$ whose crop alone has probability $p$.
The pointing game {cite}`zhang2018top` takes one pixel, the maximum.
Where the mask is known, mass and rank accuracy {cite}`arras2022clevr` count relevance inside it.
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

## The same on more images

A reader's machine counts {{ deletion.n_images }} images in the time one waits for a page.
The tables below were made the same way on 200 scenes, once, and are kept with the book; `manifest.json` beside them says when, on what and with which versions.

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
    findings={finding.key: finding.answer for finding in found},
)

# %% [markdown]
"""
:::{admonition} What to take away
:class: tip
- The best method by deletion on these scenes is *{{ deletion.best.deletion }}*, by insertion *{{ deletion.best.insertion }}*, by localization error *{{ deletion.best["localization error"] }}*.
- Read no score without its controls: {{ deletion.beaten_by_control.deletion }} of {{ deletion.n_methods }} methods are beaten by the best control under deletion.
- Say which fill was used, and look at {numref}`fig-deletion-fills` before trusting a ranking.
- A threshold chosen on the test images flatters; choose it on others and report it.
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
It needs the folder of the images and boxes in `HEATCHECK_IMAGENET`; `heatcheck data imagenet` says how it must be laid out.
For scenes without boxes there is Places365: `-p counted='"places365"' -p counted_model='"torchvision/resnet50"' -p weights='{"torchvision/resnet50" = "resnet50_places365.pth.tar"}' -p n_classes='{"torchvision/resnet50" = 365}'`.
"""
