"""The same service in Django."""

import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from django.conf import settings

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="x", APPEND_SLASH=False)

import django
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import re_path
from django.views.decorators.http import require_http_methods

django.setup()


def says(name, read=lambda request: ""):
    return lambda request: HttpResponse(f"{name} {read(request)}".strip())


urlpatterns = [
    re_path(r"^api/login/?$", says("login")),
    re_path(r"^u/@ann/?$", says("profile")),
    re_path(r"^reads$", require_http_methods(["GET", "HEAD"])(says("reads"))),
    re_path(r"^plan$", says("plan", lambda request: request.headers.get("X-Plan", ""))),
    re_path(r"^tenant$", says("tenant", lambda request: request.headers.get("X-Tenant-Id", ""))),
    re_path(r"^session$", says("session", lambda request: request.COOKIES.get("sid", ""))),
    re_path(r"^mine$", says("mine", lambda request: request.headers.get("X-Api-Key", ""))),
]


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


server = make_server("127.0.0.1", 0, get_wsgi_application(), Server, Quiet)
print(server.server_port, flush=True)
sys.stdout.close()
server.serve_forever()
