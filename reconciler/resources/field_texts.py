"""The text below a field of a model, read from the source when an error or an editor asks for it.

pydantic can do the same (`use_attribute_docstrings`), for every model of the program and whenever a process starts.
"""

import ast
import inspect
from collections.abc import Mapping
from copy import copy
from functools import cache
from itertools import pairwise
from textwrap import dedent

from pydantic import BaseModel
from pydantic.fields import FieldInfo


@cache
def described_fields(model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The fields of a model by the names that a file gives them, each with its description or the text below it."""
    return {info.alias or name: _described(model, name, info) for name, info in model.model_fields.items()}


def _described(model: type[BaseModel], name: str, info: FieldInfo) -> FieldInfo:
    if info.description is None:
        owner = next(base for base in model.__mro__ if name in inspect.get_annotations(base))
        info = copy(info)
        info.description = _texts_of(owner).get(name)
    return info


@cache
def _texts_of(owner: type) -> Mapping[str, str]:
    try:
        source = inspect.getsource(owner)
    except (OSError, TypeError):  # made by a function, from definitions that describe themselves
        return {}
    (body,) = (node.body for node in ast.parse(dedent(source)).body if isinstance(node, ast.ClassDef))
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
