"""A translation service over HTTP: ``python -m fairseq_fastdec serve`` (docs/serving.md).

These modules import neither torch nor fairseq, until a checkpoint is loaded.

- ``command.py``     the command line, and the server process
- ``config.py``      the options of the service, and the TOML file that sets them
- ``ray_serve.py``   replicas on the machines of a Ray cluster
- ``app.py``         the HTTP interface
- ``requests.py``    bodies of requests: their limits, formats and fields
- ``slow_clients.py``  time limits, and clients that disconnect
- ``openapi.py``     the OpenAPI description of the interface
- ``metrics.py``     the metrics at ``/metrics``
- ``texts.py``       splits texts into sentences
- ``languages.py``   the names of languages
"""
