"""What clients of Redis ask, with Python's own client for it. Arguments: the port, and the version of the protocol."""

import sys

import redis
from redis.exceptions import ResponseError

PORT, PROTOCOL = int(sys.argv[1]), int(sys.argv[2])


def client(**options):
    return redis.Redis(host="127.0.0.1", port=PORT, protocol=PROTOCOL, socket_timeout=20, **options)


def refused(connection, *command):
    """The text with which a command is refused."""
    try:
        answer = connection.execute_command(*command)
    except ResponseError as error:
        return str(error)
    raise AssertionError(f"{command} is answered with {answer}")


def throttles_as_redis_cell(connection):
    ask = lambda key, *numbers: connection.execute_command("CL.THROTTLE", f"{key}:{PROTOCOL}", *numbers)
    # The examples of its documentation.
    assert ask("user123", 15, 30, 60) == [0, 16, 15, -1, 2]
    assert ask("user123-read-rate", 15, 30, 60) == [0, 16, 15, -1, 2]
    assert ask("user123-write-rate", 5, 10, 60) == [0, 6, 5, -1, 6]
    # A whole hour for one, so that a busy machine sees the same numbers.
    assert ask("slow", 2, 1, 3600, 2) == [0, 3, 1, -1, 7200]
    assert ask("slow", 2, 1, 3600, 0)[:4] == [0, 3, 1, -1], "zero only looks"
    assert ask("slow", 2, 1, 3600)[:4] == [0, 3, 0, -1]
    limited, limit, left, retry_after, reset_after = ask("slow", 2, 1, 3600)
    assert (limited, limit, left) == (1, 3, 0)
    assert 3500 <= retry_after <= 3600 and 10700 <= reset_after <= 10800, (retry_after, reset_after)
    assert ask("slow", 2, 1, 3600, 4)[3] == -1, "no wait helps"
    assert ask(b"\x00\xff\r\n", 0, 1, 3600) == [0, 1, 0, -1, 3600], "a key is any bytes"


def knows_the_configured_limits(connection):
    client_ip = f"203.0.113.{PROTOCOL}"
    ask = lambda verb, *words: connection.execute_command(f"SG.{verb}", "per-client", client_ip, *words)
    assert ask("PEEK") == [0, 5, 5, -1, 0]
    assert ask("CHECK", "COST", 4) == [0, 5, 1, -1, 14400]
    assert ask("PEEK", "COST", 2)[:4] == [1, 5, 1, -1], "two would not fit"
    denied = ask("CHECK", "COST", 2)
    assert denied[:3] == [1, 5, 1] and 3500 <= denied[3] <= 3600, denied
    assert ask("REFUND", "COST", 2)[:4] == [0, 5, 3, -1]
    assert ask("REFUND", "COST", 100) == [0, 5, 5, -1, 0], "never beyond full"
    assert ask("CHECK", "COST", 5)[:4] == [0, 5, 0, -1]
    assert ask("RESET") in (b"OK", "OK", True)
    assert ask("PEEK") == [0, 5, 5, -1, 0]


def answers_pipelines_in_order(connection):
    pipeline = connection.pipeline(transaction=False)
    for turn in range(1000):
        pipeline.execute_command("CL.THROTTLE", f"pipeline:{PROTOCOL}", 99, 1, 3600)
        if turn % 100 == 0:
            pipeline.execute_command("CL.THROTTLE", "wrong")
        pipeline.ping()
    answers = pipeline.execute(raise_on_error=False)
    refusals = [answer for answer in answers if isinstance(answer, ResponseError)]
    throttled = [answer for answer in answers if isinstance(answer, list)]
    assert len(refusals) == 10 and answers.count(True) == 1000, (len(refusals), answers.count(True))
    assert [answer[0] for answer in throttled] == [0] * 100 + [1] * 900
    assert [answer[2] for answer in throttled[:100]] == list(range(99, -1, -1))


def refuses_in_words(connection):
    throttle = "expected CL.THROTTLE key max_burst count period [quantity]"
    parts = 'limit "per-client" is keyed by client_ip and takes 1 parts, then perhaps a cost'
    for command, text in [
        (("CL.THROTTLE", "a"), throttle),
        (("CL.THROTTLE", "a", 1, 1, 1, 1, 1), throttle),
        (("CL.THROTTLE", "a", "many", 1, 1), 'max_burst: must be a whole number of at least 0 (got "many")'),
        (("CL.THROTTLE", "a", 1, 0, 1), 'count: must be a whole number of at least 1 (got "0")'),
        (("CL.THROTTLE", "a", 1, 1, -1), 'period: must be a whole number of at least 1 (got "-1")'),
        (("CL.THROTTLE", "a", 2**63, 1, 1), f'max_burst: must be a whole number of at least 0 (got "{2**63}")'),
        (("SG.CHECK",), "expected a limit and its key parts"),
        (("SG.CHECK", "nobody", "a"), 'there is no limit named "nobody"'),
        (("SG.CHECK", "per-client", "not an address"), 'limit "per-client": client_ip is not an IP address'),
        (("SG.CHECK", "per-client"), parts),
        (("SG.RESET", "per-client", "::1", 5), parts.split(", then")[0]),
        (("SG.CHECK", "per-client", "::1", 1, 1), parts),
        (("SG.CHECK", "per-client", "::1", "COST", "much"), 'COST: must be a whole number of at least 0 (got "much")'),
        (("GET", "a"), 'unknown command "GET"'),
        (("EVAL", "return 1", 0), 'unknown command "EVAL"'),
    ]:
        told = refused(connection, *command)
        assert told == text, f"{command}: {told!r}, not {text!r}"
    assert connection.ping(), "the connection goes on"


def many_connections_at_once():
    connections = [client() for _ in range(20)]
    answers = [
        connection.execute_command("CL.THROTTLE", f"shared:{PROTOCOL}", 9, 1, 3600)[0] for connection in connections
    ]
    assert answers == [0] * 10 + [1] * 10, answers


connection = client(single_connection_client=True)
throttles_as_redis_cell(connection)
knows_the_configured_limits(connection)
answers_pipelines_in_order(connection)
refuses_in_words(connection)
many_connections_at_once()
print("every answer was right")
