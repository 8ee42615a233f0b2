"""The build hook: `HEADWATER_COMPILE=1 python -m build` makes a compiled wheel. Without it, the wheel is pure.

A compiled wheel has everything that a pure one has, and the extension modules as well. Which of both are imported is
decided when the package is imported (`HEADWATER_PURE`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE: Final = "HEADWATER_COMPILE"
REQUIRED: Final = ["mypy==2.4.1", "setuptools>=80"]
"""The version that compiles is the one that the tests have run with: requirements/dev.txt."""


class CompiledCore(BuildHookInterface):  # type: ignore[misc]  # hatchling is not installed here
    """Adds the compiled core to a wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What compiling needs, if it is asked for: the types of what the package imports, too."""
        return [*REQUIRED, *self.metadata.core.dependencies] if self._is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the files; a wheel that is installed in place stays pure."""
        if not self._is_wanted() or version == "editable":
            return
        folder = Path(mkdtemp(prefix="headwater-compiled-"))
        build = Path(self.root) / "tools" / "compiled" / "build.py"
        subprocess.run([sys.executable, str(build), str(folder)], check=True)
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        made = {str(path): path.relative_to(folder).as_posix() for path in folder.rglob(f"*{suffix}")}
        build_data["force_include"] |= made
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def _is_wanted(self) -> bool:
        return self.target_name == "wheel" and os.environ.get(VARIABLE, "0") not in ("", "0")
