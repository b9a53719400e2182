"""A translation service over HTTP: ``python -m fairseq_fastdec serve`` (docs/serving.md).

Importing these modules imports neither torch nor fairseq; loading a checkpoint does.

- ``scheduler.py``   sentences of many callers in shared batches
- ``translating.py`` the base of translators: sentences one by one
- ``command.py``     the command line, and the server process
- ``config.py``      its options, and the TOML file that has them
- ``ray_serve.py``   replicas on the machines of a Ray cluster
- ``app.py``         the HTTP interface: what each path answers
- ``requests.py``    bodies of requests: their limits, formats and fields
- ``slow_clients.py``  time-outs of connections, and clients that leave
- ``openapi.py``     the description of the interface
- ``metrics.py``     what ``/metrics`` counts
- ``texts.py``       texts to sentences and back
- ``markup.py``      HTML to texts and back
- ``languages.py``   the names of languages
"""
