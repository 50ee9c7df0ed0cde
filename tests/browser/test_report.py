"""The report in a real browser: it is quiet, fetches nothing, runs nothing of what it shows, and can be used."""

import shutil
from pathlib import Path

import pytest

from toughen import sweeps
from toughen.reports import report

from ..reports.attack_samples import add_characters, add_embedding, add_noise
from ..reports.samples import add_evaluation, make_run

OLD = Path(__file__).parents[1] / "old" / "data"
SCREENS = {
    "desktop": {},
    "dark": {"dark": True},
    "phone": {"width": 390, "height": 844},
    "dark phone": {"width": 390, "height": 844, "dark": True},
}
EVIL = (
    "<script>window.hacked = 1</script> a <b>bold</b> & <img src=x onerror='window.hacked=2'> film "
    "</script><svg onload=window.hacked=3> </mark></p></article>"
)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """One run with everything, thousands of attacked rows, and reviews that try to break out."""
    folder = make_run(tmp_path_factory.mktemp("one") / "rte-smart", plain=(0.66, 0.68, 0.69))
    add_evaluation(folder, "hans", 0.61)
    for label, strength in (("", 3.0), ("baseline-1", 6.0)):
        add_embedding(folder, strength, label)
        add_noise(folder, label)
        add_characters(folder, 3000, 0.4 if not label else 0.7, label, texts=[EVIL, "a warm film " * 90, "so good"])
    return report(folder)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    make_run(folder / "a-smart", plain=(0.66, 0.68, 0.69))
    make_run(folder / "b-freelb", "freelb", (0.71, 0.70, 0.74), step=0.35)
    make_run(folder / "c-r3f", "r3f", (0.60, 0.61, 0.62), step=0.2)
    return report(folder, folder / "all.html")


@pytest.fixture
def look(browser):
    """`look(page, width=390)`: a tab that must have been quiet all along when the test is over."""
    tabs = []

    def opened(page, **settings):
        tabs.append(browser.open(page, **settings))
        return tabs[-1]

    yield opened
    for tab in tabs:
        tab.run("0")  # whatever is still on its way is heard
        assert tab.complaints == []
        left = [url for url in tab.fetched if not url.startswith(("file:", "data:"))]
        assert left == []
        assert sum(url.startswith("file:") for url in tab.fetched) == 1  # the page itself
        tab.close()


def column(tab, number: int) -> list[str]:
    script = "[...document.querySelectorAll('#compare-1 tbody tr:not([hidden])')]"
    return tab.run(f"{script}.map(row => row.cells[{number}].firstChild.textContent)")


def head(number: int) -> str:
    return f"#compare-1 thead th:nth-child({number + 1}) button"


def shown(tab) -> list[str]:
    return tab.run("[...document.querySelectorAll('.example:not([hidden])')].map(each => each.textContent)")


def test_pictures_of_every_kind_are_kept(look, one, many, pictures):
    for name, page in (("one", one), ("many", many)):
        for kind, settings in SCREENS.items():
            tab = look(page, **settings)
            kept = tab.screenshot(pictures / f"{name}-{kind}.png", whole=True)
            assert kept.stat().st_size > 20_000
            wide = tab.run("[document.documentElement.scrollWidth, innerWidth]")
            assert wide[0] <= wide[1], f"{name} is wider than a {kind}"
            if kind == "desktop":
                cut = "[...document.querySelectorAll('#compare-1, #trained table')].map(each => each.parentElement)"
                assert tab.run(f"{cut}.map(each => each.scrollWidth - each.clientWidth).filter(each => each > 0)") == []
        assert tab.print(pictures / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_dark_changes_page_and_drawings(look, one):
    def colours(tab):
        ground = tab.run("getComputedStyle(document.body).backgroundColor")
        return ground, tab.run("getComputedStyle(document.querySelector('figure svg text')).fill")

    light, dark = colours(look(one)), colours(look(one, dark=True))
    assert light[0] == "rgb(255, 255, 255)"
    assert light[0] != dark[0]
    assert light[1] != dark[1]


def test_a_click_sorts_and_another_turns_it_round(look, many):
    tab = look(many)
    assert column(tab, 0) == ["plain", "smart", "freelb", "r3f"]
    tab.click(head(2))  # the mean, best first
    assert column(tab, 0) == ["freelb", "smart", "plain", "r3f"]
    tab.click(head(2))
    assert column(tab, 0) == ["r3f", "plain", "smart", "freelb"]
    states = "[...document.querySelectorAll('#compare-1 th[aria-sort]')].map(each => each.getAttribute('aria-sort'))"
    assert tab.run(states)[2] == "ascending"
    assert set(tab.run(states)) == {"none", "ascending"}
    tab.click(head(0))
    assert column(tab, 0) == ["freelb", "plain", "r3f", "smart"]


def test_the_keyboard_sorts_too(look, many):
    tab = look(many)
    tab.run(f"document.querySelector('{head(2)}').focus()")
    tab.press("Enter", 13)
    assert column(tab, 0) == ["freelb", "smart", "plain", "r3f"]


def test_filters_by_word_and_by_method(look, many):
    tab = look(many)
    tab.type("form[data-for=compare-1] input", "FREE")
    assert column(tab, 0) == ["freelb"]
    assert tab.run("document.querySelector('form[data-for=compare-1] output').value") == "1 of 4"
    tab.run("document.querySelector('form[data-for=compare-1] input').select()")
    tab.press("Delete", 46)
    assert len(column(tab, 0)) == 4
    tab.run(
        "(() => { const s = document.querySelector('form[data-for=compare-1] select'); s.value = 'r3f'; "
        "s.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    assert column(tab, 0) == ["r3f"]


def test_examples_are_paged_and_filtered(look, one):
    tab = look(one)
    first = shown(tab)
    assert len(first) == 10
    tab.click("#examples-pager button:last-of-type")
    assert len(shown(tab)) == 10
    assert shown(tab) != first
    tab.click("#examples-pager button:first-of-type")
    assert shown(tab) == first
    tab.type("form[data-for=examples] input", "bold")
    assert shown(tab)
    assert all("<b>bold</b>" in text for text in shown(tab))


def test_reviews_are_text_and_run_nothing(look, one):
    tab = look(one)
    assert tab.run("typeof window.hacked") == "undefined"
    assert tab.run("document.querySelectorAll('.example img, .example script, .example svg, .example b b').length") == 0
    assert any("<script>window.hacked = 1</script>" in text for text in shown(tab))
    assert tab.run("document.querySelectorAll('script').length") == 1


def test_changed_words_are_marked(look, one):
    tab = look(one)
    words = "(each, tag) => [...each.querySelectorAll(tag)].map(word => word.textContent)"
    fooled = "[...document.querySelectorAll('.example[data-status=fooled]')]"
    pairs = tab.run(
        f"(() => {{ const of = {words}; return {fooled}.map(each => [of(each, 'del'), of(each, 'mark')]) }})()"
    )
    assert pairs
    assert all(gone and come for gone, come in pairs)
    assert "so good" in [" ".join(gone) for gone, _ in pairs]  # both words were turned round


def test_drawings_do_not_share_names(look, one):
    tab = look(one)
    ids = tab.run("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))


def test_a_page_stays_under_a_megabyte(one):
    assert 100_000 < one.stat().st_size < 1_000_000


def test_even_a_script_that_was_not_escaped_would_not_run(look, one, tmp_path):
    """The page's policy lets its own script run and no other."""
    page = tmp_path / "broken.html"
    page.write_text(one.read_text().replace("<main>", "<main><script>window.hacked = 1</script>"))
    tab = look(page)
    assert tab.run("typeof window.hacked") == "undefined"
    assert any("Content Security Policy" in text for text in tab.complaints)
    tab.complaints.clear()


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The page of a finished sweep, made again by the sweep itself."""
    folder = tmp_path_factory.mktemp("swept") / "old"
    shutil.copytree(OLD, folder)
    for path in folder.rglob("*.yaml"):  # its config names the files beside it
        path.write_text(path.read_text().replace("HERE", str(folder)))
    sweeps.sweep(folder / "sweep-finished", resume=True, engine="serial")
    return folder / "sweep-finished" / "leaderboard.html"


def test_a_sweep_has_the_same_frame(look, swept, pictures):
    for kind, settings in SCREENS.items():
        tab = look(swept, **settings)
        assert tab.screenshot(pictures / f"sweep-{kind}.png", whole=True).stat().st_size > 20_000
        wide = tab.run("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], f"the sweep is wider than a {kind}"
    assert tab.run("document.querySelector('nav a').textContent") == "Leaderboard"


def test_a_button_copies_the_command(look, one):
    tab = look(one)
    tab.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    tab.run("window.said = []; navigator.clipboard.writeText = async (text) => { window.said.push(text); }")
    tab.click("#exact > .copied button")
    assert tab.run("window.said") == ["toughen train --config config.yaml"]
    assert tab.run("document.querySelector('#exact > .copied button').textContent") == "copied"
