"""Makes compiled calls name their source by its whole path, as calls of Python do: a traceback then has its lines.

mypyc writes the path that the source had when it was compiled. The sources are installed beside the extension modules,
so the path is known when a module is loaded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_HEADER: Final = '#include "__native_internal_headwater.h"\n'
"""The last one in the code of each module."""

_FUNCTION: Final = r"""
#include <stdlib.h>
#include <string.h>
#ifdef MS_WINDOWS
#define SEPARATOR '\\'
#else
#define SEPARATOR '/'
#endif

/* The path of the source, beside the extension module; made for the first error and kept. */
static const char *source_path(const char *compiled, PyObject *globals)
{
    static char *known = NULL;
    if (known != NULL || globals == NULL)
        return known != NULL ? known : compiled;
    PyObject *kind, *value, *calls;
    PyErr_Fetch(&kind, &value, &calls);
    PyObject *file = PyDict_GetItemString(globals, "__file__");
    PyObject *bytes = file != NULL && PyUnicode_Check(file) ? PyUnicode_EncodeFSDefault(file) : NULL;
    if (bytes != NULL) {
        const char *module = PyBytes_AS_STRING(bytes);
        const char *end = strrchr(module, SEPARATOR);
        const char *name = strrchr(compiled, '/');
        if (end != NULL && name != NULL) {
            size_t folder = (size_t)(end - module) + 1;
            known = malloc(folder + strlen(name));
            if (known != NULL) {
                memcpy(known, module, folder);
                strcpy(known + folder, name + 1);
            }
        }
        Py_DECREF(bytes);
    }
    PyErr_Restore(kind, value, calls);
    return known != NULL ? known : compiled;
}
"""

_MACROS: Final = """
#define CPy_AddTraceback(file, function, line, globals) \\
    (CPy_AddTraceback)(source_path(file, globals), function, line, globals)
#define CPy_TypeErrorTraceback(file, function, line, globals, expected, value) \\
    (CPy_TypeErrorTraceback)(source_path(file, globals), function, line, globals, expected, value)
#define CPy_AttributeError(file, function, type, attribute, line, globals) \\
    (CPy_AttributeError)(source_path(file, globals), function, type, attribute, line, globals)
"""
"""The functions of mypyc that add a call to a traceback: in brackets, a name is not taken for the macro."""

_CALL: Final = re.compile(r'(\w+)\("headwater/[\w/]+\.py"')


def add_source_path(code: Path) -> None:
    """Change the C code of one module."""
    text = code.read_text(encoding="utf-8")
    if text.count(_HEADER) != 1:
        raise ValueError(f"{code.name} does not include {_HEADER.strip()} once")
    unknown = {name for name in _CALL.findall(text) if f"#define {name}(" not in _MACROS}
    if unknown:
        raise ValueError(f"{code.name} gives the path of its source to {sorted(unknown)}, which have no macro here")
    code.write_text(text.replace(_HEADER, f"{_HEADER}{_FUNCTION}{_MACROS}"), encoding="utf-8")
