"""A program that ends without closing its space, as scripts do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headwater.core import doc_key, open_space

FORGETFUL = """
import sys
from headwater.core import Increment, PatchDoc, doc_key, open_space
space = open_space(sys.argv[1])
replica = space.attach()
for _ in range(100):
    replica.commit([PatchDoc(doc_key("n"), (Increment((), 1),))])
if "fail" in sys.argv:
    raise SystemExit("and it fails")
"""


def test_program_that_forgets_to_close_loses_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "space.db")
    subprocess.run([sys.executable, "-c", FORGETFUL, path], check=True)
    failed = subprocess.run([sys.executable, "-c", FORGETFUL, path, "fail"], check=False, stderr=subprocess.PIPE)
    assert failed.stderr.strip() == b"and it fails"
    with open_space(path) as space:
        assert space.attach().read(doc_key("n")) == 200
        assert space.call(lambda engine: len(engine.documents.tail.entries)) == 0
