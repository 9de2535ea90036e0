"""An OpenAPI description, against which every request and answer of a test server is held."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from openapi_schema_validator import OAS30Validator, oas30_format_checker
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4

DOCUMENT = "urn:forge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and its answer; bodies are parsed JSON (None: no body)."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    status: int
    answer: Any


class Contract:
    """The description, with a validator for each part of it that was needed so far."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        resource = Resource.from_contents(document, default_specification=DRAFT4)
        self._registry: Registry[Any] = Registry().with_resource(DOCUMENT, resource)
        self._validators: dict[str, OAS30Validator] = {}
        self._templates = [(_template_pattern(template), template) for template in document["paths"]]

    def violations(self, exchange: Exchange) -> Iterator[str]:
        """What in a request or its answer the description does not allow, in words."""
        template = self._template(exchange.path)
        operation = self._document["paths"].get(template, {}).get(exchange.method.lower())
        if operation is None:
            yield f"{exchange.method} {exchange.path}: no such operation"
            return
        pointer = f"/paths/{_escape(template)}/{exchange.method.lower()}"
        name = str(operation["operationId"])
        yield from (f"{name}: {problem}" for problem in self._query_violations(operation, exchange.query))
        yield from (f"{name}: request: {problem}" for problem in self._body_violations(operation, pointer, exchange))
        yield from (f"{name}: answer {exchange.status}: {each}" for each in self._answer_violations(pointer, exchange))

    def operation_id(self, method: str, path: str) -> str:
        """The description's name of an operation (`pulls/create`); empty when there is none."""
        operation = self._document["paths"].get(self._template(path), {}).get(method.lower(), {})
        return str(operation.get("operationId", ""))

    def _template(self, path: str) -> str:
        return min(
            (template for pattern, template in self._templates if pattern.fullmatch(path)), key=_rank, default=""
        )

    def _query_violations(self, operation: dict[str, Any], query: Mapping[str, str]) -> Iterator[str]:
        declared = {each["name"]: each["schema"] for each in self._parameters(operation) if each["in"] == "query"}
        for name, text in query.items():
            if name not in declared:
                yield f"unknown parameter {name}"
                continue
            value: object = int(text) if declared[name].get("type") == "integer" and text.isdigit() else text
            validator = OAS30Validator(declared[name], registry=self._registry)
            yield from (f"parameter {name}: {error.message}" for error in validator.iter_errors(value))

    def _parameters(self, operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for parameter in operation.get("parameters", []):
            name = parameter.get("$ref", "").rpartition("/")[2]
            yield self._document["components"]["parameters"][name] if name else parameter

    def _body_violations(self, operation: dict[str, Any], pointer: str, exchange: Exchange) -> Iterator[str]:
        declared = operation.get("requestBody")
        if exchange.body is None:
            if declared and declared.get("required"):
                yield "a body is required"
            return
        if not declared:
            yield "takes no body"
            return
        where = f"{pointer}/requestBody/content/application~1json/schema"
        yield from self._errors(where, exchange.body)
        known = declared["content"]["application/json"]["schema"].get("properties")
        if known and isinstance(exchange.body, dict):  # a misspelled field is legal in OpenAPI and lost on a forge
            yield from (f"unknown field {name}" for name in sorted(set(exchange.body) - set(known)))

    def _answer_violations(self, pointer: str, exchange: Exchange) -> Iterator[str]:
        where = f"{pointer}/responses/{exchange.status}"
        declared = self._look_up(where)
        if declared is None:
            if exchange.status < 400:
                yield "not a declared status"
            else:  # any operation may be limited or fail: few are declared of these
                yield from self._errors("/components/schemas/basic-error", exchange.answer)
            return
        if "$ref" in declared:
            where = declared["$ref"].removeprefix("#")
            declared = self._look_up(where) or {}
        if "application/json" in declared.get("content", {}):
            yield from self._errors(f"{where}/content/application~1json/schema", exchange.answer)

    def _look_up(self, pointer: str) -> dict[str, Any] | None:
        found: Any = self._document
        for part in pointer.strip("/").split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~"))
            if found is None:
                return None
        return dict(found)

    def _errors(self, pointer: str, value: object) -> Iterator[str]:
        validator = self._validators.get(pointer)
        if validator is None:
            schema = {"$ref": f"{DOCUMENT}#{quote(pointer, safe='/~')}"}
            validator = OAS30Validator(schema, registry=self._registry, format_checker=oas30_format_checker)
            self._validators[pointer] = validator
        for error in validator.iter_errors(value):
            yield f"{'.'.join(str(part) for part in error.absolute_path)}: {error.message[:300]}"


def _template_pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{[^/]+?\\}", "[^/]+", re.escape(template)))


def _rank(template: str) -> int:
    return template.count("{")


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


# Pieces of a description that is written by hand, where a forge publishes none that says enough.

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer", "minimum": 1}
FLAG: Json = {"type": "boolean"}
TIME: Json = {"type": "string", "format": "date-time"}
DAY: Json = {"type": "string", "format": "date"}
NUMBERS: Json = {"type": "array", "items": {"type": "integer"}}


def or_null(schema: Json) -> Json:
    """The same, or null."""
    return {**schema, "nullable": True}


def one_of(*words: str) -> Json:
    """One of some words."""
    return {"type": "string", "enum": list(words)}


def objects(properties: Json, *, optional: Json | None = None) -> Json:
    """An object that has all of `properties`."""
    return {"type": "object", "required": list(properties), "properties": {**properties, **(optional or {})}}


def many(schema: Json) -> Json:
    """A list of such."""
    return {"type": "array", "items": schema}


def operation(
    name: str, answer: Json, *, query: Json | None = None, body: Json | None = None, status: int = 200
) -> Json:
    """One operation with what it takes and, when it succeeds, answers."""
    parameters = [{"name": each, "in": "query", "schema": schema} for each, schema in (query or {}).items()]
    found: Json = {
        "operationId": name,
        "parameters": parameters,
        "responses": {str(status): {"content": {"application/json": {"schema": answer}}}},
    }
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return found
