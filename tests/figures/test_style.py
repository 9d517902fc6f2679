import matplotlib as mpl
import pytest

from heatcheck.figures.style import CONTROLS, PAGE, is_control, look, palette, size, styled, use_style

KNOWN = [
    "gradient",
    "integrated-gradients",
    "smoothgrad",
    "guided-backprop",
    "grad-cam",
    "sliding-patch",
    "rise",
]


def test_a_method_looks_the_same_whichever_others_are_present() -> None:
    alone = palette(["rise"])["rise"]
    assert palette(KNOWN)["rise"] == alone
    assert palette(["my-own", *reversed(KNOWN)])["rise"] == alone


def test_known_methods_have_different_colors() -> None:
    assert len(set(palette(KNOWN).values())) == len(KNOWN)


def test_an_own_method_has_a_fixed_look_and_no_controls_gray() -> None:
    assert look("my-own-method") == look("my-own-method")
    grays = {look(control).color for control in CONTROLS}
    assert all(look(f"own-{number}").color not in grays for number in range(50))


@pytest.mark.parametrize(("method", "control"), [("random", True), ("centre", True), ("rise", False)])
def test_controls_are_told_by_name(method: str, control: bool) -> None:
    assert is_control(method) is control


def test_a_styled_function_leaves_the_callers_settings_alone() -> None:
    @styled
    def font_size() -> object:
        return mpl.rcParams["font.size"]

    with mpl.rc_context({"font.size": 31}):
        assert font_size() == 8
        assert mpl.rcParams["font.size"] == 31


def test_use_style_sets_the_papers_font_size() -> None:
    with mpl.rc_context({"font.size": 31}):
        use_style()
        assert mpl.rcParams["font.size"] == 8


@pytest.mark.parametrize(("width", "height"), [(0.0, 1.0), (PAGE + 0.1, 1.0), (1.0, 0.0)])
def test_a_figure_that_fits_no_page_is_refused(width: float, height: float) -> None:
    with pytest.raises(ValueError, match=r"allowed: width up to 6\.9"):
        size(width, height)
