"""What Envoy asks, by a client that is generated from our files. Arguments: the port, and the directory of the files."""

import pathlib
import sys
import tempfile

import grpc
import grpc_tools
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_tools import protoc

PORT, FILES = sys.argv[1], pathlib.Path(sys.argv[2])
SERVICE = "envoy.service.ratelimit.v3.RateLimitService"


def generate(directory):
    files = [str(file.relative_to(FILES)) for file in sorted(FILES.rglob("*.proto"))]
    google = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    places = [f"-I{FILES}", f"-I{google}", f"--python_out={directory}", f"--grpc_python_out={directory}"]
    ended = protoc.main(["protoc", *places, *files])
    assert ended == 0, "the files are generated from without an error"
    sys.path.insert(0, directory)


def answers_every_field(channel):
    from envoy.extensions.common.ratelimit.v3 import ratelimit_pb2
    from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
    from envoy.type.v3 import ratelimit_unit_pb2

    service = rls_pb2_grpc.RateLimitServiceStub(channel)
    Entry = ratelimit_pb2.RateLimitDescriptor.Entry
    Answer = rls_pb2.RateLimitResponse

    def ask(*descriptors, **more):
        request = rls_pb2.RateLimitRequest(domain="edge", descriptors=descriptors, **more)
        return service.ShouldRateLimit(request, timeout=20)

    def user(name, **more):
        return ratelimit_pb2.RateLimitDescriptor(entries=[Entry(key="user", value=name)], **more)

    first = ask(user("ann"))
    assert first.overall_code == Answer.OK
    status = first.statuses[0]
    assert (status.code, status.limit_remaining) == (Answer.OK, 2), first
    assert status.current_limit.requests_per_unit == 3 and status.current_limit.unit == Answer.RateLimit.HOUR, first
    assert 1100 <= status.duration_until_reset.seconds <= 1200, first
    assert "ratelimit" in [header.key.lower() for header in first.response_headers_to_add], first

    denied = ask(user("ann"), user("bob"), hits_addend=3)
    assert denied.overall_code == Answer.OVER_LIMIT
    assert [status.code for status in denied.statuses] == [Answer.OVER_LIMIT, Answer.OK], denied
    waits = [header.value for header in denied.response_headers_to_add if header.key.lower() == "retry-after"]
    assert len(waits) == 1 and 0 < int(waits[0]) <= 1200, denied
    assert ask(user("bob")).statuses[0].limit_remaining == 2, "nothing was taken of the other"

    override = ratelimit_pb2.RateLimitDescriptor.RateLimitOverride(
        requests_per_unit=1, unit=ratelimit_unit_pb2.RateLimitUnit.DAY
    )
    codes = [ask(user("eve", limit=override)).overall_code for _ in range(2)]
    assert codes == [Answer.OK, Answer.OVER_LIMIT], codes

    try:
        ask(*[user("ann")] * 65)
        raise AssertionError("too many descriptors are refused")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error


def is_reflected(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    services = list(database.get_services())
    assert {SERVICE, "grpc.health.v1.Health"} <= set(services), services
    service = DescriptorPool(database).FindServiceByName(SERVICE)
    assert [method.name for method in service.methods] == ["ShouldRateLimit"], service.full_name
    fields = service.methods_by_name["ShouldRateLimit"].input_type.fields_by_name
    assert {"domain", "descriptors", "hits_addend"} <= set(fields), list(fields)


with tempfile.TemporaryDirectory() as directory, grpc.insecure_channel(f"127.0.0.1:{PORT}") as channel:
    generate(directory)
    is_reflected(channel)
    answers_every_field(channel)
    print("every answer was right")
