"""Named checks, run one after the other, with a line for each."""

import sys

import torch


def run(cases, names):
    """Prints `NAME pass` or `NAME FAIL why` for each; leaves with 1 if one failed."""
    failed = 0
    for name in names:
        torch.manual_seed(0)
        try:
            cases[name]()
            torch.cuda.synchronize()
            print(name, "pass", flush=True)
        except Exception as error:  # a case that fails must not stop the others
            failed += 1
            print(name, "FAIL", type(error).__name__, " ".join(str(error).split())[-300:], flush=True)
    sys.exit(1 if failed else 0)
