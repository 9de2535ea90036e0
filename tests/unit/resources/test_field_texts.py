"""The text below a field is its description, wherever it is declared."""

from pydantic import BaseModel, Field, create_model

from reconciler.resources.validation import Shape, described_fields


class Parent(Shape):
    """Some fields."""

    first_port: int = 1
    """a port,
    and no other"""
    silent: int = 2
    given: int = Field(default=3, description="what its declaration says")
    """what stands below it"""


class Child(Parent):
    """Those of its parent, one of them anew, and one more."""

    silent: int = 4
    """no longer"""
    own: int = 5
    """of its own"""

    def after(self) -> int:
        """This is no field's."""
        return self.own


def descriptions(model: type[BaseModel]) -> dict[str, str | None]:
    return {name: info.description for name, info in described_fields(model).items()}


def test_the_text_below_a_field_describes_it_under_the_name_that_files_give() -> None:
    assert descriptions(Parent) == {
        "firstPort": "a port,\nand no other",
        "silent": None,
        "given": "what its declaration says",
    }


def test_a_model_has_the_texts_of_its_parents() -> None:
    inherited = {"firstPort": "a port,\nand no other", "given": "what its declaration says"}
    assert descriptions(Child) == {**inherited, "silent": "no longer", "own": "of its own"}


def test_a_model_without_a_source_is_described_by_its_definition_alone() -> None:
    made = create_model(
        "Made", __base__=Parent, own=(int, Field(default=1, description="of a definition")), mute=(int, 2)
    )
    assert descriptions(made) == {**descriptions(Parent), "own": "of a definition", "mute": None}


def test_pydantic_is_told_nothing_that_it_would_read_at_every_start() -> None:
    assert Parent.model_fields["first_port"].description is None
