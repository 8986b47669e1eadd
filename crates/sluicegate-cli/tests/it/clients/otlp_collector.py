"""A collector of OpenTelemetry: prints its port, then every span it is sent as a line of JSON, until its input ends.

With the files of a certificate and its key it speaks TLS.
"""

import json
import sys
from concurrent import futures

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service


def value_of(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))


def attributes_of(pairs):
    return {pair.key: value_of(pair.value) for pair in pairs}


class Collector(service.TraceServiceServicer):
    def Export(self, request, context):
        metadata = dict(context.invocation_metadata())
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    line = {
                        "metadata": {name: text for name, text in metadata.items() if name.startswith("x-")},
                        "batch": len(scope.spans),
                        "resource": attributes_of(resource.resource.attributes),
                        "scope": scope.scope.name,
                        "name": span.name,
                        "kind": span.kind,
                        "trace_id": span.trace_id.hex(),
                        "span_id": span.span_id.hex(),
                        "parent_span_id": span.parent_span_id.hex(),
                        "took_ns": span.end_time_unix_nano - span.start_time_unix_nano,
                        "status": span.status.code,
                        "attributes": attributes_of(span.attributes),
                    }
                    print(json.dumps(line), flush=True)
        return messages.ExportTraceServiceResponse()


server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
service.add_TraceServiceServicer_to_server(Collector(), server)
if len(sys.argv) == 3:
    certificate, key = (open(path, "rb").read() for path in sys.argv[1:])
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
else:
    port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
sys.stdin.read()
server.stop(0)
