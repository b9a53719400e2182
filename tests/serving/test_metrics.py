"""What /metrics shows."""

from tests.support.services import UpperCase, app_with, call, translate


def test_metrics():
    app = app_with(UpperCase())
    translate(app, q="Hello. World.")
    translate(app, q="a", target="fr")
    call(app, "GET", "/secret/path")
    lines = call(app, "GET", "/metrics").text.splitlines()
    pair = '{source="en",target="de"}'
    assert {
        f"fastdec_sentences_total{pair} 2.0",
        f"fastdec_characters_total{pair} 13.0",
        f"fastdec_sentences_waiting{pair} 0.0",
        f"fastdec_sentences_under_way{pair} 0.0",
        'fastdec_requests_total{path="/translate",status="200"} 1.0',
        'fastdec_requests_total{path="/translate",status="400"} 1.0',
        'fastdec_requests_total{path="other",status="404"} 1.0',
        'fastdec_request_seconds_count{path="/translate"} 2.0',
    } <= set(lines)
    assert not [line for line in lines if "secret" in line]
