"""The server keeps to its own description, whatever the description allows."""

import sys

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode, checks

from fairseq_fastdec.serving.app import LanguagePair, create_app
from fairseq_fastdec.serving.config import ServerOptions
from fairseq_fastdec.translating.languages import Languages
from tests.support import skips
from tests.support.services import UpperCase, app_with, call

APP = app_with(UpperCase(), max_chars=1000, max_texts=5)
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APP)
MANY = Languages(dict.fromkeys(["eng_Latn", "deu_Latn", "zho_Hans", "zho_Hant"], "x"))
OF_MANY = create_app(
    [LanguagePair("eng_Latn", "deu_Latn", UpperCase(), languages=MANY)], ServerOptions()
)
SCHEMA_OF_MANY = schemathesis.openapi.from_asgi("/openapi.json", OF_MANY)
CHECKS = [
    checks.CHECKS.get_one("not_a_server_error"),
    checks.CHECKS.get_one("status_code_conformance"),
    checks.CHECKS.get_one("content_type_conformance"),
    checks.CHECKS.get_one("response_schema_conformance"),
    checks.CHECKS.get_one("positive_data_acceptance"),
]


FUZZING = settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
POSTS = [found.ok() for found in SCHEMA.include(method="POST").get_all_operations()]


def checks_of(case):
    """A schema cannot say that there are constraints for each text, and which is one sentence."""
    has_constraints = isinstance(case.body, dict) and "constraints" in case.body
    return CHECKS[:-1] if has_constraints else CHECKS


@SCHEMA.parametrize()
@FUZZING
def test_answers_are_as_described(case):
    case.call_and_validate(checks=checks_of(case))


@SCHEMA_OF_MANY.parametrize()
@settings(FUZZING, max_examples=50)
def test_answers_of_a_server_of_many_languages(case):
    case.call_and_validate(checks=checks_of(case))


@pytest.mark.parametrize("operation", POSTS, ids=lambda operation: operation.path)
def test_answers_to_what_is_not_as_described(operation):
    """It may be refused, with a status that is described."""

    @FUZZING
    @given(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def answers(case):
        case.call_and_validate(checks=CHECKS[:-1])

    answers()


def test_languages_and_limits_are_described():
    description = call(APP, "GET", "/openapi.json").json()
    content = description["paths"]["/translate"]["post"]["requestBody"]["content"]
    fields = content["application/json"]["schema"]["anyOf"][0]["properties"]
    assert fields["source"]["enum"] == ["auto", "en"] and fields["target"]["enum"] == ["de"]
    assert fields["q"]["oneOf"][0]["maxLength"] == 1000


def test_languages_of_a_model_of_many_are_described(monkeypatch):
    def sources(app):
        description = call(app, "GET", "/openapi.json").json()
        content = description["paths"]["/translate"]["post"]["requestBody"]["content"]
        first, *_, curator = content["application/json"]["schema"]["anyOf"]
        assert first["properties"]["target"]["enum"] == list(MANY.tokens)
        assert curator["properties"]["src_lang"]["enum"] == list(MANY.tokens)
        return first["properties"]["source"]["enum"]

    skips.needs("py3langid")
    assert sources(OF_MANY) == ["auto", *MANY.tokens]
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    pair = LanguagePair("eng_Latn", "deu_Latn", UpperCase(), languages=MANY)
    assert sources(create_app([pair], ServerOptions())) == list(MANY.tokens)
