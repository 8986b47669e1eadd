-- First part of the decide and refund scripts: the time of this call.
-- KEYS    not used here
-- ARGV[1] the clock: '' that of the server, 'r<ns>' that of the replica if it is plausible,
--         '=<ns>' exactly this time (tests)
-- sets    now_ms, and now_ns past it, because a Lua number is exact only up to 2^53; spent_ms and
--         lag_ns; grace_ms
local KEYS, ARGV = KEYS, ARGV
local call, floor, tonumber = redis.call, math.floor, tonumber
local string = string
local find, format, match, sub = string.find, string.format, string.match, string.sub

local now_ms, now_ns
-- Units are spent by the server's clock, lag_ns after now. A replica whose clock is behind would
-- otherwise record them as older than they are, and they would come back early. lag_ns is 0 unless
-- the replica's clock is used.
local spent_ms, lag_ns
-- Milliseconds added to every time to live: a given clock may stand still while that of Redis runs.
local grace_ms = 0
local clock = ARGV[1]
local given = clock ~= '' and find(clock, '^=')
if not given then
  local time = call('TIME')
  local micros = time[2] + 0
  now_ms = time[1] * 1000 + floor(micros / 1000)
  now_ns = micros % 1000 * 1000
end
local server_ms, server_ns = now_ms, now_ns
if clock ~= '' then
  local digits = sub(clock, 2)
  local ms, ns = tonumber(sub(digits, 1, -7)) or 0, tonumber(sub(digits, -6))
  if given then
    now_ms, now_ns, grace_ms = ms, ns, 3600000
  elseif ms < now_ms - 1000 or (ms == now_ms - 1000 and ns < now_ns) then
    -- More than a second behind is not plausible: units would come back late until the clock is
    -- set.
    now_ms = now_ms - 1000
  elseif ms < now_ms or (ms == now_ms and ns < now_ns) then
    -- Never ahead of the server: units would come back early.
    now_ms, now_ns = ms, ns
  end
end

if given then
  spent_ms, lag_ns = now_ms, 0
else
  spent_ms, lag_ns = server_ms, (server_ms - now_ms) * 1000000 + (server_ns - now_ns)
end

-- A stored time further ahead than this is no possible debt, but a clock step or garbage: it is
-- repaired with the next denial.
local MAX_CLOCK_STEP_MS = 60000
