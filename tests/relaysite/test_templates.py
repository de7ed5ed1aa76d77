from pathlib import Path

import pytest
from django.template import Engine, TemplateSyntaxError

from relaysite.templates import Unindented


def _engine(folder: Path) -> Engine:
    return Engine(dirs=[str(folder)], loaders=["relaysite.templates.Unindented"])


def test_indentation_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        "<ul>\n  {% for n in numbers %}\n    <li>a  b\n\t{{ n }}</li>\n  {% endfor %}\n</ul>\n"
    )
    said = _engine(tmp_path).render_to_string("page.html", {"numbers": ["  7"]})
    assert said == "<ul>\n\n<li>a  b\n  7</li>\n\n</ul>\n"


def test_an_error_names_the_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>\n\n   {% nothing %}\n</p>\n")
    with pytest.raises(TemplateSyntaxError, match="line 3"):
        _engine(tmp_path).get_template("page.html")


def test_the_site_loads_by_it() -> None:
    (loader,) = Engine.get_default().template_loaders
    assert [type(inner) for inner in loader.loaders] == [Unindented]
