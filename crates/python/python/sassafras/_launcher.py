"""A program by the name of ptxas, for those who call one."""

import os
import shlex
import sys
import sysconfig
import tempfile


def ptxas_path() -> str:
    """The script that came with the package; one of its own where that is not installed (`pip install --target`)."""
    installed = os.path.join(sysconfig.get_path("scripts"), "sassafras-ptxas")
    return installed if os.access(installed, os.X_OK) else _script()


def _script() -> str:
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folder = tempfile.mkdtemp(prefix="sassafras-")
    path = os.path.join(folder, "ptxas")
    with open(path, "w") as file:
        file.write(
            "#!/bin/sh\n"
            f"PYTHONPATH={shlex.quote(packages)}${{PYTHONPATH:+:$PYTHONPATH}} "
            f'exec {shlex.quote(sys.executable)} -m sassafras ptxas "$@"\n'
        )
    os.chmod(path, 0o755)
    return path
