import json
from importlib import resources

import pytest

from heatcheck.data.shader import Shader, default_shader, parse_shader, shader_hash


def test_the_hash_changes_with_every_constant() -> None:
    shader = default_shader()
    hashes = {shader_hash(shader._replace(**{name: getattr(shader, name) + 1e-9})) for name in shader._fields}
    assert len(hashes | {shader_hash(shader)}) == len(shader) + 1


def test_the_shipped_file_says_how_it_was_made() -> None:
    text = resources.files("heatcheck").joinpath("assets/shader.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert document["sha256"] == shader_hash(default_shader())
    assert document["license"] == "Apache-2.0"
    assert {"source", "made_by", "object_error", "background_error"} <= document.keys()


def test_a_changed_constant_is_noticed() -> None:
    constants = default_shader()._asdict()
    document = {"constants": {**constants, "exposure": 9.0}, "sha256": shader_hash(default_shader())}
    with pytest.raises(ValueError, match="restore the file"):
        parse_shader(document)


@pytest.mark.parametrize(
    "constants",
    [None, {}, dict.fromkeys((*Shader._fields, "fog"), 1.0), dict.fromkeys(Shader._fields[1:], 1.0)],
)
def test_missing_or_unknown_constants_are_refused(constants: object) -> None:
    with pytest.raises(ValueError, match="must be exactly exposure"):
        parse_shader({"constants": constants, "sha256": ""})
