"""Errors as the command line tells them: one line on standard error, an exit code, no traceback."""

from __future__ import annotations

import os
import sys
from http import HTTPStatus
from typing import Any

import typer
from typer.core import TyperGroup

from core.errors import InvalidInput, LongleafError, Misconfigured

FAILED = 1
WRONG_USE = 2


class ReportingGroup(TyperGroup):
    """Runs a command and reports the errors that explain themselves."""

    def invoke(self, context: Any) -> Any:
        try:
            return super().invoke(context)
        except LongleafError as error:
            report(str(error))
            raise typer.Exit(exit_code(error)) from error
        except BrokenPipeError:
            # The reader (`head`, a pager) has seen enough. Python would complain at exit otherwise.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from None
        except (OSError, TimeoutError) as error:
            report(_explain(error))
            raise typer.Exit(FAILED) from error
        except Exception as error:
            code = _client_exit_code(error)
            if code is None:
                raise
            report(str(error))
            raise typer.Exit(code) from error


def exit_code(error: LongleafError) -> int:
    """2 where the command or a setting was wrong, 1 where the work failed."""
    return WRONG_USE if isinstance(error, Misconfigured | InvalidInput) else FAILED


def report(message: str) -> None:
    """Say on standard error what went wrong."""
    typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
    typer.echo(message, err=True)


def _explain(error: OSError) -> str:
    if error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}."
    return str(error)


def _client_exit_code(error: Exception) -> int | None:
    """None for an error that is not the client's."""
    # Imported here: the client brings httpx, which `--help` need not wait for.
    from client.problems import ClientError, ProblemError

    if isinstance(error, ProblemError) and error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
        return WRONG_USE
    return FAILED if isinstance(error, ClientError) else None
