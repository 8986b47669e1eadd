// The same service in Express, which does not distinguish the case of paths.

import express from "express";

const app = express();
const says = (name, read = () => "") => (request, response) =>
  response.send(`${name} ${read(request) ?? ""}`.trim());
const cookie = (request) =>
  /(?:^|; )sid=([^;]*)/.exec(request.headers.cookie ?? "")?.[1];

app.all("/api/login", says("login"));
app.all("/u/@ann", says("profile"));
app.get("/reads", says("reads"));
app.get("/plan", says("plan", (request) => request.get("X-Plan")));
app.get("/tenant", says("tenant", (request) => request.get("X-Tenant-Id")));
app.get("/session", says("session", cookie));
app.get("/mine", says("mine", (request) => request.get("X-Api-Key")));

const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
