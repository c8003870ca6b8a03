"""The reference of the command line, read off the commands themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from penstock.cli import cli, exits

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = """# The command line

Made by `make docs` from the commands themselves. Every command reads `PENSTOCK_DSN`; without it, it uses the embedded
server, logs in there as the role that it needs, and prepares roles and schema by itself. There is no option for a DSN,
because a password on a command line can be read by everybody on the machine.

`--json` prints machine-readable output on stdout; messages go to stderr. Payloads are shown by `penstock jobs show
--payload` and by nothing else.

## Exit codes

```
{codes}
```

`penstock worker` adds: 128 + the number of the signal after a second SIGTERM or SIGINT, and 75 from a process that its
supervisor shall replace.
"""


def cli_reference() -> str:
    """The whole page."""
    root = typer.main.get_command(cli)
    table = (exits.__doc__ or "").split("\n\n", 1)[1].strip()
    return HEAD.format(codes=table) + "".join(_sections(root, "penstock"))


def _sections(command: Any, path: str) -> Iterator[str]:
    context = typer.Context(command, info_name=path)
    names = command.list_commands(context) if hasattr(command, "list_commands") else []
    if not names:
        yield _section(command, path)
    for name in names:
        found = command.get_command(context, name)
        if path == "penstock":
            yield f"\n## penstock {name}\n\n{_first(found)}\n"
        yield from _sections(found, f"{path} {name}")


def _section(command: Any, path: str) -> str:
    words = [_word(param) for param in command.params if param.param_type_name == "argument"]
    usage = " ".join([path, *words])
    rows = [row for param in command.params if (row := _row(param))]
    table = "\n".join(["| Option | Default | |", "|---|---|---|", *rows]) if rows else ""
    return f"\n### `{usage}`\n\n{(command.help or '').strip()}\n\n{table}\n"


def _word(param: Any) -> str:
    name = (param.metavar or param.name.upper()).removesuffix("...").strip("[]")
    several = f"{name}..." if param.nargs == -1 else name
    return several if param.required else f"[{several}]"


def _row(param: Any) -> str:
    if param.param_type_name != "option" or param.name == "help":
        return ""
    names = ", ".join(f"`{name}`" for name in [*param.opts, *param.secondary_opts])
    return f"| {names} | {_default(param)} | {param.help or ''} |"


def _default(param: Any) -> str:
    """What holds when the option is not given; empty where that is nothing, or the switch is off."""
    if param.required:
        return f"required, or `{param.envvar}`" if param.envvar else "required"
    if callable(param.default):
        return "your user name"  # the only default that is asked for is who gives the command
    return "" if param.default in (None, False, "", ()) and not _number(param.default) else f"`{param.default}`"


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _first(command: Any) -> str:
    return (command.help or "").strip().split("\n\n")[0]
