"""The server keeps to its own description, whatever the description allows."""

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks

from tests.support.services import UpperCase, app_with, call

APP = app_with(UpperCase(), max_chars=1000, max_texts=5)
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APP)
CHECKS = [
    checks.CHECKS.get_one("not_a_server_error"),
    checks.CHECKS.get_one("status_code_conformance"),
    checks.CHECKS.get_one("content_type_conformance"),
    checks.CHECKS.get_one("response_schema_conformance"),
    checks.CHECKS.get_one("positive_data_acceptance"),
]


@SCHEMA.parametrize()
@settings(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))
def test_answers_are_as_described(case):
    case.call_and_validate(checks=CHECKS)


def test_languages_and_limits_are_described():
    description = call(APP, "GET", "/openapi.json").json()
    content = description["paths"]["/translate"]["post"]["requestBody"]["content"]
    fields = content["application/json"]["schema"]["anyOf"][0]["properties"]
    assert fields["source"]["enum"] == ["auto", "en"] and fields["target"]["enum"] == ["de"]
    assert fields["q"]["oneOf"][0]["maxLength"] == 1000
