"""Templates to files. Every page is one file that needs nothing else: styles, script, figures and data are inside."""

from __future__ import annotations

import functools
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from analysis.style import styled
from analysis.words import part_name

TEMPLATES = Path(__file__).parent / "templates"


@functools.lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """Templates with HTML escaping for .html files, strict about names."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, autoescape=lambda name: name is not None and ".html" in name, keep_trailing_newline=True,
    )  # fmt: skip
    made.globals.update(css=Markup(_text("page.css")), script=Markup(_text("page.js")))
    made.filters.update(
        breakable=breakable, embedded=embedded, href=href, kept=kept, proportions=proportions, part_name=part_name
    )
    return made


def render(template: str, **values: Any) -> str:
    """The template, filled in."""
    return environment().get_template(template).render(**values)


def write(path: Path, content: str) -> Path:
    """Writes a text file, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def inline_svg(made: Figure, description: str) -> Markup:
    """The figure as SVG for the middle of a page: scalable, described for a screen reader, its ids unique to it."""
    out = io.StringIO()
    with styled(made.get_size_inches()[0]):
        made.savefig(out, format="svg", metadata={"Date": None})
    return svg_for_page(out.getvalue(), description)


def svg_for_page(svg: str, description: str) -> Markup:
    """Strips what only a file of its own needs, and makes ids unique by a hash of the content."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    mark = f"f{abs(hash_of(description + svg)):x}"
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{mark}\1"', svg)
    svg = re.sub(r'((?:xlink:)?href=")#', rf"\1#{mark}", svg)
    svg = svg.replace("url(#", f"url(#{mark}")
    head = f'<svg role="img" aria-label="{jinja2.utils.htmlsafe_json_dumps(description)[1:-1]}"'
    svg = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'<svg ([^>]*?)height="[^"]*"', r"<svg \1", svg, count=1)
    return Markup(svg.replace("<svg", head, 1))


def hash_of(text: str) -> int:
    """A short number that is the same in every process."""
    import zlib

    return zlib.crc32(text.encode())


def embedded(data: Mapping[str, Any]) -> Markup:
    """JSON that is safe inside a script element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def kept(html: Markup | str) -> Markup:
    """Finished HTML as a JSON string inside a script element, where a browser neither parses nor shows it.

    Its own end tags cannot end the script: JSON may write a slash as `\\/`.
    """
    assert isinstance(html, Markup), "text that nobody has escaped"
    return Markup(json.dumps(str(html), ensure_ascii=False).replace("<!--", "\\u003c!--").replace("</", "<\\/"))


def proportions(svg: str) -> str:
    """`648 / 360`: width and height of a figure, for CSS."""
    found = re.search(r'viewBox="[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)"', svg[:2000])
    return f"{found[1]} / {found[2]}" if found else "auto"


def breakable(text: str) -> Markup:
    """A name that a narrow column may break after `=`, `,`, `(` and `_`, and nowhere within a word."""
    return Markup(re.sub(r"([=,(_])(?=.)", r"\1<wbr>", str(Markup.escape(text))))


def href(path: str) -> str:
    """A relative path as a link."""
    return quote(path, safe="/=+,.-_~")


def _text(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
