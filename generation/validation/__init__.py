"""Generated text held against its form and its sources: what is wrong with it, and how to mend it."""

from generation.validation.checks import Finding, check_form, check_support
from generation.validation.json_values import TextValue, values_of
from generation.validation.sources import SourceIndex

__all__ = ["Finding", "SourceIndex", "TextValue", "check_form", "check_support", "values_of"]
