"""JSON Schema of the configuration file, for editors: from the models that check it, so both say the same."""

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from reconciler.config.schema import ConfigurationFile


class _EditorSchema(GenerateJsonSchema):
    """Leaves out null: a key without a value is an error in a file, although absence is None in the models."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """The value alone."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """A default that is worth reading: of a section, its fields say theirs."""
        shown = super().default_schema(schema)
        if shown.get("default") in (None, []) or isinstance(shown["default"], dict):
            shown.pop("default", None)
        return shown

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Keys that do not match their pattern are refused, not free."""
        shown = super().dict_schema(schema)
        return {**shown, "additionalProperties": False} if "patternProperties" in shown else shown


def configuration_schema() -> dict[str, object]:
    """JSON Schema, draft 2020-12, of `reconciler.yaml`: every key with its meaning; unknown keys are refused."""
    schema = ConfigurationFile.model_json_schema(schema_generator=_EditorSchema)
    return {"$schema": _EditorSchema.schema_dialect, **schema}
