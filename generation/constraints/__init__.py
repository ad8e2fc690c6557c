"""What a caller may ask an answer's text to be, and what is refused of it before anything runs."""

from generation.constraints.admission import admit_format
from generation.constraints.output_format import (
    DATE_STYLES,
    DateStyle,
    FormatKind,
    OutputFormat,
    forced_inclusion,
)

__all__ = ["DATE_STYLES", "DateStyle", "FormatKind", "OutputFormat", "admit_format", "forced_inclusion"]
