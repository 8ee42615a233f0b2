"""The C code of a compiled module names its source by its path; what the step does not know, it refuses.

What it does is tested on the compiled form: tests/app/test_compiled_form.py, tests/app/test_both_forms.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.compiled.source_paths import add_source_path

HEADER = '#include "__native_internal_headwater.h"\n'
CALL = 'CPy_AddTraceback("headwater/values/tree.py", "freeze", 3, globals);\n'


def changed(folder: Path, text: str) -> str:
    code = folder / "tree.c"
    code.write_text(text, encoding="utf-8")
    add_source_path(code)
    return code.read_text(encoding="utf-8")


def test_calls_are_left_as_they_are_and_a_macro_before_them_gives_the_path(tmp_path: Path) -> None:
    text = changed(tmp_path, HEADER + CALL)
    assert text.startswith(HEADER)
    assert text.endswith(CALL)
    assert "#define CPy_AddTraceback(" in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (CALL, "does not include"),
        (HEADER + HEADER + CALL, "does not include"),
        (HEADER + CALL.replace("AddTraceback", "AddCall"), "CPy_AddCall"),
    ],
)
def test_code_of_another_form_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        changed(tmp_path, text)
