"""A limits service over Python's gRPC, whose every caller has seven units an hour.

Arguments: the codec, `protobuf` or `json`, and the directory of the published file. Prints its port, and
ends when its standard input does.
"""

import importlib
import json
import sys
import tempfile
from concurrent import futures

import grpc
from grpc_tools import protoc

SERVICE = "edgequota.ratelimit.v1.RateLimitService"
FILE = "edgequota/ratelimit/v1/ratelimit.proto"


def in_protobuf(protos):
    """A method generated from the file."""
    generated = tempfile.mkdtemp()
    assert protoc.main(["protoc", f"-I{protos}", f"--python_out={generated}", FILE]) == 0
    sys.path.insert(0, generated)
    messages = importlib.import_module("edgequota.ratelimit.v1.ratelimit_pb2")

    def limits(request, context):
        if list(request.key_parts) != [request.key]:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the key is not its only part")
        return messages.GetLimitsResponse(average=7, burst=7, period="1h")

    return grpc.unary_unary_rpc_method_handler(
        limits,
        request_deserializer=messages.GetLimitsRequest.FromString,
        response_serializer=messages.GetLimitsResponse.SerializeToString,
    )


def in_json(_):
    """A method whose messages are JSON."""

    def limits(request, context):
        if request["key_parts"] != [request["key"]]:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the key is not its only part")
        return {"average": "7", "burst": 7, "period": "1h"}

    return grpc.unary_unary_rpc_method_handler(
        limits,
        request_deserializer=json.loads,
        response_serializer=lambda answer: json.dumps(answer).encode(),
    )


codec, protos = sys.argv[1:]
method = {"protobuf": in_protobuf, "json": in_json}[codec](protos)
server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"GetLimits": method})])
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
server.stop(0)
