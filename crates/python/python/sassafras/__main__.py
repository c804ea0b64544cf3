"""`python -m sassafras`: the command. `python -m sassafras ptxas ...` takes ptxas's words alone."""

import sys

from . import _native


def ptxas() -> None:
    sys.exit(_native.command("ptxas", sys.argv[1:]))


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["ptxas"]:
        sys.exit(_native.command("ptxas", words[1:]))
    sys.exit(_native.command("sassafras", words))


if __name__ == "__main__":
    main()
