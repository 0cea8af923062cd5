"""The pages and the pictures, in a real browser: light, dark, on a phone and in print."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench_helpers import SMALL, bench
from browser import Browser, browser
from capabilities import needs, require

pytestmark = needs("chromium")

# Of all charts: their size, and texts that reach beyond the chart.
CHARTS = """
[...document.querySelectorAll('svg')].map(svg => {
  const box = svg.getBoundingClientRect();
  const out = [...svg.querySelectorAll('text')].filter(text => {
    const one = text.getBoundingClientRect();
    return one.width > 0 && (one.left < box.left - 1 || one.right > box.right + 1 ||
                             one.top < box.top - 1 || one.bottom > box.bottom + 1);
  }).map(text => text.textContent);
  const areas = [...svg.querySelectorAll('rect')].map(r => r.getBoundingClientRect())
    .map(r => r.width * r.height);
  return {width: box.width, height: box.height, out, shapes: areas.filter(area => area > 0).length};
})
"""
# How far two colours are apart, as contrast is measured (WCAG): of text it is to be 4.5 at least.
CONTRAST = """
(() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = getComputedStyle(document.body);
  const label = getComputedStyle(document.querySelector('svg text')).fill;
  const paper = light(style.backgroundColor);
  return [style.color, label].map(light).map(ink =>
    (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05));
})()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of each kind of report, and pictures."""
    require("io_uring")
    place = tmp_path_factory.mktemp("pages")
    work = (
        "--engine",
        "sync,psync-threads,io_uring",
        "--rw",
        "randread",
        "--iodepth",
        "1,8",
        "--rounds",
        "4",
    )
    bench(place, "io", *SMALL, *work, "--html=io.html", "--svg=svg", "--png=png")
    quick = ("--quick", "--rounds", "1", "--counters", "none")
    bench(place, "files", *quick, "--task", "small-files", "--only", "open(),proactor", "--html=files.html")
    bench(place, "cp", *quick, "--tree", "small", "--html=cp.html")
    return place


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


def look(page: Browser, width: int, media: str, scheme: str) -> None:
    phone = width < 500
    page.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=phone
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.call("Emulation.setEmulatedMedia", media=media, features=features)


@pytest.mark.parametrize("name", ["io", "files", "cp"])
@pytest.mark.parametrize(
    ("width", "media", "scheme"),
    [(1200, "screen", "light"), (1200, "screen", "dark"), (375, "screen", "light"), (700, "print", "light")],
    ids=["light", "dark", "phone", "print"],
)
def test_page(place: Path, page: Browser, name: str, width: int, media: str, scheme: str) -> None:
    look(page, width, media, scheme)
    page.show(place / f"{name}.html")
    # Nothing is wider than the window, but for what scrolls by itself.
    assert page.ask("document.documentElement.scrollWidth") <= width
    charts = page.ask(CHARTS)
    assert len(charts) == {"io": 4, "files": 2, "cp": 1}[name]
    for chart in charts:
        assert chart["width"] > 250
        assert chart["height"] > 50
        assert chart["shapes"] > 0
        assert not chart["out"]
    for contrast in page.ask(CONTRAST):
        assert contrast >= 4.5
    dark = page.ask("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    # The page itself, and nothing else.
    asked = [event for event in page.events if event.get("method") == "Network.requestWillBeSent"]
    assert [event["params"]["request"]["url"] for event in asked] == [(place / f"{name}.html").as_uri()]
    complaints = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
    assert not [event for event in page.events if event.get("method") in complaints]


def test_pictures(place: Path, page: Browser) -> None:
    svg, png = sorted((place / "svg").iterdir()), sorted((place / "png").iterdir())
    assert [path.stem for path in svg] == [path.stem for path in png]
    kinds = {path.stem.rpartition("-")[2] for path in svg}
    assert kinds == {"bars", "latencies", "iops", "p99"}
    for scheme, paper in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(22, 24, 27)")):
        look(page, 1000, "screen", scheme)
        for path in svg:
            page.show(path)
            assert page.ask("getComputedStyle(document.querySelector('.paper')).fill") == paper
            outer, chart = page.ask(CHARTS)
            assert outer["width"] == 720
            assert chart["height"] > 50
            assert not outer["out"]
    for path in png:
        head = path.read_bytes()[:24]
        assert head.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", head[16:24])
        assert width == 1440
        assert height > 200


def test_pictures_of_a_report_that_is_there(place: Path, tmp_path: Path) -> None:
    bench(place, "io", *SMALL, "--engine", "sync", "--json=report")
    bench(place, "show", "report", "--svg", str(tmp_path / "new" / "directory"))
    assert len(list((tmp_path / "new" / "directory").iterdir())) == 2
    (tmp_path / "file").touch()
    assert "file" in bench(place, "show", "report", "--svg", str(tmp_path / "file"), status=2).stderr
