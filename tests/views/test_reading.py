"""What the tests of pages take for the same page: what a browser lays out alike, and nothing else."""

import pytest

from tests.reading import marked, seen


@pytest.mark.parametrize(
    ("sent", "same"),
    [
        ("<td>\n\n5\n</td>", "<td>5</td>"),
        ("<p>a\n <b>\nc</b>\n</p>", "<p>a <b>c</b></p>"),
        ("<td>\n<a\nhref='x'\n>\nso </a>\n</td>", "<td><a href='x'>so</a></td>"),
        ("<p>one\n<button\ntype=button>\nPark\n</button>\n now", "<p>one <button type=button>Park</button> now"),
        ('<input\nname="a"\nvalue="b  c" />  x', '<input name="a" value="b  c"/> x'),
        ("a<br>\nb<hr>\nc", "a<br>b<hr>c"),
        ("<!-- no -->\n<p>\n<!-- > no -->\n x", "<!-- no --><p><!-- > no -->x"),
    ],
)
def test_white_space_that_no_browser_shows_is_gone(sent: str, same: str) -> None:
    assert marked(sent) == marked(same) == same


@pytest.mark.parametrize(
    "sent",
    [
        "<p>a<b>c</b></p>",
        "<p>a <b>c</b></p>",
        "<p>a<b> c</b></p>",
        "<p><a>so </a>: it is</p>",
        "<p>a <svg><use/></svg>b</p>",
        "<p>a<svg><use/></svg> b</p>",
        "<p>a\u00a0 b</p>",
        '<p title="a\nb">1 &lt; 2</p>',
        '<p title="a > b">x</p>',
        "<textarea>\n a  b\n</textarea>",
        "<pre>a\n  b</pre>",
        '<p class="pre data">\na\n <b>b</b>\n</p>',
        '<p>so: <code class="cmd">a  b </code> c</p>',
        '<button name="a" class="chip mono">\na\n<i>b</i></button>',
        '<script type="application/json">{"a":\n  "<b> "}</script>',
    ],
)
def test_what_a_person_or_a_script_reads_is_kept(sent: str) -> None:
    assert marked(sent) == sent


def test_the_text_has_a_line_for_each_block() -> None:
    page = (
        "<title>\n(2) Relays\n</title><style>p { }</style><h1>One\n <i>relay</i></h1><p>5 &lt;\n6<button>Park</button>"
        "<button>\nStop</button></p><ul>\n<li>a</li>\n<li>\n<span>b</span>c</li></ul><script>no()</script>"
    )
    assert seen(page).split("\n") == ["(2) Relays", "One relay", "5 < 6 Park Stop", "a", "bc"]
