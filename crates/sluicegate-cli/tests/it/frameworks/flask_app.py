"""A service in Flask: every handler says its name and what it read."""

import sys

from flask import Flask, request
from werkzeug.serving import make_server

app = Flask(__name__)
METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]


@app.route("/api/login", methods=METHODS, strict_slashes=False)
def login():
    return "login"


@app.route("/u/@ann", methods=METHODS, strict_slashes=False)
def profile():
    return "profile"


@app.route("/reads", methods=["GET"])
def reads():
    return "reads"


@app.route("/plan")
def plan():
    return "plan " + request.headers.get("X-Plan", "")


@app.route("/tenant")
def tenant():
    return "tenant " + request.headers.get("X-Tenant-Id", "")


@app.route("/session")
def session():
    return "session " + request.cookies.get("sid", "")


@app.route("/mine")
def mine():
    return "mine " + request.headers.get("X-Api-Key", "")


server = make_server("127.0.0.1", 0, app, threaded=True)
print(server.server_port, flush=True)
sys.stdout.close()
server.serve_forever()
