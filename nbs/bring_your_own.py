# %% [markdown]
r"""
(chapter-bring-your-own)=
# Bring your own method and model

**Question.** How does *your* method do, on *your* model, next to all the others?

A method is a function: model, images $(N, C, H, W)$ and targets $(N,)$ in, heatmaps out, raw and signed.
A model is a function without arguments that returns a classifier with its preprocessing.
Both live in a Python file of yours; nothing of the package is changed.
This page is itself executed with the two files it shows.
"""

# %% tags=["hide-input"]
from heatcheck.benchmarks import deletion, deletion_examples, deletion_summary, deletion_tables
from heatcheck.figures import deletion as figures
from heatcheck.figures import tables
from heatcheck.figures.export import export_figure, export_table
from heatcheck.figures.results import record
from heatcheck.figures.style import use_style
from heatcheck.runtime.store import ResultsStore

use_style()

# %% tags=["parameters"]
preset: str = "quick"  # name of the row in nbs/presets.toml
out: str = "book/results/bring_your_own/latest"  # folder of the exported figures and tables
store: str = ".cache/store"  # folder of the results store
plugins: list[str] = ["nbs/examples/my_method.py", "nbs/examples/my_model.py"]  # files that register your own
methods: list[str] = [
    "contrast-gradient",
    "gradient",
    "grad-cam",
    "random-blocks",
]  # yours, and others to compare
options: dict[str, dict[str, int | float | str | bool | list[int | float | str]]] = {}  # options, by method
model: str = "resnet8-mirror"  # name your model is registered under
n_shown: int = 2  # photographs that are shown
n_images: int = 50  # images that are counted
seed: int = 0  # seed of everything random
device: str = "auto"  # auto, cpu, cuda, cuda:<index>
workers: int = 0  # processes that compute on a CPU; 0 is one per core
on: str = "local"  # where cells are computed: local, or a Ray cluster: ray, ray://HOST:PORT

# %% [markdown]
"""
## A method in a file

:::{literalinclude} ../../nbs/examples/my_method.py
:language: python
:lines: 3-
:::

What it promises, and what it gets for it:

- Keyword arguments become options with checked types: `heatcheck run bring_your_own -p options='{"contrast-gradient" = {power = 2.0}}'`.
- The model comes in evaluation mode with frozen weights, and is the caller's again afterwards, also when the method raises.
- A result of another shape is refused by name; NaN and constant maps are flagged, counted, and spoil no other row.
- Randomness comes from the argument `generator`, which knows the images: `generator.normal(sample, images)` gives an image the same numbers in every batch.

## A model in a file

:::{literalinclude} ../../nbs/examples/my_model.py
:language: python
:lines: 3-
:::

The same from the command line, in the chapter itself:

```bash
heatcheck run deletion -p plugins='["my_method.py"]'   # every method of the preset, and yours
heatcheck run deletion -p plugins='["my_model.py"]' -p counted_model='"my-model"'
```

## One more row in every table and figure
"""

# %%
settings = deletion.Settings(
    preset=preset, plugins=plugins, methods=methods, options=options, counted_model=model,
    n_shown=n_shown, n_images=n_images, n_heldout=n_images, seed=seed, device=device,
    workers=workers, on=on,
)  # fmt: skip
results = deletion.run(settings, ResultsStore(store))

# %% tags=["hide-input", "remove-output"]
pictures = deletion_examples.pictures(results.shown)
names = list(results.shown.data.ids)
figure = figures.gallery_figure(
    pictures, deletion_examples.gallery(results, n=n_shown), names[: len(pictures)]
)
export_figure(figure, f"{out}/gallery")

# %% [markdown]
"""
:::{figure} ../results/bring_your_own/latest/gallery.svg
:name: fig-own-gallery
:alt: Photographs and the heatmaps of the own method beside those of built-in methods; the own map looks like a cleaner gradient.

The own method beside built-in ones, on photographs and EfficientNet-Lite0.
:::
"""

# %% tags=["hide-input", "remove-output"]
scores = deletion_tables.all_scores(results)
table = deletion_tables.score_table(scores, seed=seed)
main = deletion_tables.headline(table, settings)
figure = figures.scores_figure(main[main["metric"].isin(["deletion", "insertion"])])
export_figure(figure, f"{out}/scores", main)

# %% [markdown]
"""
:::{figure} ../results/bring_your_own/latest/scores.svg
:name: fig-own-scores
:alt: Deletion and insertion scores with intervals; the own method is one more row among the built-in ones and a control.

Scores on {{ bring_your_own.n_images }} rendered scenes with the own model, *{{ bring_your_own.model }}*.
:::
"""

# %% tags=["hide-input", "remove-output"]
summary = tables.wide_table(main)
export_table(
    summary,
    f"{out}/summary",
    caption="An own method beside built-in ones, with an own model.",
    label="tab:own-summary",
)
record(out, model=results.settings.counted_model, **deletion_summary.quotable(results, scores))

# %% [markdown]
"""
:::{csv-table} The same in numbers: mean [95 % interval].
:name: tab-own-summary
:file: ../results/bring_your_own/latest/summary.csv
:header-rows: 1
:::

:::{admonition} What to take away
:class: tip
- Ten lines make a method comparable with all others, under the same masks, thresholds, ties and intervals.
- Put a control beside it, always: a method that does not beat `random-blocks` has shown nothing.
:::

:::{admonition} Limits of this test
:class: warning
{{ bring_your_own.n_images }} scenes separate good from bad, not good from slightly better; the intervals say where that line is.
:::

## All four benchmarks on one card

One benchmark asks one question.
`heatcheck compare` asks all of them and puts the answers on a card:

```bash
heatcheck compare --method my_method.py
```

The card has a line per metric: the score, the rank among the built-in methods with its interval, the best control, and whether the method beats every control.
It is printed, and written to `card-<method>/` with a figure, a table in LaTeX for a paper's appendix, and a manifest of what it was made with.
Expect different ranks from different benchmarks, and report them all: a method that is first by one metric and behind `random` by another has shown something about both.
{ref}`The guide <compare-your-method>` lists the files and options.

## Exercises

1. Copy `my_method.py`, return the *negated* map under another name, and run the deletion chapter with both. Which of the two wins insertion, and by how much?
2. Let the copy divide by the sum of the map. Which of the scores above may change, and which cannot?
3. Let the method raise an error for images darker than a threshold. What does the run say, and which of its results are lost?

:::{admonition} Solutions
:class: dropdown
1. The map that puts the right pixels first. Negation reverses the order of all pixels, so the one that deletes well inserts badly; how far they lie apart is how much the order matters on these scenes.
2. None of those here: each orders the pixels of one image, and a positive factor per image changes no order. A score that compares maps of different images by value would change.
3. The run stops with a message that names the method and your error. What was finished before it is in the results store and is not computed again.
:::

## At paper scale

The `paper` preset of any chapter takes the same `plugins`.
A packaged method needs no file: an entry point in the group `heatcheck.methods` (or `heatcheck.models`) is found by itself.
"""
