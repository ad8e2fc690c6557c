"""`python -m bench NAME` runs a benchmark; `--list` names them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench import BENCHMARKS, BenchOptions, run_benchmark
from core.errors import LongleafError
from core.logging import configure_logging
from core.settings import evaluation_data_dir, load_settings


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


def main() -> int:
    parser = argparse.ArgumentParser(prog="longleaf bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=sorted(BENCHMARKS), help="which benchmark")
    parser.add_argument("--list", action="store_true", help="print the names, one a line")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--quick", action="store_true", help="a smaller run with the same keys")
    parser.add_argument("--data", type=Path, metavar="DIR", help="evaluation data")
    parser.add_argument(
        "--extra",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of one benchmark only; see the head of its module",
    )
    parser.add_argument("--home", type=Path, metavar="DIR", help="data folder")
    arguments = parser.parse_args()
    if arguments.list or arguments.name is None:
        print("\n".join(BENCHMARKS))
        return 0
    configure_logging("warning", "console")
    try:
        settings = load_settings(**({"home": arguments.home} if arguments.home else {}))
        options = BenchOptions(
            data_dir=arguments.data or evaluation_data_dir(),
            model_dir=settings.model_dir,
            home=settings.root,
            quick=arguments.quick,
            extra=dict(_pair(text) for text in arguments.extra),
        )
        result = run_benchmark(arguments.name, options)
    except LongleafError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    result.print()
    if arguments.json:
        result.write_json(arguments.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
