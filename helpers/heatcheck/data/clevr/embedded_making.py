"""Making of the embedded evaluation set; who only uses it needs nothing of this."""

import hashlib
import json
import tempfile
import zipfile
from pathlib import Path

from heatcheck.data.clevr.embedded import ARCHIVE, MANIFEST, NAME
from heatcheck.data.clevr.ground_truth import Kind
from heatcheck.data.clevr.making import RECIPE, make_clevr
from heatcheck.data.clevr.making_parts import KINDS
from heatcheck.data.clevr.release import questions_file
from heatcheck.data.rendered import SPLITS
from heatcheck.data.shader import default_shader, shader_hash

N_SCENES, SEED, SIZE = 256, 0, 128
FIRST = SPLITS["test"]  # no scene is in another split
_MADE_AT = (1980, 1, 1, 0, 0, 0)  # the earliest time of a zip: the same files give the same bytes


def make_embedded(assets: Path, *, n_scenes: int = N_SCENES, workers: int = 0) -> Path:
    """Archive of the embedded set with its manifest, written to ``assets``.

    Args:
        assets: Folder of the two files.
        n_scenes: Number of scenes; those of a smaller set are the first of a larger one.
        workers: Processes; 0 is one per core.
    """
    assets.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / NAME
        make_clevr(folder, n_scenes, SEED, image_size=SIZE, first=FIRST, workers=workers)
        counts = {f"n_{kind}_questions": _n_questions(folder, kind) for kind in KINDS}
        _pack(folder, assets / ARCHIVE)
    manifest = {
        "sha256": hashlib.sha256((assets / ARCHIVE).read_bytes()).hexdigest(),
        "source": "rendered by this project; questions in its own wording of CLEVR's forms",
        "license": "Apache-2.0",
        "made_by": f"{__name__}.make_embedded",
        "layout": "CLEVR-XAI release v1.0, without stored ground truths",
        "n_scenes": n_scenes,
        **counts,
        "image_size": SIZE,
        "seed": SEED,
        "first_scene": FIRST,
        "shader_sha256": shader_hash(default_shader()),
    }
    (assets / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return assets / ARCHIVE


def _n_questions(folder: Path, kind: Kind) -> int:
    return len(json.loads((folder / questions_file(kind)).read_text(encoding="utf-8"))["questions"])


def _pack(folder: Path, archive_path: Path) -> None:
    """Write the files of ``folder`` to an archive whose bytes depend on nothing else."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != RECIPE)
    with zipfile.ZipFile(archive_path, "w") as archive:
        for file in files:
            entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), _MADE_AT)
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED, 9)
