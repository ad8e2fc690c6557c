"""Pages as one HTML file that needs nothing else: no script, no font, no picture from outside.

What documents and people write is foreign text: templates escape all of it, and a content security
policy in the file itself forbids whatever might slip through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
PAGE_HEADERS = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "X-Content-Type-Options": "nosniff"}
"""For whoever serves a page."""

ReportLanguage = Literal["en", "zh"]


def load_template(package: str, name: str, **filters: Callable[..., str]) -> Template:
    """`name` of the package's own templates; it may extend `page.html.jinja`, which takes `policy`."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "templates"), PackageLoader("core.html", "templates")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(name)
